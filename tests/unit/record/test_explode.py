"""Records that hold several documents: each element is a row, and a record lands whole or is one dead letter."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.types import NestedField, StructType

from framework.config.spec import (
    DeleteWhen,
    ErrorPolicy,
    EvolveMode,
    FieldHint,
    FormatSpec,
    KeySpec,
    RouteCondition,
    RouteMode,
    RouteRule,
    TablePolicy,
    WriteMode,
    WritePolicy,
)
from framework.plan.model import Plan
from framework.record.blocks import explode
from framework.record.blocks.bisect_failures import joined, part_of
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.process import process_block
from framework.record.rows.dictionary_text import plain_table
from framework.table.schema.types import primitive_type
from framework.testing.newest_rows import SourceChanges, newest_rows
from testbed.record_samples import block, plan, policy, target
from tests.fuzz.ways import WAYS

COLUMNS = {"id": "long", "name": "string", "_kafka_offset": "long", "_kafka_index": "int"}
Row = tuple[Any, ...]


def made(path: str = "$", **words: Any) -> Plan:
    metadata = words.pop("metadata", ["offset", "index"])
    found = plan(metadata=metadata, **{"defaults": policy(EvolveMode.DISCARD_VALUE), **words})
    return replace(found, decode=replace(found.decode, format=FormatSpec(explode=path)))


def tables(columns: dict[str, Any] | None = None, table_policy: TablePolicy | None = None) -> dict[str, TableTarget]:
    return {
        "ns.t": target(columns=columns or COLUMNS, table_policy=table_policy or policy(EvolveMode.DISCARD_VALUE)),
    }


def rows_in(result: BlockResult, table: str = "ns.t") -> list[Row]:
    parts = [rows for name, rows in result.rows.items() if name == table]
    parts += [rows for alike in result.alike for name, _, rows in alike.split() if name == table]
    return [tuple(row.values()) for part in parts for row in plain_table(part).to_pylist()]


def every_way(values: list[Any], of: Plan, known: dict[str, TableTarget], table: str = "ns.t") -> BlockResult:
    """The result of the first way, which all others must share."""
    found = {}
    for name, way in WAYS.items():
        result = way(block(values), of, known)
        assert not result.needs
        letters = [(d.offset, d.stage, d.code, d.field_path, d.message) for d in result.dead_letters]
        counts = (result.written, result.dropped, dict(result.dropped_for), sorted(result.refused))
        found[name] = (rows_in(result, table), letters, counts)
        assert result.written + result.dropped + len(result.dead_letters) == len(values), name
        assert found[name] == found["alone"], name
    return process_block(block(values), of, known)


def test_a_record_that_is_an_array_is_a_row_for_each_element() -> None:
    """In the order of the elements, with their index; records are counted, not rows."""
    result = every_way([[{"id": 1, "name": "a"}, {"id": 2}], [{"id": 3, "name": "c"}]], made(), tables())
    assert rows_in(result) == [(1, "a", 0, 0), (2, None, 0, 1), (3, "c", 1, 0)]
    assert result.written == 2


def test_an_array_inside_a_record_gives_way_to_its_element() -> None:
    """What stands beside the array stands beside each element, at any depth."""
    columns = {"id": "long", "data": _struct(items=_struct(sku="string"), n="long"), "_kafka_index": "int"}
    value = {"id": 7, "data": {"items": [{"sku": "x"}, {"sku": "y"}], "n": 1}}
    result = every_way([value], made("data.items", metadata=["index"]), tables(columns))
    assert rows_in(result) == [
        (7, {"items": {"sku": "x"}, "n": 1}, 0),
        (7, {"items": {"sku": "y"}, "n": 1}, 1),
    ]


def test_elements_inside_a_record_may_be_single_values() -> None:
    columns = {"id": "long", "tags": "string", "_kafka_index": "int"}
    of = made("tags", metadata=["index"])
    result = every_way([{"id": 7, "tags": ["a", None, "b"]}], of, tables(columns))
    assert rows_in(result) == [(7, "a", 0), (7, None, 1), (7, "b", 2)]


def test_a_new_table_gets_the_columns_of_the_elements() -> None:
    value = {"order": 1, "items": [{"sku": "x"}, {"sku": "y", "n": 2}]}
    for way in WAYS.values():
        need = way(block([value]), made("items"), {}).needs["ns.t"]
        assert dict(need.fields)["items"] == ["struct", [["sku", "string"], ["n", "double"]]], need


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$", [[], [], None]),
        ("items", [{"items": [], "id": 1}, {"items": None}, None]),
        ("a.items", [{"a": {"items": []}}, {"a": None}, None]),
    ],
)
def test_a_record_without_elements_is_dropped_and_counted(path: str, values: list[Any]) -> None:
    """It has no row, as a tombstone has none, and is no error."""
    result = every_way(values, made(path), tables())
    assert (result.written, result.dropped, result.dead_letters) == (0, 3, [])


NO_ARRAY = [
    ("$", {"id": 1}, "FLOE-D126", None),
    ("$", b"null", "FLOE-D126", None),
    ("$", b"5", "FLOE-D126", None),
    ("items", {"id": 1}, "FLOE-D126", "items"),
    ("items", {"items": {"id": 1}}, "FLOE-D126", "items"),
    ("items", {"items": "[1]"}, "FLOE-D126", "items"),
    ("a.items", {"a": [1]}, "FLOE-D126", "a.items"),
    ("items", [], "FLOE-D102", None),
    ("$", b"[1, ", "FLOE-D101", None),
    ("$", b'[{"id": 1}] []', "FLOE-D101", None),
    ("$", b'[{"id": 1} {"id": 2}]', "FLOE-D101", None),
    ("$", b"[{}, \xff]", "FLOE-D104", None),
    ("$", b"\xff", "FLOE-D104", None),
    ("$", b"", "FLOE-D101", None),
    ("items", b'{"items": [{}], "items": [{}]}', "FLOE-D103", "items"),
    ("items", b'{"items": [], "x": {"a": 1, "a": 2}}', "FLOE-D103", "a"),
    ("$", b"[" * 102 + b"]" * 102, "FLOE-D105", "[0]"),
    ("$", [{"id": 1}, 5], "FLOE-D102", "[1]"),
    ("$", [{"id": 1}, [{"id": 2}]], "FLOE-D102", "[1]"),
    ("$", [{"id": 1}, {"id": "x"}], "FLOE-D304", "[1].id"),
    ("$", b'[{"id": 1}, {"id": 1, "id": 2}]', "FLOE-D103", "[1].id"),
]


@pytest.mark.parametrize(("path", "value", "code", "field"), NO_ARRAY)
def test_one_bad_element_makes_the_record_one_dead_letter(path: str, value: Any, code: str, field: str | None) -> None:
    """Nothing of the record lands, its neighbours do, and the field path names the element."""
    good: Any = [{"id": 8}] if path == "$" else {"items": [{}], "a": {"items": [{}]}}
    result = every_way([good, value, good], made(path), tables())
    [letter] = result.dead_letters
    assert (letter.offset, letter.code, letter.field_path) == (1, code, field)
    assert letter.value == block([value]).values[0]
    assert (result.written, result.refused) == (2, {1})
    assert {row[2] for row in rows_in(result)} == {0, 2}


def test_the_path_of_a_bad_element_inside_a_record() -> None:
    columns = {"id": "long", "items": _struct(price="long"), "_kafka_index": "int"}
    of = made("items", metadata=["index"])
    values = [
        {"id": 1, "items": [{"price": 1}, {"price": 2}, {"price": "x"}, {"price": "y"}]},
        {"id": "z", "items": [{}]},
    ]
    result = every_way(values, of, tables(columns))
    inside, beside = result.dead_letters
    assert inside.field_path == "items[2].price"
    assert inside.message.startswith("items[2].price: ")
    assert beside.field_path == "id"


def test_policies_hold_for_records_and_not_for_elements() -> None:
    values = [[{"id": 1}, {"id": "x"}, {"id": "y"}], [{"id": 2}]]
    dropped = every_way(values, made(errors=ErrorPolicy.DROP), tables())
    assert (dropped.dropped, dropped.dropped_for, dropped.dead_letters) == (1, Counter({"FLOE-D304": 1}), [])
    failed = every_way(values, made(errors=ErrorPolicy.FAIL), tables())
    assert failed.failure is not None
    assert (failed.failure.offset, failed.failure.field_path) == (0, "[1].id")


RULES = [
    RouteRule("ns.a", RouteCondition(field="kind", equals="a")),
    RouteRule("ns.b", RouteCondition(field="kind", equals="b")),
]


def by_kind(**words: Any) -> tuple[Plan, dict[str, TableTarget]]:
    columns = {"kind": "string", "n": "long"}
    chosen = policy(EvolveMode.DISCARD_VALUE)
    return (
        made(rules=RULES, metadata=[], **words),
        {name: target(name, columns=columns, table_policy=chosen) for name in ("ns.a", "ns.b")},
    )


def test_rules_choose_among_elements() -> None:
    """A record's elements may go to several tables; one that no rule takes is left out where `unrouted` says so."""
    of, known = by_kind(unrouted=ErrorPolicy.DROP)
    values = [
        [{"kind": "a", "n": 1}, {"kind": "b", "n": 2}, {"kind": "c", "n": 3}],
        [{"kind": "c"}, {"kind": "d"}],
        [{"kind": "b", "n": 4}],
    ]
    for table, wanted in (("ns.a", [("a", 1)]), ("ns.b", [("b", 2), ("b", 4)])):
        result = every_way(values, of, known, table)
        assert rows_in(result, table) == wanted
        assert (result.written, result.dropped, result.dropped_for) == (2, 1, Counter({"FLOE-D201": 1}))


def test_an_element_that_no_rule_takes_may_be_an_error() -> None:
    of, known = by_kind()
    result = every_way([[{"kind": "a"}, {"kind": "c"}], [{"kind": "b"}]], of, known)
    [letter] = result.dead_letters
    assert (letter.code, letter.field_path) == ("FLOE-D201", "[1]")
    assert rows_in(result, "ns.a") == []
    assert rows_in(result, "ns.b") == [("b", None)]


def test_a_record_leaves_all_tables_if_one_refuses_an_element() -> None:
    of, known = by_kind(mode=RouteMode.ALL_MATCH)
    result = every_way([[{"kind": "a", "n": 1}, {"kind": "b", "n": "x"}], [{"kind": "a", "n": 2}]], of, known)
    assert rows_in(result, "ns.a") == [("a", 2)]
    assert [(letter.offset, letter.field_path) for letter in result.dead_letters] == [(0, "[1].n")]


def test_a_record_that_is_refused_shapes_no_table() -> None:
    """The columns of its good elements are asked for by nobody."""
    chosen = policy(EvolveMode.EVOLVE, data_type=EvolveMode.FREEZE)
    known = {"ns.t": target(columns={"id": "long"}, table_policy=chosen)}
    values = [[{"id": 1, "new": "x"}, {"id": "bad"}], [{"id": 2, "other": 1}]]
    for name, way in WAYS.items():
        result = way(block(values), made(defaults=chosen, metadata=[]), known)
        assert [field for field, _ in result.needs["ns.t"].fields] == ["other"], name
        assert [letter.offset for letter in result.dead_letters] == [0], name


def test_documents_on_lines_are_rows() -> None:
    """Whatever space stands between them; a record without one has no row, and one that breaks off is a dead letter."""
    lines = b'{"id": 1, "name": "a"}\n{"id": 2}\r\n\n  {"id": 3}'
    values = [
        lines,
        b'{"id": 4}{"id": 5}',
        b"",
        b" \n",
        b'{"id": 6}\n{"id": ',
        b'{"id": 7}\n[1]',
        b"\xff",
        b'{"id": 8},',
    ]
    result = every_way(values, made("$lines"), tables())
    assert rows_in(result) == [(1, "a", 0, 0), (2, None, 0, 1), (3, None, 0, 2), (4, None, 1, 0), (5, None, 1, 1)]
    assert [(d.offset, d.code, d.field_path) for d in result.dead_letters] == [
        (4, "FLOE-D101", "[1]"),
        (5, "FLOE-D102", "[1]"),
        (6, "FLOE-D104", None),
        (7, "FLOE-D101", "[1]"),
    ]
    assert (result.written, result.dropped) == (2, 2)


def test_a_key_that_is_no_text_is_the_record_s_fault() -> None:
    """Its path names the column, and no element."""
    of = made(metadata=["key_text"])
    records = replace(block([[{"id": 1}, {"id": 2}]]), keys=[b"\xff"])
    [letter] = process_block(records, of, tables({"id": "long", "_kafka_key_text": "string"})).dead_letters
    assert (letter.code, letter.field_path) == ("FLOE-D104", "_kafka_key_text")


def test_what_one_record_becomes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands beside the array is held once for each element: beyond a bound the record is a dead letter."""
    monkeypatch.setattr(explode, "MOST_BYTES", 10_000)
    value = {"beside": "x" * 1_000, "items": [{"id": n} for n in range(20)]}
    small = {"items": [{}]}
    result = every_way([small, value, small], made("items", metadata=["offset"]), tables({"_kafka_offset": "long"}))
    [letter] = result.dead_letters
    assert (letter.offset, letter.code, letter.field_path) == (1, "FLOE-D127", "items")
    assert rows_in(result) == [(0,), (2,)]


def test_a_block_in_pieces_is_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many elements are processed piece by piece, and no record is cut."""
    values = [[{"id": n * 10 + i, "name": str(i)} for i in range(n % 4)] for n in range(40)]
    values[17] = [{"id": 1}, {"id": "bad"}]
    whole = every_way(values, made(), tables())
    for size in (1, 300, 5_000):
        monkeypatch.setattr(explode, "PIECE_BYTES", size)
        monkeypatch.setattr(explode.exploded, "__defaults__", (size,))
        pieces = every_way(values, made(), tables())
        assert rows_in(pieces) == rows_in(whole)
        assert (pieces.written, pieces.dropped) == (whole.written, whole.dropped)


def test_the_key_s_fields_stand_in_each_row() -> None:
    of = made(metadata=[])
    of = replace(of, decode=replace(of.decode, key=KeySpec(FormatSpec(), "key_")))
    records = replace(block([[{"id": 1}, {"id": 2}], [{"id": 3}]]), keys=[b'{"k": "x"}', b"nothing"])
    known = tables({"key_k": "string", "id": "long"})
    result = process_block(records, of, known)
    assert rows_in(result) == [("x", 1), ("x", 2)]
    assert [letter.code for letter in result.dead_letters] == ["FLOE-D101"]


# ---- upsert tables -------------------------------------------------------------------------------------------------


def upserted(**words: Any) -> TablePolicy:
    return replace(policy(EvolveMode.DISCARD_VALUE), write=WritePolicy(WriteMode.UPSERT, ("id",), **words))


def held(parts: list[RecordBlock], of: Plan, known: dict[str, TableTarget], way: str = "compiled") -> list[Row]:
    """The rows of the table after these blocks, as a run finds them."""
    changes = []
    for records in parts:
        result = WAYS[way](records, of, known)
        assert not result.needs
        if "ns.t" in result.keyed:
            changes.append(SourceChanges(records.topic, records.partition, result.keyed["ns.t"]))
    rows = newest_rows(known["ns.t"], changes).to_pylist() if changes else []
    return sorted(tuple(row.values()) for row in rows)


def _plainly(result: BlockResult) -> BlockResult:
    """Without dictionaries: which columns of a block are some depends on the words of blocks before it."""
    alike = [replace(each, rows=plain_table(each.rows)) for each in result.alike]
    return replace(result, rows={name: plain_table(rows) for name, rows in result.rows.items()}, alike=alike)


UPSERT_COLUMNS = {"id": "long", "v": "long", "op": "string"}


def test_of_elements_of_one_key_the_last_one_wins() -> None:
    """Also between upserts and deletes, which travel apart."""
    chosen = upserted(delete_when=DeleteWhen("op", "d"))
    of, known = made(defaults=chosen, metadata=[]), tables(UPSERT_COLUMNS, chosen)
    values = [
        [{"id": 1, "v": 1}, {"id": 1, "v": 2}],
        [{"id": 2, "v": 1}, {"id": 2, "op": "d"}],
        [{"id": 3, "op": "d"}, {"id": 3, "v": 7}, {"id": 4, "v": 1}],
    ]
    for way in WAYS:
        assert held([block(values)], of, known, way) == [(1, 2, None), (3, 7, None), (4, 1, None)], way


elements = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(1, 4), "v": st.integers(0, 3)}, optional={"op": st.sampled_from(["d", "u"])}
    )
    | st.just({"id": 1, "v": "bad"}),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(elements, st.none()), min_size=1, max_size=12),
    st.data(),
    st.booleans(),
    st.booleans(),
)
def test_tables_hold_what_a_fold_of_the_elements_gives(
    values: list[Any], data: st.DataObject, is_inside: bool, is_ordered: bool
) -> None:
    """Appended and upserted, through ends of blocks anywhere, by each way; bad elements take their record with them."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(values) - 1)), max_size=3)))
    given_ = [None if each is None else {"n": at, "e": each} if is_inside else each for at, each in enumerate(values)]
    whole = block(given_)
    bounds = [0, *(cut for cut in cuts if cut < len(values)), len(values)]
    parts = [part_of(whole, first, end) for first, end in pairwise(bounds)]
    good = [(at, each) for at, each in enumerate(values) if each and all(one["v"] != "bad" for one in each)]

    of = made("e" if is_inside else "$")
    own = {"e": _struct(**UPSERT_COLUMNS)} if is_inside else UPSERT_COLUMNS
    known = tables({**own, "_kafka_offset": "long", "_kafka_index": "int"})
    flat = [
        (at, index, {"id": one["id"], "v": one["v"], "op": one.get("op")})
        for at, each in good
        for index, one in enumerate(each)
    ]
    wanted = [(one, at, index) if is_inside else (*one.values(), at, index) for at, index, one in flat]
    for name, way in WAYS.items():
        results = joined([_plainly(way(part, of, known)) for part in parts])
        assert sorted(map(str, rows_in(results))) == sorted(map(str, wanted)), name
        assert results.written == len(good)
        assert len(results.dead_letters) == sum(
            each is not None and any(one["v"] == "bad" for one in each) for each in values
        )
        assert results.dropped == sum(not each for each in values)

    if is_inside:
        return  # a key stands at the top of a table
    chosen = upserted(delete_when=DeleteWhen("op", "d"), order_field="v" if is_ordered else None)
    state: dict[int, tuple[int, dict[str, Any] | None]] = {}
    for _, _, one in flat:
        if not is_ordered or one["id"] not in state or one["v"] >= state[one["id"]][0]:
            state[one["id"]] = (one["v"], None if one["op"] == "d" else one)
    left = sorted(tuple(row.values()) for _, row in state.values() if row is not None)
    of, known = made(defaults=chosen, metadata=[]), tables(UPSERT_COLUMNS, chosen)
    for name in WAYS:
        assert sorted(map(str, held(parts, of, known, name))) == sorted(map(str, left)), name


# ---- JSON inside of texts ------------------------------------------------------------------------------------------


def parsing(*paths: str, explode: str | None = None, **words: Any) -> Plan:
    found = plan(metadata=[], **{"defaults": policy(EvolveMode.DISCARD_VALUE), **words})
    return replace(found, decode=replace(found.decode, parsed=paths, format=FormatSpec(explode=explode)))


def test_a_text_becomes_the_value_inside_of_it() -> None:
    """Of the declared type, whatever stands around the text; a value that is no text, and a missing one, stay as they
    are."""
    known = tables({"id": "long", "doc": _struct(a="long", b="string")})
    inner = {"a": 1, "b": 'quoted "text" – ü'}
    values = [
        {"id": 1, "doc": json.dumps(inner)},
        {"id": 2, "doc": " \n" + json.dumps(inner, indent=1, ensure_ascii=False) + "\t"},
        {"id": 3, "doc": inner},
        {"id": 4, "doc": None},
        {"id": 5},
        {"id": 6, "doc": "null"},
    ]
    result = every_way(values, parsing("doc"), known)
    assert rows_in(result) == [(1, inner), (2, inner), (3, inner), (4, None), (5, None), (6, None)]


@pytest.mark.parametrize("text", ["", " ", "{", "{'a': 1}", '{"a": 1} x', '{"a": 1}{"a": 2}', "hello", "[1,]"])
def test_a_text_that_is_no_json_is_a_dead_letter(text: str) -> None:
    values = [{"id": 1, "doc": '{"a": 1}'}, {"id": 2, "doc": text}]
    result = every_way(values, parsing("doc"), tables({"id": "long", "doc": _struct(a="long")}))
    [letter] = result.dead_letters
    assert (letter.offset, letter.code, letter.field_path, letter.stage) == (1, "FLOE-D128", "doc", "decode")
    assert rows_in(result) == [(1, {"a": 1})]


def test_a_number_of_thousands_of_digits_is_read_by_its_column() -> None:
    """Inside of a text, in an element and beside an array: text has its digits, and a column of numbers says what is wrong."""
    digits = "9" * 5000
    columns: dict[str, Any] = {"id": "long", "s": "string"}
    for of, values in (
        (parsing("s"), [{"id": 1, "s": digits}, {"id": 2, "s": "7"}]),
        (made(), [b'[{"id":1,"s":%s}]' % digits.encode(), [{"id": 2, "s": "7"}]]),
        (made("s"), [b'{"s":["x"],"id":1,"o":%s}' % digits.encode(), {"id": 2, "s": ["7"]}]),
    ):
        result = every_way(values, of, tables(columns))
        assert not result.dead_letters
        assert [row[0] for row in rows_in(result)] == [1, 2]
    assert rows_in(every_way([{"id": 1, "s": digits}], parsing("s"), tables(columns))) == [(1, digits)]
    result = every_way([{"id": digits}, {"id": 2}], parsing("id"), tables(columns))
    assert [(letter.offset, letter.code, letter.field_path) for letter in result.dead_letters] == [
        (0, "FLOE-D302", "id")
    ]


def test_what_is_wrong_inside_of_a_text_is_found() -> None:
    """By the rules that hold for every record: keys twice, and values that do not fit their columns."""
    known = tables({"doc": _struct(a="long")})
    values = [{"doc": '{"a": 1, "a": 2}'}, {"doc": '{"a": "x"}'}, {"doc": '{"a": ' + "[" * 100 + "]" * 100 + "}"}]
    result = every_way(values, parsing("doc"), known)
    assert [(d.code, d.field_path) for d in result.dead_letters] == [
        ("FLOE-D103", "a"),
        ("FLOE-D304", "doc.a"),
        ("FLOE-D105", None),
    ]


def test_texts_inside_of_texts_and_of_structs() -> None:
    known = tables({"out": _struct(doc=_struct(a=_struct(b="long")))})
    value = {"out": {"doc": json.dumps({"a": json.dumps({"b": 5})})}}
    result = every_way([value], parsing("out.doc.a", "out.doc"), known)
    assert rows_in(result) == [({"doc": {"a": {"b": 5}}},)]


def test_the_type_of_a_value_inside_of_a_text_is_inferred_as_any_other() -> None:
    value = {"doc": json.dumps({"a": 1, "b": [{"c": "x"}]})}
    plain = {"doc": {"a": 1, "b": [{"c": "x"}]}}
    for way in WAYS.values():
        assert way(block([value]), parsing("doc"), {}).needs == way(block([plain]), parsing(), {}).needs


def test_declared_times_and_decimals_inside_of_a_text() -> None:
    hints = [FieldHint("doc.at", "timestamptz", unit="ms"), FieldHint("doc.price", "decimal(10, 2)")]
    known = tables({"doc": _struct(at="timestamptz", price="decimal(10, 2)")})
    value = {"doc": '{"at": 1700000000000, "price": 12.10}'}
    result = every_way([value, {"doc": '{"price": 12.111}'}], parsing("doc", hints=hints), known)
    assert [str(row[0]["price"]) for row in rows_in(result)] == ["12.10"]
    assert [letter.field_path for letter in result.dead_letters] == ["doc.price"]


def test_texts_in_elements_of_an_array() -> None:
    """A text in an element is parsed as one in a record, and its failure names the element."""
    known = tables({"items": _struct(doc=_struct(a="long")), "id": "long"})
    values = [
        {"id": 1, "items": [{"doc": '{"a": 1}'}, {"doc": '{"a": 2}'}]},
        {"id": 2, "items": [{"doc": '{"a": 1}'}, {"doc": "x"}]},
    ]
    result = every_way(values, parsing("items.doc", explode="items"), known)
    assert rows_in(result) == [({"doc": {"a": 1}}, 1), ({"doc": {"a": 2}}, 1)]
    assert [(d.code, d.field_path) for d in result.dead_letters] == [("FLOE-D128", "items[1].doc")]


IDS = iter(range(1000, 10**6))


def _struct(**fields: Any) -> StructType:
    kinds = {name: primitive_type(kind) if isinstance(kind, str) else kind for name, kind in fields.items()}
    return StructType(*(NestedField(next(IDS), name, kind, required=False) for name, kind in kinds.items()))
