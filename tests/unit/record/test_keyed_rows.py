"""Records of upsert tables become upserts and deletes by key, alike whichever way a record takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import (
    DeleteWhen,
    Envelope,
    ErrorPolicy,
    EvolveMode,
    FieldHint,
    FormatSpec,
    KeySpec,
    NameCase,
    RouteMode,
    RouteRule,
    TablePolicy,
    WriteMode,
    WritePolicy,
)
from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import joined, part_of
from framework.record.json import compiled as compiled_json
from framework.record.model import BlockResult, ColumnDetail, RecordBlock, TableNeed, TableTarget
from framework.record.process import process_block, process_transformed
from framework.table.changes import CreateTable
from framework.table.columns.new_fields import FieldIds, build_type
from framework.table.create import plan_create
from framework.table.schema.arrow import parse_schema
from framework.table.schema.types import declared_type
from framework.testing.tables import MemoryTables
from testbed.record_samples import alone, block, plan, policy, target

BY_OP = DeleteWhen("op", "d")
BY_TOMBSTONE = DeleteWhen()
COLUMNS: dict[str, str | object] = {"id": "long", "name": "string"}
Tables = dict[str, TableTarget]
Way = Callable[[RecordBlock, Plan, Tables], BlockResult]


def keyed(
    *key: str,
    delete_when: DeleteWhen | None = BY_OP,
    columns: EvolveMode = EvolveMode.DISCARD_VALUE,
    case: NameCase = NameCase.INSENSITIVE,
    **evolve: EvolveMode,
) -> TablePolicy:
    write = WritePolicy(WriteMode.UPSERT, key or ("id",), delete_when=delete_when)
    return replace(policy(columns, case, **evolve), write=write)


@contextmanager
def _without_compiled() -> Iterator[None]:
    before = compiled_json.available
    compiled_json.available = lambda: False
    try:
        yield
    finally:
        compiled_json.available = before


def _by_arrow(records: RecordBlock, made: Plan, tables: Tables) -> BlockResult:
    with _without_compiled():
        return process_block(records, made, tables)


def _encoded(records: RecordBlock, made: Plan, tables: Tables) -> BlockResult:
    return process_block(records, made, tables, encode=True, scatter=True)


JSON_WAYS: Mapping[str, Way] = {"compiled": process_block, "arrow": _by_arrow, "encoded": _encoded, "alone": alone}


def _typed(types: Mapping[str, pa.DataType]) -> Way:
    """By columns whose types are known, as of Avro or protobuf."""

    def way(records: RecordBlock, made: Plan, tables: Tables) -> BlockResult:
        values = [json.loads(value or b"{}") for value in records.values]
        rows = pa.table({name: pa.array([each.get(name) for each in values], kind) for name, kind in types.items()})
        places = pa.array(range(len(rows)), pa.int32())
        return process_transformed(records, rows.append_column("__floe", places), made, tables)

    return way


def reported(result: BlockResult, table: str = "ns.t") -> dict[str, Any]:
    """What became of a block: upserts and deletes as rows by offset, and who was refused why."""
    assert not result.needs
    assert not result.alike
    assert table not in result.rows
    changes = result.keyed.get(table)
    found: dict[str, Any] = {"upserts": {}, "deletes": {}}
    if changes is not None:
        for name, rows, offsets in (
            ("upserts", changes.upserts, changes.upsert_offsets),
            ("deletes", changes.deletes, changes.delete_offsets),
        ):
            assert all(column.num_chunks <= 1 for column in rows.columns)
            assert offsets.tolist() == sorted(set(offsets.tolist()))
            found[name] = dict(zip(offsets.tolist(), rows.to_pylist(), strict=True))
    found["refused"] = [(d.offset, d.code, d.field_path, d.message) for d in result.dead_letters]
    found["written"], found["dropped"] = result.written, result.dropped
    return found


def no_key(offset: int, column: str = "id") -> tuple[int, str, str, str]:
    message = f"{column}: ns.t is written by its key, and the record has no value for this column of it"
    return offset, "FLOE-D311", column, message


def every_way(
    values: Sequence[object],
    made: Plan,
    tables: Tables,
    types: Mapping[str, pa.DataType] | None = None,
    keys: Sequence[bytes | None] | None = None,
) -> dict[str, Any]:
    """What all ways say of the records; they say the same, and count each record once."""
    records = block(values)
    records = records if keys is None else replace(records, keys=list(keys))
    ways = {**JSON_WAYS, **({"typed": _typed(types)} if types else {})}
    found = {name: reported(way(records, made, tables)) for name, way in ways.items()}
    first = found["compiled"]
    for name, other in found.items():
        assert other == first, name
    assert first["written"] == len(first["upserts"]) + len(first["deletes"])
    assert first["written"] + len(first["refused"]) + first["dropped"] == len(values)
    return first


TYPES = {"id": pa.int64(), "name": pa.string(), "op": pa.string()}


def test_a_field_tells_deletes_from_upserts() -> None:
    """Inserts and updates are whole rows, deletes have the key alone; each stands at its offset, and all are
    counted."""
    values = [
        {"id": 1, "name": "a", "op": "c"},
        {"id": 1, "name": "b", "op": "u"},
        {"id": 2, "name": None, "op": None},
        {"id": 1, "name": "b", "op": "d"},
        {"id": 3, "name": "z"},
        {"id": 3, "op": "d"},
    ]
    chosen = keyed()
    found = every_way(values, plan(defaults=chosen), {"ns.t": target(columns=COLUMNS, table_policy=chosen)}, TYPES)
    assert found == {
        "upserts": {
            0: {"id": 1, "name": "a"},
            1: {"id": 1, "name": "b"},
            2: {"id": 2, "name": None},
            4: {"id": 3, "name": "z"},
        },
        "deletes": {3: {"id": 1}, 5: {"id": 3}},
        "refused": [],
        "written": 6,
        "dropped": 0,
    }


def test_a_record_without_its_key_is_a_dead_letter() -> None:
    """Null, missing, and a delete without its key: each is refused by a code of its own that names the column."""
    values = [{"id": 1, "name": "a"}, {"id": None, "name": "b"}, {"name": "c"}, {"op": "d"}, {"id": None, "op": "d"}]
    chosen = keyed()
    for required in ((), ("id",)):
        tables = {"ns.t": target(columns=COLUMNS, required=required, table_policy=chosen)}
        found = every_way(values, plan(defaults=chosen), tables, TYPES)
        assert found["refused"] == [no_key(offset) for offset in (1, 2, 3, 4)]
        assert found["upserts"] == {0: {"id": 1, "name": "a"}}


def test_a_record_without_what_orders_it_is_a_dead_letter() -> None:
    """Where a column orders records, each has a value for it, also one that deletes, and deletes carry it."""
    values = [
        {"id": 1, "name": "a"},
        {"id": 1, "name": None},
        {"id": 2},
        {"id": 1, "name": "b", "op": "d"},
        {"id": 1, "op": "d"},
    ]
    chosen = keyed()
    chosen = replace(chosen, write=replace(chosen.write, order_field="name"))
    found = every_way(values, plan(defaults=chosen), {"ns.t": target(columns=COLUMNS, table_policy=chosen)}, TYPES)
    assert found["upserts"] == {0: {"id": 1, "name": "a"}}
    assert found["deletes"] == {3: {"id": 1, "name": "b"}}
    assert [each[:3] for each in found["refused"]] == [(n, "FLOE-D312", "name") for n in (1, 2, 4)]


def test_a_composite_key_is_whole_or_refused() -> None:
    """Deletes have the columns in the order of the key, and the first column without a value is named."""
    values = [
        {"a": 1, "b": "x", "c": 1.5, "op": "d"},
        {"a": 1, "b": None, "c": 1.5, "op": "d"},
        {"a": None, "b": None, "c": 2.5},
        {"a": 2, "b": "y", "c": 2.5},
    ]
    chosen = keyed("b", "a")
    columns: dict[str, str | object] = {"c": "double", "a": "long", "b": "string"}
    types = {"a": pa.int64(), "b": pa.string(), "c": pa.float64(), "op": pa.string()}
    tables = {"ns.t": target(columns=columns, table_policy=chosen)}
    found = every_way(values, plan(defaults=chosen), tables, types)
    assert found["deletes"] == {0: {"b": "x", "a": 1}}
    assert found["refused"] == [no_key(1, "b"), no_key(2, "b")]
    changes = process_block(block(values), plan(defaults=chosen), tables).keyed["ns.t"]
    assert changes.deletes.column_names == ["b", "a"]
    assert changes.upserts.column_names == ["c", "a", "b"]


def test_key_columns_are_found_by_the_tables_case_rule() -> None:
    """A key and a field that are spelled otherwise than their column are that column where case does not matter."""
    values = [{"ID": 1, "name": "a"}, {"iD": 2, "OP": "d"}, {"name": "x"}]
    chosen = keyed("iD")
    tables = {"ns.t": target(columns={"Id": "long", "name": "string"}, table_policy=chosen)}
    found = every_way(values, plan(defaults=chosen), tables)
    assert (found["upserts"], found["deletes"]) == ({0: {"Id": 1, "name": "a"}}, {1: {"Id": 2}})
    assert found["refused"] == [no_key(2, "Id")]


def test_a_sensitive_table_has_keys_of_one_spelling() -> None:
    """Where case matters a field of another spelling is no key."""
    chosen = keyed(case=NameCase.SENSITIVE)
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    found = every_way([{"ID": 1}, {"id": 2, "OP": "d"}, {"id": 3, "op": "d"}], plan(defaults=chosen), tables)
    assert found["refused"] == [no_key(0)]
    assert (list(found["upserts"]), list(found["deletes"])) == ([1], [2])


@pytest.mark.parametrize(
    ("kind", "value", "bad"),
    [
        ("boolean", True, "x"),
        ("int", 2147483647, 2147483648),
        ("long", 9223372036854775807, 9223372036854775808),
        ("decimal(38, 2)", "123456789012345678901234567890123456.78", 0.001),
        ("date", "2024-02-29", "2024-02-30"),
        ("time", "12:34:56.789012", "25:00"),
        ("timestamp", "2024-02-29T12:34:56.789012", "x"),
        ("timestamptz", "2024-02-29T12:34:56.789012Z", "x"),
        ("string", "ä\u0000b", None),
        ("uuid", "0b8a3b0c-6f57-4c0a-9d3e-0123456789ab", "x"),
        ("binary", base64.b64encode(b"\0\xff").decode(), "%"),
        ("fixed[2]", base64.b64encode(b"\0\xff").decode(), "AA=="),
    ],
)
@pytest.mark.parametrize("data_type", [EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.FREEZE])
def test_keys_of_each_type_are_exact(kind: str, value: object, bad: object, data_type: EvolveMode) -> None:
    """A delete has the very value that the row has; a value that is none of the column changes no key column's type."""
    chosen = keyed(columns=EvolveMode.EVOLVE, data_type=data_type)
    tables = {"ns.t": target(columns={"id": kind, "op": "string"}, table_policy=chosen)}
    values = [{"id": value}, {"id": value, "op": "d"}, {"id": bad}, {"id": bad, "op": "d"}]
    found = every_way(values, plan(defaults=chosen), tables)
    assert found["upserts"][0]["id"] == found["deletes"][1]["id"]
    assert found["upserts"][0]["id"] is not None
    assert [offset for offset, *_ in found["refused"]] == [2, 3]


def test_a_key_is_not_widened_behind_a_value_that_is_left_out() -> None:
    """A key column's type is asked to change on no way, whatever became of the fields before it."""
    chosen = keyed(otherwise=EvolveMode.DISCARD_VALUE)
    tables = {"ns.t": target(columns={"a": "long", "id": "int"}, table_policy=chosen)}
    values = [{"a": "x", "id": 2147483648}, {"a": "x", "id": 1}]
    types = {"a": pa.string(), "id": pa.int64(), "op": pa.string()}
    found = every_way(values, plan(defaults=chosen), tables, types)
    assert (found["upserts"], found["refused"]) == ({1: {"a": None, "id": 1}}, [no_key(0)])


def test_what_does_not_fit_beside_the_key_harms_no_delete() -> None:
    """A delete is decided by its key alone: other fields may be missing, of another type, or unknown."""
    chosen = keyed(columns=EvolveMode.FREEZE, data_type=EvolveMode.FREEZE, nullability=EvolveMode.FREEZE)
    columns: dict[str, str | object] = {"id": "long", "n": "long", "op": "string"}
    tables = {"ns.t": target(columns=columns, required=("n",), table_policy=chosen)}
    values = [
        {"id": 1, "n": "x", "op": "d"},
        {"id": 2, "op": "d"},
        {"id": 3, "n": {"a": 1}, "new": 1, "op": "d"},
        {"id": 4, "n": "x"},
        {"id": 5, "n": 5},
    ]
    found = every_way(values, plan(defaults=chosen), tables)
    assert list(found["deletes"]) == [0, 1, 2]
    assert list(found["upserts"]) == [4]
    assert [offset for offset, *_ in found["refused"]] == [3]


@pytest.mark.parametrize(
    ("equals", "deletes", "refused"),
    [
        (True, [0], [4, 6]),
        (1, [1, 2], [3]),
        ("1", [3], [1, 2]),
        ("true", [4], [0]),
        ("d", [5], []),
    ],
)
def test_the_field_is_compared_as_in_routes(equals: str | int | bool, deletes: list[int], refused: list[int]) -> None:
    """A value of another kind is never equal: 1 is neither "1" nor true. Where it says the same, its record is a dead
    letter: a row that its producer deleted would stay, without a word."""
    values = [{"id": i, "x": {"op": op}} for i, op in enumerate([True, 1, 1.0, "1", "true", "d", "True", None, 1.5])]
    chosen = keyed(delete_when=DeleteWhen("x.op", equals))
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    found = reported(alone(block(values), plan(defaults=chosen), tables))
    assert list(found["deletes"]) == deletes
    assert [(offset, code) for offset, code, *_ in found["refused"]] == [(offset, "FLOE-D207") for offset in refused]
    assert sorted([*found["upserts"], *deletes, *refused]) == list(range(len(values)))
    assert found == reported(process_block(block(values), plan(defaults=chosen), tables))
    assert found == reported(_by_arrow(block(values), plan(defaults=chosen), tables))


@pytest.mark.parametrize(
    ("kind", "values", "equals"),
    [
        (pa.string(), ["true", "false", None], True),
        (pa.bool_(), [True, False, None], "true"),
        (pa.int32(), [1, 0, 2], "1"),
    ],
)
def test_a_typed_field_is_compared_as_in_json(kind: pa.DataType, values: list[object], equals: str | bool) -> None:
    """Avro and protobuf have one kind for a field: `ExtractNewRecordState` writes `__deleted` as text."""
    chosen = keyed(delete_when=DeleteWhen("gone", equals))
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    records = block([{"id": i, "gone": value} for i, value in enumerate(values)])
    found = reported(_typed({"id": pa.int64(), "gone": kind})(records, plan(defaults=chosen), tables))
    assert [(offset, code) for offset, code, *_ in found["refused"]] == [(0, "FLOE-D207")]
    assert (list(found["upserts"]), list(found["deletes"])) == ([1, 2], [])


def test_two_tables_have_conditions_of_their_own() -> None:
    """Numbers and booleans that Python takes for equal are different conditions of different tables."""
    one, other = keyed(delete_when=DeleteWhen("op", 1)), keyed(delete_when=DeleteWhen("op", True))
    made = plan(
        [RouteRule("ns.a"), RouteRule("ns.b")], mode=RouteMode.ALL_MATCH, overrides=[("ns.a", one), ("ns.b", other)]
    )
    tables = {n: target(n, columns=COLUMNS, table_policy=p) for n, p in (("ns.a", one), ("ns.b", other))}
    for way in JSON_WAYS.values():
        result = way(block([{"id": 1, "op": 1}, {"id": 2, "op": True}]), made, tables)
        assert result.keyed["ns.a"].delete_offsets.tolist() == [0]
        assert result.keyed["ns.b"].delete_offsets.tolist() == [1]
        assert (result.written, result.dead_letters) == (2, [])


def _with_key(made: Plan) -> Plan:
    return replace(made, decode=replace(made.decode, key=KeySpec(FormatSpec(), "key_")))


def test_a_tombstone_deletes_by_the_records_key() -> None:
    """A record without a value deletes the row of its key; with an empty, null or unreadable key it is a dead
    letter."""
    chosen = keyed("key_id", delete_when=BY_TOMBSTONE)
    made = _with_key(plan(defaults=chosen))
    tables = {"ns.t": target(columns={"key_id": "long", "name": "string"}, table_policy=chosen)}
    keys = [b'{"id": 1}', b'{"id": 1}', b'{"id": 2}', None, b"{}", b"[]"]
    found = every_way([{"name": "a"}, None, None, None, None, None], made, tables, keys=keys)
    assert found["upserts"] == {0: {"key_id": 1, "name": "a"}}
    assert found["deletes"] == {1: {"key_id": 1}, 2: {"key_id": 2}}
    assert [(offset, code) for offset, code, *_ in found["refused"]] == [
        (3, "FLOE-D311"),
        (4, "FLOE-D311"),
        (5, "FLOE-D102"),
    ]


def test_a_tombstone_deletes_where_values_are_typed() -> None:
    """Of raw values and keys a record without a value deletes by its key, too."""
    chosen = keyed("key", delete_when=BY_TOMBSTONE)
    raw = replace(FormatSpec(), type=type(FormatSpec().type).RAW)
    made = plan(defaults=chosen)
    made = replace(made, decode=replace(made.decode, format=raw, key=KeySpec(raw, "key_")))
    tables = {"ns.t": target(columns={"key": "binary", "value": "binary"}, table_policy=chosen)}
    records = replace(block([b"a", None, b"b", None]), keys=[b"1", b"1", None, None])
    found = reported(process_block(records, made, tables))
    assert found["upserts"] == {0: {"key": b"1", "value": b"a"}}
    assert found["deletes"] == {1: {"key": b"1"}}
    assert found["refused"] == [no_key(2, "key"), no_key(3, "key")]


def test_without_a_word_tombstones_are_dropped() -> None:
    """Where a field tells deletes, and where a table is appended to, a record without a value is dropped."""
    chosen = keyed()
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    found = every_way([{"id": 1}, None, {"id": 1, "op": "d"}], plan(defaults=chosen), tables)
    assert (found["dropped"], list(found["deletes"])) == (1, [2])
    by_tombstone = keyed("key_id", delete_when=BY_TOMBSTONE)
    rules = [RouteRule("ns.t")]
    made = _with_key(plan(rules, defaults=policy(EvolveMode.DISCARD_VALUE), overrides=[("ns.other", by_tombstone)]))
    tables = {"ns.t": target(columns={"key_id": "long"}, table_policy=made.write.tables.defaults)}
    for way in JSON_WAYS.values():
        result = way(replace(block([{"a": 1}, None]), keys=[b'{"id": 1}'] * 2), made, tables)
        assert (result.rows["ns.t"].num_rows, result.dropped, result.written) == (1, 1, 1)


ROW = {"id": 1, "name": "a"}


def _events(*events: tuple[str, object, object]) -> list[object]:
    return [{"op": op, "before": before, "after": after, "ts_ms": 1} for op, before, after in events]


@pytest.mark.parametrize("excluded", [(), ("__*",)])
def test_debezium_says_by_itself_what_is_deleted(excluded: tuple[str, ...]) -> None:
    """Creates, reads and updates are rows, deletes have the key of the row before; the tombstone after one is
    dropped."""
    chosen = keyed(delete_when=None, columns=EvolveMode.EVOLVE)
    chosen = replace(chosen, evolve=replace(chosen.evolve, exclude=excluded))
    made = plan(defaults=chosen)
    made = replace(made, decode=replace(made.decode, format=FormatSpec(envelope=Envelope.DEBEZIUM)))
    columns: dict[str, str | object] = dict(COLUMNS) if excluded else {**COLUMNS, "__op": "string", "__ts_ms": "long"}
    tables = {"ns.t": target(columns=columns, table_policy=chosen)}
    values = _events(("c", None, ROW), ("r", None, ROW), ("u", None, {"id": 1, "name": "b"}), ("d", ROW, None))
    found = every_way([*values, None, *_events(("d", {"id": None}, None))], made, tables)
    assert [row["name"] for row in found["upserts"].values()] == ["a", "a", "b"]
    assert found["deletes"] == {3: {"id": 1}}
    assert (found["dropped"], found["refused"]) == (1, [no_key(5)])


def test_debezium_with_schemas_beside_payloads_deletes_alike() -> None:
    """An envelope that brings its types says deletes as one without does."""
    row = {"type": "struct", "optional": True, "fields": [{"type": "int64", "field": "id", "optional": False}]}
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "string", "field": "op", "optional": False},
    ]
    schema = {"type": "struct", "name": "x.Envelope", "optional": False, "fields": fields}
    payloads = [{"op": "c", "before": None, "after": {"id": 1}}, {"op": "d", "before": {"id": 1}, "after": None}]
    chosen = keyed(delete_when=None)
    made = plan(defaults=chosen)
    made = replace(made, decode=replace(made.decode, format=FormatSpec(envelope=Envelope.DEBEZIUM)))
    tables = {"ns.t": target(columns={"id": "long"}, table_policy=chosen)}
    found = reported(process_block(block([{"schema": schema, "payload": each} for each in payloads]), made, tables))
    assert (found["upserts"], found["deletes"]) == ({0: {"id": 1}}, {1: {"id": 1}})


def test_a_key_may_be_a_column_that_floe_fills() -> None:
    """The record's key as text is a key; a record without one is refused."""
    chosen = keyed("_kafka_key_text")
    made = plan(defaults=chosen, metadata=("key_text",))
    tables = {"ns.t": target(columns={"name": "string", "_kafka_key_text": "string"}, table_policy=chosen)}
    records = replace(block([{"name": "a"}, {"op": "d"}, {"name": "b"}]), keys=[b"1", b"1", None])
    found = reported(process_block(records, made, tables))
    assert found["upserts"] == {0: {"name": "a", "_kafka_key_text": "1"}}
    assert found["deletes"] == {1: {"_kafka_key_text": "1"}}
    assert found["refused"] == [no_key(2, "_kafka_key_text")]


def test_a_tombstone_is_ordered_by_kafkas_timestamp() -> None:
    """It has no value of its own, and takes the timestamp of its record along; so does a delete by a field."""
    chosen = keyed("key_id", delete_when=BY_TOMBSTONE)
    chosen = replace(chosen, write=replace(chosen.write, order_field="_kafka_timestamp"))
    columns: dict[str, str | object] = {"key_id": "long", "name": "string", "_kafka_timestamp": "timestamptz"}
    tables = {"ns.t": target(columns=columns, table_policy=chosen)}
    made = _with_key(plan(defaults=chosen, metadata=("timestamp",)))
    found = every_way([{"name": "a"}, None], made, tables, keys=[b'{"id": 1}', b'{"id": 1}'])
    first, second = (datetime.fromtimestamp(1_700_000_000 + n / 1000, UTC) for n in (0, 1))
    assert found["upserts"] == {0: {"key_id": 1, "name": "a", "_kafka_timestamp": first}}
    assert found["deletes"] == {1: {"key_id": 1, "_kafka_timestamp": second}}
    assert found["refused"] == []


def test_a_record_of_several_tables_is_in_all_of_them_or_none() -> None:
    """A record without the key of one table is in no other one, and each table has deletes of its own."""
    chosen, appended = keyed(), policy(EvolveMode.DISCARD_VALUE)
    rules = [RouteRule("ns.t"), RouteRule("ns.log")]
    made = plan(rules, mode=RouteMode.ALL_MATCH, defaults=appended, overrides=[("ns.t", chosen)])
    tables = {
        "ns.t": target(columns=COLUMNS, table_policy=chosen),
        "ns.log": target("ns.log", columns={"name": "string", "op": "string"}, table_policy=appended),
    }
    values = [{"id": 1, "name": "a"}, {"name": "b"}, {"id": 1, "name": "c", "op": "d"}]
    for way in (*JSON_WAYS.values(), _typed(TYPES)):
        result = way(block(values), made, tables)
        assert result.rows["ns.log"].to_pylist() == [{"name": "a", "op": None}, {"name": "c", "op": "d"}]
        assert result.keyed["ns.t"].upsert_offsets.tolist() == [0]
        assert result.keyed["ns.t"].delete_offsets.tolist() == [2]
        assert ([d.offset for d in result.dead_letters], result.written) == ([1], 2)


def _landed(values: Sequence[object], made: Plan, way: Way = process_block) -> tuple[MemoryTables, BlockResult]:
    tables = MemoryTables(made, ())
    for _ in range(5):
        result = way(block(values), made, tables.targets)
        if not result.needs:
            break
        assert all("\0" not in name and "\0" not in need.table for name, need in result.needs.items())
        for need in result.needs.values():
            tables.satisfy(need)
    assert not tables.refused
    return tables, result


HINTS = (FieldHint("id", "long"),)


@pytest.mark.parametrize("way", [process_block, _by_arrow, alone, _typed(TYPES)])
def test_a_table_is_made_of_what_lands(way: Way) -> None:
    """A delete asks for the key columns of a new table, an upsert for all of its own, and a record without a key for
    none."""
    made = plan(defaults=keyed(columns=EvolveMode.EVOLVE), hints=HINTS)
    tables, result = _landed([{"id": 1, "name": "x", "op": "d"}, {"name": "y", "op": "d"}], made, way)
    fields = parse_schema(tables.targets["ns.t"].schema_json).fields
    assert [(f.name, str(f.field_type), f.required) for f in fields] == [("id", "long", True)]
    assert reported(result)["deletes"] == {0: {"id": 1}}
    tables, result = _landed([{"id": 1, "op": "d"}, {"id": 1, "name": "x"}], made, way)
    assert [f.name for f in parse_schema(tables.targets["ns.t"].schema_json).fields] == ["id", "name"]
    assert (list(reported(result)["upserts"]), list(reported(result)["deletes"])) == ([1], [0])


@pytest.mark.parametrize("way", [process_block, _by_arrow, alone, _typed(TYPES)])
def test_records_without_a_key_make_no_table(way: Way) -> None:
    """Where no record has a key, no table is asked for: such a one could not be made."""
    made = plan(defaults=keyed("name", columns=EvolveMode.EVOLVE))
    tables, result = _landed([{"id": 1}, {"op": "d"}, {"name": None}], made, way)
    assert tables.targets == {}
    assert [letter.code for letter in result.dead_letters] == ["FLOE-D311"] * 3


@pytest.mark.parametrize("errors", list(ErrorPolicy))
def test_the_policy_for_errors_is_asked(errors: ErrorPolicy) -> None:
    """A record without a key is dropped, told, or stops the pipeline, as any that cannot be converted."""
    chosen = keyed()
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    result = process_block(block([{"id": 1}, {"a": 1}]), plan(defaults=chosen, errors=errors), tables)
    assert (result.dropped, len(result.dead_letters)) == ((1, 0) if errors is ErrorPolicy.DROP else (0, 1))
    assert (result.failure is not None) == (errors is ErrorPolicy.FAIL)
    assert result.refused == {1}


def test_a_table_that_may_not_be_made_refuses_deletes_by_its_own_name() -> None:
    """No message has a name that travels inside only."""
    made = plan(defaults=keyed(tables=EvolveMode.FREEZE))
    for way in (*JSON_WAYS.values(), _typed(TYPES)):
        result = way(block([{"id": 1, "op": "d"}]), made, {})
        (letter,) = result.dead_letters
        assert (letter.code, letter.message) == ("FLOE-D204", "the table 'ns.t' does not exist and may not be created")


def test_changes_of_parts_are_put_together_in_order() -> None:
    """Where a block is cut to find a record that is none, its changes are those of the whole block."""
    chosen = keyed()
    tables = {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    made = plan(defaults=chosen)
    values = [{"id": i, "name": "x", "op": "d" if i % 3 == 0 else "u"} for i in range(20)]
    whole = process_block(block(values), made, tables)
    parts = [process_block(part_of(block(values), a, b), made, tables) for a, b in ((0, 7), (7, 8), (8, 20))]
    assert reported(joined(parts)) == reported(whole)
    # Parts that come out of order are put in order.
    assert reported(joined(parts[::-1])) == reported(whole)


# ---- the same for any documents, however they are cut ------------------------------------------------------------


@dataclass
class Fold:
    """What a table has in the end, by key, as a person would tell it from the documents."""

    rows: dict[object, object] = field(default_factory=dict)

    def take(self, value: dict[str, Any]) -> None:
        key = value.get("id")
        if not isinstance(key, int):
            return
        if value.get("op") == "d":
            self.rows.pop(key, None)
        elif isinstance(value.get("name"), (str, type(None))):
            self.rows[key] = value.get("name")


def _folded(results: Sequence[BlockResult]) -> dict[object, object]:
    changes: list[tuple[int, int, str | None, bool]] = []
    for result in results:
        assert not result.needs
        found = result.keyed.get("ns.t")
        if found is None:
            continue
        for row, offset in zip(found.upserts.to_pylist(), found.upsert_offsets.tolist(), strict=True):
            changes.append((offset, row["id"], row["name"], False))
        for row, offset in zip(found.deletes.to_pylist(), found.delete_offsets.tolist(), strict=True):
            changes.append((offset, row["id"], None, True))
    rows: dict[object, object] = {}
    for _, key, name, is_delete in sorted(changes):
        if is_delete:
            rows.pop(key, None)
        else:
            rows[key] = name
    return rows


_DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from([1, 2, 3, None]),
        "op": st.sampled_from(["c", "u", "d", None]),
        "name": st.one_of(st.none(), st.sampled_from(["a", "b", "ä"])),
        "other": st.integers(0, 3),
    },
)


@settings(deadline=None, max_examples=60)
@given(values=st.lists(_DOCUMENTS, min_size=1, max_size=25), cuts=st.lists(st.integers(0, 25), max_size=3))
def test_the_fold_of_changes_is_the_fold_of_documents(values: list[dict[str, Any]], cuts: list[int]) -> None:
    """Whichever way records take and wherever a block is cut, changes in the order of offsets give the same table."""
    expected = Fold()
    for value in values:
        expected.take(value)
    chosen = keyed()
    made, tables = plan(defaults=chosen), {"ns.t": target(columns=COLUMNS, table_policy=chosen)}
    bounds = sorted({0, len(values), *(min(cut, len(values)) for cut in cuts)})
    for way in (*JSON_WAYS.values(), _typed({**TYPES, "other": pa.int64()})):
        parts = [way(part_of(block(values), a, b), made, tables) for a, b in pairwise(bounds)]
        assert _folded(parts) == expected.rows
        assert sum(part.written + len(part.dead_letters) + part.dropped for part in parts) == len(values)


def test_of_a_new_table_the_key_alone_is_required() -> None:
    """What a schema says is always there may be missing where a table is an upsert table: a row's image need not be
    whole."""
    details = (("id", ColumnDetail("the key", True)), ("name", ColumnDetail("whose", True)))
    need = TableNeed("ns.t", (("id", "long"), ("name", "string")), details)
    for chosen, required in ((keyed(), [True, False]), (policy(), [True, True])):
        made = plan_create(need, chosen, (), ())
        assert isinstance(made, CreateTable)
        fields = parse_schema(made.schema_json).fields
        assert ([f.required for f in fields], [f.doc for f in fields]) == (required, ["the key", "whose"])


@pytest.mark.parametrize("way", JSON_WAYS)
@pytest.mark.parametrize("kind", ["list<uuid>", "map<string, uuid>", "struct<a: uuid>", "list<struct<a: uuid>>"])
def test_a_block_of_deletes_alone_is_read_whatever_the_columns_are(way: str, kind: str) -> None:
    """Arrow makes no empty table with a UUID inside of another column."""
    column = build_type(declared_type(kind), FieldIds(10))
    tables = {"ns.t": target(columns={"id": "long", "v": column}, table_policy=keyed())}
    found = reported(JSON_WAYS[way](block([{"id": 1, "op": "d"}]), plan(defaults=keyed()), tables))
    assert found["deletes"] == {0: {"id": 1}}
