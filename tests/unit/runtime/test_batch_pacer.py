"""What a run does next: how far its batches go, and when it has nothing more to do."""

from __future__ import annotations

from framework.commit.events.event_types import Accounting
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.commit.pacing import FIRST_BATCH_RECORDS, Pace
from framework.runtime.batches.batch import BatchResult, BatchScope
from framework.runtime.batches.handover import AnnouncedBatch
from framework.runtime.batches.pacer import BatchDecision, BatchPacer
from testbed.record_samples import plan

KEY: PartitionKey = ("events", 0)


def turn(pacer: BatchPacer, end: int, at: int = 0, now_ms: int = 0, is_draining: bool = False) -> BatchDecision:
    """The pacer's answer for one partition that is read to `at` and ends at `end`; the last announcement was at 0
    ms."""
    positions = {KEY: at}
    ends = pacer.see(positions, {KEY: PartitionFacts("id", 0, end)})
    return pacer.decide(positions, ends, now_ms, 0, is_draining=is_draining, is_held=False)


def test_nothing_is_known_before_the_first_batch() -> None:
    """The first batch is small and due at once; what was left behind is read without waiting for the interval."""
    pacer = BatchPacer(plan())
    assert turn(pacer, end=FIRST_BATCH_RECORDS * 2) == BatchDecision(Pace.BATCH, {KEY: FIRST_BATCH_RECORDS})
    assert not pacer.is_idle
    assert turn(pacer, FIRST_BATCH_RECORDS * 2, FIRST_BATCH_RECORDS, now_ms=1).pace is Pace.BATCH


def test_the_next_batch_waits_for_its_interval_and_a_new_query_does_not() -> None:
    """Between two batches lies the pipeline's interval, unless the query was begun anew."""
    pacer = BatchPacer(plan())
    assert turn(pacer, end=5).pace is Pace.BATCH
    assert turn(pacer, end=9, at=5, now_ms=999).pace is Pace.WAIT
    assert turn(pacer, end=9, at=5, now_ms=1_000) == BatchDecision(Pace.BATCH, {KEY: 9})
    pacer.begin_query()
    assert turn(pacer, end=12, at=9, now_ms=1_001) == BatchDecision(Pace.BATCH, {KEY: 12})


def test_a_run_with_an_end_stops_there() -> None:
    """What arrives after the ends were frozen is left to the next run."""
    pacer = BatchPacer(plan())
    pacer.wanted_ends = {KEY: 5}
    assert pacer.has_an_end
    assert turn(pacer, end=9) == BatchDecision(Pace.BATCH, {KEY: 5})
    assert turn(pacer, end=9, at=5).pace is Pace.DONE
    assert turn(pacer, end=9, at=5, is_draining=True).pace is Pace.DONE


def test_a_batch_ends_where_some_table_is_already() -> None:
    """Invariant 5: no batch lies half in what a table holds."""
    pacer = BatchPacer(plan())
    pacer.hold_to(({KEY: 3},))
    assert turn(pacer, end=9) == BatchDecision(Pace.BATCH, {KEY: 3})
    pacer.begin_query()
    assert turn(pacer, end=9, at=3) == BatchDecision(Pace.BATCH, {KEY: 9})


def test_a_batch_of_very_many_files_is_followed_by_a_smaller_one() -> None:
    """Files, not rows, fill the memory: the next batch is cut to as many as the limit allows."""
    pacer = BatchPacer(plan())
    scope = BatchScope("run", 1, {KEY: 0}, {KEY: 1_000}, {"events": "id"})
    result = BatchResult((), (), Accounting(1_000, 1_000), Accounting(1_000, 1_000), {}, files=50_000, bytes=1_000)
    pacer.learn(AnnouncedBatch(scope, result, 1, seconds=60.0))
    assert turn(pacer, end=100_000, at=1_000).ends == {KEY: 1_500}


def test_idle_is_what_has_nothing_to_read() -> None:
    """A heartbeat is due after its interval, and there is nothing to read."""
    pacer = BatchPacer(plan())
    assert turn(pacer, end=0, now_ms=60_000).pace is Pace.HEARTBEAT
    assert pacer.is_idle


def test_a_batch_that_outlived_its_keys_is_done_again_in_halves() -> None:
    """Half of its records each time, down to one; later batches are no larger, whatever else allows."""
    pacer = BatchPacer(plan())
    assert turn(pacer, end=100).ends == {KEY: 100}
    for half in (50, 25, 12, 6, 3, 1, 1):
        pacer.make_smaller()
        pacer.begin_query()
        assert turn(pacer, end=100).ends == {KEY: half}
    pacer.begin_query()
    assert turn(pacer, end=100, at=1).ends == {KEY: 2}
