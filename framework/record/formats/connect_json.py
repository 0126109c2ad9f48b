"""Kafka Connect's JSON with schemas: `{"schema": ..., "payload": ...}` to typed columns.

In: records' bytes. Out: typed rows, one part for each schema, whose text is compared and not parsed again for each
record; failures. Types are those of the schema and of the names in it (framework.record.formats.connect_types), never
guessed from values.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from framework.record.convert.numbers import exact_number, nearest_float32, times
from framework.record.failure import RecordFailure
from framework.record.formats.columns import (
    ColumnBuilder,
    DecimalColumn,
    JsonTextColumn,
    MappedColumn,
    MinusZero,
    StructColumn,
    WholeColumn,
    build_rows,
    list_column,
    map_column,
    plain_column,
    struct_column,
)
from framework.record.formats.connect_types import connect_column
from framework.record.formats.typed_rows import TypedRows
from framework.record.model import ColumnDetail
from framework.record.strict_json import NON_FINITE, NumberText, is_too_deep, parse_record

_NUMBERS = (int, MinusZero, Decimal)


def _number(text: str) -> int | Decimal:
    """A number of any length and exponent, exactly (an exponent beyond all columns' ranges is cut)."""
    if text == "-0":
        return MinusZero()
    if len(text) < 1000 and text.lstrip("-").isdigit():
        return int(text)
    found = exact_number(NumberText(text))
    if found is None:
        raise ValueError("no number")
    return found


_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_number)
_SPACE = " \t\r\n"
_PLAIN = {"boolean": "boolean", "string": "string"}
_WHOLE = {"int8": ("int", 8), "int16": ("int", 16), "int32": ("int", 32), "int64": ("long", 64)}
_FLOATS = {"float32": "float", "float": "float", "float64": "double", "double": "double"}


@dataclass
class _SchemaGroup:
    schema: dict[str, Any]
    payloads: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


@dataclass
class ConnectRecords:
    """Gathers the records of a block that carry a schema, grouped by it."""

    groups: dict[str, _SchemaGroup] = field(default_factory=dict)
    _newest: str = ""

    def take(self, data: bytes, place: int) -> bool:
        """Take a record that carries a schema; False for one that does not.

        Raises:
            RecordFailure: it is no JSON, or has a key twice.
        """
        if b'"payload"' not in data or b'"schema"' not in data:
            return False
        text = _decoded(data)
        if self._newest and text.startswith(self._newest) and not is_too_deep(data):
            payload, rest = _payload(text[len(self._newest) :])
            if rest == "}":
                return self._add(self._newest, None, payload, place)
        record = parse_record(data)
        if set(record) != {"schema", "payload"}:
            return False
        plain = _DECODER.decode(text)
        if not isinstance(plain["schema"], dict):
            return False
        head = _head(text)
        self._newest = head if head is not None else self._newest
        return self._add(head or json.dumps(plain["schema"], sort_keys=True), plain["schema"], plain["payload"], place)

    def _add(self, key: str, schema: dict[str, Any] | None, payload: Any, place: int) -> bool:
        group = self.groups.get(key)
        if group is None:
            assert schema is not None
            group = self.groups[key] = _SchemaGroup(schema)
        if payload is None:
            raise RecordFailure("decode", "FLOE-D122", "the record's payload is null, so it holds no row")
        group.payloads.append(payload)
        group.places.append(place)
        return True

    def rows(self) -> Iterator[tuple[TypedRows, dict[int, RecordFailure]]]:
        """The rows of each schema."""
        for group in self.groups.values():
            root = connect_schema_column(group.schema)
            places = np.array(group.places, dtype=np.int64)
            if not isinstance(root, StructColumn):
                failure = RecordFailure("decode", "FLOE-D102", "the payload is no object", expected="struct")
                empty = TypedRows(places[:0], pa.table({}), {})
                yield empty, dict.fromkeys(group.places, failure)
                continue
            columns, good, failures = build_rows(root, group.payloads, places)
            kinds = {name: child.kind for name, child, _ in root.children}
            yield TypedRows(good, columns, kinds, _details(group.schema)), failures


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordFailure(
            "decode", "FLOE-D104", f"the record is not UTF-8: {error.reason} at byte {error.start}"
        ) from None


def _payload(text: str) -> tuple[Any, str]:
    """The value at the beginning of a text, and what follows it. A key that is there twice is looked for by the
    caller's strict parse when the schema is first met; payloads of one producer have one form."""
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, ""
    return value, text[end:].strip(_SPACE)


def _head(text: str) -> str | None:
    """The text up to the payload, where the schema comes first."""
    start = text.find("{") + 1
    key, end = _quoted(text, start)
    if key != "schema":
        return None
    _, end = _DECODER.raw_decode(text, _after(text, end, ":"))
    key, end = _quoted(text, _after(text, end, ","))
    return text[: _after(text, end, ":")] if key == "payload" else None


def _quoted(text: str, start: int) -> tuple[str, int]:
    key, end = _DECODER.raw_decode(text, len(text) - len(text[start:].lstrip(_SPACE)))
    return str(key), end


def _after(text: str, start: int, mark: str) -> int:
    """The place behind a mark and the space around it."""
    at = text.index(mark, start) + 1
    return len(text) - len(text[at:].lstrip(_SPACE))


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields


_STRICT = json.JSONDecoder(parse_float=_number, parse_int=_number, object_pairs_hook=_no_duplicates)


# ---- the schema --------------------------------------------------------------------------------------------------


def connect_schema_column(schema: dict[str, Any]) -> ColumnBuilder:
    """The column of a Connect schema, for values as its JSON converter writes them."""
    kind, name = str(schema.get("type", "")), str(schema.get("name", "") or "")
    parameters = {k: str(v) for k, v in (schema.get("parameters") or {}).items()}
    special = connect_column(name, kind, parameters)
    if isinstance(special, DecimalColumn):
        scale = special.arrow.scale - special.zeros
        return MappedColumn(special.kind, special, lambda value: _unscaled(value, scale))
    if special is not None:
        return special
    if kind in _PLAIN:
        return plain_column(_PLAIN[kind])
    if kind in _WHOLE:
        column, bits = _WHOLE[kind]
        return WholeColumn(column, plain_column(column).arrow, bits)
    if kind in _FLOATS:
        column = _FLOATS[kind]
        return MappedColumn(column, plain_column(column), _nearest_single if column == "float" else _nearest_double)
    if kind == "bytes":
        return MappedColumn("binary", plain_column("binary"), _base64)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return list_column(connect_schema_column(schema["items"]))
    if kind == "map" and isinstance(schema.get("values"), dict) and (schema.get("keys") or {}).get("type") == "string":
        return map_column(connect_schema_column(schema["values"]))
    if kind == "struct" and isinstance(schema.get("fields"), list):
        return struct_column(
            (str(f["field"]), connect_schema_column(f), _take(str(f["field"]))) for f in schema["fields"]
        )
    return JsonTextColumn("string", _plain_numbers)


def _take(name: str) -> Callable[[list[Any]], list[Any]]:
    """A field that the converter leaves out is null."""
    return lambda values: [None if value is None else value.get(name) for value in values]


def _details(schema: dict[str, Any], path: str = "") -> dict[str, ColumnDetail]:
    found: dict[str, ColumnDetail] = {}
    for item in schema.get("fields") or ():
        here = f"{path}.{item.get('field')}" if path else str(item.get("field"))
        doc = item.get("doc")
        found[here] = ColumnDetail(doc if isinstance(doc, str) else None)
        if item.get("type") == "struct":
            found |= _details(item, here)
    return found


def _base64(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _unscaled(value: Any, scale: int) -> bytes:
    """A decimal as Connect's bytes: Base64, or (with `decimal.format: NUMERIC`) a number."""
    if isinstance(value, str):
        return _base64(value)
    if type(value) not in _NUMBERS:
        raise TypeError("it is no number")
    value = Decimal(value)
    if value and value.adjusted() > 40:
        raise OverflowError(f"{value} is out of range")
    number = times(value, 10 ** max(scale, 0))
    if number is None:
        raise ValueError(f"{value} has more than {max(scale, 0)} digits after the point")
    number, lost = divmod(number, 10 ** max(-scale, 0))
    if lost:
        raise ValueError(f"{value} does not end with {-scale} zeros")
    return int(number).to_bytes(int(number).bit_length() // 8 + 1, "big", signed=True)


def _nearest_double(value: Any) -> float:
    """The nearest double to a number; `NaN` and the infinities as the converter writes them, in quotes or not."""
    if type(value) is str and value in NON_FINITE:
        return float(value)
    if type(value) is float:
        return value  # one of the tokens: JSON's other numbers come as int and Decimal
    if type(value) not in _NUMBERS:
        raise TypeError("it is no number")
    if type(value) is MinusZero:
        return -0.0
    found = float(value)
    if math.isinf(found):
        raise OverflowError("it is beyond the type's range")
    return found


def _nearest_single(value: Any) -> float:
    double = _nearest_double(value)
    if type(value) not in _NUMBERS or double == 0:
        return double
    found = nearest_float32(str(value))
    if math.isinf(found):
        raise OverflowError("it is beyond the type's range")
    return found


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, Decimal):
        if Decimal(repr(float(value))) != value:
            raise ValueError(f"{value} would lose digits")
        return float(value)
    return value
