"""Where in a JSON text a field's value stands, for people who look at a bad record.

In: the text of one JSON document and a field path as dead letters have it (`a.b[2].c`, `m['key']`). Out: the value's
first and last character, or None when the document has no such field. Slow: for one record at a time.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecodeError

_STEP = re.compile(r"\[(\d+)\]|\['((?s:.*?))(?:'\]|\Z)|\.?([^.\[]+)")
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(strict=False)


def steps_of(path: str) -> list[str | int]:
    """`a.b[2]` as `["a", "b", 2]`."""
    return [int(m.group(1)) if m.group(1) else (m.group(2) or m.group(3)) for m in _STEP.finditer(path)]


def locate(text: str, path: str) -> tuple[int, int] | None:
    """The span [start, end) of the field's value; names are compared without case when no name is exactly equal."""
    try:
        start = _skip(text, 0)
        for step in steps_of(path):
            found = _element(text, start, step) if isinstance(step, int) else _field(text, start, step)
            if found is None:
                return None
            start = found
        return start, _DECODER.raw_decode(text, start)[1]
    except (JSONDecodeError, RecursionError, IndexError):
        return None


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _element(text: str, at: int, index: int) -> int | None:
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    for _ in range(index):
        if text[at] == "]":
            return None
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at = _skip(text, at + 1)  # the comma
    return None if text[at] == "]" else at


def _field(text: str, at: int, name: str) -> int | None:
    if text[at] != "{":
        return None
    alike = None
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)  # the colon
        if key == name:
            return at
        if key.lower() == name.lower() and alike is None:
            alike = at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
    return alike
