"""The main job from YAML to tables, on a real broker, a real catalog and a real Spark session."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from testbed.servers.spark_reader import java_read
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


NAMES = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      schema: {{id: long, ts: timestamptz}}
    routes:
      rules:
        - {{when: {{field: kind, equals: k}}, table: shop.keyed}}
        - {{table: shop.plain}}
      allow_tables: ["shop.*"]
    tables:
      defaults: {{commit: {{interval: 1s}}, create: {{partition_by: ["day(ts)"]}}}}
      overrides:
        - {{match: shop.keyed, write: {{mode: upsert, key: [id]}}, create: {{partition_by: ["bucket(2, id)"]}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""


def test_names_that_no_column_can_have(project: Project, broker: Broker) -> None:
    """Records of a run with fields that would make its tables unreadable, or that are called as what travels beside the
    rows of an upsert table, land under other names; Spark and Java read both tables, also after a restart."""
    topic = broker.new_topic("names", partitions=1)
    file = project.pipeline("names", NAMES.format(topic=topic))
    ts = "2024-01-04T10:00:00Z"
    odd = {"ts_day": 5, "id_bucket": 6, "_file": "f", "": 7, "_1": 8, "1": 9, "__floe_offset": 10, "_row_id": 11}
    keyed = {"id": 0, "kind": "k", "ts": ts}
    for batch in (
        [{"id": 0, "ts": ts}, keyed],
        [{"id": 1, "ts": ts, **odd}, keyed, {**keyed, "id": 1, **odd, "s": {"": 12}}],
        [{"id": 2, "ts": ts}, {"id": 3, "ts": ts, **odd}, {**keyed, "id": 3, **odd, "s": {"": 12}}],
    ):
        broker.produce(topic, batch)
        project.run("run", file, "--until-caught-up")
    assert "shop.dead_letters" not in project.tables("shop") or not project.table("shop.dead_letters").num_rows
    names = "_file_, `_`, _1, `1_`, __floe_offset_, _row_id_"
    found = java_read(
        project.catalog_settings,
        [
            f"SELECT id, ts_day_ AS by, {names} FROM `default`.shop.plain WHERE _file_ IS NOT NULL ORDER BY id",
            f"SELECT id, id_bucket_ AS by, {names} FROM `default`.shop.keyed WHERE s.`_` = 12 ORDER BY id",
        ],
        ["shop.plain", "shop.keyed"],
    )
    for rows, by in zip(found.rows, (5.0, 6.0), strict=True):
        assert [list(row.values()) for row in rows] == [[n, by, "f", 7.0, 8.0, 9.0, 10.0, 11.0] for n in (1, 3)]
    assert found.counts == {"shop.plain": 4, "shop.keyed": 3}
