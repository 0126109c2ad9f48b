"""Declared lists, maps and structs: what tables become of them, and how values are read."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from framework.config.spec import FieldHint, NameCase, TablePolicy
from framework.record.process import process_with_sql
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, processed

ITEMS = "list<struct<at: timestamptz, price: decimal(9, 2), big: double, tags: map<string, long>>>"


class Made:
    """The table, rows and letters of some batches."""

    def __init__(
        self, batches: Sequence[Sequence[object]], *hints: FieldHint, case: NameCase = NameCase.INSENSITIVE
    ) -> None:
        made = plan(defaults=TablePolicy(case=case), hints=hints)
        tables = MemoryTables(made, ())
        self.rows: list[dict[str, Any]] = []
        self.letters: list[str] = []
        for batch in batches:
            for _ in range(8):
                result = processed(block(batch), made, tables.targets)
                if not result.needs:
                    break
                for need in result.needs.values():
                    tables.satisfy(need)
            assert not result.needs
            self.rows += [row for rows in result.rows.values() for row in rows.to_pylist()]
            self.letters += [letter.code for letter in result.dead_letters]
        self.fields = json.loads(tables.targets["ns.t"].schema_json)["fields"]
        self.columns = {field["name"]: shape(field["type"]) for field in self.fields}


def shape(kind: Any) -> Any:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {field["name"]: shape(field["type"]) for field in kind["fields"]}
    return [shape(kind["element"])] if kind["type"] == "list" else (shape(kind["key"]), shape(kind["value"]))


@pytest.mark.parametrize("divided", [False, True])
def test_a_table_has_what_is_declared_and_what_comes_beside_it(divided: bool) -> None:
    """Declared nested types are the table's, seen or not; fields beyond them become columns, wherever a batch ends."""
    records: list[Any] = [
        {"items": [{"price": 1.5, "new": 1}]},
        {"items": [{"AT": "2024-01-04T12:00:00Z", "tags": {"a": 1, "b c": 2}}], "m": {"x": [1, 2.5]}},
    ]
    hints = (FieldHint("items", ITEMS), FieldHint("m", "map<string, list<double>>"), FieldHint("s", "struct<a: int>"))
    made = Made([[record] for record in records] if divided else [records], *hints)
    item = {"at": "timestamptz", "price": "decimal(9, 2)", "big": "double", "tags": ("string", "long")}
    assert made.columns == {
        "items": [{**item, "new": "double"}],
        "m": ("string", ["double"]),
        "s": {"a": "int"},
    }
    assert not made.letters
    assert made.rows[1]["m"] == [("x", [1.0, 2.5])]
    assert made.rows[1]["items"][0]["tags"] == [("a", 1), ("b c", 2)]


def test_declared_elements_are_read_as_declared() -> None:
    """A declared double inside of a list takes whole numbers that it rounds, and a zone is for each element."""
    hints = (
        FieldHint("n", "list<double>"),
        FieldHint("t", "list<timestamptz>", zone="Europe/Berlin"),
        FieldHint("i", "list<struct<d: timestamptz>>"),
        FieldHint("i.d", "timestamptz", unit="s"),
    )
    made = Made([[{"n": [2**53 + 1], "t": ["2040-07-01 12:00:00"], "i": [{"d": 0}]}, {"n": ["x"]}]], *hints)
    assert made.rows[0]["n"] == [float(2**53)]
    assert made.rows[0]["t"][0].isoformat() == "2040-07-01T10:00:00+00:00"
    assert made.rows[0]["i"][0]["d"].isoformat() == "1970-01-01T00:00:00+00:00"
    assert made.letters == ["FLOE-D304"]


def test_a_value_of_another_kind_is_a_dead_letter_and_makes_no_table() -> None:
    """Text in a declared list is refused; so it is where the table is there, and its neighbours are rows."""
    made = Made([[{"l": "x"}, {"l": [1]}]], FieldHint("l", "list<long>"))
    assert made.columns == {"l": ["long"]}
    assert made.letters == ["FLOE-D301"]
    assert made.rows == [{"l": [1]}]


def test_required_comment_and_nanoseconds_of_a_nested_type() -> None:
    """`required` and `comment` are the column's; nanoseconds count as microseconds in tables that have none."""
    made = Made([[{"l": [], "a": 1}]], FieldHint("l", "list<timestamptz_ns>", required=True, comment="times"))
    found = next(field for field in made.fields if field["name"] == "l")
    assert (found["required"], found["doc"], shape(found["type"])) == (True, "times", ["timestamptz"])


def test_sql_sees_declared_lists_maps_and_structs() -> None:
    """What is declared reaches the SQL with its structure, and columns that leave it unchanged are the declared types
    again."""
    hints = (
        FieldHint("l", "list<uuid>"),
        FieldHint("m", "map<string, struct<at: time, n: long>>"),
        FieldHint("d", "struct<x: list<decimal(9, 2)>>"),
    )
    made = plan(defaults=TablePolicy(), hints=hints)
    tables = MemoryTables(made, ())
    uuid = "12345678-1234-1234-1234-123456789abc"
    records = block(
        [
            {"l": [uuid], "m": {"k": {"at": "12:30", "n": 7}}, "d": {"x": [1.5]}},
            {"l": ["no"]},
            {"l": [], "m": {}, "d": None},
        ]
    )
    for _ in range(3):
        result = process_with_sql(records, made, tables.targets, lambda rows: rows)
        for need in result.needs.values():
            tables.satisfy(need)
    fields = json.loads(tables.targets["ns.t"].schema_json)["fields"]
    assert {field["name"]: shape(field["type"]) for field in fields} == {
        "l": ["uuid"],
        "m": ("string", {"at": "time", "n": "long"}),
        "d": {"x": ["decimal(9, 2)"]},
    }
    rows = result.rows["ns.t"].to_pylist()
    assert str(rows[0]["l"][0]) == uuid
    assert rows[0]["m"] == [("k", {"at": datetime.time(12, 30), "n": 7})]
    assert rows[0]["d"] == {"x": [Decimal("1.50")]}
    assert rows[1] == {"l": [], "m": [], "d": None}
    assert [letter.offset for letter in result.dead_letters] == [1]
