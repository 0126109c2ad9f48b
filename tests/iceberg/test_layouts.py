"""However rows are shared out to tables, partitions, files and row groups, and in whatever order, each is there once with
the values of its record."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import EvolveMode, RouteRule
from framework.config.values.maintenance import CompactionPolicy
from framework.record.json import compiled as compiled_json
from framework.record.model import BlockResult, TableTarget
from framework.record.process import process_block
from framework.table.schema.types import primitive_type
from testbed.record_samples import block, plan, policy
from tests.iceberg.conftest import Lake

pytestmark = pytest.mark.iceberg

TABLES = ["ns.t0", "ns.t1", "ns.t2"]
STRICT = policy(columns=EvolveMode.FREEZE, data_type=EvolveMode.FREEZE)
# type: what a record has, what a reader sees, and the transforms that partitions may be made of
LEAVES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "long": (lambda p: p.randrange(-3, 3), ("identity", "bucket[3]", "truncate[2]")),
    "string": (lambda p: p.choice(["", "a", "ab", "é/=", "long text " * 9]), ("identity", "bucket[3]", "truncate[1]")),
    "boolean": (lambda p: p.random() < 0.5, ("identity",)),
    "double": (lambda p: p.choice([0.0, -1.5, 1e300]), ()),
    "decimal(9, 2)": (lambda p: Decimal(p.randrange(-300, 300)) / 100, ("identity", "bucket[3]", "truncate[50]")),
    "date": (lambda p: date(1969, 12, 30) + timedelta(p.randrange(5)), ("identity", "day", "month", "year")),
    "timestamptz": (
        lambda p: datetime(1969, 12, 31, 22, tzinfo=timezone.utc) + timedelta(minutes=p.randrange(300)),
        ("hour", "day", "bucket[3]"),
    ),
}
Pair = tuple[Any, Any]  # as a record has it, and as a reader sees it
Column = tuple[IcebergType, Callable[[random.Random], Pair]]


def column(pick: random.Random, ids: Iterator[int], depth: int = 3) -> Column:
    """A type, and what makes its values."""
    kind = pick.choice(["leaf", "leaf", "list", "map", "struct"]) if depth else "leaf"
    if kind == "leaf":
        name = pick.choice(list(LEAVES))
        return primitive_type(name), _or_null(lambda p: _leaf(LEAVES[name][0](p)))
    if kind == "struct":
        parts = {f"f{i}": column(pick, ids, depth - 1) for i in range(pick.choice((1, 2)))}
        struct = StructType(*(NestedField(next(ids), name, type_) for name, (type_, _) in parts.items()))

        def fields(p: random.Random) -> Pair:
            found = {name: make(p) for name, (_, make) in parts.items()}
            return {name: each[0] for name, each in found.items()}, {name: each[1] for name, each in found.items()}

        return struct, _or_null(fields)
    inner, value = column(pick, ids, depth - 1)
    if kind == "list":

        def elements(p: random.Random) -> Pair:
            found = [value(p) for _ in range(p.randrange(4))]
            return [each for each, _ in found], [each for _, each in found]

        return ListType(next(ids), inner, element_required=False), _or_null(elements)

    def entries(p: random.Random) -> Pair:
        found = {f"k{i}": value(p) for i in range(p.randrange(3))}
        return {key: each for key, (each, _) in found.items()}, [(key, each) for key, (_, each) in found.items()]

    return MapType(next(ids), StringType(), next(ids), inner, value_required=False), _or_null(entries)


def _or_null(make: Callable[[random.Random], Pair]) -> Callable[[random.Random], Pair]:
    return lambda p: (None, None) if p.random() < 0.2 else make(p)


def _leaf(value: Any) -> Pair:
    if isinstance(value, datetime | date):
        return value.isoformat(), value
    return (str(value) if isinstance(value, Decimal) else value), value


def lay_out(lake: Lake, name: str, schema: Schema, pick: random.Random) -> None:
    """A table with partitions and an order, drawn."""
    version = pick.choice(("2", "3"))
    lake.create(name, schema, format_version=version, **pick.choice(({}, {"write.parquet.row-group-limit": "7"})))
    table = lake.plain(name)
    leaves = {str(field.field_type): field.name for field in schema.fields if str(field.field_type) in LEAVES}
    chosen = [
        (n, pick.choice(LEAVES[type_][1])) for type_, n in leaves.items() if LEAVES[type_][1] and pick.random() < 0.5
    ]
    if version == "2":  # PyIceberg writes no metadata of version 3
        with table.update_spec() as spec:
            for n, (source, transform) in enumerate(chosen):
                spec.add_field(source, transform, f"part_{n}")
        with table.update_sort_order() as order:
            for source in pick.sample(sorted(leaves.values()), min(len(leaves), pick.choice((0, 1, 2)))):
                order.desc(source, "identity") if pick.random() < 0.5 else order.asc(source, "identity")


@pytest.mark.parametrize("parser", ["compiled", "arrow"])
@pytest.mark.parametrize("seed", range(12))
def test_every_row_is_there_once_with_its_values(
    lake: Lake, seed: int, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested columns with nulls anywhere, three tables, partitions, orders, small buffers, files and row groups."""
    if parser == "arrow":
        monkeypatch.setattr(compiled_json, "available", lambda: False)
    pick = random.Random(seed)
    ids = iter(range(100, 10_000))
    columns = {f"c{i}": column(pick, ids) for i in range(pick.randrange(2, 6))}
    fields = [NestedField(next(ids), name, type_) for name, (type_, _) in columns.items()]
    schema = Schema(NestedField(1, "row", LongType()), NestedField(2, "t", LongType()), *fields)
    for name in TABLES[: pick.choice((1, 3))]:
        lake.create(name, schema) if pick.random() < 0.2 else lay_out(lake, name, schema, pick)
    targets = {name: found for name in TABLES if (found := lake.tables.load_target(name, STRICT)) is not None}
    pipeline = plan(defaults=STRICT, rules=[RouteRule("ns.t{t}")])
    small = pick.random() < 0.5
    writer = TableWriter(
        lake.tables.io_properties(), "p", "run", 1, 1 << 12 if small else 1 << 28, 1 << 10 if small else 1 << 28
    )
    wanted: dict[str, dict[int, Any]] = {name: {} for name in targets}
    row = 0
    for _ in range(pick.randrange(1, 5)):
        records = []
        for _ in range(pick.randrange(1, 150)):
            values = {name: make(pick) for name, (_, make) in columns.items()}
            table = pick.randrange(len(targets))
            records.append({"row": row, "t": table, **{name: each[0] for name, each in values.items()}})
            wanted[f"ns.t{table}"][row] = {name: each[1] for name, each in values.items()}
            row += 1
        _write(writer, process_block(block(records, first_offset=row), pipeline, targets, encode=True), targets)
    for number, (name, files) in enumerate(sorted(writer.finish().items()), 1):
        answer = lake.tables.commit(lake.effect(name, files, number))
        assert isinstance(answer, Committed), answer
    for name, rows in wanted.items():
        differs(lake, name, rows)


def stored(lake: Lake, name: str) -> dict[int, dict[str, Any]]:
    """The rows of a table's files as Parquet has them: PyIceberg's reader makes empty lists of null ones."""
    found: dict[int, dict[str, Any]] = {}
    for path in lake.plain(name).inspect.files()["file_path"].to_pylist():
        for row in pq.read_table(path.removeprefix("file://")).to_pylist():
            assert row["row"] not in found, "twice"
            found[row["row"]] = row
    return found


def differs(lake: Lake, name: str, wanted: Mapping[int, Mapping[str, Any]]) -> None:
    found = stored(lake, name)
    assert sorted(found) == sorted(wanted)
    wrong = {
        at: (cells, seen)
        for at, cells in wanted.items()
        if (seen := {column: found[at][column] for column in cells}) != cells
    }
    assert not wrong, (str(lake.plain(name).schema()), next(iter(wrong.items())))


@pytest.mark.parametrize("seed", range(16))
def test_what_compaction_reads_of_older_files_is_what_they_hold(lake: Lake, seed: int) -> None:
    """Columns come, go, are renamed and widened, and structs get fields; then old files and new ones are put together:
    nulls of lists and maps are nulls, at any depth."""
    pick = random.Random(seed)
    ids = iter(range(100, 10_000))
    columns = {f"c{i}": column(pick, ids) for i in range(4)}
    fields = [NestedField(next(ids), name, type_) for name, (type_, _) in columns.items()]
    name = lake.create("ns.t0", Schema(NestedField(1, "row", LongType()), NestedField(2, "w", IntegerType()), *fields))
    number = 0

    def write() -> dict[int, dict[str, Any]]:
        nonlocal number
        made = {}
        for _ in range(3):
            number += 1
            rows = {number * 100 + i: {c: make(pick) for c, (_, make) in columns.items()} for i in range(20)}
            records = [{"row": at, "w": 1, **{c: each[0] for c, each in row.items()}} for at, row in rows.items()]
            target = lake.tables.load_target(name, STRICT)
            assert target is not None
            writer = TableWriter(lake.tables.io_properties(), "p", f"run{number}", 1, 1 << 28, 1 << 28)
            pipeline = plan(defaults=STRICT, rules=[RouteRule(name)])
            _write(writer, process_block(block(records), pipeline, {name: target}, encode=True), {name: target})
            answer = lake.tables.commit(lake.effect(name, writer.finish()[name], number))
            assert isinstance(answer, Committed), answer
            made |= {at: {"w": 1, **{c: each[1] for c, each in row.items()}} for at, row in rows.items()}
        return made

    before = write()
    with lake.plain(name).update_schema() as update:
        update.rename_column("c0", "renamed")
        update.delete_column("c1")
        update.add_column("added", LongType())
        update.update_column("w", LongType())
        for path in ("c2", ("c2", "element"), ("c2", "value")):
            kind = columns["c2"][0]
            inner = {"element": getattr(kind, "element_type", None), "value": getattr(kind, "value_type", None)}
            if isinstance(kind if path == "c2" else inner[path[1]], StructType):
                update.add_column((path, "later") if path == "c2" else (*path, "later"), LongType())
    is_grown = "later" in str(lake.plain(name).schema())
    wanted = {
        at: {
            "renamed": row["c0"],
            "added": None,
            "w": 1,
            "c2": _grown(row["c2"], columns["c2"][0]) if is_grown else row["c2"],
            "c3": row["c3"],
        }
        for at, row in before.items()
    }
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    assert done.files_after == 1
    differs(lake, name, wanted)


def _grown(value: Any, kind: IcebergType) -> Any:
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {**value, "later": None}
    if isinstance(kind, ListType):
        return [_grown(each, kind.element_type) for each in value]
    assert isinstance(kind, MapType)
    return [(key, _grown(each, kind.value_type)) for key, each in value]


def _write(writer: TableWriter, result: BlockResult, targets: Mapping[str, TableTarget]) -> None:
    """As a task does."""
    assert not result.needs, result.needs
    assert not result.dead_letters, result.dead_letters[0]
    for name, rows in result.rows.items():
        writer.add(targets[name], rows)
    for alike in result.alike:
        if not writer.add_alike([targets[name] for name in alike.tables], alike):
            for name, _, rows in alike.split():
                writer.add(targets[name], rows)


def test_pyiceberg_still_makes_empty_lists_of_null_ones(lake: Lake) -> None:
    """Why files of before are not read with PyIceberg (decision 0109). When this fails, its reader keeps nulls, and
    `project_by_id` can go."""
    inner = StructType(NestedField(5, "f", LongType()))
    schema = Schema(NestedField(1, "row", LongType()), NestedField(2, "l", ListType(3, inner, element_required=False)))
    name = lake.create("ns.t0", schema)
    target = lake.tables.load_target(name, STRICT)
    assert target is not None
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    pipeline = plan(defaults=STRICT, rules=[RouteRule(name)])
    _write(writer, process_block(block([{"row": 1, "l": None}]), pipeline, {name: target}, encode=True), {name: target})
    assert isinstance(lake.tables.commit(lake.effect(name, writer.finish()[name], 1)), Committed)
    assert stored(lake, name)[1]["l"] is None
    assert lake.plain(name).scan().to_arrow()["l"].to_pylist() == [[]]
