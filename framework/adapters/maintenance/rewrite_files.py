"""Data files of a table into fewer ones with the same rows: without those that deletes mark, in the table's order.

In: live files of one partition, and how the table's files are written now. Out: new files, written, how many rows they
hold, and where each row went. One row group is read at a time, and rows are held within a bound of memory; of rows that
are sorted or shared out, where they went takes four bytes each on disk. On tables of format version 3 each row keeps its
`_row_id` and its `_last_updated_sequence_number`, which the old file holds or its place in it says. Nothing refers to
the new files yet.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata

from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.live_files import LiveFile, deleted_positions
from framework.adapters.iceberg.project_by_id import FileColumns, NotProjected, open_parquet, table_columns
from framework.adapters.iceberg.supported_tables import UPDATED
from framework.adapters.iceberg.upsert.search import ROW_ID_FIELD
from framework.adapters.iceberg.upsert.target import ROW_ID
from framework.adapters.parquet.files import Follow, TableWriter, layout_of
from framework.adapters.parquet.long_file import write_long_file
from framework.adapters.waiting_pieces import Piece, WaitingPieces
from framework.commit.events.event_types import DataFile
from framework.record.model import TableTarget
from framework.table.schema.arrow import arrow_schema, parse_schema, unused_name

# Of the specification: the sequence number of the commit that last changed a row, where its file holds it.
UPDATED_FIELD = 2147483539
LINEAGE_SINCE = 3
# Rows that are held to be shared out to partitions of another spec; encoding them takes about twice as much again.
BUFFER_BYTES = 64 * 1024 * 1024
_FIELD_ID = b"PARQUET:field_id"
_NONE: Positions = np.empty(0, np.int64)
# The column of rows' numbers, while they are on their way.
_NUMBER = "number"
NOTHING_GONE: Mapping[str, Positions] = {}


class RowNumbers:
    """The numbers of rows by new file, in the order of its rows: on disk, for all files that wait for their commit."""

    def __init__(self) -> None:
        self._waiting = WaitingPieces(most_bytes=0)

    def put(self, numbers: pa.ChunkedArray) -> Piece:
        return self._waiting.put(pa.py_buffer(np.asarray(numbers, np.int32)))

    def of(self, pieces: Sequence[Piece]) -> Positions:
        found = [np.frombuffer(self._waiting.take(piece), np.int32) for piece in pieces]
        return np.concatenate(found).astype(np.int64)


@dataclass(frozen=True)
class RowPlaces:
    """Where the rows of old files went. Rows that stayed are numbered as they were read; `gone` are the positions in each
    old file of those that did not. `files` has for each new file where the numbers of its rows are; None where there is
    one new file with the rows as they were read."""

    gone: tuple[Positions, ...]
    counts: tuple[int, ...]
    numbers: RowNumbers
    files: tuple[tuple[Piece, ...], ...] | None

    def places(self, deleted: Sequence[Positions]) -> list[Positions]:
        """By new file the positions of rows that stayed and are deleted by now; `deleted` are those of each old file."""
        found, start = [_NONE], 0
        for gone, count, positions in zip(self.gone, self.counts, deleted, strict=True):
            new = np.setdiff1d(positions, gone)
            found.append(start + new - np.searchsorted(gone, new))
            start += count - len(gone)
        wanted = np.concatenate(found)
        if self.files is None:
            return [wanted]
        return [np.flatnonzero(np.isin(self.numbers.of(each), wanted)).astype(np.int64) for each in self.files]


@dataclass(frozen=True)
class RewriteResult:
    """`rows` are those of `files`, and `read_bytes` what was read for them. `places` only where they were asked for."""

    files: tuple[DataFile, ...]
    rows: int
    read_bytes: int
    places: RowPlaces | None = None


def rewrite(
    io: FileIO,
    metadata: TableMetadata,
    target: TableTarget,
    io_properties: Mapping[str, str],
    files: Sequence[LiveFile],
    catalog: str,
    run: str,
    is_sorted: bool = True,
    prefix: str = "compaction",
    gone: Mapping[str, Positions] = NOTHING_GONE,
    numbers: RowNumbers | None = None,
) -> RewriteResult:
    """Write the live rows of some files into new ones.

    Args:
        target: the table as it is now; its partition spec and sort order are those of the new files.
        io_properties: the settings with which its files are written.
        prefix: what the new files' names begin with, before `run`.
        gone: by path the positions of rows that are left out besides those that are deleted already.
        numbers: where it is to be kept which row went where.

    Raises:
        OSError: a file cannot be read or written; what was written is removed again. Each store has exceptions of its
            own.
    """
    written = _written_by(target, is_sorted)
    schema = parse_schema(written.schema_json)
    reader = _RowReader(io, metadata, schema, gone)
    pieces: Iterator[pa.Table] = (table for file in files for table in reader.rows(file))
    reported: dict[str, list[Piece]] = defaultdict(list)
    name = unused_name(schema, _NUMBER)
    is_alike = all(file.spec_id == target.spec_id for file in files)
    as_read = is_alike and layout_of(written).order is None
    keep: Callable[[str, pa.ChunkedArray], None] | None = None
    if numbers is not None and not as_read:
        pieces = _numbered(pieces, name)

        def keep(path: str, values: pa.ChunkedArray) -> None:
            reported[path].append(numbers.put(values))

    if is_alike:
        one = write_long_file(
            io_properties, written, pieces, f"{prefix}-{run}", partial(keep, "") if keep is not None else None
        )
        made = [one] if one is not None else []
        reported = {file.path: reported[""] for file in made}
    else:
        made = _shared_out({catalog: io_properties}, written, pieces, prefix, run, (name, keep) if keep else None)
    places = None
    if numbers is not None:
        by_file = None if as_read else tuple(tuple(reported[file.path]) for file in made)
        places = RowPlaces(tuple(reader.gone), tuple(file.record_count for file in files), numbers, by_file)
    rows = sum(file.record_count for file in made)
    return RewriteResult(tuple(made), rows, sum(file.file_size_bytes for file in files), places)


def _numbered(pieces: Iterator[pa.Table], name: str) -> Iterator[pa.Table]:
    """The rows with their numbers as the last column."""
    start = 0
    for piece in pieces:
        yield piece.append_column(name, pa.array(np.arange(start, start + len(piece), dtype=np.int32)))
        start += len(piece)


def _shared_out(
    io_properties: Mapping[str, Mapping[str, str]],
    written: TableTarget,
    pieces: Iterator[pa.Table],
    prefix: str,
    run: str,
    followed: tuple[str, Follow] | None,
) -> list[DataFile]:
    """Rows in partitions of another spec than they were written for: each may become several files, for a later
    compaction to put together."""
    writer = TableWriter(io_properties, prefix, run, 0, BUFFER_BYTES, 2**62)
    if followed is not None:
        writer.follow(written.name, *followed)
    try:
        for table in pieces:
            writer.add(written, table)
        return writer.finish().get(written.name, [])
    except BaseException:
        writer.discard()
        raise


def _written_by(target: TableTarget, is_sorted: bool) -> TableTarget:
    properties = dict(target.properties)
    # A group is as large as one file is to be, and a file that the writer cuts would be small again.
    properties.pop(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, None)
    order = target.sort_order_json if is_sorted else ""
    target = replace(target, sort_order_json=order, properties=properties)
    if target.format_version < LINEAGE_SINCE:
        return target
    schema = json.loads(target.schema_json)
    for field_id, name in ((ROW_ID_FIELD, ROW_ID), (UPDATED_FIELD, UPDATED)):
        schema["fields"].append({"id": field_id, "name": name, "type": "long", "required": False})
        properties[f"write.metadata.metrics.column.{name}"] = "none"
    return replace(target, schema_json=json.dumps(schema))


class _RowReader:
    """Rows of old files in the columns of new ones."""

    def __init__(
        self, io: FileIO, metadata: TableMetadata, schema: Schema, gone: Mapping[str, Positions] = NOTHING_GONE
    ) -> None:
        self._io = io
        self._gone = gone
        self.gone: list[Positions] = []  # of each file that was read, what was left out
        self._columns = table_columns(metadata, schema)
        self._arrow = arrow_schema(schema)

    def rows(self, file: LiveFile) -> Iterator[pa.Table]:
        """The live rows of one file, in its order."""
        gone = np.union1d(_deleted(self._io, file), self._gone.get(file.path, _NONE))
        self.gone.append(gone)
        start = 0
        for table in self._all_rows(file):
            if file.first_row_id is not None:
                table = _with_lineage(table, file, start)
            table = _as_written(table, self._arrow)
            end = start + len(table)
            here = gone[(gone >= start) & (gone < end)] - start
            start = end
            if len(here):
                stays = np.ones(len(table), bool)
                stays[here] = False
                table = table.filter(pa.array(stays))
            if len(table):
                yield table
        if start != file.record_count:
            raise OSError(f"{file.path} holds {start} rows, and its manifest says {file.record_count}")

    def _all_rows(self, file: LiveFile) -> Iterator[pa.Table]:
        with self._io.new_input(file.path).open() as stream:
            opened = open_parquet(stream)
            if _is_alike(opened.schema_arrow, self._arrow):
                # A file as floe writes it now: its columns need no look at the schemas of before.
                for number in range(opened.num_row_groups):
                    yield _filled(opened.read_row_group(number, use_threads=False), self._arrow)
                return
            try:
                columns = FileColumns(opened.schema_arrow, self._columns, file.spec_id, file.partition)
                for number in range(opened.num_row_groups):
                    yield columns.read(opened.read_row_group(number, use_threads=False))
            except NotProjected as error:
                raise NotProjected(f"{file.path} cannot be read as the table is now: {error}") from error


def _deleted(io: FileIO, file: LiveFile) -> Positions:
    return deleted_positions(io, file) if file.has_deletes else _NONE


def _is_alike(found: pa.Schema, wanted: pa.Schema) -> bool:
    """Whether a file has the wanted columns, by id, name and type; those of row lineage may be missing."""
    by_name = {field.name: field for field in found}
    lineage = (ROW_ID, UPDATED)
    needed = [field for field in wanted if field.name not in lineage]
    others = [field for field in wanted if field.name in lineage and field.name in by_name]
    return len(found) == len(needed) + len(others) and all(
        field.name in by_name and by_name[field.name].equals(field, check_metadata=True) for field in (*needed, *others)
    )


def _filled(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    present = set(table.column_names)
    return pa.Table.from_arrays(
        [table.column(f.name) if f.name in present else pa.nulls(len(table), f.type) for f in wanted],
        names=wanted.names,
    )


def _with_lineage(table: pa.Table, file: LiveFile, start: int) -> pa.Table:
    """By the specification: a row's id and its last change are what the file holds for it, else what its place and its
    file's sequence number say."""
    assert file.first_row_id is not None
    first = file.first_row_id + start
    places = pa.array(np.arange(first, first + len(table)), pa.int64())
    ids = pc.coalesce(table.column(ROW_ID).cast(pa.int64()), places)
    updated = pc.coalesce(table.column(UPDATED).cast(pa.int64()), pa.scalar(file.sequence_number, pa.int64()))
    for name, column in ((ROW_ID, ids), (UPDATED, updated)):
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _as_written(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    """The rows in the types of the writer, whichever width of text and lists the reader chose."""
    columns = []
    for column, field in zip(table.columns, wanted, strict=True):
        plain = column.type == field.type
        columns.append(column if plain else _cast(column, field.type))
    return pa.Table.from_arrays(columns, schema=wanted)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(kind, pa.ExtensionType):
        storage = column.cast(kind.storage_type)
        return pa.chunked_array([pa.ExtensionArray.from_storage(kind, chunk) for chunk in storage.chunks], type=kind)
    return column.cast(kind)
