"""When a batch starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.pacing import (
    FIRST_BATCH_RECORDS,
    LONGEST_GROWN_S,
    MAX_FILES_PER_BATCH,
    SENT_BYTES_PER_TASK,
    BatchBefore,
    Pace,
    PaceFacts,
    PaceRules,
    decide_pace,
    records_in_batch,
)
from framework.config.spec import DistributionMode
from framework.plan.model import Transform
from framework.plan.pace import pace_rules
from testbed.record_samples import plan, policy

RULES = PaceRules(
    every_ms=10_000, heartbeat_ms=60_000, max_records=1000, most_records=4000, max_bytes=10_000, max_rows=800
)
LARGE = replace(RULES, every_ms=60_000, max_records=2_000_000, most_records=8_000_000)
IDLE = PaceFacts(
    now_ms=100_000,
    backlog=0,
    bytes_per_record=1.0,
    last_batch_ms=95_000,
    last_announce_ms=95_000,
    bounded=False,
    draining=False,
)


@pytest.mark.parametrize(
    ("facts", "pace"),
    [
        (IDLE, Pace.WAIT),
        (replace(IDLE, backlog=5), Pace.WAIT),
        (replace(IDLE, backlog=5, last_batch_ms=None), Pace.BATCH),
        (replace(IDLE, backlog=5, last_batch_ms=90_000), Pace.BATCH),
        (replace(IDLE, backlog=1000), Pace.BATCH),
        (replace(IDLE, backlog=800), Pace.BATCH),
        (replace(IDLE, backlog=500, bytes_per_record=20.0), Pace.BATCH),
        (replace(IDLE, backlog=5, was_cut=True), Pace.BATCH),
        (replace(IDLE, was_cut=True), Pace.WAIT),
        (replace(IDLE, backlog=5, was_cut=True, paused=True), Pace.WAIT),
        (replace(IDLE, backlog=5, last_batch_ms=None, paused=True), Pace.WAIT),
        (replace(IDLE, last_announce_ms=40_000), Pace.HEARTBEAT),
        (replace(IDLE, backlog=5, paused=True, last_announce_ms=40_000), Pace.HEARTBEAT),
        (replace(IDLE, backlog=5, draining=True), Pace.DONE),
        (replace(IDLE, bounded=True), Pace.DONE),
        (replace(IDLE, bounded=True, backlog=1), Pace.BATCH),
    ],
)
def test_pace(facts: PaceFacts, pace: Pace) -> None:
    """A batch starts when due, when full, when the one before was cut short, or when catching up; an idle pipeline
    sends a heartbeat; a drain ends it."""
    assert decide_pace(RULES, facts) is pace


@pytest.mark.parametrize(
    ("before", "records"),
    [
        (None, FIRST_BATCH_RECORDS),
        ((2_000_000, 0), 2_000_000),
        ((2_000_000, 100), 2_000_000),
        ((10, 1), 10 * MAX_FILES_PER_BATCH),
        ((1, 1), MAX_FILES_PER_BATCH),
        ((1, 4 * MAX_FILES_PER_BATCH), 1),
    ],
)
def test_a_batch_makes_so_many_files_at_most(before: tuple[int, int] | None, records: int) -> None:
    """A batch has as many records as its plan allows, fewer where they would become too many files, and at least one;
    the first of a run is small."""
    newest = before and BatchBefore(*before, seconds=60.0)
    assert records_in_batch(LARGE, newest) == records
    assert records_in_batch(replace(LARGE, max_records=1, most_records=1), newest) == 1


@pytest.mark.parametrize(
    ("files", "seconds", "every_ms", "records"),
    [
        (1, 2.0, 60_000, 8_000_000),
        (5000, 2.0, 60_000, 8_000_000),
        (1, 5.0, 60_000, 4_000_000),
        (1, LONGEST_GROWN_S, 60_000, 2_000_000),
        (1, 60.0, 60_000, 2_000_000),
        (1, 2.0, 10_000, 5_000_000),
        (1, 2.0, 1_000, 2_000_000),
        (MAX_FILES_PER_BATCH, 2.0, 60_000, 2_000_000),
    ],
)
def test_a_batch_grows_where_it_takes_little_time(files: int, seconds: float, every_ms: int, records: int) -> None:
    """Behind a quick batch comes a larger one, as far as it stays within the most that a batch may have, ten seconds
    and half an interval, and does not make too many files."""
    rules = replace(LARGE, every_ms=every_ms)
    assert records_in_batch(rules, BatchBefore(2_000_000, files, seconds)) == records
    letters = replace(rules, most_records=rules.max_records)
    assert records_in_batch(letters, BatchBefore(2_000_000, files, seconds)) == 2_000_000


@pytest.mark.parametrize(
    ("sent_bytes", "records"),
    [(0, 2_000_000), (2_000_000 * 500, 2_000_000), (2_000_000 * 4_096, 262_144), (2_000_000 * 2**31, 1)],
)
def test_a_batch_sends_so_many_bytes_through_the_exchange_at_most(sent_bytes: int, records: int) -> None:
    """By what the rows of the batch before took: two million changes of 4 KB are eight batches. Where nothing is sent, or
    no bound is given, bytes bound nothing."""
    rules = replace(LARGE, most_records=2_000_000, most_sent_bytes=2**30)
    before = BatchBefore(2_000_000, 1, 60.0, sent_bytes)
    assert records_in_batch(rules, before) == records
    assert records_in_batch(replace(rules, most_sent_bytes=None), before) == 2_000_000


def test_the_bound_on_bytes_is_that_of_all_tasks() -> None:
    """Only for plans whose rows cross the exchange."""
    usual = plan()
    assert pace_rules(usual).most_sent_bytes is None
    hashed = plan(defaults=replace(policy(), distribution=DistributionMode.HASH))
    assert pace_rules(hashed).most_sent_bytes == hashed.read.slices * SENT_BYTES_PER_TASK


def test_batches_do_not_grow_where_tasks_hold_their_rows() -> None:
    """A plan with SQL, with a distributed table, or with dead letters in the announcing transaction keeps its batches'
    size."""
    usual = plan()
    hashed = replace(policy(), distribution=DistributionMode.HASH)
    assert usual.may_grow_batches
    assert not replace(usual, transform=Transform("SELECT * FROM records")).may_grow_batches
    assert not plan(overrides=[("ns.t", hashed)]).may_grow_batches
    assert not replace(usual, write=replace(usual.write, dead_letter_topic="letters")).may_grow_batches
