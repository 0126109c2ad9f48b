"""Which of a table's schemas may still be written for: the check behind "every field id written must still be live".

In: all schemas of a table and the id of the current one. Out: the ids whose files may no longer be added, because a
field of theirs is gone, has a type that is no legal promotion, has moved, or may be null where that is now forbidden.
Keeps the schema's part of invariant 4: a file is committed only under a definition that can still read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)


def unusable_schema_ids(schemas: Mapping[int, Schema], current_id: int) -> frozenset[int]:
    """The ids of schemas whose data files may not be added to a table whose current schema is `current_id`.

    Ids below the highest one that are missing from `schemas` (removed by maintenance) count as unusable: what they said
    can no longer be checked.
    """
    current = schemas[current_id].as_struct()
    missing = set(range(max(schemas) + 1)) - set(schemas)
    unusable = {schema_id for schema_id, schema in schemas.items() if not _readable(schema.as_struct(), current)}
    return frozenset(missing | unusable)


def _readable(written: IcebergType, now: IcebergType) -> bool:
    """Whether a value written as one type is read exactly as another (Iceberg's schema evolution rules)."""
    if isinstance(written, StructType) and isinstance(now, StructType):
        fields = {field.field_id: field for field in now.fields}
        added = fields.keys() - {field.field_id for field in written.fields}
        if any(fields[field_id].required and fields[field_id].initial_default is None for field_id in added):
            return False
        return all(_field_readable(field, fields.get(field.field_id)) for field in written.fields)
    if isinstance(written, ListType) and isinstance(now, ListType):
        return _field_readable(written.element_field, now.element_field)
    if isinstance(written, MapType) and isinstance(now, MapType):
        pairs = ((written.key_field, now.key_field), (written.value_field, now.value_field))
        return all(_field_readable(before, after) for before, after in pairs)
    if isinstance(written, DecimalType) and isinstance(now, DecimalType):
        return written.scale == now.scale and written.precision <= now.precision
    if isinstance(written, IntegerType) and isinstance(now, LongType):
        return True
    if isinstance(written, FloatType) and isinstance(now, DoubleType):
        return True
    return written == now


def _field_readable(written: NestedField, now: NestedField | None) -> bool:
    if now is None or now.field_id != written.field_id:
        return False
    return (written.required or not now.required) and _readable(written.field_type, now.field_type)
