"""What rules look at: fields of records by dotted path, and whether a value meets a condition.

In: parsed columns of many records, or one record's JSON values. Out: values, for many records once for each distinct
one. Both forms are compared by the same function, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.config.names.patterns import compiled
from framework.config.spec import RouteCondition
from framework.record.arrays import Mask, Numbers, one_array
from framework.record.convert.nested import fold
from framework.record.failure import RecordFailure
from framework.record.strict_json import JsonValue, NumberText

_EXACT_DOUBLE = 1 << 53

Scalar = bool | int | float | Decimal | str | None


def text_of(value: Scalar) -> str | None:
    """A value as it may stand in a table's name or be matched: text, whole numbers, true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (float, Decimal)) and -_EXACT_DOUBLE < value < _EXACT_DOUBLE and value == int(value):
        return str(int(value))
    return None


def matches(condition: RouteCondition, value: Scalar) -> bool:
    """Whether a field's value meets the condition; a value of another kind never equals (`5` is not `"5"`)."""
    if value is None:
        return False
    if condition.matches is not None:
        text = text_of(value)
        return text is not None and compiled(condition.matches).is_all_of(text)
    return any(_equal(expected, value) for expected in condition.one_of or (condition.equals,))


def _equal(expected: Scalar, value: Scalar) -> bool:
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, str) or isinstance(value, str):
        return isinstance(expected, str) and isinstance(value, str) and expected == value
    return expected is not None and value == expected


def is_of_another_kind(condition: RouteCondition, value: Scalar) -> bool:
    """Whether a value says what the condition asks for, and is of a kind that never equals it: the text `"true"` for
    true, 5 for `"5"`."""
    if condition.equals is None or value is None or _kind(condition.equals) is _kind(value):
        return False
    expected, found = text_of(condition.equals), text_of(value)
    return expected is not None and found is not None and expected.lower() == found.lower()


def _kind(value: Scalar) -> type:
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def _at(record: JsonValue, path: str, insensitive: bool) -> list[JsonValue]:
    """What is there that is not null, of each spelling of the path."""
    found: list[JsonValue] = [record]
    for step in path.split("."):
        wanted = fold(step, insensitive)
        found = [
            value
            for outer in found
            if isinstance(outer, dict)
            for name, value in outer.items()
            if value is not None and fold(name, insensitive) == wanted
        ]
    return found


def is_there(record: JsonValue, path: str, insensitive: bool) -> bool:
    """Whether one record has a value, of any kind."""
    return bool(_at(record, path, insensitive))


def value_at(record: JsonValue, path: str, insensitive: bool) -> Scalar:
    """One record's value. Raises RecordFailure where two spellings of the path both have one."""
    scalars = [value for value in _at(record, path, insensitive) if isinstance(value, (bool, str))]
    if len(scalars) > 1:
        raise RecordFailure(
            "route", "FLOE-D306", f"{path}: the record has two keys that differ only in case", field_path=path
        )
    if not scalars:
        return None
    value = scalars[0]
    if isinstance(value, NumberText):
        return int(value) if value.is_integer_literal and len(value) < 1000 else float(value)
    return value


@dataclass(frozen=True)
class Coded:
    """A column as codes into its distinct values; code -1 is null."""

    codes: Numbers
    values: list[Scalar]


class FieldColumns:
    """Looks fields up by dotted path, once each; `ambiguous` marks rows that have two spellings of one."""

    def __init__(self, table: pa.Table, insensitive: bool) -> None:
        self._table = table
        self._insensitive = insensitive
        self._coded: dict[str, Coded] = {}
        self.ambiguous: Mask = np.zeros(table.num_rows, dtype=bool)

    def __len__(self) -> int:
        return len(self.ambiguous)

    def coded(self, path: str) -> Coded:
        if path not in self._coded:
            self._coded[path] = self._encode(path)
        return self._coded[path]

    def _columns(self, path: str) -> list[pa.ChunkedArray]:
        """The columns of each spelling of a path."""
        steps = path.split(".")
        found = [
            self._table.column(i)
            for i, name in enumerate(self._table.column_names)
            if fold(name, self._insensitive) == fold(steps[0], self._insensitive)
        ]
        for step in steps[1:]:
            found = [
                pc.struct_field(column, [i])
                for column in found
                if pa.types.is_struct(column.type)
                for i, child in enumerate(column.type)
                if fold(child.name, self._insensitive) == fold(step, self._insensitive)
            ]
        return found

    def are_there(self, path: str) -> Mask:
        """Which rows have a value, of any kind."""
        found: Mask = np.zeros(len(self), dtype=bool)
        for column in self._columns(path):
            found |= one_array(column.is_valid()).to_numpy(zero_copy_only=False)
        return found

    def _encode(self, path: str) -> Coded:
        rows = self._table.num_rows
        codes: Numbers | None = None
        values: list[Scalar] = []
        for column in self._columns(path):
            if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
                continue
            encoded = one_array(column).dictionary_encode()
            own = encoded.indices
            own = (own.fill_null(-1) if own.null_count else own).to_numpy(zero_copy_only=False)
            if codes is None:
                codes, values = own, encoded.dictionary.to_pylist()
                continue
            self.ambiguous |= (codes >= 0) & (own >= 0)
            codes = np.where((codes < 0) & (own >= 0), own + len(values), codes)
            values += encoded.dictionary.to_pylist()
        return Coded(np.full(rows, -1, np.int32) if codes is None else codes, values)

    def meets(self, condition: RouteCondition, test: Callable[[RouteCondition, Scalar], bool] = matches) -> Mask:
        """Which rows' field meets the condition, or another test of it and the value."""
        coded = self.coded(condition.field or "")
        met = np.array([*(test(condition, value) for value in coded.values), False], dtype=bool)
        found: Mask = met[coded.codes]
        return found
