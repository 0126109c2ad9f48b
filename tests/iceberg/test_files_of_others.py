"""Upsert tables, with files that others wrote: their rows have keys like any other, whatever the file
says of its columns."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IcebergType, LongType, NestedField, StringType

from framework.adapters.iceberg import project_by_id
from framework.adapters.maintenance.tables import TableCare
from framework.config.spec import Deletes, KeyIndexUse, PartitionFieldSpec
from framework.config.values.maintenance import CompactionPolicy
from framework.errors import TableBlocked
from framework.table.upsert import key_index
from tests.iceberg.conftest import Lake
from tests.iceberg.files_of_others import add_as_hive, add_column, add_files, added_file
from tests.iceberg.keyed_pipeline import Key, Pipeline
from tests.iceberg.lineage import upgrade
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_ordered_tables import A, B, Change, Ordered

pytestmark = pytest.mark.iceberg

WAYS = ("add_files", "hive", "hive in the key", "default")
BY = {"hive": [PartitionFieldSpec("day", "identity")], "hive in the key": [PartitionFieldSpec("shop", "identity")]}
KEYS: list[Key] = [(1, "a"), (2, "a"), (3, "a")]
ROW = {"shop": 9, "code": "z", "day": 1, "name": "x"}


@pytest.fixture(autouse=True)
def runs_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)


def filled(lake: Lake, way: str, keys: Sequence[Key], order: IcebergType | None = None) -> str:
    """A table of version 2 with a row for each of the keys, each in a file of its own."""
    fields = [
        NestedField(1, "shop", LongType(), required=False),
        NestedField(2, "code", StringType(), required=False),
        NestedField(3, "day", order or LongType(), required=False),
        NestedField(4, "name", StringType(), required=False),
    ]
    late = way == "default"
    schema = Schema(*(field for field in fields if not late or field.name != "code"))
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", schema, BY.get(way, []), format_version="2")
    for shop, code in keys:
        row: dict[str, Any] = {"shop": shop, "code": code, "day": 1, "name": "x"}
        if late:
            table = lake.plain(name)
            table.append(
                pa.Table.from_pylist([{k: v for k, v in row.items() if k != "code"}], table.schema().as_arrow())
            )
        else:
            (add_files if way == "add_files" else add_as_hive)(lake.plain(name), row)
    if late:
        add_column(lake, name, {"id": 9, "name": "code", "type": "string", "required": False, "initial-default": "a"})
    return name


def following(lake: Lake, name: str, keys: Sequence[Key], use: KeyIndexUse, deletes: Deletes) -> Pipeline:
    pipeline = Pipeline(lake, name, use, deletes)
    pipeline.rows = dict.fromkeys(keys, (1, "x"))
    return pipeline


@pytest.mark.parametrize("deletes", [Deletes.AUTO, Deletes.COPY_ON_WRITE])
@pytest.mark.parametrize("use", [KeyIndexUse.NEVER, KeyIndexUse.ALWAYS])
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("way", WAYS)
def test_rows_in_files_of_others_are_updated_and_deleted(
    lake: Lake, way: str, version: str, use: KeyIndexUse, deletes: Deletes
) -> None:
    """An update leaves one row of its key, and a delete none; rows beside them stay."""
    name = filled(lake, way, KEYS)
    if version == "3":
        upgrade(lake, name)
    pipeline = following(lake, name, KEYS, use, deletes)
    pipeline.check()

    pipeline.do([(0, (1, "a"), (2, "new")), (1, (2, "a"), None), (1, (9, "b"), (1, "x"))])
    pipeline.do([(0, (1, "a"), None), (1, (3, "a"), (1, "newer"))])


@pytest.mark.parametrize("way", WAYS)
def test_the_look_for_keys_with_several_rows_sees_them(lake: Lake, way: str) -> None:
    """At the switch from appending: two files of others with one key hold the pipeline."""
    name = filled(lake, way, [(1, "a"), (1, "a"), (2, "a")])
    with pytest.raises(TableBlocked, match="1 key of code, shop has several rows"):
        Pipeline(lake, name).context()


@pytest.mark.parametrize("way", WAYS)
def test_they_are_compacted_with_their_values(lake: Lake, way: str) -> None:
    """Compaction reads them by the same rules, and so do later batches what it leaves."""
    name = filled(lake, way, [(1, "a"), (1, "b"), (1, "c")] if way == "hive in the key" else KEYS)
    keys = [(1, "a"), (1, "b"), (1, "c")] if way == "hive in the key" else KEYS
    pipeline = following(lake, name, keys, KeyIndexUse.NEVER, Deletes.AUTO)
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    assert done.files_after == 1, done
    pipeline.check()
    pipeline.do([(0, keys[0], (1, "y")), (1, keys[1], None)])


@pytest.mark.parametrize("use", [KeyIndexUse.NEVER, KeyIndexUse.ALWAYS])
def test_a_key_column_that_was_renamed_since_is_found_in_their_files(lake: Lake, use: KeyIndexUse) -> None:
    """Files without column ids hold the key under the name that the column had: updates, deletes and compaction read them
    by the table's name mapping, as readers do."""
    fields = [("shop", LongType()), ("old_code", StringType()), ("day", LongType()), ("name", StringType())]
    schema = Schema(*(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(fields, start=1)))
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", schema, [], format_version="2")
    for shop, code in KEYS:
        add_files(lake.plain(name), {"shop": shop, "old_code": code, "day": 1, "name": "x"})
    with lake.plain(name).update_schema() as change:
        change.rename_column("old_code", "code")
    assert lake.plain(name).scan().to_arrow()["code"].to_pylist() == ["a", "a", "a"]
    pipeline = following(lake, name, KEYS, use, Deletes.AUTO)
    pipeline.check()
    pipeline.do([(0, (1, "a"), (2, "new")), (1, (2, "a"), None)])
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    pipeline.check()
    pipeline.do([(0, (1, "a"), None), (1, (3, "a"), (1, "newer"))])


def test_rows_between_the_search_and_the_commit_are_found(lake: Lake) -> None:
    """Whoever adds files while a batch is on its way: the coordinator reads them by the same rules."""
    for way in ("add_files", "hive", "hive in the key"):
        name = filled(lake, way, [])
        pipeline = Pipeline(lake, name)
        written = pipeline.announce([(0, (1, "a"), (1, "y"))])
        (add_files if way == "add_files" else add_as_hive)(
            lake.plain(name), {"shop": 1, "code": "a", "day": 2, "name": "x"}
        )
        pipeline.commit(written)
        pipeline.rows = {(1, "a"): (1, "y")}
        pipeline.check()


@pytest.mark.parametrize(
    ("kind", "values"), [(LongType(), [5, 6, 7]), (DateType(), [date(2026, 1, d) for d in (5, 6, 7)])]
)
def test_the_column_that_orders_records_is_read_as_the_key_is(lake: Lake, kind: IcebergType, values: list[Any]) -> None:
    """A row of a file of Hive's is newer than a record, though its file does not have the column: the row stays."""
    from pyiceberg.transforms import IdentityTransform

    for add in (add_files, add_as_hive):
        ordered = Ordered(lake, "2", kind=kind)
        with lake.plain(ordered.name).update_spec() as update:
            update.add_field("day", IdentityTransform(), "day")
        for shop, code in (A, B):
            add(lake.plain(ordered.name), {"shop": shop, "code": code, "day": values[1], "name": "x"})
        written = ordered.announce(Change(0, A, values[0]), Change(0, B, values[2]))
        ordered.commit(written)
        found = lake.tables.opened(ordered.name)[0]
        assert found is not None
        names = {task.file.file_path.rpartition("/")[0].rpartition("/")[2] for task in found.scan().plan_files()}
        assert "others" in names
        assert written.keyed is not None
        assert (written.keyed.inserted, written.keyed.updated) == (0, 1)


@pytest.mark.parametrize(("part", "way"), [("_constants", "hive in the key"), ("_mapped", "add_files")])
def test_a_reader_that_takes_a_missing_column_for_no_key_is_found_out(
    lake: Lake, part: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutation: without what the partition or the name mapping says, a key is doubled."""
    made = project_by_id.FileColumns.__init__

    def blind(self: Any, *given: Any) -> None:
        made(self, *given)
        setattr(self, part, {} if part == "_constants" else ())

    name = filled(lake, way, KEYS)
    pipeline = following(lake, name, KEYS, KeyIndexUse.NEVER, Deletes.AUTO)
    monkeypatch.setattr(project_by_id.FileColumns, "__init__", blind)
    with pytest.raises(AssertionError):
        pipeline.do([(0, KEYS[0], (1, "y"))])


def test_a_file_that_nothing_says_how_to_read_holds_the_pipeline(lake: Lake) -> None:
    """Without field ids and without a name mapping: it is said, and nothing is written."""
    name = filled(lake, "add_files", KEYS)
    with lake.plain(name).transaction() as change:
        change.remove_properties("schema.name-mapping.default")
    with pytest.raises(TableBlocked, match="no field ids, and the table has no name mapping") as caught:
        Pipeline(lake, name).context()
    assert "schema.name-mapping.default" in (caught.value.remedy or "")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("layout", ["flat", "hive"])
def test_files_that_spark_adds_are_updated_and_deleted(
    lake: Lake, iceberg_spark: IcebergSpark, tmp_path: Path, layout: str, version: str
) -> None:
    """Spark's own `add_files` of a folder of Parquet files, also in the layout of Hive; afterwards Spark reads what a fold
    of the changes holds."""
    name = f"shop.t{uuid.uuid4().hex[:8]}"
    by = " PARTITIONED BY (shop)" if layout == "hive" else ""
    for shop, code in KEYS:
        folder = tmp_path / "files" / (f"shop={shop}" if layout == "hive" else "")
        folder.mkdir(parents=True, exist_ok=True)
        row = {"shop": shop, "code": code, "day": 1, "name": "x"}
        kept = {key: value for key, value in row.items() if layout == "flat" or key != "shop"}
        pq.write_table(pa.Table.from_pylist([kept]), folder / f"{shop}.parquet")
    lake.catalog.create_namespace_if_not_exists("shop")
    iceberg_spark.ask(
        lake.settings,
        [
            f"CREATE TABLE `default`.{name} (shop BIGINT, code STRING, day BIGINT, name STRING) USING iceberg{by} "
            f"TBLPROPERTIES ('format-version'='{version}')",
            f"CALL `default`.system.add_files(table => '{name}', source_table => '`parquet`.`{tmp_path}/files`')",
        ],
    )
    pipeline = following(lake, name, KEYS, KeyIndexUse.ALWAYS, Deletes.AUTO)
    pipeline.do([(0, (1, "a"), (2, "new")), (1, (2, "a"), None), (1, (9, "b"), (1, "x"))])
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    assert not done.reason
    pipeline.do([(0, (1, "a"), None), (1, (3, "a"), (1, "newer"))])
    (found,) = iceberg_spark.ask(lake.settings, [f"SELECT shop, code, day, name FROM `default`.{name}"])
    held = sorted((row["shop"], row["code"], row["day"], row["name"]) for row in found.to_pylist())
    assert held == sorted((*key, *row) for key, row in pipeline.rows.items())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["partition", "file"])
@pytest.mark.parametrize("upgraded", [False, True])
def test_one_delete_file_of_spark_for_several_data_files(
    lake: Lake, iceberg_spark: IcebergSpark, granularity: str, upgraded: bool
) -> None:
    """Rows that Spark has deleted by position, in one file for all data files of a partition, stay deleted: beside
    updates, after a compaction, and once the table has version 3 with vectors."""
    name = f"shop.t{uuid.uuid4().hex[:8]}"
    lake.catalog.create_namespace_if_not_exists("shop")
    values = [f"({shop}, 'a', 1, 'x'), ({shop}, 'b', 1, 'x')" for shop in range(1, 5)]
    iceberg_spark.ask(
        lake.settings,
        [
            f"CREATE TABLE `default`.{name} (shop BIGINT, code STRING, day BIGINT, name STRING) USING iceberg "
            "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', "
            f"'write.delete.granularity'='{granularity}')",
            *(f"INSERT INTO `default`.{name} VALUES {each}" for each in values),
            f"DELETE FROM `default`.{name} WHERE code = 'b' AND shop < 4",
        ],
    )
    deletes = lake.plain(name).inspect.delete_files()
    assert len(deletes) == (1 if granularity == "partition" else 3)
    if upgraded:
        upgrade(lake, name)
    keys = [(shop, "a") for shop in range(1, 5)] + [(4, "b")]
    pipeline = following(lake, name, keys, KeyIndexUse.ALWAYS, Deletes.AUTO)
    pipeline.check()
    pipeline.do([(0, (1, "a"), (2, "new")), (1, (2, "a"), None), (1, (3, "b"), (1, "again"))])
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2, delete_ratio=0.01), dry_run=False)
    assert done is not None
    assert not done.reason
    pipeline.do([(0, (1, "a"), None), (1, (3, "a"), (1, "newer")), (1, (4, "b"), None)])
    (found,) = iceberg_spark.ask(lake.settings, [f"SELECT shop, code, day, name FROM `default`.{name}"])
    held = sorted((row["shop"], row["code"], row["day"], row["name"]) for row in found.to_pylist())
    assert held == sorted((*key, *row) for key, row in pipeline.rows.items())


@pytest.mark.spark
@pytest.mark.parametrize("use", [KeyIndexUse.NEVER, KeyIndexUse.ALWAYS])
def test_files_of_other_formats_hold_an_upsert_table_by_name_until_they_are_written_anew(
    lake: Lake, iceberg_spark: IcebergSpark, use: KeyIndexUse
) -> None:
    """Avro and ORC that Spark wrote, before floe's first batch and between the search and the commit: the message says how
    many files it is about and what makes them Parquet, nothing is committed, and compaction leaves them as they are. Once
    they are Parquet, updates and deletes find their rows."""
    name = filled(lake, "add_files", [])
    table = f"`default`.{name}"
    pipeline = Pipeline(lake, name, use)
    written = pipeline.announce([(0, (1, "a"), (1, "y"))])
    for_format = [
        f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = '{kind}')" for kind in ("avro", "orc")
    ]
    add = [f"INSERT INTO {table} (shop, code, day, name) VALUES ({shop}, '{code}', 1, 'x')" for shop, code in KEYS]
    iceberg_spark.ask(lake.settings, [for_format[0], *add[:2], for_format[1], add[2]])

    said = r"3 data files of it are AVRO and ORC, and floe reads Parquet: .*rewrite_data_files\(table => '" + re.escape(
        name
    )
    with pytest.raises(AssertionError, match="3 data files of it are AVRO and ORC, and floe reads Parquet"):
        pipeline.commit(written)
    with pytest.raises(TableBlocked) as blocked:
        Pipeline(lake, name, use).context()
    assert re.search(said, str(blocked.value), re.DOTALL)
    assert blocked.value.code == "FLOE-R144"
    iceberg_spark.ask(lake.settings, [f"ALTER TABLE {table} SET TBLPROPERTIES ('write.format.default' = 'parquet')"])
    lake.plain(name).append(pa.Table.from_pylist([ROW, ROW], lake.plain(name).schema().as_arrow()))
    lake.plain(name).append(pa.Table.from_pylist([ROW], lake.plain(name).schema().as_arrow()))
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    assert (done.files_before, done.files_after) == (2, 1)
    [formats, rows] = iceberg_spark.ask(
        lake.settings,
        [
            f"SELECT file_format, count(*) AS n FROM {table}.files GROUP BY file_format ORDER BY file_format",
            f"SELECT shop, code FROM {table} WHERE shop < 9 ORDER BY shop",
        ],
    )
    assert formats.to_pylist() == [{"file_format": f, "n": n} for f, n in (("AVRO", 2), ("ORC", 1), ("PARQUET", 1))]
    assert rows.to_pylist() == [{"shop": shop, "code": code} for shop, code in KEYS]

    iceberg_spark.ask(lake.settings, [f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE shop < 9"])
    again = following(lake, name, KEYS, use, Deletes.AUTO)
    again.check()
    again.do([(0, (1, "a"), (2, "new")), (1, (2, "a"), None)])
    [rows] = iceberg_spark.ask(lake.settings, [f"SELECT shop, code, day, name FROM {table} ORDER BY shop"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [(1, "a", 2, "new"), (3, "a", 1, "x")]


def test_a_parquet_file_is_compacted_whatever_it_is_called(lake: Lake) -> None:
    """Hive calls its files `000000_0`: a manifest says what a file is."""
    name = filled(lake, "add_files", [])
    for number in range(3):
        path = Path(added_file(lake.plain(name), {"shop": number, "code": "a", "day": 1, "name": "x"})[7:])
        renamed = path.with_name(f"00000{number}_0")
        path.rename(renamed)
        lake.plain(name).add_files([renamed.as_uri()])
    done = TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    assert done is not None
    assert (done.files_before, done.files_after) == (3, 1)
    assert sorted(lake.plain(name).scan().to_arrow()["shop"].to_pylist()) == [0, 1, 2]
