"""The main job from YAML to tables, on a real broker, a real catalog and a real Spark session."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

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


def test_sql_projects_and_filters(project: Project, broker: Broker) -> None:
    """`transform.sql` runs between decode and write; what it removes is counted as filtered."""
    topic = broker.new_topic("sql", partitions=2)
    broker.produce(topic, orders(1000))
    file = project.pipeline(
        "sql",
        f"""
        source:
          kafka: {{connection: main, topics: [{topic}]}}
          format: {{type: json}}
          schema: {{id: {{type: long}}, region: {{type: string}}, total: {{type: double}}}}
        transform: {{sql: "SELECT id, upper(region) AS region, total * 2 AS twice FROM source WHERE id % 2 = 0"}}
        routes:
          rules: [{{table: shop.even}}]
          allow_tables: ["shop.*"]
          unrouted: fail
        tables: {{defaults: {{commit: {{interval: 1s}}}}}}
        errors: {{policy: fail}}
        """,
    )

    project.run("run", file, "--until-caught-up")

    rows = project.table("shop.even").sort_by("id")
    assert rows.column_names == ["id", "region", "twice"]
    assert rows.column("id").to_pylist() == list(range(0, 1000, 2))
    assert rows.column("twice").to_pylist() == [i / 2 for i in range(0, 1000, 2)]
    assert set(rows.column("region").to_pylist()) == {"EU", "US", "AP"}
    totals = project.run_json("status")["pipelines"][0]["totals"]
    assert (totals["offsets"], totals["written"], totals["filtered"]) == (1000, 500, 500)


def test_sigterm_drains(project: Project, broker: Broker) -> None:
    """SIGTERM finishes the batch in hand, commits what is announced, and the exit code is 0."""
    topic = broker.new_topic("drain", partitions=2)
    broker.produce(topic, orders(500))
    text = FAN_OUT.format(topic=topic).replace("interval: 1s", "interval: 1h")
    process = project.start("run", project.pipeline("drain", text))
    try:
        assert process.stdout is not None
        seen = ""
        while "announced in" not in seen:
            line = process.stdout.readline()
            assert line, seen
            seen += line
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0, seen + rest
    finally:
        kill_group(process)
    assert set(project.positions(project.tables("shop")).values()) == {1}
    assert len(project.positions(project.tables("shop"))) == 500


def test_two_pipelines_share_one_driver(project: Project, broker: Broker) -> None:
    """Several files run in one driver with one coordinator, and each record lands once."""
    topics = [broker.new_topic("left"), broker.new_topic("right", partitions=2)]
    for topic in topics:
        broker.produce(topic, orders(400))
    files = [project.pipeline(f"p{i}", FAN_OUT.format(topic=topic)) for i, topic in enumerate(topics)]

    project.run("run", *files, "--until-caught-up")

    counts = project.positions(project.tables("shop"))
    assert set(counts.values()) == {1}
    assert len(counts) == 800
    assert {p["pipeline"] for p in project.run_json("status")["pipelines"]} == {"p0", "p1"}


def test_a_running_job_commits_each_interval(project: Project, broker: Broker) -> None:
    """Without --until-caught-up records become visible within the interval, again and again."""
    topic = broker.new_topic("live")
    broker.produce(topic, orders(30))
    process = project.start("run", project.pipeline("live", FAN_OUT.format(topic=topic)))
    try:
        for more in (30, 60):
            wait_for(
                lambda more=more: (
                    "shop" in {n[0] for n in project.catalog().list_namespaces()}
                    and sum(project.positions(project.tables("shop")).values()) == more
                ),
                what=f"{more} rows",
            )
            broker.produce(topic, orders(30, start=more))
        wait_for(lambda: sum(project.positions(project.tables("shop")).values()) == 90, what="90 rows")
    finally:
        kill_group(process)
