"""Whose turn it is to be maintained: busy tables after some commits, within window and limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from framework.commit.maintenance.rounds import (
    AFTER_FAILURE_MS,
    COMMITS_BETWEEN,
    LEAST_MS,
    MOST_MS,
    Rounds,
    are_orphans_due,
    rest_s,
)
from framework.config.values.maintenance import DAY_MS, HOUR_MS, MaintenanceLimits

ANY = MaintenanceLimits()


def busy(table: str = "a", commits: int = COMMITS_BETWEEN, rounds: Rounds | None = None) -> Rounds:
    found = rounds or Rounds(0)
    for _ in range(commits):
        found = found.committed(table, 0)
    return found


def test_a_busy_table_has_a_round_after_some_commits() -> None:
    """Neither at once nor without commits; a quiet table with a few commits has one in an hour."""
    assert busy().next_table(ANY, LEAST_MS - 1) is None
    assert busy().next_table(ANY, LEAST_MS) == "a"
    assert busy(commits=1).next_table(ANY, MOST_MS - 1) is None
    assert busy(commits=1).next_table(ANY, MOST_MS) == "a"
    assert Rounds(0).next_table(ANY, MOST_MS) is None


def test_the_busiest_goes_first_and_not_twice() -> None:
    """Of two due tables the one with more commits; one that runs is not begun again, and the limit counts."""
    both = busy("b", COMMITS_BETWEEN + 1, busy("a"))
    assert both.next_table(ANY, LEAST_MS) == "b"
    running = both.began("b")
    assert running.next_table(ANY, LEAST_MS) is None
    assert running.next_table(MaintenanceLimits(max_tables=2), LEAST_MS) == "a"
    assert running.ended("b", 0, False, LEAST_MS).next_table(ANY, LEAST_MS) == "a"


def test_outside_of_the_window_nothing_begins() -> None:
    """The window is of the day in UTC."""
    limits = MaintenanceLimits(window=(60, 120))
    assert busy().next_table(limits, 59 * 60_000) is None
    assert busy().next_table(limits, 60 * 60_000) == "a"
    assert busy().next_table(MaintenanceLimits(enabled=False), 60 * 60_000) is None


def test_an_hour_has_its_bytes() -> None:
    """What was read counts for an hour."""
    limits = MaintenanceLimits(max_bytes_per_hour=100)
    later = HOUR_MS + 1_000
    read = busy().began("a").ended("a", 70, False, later)
    assert read.allowance_bytes(limits, later + 1_000) == 30
    assert read.began("a").ended("a", 70, False, later + 2_000).allowance_bytes(limits, later + 3_000) == 0
    assert read.allowance_bytes(limits, later + HOUR_MS) == 100


@given(st.lists(st.integers(1, 2 * HOUR_MS), min_size=1, max_size=30), st.integers(1, 1_000))
def test_processes_that_follow_one_another_share_an_hour_s_bytes(lives: list[int], limit: int) -> None:
    """However often a coordinator is restarted, and though each reads all that it may: no hour has more than twice its
    bytes, and a day no more than its hours."""
    limits = MaintenanceLimits(max_bytes_per_hour=limit)
    now_ms, read = 0, []
    for life_ms in lives:
        rounds = busy(rounds=Rounds(now_ms))
        for step in range(4):
            at_ms = now_ms + life_ms * (step + 1) // 4
            size = rounds.allowance_bytes(limits, at_ms)
            rounds = rounds.ended("a", size, False, at_ms)
            read.append((at_ms, size))
        now_ms += life_ms
    for at_ms, _ in read:
        assert sum(size for other_ms, size in read if at_ms <= other_ms < at_ms + HOUR_MS) <= 2 * limit
    assert sum(size for _, size in read) <= limit * (now_ms / HOUR_MS) + limit


def test_commits_before_this_process_count() -> None:
    """A coordinator that is restarted before twenty commits has rounds all the same, from what the table says; and a
    table whose last round was a moment ago waits, whoever had that round."""
    fresh = busy(commits=1, rounds=Rounds(0))
    assert fresh.unknown_table() == "a"
    assert fresh.next_table(ANY, LEAST_MS) is None
    learned = fresh.learned("a", COMMITS_BETWEEN, -LEAST_MS)
    assert learned.next_table(ANY, 0) == "a"
    assert learned.unknown_table() is None
    assert fresh.learned("a", COMMITS_BETWEEN, -1).next_table(ANY, 0) is None
    assert fresh.learned("a", 3, -MOST_MS).next_table(ANY, 0) == "a"
    assert learned.began("a").ended("a", 0, False, 0).unknown_table() is None


@given(
    st.integers(0, 1439), st.integers(0, 1439), st.text(max_size=5), st.lists(st.integers(1, DAY_MS // 2), max_size=40)
)
def test_orphans_are_looked_for_once_a_day_by_whoever_is_there(
    begin: int, end: int, table: str, lives: list[int]
) -> None:
    """A table has one moment a day, inside the window; of processes that follow one another without a break, each day
    one looks."""
    limits = MaintenanceLimits(window=(begin, end))
    looks, now_ms = [], 100 * DAY_MS
    first_ms = now_ms
    for life_ms in lives:
        if are_orphans_due(table, limits, now_ms, now_ms + life_ms):
            looks.append(now_ms + life_ms)
        now_ms += life_ms
    days = (now_ms - first_ms) / DAY_MS
    assert days - 1 <= len(looks) <= days + 1
    minutes = [minute for minute in range(1440) if are_orphans_due(table, limits, minute * 60_000 - 1, minute * 60_000)]
    assert len(minutes) == 1
    assert begin == end or limits.is_open(minutes[0])


def test_work_and_rest_keep_to_the_share_of_a_core() -> None:
    """At a quarter, three times as much rest as work; without a limit, none."""
    assert rest_s(2.0, MaintenanceLimits(max_cpu_share=0.25)) == 6.0
    assert rest_s(2.0, ANY) == 0.0


def test_a_failed_round_waits_and_comes_again() -> None:
    """What its commits asked for is not forgotten."""
    failed = busy().began("a").ended("a", 0, True, 0)
    assert failed.next_table(ANY, AFTER_FAILURE_MS - 1) is None
    assert failed.next_table(ANY, AFTER_FAILURE_MS) == "a"
