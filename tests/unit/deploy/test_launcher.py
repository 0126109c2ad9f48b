"""Applications side by side: which exit code is told, what is started again, and how a wish to stop is passed on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.config.spec import TargetSpec
from framework.deploy import launch
from framework.deploy.launch import Application, Launcher, check_yarn_is_named
from framework.errors import SetupError

WAIT_FOR_STOP = "touch started; while [ ! -e stop ]; do sleep 0.05; done; touch drained"


def application(folder: Path, script: str) -> Application:
    folder.mkdir()
    return Application(folder.name, "sha256:0", folder, ("sh", "-c", script), True, None, {})


def test_a_start_on_yarn_needs_to_know_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Hadoop's settings nothing is started, and the error says how to name them; whoever lets Spark's own
    `spark-env.sh` do it is let through."""
    monkeypatch.setattr(launch, "find_spark_submit", lambda: str(tmp_path / "bin" / "spark-submit"))
    yarn = TargetSpec(name="prod", kafka={}, catalogs={}, spark_master="yarn")
    with pytest.raises(SetupError) as raised:
        check_yarn_is_named(yarn, {"HADOOP_CONF_DIR": ""})
    assert (raised.value.code, raised.value.remedy) == ("FLOE-E414", "export HADOOP_CONF_DIR=/etc/hadoop/conf")
    check_yarn_is_named(replace(yarn, spark_master="spark://h:7077"), {})
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        check_yarn_is_named(yarn, {name: "/etc/hadoop/conf"})
    for folder, environment in ((tmp_path / "conf", {}), (tmp_path / "own", {"SPARK_CONF_DIR": f"{tmp_path}/own"})):
        folder.mkdir()
        (folder / "spark-env.sh").touch()
        check_yarn_is_named(yarn, environment)


def test_the_first_failure_is_the_exit_code(tmp_path: Path) -> None:
    """All applications run to their end; the first that failed, in their order, says the exit code."""
    applications = [application(tmp_path / str(code), f"touch ran; exit {code}") for code in (0, 4, 2)]
    said: list[str] = []
    assert Launcher(applications, 3, said.append).run() == 4
    assert all((one.folder / "ran").exists() for one in applications)
    assert said == []  # fenced and wrong files are final: nothing was started again


def test_a_failure_that_may_pass_is_started_again(tmp_path: Path) -> None:
    """An application that fails once and then succeeds ends well, and the restart is told."""
    flaky = application(tmp_path / "flaky", "[ -e once ] && exit 0; touch once; exit 1")
    said: list[str] = []
    assert Launcher([flaky], 1, said.append).run() == 0
    assert said == ["flaky: ended with 1; restarts in 5 s (1 of 1)"]


def test_a_signal_becomes_a_wish_to_drain(tmp_path: Path) -> None:
    """SIGTERM does not reach the driver's launcher; the stop file does, and the driver ends by itself."""
    one = application(tmp_path / "driver", WAIT_FOR_STOP)

    def ask() -> None:
        while not (one.folder / "started").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask, daemon=True).start()
    assert Launcher([one], 3, lambda text: None).run() == 0
    assert (one.folder / "drained").exists()


@pytest.mark.parametrize("where", ["remove_private", "_start", "python_environment"])
@pytest.mark.parametrize("before", [True, False])
def test_a_wish_to_stop_counts_at_every_point_of_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, before: bool
) -> None:
    """SIGTERM right before and right behind each step in which the launcher starts a driver: it drains, and none is started
    again."""
    one = application(tmp_path / "driver", WAIT_FOR_STOP)
    step: Callable[..., Any] = getattr(launch, where)
    asked: list[str] = []

    def ask() -> None:
        if where not in asked:
            asked.append(where)
            os.kill(os.getpid(), signal.SIGTERM)

    def stepped(*args: Any) -> Any:
        if before:
            ask()
        done = step(*args)
        if not before:
            ask()
        return done

    monkeypatch.setattr(launch, where, stepped)
    assert Launcher([one], 3, lambda text: None).run() == 0
    assert asked == [where]
    assert (one.folder / "drained").exists()


def test_a_wish_that_comes_while_a_restart_waits_ends_it(tmp_path: Path) -> None:
    """A driver failed and would be started again in seconds: asked to stop, the launcher starts nothing more."""
    flaky = application(tmp_path / "flaky", "touch $$; exit 1")
    said: list[str] = []

    def heard(text: str) -> None:
        said.append(text)
        if "restarts in" in text:
            os.kill(os.getpid(), signal.SIGTERM)

    assert Launcher([flaky], 3, heard).run() == 0
    assert len(list(flaky.folder.iterdir())) == 1
