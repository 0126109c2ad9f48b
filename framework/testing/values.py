"""Values of table columns as people write them in YAML, and whether two of them are the same.

In: values of Arrow columns with their Iceberg types, and nodes of a pipeline file. Out: plain values for showing and
for writing expectations; differences with places. A moment is compared as a moment, a decimal as a number, everything
else as is.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.config.tree import Mapping, Node, Scalar, Sequence, plain
from framework.diagnose.diagnostic import Span
from framework.record.convert.iso_time import parse_moment, parse_time
from framework.record.convert.numbers import double_keeps

Plain = Any  # None, bool, int, float, str, or lists and dicts of them: what a YAML file can hold
_MOMENTS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_BASE64 = "base64:"


@dataclass(frozen=True)
class ValueDifference:
    """One value that is not as expected.

    Args:
        path: dotted, from the column on.
        node: the expected value, or the row where the value is not named in it.
        missing: there is no such column or field.
        named: the expectation names the value.
    """

    path: str
    node: Node
    span: Span
    expected: Plain
    actual: Plain
    missing: bool = False
    named: bool = True


def rows_of(table: pa.Table | None, schema: Schema) -> list[dict[str, Plain]]:
    """The rows of a table as plain values, in order, with the table's own column names."""
    if table is None:
        return []
    kinds = {field.name: field.field_type for field in schema.fields}
    columns = {
        name: [_shaped(shown(value), kinds.get(name)) for value in _python(table.column(name))]
        for name in table.column_names
    }
    return [{name: columns[name][i] for name in kinds if name in columns} for i in range(len(table))]


def _python(column: pa.ChunkedArray) -> list[object]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        # Python has no dates beyond the years 1 to 9999, Iceberg has; they are shown as numbers since 1970.
        return list(column.cast(pa.int64()).to_pylist())


def shown(value: object) -> Plain:
    """A value of an Arrow column as YAML can hold it: moments as ISO 8601, decimals and UUIDs as text, bytes as text
    where they are, else as `base64:...`."""
    if isinstance(value, dict):
        return {str(name): shown(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):  # Arrow's maps
            return {str(shown(key)): shown(inner) for key, inner in value}
        return [shown(item) for item in value]
    if isinstance(value, datetime):
        text = value.isoformat()
        return text.removesuffix("+00:00") + "Z" if value.tzinfo else text
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, bytes):
        return _text_or_base64(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    return value


def _shaped(value: Plain, kind: IcebergType | None) -> Plain:
    """The value with empty maps as such: in Arrow, a map without entries is an empty list."""
    if isinstance(kind, MapType):
        return (
            {key: _shaped(item, kind.value_type) for key, item in value.items()}
            if isinstance(value, dict)
            else ({} if value == [] else value)
        )
    if isinstance(kind, ListType) and isinstance(value, list):
        return [_shaped(item, kind.element_type) for item in value]
    if isinstance(kind, StructType) and isinstance(value, dict):
        kinds = {field.name: field.field_type for field in kind.fields}
        return {name: _shaped(item, kinds.get(name)) for name, item in value.items()}
    return value


def _text_or_base64(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = _BASE64
    if text.isprintable() and not text.startswith(_BASE64):
        return text
    return _BASE64 + base64.b64encode(value).decode()


def row_differences(expected: Mapping, actual: dict[str, Plain], schema: Schema, exact: bool) -> list[ValueDifference]:
    """Where a row is not as expected; with `exact`, columns that are not named must be null."""
    return list(_struct(expected, actual, schema.as_struct(), "", exact))


def _struct(
    expected: Mapping, actual: dict[str, Plain], kind: StructType, path: str, exact: bool
) -> Iterator[ValueDifference]:
    kinds = {field.name: field.field_type for field in kind.fields}
    for entry in expected.entries:
        where = f"{path}.{entry.key}" if path else entry.key
        if entry.key not in kinds:
            yield ValueDifference(where, entry.value, entry.key_span, plain(entry.value), None, missing=True)
        else:
            yield from _value(entry.value, actual.get(entry.key), kinds[entry.key], where, exact)
    if exact:
        for name, value in actual.items():
            if value is not None and name not in expected.keys:
                where = f"{path}.{name}" if path else name
                yield ValueDifference(where, expected, expected.span, None, value, named=False)


def _value(expected: Node, actual: Plain, kind: IcebergType, path: str, exact: bool) -> Iterator[ValueDifference]:
    if isinstance(kind, StructType) and isinstance(expected, Mapping) and isinstance(actual, dict):
        yield from _struct(expected, actual, kind, path, exact)
        return
    if isinstance(kind, MapType) and isinstance(expected, Mapping) and isinstance(actual, dict):
        if set(expected.keys) == set(actual):
            for entry in expected.entries:
                yield from _value(entry.value, actual[entry.key], kind.value_type, f"{path}['{entry.key}']", exact)
            return
    elif isinstance(kind, ListType) and isinstance(expected, Sequence) and isinstance(actual, list):
        if len(expected.items) == len(actual):
            for i, item in enumerate(expected.items):
                yield from _value(item, actual[i], kind.element_type, f"{path}[{i}]", exact)
            return
    elif isinstance(expected, Scalar) and _same(expected, actual, kind):
        return
    yield ValueDifference(path, expected, expected.span, plain(expected), actual)


def _same(expected: Scalar, actual: Plain, kind: IcebergType) -> bool:
    value = expected.value
    if value is None or actual is None:
        return value is None and actual is None
    if isinstance(value, bool) or isinstance(actual, bool):
        return value is actual
    if isinstance(kind, (IntegerType, LongType)):
        return isinstance(value, int) and bool(value == actual)
    if isinstance(kind, (FloatType, DoubleType)):
        return _same_float(value, actual, isinstance(kind, FloatType))
    if isinstance(kind, DecimalType):
        return _decimal(expected.text if isinstance(value, float) else value) == _decimal(actual)
    if isinstance(kind, _MOMENTS):
        return _instant(value) is not None and _instant(value) == _instant(actual)
    if isinstance(kind, TimeType):
        return parse_time(str(value), None) == parse_time(str(actual), None)
    if isinstance(kind, DateType):
        return str(value) == str(actual)
    if isinstance(kind, UUIDType):
        return str(value).lower() == str(actual).lower()
    return isinstance(value, str) and bool(value == actual)


def _same_float(value: object, actual: Plain, single: bool) -> bool:
    if isinstance(value, str) or isinstance(actual, str):
        return bool(value == actual)
    if not isinstance(value, (int, float)) or not isinstance(actual, (int, float)):
        return False
    if isinstance(value, int) and not double_keeps(str(value)):
        return False  # the number of a float is another one
    number, found = float(value), float(actual)
    same_sign = math.copysign(1, number) == math.copysign(1, found)  # -0.0 is not 0.0
    return same_sign and bool(number == found or (single and _single(number) == found))


def _single(number: float) -> float:
    """The nearest float of four bytes."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return number


def _decimal(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _instant(value: object) -> tuple[int, bool] | int | None:
    """A moment as nanoseconds and whether it has a zone; a number (of a year Python cannot show) as it is."""
    if isinstance(value, int):
        return value
    moment = parse_moment(str(value), None)
    if moment is None:
        return None
    offset = moment.offset_seconds or 0
    return moment.local_nanoseconds - offset * 1_000_000_000, moment.offset_seconds is not None


def type_text(kind: IcebergType) -> str:
    """A type as Iceberg's, without the ids of nested fields: `struct<name: string, tags: list<string>>`."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{field.name}: {type_text(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{type_text(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.value_type)}>"
    return str(kind)


def in_words(value: Plain, limit: int = 200) -> str:
    """A value in a message: text in quotes, the rest as JSON, cut to `limit` characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else text[: limit - 1] + "…"
