"""What `floe tap` shows of a record at one stage, as JSON values and as lines, with what must not be seen hidden.

In: a sampled record, the stage and the masks. Out: one JSON document, or lines for people. A hidden value is in neither: not in
fields, rows, keys or names of tables, nor in the words of an error. Invariant: what cannot be read field by field is shown
only up to the first name of a secret, and not at all where fields are to be hidden.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from framework.config.spec import WHOLE_RECORD
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.counted import moment_text
from framework.diagnose.secrets import is_secret_name, redacted
from framework.diagnose.shown import shown
from framework.ops.tap.model import Change, RecordOutcome, SampledRecord
from framework.record.failure import RecordFailure
from framework.record.masks import MASKED, Hidden, Masks, mask_elements, mask_fields
from framework.record.model import DeadLetter
from framework.record.strict_json import NumberText, parse_record
from framework.testing.values import Plain
from framework.testing.values import shown as plain_value

_MOST_CHARACTERS = 2_000
# A shorter one would be found everywhere; messages about a hidden field are not shown at all.
_SHORTEST_HIDDEN = 3
_NAME = re.compile(r"(?<![A-Za-z0-9_.\-])([A-Za-z0-9_.\-]+)\W{0,4}[:=]")
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")


class Stage(str, Enum):
    """Where records are looked at: as they are decoded, the tables they go to, the rows they are there, or those that are
    dead letters."""

    DECODE = "decode"
    ROUTE = "route"
    CONVERT = "convert"
    DEAD_LETTER = "dead_letter"


@dataclass
class _Mask:
    """Hides in one record's texts what was hidden in its fields."""

    masks: Masks
    found: Hidden = field(default_factory=Hidden)

    def fields(self, values: dict[str, Any]) -> dict[str, Any]:
        if values.keys() == {WHOLE_RECORD} and isinstance(elements := values[WHOLE_RECORD], list):
            return {WHOLE_RECORD: self.value(mask_elements(elements, self.masks, self.found))}
        return {name: self.value(value) for name, value in mask_fields(values, self.masks, self.found).items()}

    def value(self, value: Any) -> Plain:
        if isinstance(value, NumberText | int | float) and not isinstance(value, bool):
            return 0 if len(str(value)) >= _SHORTEST_HIDDEN and str(value) in self.found.texts else value
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        for hidden in sorted(self.found.texts, key=len, reverse=True):
            if len(hidden) >= _SHORTEST_HIDDEN:
                text = text.replace(hidden, MASKED)
        return redacted(text)

    def bytes(self, data: bytes | None, path: str) -> Plain:
        """Bytes that are no record's value: text where they are text."""
        if data is None:
            return None
        if self.masks.hides(path):
            self.found.paths.add(path)
            return {"text": MASKED}
        try:
            return {"text": _json(self.fields(dict(parse_record(data))))}
        except RecordFailure:
            pass
        try:
            return {"text": self.unread(data.decode())}
        except UnicodeDecodeError:
            # Fields in it cannot be hidden.
            return {"bytes": len(data)} if self.hides_any else {"base64": base64.b64encode(data).decode()}

    @property
    def hides_any(self) -> bool:
        return bool(self.masks.fields or self.masks.globs or self.found.texts)

    def unread(self, text: str) -> str:
        """A text whose fields are not known, up to the first name of a secret."""
        plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
        if plain != text and any(is_secret_name(name) for name in _NAME.findall(plain)):
            return "…"
        for found in _NAME.finditer(text):
            if is_secret_name(found[1]):
                return self.text(text[: found.end()]) + "…"
        return self.text(text)


def document(seen: SampledRecord, stage: Stage, masks: Masks) -> dict[str, Plain]:
    """One line of `--json`; its form is `schemas/tap.v1.schema.json`."""
    mask = _Mask(masks)
    fields = (
        None if seen.fields is None else mask.fields(_plain(seen.fields))
    )  # first: what it hides is hidden everywhere
    changes = [(change, mask.fields(_plain(change.row))) for change in seen.changes]
    shown_here: dict[str, Plain] = {}
    if stage is Stage.DECODE:
        shown_here = {"key": mask.bytes(seen.key, "key"), "fields": fields}
    elif stage is Stage.ROUTE:
        shown_here = {"tables": [mask.text(table) for table in dict.fromkeys(change.table for change in seen.changes)]}
    elif stage is Stage.CONVERT:
        shown_here = {"changes": [_change(change, row, mask) for change, row in changes]}
    dead_letter = None if seen.letter is None else _letter(seen.letter, fields, mask)
    return {
        "command": "tap",
        "stage": stage.value,
        "topic": seen.topic,
        "partition": seen.partition,
        "offset": seen.offset,
        "timestamp_ms": seen.timestamp_ms,
        "fate": seen.fate.value,
        "code": seen.letter.code if seen.letter else seen.code,
        **shown_here,
        "letter": dead_letter,
        "masked": sorted(mask.found.paths),
    }


def is_of_stage(seen: SampledRecord, stage: Stage) -> bool:
    """Whether the stage shows this record: that of dead letters shows nothing else."""
    return stage is not Stage.DEAD_LETTER or seen.fate in (RecordOutcome.DEAD_LETTER, RecordOutcome.FAILED)


def json_line(found: dict[str, Plain]) -> str:
    """A document in one line; numbers of records as they were written."""
    return _json(found)


def _plain(values: dict[str, Any]) -> dict[str, Plain]:
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Plain:
    if isinstance(value, NumberText):
        return value
    if isinstance(value, dict):
        return {name: _plain_value(inner) for name, inner in value.items()}
    if isinstance(value, list) and not any(isinstance(item, tuple) for item in value):
        return [_plain_value(item) for item in value]
    return plain_value(value)


def _change(change: Change, row: dict[str, Plain], mask: _Mask) -> dict[str, Plain]:
    return {"table": mask.text(change.table), "action": change.action, "row": row}


def _letter(dead_letter: DeadLetter, fields: dict[str, Plain] | None, mask: _Mask) -> dict[str, Plain]:
    path = dead_letter.field_path
    is_hidden = path is not None and mask.masks.hides_part(path)
    title = CODES[dead_letter.code].title if dead_letter.code in CODES else ""
    return {
        "stage": dead_letter.stage,
        "code": dead_letter.code,
        "message": f"{title} (the field is masked)" if is_hidden else _cut(mask.text(dead_letter.message)),
        "field_path": None if path is None else mask.text(path),
        "expected": None if dead_letter.expected is None else mask.text(dead_letter.expected),
        "actual": None if dead_letter.actual is None else MASKED if is_hidden else _cut(mask.text(dead_letter.actual)),
        "value": _value_of(dead_letter.value, fields, mask),
    }


def _value_of(value: bytes | None, fields: dict[str, Plain] | None, mask: _Mask) -> Plain:
    if value is None:
        return None
    if fields is not None:
        return {"text": _cut(_json(fields))}
    if mask.hides_any:  # fields that are to be hidden may be anywhere in it
        return {"bytes": len(value)}
    try:
        return {"text": _cut(mask.unread(value.decode()))}
    except UnicodeDecodeError:
        return {"bytes": len(value)}


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _json(value: Plain) -> str:
    if isinstance(value, NumberText):
        return str(value) if _JSON_NUMBER.match(value) else json.dumps(str(value))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(str(name))}: {_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


# ---- for people -----------------------------------------------------------------------------------------------------


def text_lines(found: dict[str, Plain]) -> Iterator[str]:
    """A document in lines; whatever a record holds is in one line, its control characters escaped."""
    at = found["timestamp_ms"]
    when = "" if at is None else f"  {moment_text(at)}"
    code = f"  {found['code']}" if found["code"] else ""
    place = f"{found['topic']}-{found['partition']}@{found['offset']}"
    yield f"{shown(place)}{when}  {found['fate'].replace('_', ' ')}{code}"
    if found.get("key") is not None:
        yield f"  key     {_of_bytes(found['key'])}"
    if found.get("fields") is not None:
        yield f"  fields  {shown(_cut(_json(found['fields'])))}"
    if found.get("tables"):
        yield f"  tables  {shown(', '.join(found['tables']))}"
    for change in found.get("changes", ()):
        yield f"  {change['action']:<7} {shown(change['table'])}  {shown(_cut(_json(change['row'])))}"
    dead_letter = found["letter"]
    if dead_letter is None:
        return
    yield f"  {dead_letter['stage']}: {shown(dead_letter['message'])}"
    for name in ("field_path", "expected", "actual"):
        if dead_letter[name] is not None:
            yield f"  {name.removesuffix('_path'):<8}  {shown(dead_letter[name])}"
    if dead_letter["value"] is not None:
        yield f"  value     {_of_bytes(dead_letter['value'])}"


def _of_bytes(data: dict[str, Plain]) -> str:
    if "text" in data:
        return shown(str(data["text"]))
    return (
        f"base64:{data['base64']}"
        if "base64" in data
        else f"{data['bytes']:,} bytes, not shown: nothing in them can be hidden"
    )
