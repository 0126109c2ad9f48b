"""Dead letters on a real broker and catalog: looked at, replayed exactly once, and sent to a topic in a transaction."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.cli.main import run_main
from framework.errors import FencedError
from framework.record.dead_letters.dead_letter import DeadLetterMessage, plan_dead_letter_table
from tests.conftest import Broker
from tests.kafka.conftest import batches, heartbeat, unique, wait_for
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

SCHEMA = Path(__file__).parents[2] / "schemas" / "dlq.v1.schema.json"
TABLE = "shop.dead_letters"
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
      schema: {{at: {{type: timestamptz{zone}}}}}
    routes: {{rules: [{{table: shop.orders}}]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{dead_letter_table: shop.dead_letters}}
"""
ZONE = ", zone: UTC"
KILLED = ("files-written", "in-transaction", "announced", "manifests-written", "committed@2")


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def put_letters(project: Project, values: list[bytes], first: int = 0, pipeline: str = "shop") -> None:
    """Dead letters as a run leaves them, written with PyIceberg."""
    IcebergTables(project.catalog_settings).create_table(plan_dead_letter_table(TABLE))
    table = project.catalog().load_table(TABLE)
    rows = [
        {
            "topic": "orders",
            "partition": i % 2,
            "offset": first + i,
            "timestamp": 1_704_369_600_000_000 + i,
            "key": b"k",
            "value": value,
            "headers": [{"key": "trace", "value": b"\xff"}],
            "stage": "convert",
            "code": "FLOE-D308",
            "message": "no zone",
            "field_path": "at",
            "expected": "timestamptz",
            "actual": "text",
            "pipeline": pipeline,
            "run": "r",
        }
        for i, value in enumerate(values)
    ]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))


def record(number: int) -> bytes:
    return json.dumps({"id": number, "at": "2024-01-04 12:00:00"}).encode()


def dlq(project: Project, *args: str | Path) -> dict[str, Any]:
    """`floe dlq ARGS --json` in this process, which has loaded everything already; the document keeps to its schema."""
    words = ["dlq", *map(str, args), "--target", "it", "--json"]
    with chdir(project.root), redirect_stdout(io.StringIO()) as said:
        assert run_main(words) == 0
    document: dict[str, Any] = json.loads(said.getvalue())
    Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(document)
    return document


def landed(project: Project) -> list[int]:
    return sorted(project.table("shop.orders").column("id").to_pylist())


def test_replay_mends_what_can_be_mended_and_twice_is_once(project: Project) -> None:
    """Letters that can be written now land once each, with the place they had; the others stay; nothing changes
    twice."""
    put_letters(project, [*(record(i) for i in range(20)), b"{", b'{"id": 77}'])
    put_letters(project, [record(99)], pipeline="another")
    file = project.pipeline("shop", PIPELINE.format(topic="orders", zone=""))
    assert dlq(project, "list", file)["total"] == 22
    assert dlq(project, "replay", file)["replayed"] == 1, (
        "the file has no zone yet: only the record without a time passes"
    )

    file = project.pipeline("shop", PIPELINE.format(topic="orders", zone=ZONE))
    one = dlq(project, "replay", file, "--topic", "orders", "--since", "2024-01-04T12:00:00Z")
    assert (one["found"], one["replayed"], one["written"], one["failing"]) == (21, 20, 20, 1)
    assert one["rows"] == {"shop.orders": 20}
    assert one["failing_by_code"] == {"FLOE-D101": 1}
    rows = project.table("shop.orders")
    assert set(project.positions(["shop.orders"])) == {("orders", i % 2, i) for i in range(20)} | {("orders", 1, 21)}
    assert len(rows) == 21
    before = {name: project.catalog().load_table(name).current_snapshot() for name in project.tables("shop")}

    two = dlq(project, "replay", file)

    assert (two["found"], two["replayed"]) == (1, 0)
    after = {name: project.catalog().load_table(name).current_snapshot() for name in project.tables("shop")}
    assert after == before
    stats = dlq(project, "stats", file)
    assert (stats["waiting"], stats["replayed"]) == (1, 21)
    assert [(g["code"], g["waiting"], g["replayed"]) for g in stats["groups"]] == [("FLOE-D308", 1, 21)]
    letter = dlq(project, "show", file, "orders-0@20")["letter"]
    assert (letter["value"], letter["headers"][0]["value"]) == ({"text": "{"}, {"base64": "/w=="})
    assert dlq(project, "list", file, "--all", "--limit", "5")["total"] == 22
    assert dlq(project, "list", file, "--code", "floe-d101")["total"] == 0
    said = project.run("dlq", "show", file, "orders-0@20")
    assert "^ byte 1" in said
    assert project.run("dlq", "show", file, "orders-0@20", "--raw").strip() == "{"
    pipelines = {p["pipeline"]: p for p in project.status()["pipelines"]}
    assert (pipelines["shop.replay"]["state"], pipelines["shop.replay"]["totals"]["written"]) == ("IDLE", 21)


@pytest.mark.spark
@pytest.mark.slow
def test_a_replay_goes_through_the_sql_of_the_file(project: Project) -> None:
    """Letters of a pipeline with `transform.sql` become what its records become: rows of the SELECT; what the WHERE
    removes is filtered and waits no more, what still cannot be decoded does."""
    put_letters(project, [*(record(i) for i in range(10)), b"{"])
    file = project.pipeline(
        "shop",
        """
        source:
          kafka: {connection: main, topics: [orders]}
          schema: {id: {type: long}, at: {type: timestamptz, zone: UTC}}
        transform: {sql: "SELECT id, id * 2 AS twice, at FROM source WHERE id % 2 = 0"}
        routes: {rules: [{table: shop.orders}]}
        tables: {defaults: {commit: {interval: 1s}}}
        errors: {dead_letter_table: shop.dead_letters}
        """,
    )
    done = project.run_json("dlq", "replay", file)
    counts = {name: done[name] for name in ("found", "replayed", "written", "filtered", "failing")}
    assert counts == {"found": 11, "replayed": 10, "written": 5, "filtered": 5, "failing": 1}
    rows = project.table("shop.orders").sort_by("id")
    assert rows.select(["id", "twice"]).to_pydict() == {"id": [0, 2, 4, 6, 8], "twice": [0, 4, 8, 12, 16]}
    stats = dlq(project, "stats", file)
    assert (stats["waiting"], stats["replayed"]) == (1, 10)


@pytest.mark.failure("F33")
@pytest.mark.slow
def test_a_replay_killed_anywhere_repeats_nothing(project: Project) -> None:
    """A replay that is killed at any point, again and again, and then run to its end lands each letter exactly once."""
    file = project.pipeline("shop", PIPELINE.format(topic="orders", zone=ZONE))
    for turn, point in enumerate(KILLED):
        put_letters(project, [record(i) for i in range(turn * 4, turn * 4 + 4)], first=turn * 4)
        project.run("dlq", "replay", file, code=-9, env={"FLOE_FAULT": f"{point}=kill"})
    project.run("dlq", "replay", file)
    assert dlq(project, "replay", file)["found"] == 0
    assert landed(project) == list(range(4 * len(KILLED)))
    marks = project.table("shop.dead_letters_replayed")
    assert sorted(marks.column("offset").to_pylist()) == list(range(4 * len(KILLED)))


def test_rows_of_a_replay_that_died_behind_its_marks_are_committed_by_the_next(project: Project) -> None:
    """Marks and rows have a commit each, in any order. A replay that finds all letters marked still has the rows
    committed."""
    file = project.pipeline("shop", PIPELINE.format(topic="orders", zone=ZONE))
    died_behind_marks = False
    for first in range(0, 32, 4):  # until a replay died between the two, in the order that is asked for
        put_letters(project, [record(i) for i in range(first, first + 4)], first=first)
        project.run("dlq", "replay", file, code=-9, env={"FLOE_FAULT": "committed=kill"})
        died_behind_marks = len(project.table("shop.dead_letters_replayed")) == first + 4
        dlq(project, "replay", file)
        assert landed(project) == list(range(first + 4))
        if died_behind_marks:
            break
    assert died_behind_marks


@pytest.mark.slow
def test_after_a_rebase_a_replay_goes_on(project: Project, broker: Broker) -> None:
    """The control topic is lost: a replay is refused and names `floe rebase`, which files its record anew; then every
    letter lands once, those of before and those of after."""
    source = broker.new_topic("orders")
    file = project.pipeline("shop", PIPELINE.format(topic=source, zone=ZONE))
    put_letters(project, [record(i) for i in range(4)])
    assert dlq(project, "replay", file)["replayed"] == 4
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([project.control_topic])[project.control_topic].result(20)
    wait_for(lambda: project.control_topic not in admin.list_topics(timeout=10).topics)
    put_letters(project, [record(i) for i in range(4, 8)], first=4)
    assert "floe rebase" in project.run("dlq", "replay", file, code=5)
    assert "shop.dead_letters_replayed" in project.run("rebase", file)
    assert "nothing to do" in project.run("rebase", file)
    assert dlq(project, "replay", file)["replayed"] == 4
    assert landed(project) == list(range(8))


def test_marks_that_are_gone_stop_a_replay(project: Project) -> None:
    """When the table of marks was dropped nobody can tell what was replayed, so nothing is replayed again."""
    put_letters(project, [record(1)])
    file = project.pipeline("shop", PIPELINE.format(topic="orders", zone=ZONE))
    project.run("dlq", "replay", file)
    project.catalog().drop_table("shop.dead_letters_replayed")
    assert "FLOE-R326" in project.run("dlq", "replay", file, code=5)
    assert landed(project) == [1]


def test_dead_letters_for_a_topic_are_in_the_transaction(broker: Broker, new_producer: Any) -> None:
    """A dead-letter topic shows a batch's letters when the batch is announced, and never those of one that was not."""
    source, topic, pipeline = broker.new_topic(), broker.new_topic("dead"), unique("p")
    letter = DeadLetterMessage(b"k", b"\xff{", (("trace", b"1"), ("floe.code", b"FLOE-D101")), 1_704_369_600_000)
    older: PipelineProducer = new_producer(pipeline)
    newer: PipelineProducer = new_producer(pipeline)
    with pytest.raises(FencedError):
        older.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "")}, [letter], topic)
    newer.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "")}, iter([letter, letter]), topic)

    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": unique("g")})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = consumer.consume(3, 5.0)
    consumer.close()
    assert [(m.key(), m.value(), m.timestamp()[1]) for m in got] == [(b"k", b"\xff{", 1_704_369_600_000)] * 2
    assert got[0].headers() == [("trace", b"1"), ("floe.code", b"FLOE-D101")]


@pytest.mark.parametrize("events_first", [False, True], ids=["as it is", "with the events first"])
def test_dead_letters_on_their_way_hide_nobodys_announcements(
    events_first: bool,
    broker: Broker,
    settings: dict[str, str],
    control_topic: str,
    new_producer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While a driver is in the midst of its letters for a topic, and so should it die there, what another pipeline
    announces is visible at once: the control topic is part of the transaction from the first event on. With the events
    sent first it would be hidden."""
    topic = broker.new_topic("letters")
    sender, other = new_producer("sender", transaction_timeout_ms=60_000), new_producer("other")
    if events_first:
        real = PipelineProducer._send_letters

        def after_the_events(self: PipelineProducer, producer: Any, some: Any, name: str) -> None:
            if name:
                self._produce(producer, [heartbeat("sender", 1)], [])
            real(self, producer, some, name)

        monkeypatch.setattr(PipelineProducer, "_send_letters", after_the_events)
    shown: list[tuple[str, int]] = []

    def letters() -> Iterator[DeadLetterMessage]:
        for i in range(2000):
            if i == 1500:  # more than one request has gone out
                other.announce([heartbeat("other", 1)], {})
                shown.extend(seen_within(2.0, settings, control_topic))
            yield DeadLetterMessage(None, b"v" * 1000, (), None)

    sender.announce([heartbeat("sender", 2)], {}, letters(), topic)
    assert shown == ([] if events_first else [("other", 1)])


def seen_within(seconds: float, settings: dict[str, str], control_topic: str) -> list[tuple[str, int]]:
    """(pipeline, batch) of what is visible in the control topic, as soon as anything is."""
    reader = ControlReader(settings, control_topic)
    reader.seek(0)
    deadline = time.monotonic() + seconds
    while not (found := batches(list(reader.read_until(reader.end_offset())))) and time.monotonic() < deadline:
        time.sleep(0.05)
    reader.close()
    return found
