"""A running pipeline watched from outside: metrics, health, and a run that stands still."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from framework.local.broker import free_port
from tests.chaos.harness import Running, wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.spark.test_end_to_end import FAN_OUT, orders

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]
SECRET = "metrics-token-of-this-test"


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def monitored(project: Project, **settings: object) -> None:
    """The project's target with a `monitoring` of these keys."""
    path = project.root / "pipelines" / "targets" / "it.yaml"
    path.write_text(path.read_text() + f"monitoring: {json.dumps(settings)}\n")


def get(url: str, token: str = "") -> tuple[int, str]:
    """Status and body; what is no success is no error here."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Page:
    """A page of metrics as values by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [s for family in text_string_to_metric_families(text) for s in family.samples]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the series that have these labels."""
        found = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert found, f"no {name} {labels}\n{self.text}"
        return sum(found)

    def is_one(self, name: str, **labels: str) -> bool:
        return any(s.value == 1 for s in self.samples if s.name == name and labels.items() <= s.labels.items())


@pytest.fixture
def run(project: Project) -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for each in started:
        kill_group(each.process)


def address(running: Running) -> str:
    """Where a started driver serves its pages."""
    running.wait_for_output("metrics and health at http://")
    match = re.search(r"metrics and health at (http://\S+)/metrics", running.output)
    assert match is not None
    return match[1]


def of(document: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    return next(each for each in document[f"{kind}s"] if each[kind] == name)


def test_a_run_shows_the_figures_of_status_and_tables(
    project: Project, broker: Broker, run: list[Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/metrics` of a driver agrees with `floe status` and with the tables to the record: what is written, what is a
    dead letter and why, where the safe offset is, what waits for a paused table; no request without the token is
    answered, and neither the token nor a record is on the page."""
    monkeypatch.setenv("FLOE_TEST_METRICS_TOKEN", SECRET)
    topic = broker.new_topic("watched", partitions=2)
    broker.produce(topic, [*orders(30), {"id": "not a number", "kind": "no-such", "marker": "unmistakable"}])
    monitored(project, listen=f"127.0.0.1:{free_port()}", token="${secret:env:FLOE_TEST_METRICS_TOKEN}")
    driver = Running(project, "run", project.pipeline("watched", FAN_OUT.format(topic=topic)))
    run.append(driver)
    url = address(driver)
    assert get(f"{url}/healthz")[0] == get(f"{url}/metrics")[0] == get(f"{url}/readyz", "wrong")[0] == 401
    assert get(f"{url}/healthz", SECRET) == (200, "alive\n")

    def page() -> Page:
        return Page(get(f"{url}/metrics", SECRET)[1])

    wait_for(lambda: page().value("floe_batches_total", outcome="announced") > 0, "a batch")
    wait_for(lambda: page().value("floe_commits_total", outcome="committed") > 0, "a commit")
    print(page().text)
    print(project.status())
