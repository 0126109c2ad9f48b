"""One JSON record to plain Python values, strictly; the slow path that decides for single records.

In: the bytes of one record. Out: dicts, lists, text, booleans, None, and numbers as `NumberText` (their own text, so
that nothing is rounded before the column's type is known). Keeps invariant 9 by refusing what has no one exact meaning:
text that is not JSON, duplicate keys, lone surrogates.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError

from framework.record.failure import RecordFailure

JsonValue = None | bool | str | list["JsonValue"] | dict[str, "JsonValue"]

# A record is nested so deep at most. Every walk over values, types and schemas is recursive: without a bound of its own
# the stack's would hold, which depends on who calls, and no table has columns that deep.
MOST_LEVELS = 100
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)

NON_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})


class NumberText(str):
    """A JSON number as it was written. `NaN`, `Infinity` and `-Infinity` are numbers too, as many producers write
    them."""

    __slots__ = ()

    @property
    def is_integer_literal(self) -> bool:
        """True for a number without fraction and exponent."""
        return self.lstrip("-").isdigit()


class _DuplicateKey(ValueError):
    pass


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKey(name)
            seen.add(name)
    return fields


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=NumberText, parse_int=NumberText, parse_constant=NumberText
)


def is_too_deep(data: bytes) -> bool:
    """Whether a record is nested deeper than any may be: its brackets outside of texts, in what may be JSON."""
    if data.count(b"[") + data.count(b"{") <= MOST_LEVELS:
        return False
    depth = 0
    for match in _BRACKETS.finditer(data):
        mark = data[match.start()]
        if mark == 0x5B or mark == 0x7B:
            depth += 1
            if depth > MOST_LEVELS:
                return True
        elif mark != 0x22:
            depth -= 1
    return False


def too_deep() -> RecordFailure:
    return RecordFailure("decode", "FLOE-D105", f"the record is nested more than {MOST_LEVELS} levels deep")


def parse_record(data: bytes) -> dict[str, JsonValue]:
    """The fields of a record that is one JSON object.

    Raises:
        RecordFailure: as `parse_document`; FLOE-D102 (not an object).
    """
    value = parse_document(data)
    if not isinstance(value, dict):
        raise RecordFailure(
            "decode", "FLOE-D102", "the record is not a JSON object", expected="object", actual=kind_of(value)
        )
    return value


def parse_document(data: bytes) -> JsonValue:
    """The value of a record that is one JSON document.

    Raises:
        RecordFailure: codes FLOE-D101 (not JSON), D103 (duplicate key), D104 (not UTF-8), D105 (nested too deeply).
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordFailure(
            "decode", "FLOE-D104", f"the record is not UTF-8: {error.reason} at byte {error.start}"
        ) from None
    if is_too_deep(data):
        raise too_deep()
    try:
        value: JsonValue = _DECODER.decode(text)
    except _DuplicateKey as error:
        raise RecordFailure(
            "decode", "FLOE-D103", f"the key {str(error)!r} occurs twice in one object", field_path=str(error)
        ) from None
    except JSONDecodeError as error:
        raise RecordFailure(
            "decode",
            "FLOE-D101",
            f"the record is not JSON: {error.msg.removesuffix(' at')} at byte {_byte_of(text, error.pos)}",
        ) from None
    except RecursionError:
        raise too_deep() from None
    if "\\u" in text and not _encodable(value):
        raise RecordFailure("decode", "FLOE-D104", "the record holds a lone surrogate, which no UTF-8 text can hold")
    return value


def error_at(data: bytes) -> int | None:
    """The byte at which a record stops being a JSON document in UTF-8; None when it is one as far as can be determined."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    try:
        _DECODER.decode(text)
    except JSONDecodeError as error:
        return _byte_of(text, error.pos)
    except (_DuplicateKey, RecursionError):
        return None
    return None


def _byte_of(text: str, character: int) -> int:
    return len(text[:character].encode("utf-8"))


def _encodable(value: JsonValue) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def kind_of(value: JsonValue) -> str:
    """What a value is, in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, NumberText):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
