"""`floe local` as a person or a script uses it: as a process, with text or JSON on standard output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kafka


def floe_local(*arguments: str, state_dir: Path) -> subprocess.CompletedProcess[str]:
    program = "from framework.cli.run.local import local; local()"
    command = [sys.executable, "-c", program, *arguments, "--state-dir", str(state_dir)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_up_status_down_tell_one_story(tmp_path: Path) -> None:
    """`up`, `status` and `down` agree on what runs, in text and in JSON, and `status` ends with 3 when nothing does."""
    try:
        up = floe_local("up", "--kafka-port", "0", "--json", state_dir=tmp_path)
        assert up.returncode == 0, up.stderr
        started = json.loads(up.stdout)
        assert started["running"] is True
        assert "starting on 127.0.0.1:" in up.stderr

        status = floe_local("status", "--json", state_dir=tmp_path)
        assert status.returncode == 0
        running = json.loads(status.stdout)
        assert {**running, "command": started["command"]}.items() >= started.items()
        assert running["bootstrap_servers"] in floe_local("status", state_dir=tmp_path).stdout
    finally:
        down = floe_local("down", "--wipe", "--json", state_dir=tmp_path)
    assert json.loads(down.stdout) == {"command": "local down", "ok": True, "was_running": True, "wiped": True}
    gone = floe_local("status", state_dir=tmp_path)
    assert (gone.returncode, gone.stdout) == (3, "not running; start it with: floe local up\n")
    assert not (tmp_path / "local").exists()
