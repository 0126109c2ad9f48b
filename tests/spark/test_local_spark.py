"""`floe local up --spark`: a real standalone cluster beside the broker, and nothing left of it after `down`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from framework.adapters.host.process import running_pid
from framework.local.spark import mark
from framework.local.state import LocalPaths

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]


def floe_local(*arguments: str, state_dir: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "framework.cli.main", "local", *arguments, "--json", "--state-dir", str(state_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_cluster_comes_and_goes_with_the_stack(tmp_path: Path) -> None:
    """`up --spark` adds a cluster to a stack that runs; asked again it is the same one; `down` ends both."""
    paths = LocalPaths.of(tmp_path)
    daemons = [paths.spark / f"{name}.pid" for name in ("master", "worker")]
    try:
        assert "spark_master" not in floe_local("up", "--kafka-port", "0", state_dir=tmp_path)
        first = floe_local("up", "--spark", state_dir=tmp_path)
        assert str(first["spark_master"]).startswith("spark://127.0.0.1:")
        pids = [running_pid(daemon, mark(paths.spark)) for daemon in daemons]
        assert None not in pids
        assert floe_local("up", "--spark", state_dir=tmp_path) == first
        assert [running_pid(daemon, mark(paths.spark)) for daemon in daemons] == pids
        status = floe_local("status", state_dir=tmp_path)
        assert status["spark_master"] == first["spark_master"]
    finally:
        floe_local("down", state_dir=tmp_path)
    assert [running_pid(daemon, mark(paths.spark)) for daemon in daemons] == [None, None]
