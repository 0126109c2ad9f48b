"""Deletes that floe and Spark write by turns: Iceberg's own runtime reads floe's deletion vectors and position delete
files, deletes, compacts and expires on top of them, and its own writer says which bytes and counters they would have
had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform

from framework.adapters.iceberg.files import path_key
from framework.adapters.iceberg.private.live_files import deleted_positions
from framework.adapters.maintenance.tables import TableCare
from framework.config.spec import PartitionFieldSpec
from framework.config.values.maintenance import CompactionPolicy
from tests.iceberg.conftest import SCHEMA, Lake
from tests.iceberg.deletes import Deleter, check, state
from tests.iceberg.lineage import lineage, local
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_version_3_in_spark import COLUMNS, FEW, ON_READ, Turns, values

pytestmark = [pytest.mark.iceberg, pytest.mark.spark, pytest.mark.slow]

BY_FILE = "'write.delete.granularity'='file'"


class Deletes(Turns):
    """A lake from which both delete."""

    def __init__(self, lake: Lake, spark: IcebergSpark) -> None:
        super().__init__(lake, spark)
        self.deleter = Deleter(lake)

    def delete(self, table: str, *ids: int, added: Sequence[int] = ()) -> None:
        """Floe deletes these ids, wherever they are, and adds others in the same commit."""
        deletes: dict[str, list[int]] = {}
        for path in self.deleter.live(table).by_path:
            found = pq.read_table(local(path), columns=["id"])["id"].to_pylist()
            deletes[path] = [place for place, each in enumerate(found) if each in ids]
        new = self.lake.files(table, [{"id": each, "name": "floe"} for each in added]) if added else ()
        self.deleter.commit(table, deletes, new)

    def left(self, table: str, expected: Iterable[int]) -> None:
        """Spark, PyIceberg and floe see exactly these ids; the files are as the specification has them."""
        [found] = self.spark(f"SELECT id FROM {table} ORDER BY id")
        assert found["id"].to_pylist() == sorted(expected) == self.lake.rows(table)
        deleted = check(self.lake.plain(table))
        io = self.lake.plain(table).io
        files = self.deleter.live(table).by_path
        assert {path: set(deleted_positions(io, file).tolist()) for path, file in files.items()} == deleted

    def summary(self, table: str) -> dict[str, str]:
        head = self.lake.plain(table).current_snapshot()
        assert head is not None
        assert head.summary is not None
        return head.summary.additional_properties


@pytest.fixture
def turns(lake: Lake, iceberg_spark: IcebergSpark) -> Deletes:
    return Deletes(lake, iceberg_spark)


def counted(summary: dict[str, str]) -> dict[str, str]:
    """The counters, without the sizes of files that differ in what they name."""
    words = ("added-", "removed-", "deleted-", "total-", "changed-")
    return {key: each for key, each in summary.items() if key.startswith(words) and "size" not in key}


def test_the_same_vectors_and_counters_as_sparks(turns: Deletes) -> None:
    """The same deletes, twice over, through floe as through Spark: the bitmaps are the same byte for byte, and so are
    their entries and the counters of the snapshots."""
    names = ("shop.ours", "shop.theirs")
    for table in names:
        turns.spark(
            f"CREATE TABLE {table} {COLUMNS}('format-version'='3', {ON_READ})",
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(0, 3000, 1, 1)",
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'b' FROM range(3000, 3010, 1, 1)",
        )
    for ids in ([3, 5, *range(100, 2000), 3001], [7, *range(2100, 2900, 3)]):
        turns.delete("shop.ours", *ids)
        turns.spark(f"DELETE FROM shop.theirs WHERE id IN ({', '.join(map(str, ids))})")
        found = []
        for table in names:
            head = turns.lake.plain(table).current_snapshot()
            assert head is not None
            vectors = state(head.manifest_list, head.snapshot_id).deletes.values()
            found.append(sorted((blob(each), each["record_count"]) for each in vectors))
        assert found[0] == found[1]
        ours, theirs = (turns.summary(table) for table in names)
        assert counted(ours) == counted(theirs)
        assert ours["added-files-size"] == theirs["added-files-size"]
        assert ours.get("removed-files-size") == theirs.get("removed-files-size")
    [entries] = turns.spark("SELECT * FROM shop.ours.delete_files")
    [others] = turns.spark("SELECT * FROM shop.theirs.delete_files")
    for column in ("content", "file_format", "spec_id", "record_count", "content_size_in_bytes"):
        assert sorted(entries[column].to_pylist()) == sorted(others[column].to_pylist()), column
    for column in ("column_sizes", "value_counts", "lower_bounds", "split_offsets", "equality_ids", "sort_order_id"):
        assert set(map(str, entries[column].to_pylist())) == set(map(str, others[column].to_pylist())), column


def blob(file: dict[str, Any]) -> bytes:
    return local(file["file_path"]).read_bytes()[file["content_offset"] :][: file["content_size_in_bytes"]]


def test_the_same_counters_as_sparks_in_version_2(turns: Deletes) -> None:
    """Deletes of version 2, where Spark writes a file for each data file, too: the counters are the same, and each data
    file has one position delete file."""
    names = ("shop.ours", "shop.theirs")
    for table in names:
        turns.spark(
            f"CREATE TABLE {table} {COLUMNS}('format-version'='2', {ON_READ}, {BY_FILE})",
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(0, 50, 1, 1)",
            f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'b' FROM range(50, 60, 1, 1)",
        )
    for ids in ([3, 5, 51], [7, 8]):
        turns.delete("shop.ours", *ids)
        turns.spark(f"DELETE FROM shop.theirs WHERE id IN ({', '.join(map(str, ids))})")
        assert counted(turns.summary("shop.ours")) == counted(turns.summary("shop.theirs"))
    turns.left("shop.ours", set(range(60)) - {3, 5, 51, 7, 8})


@pytest.mark.parametrize("version", ["2", "2, by partition", "3", "2, upgraded", "2, by partition, upgraded"])
def test_both_delete_by_turns(turns: Deletes, version: str) -> None:
    """Each deletes on top of what the other deleted, updates rows and appends, and nothing comes back; rows that nobody
    touched keep their ids."""
    table = "shop.turns"
    granularity = "'write.delete.granularity'='partition'" if "partition" in version else BY_FILE
    turns.spark(
        f"CREATE TABLE {table} {COLUMNS}('format-version'='{version[0]}', {ON_READ}, {FEW}, {granularity})",
        f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'spark' FROM range(0, 40, 1, 1)",
        f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'spark' FROM range(40, 60, 1, 1)",
        f"DELETE FROM {table} WHERE id IN (3, 44)",
    )
    turns.floe(table, [100, 101, 102])
    turns.delete(table, 4, 100)
    turns.spark(f"DELETE FROM {table} WHERE id IN (5, 101)")
    left = {*range(60), 102} - {3, 44, 4, 5}
    turns.left(table, left)
    if "upgraded" in version:
        turns.spark(f"ALTER TABLE {table} SET TBLPROPERTIES('format-version'='3')")
    turns.delete(table, 6, 45, added=[200, 201])
    turns.left(table, left := (left | {200, 201}) - {6, 45})
    before = turns.ids(table)[0] if "3" in version or "upgraded" in version else None
    turns.spark(f"UPDATE {table} SET name = 'updated' WHERE id IN (7, 200)", f"DELETE FROM {table} WHERE id IN (8, 46)")
    turns.delete(table, 9, 47, 201, added=[300])
    turns.spark(f"DELETE FROM {table} WHERE id IN (10, 300)")
    turns.left(table, left := left - {8, 46, 9, 47, 201, 10})
    if before is not None:
        now = turns.ids(table)[0]
        assert {each: now[each][0] for each in left} == {each: before[each][0] for each in left}
        assert {each for each in left if now[each] != before[each]} == {7, 200}
        lineage(turns.lake.plain(table))


@pytest.mark.parametrize("version", ["2", "3"])
def test_spark_compacts_and_expires(turns: Deletes, version: str) -> None:
    """Spark rewrites data files that floe deleted from, and expires the snapshots before; the rows left are the same,
    floe deletes from the new files, what is dead is gone from the store, and what is live is there."""
    table = "shop.compacted"
    turns.lake.create(table, format_version=version, **{"commit.manifest.min-count-to-merge": "3"})
    turns.floe(table, range(20), range(20, 40), range(40, 60))
    turns.delete(table, 1, 21, 22, added=[100])
    turns.delete(table, 2, 100, added=[101])
    left = {*range(60), 101} - {1, 21, 22, 2}
    before = turns.ids(table)[0] if version == "3" else None
    old = set(turns.deleter.live(table).by_path)
    turns.spark(f"CALL default.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    turns.left(table, left)
    assert not old & set(turns.deleter.live(table).by_path)
    if before is not None:
        assert turns.ids(table)[0] == before
    turns.delete(table, 3, 101)
    turns.left(table, left := left - {3, 101})
    moment = datetime.now(timezone.utc) + timedelta(hours=1)
    turns.spark(
        f"CALL default.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '{moment:%F %T}', retain_last => 1)"
    )
    assert len(turns.lake.plain(table).metadata.snapshots) == 1
    turns.left(table, left)
    used = turns.lake.tables.references(table)
    assert used is not None
    location = local(turns.lake.plain(table).location())
    stored = {path_key(str(path)) for pattern in ("*.parquet", "*.puffin") for path in location.rglob(pattern)}
    head = turns.lake.plain(table).current_snapshot()
    assert head is not None
    now = state(head.manifest_list, head.snapshot_id)
    assert stored == {path_key(path) for path in (*now.data, *(path for path, _ in now.deletes))}
    assert stored <= used.paths  # invariant 12
    turns.delete(table, 4)
    turns.left(table, left - {4})


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_table_whose_partitions_evolved(turns: Deletes, version: str) -> None:
    """Spark reads and deletes from files of two partition specs that floe deleted from, and rewrites position deletes
    and manifests."""
    table = "shop.evolved"
    turns.lake.create(
        table, SCHEMA, [PartitionFieldSpec("name")], format_version=version, **{"write.delete.mode": "merge-on-read"}
    )
    turns.floe(table, range(10))
    turns.spark(f"INSERT INTO {table} VALUES {values(range(10, 20))}")
    with turns.deleter.table(table).update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")
    turns.floe(table, range(20, 30))
    turns.delete(table, 1, 11, 21, added=[100, 101])
    turns.left(table, left := {*range(30), 100, 101} - {1, 11, 21})
    turns.spark(f"DELETE FROM {table} WHERE id IN (2, 12, 22, 100)")
    turns.delete(table, 3, 13, 23)
    turns.left(table, left := left - {2, 12, 22, 100, 3, 13, 23})
    turns.spark(f"CALL default.system.rewrite_manifests('{table}')")
    turns.delete(table, 4, 14, 24)
    turns.left(table, left - {4, 14, 24})
    [partitions] = turns.spark(f"SELECT id FROM {table} WHERE name = 'floe' ORDER BY id")
    assert partitions["id"].to_pylist() == sorted(each for each in left - {4, 14, 24} if not 10 <= each < 20)


def test_older_snapshots_show_the_rows_as_they_were(turns: Deletes) -> None:
    """Each snapshot still shows the rows that it had when later ones have deleted some of them."""
    table = turns.lake.create("shop.travel", format_version="3")
    turns.floe(table, range(5))
    turns.delete(table, 1)
    turns.delete(table, 2, added=[9])
    snapshots = [each.snapshot_id for each in turns.lake.plain(table).metadata.snapshots]
    found: list[pa.Table] = turns.spark(
        *(f"SELECT id FROM {table} VERSION AS OF {each} ORDER BY id" for each in snapshots)
    )
    assert [each["id"].to_pylist() for each in found] == [[0, 1, 2, 3, 4], [0, 2, 3, 4], [0, 3, 4, 9]]


def test_spark_reads_what_floe_compacted(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """Rows that Spark and floe wrote and deleted by turns are in one file after floe's compaction, with the `_row_id`
    and `_last_updated_sequence_number` that Spark saw before; Spark updates, compacts and expires on top of it."""
    both = Deletes(lake, iceberg_spark)
    table = "shop.compacted"
    both.spark(f"CREATE TABLE {table} {COLUMNS} ('format-version'='3', {ON_READ}, {BY_FILE})")
    both.floe(table, [1, 2, 3], [4, 5])
    both.spark(f"INSERT INTO {table} VALUES (6, 'spark'), (7, 'spark')", f"DELETE FROM {table} WHERE id = 1")
    both.delete(table, 4, added=[8])
    both.spark(f"UPDATE {table} SET name = 'new' WHERE id = 6")
    (before,) = both.ids(table)
    policy = CompactionPolicy(min_input_files=2, delete_ratio=0.01)
    done = TableCare(lake.tables).compact(table, policy, dry_run=False)
    assert done is not None
    assert (done.files_after, done.rows) == (1, 6)
    assert both.ids(table) == [before]
    both.left(table, [2, 3, 5, 6, 7, 8])
    both.spark(f"DELETE FROM {table} WHERE id = 7", f"UPDATE {table} SET name = 'newer' WHERE id = 2")
    both.left(table, [2, 3, 5, 6, 8])
    (later,) = both.ids(table)
    TableCare(lake.tables).compact(table, policy, dry_run=False)
    assert both.ids(table) == [later]
    assert {key: row_id for key, (row_id, _) in later.items()} == {
        key: before[key][0] for key in later
    }  # an update keeps the row's id
    both.spark(f"CALL default.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
    assert both.ids(table) == [later]
