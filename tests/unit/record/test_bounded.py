"""How wide records may make a table: one that asks for too much is a dead letter, by every way, and its neighbours are
rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from framework.config.spec import Envelope, EvolvePolicy, TablePolicy
from framework.plan.model import Plan
from framework.record.json import compiled as compiled_json
from framework.record.model import BlockResult
from framework.record.process import process_block
from framework.table.columns.limit import columns_in
from framework.table.schema.arrow import parse_schema
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, target

MOST = 20
POLICY = TablePolicy(evolve=EvolvePolicy(max_columns=MOST))
WIDE = {
    "fields at the top": {f"f{i}": i for i in range(6000)},
    "fields inside of a struct": {"s": {f"f{i}": i for i in range(6000)}},
    "fields inside of a list": {"l": [{f"f{i}": 1} for i in range(100)]},
    "fields in many structs": {f"s{i}": {"a": {"b": {"c": 1}}} for i in range(8)},
    "one field more than there is room for": {f"g{i}": i for i in range(MOST)},
}


def bounded_plan() -> Plan:
    made = plan()
    return replace(made, write=replace(made.write, tables=replace(made.write.tables, defaults=POLICY)))


def landed(values: Sequence[object], columns: Mapping[str, str] | None) -> tuple[BlockResult, MemoryTables]:
    """What becomes of a block once its tables are as it needs them."""
    made = bounded_plan()
    tables = MemoryTables(made, ())
    if columns is not None:
        tables.targets["ns.t"] = target(columns=dict(columns), table_policy=POLICY)
    for _ in range(6):
        routed = replace(made, route=replace(made.route, refused_tables=tables.refused))
        result = process_block(block(values), routed, tables.targets)
        if not result.needs:
            return result, tables
        for need in result.needs.values():
            tables.satisfy(need)
    raise AssertionError("it never ends")


def width(tables: MemoryTables) -> int:
    return columns_in(parse_schema(tables.targets["ns.t"].schema_json).fields)


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("columns", [None, {"a": "long"}], ids=["a new table", "a table"])
@pytest.mark.parametrize("wide", WIDE)
def test_a_wide_record_is_a_dead_letter_among_rows(
    wide: str, columns: Mapping[str, str] | None, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table gains what its neighbours bring, and nothing of the record that brings too much."""
    if parser == "arrow":
        monkeypatch.setattr(compiled_json, "available", lambda: False)
    values = [*({"a": i} for i in range(50)), {"a": 1, **WIDE[wide]}, {"a": 2, "b": {"c": 1}}, {"a": 3}]
    result, tables = landed(values, columns)
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(50, "FLOE-D310")]
    assert "max_columns is 20" in result.dead_letters[0].message
    assert result.written == len(values) - 1
    assert width(tables) == 3


@pytest.mark.parametrize("columns", [None, {"a": "long"}], ids=["a new table", "a table"])
def test_whoever_comes_first_has_room(columns: Mapping[str, str] | None) -> None:
    """Records that bring a field each are let in until the table is full; those that bring nothing new are rows for
    ever."""
    values = [value for i in range(200) for value in ({"a": i, f"f{i}": i}, {"a": i})]
    result, tables = landed(values, columns)
    assert width(tables) == MOST
    refused = [letter.offset for letter in result.dead_letters]
    assert refused == list(range(2 * (MOST - 1), 400, 2))
    assert {letter.code for letter in result.dead_letters} <= {"FLOE-D310", "FLOE-D307"}
    assert all("max_columns" in letter.message for letter in result.dead_letters)


def test_a_producer_that_is_always_too_wide_makes_no_table() -> None:
    """Nothing is made of such records, and there is an end to it."""
    result, tables = landed([{f"f{i}_{n}": 1 for i in range(30)} for n in range(100)], None)
    assert len(result.dead_letters) == 100
    assert "ns.t" not in tables.targets or width(tables) <= MOST


def test_a_table_that_is_wider_already_is_written() -> None:
    """The bound is for what is added: a table with more columns takes its records, and wider values too."""
    columns = {f"c{i}": "int" for i in range(50)}
    result, tables = landed([{"c1": 1}, {"c2": 5_000_000_000}, {"c3": 1, "new": 1}], columns)
    assert [letter.offset for letter in result.dead_letters] == [2]
    assert result.written == 2
    assert "long" in tables.targets["ns.t"].schema_json


def test_records_with_a_schema_are_bound_too() -> None:
    """A schema of 6,000 fields, as one of Debezium's records has it, makes no table of them either."""
    fields = [{"field": f"f{i}", "type": "int32", "optional": True} for i in range(6000)]

    def change(columns: list[dict[str, object]]) -> dict[str, object]:
        row = {"type": "struct", "fields": columns, "optional": True}
        op = {"type": "string", "optional": False, "field": "op"}
        schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}, op]}
        return {"schema": schema, "payload": {"before": None, "after": {"f0": 1}, "op": "c"}}

    small, wide = change(fields[:3]), change(fields)
    made = bounded_plan()
    made = replace(made, decode=replace(made.decode, format=replace(made.decode.format, envelope=Envelope.DEBEZIUM)))
    tables = MemoryTables(made, ())
    values = [json.dumps(value).encode() for value in (small, wide, small)]
    for _ in range(4):
        result = process_block(block(values), made, tables.targets)
        for need in result.needs.values():
            tables.satisfy(need)
        if not result.needs:
            break
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D310")]
    assert result.written == 2
    assert width(tables) <= 9  # and what Debezium adds


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("columns", [None, {"id": "long", "a.b": "double"}], ids=["a new table", "a table"])
def test_a_record_whose_columns_clash_is_a_dead_letter_among_rows(
    columns: Mapping[str, str] | None, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `a.b` and `b` inside of `a` the one that came first is there; a record with the other costs its neighbours
    nothing, also none that brings a new column."""
    if parser == "arrow":
        monkeypatch.setattr(compiled_json, "available", lambda: False)
    values = [
        {"id": 1, "a.b": 1},
        {"id": 2, "a": {"b": 2}},
        {"id": 3, "new": 1},
        {"id": 4, "a": {"b": 1, "c": 2}, "z": 1},
    ]
    result, tables = landed(values, columns)
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D306"), (3, "FLOE-D306")]
    assert [field.name for field in parse_schema(tables.targets["ns.t"].schema_json).fields] == ["id", "a.b", "new"]


def test_a_record_that_clashes_with_itself_makes_no_table() -> None:
    """Nothing of it lands, so nothing of it shapes a table."""
    result, tables = landed([{"a.b": 1, "a": {"b": 2}}], None)
    assert [letter.code for letter in result.dead_letters] == ["FLOE-D306"]
    assert not tables.targets
