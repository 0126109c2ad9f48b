"""Whether a live row is newer than the record that would replace it: by the values of the column that orders records.

In: live rows that were found for keys, and each key's value. Out: the keys whose row is newer. A file is read only if
its upper bound says that it may hold a newer row; of it only that column is read. A row without a value is older than
every record.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.project_by_id import TableColumns
from framework.adapters.iceberg.upsert.search import Hits, read_key_columns
from framework.adapters.value_bytes import plain

Flags = npt.NDArray[np.bool_]


def older_than_rows(io: FileIO, files: Sequence[LiveFile], hits: Hits, order: pa.Array, column: TableColumns) -> Flags:
    """Which keys have a live row that is newer than their record.

    Args:
        files: those that `hits` counts.
        order: of each key the record's value, in the table's own type; no nulls.
        column: the column of the table.

    Raises:
        OSError: a data file cannot be read; each store has exceptions of its own.
    """
    order = plain(order)
    (order_id,) = column.field_ids
    is_older = np.zeros(len(order), np.bool_)
    if not len(hits):
        return is_older
    by_file = np.argsort(hits.files, kind="stable")
    numbers, starts = np.unique(hits.files[by_file], return_index=True)
    for number, start, end in zip(numbers, starts, [*starts[1:], len(by_file)], strict=True):
        rows = by_file[start:end]
        file, keys = files[number], hits.keys[rows]
        values = order.take(pa.array(keys))
        bound = upper_bound(file, order_id, order.type)
        if bound is not None and pc.greater_equal(pc.min(values), bound).as_py():
            continue
        columns = read_key_columns(io, file, column, (order.type,))
        newer = pc.fill_null(pc.greater(columns[0].take(pa.array(hits.positions[rows])), values), False)
        is_older[keys[np.asarray(newer, np.bool_)]] = True
    return is_older


def upper_bound(file: LiveFile, field_id: int, kind: pa.DataType) -> pa.Scalar | None:
    """No row of the file has a larger value in this column; None where that is not known."""
    bound = file.upper_bounds.get(field_id)
    if not bound:
        return None
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(f"{int.from_bytes(bound, 'big', signed=True)}E{-kind.scale}"), kind)
    if pa.types.is_large_string(kind):
        try:
            return pa.scalar(bound.decode(), kind)
        except UnicodeDecodeError:
            return None
    number = int.from_bytes(bound, "little", signed=True)
    if pa.types.is_integer(kind):
        # A column may have been `int` when the file was written.
        return pa.scalar(number, kind) if len(bound) in (4, 8) else None
    if pa.types.is_date32(kind):
        return pa.scalar(number, pa.int32()).cast(kind) if len(bound) == 4 else None
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.scalar(number, pa.int64()).cast(kind) if len(bound) == 8 else None
    return None
