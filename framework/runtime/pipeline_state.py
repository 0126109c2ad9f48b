"""How a pipeline stands, and what holds it: asked of the control topic, and said in it, in the report and to the person.

In: what the run meets (a hold, a failed batch, an announcement). Out: the report's state, `StateChanged` events, and the
reason why nothing is read for now. Decides nothing that the protocol depends on: all of it is information.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.commit.events.event_types import Health
from framework.commit.machine.condition import Condition, reading_hold
from framework.commit.watch import Newest
from framework.errors import FloeError
from framework.plan.model import Plan
from framework.runtime.control_watch import ControlWatch
from framework.runtime.state_publisher import StateTeller
from framework.runtime.worker_report import WorkerReport


class Standing:
    """Of one run of a pipeline. Before `attach` nothing holds it and nothing is told."""

    def __init__(self, plan: Plan, run_id: str, report: WorkerReport, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._run_id = run_id
        self._report = report
        self._say = say
        self._watch: ControlWatch | None = None
        self._teller: StateTeller | None = None
        self._troubled = False  # a batch has failed, and none was announced since
        self._tables: Callable[[], Mapping[str, str]] = dict

    def follow_tables(self, troubles: Callable[[], Mapping[str, str]]) -> None:
        """`troubles` gives the tables that are in trouble by themselves, with the reason of each."""
        self._tables = troubles

    def attach(self, watch: ControlWatch, teller: StateTeller) -> None:
        """What is asked of the pipeline through the control topic, and where its state is told."""
        self._watch, self._teller = watch, teller

    def tell(self, state: Health, reason: str = "", remedy: str = "", code: str = "", failures: int = 0) -> None:
        """Tell the control topic; a word that was said already is not said again."""
        if self._teller is not None:
            self._teller.tell(self._plan.pipeline, self._run_id, state, reason, remedy, code, failures)

    def failed(self, error: FloeError, failures: int) -> None:
        """A batch failed, the `failures`-th in a row, and is done again."""
        self._say(f"batch failed ({error.message}); attempt {failures + 1} follows")
        self._report.state, self._report.reason = "degraded", error.message
        self._troubled = True
        self.tell(Health.DEGRADED, error.message, error.remedy, error.code, failures)

    def announced(self) -> None:
        """A batch was: what troubled the run is over."""
        self._troubled = False

    def hold(self, has_an_end: bool) -> Condition | None:
        """Why nothing is read for now, as the control topic says; said when it begins and ends. Heartbeats go on meanwhile.

        Raises:
            FloeError: FLOE-R137, the run is to catch up and then to end, which it cannot while a person holds it.
        """
        hold = self._hold(has_an_end)
        # Figures alone are no news.
        if (hold is not None) != (self._report.state == "held"):
            self._say(f"reads nothing: {hold.reason}" if hold is not None else "reads on")
        if self._troubled:
            return hold
        troubles = self._tables()
        self._report.troubles.update(troubles)
        self._report.state, self._report.reason = ("held", hold.reason) if hold is not None else ("running", "")
        if hold is not None and hold.state is Health.BLOCKED:
            self.tell(hold.state, hold.reason, hold.remedy, hold.code)
        elif hold is None and troubles:
            self._report.state, self._report.reason = "degraded", _in_words(troubles)
            self.tell(Health.DEGRADED, self._report.reason, "fix the table; floe tries again every minute", "FLOE-R110")
        else:  # a pause stands in the log already; while it lasts the run is well
            self.tell(Health.RUNNING)
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
        if hold is not None and hold.state is Health.BLOCKED:
            watch.ask_for_low_water()
        elif hold is not None and has_an_end:
            said = f"pipeline {name} cannot catch up: {hold.reason}"
            raise FloeError(said, code="FLOE-R137", place=name, remedy=hold.remedy)
        return hold


def _in_words(troubles: Mapping[str, str]) -> str:
    table, reason = min(troubles.items())
    more = f" ({len(troubles) - 1} more)" if len(troubles) > 1 else ""
    return f"table {table} is in trouble: {reason}{more}"
