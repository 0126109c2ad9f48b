"""Deployed applications as processes: started, found again, restarted after a failure, drained, and never lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from framework.adapters.host.process import command_line
from framework.deploy.applications import Applications, DeployedApplication
from framework.deploy.launch import Application
from framework.plan.deploy.rollout import Wanted
from framework.plan.deploy.submit import DRIVER

# Stands for spark-submit: the driver's path is on its command line, and a stop file ends it.
DRAINS = "while [ ! -e stop ]; do sleep 0.05; done; touch drained; exit 0"
WANTED = Wanted("orders", ("orders",), "sha256:1", "f")


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[Applications]:
    found = Applications(tmp_path / "state", "it")
    yield found
    for one in found.all():
        found.stop(one, 0.0)


def staged(tmp_path: Path, script: str) -> Application:
    folder = tmp_path / "staged"
    folder.mkdir(exist_ok=True)
    (folder / "script.sh").write_text(script)
    return Application("orders", "sha256:1", folder, ("sh", "script.sh", str(folder / DRIVER)), True, None, {})


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def the_one(applications: Applications) -> DeployedApplication:
    (found,) = applications.all()
    return found


def test_it_runs_on_and_is_found_again(applications: Applications, tmp_path: Path) -> None:
    """An application outlives who started it; another look finds it running, drains it, and tells its exit code."""
    applications.start(staged(tmp_path, DRAINS), WANTED, "shop", 3)
    until(lambda: the_one(applications).state == "running", "running")
    again = Applications(tmp_path / "state", "it")
    assert again.all("other") == []
    (found,) = again.all("shop")
    assert found.alive
    assert found.present().ended == ""
    assert again.stop(found, 30.0) == 0
    assert (tmp_path / "staged" / "drained").exists()
    ended = the_one(again)
    assert (ended.state, ended.exit_code, ended.alive) == ("ended", 0, False)
    again.forget(ended)
    assert again.all() == []


def test_a_failure_that_is_final_stays_ended(applications: Applications, tmp_path: Path) -> None:
    """A fenced driver is not started again, and what is said of it is its exit code."""
    applications.start(staged(tmp_path, "exit 4"), WANTED, "shop", 3)
    until(lambda: the_one(applications).state == "ended", "ended")
    until(lambda: not the_one(applications).alive, "the supervisor's end")
    assert the_one(applications).present().ended == "it ended with 4"


def test_a_failure_that_may_pass_is_waited_out(applications: Applications, tmp_path: Path) -> None:
    """While the supervisor waits before it starts a driver again, that is its state; it can be stopped then, too."""
    applications.start(staged(tmp_path, "exit 1"), WANTED, "shop", 3)
    until(lambda: the_one(applications).state == "waiting", "waiting")
    found = the_one(applications)
    assert (found.alive, found.restarts) == (True, 1)
    applications.stop(found, 30.0)
    assert not the_one(applications).alive


def test_a_driver_without_its_supervisor_is_drained(applications: Applications, tmp_path: Path) -> None:
    """kill -9 of the supervisor leaves the driver running: it is seen as lost, and a stop still drains and ends it."""
    applications.start(staged(tmp_path, DRAINS), WANTED, "shop", 3)
    until(lambda: the_one(applications).state == "running", "running")
    pid = the_one(applications).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    lost = the_one(applications)
    assert (lost.state, lost.present().ended) == ("lost", "its supervisor is gone")
    applications.stop(lost, 30.0)
    assert (tmp_path / "staged" / "drained").exists()


def test_one_that_does_not_drain_is_ended(applications: Applications, tmp_path: Path) -> None:
    """Patience has an end: a driver that ignores the wish is ended with all that it started."""
    applications.start(staged(tmp_path, "echo $$ > pid; trap '' TERM; while :; do sleep 0.1; done"), WANTED, "shop", 3)
    until(lambda: (tmp_path / "staged" / "pid").exists() and bool((tmp_path / "staged" / "pid").read_text()), "pid")
    driver = int((tmp_path / "staged" / "pid").read_text())
    from framework.deploy import applications as module

    patience, module.LEAVE_S = module.LEAVE_S, 0.5
    try:
        applications.stop(the_one(applications), 0.5)
    finally:
        module.LEAVE_S = patience
    until(lambda: command_line(driver) == "", "the driver's end")
    assert not the_one(applications).alive
