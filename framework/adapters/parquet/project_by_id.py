"""Columns of an older file as the table has them now: found by field id, at any depth.

In: Arrow columns with the field ids of a Parquet file, and an Iceberg schema. Out: the schema's columns: renamed, moved
and widened ones with their values, missing ones null or with their initial default. Invariant: what was null stays null,
and no value changes. PyIceberg's own reader makes an empty list of a null one whose elements are structs, and an empty
map of a null one whose values are (its ArrowProjectionVisitor builds both without what is null). When that is mended
there, this module can go; a test in tests/iceberg/test_layouts.py notices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.record.rows.nested_slices import own_entries
from framework.table.arrow_schema import arrow_type

_FIELD_ID = b"PARQUET:field_id"


class NotProjected(Exception):
    """The file cannot be read by field ids."""


def has_ids(fields: Iterable[pa.Field]) -> bool:
    """Whether each field has an id, also those inside of others."""
    return all(_id_of(field) is not None and has_ids(_inside(field.type)) for field in fields)


def field_ids(fields: Iterable[pa.Field]) -> Iterator[int]:
    """The ids of the outermost fields."""
    return (found for field in fields if (found := _id_of(field)) is not None)


def projected(table: pa.Table, schema: Schema) -> pa.Table:
    """The rows in the schema's columns.

    Raises:
        NotProjected: a required column is missing, or a type is none that Iceberg promotes to the present one.
    """
    columns = {found: number for number, field in enumerate(table.schema) if (found := _id_of(field)) is not None}
    fields, arrays = [], []
    for field in schema.fields:
        kind = _arrow(field.field_type)
        if field.field_id in columns:
            chunks = table.column(columns[field.field_id]).chunks
            array = pa.chunked_array([_as(chunk, field.field_type) for chunk in chunks], type=kind)
        else:
            array = pa.chunked_array([_missing(field, len(table))], type=kind)
        arrays.append(array)
        fields.append(pa.field(field.name, kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _as(values: pa.Array, kind: IcebergType) -> pa.Array:
    wanted = _arrow(kind)
    mask = values.is_null() if values.null_count else None
    if isinstance(kind, StructType):
        if not pa.types.is_struct(values.type):
            raise NotProjected(f"{values.type} is no struct")
        places = {found: place for place, field in enumerate(values.type) if (found := _id_of(field)) is not None}
        children = [
            _as(values.field(places[field.field_id]), field.field_type)
            if field.field_id in places
            else _missing(field, len(values))
            for field in kind.fields
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if isinstance(kind, ListType):
        if not _is_list(values.type):
            raise NotProjected(f"{values.type} is no list")
        if not pa.types.is_list(values.type):  # an Arrow writer's own choice, which it keeps beside the file's schema
            values = values.cast(pa.list_(values.type.value_field))
        offsets, (elements,) = own_entries(values, values.values)
        return pa.ListArray.from_arrays(offsets, _as(elements, kind.element_type), type=wanted, mask=mask)
    if isinstance(kind, MapType):
        if not pa.types.is_map(values.type):
            raise NotProjected(f"{values.type} is no map")
        offsets, (keys, items) = own_entries(values, values.keys, values.items)
        keys, items = _as(keys, kind.key_type), _as(items, kind.value_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=mask)
    return _promoted(values, wanted)


def _promoted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type.equals(wanted):
        return values
    try:
        if isinstance(wanted, pa.ExtensionType):
            storage = values.storage if isinstance(values, pa.ExtensionArray) else values
            return pa.ExtensionArray.from_storage(wanted, storage.cast(wanted.storage_type))
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise NotProjected(f"{values.type} is not read as {wanted}: {error}") from error


def _missing(field: NestedField, count: int) -> pa.Array:
    kind = _arrow(field.field_type)
    if field.initial_default is not None:
        return pa.repeat(pa.scalar(field.initial_default, kind), count)
    if field.required:
        raise NotProjected(f"the required column {field.name} is missing")
    return pa.nulls(count, kind)


def _arrow(kind: IcebergType) -> pa.DataType:
    found = arrow_type(kind)
    if found is None:
        raise NotProjected(f"floe writes no {kind}")
    return found


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if _is_list(kind) else []


def _is_list(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = (pa.types.is_list_view, pa.types.is_large_list_view)
    return any(check(kind) for check in (*checks, *views))


def _id_of(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(_FIELD_ID)
    return int(found) if found is not None else None
