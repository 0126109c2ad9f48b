"""Whole rows of partial updates: each value that one lacks is put in from where `kept_values` found it.

In: the newest changes of keys that are partial, a reader of changes, and where the old rows are. Out: rows in the table's
columns, some at a time: what is held of old rows and of changes stays within a bound, and each data file is read about
once. A value that nobody has is null; whether the table takes that is for the caller to see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints, Mask
from framework.table.schema.arrow import parse_schema
from framework.task.upsert.changes import ReadChanges
from framework.task.upsert.kept_values import OLD_ROW, OWN, Sources

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from framework.adapters.iceberg.private.live_files import LiveFile
    from framework.adapters.iceberg.project_by_id import TableColumns

# Of old rows, as they are in memory; of rows without one so many.
BYTES_AT_ONCE = 64 * 1024 * 1024
ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class OldRows:
    """Where the old row of each newest change is: the number of its file among `files`, -1 without one, and its position.
    `columns` are those of the table."""

    io: FileIO
    files: Sequence[LiveFile]
    columns: TableColumns
    of_file: Ints
    positions: Ints


def filled_rows(
    sources: Sources, schema: pa.Schema, names: Mapping[int, str], read: ReadChanges, old: OldRows
) -> Iterator[tuple[Ints, pa.Table]]:
    """Numbers of newest changes (as in `sources`), and their rows.

    Args:
        schema: of the table's columns that files have; no value is required by what is given.
        names: by field id its columns.

    Raises:
        OSError: a data file, or the folder of temporary files, cannot be read.
    """
    fields = {field_id: name for field_id, name in names.items() if field_id in sources.by_field}
    for chunk in _chunks(old):
        changes = sources.chains.newest[chunk]
        own = read(changes, schema.names)
        wanted = {field_id: sources.by_field[field_id][chunk] for field_id in fields}
        given, givers = _given(wanted, fields, read)
        held, at = _held(wanted, chunk, old)
        columns = list(own.columns)
        for field_id, source in wanted.items():
            place = schema.names.index(fields[field_id])
            kind = schema.field(place).type
            parts = [columns[place]]
            index, gone = np.arange(len(chunk)), np.zeros(len(chunk), dtype=bool)
            if (is_given := source >= 0).any():
                index[is_given] = len(chunk) + np.searchsorted(givers, source[is_given])
            if given is not None:
                parts.append(given.column(fields[field_id]))
            is_old = (source == OLD_ROW) & (at >= 0) & (field_id in held)
            if is_old.any():
                index[is_old] = len(chunk) + len(givers) + at[is_old]
                parts.append(held[field_id])
            gone |= (source < OWN) & ~is_old
            chunks = [piece.cast(kind) if piece.type != kind else piece for part in parts for piece in part.chunks]
            together = pa.chunked_array(chunks, type=kind)
            columns[place] = together.take(pa.array(index, pa.int64(), mask=gone))
        yield chunk, pa.table(columns, names=schema.names)


def _chunks(old: OldRows) -> Iterator[Ints]:
    """Numbers of newest changes by file and position of their old rows, as many as are held at once."""
    from framework.adapters.iceberg.upsert.search import rows_at_once

    order = np.lexsort((old.positions, old.of_file))
    at_once = [min(ROWS_AT_ONCE, rows_at_once(file, BYTES_AT_ONCE)) for file in old.files]
    weights = 1 / np.asarray([*at_once, ROWS_AT_ONCE], np.float64)[old.of_file[order]]  # -1 is the last one
    number = np.floor(np.cumsum(weights)).astype(np.int64)
    for bounds in np.split(np.arange(len(order)), np.flatnonzero(number[1:] != number[:-1]) + 1):
        if len(bounds):
            yield order[bounds]


def _given(wanted: dict[int, Ints], fields: dict[int, str], read: ReadChanges) -> tuple[pa.Table | None, Ints]:
    """The values of other changes of the batch, and the numbers of these changes, ascending."""
    found = [source[source >= 0] for source in wanted.values()]
    givers = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    if not len(givers):
        return None, givers
    names = [fields[field_id] for field_id in wanted]
    return read(givers, names), givers


def _held(wanted: dict[int, Ints], chunk: Ints, old: OldRows) -> tuple[dict[int, pa.ChunkedArray], Ints]:
    """The values of old rows, and of each of the chunk's changes which of these rows is its own, -1 without one. A column
    that somebody has dropped meanwhile is not there."""
    from framework.adapters.iceberg.upsert.search import read_rows

    at = np.full(len(chunk), -1, np.int64)
    of_file, positions = old.of_file[chunk], old.positions[chunk]
    asked: Mask = np.zeros(len(chunk), dtype=bool)
    for source in wanted.values():
        asked |= source == OLD_ROW
    asked &= of_file >= 0
    there = {field.field_id for field in parse_schema(old.columns.schema_json).fields}
    ids = [field_id for field_id, source in wanted.items() if field_id in there and (source == OLD_ROW).any()]
    if not asked.any() or not ids:
        return {}, at
    parts, count = [], 0
    columns = old.columns.of(ids)
    for number in np.unique(of_file[asked]).tolist():
        mine = np.flatnonzero(asked & (of_file == number))
        parts.append(read_rows(old.io, old.files[number], columns, positions[mine]))
        at[mine] = count + np.arange(len(mine))
        count += len(mine)
    return dict(zip(ids, pa.concat_tables(parts).columns, strict=True)), at
