"""Whether many of the newest records become dead letters, and since when, from what batches report of themselves.

In: for each announced batch its time, its records and its dead letters. Out: a `DeadLetterFlood` or None. Memory is bounded:
the batches of the last two minutes, and no more than so many. The alert fires at the same share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

FLOOD_SHARE = 0.05
FLOOD_MS = 120_000
# So many records are enough to judge by, so that a flood is seen after seconds and not only at the end of two minutes.
FLOOD_RECORDS = 200
MOST_BATCHES = 500
# Fewer are no flood, whatever their share: one of the first three records of a day says nothing.
FLOOD_LETTERS = 5


@dataclass(frozen=True)
class DeadLetterFlood:
    """Of the newest `records` so many are dead letters; `since_ms` is the time of the first batch of them."""

    since_ms: int
    records: int
    dead_letters: int


@dataclass(frozen=True)
class _BatchLetters:
    at_ms: int
    records: int
    dead_letters: int


class DeadLetterHistory:
    """Of one pipeline. `add` in the order of the log, by one thread at a time."""

    def __init__(self) -> None:
        self._batches: deque[_BatchLetters] = deque(maxlen=MOST_BATCHES)
        self._since_ms: int | None = None

    def add(self, at_ms: int | None, records: int, dead_letters: int) -> None:
        """One batch more."""
        if at_ms is None or records <= 0:
            return
        while self._batches and at_ms - self._batches[0].at_ms >= FLOOD_MS:
            self._batches.popleft()
        self._batches.append(_BatchLetters(at_ms, records, dead_letters))
        if not any(each.dead_letters for each in self._batches):
            self._since_ms = None
            return
        found = self._newest()
        if found is None or found.dead_letters < FLOOD_LETTERS or found.dead_letters <= FLOOD_SHARE * found.records:
            self._since_ms = None
        elif self._since_ms is None:
            self._since_ms = self._beginning_ms()

    def flood(self, now_ms: int) -> DeadLetterFlood | None:
        """What goes on. Where no batch came for two minutes, nothing does."""
        found = self._newest()
        if self._since_ms is None or found is None or now_ms - self._batches[-1].at_ms >= FLOOD_MS:
            return None
        return DeadLetterFlood(self._since_ms, found.records, found.dead_letters)

    def _newest(self) -> _BatchLetters | None:
        """The newest batches as one, with so many records as are enough, or with all; the worse of the two. A flood ends where
        both are well, and so it does not end with one good batch."""
        records = letters = 0
        worst: _BatchLetters | None = None
        for number, each in enumerate(reversed(self._batches), 1):
            records, letters = records + each.records, letters + each.dead_letters
            is_last = number == len(self._batches)
            if (worst is None and records >= FLOOD_RECORDS) or is_last:
                found = _BatchLetters(each.at_ms, records, letters)
                is_worse = worst is None or letters * worst.records > worst.dead_letters * records
                worst = found if is_worse else worst
        return worst

    def _beginning_ms(self) -> int:
        """Of the first batch from which on the share is that of a flood."""
        records = letters = 0
        first_ms = self._batches[-1].at_ms
        for each in reversed(self._batches):
            records, letters = records + each.records, letters + each.dead_letters
            if each.dead_letters and letters > FLOOD_SHARE * records:
                first_ms = each.at_ms
        return first_ms
