"""A running pipeline held, let go on and stopped through the control topic, as an operator does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.spark.test_end_to_end import FAN_OUT, orders

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def rows(project: Project) -> int:
    if "shop" not in {name[0] for name in project.catalog().list_namespaces()}:
        return 0
    return sum(project.positions(project.tables("shop")).values())


def of(document: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(each for each in document[f"{kind}s"] if each[kind] == name)


def test_commits_and_reading_are_paused_and_the_run_is_stopped(project: Project, broker: Broker) -> None:
    """Paused commits leave announcements waiting, up to the limit of what may wait; a paused reading leaves records in
    the topic; resume lands each record once; `floe stop` ends the run with 0 after everything announced is
    committed."""
    topic = broker.new_topic("ops")
    broker.produce(topic, orders(30))
    file = project.pipeline("ops", FAN_OUT.format(topic=topic))
    process = project.start("run", file, "--set", "commit.max_waiting_batches=2")
    try:
        wait_for(lambda: rows(project) == 30, "30 rows")
        project.run("pause", "--commits", "shop.*", "--reason", "compaction")
        broker.produce(topic, orders(30, start=30))

        def announced() -> dict[str, Any] | None:
            status = project.status()
            return status if of(status, "table", "shop.refunds")["pending"]["rows"] == 3 else None

        status = wait_for(announced, "an announcement that waits")
        assert rows(project) == 30
        table = of(status, "table", "shop.refunds")
        assert (table["state"], "compaction" in table["reason"]) == ("PAUSED", True)
        command = f"floe resume --commits 'shop.*' -t it --control-topic {project.control_topic}"
        assert table["remedy"] == f"`{command}` resumes it"

        # Back-pressure: a second batch may wait for its tables, a third one is not read.
        broker.produce(topic, orders(30, start=60))
        wait_for(lambda: of(project.status(), "pipeline", "ops")["code"] == "FLOE-R139", "a reading that is held")
        broker.produce(topic, orders(30, start=90))
        pipeline = of(project.status(), "pipeline", "ops")
        assert (pipeline["state"], pipeline["lag"]) == ("DEGRADED", 30)
        assert "2 batches" in pipeline["reason"]

        project.run("pause", "--reading", "ops")
        project.run("resume", "--commits", "shop.*")
        wait_for(lambda: rows(project) == 90, "90 rows")
        pipeline = of(project.status(), "pipeline", "ops")
        assert (pipeline["state"], pipeline["lag"]) == ("PAUSED", 30)

        project.run("resume", "--reading", "ops")
        wait_for(lambda: rows(project) == 120, "120 rows")
        assert "ops has stopped: drained" in project.run("stop", "ops", "--timeout", "60")
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
    finally:
        kill_group(process)
    assert set(project.positions(project.tables("shop")).values()) == {1}
    pipeline = of(project.status(), "pipeline", "ops")
    assert (pipeline["state"], pipeline["runs"]) == ("STOPPED", [])
    assert "nothing to stop" in project.run("stop", "ops")
