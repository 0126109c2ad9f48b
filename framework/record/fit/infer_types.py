"""What types the fields of some records have, before a table exists for them or has columns for them.

In: records' bytes (each known to be one JSON object) and the pipeline's hints. Out: observed types by field name, in
order of first sight, merged by the rules of framework.table.schema.types. Arrow's inference is used where it is exact; records
whose kinds contradict each other, long runs of digits (which a double may not hold, and of which Arrow makes doubles
beyond 64 bits) and lists that begin with null (Arrow 25 miscounts them) are looked at one by one, in their order. Whole
numbers that a double holds stay undecided (`WHOLE`) until the table's policy says what they become.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json

from framework.config.spec import FieldHint, NameCase, TablePolicy, WholeNumbers
from framework.record.convert.converter import Converter
from framework.record.convert.nested import ListConverter, MapConverter, StructConverter, fold
from framework.record.convert.numbers import double_keeps
from framework.record.failure import RecordFailure
from framework.record.json.arrow_screen import unfit_rows
from framework.record.json.framing import frame, record_starts
from framework.record.model import ObservedType
from framework.record.strict_json import NON_FINITE, JsonValue, NumberText, parse_record
from framework.record.upsert.key_types import KeyPaths, exact_columns
from framework.table.schema.types import (
    BIG_INTEGER,
    MOST_DIGITS,
    WHOLE,
    WHOLE_BEYOND_LONG,
    as_declared,
    declared_type,
    known_part,
    merge_all,
    merge_elements,
    merge_observed,
    observed_from_arrow,
    settle_wholes,
)

NO_KEYS = KeyPaths((), False)
# Every whole number that a double may not hold has as many digits.
_LONG_DIGITS = re.compile(rb"[0-9]{17}|9[0-9]{15}")
_DOUBLE_DIGITS = 15


def observe_records(values: Sequence[bytes], keys: KeyPaths = NO_KEYS) -> dict[str, ObservedType]:
    """The merged observed type of every field of the records, without hints; `keys` are what must identify rows."""
    framed = frame(values, np.arange(len(values)))
    if len(unfit_rows(framed.data, record_starts(framed.data), pa.schema([]))):
        return _merged(values, keys)
    if framed.data and not framed.alone and _LONG_DIGITS.search(framed.data) is None:
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(framed.data),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(framed.data) + 1),
            )
            table.validate(full=True)
            found = {field.name: observed_from_arrow(field.type) for field in table.schema}
            # Which of the two came first, and so decides where whole numbers are to be `long`, Arrow does not say.
            if not any(map(_holds_fractions, found.values())):
                return keys.usable(found)
        except pa.ArrowInvalid:
            pass
    return _merged(values, keys)


def _holds_fractions(kind: ObservedType) -> bool:
    if isinstance(kind, str):
        return kind == "double"
    return any(_holds_fractions(child) for _, child in kind[1]) if kind[0] == "struct" else _holds_fractions(kind[-1])


def _merged(values: Sequence[bytes], keys: KeyPaths) -> dict[str, ObservedType]:
    """One record after the other."""
    fields: dict[str, ObservedType] = {}
    for value in values:
        try:
            record = parse_record(value)
        except RecordFailure:
            continue
        merge_fields(fields, keys.usable(observe_record(record)))
    return fields


def observe_record(record: Mapping[str, JsonValue]) -> dict[str, ObservedType]:
    """The observed types of one record's fields."""
    return {name: observe_value(item) for name, item in record.items()}


def merge_fields(into: dict[str, ObservedType], fields: Mapping[str, ObservedType]) -> None:
    for name, kind in fields.items():
        into[name] = merge_observed(into[name], kind) if name in into else kind


def observe_value(value: JsonValue) -> ObservedType:
    """The observed type of one value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, NumberText):
        if value in NON_FINITE or not value.is_integer_literal:
            return "double"
        digits = len(value.lstrip("-"))
        if digits > MOST_DIGITS:
            return "double"
        if digits <= _DOUBLE_DIGITS:
            return WHOLE
        in_long = -(1 << 63) <= int(value) < 1 << 63
        if double_keeps(value):
            return WHOLE if in_long else WHOLE_BEYOND_LONG
        return "long" if in_long else BIG_INTEGER
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        element: ObservedType = "null"
        for item in value:
            element = merge_elements(element, observe_value(item))
        return ["list", element]
    return ["struct", [[name, observe_value(item)] for name, item in value.items()]]


def settle_fields(fields: Mapping[str, ObservedType], policy: TablePolicy) -> dict[str, ObservedType]:
    """What whole numbers become, by the table's policy; `long` where partitions are made of them, or rows distinguished."""
    insensitive = policy.case is NameCase.INSENSITIVE
    parted = (by.column for by in policy.create.partition_by)
    named = {fold(path, insensitive) for path in (*exact_columns(policy), *parted)}
    always = policy.values.whole_numbers is WholeNumbers.LONG
    return {
        name: settle_wholes(kind, name, lambda path: always or fold(path, insensitive) in named)
        for name, kind in fields.items()
    }


def apply_hints(
    fields: Mapping[str, ObservedType], hints: Mapping[str, FieldHint], insensitive: bool
) -> dict[str, ObservedType]:
    """Observed types with every hinted field's declared type in its place; `hints` by folded dotted path."""
    return {name: _hinted(kind, name, hints, insensitive) for name, kind in fields.items()}


def _hinted(kind: ObservedType, path: str, hints: Mapping[str, FieldHint], insensitive: bool) -> ObservedType:
    if hint := hints.get(fold(path, insensitive)):
        return as_declared(declared_type(hint.type), kind, insensitive, whole=False)
    if isinstance(kind, list) and kind[0] == "struct":
        return ["struct", [[name, _hinted(child, f"{path}.{name}", hints, insensitive)] for name, child in kind[1]]]
    if isinstance(kind, list):
        values = kind[-1]
        return [*kind[:-1], _hinted(values, path, hints, insensitive)]
    return kind


def missing_fields(fields: Mapping[str, ObservedType], root: StructConverter) -> dict[str, ObservedType]:
    """What of the observed fields a table has no column for, at any depth; nulls, empty structs and empty lists ask
    for nothing."""
    struct = _missing(["struct", [[name, kind] for name, kind in fields.items()]], root)
    return {} if struct is None else dict(_children(struct))


def _missing(kind: ObservedType, converter: Converter) -> ObservedType | None:
    if not isinstance(kind, list):
        return None
    if kind[0] == "list":
        element = _missing(kind[1], converter.element) if isinstance(converter, ListConverter) else None
        return None if element is None else ["list", element]
    if isinstance(converter, MapConverter):
        # A JSON object is a map where the table has one; a schema's map is one already.
        values = kind[2] if kind[0] == "map" else merge_all((child for _, child in kind[1]), merge_elements)
        value = _missing(values, converter.item)
        return None if value is None else ["map", kind[1] if kind[0] == "map" else "string", value]
    if kind[0] == "map":
        return None
    if not isinstance(converter, StructConverter):
        return None
    known = {converter.fold(child.name): child.converter for child in converter.children}
    lacking = []
    for name, child in kind[1]:
        existing = known.get(converter.fold(name))
        part = known_part(child) if existing is None else _missing(child, existing)
        if part is not None:
            lacking.append([name, part])
    return ["struct", lacking] if lacking else None


def _children(struct: ObservedType) -> list[tuple[str, ObservedType]]:
    return [(name, kind) for name, kind in struct[1]] if isinstance(struct, list) else []
