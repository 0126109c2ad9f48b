"""How a pipeline stands, and what holds it: asked of the control topic, and said in it, in the report and to the
person.

In: what the run meets (a hold, a failed batch, an announcement). Out: the report's state, `StateChanged` events, and
the reason why nothing is read for now. Decides nothing that the protocol depends on: all of it is information.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from framework.commit.events.event_types import Health, PauseChanged, StateChanged, Subject, TableChanged
from framework.commit.machine.reporting.condition import Condition, commit_hold, reading_hold
from framework.commit.watch import Newest, PipelineBacklog
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import DeadlinePassed, FloeError
from framework.plan.model import Plan
from framework.runtime.pipeline.control_watch import ControlWatch
from framework.runtime.pipeline.state_publisher import StatePublisher
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.retry_policy import holds_batches

# A commit comes within moments; while it does, nobody is notified that the run waits for it.
SILENT_FOR_S = 30.0
# A run that is to end waits so long for the commit of one batch.
COMMIT_TIMEOUT_S = 120.0


class PipelineRunStatus:
    """Of one run of a pipeline. Before `attach` nothing holds it and nothing is reported."""

    def __init__(self, plan: Plan, run_id: str, report: WorkerReport, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._run_id = run_id
        self._report = report
        self._say = say
        self._watch: ControlWatch | None = None
        self._publisher: StatePublisher | None = None
        self.reported: StateChanged | None = None
        """The newest word on the run's state, whether or not it was due to be reported."""
        self._troubled = False  # a batch has failed, and none was announced since
        self._tables: Callable[[], Mapping[str, str]] = dict
        self._announced_batch = 0  # by this run
        self._awaits_commit_since_s: float | None = None

    def follow_tables(self, troubles: Callable[[], Mapping[str, str]]) -> None:
        """`troubles` gives the tables that are in trouble by themselves, with the reason of each."""
        self._tables = troubles

    def attach(self, watch: ControlWatch, publisher: StatePublisher) -> None:
        """What is asked of the pipeline through the control topic, and where its state is reported."""
        self._watch, self._publisher = watch, publisher

    def report_state(
        self,
        state: Health,
        reason: str = "",
        remedy: str = "",
        code: str = "",
        failures: int = 0,
        since_ms: int | None = None,
    ) -> None:
        """Tell the control topic; a word that was said already is not said again."""
        name, now_ms, reported = self._plan.pipeline, int(time.time() * 1000), self.reported
        goes_on = reported is not None and (reported.state, reported.code) == (state, code)
        began_ms = reported.since_ms if reported is not None and goes_on else now_ms
        began_ms = began_ms if since_ms is None else since_ms
        self.reported = StateChanged(
            Subject.PIPELINE, name, state, reason, remedy, code, failures, began_ms, now_ms, self._run_id
        )
        if self._publisher is not None:
            self._publisher.report_state(name, self._run_id, state, reason, remedy, code, failures, since_ms)

    def report_change(self, table: str, changes: tuple[str, ...], cause: str) -> None:
        """Tell the control topic that this run makes or changes a table, and why."""
        if self._publisher is not None:
            now_ms = int(time.time() * 1000)
            change = TableChanged(table, self._plan.pipeline, self._run_id, changes, cause, now_ms)
            self._publisher.report_change(change)

    @property
    def run(self) -> str:
        return self._run_id

    def stalls(self, condition: Condition) -> bool:
        """The run makes no progress; returns whether that is news. In the log it is DEGRADED with a code of its own:
        runs and coordinators of earlier versions stop at a state that they do not know."""
        is_news = self.reported is None or (self.reported.code, self.reported.reason) != (
            condition.code,
            condition.reason,
        )
        self.report_state(
            Health.DEGRADED, condition.reason, condition.remedy, condition.code, since_ms=condition.since_ms
        )
        return is_news

    def reading_pause(self) -> PauseChanged | None:
        """What a person holds, as the control topic says."""
        return self._watch.reading_pause(self._plan.pipeline) if self._watch is not None else None

    def waiting(self) -> PipelineBacklog:
        """What of the pipeline is announced and not known to be in its tables."""
        return self._watch.waiting(self._plan.pipeline) if self._watch is not None else PipelineBacklog()

    def visible_through_ms(self, all_read_ms: int | None) -> int | None:
        """Up to when all records are in the tables; None where nobody said.

        Args:
            all_read_ms: when the source was seen to hold nothing that is not announced, None where it holds something.
        """
        name, watch = self._plan.pipeline, self._watch
        if watch is None:
            return None
        is_settled = watch.has_seen(name, self._announced_batch) and not watch.waiting(name).batches
        return all_read_ms if all_read_ms is not None and is_settled else watch.valid_through_ms(name)

    def failed(self, error: FloeError, failures: int, batch: int) -> None:
        """A batch failed, the `failures`-th in a row, and is done again."""
        text = f"batch failed ({error.message}); attempt {failures + 1} follows"
        self._say(LogLine(text, Level.WARNING, batch=batch))
        self._report.state, self._report.reason = "degraded", error.reported
        self._troubled = True
        state = Health.BLOCKED if holds_batches(error) else Health.DEGRADED
        self.report_state(state, error.reported, error.remedy, error.code, failures)

    def announced(self, batch: int) -> None:
        """A batch of this run was: what troubled the run is over."""
        self._troubled = False
        self.awaits(batch)

    def awaits(self, batch: int) -> None:
        """The newest batch of this run that is announced; where tables are upserted, the next one waits for its
        commit."""
        self._announced_batch = batch

    def hold(self, has_an_end: bool) -> Condition | None:
        """Why nothing is read for now, as the control topic says; said when it begins and ends. Heartbeats go on
        meanwhile.

        Raises:
            FloeError: FLOE-R137, the run is to catch up and then to end, which it cannot while a person holds it.
            DeadlinePassed: nor can it while no batch is committed, on which the next one rests.
        """
        hold = self._hold(has_an_end)
        if hold is not None and self._awaited_s() < SILENT_FOR_S:
            return hold  # between any two batches whose tables are upserted
        # Figures alone are no news.
        if (hold is not None) != (self._report.state == "held"):
            self._say(LogLine(f"reads nothing: {hold.reason}", Level.WARNING) if hold is not None else "reads on")
        if self._troubled:
            return hold
        troubles = self._tables()
        self._report.troubles.update(troubles)
        self._report.state, self._report.reason = ("held", hold.reason) if hold is not None else ("running", "")
        if hold is not None and hold.state is not Health.PAUSED:
            self.report_state(hold.state, hold.reason, hold.remedy, hold.code)
        elif hold is None and troubles:
            self._report.state, self._report.reason = "degraded", _in_words(troubles)
            self.report_state(
                Health.DEGRADED, self._report.reason, "fix the table; floe tries again every minute", "FLOE-R110"
            )
        else:  # a pause stands in the log already; while it lasts the run is well
            self.report_state(Health.RUNNING)
        return hold

    def newest_announced(self) -> Mapping[str, Newest]:
        """By table uuid what was announced last for it, as the control topic says."""
        return self._watch.newest(self._plan.pipeline) if self._watch is not None else {}

    def _hold(self, has_an_end: bool) -> Condition | None:
        if self._watch is None:
            return None
        name, announce, watch = self._plan.pipeline, self._plan.announce, self._watch
        hold = reading_hold(
            watch.reading_pause(name), watch.waiting(name), announce.max_waiting_batches, announce.max_waiting_bytes
        )
        is_paused = hold is not None and hold.state is Health.PAUSED
        awaited = None
        if self._plan.is_upserted and not is_paused:
            awaited = commit_hold(watch.waiting(name), watch.has_seen(name, self._announced_batch))
            hold = awaited or hold
        if awaited is None:
            self._awaits_commit_since_s = None
        elif self._awaits_commit_since_s is None:
            self._awaits_commit_since_s = time.monotonic()
        if awaited is not None and has_an_end and self._awaited_s() > COMMIT_TIMEOUT_S:
            said = f"pipeline {name} cannot catch up: {awaited.reason}"
            raise DeadlinePassed(said, code=awaited.code, place=name, remedy=awaited.remedy)
        if hold is not None and hold.state is not Health.PAUSED:
            watch.ask_for_low_water()
        elif hold is not None and has_an_end:
            said = f"pipeline {name} cannot catch up: {hold.reason}"
            raise FloeError(said, code="FLOE-R137", place=name, remedy=hold.remedy)
        return hold

    def _awaited_s(self) -> float:
        """For how long the commit of the last batch has been waited for; without end where something else holds the
        run."""
        since_s = self._awaits_commit_since_s
        return float("inf") if since_s is None else time.monotonic() - since_s


def _in_words(troubles: Mapping[str, str]) -> str:
    table, reason = min(troubles.items())
    more = f" ({len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return f"table {table} is in trouble: {reason}{more}"
