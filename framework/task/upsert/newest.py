"""Of many changes of a table's keys in one batch, the newest of each key, and what it does to the table.

In: the key of each change, where in the source it stood, and which of the keys have live rows. Out: the rows of the
winners, and counts that add up to the changes that came in. Pure. The order is the source's own: partition, offset, and
the index in a record that holds several documents.
A key whose changes come from several partitions has no order of its own, so the highest (topic, partition, offset)
wins, topics by their names: any task that does the batch again, in whatever pieces, finds the same winner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Positions:
    """Where changes stood in the source: arrays of one length. `topics` are numbers in the order of the topics'
    names; `indexes` are those of elements, where records hold several documents."""

    topics: Ints
    partitions: Ints
    offsets: Ints
    indexes: Ints | None = None

    @property
    def by_weight(self) -> tuple[Ints, ...]:
        """What says which of two changes stood later, in the order of `np.lexsort`: what decides first comes last."""
        within = () if self.indexes is None else (self.indexes,)
        return (*within, self.offsets, self.partitions, self.topics)

    def take(self, rows: Ints) -> Positions:
        indexes = None if self.indexes is None else self.indexes[rows]
        return Positions(self.topics[rows], self.partitions[rows], self.offsets[rows], indexes)


@dataclass(frozen=True)
class ChangeCounts:
    """What became of changes: all but `superseded` are one for each key. `ignored` are deletes of keys without a live
    row."""

    superseded: int
    inserted: int
    updated: int
    deleted: int
    ignored: int

    @property
    def changes(self) -> int:
        """How many changes came in."""
        return self.superseded + self.inserted + self.updated + self.deleted + self.ignored


def newest(codes: Ints, positions: Positions, ranks: Ints | None = None) -> Ints:
    """The rows of the newest change of each key, ascending.

    Args:
        codes: for each change a number that stands for its key.
        ranks: where a column orders changes, the rank of its value; positions then decide between equal ones.
    """
    if not len(codes):
        return np.empty(0, np.int64)
    by = (codes,) if ranks is None else (ranks, codes)
    order = np.lexsort((*positions.by_weight, *by))
    ordered = codes[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    return np.sort(order[is_last])


def newest_by_hash(
    high: Words, low: Words, positions: Positions, order: Ints, values: pa.Array | pa.ChunkedArray | None = None
) -> Ints:
    """The rows of the newest change of each key, ascending, by hashes that are equal where the keys are.

    Args:
        order: what sorts `high`.
        values: of the column that orders changes, no nulls; None where the source's own order holds.
    """
    is_same = high[order][1:] == high[order][:-1]
    if not is_same.any():
        return np.arange(len(high), dtype=np.int64)
    several = np.append(is_same, False) | np.append(False, is_same)
    rows = np.sort(order[several])  # the few keys, as a rule, that changed more than once
    by_key = np.lexsort((low[rows], high[rows]))
    ordered_high, ordered_low = high[rows][by_key], low[rows][by_key]
    is_next = (ordered_high[1:] != ordered_high[:-1]) | (ordered_low[1:] != ordered_low[:-1])
    codes = np.empty(len(rows), np.int64)
    codes[by_key] = np.append(0, np.cumsum(is_next))
    ranks = None
    if values is not None:
        ranks = np.asarray(pc.rank(values.take(pa.array(rows)), tiebreaker="dense")).astype(np.int64)
    last = newest(codes, positions.take(rows), ranks)
    return np.sort(np.concatenate([order[~several], rows[last]]))


def order_of(winners: Ints, order: Ints) -> Ints:
    """What sorts the winners alone, in the same way as `order` sorts all changes; no row twice among them."""
    number = np.full(len(order), -1, np.int64)
    number[winners] = np.arange(len(winners))
    of_each = number[order]
    return of_each[of_each >= 0]


def count(is_delete: Flags, is_winner: Flags, is_live: Flags) -> ChangeCounts:
    """Counts of all changes.

    Args:
        is_delete, is_winner: of each change.
        is_live: of each winner, in order, whether its key has a live row.
    """
    deletes = is_delete[is_winner]
    return ChangeCounts(
        superseded=int(np.count_nonzero(~is_winner)),
        inserted=int(np.count_nonzero(~deletes & ~is_live)),
        updated=int(np.count_nonzero(~deletes & is_live)),
        deleted=int(np.count_nonzero(deletes & is_live)),
        ignored=int(np.count_nonzero(deletes & ~is_live)),
    )


def row_ids(winners: int, keys: Ints, found: Ints) -> pa.Array:
    """For each winner the id of its key's live row, null without one; where a key has several, the lowest.

    Args:
        winners: how many there are.
        keys, found: of each live row the winner whose key it has, and its id, -1 where the table gave it none.
    """
    ids = np.full(winners, np.iinfo(np.int64).max)
    known = found >= 0
    np.minimum.at(ids, keys[known], found[known])
    return pa.array(ids, pa.int64(), mask=ids == np.iinfo(np.int64).max)


def number_of_topic(topic: str, topics: Sequence[str]) -> int:
    """The topic's place among those of the pipeline, by name."""
    return sorted(topics).index(topic)
