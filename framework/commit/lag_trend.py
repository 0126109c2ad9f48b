"""Whether a pipeline falls behind or catches up, from how old the records of its batches were when they were announced.

In: for each announced batch when that was, and the time of its newest record in the partition that is furthest behind. Out: a
word: growing, falling, steady, or "" where too little is known. Memory is bounded: the batches of ten minutes.
"""

from __future__ import annotations

from collections import deque

from framework.commit.events.event_types import DataComplete

KEPT_MS = 600_000
# What is compared is at least so old: two batches that follow one another say nothing.
BEFORE_MS = 60_000
STEADY_MS = 10_000
STEADY_SHARE = 0.1
MOST_BATCHES = 600


def oldest_partition_ms(event: DataComplete) -> int | None:
    """The time of the newest record of the partition that is furthest behind, of those that had records in a batch."""
    return min((each.max_timestamp_ms for each in event.ranges if each.max_timestamp_ms is not None), default=None)


class LagTrend:
    """Of one pipeline. `add` in the order of the log, by one thread at a time."""

    def __init__(self) -> None:
        self._lags: deque[tuple[int, int]] = deque(maxlen=MOST_BATCHES)

    def add(self, at_ms: int | None, newest_ms: int | None) -> None:
        """One batch more."""
        if at_ms is None or newest_ms is None:
            return
        while self._lags and at_ms - self._lags[0][0] > KEPT_MS:
            self._lags.popleft()
        self._lags.append((at_ms, max(0, at_ms - newest_ms)))

    def word(self, now_ms: int, waits_since_ms: int | None) -> str:
        """How the lag of now compares with that of the oldest batch that is kept; nothing of a pipeline that is hardly behind."""
        before = next((lag for at_ms, lag in self._lags if BEFORE_MS <= now_ms - at_ms <= KEPT_MS), None)
        if waits_since_ms is None or before is None or now_ms - waits_since_ms < STEADY_MS:
            return ""
        change = now_ms - waits_since_ms - before
        if abs(change) <= max(STEADY_MS, STEADY_SHARE * before):
            return "steady"
        return "growing" if change > 0 else "falling"
