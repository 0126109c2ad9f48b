"""Temporary folders of processes: gone with their process, or with the next one."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from framework.adapters.host.scratch import PREFIX, remove_abandoned

PROGRAM = """
import sys
import time
from pathlib import Path
from framework.adapters.host.scratch import scratch_dir
(scratch_dir("spark") / "blocks").write_text("many")
print(scratch_dir("spark").parent, flush=True)
sys.stdin.readline()
"""


def started(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "TMPDIR": str(parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("end\n", timeout=30)
    assert process.returncode == 0


def test_a_process_removes_its_folder_at_its_end(tmp_path: Path) -> None:
    """One folder of mode 0700 while it lives, and none afterwards."""
    process, folder = started(tmp_path)
    assert [folder] == list(tmp_path.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(BlockingIOError):  # as systemd-tmpfiles asks
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    end(process)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_one_left_is_removed_and_what_lives_is_not(tmp_path: Path) -> None:
    """The next process finds the folders whose lock nobody holds; others, links, and what has no lock stay."""
    killed, left = started(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    living, held = started(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    unlocked = tmp_path / f"{PREFIX}unlocked"
    unlocked.mkdir()
    linked = tmp_path / f"{PREFIX}linked"
    linked.mkdir()
    (linked / "lock").symlink_to(elsewhere / "lock")

    removed = remove_abandoned(tmp_path)

    assert removed == [] or removed == [left]  # the living one may have been faster
    deadline = time.monotonic() + 20
    while left.exists():  # the living one is at it
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (held / "spark" / "blocks").exists()
    assert {path.name for path in tmp_path.iterdir()} == {
        held.name, "elsewhere", f"{PREFIX}link", unlocked.name, linked.name,
    }  # fmt: skip
    assert (elsewhere / "lock").exists()
    end(living)
    assert not held.exists()
