"""Rows of one table from parsed columns, with the rows that must be converted one by one named instead of guessed.

In: parsed columns (Arrow, parse types) or one record's JSON values. Out: a table in the file schema, and a mask of rows
that no vectorised conversion takes. Keeps invariant 9: what this module cannot convert exactly it hands back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Mask
from framework.record.convert.converter import Converter
from framework.record.convert.nested import select_column
from framework.record.fit.table_shape import TableShape, UnsupportedConverter
from framework.record.rows.dictionary_text import schema_like

_PIECES = 8


def convert_columns(
    columns: dict[str, pa.Array], rows: int, shape: TableShape, metadata: dict[str, pa.Array]
) -> tuple[pa.Table, Mask | None]:
    """All rows of a table. The second value marks rows to convert one by one (their content in the table means
    nothing). Text that came encoded stays so."""
    bad: Mask | None = None
    arrays = []
    by_name = shape.root.by_name(columns.items())
    for child, name in zip(shape.root.children, shape.root.folded, strict=True):
        converter = child.converter
        if isinstance(converter, UnsupportedConverter):
            continue
        if child.name in shape.metadata:
            arrays.append(metadata[shape.metadata[child.name]])
            continue
        try:
            source = select_column(by_name.get(name, ()), child, rows)
        except pa.ArrowInvalid:
            return pa.Table.from_batches([], shape.schema), np.ones(rows, dtype=bool)
        if source is None:
            converted = pa.nulls(rows, converter.target)
        else:
            converted, failed = convert_or_mark(converter, source)
            if failed is not None:
                bad = failed if bad is None else bad | failed
        if child.required and converted.null_count:
            missing = converted.is_null().to_numpy(zero_copy_only=False)
            bad = missing if bad is None else bad | missing
        arrays.append(converted)
    if not arrays:
        return pa.table({"": pa.nulls(rows)}).select([]), bad
    if bad is not None:
        # Required columns may hold nulls in bad rows: those rows must be gone before the schema is put on.
        keep = pa.array(~bad)
        arrays = [array.filter(keep) for array in arrays]
    return pa.Table.from_arrays(arrays, schema=schema_like(shape.schema, [array.type for array in arrays])), bad


def convert_or_mark(converter: Converter, values: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Convert an array; where some values are refused, nulls in their place and a mask of them."""
    try:
        return converter.array(values), None
    except pa.ArrowInvalid:
        pass
    bad = np.zeros(len(values), dtype=bool)
    plausible = converter.plausible(values)
    if plausible is not None:
        bad = pc.invert(plausible.fill_null(True)).to_numpy(zero_copy_only=False)
        values = pc.if_else(plausible, values, pa.scalar(None, values.type)) if bad.any() else values
        try:
            return converter.array(values), bad
        except pa.ArrowInvalid:
            pass
    pieces: list[pa.Array] = []
    pending = _cut(0, len(values))
    while pending:
        first, end = pending.pop()
        piece = values.slice(first, end - first)
        try:
            pieces.append(converter.array(piece))
        except pa.ArrowInvalid:
            if end - first > 1 and piece.null_count < len(piece):
                pending += _cut(first, end)
                continue
            bad[first] |= piece.null_count == 0
            pieces.append(pa.nulls(end - first, converter.target))
    return pa.concat_arrays(pieces), bad


def _cut(first: int, end: int) -> list[tuple[int, int]]:
    """Pieces of [first, end), the last one first (they are taken from the end)."""
    step = max(1, -(-(end - first) // _PIECES))
    return [(start, min(start + step, end)) for start in range(first, end, step)][::-1]


def rows_to_table(rows: list[dict[str, object]], shape: TableShape, metadata: dict[str, pa.Array]) -> pa.Table:
    """Converted records as a table of the file schema; `metadata` arrays have one value per row."""
    arrays = []
    for child in shape.root.children:
        if isinstance(child.converter, UnsupportedConverter):
            continue
        if child.name in shape.metadata:
            arrays.append(metadata[shape.metadata[child.name]])
        else:
            arrays.append(from_python([row[child.name] for row in rows], child.converter.target))
    return pa.Table.from_arrays(arrays, schema=shape.schema)


def from_python(values: list[object], kind: pa.DataType) -> pa.Array:
    """An array of Python values; UUIDs, for which Arrow takes no Python values when nested, by way of their bytes."""
    storage = _storage(kind)
    return pa.array(values, storage) if storage == kind else pa.array(values, storage).cast(kind)


def _storage(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([child.with_type(_storage(child.type)) for child in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_storage(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_storage(kind.key_type)), kind.item_field.with_type(_storage(kind.item_type))
        )
    return kind
