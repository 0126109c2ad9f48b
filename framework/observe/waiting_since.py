"""Since when the oldest unread record of each pipeline waits, asked for all of them at once.

In: who knows when records were written, and of each pipeline the positions at which its unread records begin. Out: times by
pipeline. One record of each partition is asked for, of so many partitions at most: those that are furthest behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from framework.adapters.kafka.control.record_time import Place
from framework.commit.offsets import PartitionKey

MOST_PARTITIONS = 64
MOST_OF_A_PIPELINE = 8


@dataclass(frozen=True)
class UnreadPart:
    """Where the unread records of a partition begin, and how many there are."""

    key: PartitionKey
    begin: int
    count: int


def waiting_since(
    times_of: Callable[[Sequence[Place]], Mapping[Place, int]], unread: Mapping[str, tuple[UnreadPart, ...]]
) -> dict[str, int]:
    """Of each pipeline that was asked about and whose records have times. Several pipelines may read one partition."""
    chosen: list[tuple[str, UnreadPart]] = []
    for name, partitions in unread.items():
        furthest = sorted((each for each in partitions if each.count > 0), key=lambda each: -each.count)
        chosen += [(name, each) for each in furthest[:MOST_OF_A_PIPELINE]]
    chosen.sort(key=lambda each: -each[1].count)
    places = [(each.key, each.begin) for _, each in chosen[:MOST_PARTITIONS]]
    times = times_of(places) if places else {}
    found: dict[str, int] = {}
    for name, each in chosen[:MOST_PARTITIONS]:
        at_ms = times.get((each.key, each.begin))
        if at_ms is not None:
            found[name] = min(found.get(name, at_ms), at_ms)
    return found
