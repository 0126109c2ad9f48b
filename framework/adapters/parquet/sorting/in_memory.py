"""Rows of one file in the order that the table asks for, with PyIceberg's own transforms.

In: an Arrow table in the file schema and the table's sort order. Out: the same rows in that order: nulls first or last
as each field says, NaN above every number, equal rows as they came.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import UnknownTransform, VoidTransform

from framework.adapters.parquet.partition import transformed


def can_sort(order: SortOrder, schema: Schema) -> bool:
    """Whether files of the schema can be written in this order; if not, they are written unsorted and say so."""
    known = set(schema.field_ids)
    return bool(order.fields) and all(
        field.source_id in known and not isinstance(field.transform, UnknownTransform) for field in order.fields
    )


def sorted_rows(rows: pa.Table, order: SortOrder, schema: Schema) -> pa.Table:
    """The rows in the table's order."""
    indices = sort_indices(rows, order, schema) if len(rows) > 1 else None
    return rows if indices is None else rows.take(indices)


def sort_indices(rows: pa.Table, order: SortOrder, schema: Schema) -> pa.Array | None:
    """Which row is the first of the table's order, which the next; None where the order leaves them as they are. Asks
    for no columns but those of the order."""
    columns: list[pa.Array] = []
    keys: list[tuple[str, str, str]] = []

    def add(column: pa.Array, direction: str, nulls: str) -> None:
        keys.append((str(len(columns)), direction, nulls))
        columns.append(column)

    for field in order.fields:
        if isinstance(field.transform, VoidTransform):
            continue
        column = transformed(rows, schema, field.source_id, field.transform)
        direction = "descending" if field.direction is SortDirection.DESC else "ascending"
        nulls = "at_start" if field.null_order is NullOrder.NULLS_FIRST else "at_end"
        if pa.types.is_floating(column.type):
            # Arrow puts NaN beside the nulls, Iceberg above every number.
            add(pc.is_nan(column), direction, nulls)
        add(column, direction, nulls)
    if not keys:
        return None
    return pc.sort_indices(pa.table(columns, names=[name for name, _, _ in keys]), options=pc.SortOptions(keys))
