"""Types as seen in records, and the Iceberg types they ask for.

In: Arrow types of parsed JSON, observed types (framework.table.model.ObservedType), hints' type texts. Out: Iceberg
types. Observed types merge so that it does not matter where one batch ends and the next begins: null gives way to
anything, a type to one that Iceberg promotes it to, structs join their fields, lists and maps what is in them. Of two
that contradict each other the first with a value wins, as it would if it had come in a batch before, and records of the
other are judged when they are converted. Within one record (the elements of a list) numbers take the kind that holds
most of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

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

from framework.config.values.type_text import structure
from framework.table.model import ObservedType

MOST_DIGITS = 38
BIG_INTEGER = "decimal(38, 0)"
# A whole number that a double holds, as long as nobody decided what its column is (`settle_wholes`).
WHOLE = "whole"
WHOLE_BEYOND_LONG = "whole beyond 64 bits"  # `long` does not hold it: it becomes a decimal where WHOLE becomes `long`
_PROMOTED = (("int", "long"), ("float", "double"))
_SETTLED = {WHOLE: "long", WHOLE_BEYOND_LONG: BIG_INTEGER}
_IN_ONE_RECORD = ((WHOLE, "long", WHOLE_BEYOND_LONG, BIG_INTEGER, "double"),)
NANOSECONDS_SINCE = 3  # the format version that brought timestamp_ns and timestamptz_ns

# Iceberg's primitives that floe writes, but for those with a length, and the Arrow type of a file's column of each.
PLAIN_TYPES: Mapping[PrimitiveType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    TimestampNanoType(): pa.timestamp("ns"),
    TimestamptzNanoType(): pa.timestamp("ns", "UTC"),
    StringType(): pa.string(),
    UUIDType(): pa.uuid(),
    BinaryType(): pa.binary(),
}
_BY_NAME = {str(kind): kind for kind in PLAIN_TYPES}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")


def primitive_type(text: str) -> PrimitiveType:
    """The Iceberg primitive that `text` names, such as `timestamptz`, `decimal(10, 2)`, `fixed[16]`.

    Raises:
        ValueError: no such type, or a decimal beyond 38 digits.
    """
    name = text.strip().lower()
    if name in _BY_NAME:
        return _BY_NAME[name]
    if found := _DECIMAL.fullmatch(name):
        precision, scale = int(found.group(1)), int(found.group(2))
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(
                f"{text!r} is not a valid Iceberg decimal: the precision is 1 to 38, the scale at most the precision"
            )
        return DecimalType(precision, scale)
    if found := _FIXED.fullmatch(name):
        return FixedType(int(found.group(1)))
    raise ValueError(
        f"{text!r} is not a primitive Iceberg type; these are: {', '.join(_BY_NAME)}, decimal(p, s), fixed[n]"
    )


def declared_type(text: str) -> ObservedType:
    """The type that a text declares, a list, map or struct of primitives, too, as observed types are written.

    Raises:
        ValueError: it is none.
    """
    return structure(text) if "<" in text else str(primitive_type(text))


def as_declared(declared: ObservedType, seen: ObservedType, insensitive: bool, whole: bool) -> ObservedType:
    """What was seen, with the declared type wherever that says something, at any depth; what it does not know stays.

    Args:
        whole: with the declared fields that were not seen, too, first and as they are declared.
    """
    if isinstance(declared, str) or isinstance(seen, str):
        return declared
    if declared[0] == "map" and seen[0] in ("map", "struct"):
        values = seen[-1] if seen[0] == "map" else merge_all((kind for _, kind in seen[1]), merge_elements)
        return ["map", declared[1], as_declared(declared[2], values, insensitive, whole)]
    if declared[0] != seen[0]:
        return declared
    if declared[0] == "list":
        return ["list", as_declared(declared[1], seen[1], insensitive, whole)]
    wanted = {name.lower() if insensitive else name: (name, kind) for name, kind in declared[1]}
    fields: dict[str, tuple[str, ObservedType]] = dict(wanted) if whole else {}
    for name, kind in seen[1]:
        folded = name.lower() if insensitive else name
        if folded in wanted:
            kind = as_declared(wanted[folded][1], kind, insensitive, whole)
        fields[folded] = (wanted[folded][0] if folded in wanted else name, kind)
    return ["struct", [[name, kind] for name, kind in fields.values()]]


def within(declared: ObservedType, seen: ObservedType) -> ObservedType:
    """What a column lacks, with the declared types where they say what is in it. A column that is another kind of nesting
    than declared was made before, and stays."""
    if isinstance(declared, str) or isinstance(seen, str):
        return seen if isinstance(seen, list) else declared
    if declared[0] != seen[0]:
        return seen
    if declared[0] != "struct":
        return [*seen[:-1], within(declared[-1], seen[-1])]
    known = dict(declared[1])
    return ["struct", [[name, within(known[name], kind) if name in known else kind] for name, kind in seen[1]]]


def observed_from_arrow(kind: pa.DataType) -> ObservedType:
    """The observed type of a column that Arrow parsed or inferred from JSON (a timestamp was text)."""
    if pa.types.is_null(kind):
        return "null"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return WHOLE
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
    """One type for both, of two records; see the module's rules. Field order is the order of first sight."""
    return _merge(first, second, _PROMOTED)


def merge_elements(first: ObservedType, second: ObservedType) -> ObservedType:
    """One type for both, of two elements of one record's list."""
    return _merge(first, second, _IN_ONE_RECORD)


def _merge(first: ObservedType, second: ObservedType, ladders: tuple[tuple[str, ...], ...]) -> ObservedType:
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    if isinstance(first, list) and isinstance(second, list) and first[0] == second[0]:
        if first[0] != "struct":
            return [*first[:-1], _merge(first[-1], second[-1], ladders)]
        merged = dict(first[1])
        for name, kind in second[1]:
            merged[name] = _merge(merged[name], kind, ladders) if name in merged else kind
        return ["struct", [[name, kind] for name, kind in merged.items()]]
    if isinstance(first, str) and isinstance(second, str):
        if ladders is _IN_ONE_RECORD and {first, second} == {"long", WHOLE_BEYOND_LONG}:
            return BIG_INTEGER  # a double does not hold the one, a long not the other
        for ladder in ladders:
            if first in ladder and second in ladder:
                return first if ladder.index(first) >= ladder.index(second) else second
        if first.startswith("decimal") and second.startswith("decimal"):
            return _wider_decimal(first, second)
    # An empty list or struct says nothing: what came after it must not be left out for its sake.
    return first if _says_something(first) else second


def settle_wholes(kind: ObservedType, path: str, long_at: Callable[[str], bool]) -> ObservedType:
    """The type with `long` (or a decimal, beyond 64 bits) for whole numbers at the paths that are to be so, and
    `double` for others. Lists and maps add nothing to a path."""
    if isinstance(kind, str):
        exact = _SETTLED.get(kind)
        return kind if exact is None else exact if long_at(path) else "double"
    if kind[0] == "struct":
        return ["struct", [[name, settle_wholes(child, f"{path}.{name}", long_at)] for name, child in kind[1]]]
    return [*kind[:-1], settle_wholes(kind[-1], path, long_at)]


def merge_all(
    kinds: Iterable[ObservedType], merge: Callable[[ObservedType, ObservedType], ObservedType] = merge_observed
) -> ObservedType:
    """One type for all; null for none."""
    merged: ObservedType = "null"
    for kind in kinds:
        merged = merge(merged, kind)
    return merged


def _wider_decimal(first: str, second: str) -> str:
    """Of two decimals of one scale the one with more digits; Iceberg promotes a decimal to no other scale."""
    left, right = primitive_type(first), primitive_type(second)
    assert isinstance(left, DecimalType)
    assert isinstance(right, DecimalType)
    return second if left.scale == right.scale and left.precision < right.precision else first


def _says_something(observed: ObservedType) -> bool:
    """Whether `known_part` leaves anything of a type."""
    if isinstance(observed, str):
        return observed != "null"
    if observed[0] != "struct":
        return _says_something(observed[-1])
    return any(_says_something(kind) for _, kind in observed[1])


def known_part(observed: ObservedType) -> ObservedType | None:
    """What of a type can become a column: without nulls, empty structs and lists of nothing; None when nothing is
    left."""
    if observed == "null":
        return None
    if isinstance(observed, str):
        return observed
    if observed[0] != "struct":
        inner = known_part(observed[-1])
        return None if inner is None else [*observed[:-1], inner]
    fields = [[name, part] for name, kind in observed[1] if (part := known_part(kind)) is not None]
    return ["struct", fields] if fields else None


def merge_spellings(fields: Iterable[tuple[str, ObservedType]], insensitive: bool) -> dict[str, ObservedType]:
    """Fields by name, at every depth; under an insensitive case policy those whose names differ only in case are one,
    spelled as it was first seen."""
    merged: dict[str, ObservedType] = {}
    spelled: dict[str, str] = {}
    for name, kind in fields:
        first = spelled.setdefault(name.lower() if insensitive else name, name)
        merged[first] = merge_observed(merged[first], kind) if first in merged else kind
    # Once for each, however many spellings there were: what is done twice at every level is done 2^depth times.
    return {name: _merge_inner(kind, insensitive) for name, kind in merged.items()}


def _merge_inner(observed: ObservedType, insensitive: bool) -> ObservedType:
    if isinstance(observed, str):
        return observed
    if observed[0] != "struct":
        return [*observed[:-1], _merge_inner(observed[-1], insensitive)]
    fields = merge_spellings([(name, kind) for name, kind in observed[1]], insensitive)
    return ["struct", [[name, kind] for name, kind in fields.items()]]


def primitive_of(observed: str) -> IcebergType:
    """The Iceberg type of an observed primitive: `long`, `double`, `boolean`, `string`, or a hint's own type text."""
    return primitive_type(observed)


def promotes(present: str, wanted: str) -> bool:
    """Whether Iceberg promotes a column of type `present` to the other type: int to long, float to double, more
    digits."""
    if (present, wanted) in (("int", "long"), ("float", "double")):
        return True
    left, right = _DECIMAL.fullmatch(present), _DECIMAL.fullmatch(wanted)
    return bool(left and right and left[2] == right[2] and int(left[1]) < int(right[1]))


def format_version(properties: Iterable[tuple[str, str]]) -> int:
    """The format version of a table made with these properties."""
    return int(dict(properties).get("format-version", "2"))


def without_nanoseconds(observed: ObservedType) -> ObservedType:
    """The type with moments in microseconds, as tables before format version 3 have them."""
    if isinstance(observed, str):
        return observed.removesuffix("_ns") if observed in ("timestamp_ns", "timestamptz_ns") else observed
    if observed[0] == "struct":
        return ["struct", [[name, without_nanoseconds(kind)] for name, kind in observed[1]]]
    return [observed[0], *(without_nanoseconds(kind) for kind in observed[1:])]
