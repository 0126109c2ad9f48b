"""What `TimestampConverter` makes of a field, in the words of `source.schema` or as SQL.

In: the step and the shape of the records before it. Out: the shape with the field as a moment. Connect knows
milliseconds alone, so finer numbers are cut as it cuts them; text with fractions of a second it reads otherwise than
anybody, so that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from framework.config.values.type_text import text_of
from framework.connector.translation.transforms.chain import ConnectTransform
from framework.connector.translation.transforms.record_shape import (
    RecordColumn,
    RecordShape,
    changed,
    quoted,
)

_UNITS = {"seconds": "s", "milliseconds": "ms"}
_TO_MOMENT = {
    "seconds": "timestamp_seconds({})",
    "milliseconds": "timestamp_millis({})",
    "microseconds": "timestamp_millis({} DIV 1000)",
    "nanoseconds": "timestamp_millis({} DIV 1000000)",
}
# Java's letters and those of strptime, longest first.
_LETTERS = {
    "yyyy": "%Y",
    "XXX": "%z",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "Z": "%z",
}
_WHY = {
    "S": "Connect reads fractions of a second as a count of milliseconds",
    "X": "Connect reads the hours of a zone alone, and passes over its minutes",
}


def timestamp(step: ConnectTransform, shape: RecordShape) -> RecordShape:
    """The records with one field converted.

    Raises:
        Untranslatable: the conversion has no words in a pipeline file.
    """
    name, target = step.options.get("field", ""), step.options.get("target.type", "")
    precision = step.options.get("unix.precision", "milliseconds")
    if not name:
        step.refuse("field", "it converts the whole value, and the sink writes only objects")
    if precision not in _TO_MOMENT:
        step.refuse("unix.precision", f"`{precision}` is not a precision of Connect's")
    if shape.has_schema:
        step.refuse("type", "what it does depends on the schema of the records, which is in a registry")
    if target != "Timestamp":
        step.refuse("target.type", f"floe makes a timestamp of the field, not {target or 'nothing'}")
    column = shape.column(name) if shape.columns is None else shape.one(step, "field", name)
    if column is None or (column.field == name and not _is_used_elsewhere(name, shape)):
        hint = _hint(step, precision, column)
        if hint is not None:
            sql = quoted(name)
            moved = [RecordColumn(name, "timestamptz", sql, field=name)] if shape.columns is not None else []
            return replace(shape, hints={**shape.hints, name: hint}).put(*moved)
    assert column is not None
    if column.kind not in ("int", "long"):
        step.refuse("field", f"floe cannot make a timestamp of `{name}` at this point", "convert it first")
    return shape.put(changed(step, column, "timestamptz", _TO_MOMENT[precision].format(column.sql)))


def _is_used_elsewhere(name: str, shape: RecordShape) -> bool:
    """Whether another column or a condition reads the field too, which must stay as it is for them."""
    word = re.compile(rf"(?<![\w`.]){re.escape(quoted(name))}(?![\w`])")
    others = [one.sql or "" for one in shape.columns or () if one.name != name]
    return any(word.search(text) for text in (*others, *shape.where))


def _hint(step: ConnectTransform, precision: str, column: RecordColumn | None) -> Mapping[str, str] | None:
    """How floe reads the field itself; None where SQL must."""
    is_text = column is not None and column.kind == "string"
    if column is not None and column.kind not in ("string", "int", "long"):
        step.refuse(
            "field",
            f"Connect makes no timestamp of `{column.name}`, which `--fields` declares as {text_of(column.kind)}",
        )
    form = step.options.get("format", "")
    if is_text or (column is None and form):
        return {"type": "timestamptz", **_text_form(step, form)}
    if precision in _UNITS:
        return {"type": "timestamptz", "unit": _UNITS[precision]}
    if column is None:
        step.refuse(
            "unix.precision",
            f"Connect cuts {precision} to milliseconds, and floe keeps them",
            "give `--fields`, so that floe cuts them too",
        )
    return None


def _text_form(step: ConnectTransform, form: str) -> dict[str, str]:
    if not form:
        step.refuse("format", "Connect reads no text without a format")
    found, rest = "", form
    while rest:
        if quote := re.match(r"'([^']+)'", rest):
            found, rest = found + quote[1].replace("%", "%%"), rest[quote.end() :]
            continue
        letter = next((pair for pair in _LETTERS.items() if rest.startswith(pair[0])), None)
        if letter is not None and not rest[len(letter[0]) :].startswith(letter[0][-1]):
            found, rest = found + letter[1], rest[len(letter[0]) :]
        elif rest[0].isalpha() or rest[0] in "'%":
            why = _WHY.get(rest[0], "floe has no word for it")
            step.refuse(
                "format", f"`{form}` holds `{rest[0]}`: {why}", "declare the field's format under `source.schema`"
            )
        else:
            found, rest = found + rest[0], rest[1:]
    if "%" not in found:
        step.refuse("format", f"`{form}` says nothing of a moment")
    return {"format": found} if "%z" in found else {"format": found, "zone": "UTC"}
