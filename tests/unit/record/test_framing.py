"""Records joined into one buffer stay apart: what one record says never becomes part of another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from framework.record.failure import RecordFailure
from framework.record.json.arrow import parse_framed
from framework.record.json.framing import frame
from framework.record.strict_json import NumberText, parse_record

SCHEMA = pa.schema([("a", pa.int64())])
TOKENS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    '"a"',
    '"b"',
    '"',
    "1",
    "2.5",
    "null",
    "true",
    " ",
    "\n",
    "\t",
    "\r",
    "\\",
    "\0",
    "é",
]
OBJECTS = [
    '{"a":1}',
    '{"a":2,"b":"x"}',
    "{}",
    '{"a":null}',
    '{"a":{"a":3}}',
    '{"b":[{"a":1}]}',
    '{"a":\n4}',
    '{"b":"}\\n{"}',
]
SHATTERED = [b'{"i":1,', b'"j":2}', b'{"i":2}{"i":3}']


def records() -> st.SearchStrategy[list[bytes]]:
    text = st.lists(st.sampled_from(TOKENS + OBJECTS), max_size=6).map("".join) | st.sampled_from(OBJECTS)
    raw = text.map(lambda t: t.encode()) | st.binary(max_size=4)
    return st.lists(raw, max_size=12)


def parse(values: list[bytes]) -> tuple[dict[int, object], list[int]]:
    framed = frame(values, np.arange(len(values)))
    parts, alone = parse_framed(framed, SCHEMA, infer=True)
    rows = {}
    for part in parts:
        for position, value in zip(part.positions.tolist(), part.table.column("a").to_pylist(), strict=True):
            assert position not in rows
            rows[position] = value
    return rows, sorted([*framed.alone, *alone])


@settings(max_examples=300, deadline=None)
@given(records())
@example(SHATTERED)
@example([b"null", b'{"a":1}'])
@example([b"{} null {}", b"{}"])
@example([b"{} {}", b"{}\0{}", b'{"a":1}'])
@example([b'{"a":"', b'"}', b"{}"])
@example([b'{"a":1}\0x}'])
@example([b'{"a":"x\ny"}'])
@example([b'{"b":"\xff"}'])
def test_every_row_is_one_whole_record(values: list[bytes]) -> None:
    """Each record is either one row that holds exactly its own value, or is left to be judged alone."""
    rows, alone = parse(values)
    assert sorted([*rows, *alone]) == list(range(len(values)))
    for position, found in rows.items():
        expected = parse_record(values[position]).get("a")
        assert found == (None if expected is None else int(str(expected)))
        assert isinstance(expected, NumberText | None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*OBJECTS[:4], OBJECTS[6]]), min_size=1, max_size=50))
def test_good_records_are_never_left_over(texts: list[str]) -> None:
    """Objects whose fields have their column's type are parsed together, newlines and blanks around them or not."""
    rows, alone = parse([f" {text}\n".encode() for text in texts])
    assert not alone
    assert len(rows) == len(texts)


def test_bad_records_cost_little_more_than_themselves() -> None:
    """In a large block the bad records are left over, wherever they stand, and at most a few neighbours with them."""
    values = [b'{"a":%d}' % i for i in range(20_000)]
    bad = {0, 1, 5_000, 8_191, 8_192, 12_345, 19_999}
    kinds = [b"{", b'{"a":"x"}', b'{"a":1.5}', b'{"a":1}{"a":2}', b'{"a":1,"a":2}', b'{"a":12345678901234567890}', b"x"]
    for i, kind in zip(sorted(bad), kinds, strict=True):
        values[i] = kind
    rows, alone = parse(values)
    assert bad <= set(alone)
    assert len(alone) <= 8 * len(bad)
    assert all(rows[i] == i for i in rows)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"", "FLOE-D101"),
        (b"hello", "FLOE-D101"),
        (b'{"a":1}{"a":2}', "FLOE-D101"),
        (b'{"a":1,}', "FLOE-D101"),
        (b'{"a":"x\ny"}', "FLOE-D101"),
        (b'\xef\xbb\xbf{"a":1}', "FLOE-D101"),
        (b"null", "FLOE-D102"),
        (b"[1]", "FLOE-D102"),
        (b'"text"', "FLOE-D102"),
        (b'{"a":1,"a":1}', "FLOE-D103"),
        (b'{"b":{"a":1,"a":1}}', "FLOE-D103"),
        (b'{"a":"\xff"}', "FLOE-D104"),
        (b'{"a":"\\ud800"}', "FLOE-D104"),
        (b'{"\\udc00":1}', "FLOE-D104"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "FLOE-D105"),
    ],
)
def test_what_is_no_record(value: bytes, code: str) -> None:
    """Bytes that are not one JSON object with one exact meaning are refused, each kind under its own code."""
    with pytest.raises(RecordFailure) as failure:
        parse_record(value)
    assert failure.value.code == code


def test_numbers_keep_their_text() -> None:
    """A number is kept as it was written until the type of its column is known."""
    record = parse_record(b'{"a":1.10,"b":1e400,"c":12345678901234567890123,"d":-0,"e":NaN}')
    assert record == {"a": "1.10", "b": "1e400", "c": "12345678901234567890123", "d": "-0", "e": "NaN"}
    assert all(isinstance(value, NumberText) for value in record.values())
