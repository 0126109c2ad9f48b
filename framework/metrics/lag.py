"""Since when records wait to be read, from looks at the ends of a source.

In: the ends at some moments, a position, and what is known of records. Out: the time at which the log went past the
position. Keeps few looks of each partition, so memory is bounded however long a pipeline is behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from framework.commit.offsets import PartitionFacts, PartitionKey

MOST_LOOKS = 32
LOOK_EVERY_MS = 1_000


@dataclass(frozen=True)
class EndsSeen:
    """`looks`: by partition when its end was found where, oldest first. `facts` are those of the newest look."""

    looks: Mapping[PartitionKey, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    facts: Mapping[PartitionKey, PartitionFacts] = field(default_factory=dict)
    looked_ms: int = 0

    def look(
        self, facts: Mapping[PartitionKey, PartitionFacts], positions: Mapping[PartitionKey, int], now_ms: int
    ) -> EndsSeen:
        """One look more. Looks that follow one another closely only renew the facts."""
        if now_ms - self.looked_ms < LOOK_EVERY_MS:
            return replace(self, facts=facts)
        looks = {
            key: _thinned((*_needed(self.looks.get(key, ()), positions.get(key, fact.log_end)), (now_ms, fact.log_end)))
            for key, fact in facts.items()
        }
        return EndsSeen(looks, facts, now_ms)

    def all_read_ms(self, positions: Mapping[PartitionKey, int]) -> int | None:
        """When the source was last looked at, if all that it held then lies before these positions; None if not."""
        is_read = all(positions.get(key, 0) >= fact.log_end for key, fact in self.facts.items())
        return self.looked_ms if self.facts and is_read else None

    def behind_since_ms(self, key: PartitionKey, position: int, announced_ms: int | None) -> int | None:
        """When the first record from `position` on came; None while there is none.

        Args:
            announced_ms: the timestamp of the newest record before it, which is asked where the log was never seen to
                end at or before the position.
        """
        fact = self.facts.get(key)
        if fact is None or fact.log_end <= position:
            return None
        looks = self.looks.get(key, ())
        past = next((number for number, (_, end) in enumerate(looks) if end > position), None)
        if past is None:
            return self.looked_ms
        if past:
            return looks[past - 1][0]
        return announced_ms if announced_ms is not None else looks[0][0]


def _needed(looks: tuple[tuple[int, int], ...], position: int) -> tuple[tuple[int, int], ...]:
    """Without the looks before the newest one that found the end at or before the position."""
    first = max((number for number, (_, end) in enumerate(looks) if end <= position), default=0)
    return looks[first:]


def _thinned(looks: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Every other one of the older half, when there are too many: the first and the newest stay."""
    if len(looks) <= MOST_LOOKS:
        return looks
    return (*looks[: MOST_LOOKS // 2 : 2], *looks[MOST_LOOKS // 2 :])
