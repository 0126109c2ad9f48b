"""Changes of upsert tables, written by the one task that has all changes of a key.

In: changes as tasks sent them, and the live files of each table's base snapshot. Out: the newest row of each key in
data files, with the id of the row that it replaces (invariant 16), and a file of the keys with where their live rows
are. A delete writes no row, but its key stands in that file even without a live row: the table's head may have one by
the time of the commit. A task that fails reports nothing, and what it wrote is nobody's.

Held until all changes are there: the rows as they were sent, in memory within a bound; of the key columns and the source
positions the values. Rows are unpacked piece by piece when the winners are known, and buffered within the bound of the
`TableWriter` that they go to.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.adapters.host.failpoints import meet_rows
from framework.adapters.waiting_pieces import Piece, WaitingPieces
from framework.record.arrays import Ints
from framework.record.model import RefusedUpdate, TableNeed, TableTarget, UpsertPart
from framework.table.upsert import key_index
from framework.task.context import TaskContext
from framework.task.upsert.changes import DELETE, PARTIAL, TableChanges, behind, head_of, positions_of
from framework.task.upsert.newest import Flags, count, newest_by_hash, order_of, row_ids
from framework.task.upsert.partial_updates import PartialUpdates

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from framework.adapters.iceberg.private.live_files import LiveFile
    from framework.adapters.iceberg.upsert.target import UpsertTarget
    from framework.adapters.key_hash import KeyHashes
    from framework.adapters.parquet.files import TableWriter
    from framework.table.upsert.key_index import KeyRun

_LOG = logging.getLogger(__name__)
# The number of a row's key among the winners, while it is on its way into a file.
_WINNER = "winner"


class _IndexRun:
    """Of one table: the entries of its key index for the files that the task writes."""

    def __init__(self, io: FileIO, root: str, hashes: KeyHashes, order: Ints, ids: pa.Array) -> None:
        self._io, self._root, self._hashes, self._order = io, root, hashes, order
        self._ids = np.asarray(pc.fill_null(ids, -1), np.int64)
        self._files: dict[str, Ints] = {}

    def add(self, path: str, winners: pa.ChunkedArray) -> None:
        self._files[path] = np.asarray(winners, np.int64)

    def write(self) -> KeyRun | None:
        """None for so few rows that a file for them alone is not worth it, and where it cannot be written: the index is a
        cache, and what it lacks costs time."""
        from framework.adapters.iceberg.upsert.index_runs import Entries, write_run

        rows = [len(winners) for winners in self._files.values()]
        if sum(rows) < key_index.LEAST_RUN_ROWS:
            return None
        winners = np.concatenate(list(self._files.values()))
        ids = self._ids[winners]
        entries = Entries(
            self._hashes.take(winners),
            np.repeat(np.arange(len(rows)), rows),
            np.concatenate([np.arange(count) for count in rows]),
            ids if (ids >= 0).any() else None,
        )
        try:
            order = order_of(winners, self._order)
            return write_run(self._io, self._root, entries, list(self._files), rows, order)
        except Exception as error:  # each store has exceptions of its own
            _LOG.warning("no run of the key index was written: %s", error)
            return None


class UpsertWriter:
    """Of one task. Rows go to `writer`, whose files are the task's; the files of keys are this writer's own."""

    def __init__(self, context: TaskContext, writer: TableWriter) -> None:
        self._context = context
        self._writer = writer
        self._changes: dict[str, TableChanges] = {}
        self._waiting = WaitingPieces()
        self._runs: dict[str, _IndexRun] = {}
        self.needs: dict[str, TableNeed] = {}
        """What tables must be changed for updates that have no row to take values from."""
        self.refused: list[RefusedUpdate] = []
        """Such updates that tables are not changed for."""

    def add(self, table: str, change: str, rows: pa.Buffer) -> int:
        """Take a piece of changes: an Arrow stream of rows, of partial ones, or of keys to delete, with their positions. Gives
        how many."""
        changes = self._changes.setdefault(table, TableChanges())
        base = self._context.keyed[table]
        names = _key_names(self._context.tables[table], base.key_ids)
        ordered = [] if base.order is None else _key_names(self._context.tables[table], (base.order.field_id,))
        head, positions, kept = head_of(rows, change, [*names, *ordered])
        piece = self._waiting.put(rows)
        if piece.held is None:  # columns that lie in the piece would hold it
            every = pa.array(np.arange(len(positions)))
            head, positions = [column.take(every) for column in head], positions.take(every)
            kept = kept and kept.take(every)
        changes.order += head[len(names) :]
        changes.pieces.append((piece, change))
        if kept is not None:
            changes.kept[changes.count] = kept
        changes.count += len(positions)
        changes.keys.append(pa.Table.from_arrays(head[: len(names)], names))
        changes.positions.append(positions)
        return len(positions)

    def finish(self) -> dict[str, UpsertPart]:
        """Find the winners and their live rows, and write; by table what was made of its changes.

        Raises:
            OSError: a file cannot be read or written; each store has exceptions of its own.
        """
        parts = {}
        for table in sorted(self._changes):
            parts[table] = self._finish(table, self._changes.pop(table))
        self._waiting.close()
        return parts

    def with_runs(self, parts: Mapping[str, UpsertPart]) -> dict[str, UpsertPart]:
        """The same, with what the tables' key indexes need of the files; call when the writer is done.

        Raises:
            OSError: as `finish`.
        """
        return {
            table: replace(part, run=self._runs[table].write()) if table in self._runs else part
            for table, part in parts.items()
        }

    def _finish(self, table: str, changes: TableChanges) -> UpsertPart:
        from framework.adapters.file_io import file_io, settings_of
        from framework.adapters.iceberg.upsert.deleted_keys import UnusableDeletedKeys
        from framework.adapters.iceberg.upsert.keys_file import write_keys
        from framework.adapters.iceberg.upsert.lookup import look_up
        from framework.adapters.iceberg.upsert.order import lost
        from framework.adapters.key_hash import hash_keys
        from framework.adapters.parquet.files import layout_of
        from framework.task.upsert.newer_than_table import hits_of, newer_than_table, remember

        target, base = self._context.tables[table], self._context.keyed[table]
        keys = pa.concat_tables(changes.keys).combine_chunks()
        hashes = hash_keys(keys.columns)
        values = pa.chunked_array([c for each in changes.order for c in each.chunks]) if changes.order else None
        order = np.argsort(hashes.high)
        positions, every, every_value = positions_of(changes.positions), hashes, values
        winners = newest_by_hash(hashes.high, hashes.low, positions, order, values)
        if len(winners) < len(keys):
            keys, hashes, order = keys.take(pa.array(winners)), hashes.take(winners), order_of(winners, order)
            values = values.take(pa.array(winners)) if values is not None else None
        layout = layout_of(target)
        io = file_io(settings_of(self._context.io_properties, table), target.location)
        candidates = partial(files_to_search, base, target, keys)
        found = look_up(
            io, base.files.by_path, candidates, base.columns.of(base.key_ids), keys, hashes, order, base.index
        )
        hits = found.hits
        if base.order is not None and values is not None:
            try:
                kept = newer_than_table(io, base.order, base.columns.of((base.order.field_id,)), found, hashes, values)
            except UnusableDeletedKeys as error:
                raise lost(table, str(error)) from error
            winners, hashes, order = winners[kept], hashes.take(kept), order_of(kept, order)
            values, keys, hits = values.take(pa.array(kept)), keys.take(pa.array(kept)), hits_of(hits, kept)
        ids = row_ids(len(keys), hits.keys, hits.row_ids)

        if base.index is not None:
            self._runs[table] = _IndexRun(io, base.index.root, hashes, order, ids)
            self._writer.follow(table, _mark_of(target), self._runs[table].add)
        if changes.kept:
            updates = PartialUpdates(target, base, changes, positions, every, every_value, found, hits, winners)
            for numbers, rows in updates.whole_rows(io, changes.reader(self._waiting)):
                self._add(target, base, rows, numbers, ids)
            self.needs |= updates.needs
            self.refused += updates.refused(sorted(self._context.topic_ids))
        is_winner, is_delete = self._write_rows(target, base, changes.pieces, winners, ids)
        is_live = np.zeros(len(keys), np.bool_)
        is_live[hits.keys] = True
        counts = count(is_delete, is_winner, is_live)
        tombstones = None
        if base.order is not None and values is not None:
            tombstones = remember(io, base.order, hashes, values, is_delete[is_winner])
        name = f"{self._context.plan.pipeline}-{self._context.run}-{self._context.batch}-{uuid.uuid4()}-keys.parquet"
        path = layout.locations.new_data_location(name)
        as_written = pa.schema([layout.arrow.field(place) for place in _places(target, base.key_ids)])
        keys = keys.rename_columns(as_written.names).cast(as_written)  # files spell some names otherwise
        written = write_keys(io, path, keys, hits, [file.path for file in found.searched])
        return UpsertPart(
            base.snapshot_id,
            base.key_ids,
            written,
            counts.inserted,
            counts.updated,
            counts.deleted,
            counts.superseded,
            counts.ignored,
            lost_runs=found.lost_runs,
            tombstones=tombstones,
        )

    def _write_rows(
        self,
        target: TableTarget,
        base: UpsertTarget,
        pieces: list[tuple[Piece, str]],
        winners: Ints,
        ids: pa.Array,
    ) -> tuple[Flags, Flags]:
        """Winners to the writer, piece by piece, but for partial ones; of every change whether it is a winner, and whether it
        deletes."""
        is_delete: list[Flags] = []
        start = 0
        for piece, change in self._unpacked(pieces):
            end = start + len(piece)
            is_delete.append(np.full(len(piece), change == DELETE, np.bool_))
            first, last = np.searchsorted(winners, [start, end])
            if change not in (DELETE, PARTIAL) and first < last:
                rows = piece.select(list(range(piece.num_columns - behind(change, piece.column_names))))
                if last - first < len(piece):
                    rows = rows.take(pa.array(winners[first:last] - start))
                self._add(target, base, rows, np.arange(first, last), ids)
            start = end
        is_winner = np.zeros(start, np.bool_)
        is_winner[winners] = True
        return is_winner, np.concatenate(is_delete)

    def _add(self, target: TableTarget, base: UpsertTarget, rows: pa.Table, numbers: Ints, ids: pa.Array) -> None:
        """Whole rows of the winners with these numbers."""
        from framework.adapters.iceberg.private.row_lineage import VERSION
        from framework.adapters.iceberg.upsert.target import ROW_ID

        written = target
        if base.format_version >= VERSION:
            rows = rows.append_column(ROW_ID, ids.take(pa.array(numbers)))
            written = with_row_id_column(target)
        if target.name in self._runs:
            rows = rows.append_column(_mark_of(target), pa.array(numbers))
        meet_rows(rows)
        self._writer.add(written, rows)

    def _unpacked(self, pieces: list[tuple[Piece, str]]) -> Iterator[tuple[pa.Table, str]]:
        """Each piece, in order; none is held any longer."""
        pieces.reverse()
        while pieces:
            piece, change = pieces.pop()
            yield pa.ipc.open_stream(self._waiting.take(piece)).read_all(), change


def files_to_search(base: UpsertTarget, target: TableTarget, keys: pa.Table) -> list[LiveFile]:
    """The live files that may hold one of the keys: where the key decides the partition, those of the keys' partitions,
    and those that another spec partitions; else all of them."""
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.types import IntegerType, LongType, StringType

    from framework.adapters.parquet.key_places import partition_of_key
    from framework.adapters.parquet.partition import partitions
    from framework.table.schema.arrow import parse_schema

    files = list(base.files.by_path.values())
    spec, schema = PartitionSpec.model_validate_json(target.spec_json), parse_schema(target.schema_json)
    if not spec.fields or len(partition_of_key(spec, base.key_ids)) != len(spec.fields):
        return files
    kinds = [each.field_type for each in spec.partition_type(schema).fields]
    # Values of other types may be spelled in several ways: a miss would leave two rows of one key.
    if not all(isinstance(kind, (IntegerType, LongType, StringType)) for kind in kinds):
        return files
    wanted = {partition.values for partition in partitions(keys, spec, schema)}
    return [file for file in files if file.spec_id != spec.spec_id or file.partition in wanted]


def with_row_id_column(target: TableTarget) -> TableTarget:
    """The table with the column in which version 3 keeps a row's id, where a file cannot go by the position alone."""
    import json
    from dataclasses import replace

    from framework.adapters.iceberg.upsert.search import ROW_ID_FIELD
    from framework.adapters.iceberg.upsert.target import ROW_ID

    schema = json.loads(target.schema_json)
    schema["fields"].append({"id": ROW_ID_FIELD, "name": ROW_ID, "type": "long", "required": False})
    properties = {**target.properties, f"write.metadata.metrics.column.{ROW_ID}": "none"}
    return replace(target, schema_json=json.dumps(schema), properties=properties)


def _places(target: TableTarget, key_ids: Sequence[int]) -> list[int]:
    from framework.table.schema.arrow import parse_schema

    ids = [each.field_id for each in parse_schema(target.schema_json).fields]
    return [ids.index(field_id) for field_id in key_ids]


def _key_names(target: TableTarget, key_ids: Sequence[int]) -> list[str]:
    from framework.table.schema.arrow import parse_schema

    schema = parse_schema(target.schema_json)
    return [schema.find_field(field_id).name for field_id in key_ids]


def _mark_of(target: TableTarget) -> str:
    """The name of the column that says which winner a row is."""
    from framework.table.schema.arrow import parse_schema, unused_name

    return unused_name(parse_schema(target.schema_json), _WINNER)
