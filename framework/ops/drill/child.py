"""One step of a drill in a process of its own, which may be killed: `python -m framework.ops.drill.child TASK`.

In: a task as JSON. Out: an exit code as `floe run` has it, and the last line of standard error says why. The pipeline runs as
the target says, on Spark of this machine, without the target's monitoring, lineage and maintenance. Whoever started this process
holds its standard input: when that ends, so does the process, with all that it has started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial

from pyiceberg.catalog import Catalog

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.project.files import load_or_raise
from framework.adapters.secrets import resolve
from framework.commit.recovery.settle_offsets import OffsetsOrigin, PipelineOffsets, Settlement, settle
from framework.config.spec import LineageSpec, MonitoringSpec, TargetSpec
from framework.errors import ConfigError, FloeError, SetupError
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.recovery.discard import ControlPlace
from framework.recovery.rebase import Recovery
from framework.recovery.rollback import decide_rollback, perform_rollback
from framework.recovery.source_offsets import perform, read_places
from framework.recovery.table_replay import decide_replay, perform_replay
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.job import open_catalog, run_job

REFUSED = "the drill refuses the catalog"
_MASTER = "local[2,4]"


class ChildStep(str, Enum):
    RUN = "run"
    COORDINATE = "coordinate"
    ROLL_BACK = "roll back"
    REPLAY = "replay"
    SET_OFFSETS = "set offsets"


@dataclass(frozen=True)
class ChildTask:
    """`refuse_s`: how long the coordinator gets errors in place of the catalog's answers. `table` and `snapshot_id` are for
    `roll back` and `replay`."""

    file: str
    target: str
    step: ChildStep
    refuse_s: float = 0
    table: str = ""
    snapshot_id: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildTask:
        found = json.loads(text)
        return cls(**{**found, "step": ChildStep(found["step"])})


class RefusingCatalog(IcebergCatalog):
    """A catalog that nobody can ask until a moment: the error is the one of a catalog that is down."""

    def __init__(self, name: str, target: TargetSpec, until: float) -> None:
        super().__init__(None, name, partial(resolve, target.catalogs[name]), target.allow_locations)
        self._until = until

    def open(self) -> tuple[Catalog, TableCommits]:
        if time.monotonic() < self._until:
            _say(REFUSED)
            raise SetupError(REFUSED, code="FLOE-E201", remedy="wait: the drill lets it answer again")
        return super().open()


def main(task: ChildTask) -> None:
    """
    Raises:
        FloeError: as the verb that does the same.
    """
    (loaded,) = load_or_raise((task.file,), task.target)
    target = replace(loaded.target, spark_master=_MASTER, monitoring=MonitoringSpec(), lineage=LineageSpec())
    target = replace(target, maintenance=replace(target.maintenance, enabled=False))
    loaded = replace(loaded, target=target)
    plan = compile_plan(loaded)
    kafka = resolve(target.kafka[plan.read.connection])
    if task.step is ChildStep.RUN:
        run_job((loaded,), True, _say)
    elif task.step is ChildStep.COORDINATE:
        _coordinate(target, plan, kafka, task.refuse_s)
    elif task.step is ChildStep.ROLL_BACK:
        at = ControlPlace(target.prefix, kafka, plan.announce.control_topic, open_catalog(target, ()))
        perform_rollback(at, decide_rollback(at, task.table, task.snapshot_id, False, True), "floe drill")
    else:
        at_pipeline = Recovery(plan, target.prefix, kafka, open_catalog(target, ()), _say)
        if task.step is ChildStep.REPLAY:
            perform_replay(at_pipeline, loaded, decide_replay(at_pipeline, task.table, None), _say)
        else:
            _set_offsets(at_pipeline)


def _coordinate(target: TargetSpec, plan: Plan, kafka: dict[str, str], refuse_s: float) -> None:
    """Commit what is announced, until SIGTERM."""
    until = time.monotonic() + refuse_s
    catalog = IcebergTables.over({name: RefusingCatalog(name, target, until) for name in target.catalogs})
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    coordinator = Coordinator(kafka, plan.commit.coordinator_group, plan.announce.control_topic, catalog, _say)
    coordinator.start()
    while not stop.wait(0.1) and coordinator.alive:
        pass
    coordinator.stop(is_done=stop.is_set())
    if coordinator.error is not None:
        raise coordinator.error


def _set_offsets(at: Recovery) -> None:
    """To the end of the pipeline's announcements."""

    def decide(now: PipelineOffsets) -> Settlement:
        return settle(now, OffsetsOrigin.LOG, {}, allow_loss=False, allow_duplicates=False)

    perform(at.where, at.catalog, decide, decide(read_places(at.where, at.catalog)), "floe drill", "floe drill")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _end_with_parent() -> None:
    while os.read(0, 1):  # not through `sys.stdin`, whose lock would be held when the process ends
        pass
    os.killpg(0, signal.SIGKILL)  # this process leads a session: Java and the tasks' processes are in it


def _start(arguments: Iterable[str]) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    (text,) = arguments
    try:
        main(ChildTask.from_json(text))
    except FloeError as error:
        findings = error.diagnostics if isinstance(error, ConfigError) else ()
        _say(f"{'; '.join([error.message, *(each.message for each in findings if each.is_error)])} [{error.code}]")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(_start(sys.argv[1:]))
