"""A live run whose page and metrics are flooded, and whose page is killed, hangs and goes. The run's batches go on."""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from framework.adapters.kafka.control.log import ControlReader
from framework.commit.events.event_types import DataComplete
from framework.local.broker import free_port
from tests.chaos.harness import Running, wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group
from tests.recovery.test_ops_page import ops
from tests.spark.test_monitoring import address, get, monitored, own_page
from tests.unit.web.backend import READER

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: lost.letters}}
"""
ROOT = Path(__file__).parents[2]
PAGE_PROCESS = "framework.runtime.monitoring.page_process"
BATCH_PHASES = ("planning", "tables", "writing", "announcing")
SLOWER = 1.1  # at most, beside a flood of its own pages as against one of somebody else's


@dataclass
class Flooded:
    """A live run with its addresses; `made` records have been produced."""

    project: Project
    driver: Running
    broker: Broker
    topic: str
    made: int = 0

    def __post_init__(self) -> None:
        self.metrics, self.page = address(self.driver), own_page(self.driver)
        kafka = {"bootstrap.servers": self.broker.bootstrap_servers}
        self.log = ControlReader(kafka, self.project.control_topic)

    def produce(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.broker.produce(self.topic, [{"id": self.made}])
            self.made += 1
            time.sleep(0.25)

    def batches(self, begin: int) -> tuple[list[int], int]:
        """How many milliseconds each batch took that was announced since an offset of the control topic, and its end."""
        end = self.log.end_offset()
        self.log.seek(begin)
        found = [event for _, event in self.log.read_until(end)]
        spent = [each.phase_ms for each in found if isinstance(each, DataComplete) and each.phase_ms]
        return [sum(each.get(phase, 0) for phase in BATCH_PHASES) for each in spent], end

    def landed(self) -> int:
        with suppress(Exception):  # it is not there yet
            return self.project.table("shop.orders").num_rows
        return 0

    def page_process(self) -> int | None:
        """The child of the driver that serves its page."""
        told = subprocess.run(["pgrep", "-f", f"{PAGE_PROCESS} "], capture_output=True, text=True, check=False).stdout
        return next((int(pid) for pid in told.split() if parent_of(int(pid)) == self.driver.pid), None)

    def answers(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.page}/v1/overview", timeout=5).status_code == 200
        return False

    def ends_well(self) -> None:
        """All that was produced is a row once; it drains, and says nothing of an error."""
        wait_for(lambda: self.landed() == self.made, "all rows")
        assert get(f"{self.metrics}/readyz")[0] == 200, json.loads(get(f"{self.metrics}/readyz")[1])
        assert self.driver.terminate() == 0
        assert "Traceback" not in self.driver.output
        assert sorted(self.project.table("shop.orders").column("id").to_pylist()) == [*range(self.made)]


def parent_of(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


@pytest.fixture
def run(tmp_path: Path, broker: Broker) -> Iterator[Flooded]:
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("flooded")
    monitored(project, listen=f"127.0.0.1:{free_port()}", page=f"127.0.0.1:{free_port()}")
    driver = Running(project, "run", project.pipeline("flooded", PIPELINE.format(topic=topic)))
    try:
        found = Flooded(project, driver, broker, topic)
        hard = resource.prlimit(driver.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(driver.pid, resource.RLIMIT_NOFILE, (512, hard))
        found.produce(1)
        wait_for(lambda: get(f"{found.metrics}/readyz")[0] == 200 and found.landed() >= 1, "the first batch")
        yield found
        found.log.close()
    finally:
        kill_group(driver.process)


def flood(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.security.flood", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@contextmanager
def nobody() -> Iterator[list[str]]:
    """Addresses that are flooded for comparison."""
    with flood("--nobody") as served:
        assert served.stdout is not None
        try:
            yield json.loads(served.stdout.readline())
        finally:
            served.kill()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("requests", "connections", "rounds"),
    [(300, 150, 1), pytest.param(1_250, 500, 4, marks=pytest.mark.slow)],
    ids=["short", "whole"],
)
def test_a_run_that_is_flooded_goes_on(run: Flooded, requests: int, connections: int, rounds: int) -> None:
    """5,000 requests that mean harm and 2,000 idle or slow connections against metrics and page of a live run that may
    have 512 descriptors: its batches go on, it is ready, each record is a row once, and it drains. Its batches are not
    slower by more than a tenth than beside the same flood of somebody else's addresses, in turn."""
    ours = [each.removeprefix("http://") for each in (run.metrics, run.page)]
    took: dict[str, list[int]] = {"ours": [], "nobody's": []}
    statuses: Counter[str] = Counter()
    _, end = run.batches(0)
    with nobody() as others:
        for turn in range(2 * rounds):
            whose, addresses = (("nobody's", others), ("ours", ours))[turn % 2]
            words = ["--requests", str(requests), "--connections", str(connections), "--seed", str(turn // 2 + 1)]
            with flood(*words, *addresses) as flooding:
                run.produce(8)
                while flooding.poll() is None:
                    run.produce(1)
                assert flooding.stdout is not None
                assert flooding.returncode == 0
                answered = Counter(json.loads(flooding.stdout.read()))
            assert run.driver.running
            found, end = run.batches(end)
            assert found, "no batch was done meanwhile"
            took[whose] += found
            statuses.update(answered if whose == "ours" else {})
    assert not {status for status in statuses if status.startswith("5") and status != "501"}, statuses
    assert statuses["200"] > 0
    mean = {whose: statistics.fmean(found) for whose, found in took.items()}
    median = {whose: statistics.median(found) for whose, found in took.items()}
    print({whose: len(found) for whose, found in took.items()}, "mean", mean, "median", median)
    if rounds > 1:
        assert median["ours"] <= median["nobody's"] * SLOWER, took
    else:  # too few batches for a figure
        assert mean["ours"] < mean["nobody's"] * 3 + 1_000, took
    run.ends_well()


def test_a_page_that_is_killed_or_hangs_is_none_of_the_runs_business(run: Flooded) -> None:
    """The process of a run's page is killed: the batches go on, and it is there again at the same address. It hangs: they
    go on, the run is ready, and drains in seconds; nothing of the page is left then."""
    wait_for(run.answers, "the page")
    first = run.page_process()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    run.produce(3)
    wait_for(lambda: run.landed() == run.made, "the rows beside a page that was killed")
    wait_for(run.answers, "the page again")
    second = run.page_process()
    assert second is not None
    assert second != first
    os.kill(second, signal.SIGSTOP)
    run.produce(3)
    wait_for(lambda: run.landed() == run.made, "the rows beside a page that hangs")
    began = time.monotonic()
    run.ends_well()
    assert time.monotonic() - began < 60
    assert not Path(f"/proc/{second}").exists()


def test_floe_ops_answers_who_has_a_token_amid_a_flood(run: Flooded) -> None:
    """`floe ops` with tokens beside 600 requests that mean harm and 1,200 connections that say nothing or little: whoever
    has a token is answered, nobody else is, and the process lives."""
    tokens = run.project.root / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"rita read {READER}\n")
    with ops(run.project.root, run.project.control_topic, "--listen", "127.0.0.1:0", "--tokens", str(tokens)) as url:
        headers = {"Authorization": f"Bearer {READER}"}
        words = ["--requests", "600", "--connections", "1200", url.removeprefix("http://").rstrip("/")]
        answered = 0
        with flood(*words) as flooding:
            while flooding.poll() is None:
                with suppress(requests.ConnectionError):  # the oldest connection is ended: ask again
                    answered += requests.get(f"{url}/v1/overview", headers=headers, timeout=20).status_code == 200
                time.sleep(0.1)
            assert flooding.stdout is not None
            statuses = json.loads(flooding.stdout.read())
        assert answered > 3
        assert not [status for status in statuses if status.startswith("5") and status != "501"], statuses
        assert requests.get(f"{url}/v1/overview", timeout=20).status_code == 401
        assert requests.get(f"{url}/v1/overview", headers=headers, timeout=20).status_code == 200


def test_the_page_ends_with_a_run_that_is_killed(run: Flooded) -> None:
    """A run is killed alone, without its children: the page's process ends by itself, and its port is free."""
    wait_for(run.answers, "the page")
    page = run.page_process()
    assert page is not None
    os.kill(run.driver.pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{page}").exists(), "the end of the page", 20)
    assert not run.answers()
