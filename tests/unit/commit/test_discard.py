"""Giving up what waits for a table: only what can never come, only by a person, and the log moves on behind it."""

from __future__ import annotations

import itertools

import pytest

from framework.commit.events.event_types import Discarded
from framework.commit.machine.effects import TableLoaded, TableMissing
from framework.commit.machine.step import snapshot
from framework.commit.recovery.discard import plan_discard
from framework.errors import StateDisagreement
from tests.protocol.build import complete, view, written
from tests.unit.commit.test_coordinator_step import SteppedCoordinator, commits, paths, stored


def two_waiting() -> SteppedCoordinator:
    """Two batches of two pipelines wait for a table that is not there."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("b", 1, files=2), complete("b", 1))
    coordinator.feed(TableMissing("db.t", "dropped"))
    return coordinator


def test_what_waits_for_a_missing_table_is_counted() -> None:
    """The plan names rows by pipeline, files, announcements and where they stand."""
    coordinator = two_waiting()
    plan = plan_discard("db.t", coordinator.state.tables["db.t"], None, "it is missing")
    assert (plan.first, plan.below, plan.announcements, plan.files, plan.kept) == (0, 3, 2, 3, 0)
    assert plan.rows == {"a": 10, "b": 20}
    rows, batches = {"a": 10, "b": 20}, {"a": (1, 1), "b": (1, 1)}
    given_up = Discarded("db.t", 0, 3, 2, 3, rows, "the table does not exist", 7, ("uuid-db.t",), batches)
    assert plan.event(7) == given_up


def test_only_what_can_never_come_is_given_up() -> None:
    """Of a table that was replaced, what was announced for the new one goes on waiting and is committed."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1), written("a", 2, uuid="new"), complete("a", 2))
    coordinator.feed(TableLoaded(view(table_uuid="new")))
    assert "replaced" in snapshot(coordinator.state).tables["db.t"].reason
    plan = plan_discard("db.t", coordinator.state.tables["db.t"], view(table_uuid="new"), "it was replaced")
    assert (plan.first, plan.below, plan.announcements, plan.kept) == (0, 1, 1, 1)
    coordinator.read(plan.event(0))
    coordinator.tick(1)
    (commit,) = commits(coordinator.load(table_uuid="new") + coordinator.tick(60_000))
    assert paths(commit) == ["db.t/a-r-2-0-0"]


def test_announcements_whose_files_are_gone_are_given_up_with_what_to_read_again() -> None:
    """One missing file is enough, since an announcement comes whole or not at all; those behind it that have all of
    their files go on waiting; the plan says which source offsets the table will lack."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1, files=2), complete("a", 1), written("a", 2), complete("a", 2))
    queue = coordinator.state.tables["db.t"]
    first, second = queue.pending
    plan = plan_discard("db.t", queue, view(), "files are gone", {first.event.files[1].path})
    assert (plan.announcements, plan.files, plan.kept) == (1, 2, 1)
    assert plan.reason.startswith("1 of the 2 announced files are gone")
    assert plan.ranges == {"a": tuple(r for r in first.event.ranges if r.start < r.end)}
    both = {file.path for event in (first.event, second.event) for file in event.files}
    plan = plan_discard("db.t", queue, view(), "files are gone", both)
    [span] = plan.ranges["a"]
    assert (plan.kept, span.start, span.end) == (0, first.event.ranges[0].start, second.event.ranges[0].end)


def test_the_rest_of_a_batch_whose_first_part_was_given_up_comes_in() -> None:
    """Also with a coordinator that begins behind the part that was given up: nobody waits for it any more."""
    parts = [written("a", 1, part=n, parts=2) for n in range(2)]
    reported = {"rows": {"a": 10}, "reason": "gone", "timestamp_ms": 0}
    today = Discarded("db.t", 0, 1, 1, 1, table_uuids=("uuid-db.t",), batches={"a": (1, 1)}, **reported)
    earlier = Discarded("db.t", 0, 1, 1, 1, **reported)  # as it was written before it named batches
    for low_water, given_up in itertools.product((None, 1), (today, earlier)):
        coordinator = SteppedCoordinator(low_water=low_water)
        coordinator.read(*parts, complete("a", 1), given_up)
        (commit,) = commits(coordinator.load() + coordinator.tick(60_000))
        assert paths(commit) == [parts[1].files[0].path]


def test_the_low_water_mark_moves_on_behind_what_was_given_up() -> None:
    """The table holds the log no longer, in this coordinator and in one that begins to read before the event."""
    coordinator = two_waiting()
    coordinator.tick()
    assert snapshot(coordinator.state).low_water == 0
    event = plan_discard("db.t", coordinator.state.tables["db.t"], None, "it is missing").event(0)
    effects = coordinator.read(event) + coordinator.tick(60_000)
    assert stored(effects)[-1:] == [5]
    successor = two_waiting()
    successor.read(event)
    assert stored(successor.tick(60_000))[-1:] == [5]
    assert snapshot(successor.state).tables["db.t"].state == "ok"


@pytest.mark.parametrize(
    ("waits_for", "remedy"),
    [
        (None, "floe coordinator"),
        ("it was rolled back: ...; `floe rollback --table db.t --to 7` settles it", "what the message says"),
        ("pipeline a: a gap in partition 0", "fix what the message says"),
    ],
)
def test_what_can_still_come_is_not_given_up(waits_for: str | None, remedy: str) -> None:
    """A table that only waits, or that something else settles, gives nothing up; the remedy says what to do."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    with pytest.raises(StateDisagreement) as caught:
        plan_discard("db.t", coordinator.state.tables["db.t"], view(), waits_for)
    assert caught.value.code == "FLOE-R355"
    assert remedy in caught.value.remedy


def test_nothing_waits_nothing_is_given_up() -> None:
    """For a table without announcements there is nothing to do."""
    assert plan_discard("db.t", None, None, None).settled
