"""A new user's path with a stopwatch: the six commands of the first page, in an empty folder, as they stand."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from framework.local import stack

ROOT = Path(__file__).parents[2]
MOST_COMMANDS = 6
MOST_S = 120.0


def commands() -> list[str]:
    """The commands of the block under the heading that promises them."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    block = re.search(r"^## Six commands\n.*?^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def cpu_s() -> float:
    """The time that processes took which this one started and which have ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of_s(pid: int) -> float:
    """The time that a process took that still runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the time of the broker is read from /proc")
def test_from_nothing_to_a_running_pipeline(tmp_path: Path) -> None:
    """At most six commands lead from an empty folder to a pipeline that was validated, tested and run on the embedded
    stack, and take the machine less than two minutes: by its processors in any case, and by the clock if nothing else
    keeps it busy."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    environment.pop("FLOE_HOME", None)
    state = tmp_path / ".floe"
    busy = os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1)
    said: dict[str, str] = {}
    taken: dict[str, float] = {}
    before = cpu_s()
    try:
        for command in commands():
            began = time.monotonic()
            done = subprocess.run(
                shlex.split(command),
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            taken[command], said[command] = time.monotonic() - began, done.stdout + done.stderr
            assert done.returncode == 0, (command, said[command])
        broker = stack.status(state).pid
        assert broker is not None
        machine_s = cpu_s() - before + cpu_of_s(broker)
    finally:
        stack.down(state, wipe=True)

    outputs = list(said.values())
    assert len(outputs) <= MOST_COMMANDS
    assert "2 files checked, nothing to report" in outputs[3]
    assert "1 test in 1 file: 1 passed" in outputs[4]
    produced = re.search(r"(\d+) orders written", outputs[1])
    assert produced is not None, outputs[1]
    assert int(produced[1]) > 500
    assert f"{produced[1]} offsets = {produced[1]} written + 0 filtered + 0 dead letters" in outputs[5]
    assert machine_s < MOST_S, taken
    assert busy or sum(taken.values()) < MOST_S, taken
    print(f"{sum(taken.values()):.0f} s by the clock, {machine_s:.0f} s of CPU; {taken}")
