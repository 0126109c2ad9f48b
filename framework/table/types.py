"""Types as seen in records, and the Iceberg types they ask for.

In: Arrow types of parsed JSON, observed types (framework.table.model.ObservedType), hints' type texts. Out: Iceberg types.
Observed types merge deterministically: null gives way to anything, long to double and to decimal(38, 0), structs join
their fields, lists their elements; where two kinds contradict each other the first one seen wins, and records of the other
kind are judged when they are converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.table.model import ObservedType

BIG_INTEGER = "decimal(38, 0)"

_PLAIN: dict[str, PrimitiveType] = {
    str(kind): kind
    for kind in (
        BooleanType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        DateType(),
        TimeType(),
        TimestampType(),
        TimestamptzType(),
        TimestampNanoType(),
        TimestamptzNanoType(),
        StringType(),
        UUIDType(),
        BinaryType(),
    )
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")


def primitive_type(text: str) -> PrimitiveType:
    """The Iceberg primitive that `text` names, such as `timestamptz`, `decimal(10, 2)`, `fixed[16]`.

    Raises:
        ValueError: no such type, or a decimal beyond 38 digits.
    """
    name = text.strip().lower()
    if name in _PLAIN:
        return _PLAIN[name]
    if found := _DECIMAL.fullmatch(name):
        precision, scale = int(found.group(1)), int(found.group(2))
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(
                f"{text!r} is no Iceberg decimal: the precision is 1 to 38, the scale at most the precision"
            )
        return DecimalType(precision, scale)
    if found := _FIXED.fullmatch(name):
        return FixedType(int(found.group(1)))
    raise ValueError(f"{text!r} is no Iceberg primitive type; these are: {', '.join(_PLAIN)}, decimal(p, s), fixed[n]")


def observed_from_arrow(kind: pa.DataType) -> ObservedType:
    """The observed type of a column that Arrow parsed or inferred from JSON (a timestamp was text)."""
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long"
    if pa.types.is_floating(kind):
        return "double"
    if pa.types.is_decimal(kind):
        return str(DecimalType(kind.precision, kind.scale))
    if pa.types.is_struct(kind):
        return ["struct", [[child.name, observed_from_arrow(child.type)] for child in kind]]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ["list", observed_from_arrow(kind.value_type)]
    return "string"


def merge_observed(first: ObservedType, second: ObservedType) -> ObservedType:
    """One type for both; see the module's rules. Field order is the order of first sight."""
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    if isinstance(first, list) and isinstance(second, list) and first[0] == second[0]:
        if first[0] == "list":
            return ["list", merge_observed(first[1], second[1])]
        merged = dict(first[1])
        for name, kind in second[1]:
            merged[name] = merge_observed(merged[name], kind) if name in merged else kind
        return ["struct", [[name, kind] for name, kind in merged.items()]]
    numbers = {"long": 0, BIG_INTEGER: 1, "double": 2}
    if isinstance(first, str) and isinstance(second, str) and first in numbers and second in numbers:
        return first if numbers[first] >= numbers[second] else second
    return first


def known_part(observed: ObservedType) -> ObservedType | None:
    """What of a type can become a column: without nulls, empty structs and lists of nothing; None when nothing is left."""
    if observed == "null":
        return None
    if isinstance(observed, str):
        return observed
    if observed[0] == "list":
        element = known_part(observed[1])
        return None if element is None else ["list", element]
    fields = [[name, part] for name, kind in observed[1] if (part := known_part(kind)) is not None]
    return ["struct", fields] if fields else None


def merge_spellings(fields: Iterable[tuple[str, ObservedType]], insensitive: bool) -> dict[str, ObservedType]:
    """Fields by name, at every depth; under an insensitive case policy those whose names differ only in case are one,
    spelled as it was first seen."""
    merged: dict[str, ObservedType] = {}
    spelled: dict[str, str] = {}
    for name, kind in fields:
        first = spelled.setdefault(name.lower() if insensitive else name, name)
        inner = _merge_inner(kind, insensitive)
        merged[first] = merge_observed(merged[first], inner) if first in merged else inner
        merged[first] = _merge_inner(merged[first], insensitive)
    return merged


def _merge_inner(observed: ObservedType, insensitive: bool) -> ObservedType:
    if isinstance(observed, str):
        return observed
    if observed[0] == "list":
        return ["list", _merge_inner(observed[1], insensitive)]
    fields = merge_spellings([(name, kind) for name, kind in observed[1]], insensitive)
    return ["struct", [[name, kind] for name, kind in fields.items()]]


def primitive_of(observed: str) -> IcebergType:
    """The Iceberg type of an observed primitive: `long`, `double`, `boolean`, `string`, or a hint's own type text."""
    return primitive_type(observed)
