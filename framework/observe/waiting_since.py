"""Since when the oldest unread record of each pipeline waits, and since when transactions hide records, asked for all
pipelines at once.

In: who knows when records were written, and of each pipeline the positions at which its unread records begin. Out: times by
pipeline. One record of each partition is asked for, of so many partitions at most: those that are furthest behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from framework.adapters.kafka.control.record_time import Place
from framework.commit.offsets import PartitionKey
from framework.commit.risks import OpenTransaction

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


def open_transactions(
    stable: Mapping[PartitionKey, int], written: Mapping[PartitionKey, int]
) -> tuple[OpenTransaction, ...]:
    """Where more is written than committed, from the last stable offsets and the high watermarks, which are asked for in this
    order: what a transaction that ends in between has written is not counted as hidden for long."""
    return tuple(
        OpenTransaction(*key, end, written[key] - end) for key, end in sorted(stable.items()) if written[key] > end
    )


def with_times(
    times_of: Callable[[Sequence[Place]], Mapping[Place, int]], found: Mapping[str, tuple[OpenTransaction, ...]]
) -> dict[str, tuple[OpenTransaction, ...]]:
    """The open transactions of each pipeline, with the times of their first records. Those that hide most are asked for."""
    each_one = sorted((each for of in found.values() for each in of), key=lambda each: -each.hidden)
    places = dict.fromkeys(((each.topic, each.partition), each.offset) for each in each_one)
    times = times_of(list(places)[:MOST_PARTITIONS]) if places else {}
    return {
        name: tuple(replace(each, since_ms=times.get(((each.topic, each.partition), each.offset))) for each in of)
        for name, of in found.items()
    }
