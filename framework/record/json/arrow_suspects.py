"""Records that Arrow's JSON reader will stop at, found with one pass over the bytes instead of one parse for each of
them.

In: the joined records, and what Arrow said when it stopped at the first of them. Out: the rows that hold something else
than it wants behind the key it named. A guess that may be wrong both ways: a suspect is judged alone, which is always
right, and a record that was missed stops the next parse. So only time depends on it.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints

_KIND = re.compile(r"Column\(/(.+)\) changed from (\w+) to \w+ in row")
_CONVERT = re.compile(r"Failed to convert JSON to (\w+(?:\(\d+, \d+\))?)[,:]")
_BEGINS = {"number": rb"[-0-9nNI]", "string": rb'["n]', "boolean": rb"[tfn]", "array": rb"[\[n]", "object": rb"[{n]"}
_END = rb"(?=[ \t\r]*[,}\]])"


def suspect_patterns(said: str, schema: pa.Schema) -> list[bytes]:
    """Patterns of what Arrow's message is about; none when it says nothing of a kind of value."""
    if kind := _KIND.match(said, max(said.find("Column(/"), 0)):
        name = kind.group(1).split("/")
        begins = _BEGINS.get(kind.group(2))
        return [_other(name[-1], begins)] if begins and name[-1] != "[]" else []
    if target := _CONVERT.search(said):
        fields = [field for field in schema if str(field.type) == target.group(1)]
        return [_other(field.name, rb"(?:null|" + plain + rb")" + _END) for field in fields if (plain := _plain(field))]
    return []


def _other(name: str, wanted: bytes) -> bytes:
    """The key, and behind it something else than `wanted`."""
    key = re.escape(json.dumps(name, ensure_ascii=False).encode("utf-8"))
    # It begins with plain characters, which is what makes the search fast; a key inside of a text is one suspect more.
    return key + rb"[ \t\r]*:[ \t\r]*(?!" + wanted + rb")"


def _plain(field: pa.Field) -> bytes | None:
    """How numbers are written that the type holds for sure."""
    if pa.types.is_integer(field.type):
        return rb"-?[0-9]{1,18}"
    if pa.types.is_decimal(field.type):
        scale = field.type.scale
        whole = rb"-?[0-9]{1,%d}" % max(1, field.type.precision - scale)
        return whole + rb"(?:\.[0-9]{1,%d})?" % scale if scale else whole
    return None


def suspects(data: bytes, starts: Ints, patterns: list[bytes]) -> Ints:
    """The rows in which one of the patterns is found, ascending."""
    found = [match.start() for pattern in patterns for match in re.finditer(pattern, data)]
    rows: Ints = np.unique(np.searchsorted(starts, np.array(found, np.int64), side="right") - 1)
    return rows
