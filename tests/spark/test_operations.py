"""A running pipeline held, let go on and stopped through the control topic, as an operator does it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import processes, wait_for
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


def in_a_container(*command: str) -> list[str]:
    """The command as the first process of a namespace of its own, as in a container: no other process has reaped or told it
    anything, and a signal that it does not handle is ignored."""
    return ["unshare", "--pid", "--fork", "--mount-proc", *command]


@pytest.mark.skipif(
    subprocess.run(in_a_container("true"), capture_output=True).returncode != 0, reason="no namespace can be made here"
)
def test_the_first_process_of_a_container_drains(project: Project, broker: Broker) -> None:
    """What Kubernetes sends to a pod reaches driver, coordinator and page though each of them is process 1: they end within
    the grace period, the driver after all that it announced is committed, and no dead child of theirs is left behind."""
    topic = broker.new_topic("first")
    broker.produce(topic, orders(30))
    file = project.pipeline("first", FAN_OUT.format(topic=topic))
    page = project.command("ops", "--listen", "127.0.0.1:0", "--control-topic", project.control_topic)
    coordinator = project.command("coordinator", "--control-topic", project.control_topic)
    running = []
    try:
        for command in (coordinator, project.command("run", file), page):
            running.append(
                subprocess.Popen(
                    in_a_container(*map(str, command)), cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                    text=True, start_new_session=True,
                )
            )  # fmt: skip
        wait_for(lambda: rows(project) == 30, "30 rows")
        broker.produce(topic, orders(30, start=30))
        wait_for(lambda: of(project.status(), "pipeline", "first")["lag"] == 0, "the second batch")
        firsts = [next(each for each in processes() if each.parent == process.pid) for process in running]
        assert [each for first in firsts for each in dead_children(first.pid)] == []
        for first in firsts:
            os.kill(first.pid, signal.SIGTERM)
        said = [process.communicate(timeout=60)[0] for process in running]
        assert [process.returncode for process in running] == [0, 0, 143], said
    finally:
        for process in running:
            kill_group(process)
    assert rows(project) == 60
    assert of(project.status(), "pipeline", "first")["state"] == "STOPPED"


def dead_children(pid: int) -> list[str]:
    return [each.command for each in processes() if each.parent == pid and each.state.startswith("Z")]
