"""Values are exact or refused, the same way in columns and one by one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from framework.config.spec import EvolveMode, FieldHint, RouteRule
from framework.plan.model import Plan
from framework.record.model import BlockResult, TableTarget
from testbed.record_samples import alone, block, plan, policy, processed, same, schema_of, target
from tests.type_cases import CASES, TypeCase

STRICT = policy(
    columns=EvolveMode.DISCARD_VALUE,
    data_type=EvolveMode.FREEZE,
    nullability=EvolveMode.FREEZE,
    tables=EvolveMode.FREEZE,
)


def setting(case: TypeCase) -> tuple[Plan, dict[str, TableTarget]]:
    hint = FieldHint("v", case.type, format=case.format, zone=case.zone, unit=case.unit)
    return plan(hints=[hint], defaults=STRICT), {"ns.t": target(columns={"v": case.type}, table_policy=STRICT)}


def plain(array: pa.ChunkedArray) -> list[object]:
    """Values as Python's, dates and times as numbers of their unit."""
    kind = array.type
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        array = array.cast(pa.int64())
    return array.to_pylist()


def check(case: TypeCase, result: BlockResult, copies: int = 1) -> None:
    if case.is_error:
        assert [letter.code for letter in result.dead_letters] == [case.result] * copies
        assert result.dead_letters[0].field_path == "v"
        assert result.dead_letters[0].expected
        return
    assert not result.dead_letters
    assert plain(result.rows["ns.t"].column("v")) == [case.result] * copies


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value(case: TypeCase) -> None:
    """Every value of the type table becomes exactly what the table says, in columns and one by one."""
    pipeline, tables = setting(case)
    records = block([f'{{"v":{case.json}}}'.encode()] * 3)
    check(case, processed(records, pipeline, tables), 3)
    check(case, alone(records, pipeline, tables), 3)


@pytest.mark.parametrize("kind", sorted({case.type for case in CASES}))
def test_good_and_bad_values_of_one_column(kind: str) -> None:
    """Bad values beside good ones cost the bad ones only: the good ones come out the same, in order."""
    cases = [case for case in CASES if case.type == kind and not (case.format or case.zone or case.unit)]
    pipeline, tables = setting(replace(cases[0], format=None))
    result = processed(block([f'{{"v":{case.json}}}'.encode() for case in cases]), pipeline, tables)
    good = [case.result for case in cases if not case.is_error]
    assert plain(result.rows["ns.t"].column("v")) == good
    assert [(d.offset, d.code) for d in result.dead_letters] == [
        (i, case.result) for i, case in enumerate(cases) if case.is_error
    ]


MATRIX = [
    line.split(" | ")
    for line in Path(__file__).with_name("type_matrix.golden").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("kind", list(dict.fromkeys(line[0] for line in MATRIX)))
def test_every_kind_of_value_in_every_type(kind: str) -> None:
    """Each kind of JSON value becomes, in a column of each type, the value or the error that was reviewed."""
    for _, value, expected in (line for line in MATRIX if line[0] == kind):
        pipeline, tables = setting(TypeCase(kind, value, None))
        records = block([f'{{"v":{value}}}'.encode()])
        for result in (processed(records, pipeline, tables), alone(records, pipeline, tables)):
            letters = [letter.code for letter in result.dead_letters]
            found = letters[0] if letters else plain(result.rows["ns.t"].column("v"))[0]
            assert repr(found) == expected, value


def test_nan_is_kept() -> None:
    """NaN in a float column stays NaN, written as JSON's lenient producers write it."""
    case = TypeCase("double", "NaN", None)
    pipeline, tables = setting(case)
    records = block([b'{"v":NaN}'])
    for result in (processed(records, pipeline, tables), alone(records, pipeline, tables)):
        assert math.isnan(result.rows["ns.t"].column("v")[0].as_py())


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["2024-01-04", "2024-01-04T12:00:00Z", "2024-01-04 12:00:00", "12", "1.50", "true", "AAAA"])
    | st.datetimes().map(lambda d: d.isoformat())
    | st.uuids().map(str)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB"), inner, max_size=3)
)
COLUMNS: dict[str, object] = {
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "n": "decimal(9, 2)",
    "s": "string",
    "b": "boolean",
    "u": "uuid",
    "x": "binary",
    "t": "timestamptz",
    "w": "timestamp",
    "a": "date",
    "c": "time",
    "o": StructType(
        NestedField(101, "a", LongType(), required=False), NestedField(102, "b", StringType(), required=False)
    ),
    "e": ListType(103, TimestamptzType(), element_required=False),
    "g": ListType(104, StructType(NestedField(105, "a", UUIDType(), required=False)), element_required=False),
    "m": MapType(106, StringType(), 107, LongType(), value_required=False),
    "ms": MapType(108, StringType(), 109, StringType(), value_required=True),
    "mt": MapType(110, StringType(), 111, TimestamptzType(), value_required=False),
    "mn": MapType(
        112,
        StringType(),
        113,
        StructType(
            NestedField(114, "a", DecimalType(9, 2), required=False),
            NestedField(115, "v", StringType(), required=False),
        ),
        value_required=False,
    ),
    "mm": MapType(
        116,
        StringType(),
        117,
        MapType(118, StringType(), 119, DoubleType(), value_required=False),
        value_required=False,
    ),
    "mi": MapType(120, LongType(), 121, LongType(), value_required=False),
    "ml": MapType(122, StringType(), 123, ListType(124, LongType(), element_required=False), value_required=False),
    "om": StructType(
        NestedField(125, "a", MapType(126, StringType(), 127, LongType(), value_required=False), required=False)
    ),
}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(COLUMNS)),
    st.lists(st.tuples(st.sampled_from(["v", "v", "v", "V", "other"]), VALUES), min_size=1, max_size=8),
    st.sampled_from([None, "ms", "s"]),
)
def test_columns_and_single_records_agree(name: str, values: list[tuple[str, object]], unit: str | None) -> None:
    """For any values, a block gives the same rows and the same errors as its records judged one by one."""
    kind = COLUMNS[name]
    hints = [FieldHint("v", "timestamptz", zone="UTC", unit=unit)] if name in "tw" else []
    pipeline = plan(hints=hints, defaults=STRICT)
    tables = {"ns.t": target(columns={"v": kind}, table_policy=STRICT)}
    records = block([{key: value} for key, value in values])
    same(processed(records, pipeline, tables), alone(records, pipeline, tables))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(COLUMNS)), VALUES, max_size=4), min_size=1, max_size=10))
def test_blocks_of_whole_records_agree_with_single_records(values: list[dict[str, object]]) -> None:
    """The same for records of many columns at once."""
    columns = {name: kind for name, kind in COLUMNS.items() if name not in ("mi", "om")}
    pipeline = plan(defaults=STRICT)
    tables = {"ns.t": target(columns=columns, table_policy=STRICT)}
    records = block([json.dumps(value).encode() for value in values])
    same(processed(records, pipeline, tables), alone(records, pipeline, tables))


MIXED = st.sampled_from(
    [1, -2.5, "12", "x", "007", "1e5", True, None, 2**70, "A", "true", {"v": 5}, {"v": "5"}, [1], ["v"]]
)


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["string", "long", "double", "decimal(9, 2)", "binary", "boolean"]),
    st.sampled_from(["string", "long", "binary"]),
    st.lists(st.tuples(MIXED, MIXED, MIXED), min_size=2, max_size=6),
    st.booleans(),
)
def test_fields_of_mixed_kinds(
    outer: str, inner: str, values: list[tuple[object, object, object]], nested: bool
) -> None:
    """Where many records hold another kind of value than the column, they come out as they do one by one."""
    struct = StructType(NestedField(101, "v", schema_of({"v": inner}).find_type("v"), required=False))
    tables = {"ns.t": target(columns={"v": outer, "o": struct}, table_policy=STRICT)}
    pipeline = plan(defaults=STRICT)
    records = block([{"v": a, "o": {"v": b} if nested else b, "other": c} for a, b, c in values] * 40)
    same(processed(records, pipeline, tables), alone(records, pipeline, tables))


def test_text_that_holds_a_field() -> None:
    """Text that looks like a field of mixed kinds is left as it is."""
    tables = {"ns.t": target(columns={"v": "string", "s": "string", 'x"v': "string"}, table_policy=STRICT)}
    tricky = ['{"v":1}', '"v":2,', 'x"v":3}', "\\", '\\"v": 4,', "v"]
    values = [{"v": i if i % 2 else str(i), "s": tricky[i % 6], 'x"v': tricky[i % 5]} for i in range(600)]
    records = block([json.dumps(value).encode() for value in values])
    result = processed(records, plan(defaults=STRICT), tables)
    assert result.rows["ns.t"].to_pylist() == [value | {"v": str(value["v"])} for value in values]


MAPS = [
    b'{"v":{}}',
    b'{ "v" : { "a" : 1 , "b" : null } }',
    b'{"v":{"a":1,"b":2},"n":{"v":{"a":7}}}',
    b'{"n":{"v":{"a":7}}}',
    b'{"n":[{"v":{"a":7}}],"v":{"a":8}}',
    b'{"u":[null,null],"v":{"a":1}}',
    b'{"u":[null,[1]],"v":{"b":1}}',
    b'{"V":[null,null]}',
    b'{"v":null}',
    b'{"v":null,"v":{"a":1}}',
    b'{"v":{"a":1},"v":{"b":1}}',
    b'{"v":{"a":1},"V":{"b":1}}',
    b'{"V":{"b":1}}',
    b'{"v":{"a":1,"a":2}}',
    b'{"v":{"a":1,}}',
    b'{"v":{"a":1 "b":2}}',
    b'{"v":{"a":1,,"b":2}}',
    b'{"v":{"a"}}',
    b'{"v":{,}}',
    b'{"v":{{}}}',
    b'{"v":{"a":1}}{"v":{}}',
    b'{"v":{"a":01}}',
    b'{"v":{"a":[}]}}',
    b'{"v":{"a":"1"}}',
    b'{"v":{"a":1.0,"b":1e2}}',
    b'{"v":{"a":9223372036854775808}}',
    b'{"v":{"a":{"b":1}}}',
    b'{"v":{"a":true}}',
    b'{"v":true}',
    b'{"v":[1]}',
    b'{"v":"{\\"a\\":1}"}',
    b'{"v":5}',
    b'{"s":"\\"v\\":{\\"a\\":1}","v":{"a":1}}',
    b'{"\\"v":{"a":1}}',
    b'{"v":{"\\"v":1,"}":2,"{":3,",":4,"\\\\":5}}',
    b'{"v":{"\\u0061":1,"a":2}}',
    b'{"v":{"\\ud800":1}}',
    b'{"v":{"a\tb":1}}',
    b'{"v":{\t"a":1}}',
    b'{"v":{"a":1},"floe.map:v":0}',
    b'{"v":{"":1}}',
    '{"v":{"ä€😀":1}}'.encode(),
    b'{"v":{"\xff":1}}',
    b'{"v":{"a\x00b":1}}',
    b'{"v":\n{"a"\n:1}}',
    b'{"v":' + b'{"a":' * 40 + b"1" + b"}" * 41,
]


@pytest.mark.parametrize("fewer", [None, 1, 2, 3])
def test_maps_in_columns_and_in_single_records_agree(fewer: int | None) -> None:
    """Objects that become maps give the same rows and errors in a block as one by one, whatever stands in their text
    and beside it."""
    kind = MapType(106, StringType(), 107, LongType(), value_required=False)
    tables = {"ns.t": target(columns={"v": kind, "s": "string"}, table_policy=STRICT)}
    found = MAPS if fewer is None else MAPS[fewer::4] * 3
    for values in ([each for each in found if b"floe.map" not in each], found, *([each] * 3 for each in found)):
        records = block(values)
        same(processed(records, plan(defaults=STRICT), tables), alone(records, plan(defaults=STRICT), tables))


def test_a_rule_may_look_into_a_map() -> None:
    """Where a rule's field lies in a map, records are routed as they are one by one."""
    kind = MapType(106, StringType(), 107, StringType(), value_required=False)
    tables = {f"ns.t_{each}": target(f"ns.t_{each}", columns={"m": kind}) for each in "xy"}
    pipeline = plan(rules=[RouteRule("ns.t_{m.k}")])
    records = block([{"m": {"k": "x", "n": 1}}, {"m": {"k": "y"}}])
    result = processed(records, pipeline, tables)
    same(result, alone(records, pipeline, tables))
    assert result.rows["ns.t_x"].to_pylist() == [{"m": [("k", "x"), ("n", "1")]}]
    assert len(result.rows["ns.t_y"]) == 1


def test_a_field_of_a_struct_in_a_map_becomes_a_column() -> None:
    """A new field in one value of a map asks for its column, and is not left out."""
    inner = StructType(NestedField(108, "a", LongType(), required=False))
    tables = {"ns.t": target(columns={"m": MapType(106, StringType(), 107, inner, value_required=False)})}
    result = processed(block([{"m": {"x": {"a": 1}}}, {"m": {"x": {"a": 1}, "y": {"b": "new"}}}]), plan(), tables)
    assert dict(result.needs["ns.t"].fields) == {"m": ["map", "string", ["struct", [["b", "string"]]]]}
