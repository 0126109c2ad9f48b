"""Writers of one table whose clocks are wrong by more than a minute, in either direction: the table stays one that Iceberg's
Java library reads, whatever each of them does to it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from pyiceberg.table import update as pyiceberg_update
from pyiceberg.table.metadata import TableMetadataUtil

from framework.adapters.iceberg.commits import new_snapshot, replace
from framework.adapters.iceberg.private import ordered_times
from framework.adapters.iceberg.private.ordered_times import in_order
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.commit.events.event_types import Health, StateChanged, Subject
from framework.commit.machine.effects import CommitFailed, Committed, RecoverTable
from framework.commit.machine.reporting.condition import TableFacts, table_condition
from framework.commit.maintenance.expire import decide_expiry
from framework.config.values.maintenance import ExpirePolicy
from framework.table.changes import AlterTable
from testbed.servers.rest_catalog import RestCatalog
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.test_compaction import compact
from tests.simulator.java_metadata import JavaMetadata

pytestmark = [pytest.mark.iceberg, pytest.mark.spark]
MINUTES = (-45, -20, -2, 0, 3, 20)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaMetadata]:
    process = JavaMetadata(tmp_path_factory.mktemp("java"))
    yield process
    process.stop()


class Clock:
    """The time of everything in this process that dates snapshots and metadata."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.minutes = 0
        real_ns, clock = time.time_ns, self

        class Moment(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:
                return datetime.now(tz) + timedelta(minutes=clock.minutes)

        class Machine:
            sleep = staticmethod(time.sleep)
            monotonic = staticmethod(time.monotonic)

            @staticmethod
            def time_ns() -> int:
                return real_ns() + clock.minutes * 60 * 10**9

        patch.setattr(pyiceberg_update, "datetime", Moment)
        for module in (new_snapshot, replace):
            patch.setattr(module, "time", Machine)


def commit(lake: Lake, name: str, number: int) -> None:
    answer = lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number))
    assert isinstance(answer, Committed), answer


def roll_back(lake: Lake, name: str, number: int) -> None:
    snapshots = lake.tables.snapshots(name)
    target = snapshots[min(1, len(snapshots) - 1)].snapshot_id
    made = lake.effect(name, (), number)
    effect = RecoverTable(name, made.view, made.commit_id, (), made.progress, None, onto=target, notes={})
    assert isinstance(lake.tables.commit(effect), Committed)


def note(lake: Lake, name: str, number: int) -> None:
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    assert lake.tables.note_properties(name, target, {"owner": f"team {number}"})


def alter(lake: Lake, name: str, number: int) -> None:
    metadata = lake.plain(name).metadata
    text = metadata.schema().model_dump_json()
    change = AlterTable(
        name,
        str(metadata.table_uuid),
        metadata.current_schema_id,
        metadata.last_column_id,
        text,
        (("note", str(number)),),
    )
    assert lake.tables.alter_table(change)


def expire(lake: Lake, name: str, number: int) -> None:
    care, policy = TableCare(lake.tables), ExpirePolicy(True, 0, 2, 0, 0)
    later_ms = int(time.time() * 1000) + 10 * 86_400_000
    care.expire(
        name, lambda facts: decide_expiry(facts.snapshots, facts.references, facts.topic_ids, policy, later_ms), False
    )


ACTS: dict[str, Callable[[Lake, str, int], object]] = {
    "commit": commit,
    "rollback": roll_back,
    "properties": note,
    "schema": alter,
    "expiry": expire,
    "compaction": lambda lake, name, number: compact(lake, name),
    "new heads": lambda lake, name, number: lake.tables.outdate_requests(name, {}),
}


def wrong_clocks(lake: Lake, name: str, seed: int, clock: Clock) -> None:
    """Every act at least once, each by a process of its own with a clock of its own."""
    chance = random.Random(seed)
    commit(lake, name, 1)
    acts = [*ACTS, *chance.choices(list(ACTS), k=8)]
    chance.shuffle(acts)
    for number, act in enumerate(acts, start=2):
        clock.minutes = chance.choice(MINUTES)
        lake.tables = IcebergTables(lake.settings)
        ACTS[act](lake, name, number)
    clock.minutes = 0


def json_of(lake: Lake, name: str) -> str:
    location = lake.plain(name).metadata_location
    return Path(location.removeprefix("file://")).read_text(encoding="utf-8")


@pytest.mark.parametrize("seed", range(6))
def test_java_reads_a_table_whose_writers_had_wrong_clocks(
    lake: Lake, java: JavaMetadata, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Commits, rollbacks, properties, schemas, expiry, compaction and new heads, by clocks that are up to 45 minutes behind
    and 20 ahead: no log of the metadata runs backwards, and Java takes it."""
    name = lake.create("shop.clocks")
    wrong_clocks(lake, name, seed, Clock(monkeypatch))
    assert java.removed(json_of(lake, name), []).startswith("{")
    metadata = lake.plain(name).metadata
    for times in ([each.timestamp_ms for each in log] for log in (metadata.metadata_log, metadata.snapshot_log)):
        assert times == sorted(times)
        assert times[-1] <= metadata.last_updated_ms


def test_a_server_refuses_who_is_ahead_of_it_and_takes_who_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's own REST server takes no snapshot that is more than a minute after its own clock. That commit fails and its
    reason says what to do; whoever commits after it, by a right clock or one that is behind, is taken."""
    server = RestCatalog(tmp_path / "rest").start()
    clock = Clock(monkeypatch)
    try:
        lake = Lake(server.settings())
        name = lake.create("shop.clocks")
        for number, clock.minutes in enumerate((0, -45, -2, 0), start=1):
            commit(lake, name, number)
            note(lake, name, number)
        clock.minutes = 20
        answer = lake.tables.commit(lake.effect(name, lake.files(name, [{"id": 9}]), 9))
        assert isinstance(answer, CommitFailed)
        report = StateChanged(
            Subject.TABLE, name, Health.FAILED, answer.reason, "", "FLOE-R136", 1, 1_000, 1_000, "coordinator-1"
        )
        assert "set the clock" in table_condition(TableFacts(name, 1, None, report, None, None, True)).remedy
        clock.minutes = -20
        commit(lake, name, 10)
        times = [each.timestamp_ms for each in lake.plain(name).metadata.snapshot_log]
        assert len(times) == 5
        assert times == sorted(times)
    finally:
        server.stop()


def test_a_table_that_java_refused_is_repaired_by_the_next_commit(
    lake: Lake, java: JavaMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions left such tables behind; without the order Java says what it has against them."""
    name = lake.create("shop.clocks")
    with monkeypatch.context() as patch:
        patch.setattr(ordered_times, "in_order", lambda metadata, before: metadata)
        clock = Clock(patch)
        for number, clock.minutes in enumerate((20, 0, -20, 0), start=1):
            lake.tables = IcebergTables(lake.settings)
            note(lake, name, number)
    assert "Expected sorted previous metadata log entries" in java.removed(json_of(lake, name), [])
    lake.tables = IcebergTables(lake.settings)
    commit(lake, name, 5)
    assert java.removed(json_of(lake, name), []).startswith("{")


def test_metadata_in_order_is_left_as_it_is(lake: Lake) -> None:
    """The very object, so that nothing has to be rendered anew."""
    name = lake.create("shop.clocks")
    commit(lake, name, 1)
    metadata = TableMetadataUtil.parse_raw(json_of(lake, name))
    assert in_order(metadata, metadata) is metadata
    assert in_order(metadata, None) is metadata
