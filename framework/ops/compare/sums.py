"""Sums of rows by bucket, and the rows in which two tables differ.

In: the words of rows (`row_words`), part by part, in any order. Out: which buckets differ, and of the rows of those which
one side has more often. Two sides with the same rows have the same sums, whatever their order; two sides that differ have
the same sums by chance once in 2**128 buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from framework.adapters.key_hash import KeyHashes
from framework.record.arrays import Ints, Mask

BUCKETS = 1 << 16
_NEIGHBOURS = 1 << 10
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
Words = npt.NDArray[np.uint64]


def buckets_of(keys: KeyHashes) -> Ints:
    """The bucket of each row, by the words of its key."""
    return (keys.high >> np.uint64(48)).astype(np.int64)


def buckets_of_positions(partitions: KeyHashes, offsets: Ints) -> Ints:
    """The same for rows that are known by their place in Kafka: neighbours are in one bucket."""
    return (buckets_of(partitions) + offsets // _NEIGHBOURS) % BUCKETS


def _zeros() -> Words:
    return np.zeros(BUCKETS, np.uint64)


@dataclass
class BucketSums:
    """Of one side: how many rows each bucket has, and the sums of their words, modulo 2**64."""

    rows: Words = field(default_factory=_zeros)
    high: Words = field(default_factory=_zeros)
    low: Words = field(default_factory=_zeros)

    def add(self, places: Ints, rows: KeyHashes) -> None:
        """Some more rows, fewer than two million at once, each with its bucket."""
        self.rows += np.bincount(places, minlength=BUCKETS).astype(np.uint64)
        for sums, words in ((self.high, rows.high), (self.low, rows.low)):
            # A float counts whole numbers exactly up to 2**53: so many halves of words do not reach that.
            for shift in (np.uint64(0), _HALF):
                halves = ((words >> shift) & _LOW).astype(np.float64)
                sums += np.bincount(places, halves, BUCKETS).astype(np.uint64) << shift

    def differing(self, other: BucketSums) -> Mask:
        """The buckets in which two sides differ."""
        pairs = ((self.rows, other.rows), (self.high, other.high), (self.low, other.low))
        found: Mask = np.logical_or.reduce([own != theirs for own, theirs in pairs])
        return found

    @property
    def count(self) -> int:
        return int(self.rows.sum())


def chosen(left: BucketSums, right: BucketSums, most_rows: int) -> tuple[Mask, bool]:
    """The differing buckets whose rows are looked at, one at least and no more rows than `most_rows` a side; and whether
    these are all."""
    differ = left.differing(right)
    larger = np.where(differ, np.maximum(left.rows, right.rows), 0).astype(np.int64)
    within = differ & (np.cumsum(larger) <= most_rows)
    if differ.any() and not within.any():
        within[int(np.argmax(differ))] = True
    return within, bool((within == differ).all())


@dataclass(frozen=True)
class Differing:
    """Rows that one side has more often, by their numbers among those that were given: `missing` on the right, `extra` there,
    or `changed`: the right has the same key with other values. A row that stands twice where it should stand once is
    extra, or missing."""

    missing: Ints
    extra: Ints
    changed_left: Ints
    changed_right: Ints


def differing(left: tuple[KeyHashes, KeyHashes], right: tuple[KeyHashes, KeyHashes]) -> Differing:
    """What differs among some rows, each side with the words of its keys and of its rows."""
    on_left, on_right = _surplus(left[1], right[1]), _surplus(right[1], left[1])
    mine, theirs = _pairs(left[0].take(on_left)), _pairs(right[0].take(on_right))
    changed_left, changed_right = np.isin(mine, theirs), np.isin(theirs, mine)
    return Differing(on_left[~changed_left], on_right[~changed_right], on_left[changed_left], on_right[changed_right])


def _surplus(own: KeyHashes, other: KeyHashes) -> Ints:
    """The rows that stand more often on the own side, each as often as it is too many."""
    _, numbers = np.unique(np.concatenate([_pairs(own), _pairs(other)]), return_inverse=True)
    mine, theirs = numbers[: len(own)], numbers[len(own) :]
    held = np.bincount(theirs, minlength=int(numbers.max()) + 1 if len(numbers) else 0)
    order = np.argsort(mine, kind="stable")
    ordered = mine[order]
    nth = np.arange(len(ordered)) - np.searchsorted(ordered, ordered, "left")
    return np.sort(order[nth >= held[ordered]])


def _pairs(words: KeyHashes) -> npt.NDArray[np.void]:
    """Both words as one value that can be sorted."""
    return np.ascontiguousarray(np.column_stack([words.high, words.low])).view("V16").ravel()
