"""JSON that stands as a text in a JSON record, put in the text's place.

In: a record's text, and the paths of the fields. Out: the text in which these fields have the values that their texts hold,
so that all that follows reads them as any other value. A value that is no text stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from framework.record.failure import RecordFailure, shown
from framework.record.json.member_spans import member_place, value_end


def with_parsed_texts(data: bytes, paths: Sequence[str]) -> bytes:
    """The record with the values that are inside these fields; one that cannot be read is left to who judges records.

    Raises:
        RecordFailure: FLOE-D128, a text holds no JSON.
    """
    try:
        text = data.decode("utf-8").strip(" \t\r\n")
    except UnicodeDecodeError:
        return data
    changed = False
    # A field inside of another one may be a text in what the outer one's text holds.
    for path in sorted(paths, key=lambda each: each.count(".")):
        place = member_place(text, path.split("."))
        if place is None or text[place[0]] != '"':
            continue
        start, end = place
        inner = json.loads(text[start:end]).strip(" \t\r\n")
        if not inner or value_end(inner, 0) != len(inner):
            raise _no_json(path, inner)
        text, changed = text[:start] + inner + text[end:], True
    try:
        return text.encode() if changed else data
    except UnicodeEncodeError:
        message = "the record holds a lone surrogate, which no UTF-8 text can hold"
        raise RecordFailure("decode", "FLOE-D104", message) from None


def _no_json(path: str, inner: str) -> RecordFailure:
    said = shown(inner.encode("utf-8", "replace").decode())
    return RecordFailure(
        "decode",
        "FLOE-D128",
        f"{path}: the text is no JSON, and `parse: json` is to give the value in it",
        field_path=path,
        expected="JSON",
        actual=said or "an empty text",
    )
