"""When a pipeline was older than its objective of freshness.

In: times, each with the time up to which all records were visible then. Out: how long it was too old, in a window or in all.
Between two of these times the age grows with the clock, so what is counted is exact, and an outage without a word counts in full.
"""

from __future__ import annotations

from collections import deque

_MOST_STALE = 10_000


class FreshTime:
    """When one pipeline was older than its objective. `reach` in the order of time, by one thread at a time."""

    def __init__(self, most_age_ms: int) -> None:
        self._most_age_ms = most_age_ms
        self._through_ms = 0
        self._settled_ms = 0
        self._stale_ms = 0  # up to `_settled_ms`
        self._times: deque[tuple[int, int]] = deque(maxlen=_MOST_STALE)
        self.since_ms: int | None = None

    def reach(self, at_ms: int, through_ms: int) -> None:
        """At this time all records up to that one were visible. Of a time that has not come nobody can say so: a record may be
        dated ahead of the clock."""
        through_ms = min(through_ms, at_ms)
        if self.since_ms is None:
            self.since_ms = self._settled_ms = at_ms
        at_ms = max(at_ms, self._settled_ms)  # clocks of several machines
        begin = self._stale_from()
        if begin < at_ms:
            if self._times and self._times[-1][1] == begin:
                begin = self._times.pop()[0]
            self._times.append((begin, at_ms))
            self._stale_ms += at_ms - max(begin, self._settled_ms)
        self._settled_ms = at_ms
        self._through_ms = max(self._through_ms, through_ms)

    def counted_ms(self, begin_ms: int, now_ms: int) -> int:
        """How much of the time since then is measured."""
        return max(0, now_ms - max(begin_ms, self.since_ms)) if self.since_ms is not None else 0

    def stale_ms(self, begin_ms: int, now_ms: int) -> int:
        """How much of the time since then it was too old."""
        if self.since_ms is None:
            return 0
        newest = (max(self._stale_from(), begin_ms), now_ms)
        return sum(max(0, end - max(begin, begin_ms)) for begin, end in (*self._times, newest))

    def stale_in_all_ms(self, now_ms: int) -> int:
        """Of all the time, and never less than before."""
        return self._stale_ms + (max(0, now_ms - self._stale_from()) if self.since_ms is not None else 0)

    def _stale_from(self) -> int:
        """From when on it is too old, unless it gets on."""
        return max(self._settled_ms, self._through_ms + self._most_age_ms)
