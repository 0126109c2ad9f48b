"""`floe deploy`: a folder of two pipelines rolled out, changed and ended, on a real broker, catalog and Spark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.project import Project, wait_for

# Three drivers are started, one after another, each with a JVM of its own.
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
    routes: {{rules: [{{table: shop.{name}}}], unrouted: fail, allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Iterator[Project]:
    project = Project(tmp_path, broker.bootstrap_servers)
    try:
        yield project
    finally:
        project.run("deploy", "--stop", code=None)


def deploy(project: Project, *words: str) -> dict[str, str]:
    """Roll the project's folder out; what was done to each application."""
    output = project.run("deploy", "pipelines", *words, "--json", timeout_s=400)
    steps = json.loads(output[output.index("{\n") :])["steps"]
    return {step["application"]: step["action"] for step in steps}


def running(project: Project) -> dict[str, Any]:
    return {one["application"]: one for one in project.run_json("deploy", "--status")["applications"]}


def exact(project: Project, table: str, records: int) -> bool:
    if not project.catalog().table_exists(table):
        return False
    counts = project.positions([table])
    assert set(counts.values()) <= {1}
    return len(counts) == records


def test_a_folder_is_rolled_out(project: Project, broker: Broker) -> None:
    """New pipelines start; a second rollout does nothing; a change restarts that pipeline alone; what is gone stops
    only when that is allowed; and the tables hold every record once throughout."""
    topic = broker.new_topic("deploy", partitions=2)
    broker.produce(topic, [{"id": i} for i in range(500)])
    for name in ("orders", "refunds"):
        project.pipeline(name, PIPELINE.format(topic=topic, name=name))

    assert deploy(project) == {"orders": "start", "refunds": "start"}
    before = running(project)
    assert deploy(project) == {"orders": "keep", "refunds": "keep"}
    assert running(project) == before
    wait_for(lambda: exact(project, "shop.orders", 500), 120, "all orders")

    text = PIPELINE.format(topic=topic, name="refunds").replace("interval: 1s", "interval: 2s")
    project.pipeline("refunds", text)
    assert deploy(project) == {"orders": "keep", "refunds": "restart"}
    after = running(project)
    assert after["orders"] == before["orders"]
    assert after["refunds"]["pid"] != before["refunds"]["pid"]

    broker.produce(topic, [{"id": i} for i in range(500, 800)])
    for table in ("shop.orders", "shop.refunds"):
        wait_for(lambda table=table: exact(project, table, 800), 120, f"all of {table}")

    shutil.move(project.root / "pipelines" / "refunds.yaml", project.root / "refunds.yaml")
    assert "FLOE-P108" in project.run("deploy", "pipelines", code=2)
    assert deploy(project, "--allow-remove") == {"refunds": "stop", "orders": "keep"}
    assert set(running(project)) == {"orders"}

    assert "orders: ended with 0" in project.run("deploy", "--stop")
    assert running(project)["orders"]["state"] == "ended"
    assert exact(project, "shop.orders", 800)
