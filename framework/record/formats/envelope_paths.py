"""Change events of an envelope that the file describes, as rows: what happened is said in Debezium's letters.

In: the text of one record, and the paths of its envelope. Out: the row's text, with `__op` and the fields that are kept; so
all that is done with Debezium's changes is done with these. Nothing is guessed: a word that the file does not know is an
error.
"""

from __future__ import annotations

import json
from functools import lru_cache

from framework.config.names.metadata import kept_column
from framework.config.spec import EnvelopePaths
from framework.record.failure import RecordFailure, shown
from framework.record.json.member_spans import Span, member_place, object_spans
from framework.record.strict_json import parse_record

_SPACE = " \t\r\n"


def row_text(data: bytes, paths: EnvelopePaths) -> bytes | None:
    """The row of one change event; None for an event that is ignored.

    Raises:
        RecordFailure: as `parse_record`; FLOE-D121, it is no change event; FLOE-D122, it holds no row.
    """
    try:
        text = data.decode("utf-8").strip(_SPACE)
    except UnicodeDecodeError:
        text = ""  # the strict parser says where
    word = _text_at(text, paths.operation)
    if word is None:
        parse_record(data)
        raise _no_change(paths, f"`{paths.operation}` is no text")
    letter = _letters(paths).get(word.lower())
    if letter is None:
        parse_record(data)
        if word.lower() in map(str.lower, paths.ignore):
            return None
        raise _no_change(paths, f"`{paths.operation}` is {shown(json.dumps(word))}, which is none of the operations")
    image = paths.before if letter == "d" and paths.before is not None else paths.after
    row = object_at(text, member_place(text, image.split(".")))
    if row is None:
        parse_record(data)
        message = f"the record is a change of kind {word!r} without the row: `{image}` is no object"
        raise RecordFailure("decode", "FLOE-D122", message, field_path=image, expected="object")
    parts = [row] if row.strip(_SPACE) else []
    parts.append(f'"__op":"{letter}"')
    for path in paths.fields:
        place = member_place(text, path.split("."))
        if place is not None:
            parts.append(f'"{kept_column(path)}":{text[slice(*place)]}')
    try:
        return f"{{{','.join(parts)}}}".encode()
    except UnicodeEncodeError:
        message = "the record holds a lone surrogate, which no UTF-8 text can hold"
        raise RecordFailure("decode", "FLOE-D104", message) from None


def object_at(text: str, place: Span | None) -> str | None:
    """What stands between the braces of an object; MongoDB's connectors write it inside of a text. None where there is no
    object."""
    if place is None:
        return None
    start, end = place
    if text[start] == '"':
        text = json.loads(text[start:end]).strip(_SPACE)
        start, end = 0, len(text)
    if start == end or text[start] != "{":
        return None
    found = object_spans(text, start)
    return None if found is None or found[1] != end else text[start + 1 : end - 1]


def _text_at(text: str, path: str) -> str | None:
    place = member_place(text, path.split("."))
    if place is None or text[place[0] : place[0] + 1] != '"':
        return None
    found: str = json.loads(text[slice(*place)])
    return found


@lru_cache(maxsize=64)
def _letters(paths: EnvelopePaths) -> dict[str, str]:
    return {word.lower(): letter for letter, words in paths.operations for word in words}


def _no_change(paths: EnvelopePaths, what: str) -> RecordFailure:
    known = ", ".join(word for _, words in paths.operations for word in words)
    return RecordFailure(
        "decode",
        "FLOE-D121",
        f"the record is no change of a row: {what}",
        field_path=paths.operation,
        expected=shown(known),
    )
