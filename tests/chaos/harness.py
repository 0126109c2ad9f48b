"""What the fault tests share: the pipeline they run, processes found by what they do, and kills by id.

In: a project and a started driver. Out: the ids of the driver's JVM, planner and Python workers, and helpers that wait
for a state. A process is only ever killed by its id, after it was found below a process that the test started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from framework.task import daemon as task_daemon
from tests.chaos.checker import all_tables, landed_positions
from tests.project import Project, kill_group

PATIENCE_S = 420.0
# By the module's own name: a name that is only written down here outlives the module, and then finds no process.
TASK_DAEMON = task_daemon.__name__
T = TypeVar("T")

FAN_OUT = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "shop.t_{{kind}}"}}]
      allow_tables: ["shop.*"]
      unrouted: fail
    tables:
      defaults: {{commit: {{interval: {interval}}}}}
      {overrides}
    errors: {{policy: fail}}
    trigger: {{every: {trigger}}}
"""


def fan_out(topic: str, interval: str = "1s", trigger: str = "auto", version_3: str | None = None) -> str:
    """The body of a pipeline file that sends each record to `shop.t_<kind>`; the tables that match `version_3` have
    that format version."""
    create = (
        f'overrides: [{{match: {version_3}, create: {{properties: {{format-version: "3"}}}}}}]' if version_3 else ""
    )
    return FAN_OUT.format(topic=topic, interval=interval, trigger=trigger, overrides=create)


def records(count: int, start: int = 0, kinds: int = 3) -> list[dict[str, object]]:
    return [{"id": i, "kind": f"k{i % kinds:02}", "amount": i / 4} for i in range(start, start + count)]


def wait_for(condition: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Poll until `condition()` is true; returns its value. Patient: a machine may run other things beside the tests."""
    limit = time.monotonic() + timeout_s
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.2)
    raise AssertionError(f"{what} did not come within {timeout_s:.0f} s")


# ---- processes ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    command: str


def processes() -> list[Process]:
    """Every process of this machine that `ps` shows."""
    listing = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    found = (line.split(None, 3) for line in listing.splitlines())
    return [Process(int(f[0]), int(f[1]), f[2], f[3]) for f in found if len(f) == 4]


def descendants(pid: int) -> list[Process]:
    """All processes below `pid`, parents first."""
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    result: list[Process] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(0), [])
        result += below
        todo += [p.pid for p in below]
    return [p for p in result if not p.state.startswith("Z")]


def jvm_of(driver: int) -> int:
    """The Java process of a driver."""
    return next(p.pid for p in descendants(driver) if "org.apache.spark" in p.command and "java" in p.command)


def planners_of(driver: int) -> list[int]:
    """The processes in which the data source plans, one a query."""
    return [p.pid for p in descendants(driver) if "python_streaming_source_runner" in p.command]


def python_workers_of(driver: int) -> list[int]:
    """The forks of Spark's Python daemon that run tasks."""
    daemons = set(python_daemons_of(driver))
    return [p.pid for p in descendants(driver) if p.parent in daemons]


def python_daemons_of(driver: int) -> list[int]:
    """Spark's own daemons, and the one of floe that forks the processes of tasks."""
    return [p.pid for p in descendants(driver) if "pyspark.daemon" in p.command or TASK_DAEMON in p.command]


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> int:
    """Send a signal to each process that is still there; returns to how many."""
    hit = 0
    for pid in pids:
        try:
            os.kill(pid, number)
            hit += 1
        except ProcessLookupError:
            continue  # it ended by itself in between
    return hit


def is_stopped(pid: int) -> bool:
    return any(p.pid == pid and p.state.startswith("T") for p in processes())


# ---- a running command whose output is read as it comes --------------------------------------------------------------


class Running:
    """A floe command in the background; its output is gathered by a thread, so that it never blocks on a full pipe."""

    def __init__(self, project: Project, *args: str | Path, env: Mapping[str, str] | None = None) -> None:
        self.process = project.start(*args, env=env)
        self._folder = project.root
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with (self._folder / f"output-{self.process.pid}.log").open("w") as copy:  # to be looked at while a test runs
            for line in self.process.stdout:
                self._lines.append(line)
                copy.write(line)
                copy.flush()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return "".join(self._lines)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_for_output(self, text: str, count: int = 1, timeout_s: float = PATIENCE_S) -> None:
        """Until `text` was printed `count` times; fails at once when the command ends before that."""

        def seen() -> bool:
            if self.output.count(text) >= count:
                return True
            if not self.running:
                self._reader.join(10)
                assert self.output.count(text) >= count, f"ended with {self.process.returncode}\n{self.output}"
            return False

        try:
            wait_for(seen, repr(text), timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code (negative: a signal)."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout_s} s\n{self.output}") from None
        self._reader.join(10)
        return code

    def kill(self) -> None:
        """SIGKILL to this process alone, as the kernel's out-of-memory killer does it; children are left to notice."""
        kill([self.pid])
        self.process.wait(30)

    def terminate(self, timeout_s: float = PATIENCE_S) -> int:
        kill([self.pid], signal.SIGTERM)
        return self.wait(timeout_s)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        kill([self.pid], signal.SIGCONT)
        kill_group(self.process)
        self._reader.join(10)


def crash(
    project: Project, point: str, *args: str | Path, timeout_s: float = PATIENCE_S, env: Mapping[str, str] | None = None
) -> str:
    """Run a command that a fault point kills; fails if it ended in any other way, so that no point goes unreached."""
    with Running(project, *args, env={**(env or {}), "FLOE_FAULT": f"{point}=kill"}) as run:
        code = run.wait(timeout_s)
        assert code == -signal.SIGKILL, f"{point} was not reached: exit code {code}\n{run.output}"
        return run.output


# ---- what is in the tables -------------------------------------------------------------------------------------------


def landed(project: Project) -> int:
    """How many rows are in all tables of the namespace `shop`."""
    catalog = project.catalog()
    return sum(landed_positions(catalog, all_tables(catalog, ["shop"])).values())


def lands(project: Project, rows: int, run: Running) -> None:
    """Until `rows` rows are in the tables; fails at once when the job ends before that."""

    def there() -> bool:
        if landed(project) == rows:
            return True
        assert run.running, f"ended with {run.process.returncode} before {rows} rows were there\n{run.output}"
        return False

    try:
        wait_for(there, f"row {rows}")
    except AssertionError as error:
        raise AssertionError(f"{error}; there are {landed(project)}\n{run.output}") from None
