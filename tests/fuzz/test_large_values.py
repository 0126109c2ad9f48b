"""Values of forty thousand characters, made of one part again and again: none costs more than a moment."""

from __future__ import annotations

import json
import time
from itertools import product

import pytest
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from framework.record.json import compiled
from framework.record.process import process_block
from testbed.record_samples import block, plan, target

LENGTH = 40_000
# What takes time by the square of its length takes minutes.
MOST_S = 3.0
KINDS: dict[str, object] = {
    **{
        kind: kind
        for kind in (
            "string", "long", "double", "decimal(38, 9)", "boolean", "date", "time", "timestamptz", "uuid", "binary",
        )
    },
    "list": ListType(90, LongType(), element_required=False),
    "map": MapType(91, StringType(), 92, LongType(), value_required=False),
    "struct": StructType(NestedField(93, "b", LongType()), NestedField(94, "c", StringType())),
}  # fmt: skip
PARTS = (
    "0",
    "7",
    "-",
    " ",
    "a",
    "A1",
    "\\",
    '"',
    "\u00e9",
    "1e",
    "e0",
    ".",
    ":",
    "T",
    "=",
    "2024-01-01",
    "[",
    '{"a":',
    "'",
    "\x00",
)  # fmt: skip


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_large_value_is_judged_soon(kind: str, parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the whole value, behind a beginning that is right, and as the name of a field; the neighbours are rows."""
    if parser == "arrow":
        monkeypatch.setattr(compiled, "available", lambda: False)
    made = plan()
    there = {"ns.t": target(columns={"a": "long", "d": KINDS[kind]})}
    for part, begin in product(PARTS, ("", "1e")):
        text = begin + part * (LENGTH // len(part))
        values = [{"a": 1, "d": text}, {"a": 2, "d": {text: 1}}, {"a": 3, text: 1}, {"a": 4, "d": [text]}]
        encoded = [b'{"a": 0}', *(json.dumps(value).encode() for value in values), b'{"a": 5}']
        began = time.thread_time()
        result = process_block(block(encoded), made, there)
        took = time.thread_time() - began
        assert took < MOST_S, f"{took:.1f} s for {text[:30]!r}... in a {kind}"
        refused = {letter.offset for letter in result.dead_letters}
        assert result.needs or not refused & {0, 5}, (text[:30], kind)


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("part", ["1", "0", "[", '{"a":', " ", "1e", "-", '"', "\\", "t", "9."])
def test_a_large_record_that_is_no_text_is_judged_soon(part: str, parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands in the record, where it is no well-formed JSON most of the time."""
    if parser == "arrow":
        monkeypatch.setattr(compiled, "available", lambda: False)
    made = plan()
    for kind in KINDS:
        there = {"ns.t": target(columns={"a": "long", "d": KINDS[kind]})}
        body = (part * (LENGTH // len(part))).encode()
        values = [b'{"a":0}', b'{"d":' + body + b"}", b'{"d":"' + body + b'"}', body, b'{"a":5}']
        began = time.thread_time()
        result = process_block(block(values), made, there)
        took = time.thread_time() - began
        assert took < MOST_S, f"{took:.1f} s in a {kind}"
        assert result.needs or not {letter.offset for letter in result.dead_letters} & {0, 4}
