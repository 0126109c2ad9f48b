"""A new user's path: the six commands of the first page with a stopwatch, and from records of one's own to rows in a table,
in an empty folder, all as they stand."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from framework.adapters.file_io_guard import open_catalog
from framework.local import stack

ROOT = Path(__file__).parents[2]
MOST_COMMANDS = 6
MOST_S = 120.0
MOST_COMMANDS_WITH_RECORDS = 5
COMMAND_TIMEOUT_S = 300.0


def commands() -> list[str]:
    """The commands of the block under the heading that promises them."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    block = re.search(r"^## Six commands\n.*?^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1].splitlines()


@dataclass
class Watch:
    """What each command took and said, so that a failure tells why."""

    cores: int = os.cpu_count() or 1
    began_s: float = field(default_factory=time.monotonic)
    before_s: float = field(default_factory=lambda: children_s())
    machine_before_s: float = field(default_factory=lambda: machine_s())
    taken: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, folder: Path, environment: dict[str, str]) -> None:
        """Runs one command of the page; it must end well."""
        began, before = time.monotonic(), children_s()
        try:
            done = subprocess.run(
                shlex.split(command),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
            code, said = str(done.returncode), done.stdout
        except subprocess.TimeoutExpired as error:
            code, said = f"no end after {COMMAND_TIMEOUT_S:.0f} s", (error.stdout or b"").decode("utf-8", "replace")
        self.taken[command], self.used[command] = time.monotonic() - began, children_s() - before
        self.said[command] = said
        assert code == "0", self.reported(f"`{command}` ended with {code}", folder)

    def reported(self, what: str, folder: Path) -> str:
        """What went wrong, with all that was measured, what each command said last, and the ends of the logs."""
        lines = [what, f"load {os.getloadavg()[0]:.1f} on {self.cores} cores; others used {self.others_s():.0f} s"]
        for command, taken in self.taken.items():
            lines.append(f"{taken:6.1f} s by the clock, {self.used[command]:6.1f} s of CPU: {command}")
            lines += [f"    {line}" for line in self.said[command].splitlines()[-15:]]
        for log in sorted((folder / ".floe").rglob("*.log")):
            lines.append(f"{log.relative_to(folder)}:")
            lines += [f"    {line}" for line in log.read_text("utf-8", "replace").splitlines()[-10:]]
        return "\n".join(lines)

    def others_s(self) -> float:
        """The CPU time that the rest of the machine used meanwhile."""
        return machine_s() - self.machine_before_s - (children_s() - self.before_s)

    def was_alone(self) -> bool:
        """Whether the clock says anything: nothing else kept a quarter of the machine busy."""
        return self.others_s() < 0.25 * self.cores * (time.monotonic() - self.began_s)


def children_s() -> float:
    """The time that processes took which this one started and which have ended, with theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def machine_s() -> float:
    """The time that all processes of the machine took."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def process_s(pid: int) -> float:
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
    watch = Watch()
    try:
        for command in commands():
            watch.run(command, tmp_path, environment)
        broker = stack.status(state).pid
        assert broker is not None, watch.reported("the broker does not run any more", tmp_path)
        used_s = children_s() - watch.before_s + process_s(broker)
        reported, was_alone = watch.reported("the clock", tmp_path), watch.was_alone()
    finally:
        stack.down(state, wipe=True)

    outputs = list(watch.said.values())
    assert len(outputs) <= MOST_COMMANDS
    assert "2 files checked, nothing to report" in outputs[3], reported
    assert "1 test in 1 file: 1 passed" in outputs[4], reported
    produced = re.search(r"([\d,]+) orders written", outputs[1])
    assert produced is not None, reported
    assert int(produced[1].replace(",", "")) > 500, reported
    assert f"{produced[1]} offsets = {produced[1]} written + 0 filtered + 0 dead letters" in outputs[5], reported
    assert used_s < MOST_S, reported
    clock_s = sum(watch.taken.values())
    assert clock_s < MOST_S or not was_alone, reported
    print(f"{clock_s:.0f} s by the clock, {used_s:.0f} s of CPU; {watch.taken}")


RECORDS = """\
[
  {"order": "A-1", "placed": "27.10.2026 02:30:00", "total": "12.50",
   "lines": [{"sku": 7, "at": "2026-10-27T02:30:00Z"}]},
  {"order": "A-2", "placed": "28.10.2026 14:05:10", "total": "3.10", "lines": []}
]
"""


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_own_records_to_rows_in_a_table(tmp_path: Path) -> None:
    """Who has a file of records types `floe init` and what it says to try next, word for word, and has each record as a row
    with the types that were proposed: at most five commands, all of them floe's. With a log of JSON the run prints nothing
    else."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment.pop("FLOE_HOME", None)
    environment["FLOE_LOG_FORMAT"] = "json"
    (tmp_path / "records.json").write_text(RECORDS)
    watch = Watch()
    try:
        first = "floe init orders --topic orders --table shop.orders --from-file records.json"
        watch.run(first, tmp_path, environment)
        following = re.findall(r"^  (floe .+)$", watch.said[first].partition("Try next:")[2], re.MULTILINE)
        for command in following:
            watch.run(command, tmp_path, environment)
        state = stack.read_state(tmp_path / ".floe")
        assert state is not None
        table = open_catalog("default", state.catalog_settings()).load_table("shop.orders")
        rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: str(row["order"]))
        types = {field.name: str(field.field_type) for field in table.schema().fields}
    finally:
        stack.down(tmp_path / ".floe", wipe=True)

    assert len(watch.said) <= MOST_COMMANDS_WITH_RECORDS
    assert all(isinstance(json.loads(line), dict) for line in watch.said[following[-1]].splitlines())
    assert (types["placed"], types["total"]) == ("timestamp", "decimal(18, 2)")
    assert [(row["order"], row["placed"], row["total"]) for row in rows] == [
        ("A-1", datetime(2026, 10, 27, 2, 30), Decimal("12.50")),
        ("A-2", datetime(2026, 10, 28, 14, 5, 10), Decimal("3.10")),
    ]
