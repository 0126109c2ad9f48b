"""The compiled JSON parser beside Arrow's: the same table, or no answer."""

from __future__ import annotations

import json
import os
import random
import struct
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from framework.record.json import compiled as compiled_json
from framework.record.json import maps as json_maps
from framework.record.json.arrow import _options, _parse
from framework.record.json.compiled import parse_plain
from framework.record.json.framing import frame
from framework.record.json.mixed_kinds import Leniency
from framework.record.rows.dictionary_text import plain_table

pytestmark = pytest.mark.skipif(
    not compiled_json.available(), reason="no C compiler was there when floe was installed; Arrow parses all"
)

EXAMPLES = int(os.environ.get("FLOE_FUZZ_EXAMPLES", "1500"))
NAMES = ["a", "b", "id", "Id", "é", "long name", "x" * 40, "quote'", ""]
LEAVES = [
    pa.bool_(),
    pa.int64(),
    pa.float64(),
    pa.string(),
    pa.decimal128(10, 2),
    pa.decimal128(19, 19),
    pa.decimal128(38, 0),
    pa.decimal256(56, 20),
]
TEXTS = ["", '"', "\\", "tab\there", "line\nend", "é😀", "a" * 100, "\x1f", "\x7f", "/", "\ud7ff", "plain", "two words"]
NUMBERS = [
    *(
        "-0",
        "0",
        "-0.0",
        "1e5",
        "1E+22",
        "1e23",
        "123456789012345678901234567890",
        "0.1",
        "1e-400",
        "1e400",
        "4.9e-324",
    ),
    *("9007199254740993", "9007199254740993.0", "179769313486231580793e289", "0." + "0" * 30 + "1", "1" * 80, "2.50"),
    *(
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551616",
        "0.30000000000000004",
    ),
]
WRONG = [
    *(
        b"",
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"1",
        b"-",
        b".",
        b"e",
        b"null",
        b" ",
        b"\\u12",
        b"\\ud800",
    ),
    *(b"\x01", b"0", b"true", b'"a"', b"\\n", b"+"),
]


class Writer:
    """Random schemas, and documents of them as JSON allows them to be written."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def schema(self) -> pa.Schema:
        return pa.schema(list(self._fields(2)))

    def _fields(self, depth: int) -> list[tuple[str, pa.DataType]]:
        names = self.chance.sample(NAMES, self.chance.randint(1, 5))
        return [(name, self._kind(depth)) for name in names]

    def _kind(self, depth: int) -> pa.DataType:
        what = self.chance.random()
        if depth and what < 0.2:
            return pa.list_(self._kind(depth - 1))
        if depth and what < 0.4:
            return pa.struct(self._fields(depth - 1))
        return self.chance.choice(LEAVES)

    def schema_with_maps(self) -> pa.Schema:
        maps = [(name, pa.map_(pa.string(), self._kind(1))) for name in ("m", "n")[: self.chance.randint(1, 2)]]
        return pa.schema([*self._fields(1), *maps])

    def records(self, schema: pa.Schema) -> list[bytes]:
        root = pa.struct(list(schema))
        return [self._struct(root).strip().encode() for _ in range(self.chance.randint(1, 6))]

    def _gap(self) -> str:
        return self.chance.choice(["", "", "", "", " ", "\t", " \r "])

    def _struct(self, kind: pa.DataType) -> str:
        fields = [child for child in kind if self.chance.random() < 0.8]
        self.chance.shuffle(fields)
        inner = (f"{self._gap()}{self._text(f.name)}{self._gap()}:{self._value(f.type)}" for f in fields)
        return f"{self._gap()}{{{','.join(inner)}{self._gap()}}}{self._gap()}"

    def _text(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.chance.random() < 0.2)

    def _value(self, kind: pa.DataType) -> str:
        gap = self._gap()
        if self.chance.random() < 0.1:
            return f"{gap}null{gap}"
        if pa.types.is_struct(kind):
            return self._struct(kind)
        if pa.types.is_map(kind):
            keys = self.chance.choices([*TEXTS, "k1", "k2"], k=self.chance.choice([0, 1, 2, 3, 30]))
            if self.chance.random() < 0.8:
                keys = list(dict.fromkeys(keys))
            members = (f"{self._gap()}{self._text(key)}{self._gap()}:{self._value(kind.item_type)}" for key in keys)
            return f"{gap}{{{','.join(members)}{self._gap()}}}{gap}"
        if pa.types.is_list(kind):
            return f"{gap}[{','.join(self._value(kind.value_type) for _ in range(self.chance.randint(0, 3)))}]{gap}"
        if pa.types.is_boolean(kind):
            return gap + self.chance.choice(["true", "false"]) + gap
        if pa.types.is_string(kind):
            return gap + self._text(self.chance.choice(TEXTS)) + gap
        return gap + self._number(kind) + gap

    def _number(self, kind: pa.DataType) -> str:
        if self.chance.random() < 0.05:
            return self.chance.choice(NUMBERS)
        if pa.types.is_integer(kind):
            return str(self.chance.randint(-(2 ** self.chance.randint(1, 63)), 2 ** self.chance.randint(1, 63) - 1))
        if pa.types.is_decimal(kind):
            whole = self.chance.randint(-(10 ** self.chance.randint(0, 10)), 10 ** self.chance.randint(0, 10))
            places = self.chance.randint(0, min(kind.scale, 4))
            return f"{whole}.{self.chance.randint(0, 10**places - 1):0{places}}" if places else str(whole)
        return repr(struct.unpack("d", self.chance.randbytes(8))[0]).replace("nan", "1").replace("inf", "2")

    def broken(self, record: bytes) -> bytes:
        """The record with up to three wrong places."""
        wrong = bytearray(record)
        for _ in range(self.chance.randint(0, 3)):
            place = self.chance.randint(1, max(len(wrong) - 1, 1))
            wrong[place : place + self.chance.randint(0, 2)] = self.chance.choice(WRONG)
        return bytes(wrong)


def by_arrow(data: bytes, records: int, schema: pa.Schema) -> pa.Table | None:
    """What Arrow's own parser makes of it: a table of exactly the schema, or nothing."""
    found = _parse(data, records, _options(schema, True), 2 << 20)
    return found if isinstance(found, pa.Table) and found.schema.equals(schema) else None


def check(data: bytes, records: int, schema: pa.Schema) -> pa.Table | None:
    plain, expected = parse_plain(data, records, schema), by_arrow(data, records, schema)
    found = None if plain is None else plain[0]
    if found is not None:
        found.validate(full=True)
        assert expected is not None, (data, schema)
        assert found.equals(expected.combine_chunks()), (data, schema)
        # -0.0 equals 0.0; their texts do not.
        assert str(found.to_pylist()) == str(expected.to_pylist())
    for _ in range(2):  # the second time the words are there already
        encoded = parse_plain(data, records, schema, encode=True)
        assert (encoded is None) == (plain is None)
        if encoded is not None and found is not None:
            encoded[0].validate(full=True)
            assert plain_table(encoded[0]).equals(found)
    return found


def test_parses_as_arrow_does() -> None:
    """Documents of a schema give Arrow's table, or no answer; many give one."""
    answers = Counter[bool]()

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, 2**48))
    def compare(seed: int) -> None:
        writer = Writer(seed)
        schema = writer.schema()
        framed = frame(writer.records(schema), np.arange(6))
        found = check(framed.data, framed.data.count(b"\n") + 1, schema)
        event("parsed" if found is not None else "left to Arrow")
        answers[found is not None] += 1

    compare()
    assert answers[True] >= EXAMPLES // 5, answers


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**48))
def test_never_takes_what_arrow_refuses(seed: int) -> None:
    """Documents with wrong places give Arrow's table, or no answer."""
    writer = Writer(seed)
    schema = writer.schema()
    records = [writer.broken(record) for record in writer.records(schema)]
    framed = frame(records, np.arange(len(records)))
    if not framed.alone:
        check(framed.data, len(records), schema)


def test_maps_are_those_of_their_text() -> None:
    """Objects read as maps are what the slow way, by the text of their members, makes of them, or there is no answer;
    of sound ones many give one."""
    answers = Counter[bool]()

    @settings(max_examples=EXAMPLES)
    @given(st.integers(0, 2**48), st.booleans())
    @example(7, False)
    def compare(seed: int, spoiled: bool) -> None:
        answered = maps_are_those_of_their_text(seed, spoiled)
        if not spoiled:
            answers[answered] += 1

    compare()
    assert answers[True] >= EXAMPLES // 20, answers


def maps_are_those_of_their_text(seed: int, spoiled: bool) -> bool:
    """Whether there was an answer to be compared."""
    writer = Writer(seed)
    schema = writer.schema_with_maps()
    records = writer.records(schema)
    records = [writer.broken(record) for record in records] if spoiled else records
    framed = frame(records, np.arange(len(records)))
    if framed.alone:
        return False
    plain = parse_plain(framed.data, len(records), schema)
    event("left to the slow way" if plain is None else "parsed")
    if plain is None:
        return False
    found, odd = plain
    found.validate(full=True)
    assert len(odd) == 0
    maps = {field.name: field.type for field in schema if pa.types.is_map(field.type)}
    parts, alone = json_maps._by_their_text(framed, schema, maps, Leniency())
    assert alone == [], framed.data
    expected = pa.concat_tables([part.table for part in parts])
    assert found.equals(expected.combine_chunks()), (framed.data, schema)
    assert str(found.to_pylist()) == str(expected.to_pylist())
    return True


@pytest.mark.parametrize("inner", ["null", '{"a": 1}', "{}"])
def test_a_key_of_a_map_that_is_called_like_another_map_is_a_key(inner: str) -> None:
    """What was taken out of a map's object, since it looks like a field's, is in no row: such a record is judged alone, and
    its neighbours are not."""
    kind = pa.map_(pa.string(), pa.int64())
    schema = pa.schema([("m", kind), ("n", kind), ("o", pa.list_(pa.int64()))])
    records = [
        '{"m": {"a": 1}, "n": {"b": 2}}',
        f'{{"m": {{"a": 1}}, "n": {{"m": {inner}, "b": 2}}}}',
        '{"n": {"m": 5}}',
    ]
    framed = frame([text.encode() for text in records], np.arange(3))
    parts, alone = json_maps._by_their_text(framed, schema, {"m": kind, "n": kind}, Leniency())
    assert alone == [1]
    rows = [(row["m"], row["n"]) for part in parts for row in part.table.to_pylist()]
    assert rows == [([("a", 1)], [("b", 2)]), (None, [("m", 5)])]


@pytest.mark.parametrize("others", [2, 15, 16, 17, 300])
def test_a_key_that_comes_twice_is_no_map(others: int) -> None:
    """However many keys there are, and however they are written, a repeated one leaves the record out, and it alone."""
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    keys = [f"key {n}" for n in range(others)]
    sound = json.dumps({"m": dict.fromkeys(keys, 1)}).encode()
    twice = sound.replace(b'"m": {', b'"m": {"\\u006bey 1": 2, ')
    plain = parse_plain(b"\n".join([sound, twice, sound]), 3, schema, 1)
    assert plain is not None
    table, odd = plain
    assert odd.tolist() == [1]
    assert table.to_pylist() == [{"m": [(key, 1) for key in keys]}] * 2


@pytest.mark.parametrize(
    "values", [("null", "null"), ("null", '{"a": 1}'), ('{"a": 1}', "null"), ('{"a": 1}', '{"b": 2}')]
)
def test_a_map_whose_key_is_written_with_escapes_beside_its_plain_name_is_judged_alone(values: tuple[str, str]) -> None:
    """`"m"` and `"\\u006d"` are one key: a record with both is left to the strict parser, also where one of them is
    null, and its neighbours are not."""
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    one, other = values
    twice = [f'{{"\\u006d": {one}, "m": {other}}}', f'{{"m": {one}, "\\u006d": {other}}}']
    sound = ['{"m": {"a": 1}}', '{"m": {"a\\u0062": 1}}']
    framed = frame([text.encode() for text in (*sound, *twice)], np.arange(4))
    parts, alone = json_maps.parse_with_maps(framed, schema, Leniency)
    assert sorted(alone) == [2, 3]
    assert sorted(position for part in parts for position in part.positions.tolist()) == [0, 1]


ORDER = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float64()),
        ("paid", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("to", pa.struct([("city", pa.string()), ("at", pa.list_(pa.float64()))])),
    ]
)
PLAIN = [
    '{"id":1,"price":12.50,"ratio":0.25,"paid":true,"tags":["a","b"],"to":{"city":"Köln","at":[6.96,50.94]}}',
    '{"to":null,"id":-9223372036854775807,"tags":[],"paid":false}',
    ' {"tags":[null,"\\u00e9\\ud83d\\ude00\\n"], "to":{"city":null}}'.strip(),
    "{}",
    '{"ratio":1e-7,"price":-0.01,"id":null}',
]


def test_plain_records_need_no_other_parser() -> None:
    """Records that are just what the schema says are parsed here, and as Arrow does."""
    found = check("\n".join(PLAIN).encode(), len(PLAIN), ORDER)
    assert found is not None
    assert found.num_rows == len(PLAIN)


@pytest.mark.parametrize(
    "record",
    [
        '{"id":1.0}',
        '{"id":"1"}',
        '{"id":9223372036854775808}',
        '{"id":01}',
        '{"id":1,"id":2}',
        '{"unknown":1}',
        '{"to":{"unknown":1}}',
        '{"to":{"city":"a","city":"b"}}',
        '{"price":1.505}',
        '{"price":1e2}',
        '{"ratio":1e999}',
        '{"ratio":NaN}',
        '{"paid":1}',
        '{"paid":True}',
        '{"tags":"a"}',
        '{"tags":["a",]}',
        '{"tags":["\\ud800"]}',
        '{"tags":["\\u0000"]}',
        '{"tags":["\\x"]}',
        '{"tags":["\x01"]}',
        '{"id":1}{"id":2}',
        '{"id":1}x',
        '{"id":1',
        '{"\\u0069d":1}',
        '{"id":nul}',
        '{id:1}',
    ],
)  # fmt: skip
def test_gives_no_answer_in_doubt(record: str) -> None:
    """What is not plainly a record of the schema is left to Arrow, wherever it stands in the block."""
    for records in ([record], [*PLAIN, record], [record, *PLAIN]):
        assert check("\n".join(records).encode(), len(records), ORDER) is None


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**48))
def test_odd_records_are_left_out(seed: int) -> None:
    """What is in doubt is left out by its place, and the others come out as if it had not been there."""
    writer = Writer(seed)
    schema = writer.schema()
    records = [
        writer.broken(record) if writer.chance.random() < 0.4 else record
        for _ in range(3)
        for record in writer.records(schema)
    ]
    framed = frame(records, np.arange(len(records)))
    if framed.alone:
        return
    found = parse_plain(framed.data, len(records), schema, len(records))
    assert found is not None
    table, odd = found
    kept = framed.data.split(b"\n")
    for place in odd.tolist()[::-1]:
        assert parse_plain(kept[place], 1, schema) is None
        del kept[place]
    assert len(table) == len(kept)
    table.validate(full=True)
    if kept:
        whole = check(b"\n".join(kept), len(kept), schema)
        assert whole is not None
        assert str(table.to_pylist()) == str(whole.to_pylist())
        assert [c.null_count for c in table.columns] == [c.null_count for c in whole.columns]
    if len(odd):
        assert parse_plain(framed.data, len(records), schema, len(odd) - 1) is None


def test_counts_records() -> None:
    """More or fewer records than the caller says give no answer."""
    data = "\n".join(PLAIN).encode()
    assert parse_plain(data, len(PLAIN) - 1, ORDER) is None
    assert parse_plain(data, len(PLAIN) + 1, ORDER) is None


def test_types_it_does_not_know() -> None:
    """A schema with another type is left to Arrow as a whole."""
    assert parse_plain(b'{"a":1}', 1, pa.schema([("a", pa.float32())])) is None


@example(["b", "a", "c"])
@given(st.permutations(["a", "b", "c"]))
def test_order_of_fields_may_change(names: list[str]) -> None:
    """A field is found wherever it stands, from one record to the next."""
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    records = [json.dumps(dict.fromkeys("abc", 1)), json.dumps({name: ord(name) for name in names}), '{"c":3}']
    found = check("\n".join(records).encode(), 3, schema)
    assert found is not None
    assert found.to_pylist()[1] == {"a": 97, "b": 98, "c": 99}
