"""UUIDs are found by every reader, whichever way it orders them: Iceberg's Java library compares them as two signed numbers
(apache/iceberg#14216), others by their bytes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType, UUIDType

from framework.adapters.parquet.files import TableWriter, layout_of
from framework.adapters.uuid_order import signs
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import Committed
from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.record.fit.parsed_columns import from_python
from framework.table.changes import CreateTable
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_compaction import compact

pytestmark = pytest.mark.iceberg

# Both signs of both halves.
KEYS = [
    uuid.UUID(bytes=bytes([high, *bytes(7), low, *bytes(6), 7])) for high in (0, 0x7F, 0x80, 0xFF) for low in (1, 0x90)
]
# As a clock and a counter make them: version 7.
TIMES = [uuid.UUID(int=(0x0190_0000_0000_7000 + number << 64) | 0x8000_0000_0000_0001 + number) for number in range(8)]
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "key", UUIDType(), required=False),
    NestedField(3, "inner", StructType(NestedField(4, "key", UUIDType(), required=False)), required=False),
    NestedField(5, "more", ListType(6, UUIDType(), element_required=False), required=False),
)
CASES: dict[str, tuple[tuple[PartitionFieldSpec, ...], tuple[SortFieldSpec, ...], dict[str, str]]] = {
    "plain": ((), (), {}),
    "version 3": ((), (), {"format-version": "3"}),
    "sorted": ((), (SortFieldSpec(PartitionFieldSpec("key")),), {"write.parquet.row-group-limit": "2"}),
    "partitioned": ((PartitionFieldSpec("key"),), (), {"commit.manifest.min-count-to-merge": "2"}),
    "bucket": ((PartitionFieldSpec("key", "bucket", 3),), (), {}),
}


def written(lake: Lake, name: str, keys: Sequence[uuid.UUID | None]) -> tuple[DataFile, ...]:
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    values = [None if key is None else key.bytes for key in keys]
    rows: list[dict[str, Any]] = [{"id": n, "key": v, "inner": {"key": v}, "more": [v]} for n, v in enumerate(values)]
    arrow = layout_of(target).arrow
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    columns = [from_python([row[field.name] for row in rows], field.type) for field in arrow]
    writer.add(target, pa.Table.from_arrays(columns, schema=arrow))
    return tuple(writer.finish()[name])


def filled(lake: Lake, name: str, case: str, keys: Sequence[uuid.UUID]) -> str:
    """Four commits of all keys, and one of nothing but nulls; compacted where there are no partitions."""
    partition_by, sort_by, properties = CASES[case]
    given = {"format-version": "2", **properties}
    lake.tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), partition_by, tuple(given.items()), sort_by))
    for number in range(1, 5):
        answer = lake.tables.commit(lake.effect(name, written(lake, name, [*keys, None]), number))
        assert isinstance(answer, Committed), answer
    assert isinstance(lake.tables.commit(lake.effect(name, written(lake, name, [None]), 5)), Committed)
    return name


@pytest.mark.spark
@pytest.mark.parametrize("compacted", [False, True])
def test_spark_finds_each_uuid(lake: Lake, iceberg_spark: IcebergSpark, compacted: bool) -> None:
    """By equality, in structs too, in every layout, as files are written and as they are compacted; Spark lists the manifests
    as well."""
    names = [filled(lake, f"shop.t{number}", case, KEYS) for number, case in enumerate(CASES)]
    if compacted:
        for name in names:
            compact(lake, name)
    lookups = [
        " UNION ALL ".join(
            f"SELECT '{key}' AS key, count(*) AS n FROM `default`.{name} WHERE {column} = '{key}'" for key in KEYS
        )
        for name in names
        for column in ("key", "inner.key")
    ]
    nulls = [f"SELECT count(*) AS n FROM `default`.{name} WHERE key IS NULL" for name in names]
    lists = [f"SELECT partition_summaries FROM `default`.{name}.manifests" for name in names]
    answers = [table.to_pylist() for table in iceberg_spark.ask(lake.settings, [*lookups, *nulls, *lists])]
    for lookup, rows in zip(lookups, answers, strict=False):
        assert {row["key"]: row["n"] for row in rows} == {str(key): 4 for key in KEYS}, lookup
    assert answers[len(lookups) : len(lookups) + len(names)] == [[{"n": 5}]] * len(names)


def test_no_row_group_has_bounds_of_uuids(lake: Lake) -> None:
    """Readers skip row groups by them; columns of other types keep theirs."""
    name = filled(lake, "shop.t", "sorted", KEYS)
    for task in lake.plain(name).scan().plan_files():
        groups = pq.ParquetFile(task.file.file_path.removeprefix("file://")).metadata
        columns = [
            groups.row_group(n).column(c) for n in range(groups.num_row_groups) for c in range(groups.num_columns)
        ]
        has_statistics = {column.path_in_schema: column.statistics is not None for column in columns}
        assert has_statistics == {"id": True, "key": False, "inner.key": False, "more.list.element": True}


@pytest.mark.parametrize("compacted", [False, True])
def test_uuids_of_a_clock_keep_their_bounds(lake: Lake, compacted: bool) -> None:
    """Those that every reader orders alike still say which files a reader can leave out."""
    name = lake.create("shop.clock", SCHEMA)
    for number, start in enumerate((0, 4), start=1):
        files = written(lake, name, TIMES[start : start + 4])
        assert isinstance(lake.tables.commit(lake.effect(name, files, number)), Committed)
    if compacted:
        compact(lake, name)
    scan = lake.plain(name).scan(row_filter=EqualTo(term="key", value=TIMES[5]))
    assert [len(list(lake.plain(name).scan().plan_files())), len(list(scan.plan_files()))] == (
        [1, 1] if compacted else [2, 1]
    )
    [file] = [task.file for task in scan.plan_files()]
    ends = (TIMES[0 if compacted else 4].bytes, TIMES[7].bytes)
    for column in ("key", "inner.key"):
        number = lake.plain(name).schema().find_field(column).field_id
        assert (file.lower_bounds[number], file.upper_bounds[number]) == ends
    assert Path(file.file_path.removeprefix("file://")).exists()


def test_the_partitions_of_a_manifest_are_in_one_order(lake: Lake) -> None:
    """However often they were merged and compacted: those that readers would not agree on stand in manifests of their own,
    of which there are few."""
    for name, keys, groups in (("shop.clock", TIMES, 1), ("shop.random", KEYS, 4)):
        filled(lake, name, "partitioned", keys)
        for is_compacted in (False, True):
            if is_compacted:
                compact(lake, name)
            table = lake.plain(name)
            snapshot = table.current_snapshot()
            assert snapshot is not None
            manifests = snapshot.manifests(table.io)
            for manifest in manifests:
                partitions = [entry.data_file.partition[0] for entry in manifest.fetch_manifest_entry(table.io)]
                assert len({signs(each) for each in partitions}) == 1
            assert len(manifests) <= 4 * groups  # of so many orders of size
            assert snapshot.summary is not None
            assert snapshot.summary["total-records"] == str(4 * (len(keys) + 1) + 1)
