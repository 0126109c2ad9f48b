"""The six drills: what each does to its pipeline, step by step, and what must be seen after each step.

In: a world and the names of one drill. Out: the steps as they were seen, and the records that the tables must hold in the end;
or a `DrillFailed`. A fault that did not come is a failure: what was not tried is not passed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from framework.adapters.host.private_files import open_private, write_private
from framework.adapters.host.process import python, python_environment
from framework.errors import StateDisagreement
from framework.ops.drill.child import REFUSED, ChildStep, ChildTask
from framework.ops.drill.model import KINDS, RECORDS, Drill, DrillNames, JudgedRows, Row, judge_rows, records
from framework.ops.drill.scratch_world import DrillWorld

STEP_TIMEOUT_S = 180.0
OUTAGE_S = 8.0
_KILLED = -signal.SIGKILL
_FILE = """\
apiVersion: floe/v1
kind: Pipeline
metadata: {{name: {name}}}
source:
  kafka: {{connection: {connection}, topics: [{topic}], starting_offsets: earliest}}
  format: {{type: json}}
  schema: {{id: long, kind: string, note: string}}
routes:
  rules: [{{table: "{tables}.{{kind}}"}}]
  allow_tables: ["{tables}.*"]
  unrouted: fail
tables: {{defaults: {{commit: {{interval: 1s}}}}}}
errors: {{policy: fail}}
commit: {{control_topic: {control_topic}}}
"""


class DrillFailed(Exception):
    """What was seen is not what had to be seen; the text says what."""


@dataclass
class Scene:
    """One drill under way. `seen` are its steps, `produced` the records until now."""

    world: DrillWorld
    names: DrillNames
    folder: Path
    say: Callable[[str], None]
    seen: list[str] = field(default_factory=list)
    produced: list[Row] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def note(self, text: str) -> None:
        self.seen.append(text)
        self.say(text)

    def produce(self) -> None:
        rows = records(len(self.produced), RECORDS)
        self.world.produce(self.names, rows)
        self.produced += rows
        self.note(f"{len(self.produced):,} records are in the topic")

    # ---- steps in processes of their own ----------------------------------------------------------------------------

    def start(
        self, step: ChildStep, fault: str = "", refuse_s: float = 0, table: str = "", snapshot_id: int = 0
    ) -> ChildProcess:
        """Start a step; `fault` kills its process at that point, the others are of its task."""
        file = self.folder / "drill.yaml"
        tables = self.world.table(self.names, "x").removesuffix(".x")
        write_private(file, _FILE.format(
            name=self.names.pipeline, connection=self.world.connection, topic=self.names.topic, tables=tables,
            control_topic=self.names.control_topic,
        ))  # fmt: skip
        task = ChildTask(str(file), self.world.named, step, refuse_s, table, snapshot_id)
        log = self.folder / f"{len(list(self.folder.iterdir()))}.log"
        found = ChildProcess(task, log, {"FLOE_FAULT": f"{fault}=kill" if fault else ""})
        self.stack.callback(found.end)
        return found

    def finish(self, step: ChildStep, text: str, table: str = "", snapshot_id: int = 0) -> None:
        """A step that has to end well."""
        child = self.start(step, table=table, snapshot_id=snapshot_id)
        if code := child.wait():
            raise DrillFailed(f"{text} ended with {code}: {child.last_words}")
        self.note(text)

    def refused(self, step: ChildStep, text: str, error_code: str) -> None:
        """A step that has to be refused, for one reason."""
        child = self.start(step)
        code = child.wait()
        if code != StateDisagreement.exit_code or not child.last_words.endswith(f"[{error_code}]"):
            raise DrillFailed(f"{text} was to be refused ({error_code}) and ended with {code}: {child.last_words}")
        self.note(f"{text} is refused ({error_code}), and reads nothing")

    def crash(self, step: ChildStep, point: str, text: str) -> None:
        """A step that has to die at a point."""
        child = self.start(step, point)
        if (code := child.wait()) != _KILLED:
            raise DrillFailed(f"the process was to be killed ({text}) and ended with {code}: {child.last_words}")
        self.note(text)

    # ---- what is there ----------------------------------------------------------------------------------------------

    def announced(self, rows: int) -> None:
        found = self.world.announced(self.names)
        if found != rows:
            raise DrillFailed(f"announcements name {found:,} rows, not {rows:,}")
        self.note(f"announcements name {found:,} rows")

    def in_tables(self, rows: int) -> None:
        found = len(self.world.rows(self.names))
        if found != rows:
            raise DrillFailed(f"the tables hold {found:,} rows, not {rows:,}")
        self.note(f"the tables hold {found:,} rows")

    def commits(self, child: ChildProcess) -> None:
        """Until a coordinator has said that every announcement is in its table."""
        limit = time.monotonic() + STEP_TIMEOUT_S
        while not self.world.is_settled(self.names):
            if not child.is_running or time.monotonic() > limit:
                raise DrillFailed(f"the coordinator commits nothing more: {self.judged()}; {child.last_words}")
            time.sleep(0.5)
        if (code := child.end(signal.SIGTERM)) != 0:
            raise DrillFailed(f"the coordinator ended with {code}: {child.last_words}")
        self.note("a coordinator has committed what was announced")

    def judged(self) -> JudgedRows:
        return judge_rows(self.produced, self.world.rows(self.names))


class ChildProcess:
    """A step in a session of its own, so that it ends with all that it has started."""

    def __init__(self, task: ChildTask, log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        with open_private(log) as output:
            self._process = subprocess.Popen(
                python("-m", "framework.ops.drill.child", task.to_json()),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=python_environment(**environment),
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def last_words(self) -> str:
        return (self.output.strip().splitlines() or ["it said nothing"])[-1]

    def wait(self) -> int:
        try:
            return self._process.wait(STEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DrillFailed(f"a step takes more than {STEP_TIMEOUT_S:.0f} s: {self.last_words}") from None

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it, and whatever it has left behind."""
        if self.is_running and number is not signal.SIGKILL:
            self._process.send_signal(number)
            self.wait()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait(30)


# ---- the drills ---------------------------------------------------------------------------------------------------------


def _crash_before_announcement(at: Scene) -> None:
    at.produce()
    at.crash(ChildStep.RUN, "files-written", "kill -9 of the driver with its files written")
    at.announced(0)
    at.finish(ChildStep.RUN, "the same command again")


def _crash_before_commit(at: Scene) -> None:
    at.produce()
    at.crash(ChildStep.RUN, "before-commit", "kill -9 of the driver before the first commit")
    at.announced(RECORDS)
    at.in_tables(0)
    at.finish(ChildStep.RUN, "the same command again")


def _catalog_outage(at: Scene) -> None:
    at.produce()
    at.crash(ChildStep.RUN, "announced", "kill -9 of the driver with its files announced")
    at.announced(RECORDS)
    coordinator = at.start(ChildStep.COORDINATE, refuse_s=OUTAGE_S)
    at.commits(coordinator)
    refused = coordinator.output.count(REFUSED)
    if not refused:
        raise DrillFailed("the coordinator asked the catalog for nothing during the outage")
    at.note(f"for {OUTAGE_S:.0f} s this coordinator got errors in place of the catalog's answers, {refused} of them")


def _lost_coordinator(at: Scene) -> None:
    at.produce()
    at.crash(ChildStep.RUN, "announced", "kill -9 of the driver with its files announced")
    at.announced(RECORDS)
    at.crash(ChildStep.COORDINATE, "committed", "kill -9 of the coordinator after a commit that it has not recorded")
    at.commits(at.start(ChildStep.COORDINATE))
    at.finish(ChildStep.RUN, "the same command again, with nothing left to read")


def _rollback_and_replay(at: Scene) -> None:
    at.produce()
    at.finish(ChildStep.RUN, "a run")
    table, first = at.world.table(at.names, KINDS[0]), at.world.head(at.names, KINDS[0])
    at.produce()
    at.finish(ChildStep.RUN, "another run")
    at.finish(
        ChildStep.ROLL_BACK,
        f"table {KINDS[0]} rolled back to the snapshot of the first run",
        table=table,
        snapshot_id=first,
    )
    at.in_tables(2 * RECORDS - RECORDS // len(KINDS))
    at.finish(ChildStep.REPLAY, f"what table {KINDS[0]} lacked replayed", table=table)


def _lost_offsets(at: Scene) -> None:
    at.produce()
    at.finish(ChildStep.RUN, "a run")
    if at.world.forget_offsets(at.names):
        raise DrillFailed("the consumer group could not be deleted")
    at.note("the consumer group is deleted")
    at.produce()
    at.refused(ChildStep.RUN, "the same command", "FLOE-R314")
    at.in_tables(RECORDS)
    at.finish(ChildStep.SET_OFFSETS, "offsets set from the announcements")
    at.finish(ChildStep.RUN, "the same command again")


STEPS: Mapping[Drill, Callable[[Scene], None]] = {
    Drill.CRASH_BEFORE_ANNOUNCEMENT: _crash_before_announcement,
    Drill.CRASH_BEFORE_COMMIT: _crash_before_commit,
    Drill.CATALOG_OUTAGE: _catalog_outage,
    Drill.LOST_COORDINATOR: _lost_coordinator,
    Drill.ROLLBACK_AND_REPLAY: _rollback_and_replay,
    Drill.LOST_OFFSETS: _lost_offsets,
}
