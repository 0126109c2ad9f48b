"""Tables of format version 3 that floe and Spark write by turns: Iceberg's own runtime reads the row ids, and its own
writer says which ones they would have been."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from framework.adapters.iceberg.files import path_key
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitFailed, Committed
from framework.errors import TableBlocked
from framework.table.changes import AlterTable
from testbed.servers.rest_catalog import RestCatalog
from testbed.servers.spark_reader import java_read
from tests.iceberg.conftest import POLICY, SCHEMA, Lake
from tests.iceberg.lineage import lineage
from tests.iceberg.spark_server import IcebergSpark

pytestmark = [pytest.mark.iceberg, pytest.mark.spark, pytest.mark.slow]

COLUMNS = "(id BIGINT, name STRING) USING iceberg TBLPROPERTIES"
ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
FEW = "'commit.manifest.min-count-to-merge'='3'"
Ids = dict[int, tuple[int, int]]


class Turns:
    """One lake that both write to."""

    def __init__(self, lake: Lake, spark: IcebergSpark) -> None:
        self.lake, self._spark = lake, spark
        self._offset = 0

    def spark(self, *statements: str) -> list[pa.Table]:
        return self._spark.ask(self.lake.settings, [each.replace("shop.", "`default`.shop.") for each in statements])

    def floe(self, table: str, *batches: Sequence[int]) -> None:
        for ids in batches:
            self._offset += 1
            rows: list[dict[str, object]] = [{"id": each, "name": "floe"} for each in ids]
            answer = self.lake.tables.commit(self.lake.effect(table, self.lake.files(table, rows), self._offset))
            assert isinstance(answer, Committed), answer

    def ids(self, *tables: str) -> list[Ids]:
        """By table and row: its `_row_id` and `_last_updated_sequence_number`, complete and each row id once."""
        query = "SELECT id, _row_id, _last_updated_sequence_number FROM {}"
        found = []
        for rows, table in zip(self.spark(*(query.format(each) for each in tables)), tables, strict=True):
            ids = dict(
                zip(rows[0].to_pylist(), zip(rows[1].to_pylist(), rows[2].to_pylist(), strict=True), strict=True)
            )
            assert len(ids) == len(rows) == len({row_id for row_id, _ in ids.values()})
            assert None not in {number for pair in ids.values() for number in pair}
            assert sorted(ids) == self.lake.rows(table), "PyIceberg reads other rows than Spark"
            found.append(ids)
        return found


@pytest.fixture
def turns(lake: Lake, iceberg_spark: IcebergSpark) -> Turns:
    return Turns(lake, iceberg_spark)


def values(ids: Sequence[int]) -> str:
    return ", ".join(f"({each}, 'spark')" for each in ids)


@pytest.mark.parametrize("version", ["3", "2, upgraded"])
def test_rows_have_the_ids_that_icebergs_own_writer_gives(turns: Turns, version: str) -> None:
    """The same appends, to a new table and to one that was upgraded with rows deleted in it, give the same row ids and
    sequence numbers through floe as through Spark."""
    tables, number = ("shop.ours", "shop.theirs"), version.partition(",")[0]
    turns.lake.create("shop.ours", format_version=number)
    turns.spark(f"CREATE TABLE shop.theirs {COLUMNS}('format-version'='{number}')")
    for table in tables:
        turns.spark(
            f"INSERT INTO {table} VALUES {values([1, 2])}",
            f"INSERT INTO {table} VALUES {values([3, 4, 5])}",
            f"DELETE FROM {table} WHERE id = 4",
            f"ALTER TABLE {table} SET TBLPROPERTIES('format-version'='3')",
        )
    batches = [[10], [20, 21, 22], [30, 31]]
    turns.floe("shop.ours", *batches)
    turns.spark(*(f"INSERT INTO shop.theirs VALUES {values(batch)}" for batch in batches))
    ours, theirs = turns.ids(*tables)
    assert ours == theirs
    assert len(ours) == 10
    metadata = [turns.lake.plain(table).metadata for table in tables]
    assert [each.next_row_id for each in metadata] == [metadata[0].next_row_id] * 2  # type: ignore[union-attr]


def test_deletion_vectors_stay_in_force_and_ids_stay(turns: Turns) -> None:
    """What Spark deleted by deletion vectors stays deleted while floe appends and merges manifests; Spark updates and
    deletes rows of both; and every row that nobody touched keeps its row id and its sequence number throughout."""
    tables = ("shop.vectors", "shop.upgraded")
    for table, version in zip(tables, (3, 2), strict=True):
        turns.spark(
            f"CREATE TABLE {table} {COLUMNS}('format-version'='{version}', {ON_READ}, {FEW})",
            f"INSERT INTO {table} SELECT id, 'spark' FROM range(1, 11)",
            f"DELETE FROM {table} WHERE id = 3",
            f"ALTER TABLE {table} SET TBLPROPERTIES('format-version'='3')",
        )
        turns.floe(table, *[[100 * batch, 100 * batch + 1] for batch in range(1, 8)])
    first = turns.ids(*tables)
    for table in tables:
        turns.spark(
            f"UPDATE {table} SET name = 'updated' WHERE id IN (5, 101)", f"DELETE FROM {table} WHERE id IN (7, 200)"
        )
        turns.floe(table, *[[1000 * batch, 1000 * batch + 1] for batch in range(1, 6)])
    for before, now, table in zip(first, turns.ids(*tables), tables, strict=True):
        assert before.keys() - now.keys() == {7, 200}
        assert not {3, 7, 200} & now.keys()
        kept = before.keys() & now.keys()
        assert {each: now[each][0] for each in kept} == {each: before[each][0] for each in kept}
        assert {each for each in kept if now[each][1] != before[each][1]} == {5, 101}
        names, vectors = turns.spark(
            f"SELECT id FROM {table} WHERE name = 'updated' ORDER BY id",
            f"SELECT DISTINCT file_path FROM {table}.all_delete_files WHERE file_format = 'PUFFIN'",
        )
        assert names["id"].to_pylist() == [5, 101]
        # Invariant 12: what holds the vectors is in use, and no orphan.
        used = turns.lake.tables.references(table)
        assert used is not None
        assert vectors.num_rows > 0
        assert {path_key(path) for path in vectors["file_path"].to_pylist()} <= used.paths


DEFAULTS = {
    "flag": (BooleanType(), True),
    "small": (IntegerType(), -7),
    "large": (LongType(), 2**40),
    "ratio": (DoubleType(), 0.1),
    "price": (DecimalType(12, 3), Decimal("-12.500")),
    "day": (DateType(), date(1969, 12, 31)),
    "local": (TimestampType(), datetime(2024, 2, 29, 12, 0, 0, 123456)),
    "moment": (TimestamptzType(), datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=timezone.utc)),
    "text": (StringType(), "ü"),
    "raw": (BinaryType(), b"\x00\xff"),
}


def test_initial_defaults_are_read_alike(turns: Turns) -> None:
    """Rows from before columns with default values came read the same defaults in Spark as in PyIceberg, and rows that
    floe wrote without a value since read null in both."""
    lake, name = turns.lake, turns.lake.create("shop.defaults", format_version="3")
    turns.floe(name, [1])
    fields = [
        NestedField(place, column, kind, required=False, initial_default=value, write_default=value)
        for place, (column, (kind, value)) in enumerate(DEFAULTS.items(), 3)
    ]
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    schema = Schema(*SCHEMA.fields, *fields).model_dump_json()
    assert lake.tables.alter_table(AlterTable(name, target.table_uuid, 0, 2, schema, ()))
    turns.floe(name, [2])
    [spark] = turns.spark(f"SELECT {', '.join(DEFAULTS)} FROM {name} ORDER BY id")
    plain = lake.plain(name).scan().to_arrow().sort_by("id").select(list(DEFAULTS))
    expected = [{column: value for column, (_, value) in DEFAULTS.items()}, dict.fromkeys(DEFAULTS)]
    assert plain.to_pylist() == expected
    assert spark.to_pylist() == expected


def test_a_variant_column_of_sparks_is_refused_by_name(turns: Turns) -> None:
    """A table that Spark made with a variant column is refused with its name and the reason."""
    turns.spark("CREATE TABLE shop.payloads (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES('format-version'='3')")
    with pytest.raises(TableBlocked, match=r"shop\.payloads cannot be written: .* type variant") as caught:
        turns.lake.tables.load_target("shop.payloads", POLICY)
    assert caught.value.code == "FLOE-R131"


NANOSECONDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "local", TimestampNanoType(), required=False),
    NestedField(3, "at", TimestamptzNanoType(), required=False),
)


class RestLake(Lake):
    """A lake behind Iceberg's own REST servlet."""

    def __init__(self, server: RestCatalog) -> None:
        self.settings, self.name, self.server = server.settings(), "default", server
        self.tables = IcebergTables(self.settings)

    def plain(self, name: str) -> Table:
        return load_catalog("plain", **self.settings).load_table(name)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestLake]:
    server = RestCatalog(tmp_path / "rest").start()
    try:
        yield RestLake(server)
    finally:
        server.stop()


def test_icebergs_rest_server_takes_the_commits(rest: RestLake) -> None:
    """Iceberg's Java library accepts the snapshots, refuses one that another branch's overtook, keeps the row ids over
    merges, and reads rows with nanoseconds that floe wrote, as PyIceberg does, exactly."""
    properties = {"commit.manifest.min-count-to-merge": "3"}
    name = rest.create("shop.moments", NANOSECONDS, format_version="3", **properties)
    target = rest.tables.load_target(name, POLICY)
    assert target is not None
    assert target.format_version == 3
    moments = [1_704_369_600_123_456_789, -1, None, 2**63 - 1]
    for offset, moment in enumerate(moments, 1):
        rows = pa.table(
            {
                "id": pa.array([offset]),
                "local": pa.array([moment], pa.timestamp("ns")),
                "at": pa.array([moment], pa.timestamp("ns", "UTC")),
            }
        )
        writer = TableWriter({"default": rest.tables.io_properties()["default"]}, "p", "run", 1, 1 << 28, 1 << 28)
        writer.add(target, rows)
        answer = rest.tables.commit(rest.effect(name, writer.finish()[name], offset))
        assert isinstance(answer, Committed), answer
    # The row ids of this view are taken before it commits, on another branch.
    view = rest.view(name)
    other = RestLake(rest.server)
    taken = [DataFile(f"{target.location}/data/never-read.parquet", 3, 10, spec_id=0)]
    assert isinstance(
        other.tables.commit(other.effect(name, taken, 5, branch="audit", topic="another-control-topic")), Committed
    )
    late = rest.tables.commit(rest.effect(name, (), 5, view=view))
    assert isinstance(late, CommitFailed)
    assert "Cannot add snapshot" in late.reason

    found = lineage(rest.plain(name)).files[rest.plain(name).metadata.current_snapshot_id or 0]
    assert sorted(found.values()) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    read = rest.plain(name).scan().to_arrow().sort_by("id")
    assert [read[column].cast(pa.int64()).to_pylist() for column in ("local", "at")] == [moments] * 2
    java = java_read(rest.settings, [], [name], records=True)
    assert java.counts == {name: 4}
    first = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
    assert any(f"{first:%Y-%m-%dT%H:%M:%S}.123456789Z" in each for each in java.records[name]), java.records
