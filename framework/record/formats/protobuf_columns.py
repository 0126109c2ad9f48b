"""Protobuf messages as columns.

In: a message's descriptor. Out: a `StructColumn` that takes values out of parsed messages. int64 stays exact, uint64
becomes decimal(20, 0), enums become their names, wrappers and oneofs columns that may be null; a Timestamp is a
timestamptz, a Duration its seconds and nanoseconds, Struct and messages that hold themselves are JSON text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf import json_format

from framework.record.formats.columns import (
    ColumnBuilder,
    JsonTextColumn,
    MappedColumn,
    PlainColumn,
    StructColumn,
    Take,
    Values,
    list_column,
    map_column,
    plain_column,
    struct_column,
)

_TIMESTAMP = "google.protobuf.Timestamp"
_JSON = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"})
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_MAX_INT64 = (1 << 63) - 1
# FieldDescriptor.cpp_type -> column
_SCALARS: dict[int, PlainColumn] = {
    1: plain_column("int"),
    2: plain_column("long"),
    3: plain_column("long"),  # uint32
    4: PlainColumn("decimal(20, 0)", pa.decimal128(20, 0)),  # uint64
    5: plain_column("double"),
    6: plain_column("float"),
    7: plain_column("boolean"),
    9: plain_column("string"),
}
_ENUM, _STRING, _MESSAGE, _BYTES = 8, 9, 10, 12


@dataclass(frozen=True)
class _TimestampColumn(ColumnBuilder):
    """Seconds and nanoseconds as a moment: in microseconds where that is exact for all, else in nanoseconds."""

    def build(self, values: Values) -> pa.Array:
        if any(v is not None and not 0 <= v.nanos < 1_000_000_000 for v in values):
            raise ValueError("a moment has 0 to 999,999,999 nanoseconds")
        nanoseconds = [None if v is None else v.seconds * 1_000_000_000 + v.nanos for v in values]
        if all(n is None or n % 1000 == 0 for n in nanoseconds):
            return pa.array([None if n is None else n // 1000 for n in nanoseconds], pa.timestamp("us", "UTC"))
        if any(n is not None and abs(n) > _MAX_INT64 for n in nanoseconds):
            raise OverflowError("the moment is too far away to be counted in nanoseconds")
        return pa.array(nanoseconds, pa.timestamp("ns", "UTC"))


def message_column(descriptor: Any, inside: tuple[str, ...] = ()) -> StructColumn:
    """The columns of a message; `inside` are the full names of the messages around it."""
    around = (*inside, descriptor.full_name)
    return struct_column((f.name, _field(f, around), _take(f)) for f in descriptor.fields)


def inner_messages(descriptor: Any) -> list[Any]:
    """The messages of a message's fields."""
    return [field.message_type for field in descriptor.fields if field.message_type is not None]


def is_map(field: Any) -> bool:
    return bool(field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry)


def _field(field: Any, around: tuple[str, ...]) -> ColumnBuilder:
    if is_map(field):
        entry = field.message_type.fields_by_name
        return map_column(_one(entry["value"], around), _one(entry["key"], around))
    column = _one(field, around)
    return list_column(column) if field.is_repeated else column


def _one(field: Any, around: tuple[str, ...]) -> ColumnBuilder:
    """The column of one value of a field."""
    if field.message_type is not None:
        return _of_message(field.message_type, around)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # A number that the schema has no name for stays a number.
        return MappedColumn("string", _SCALARS[_STRING], lambda number: names.get(number, str(number)))
    if field.type == _BYTES:
        return plain_column("binary")
    return _SCALARS[field.cpp_type]


def _of_message(descriptor: Any, around: tuple[str, ...]) -> ColumnBuilder:
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return _TimestampColumn("timestamptz_ns")
    if name in _WRAPPERS:
        inner = _one(descriptor.fields_by_name["value"], around)
        return MappedColumn(inner.kind, inner, lambda message: message.value)
    if name in _JSON or name in around:
        return JsonTextColumn("string", _json)
    if not descriptor.fields:
        return MappedColumn("boolean", _SCALARS[7], lambda message: True)  # a column needs a type: it is there
    return message_column(descriptor, around)


def _json(message: Any) -> Any:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, descriptor_pool=message.DESCRIPTOR.file.pool
    )


def _take(field: Any) -> Take:
    """The values of a field; None where it is absent, if it can be."""
    name = field.name
    if not field.is_repeated and field.has_presence:

        def present(values: Values) -> Values:
            return [getattr(v, name) if v is not None and v.HasField(name) else None for v in values]

        return present

    def take(values: Values) -> Values:
        try:
            return [getattr(v, name) for v in values]
        except AttributeError:
            return [None if v is None else getattr(v, name) for v in values]

    return take
