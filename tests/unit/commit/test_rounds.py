"""Whose turn it is to be maintained: busy tables after some commits, within window and limits."""

from __future__ import annotations

from framework.commit.maintenance.rounds import AFTER_FAILURE_MS, COMMITS_BETWEEN, LEAST_MS, MOST_MS, Rounds, rest_s
from framework.config.maintenance import HOUR_MS, MaintenanceLimits

ANY = MaintenanceLimits()


def busy(table: str = "a", commits: int = COMMITS_BETWEEN, rounds: Rounds | None = None) -> Rounds:
    found = rounds or Rounds()
    for _ in range(commits):
        found = found.committed(table, 0)
    return found


def test_a_busy_table_has_a_round_after_some_commits() -> None:
    """Neither at once nor without commits; a quiet table with a few commits has one in an hour."""
    assert busy().next_table(ANY, LEAST_MS - 1) is None
    assert busy().next_table(ANY, LEAST_MS) == "a"
    assert busy(commits=1).next_table(ANY, MOST_MS - 1) is None
    assert busy(commits=1).next_table(ANY, MOST_MS) == "a"
    assert Rounds().next_table(ANY, MOST_MS) is None


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
    read = busy().began("a").ended("a", 70, False, 1_000)
    assert read.allowance_bytes(limits, 2_000) == 30
    assert read.began("a").ended("a", 70, False, 2_000).allowance_bytes(limits, 3_000) == 0
    assert read.allowance_bytes(limits, 1_000 + HOUR_MS) == 100


def test_work_and_rest_keep_to_the_share_of_a_core() -> None:
    """At a quarter, three times as much rest as work; without a limit, none."""
    assert rest_s(2.0, MaintenanceLimits(max_cpu_share=0.25)) == 6.0
    assert rest_s(2.0, ANY) == 0.0


def test_a_failed_round_waits_and_comes_again() -> None:
    """What its commits asked for is not forgotten."""
    failed = busy().began("a").ended("a", 0, True, 0)
    assert failed.next_table(ANY, AFTER_FAILURE_MS - 1) is None
    assert failed.next_table(ANY, AFTER_FAILURE_MS) == "a"
