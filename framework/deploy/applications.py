"""Applications as processes on this machine: started, inspected and stopped through files in one folder each.

In: staged applications of `floe submit`. Out: a supervisor process each, which starts the driver, restarts it after a
failure that may pass, and drains it when it is asked to end. `<state_dir>/run/<target>/<application>/` holds the
record, the pid file, the supervisor's last word and the driver's log. A process counts as ours only by the mark on its
command line.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from framework.adapters.host.private_files import private_dir, remove_private, touch_private, write_private
from framework.adapters.host.process import end_group, python, python_environment, running_pid, send_signal, spawn
from framework.deploy.launch import STOP_FILE, Application, LaunchState
from framework.deploy.log_pump import shift
from framework.errors import FloeError
from framework.plan.deploy.rollout import Present, Wanted
from framework.plan.deploy.submit import DRIVER

RECORD, PID, STATE, LOG = "application.json", "supervisor.pid", "state.json", "driver.log"
POLL_S = 0.2
LEAVE_S = 20.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Record:
    """What was started: written before the process is, and read by its supervisor."""

    name: str
    deployment: str
    target: str
    pipelines: tuple[str, ...]
    hash: str
    fingerprint: str
    folder: str
    command: tuple[str, ...]
    most_restarts: int
    started_ms: int


@dataclass(frozen=True)
class DeployedApplication:
    """One application as it is now. `state` is running, waiting (to be started again), ended or lost (no
    supervisor)."""

    record: Record
    home: Path
    state: str
    pid: int | None
    exit_code: int | None
    restarts: int

    @property
    def log(self) -> Path:
        return self.home / LOG

    @property
    def alive(self) -> bool:
        return self.pid is not None

    def present(self) -> Present:
        """As the rollout sees it."""
        record = self.record
        ended = ""
        if not self.alive:
            ended = f"it ended with {self.exit_code}" if self.exit_code is not None else "its supervisor is gone"
        return Present(record.name, record.pipelines, record.hash, record.fingerprint, ended)

    def to_json(self) -> dict[str, object]:
        return {
            "application": self.record.name,
            "deployment": self.record.deployment,
            "pipelines": list(self.record.pipelines),
            "state": self.state,
            "pid": self.pid,
            "exit_code": self.exit_code,
            "restarts": self.restarts,
            "started_ms": self.record.started_ms,
            "hash": self.record.hash,
            "log": str(self.log),
        }


class Applications:
    """The applications of one target, below one state directory."""

    def __init__(self, state_dir: Path, target: str) -> None:
        self.root = state_dir.absolute() / "run" / target
        self._target = target

    @property
    def lock_file(self) -> Path:
        return self.root / "deploy.lock"

    def all(self, deployment: str | None = None) -> list[DeployedApplication]:
        """What was deployed and not taken away again, by name; of one deployment, or of all."""
        found = (_look(path.parent) for path in sorted(self.root.glob(f"*/{RECORD}")))
        return [each for each in found if deployment is None or each.record.deployment == deployment]

    def start(
        self, application: Application, wanted: Wanted, deployment: str, most_restarts: int
    ) -> DeployedApplication:
        """Start a staged application and return at once."""
        home = self.root / application.name
        private_dir(home)
        record = Record(
            application.name,
            deployment,
            self._target,
            wanted.pipelines,
            wanted.hash,
            wanted.fingerprint,
            str(application.folder),
            application.command,
            most_restarts,
            int(time.time() * 1000),
        )
        _write(home / RECORD, asdict(record))
        remove_private(home / STATE)
        shift(str(home / LOG))
        command = python("-m", "framework.deploy.supervisor", _mark(home))
        spawn(command, home / PID, home / LOG, application.folder, python_environment())
        return _look(home)

    def stop(self, application: DeployedApplication, timeout_s: float) -> int | None:
        """Drain it, wait until it has ended, and return its exit code; one that does not end in time is ended hard.

        What it had not announced by then is read again by the next run.
        """
        home, folder = application.home, Path(application.record.folder)
        asked = send_signal(home / PID, _mark(home), signal.SIGTERM)
        if not asked:  # no supervisor: the driver may be there without it, and looks for the stop file itself
            touch_private(folder / STOP_FILE)
        if not _wait(lambda: not _lives(home, folder), timeout_s):
            send_signal(home / PID, _mark(home), signal.SIGTERM)  # asked twice, it leaves at once
            if not _wait(lambda: not _lives(home, folder), LEAVE_S):
                send_signal(home / PID, _mark(home), signal.SIGKILL)
        end_group(_driver_pid(home), str(folder / DRIVER))
        remove_private(home / PID)
        return _look(home).exit_code

    def forget(self, application: DeployedApplication) -> None:
        """Take the record of an application that has ended away, with its log."""
        remove_private(application.home)


def read_record(home: Path) -> Record:
    """The record of an application.

    Raises:
        FloeError: it is damaged.
    """
    try:
        value = json.loads((home / RECORD).read_text(encoding="utf-8"))
        record = Record(**value)
        return replace(record, pipelines=tuple(record.pipelines), command=tuple(record.command))
    except (OSError, ValueError, TypeError) as error:
        raise FloeError(
            f"the record of a deployed application cannot be read: {error}",
            code="FLOE-R410",
            place=str(home / RECORD),
            remedy=f"end its processes by hand, delete {home}, and deploy again",
        ) from error


def write_state(home: Path, state: LaunchState) -> None:
    """The supervisor's last word about its driver."""
    _write(home / STATE, asdict(state))


def _look(home: Path) -> DeployedApplication:
    record, said = read_record(home), _said(home)
    pid = running_pid(home / PID, _mark(home))
    state = said.state if said else "starting"
    if pid is None and state != "ended":
        state = "lost"
    exit_code = said.exit_code if said and state == "ended" else None
    return DeployedApplication(record, home, state, pid, exit_code, said.restarts if said else 0)


def _said(home: Path) -> LaunchState | None:
    try:
        return LaunchState(**json.loads((home / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _mark(home: Path) -> str:
    """The word on the supervisor's command line by which it is known again: its own folder."""
    return str(home)


def _driver_pid(home: Path) -> int | None:
    said = _said(home)
    return said.pid if said else None


def _lives(home: Path, folder: Path) -> bool:
    from framework.adapters.host.process import command_line

    pid = _driver_pid(home)
    driver = pid is not None and str(folder / DRIVER) in command_line(pid).split(" ")
    return driver or running_pid(home / PID, _mark(home)) is not None


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def _write(path: Path, value: dict[str, object]) -> None:
    write_private(path, json.dumps(value, indent=1) + "\n")


def last_lines(log: Path, count: int) -> Iterator[str]:
    """The end of a log, for a person."""
    try:
        yield from log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except FileNotFoundError:
        return
