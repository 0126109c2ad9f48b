"""Since when the oldest unread record of each pipeline waits, asked of the broker for all of them at once.

In: a connection's settings, and of each pipeline the positions at which its unread records begin. Out: times by pipeline. One
consumer reads one record of each partition, of so many partitions at most: those that are furthest behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.adapters.kafka.control.record_time import record_times_ms
from framework.commit.offsets import PartitionKey

MOST_PARTITIONS = 64
MOST_OF_A_PIPELINE = 8


@dataclass(frozen=True)
class UnreadPart:
    """Where the unread records of a partition begin, and how many there are."""

    key: PartitionKey
    begin: int
    count: int


def waiting_since(kafka: Mapping[str, str], unread: Mapping[str, tuple[UnreadPart, ...]]) -> dict[str, int]:
    """Of each pipeline that was asked about and whose records have times. Several pipelines may read one partition."""
    chosen: list[tuple[str, UnreadPart]] = []
    for name, partitions in unread.items():
        furthest = sorted((each for each in partitions if each.count > 0), key=lambda each: -each.count)
        chosen += [(name, each) for each in furthest[:MOST_OF_A_PIPELINE]]
    chosen.sort(key=lambda each: -each[1].count)
    places = [(each.key, each.begin) for _, each in chosen[:MOST_PARTITIONS]]
    times = record_times_ms(kafka, places) if places else {}
    found: dict[str, int] = {}
    for name, each in chosen[:MOST_PARTITIONS]:
        at_ms = times.get((each.key, each.begin))
        if at_ms is not None:
            found[name] = min(found.get(name, at_ms), at_ms)
    return found
