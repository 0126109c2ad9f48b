"""What `step` makes of clocks of other machines, files that waited long, and logs and tables that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from framework.commit.events.event_types import CommitComplete, CommitRequested, Heartbeat
from framework.commit.machine.effects import (
    Assigned,
    FilesGone,
    PipelineProgress,
    Read,
    StopCoordinator,
    TableLoaded,
    TableProgress,
    Tick,
)
from framework.commit.machine.step import CoordinatorState, step
from tests.protocol.build import TOPIC_ID, complete, heartbeat, view, written
from tests.unit.commit.test_coordinator_step import SteppedCoordinator, commits, published

DAY_MS = 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000


@pytest.mark.parametrize("ahead_ms", [0, HOUR_MS, -HOUR_MS])
def test_a_deadline_counts_by_the_clock_of_whoever_asks(ahead_ms: int) -> None:
    """A machine whose clock is off by an hour waits as long for its answer as any other."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.tick()
    asked_at = coordinator.now + ahead_ms
    coordinator.feed(Read(coordinator.offset, CommitRequested("q", "", asked_at + 10_000), asked_at))
    assert published(coordinator.tick(9_999), CommitComplete) == []
    (answer,) = published(coordinator.tick(1), CommitComplete)
    assert isinstance(answer, CommitComplete)
    assert "deadline" in answer.blocked["db.t"]


@dataclass(frozen=True)
class Ages:
    """How old an announcement is by the coordinator's clock, how long its files took by its writer's, and how far that
    one is ahead; None: not known."""

    waited_ms: int | None = 60_000
    took_ms: int | None = 60_000
    ahead_ms: int = 0


@pytest.mark.parametrize(
    "old",
    [
        Ages(waited_ms=DAY_MS),
        Ages(took_ms=3 * DAY_MS),  # a driver that slept
        Ages(waited_ms=DAY_MS // 3, took_ms=DAY_MS // 3),  # each alone is young
        Ages(waited_ms=2 * DAY_MS, ahead_ms=2 * DAY_MS),  # whose writer's clock says that it was written now
        Ages(waited_ms=-DAY_MS),  # our clock was set back
        Ages(took_ms=-DAY_MS),  # the writer's was
        Ages(waited_ms=None),  # read on the way to the log's end
        Ages(took_ms=None),  # of a run of an older version
    ],
)
@pytest.mark.parametrize("ahead_ms", [0, 2 * DAY_MS, -2 * DAY_MS])
def test_files_that_may_be_old_are_looked_for_before_they_are_added(old: Ages, ahead_ms: int) -> None:
    """Others may have removed them as orphans. If so the table is blocked and names one; younger files are not looked
    for, whatever the clock of their writer says."""
    coordinator = SteppedCoordinator()
    coordinator.now = 2_000_000_000_000
    for batch, age in ((1, old), (2, Ages(ahead_ms=ahead_ms))):
        reported_ms = coordinator.now - (age.waited_ms or 0) + age.ahead_ms
        begun_ms = None if age.took_ms is None else reported_ms - age.took_ms
        after_ms = None if age.waited_ms is None else coordinator.now - age.waited_ms
        for event in (replace(written("a", batch), begun_ms=begun_ms), complete("a", batch)):
            coordinator.feed(Read(coordinator.offset, event, reported_ms, None, after_ms))
            coordinator.offset += 1
    coordinator.tick()
    (effect,) = commits(coordinator.load())
    assert effect.examine == ("db.t/a-r-1-0-0",)
    assert len(effect.files) == 2
    coordinator.feed(FilesGone("db.t", effect.commit_id, effect.examine))
    blocked = coordinator.state.tables["db.t"].blocked
    assert blocked is not None
    assert "db.t/a-r-1-0-0" in blocked
    assert len(coordinator.state.tables["db.t"].pending) == 2


@pytest.mark.parametrize(
    ("log_end", "truncated", "stops"), [(10, False, False), (9, False, True), (30, True, True), (None, False, False)]
)
def test_a_mark_that_the_log_does_not_hold_stops_the_coordinator(
    log_end: int | None, truncated: bool, stops: bool
) -> None:
    """The stored low-water mark lies above the log's end, or the broker says that the log was cut off below it."""
    assigned = Assigned("c", TOPIC_ID, 0, 10, TOPIC_ID, 10, log_end, truncated, 1)
    state, effects = step(CoordinatorState(), assigned, 0)
    assert [e.code for e in effects if isinstance(e, StopCoordinator)] == (["FLOE-R117"] if stops else [])
    assert (state.stopped is not None) == stops


def test_progress_above_the_log_is_trouble_when_it_is_seen_twice() -> None:
    """Another coordinator may have read further a moment ago; a table that is still ahead then is blocked."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 1), complete("a", 1))
    coordinator.feed(Tick(True, 2))
    ahead = view(progress=TableProgress(TOPIC_ID, 50, {"a": PipelineProgress(9)}), snapshot_control_offset=50)
    assert commits(coordinator.feed(TableLoaded(ahead))) == []
    assert coordinator.state.tables["db.t"].blocked is None
    coordinator.tick(60_000)
    coordinator.feed(TableLoaded(ahead))
    assert "the control topic ends at 2" in (coordinator.state.tables["db.t"].blocked or "")


def test_a_run_that_says_where_it_stands_does_not_say_that_it_has_read_all() -> None:
    """A heartbeat under the number of the batch before moves no valid-through time; one of its own number does."""
    coordinator = SteppedCoordinator()
    busy = complete("a", 1)
    spans = tuple(replace(r, max_timestamp_ms=5_000) for r in busy.ranges)
    late = tuple(replace(r, partition=1, start=0, end=10, max_timestamp_ms=900) for r in busy.ranges)
    coordinator.read(replace(busy, ranges=(*spans, *late), tables=()))
    assert coordinator.state.pipelines["a"].valid_through_ms == 900
    ends = tuple(replace(r, start=r.end, max_timestamp_ms=None) for r in (*spans, *late))
    run_status = Heartbeat("a", "r2", 1, ends, busy.totals)
    coordinator.read(run_status)
    assert coordinator.state.pipelines["a"].valid_through_ms == 900
    assert coordinator.state.pipelines["a"].link is not None
    assert coordinator.state.pipelines["a"].link.run == "r2"
    coordinator.read(replace(run_status, batch=2))
    assert coordinator.state.pipelines["a"].valid_through_ms == 5_000


def test_a_pipeline_whose_first_announcements_are_gone_is_broken() -> None:
    """A log that was read from 0 and whose first word of a pipeline is its second batch has lost the first."""
    coordinator = SteppedCoordinator()
    coordinator.read(written("a", 2), complete("a", 2))
    assert "batch 2: those before it were lost" in (coordinator.state.pipelines["a"].broken or "")
    fresh = SteppedCoordinator()
    fresh.read(heartbeat("a", 0, 0), written("a", 1), complete("a", 1))
    assert fresh.state.pipelines["a"].broken is None
