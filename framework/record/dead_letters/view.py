"""A dead letter as a person reads it: the record's text with the place of the trouble under it.

In: a letter's bytes, code and field. Out: lines without colour. Control characters are shown escaped, so that no record
can write to a terminal, and a long record is shown around the place alone.
"""

from __future__ import annotations

from unicodedata import category, east_asian_width

from framework.diagnose.shown import shown
from framework.record.json.locate_field import locate
from framework.record.strict_json import error_at

_AROUND = 60
_WIDTH = 120


def value_lines(value: bytes | None, field_path: str | None) -> list[str]:
    """The value in one line, and under it a caret at the byte where its JSON breaks, or a mark under the field."""
    if value is None:
        return ["(null)"]
    text = value.decode("utf-8", errors="backslashreplace")
    span: tuple[int, int] | None = None
    broken = error_at(value)
    if broken is not None:
        at = len(value[:broken].decode("utf-8", errors="backslashreplace"))
        span = at, at + 1
    elif field_path is not None:
        span = locate(text, field_path)
    start, end = _window(len(text), span)
    before, after = "…" if start else "", "…" if end < len(text) else ""
    line = before + shown(text[start:end]) + after
    if span is None:
        return [line]
    margin = _width(before + shown(text[start : span[0]]))
    length = max(1, _width(shown(text[span[0] : min(span[1], end)])))
    where = f" byte {broken}" if broken is not None else ""
    return [line, " " * margin + "^" * length + where]


def _window(length: int, span: tuple[int, int] | None) -> tuple[int, int]:
    if length <= _WIDTH:
        return 0, length
    if span is None:
        return 0, _WIDTH
    start = max(0, span[0] - _AROUND)
    return start, min(length, max(start + _WIDTH, min(span[1], span[0] + _WIDTH)))


def _width(text: str) -> int:
    return sum(2 if east_asian_width(c) in "WF" else 0 if category(c) in ("Mn", "Me") else 1 for c in text)


def bytes_text(data: bytes | None) -> str:
    """Bytes for one line: text where they are text, else their beginning as hexadecimal."""
    if data is None:
        return "(null)"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{data[:32].hex()}" + ("…" if len(data) > 32 else "")
    return shown(text if len(text) <= _WIDTH else text[:_WIDTH] + "…")
