"""Columns that already have types (they come out of SQL) to a table's columns, exactly.

In: Arrow arrays of Spark's types and the table's converters. Out: arrays of the table's types, nulls and a mask where a
value cannot be converted exactly. Also what such a column asks of a table that lacks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import DecimalType

from framework.record.arrays import Mask, cast_decimals
from framework.record.convert.converter import Converter
from framework.record.convert.nested import ListConverter, MapConverter, StructConverter
from framework.record.convert.numbers import (
    BooleanConverter,
    DecimalConverter,
    FloatConverter,
    IntegerConverter,
    double_keeps,
    nearest_float32,
)
from framework.record.convert.text import BytesConverter, StringConverter, UuidConverter
from framework.record.convert.times import (
    TemporalConverter,
    TimestampConverter,
    number_parse_type,
    within_calendar,
)
from framework.record.failure import RecordFailure, shown
from framework.record.fit.parsed_columns import convert_or_mark, from_python
from framework.record.model import ObservedType
from framework.record.strict_json import NumberText
from framework.table.schema.types import promotes

_FIRST_LOST = 2.0**53


@dataclass(frozen=True)
class _Typed(Converter):
    """A converter that takes typed arrays by way of another one."""

    inner: Converter
    empty_is_null: bool

    def array(self, values: pa.Array) -> pa.Array:
        return _typed(values, self.inner, self.empty_is_null)


def convert_typed(converter: Converter, values: pa.Array, empty_is_null: bool) -> tuple[pa.Array, Mask | None]:
    """Convert a typed array; nulls and a mask where values are refused. `empty_is_null`: whether lists, maps and
    structs that hold nothing are null in a column of another kind."""
    return convert_or_mark(_Typed(converter.target, None, converter.type_name, converter, empty_is_null), values)


def of_kind(kind: ObservedType, held: pa.DataType, converter: Converter) -> Converter:
    """The converter, which does not take for text what a decoder gives as text but is of another kind: a UUID, a moment
    with its zone. Their digits may read as a number, or as base64."""
    if isinstance(kind, str):
        is_text = bool(pa.types.is_string(held) or pa.types.is_large_string(held))
        reads_text = not isinstance(converter, (StringConverter, UuidConverter, TemporalConverter))
        return (
            _OfAnotherKind(converter.target, None, converter.type_name)
            if is_text and kind != "string" and reads_text
            else converter
        )
    if kind[0] == "struct" and isinstance(converter, StructConverter) and pa.types.is_struct(held):
        kinds = {
            converter.fold(name): (child, held.field(name).type)
            for name, child in kind[1]
            if held.get_field_index(name) >= 0
        }
        children = (
            replace(child, converter=of_kind(*found, child.converter)) if found is not None else child
            for child in converter.children
            for found in (kinds.get(converter.fold(child.name)),)
        )
        return replace(converter, children=tuple(children))
    if (
        kind[0] == "list"
        and isinstance(converter, ListConverter)
        and (pa.types.is_list(held) or pa.types.is_large_list(held))
    ):
        return replace(converter, element=of_kind(kind[1], held.value_type, converter.element))
    if kind[0] == "map" and isinstance(converter, MapConverter) and pa.types.is_map(held):
        return replace(converter, item=of_kind(kind[2], held.item_type, converter.item))
    return converter


@dataclass(frozen=True)
class _OfAnotherKind(Converter):
    def value(self, value: object, path: str) -> object:
        raise self.failure("FLOE-D301", "is no", value, path)


def plain_value(scalar: pa.Scalar) -> object:
    """A typed value for people and rules, also where Python has none such: dates and moments out of its calendar are
    their counts, as text."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, TypeError, pa.ArrowException):
        pass
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {name: plain_value(scalar[name]) for name in scalar}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain_value(item) for item in scalar.values]
    if pa.types.is_map(kind):
        return {str(plain_value(item["key"])): plain_value(item["value"]) for item in scalar.values}
    count = scalar.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).as_py()
    unit = "days" if pa.types.is_date32(kind) else str(getattr(kind, "unit", kind))
    return f"{count} {unit} since 1970"


def typed_failure(path: str, converter: Converter, scalar: pa.Scalar, of_sql: bool = True) -> RecordFailure:
    """Why one value in a typed column, of SQL or of a schema, is no value of the table's."""
    value, kind = plain_value(scalar), scalar.type
    whose = "SQL's type" if of_sql else "type"
    return RecordFailure(
        "convert",
        "FLOE-D301",
        f"{path}: {shown(value)!r} of {whose} {kind} is no exact {converter.type_name}",
        field_path=path,
        expected=converter.type_name,
        actual=f"{kind} {shown(value)}",
    )


def _typed(values: pa.Array, converter: Converter, empty_is_null: bool) -> pa.Array:
    """At whatever depth: what is of the right type already may still hold a day that is none."""
    if not isinstance(converter, TemporalConverter):
        return _converted(values, converter, empty_is_null)
    return within_calendar(_converted(converter.prepared_times(values), converter, empty_is_null))


def _converted(values: pa.Array, converter: Converter, empty_is_null: bool) -> pa.Array:
    kind = values.type
    if kind == converter.target and not isinstance(converter, (StructConverter, ListConverter, MapConverter)):
        return values
    if pa.types.is_null(kind):
        return pa.nulls(len(values), converter.target)
    if isinstance(converter, StructConverter) and pa.types.is_struct(kind):
        return _struct(values, converter, empty_is_null)
    if isinstance(converter, ListConverter) and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return _list(values, converter, empty_is_null)
    if isinstance(converter, MapConverter) and pa.types.is_map(kind):
        return _map(values, converter, empty_is_null)
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        text = values.cast(pa.string())
        try:
            if converter.parse_type == pa.string():
                return converter.array(text)
        except pa.ArrowInvalid:
            pass  # the way of single values takes forms that no array does, such as a format of strptime
        return _one_by_one(text.to_pylist(), converter)
    if isinstance(converter, TemporalConverter) and converter.unit is not None and _is_number(kind):
        return _counts(values, converter)
    if not _castable(kind, converter):
        # As JSON has it: text takes any structure, and all else takes one that holds nothing as null.
        if empty_is_null and not isinstance(converter, StringConverter) and holds_nothing(values):
            return pa.nulls(len(values), converter.target)
        raise pa.ArrowInvalid(f"{kind} is no {converter.type_name}")
    if isinstance(converter, FloatConverter):
        if pa.types.is_decimal(kind):
            return _nearest(values, converter)
        nearest = values.cast(converter.target, safe=False)
        if converter.keeps_wholes and pa.types.is_integer(kind) and _loses_digits(values, nearest):
            raise pa.ArrowInvalid("a whole number that a double does not hold")
        if pc.any(pc.and_(pc.is_inf(nearest), pc.is_finite(values))).as_py():
            raise pa.ArrowInvalid("beyond the range of a float")
        return nearest
    if isinstance(converter, StringConverter) and pa.types.is_decimal(kind):
        # All digits, where Arrow writes some with an exponent.
        return pa.array([None if value is None else format(value, "f") for value in values.to_pylist()], pa.string())
    if isinstance(converter, BytesConverter) and converter.length is not None:
        return values.cast(pa.binary()).cast(converter.target)
    if isinstance(converter, DecimalConverter):
        # Arrow asks for room for every value of the integer type, not for the values that are there.
        decimals = values if pa.types.is_decimal(kind) else values.cast(pa.decimal256(20, 0))
        return cast_decimals(decimals, converter.target)
    return values.cast(converter.target, safe=True)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _counts(values: pa.Array, converter: TemporalConverter) -> pa.Array:
    """Numbers that count the declared unit, as JSON has them: floats by the digits that they are printed with."""
    if pa.types.is_integer(values.type) and isinstance(converter, TimestampConverter):
        try:
            return converter.array(values.cast(pa.int64()).cast(number_parse_type()))
        except pa.ArrowInvalid:
            pass
    if pa.types.is_floating(values.type):
        if not pc.all(pc.is_finite(values)).as_py() and values.null_count < len(values):
            raise pa.ArrowInvalid("an infinity, or no number, counts nothing")
        texts = [None if value is None else str(value) for value in _floats(values)]
    else:
        texts = [None if value is None else format(value, "f") for value in map(_decimal, values.to_pylist())]
    return _one_by_one([None if text is None else NumberText(text) for text in texts], converter)


def _decimal(value: int | Decimal | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _floats(values: pa.Array) -> list[np.floating | None]:
    """NumPy's own scalars, which print the digits that single precision needs, and no more."""
    found = values.to_numpy(zero_copy_only=False)
    return [None if null else value for value, null in zip(found, values.is_null().to_pylist(), strict=True)]


def _nearest(decimals: pa.Array, converter: FloatConverter) -> pa.Array:
    """The nearest value of each, which Arrow's cast does not promise."""
    read = float if pa.types.is_float64(converter.target) else nearest_float32
    return pa.array([None if value is None else read(str(value)) for value in decimals.to_pylist()], converter.target)


def _loses_digits(wholes: pa.Array, nearest: pa.Array) -> bool:
    if pc.all(pc.less(pc.abs(nearest), _FIRST_LOST)).as_py() is not False:
        return False
    pairs = zip(wholes.to_pylist(), nearest.to_pylist(), strict=True)
    # As of JSON: the digits that the double is printed with count as held.
    return any(whole is not None and not (int(double) == whole or double_keeps(str(whole))) for whole, double in pairs)


def _castable(kind: pa.DataType, converter: Converter) -> bool:
    """Whether Arrow's safe cast from this type means the same value."""
    number = bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))
    if isinstance(converter, (IntegerConverter, DecimalConverter)):
        return number or (isinstance(converter, IntegerConverter) and bool(pa.types.is_floating(kind)))
    if isinstance(converter, FloatConverter):
        return number or bool(pa.types.is_floating(kind))
    if isinstance(converter, StringConverter):
        return number or bool(pa.types.is_boolean(kind))
    if isinstance(converter, TimestampConverter):
        return bool(pa.types.is_timestamp(kind)) and (kind.tz is not None) == converter.with_zone
    if isinstance(converter, TemporalConverter):
        is_date = bool(pa.types.is_date(converter.target))
        return bool(pa.types.is_date(kind)) if is_date else bool(pa.types.is_time(kind))
    if isinstance(converter, BytesConverter):
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
    return isinstance(converter, BooleanConverter) and bool(pa.types.is_boolean(kind))


def holds_nothing(values: pa.Array) -> bool:
    """Whether the values are lists, maps or structs, and none of them holds a value."""
    kind = values.type
    if pa.types.is_struct(kind):
        return all(column.null_count == len(column) or holds_nothing(column) for column in values.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        held = values.flatten()
    elif pa.types.is_map(kind):
        held = values.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))).flatten().field(1)
    else:
        return False
    return held.null_count == len(held) or holds_nothing(held)


def _one_by_one(texts: Sequence[str | None], converter: Converter) -> pa.Array:
    try:
        values = [None if text is None else converter.value(text, "") for text in texts]
    except RecordFailure as failure:
        raise pa.ArrowInvalid(failure.message) from None
    return from_python(values, converter.target)


def _struct(values: pa.Array, converter: StructConverter, empty_is_null: bool) -> pa.Array:
    sources = _sources(values, converter)
    columns = []
    for child in converter.children:
        source = sources.get(converter.fold(child.name))
        column = (
            pa.nulls(len(values), child.converter.target)
            if source is None
            else _typed(source, child.converter, empty_is_null)
        )
        if child.required and column.null_count > values.null_count:
            raise pa.ArrowInvalid("a required value is missing")
        columns.append(column)
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(converter.target), mask=mask)


def _sources(values: pa.Array, converter: StructConverter) -> dict[str, pa.Array]:
    """The fields by folded name; raises pa.ArrowInvalid where two of one column have a value in one row."""
    found: dict[str, pa.Array] = {}
    for child, column in zip(values.type, values.flatten(), strict=True):
        folded = converter.fold(child.name)
        if folded in found and found[folded].null_count < len(values) > column.null_count:
            if (
                found[folded].type != column.type
                or pc.any(pc.and_(found[folded].is_valid(), column.is_valid())).as_py()
            ):
                raise pa.ArrowInvalid(converter.two_fields(child.name))
            column = pc.coalesce(found[folded], column)
        elif folded in found and found[folded].null_count < len(values):
            continue
        found[folded] = column
    return found


def _list(values: pa.Array, converter: ListConverter, empty_is_null: bool) -> pa.Array:
    elements = _typed(values.flatten(), converter.element, empty_is_null)
    if converter.element_required and elements.null_count:
        raise pa.ArrowInvalid("a required value is missing")
    mask = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(_offsets(values), elements, type=converter.target, mask=mask)


def _map(values: pa.Array, converter: MapConverter, empty_is_null: bool) -> pa.Array:
    # As a list of pairs: `flatten` of a list leaves out what lies under nulls and outside a slice.
    entries = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    pairs = entries.flatten()
    keys = _typed(pairs.field(0), converter.key, empty_is_null)
    items = _typed(pairs.field(1), converter.item, empty_is_null)
    if converter.item_required and items.null_count:
        raise pa.ArrowInvalid("a required value is missing")
    mask = values.is_null() if values.null_count else None
    return pa.MapArray.from_arrays(_offsets(entries), keys, items, type=converter.target, mask=mask)


def _offsets(lists: pa.Array) -> pa.Array:
    """Where each list begins in the flattened elements."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def widening(kinds: Mapping[str, ObservedType], root: StructConverter) -> dict[str, ObservedType]:
    """The columns whose type Iceberg can promote to the type that a schema declares, at any depth."""
    found: dict[str, ObservedType] = {}
    children = {root.fold(child.name): child for child in root.children}
    for name, kind in kinds.items():
        child = children.get(root.fold(name))
        wider = None if child is None else _wider(kind, child.converter)
        if wider is not None:
            found[name] = wider
    return found


def _wider(kind: ObservedType, converter: Converter) -> ObservedType | None:
    if isinstance(kind, str):
        return kind if promotes(converter.type_name, kind) else None
    if kind[0] == "struct" and isinstance(converter, StructConverter):
        inner = widening(dict(kind[1]), converter)
        return ["struct", [[name, child] for name, child in inner.items()]] if inner else None
    if kind[0] == "list" and isinstance(converter, ListConverter):
        wider = _wider(kind[1], converter.element)
        return None if wider is None else ["list", wider]
    return None


def observed_from_typed(kind: pa.DataType) -> ObservedType:
    """What a typed column asks of a table that has none for it: the Iceberg type that holds it exactly."""
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_struct(kind):
        return ["struct", [[child.name, observed_from_typed(child.type)] for child in kind]]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ["list", observed_from_typed(kind.value_type)]
    if pa.types.is_map(kind):
        return ["map", observed_from_typed(kind.key_type), observed_from_typed(kind.item_type)]
    if pa.types.is_decimal(kind):
        return str(DecimalType(kind.precision, kind.scale))
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz is not None else "timestamp"
    plain = {"bool": "boolean", "int64": "long", "float": "float", "double": "double", "date32[day]": "date"}
    if str(kind) in plain:
        return plain[str(kind)]
    if pa.types.is_integer(kind):
        return "int"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "binary"
    return "string"
