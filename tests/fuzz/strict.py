"""JSON read strictly by the standard library, for the oracle of the values.

In: a record's bytes. Out: Python values in which a number is its own text, or Refused. Shares no code with floe: what
is no JSON, has a key twice, holds half of a surrogate pair or is nested more than 100 deep has no one meaning and is
refused.
"""

from __future__ import annotations

import json
from typing import Any

MOST_LEVELS = 100


class Refused(Exception):
    """The record must be a dead letter."""


class Number(str):
    """A number as it stands in the record."""

    __slots__ = ()


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refused("a key comes twice")
    return found


def levels(text: str) -> int:
    """How deep brackets are nested outside of strings."""
    deepest = depth = at = 0
    while at < len(text):
        mark = text[at]
        if mark == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif mark in "{[":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in "}]":
            depth -= 1
        at += 1
    return deepest


def read(data: bytes) -> dict[str, Any]:
    """The fields of a record.

    Raises:
        Refused: it is not one JSON object.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(str(error)) from None
    if text.count("{") + text.count("[") > MOST_LEVELS and levels(text) > MOST_LEVELS:
        raise Refused("nested too deeply")
    try:
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_pairs)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not isinstance(value, dict):
        raise Refused("no object")
    if "\\u" in text:
        _whole_text(value)
    return value


def _whole_text(value: Any) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Refused(str(error)) from None
    elif isinstance(value, dict):
        for key, item in value.items():
            _whole_text(key)
            _whole_text(item)
    elif isinstance(value, list):
        for item in value:
            _whole_text(item)
