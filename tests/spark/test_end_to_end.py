"""The main job from YAML to tables, on a real broker, a real catalog and a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

FAN_OUT = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules:
        - {{when: {{field: type, equals: refund}}, table: shop.refunds}}
        - {{table: "shop.orders_{{region}}"}}
      unrouted: dead_letter
      allow_tables: ["shop.*"]
    tables:
      defaults: {{commit: {{interval: 1s}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def orders(count: int, start: int = 0) -> list[dict[str, object]]:
    return [
        {"id": i, "type": "refund" if i % 10 == 0 else "order", "region": ["eu", "us", "ap"][i % 3], "total": i / 4}
        for i in range(start, start + count)
    ]


def test_fan_out_lands_every_record_once(project: Project, broker: Broker) -> None:
    """Records land once each in the tables that the rules name; a second run adds nothing."""
    topic = broker.new_topic("orders", partitions=3)
    broker.produce(topic, orders(5000))
    file = project.pipeline("shop", FAN_OUT.format(topic=topic))

    project.run("run", file, "--until-caught-up")

    tables = ["shop.orders_ap", "shop.orders_eu", "shop.orders_us", "shop.refunds"]
    assert project.tables("shop") == tables
    counts = project.positions(tables)
    assert len(counts) == 5000
    assert set(counts.values()) == {1}
    assert set(project.table("shop.refunds").column("type").to_pylist()) == {"refund"}
    assert sorted(project.table("shop.orders_eu").column("id").to_pylist()) == [
        i for i in range(5000) if i % 3 == 0 and i % 10
    ]
    before = {name: project.catalog().load_table(name).current_snapshot() for name in tables}
    project.run("run", file, "--until-caught-up")
    assert {name: project.catalog().load_table(name).current_snapshot() for name in tables} == before

    broker.produce(topic, orders(300, start=5000))
    project.run("run", file, "--until-caught-up")
    assert set(project.positions(tables).values()) == {1}
    assert len(project.positions(tables)) == 5300


def test_bad_records_are_dead_letters_and_the_sum_holds(project: Project, broker: Broker) -> None:
    """What is not JSON, has no route or is a tombstone is counted and sent where the file says; the rest lands."""
    topic = broker.new_topic("bad")
    broker.produce(
        topic,
        [*orders(50), b"not json", b'{"id": 7', None, {"id": 1, "type": "order"}, b'{"a":1}{"b":2}', *orders(50, 50)],
    )
    file = project.pipeline("bad", FAN_OUT.format(topic=topic))

    project.run("run", file, "--until-caught-up")

    letters = project.table("shop.dead_letters")
    by_offset = dict(zip(letters.column("offset").to_pylist(), letters.column("stage").to_pylist(), strict=True))
    assert by_offset == {50: "decode", 51: "decode", 53: "route", 54: "decode"}
    assert b"not json" in letters.column("value").to_pylist()
    status = project.run_json("status")
    totals = next(p for p in status["pipelines"] if p["pipeline"] == "bad")["totals"]
    assert totals == {
        "offsets": 105,
        "written": 100,
        "filtered": 0,
        "dead_lettered": 4,
        "dropped": 1,
        "holes": 0,
        "lost": 0,
        "rows": 104,
    }


def test_a_new_field_becomes_a_column(project: Project, broker: Broker) -> None:
    """A field first seen later becomes a column; rows before have null in it, and no row is lost or doubled."""
    topic = broker.new_topic("evolve", partitions=2)
    file = project.pipeline("evolve", FAN_OUT.format(topic=topic))
    broker.produce(topic, orders(100))
    project.run("run", file, "--until-caught-up")
    broker.produce(topic, [{**order, "coupon": {"code": "X", "off": 1.5}} for order in orders(100, 100)])

    project.run("run", file, "--until-caught-up")

    rows = project.table("shop.orders_eu")
    assert pc.sum(pc.is_valid(rows.column("coupon"))).as_py() == sum(
        1 for i in range(100, 200) if i % 3 == 0 and i % 10
    )
    assert set(project.positions(project.tables("shop")).values()) == {1}
