"""Spark SQL with Iceberg's own Java runtime, on the same catalog database, reads what floe has committed."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitConflict, Committed
from framework.config.spec import PartitionFieldSpec, TablePolicy
from testbed.servers.spark_reader import java_read
from tests.iceberg.conftest import Lake
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_compaction import compact
from tests.iceberg.test_expiry_beside_others import expire_all

pytestmark = [pytest.mark.iceberg, pytest.mark.spark]

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "price", DecimalType(12, 3), required=False),
    NestedField(5, "key", UUIDType(), required=False),
    NestedField(6, "raw", BinaryType(), required=False),
    NestedField(7, "buyer", StructType(NestedField(8, "name", StringType(), required=False)), required=False),
    NestedField(9, "tags", ListType(10, StringType(), element_required=False), required=False),
)


def row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "day": date(2024, 1, number % 3 + 1),
        "at": datetime(2024, 1, 1, number % 24, 30, tzinfo=timezone.utc),
        "price": Decimal(number) / 8,
        "key": uuid.UUID(int=number).bytes,
        "raw": bytes([number]),
        "buyer": {"name": f"n{number}"},
        "tags": ["x", None],
    }


def written(lake: Lake, name: str, number: int) -> tuple[DataFile, ...]:
    """A file as a task of floe's writes it."""
    target = lake.tables.load_target(name, TablePolicy())
    assert target is not None
    writer = TableWriter(lake.tables.io_properties(), "p", f"run{number}", 1, 1 << 28, 1 << 28)
    writer.add(target, pa.table({"id": pa.array([number], pa.int64())}))
    return tuple(writer.finish()[name])


def commit(lake: Lake, name: str, ids: range, offset: int, branch: str = "main") -> None:
    answer = lake.tables.commit(lake.effect(name, lake.files(name, [row(each) for each in ids]), offset, branch=branch))
    assert isinstance(answer, Committed), answer


def test_spark_sql_reads_the_table(lake: Lake) -> None:
    """Values, filters over old and new partition specs, merged manifests, branches and history are as Spark expects."""
    properties = {"commit.manifest.min-count-to-merge": "2"}
    name = lake.create("shop.orders", SCHEMA, [PartitionFieldSpec("day")], **properties)
    early = lake.files(name, [row(100)])
    for number in range(4):
        commit(lake, name, range(number * 10, number * 10 + 10), number + 1)
    with lake.plain(name).update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    answer = lake.tables.commit(lake.effect(name, (*early, *lake.files(name, [row(101)])), 9))
    assert isinstance(answer, Committed)
    commit(lake, name, range(200, 203), 10, branch="audit")
    table = "`default`.shop.orders"
    queries = [
        f"SELECT count(*) AS n, sum(id) AS ids, sum(price) AS price FROM {table}",
        f"SELECT id FROM {table} WHERE day = DATE'2024-01-02' ORDER BY id",
        f"SELECT id, day, at, price, key, hex(raw) AS raw, buyer, tags FROM {table} WHERE id = 100",
        f"SELECT count(*) AS n FROM {table} VERSION AS OF 'audit'",
        f"SELECT summary['floe.control-offset'] AS at FROM {table}.snapshots ORDER BY committed_at",
        f"SELECT sum(record_count) AS n FROM {table}.files",
    ]
    totals, of_day, one, audit, offsets, files = java_read(lake.settings, queries).rows
    ids = [*range(40), 100, 101]
    assert totals == [{"n": 42, "ids": sum(ids), "price": str(sum(Decimal(each) for each in ids) / 8)}]
    assert [each["id"] for each in of_day] == [each for each in ids if each % 3 == 1]
    assert one == [
        {
            "id": 100,
            "day": "2024-01-02",
            "at": "2024-01-01 04:30:00",
            "price": "12.500",
            "key": str(uuid.UUID(int=100)),
            "raw": "64",
            "buyer": {"name": "n100"},
            "tags": ["x", None],
        }
    ]
    assert audit == [{"n": 45}]
    assert [each["at"] for each in offsets] == ["1", "2", "3", "4", "9", "10"]
    assert files == [{"n": 42}]


@pytest.mark.parametrize("version", ["1", "2"])
def test_spark_sql_reads_a_table_whose_old_partition_column_is_gone(lake: Lake, version: str) -> None:
    """The column of an old partition field was dropped, as apache/iceberg#4563 and #11314 report: what floe appends,
    merges and compacts then leaves a table that Spark reads, filters and plans with."""
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "day", DateType(), required=False))
    properties = {"commit.manifest.min-count-to-merge": "2", "format_version": version}
    name = lake.create("shop.days", schema, [PartitionFieldSpec("day")], **properties)
    for number in range(1, 4):
        rows = [{"id": number * 10 + each, "day": date(2024, 1, each + 1)} for each in range(2)]
        assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, rows), number)), Committed)
    with lake.plain(name).update_spec() as update:
        update.remove_field("day")
        update.add_field("id", BucketTransform(2), "id_bucket")
    with lake.plain(name).update_schema() as update:
        update.delete_column("day")
    for number in range(4, 8):
        assert isinstance(lake.tables.commit(lake.effect(name, written(lake, name, number * 10), number)), Committed)
    compact(lake, name)
    table = "`default`.shop.days"
    queries = [
        f"SELECT count(*) AS n, sum(id) AS ids FROM {table}",
        f"SELECT id FROM {table} WHERE id = 21",
        f"SELECT count(DISTINCT spec_id) AS specs, sum(record_count) AS n FROM {table}.files",
        f"SELECT sum(record_count) AS n FROM {table}.partitions",
    ]
    totals, one, files, partitions = java_read(lake.settings, queries).rows
    assert totals == [{"n": 10, "ids": 10 + 11 + 20 + 21 + 30 + 31 + 40 + 50 + 60 + 70}]
    assert one == [{"id": 21}]
    assert files[0]["n"] == 10
    assert partitions == [{"n": 10}]


def test_spark_sql_reads_tables_whose_first_commits_were_special(lake: Lake) -> None:
    """A new table has no main yet. Of two first commits that know of no other the second is refused
    (apache/iceberg-python#1366); where the first is to another branch, main is there from then on, without a row
    (apache/iceberg#8849). Compaction and expiry leave all rows."""
    name = lake.create("shop.orders", SCHEMA)
    first = [lake.effect(name, lake.files(name, [row(each)]), 1) for each in (10, 11)]
    ours, other = (lake.tables.commit(effect) for effect in first)
    assert isinstance(ours, Committed), ours
    assert isinstance(other, CommitConflict), other
    branched = lake.create("shop.branched", SCHEMA)
    commit(lake, branched, range(3), 1, branch="audit")
    assert lake.rows(branched) == []
    for each in (name, branched):
        for number, ids in enumerate((range(20, 22), range(30, 31)), start=2):
            commit(lake, each, ids, number)
        compact(lake, each)
        expire_all(lake, each)
    queries = [
        "SELECT count(*) AS n, sum(id) AS ids FROM `default`.shop.orders",
        "SELECT count(*) AS n, sum(id) AS ids FROM `default`.shop.branched",
        "SELECT count(*) AS n, sum(id) AS ids FROM `default`.shop.branched VERSION AS OF 'audit'",
        "SELECT name, type FROM `default`.shop.branched.refs ORDER BY name",
    ]
    orders, main, audit, refs = java_read(lake.settings, queries).rows
    assert orders == [{"n": 4, "ids": 10 + 20 + 21 + 30}]
    assert (main, audit) == ([{"n": 3, "ids": 20 + 21 + 30}], [{"n": 3, "ids": 3}])
    assert refs == [{"name": each, "type": "BRANCH"} for each in ("audit", "main")]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_column_that_an_older_sort_order_used_is_dropped(
    lake: Lake, iceberg_spark: IcebergSpark, version: str
) -> None:
    """Floe goes on writing, in the order that holds now, and Spark reads and writes the table."""
    columns = [NestedField(at, name, StringType(), required=False) for at, name in enumerate(("old", "now"), 2)]
    id_ = NestedField(1, "id", LongType(), required=False)
    name = lake.create("shop.sorted", Schema(id_, *columns), **{"format-version": version})
    for column in ("old", "now"):
        with lake.plain(name).update_sort_order() as order:
            order.asc(column, IdentityTransform(), NullOrder.NULLS_LAST)
        rows = [{"id": 1, "old": "x", "now": "b"}, {"id": 2, "old": "y", "now": "a"}]
        assert isinstance(
            lake.tables.commit(lake.effect(name, lake.files(name, rows), 1 if column == "old" else 2)), Committed
        )
    with lake.plain(name).update_schema() as update:
        update.delete_column("old")
    assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 3, "now": "c"}]), 3)), Committed)
    insert, select = f"INSERT INTO default.{name} VALUES (4, 'd')", f"SELECT id FROM default.{name} ORDER BY id"
    assert iceberg_spark.ask(lake.settings, [insert, select])[1].column("id").to_pylist() == [1, 1, 2, 2, 3, 4]


ODD = ("@timestamp", "1st", "a b", "/VSO/X", "+1", "größe")


def test_names_that_a_file_must_quote(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """Columns of any name, partitioned and sorted by them: Spark finds rows by each of them, and adds some."""
    kinds: tuple[IcebergType, ...] = (TimestamptzType(), LongType(), *[StringType()] * 4)
    schema = Schema(
        *(
            NestedField(at, name, kind, required=False)
            for at, (name, kind) in enumerate(zip(ODD, kinds, strict=True), 1)
        )
    )
    parts = [PartitionFieldSpec("@timestamp", "day"), PartitionFieldSpec("1st", "bucket", 4)]
    parts += [PartitionFieldSpec(name) for name in ODD[2:]]
    name = lake.create("shop.odd", schema, parts)
    for number in (1, 2):
        at = datetime(2024, 1, number, tzinfo=timezone.utc)
        rows = [{"@timestamp": at, "1st": number, **{each: f"{each} {number}" for each in ODD[2:]}}]
        assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, rows), number)), Committed)
    compact(lake, name)
    where = [f"`{each}` = '{each} 2'" for each in ODD[2:]] + [
        "`1st` = 2",
        "`@timestamp` >= TIMESTAMP '2024-01-02T00:00:00Z'",
    ]
    selects = [f"SELECT `1st` FROM default.{name} WHERE {each}" for each in where]
    columns = "`@timestamp`, 3, `a b`, `/VSO/X`, `+1`, `größe`"
    insert = f"INSERT INTO default.{name} SELECT {columns} FROM default.{name} WHERE `1st` = 2"
    *found, _, every = iceberg_spark.ask(
        lake.settings, [*selects, insert, f"SELECT `1st` FROM default.{name} ORDER BY 1"]
    )
    assert [each.column(0).to_pylist() for each in found] == [[2]] * len(where)
    assert every.column(0).to_pylist() == [1, 2, 3]


# What Spark puts behind a table's name to read its metadata, or a state of it.
READ_BEHIND_A_NAME = (
    "all_data_files", "all_delete_files", "all_entries", "all_files", "all_manifests", "changes", "data_files",
    "delete_files", "entries", "files", "history", "manifests", "metadata_log_entries", "partitions",
    "position_deletes", "refs", "snapshots", "branch_audit", "tag_june", "snapshot_id_1", "at_timestamp_1",
)  # fmt: skip


def test_tables_that_are_called_like_metadata(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """apache/iceberg#10550: a source's table is called `files`, or `history`. Spark reads the table, and its metadata
    behind it; beside it stands a table whose own metadata has that name."""
    commit(lake, lake.create("shop.orders", SCHEMA, []), range(1), 1)
    counts = [("shop.orders.files", "count(*)", 1)]
    for number, last in enumerate(READ_BEHIND_A_NAME, 2):
        name = lake.create(f"shop.{last}", SCHEMA, [])
        commit(lake, name, range(number), 1)
        counts += [(name, "count(*)", number), (f"{name}.files", "sum(record_count)", number)]
    query = " UNION ALL ".join(f"SELECT '{name}' AS name, {how} AS n FROM default.{name}" for name, how, _ in counts)
    [found] = iceberg_spark.ask(lake.settings, [query])
    assert {row["name"]: row["n"] for row in found.to_pylist()} == {name: count for name, _, count in counts}


def test_a_table_is_read_as_a_stream_beside_maintenance(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """Each row comes once to a streaming reader that has read all there is, though compaction and expiry follow, as often
    as they like, before the next append; the snapshot at which it stands never expires.
    (apache/iceberg#9504, #14622)"""
    name = lake.create("shop.orders", SCHEMA)
    read, seen = [f"STREAM default.{name}"], []
    offset = 0
    for quiet_rounds in (0, 1, 2, 3):
        for _ in range(3):
            offset += 1
            commit(lake, name, range(offset * 10, offset * 10 + 2), offset)
            seen += [offset * 10, offset * 10 + 1]
        assert sorted(iceberg_spark.ask(lake.settings, read)[0].column("id").to_pylist()) == seen
        for _ in range(quiet_rounds):
            compact(lake, name)
            expire_all(lake, name)
            assert sorted(iceberg_spark.ask(lake.settings, read)[0].column("id").to_pylist()) == seen


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_changes_of_a_table_are_what_was_appended(lake: Lake, iceberg_spark: IcebergSpark, version: str) -> None:
    """Iceberg's own scan of changes finds each row in the snapshot that brought it, and nothing in rewrites, though
    manifests are merged at every commit and files are put together in between. (apache/paimon#8788, apache/iceberg#14526)"""
    properties = {"commit.manifest.min-count-to-merge": "2", "format_version": version}
    name = lake.create("shop.orders", SCHEMA, [PartitionFieldSpec("day")], **properties)
    wanted = set()
    for number in range(1, 9):
        ids = range(number * 10, number * 10 + 3)
        commit(lake, name, ids, number)
        table = lake.plain(name)
        wanted |= {(each, "INSERT", table.metadata.current_snapshot_id) for each in ids}
        if number in (3, 4, 7):
            compact(lake, name)
    [found] = iceberg_spark.ask(lake.settings, [f"SELECT * FROM default.{name}.changes"])
    rows = [(row["id"], row["_change_type"], row["_commit_snapshot_id"]) for row in found.to_pylist()]
    assert len(rows) == len(wanted)
    assert set(rows) == wanted
