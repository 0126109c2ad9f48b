"""Expiry beside others: another expiry, a tag that is set meanwhile, files that come back, tables that share files.

What a table still needs is read from its metadata by json and fastavro alone: everything that a snapshot, a branch or a
tag can reach must lie in the store afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSnapshotsUpdate

from framework.adapters.iceberg.commits import expiry
from framework.adapters.maintenance import tables as table_care
from framework.adapters.maintenance.tables import TableCare
from framework.commit.machine.effects import PipelineProgress
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, merge
from framework.commit.recovery.held import taken_over, without_elsewhere
from framework.config.values.maintenance import CompactionPolicy, ExpirePolicy, MaintenancePolicy
from framework.runtime.maintenance.tables import expire_once
from tests.iceberg.conftest import TOPIC, Lake
from tests.iceberg.lineage import avro, local, raw
from tests.iceberg.rest_server import RestServer
from tests.iceberg.spark_server import IcebergSpark
from tests.iceberg.test_manifests import ok
from tests.iceberg.test_rest_catalog import RestLake

pytestmark = pytest.mark.iceberg

NOW = ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=0, reader_lease_ms=0)
POLICY = MaintenancePolicy(expire=NOW)


@pytest.fixture(params=["sql", "rest"])
def lake(request: pytest.FixtureRequest, catalog_settings: dict[str, str]) -> Iterator[Lake]:
    if request.param == "sql":
        yield Lake(catalog_settings)
        return
    server = RestServer(SqlCatalog("default", **{k: v for k, v in catalog_settings.items() if k != "type"}))
    try:
        yield RestLake(catalog_settings, server)
    finally:
        server.shutdown()
        server.server_close()


def filled(lake: Lake, commits: int = 6, **properties: str) -> str:
    name = lake.create("shop.t", **properties)
    for number in range(1, commits + 1):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    return name


def reachable(table: Table) -> set[str]:
    """Every file that a snapshot of the table can reach."""
    metadata, found = raw(table), set()
    for snapshot in metadata["snapshots"]:
        found.add(snapshot["manifest-list"])
        for manifest in avro(snapshot["manifest-list"]):
            found.add(manifest["manifest_path"])
            found |= {each["data_file"]["file_path"] for each in avro(manifest["manifest_path"]) if each["status"] != 2}
    return found


def expire_all(lake: Lake, name: str, policy: MaintenancePolicy = POLICY) -> None:
    """Rounds until nothing expires; the files go after each, as in a run."""
    care = TableCare(lake.tables)
    for _ in range(20):
        done = expire_once(name, care, policy, {}, dry_run=False)
        assert done is not None
        care.remove(name, done.paths)
        if done.is_last or not done.expiry.expired:
            return
    raise AssertionError("it never ends")


def whole(lake: Lake, name: str) -> None:
    assert [path for path in reachable(lake.plain(name)) if not local(path).exists()] == []


def once_before(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody acts between the look and the commit, the first time."""
    own, left = expiry.expire, [act]

    def expire(*given: object) -> Table:
        if left:
            left.pop()()
        return own(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(table_care, "expire", expire)


@pytest.mark.parametrize("theirs", [1, 3, 4, 5])
def test_another_expiry_was_faster(lake: Lake, monkeypatch: pytest.MonkeyPatch, theirs: int) -> None:
    """However many snapshots another maintainer expired meanwhile, the oldest that was to stay among them, each file
    that the table can reach stays, and its rows."""
    name = filled(lake)

    def expired() -> None:
        table = lake.plain(name)
        ids = [each.snapshot_id for each in table.snapshots()[:theirs]]
        lake.catalog.commit_table(table, (), (RemoveSnapshotsUpdate(snapshot_ids=ids),))

    if isinstance(lake, RestLake):
        forgiving(lake.server)
    once_before(monkeypatch, expired)
    expire_all(lake, name, MaintenancePolicy(expire=replace(NOW, max_snapshots=3, max_snapshot_age_ms=1 << 40)))
    whole(lake, name)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]


def forgiving(server: RestServer) -> None:
    """As Iceberg's own servers: ids of snapshots that are gone already are no fault."""
    own = server.catalog.commit_table

    def commit(table: Table, requirements: object, updates: object) -> object:
        there = {each.snapshot_id for each in server.catalog.load_table(table.name()).snapshots()}
        kept = [
            each.model_copy(update={"snapshot_ids": [one for one in each.snapshot_ids if one in there]})
            if isinstance(each, RemoveSnapshotsUpdate)
            else each
            for each in updates  # type: ignore[attr-defined]
        ]
        return own(table, requirements, tuple(kept))  # type: ignore[arg-type]

    server.catalog.commit_table = commit  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_tag_is_set_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A tag that is set between look and commit keeps its snapshot where the catalog checks in this process, and its
    files in any case: where a server takes the tag away, its snapshot can be registered again."""
    name = filled(lake)
    tagged = lake.plain(name).snapshots()[at]
    needed = {tagged.manifest_list, *(each.manifest_path for each in tagged.manifests(lake.plain(name).io))}
    once_before(
        monkeypatch, lambda: lake.plain(name).manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
    )
    expire_all(lake, name)
    whole(lake, name)
    assert all(local(path).exists() for path in needed)
    if not isinstance(lake, RestLake):
        assert lake.plain(name).metadata.refs["audit"].snapshot_id == tagged.snapshot_id


def test_a_copy_that_was_registered_since_the_tables_were_looked_at_keeps_its_files(lake: Lake) -> None:
    """All tables are looked at once an hour; before snapshots expire, those with new names are."""
    name = filled(lake)
    places, _ = lake.tables.places()
    lake.catalog.register_table("shop.copy", lake.plain(name).metadata_location)
    done = expire_once(name, TableCare(lake.tables), POLICY, places, dry_run=False)
    assert done is not None
    assert not done.expiry.expired
    lake.catalog.drop_table("shop.copy")
    done = expire_once(name, TableCare(lake.tables), POLICY, places, dry_run=False)
    assert done is not None
    assert done.expiry.expired


def test_a_file_that_was_removed_and_added_again_stays(lake: Lake) -> None:
    """Somebody deletes a file's rows and adds the file again: it is live, whatever an expired snapshot says of it."""
    name = filled(lake, commits=3)
    table = lake.plain(name)
    [path] = [task.file.file_path for task in table.scan(row_filter="id = 2").plan_files()]
    table.delete("id = 2")
    assert lake.rows(name) == [1, 3]
    add_again(lake, name, path)
    for number in range(4, 7):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    expire_all(lake, name)
    whole(lake, name)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]
    assert local(path).exists()


def test_a_file_that_came_back_and_went_again_stays_for_as_long_as_somebody_can_read_it(lake: Lake) -> None:
    """A snapshot in between, kept by a tag, still reads the file."""
    name = filled(lake, commits=3)
    [path] = [task.file.file_path for task in lake.plain(name).scan(row_filter="id = 2").plan_files()]
    lake.plain(name).delete("id = 2")
    add_again(lake, name, path)
    held = lake.plain(name).current_snapshot()
    assert held is not None
    lake.plain(name).manage_snapshots().create_tag(held.snapshot_id, "audit").commit()
    lake.plain(name).delete("id = 2")
    for number in range(4, 7):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    expire_all(lake, name)
    whole(lake, name)
    assert local(path).exists()
    lake.plain(name).manage_snapshots().remove_tag("audit").commit()
    ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 7}]), 7)))
    expire_all(lake, name)
    whole(lake, name)
    assert not local(path).exists()


def test_a_snapshot_in_the_middle_expires(lake: Lake) -> None:
    """What it removed is still read by an older snapshot that a tag keeps (apache/iceberg#10982)."""
    name = filled(lake, commits=2)
    first = lake.plain(name).current_snapshot()
    assert first is not None
    lake.plain(name).manage_snapshots().create_tag(first.snapshot_id, "audit").commit()
    lake.plain(name).delete("id = 2")
    for number in range(4, 7):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    expire_all(lake, name)
    whole(lake, name)
    assert sorted(lake.plain(name).scan(snapshot_id=first.snapshot_id).to_arrow()["id"].to_pylist()) == [1, 2]


def test_several_branches_and_tags_before_and_one_after(lake: Lake) -> None:
    """Branches and tags that go between rounds leave nothing behind that a snapshot lacks (apache/iceberg#13568)."""
    name = filled(lake, commits=3)
    old = lake.plain(name).snapshots()[0].snapshot_id
    lake.plain(name).manage_snapshots().create_tag(old, "audit").create_branch(old, "side").commit()
    lake.plain(name).delete("id = 2")
    for number in range(4, 7):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    expire_all(lake, name)
    whole(lake, name)
    lake.plain(name).manage_snapshots().remove_branch("side").commit()
    expire_all(lake, name)
    whole(lake, name)
    lake.plain(name).manage_snapshots().remove_tag("audit").commit()
    expire_all(lake, name)
    whole(lake, name)
    assert lake.rows(name) == [1, 3, 4, 5, 6]


def add_again(lake: Lake, name: str, path: str) -> None:
    lake.plain(name).add_files([path], check_duplicate_files=False)


def test_the_tables_own_words_on_snapshots_hold(lake: Lake) -> None:
    """`history.expire.min-snapshots-to-keep` and `history.expire.max-snapshot-age-ms` of the table hold for its branches;
    a branch's own word is stronger."""
    name = filled(lake, **{"history.expire.min-snapshots-to-keep": "4"})
    expire_all(lake, name)
    assert len(lake.plain(name).snapshots()) == 4
    with lake.plain(name).transaction() as transaction:
        transaction.set_properties(
            {"history.expire.min-snapshots-to-keep": "1", "history.expire.max-snapshot-age-ms": "3600000"}
        )
    expire_all(lake, name)
    assert len(lake.plain(name).snapshots()) == 4
    whole(lake, name)


def test_spark_reads_what_is_left(catalog_settings: dict[str, str], iceberg_spark: IcebergSpark) -> None:
    """After a file was deleted, added again and the history expired, Iceberg's own reader finds each row."""
    lake = Lake(catalog_settings)
    name = filled(lake, commits=4)
    [path] = [task.file.file_path for task in lake.plain(name).scan(row_filter="id = 2").plan_files()]
    lake.plain(name).delete("id = 2")
    add_again(lake, name, path)
    expire_all(lake, name)
    [rows] = iceberg_spark.ask(lake.settings, [f"SELECT id FROM `default`.{name} ORDER BY id"])
    assert rows.column("id").to_pylist() == [1, 2, 3, 4]


def test_the_head_of_a_moment_ago_is_inside_the_window(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """After six idle days one commit comes: what was the head until then may still be read and gone back to."""
    name = filled(lake, commits=3)
    day = 86_400_000
    policy = MaintenancePolicy(
        compaction=CompactionPolicy(enabled=False),
        expire=ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=day, reader_lease_ms=0),
    )
    before = [each.snapshot_id for each in lake.plain(name).snapshots()]
    own = expiry.facts_of

    def six_days_ago(metadata: object) -> expiry.ExpiryFacts:
        facts = own(metadata)  # type: ignore[arg-type]
        aged = (
            table_care.replace(each, timestamp_ms=each.timestamp_ms - 6 * day, left_ms=left)
            for each in facts.snapshots
            if each.snapshot_id in before
            for left in [
                each.left_ms if each.snapshot_id == before[-1] or each.left_ms is None else each.left_ms - 6 * day
            ]
        )
        return table_care.replace(
            facts, snapshots=(*aged, *(e for e in facts.snapshots if e.snapshot_id not in before))
        )

    monkeypatch.setattr(table_care, "facts_of", six_days_ago)
    ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 4}]), 4)))
    expire_all(lake, name, policy)
    assert lake.plain(name).snapshots()[0].snapshot_id == before[-1]
    whole(lake, name)


@pytest.mark.parametrize("moved", [True, False])
def test_a_control_topic_without_pipelines_keeps_no_snapshot(lake: Lake, moved: bool) -> None:
    """`floe rebase` takes a table's pipelines over to another control topic: the newest snapshot of the former one, and all
    behind the head up to it, no longer stay for ever. While one of its pipelines is left they do."""
    name = filled(lake, 3)
    text = lake.plain(name).properties[PROGRESS_PROPERTY]
    here = taken_over(text, "p", "new-topic-id", PipelineProgress(3, {"t": {"0": 3}}, {"t": "id"}), None)
    after = without_elsewhere(text, "p", here) if moved else merge(text, here)
    with lake.plain(name).transaction() as transaction:
        transaction.set_properties({PROGRESS_PROPERTY: after})
    for number in range(4, 8):
        effect = lake.effect(name, lake.files(name, [{"id": number}]), number, topic="new-topic-id")
        ok(lake.tables.commit(effect))
    expire_all(lake, name)
    assert len(lake.plain(name).snapshots()) == (1 if moved else 5)
    for topic in (TOPIC, "new-topic-id"):
        view = lake.view(name, topic=topic)
        assert view.progress is not None
        assert view.snapshot_control_offset in (None, view.progress.control_offset)
    whole(lake, name)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6, 7]
