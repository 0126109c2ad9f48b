"""Records that Arrow's JSON reader must not see, since it would take them for something else, or not survive them.

In: sound framed records and the types of the columns that Arrow is to make. Out: the rows that are judged alone
instead. They are those nested deeper than any record may be, on which its recursion ends the process; those with `Inf`
or `-NaN`, which it takes and JSON has not; and, where there are decimals, those with numbers of large exponents, which
it makes 0 of in silence, refuses as a whole file, or reads memory for that is not there, and those with codes in text
such as "007", which it reads as
7. What makes a row suspect may stand in a text as well: such a record takes the slow way, and nothing else. Keeps invariant 9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints, Mask
from framework.record.convert.times import number_parse_type
from framework.record.strict_json import MOST_LEVELS, is_too_deep

_TOKENS = re.compile(rb"-?Inf(?!inity)|-NaN")
_EXPONENT = re.compile(rb"[+-]?[0-9]+")
# Decimals of Arrow hold 76 digits and their scales are far from this, so that no product runs over.
_MOST_EXPONENT = 15
# The double of the first whole number that none holds; its neighbour is the same double.
_FIRST_LOST = 2.0**53
_MANY_DIGITS = re.compile(rb"[0-9]{16}")
_FAR = re.compile(rb"[0-9][eE]\+?[0-9]{2}|Infinity")
# What Arrow reads to a decimal from text; text that is no number as JSON writes them must not become one.
_NUMERIC = rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\""
_NUMERIC_TEXT = re.compile(rb"\"" + _NUMERIC)
_CODES = re.compile(rb"\"(?!-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?\")" + _NUMERIC)
# Dates without their dashes, which are numbers as well: whether one is a count of a unit is not for Arrow to say.
_DAYS = re.compile(rb"\"[0-9]{7,8}\"")
_NUMBER_MARKS = frozenset(b"0123456789.+-")


def unfit_rows(data: bytes, starts: Ints, schema: pa.Schema, reads_text: bool = True) -> Ints:
    """The rows that Arrow must not see; `starts` as of `framework.record.json.framing.record_starts`. Without
    `reads_text` no text
    is to become a number."""
    places: list[int] = [match.start() for match in _TOKENS.finditer(data)] if b"Inf" in data or b"-NaN" in data else []
    if _holds(schema, pa.types.is_decimal):
        places += _large_exponents(data)
        places += _texts(data, schema, reads_text)
    rows = np.searchsorted(starts, np.array(places, np.int64), side="right") - 1
    deep = deep_rows(data, starts)
    found: Ints = np.union1d(rows, deep)
    return found


def deep_rows(data: bytes, starts: Ints) -> Ints:
    """The rows that are nested too deeply."""
    if data.count(b"[") + data.count(b"{") <= MOST_LEVELS or len(starts) < 2:
        return np.empty(0, np.int64)
    octets = np.frombuffer(data, dtype=np.uint8)
    opening = np.flatnonzero((octets == 0x5B) | (octets == 0x7B))
    counts = np.diff(np.searchsorted(opening, starts))
    many = np.flatnonzero(counts > MOST_LEVELS).tolist()
    return np.array([row for row in many if is_too_deep(data[starts[row] : starts[row + 1] - 1])], np.int64)


def far_rows(data: bytes, starts: Ints, schema: pa.Schema, reads_text: bool = True) -> Ints:
    """The rows that Arrow must not see as decimals, as their numbers have large exponents, or their text is no
    number."""
    places = np.array(_large_exponents(data) + _texts(data, schema, reads_text), np.int64)
    rows: Ints = np.unique(np.searchsorted(starts, places, side="right") - 1)
    return rows


def _texts(data: bytes, schema: pa.Schema, reads_text: bool) -> list[int]:
    """Where text stands that Arrow would take for a decimal, and that must not become one."""
    found = [match.start() for match in (_CODES if reads_text else _NUMERIC_TEXT).finditer(data)]
    if reads_text and _holds(schema, _is_count):
        found += [match.start() for match in _DAYS.finditer(data)]
    return found


def _is_count(kind: pa.DataType) -> bool:
    return bool(kind == number_parse_type())


def _large_exponents(data: bytes) -> list[int]:
    """Where numbers have exponents that are not surely small."""
    octets = np.frombuffer(data, dtype=np.uint8)
    marks = np.flatnonzero((octets[1:-1] | 0x20) == 0x65) + 1
    before, behind = octets[marks - 1], octets[marks + 1]
    digit = (before >= 0x30) & (before <= 0x39)
    signed = (behind == 0x2B) | (behind == 0x2D) | ((behind >= 0x30) & (behind <= 0x39))
    return [mark for mark in marks[digit & signed].tolist() if _is_large(data, mark)]


def _is_large(data: bytes, mark: int) -> bool:
    exponent = _EXPONENT.match(data, mark + 1)
    if exponent is None or (len(exponent[0]) <= 3 and abs(int(exponent[0])) <= _MOST_EXPONENT):
        return False
    at = mark - 1
    while at > 0 and data[at] in _NUMBER_MARKS:
        at -= 1
    # Text is read to decimals, too: only what begins with a letter is surely none.
    return not data[at : at + 1].isalnum()


@lru_cache(maxsize=256)
def _holds(schema: pa.Schema, is_kind: Callable[[pa.DataType], bool]) -> bool:
    """Whether a column, or what is in it, is of such a type."""
    return any(_kind_holds(field.type, is_kind) for field in schema)


def _kind_holds(kind: pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    if pa.types.is_struct(kind):
        return any(_kind_holds(child.type, is_kind) for child in kind)
    if pa.types.is_list(kind):
        return _kind_holds(kind.value_type, is_kind)
    return bool(is_kind(kind))


def unsure_rows(table: pa.Table, schema: pa.Schema) -> Ints:
    """The rows in which a column of `schema`, or what is in it, holds an infinity or a double so large that it may be
    another whole number than the record's. Whether the record wrote it only its text can tell (`may_lose`)."""
    if not _holds(schema, pa.types.is_floating):
        return np.empty(0, np.int64)
    found: Mask = np.zeros(len(table), dtype=bool)
    for field in schema:
        if not _kind_holds(field.type, pa.types.is_floating):
            continue
        first = 0
        for chunk in table.column(field.name).chunks:
            mask = _unsure(chunk, field.type)
            if mask is not None:
                found[first : first + len(chunk)] |= mask
            first += len(chunk)
    return np.flatnonzero(found)


def may_lose(record: bytes) -> bool:
    """Whether a number of the record, which was made an infinity or a large double, may be another one."""
    return _MANY_DIGITS.search(record) is not None or _FAR.search(record) is not None


def _unsure(values: pa.Array, kind: pa.DataType) -> Mask | None:
    """Which values are unsure; None: none of them. Inferred children are not looked at."""
    if pa.types.is_floating(kind):
        least = _FIRST_LOST if pa.types.is_float64(kind) else math.inf
        mask = pc.greater_equal(pc.abs(values), least).fill_null(False)
        return mask.to_numpy(zero_copy_only=False) if mask.true_count else None
    if pa.types.is_struct(kind):
        found: Mask | None = None
        for child in kind:
            mask = _unsure(values.field(child.name), child.type)
            if mask is not None:
                found = mask if found is None else found | mask
        return found
    if pa.types.is_list(kind):
        inner = _unsure(values.values, kind.value_type)
        if inner is None:
            return None
        mask = np.zeros(len(values), dtype=bool)
        at = np.searchsorted(values.offsets.to_numpy(), np.flatnonzero(inner), side="right") - 1
        mask[at] = True
        return mask
    return None
