"""The rows that the records of one block have become, by destination.

In: rows in columns with their records' places in the block, in any order. Out: those of each table together, in order; and
the records that must leave every table, since a table has no place for their row, each with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints
from framework.record.destination import Destination, rows_of
from framework.record.failure import RecordFailure
from framework.record.model import AlikeRows
from framework.record.rows.dictionary_text import together
from framework.record.state.block_tables import BlockTables
from framework.record.upsert.rows import Placed, no_value, without_value


class BlockRows:
    def __init__(self, tables: BlockTables) -> None:
        self._tables = tables
        self._rows: dict[Destination, list[Placed]] = {}
        self._alike: list[tuple[Ints, AlikeRows]] = []

    def add(self, to: Destination, positions: Ints, rows: pa.Table) -> None:
        if len(positions):
            self._rows.setdefault(to, []).append((positions, rows))

    def add_alike(self, positions: Ints, alike: AlikeRows) -> None:
        """Rows of several tables, the positions in order."""
        if len(positions):
            self._alike.append((positions, alike))

    def take_back(self, gone: Collection[int]) -> None:
        """Rows of these records leave every table they were put in."""
        places = np.fromiter(gone, dtype=np.int64)
        for to, found in self._rows.items():
            kept = []
            for positions, rows in found:
                keep = ~np.isin(positions, places)
                kept.append((positions, rows) if keep.all() else (positions[keep], rows.filter(pa.array(keep))))
            self._rows[to] = kept
        left = (_without(places, *each) for each in self._alike)
        self._alike = [each for each in left if len(each[0])]

    def places(self) -> Ints:
        """The places of all records that have a row in some table, ascending."""
        found = [positions for parts in self._rows.values() for positions, _ in parts]
        found += [positions for positions, _ in self._alike]
        places: Ints = np.unique(np.concatenate([np.empty(0, np.int64), *found]))
        return places

    def refuse(self, failed: Collection[int]) -> None:
        """Rows of records that failed in the end leave every table, and a table of which nothing is left is in no result."""
        self.take_back(failed)
        self._rows = {
            to: kept for to, found in self._rows.items() if (kept := [part for part in found if len(part[0])])
        }

    def without_key(self) -> dict[int, RecordFailure]:
        """The records without a value for a key column, or for the one that orders them."""
        failures: dict[int, RecordFailure] = {}
        for to, found in sorted(self._rows.items()):
            if not self._tables.is_upsert(to):
                continue
            for positions, rows in found:
                for column, missing in without_value(rows, self._tables.policy(to)):
                    for position in positions[missing].tolist():
                        policy = self._tables.policy(rows_of(to.table))
                        failures.setdefault(position, no_value(column, to.table, policy))
        return failures

    def without_partition(self) -> dict[int, RecordFailure]:
        """The records with a value of which no partition can be made."""
        failures: dict[int, RecordFailure] = {}
        for to, bounds in sorted(self._tables.least.items()):
            for positions, rows in self._rows.get(to, ()):
                for bound in bounds:
                    if (found := bound.below(rows)) is not None:
                        for row in np.flatnonzero(found[0]).tolist():
                            failures.setdefault(int(positions[row]), bound.failure(found[1][row].as_py()))
        return failures

    def unsorted(self) -> tuple[Ints, AlikeRows] | None:
        """The rows as they came, where all of them are of tables that are alike."""
        return self._alike[0] if len(self._alike) == 1 and not self._rows else None

    def by_table(self, but: Container[str]) -> Iterator[tuple[Destination, Ints, pa.Table]]:
        """The rows of each table but these, in order, with those of a history together, whatever their records did."""
        for positions, alike in self._alike:
            for name, places, rows in alike.split():
                self.add(rows_of(name), positions[places], rows)
        for to, found in sorted(self._with_histories().items()):
            if to.table not in but:
                yield to, *_in_order(found)

    def _with_histories(self) -> dict[Destination, list[Placed]]:
        if not self._tables.histories:
            return self._rows
        found: dict[Destination, list[Placed]] = {}
        for to, parts in self._rows.items():
            found.setdefault(to.in_table, []).extend(parts)
        return found


def _without(gone: Ints, positions: Ints, alike: AlikeRows) -> tuple[Ints, AlikeRows]:
    keep = ~np.isin(positions, gone)
    if keep.all():
        return positions, alike
    return positions[keep], AlikeRows(alike.tables, alike.numbers[keep], alike.rows.filter(pa.array(keep)))


def _in_order(parts: list[Placed]) -> Placed:
    positions, rows = parts[0]
    if len(parts) > 1:
        positions = np.concatenate([p for p, _ in parts])
        rows = together([r for _, r in parts])
    if (positions[1:] < positions[:-1]).any():
        order = np.argsort(positions, kind="stable")
        positions, rows = positions[order], rows.take(pa.array(order))
    return positions, rows
