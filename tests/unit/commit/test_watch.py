"""What a run knows of the control log: pauses, requests to stop, and how much waits for its tables."""

from __future__ import annotations

from framework.commit.events.event_types import (
    CommitComplete,
    CommitToTable,
    ControlEvent,
    Holds,
    PauseChanged,
    StopRequested,
)
from framework.commit.watch import PipelineBacklog, Watch, hold_reason
from tests.protocol.build import complete, heartbeat, offsets_set, written


def watch(*events: ControlEvent | None) -> Watch:
    seen = Watch()
    for offset, event in enumerate(events):
        seen.observe(offset, event)
    return seen


def committed(table: str, control_offset: int) -> CommitToTable:
    return CommitToTable(table, f"uuid-{table}", 1, "c", control_offset, 1, 1, 0)


def test_a_pause_holds_until_it_is_taken_back_under_its_pattern() -> None:
    """Globs are heeded; pauses of commits say nothing about reading."""
    on, off = (PauseChanged(Holds.READING, "ord*", paused, "", "me", 0) for paused in (True, False))
    assert watch(on).reading_pause("orders") == on
    assert watch(on).reading_pause("refunds") is None
    assert watch(on, off).reading_pause("orders") is None
    assert watch(CommitComplete("c", 0, 0, position=0, paused=(on,))).reading_pause("orders") == on


def test_a_request_to_stop_is_for_the_run_that_was_live_then() -> None:
    """One that was made before the run began, or whose deadline has passed, is not heeded."""
    asked = StopRequested("q", "orders", 1_000, "me")
    seen = watch(None, asked)
    assert seen.stop_request("orders", 1, 1_000) == asked
    assert seen.stop_request("orders", 2, 1_000) is None
    assert seen.stop_request("orders", 1, 1_001) is None
    assert seen.stop_request("others", 0, 0) is None


def test_what_waits_is_counted_by_batch_and_ends_with_commits_or_the_low_water_mark() -> None:
    """Batches, bytes and files of one pipeline; a commit takes what is below its control offset, of every pipeline."""
    events = (written("a", 1), written("a", 1, "db.u", files=2), complete("a", 1), written("b", 1), written("a", 2))
    seen = watch(*events)
    assert seen.waiting("a") == PipelineBacklog(2, 400, 4, 2, "db.t")
    seen.observe(5, committed("db.t", 4))
    assert seen.waiting("a") == PipelineBacklog(2, 300, 3, 2, "db.u")
    assert seen.waiting("b") == PipelineBacklog()
    seen.observe(6, CommitComplete("c", 3, 0))
    assert seen.waiting("a") == PipelineBacklog(1, 100, 1, 1, "db.t")
    seen.everything_is_in(7)
    assert seen.waiting("a") == PipelineBacklog()


def test_what_repeats_a_batch_is_not_the_newest_that_a_table_must_hold() -> None:
    """A batch that ended before, as the log or a coordinator tells, is dropped where it comes once more: also for a
    table that it had nothing for. Offsets that a person sets begin anew."""
    end = complete("a", 2)
    again = written("a", 2, "db.u")
    assert set(watch(written("a", 2), end, again).newest("a")) == {"uuid-db.t"}
    reported = CommitComplete("c", 0, 0, chain={"a": heartbeat("a", 2, 0)})
    assert watch(reported, again).newest("a") == {}
    assert watch(reported, offsets_set("a", 3, 0), written("a", 4, "db.u")).newest("a")["uuid-db.u"].batch == 4


def test_a_pipeline_is_held_at_its_limits_and_says_why() -> None:
    """Neither more batches nor more bytes than the limits wait."""
    assert hold_reason(PipelineBacklog(9, 99, 1, 1, "db.t"), 10, 100) is None
    for over in (PipelineBacklog(10, 0, 5, 2, "db.t"), PipelineBacklog(1, 100, 5, 2, "db.t")):
        reason = hold_reason(over, 10, 100)
        assert reason is not None
        assert "db.t" in reason
    assert hold_reason(PipelineBacklog(10, 3 << 30, 5, 2, "db.t"), 10, 6 << 30) == (
        "10 batches with 3.0 GiB in 5 files wait for 2 tables, the oldest for db.t; the limits are 10 batches and 6.0 GiB"
    )
