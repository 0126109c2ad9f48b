"""`floe tap` on a real broker and catalog: what is shown of live records, and that looking leaves nothing behind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from framework.cli.main import run_main
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "schemas" / "tap.v1.schema.json").read_text(encoding="utf-8"))
)
PIPELINE = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}, schema: {{at: {{type: timestamptz}}}}}}
    routes:
      rules: [{{when: {{field: type, equals: refund}}, table: shop.refunds}}, {{table: shop.orders}}]
    tables: {{defaults: {{evolve: {{exclude: [inner]}}}}}}
    errors: {{dead_letter_table: shop.dead_letters}}
"""
SECRET = "hunter2-and-more"
HOSTILE = [
    b'{"id": 1, "password": "' + SECRET.encode(),  # broken behind the secret
    b'{"id": 1, "pass\\u0077ord": "' + SECRET.encode(),
    json.dumps({"id": 2, "at": SECRET, "token": SECRET}).encode(),
    json.dumps({"id": 3, "at": "2024-01-04T12:28:13Z", "api_key": {"a": [SECRET]}, "copy": f"x {SECRET} y"}).encode(),
    b'{"id": 4, "note": "\\u001b[2J\\u202e\\u0000", "at": "2024-01-04T12:28:13Z"}',
    b"\x1b[2J\x00\xff\xfe",
    b'{"a": 1, "a": 2}',
    b"[" * 5_000,
    None,
    b'{"id": 5, "mail": "a@b.example", "type": "refund", "inner": "excluded-value"}',
    b'{"id": 6, "at": "not a time a@b.example", "mail": "a@b.example"}',
]

Floe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def project(tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def floe(capsys: pytest.CaptureFixture[str]) -> Floe:
    def run(*words: str | Path) -> tuple[int, str, str]:
        code = run_main([*map(str, words), "--target", "it"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def lines(output: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in output.splitlines()]
    for line in found:
        SCHEMA.validate(line)
    return found


def groups(broker: Broker) -> set[str]:
    found = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_consumer_groups().result(timeout=10)
    return {group.group_id for group in found.valid}


def topics(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics)


def test_each_stage_shows_what_it_makes_of_records_and_leaves_nothing_behind(
    project: Project, broker: Broker, floe: Floe
) -> None:
    """Decode shows fields, route tables, convert rows as the tables of the catalog take them, dead_letter the refused
    ones alone; no group, topic, namespace or offset is made."""
    topic = broker.new_topic("tap", partitions=2)
    records = [
        {"id": 1, "at": "2024-01-04T12:28:13Z"},
        {"id": 2, "type": "refund", "price": 12.10},
        {"id": "no number"},
        {"id": 4, "at": "yesterday"},
    ]
    broker.produce(topic, records, partition=0, timestamps_ms=[1_000, 2_000, 3_000, 4_000])
    file = project.pipeline("tapped", PIPELINE.format(topic=topic))
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "type", StringType()))
    project.catalog().create_namespace("shop")
    project.catalog().create_table("shop.orders", schema)
    before = groups(broker), topics(broker), project.tables("shop")

    def stage(name: str) -> list[dict[str, Any]]:
        code, output, said = floe("tap", file, "--stage", name, "--seconds", "0", "--json")
        assert code == 0
        assert "no offset was committed" in said
        return lines(output)

    decoded = stage("decode")
    assert [line["fields"] for line in decoded] == records
    assert [(line["offset"], line["timestamp_ms"]) for line in decoded] == [(0, 1000), (1, 2000), (2, 3000), (3, 4000)]
    assert [(line["tables"], line["fate"]) for line in stage("route")] == [
        (["shop.orders"], "written"),
        (["shop.refunds"], "written"),
        ([], "dead_letter"),
        ([], "dead_letter"),
    ]
    first, second = stage("convert")[:2]
    # The table that is there has `id` as a long, the one that a run would make has what the records show.
    assert first["changes"] == [
        {"table": "shop.orders", "action": "append", "row": {"id": 1, "type": None, "at": "2024-01-04T12:28:13Z"}}
    ]
    assert second["changes"] == [
        {"table": "shop.refunds", "action": "append", "row": {"at": None, "id": 2.0, "type": "refund", "price": 12.1}}
    ]
    letters = stage("dead_letter")
    assert [(line["offset"], line["letter"]["stage"], line["letter"]["field_path"]) for line in letters] == [
        (2, "convert", "id"),
        (3, "convert", "at"),
    ]
    assert (groups(broker), topics(broker), project.tables("shop")) == before


@pytest.mark.parametrize("stage", ["decode", "route", "convert", "dead_letter"])
def test_hostile_records_show_no_secret_and_move_no_cursor(
    project: Project, broker: Broker, floe: Floe, stage: str
) -> None:
    """Whatever a record is made of, its secrets, masked and excluded fields are nowhere in the output, nor is a control
    character; each record is one line of JSON that fits the schema."""
    topic = broker.new_topic("tap")
    broker.produce(topic, HOSTILE, keys=[SECRET.encode() + b"\x1b", *[None] * (len(HOSTILE) - 1)])
    file = project.pipeline("hostile", PIPELINE.format(topic=topic))
    options = ["--stage", stage, "--seconds", "0", "--mask", "Mail", "--mask", "key"]

    code, output, said = floe("tap", file, *options, "--json")
    assert code == 0
    found = lines(output)
    assert len(found) == (7 if stage == "dead_letter" else len(HOSTILE))
    _, text, _ = floe("tap", file, *options)
    for shown in (output, said, text):
        assert SECRET not in shown
        assert "a@b.example" not in shown
        assert "excluded-value" not in shown
        assert not set("\x1b\x00\u202e\x7f") & set(shown)
    # Without a mask, too: what has the name of a secret is one.
    _, output, _ = floe("tap", file, "--stage", stage, "--seconds", "0", "--mask", "key")
    assert SECRET not in output
    assert "a@b.example" in output


def test_what_is_not_committed_is_not_shown_and_what_comes_is(project: Project, broker: Broker, floe: Floe) -> None:
    """As for a run, records of an aborted transaction are no records; those that come while it waits are shown until the
    limit is reached."""
    topic = broker.new_topic("tap")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b'{"id": 1}')
    producer.flush(10)
    producer.abort_transaction()
    file = project.pipeline("live", PIPELINE.format(topic=topic))

    def later() -> None:
        time.sleep(1)
        broker.produce(topic, [{"id": i} for i in (7, 8, 9)])

    thread = threading.Thread(target=later)
    thread.start()
    begun = time.monotonic()
    code, output, _ = floe(
        "tap", file, "--stage", "decode", "--from", "end", "--limit", "2", "--seconds", "60", "--json"
    )
    thread.join()
    assert code == 0
    assert [line["fields"]["id"] for line in lines(output)] in ([7, 8], [8, 9])
    assert time.monotonic() - begun < 40


def test_one_place_can_be_asked_for(project: Project, broker: Broker, floe: Floe) -> None:
    """From a place on, that partition alone is read; a partition that the pipeline does not read is refused."""
    topic = broker.new_topic("tap")
    broker.produce(topic, [{"id": i} for i in range(20)])
    file = project.pipeline("placed", PIPELINE.format(topic=topic))

    asked = ["tap", file, "--stage", "decode", "--limit", "2", "--seconds", "0", "--json", "--from"]
    _, output, _ = floe(*asked, f"{topic}-0@5")
    assert [line["offset"] for line in lines(output)] == [5, 6]
    code, output, said = floe(*asked, f"{topic}-7@5")
    assert code == 3
    assert "reads no partition 7" in said
    assert json.loads(output)["error"]["code"] == "FLOE-E110"


def test_where_a_run_would_stop_is_said(project: Project, broker: Broker, floe: Floe) -> None:
    """With `policy: fail` the record at which a run stops is shown as failed, with why; with `drop` as dropped."""
    topic = broker.new_topic("tap")
    broker.produce(topic, [{"id": 1, "at": "yesterday"}])
    for policy, fate in (("fail", "failed"), ("drop", "dropped")):
        text = f"""
            source: {{kafka: {{connection: main, topics: [{topic}]}}, schema: {{at: {{type: timestamptz}}}}}}
            routes: {{rules: [{{table: shop.orders}}], unrouted: {policy}}}
            errors: {{policy: {policy}}}
        """
        file = project.pipeline(policy, text)
        _, output, _ = floe("tap", file, "--stage", "convert", "--seconds", "0", "--json")
        (line,) = lines(output)
        assert (line["fate"], line["code"], line["changes"]) == (fate, "FLOE-D304", [])
