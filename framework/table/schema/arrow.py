"""Iceberg schemas as Arrow schemas, with Iceberg's field ids in the metadata Parquet files need.

In: a table's schema JSON (as TableTarget carries it). Out: the parsed Iceberg schema and the Arrow schema of its files.
The same mapping PyIceberg writes, kept here because its module also opens files, which pure code must not import.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType

from framework.table.schema.types import PLAIN_TYPES

_FIELD_ID = b"PARQUET:field_id"
_PLAIN: dict[type[IcebergType], pa.DataType] = {type(kind): arrow for kind, arrow in PLAIN_TYPES.items()}


@lru_cache(maxsize=4096)
def parse_schema(schema_json: str) -> Schema:
    """The Iceberg schema of its JSON; cached, since tasks ask for each block."""
    return Schema.model_validate_json(schema_json)


def arrow_type(kind: IcebergType) -> pa.DataType | None:
    """The Arrow type of a file's column; None for types floe does not write (unknown, variant, geometry, geography)."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(len(kind))
    if isinstance(kind, StructType):
        children = [arrow_field(child) for child in kind.fields]
        return None if any(child is None for child in children) else pa.struct(children)
    if isinstance(kind, ListType):
        element = arrow_field(kind.element_field)
        return None if element is None else pa.list_(element)
    if isinstance(kind, MapType):
        key, value = arrow_field(kind.key_field), arrow_field(kind.value_field)
        return None if key is None or value is None else pa.map_(key, value)
    return _PLAIN.get(type(kind))


def arrow_field(field: NestedField) -> pa.Field | None:
    """The Arrow field of an Iceberg field: name, type, nullability, field id; None for types floe does not write."""
    kind = arrow_type(field.field_type)
    if kind is None:
        return None
    return pa.field(field.name, kind, nullable=field.optional, metadata={_FIELD_ID: str(field.field_id).encode()})


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's files. A column of a type floe does not write is left out; reading gives null
    there."""
    return pa.schema([field for column in schema.fields if (field := arrow_field(column)) is not None])


def always_required(schema: Schema) -> frozenset[int]:
    """The ids of the fields that identify rows and of the structs around them: Iceberg requires their values."""
    found: set[int] = set()

    def walk(fields: tuple[NestedField, ...]) -> bool:
        holds = False
        for child in fields:
            inside = isinstance(child.field_type, StructType) and walk(child.field_type.fields)
            if inside or child.field_id in schema.identifier_field_ids:
                found.add(child.field_id)
                holds = True
        return holds

    walk(schema.fields)
    return frozenset(found)


def unused_name(schema: Schema, name: str) -> str:
    """A name like this one that no column at the top of the schema has, for a column that travels beside them."""
    taken = {field.name for field in schema.fields}
    while name in taken:
        name += "_"
    return name
