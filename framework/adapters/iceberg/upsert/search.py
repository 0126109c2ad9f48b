"""Where the live rows of keys are: the key columns of data files, read and compared value by value; and what these rows
hold.

In: keys, each once, and the live files of a snapshot. Out: the file, position and row id of every live row with one of
the keys, and what such rows hold. Exact: hashes choose no row, a file is passed over only if its bounds say that none of
the keys is in it, and rows that are deleted already are not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile, deleted_positions
from framework.adapters.iceberg.project_by_id import FileColumns, NotProjected, TableColumns, open_parquet
from framework.adapters.store.counted_files import parquet_file
from framework.adapters.value_bytes import plain
from framework.record.arrays import Ints

# Of the specification: a row's id, where its file holds it (`_row_id`), and the id of a field in Parquet's schema.
ROW_ID_FIELD = 2147483540
_FIELD_ID = b"PARQUET:field_id"
_ROW_ID_FIELD = str(ROW_ID_FIELD).encode()
# So many rows are looked up at once: the table of keys is hashed anew for each look-up.
_ROWS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Hits:
    """Live rows with one of the keys, as arrays of one length: the key's row, the file's place among those that were
    searched, the position in the file, and the row id, -1 where the table has none."""

    keys: Ints
    files: Ints
    positions: Ints
    row_ids: Ints

    def __len__(self) -> int:
        return len(self.keys)


def search(io: FileIO, files: Sequence[LiveFile], key: TableColumns, keys: pa.Table) -> Hits:
    """Every live row in `files` that has one of the keys.

    Args:
        key: the table's key columns.
        keys: their values, columns in the same order, no nulls, no key twice.
    """
    if not files or not len(keys):
        nothing = np.empty(0, np.int64)
        return Hits(nothing, nothing, nothing, nothing)
    columns = [plain(column) for column in keys.columns]
    kinds = [column.type for column in columns]
    look_up = _LookUp(columns)
    bounds = _KeyBounds(key.field_ids, columns)
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    wanted = [number for number, file in enumerate(files) if bounds.may_hold(file)]
    for group in _groups(files, wanted):
        read = [(number, read_key_columns(io, files[number], key, kinds)) for number in group]
        found += _hits(io, files, look_up, read)
    if not found:
        nothing = np.empty(0, np.int64)
        return Hits(nothing, nothing, nothing, nothing)
    return Hits(*(np.concatenate(part) for part in zip(*found, strict=True)))


def _groups(files: Sequence[LiveFile], wanted: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    rows = 0
    for number in wanted:
        group.append(number)
        rows += files[number].record_count
        if rows >= _ROWS_AT_ONCE:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _hits(
    io: FileIO, files: Sequence[LiveFile], look_up: _LookUp, read: Sequence[tuple[int, list[pa.Array]]]
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    if not read:
        return
    together = [pa.concat_arrays([held[place] for _, held in read]) for place in range(len(read[0][1]))]
    rows = look_up.rows_of(together)
    start = 0
    for number, held in read:
        in_file = rows[start : start + len(held[0])]
        start += len(held[0])
        positions = np.flatnonzero(in_file >= 0).astype(np.int64)
        if not len(positions):
            continue
        file = files[number]
        positions = positions[~is_deleted(io, file, positions)]
        yield (
            in_file[positions],
            np.full(len(positions), number, np.int64),
            positions,
            _row_ids(io, file, positions),
        )


def is_deleted(io: FileIO, file: LiveFile, positions: Ints) -> npt.NDArray[np.bool_]:
    """Which of the rows at these positions are deleted in the snapshot."""
    if not file.has_deletes:
        return np.zeros(len(positions), np.bool_)
    return np.isin(positions, np.asarray(deleted_positions(io, file), np.int64))


def read_key_columns(io: FileIO, file: LiveFile, key: TableColumns, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """A file's key columns in these types, read as every other column of it is.

    Raises:
        NotProjected: it has not all of them, and nothing says what they are.
        OSError: the file cannot be read; each store has exceptions of its own.
    """
    with io.new_input(file.path).open() as stream:
        opened = open_parquet(stream)
        try:
            columns = FileColumns(opened.schema_arrow, key, file.spec_id, file.partition)
            table = columns.read(opened.read(columns.names, use_threads=False))
        except NotProjected as error:
            raise NotProjected(f"the keys in {file.path} cannot be read: {error}") from error
    found = map(plain, table.columns)
    return [column if column.type == kind else column.cast(kind) for column, kind in zip(found, kinds, strict=True)]


def read_rows(io: FileIO, file: LiveFile, columns: TableColumns, positions: Ints) -> pa.Table:
    """These columns of the rows at these positions, in any order.

    Raises:
        NotProjected: the file has not all of the columns, and nothing says what they are.
        OSError: the file cannot be read; each store has exceptions of its own.
    """
    with io.new_input(file.path).open() as stream:
        opened = open_parquet(stream)
        try:
            found = FileColumns(opened.schema_arrow, columns, file.spec_id, file.partition)
            sizes = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
            ends = np.cumsum(sizes)
            group_of = np.searchsorted(ends, positions, side="right")
            groups, number = np.unique(group_of, return_inverse=True)
            # Of a file without any of the columns one that it has says how many rows there are.
            names = found.names or opened.schema_arrow.names[:1]
            rows = found.read(opened.read_row_groups(groups.tolist(), names, use_threads=False))
        except NotProjected as error:
            raise NotProjected(f"rows of {file.path} cannot be read: {error}") from error
    begins = np.cumsum(np.append(0, np.asarray(sizes)[groups]))[:-1]
    first = ends[group_of] - np.asarray(sizes)[group_of]
    return rows.take(pa.array(begins[number] + positions - first))


def rows_at_once(file: LiveFile, bytes_at_once: int) -> int:
    """How many rows of the file take about so many bytes in memory, where files are packed four times as small."""
    return max(1, bytes_at_once * file.record_count // max(1, 4 * file.file_size_bytes))


def row_ids_in(io: FileIO, file: LiveFile) -> Ints | None:
    """The row ids that a file itself holds, -1 for a row without one; None where it has no such column."""
    with io.new_input(file.path).open() as stream:
        opened = parquet_file(stream)
        ids = (field.name for field in opened.schema_arrow if (field.metadata or {}).get(_FIELD_ID) == _ROW_ID_FIELD)
        if (name := next(ids, None)) is None:
            return None
        held = opened.read([name], use_threads=False).column(0).combine_chunks()
    return np.asarray(pc.fill_null(held, -1), np.int64)


def _row_ids(io: FileIO, file: LiveFile, positions: Ints) -> Ints:
    held = row_ids_in(io, file) if file.first_row_id is not None and len(positions) else None
    return inherited(file, positions, None if held is None else held[positions])


def inherited(file: LiveFile, positions: Ints, held: Ints | None) -> Ints:
    """The specification's rule: the id that the file holds for a row, else the file's first plus the position."""
    if file.first_row_id is None:
        return np.full(len(positions), -1, np.int64)
    ids = file.first_row_id + positions
    return ids if held is None else np.where(held >= 0, held, ids)


class _LookUp:
    """Values of key columns to the row of their key. Several columns are taken one after the other: the numbers that
    stand for those so far, and the next column's, make a new number."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._sets = [column if len(columns) == 1 else pc.unique(column) for column in columns]
        self._pairs: list[tuple[int, Ints]] = []
        # A column that is the whole key has each value once.
        codes: Ints = np.arange(len(columns[0])) if len(columns) == 1 else _codes(columns[0], self._sets[0])
        for column, values in zip(columns[1:], self._sets[1:], strict=True):
            made = codes * len(values) + _codes(column, values)
            distinct, codes = np.unique(made, return_inverse=True)
            self._pairs.append((len(values), distinct))
        # The row of the key that a number stands for.
        self._rows = np.empty(len(codes), np.int64)
        self._rows[codes] = np.arange(len(codes))

    def rows_of(self, columns: Sequence[pa.Array]) -> Ints:
        """For each row of the columns the row of its key, -1 where it is none of the keys."""
        codes = _codes(columns[0], self._sets[0])
        for column, values, (width, distinct) in zip(columns[1:], self._sets[1:], self._pairs, strict=True):
            made = np.where(codes >= 0, codes * width, -1)
            more = _codes(column, values)
            made = np.where((made >= 0) & (more >= 0), made + more, -1)
            places = np.minimum(np.searchsorted(distinct, made), max(len(distinct) - 1, 0))
            codes = np.where((made >= 0) & (distinct[places] == made), places, -1)
        return np.where(codes >= 0, self._rows[np.maximum(codes, 0)], -1)


def _codes(values: pa.Array, among: pa.Array) -> Ints:
    found: Ints = np.asarray(pc.fill_null(pc.index_in(values, value_set=among), -1)).astype(np.int64)
    return found


class _KeyBounds:
    """Which files may hold one of the keys, by the bounds of their first key column, where these can be compared."""

    def __init__(self, key_ids: Sequence[int], columns: Sequence[pa.Array]) -> None:
        self._id = key_ids[0]
        self._numbers: Ints | None = None
        self._texts: tuple[bytes, bytes] | None = None
        kind, column = columns[0].type, columns[0]
        is_ns = pa.types.is_timestamp(kind) and kind.unit == "ns"
        self._of_a_day = 86_400 * (10**9 if is_ns else 10**6) if pa.types.is_timestamp(kind) else 1
        if not len(column):
            return
        if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            whole = column.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date32(kind) else column.cast(pa.int64())
            self._numbers = np.sort(np.asarray(whole, np.int64))
        elif pa.types.is_large_string(kind):
            least = pc.min_max(column).as_py()
            self._texts = least["min"].encode(), least["max"].encode()

    def may_hold(self, file: LiveFile) -> bool:
        lower, upper = file.lower_bounds.get(self._id), file.upper_bounds.get(self._id)
        if not lower or not upper:
            return True
        if self._texts is not None:
            return bool(self._texts[0] <= upper and lower <= self._texts[1])
        if self._numbers is None or len(lower) not in (4, 8) or len(upper) not in (4, 8):
            return True
        # A column of moments may have been one of dates when the file was written.
        units = [self._of_a_day if len(bound) == 4 else 1 for bound in (lower, upper)]
        first, last = (
            int.from_bytes(bound, "little", signed=True) * unit
            for bound, unit in zip((lower, upper), units, strict=True)
        )
        return bool(np.searchsorted(self._numbers, first) < np.searchsorted(self._numbers, last, "right"))
