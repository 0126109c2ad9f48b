"""Orphan files on a real catalog and a real control topic: what is removed was nobody's, and what is anybody's
stays."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from framework.adapters.iceberg import tables
from framework.commit.file_ages import DAY_MS
from framework.record.model import TableNeed
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.maintenance import orphans
from framework.runtime.tables.registry import TableRegistry
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.filled_tables import Place, age, age_everything, local
from tests.unit.runtime import test_batch

pytestmark = [pytest.mark.iceberg, pytest.mark.kafka]


@pytest.fixture
def place(lake: Lake, broker: Broker) -> Iterator[Place]:
    made = Place(lake, broker)
    yield made
    made.publisher.close()


@pytest.mark.parametrize("spelled", ["shop.Orders", "SHOP.ORDERS", "other:shop.orders", "no.such"])
def test_an_announcement_protects_its_files_under_any_name_of_the_table(place: Place, spelled: str) -> None:
    """Invariant 12: files are known by their paths, so that an announcement protects them whatever it calls their
    table."""
    lake = place.lake
    name = lake.create("shop.orders")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    announced = lake.files(name, [{"id": 2}])
    place.announce(name, announced, spelled)
    age_everything(lake, name)
    done = place.clean(delete=True)[name]
    assert (done.removed, done.spared["announced"]) == (0, 1)
    assert all(local(file.path).exists() for file in announced)


def test_only_old_files_that_nobody_names_are_removed(place: Place) -> None:
    """Invariant 12: files of any snapshot, of an announcement in the log, and young ones stay, dry run or not; all else
    that floe wrote goes, and the table reads as before."""
    lake = place.lake
    name = lake.create("shop.orders")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    place.commit(name, lake.files(name, [{"id": 2}]), 2)
    lake.plain(name).delete("id = 1")  # only older snapshots name its file now
    announced = lake.files(name, [{"id": 3}])
    place.announce(name, announced)
    orphans = lake.files(name, [{"id": 4}]) + lake.files(name, [{"id": 5}])
    young = lake.files(name, [{"id": 6}])
    folder = local(lake.plain(name).location())
    stray = folder / "metadata" / "snap-1-0-refused.avro"
    stray.write_bytes(b"a manifest list of a commit that was refused")
    (folder / "data" / "_SUCCESS").write_text("of some other tool")
    age_everything(lake, name)
    os.utime(local(young[0].path))
    before = {path for path in folder.rglob("*") if path.is_file()}
    expected = {local(file.path) for file in orphans} | {stray}

    dry = place.clean()[name]
    assert {local(file.location) for file in dry.orphans} == expected
    assert (dry.removed, dry.spared["announced"], dry.spared["young"]) == (0, 1, 1)
    assert {path for path in folder.rglob("*") if path.is_file()} == before

    assert place.clean("nothing.*", delete=True) == {}
    done = place.clean("shop.*", delete=True)[name]
    assert done.removed == 3
    table = lake.plain(name)
    head = table.current_snapshot()
    assert head is not None
    own = {local(head.manifest_list), local(table.metadata_location)}  # of the snapshot that holds the same files
    assert {path for path in folder.rglob("*") if path.is_file()} == (before - expected) | own
    for snapshot in table.metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    place.commit(name, announced, 3)
    assert lake.rows(name) == [2, 3]
    assert place.clean(delete=True)[name].orphans == ()


def test_whatever_the_metadata_names_is_somebodys(place: Place) -> None:
    """Statistics, of partitions too (apache/amoro#1959), and files that a field names which nobody here knows yet."""
    lake = place.lake
    name = lake.create("shop.orders")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    table = lake.plain(name)
    folder = local(table.location()) / "metadata"
    named = [folder / f"{each}-{uuid.uuid4()}.stats" for each in ("puffin", "partition", "future")]
    for each in named:
        each.write_bytes(b"x")
    metadata = local(table.metadata_location)
    text = json.loads(metadata.read_text(encoding="utf-8"))
    snapshot = text["current-snapshot-id"]
    kept = {"snapshot-id": snapshot, "file-size-in-bytes": 1}
    puffin = {**kept, "statistics-path": f"file://{named[0]}", "file-footer-size-in-bytes": 1, "blob-metadata": []}
    text["statistics"] = [puffin]
    text["partition-statistics"] = [{**kept, "statistics-path": f"file://{named[1]}"}]
    text["indexes"] = {"of": [{"kind": "bloom", "file": f"file://{named[2]}"}]}
    metadata.write_text(json.dumps(text), encoding="utf-8")
    age_everything(lake, name)
    done = place.clean(delete=True)[name]
    assert (done.removed, done.skipped) == (0, "")
    assert all(each.exists() for each in named)


def test_a_folder_that_another_catalogs_table_shares_is_left_alone(place: Place, tmp_path: Path) -> None:
    """A table of a catalog that nobody here knows has the same location (apache/amoro#4292): none of its files is taken
    for an orphan, and the report says why."""
    lake = place.lake
    name = lake.create("shop.orders")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    theirs = SqlCatalog("theirs", uri=f"sqlite:///{tmp_path}/theirs.db", warehouse=lake.settings["warehouse"])
    theirs.create_namespace("elsewhere")
    twin = theirs.create_table("elsewhere.copy", lake.plain(name).schema(), location=lake.plain(name).location())
    twin.append(lake.plain(name).scan().to_arrow())
    age_everything(lake, name)
    done = place.clean(delete=True)[name]
    assert done.removed == 0
    assert "metadata of another table" in done.skipped
    assert theirs.load_table("elsewhere.copy").scan().to_arrow().num_rows == 1


def test_tables_whose_files_cannot_be_distinguished_are_left_alone(place: Place) -> None:
    """A table inside another's location, and one that another control topic fills as well, are skipped with the
    reason."""
    lake = place.lake
    outer = lake.create("shop.outer")
    place.commit(outer, lake.files(outer, [{"id": 1}]), 1)
    location = lake.plain(outer).location()
    lake.catalog.create_table("shop.inner", lake.plain(outer).schema(), location=f"{location}/inner")
    other = lake.create("shop.other")
    place.commit(other, lake.files(other, [{"id": 1}]), 1)
    lake.tables.commit(lake.effect(other, lake.files(other, [{"id": 2}]), 1, topic="another-topic-id"))
    for name in (outer, other):
        age_everything(lake, name)
    found = place.clean(delete=True)
    assert "shop.inner has files inside its location" in found[outer].skipped
    assert "another-topic-id" in found[other].skipped
    assert sum(report.removed for report in found.values()) == 0


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_a_table_that_writes_into_a_neighbours_folder_keeps_its_files(place: Place, key: str) -> None:
    """A property leads a table's files into another's location: no file of either is taken for an orphan of the other,
    although the neighbour's metadata names none of them, and a file of nobody's stays, too."""
    lake = place.lake
    host, guest = lake.create("shop.host"), lake.create("shop.guest")
    place.commit(host, lake.files(host, [{"id": 1}]), 1)
    folder = f"{lake.plain(host).location()}/data/guest"
    with lake.plain(guest).transaction() as change:
        change.set_properties({key: folder})
    place.commit(guest, lake.files(guest, [{"id": 2}]), 1)
    nobodys = local(folder) / "nobodys.parquet"
    nobodys.parent.mkdir(parents=True, exist_ok=True)
    nobodys.write_text("x")
    for name in (host, guest):
        age_everything(lake, name)
    found = place.clean(delete=True)
    assert "shop.guest has files inside its location" in found[host].skipped
    assert found[host].removed == 0
    assert (lake.rows(host), lake.rows(guest)) == ([1], [2])
    assert lake.plain(guest).metadata_location
    assert nobodys.exists() or found[guest].removed == 1, "its own table may take it"


def test_beside_a_running_pipeline_nothing_that_it_writes_is_lost(place: Place) -> None:
    """Batches are written, announced and committed while the cleaner removes orphans again and again: every row lands,
    and every orphan goes. The files look old from the start, so that only announcements and snapshots protect them."""
    lake = place.lake
    name = lake.create("shop.busy")
    place.commit(name, lake.files(name, [{"id": 0}]), 0)
    coordinator = Coordinator(place.kafka, f"g-{uuid.uuid4().hex[:8]}", place.topic, lake.tables, lambda text: None)
    coordinator.start()
    orphans: list[str] = []
    failures: list[Exception] = []

    def write() -> None:
        try:
            for number in range(1, 13):
                files = lake.files(name, [{"id": number}])
                place.announce(name, files)  # a file ages by days only after it was announced
                age(files[0].path)
                (orphan,) = lake.files(name, [{"id": -number}])
                age(orphan.path)
                orphans.append(orphan.path)
        except Exception as error:  # told to the test's own thread
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while writer.is_alive():
            place.clean(delete=True)
        limit = time.monotonic() + 60
        while lake.rows(name) != list(range(13)) and time.monotonic() < limit:
            place.clean(delete=True)
    finally:
        writer.join()
        coordinator.stop()
    assert failures == []
    assert coordinator.error is None
    place.clean(delete=True)
    assert lake.rows(name) == list(range(13))
    assert not any(local(path).exists() for path in orphans)


@pytest.mark.parametrize("days", [2, 30])
def test_a_clock_that_is_ahead_removes_no_young_file(place: Place, monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """The store's time says how old a file is: a cleaner whose clock is days ahead takes files of a batch in progress for
    nothing else than what they are, and still removes what is old for the store."""
    lake = place.lake
    name = lake.create("shop.ahead")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    young, old = lake.files(name, [{"id": 2}])[0], lake.files(name, [{"id": 3}])[0]
    age(old.path)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + days * 86_400 * 10**9)
    monkeypatch.setattr(time, "time", lambda: real() / 1e9 + days * 86_400)
    done = place.clean(delete=True)[name]
    assert (done.removed, done.skipped) == (1, "")
    assert local(young.path).exists()
    assert not local(old.path).exists()
    assert list(local(lake.plain(name).location()).rglob("*clock*")) == []


@pytest.mark.parametrize("said", [None, 0])
def test_a_store_that_does_not_tell_the_time_keeps_everything(
    place: Place, monkeypatch: pytest.MonkeyPatch, said: int | None
) -> None:
    """Unknown means that nothing is removed; and a store whose clock stands in 1970 finds nothing old."""
    lake = place.lake
    name = lake.create("shop.timeless")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    (old,) = lake.files(name, [{"id": 3}])
    age(old.path)
    monkeypatch.setattr(tables, "store_now_ms", lambda table: said)
    done = place.clean(delete=True)[name]
    assert done.removed == 0
    assert bool(done.skipped) == (said is None)
    assert local(old.path).exists()


def test_what_is_announced_while_files_are_removed_stays(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cleaner that slept between two files looks again at what is announced before it removes the next."""
    lake = place.lake
    name = lake.create("shop.slow")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    files = [lake.files(name, [{"id": number}])[0] for number in range(2, 5)]
    for file in files:
        age(file.path)
    real, slept = orphans.moment, [0]
    monkeypatch.setattr(orphans, "moment", lambda: replace(real(), boot_ms=real().boot_ms + slept[0]))

    def remove(table: str, locations: Iterable[str]) -> Iterator[str]:
        for location in removing(table, locations):
            if not slept[0]:
                rest = tuple(file for file in files if local(file.path).exists())
                place.announce(name, rest)
                slept[0] = 3 * 86_400_000
            yield location

    removing = lake.tables.remove_files
    monkeypatch.setattr(lake.tables, "remove_files", remove)
    assert place.clean(delete=True)[name].removed == 1
    assert sum(local(file.path).exists() for file in files) == 2


def test_a_table_that_was_made_inside_the_location_meanwhile_keeps_its_files(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tables lie is looked at right before files go, whatever was known a minute ago: a table whose old files were
    registered inside another's folder since then keeps them."""
    lake = place.lake
    outer = lake.create("shop.outer")
    place.commit(outer, lake.files(outer, [{"id": 1}]), 1)
    known = lake.tables.places()
    assert list(lake.tables.remove_files(outer, ())) == []  # as a round a minute ago did
    lake.catalog.create_table(
        "shop.inner", lake.plain(outer).schema(), location=f"{lake.plain(outer).location()}/inner"
    )
    lake.plain("shop.inner").append(pa.table({"id": [7], "name": ["x"]}))
    age_everything(lake, outer)
    fresh = lake.tables.places
    answers = iter([known])
    monkeypatch.setattr(lake.tables, "places", lambda: next(answers, None) or fresh())
    place.clean(delete=True)
    assert lake.plain("shop.inner").scan().to_arrow()["id"].to_pylist() == [7]
    assert len(list((local(lake.plain(outer).location()) / "inner").rglob("*.parquet"))) == 1


def test_a_control_topic_that_begins_to_fill_a_table_meanwhile_keeps_its_files(place: Place) -> None:
    """An hour-old view of the table does not know the second topic, whose announcements nobody here reads."""
    lake = place.lake
    name = lake.create("shop.shared")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    before = lake.tables.place(name)
    assert before is not None
    lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 2}]), 1, topic="another-topic-id"))
    (waiting,) = lake.files(name, [{"id": 3}])
    age(waiting.path)
    announced = orphans.Announced(place.kafka, (place.topic,))
    try:
        found = orphans.look(name, lake.tables, before, announced, DAY_MS, True, lambda text: None)
    finally:
        announced.close()
    assert "another-topic-id" in found.skipped
    assert local(waiting.path).exists()


@pytest.mark.parametrize("made_by", ["others", "floe"])
def test_a_second_control_topic_is_known_before_its_first_commit(place: Place, made_by: str) -> None:
    """A run says in each table that it fills where it announces, before it writes a file: so whoever cannot read that
    topic removes nothing, though nothing of it is committed yet. It is said once, and in the table's making where floe
    makes it."""
    lake = place.lake
    name = "a.b"
    registry = TableRegistry(test_batch.plan(), lake.tables, lambda text: None)
    registry.control_topic_id = "second-topic-id"
    need = TableNeed(name, (("id", "long"), ("name", "string")))
    if made_by == "floe":
        registry.satisfy([need])
    else:
        lake.create(name)
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    registry.load(name)
    (waiting,) = lake.files(name, [{"id": 2}])
    age(waiting.path)
    found = place.clean(delete=True)[name]
    assert "second-topic-id" in found.skipped
    assert local(waiting.path).exists()
    before = lake.plain(name).metadata_location
    registry.load(name)
    assert lake.plain(name).metadata_location == before
    own = TableRegistry(test_batch.plan(), lake.tables, lambda text: None)
    own.control_topic_id = place.topic_id  # which the table's progress tells
    own.load(name)
    assert lake.plain(name).metadata_location == before
