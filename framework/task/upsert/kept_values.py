"""Where the values come from that the newest change of a key lacks: from an earlier change of the batch, or from the old row.

In: changes of a batch, which of them are partial, and what these lack. Out: for each newest change that is partial, and
each column that it lacks, the change that has the value last; or that it is the old row's; or that nobody has it, since
the key was deleted in between. Pure. Changes stand in the same order as where the newest one is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints, Mask
from framework.task.upsert.newest import Flags, Positions, Words

# In place of a change's number.
OWN, OLD_ROW, NOTHING = -1, -2, -3


@dataclass(frozen=True)
class PartialChanges:
    """`rows` are the numbers of the changes that are partial, ascending; `lacks` says of each by number which of `sets` it
    lacks, sets of field ids."""

    rows: Ints
    lacks: Ints
    sets: tuple[frozenset[int], ...]


def partial_changes(rows: Ints, kept: pa.ChunkedArray) -> PartialChanges:
    """Of the changes with these numbers; `kept` are of each the field ids of what it lacks, as text with commas."""
    coded = kept.combine_chunks().dictionary_encode()
    sets = (frozenset(int(each) for each in text.split(",") if each) for text in coded.dictionary.to_pylist())
    return PartialChanges(rows, np.asarray(coded.indices, np.int64), tuple(sets))


@dataclass(frozen=True)
class KeyChains:
    """The changes of the keys whose newest change is partial: those of a key together, in order. `changes` are their numbers,
    `keys` ascending numbers that stand for their keys."""

    changes: Ints
    keys: Ints

    @cached_property
    def starts(self) -> Ints:
        """Of each change the place at which its key begins."""
        return np.searchsorted(self.keys, self.keys).astype(np.int64)

    @cached_property
    def ends(self) -> Ints:
        """The places of the newest changes."""
        return np.flatnonzero(np.append(self.keys[1:] != self.keys[:-1], len(self.keys) > 0)).astype(np.int64)

    @property
    def newest(self) -> Ints:
        return self.changes[self.ends]

    def only(self, kept: Mask) -> KeyChains:
        return KeyChains(self.changes[kept], self.keys[kept])


def chains_of(
    high: Words, low: Words, positions: Positions, newest: Ints, order: pa.Array | pa.ChunkedArray | None
) -> KeyChains:
    """The chains of these newest changes.

    Args:
        high, low: hashes of the changes' keys.
        newest: numbers of changes, of each key one.
        order: of each change the value that orders it; None where the source's own order holds.
    """
    rows = np.flatnonzero(np.isin(high, high[newest]))
    by: tuple[Ints | Words, ...] = (low[rows], high[rows])
    if order is not None:
        ranks = np.asarray(pc.rank(order.take(pa.array(rows)), tiebreaker="dense")).astype(np.int64)
        by = (ranks, *by)
    rows = rows[np.lexsort((*positions.take(rows).by_weight, *by))]
    is_next = (high[rows][1:] != high[rows][:-1]) | (low[rows][1:] != low[rows][:-1])
    found = KeyChains(rows, np.cumsum(np.append(np.zeros(min(1, len(rows)), np.int64), is_next)).astype(np.int64))
    # Other keys may have half of the hash.
    return found.only(np.isin(found.keys, found.keys[np.isin(rows, newest)]))


@dataclass(frozen=True)
class Sources:
    """By field id of each newest change of the chains where its value is; and at which place of the chain that stands."""

    chains: KeyChains
    by_field: Mapping[int, Ints]
    places: Mapping[int, Ints]

    def without_value(self, field_id: int, newest: Sequence[int] | Ints, partial: Ints) -> Ints:
        """The numbers of the partial changes that have no value of a column, up to these newest changes (numbers of
        chains), which have none either."""
        found: list[Ints] = []
        for number in np.asarray(newest, np.int64).tolist():
            end = int(self.chains.ends[number])
            first = max(int(self.places[field_id][number]), int(self.chains.starts[end]))
            found.append(self.chains.changes[first : end + 1])
        together = np.concatenate(found) if found else np.empty(0, np.int64)
        return together[np.isin(together, partial)]


def sources_of(chains: KeyChains, partial: PartialChanges, is_delete: Flags, required: Iterable[int] = ()) -> Sources:
    """Where each value is that a newest change lacks, and of each required column, which a partial change need not have."""
    changes = chains.changes
    places = np.searchsorted(partial.rows, changes)
    inside = np.minimum(places, max(len(partial.rows) - 1, 0))
    is_partial = partial.rows[inside] == changes
    sets = np.where(is_partial, partial.lacks[inside], -1)
    fields = sorted(frozenset(required).union(*(partial.sets[each] for each in np.unique(sets[chains.ends]).tolist())))
    by_field: dict[int, Ints] = {}
    at: dict[int, Ints] = {}
    numbers = np.arange(len(changes))
    for field_id in fields:
        lacking_sets = [number for number, each in enumerate(partial.sets) if field_id in each]
        lacks = np.isin(sets, lacking_sets)
        giver = np.maximum.accumulate(np.where(lacks, -1, numbers))[chains.ends]
        is_there = giver >= chains.starts[chains.ends]
        gone = is_delete[changes[giver]]
        given = np.where(is_there, np.where(gone, NOTHING, changes[giver]), OLD_ROW)
        by_field[field_id] = np.where(lacks[chains.ends], given, OWN).astype(np.int64)
        at[field_id] = giver.astype(np.int64)
    return Sources(chains, by_field, at)
