"""Fields that hold text in some records and numbers in others, without one slow record for each of them.

Arrow's JSON reader takes one kind per column. Where many records of a block have another kind than the column, their
numbers and booleans are put in quotes (for text columns), or text that is a number is taken out of them (for number
columns): the same meaning the converters give such values one by one, so that nothing else changes. A match is always a
whole key: within a JSON string its quotes would be escaped, and a key that merely ends like it has a backslash before.
Only the copy that is parsed is changed; dead letters and observed types come from the record's own bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

_DIGITS = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
_NUMBER = _DIGITS + rb"(?:[eE][+-]?[0-9]{1,5})?"
_BARE = rb"(" + _NUMBER + rb"|true|false)(?=[ \t\r]*[,}])"
_QUOTED = rb'"(' + _DIGITS + rb')"(?=[ \t\r]*[,}])'


@dataclass(frozen=True)
class Leniency:
    """Which top-level fields may be rewritten: `text` columns take numbers as their text, `number` columns take text
    that is a number (in no column without `reads_text`, nor in those whose lower-cased names are in `counts`). Of the
    fields beside the schema all may, except those whose lower-cased names are in `never`."""

    text: frozenset[str] = field(default_factory=frozenset)
    number: frozenset[str] = field(default_factory=frozenset)
    never: frozenset[str] = field(default_factory=frozenset)
    counts: frozenset[str] = field(default_factory=frozenset)
    reads_text: bool = True

    def rule(self, name: str, schema: pa.Schema) -> str | None:
        """`text`, `number`, or None: leave the field as it is."""
        if name in self.number:
            return "number" if self.reads_text and name.lower() not in self.counts else None
        if name in self.text or (name not in schema.names and name.lower() not in self.never):
            return "text"
        return None


def rewrite(data: bytes, fields: Iterable[tuple[str, str]]) -> bytes:
    """The joined records with the given (name, rule) fields brought to one kind, at whatever depth the key stands."""
    for name, rule in fields:
        key = rb"(?<!\\)(" + re.escape(json.dumps(name, ensure_ascii=False).encode("utf-8")) + rb"[ \t\r]*:[ \t\r]*)"
        value, becomes = (_BARE, rb'\1"\2"') if rule == "text" else (_QUOTED, rb"\1\2")
        data = re.sub(key + value, becomes, data)
    return data
