"""A warehouse whose file system is really full: the kernel's own ENOSPC, under tasks and under commits.

The file system is a small tmpfs, mounted over the project's warehouse; where that is not allowed the test is skipped,
and `test_outages.py` shows the same with a limit on the size of files.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import Running, fan_out, landed, lands, records
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos, pytest.mark.timeout(1200)]

BLOCK = bytes(4096)


@pytest.fixture
def small_warehouse(project: Project) -> Iterator[Path]:
    """The project's warehouse, on a file system of 8 MiB."""
    warehouse = project.root / "warehouse"
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(warehouse)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no file system can be mounted: {error}")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield warehouse
    finally:
        subprocess.run(["umount", "--lazy", str(warehouse)], check=True)


def fill(folder: Path) -> Path:
    """Take all that is left of the file system; returns the file to remove."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return ballast


@pytest.mark.failure("F35")
def test_no_space_left_under_tasks_and_commits(project: Project, broker: Broker, small_warehouse: Path) -> None:
    """No space left for data files, then for the files of a commit: the job waits and says why, and once there is room
    all that came meanwhile lands once; `floe stop` then ends the run with everything committed."""
    topic = broker.new_topic("disk", partitions=2)
    broker.produce(topic, records(100))
    with Running(project, "run", project.pipeline("disk", fan_out(topic))) as run:
        lands(project, 100, run)

        ballast = fill(small_warehouse)
        broker.produce(topic, records(100, start=100))
        run.wait_for_output("No space left on device")
        assert run.running, run.output
        assert landed(project) == 100
        ballast.unlink()
        lands(project, 200, run)

        project.run("pause", "--commits", "shop.*")
        batches = run.output.count("announced in")
        broker.produce(topic, records(100, start=200))
        run.wait_for_output("announced in", batches + 1)
        ballast = fill(small_warehouse)
        project.run("resume", "--commits", "shop.*")
        run.wait_for_output("not committed shop.")
        assert landed(project) == 200
        states = {t["table"]: t for t in project.status()["tables"]}
        assert any("No space left" in t["reason"] for t in states.values()), states
        ballast.unlink()
        lands(project, 300, run)

        assert "disk has stopped: drained" in project.run("stop", "disk", "--timeout", "120")
        assert run.wait() == 0, run.output
    assert_exact(project.catalog(), broker.bootstrap_servers, [topic])
    assert_sum_holds(project.status(), "disk", 300)
