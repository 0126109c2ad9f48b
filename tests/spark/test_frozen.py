"""A run frozen at each of its fault points: whoever looks, and however, sees what an independent count finds."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.adapters.host.failpoints import HANGS, POINTS
from framework.local.broker import free_port
from tests.chaos.harness import Running, descendants
from tests.conftest import Broker
from tests.project import FLOE, Project, kill_group
from tests.recovery.test_ops_page import ops
from tests.spark import views
from tests.spark.frozen_checker import Truth, truth
from tests.spark.test_end_to_end import FAN_OUT, orders
from tests.spark.test_monitoring import address, get, monitored, own_page

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(900)]
NAME = "frozen"
PATIENCE_S = 120.0
IN_A_TASK = "records-written"
OF_A_COMMIT = ("before-commit", "manifests-written", "committed")
OF_THE_COORDINATOR = ("progress-published", "low-water-stored")
# Those that a run reaches once; at the others it is frozen the second time, so that some things are done, and some not.
ONCE = ("before-query", IN_A_TASK)
QUICK = ("announced",)
TROUBLE = 9


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def run(project: Project, broker: Broker) -> Iterator[Callable[[str], Running]]:
    """Starts a run that freezes at a point, and ends it at the end."""
    started: list[Running] = []

    def start(fault: str) -> Running:
        topic = broker.new_topic("frozen", partitions=2)
        project.frozen_topic = topic  # type: ignore[attr-defined]
        broker.produce(topic, mixed(0))
        at = {"listen": f"127.0.0.1:{free_port()}", "page": f"127.0.0.1:{free_port()}"}
        monitored(project, **at, stalled_after_ms=10_000)
        file = project.pipeline(NAME, FAN_OUT.format(topic=topic))
        started.append(Running(project, "run", file, env={"FLOE_FAULT": fault}))
        return started[-1]

    yield start
    for each in started:
        kill_group(each.process)


def mixed(start: int) -> list[object]:
    """Thirty orders, two dead letters and a tombstone."""
    return [*orders(30, start=start), b"no JSON", {"id": start, "type": "no-region"}, None]


def is_frozen(driver: Running, point: str) -> bool:
    if point == IN_A_TASK:
        return any(each.state.startswith("T") for each in descendants(driver.pid))
    return f"{HANGS} {point}\n" in driver.output


@pytest.mark.parametrize("point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in POINTS])
def test_all_views_agree_with_an_independent_count(
    project: Project, broker: Broker, run: Callable[[str], Running], point: str
) -> None:
    """Wherever a thread or a task of a run hangs, `floe status`, `floe top`, the page, REST and `/metrics` agree with
    each other and, to the record, with a count made by hand from topics, tables and files; a batch or a commit that
    hangs is STALLED, and the exit code says so; a coordinator that hangs is not ready, and shows no tables any more. A
    look at the tables finds what the log says, but for a commit of which nobody could tell yet: that is shown as the
    difference."""
    nth = "" if point in ONCE else "@2"
    driver = run(f"{point}{nth}={'stop' if point == IN_A_TASK else 'hang'}")
    url = address(driver)
    topic = project.frozen_topic  # type: ignore[attr-defined]
    produced = 30
    limit = time.monotonic() + PATIENCE_S
    while not is_frozen(driver, point):
        assert time.monotonic() < limit, f"{point} was not reached\n{driver.output}"
        assert driver.running, driver.output
        time.sleep(3)
        if not is_frozen(driver, point):
            broker.produce(topic, mixed(produced))
            produced += 30

    with ops(project.root, project.control_topic, "--listen", "127.0.0.1:0") as page_url:
        found = settled(project, broker, topic, driver, page_url, point)

    status, counted = found
    states = {table["table"]: table for table in status["tables"]}
    if point in OF_A_COMMIT:
        [table] = [each for each in states.values() if each["state"] == "STALLED"]
        assert (table["code"], table["pending"]["rows"] > 0) == ("FLOE-R151", True)
        assert "floe doctor" in table["remedy"]
    elif point in OF_THE_COORDINATOR:
        code, body = get(f"{url}/readyz")
        assert (code, json.loads(body)["checks"]["coordinator"]) == (503, False)
    else:
        assert status["pipelines"][0]["state"] == "STALLED"
    if point not in OF_THE_COORDINATOR:
        assert status["exit_code"] == TROUBLE
    looked = project.status("--verify")
    differs = {each["table"]: each["differs"] for each in looked["tables"] if each["differs"]}
    untold = {name: rows for name, rows in counted.untold_rows.items() if rows}
    assert set(differs) == set(untold)
    for name, said in differs.items():
        assert f"with {counted.waits[name].rows} rows" in said
    if point == "committed":
        assert list(untold) == [table["table"]]
    elif point not in OF_THE_COORDINATOR:
        assert untold == {}


def settled(
    project: Project, broker: Broker, topic: str, driver: Running, page_url: str, point: str
) -> tuple[dict[str, object], Truth]:
    """The status and the count once all views agree and say what is stalled; it fails with what they say otherwise."""
    url = address(driver)
    limit = time.monotonic() + PATIENCE_S
    while True:
        counted = truth(broker.bootstrap_servers, project.catalog(), project.prefix, topic, project.control_topic)
        status = project.status()
        found = {
            "count": views.of_truth(counted),
            "status": views.of_status(status, NAME),
            "metrics": views.of_metrics(get(f"{url}/metrics")[1], NAME),
            "top": views.of_top(top(project), NAME),
            "page": views.of_page(page_url, NAME),
            "its own page": views.of_page(own_page(driver), NAME),
            "rest": views.of_rest(page_url, NAME),
        }
        differences = views.differences(found)
        is_stalled = "STALLED" in [value for name, value in found["status"].items() if name.startswith("state")]
        if not differences and (is_stalled or point in OF_THE_COORDINATOR):
            return status, counted
        if time.monotonic() > limit:
            raise AssertionError(
                "\n".join(["views disagree, or nothing is stalled", *differences, str(found["status"])])
            )
        time.sleep(2)


def top(project: Project) -> str:
    command = [*FLOE, "top", "--once", "--target", "it", "--control-topic", project.control_topic]
    return subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True).stdout
