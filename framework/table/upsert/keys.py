"""Whether a table that is there can be upserted by a key. In: the table and its policy. Out: a Refusal, or the columns
of the key, and the one that orders records, as the table spells them. Pure; the preview of a plan and whoever writes
the table ask the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from framework.config.spec import Deletes, NameCase
from framework.table.changes import Refusal
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema

DELETES_SINCE = 2
DELETION_VECTORS_SINCE = 3
# Of which any two values are equal or one is larger, for every reader in the same way; texts by their UTF-8 bytes.
_ORDERED = (
    IntegerType,
    LongType,
    DecimalType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
    StringType,
)


@dataclass(frozen=True)
class TableKey:
    """The columns of a key in the order of the policy, with ids and types of the table; `optional` are those that may
    be null. The larger value of `order` is newer; None where the source's own order holds."""

    fields: tuple[NestedField, ...]
    order: NestedField | None = None

    @property
    def optional(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if not field.required)


def key_of(table: TableTarget) -> TableKey | Refusal:
    """The key of an upsert table, or why it cannot be upserted."""
    write = table.policy.write
    if (reason := _deletes_lacking(table)) is not None:
        return Refusal(table.name, (), reason, "FLOE-T113")
    schema = parse_schema(table.schema_json)
    fields = []
    for column in write.key:
        field = _column(schema, column, table.policy.case is NameCase.INSENSITIVE)
        if field is None:
            return Refusal(table.name, (column,), f"the table has no column {column}, which is in its key", "FLOE-T111")
        if not field.field_type.is_primitive or isinstance(field.field_type, FloatType | DoubleType):
            reason = f"column {column} is {field.field_type}, which cannot be part of a key"
            return Refusal(table.name, (column,), reason, "FLOE-T112")
        fields.append(field)
    if write.order_field is None:
        return TableKey(tuple(fields))
    order = _column(schema, write.order_field, table.policy.case is NameCase.INSENSITIVE)
    if order is None:
        reason = f"the table has no column {write.order_field}, which says which record is newer"
        return Refusal(table.name, (write.order_field,), reason, "FLOE-T114")
    if (reason := unordered(order)) is not None:
        return Refusal(table.name, (write.order_field,), reason, "FLOE-T114")
    return TableKey(tuple(fields), order)


def unordered(field: NestedField) -> str | None:
    """Why the values of a column do not say which record is newer; None where they do."""
    if not is_ordered(field.field_type):
        return f"column {field.name} is {field.field_type}, which says of no two records for certain which is newer"
    return None


def is_ordered(kind: IcebergType) -> bool:
    """Whether of any two values of this type it is certain which is larger."""
    return isinstance(kind, _ORDERED)


def _deletes_lacking(table: TableTarget) -> str | None:
    """What of the deletes that the policy asks for the table's format version does not have."""
    version, deletes = table.format_version, table.policy.write.deletes
    if version < DELETES_SINCE:
        return f"its format version is {version}, which knows no deletes"
    if deletes is Deletes.DELETION_VECTORS and version < DELETION_VECTORS_SINCE:
        return f"its format version is {version}, which has no deletion vectors"
    if deletes is Deletes.POSITION_DELETES and version >= DELETION_VECTORS_SINCE:
        return f"its format version is {version}, which has deletion vectors instead of position deletes"
    return None


def _column(schema: Schema, name: str, insensitive: bool) -> NestedField | None:
    wanted = name.lower() if insensitive else name
    return next((f for f in schema.fields if (f.name.lower() if insensitive else f.name) == wanted), None)
