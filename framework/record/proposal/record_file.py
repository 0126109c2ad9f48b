"""Reads a file of records as people have them: JSON with one record a line, a list, several lines each; or CSV.

In: a file's bytes. Out: the values of the records, as a topic would hold them, and how they were read. Text that is JSON is
passed on as it stands; a row of CSV becomes a JSON object, its cells numbers where a whole column is written as JSON
writes them.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json.decoder import JSONDecodeError

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?\Z")
_DELIMITERS = (",", ";", "\t", "|")
_DECODER = json.JSONDecoder()
JSON_LINES, JSON_LIST, JSON_VALUES, CSV = "one JSON value a line", "a JSON list", "JSON values of several lines", "CSV"


@dataclass(frozen=True)
class RecordFile:
    """`form` says how the values were read."""

    form: str
    values: tuple[bytes, ...]


def read_records(content: bytes) -> RecordFile:
    """The records of a file. Lines that are no JSON are records, too: a topic may hold anything.

    Raises:
        ValueError: it is no text, or there is no record in it.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: byte {error.start + 1} is not") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError("it holds no record")
    if not all(map(_is_json, lines)):
        if (values := _whole(text)) is not None:
            return values
        if (rows := _rows(text)) is not None:
            return RecordFile(CSV, tuple(rows))
    elif len(lines) == 1 and (values := _whole(text)) is not None and values.form == JSON_LIST:
        return values
    return RecordFile(JSON_LINES, tuple(line.encode() for line in lines))


def _is_json(line: str) -> bool:
    try:
        _DECODER.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def _whole(text: str) -> RecordFile | None:
    """A text that is one list of values, or values one after the other, with line ends anywhere; None where it is not."""
    try:
        values = tuple(_values(text))
    except (JSONDecodeError, RecursionError):
        return None
    if len(values) == 1 and values[0].startswith("["):
        try:
            inner = tuple(_values(values[0][1:-1], ","))
        except (JSONDecodeError, RecursionError):
            return None
        return RecordFile(JSON_LIST, tuple(value.encode() for value in inner)) if inner else None
    return RecordFile(JSON_VALUES, tuple(value.encode() for value in values)) if values else None


def _values(text: str, between: str = "") -> Iterator[str]:
    at = _end_of_blank(text, 0)
    while at < len(text):
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _end_of_blank(text, end)
        if between and at < len(text):
            if text[at] != between:
                raise JSONDecodeError("no comma", text, at)
            at = _end_of_blank(text, at + 1)


def _end_of_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _rows(text: str) -> list[bytes] | None:
    """The rows of CSV as JSON objects; None where the lines do not have as many cells as the first has names."""
    head = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=head.count)
    if head.count(delimiter) == 0 or head.lstrip().startswith(("{", "[")):
        return None
    try:
        names, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter, strict=True) if row]
    except (csv.Error, ValueError):
        return None
    names = [name.strip() for name in names]
    if not rows or len(set(names)) < len(names) or "" in names or any(len(row) != len(names) for row in rows):
        return None
    numbers = [all(_NUMBER.match(row[at]) for row in rows if row[at]) for at in range(len(names))]
    return [_object(names, row, numbers) for row in rows]


def _object(names: list[str], row: list[str], numbers: list[bool]) -> bytes:
    cells = [
        "null" if not cell else cell if is_number else json.dumps(cell, ensure_ascii=False)
        for cell, is_number in zip(row, numbers, strict=True)
    ]
    pairs = (f"{json.dumps(name, ensure_ascii=False)}: {cell}" for name, cell in zip(names, cells, strict=True))
    return f"{{{', '.join(pairs)}}}".encode()
