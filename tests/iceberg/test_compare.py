"""`floe compare` through its own door, over tables that plain PyIceberg wrote: equal is equal, and each difference is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from tests.iceberg.conftest import Lake

pytestmark = pytest.mark.iceberg

SCHEMA_FILE = json.loads(
    (Path(__file__).parents[2] / "schemas" / "comparison.v1.schema.json").read_text(encoding="utf-8")
)
ORDERS = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "price", DoubleType())
)
PLACED = Schema(
    NestedField(1, "_kafka_topic", StringType()),
    NestedField(2, "_kafka_partition", IntegerType()),
    NestedField(3, "_kafka_offset", LongType()),
    NestedField(4, "v", StringType()),
)
Rows = list[dict[str, Any]]


class Compared:
    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake, self.folder = lake, folder
        target = {
            "apiVersion": "floe/v1",
            "kind": "Target",
            "metadata": {"name": "it"},
            "connections": {
                "kafka": {"main": {"bootstrap.servers": "127.0.0.1:1"}},
                "catalog": {"default": lake.settings},
            },
        }
        (folder / "targets").mkdir()
        (folder / "targets" / "it.yaml").write_text(yaml.safe_dump(target), encoding="utf-8")

    def table(self, name: str, schema: Schema, *files: Rows) -> str:
        """Appended by PyIceberg, a file each."""
        self.lake.catalog.create_namespace_if_not_exists("shop")
        table = self.lake.catalog.create_table(f"shop.{name}", schema)
        for rows in files:
            table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
        return f"shop.{name}"

    def floe(self, *arguments: str, code: int) -> str:
        from framework.cli.main import floe, show_error
        from framework.errors import FloeError

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            result = CliRunner().invoke(floe, ["compare", *arguments, "-t", "it"], standalone_mode=False)
        error = result.exception if isinstance(result.exception, FloeError) else None
        output: str = result.output + (show_error(error) if error is not None else "")
        found = error.exit_code if error is not None else result.return_value or 0
        assert found == code, f"exit code {found}\n{output}\n{result.exception!r}"
        return output

    def document(self, *arguments: str, code: int) -> dict[str, Any]:
        output = self.floe(*arguments, "--json", code=code)
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        jsonschema.validate(found, SCHEMA_FILE)
        return found


@pytest.fixture
def compared(lake: Lake, tmp_path: Path) -> Compared:
    folder = tmp_path / "project"
    folder.mkdir()
    return Compared(lake, folder)


def orders(*ids: int) -> Rows:
    return [{"id": n, "name": f"name {n}" if n % 3 else None, "price": n / 4} for n in ids]


def test_the_same_rows_are_equal_in_whatever_files_and_order(compared: Compared) -> None:
    """Other files, another order, rows deleted on the way, narrower types, columns in another order: equal, exit code 0."""
    narrow = Schema(
        NestedField(5, "price", FloatType()), NestedField(2, "id", IntegerType()), NestedField(9, "name", StringType())
    )
    left = compared.table("a", ORDERS, orders(*range(40)), orders(*range(40, 50)))
    right = compared.table("b", narrow, orders(*range(49, 20, -1)), orders(*range(21)), orders(90))
    compared.lake.catalog.load_table(right).delete("id = 90")
    found = compared.document(left, right, code=0)
    assert (found["equal"], found["complete"], found["left"]["rows"], found["right"]["rows"]) == (True, True, 50, 50)
    output = compared.floe(left, right, "--key", "id", code=0)
    assert f"equal: {left} and {right} hold the same rows" in output
    empty = compared.table("c", ORDERS)
    assert compared.document(empty, empty, code=0)["left"] == {"table": empty, "snapshot_id": None, "rows": 0}
    assert compared.document(empty, left, code=10)["counts"] == {"missing": 0, "extra": 50, "changed": 0}


@pytest.mark.parametrize("keys", [(), ("--key", "id")])
def test_one_row_that_differs_is_found_and_shown(compared: Compared, keys: tuple[str, ...]) -> None:
    """One changed value, one missing row, one row too many, one that stands twice: each alone, counted and shown; with a
    key a changed row is one change, without one it is a row too few and one too many."""
    left = compared.table("a", ORDERS, orders(*range(100)))
    changed = [row | ({"price": 7.5} if row["id"] == 41 else {}) for row in orders(*range(100))]
    others = {
        "changed": ({"changed": 1} if keys else {"missing": 1, "extra": 1}, changed, 41),
        "missing": ({"missing": 1}, orders(*range(41), *range(42, 100)), 41),
        "extra": ({"extra": 1}, orders(*range(101)), 100),
        "twice": ({"extra": 1}, orders(*range(100), 41), 41),
    }
    for name, (counts, rows, number) in others.items():
        right = compared.table(f"b_{name}", ORDERS, rows)
        found = compared.document(left, right, *keys, code=10)
        assert {what: count for what, count in found["counts"].items() if count} == counts, name
        shown = [row["id"] for each in found["examples"] for row in (each["left"], each["right"]) if row]
        assert set(shown) == {number}
        assert not found["equal"]
        text = compared.floe(left, right, *keys, code=10)
        assert text.startswith(f"NOT EQUAL: {left} and {right} hold different rows") or "NOT EQUAL" in text
        assert f'"id": {number}' in text
        assert '"id"' not in compared.floe(left, right, *keys, "--examples", "0", code=10)
    if keys:
        text = compared.floe(left, "shop.b_changed", *keys, code=10)
        assert 'there: {"price": 7.5}' in text


def test_what_a_writer_lost_is_named_by_its_offsets(compared: Compared) -> None:
    """Rows by their place in Kafka: ranges of offsets, also within a part of a partition."""

    def rows(*offsets: int) -> Rows:
        return [
            {"_kafka_topic": "orders", "_kafka_partition": n % 2, "_kafka_offset": n // 2, "v": str(n)} for n in offsets
        ]

    left = compared.table("a", PLACED, rows(*range(4_000)))
    right = compared.table("b", PLACED, rows(*range(200), *range(260, 3_000), *range(3_002, 4_000), 17, 17))
    found = compared.document(left, right, "--by", "position", code=10)
    assert found["offsets"] == [
        {"what": "missing", "topic": "orders", "partition": 0, "start": 100, "end": 130},
        {"what": "missing", "topic": "orders", "partition": 0, "start": 1_500, "end": 1_501},
        {"what": "missing", "topic": "orders", "partition": 1, "start": 100, "end": 130},
        {"what": "missing", "topic": "orders", "partition": 1, "start": 1_500, "end": 1_501},
        {"what": "extra", "topic": "orders", "partition": 1, "start": 8, "end": 9},
    ]
    assert found["counts"] == {"missing": 62, "extra": 2, "changed": 0}
    assert "missing: orders-0 offsets 100 to 129" in compared.floe(left, right, "--by", "position", code=10)
    assert found["range"] is None
    place = ("--by", "position", "--from", "orders-0@130")
    found = compared.document(left, right, *place, "--to", "1500", code=0)
    assert found["range"] == {"topic": "orders", "partition": 0, "start": 130, "end": 1_500}
    assert compared.document(left, right, *place, code=10)["range"]["end"] is None
    compared.floe(left, right, "--by", "position", "--from", "orders-0@130", "--to", "1501", code=10)


def test_columns_that_one_side_lacks_are_said_and_never_count_as_equal(compared: Compared) -> None:
    """A column of another type, or of one side alone, is a difference until the command leaves it out by name."""
    other = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "price", StringType())
    )
    left = compared.table("a", ORDERS, orders(1, 2))
    right = compared.table("b", other, [{"id": n, "name": f"name {n}", "price": "x"} for n in (1, 2)])
    found = compared.document(left, right, code=10)
    assert found["column_differences"] == [{"column": "price", "left": "floating point number", "right": "string"}]
    assert (found["columns"], found["counts"]["missing"]) == (["id", "name"], 0)
    compared.floe(left, right, "--without", "price", code=0)
    for wrong in (("--key", "price"), ("--without", "prise"), ("--key", "nothing")):
        assert "FLOE-R412" in compared.floe(left, right, *wrong, code=1)
    assert "there is no table shop.z" in compared.floe(left, "shop.z", code=6)


def test_snapshots_branches_and_tags_of_one_table_are_compared(compared: Compared) -> None:
    """What a branch or an older snapshot holds, against main."""
    name = compared.table("a", ORDERS, orders(1, 2), orders(3))
    table = compared.lake.catalog.load_table(name)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots().create_branch(first, "audit").create_tag(first, "before").commit()
    for ref in ("audit", "before", str(first)):
        found = compared.document(name, name, "--at", ref, "--key", "id", code=10)
        assert (found["left"]["snapshot_id"], found["counts"]) == (first, {"missing": 0, "extra": 1, "changed": 0})
    compared.floe(name, name, "--at", "audit", "--other-at", str(first), code=0)
    said = compared.floe(name, name, "--at", "nowhere", code=6)
    assert "FLOE-R412" in said
    assert "audit, before, main" in said


def test_nested_values_and_rare_types_are_compared(compared: Compared) -> None:
    """Lists, maps, structs, decimals, moments and UUIDs, with nulls at every depth; the entries of a map have no order."""
    inner = StructType(NestedField(11, "a", LongType()), NestedField(12, "b", StringType()))
    schema = Schema(
        NestedField(1, "u", UUIDType()),
        NestedField(2, "d", DecimalType(20, 3)),
        NestedField(3, "at", TimestamptzType()),
        NestedField(4, "l", ListType(10, inner, False)),
        NestedField(5, "m", MapType(20, StringType(), 21, LongType(), False)),
    )
    one = UUID(int=1).bytes
    rows: Rows = [
        {"u": one, "d": "1.500", "at": 5, "l": [{"a": 1, "b": None}, None], "m": [("x", 1), ("y", None)]},
        {"u": None, "d": None, "at": None, "l": None, "m": None},
        {"u": None, "d": None, "at": None, "l": [], "m": []},
    ]

    def made(name: str, rows: Rows) -> str:
        table = compared.lake.catalog.create_table(f"shop.{name}", schema)
        kinds = table.schema().as_arrow()
        columns = [
            pa.array([row[f.name] for row in rows], pa.string()).cast(f.type)
            if pa.types.is_decimal(f.type)
            else pa.ExtensionArray.from_storage(f.type, pa.array([row[f.name] for row in rows], pa.binary(16)))
            if f.name == "u"
            else pa.array([row[f.name] for row in rows], f.type)
            for f in kinds
        ]
        table.append(pa.Table.from_arrays(columns, schema=kinds))
        return f"shop.{name}"

    compared.lake.catalog.create_namespace_if_not_exists("shop")
    left = made("a", rows)
    compared.floe(left, made("b", [rows[2], rows[0] | {"m": [("y", None), ("x", 1)]}, rows[1]]), code=0)
    compared.floe(left, made("c", [rows[0], rows[1], rows[1]]), code=10)


def test_no_more_rows_are_held_than_asked_for(compared: Compared) -> None:
    """Tables that differ in every row: counts say that they are the least, and how much was looked at."""
    left = compared.table("a", ORDERS, orders(*range(5_000)))
    right = compared.table("b", ORDERS, orders(*range(10_000, 15_000)))
    found = compared.document(left, right, "--key", "id", "--most-rows", "1000", code=10)
    assert not found["complete"]
    assert 500 <= found["counts"]["missing"] <= 1_000
    text = compared.floe(left, right, "--key", "id", "--most-rows", "1000", code=10)
    assert "at least" in text
    assert "--most-rows looks at more" in text


NEGATIVE_NAN = float(pa.array([0xFFF8000000000001], pa.uint64()).view(pa.float64())[0].as_py())


def test_numbers_are_equal_as_sql_says(compared: Compared) -> None:
    """Zero is zero whatever its sign, and no number is no number whatever its bits, as Spark joins and groups them, also
    inside of lists and structs; a null is neither. The key is such a number, too. (datafold/data-diff#883)"""
    schema = Schema(
        NestedField(1, "k", DoubleType()),
        NestedField(2, "f", FloatType()),
        NestedField(3, "l", ListType(10, DoubleType(), False)),
        NestedField(4, "s", StructType(NestedField(20, "x", DoubleType(), required=False)), required=False),
    )
    ones: Rows = [{"k": 0.0, "f": 0.0, "l": [0.0, None], "s": {"x": 0.0}}]
    ones += [{"k": float("nan"), "f": float("nan"), "l": [float("nan")], "s": {"x": float("nan")}}]
    others: Rows = [{"k": -0.0, "f": -0.0, "l": [-0.0, None], "s": {"x": -0.0}}]
    others += [{"k": NEGATIVE_NAN, "f": NEGATIVE_NAN, "l": [NEGATIVE_NAN], "s": {"x": NEGATIVE_NAN}}]
    left, right = compared.table("a", schema, ones), compared.table("b", schema, others)
    compared.floe(left, right, code=0)
    compared.floe(left, right, "--key", "k", code=0)
    nothing = compared.table("c", schema, [ones[0] | {"f": None}, ones[1]])
    assert compared.document(left, nothing, "--key", "k", code=10)["counts"]["changed"] == 1
    changed = compared.table("d", schema, [each | {"f": 2.0} for each in others])
    text = compared.floe(left, changed, "--key", "k", code=10)
    assert text.count('there: {"f": 2.0}') == 2, text


def test_keys_that_are_null_or_stand_twice(compared: Compared) -> None:
    """Rows of such a key are matched by their values: none is multiplied, and none is left out. (SQLMesh/sqlmesh#2840)"""
    known = orders(1, 2, 2, 2)
    nameless: Rows = [{"id": None, "name": "n", "price": 1.0}, {"id": None, "name": "m", "price": 2.0}]
    left = compared.table("a", ORDERS, known, nameless)
    compared.floe(left, compared.table("b", ORDERS, nameless[::-1], known), "--key", "id", code=0)
    fewer = compared.table("c", ORDERS, orders(1, 2, 2), nameless[:1])
    found = compared.document(left, fewer, "--key", "id", code=10)["counts"]
    assert (found["missing"], found["extra"], found["changed"]) == (2, 0, 0), found
