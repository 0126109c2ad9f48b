"""Columns of text that are kept as places in a dictionary, from the parser to the Parquet file.

In: Arrow columns, of which text, and lists of text, may be dictionary-encoded. Out: the same values plain, or the type
that they have plain. Whoever does not know of encoded columns is never given one: they are made only where they are
asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from framework.record.rows.nested_slices import own_entries


def is_encoded(kind: pa.DataType) -> bool:
    """Whether a column of this type, or what its lists hold, is places in a dictionary."""
    return bool(pa.types.is_dictionary(kind) or (pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type)))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the same values, none of them encoded."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        return pa.list_(kind.value_field.with_type(kind.value_type.value_type))
    return kind


@lru_cache(maxsize=256)
def plain_schema(schema: pa.Schema) -> pa.Schema:
    """As `plain_type`, of all columns."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema], metadata=schema.metadata)


def like(field: pa.Field, kind: pa.DataType) -> pa.Field:
    """`field` for values that are encoded as `kind` is; its own names and metadata stay, in lists too."""
    if pa.types.is_dictionary(kind):
        return field.with_type(kind)
    if is_encoded(kind):
        return field.with_type(pa.list_(field.type.value_field.with_type(kind.value_type)))
    return field


def schema_like(schema: pa.Schema, kinds: Sequence[pa.DataType]) -> pa.Schema:
    """`schema` for columns of which some are encoded."""
    if not any(map(is_encoded, kinds)):
        return schema
    fields = [like(field, kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, metadata=schema.metadata)


def plain(values: pa.Array) -> pa.Array:
    """The values, none of them encoded."""
    if not is_encoded(values.type):
        return values
    if pa.types.is_dictionary(values.type):
        return values.dictionary_decode()
    offsets, (elements,) = own_entries(values, values.values)
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(offsets, elements.dictionary_decode(), type=plain_type(values.type), mask=mask)


def together(pieces: Sequence[pa.Table]) -> pa.Table:
    """Rows of one table from several blocks, in some of which a column may be encoded and in others not."""
    first = pieces[0].schema
    if not all(piece.schema.equals(first) for piece in pieces):
        kinds = [{piece.schema.field(i).type for piece in pieces} for i in range(len(first))]
        mixed = [i for i, found in enumerate(kinds) if len(found) > 1]
        pieces = [_with_plain(piece, mixed) for piece in pieces]
    return pa.concat_tables(pieces)


def _with_plain(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    for i in places:
        field, column = rows.schema.field(i), rows.column(i)
        kind = plain_type(field.type)
        rows = rows.set_column(i, field.with_type(kind), pa.chunked_array([plain(c) for c in column.chunks], kind))
    return rows


def held_bytes(rows: pa.Table) -> int:
    """What the rows take in memory but for dictionaries, which rows of many tables and blocks share."""
    return sum(_held_bytes(chunk) for column in rows.columns for chunk in column.chunks)


def _held_bytes(values: pa.Array) -> int:
    if pa.types.is_dictionary(values.type):
        return int(values.indices.nbytes)
    if is_encoded(values.type):
        return 4 * len(values) + _held_bytes(values.flatten())
    return int(values.nbytes)


def plain_table(rows: pa.Table) -> pa.Table:
    """The rows with no column encoded."""
    if not any(is_encoded(field.type) for field in rows.schema):
        return rows
    columns = [
        pa.chunked_array([plain(chunk) for chunk in column.chunks], plain_type(column.type)) for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, schema=plain_schema(rows.schema))
