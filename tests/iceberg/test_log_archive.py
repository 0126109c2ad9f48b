"""The control log in a table: every record once, whoever dies or comes first, and read as one with the topic."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.cli.main import run_main
from framework.cli.shared.target_options import load_target_or_raise
from framework.commit.events.event_types import TableChanged
from framework.commit.events.log_rows import REMOVED, value_of
from framework.config.spec import LogArchiveSpec, TablePolicy
from framework.config.values.maintenance import MaintenanceLimits
from framework.errors import TableBlocked
from framework.runtime.coordinator.log_archive import LogArchive, read_archive
from framework.runtime.job import open_catalog
from framework.runtime.maintenance.background import TableKeeper
from framework.runtime.maintenance.orphans import Announced
from framework.runtime.tables.registry import TableRegistry
from framework.table.model import TableNeed
from testbed.record_samples import plan
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.iceberg.spark_server import IcebergSpark
from tests.kafka.conftest import heartbeat, unique, wait_for
from tests.project import Project

pytestmark = [pytest.mark.iceberg, pytest.mark.kafka, pytest.mark.timeout(300)]

TABLE = "ops.control_log"
MEMBER = Path(__file__).with_name("archive_member.py")


@pytest.fixture
def kafka(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap_servers}


@pytest.fixture
def topic(kafka: dict[str, str]) -> str:
    name = unique("control-log")
    ensure_control_topic(KafkaAdmin(kafka), name)
    return name


def fill(kafka: dict[str, str], topic: str, batches: range) -> None:
    """Events in transactions, some aborted, and between them what is no event of floe."""
    publisher = ControlPublisher(kafka, topic)
    publisher.publish([heartbeat("p", batch) for batch in batches])
    publisher.publish([TableChanged("shop.t", "p", "run", ("add column x string",), f"batch {batches.start}", 1)])
    publisher.close()
    plain = Producer(kafka)
    plain.produce(topic, b"not JSON \xff")
    plain.produce(topic, None)
    plain.produce(topic, b'{"type":"RemovedFromLog"}')
    plain.produce(topic, b'{"type":"OfTheFuture","pipeline":"q","why":"because"}')
    plain.flush(10)
    aborted = Producer({**kafka, "transactional.id": unique("aborted")})
    aborted.init_transactions(10)
    aborted.begin_transaction()
    aborted.produce(topic, b'{"type":"Aborted"}')
    aborted.flush(10)
    aborted.abort_transaction(10)


def in_the_topic(kafka: dict[str, str], topic: str) -> list[tuple[int, bytes]]:
    """What a plain client reads of the topic: offsets and values."""
    consumer = Consumer(
        {**kafka, "group.id": unique("check"), "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[int, bytes]] = []
    while True:
        message = consumer.poll(10)
        assert message is not None
        if message.error() is not None:
            break
        found.append((message.offset(), message.value() or b""))
    consumer.close()
    return found


def in_the_table(spark: IcebergSpark, lake: Lake, topic: str) -> list[tuple[int, bytes]]:
    """What Spark reads of the table, in order."""
    value = "coalesce(cast(event as binary), bytes) AS event"
    query = f"SELECT `offset`, {value} FROM `default`.{TABLE} WHERE control_topic = '{topic}' ORDER BY `offset`"
    [rows] = spark.ask(lake.settings, [query])
    return [(row["offset"], row["event"]) for row in rows.to_pylist()]


def archive(kafka: dict[str, str], topic: str, lake: Lake, table: str = TABLE) -> LogArchive:
    return LogArchive(kafka, topic, lake.tables, LogArchiveSpec(table), lambda text: None)


def member(kafka: dict[str, str], topic: str, lake: Lake, rounds: int = 1, fault: str = "") -> subprocess.Popen[str]:
    command = [
        sys.executable,
        str(MEMBER),
        kafka["bootstrap.servers"],
        topic,
        json.dumps(lake.settings),
        TABLE,
        str(rounds),
    ]
    return subprocess.Popen(
        command, env={**os.environ, "FLOE_FAULT": fault}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def test_killed_at_every_point_and_two_at_once(
    kafka: dict[str, str], topic: str, lake: Lake, iceberg_spark: IcebergSpark
) -> None:
    """Archives that are killed before and after each of their commits, and two that append at the same time, leave every
    record of the log in the table once, as it stands in the log, by Spark; events, and what is none."""
    for number, fault in enumerate(("log-rows-written@2", "log-archived@1", "log-archived@2")):
        fill(kafka, topic, range(20 * number, 20 * number + 15))
        assert member(kafka, topic, lake, 1, f"{fault}=kill").wait(60) == -signal.SIGKILL
    fill(kafka, topic, range(100, 140))
    both = [member(kafka, topic, lake, 12) for _ in range(2)]
    fill(kafka, topic, range(140, 180))
    said = [each.communicate(timeout=120)[0].split("\n") for each in both]
    assert any(line.isdecimal() and int(line) for lines in said for line in lines)
    archive(kafka, topic, lake).round()
    expected = in_the_topic(kafka, topic)
    assert len(expected) > 120
    assert in_the_table(iceberg_spark, lake, topic) == expected


def test_what_is_said_of_each_record(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """Type, pipeline, table, who and why stand in columns, of events that this version does not know, too."""
    fill(kafka, topic, range(1, 2))
    assert archive(kafka, topic, lake).round() == 6
    rows = {row["offset"]: row for row in lake.plain(TABLE).scan().to_arrow().to_pylist()}
    assert [(row["type"], row["pipeline"], row["table_name"], row["reason"]) for _, row in sorted(rows.items())] == [
        ("Heartbeat", "p", None, None),
        ("TableChanged", "p", "shop.t", "batch 1"),
        (None, None, None, None),
        (None, None, None, None),
        (None, None, None, None),
        ("OfTheFuture", "q", None, "because"),
    ]
    assert rows[1]["by"] == "run"
    assert archive(kafka, topic, lake).round() == 0


def test_a_lost_answer_of_the_catalog_adds_nothing_twice(
    kafka: dict[str, str], topic: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was made and answered with an error is read back; the next round goes on behind it."""
    fill(kafka, topic, range(30))
    catalog, _ = lake.tables._catalog("default").open()
    real = catalog.commit_table

    def answers_late(*args: object) -> object:
        real(*args)  # type: ignore[arg-type]
        raise TimeoutError("no answer")

    keeper = archive(kafka, topic, lake)
    monkeypatch.setattr(catalog, "commit_table", answers_late)
    keeper.round()
    monkeypatch.undo()
    fill(kafka, topic, range(30, 35))
    keeper.round()
    offsets = lake.plain(TABLE).scan(selected_fields=("offset",)).to_arrow().column("offset").to_pylist()
    assert sorted(offsets) == [offset for offset, _ in in_the_topic(kafka, topic)]


def test_rows_that_somebody_rolled_back_come_again(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """A table that was taken back to an older snapshot gets what it then lacks, once."""
    keeper = archive(kafka, topic, lake)
    fill(kafka, topic, range(5))
    keeper.round()
    first = lake.plain(TABLE).current_snapshot()
    assert first is not None
    fill(kafka, topic, range(5, 9))
    keeper.round()
    lake.plain(TABLE).manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    keeper.round()
    fill(kafka, topic, range(9, 11))
    keeper.round()
    offsets = lake.plain(TABLE).scan(selected_fields=("offset",)).to_arrow().column("offset").to_pylist()
    assert sorted(offsets) == [offset for offset, _ in in_the_topic(kafka, topic)]


def test_two_control_topics_share_a_table(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """Each has its own offsets there, under its topic's id; so does a topic that is made anew under its name."""
    other = unique("control-log")
    ensure_control_topic(KafkaAdmin(kafka), other)
    for name in (topic, other, topic):
        fill(kafka, name, range(3))
        archive(kafka, name, lake).round()
    admin = AdminClient(kafka)
    admin.delete_topics([other])[other].result(20)
    wait_for(lambda: not KafkaAdmin(kafka).topics([other]))
    ensure_control_topic(KafkaAdmin(kafka), other)
    fill(kafka, other, range(4))
    archive(kafka, other, lake).round()
    rows = lake.plain(TABLE).scan().to_arrow().to_pylist()
    places = [(row["topic_id"], row["offset"]) for row in rows]
    assert len(places) == len(set(places)) == len(in_the_topic(kafka, topic)) + 8 + 9
    assert len({topic_id for topic_id, _ in places}) == 3


def test_what_retention_took_is_said_once(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """Records that were gone before they were archived have one row that says which; a first archive begins where the log
    does, without a word."""
    keeper = archive(kafka, topic, lake)
    fill(kafka, topic, range(5))
    admin = AdminClient(kafka)
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 2)]).values()
    deleted.result(20)
    keeper.round()
    fill(kafka, topic, range(5, 9))
    end = KafkaAdmin(kafka).end_offsets([(topic, 0)])[topic, 0]
    [deleted] = admin.delete_records([TopicPartition(topic, 0, end)]).values()
    deleted.result(20)
    keeper.round()
    fill(kafka, topic, range(9, 12))
    keeper.round()
    rows = sorted(lake.plain(TABLE).scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
    removed = [row for row in rows if row["type"] == REMOVED]
    assert len(removed) == 1
    said = json.loads(removed[0]["event"])
    assert said["below"] == end == removed[0]["offset"] + 1
    assert [row["offset"] for row in rows if row["offset"] >= end] == [at for at, _ in in_the_topic(kafka, topic)]
    assert max(row["offset"] for row in rows if row["offset"] < said["first"]) < said["first"]
    assert next(row["offset"] for row in rows) == 2


def test_a_table_of_somebody_else_is_left_alone(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """A table that was made for something else gets no row; and no pipeline writes into the archive."""
    lake.create(TABLE)
    fill(kafka, topic, range(3))
    with pytest.raises(TableBlocked, match="is no archive") as refused:
        archive(kafka, topic, lake).round()
    assert refused.value.code == "FLOE-R124"
    assert lake.plain(TABLE).current_snapshot() is None
    archive(kafka, topic, lake, "ops.other").round()
    registry = TableRegistry(plan(defaults=TablePolicy()), lake.tables, lambda text: None)
    registry.satisfy([TableNeed("ops.other", (("event", "string"),))])
    assert [table for table, _ in registry.owned_by_others] == ["ops.other"]


def test_a_record_that_is_gone_and_a_log_that_was_cut_off(kafka: dict[str, str], topic: str, lake: Lake) -> None:
    """Where nobody knows how much of the log a table holds, or it holds more than there is, nothing is appended."""
    keeper = archive(kafka, topic, lake)
    fill(kafka, topic, range(3))
    keeper.round()
    with lake.plain(TABLE).transaction() as transaction:
        transaction.remove_properties("floe.progress")
    fill(kafka, topic, range(3, 5))
    before = lake.plain(TABLE).current_snapshot()
    with pytest.raises(TableBlocked, match="nobody knows"):
        keeper.round()
    assert lake.plain(TABLE).current_snapshot() == before


def test_maintenance_goes_on_beside_it(
    kafka: dict[str, str], topic: str, lake: Lake, iceberg_spark: IcebergSpark
) -> None:
    """The coordinator's own maintenance makes few files of many, though no plan names the table, and the archive goes on
    behind it."""
    keeper = archive(kafka, topic, lake)
    for number in range(7):
        fill(kafka, topic, range(number, number + 1))
        keeper.round()
    care = TableKeeper(lake.tables, MaintenanceLimits(), lambda: Announced(kafka, (topic,)), print, "one", TABLE)
    care.gap(is_owner=True, is_gap=True)
    before = len(lake.plain(TABLE).inspect.files())
    care._round(TABLE, 2**30)  # one that is due; when it is, is the same for every table
    assert before == 7
    assert len(lake.plain(TABLE).inspect.files()) < before
    fill(kafka, topic, range(20, 22))
    keeper.round()
    assert in_the_table(iceberg_spark, lake, topic) == in_the_topic(kafka, topic)


def test_it_is_read_in_order(kafka: dict[str, str], topic: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the archive holds of a range comes in the order of the log, whatever files it is in, a window at a time."""
    monkeypatch.setattr("framework.runtime.coordinator.log_archive.READ_OFFSETS", 4)
    keeper = archive(kafka, topic, lake)
    for number in range(4):
        fill(kafka, topic, range(number, number + 2))
        keeper.round()
    expected = [(at, value) for at, value in in_the_topic(kafka, topic) if 3 <= at < 20]
    topic_id = KafkaAdmin(kafka).topics([topic])[topic].topic_id
    found = [(row["offset"], value_of(row)) for row in read_archive(lake.tables, TABLE, topic_id, 3, 20)]
    assert found == expected


def test_floe_log_reads_both_as_one(
    broker: Broker,
    kafka: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What retention has taken from the topic `floe log` reads in the archive: the same lines, as text and as JSON; what
    cannot be read, and what was gone before, is said at its offset."""
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = project.control_topic
    ensure_control_topic(KafkaAdmin(kafka), topic)
    target = tmp_path / "pipelines" / "targets" / "it.yaml"
    target.write_text(f"{target.read_text()}log: {{archive: {TABLE}}}\n")

    def log(*words: str) -> list[str]:
        assert run_main(["log", "--target", "it", "--control-topic", topic, *words]) == 0
        return capsys.readouterr().out.splitlines()

    fill(kafka, topic, range(4))
    LogArchive(kafka, topic, open_catalog(load_target_or_raise("it"), ()), LogArchiveSpec(TABLE), print).round()
    capsys.readouterr()
    fill(kafka, topic, range(4, 7))
    before = [log("--from", "0"), log("--from", "2", "--json"), log("--last", "6")]
    assert len(before[0]) == 13
    admin = AdminClient(kafka)
    for below in (8, 12):
        [deleted] = admin.delete_records([TopicPartition(topic, 0, below)]).values()
        deleted.result(20)
        if below == 8:
            assert [log("--from", "0"), log("--from", "2", "--json"), log("--last", "6")] == before
    LogArchive(kafka, topic, open_catalog(load_target_or_raise("it"), ()), LogArchiveSpec(TABLE), print).round()
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 14)]).values()
    deleted.result(20)
    assert any("the topic no longer held offsets 11 to 11" in line for line in log("--from", "0"))
    assert log("--from", "14") == before[0][-len(log("--from", "14")) :]
