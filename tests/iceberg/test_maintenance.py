"""Maintenance of real tables beside a real control topic: what expires, which files go, and what stays."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.maintenance.tables import TableCare
from framework.cli.main import run_main
from framework.cli.shared.status_text import health_line
from framework.commit.events.event_types import Holds, PauseChanged, TableMeasured
from framework.commit.machine.pauses import with_pause
from framework.commit.maintenance import health as health_module
from framework.commit.maintenance import rounds
from framework.commit.maintenance.health import Need, gain_words, needs_of
from framework.config.values.maintenance import (
    CompactionPolicy,
    ExpirePolicy,
    MaintenanceLimits,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.maintenance.background import TableKeeper
from framework.runtime.maintenance.orphans import Announced
from framework.runtime.maintenance.tables import MaintenanceReport, maintain, maintain_table
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.deletes import Deleter
from tests.iceberg.filled_tables import Place, age, age_everything, local

pytestmark = [pytest.mark.iceberg, pytest.mark.kafka]

DAY_MS = 86_400_000
NOW = ExpirePolicy(max_snapshot_age_ms=0, max_snapshots=1, rollback_window_ms=0, reader_lease_ms=0)
ONLY_EXPIRY = MaintenancePolicy(
    compaction=CompactionPolicy(enabled=False), expire=NOW, orphans=OrphansPolicy(older_than_ms=DAY_MS),
    manifests=ManifestsPolicy(enabled=False),
)  # fmt: skip


@pytest.fixture
def place(lake: Lake, broker: Broker) -> Iterator[Place]:
    made = Place(lake, broker)
    yield made
    made.publisher.close()


def keep(place: Place, name: str, policy: MaintenancePolicy = ONLY_EXPIRY, dry_run: bool = False) -> MaintenanceReport:
    announced = Announced(place.kafka, (place.topic,))
    try:
        where = place.lake.tables.place(name)
        assert where is not None
        care = TableCare(place.lake.tables)
        return maintain_table(name, care, policy, announced, {name: where}, "", dry_run, lambda text: None)
    finally:
        announced.close()


def everything(lake: Lake) -> dict[str, bytes]:
    """Every file below the warehouse, and the catalog, byte by byte."""
    root = Path(lake.settings["warehouse"].removeprefix("file://"))
    found = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    catalog = lake.settings["uri"].removeprefix("sqlite:///")
    return {**found, catalog: Path(catalog).read_bytes()}


def filled(place: Place, version: str = "2", commits: int = 6) -> str:
    name = place.lake.create(f"shop.t{uuid.uuid4().hex[:8]}", format_version=version)
    for number in range(1, commits + 1):
        place.commit(name, place.lake.files(name, [{"id": number}]), number)
    return name


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_expired_snapshots_go_with_the_files_that_only_they_need(place: Place, version: str) -> None:
    """Of an appended table only manifest lists go; every row stays, the newest snapshot records the progress, and the
    next commit is as before."""
    lake, name = place.lake, filled(place, version)
    lists = [local(each.manifest_list) for each in lake.plain(name).snapshots()]
    report = keep(place, name)
    assert (report.expired, report.removed, report.before.snapshots, report.after.snapshots) == (5, 5, 6, 1)
    assert [path.exists() for path in lists] == [False] * 5 + [True]
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]
    assert lake.view(name, topic=place.topic_id).snapshot_control_offset == 6
    place.commit(name, lake.files(name, [{"id": 7}]), 7)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6, 7]


def test_a_file_goes_when_nothing_that_stays_can_read_it(place: Place) -> None:
    """A rewritten file stays for as long as a snapshot or a tag can read it, and goes with the last of them."""
    lake, name = place.lake, filled(place, commits=3)
    old = {task.file.file_path for task in lake.plain(name).scan().plan_files()}
    lake.plain(name).manage_snapshots().create_tag(lake.plain(name).current_snapshot().snapshot_id, "audit").commit()
    lake.plain(name).overwrite(lake.plain(name).scan().to_arrow())
    place.commit(name, lake.files(name, [{"id": 4}]), 4)
    place.commit(name, lake.files(name, [{"id": 5}]), 5)
    report = keep(place, name)
    assert report.kept == {"tagged": 1, "the head of a branch": 1}
    assert all(local(path).exists() for path in old)
    lake.plain(name).manage_snapshots().remove_tag("audit").commit()
    place.commit(name, lake.files(name, [{"id": 6}]), 6)
    keep(place, name)
    assert not any(local(path).exists() for path in old)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]
    age_everything(lake, name)
    assert keep(place, name).orphans == 0


def test_a_dry_run_changes_nothing_and_says_what_would_be(place: Place) -> None:
    """The catalog and every file are the same, byte by byte, and the real run then does what the dry run said."""
    lake, name = place.lake, filled(place)
    lake.plain(name).delete("id = 2")
    place.commit(name, lake.files(name, [{"id": 7}]), 7)
    place.commit(name, lake.files(name, [{"id": 8}]), 8)
    nobodys = lake.files(name, [{"id": 9}])
    age(nobodys[0].path)
    before = everything(lake)
    reported = keep(place, name, dry_run=True)
    assert everything(lake) == before
    assert reported.expired > 0
    assert reported.orphans == 1
    done = keep(place, name)
    assert (done.expired, done.removed, done.orphans, done.before) == (
        reported.expired, reported.removed, reported.orphans, reported.before,
    )  # fmt: skip
    assert done.after.snapshots == reported.after.snapshots
    # The metadata files of the commit that expired them and of the one before the orphan went, and its manifest list.
    assert done.after.files == reported.after.files + 3


def test_what_is_announced_stays_however_old(place: Place) -> None:
    """Files of announcements are known, so orphans may go early."""
    lake, name = place.lake, filled(place)
    announced = lake.files(name, [{"id": 7}])
    place.announce(name, announced)
    age_everything(lake, name)
    assert keep(place, name).orphans == 0
    assert local(announced[0].path).exists()


def test_a_young_snapshot_stays_whatever_the_number(place: Place) -> None:
    """The rollback window and the readers' lease are stronger than the number of snapshots."""
    name = filled(place)
    young = ExpirePolicy(max_snapshots=1, rollback_window_ms=DAY_MS, reader_lease_ms=0)
    policy = replace(ONLY_EXPIRY, expire=young)
    report = keep(place, name, policy)
    assert (report.expired, report.kept["inside the rollback window"]) == (0, 5)


def test_a_table_that_was_rolled_back_is_left_alone(place: Place) -> None:
    """What somebody gave up by moving the branch back may be wanted again, so nothing of it goes."""
    lake, name = place.lake, filled(place)
    first = lake.plain(name).snapshots()[0].snapshot_id
    table = lake.plain(name)
    update = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=first)
    table.catalog.commit_table(table, (), (update,))
    (report,) = maintain(place.kafka, (place.topic,), lake.tables, [name], False, lambda text: None)
    assert "rolled back" in report.skipped
    assert len(lake.plain(name).snapshots()) == 6


def test_a_table_on_a_branch_is_maintained_there(place: Place) -> None:
    """Its files are rewritten and its snapshots expire as on `main`, which stays as it is; where somebody moved that branch
    back it is left alone, although `main` never held what floe records."""
    place.branch, lake = "audit", place.lake
    name = filled(place)
    main = lake.plain(name).metadata.refs["main"].snapshot_id
    place.tell(MaintenancePolicy(compaction=CompactionPolicy(min_input_files=3), expire=NOW))
    (report,) = maintain(place.kafka, (place.topic,), lake.tables, [name], False, lambda text: None)
    assert report.skipped == ""
    assert (report.rewritten.files_before, report.rewritten.files_after) == (6, 1)
    assert (report.expired, report.after.snapshots) == (6, 2)
    assert lake.rows(name, "audit") == [1, 2, 3, 4, 5, 6]
    assert lake.plain(name).metadata.refs["main"].snapshot_id == main
    place.commit(name, lake.files(name, [{"id": 7}]), 7)
    assert lake.rows(name, "audit") == [1, 2, 3, 4, 5, 6, 7]
    table = lake.plain(name)
    update = SetSnapshotRefUpdate(ref_name="audit", type="branch", snapshot_id=main)
    table.catalog.commit_table(table, (), (update,))
    (report,) = maintain(place.kafka, (place.topic,), lake.tables, [name], False, lambda text: None)
    assert "rolled back" in report.skipped


def test_the_policy_is_what_the_newest_run_published(place: Place) -> None:
    """`floe maintain` goes by the `maintenance:` of the pipelines that fill the table; `never` keeps it off."""
    lake, name = place.lake, filled(place)

    expire = ExpirePolicy(max_snapshots=2, rollback_window_ms=1, reader_lease_ms=1)
    place.tell(MaintenancePolicy(MaintenanceMode.NEVER, expire=expire))
    (report,) = maintain(place.kafka, (place.topic,), lake.tables, [name], False, lambda text: None)
    assert "never" in report.skipped
    place.tell(replace(ONLY_EXPIRY, expire=expire))
    (report,) = maintain(place.kafka, (place.topic,), lake.tables, [name], False, lambda text: None)
    assert report.after.snapshots == 2


def _killed(settings: dict[str, str], kafka: dict[str, str], topic: str, name: str, point: str) -> None:
    os.environ["FLOE_FAULT"] = f"{point}=kill"
    place = Place.__new__(Place)
    place.lake, place.kafka, place.topic = Lake(settings), kafka, topic
    keep(place, name)


@pytest.mark.parametrize("point", ["snapshots-expired", "file-removed@3"])
def test_a_killed_maintenance_leaves_nothing_that_the_next_does_not_clean(place: Place, point: str) -> None:
    """Killed between the commit and the last file, it leaves orphans; the next round removes them, and no row is
    lost."""
    lake, name = place.lake, filled(place)
    lake.plain(name).delete("id = 1")
    for number in (7, 8):
        place.commit(name, lake.files(name, [{"id": number}]), number)
    arguments = (lake.settings, place.kafka, place.topic, name, point)
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=arguments)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    age_everything(lake, name)
    keep(place, name)
    age_everything(lake, name)
    references = lake.tables.references(name)
    assert references is not None
    root = local(lake.plain(name).location())
    left = {str(path) for path in root.rglob("*") if path.is_file() and path.suffix != ".json"}
    assert left == {path for path in references.paths if not path.endswith(".json")}
    assert lake.rows(name) == [2, 3, 4, 5, 6, 7, 8]
    assert json.loads(lake.plain(name).properties["floe.progress"])[place.topic_id]["control_offset"] == 8


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_the_coordinator_keeps_a_busy_table_healthy(place: Place, monkeypatch: pytest.MonkeyPatch, branch: str) -> None:
    """While batches are announced and committed, the coordinator rewrites small files and expires snapshots in between:
    every row is there once, files and snapshots stay few, and nothing is left over on disk."""
    monkeypatch.setattr(rounds, "LEAST_MS", 0)
    monkeypatch.setattr(rounds, "COMMITS_BETWEEN", 4)
    place.branch, lake = branch, place.lake
    name = lake.create("shop.busy", format_version="3")
    expire = ExpirePolicy(max_snapshots=3, rollback_window_ms=1, reader_lease_ms=1)
    place.tell(MaintenancePolicy(MaintenanceMode.ALWAYS, CompactionPolicy(min_input_files=3), expire))
    said: list[str] = []
    group = f"g-{uuid.uuid4().hex[:8]}"
    coordinator = Coordinator(
        place.kafka, group, place.topic, lake.tables, said.append, maintenance=MaintenanceLimits()
    )
    coordinator.start()
    try:
        # On a slow machine a round ends after the last commit of the forty: commits go on, since rounds come with them.
        number, limit = 0, time.monotonic() + 60
        while number < 40 or (len(lake.plain(name).snapshots()) > 9 and time.monotonic() < limit):
            place.announce(name, lake.files(name, [{"id": number}]))
            number += 1
            arrived = time.monotonic() + 30
            while len(lake.rows(name, branch)) < number and time.monotonic() < arrived:
                time.sleep(0.02)
    finally:
        coordinator.stop()
    assert coordinator.error is None
    assert lake.rows(name, branch) == list(range(number))
    assert any(text.startswith(f"compacted {name}") for text in said)
    assert any(text.startswith("expired") for text in said)
    assert len(lake.plain(name).snapshots()) <= 9  # the newest append, the rewrite behind it, and few others
    assert len(list(lake.plain(name).scan().use_ref(branch).plan_files())) < 20
    references = lake.tables.references(name)
    assert references is not None
    root = local(lake.plain(name).location())
    left = {str(path) for path in (root / "data").rglob("*.parquet")}
    assert left == {path for path in references.paths if path.endswith(".parquet")}


@pytest.mark.parametrize("mode", [None, MaintenanceMode.ALWAYS, MaintenanceMode.NEVER])
def test_the_coordinator_tells_how_healthy_a_table_is(
    place: Place, monkeypatch: pytest.MonkeyPatch, mode: MaintenanceMode | None
) -> None:
    """Whoever watches gets from the control topic and from the coordinator what manifests say of a table, also where the
    target leaves maintenance out (None): then nothing is changed, and it is looked at once an hour. A table that the file
    keeps from maintenance gains nothing from it."""
    monkeypatch.setattr(rounds, "LEAST_MS", 0)
    monkeypatch.setattr(rounds, "COMMITS_BETWEEN", 1)
    monkeypatch.setattr(health_module, "MANY_FILES", 5)
    lake = place.lake
    name = lake.create("shop.watched")
    place.tell(MaintenancePolicy(mode or MaintenanceMode.ALWAYS))
    coordinator = Coordinator(
        place.kafka, f"g-{uuid.uuid4().hex[:8]}", place.topic, lake.tables, print,
        maintenance=MaintenanceLimits() if mode else None,
    )  # fmt: skip
    coordinator.start()
    try:
        place.announce(name, tuple(file for number in range(7) for file in lake.files(name, [{"id": number}])))
        found = measured(place, 1)
        files = len(list(lake.plain(name).scan().plan_files()))
        assert (found[-1].table, found[-1].by) == (name, coordinator.name)
        assert coordinator.measured == {name: found[-1]}
        health = found[-1].health
        assert (health.data_files, health.rows, health.snapshots) == (files, 7, len(lake.plain(name).snapshots()))
        if mode is MaintenanceMode.ALWAYS:
            assert (files, health.gain_files, needs_of(health)) == (1, 0, ())
        elif mode is None:
            assert (files, health.gain_files, needs_of(health)) == (7, 6, (Need.SMALL_FILES,))
        else:
            assert (files, health.gain_files, needs_of(health)) == (7, 0, ())
        if mode is not MaintenanceMode.ALWAYS:
            place.announce(name, lake.files(name, [{"id": 7}]))
            limit = time.monotonic() + 30
            while len(lake.rows(name)) < 8 and time.monotonic() < limit:
                time.sleep(0.05)
            time.sleep(2)
            assert measured(place, 1) == found
    finally:
        coordinator.stop()
    assert coordinator.error is None


def measured(place: Place, at_least: int) -> list[TableMeasured]:
    reader = ControlReader(place.kafka, place.topic)
    limit = time.monotonic() + 30
    try:
        while True:
            reader.seek(0)
            found = [event for _, event in reader.read_until(reader.end_offset()) if isinstance(event, TableMeasured)]
            if len(found) >= at_least or time.monotonic() > limit:
                return found
            time.sleep(0.2)
    finally:
        reader.close()


def test_coordinators_that_never_live_for_long_maintain(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a table got before this process counts: each process sees one commit, and files stay few."""
    monkeypatch.setattr(rounds, "LEAST_MS", 0)
    lake, said = place.lake, list[str]()
    name = lake.create("shop.brief", **{"floe.created": "p 0"})
    for number in range(1, 3 * rounds.COMMITS_BETWEEN):
        place.commit(name, lake.files(name, [{"id": number}]), number)
        keeper = TableKeeper(
            lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), said.append
        )
        keeper.note(place.reported(MaintenancePolicy(compaction=CompactionPolicy(min_input_files=3))))
        keeper.gap(is_owner=True, is_gap=True)
        keeper.committed(name)
        keeper.turn()
    assert lake.rows(name) == list(range(1, 3 * rounds.COMMITS_BETWEEN))
    assert sum(text.startswith(f"compacted {name}") for text in map(str, said)) == 2


def test_a_table_that_cannot_be_looked_at_ends_no_maintenance(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its catalog raises: the thread goes on, and the table's round tells it."""
    said = list[str]()
    keeper = TableKeeper(
        place.lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), said.append
    )
    monkeypatch.setattr(rounds, "LEAST_MS", 0)
    monkeypatch.setattr(rounds, "COMMITS_BETWEEN", 1)
    monkeypatch.setattr(TableCare, "look", lambda *_: 1 / 0)
    keeper.committed("shop.lost")
    keeper.turn()
    assert any("shop.lost" in text and "ZeroDivisionError" in text for text in map(str, said))


def test_tables_of_others_are_left_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a word in the pipeline file the coordinator maintains only tables that floe created, and no table before
    it knows what the pipeline's run says."""
    lake = place.lake
    name = lake.create("shop.theirs")
    ours = lake.create("shop.ours", **{"floe.created": "p 0"})
    expire = ExpirePolicy(max_snapshots=1, rollback_window_ms=0, reader_lease_ms=0)
    said: list[str] = []
    keeper = TableKeeper(lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), said.append)
    for table in (name, ours):
        for number in range(1, 4):
            place.commit(table, lake.files(table, [{"id": number}]), number)
    keeper.gap(is_owner=True, is_gap=True)
    keeper._round(ours, 1 << 40)
    assert len(lake.plain(ours).snapshots()) == 3
    keeper.note(place.reported(MaintenancePolicy(expire=expire)))
    for table in (name, ours):
        keeper._round(table, 1 << 40)
    assert len(lake.plain(name).snapshots()) == 3
    assert len(lake.plain(ours).snapshots()) == 1


def asked(place: Place, *patterns: str) -> dict[str, MaintenanceReport]:
    reports = maintain(place.kafka, (place.topic,), place.lake.tables, patterns or ("*",), False, lambda text: None)
    return {report.table: report for report in reports}


def test_without_a_known_plan_nothing_goes(place: Place) -> None:
    """A table whose pipelines have told nothing in this control topic is left alone, and the report says what to do."""
    name = filled(place)
    before = everything(place.lake)
    assert "no run has published a plan" in asked(place)[name].skipped
    assert everything(place.lake) == before
    place.tell(ONLY_EXPIRY)
    assert asked(place)[name].expired == 5


@pytest.mark.parametrize("how", ["gc.enabled", "clone"])
def test_a_table_that_shares_its_files_is_left_alone(place: Place, how: str) -> None:
    """Whether it says so itself (`gc.enabled`) or another name is registered with the same metadata: nothing is
    rewritten, expired or removed, by hand or by the coordinator."""
    lake = place.lake
    place.tell(ONLY_EXPIRY)
    name = filled(place)
    if how == "clone":
        lake.catalog.register_table("shop.clone", lake.plain(name).metadata_location)
    else:
        with lake.plain(name).transaction() as transaction:
            transaction.set_properties({"gc.enabled": "false"})
    before = everything(lake)
    assert asked(place, name)[name].skipped
    keeper = TableKeeper(
        lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), lambda text: None
    )
    keeper.note(place.reported(replace(ONLY_EXPIRY, mode=MaintenanceMode.ALWAYS)))
    keeper.gap(True, True)
    assert keeper._round(name, 1 << 30) == 0
    keeper.stop()
    assert everything(lake) == before
    if how == "clone":
        assert lake.rows("shop.clone") == lake.rows(name)


def test_one_table_that_cannot_be_loaded_keeps_nobody(place: Place) -> None:
    """Its metadata file is gone: it is skipped with the reason, and the others are maintained and cleaned."""
    place.tell(ONLY_EXPIRY)
    broken, sound = filled(place), filled(place)
    local(place.lake.plain(broken).metadata_location).unlink()
    place.lake = Lake(place.lake.settings)  # as a process that has not loaded it before
    reports = asked(place)
    assert reports[broken].skipped
    assert reports[sound].expired == 5
    cleaned = place.clean()
    assert cleaned[broken].skipped
    assert not cleaned[sound].skipped


def test_a_pause_of_commits_holds_maintenance(place: Place) -> None:
    """What a person holds is not rewritten either, until it may go on."""
    name = filled(place)
    keeper = TableKeeper(
        place.lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), lambda text: None
    )
    keeper.note(place.reported(replace(ONLY_EXPIRY, mode=MaintenanceMode.ALWAYS)))
    pause = PauseChanged(Holds.COMMITS, "shop.*", True, "ops", "", 0)
    keeper.gap(True, True, with_pause({}, 1, pause))
    keeper._round(name, 1 << 30)
    assert len(place.lake.plain(name).snapshots()) == 6
    keeper.gap(True, True)
    keeper._round(name, 1 << 30)
    assert len(place.lake.plain(name).snapshots()) == 1
    keeper.stop()


def test_files_are_left_to_another_maintainer(place: Place) -> None:
    """Where another engine rewrote the table twice, the coordinator says so once and leaves its files; `mode: always`
    goes on, and `floe status --health` names the other."""
    lake, said = place.lake, list[str]()
    name = lake.create("shop.shared", **{"floe.created": "p 0"})
    for number in range(1, 7):
        place.commit(name, lake.files(name, [{"id": number}]), number)
    for hours_ago in (30, 6):
        rewritten_by_others(lake, name, hours_ago)
    compaction = CompactionPolicy(min_input_files=2)
    keeper = TableKeeper(lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), said.append)
    keeper.gap(is_owner=True, is_gap=True)
    keeper.note(place.reported(MaintenancePolicy(compaction=compaction)))
    for _ in range(2):
        keeper._round(name, 1 << 40)
    assert len(list(lake.plain(name).scan().plan_files())) == 6
    assert [text for text in map(str, said) if "spark 4.1.1" in text] == [
        f"the files of {name} are left to spark 4.1.1, which rewrote them 2 times in the last days; "
        "`maintenance: {mode: always}` lets floe rewrite them too"
    ]
    health = TableCare(lake.tables).health(name, MaintenancePolicy(compaction=compaction))
    assert health is not None
    assert health.other is not None
    assert "spark 4.1.1 rewrites its files (2 times" in health_line(name, health, "here")

    keeper.note(place.reported(MaintenancePolicy(MaintenanceMode.ALWAYS, compaction)))
    keeper._round(name, 1 << 40)
    assert len(list(lake.plain(name).scan().plan_files())) == 1
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]


def rewritten_by_others(lake: Lake, name: str, hours_ago: int) -> None:
    """A snapshot as Spark's procedures leave it: `replace`, with the same files under the head's manifest list."""
    table = lake.plain(name)
    metadata, head = table.metadata, table.current_snapshot()
    assert head is not None
    said = {"engine-name": "spark", "engine-version": "4.1.1", "app-id": "local-1"}
    snapshot = head.model_copy(
        update={
            "snapshot_id": head.snapshot_id + hours_ago,
            "parent_snapshot_id": head.snapshot_id,
            "sequence_number": metadata.last_sequence_number + 1,
            "timestamp_ms": int(time.time() * 1000) - hours_ago * 3_600_000,
            "summary": Summary(Operation.REPLACE, **said),
        }
    )
    with table.transaction() as transaction:
        transaction._apply((AddSnapshotUpdate(snapshot=snapshot),))


def test_the_coordinator_removes_orphans_once_a_day(place: Place) -> None:
    """Old files that nobody names go; what is announced stays, also what was announced since the log was last read."""
    lake, name = place.lake, place.lake.create("shop.ours", **{"floe.created": "p 0"})
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    keeper = TableKeeper(lake.tables, MaintenanceLimits(), lambda: Announced(place.kafka, (place.topic,)), print)
    keeper.note(place.reported(MaintenancePolicy()))
    keeper.gap(is_owner=True, is_gap=True)
    for number in (2, 3):
        announced, nobodys = (lake.files(name, [{"id": number}]) for _ in range(2))
        place.announce(name, announced)
        age(announced[0].path)
        age(nobodys[0].path)
        keeper._round(name, 0)
        assert local(nobodys[0].path).exists()
        keeper._started_ms = 0
        keeper._orphans_at.clear()
        keeper._round(name, 0)
        assert local(announced[0].path).exists()
        assert not local(nobodys[0].path).exists()
        keeper._started_ms = int(time.time() * 1000)
        keeper._orphans_at.clear()
    keeper.stop()


def test_health_says_what_maintenance_gains(place: Place) -> None:
    """Small files, deletes, manifests and snapshots are counted, and what is said to be gained is gained."""
    lake, name = place.lake, filled(place, "3", commits=8)
    path = min(task.file.file_path for task in lake.plain(name).scan().plan_files())
    Deleter(lake).commit(name, {path: [0]})
    care = TableCare(lake.tables)
    sick = care.health(name, MaintenancePolicy(expire=NOW))
    assert sick is not None
    assert (sick.data_files, sick.small_files, sick.rows, sick.deleted_rows, sick.delete_files, sick.snapshots) == (
        8, 8, 8, 1, 1, 9,
    )  # fmt: skip
    assert (sick.gain_files, sick.gain_rows, sick.gain_snapshots, sick.gain_manifests) == (7, 1, 7, 0)
    assert (sick.histogram["1MiB"], sick.last_maintenance_ms) == (8, None)
    keep(place, name, replace(ONLY_EXPIRY, compaction=CompactionPolicy()))
    well = care.health(name, MaintenancePolicy(expire=NOW))
    assert well is not None
    assert (well.data_files, well.rows, well.delete_files, well.snapshots) == (1, 7, 0, 1)
    assert gain_words(well) == ""
    assert well.last_maintenance_ms is not None
    assert well.metadata_bytes < sick.metadata_bytes


def test_the_verbs_say_what_they_did(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`floe maintain` and `floe status --health` print one line or more for each table, and JSON of the same."""
    lake, name = place.lake, filled(place)
    target = tmp_path / "here.yaml"
    connections = {"kafka": {"main": place.kafka}, "catalog": {"default": lake.settings}}
    document = {"apiVersion": "floe/v1", "kind": "Target", "metadata": {"name": "here"}, "connections": connections}
    target.write_text(json.dumps(document))
    options = ["-t", str(target), "--control-topic", place.topic]
    place.announce(name, lake.files(name, [{"id": 7}]))
    place.tell(replace(ONLY_EXPIRY, compaction=CompactionPolicy(), expire=replace(NOW, rollback_window_ms=1)))
    # 9: the world of this test writes commits that its control topic does not hold, which `status` calls trouble
    assert run_main(["status", "--health", *options]) == 9
    assert "`floe maintain" in capsys.readouterr().out
    assert run_main(["status", "--health", "--json", *options]) == 9
    reported = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads(Path("schemas/status.v1.schema.json").read_text())).validate(reported)
    assert reported["tables"][0]["health"]["gain_files"] == 5
    assert run_main(["maintain", name, "--dry-run", *options]) == 0
    shown = capsys.readouterr().out
    assert "6 files would be rewritten as 1" in shown
    assert "dry run: nothing was changed" in shown
    assert run_main(["maintain", name, "--json", *options]) == 0
    (report,) = json.loads(capsys.readouterr().out)["tables"]
    # The newest append stays beside the rewrite: streaming readers stand there.
    assert (report["rewritten"]["files_after"], report["after"]["snapshots"]) == (1, 2)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]
