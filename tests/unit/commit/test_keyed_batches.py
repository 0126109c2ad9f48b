"""Batches that change rows by their keys: each has a commit to itself, whole, and after the batch in front of it."""

from __future__ import annotations

from dataclasses import replace

from framework.commit.events.event_types import DataWritten, KeysFile, UpsertChanges
from tests.protocol.build import complete, written
from tests.unit.commit.test_coordinator_step import SteppedCoordinator, commits, paths


def keyed(event: DataWritten, keys: str = "keys") -> DataWritten:
    return replace(event, keyed=UpsertChanges(5, (1,), (KeysFile(f"{keys}-{event.pipeline}-{event.batch}", 3, 10),)))


def test_each_batch_has_a_commit_to_itself() -> None:
    """Batches that wait together are committed one after the other: the later one may change the same keys."""
    coordinator = SteppedCoordinator()
    for batch in (1, 2, 3):
        coordinator.read(keyed(written("a", batch)), complete("a", batch))
    effects = coordinator.load() + coordinator.tick()
    found = []
    while taken := commits(effects):
        found.append([each.keys[0].path for each in taken[0].keyed])
        assert len(taken[0].files) == 1
        effects = coordinator.commit(taken[0]) + coordinator.tick(5_000)
    assert found == [["keys-a-1"], ["keys-a-2"], ["keys-a-3"]]


def test_a_batch_that_only_deletes_is_committed() -> None:
    """Without a data file there are keys to commit all the same."""
    coordinator = SteppedCoordinator()
    coordinator.read(keyed(written("a", 1, paths=(), files=0)), complete("a", 1))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert commit.files == ()
    assert len(commit.keyed) == 1


def test_a_table_that_was_appended_to_until_now_keeps_its_order() -> None:
    """Appends in front go in a commit of their own, and so do those behind: neither shares one with a batch of keys."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 2), complete("a", 2))
    coordinator.read(keyed(written("a", 3)), complete("a", 3), written("a", 4), complete("a", 4))
    effects = coordinator.load() + coordinator.tick()
    found = []
    while taken := commits(effects):
        found.append((len(taken[0].files), len(taken[0].keyed)))
        effects = coordinator.commit(taken[0]) + coordinator.tick(5_000)
    assert found == [(2, 0), (1, 1), (1, 0)]


def test_all_parts_of_a_batch_go_together() -> None:
    """The keys stand in one part, and the files of the others belong to the same commit."""
    coordinator = SteppedCoordinator()
    coordinator.read(keyed(written("a", 1, part=0, parts=2)), written("a", 1, part=1, parts=2), complete("a", 1))
    coordinator.read(keyed(written("a", 2)), complete("a", 2))
    (commit,) = commits(coordinator.load() + coordinator.tick())
    assert paths(commit) == ["db.t/a-r-1-0-0", "db.t/a-r-1-1-0"]
    assert [each.keys[0].path for each in commit.keyed] == ["keys-a-1"]


def test_two_pipelines_whose_batches_lie_in_one_another_block_the_table() -> None:
    """Parts of two batches that change rows cannot be told apart in one commit: the table waits, with the reason."""
    coordinator = SteppedCoordinator()
    coordinator.read(keyed(written("a", 1, part=0, parts=2)), keyed(written("b", 1)), written("a", 1, part=1, parts=2))
    coordinator.read(complete("a", 1), complete("b", 1))
    assert commits(coordinator.load() + coordinator.tick()) == []
    assert "two pipelines change its rows at once: a and b" in (coordinator.state.tables["db.t"].blocked or "")
