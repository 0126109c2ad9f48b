"""Jobs that go on, drain, share a driver or run SQL, on a real broker, catalog and Spark."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from framework.adapters.host.failpoints import START_POINTS
from framework.commit.pacing import FIRST_BATCH_RECORDS
from tests.chaos.harness import Running
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for
from tests.spark.test_end_to_end import FAN_OUT, orders

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def output_until(process: subprocess.Popen[str], words: str) -> str:
    """What the job says up to the line that holds these words."""
    assert process.stdout is not None
    seen = ""
    while words not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen


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
        seen = output_until(process, "announced in")
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0, seen + rest
    finally:
        kill_group(process)
    assert set(project.positions(project.tables("shop")).values()) == {1}
    assert len(project.positions(project.tables("shop"))) == 500


@pytest.mark.slow
@pytest.mark.parametrize("point", [*START_POINTS, "before-query"])
def test_a_wish_to_stop_counts_at_every_point_of_a_start(project: Project, broker: Broker, point: str) -> None:
    """SIGTERM at each point from the first question to the broker up to the first query ends a run as later ones do:
    exit code 0, STOPPED as it was asked to where it had reported at all, and the next run reads what it left."""
    topic = broker.new_topic("early")
    broker.produce(topic, orders(30))
    file = project.pipeline("early", FAN_OUT.format(topic=topic))
    project.run("run", file, env={"FLOE_FAULT": f"{point}=term"})
    [early] = project.status()["pipelines"]
    assert (early["state"], early["reason"]) == ("STOPPED", "drained on SIGTERM")
    project.run("run", file, "--until-caught-up")
    assert set(project.positions(project.tables("shop")).values()) == {1}
    assert len(project.positions(project.tables("shop"))) == 30


@pytest.mark.slow
def test_what_a_small_first_batch_leaves_is_read_at_once(project: Project, broker: Broker) -> None:
    """The first batch of a run is cut short, since nothing is known of its files yet; what waits behind it is announced
    without an interval between them, and each record lands once."""
    count = FIRST_BATCH_RECORDS + 2_000
    topic = broker.new_topic("first", partitions=2)
    broker.produce(topic, orders(count))
    text = FAN_OUT.format(topic=topic).replace("interval: 1s", "interval: 1h")
    process = project.start("run", project.pipeline("first", text))
    try:
        seen = output_until(process, "batch 2:")
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0, seen + rest
    finally:
        kill_group(process)
    assert f"batch 1: {FIRST_BATCH_RECORDS:,} records" in seen
    assert "batch 2: 2,000 records" in seen
    counts = project.positions(project.tables("shop"))
    assert (len(counts), set(counts.values())) == (count, {1})


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_pipeline_that_ends_its_driver_is_the_cause_at_each_other_one(project: Project, broker: Broker) -> None:
    """A pipeline fails and ends the driver: each pipeline of it should run and does not, so `floe status` ends with 9 and
    shows both as FAILED with the same code; the other one names the pipeline that failed."""
    topics = [broker.new_topic("well"), broker.new_topic("ill")]
    for topic in topics:
        broker.produce(topic, orders(40))
    well = project.pipeline("well", FAN_OUT.format(topic=topics[0]))
    failing = FAN_OUT.format(topic=topics[1]).replace("unrouted: dead_letter", "unrouted: fail")
    ill = project.pipeline(
        "ill", failing.replace("policy: dead_letter, dead_letter_table: shop.dead_letters", "policy: fail")
    )
    driver = Running(project, "run", well, ill)
    try:
        driver.wait_for_output("announced in", count=2)
        broker.produce(topics[1], [{"id": 40, "type": "order"}])  # of no region, so of no table
        assert driver.wait() != 0
    finally:
        kill_group(driver.process)
    project.run("status", code=9)
    found = {each["pipeline"]: each for each in project.status()["pipelines"]}
    assert {each["state"] for each in found.values()} == {"FAILED"}
    assert found["well"]["code"] == found["ill"]["code"] != ""
    assert found["well"]["reason"] == f"drained, since pipeline ill of this driver failed: {found['ill']['reason']}"


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
