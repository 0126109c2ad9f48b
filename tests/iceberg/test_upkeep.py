"""What a commit costs and leaves behind: old metadata files, the catalog's cache, many tables at once."""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestFile, clear_manifest_cache
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.commits import manifest_lists
from framework.adapters.iceberg.private import sql as iceberg_sql
from framework.adapters.iceberg.private.sql import FlatSqlCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.commit.machine.effects import Committed
from framework.config.values.maintenance import CompactionPolicy, ExpirePolicy, MaintenancePolicy
from framework.runtime.maintenance.tables import expire_once
from tests.iceberg.conftest import Lake, metadata_files

pytestmark = pytest.mark.iceberg


def grow(lake: Lake, name: str, commits: range) -> None:
    for number in commits:
        answer = lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number))
        assert isinstance(answer, Committed), answer


def with_snapshots(table: Table, count: int) -> str:
    """Where a metadata file like this table's lies, with so many snapshots as floe's commits have them."""
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    counters = ("added-files-size", "added-data-files", "added-records", "total-data-files", "total-records")
    for number in range(1, count + 1):
        summary = {"operation": "append", "floe.commit-id": uuid.uuid4().hex, "floe.control-offset": str(number)}
        snapshot = {
            "snapshot-id": (1 << 60) + number,
            "sequence-number": number,
            "timestamp-ms": metadata["last-updated-ms"] + number,
            "manifest-list": f"{table.location()}/metadata/snap-{number}-0-{uuid.uuid4()}.avro",
            "summary": summary | {f"floe.{name}": str(1_000_000 + number) for name in counters},
            "schema-id": 0,
        }
        metadata.setdefault("snapshots", []).append(snapshot)
        entry = {key: snapshot[key] for key in ("snapshot-id", "timestamp-ms")}
        metadata.setdefault("snapshot-log", []).append(entry)
    metadata["last-sequence-number"] = count
    metadata["current-snapshot-id"] = (1 << 60) + count
    metadata["refs"] = {"main": {"snapshot-id": (1 << 60) + count, "type": "branch"}}
    path = f"{table.location()}/metadata/many.metadata.json"
    Path(path.removeprefix("file://")).write_text(json.dumps(metadata))
    return path


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_old_metadata_files_go_within_the_tables_limits(lake: Lake, kept: int) -> None:
    """As many old metadata files stay as the table's property says, at least one: those of the metadata log, and the
    current one."""
    name = lake.create(**{"write.metadata.previous-versions-max": str(kept)})
    grow(lake, name, range(1, 9))
    table = lake.plain(name)
    logged = {entry.metadata_file.rsplit("/", 1)[1] for entry in table.metadata.metadata_log}
    assert len(logged) == max(1, kept)
    assert metadata_files(table) == logged | {table.metadata_location.rsplit("/", 1)[1]}
    for entry in table.metadata.metadata_log:
        assert StaticTable.from_metadata(entry.metadata_file).current_snapshot() is not None
    assert lake.rows(name) == list(range(1, 9))


def test_metadata_files_stay_when_the_table_says_so(lake: Lake) -> None:
    """With `delete-after-commit` off, as Iceberg has it by default, no metadata file is ever removed."""
    properties = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "false"}
    name = lake.create(**properties)
    grow(lake, name, range(1, 6))
    assert len(metadata_files(lake.plain(name))) == 6


def test_metadata_files_are_what_pyiceberg_would_write(lake: Lake) -> None:
    """The metadata file of a commit parses to what is in memory, and PyIceberg writes it again without a difference; of
    version 3 its model is complete, although it refuses to write it."""
    for version in ("1", "2", "3"):
        name = lake.create(f"shop.v{version}", format_version=version)
        grow(lake, name, range(1, 4))
        lake = Lake(lake.settings)  # to which what was rendered so far is not known
        grow(lake, name, range(4, 12))
        table = lake.plain(name)
        written = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
        assert written == json.loads(IcebergBaseModel.model_dump_json(table.metadata))
        assert ("sequence-number" in written["snapshots"][0]) == (version != "1")
        assert ("next-row-id" in written) == ("first-row-id" in written["snapshots"][0]) == (version == "3")


def test_changes_by_others_are_seen_at_once(lake: Lake) -> None:
    """The catalog's memory of a table never hides what another writer did to it."""
    name = lake.create()
    grow(lake, name, range(1, 3))
    plain = lake.plain(name)
    plain.append(plain.scan(row_filter=EqualTo("id", 1)).to_arrow())
    with lake.plain(name).update_schema() as update:
        update.add_column("more", LongType())
    view = lake.view(name)
    table = lake.plain(name)
    assert view.schema_id == table.metadata.current_schema_id == 1
    assert view.snapshot_id == table.metadata.current_snapshot_id
    grow(lake, name, range(3, 5))
    lake.catalog.drop_table(name)
    assert lake.tables.load_view(name, "main", "any") is None
    lake.create(name)
    assert lake.view(name).table_uuid != view.table_uuid
    grow(lake, name, range(7, 9))
    assert lake.rows(name) == [7, 8]


def test_snapshots_expired_by_others_do_not_come_back(lake: Lake) -> None:
    """What was expired elsewhere stays expired, although its JSON was rendered before, and parents are mended."""
    name = lake.create()
    grow(lake, name, range(1, 6))
    first, second, *kept = [snapshot.snapshot_id for snapshot in lake.plain(name).metadata.snapshots]
    lake.plain(name).maintenance.expire_snapshots().by_ids([first, second]).commit()
    grow(lake, name, range(6, 8))
    metadata = lake.plain(name).metadata
    assert [snapshot.snapshot_id for snapshot in metadata.snapshots[:3]] == kept
    assert metadata.snapshots[0].parent_snapshot_id is None
    assert lake.rows(name) == list(range(1, 8))


def test_a_full_cache_costs_time_only(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that no longer fit into the catalog's memory are read again and committed to all the same."""
    monkeypatch.setattr(iceberg_sql, "MAX_KNOWN_BYTES", 70_000)
    monkeypatch.setattr(manifest_lists, "MAX_REMEMBERED_MANIFESTS", 6)
    lake = Lake(lake.settings)
    names = [lake.create(f"shop.t{number}") for number in range(3)]
    for number in range(1, 11):  # in the end one table is more than the bound by itself
        for name in names:
            grow(lake, name, range(number, number + 1))
    assert [lake.rows(name) for name in names] == [list(range(1, 11))] * 3


@pytest.mark.parametrize(("columns", "snapshots"), [(1, 200), (600, 1)])
def test_the_memory_of_a_catalog_is_bounded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, columns: int, snapshots: int
) -> None:
    """However many tables with however many snapshots or columns are loaded, what the catalog keeps stays within its
    bound."""
    bound = 4_000_000
    monkeypatch.setattr(iceberg_sql, "MAX_KNOWN_BYTES", bound)
    catalog = FlatSqlCatalog("default", **lake.settings)
    fields = [NestedField(number, f"column_{number}", LongType()) for number in range(1, columns + 1)]
    lake.create()
    location = with_snapshots(catalog.create_table("shop.like_all", Schema(*fields)), snapshots)
    names = [f"shop.t{number}" for number in range(12)]
    for name in names:
        catalog.register_table(name, location)
    catalog.load_table(names[0])  # what is loaded once and for all
    catalog = FlatSqlCatalog("default", **lake.settings)
    gc.collect()
    tracemalloc.start()
    try:
        for name in names:
            catalog.load_table(name)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * bound < kept < bound
    assert catalog.load_table(names[-1]).metadata is catalog.load_table(names[-1]).metadata


def test_the_manifests_that_are_remembered_are_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits to many tables leave no more manifests in memory than their bound, and those of the newest."""
    monkeypatch.setattr(manifest_lists, "MAX_REMEMBERED_MANIFESTS", 10)
    lake = Lake(lake.settings)
    before = [each for each in gc.get_objects() if isinstance(each, ManifestFile)]  # held by others in this process
    for number in range(5):
        grow(lake, lake.create(f"shop.t{number}"), range(1, 5))
    clear_manifest_cache()  # PyIceberg's own, which has a bound of its own
    gc.collect()
    known = set(map(id, before))
    alive = sum(isinstance(each, ManifestFile) and id(each) not in known for each in gc.get_objects())
    assert 4 <= alive <= 10


@pytest.mark.parametrize("version", ["2", "3"])
def test_memory_does_not_grow_with_the_commits(lake: Lake, version: str) -> None:
    """Commits, compactions and expiries of one table leave as much in memory after four times as many of them."""
    name = lake.create(format_version=version)
    care, kept = TableCare(lake.tables), ExpirePolicy(max_snapshots=5, rollback_window_ms=1, reader_lease_ms=1)
    policy = MaintenancePolicy(compaction=CompactionPolicy(min_input_files=2), expire=kept)
    held = []
    for number in range(1, 41):
        grow(lake, name, range(number, number + 1))
        if number % 2 == 0:
            assert care.compact(name, policy.compaction, dry_run=False)
            time.sleep(0.002)
            went = expire_once(name, care, policy, {}, dry_run=False)
            assert went is not None
            care.remove(name, went.paths)
        if number in (10, 40):
            clear_manifest_cache()  # PyIceberg's own, which has a bound of its own
            gc.collect()
            counted = Counter(type(each).__name__ for each in gc.get_objects())
            held.append({kind: counted[kind] for kind in ("ManifestFile", "Snapshot", "PyArrowFileIO", "Schema")})
    assert held[1] == held[0]
    assert held[0]["ManifestFile"] < 10


def test_one_adapter_commits_to_many_tables_at_once(lake: Lake) -> None:
    """Threads that commit to different tables through one adapter lose nothing, and each table has its own history."""
    tables = IcebergTables({**lake.settings, "uri": lake.settings["uri"] + "?timeout=60"})
    names = [lake.create(f"shop.t{number}") for number in range(8)]
    prepared = {name: [lake.files(name, [{"id": number}]) for number in range(5)] for name in names}

    def commit_all(name: str) -> None:
        for number, files in enumerate(prepared[name]):
            view = tables.load_view(name, "main", "control-topic-id")
            answer = tables.commit(lake.effect(name, files, number + 1, view=view))
            assert isinstance(answer, Committed), answer

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(commit_all, names))
    assert [lake.rows(name) for name in names] == [[0, 1, 2, 3, 4]] * 8


def test_of_many_commits_from_one_view_exactly_one_lands(lake: Lake) -> None:
    """Coordinators that decide from the same view at once waste work, and never write twice."""
    name = lake.create()
    view = lake.view(name)
    effects = [lake.effect(name, lake.files(name, [{"id": number}]), 1, view=view) for number in range(8)]
    rivals = [IcebergTables({**lake.settings, "uri": lake.settings["uri"] + "?timeout=60"}) for _ in effects]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda pair: pair[0].commit(pair[1]), zip(rivals, effects, strict=True)))
    assert [isinstance(answer, Committed) for answer in answers].count(True) == 1
    assert len(lake.rows(name)) == 1
    assert len(lake.plain(name).metadata.snapshots) == 1


def test_a_snapshot_id_that_is_taken_is_refused(lake: Lake) -> None:
    """A second snapshot with the id of one of many is refused, as PyIceberg refuses it, and changes nothing."""
    name = lake.create()
    grow(lake, name, range(1, 6))
    table = FlatSqlCatalog("default", **lake.settings).load_table(name)
    taken = [AddSnapshotUpdate(snapshot=table.metadata.snapshots[2])]
    for _ in range(2):  # the second time, what the catalog knows of the table is from before
        with pytest.raises(ValueError, match="already exists"):
            table.catalog.commit_table(table, (), tuple(taken))
    assert len(lake.plain(name).metadata.snapshots) == 5
