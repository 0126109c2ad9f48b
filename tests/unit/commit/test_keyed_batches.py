"""Batches that change rows by their keys: each has a commit to itself, whole, and after the batch in front of it."""

from __future__ import annotations

from dataclasses import replace

from framework.commit.events.event_types import DataWritten, KeysFile, UpsertChanges
from tests.protocol.build import complete, written
from tests.unit.commit.test_coordinator_step import Seat, commits, paths


def keyed(event: DataWritten, keys: str = "keys") -> DataWritten:
    return replace(event, keyed=UpsertChanges(5, (1,), (KeysFile(f"{keys}-{event.pipeline}-{event.batch}", 3, 10),)))


def test_each_batch_has_a_commit_to_itself() -> None:
    """Batches that wait together are committed one after the other: the later one may change the same keys."""
    seat = Seat()
    for batch in (1, 2, 3):
        seat.read(keyed(written("a", batch)), complete("a", batch))
    effects = seat.load() + seat.tick()
    found = []
    while taken := commits(effects):
        found.append([each.keys[0].path for each in taken[0].keyed])
        assert len(taken[0].files) == 1
        effects = seat.commit(taken[0]) + seat.tick(5_000)
    assert found == [["keys-a-1"], ["keys-a-2"], ["keys-a-3"]]


def test_a_batch_that_only_deletes_is_committed() -> None:
    """Without a data file there are keys to commit all the same."""
    seat = Seat()
    seat.read(keyed(written("a", 1, paths=(), files=0)), complete("a", 1))
    (commit,) = commits(seat.load() + seat.tick())
    assert commit.files == ()
    assert len(commit.keyed) == 1


def test_a_table_that_was_appended_to_until_now_keeps_its_order() -> None:
    """Appends in front go in a commit of their own, and so do those behind: neither shares one with a batch of keys."""
    seat = Seat()
    seat.read(written("a", 1), complete("a", 1), written("a", 2), complete("a", 2))
    seat.read(keyed(written("a", 3)), complete("a", 3), written("a", 4), complete("a", 4))
    effects = seat.load() + seat.tick()
    found = []
    while taken := commits(effects):
        found.append((len(taken[0].files), len(taken[0].keyed)))
        effects = seat.commit(taken[0]) + seat.tick(5_000)
    assert found == [(2, 0), (1, 1), (1, 0)]


def test_all_parts_of_a_batch_go_together() -> None:
    """The keys stand in one part, and the files of the others belong to the same commit."""
    seat = Seat()
    seat.read(keyed(written("a", 1, part=0, parts=2)), written("a", 1, part=1, parts=2), complete("a", 1))
    seat.read(keyed(written("a", 2)), complete("a", 2))
    (commit,) = commits(seat.load() + seat.tick())
    assert paths(commit) == ["db.t/a-r-1-0-0", "db.t/a-r-1-1-0"]
    assert [each.keys[0].path for each in commit.keyed] == ["keys-a-1"]


def test_two_pipelines_whose_batches_lie_in_one_another_block_the_table() -> None:
    """Parts of two batches that change rows cannot be told apart in one commit: the table waits, with the reason."""
    seat = Seat()
    seat.read(keyed(written("a", 1, part=0, parts=2)), keyed(written("b", 1)), written("a", 1, part=1, parts=2))
    seat.read(complete("a", 1), complete("b", 1))
    assert commits(seat.load() + seat.tick()) == []
    assert "two pipelines change its rows at once: a and b" in (seat.state.tables["db.t"].blocked or "")
