"""Rows of any number in the table's order, piece by piece, while only a bounded part of them is in memory.

In: Arrow rows in the file schema, in any order. Out: the same rows as `sorted_rows` gives them, equal ones as they came.
What does not fit is sorted run by run into a temporary file without a name, which goes with the process, and the runs
are merged: rows are given out once no run can have one that comes before them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from framework.adapters.parquet.partition import leaves
from framework.adapters.parquet.sorting.in_memory import sort_indices, sorted_rows

# Rows of one run; sorting them takes about twice as much again.
RUN_BYTES = 64 * 1024 * 1024
# Rows that are merged at a time, beside one batch of each run.
MERGED_BYTES = 16 * 1024 * 1024
BATCH_BYTES = 512 * 1024


def sorted_pieces(
    pieces: Iterable[pa.Table],
    order: SortOrder,
    schema: Schema,
    run_bytes: int = RUN_BYTES,
    merged_bytes: int = MERGED_BYTES,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.Table]:
    """All rows of the pieces, none of which has columns that are encoded as dictionaries.

    Raises:
        OSError: the temporary folder is full.
    """
    with _Runs(order, schema, batch_bytes) as runs:
        held: list[pa.Table] = []
        size = 0
        for piece in pieces:
            for part in _cut(piece, run_bytes):
                if held and size + part.nbytes > run_bytes:
                    runs.add(held)
                    size = 0
                held.append(part)
                size += part.nbytes
        if not runs.count:
            if held:
                yield sorted_rows(_together(held), order, schema)
            return
        if held:
            runs.add(held)
        yield from runs.merged(merged_bytes)


def _cut(rows: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    if not len(rows):
        return
    step = max(1, len(rows) * most_bytes // max(1, rows.nbytes))
    yield from (rows.slice(start, step) for start in range(0, len(rows), step))


def _together(held: list[pa.Table]) -> pa.Table:
    """One table in one piece; the list is emptied, so that its rows are not held twice for longer than that takes."""
    table = pa.concat_tables(held)
    held.clear()
    return table.combine_chunks()


@dataclass(frozen=True)
class _Batch:
    """Rows of one run that lie together in the file."""

    run: int
    offset: int
    length: int


class _Runs:
    """Sorted runs in one temporary file."""

    def __init__(self, order: SortOrder, schema: Schema, batch_bytes: int) -> None:
        self._order = order
        self._schema = schema
        self._batch_bytes = batch_bytes
        wanted = {field.source_id for field in order.fields}
        # The columns that say where a row belongs, at the top of the structs that they are in.
        self._keys = list(dict.fromkeys(path[0] for path, field in leaves(schema.fields) if field.field_id in wanted))
        self._file = tempfile.TemporaryFile(prefix="floe-sort-")  # noqa: SIM115  # closed by `__exit__`
        self._batches: list[_Batch] = []
        self._firsts: list[pa.Table] = []
        self._arrow: pa.Schema | None = None
        self.count = 0

    def __enter__(self) -> _Runs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, held: list[pa.Table]) -> None:
        """Takes the rows out of the list."""
        rows = sorted_rows(_together(held), self._order, self._schema)
        self._arrow = rows.schema
        for part in _cut(rows, self._batch_bytes):
            # A first row is copied, or it would hold the run that it was cut from.
            self._firsts.append(part.select(self._keys).take(pa.array([0])))
            (batch,) = part.combine_chunks().to_batches()
            written = batch.serialize()
            self._batches.append(_Batch(self.count, self._file.tell(), written.size))
            self._file.write(written)
        self.count += 1

    def merged(self, merged_bytes: int) -> Iterator[pa.Table]:
        """All rows in order. A batch is read when its first row is the next that no run has given yet; rows before the
        first row of the batch after it are complete."""
        self._file.flush()
        firsts = pa.concat_tables(self._firsts).combine_chunks()
        self._firsts.clear()
        turns = self._indices(firsts).tolist()
        held: list[list[pa.Table]] = [[] for _ in range(self.count)]
        new_bytes = 0
        for turn, following in zip(turns, [*turns[1:], None], strict=True):
            batch = self._batches[turn]
            rows = self._read(batch)
            held[batch.run].append(rows)
            new_bytes += rows.nbytes
            if following is None:
                yield self._complete(held, None, 0)
            elif new_bytes >= merged_bytes:
                yield self._complete(held, firsts.slice(following, 1), self._batches[following].run)
                new_bytes = 0

    def _complete(self, held: list[list[pa.Table]], until: pa.Table | None, run: int) -> pa.Table:
        """Takes the rows that come before row `until` of a run; equal ones of the runs up to it are among them."""
        lengths = [sum(map(len, tables)) for tables in held]
        rows = pa.concat_tables([table for tables in held for table in tables]).combine_chunks()
        if until is None:
            return rows.take(pa.array(self._indices(rows.select(self._keys))))
        place = sum(lengths[: run + 1])
        keys = rows.select(self._keys)
        indices = self._indices(pa.concat_tables([keys.slice(0, place), until, keys.slice(place)]))
        end = int(np.flatnonzero(indices == place)[0])
        given = indices[:end] - (indices[:end] > place)
        # Of each run these are its first rows, since it is sorted.
        starts = np.concatenate([[0], np.cumsum(lengths)])
        taken = np.bincount(np.searchsorted(starts, given, side="right") - 1, minlength=len(held))
        for number, tables in enumerate(held):
            rest = rows.slice(int(starts[number] + taken[number]), lengths[number] - int(taken[number]))
            # A copy: a slice would hold all rows that it was cut from.
            tables[:] = [rest.take(pa.array(np.arange(len(rest))))] if len(rest) else []
        return rows.take(pa.array(given))

    def _indices(self, keys: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        found = sort_indices(keys.combine_chunks(), self._order, self._schema)
        return np.arange(len(keys)) if found is None else found.to_numpy(zero_copy_only=False).astype(np.int64)

    def _read(self, batch: _Batch) -> pa.Table:
        found = pa.py_buffer(os.pread(self._file.fileno(), batch.length, batch.offset))
        return pa.Table.from_batches([pa.ipc.read_record_batch(found, self._arrow)])
