"""Where the members of a JSON object stand in its text, so that parts of a record are taken as they were written.

In: a record's bytes, or a text and where in it an object begins. Out: for each member the place of its value; None for
what must be read with care by framework.record.strict_json: no object, a key twice, a value that is no JSON.
"""

from __future__ import annotations

import json
import re

_SPACE = " \t\r\n"
_SPACES = re.compile(r"[ \t\r\n]*")
_scanstring = json.decoder.scanstring  # type: ignore[attr-defined]
_skip = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # C's scanner; not in the stubs

Spans = dict[str, tuple[int, int]]


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
        at = start + 1
        while True:
            at = _SPACES.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
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
