"""Coordinators that come and go: told wherever somebody looks, also when none of them had anything to commit."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.local.broker import free_port
from framework.observe.status.read import read_status
from framework.plan.compile import coordinator_group
from framework.runtime.coordinator.thread import Coordinator
from tests.chaos.harness import Running
from tests.conftest import Broker
from tests.project import FLOE, Project, kill_group

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]
PATIENCE_S = 180.0
COMING_AND_GOING = 5


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    made = Project(tmp_path, broker.bootstrap_servers)
    path = made.root / "pipelines" / "targets" / "it.yaml"
    listening = {"listen": f"127.0.0.1:{free_port()}", "page": f"127.0.0.1:{free_port()}"}
    path.write_text(path.read_text() + f"monitoring: {json.dumps(listening)}\n")
    return made


def comes_and_goes(project: Project, is_done: bool = False) -> None:
    """A coordinator that has nothing to commit takes the leadership and gives it back."""
    kafka = {"bootstrap.servers": project.bootstrap_servers}
    group = coordinator_group(project.prefix, project.control_topic)
    catalog = IcebergTables(project.catalog_settings)
    coordinator = Coordinator(kafka, group, project.control_topic, catalog, lambda text: None)
    coordinator.start()
    try:
        wait_until(lambda: coordinator.state.caught_up)
    finally:
        coordinator.stop(is_done)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_seen(look: Callable[[], dict[str, int]], wanted: dict[str, int]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, (seen, wanted)
        time.sleep(0.05)


@contextlib.contextmanager
def one_that_stays(project: Project) -> Iterator[tuple[str, str]]:
    """`floe coordinator`; gives the addresses of its metrics and its page."""
    running = Running(project, "coordinator")
    try:
        for text in ("metrics and health at http://", " is at http://", "coordinates"):
            running.wait_for_output(text)
        metrics = re.search(r"metrics and health at (http://\S+)/metrics", running.output)
        page = re.search(r"the page of \S+ is at (http://\S+)/", running.output)
        assert metrics is not None
        assert page is not None
        yield f"{metrics[1]}/metrics", page[1]
    finally:
        kill_group(running.process)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def changes(project: Project, metrics: str, page: str) -> dict[str, int]:
    """How often who coordinates changed, by each way to look; 0 where nothing is told."""
    kafka = {"bootstrap.servers": project.bootstrap_servers}
    risks = read_status("it", project.prefix, kafka, project.control_topic).risks
    command = [*FLOE, "top", "--once", "--target", "it", "--control-topic", project.control_topic]
    top = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True).stdout
    # The table of `floe top` breaks lines.
    texts = {
        "status": " ".join(risk.reason for risk in risks if risk.code == "FLOE-R153"),
        "status as text": project.run("status", code=None),
        "top": " ".join(top.split()),
        "page": get(page),
        "REST": json.dumps(json.loads(get(f"{page}/v1/overview"))["troubles"]),
    }
    found = {}
    for name, text in texts.items():
        reported = re.search(r"who coordinates changed (\d+) times", text)
        found[name] = int(reported[1]) if reported else 0
    reported = re.search(r"^floe_coordinator_recent_takeovers\{[^}]*\} ([0-9.]+)$", get(metrics), re.MULTILINE)
    found["metrics"] = int(float(reported[1])) if reported else 0
    return found


def test_coordinators_that_come_and_go_in_silence_are_reported_alike_by_all_views(
    project: Project, broker: Broker
) -> None:
    """Five coordinators, one after the other, that had nothing to commit, and a sixth that stays: `floe status`, `floe
    top`, the page, REST and `/metrics` of the sixth say that who coordinates changed as often as `floe log` names another
    one. Before, with one of them alone, nothing is told."""
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), project.control_topic)
    comes_and_goes(project)
    with one_that_stays(project) as (metrics, page):
        calm = {"status": 0, "status as text": 0, "top": 0, "page": 0, "REST": 0, "metrics": 1}
        wait_until_seen(lambda: changes(project, metrics, page), calm)
    for _ in range(COMING_AND_GOING - 2):
        comes_and_goes(project)
    with one_that_stays(project) as (metrics, page):
        named = project.run("log").count("CoordinatorAssigned")
        assert named > COMING_AND_GOING  # more often where the broker gave one of them the leadership twice
        wait_until_seen(lambda: changes(project, metrics, page), dict.fromkeys(calm, named - 1))


def test_coordinators_whose_work_was_done_are_no_trouble(project: Project, broker: Broker) -> None:
    """Five coordinators that end well, one after the other, as bounded runs do, and a sixth that stays: no view reports
    that who coordinates changes, and `floe log` says of each that its work was done."""
    ensure_control_topic(KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}), project.control_topic)
    for _ in range(COMING_AND_GOING):
        comes_and_goes(project, is_done=True)
    with one_that_stays(project) as (metrics, page):
        assert project.run("log").count("its work is done") == COMING_AND_GOING
        calm = dict.fromkeys(("status", "status as text", "top", "page", "REST", "metrics"), 0)
        wait_until_seen(lambda: changes(project, metrics, page), calm)
