"""Offsets of topics' partitions as sets of disjoint ranges: what was read, what is lacking, what is held.

In: ranges in any order, which may touch and overlap. Out: a value with the laws of sets. Invariant 11: offsets of two
incarnations of a topic have nothing in common. What lies between two ranges is in neither: one range around both would
take in what was given up on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from framework.commit.events.event_types import SourceRange

_Key = tuple[str, str, int]
_Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class OffsetRanges:
    """`ranges` are ascending by topic, id, partition and offset; none is empty, and no two touch. Two sets are equal
    when they hold the same offsets."""

    ranges: tuple[SourceRange, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[SourceRange]) -> OffsetRanges:
        spans: dict[_Key, _Ranges] = defaultdict(list)
        for each in ranges:
            if each.start < each.end:
                spans[each.topic, each.topic_id, each.partition].append((each.start, each.end))
        return cls(tuple(SourceRange(*key, *span) for key in sorted(spans) for span in _joined(spans[key])))

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: OffsetRanges) -> OffsetRanges:
        return OffsetRanges.of((*self.ranges, *other.ranges))

    def __sub__(self, other: OffsetRanges) -> OffsetRanges:
        taken = other._spans()
        return OffsetRanges.of(
            SourceRange(each.topic, each.topic_id, each.partition, start, end)
            for each in self.ranges
            for start, end in _left(each, taken.get((each.topic, each.topic_id, each.partition), []))
        )

    def __and__(self, other: OffsetRanges) -> OffsetRanges:
        return self - (self - other)

    @property
    def offsets(self) -> int:
        """How many there are."""
        return sum(each.end - each.start for each in self.ranges)

    def layers(self) -> Iterator[tuple[SourceRange, ...]]:
        """The set in as few parts as have one range of each partition and one id of each topic: what a run can read at
        once."""
        spans = sorted(self._spans().items())
        ids: dict[str, list[str]] = defaultdict(list)
        for (topic, topic_id, _), _ in spans:
            if topic_id not in ids[topic]:
                ids[topic].append(topic_id)
        for number in range(max(map(len, ids.values()), default=0)):
            of_these = [(key, each) for key, each in spans if ids[key[0]].index(key[1]) == number]
            by_partition = [[SourceRange(*key, *span) for span in each] for key, each in of_these]
            for layer in zip_longest(*by_partition):
                yield tuple(each for each in layer if each is not None)

    def _spans(self) -> dict[_Key, _Ranges]:
        spans: dict[_Key, _Ranges] = defaultdict(list)
        for each in self.ranges:
            spans[each.topic, each.topic_id, each.partition].append((each.start, each.end))
        return spans


NO_OFFSETS = OffsetRanges()


def _joined(spans: _Ranges) -> _Ranges:
    joined: _Ranges = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _left(each: SourceRange, taken: _Ranges) -> Iterator[tuple[int, int]]:
    """What is left of a range without some that are disjoint and ascending."""
    start = each.start
    for first, past in taken:
        if first > start:
            yield start, min(first, each.end)
        start = max(start, past)
        if start >= each.end:
            return
    yield start, each.end
