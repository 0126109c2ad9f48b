"""The columns of a table that is there, as observed types: what another table must have to hold the same values.

In: a schema. Out: its columns by name. Columns of types that floe does not write are left out.
"""

from __future__ import annotations

from functools import lru_cache

from pyiceberg.types import IcebergType, ListType, MapType, StructType

from framework.table.model import ObservedType
from framework.table.schema.arrow import arrow_type, parse_schema


def observed(kind: IcebergType) -> ObservedType:
    """An Iceberg type as an observed one."""
    if isinstance(kind, StructType):
        return ["struct", [[field.name, observed(field.field_type)] for field in kind.fields]]
    if isinstance(kind, ListType):
        return ["list", observed(kind.element_type)]
    if isinstance(kind, MapType):
        return ["map", observed(kind.key_type), observed(kind.value_type)]
    return str(kind)


@lru_cache(maxsize=256)
def _columns(schema_json: str) -> tuple[tuple[str, ObservedType], ...]:
    fields = parse_schema(schema_json).fields
    return tuple(
        (field.name, observed(field.field_type)) for field in fields if arrow_type(field.field_type) is not None
    )


def observed_columns(schema_json: str) -> dict[str, ObservedType]:
    """The columns of a table, in its order."""
    return dict(_columns(schema_json))
