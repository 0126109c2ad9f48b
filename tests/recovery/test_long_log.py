"""A coordinator that begins on a long control log: real broker, real catalog, 100,000 announcements that no table has.

In: a log written as drivers write it, with files that hold nothing: nobody opens a data file to commit it. Whoever begins
on a log cannot know how old they are, so each is looked for. Out: the time and the memory until everything is committed,
printed, since speed is measured on a quiet machine.
"""

from __future__ import annotations

import resource
import time
import uuid
from pathlib import Path

import pytest

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    SourceRange,
    TableCommitPolicy,
)
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.job import ask_commit
from tests.conftest import Broker
from tests.project import Project
from tests.recovery.conftest import SCHEMA

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]

ANNOUNCEMENTS, TABLES = 100_000, 50
ROWS_A_FILE = 10


def write_log(kafka: dict[str, str], control_topic: str, uuids: dict[str, str], folder: Path) -> None:
    publisher = ControlPublisher(kafka, control_topic)
    policy = TableCommitPolicy(1_000, 1 << 40, 1 << 40)
    sizes = {"1": 100, "2": 100}
    for batch in range(1, ANNOUNCEMENTS // TABLES + 1):
        end = batch * TABLES * ROWS_A_FILE
        ranges = (SourceRange("orders", "id-of-orders", 0, end - TABLES * ROWS_A_FILE, end, 1_000),)
        events: list[ControlEvent] = []
        for name, table_uuid in uuids.items():
            path = folder / name / f"{batch}-{uuid.uuid4().hex}.parquet"
            path.touch()
            file = DataFile(f"file://{path}", ROWS_A_FILE, 1_000, 0, (), sizes, sizes, {}, {}, {"1": "AAAAAAAAAAA="})
            events.append(DataWritten("long", "run", batch, name, table_uuid, 0, (file,), ranges, policy))
        line = Accounting(TABLES * ROWS_A_FILE, TABLES * ROWS_A_FILE, rows=TABLES * ROWS_A_FILE)
        events.append(DataComplete("long", "run", batch, ranges, line, line, tuple(uuids)))
        publisher.publish(events)
    publisher.close()


@pytest.mark.failure("F39")
def test_a_coordinator_begins_on_a_long_log(tmp_path: Path, broker: Broker) -> None:
    """100,000 announcements for 50 tables that hold nothing yet: all are committed, each file once, and memory stays
    bounded."""
    project = Project(tmp_path, broker.bootstrap_servers)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    catalog = project.catalog()
    catalog.create_namespace("shop")
    names = [f"shop.t{n:02}" for n in range(TABLES)]
    uuids = {name: str(catalog.create_table(name, SCHEMA).metadata.table_uuid) for name in names}
    ensure_control_topic(KafkaAdmin(kafka), project.control_topic)
    for name in names:
        (tmp_path / "files" / name).mkdir(parents=True)
    write_log(kafka, project.control_topic, uuids, tmp_path / "files")

    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.monotonic(), time.process_time()
    coordinator = Coordinator(
        kafka,
        f"{project.prefix}-coordinator",
        project.control_topic,
        IcebergTables(project.catalog_settings),
        lambda text: None,
    )
    coordinator.start()
    try:
        answer = ask_commit(kafka, project.control_topic, 600, coordinator)
    finally:
        coordinator.stop()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    print(
        f"{ANNOUNCEMENTS:,} announcements, {TABLES} tables: {time.monotonic() - began:.1f} s "
        f"({time.process_time() - cpu:.1f} s of CPU), {grown_mb:.0f} MB more"
    )
    assert answer.blocked == {}
    for name in names:
        head = project.catalog().load_table(name).current_snapshot()
        assert head is not None
        assert head.summary is not None
        assert head.summary["total-data-files"] == str(ANNOUNCEMENTS // TABLES)
        assert head.summary["total-records"] == str(ANNOUNCEMENTS // TABLES * ROWS_A_FILE)
    assert grown_mb < 600
