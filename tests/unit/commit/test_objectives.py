"""Error budgets, against a recount that goes through time second by second and through records one by one."""

from __future__ import annotations

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.events.event_types import (
    Accounting,
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataWritten,
    Deployed,
    Discarded,
    Heartbeat,
    SourceRange,
    TableCommitPolicy,
)
from framework.commit.objectives.budget import Budget, ObjectiveHistory
from framework.commit.objectives.fresh_time import FreshTime
from framework.commit.objectives.log import ObjectiveLog
from framework.config.values.objectives import Objective, Objectives

HOUR_S = 3_600
WINDOWS_S = {"1h": HOUR_S, "6h": 6 * HOUR_S, "3d": 72 * HOUR_S, "30d": 720 * HOUR_S}
ALL = Objectives(600_000, "99.9%", "0.5%")
counts = st.integers(0, 1_000)
batches = st.lists(
    st.tuples(st.integers(0, 2 * 3_600), counts, counts, counts, counts, counts, counts), min_size=1, max_size=12
)
# Seconds until the next word, and how old what is visible then is: below zero where a record's clock was ahead.
ages = st.integers(0, 1_800) | st.integers(-100 * 365 * 86_400, -1)
words = st.lists(st.tuples(st.integers(0, 900), ages), min_size=1, max_size=12)


def by_objective(found: tuple[Budget, ...]) -> dict[Objective, Budget]:
    return {each.objective: each for each in found}


@given(batches, st.integers(0, 8 * 3_600))
def test_records_are_counted_as_one_by_one(made: list[tuple[int, ...]], after_s: int) -> None:
    """What counts, what is bad, the burn rate and what is left agree with lists of single records."""
    history, at_s = ObjectiveHistory(ALL), 40 * 24 * HOUR_S
    records: list[tuple[int, str]] = []
    for wait_s, *of in made:
        at_s += wait_s
        named = dict(zip(("written", "filtered", "dead_lettered", "dropped", "holes", "lost"), of, strict=True))
        history.add(at_s * 1000, Accounting(offsets=sum(of), rows=of[0], **named))
        records += [(at_s, fate) for fate, count in named.items() for _ in range(count)]
    now_s = at_s + after_s
    found = by_objective(history.budgets(now_s * 1000))

    for objective, counted, bad, allowed in (
        (Objective.COMPLETE, ("written", "dead_lettered", "lost"), ("dead_lettered", "lost"), 0.001),
        (Objective.DEAD_LETTERS, ("written", "filtered", "dead_lettered", "dropped"), ("dead_lettered",), 0.005),
    ):
        for window in found[objective].windows:
            begin_s = (now_s - WINDOWS_S[window.window]) // 300 * 300
            inside = [fate for at, fate in records if at >= begin_s]
            total, wrong = sum(fate in counted for fate in inside), sum(fate in bad for fate in inside)
            assert (window.counted, window.bad) == (total, wrong)
            assert (window.burn_rate is None) == (total == 0)
            if window.burn_rate is not None:
                assert abs(window.burn_rate - wrong / total / allowed) < 1e-9 * max(1, window.burn_rate)
        left, spent = found[objective].left_ratio, found[objective].windows[-1].burn_rate
        assert left is None if spent is None else left == 1 - spent


@given(words, st.integers(0, 7 * 3_600))
def test_stale_time_is_counted_as_second_by_second(said: list[tuple[int, int]], after_s: int) -> None:
    """A second is bad if what was visible in it was older than ten minutes, whoever was silent meanwhile. A word about a
    moment that has not come counts as one about now."""
    history, fresh = ObjectiveHistory(ALL), FreshTime(600_000)
    begin_s = at_s = 40 * 24 * HOUR_S
    visible: dict[int, int] = {}
    for number, (wait_s, age_s) in enumerate(said):
        at_s += wait_s if number else 0
        for each in (history, fresh):
            each.reach(at_s * 1000, (at_s - age_s) * 1000)
        visible[at_s] = max(visible.get(at_s, 0), at_s - max(0, age_s))
    now_s = at_s + after_s
    stale, through = [], 0
    for second in range(begin_s, now_s):
        through = max(through, visible.get(second, 0))
        if second >= through + 600:
            stale.append(second)
    found = by_objective(history.budgets(now_s * 1000))[Objective.FRESHNESS]

    assert fresh.stale_in_all_ms(now_s * 1000) == 1000 * len(stale)
    for window in found.windows:
        first = (now_s - WINDOWS_S[window.window]) // 300 * 300
        assert window.counted == 1000 * (now_s - max(first, begin_s))
        assert window.bad == 1000 * sum(second >= first for second in stale)


@given(words)
def test_a_counter_of_stale_time_never_falls(said: list[tuple[int, int]]) -> None:
    """Prometheus takes a counter that falls for a restart."""
    fresh, at_ms, before = FreshTime(600_000), 10**9, 0
    for wait_s, age_s in said:
        for _ in range(2):
            at_ms += wait_s * 500
            assert fresh.stale_in_all_ms(at_ms) >= before
            before = fresh.stale_in_all_ms(at_ms)
        fresh.reach(at_ms, at_ms - age_s * 1000)
        assert fresh.stale_in_all_ms(at_ms) == before


# ---- the log ---------------------------------------------------------------------------------------------------------

RANGES = (SourceRange("orders", "id", 0, 0, 10, 1_000),)
MINUTE_MS = 60_000


def deployed(objectives: Objectives) -> Deployed:
    return Deployed("orders", "run", "sha256:0", {"plan": {"announce": {"objectives": asdict(objectives)}}}, "1", 0)


def batch(number: int) -> DataComplete:
    line = Accounting(offsets=10, written=9, dead_lettered=1)
    return DataComplete("orders", "run", number, RANGES, line, line, ("shop.orders",))


def written(uuid: str = "u") -> DataWritten:
    return DataWritten("orders", "run", 1, "shop.orders", uuid, 0, (), RANGES, TableCommitPolicy(1, 1, 1))


def committed(below: int) -> CommitToTable:
    return CommitToTable("shop.orders", "u", 1, "c", below, 10, 1, 0)


def idle(number: int) -> Heartbeat:
    return Heartbeat("orders", "run", number, RANGES, Accounting())


def stale_ms(events: list[tuple[int, ControlEvent]], now_min: int) -> int:
    log = ObjectiveLog()
    for offset, (minute, event) in enumerate(events):
        log.hear(offset, event, minute * MINUTE_MS)
    found = by_objective(log.budgets("orders", now_min * MINUTE_MS))
    return found[Objective.FRESHNESS].windows[-1].bad


def test_a_topic_without_records_is_fresh_while_its_run_says_so() -> None:
    """A heartbeat that says that all is read, while nothing waits for a table, is as good as a new record."""
    start = [(0, deployed(ALL)), (0, written()), (0, batch(1)), (1, committed(2))]
    beats: list[tuple[int, ControlEvent]] = [(minute, idle(minute + 1)) for minute in range(1, 60)]

    assert stale_ms([*start, *beats], 60) == 0
    assert stale_ms([*start, *beats], 100) == (100 - 59 - 10) * MINUTE_MS  # and then the run is gone


def test_what_waits_for_a_table_is_not_fresh_however_often_the_run_says_that_all_is_read() -> None:
    """A blocked table takes the freshness of its pipeline; a person who gives up what waits ends that."""
    start: list[tuple[int, ControlEvent]] = [
        (0, deployed(ALL)),
        (0, batch(1)),
        (0, idle(2)),
        (1, written()),
        (1, batch(3)),
    ]
    beats: list[tuple[int, ControlEvent]] = [(minute, idle(minute + 2)) for minute in range(2, 60)]

    assert stale_ms([*start, *beats], 60) == 50 * MINUTE_MS
    given_up = Discarded("shop.orders", 0, 5, 1, 1, {}, "", 0, ("u",))
    assert stale_ms([*start, (20, given_up), *((m, e) for m, e in beats if m > 20)], 60) == 11 * MINUTE_MS


def test_a_heartbeat_that_only_says_where_a_run_stands_says_nothing_of_its_source() -> None:
    """A run that is held, or has just begun, repeats the number before."""
    said: list[tuple[int, ControlEvent]] = [(0, deployed(ALL)), (0, batch(1)), (0, idle(2))]
    said += [(minute, idle(2)) for minute in range(1, 30)]

    assert stale_ms(said, 30) == 20 * MINUTE_MS


def test_a_commit_says_up_to_when_all_is_visible() -> None:
    """What counts are the timestamps of records: a pipeline that catches up is late."""
    said: list[tuple[int, ControlEvent]] = [(0, deployed(ALL)), (0, batch(1))]
    for minute, through_min in ((30, 10), (40, 35), (60, 58)):
        complete = CommitComplete("c", 0, 0, valid_through_ms={"orders": through_min * MINUTE_MS, "other": 0})
        said.append((minute, complete))

    # From 30 to 40 what was visible ended at 10; from 40 to 60 at 35, which is too old from 45 on.
    assert stale_ms(said, 60) == (10 + 15) * MINUTE_MS


def test_other_objectives_count_anew_and_none_are_no_budget() -> None:
    """A budget is of one promise; the plan that is published again is no new one."""
    log = ObjectiveLog()
    for event in (batch(1), deployed(ALL), batch(2), deployed(ALL), batch(3)):
        log.hear(0, event, 0)
    assert by_objective(log.budgets("orders", 0))[Objective.COMPLETE].windows[0].counted == 20
    log.hear(0, deployed(Objectives(complete="99%")), 0)
    log.hear(0, batch(4), 0)
    [only] = log.budgets("orders", 0)
    assert (only.windows[0].counted, only.windows[0].bad, only.is_broken) == (10, 1, True)
    log.hear(0, deployed(Objectives()), 0)
    assert log.budgets("orders", 0) == ()
