"""The newest changes of a batch that are partial updates, as whole rows; and what is to become of those that cannot be made
whole.

In: the changes of a table, their winners, and where the live rows of these are. Out: rows for the writer; of updates that
lack a value which the table requires and no row has, what the table needs, or the records to refuse: then the batch is
done again, and nothing of it is announced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints
from framework.record.model import RefusedUpdate, TableNeed, TableTarget
from framework.table.evolve import merge_needs
from framework.table.policy.answers import Act
from framework.table.policy.rules import rules_of
from framework.table.schema.arrow import always_required, arrow_schema, parse_schema
from framework.task.upsert.changes import ReadChanges, TableChanges
from framework.task.upsert.filled_rows import OldRows, filled_rows
from framework.task.upsert.kept_values import KeyChains, Sources, chains_of, sources_of
from framework.task.upsert.newest import Positions

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from framework.adapters.iceberg.upsert.lookup import KeyMatches
    from framework.adapters.iceberg.upsert.order import RowOrder
    from framework.adapters.iceberg.upsert.search import Hits
    from framework.adapters.iceberg.upsert.target import UpsertTarget
    from framework.adapters.key_hash import KeyHashes


@dataclass
class PartialUpdates:
    """Of one table. `positions`, `hashes` and `values` (what orders changes) are of all changes; `winners` are the numbers of
    the newest ones, whose live rows `hits` has by their place among the winners."""

    target: TableTarget
    base: UpsertTarget
    changes: TableChanges
    positions: Positions
    hashes: KeyHashes
    values: pa.ChunkedArray | None
    found: KeyMatches
    hits: Hits
    winners: Ints
    needs: dict[str, TableNeed] = field(default_factory=dict)
    _refused: list[tuple[int, str]] = field(default_factory=list)

    def whole_rows(self, io: FileIO, read: ReadChanges) -> Iterator[tuple[Ints, pa.Table]]:
        """Places among the winners, and their rows, whose columns are called as the table calls them, and not as files do;
        call once.

        Raises:
            OSError: a data file, or the folder of temporary files, cannot be read.
        """
        partial, base = self.changes.partial, self.base
        newest = self.winners[np.isin(self.winners, partial.rows)]
        if not len(newest):
            return
        chains = chains_of(self.hashes.high, self.hashes.low, self.positions, newest, self.values)
        if base.order is not None and self.values is not None:
            chains = self._newer_than_table(io, base.order, chains, self.values)
        schema = arrow_schema(parse_schema(self.target.schema_json))
        sources = sources_of(chains, partial, self.changes.is_delete, self._required)
        places = np.searchsorted(self.winners, chains.newest)
        for chunk, rows in filled_rows(sources, schema, self._names(schema), read, self._old_rows(io, places)):
            kept = np.ones(len(chunk), np.bool_)
            for field_id, name in self._required.items():
                if rows.column(name).null_count:
                    gone = np.asarray(rows.column(name).is_null())
                    kept &= ~gone
                    self._lacks(field_id, sources, chunk[gone], partial.rows)
            filled = rows.filter(pa.array(kept))
            yield places[chunk[kept]], pa.Table.from_arrays(filled.columns, schema=schema)

    def refused(self, topics: Sequence[str]) -> list[RefusedUpdate]:
        """The records that the table takes in no form; `topics` are the pipeline's, by name."""
        found = []
        for change, column in self._refused:
            topic = topics[self.positions.topics[change]]
            place = topic, int(self.positions.partitions[change]), int(self.positions.offsets[change])
            found.append(RefusedUpdate(*place, self.target.name, column))
        return found

    def _names(self, schema: pa.Schema) -> dict[int, str]:
        """By field id the columns that files have: floe writes none of some types."""
        fields = parse_schema(self.target.schema_json).fields
        return {field.field_id: field.name for field in fields if field.name in schema.names}

    @cached_property
    def _required(self) -> dict[int, str]:
        """By field id the columns that must have a value, but for the key's."""
        fields = parse_schema(self.target.schema_json).fields
        return {f.field_id: f.name for f in fields if f.required and f.field_id not in self.base.key_ids}

    def _lacks(self, field_id: int, sources: Sources, newest: Ints, partial: Ints) -> None:
        """These updates have no value of a required column, nor a row to take it from: the table's policy says what then."""
        target = self.target
        schema = parse_schema(target.schema_json)
        name = schema.find_field(field_id).name
        answer = rules_of(target).missing_value(can_relax=field_id not in always_required(schema))
        if answer.act is not Act.CHANGE:
            self._refused += [(change, name) for change in sources.without_value(field_id, newest, partial).tolist()]
            return
        need = TableNeed(target.name, (), optional=frozenset({(name,)}))
        known = self.needs.get(target.name)
        self.needs[target.name] = need if known is None else merge_needs([known, need])

    def _old_rows(self, io: FileIO, places: Ints) -> OldRows:
        """Where the old rows of the winners at these places are. Of several rows of one key, which others left, the last one
        counts."""
        hits = self.hits
        hit_of = np.full(len(self.winners), -1, np.int64)
        hit_of[hits.keys] = np.arange(len(hits))
        at = hit_of[places]
        files, positions = np.append(hits.files, -1)[at], np.append(hits.positions, 0)[at]
        return OldRows(io, self.found.searched, self.base.columns, files, positions)

    def _newer_than_table(self, io: FileIO, by: RowOrder, chains: KeyChains, values: pa.ChunkedArray) -> KeyChains:
        """The chains without the changes that the live row of their key, or its delete, is newer than: they give no value."""
        from framework.adapters.iceberg.upsert.search import Hits
        from framework.task.upsert.newer_than_table import newer_than_table

        hits = self.hits
        newest = np.searchsorted(chains.ends, np.arange(len(chains.changes)))
        place = np.searchsorted(self.winners, chains.newest)[newest]
        # Each live row once for each change of its key.
        by_key = np.argsort(hits.keys, kind="stable")
        first, last = (np.searchsorted(hits.keys[by_key], place, side) for side in ("left", "right"))
        counts = last - first
        keys = np.repeat(np.arange(len(place)), counts)
        rows = by_key[np.repeat(first, counts) + np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)]
        each = Hits(keys, hits.files[rows], hits.positions[rows], hits.row_ids[rows])
        found, changes = replace(self.found, hits=each), chains.changes
        column = self.base.columns.of((by.field_id,))
        kept = newer_than_table(io, by, column, found, self.hashes.take(changes), values.take(pa.array(changes)))
        is_kept = np.zeros(len(changes), np.bool_)
        is_kept[kept] = True
        is_kept[chains.ends] = True
        return chains.only(is_kept)
