"""Where the members of a JSON object, and the elements of a list, stand in a text, so that parts of a record are taken as
they were written.

In: a record's bytes, or a text and where in it an object or a list begins. Out: for each member or element the place of its
value; None for what must be read with care by framework.record.strict_json: no object or list, a key twice, a value that is
no JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SPACE = " \t\r\n"
_SPACES = re.compile(r"[ \t\r\n]*")
_scanstring = json.decoder.scanstring  # type: ignore[attr-defined]
# C's scanner, which is not in the stubs. Whole numbers as floats: Python makes no `int` of more than 4,300 digits.
_skip = json.JSONDecoder(parse_int=float).scan_once  # type: ignore[attr-defined]

Span = tuple[int, int]
Spans = dict[str, Span]


def member_spans(data: bytes) -> tuple[str, Spans] | None:
    """The text of a record and where in it each value of its outermost object stands; None for a record that must be
    read with care: text that is no such object, or has a key twice."""
    try:
        text = data.decode("utf-8").strip(_SPACE)
    except UnicodeDecodeError:
        return None
    found = object_spans(text, 0)
    return None if found is None or found[1] != len(text) else (text, found[0])


def object_spans(text: str, start: int) -> tuple[Spans, int] | None:
    """Where each value of the object at `start` stands, and where it ends; None as for `member_spans`."""
    spans: Spans = {}
    try:
        if text[start] != "{":
            return None
        at = _SPACES.match(text, start + 1).end()  # type: ignore[union-attr]  # it matches everywhere
        if text[at] == "}":
            return spans, at + 1
        while True:
            at = _SPACES.match(text, at).end()  # type: ignore[union-attr]
            if text[at] != '"':
                return None
            name, at = _scanstring(text, at + 1, True)
            at = _SPACES.match(text, at).end()  # type: ignore[union-attr]
            if text[at] != ":" or name in spans:
                return None
            begin = _SPACES.match(text, at + 1).end()  # type: ignore[union-attr]
            _, at = _skip(text, begin)
            spans[name] = (begin, at)
            at = _SPACES.match(text, at).end()  # type: ignore[union-attr]
            if text[at] == "}":
                return spans, at + 1
            if text[at] != ",":
                return None
            at += 1
    except (ValueError, IndexError, RecursionError, StopIteration):
        return None


def element_spans(text: str, start: int) -> tuple[list[Span], int] | None:
    """Where each element of the list at `start` stands, and where the list ends; None as for `member_spans`."""
    spans: list[Span] = []
    try:
        if text[start] != "[":
            return None
        at = _SPACES.match(text, start + 1).end()  # type: ignore[union-attr]  # it matches everywhere
        if text[at] == "]":
            return spans, at + 1
        while True:
            _, end = _skip(text, at)
            spans.append((at, end))
            at = _SPACES.match(text, end).end()  # type: ignore[union-attr]
            if text[at] == "]":
                return spans, at + 1
            if text[at] != ",":
                return None
            at = _SPACES.match(text, at + 1).end()  # type: ignore[union-attr]
    except (ValueError, IndexError, RecursionError, StopIteration):
        return None


def member_place(text: str, steps: Sequence[str]) -> Span | None:
    """Where the value at the end of these names stands, in a text that is one JSON value without space around it; None as for
    `member_spans`, or where there is none. The value `null` on the way is the end of it. Without a name it is the whole text.
    Of names that differ in case alone the one that is spelled so counts: of two such keys the record is in error anyway."""
    start, end = 0, len(text)
    for step in steps:
        if text[start:end] == "null":
            break
        found = object_spans(text, start)
        if found is None or found[1] != end:
            return None
        spans = found[0]
        name = step if step in spans else next((name for name in spans if name.lower() == step.lower()), None)
        if name is None:
            return None
        start, end = spans[name]
    return start, end


def after_space(text: str, start: int) -> int:
    """Where the space that may stand at a place ends."""
    return _SPACES.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere


def value_end(text: str, start: int) -> int | None:
    """Where the JSON value at `start` ends; None where none begins there."""
    try:
        return int(_skip(text, start)[1])
    except (ValueError, IndexError, RecursionError, StopIteration):
        return None
