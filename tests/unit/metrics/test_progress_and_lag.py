"""Whether a run gets on, and since when records wait."""

from __future__ import annotations

from framework.commit.offsets import PartitionFacts
from framework.metrics.figures import RunPhase, Stall
from framework.metrics.lag import MOST_LOOKS, EndsSeen
from framework.metrics.progress import Progress, stalled_condition

KEY = ("orders", 0)


def test_a_phase_in_which_nothing_happens_is_a_stall() -> None:
    """A stall begins when something last happened, is noticed once the time is up, and is over with whatever happens
    next."""
    progress = Progress(RunPhase.STARTING, 0, 0).enter(RunPhase.WRITING, 1_000, batch=3)
    assert progress.stall(5_999, 5_000) is None
    assert progress.stall(6_000, 5_000) == Stall(RunPhase.WRITING, 1_000)
    assert progress.got_on(6_000).stall(10_999, 5_000) is None
    assert progress.enter(RunPhase.ANNOUNCING, 6_000).stall(10_999, 5_000) is None
    assert progress.enter(RunPhase.ENDED, 6_000).stall(10**9, 5_000) is None


def test_a_stall_says_where_and_since_when() -> None:
    """The reason names the batch and the phase; a stall before any batch names none."""
    progress = Progress(RunPhase.STARTING, 0, 0)
    condition = stalled_condition(progress, Stall(RunPhase.STARTING, 0), 77)
    assert (condition.reason.split(":")[1], condition.since_ms) == (" phase starting", 77)
    progress = progress.enter(RunPhase.WRITING, 1, batch=3)
    assert "batch 3, phase writing" in stalled_condition(progress, Stall(RunPhase.WRITING, 1), 0).reason


def test_times_of_phases_add_up() -> None:
    """The seconds of all phases are those since the beginning, the present phase among them."""
    progress = Progress(RunPhase.STARTING, 0, 0)
    for at_ms, phase in ((2_000, RunPhase.WAITING), (3_000, RunPhase.PLANNING), (7_500, RunPhase.WAITING)):
        progress = progress.enter(phase, at_ms)
    assert progress.seconds_at(8_000) == {RunPhase.STARTING: 2.0, RunPhase.WAITING: 1.5, RunPhase.PLANNING: 4.5}


def looked(*looks: tuple[int, int], position: int = 0) -> EndsSeen:
    """Looks at one partition: when, and where its end was."""
    ends = EndsSeen()
    for at_ms, end in looks:
        ends = ends.look({KEY: PartitionFacts("id", 0, end)}, {KEY: position}, at_ms)
    return ends


def test_records_wait_since_the_log_went_past_the_position() -> None:
    """The wait is counted from the last look that found nothing behind the position, also after a long quiet time; a
    position at the end waits for nothing."""
    ends = looked((10_000, 5), (20_000, 5), (30_000, 9), (40_000, 12), position=5)
    assert ends.behind_since_ms(KEY, 5, announced_ms=1_000) == 20_000
    assert ends.behind_since_ms(KEY, 9, announced_ms=1_000) == 30_000
    assert ends.behind_since_ms(KEY, 12, announced_ms=1_000) is None


def test_a_backlog_from_before_the_run_waits_since_the_newest_record_that_was_announced() -> None:
    """Where the log was never seen to end at the position, the newest announced record says how old the next one can
    be; without one it is the first look."""
    ends = looked((10_000, 100), (20_000, 200))
    assert ends.behind_since_ms(KEY, 50, announced_ms=3_000) == 3_000
    assert ends.behind_since_ms(KEY, 50, announced_ms=None) == 10_000


def test_looks_are_kept_in_bounded_number() -> None:
    """A pipeline that is behind for days keeps few looks, the first of them among them."""
    ends = looked(*((n * 2_000, n * 10) for n in range(1, 5_000)), position=0)
    assert len(ends.looks[KEY]) <= MOST_LOOKS
    assert ends.looks[KEY][0] == (2_000, 10)
    assert ends.behind_since_ms(KEY, 0, None) == 2_000
