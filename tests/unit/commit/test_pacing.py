"""When a batch starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.pacing import (
    FIRST_BATCH_RECORDS,
    MAX_FILES_PER_BATCH,
    Pace,
    PaceFacts,
    PaceRules,
    decide_pace,
    records_in_batch,
)

RULES = PaceRules(every_ms=10_000, heartbeat_ms=60_000, max_records=1000, max_bytes=10_000, max_rows=800)
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
    """A batch starts when due, when full, when the one before was cut short, or when catching up; an idle pipeline sends a
    heartbeat; a drain ends it."""
    assert decide_pace(RULES, facts) is pace


@pytest.mark.parametrize(
    ("files_per_record", "records"),
    [
        (None, FIRST_BATCH_RECORDS),
        (0.0, 2_000_000),
        (MAX_FILES_PER_BATCH / 2_000_000, 2_000_000),
        (0.1, 10 * MAX_FILES_PER_BATCH),
        (1.0, MAX_FILES_PER_BATCH),
        (4.0 * MAX_FILES_PER_BATCH, 1),
    ],
)
def test_a_batch_makes_so_many_files_at_most(files_per_record: float | None, records: int) -> None:
    """A batch has as many records as its plan allows, fewer where they would become too many files, and at least one; the
    first of a run is small."""
    assert records_in_batch(2_000_000, files_per_record) == records
    assert records_in_batch(1, files_per_record) == 1
