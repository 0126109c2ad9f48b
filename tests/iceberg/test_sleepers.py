"""Processes that stand still for days between two steps, beside others that remove orphans meanwhile: what they wrote may
be gone, so it never becomes part of a table unseen."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.table import Table

from framework.adapters.iceberg import files as files_module
from framework.adapters.iceberg.commits import commit as commit_module
from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance import tables as table_care
from framework.commit.events.event_types import DataFile
from framework.commit.file_ages import YOUNG_MS, ClockReading
from framework.commit.machine.effects import CommitConflict, CommitFailed, Committed, FilesGone, Input
from framework.config.values.maintenance import MaintenancePolicy, ManifestsPolicy
from framework.errors import RetriableError
from framework.runtime.batches import announcer as announcer_module
from framework.runtime.batches.announcer import Announcer
from framework.runtime.batches.batch import BatchResult, BatchScope, summarise
from framework.runtime.coordinator import catalog_requests
from framework.runtime.coordinator.catalog_requests import CatalogRequests
from framework.runtime.coordinator.thread import Coordinator
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.filled_tables import Place, age_everything, local
from tests.iceberg.test_compaction import EAGER, compact, grow
from tests.unit.runtime import test_batch

pytestmark = [pytest.mark.iceberg, pytest.mark.kafka]
HOUR_MS = 3_600_000


@pytest.fixture
def place(lake: Lake, broker: Broker) -> Iterator[Place]:
    made = Place(lake, broker)
    yield made
    made.publisher.close()


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets this process have slept for some ms, by the clock that counts sleep."""
    real, slept = time.clock_gettime_ns, [0]
    monkeypatch.setattr(files_module.time, "clock_gettime_ns", lambda clock: real(clock) + slept[0] * 10**6)

    def more(by_ms: int) -> None:
        slept[0] += by_ms

    return more


def once(act: Callable[[], object]) -> Callable[..., None]:
    waiting = [act]

    def now(*_: object) -> None:
        if waiting:
            waiting.pop()()

    return now


def at_the_catalog(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Does something once, right before the catalog is asked to commit."""
    real, first = TableCommits.apply, once(act)

    def apply(self: TableCommits, table: Table, *others: Any, **named: Any) -> Table:
        first()
        return real(self, table, *others, **named)

    patch.setattr(TableCommits, "apply", apply)


def orphans_go(place: Place, name: str, sleep: Callable[[int], None], slept_ms: int = 4 * 24 * HOUR_MS) -> None:
    """Days pass, and somebody removes the orphans of a table, who adds no snapshot to it first."""
    sleep(slept_ms)
    age_everything(place.lake, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IcebergTables, "outdate_requests", lambda self, table, branches: None)
        place.clean(delete=True)


def test_a_commit_whose_manifests_went_while_it_slept_is_made_anew(
    place: Place, sleep: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator asleep between writing a snapshot's manifests and asking the catalog: the table stays readable, and
    the next try commits."""
    lake = place.lake
    name = lake.create("shop.asleep")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    files = lake.files(name, [{"id": 2}])
    place.announce(name, files)
    at_the_catalog(monkeypatch, lambda: orphans_go(place, name, sleep))
    answer = lake.tables.commit(lake.effect(name, files, 2, topic=place.topic_id))
    assert isinstance(answer, CommitFailed)
    assert lake.rows(name) == [1]
    place.commit(name, files, 2)
    assert lake.rows(name) == [1, 2]


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_a_request_under_way_whose_files_go_as_orphans_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, branch: str
) -> None:
    """Invariant 12: an announcement is given up by a person and leaves the log while a commit of its files is on its way
    to the catalog. Whoever removes the files makes sure first that this request cannot fit any more; branches of others stay."""
    lake, place.branch = place.lake, branch
    name = lake.create("shop.late")
    place.commit(name, lake.files(name, [{"id": 1}]), 1)
    place.tell(MaintenancePolicy())
    files = lake.files(name, [{"id": 2}])
    lake.plain(name).manage_snapshots().create_branch(lake.view(name, branch).snapshot_id or 0, "theirs").commit()
    theirs = lake.plain(name).metadata.refs["theirs"]

    def orphans_go_meanwhile() -> None:
        age_everything(lake, name)
        assert place.clean(delete=True)[name].removed == 1

    effect = lake.effect(name, files, 2, branch=branch, topic=place.topic_id)
    at_the_catalog(monkeypatch, orphans_go_meanwhile)
    assert isinstance(lake.tables.commit(effect), CommitConflict)
    assert lake.plain(name).metadata.refs["theirs"] == theirs
    place.commit(name, lake.files(name, [{"id": 3}]), 3)
    assert lake.rows(name, branch) == [1, 3]


@pytest.mark.parametrize("what", ["files", "manifests"])
def test_maintenance_that_slept_before_its_commit_leaves_the_table_readable(
    place: Place, sleep: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A compaction, or a merge of manifests, asleep between its last file and the catalog."""
    lake = place.lake
    name = lake.create("shop.asleep")
    for number in range(1, 5):
        place.commit(name, lake.files(name, [{"id": number}]), number)
    at_the_catalog(monkeypatch, lambda: orphans_go(place, name, sleep))
    if what == "files":
        done = compact(lake, name)
        assert (done.files_before, done.refused) == (0, 1)
    else:
        table_care.TableCare(lake.tables).merge_manifests(name, ManifestsPolicy(min_count=2), False)
    assert lake.rows(name) == [1, 2, 3, 4]
    assert compact(lake, name).files_after == 1
    assert lake.rows(name) == [1, 2, 3, 4]


@pytest.mark.parametrize("slept_ms", [HOUR_MS, 4 * 24 * HOUR_MS])
def test_a_compaction_whose_files_went_while_it_slept_is_refused(
    lake: Lake, sleep: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, slept_ms: int
) -> None:
    """Asleep behind the rewriting: its files are looked for after an hour, and given up before anybody may take them for
    orphans, there or not."""
    name = lake.create()
    grow(lake, name, [[1], [2], [3]])
    before = set(local(lake.plain(name).location()).rglob("*.parquet"))

    def asleep() -> None:
        sleep(slept_ms)
        if slept_ms < YOUNG_MS:  # another tool, that thinks an hour enough
            for path in set(local(lake.plain(name).location()).rglob("*.parquet")) - before:
                path.unlink()

    act = once(asleep)
    monkeypatch.setattr(table_care, "failpoint", lambda point: act() if point == "files-rewritten" else None)
    assert compact(lake, name).refused == 1
    assert lake.rows(name) == [1, 2, 3]
    assert compact(lake, name, EAGER).files_after == 1


@pytest.mark.parametrize("gone", [True, False])
def test_a_commit_that_waited_in_a_coordinator_that_slept_is_looked_at(
    lake: Lake, sleep: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    """What was young when it was decided is looked for when it is committed days later."""
    name = lake.create()
    files = lake.files(name, [{"id": 1}])

    def asleep() -> None:
        sleep(4 * 24 * HOUR_MS)
        if gone:
            local(files[0].path).unlink()

    act = once(asleep)
    monkeypatch.setattr(catalog_requests, "failpoint", lambda point: act() if point == "before-commit" else None)
    requests = CatalogRequests(lake.tables, lambda text: None)
    requests.ask(lake.effect(name, files, 1), "topic")
    answers: list[Input] = []
    limit = time.monotonic() + 30
    while not answers and time.monotonic() < limit:
        answers += requests.answers()
    requests.close()
    assert isinstance(answers[0], FilesGone if gone else Committed)


class Published:
    """A producer of which only is known what it announced."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def announce(self, events: Sequence[object], *_: object) -> int:
        self.events += events
        return len(self.events)


def sleepy_announcer(lake: Lake, patch: pytest.MonkeyPatch) -> tuple[Announcer, Published]:
    reported = Published()
    patch.setattr(announcer_module, "PipelineProducer", lambda *a, **k: reported)
    source: Any = SimpleNamespace()
    return Announcer(test_batch.plan(), {}, source, lake.tables, "r", lambda text: None), reported


def batch_of(lake: Lake, name: str, files: Sequence[DataFile], begun: ClockReading) -> tuple[BatchScope, BatchResult]:
    view = lake.view(name)
    report = replace(test_batch.report(10, 100), rows={name: 90}, targets={name: (view.table_uuid, view.schema_id)})
    rows = tuple(replace(file, record_count=90) for file in files)
    report = replace(report, files={name: rows})
    scope = test_batch.scope()
    return scope, summarise(test_batch.plan(), scope, [report], test_batch.Accounting(), None, begun.wall_ms)


@pytest.mark.parametrize(("slept_ms", "gone"), [(0, False), (4 * 24 * HOUR_MS, False), (4 * 24 * HOUR_MS, True)])
def test_a_driver_that_slept_announces_no_file_that_is_gone(
    lake: Lake, sleep: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, slept_ms: int, gone: bool
) -> None:
    """Its batch is done again from the same offsets, so that no row is lost; and one that did not sleep asks the store
    for nothing."""
    name = lake.create()
    files = lake.files(name, [{"id": 1}])
    announcer, reported = sleepy_announcer(lake, monkeypatch)
    asked: list[str] = []
    real = lake.tables.missing_files
    monkeypatch.setattr(lake.tables, "missing_files", lambda table, paths: asked.append(table) or real(table, paths))
    begun = files_module.moment()
    scope, result = batch_of(lake, name, files, begun)
    sleep(slept_ms)
    if gone:
        local(files[0].path).unlink()
        with pytest.raises(RetriableError, match="went as orphans"):
            announcer.announce(scope, result, begun)
    else:
        announcer.announce(scope, result, begun)
    assert bool(reported.events) == (not gone)
    assert bool(asked) == (slept_ms > 0)


def test_only_files_that_may_be_old_are_looked_for_and_missing_ones_block_their_table_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a coordinator that reads along: the announcements of a run cost no request of the store; those of a run that
    slept are looked for; a table whose files are gone is blocked, and all others go on."""
    lake = place.lake
    well, ill = lake.create("shop.well"), lake.create("shop.ill")
    looked: list[str] = []
    real = commit_module.missing_of
    monkeypatch.setattr(
        commit_module, "missing_of", lambda io, paths: real(io, [looked.append(path) or path for path in paths])
    )
    coordinator = Coordinator(place.kafka, f"g-{uuid.uuid4().hex[:8]}", place.topic, lake.tables, lambda text: None)
    coordinator.start()
    try:
        until(lambda: coordinator.state.caught_up)
        now_ms = int(time.time() * 1000)
        place.announce(well, lake.files(well, [{"id": 1}]), begun_ms=now_ms - 60_000)
        until(lambda: lake.rows(well) == [1])
        assert looked == []
        (lost,) = lake.files(ill, [{"id": 1}])
        local(lost.path).unlink()
        place.announce(ill, (lost,), begun_ms=now_ms - 4 * 24 * HOUR_MS)
        until(lambda: ill in (tables := coordinator.state.tables) and "are gone" in (tables[ill].blocked or ""))
        (slow,) = lake.files(well, [{"id": 2}])
        place.announce(well, (slow,), begun_ms=now_ms - 4 * 24 * HOUR_MS)
        until(lambda: lake.rows(well) == [1, 2])
        assert set(looked) == {lost.path, slow.path}
        assert lake.rows(ill) == []
    finally:
        coordinator.stop()
    assert coordinator.error is None


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not holds() and time.monotonic() < limit:
        time.sleep(0.1)
    assert holds()
