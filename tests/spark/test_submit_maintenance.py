"""`floe submit --maintenance`: tables are maintained by an application of their own, through spark-submit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "{namespace}.orders_{{region}}"}}]
      unrouted: fail
      allow_tables: ["{namespace}.*"]
    tables:
      defaults:
        commit: {{interval: 1s}}
        maintenance: {maintenance}
    errors: {{policy: fail}}
"""
EAGER = "{compaction: {min_input_files: 2}}"


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def orders(start: int, count: int = 30) -> list[dict[str, object]]:
    return [{"id": i, "region": ["eu", "us", "ap"][i % 3], "total": i / 4} for i in range(start, start + count)]


def write(project: Project, topic: str, maintenance: str, name: str = "orders", namespace: str = "shop") -> Path:
    return project.pipeline(name, PIPELINE.format(topic=topic, maintenance=maintenance, namespace=namespace))


def maintained(project: Project, file: Path, *options: str) -> dict[str, Any]:
    """What the application says of each table that it looked at."""
    output = project.run("submit", file, "--maintenance", *options, timeout_s=240)
    document = json.loads(next(line for line in output.splitlines() if line.startswith('{"command": "submitted"')))
    return {report["table"]: report for report in document["tables"]}


def files_of(project: Project) -> dict[str, int]:
    """How many live data files each table has."""
    namespaces = [".".join(each) for each in project.catalog().list_namespaces()]
    return {name: len(project.live_paths(name)) for namespace in namespaces for name in project.tables(namespace)}


@pytest.fixture
def live(project: Project, broker: Broker) -> Iterator[tuple[str, Path]]:
    """Two pipelines whose tables have several small files each, the first with a run that goes on."""
    topic, other = broker.new_topic("maintained", partitions=1), broker.new_topic("other", partitions=1)
    broker.produce(other, orders(0))
    file = write(project, topic, "{mode: never}")
    neighbour = write(project, other, "{mode: never}", "neighbour", "other")
    project.run("run", neighbour, "--until-caught-up")
    broker.produce(other, orders(30))
    project.run("run", neighbour, "--until-caught-up")
    process = project.start("run", file)
    try:
        for number in range(3):
            broker.produce(topic, orders(30 * number))
            wait_for(lambda n=number: set(files_of(project).items()) >= {("shop.orders_eu", n + 1)}, 90)  # type: ignore[misc]
        yield topic, file
    finally:
        kill_group(process)


def test_tables_are_maintained_beside_a_live_run(project: Project, broker: Broker, live: tuple[str, Path]) -> None:
    """What the submitted file says is done for the tables that its pipeline fills and that `--table` names, also where the
    live run was started with another file; tables of other pipelines stay as they are, every row stays once, the run goes
    on, and a second time there is nothing to do."""
    topic, _ = live
    before = files_of(project)
    assert before["shop.orders_eu"] == before["shop.orders_us"] == 3
    assert before["other.orders_eu"] == 2
    file = write(project, topic, EAGER)

    done = maintained(project, file, "--table", "*.orders_eu")

    assert set(done) == {"shop.orders_eu"}
    assert (
        done["shop.orders_eu"]["rewritten"]["files_before"],
        done["shop.orders_eu"]["rewritten"]["files_after"],
    ) == (3, 1)
    assert files_of(project) == {**before, "shop.orders_eu": 1}

    broker.produce(topic, orders(90))
    wait_for(lambda: len(project.live_paths("shop.orders_eu")) == 2, 60)
    done = maintained(project, file)
    assert set(done) == {"shop.orders_ap", "shop.orders_eu", "shop.orders_us"}
    again = maintained(project, file)
    assert [report["rewritten"]["files_before"] for report in again.values()] == [0, 0, 0]
    counts = project.positions(list(done))
    assert len(counts) == 120
    assert set(counts.values()) == {1}
    assert {name: count for name, count in files_of(project).items() if name.startswith("other")} == {
        name: count for name, count in before.items() if name.startswith("other")
    }
