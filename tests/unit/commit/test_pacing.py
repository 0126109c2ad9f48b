"""When a batch starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from framework.commit.pacing import Pace, PaceFacts, PaceRules, decide_pace

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
        (replace(IDLE, backlog=5, last_batch_ms=None, paused=True), Pace.WAIT),
        (replace(IDLE, last_announce_ms=40_000), Pace.HEARTBEAT),
        (replace(IDLE, backlog=5, paused=True, last_announce_ms=40_000), Pace.HEARTBEAT),
        (replace(IDLE, backlog=5, draining=True), Pace.DONE),
        (replace(IDLE, bounded=True), Pace.DONE),
        (replace(IDLE, bounded=True, backlog=1), Pace.BATCH),
    ],
)
def test_pace(facts: PaceFacts, pace: Pace) -> None:
    """A batch starts when due, when full, or when catching up; an idle pipeline sends a heartbeat; a drain ends it."""
    assert decide_pace(RULES, facts) is pace
