"""Invariant 17: where tables are upserted, a run reads on when what it announced is committed, and not before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    DataComplete,
    DataWritten,
    Health,
    Holds,
    PauseChanged,
    TableCommitPolicy,
)
from framework.commit.watch import Watch
from framework.config.spec import WriteMode, WritePolicy
from framework.errors import DeadlinePassed, TableBlocked
from framework.plan.model import Plan
from framework.runtime.pipeline import pipeline_state
from framework.runtime.pipeline.pipeline_state import COMMIT_TIMEOUT_S, SILENT_FOR_S, PipelineRunStatus
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.retry_policy import ErrorStreak, gives_up
from testbed.record_samples import plan as sample_plan
from testbed.record_samples import policy


def plan(mode: WriteMode) -> Plan:
    write = WritePolicy(mode, key=("id",) if mode is WriteMode.UPSERT else ())
    return sample_plan(overrides=[("ns.t", replace(policy(), write=write))])


class Log(Watch):
    """The control topic as the run's thread has read it so far."""

    def __init__(self) -> None:
        super().__init__()
        self.end = 0
        self.low_water = 0

    def say(self, *events: DataWritten | DataComplete | CommitToTable | PauseChanged) -> None:
        for event in events:
            self.observe(self.end, event)
            self.end += 1

    def ask_for_low_water(self) -> None:
        self.everything_is_in(self.low_water)


@dataclass
class Run:
    """A run's standing, its log, a clock and what people and the control topic were told."""

    run_status: PipelineRunStatus
    log: Log
    clock: SimpleNamespace
    said: list[str] = field(default_factory=list)
    reported: list[Health] = field(default_factory=list)

    def is_held(self, has_an_end: bool = False) -> bool:
        return self.run_status.hold(has_an_end) is not None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[WriteMode, Run]:
    clock = SimpleNamespace(now_s=0.0, monotonic=lambda: clock.now_s, time=lambda: clock.now_s)
    monkeypatch.setattr(pipeline_state, "time", clock)
    runs = {}
    for mode in WriteMode:
        said: list[str] = []
        reported: list[Health] = []
        run_status = PipelineRunStatus(plan(mode), "run", WorkerReport("p"), said.append)
        publisher = SimpleNamespace(
            report_state=lambda name, run, state, *more, reported=reported: reported.append(state)
        )
        log = Log()
        run_status.attach(log, publisher)  # type: ignore[arg-type]
        runs[mode] = Run(run_status, log, clock, said, reported)
    return runs


@pytest.fixture
def run(made: dict[WriteMode, Run]) -> Run:
    return made[WriteMode.UPSERT]


def batch(number: int) -> tuple[DataWritten, DataComplete]:
    written = DataWritten("p", "run", number, "ns.t", "uuid", 0, (), (), TableCommitPolicy(0, 1, 1))
    return written, DataComplete("p", "run", number, (), Accounting(), Accounting(), ("ns.t",))


def commit(log: Log) -> CommitToTable:
    return CommitToTable("ns.t", "uuid", 1, "c", log.end, 0, 0, 0)


def test_the_next_batch_waits_for_the_commit_of_the_one_before(run: Run) -> None:
    """From the announcement on, before the run itself has seen it in the log, until the commit is told; in silence."""
    assert not run.is_held()
    run.run_status.announced(1)
    assert run.is_held()
    run.log.say(*batch(1))
    assert run.is_held()
    run.log.say(commit(run.log))
    assert not run.is_held()
    run.run_status.announced(2)
    assert run.is_held()
    assert run.said == []
    assert set(run.reported) == {Health.RUNNING}


def test_a_run_begins_when_what_an_older_run_announced_is_committed(run: Run) -> None:
    """A coordinator that died may have committed it without a word: the stored low-water mark says so, too."""
    run.log.say(*batch(7))
    assert run.is_held()
    run.log.low_water = run.log.end
    run.is_held()  # it asks for the mark
    assert not run.is_held()


def test_tables_that_are_appended_to_wait_for_no_commit(made: dict[WriteMode, Run]) -> None:
    """Batches of such pipelines go on while others wait for their interval."""
    run = made[WriteMode.APPEND]
    run.run_status.announced(1)
    run.log.say(*batch(1))
    assert not run.is_held()


def test_a_commit_that_does_not_come_is_said(run: Run) -> None:
    """After half a minute the state says DEGRADED, until it comes."""
    run.run_status.announced(1)
    run.log.say(*batch(1))
    run.is_held()
    run.clock.now_s += SILENT_FOR_S
    assert run.is_held()
    assert "reads nothing: a batch is announced for ns.t" in run.said[-1]
    assert run.reported[-1] is Health.DEGRADED
    run.log.say(commit(run.log))
    assert not run.is_held()
    assert run.said[-1] == "reads on"
    assert run.reported[-1] is Health.RUNNING


def test_a_run_that_is_to_end_does_not_wait_for_ever(run: Run) -> None:
    """Somebody waits for it: the deadline of a commit is its own."""
    run.run_status.announced(1)
    run.is_held(has_an_end=True)
    run.clock.now_s += COMMIT_TIMEOUT_S + 1
    with pytest.raises(DeadlinePassed, match="cannot catch up"):
        run.is_held(has_an_end=True)


def test_a_pause_comes_first(run: Run) -> None:
    """Who holds the reading is named, whatever waits for a commit besides."""
    run.run_status.announced(1)
    run.log.say(PauseChanged(Holds.READING, "p", True, "upkeep", "ann", 0))
    hold = run.run_status.hold(has_an_end=False)
    assert hold is not None
    assert hold.state is Health.PAUSED


def test_a_table_whose_rows_cannot_be_replaced_holds_the_pipeline(run: Run) -> None:
    """A run without an end tries again and says BLOCKED with what to do; one that is to end ends."""
    error = TableBlocked("no key", code="FLOE-R144", place="ns.t", remedy="add it")
    assert not gives_up(error, ErrorStreak(50, 0.0), now_s=1_000.0, has_an_end=False)
    assert gives_up(error, ErrorStreak(1, 0.0), now_s=1.0, has_an_end=True)
    assert gives_up(TableBlocked("dropped", place="ns.t"), ErrorStreak(1, 0.0), now_s=1.0, has_an_end=False)
    run.run_status.failed(error, failures=1, batch=1)
    assert run.reported == [Health.BLOCKED]
