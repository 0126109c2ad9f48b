"""The state of each table as the coordinator knows it, and when that is reported to the control topic.

In: the draft of the state. Out: Publish effects with `StateChanged`, when a table's state or why it is blocked changes (at
most one a table in ten seconds) and when another reason or its figures do (in five minutes). Information only: no decision
is made from what was reported.
"""

from __future__ import annotations

import re

from framework.commit.events.event_types import Health, Holds, StateChanged, Subject
from framework.commit.machine.changed import changed
from framework.commit.machine.cycle import waiting_reason
from framework.commit.machine.effects import Publish
from framework.commit.machine.model import CoordinatorState, TablePhase, TableState
from framework.commit.machine.pauses import describe, holding, resume_command
from framework.commit.machine.reporting.blocked_remedies import blocked_remedy, failing_remedy
from framework.commit.machine.step_draft import StepDraft

_FIGURES = re.compile(r"[0-9]+")
STALLED_BATCH, STALLED_COMMIT = "FLOE-R150", "FLOE-R151"
STALLED_BATCH_REMEDY = (
    "look at `spark.log` and at what the phase needs (broker, catalog, store, executors); `floe doctor` asks each; "
    "killing the run is safe: the next one repeats the batch"
)
STALLED_COMMIT_REMEDY = (
    "the catalog or the store does not answer: `floe doctor` asks both; ending the process is safe, since the next "
    "coordinator finds out what became of the commit"
)


def table_health(state: CoordinatorState, table: TableState, now_ms: int | None = None) -> tuple[Health, str, str]:
    """State, reason and remedy of one table; at the last Tick, unless a time is given."""
    pause = holding(state.pauses, Holds.COMMITS, table.table)
    if pause is not None:
        return Health.PAUSED, describe(pause), f"`{resume_command(pause)}` resumes it"
    if table.failures >= state.limits.failed_after:
        return Health.FAILED, table.failure, failing_remedy(table.failure)
    reason = waiting_reason(state, table)
    if reason is not None:
        return Health.BLOCKED, reason, blocked_remedy(table.table, reason)
    if stalls_ms(state, table) <= (state.clock_ms if now_ms is None else now_ms):
        return Health.STALLED, "its commit is under way and makes no progress", STALLED_COMMIT_REMEDY
    if table.failures:
        return Health.DEGRADED, table.failure, failing_remedy(table.failure)
    return (Health.RUNNING if table.pending else Health.IDLE), "", ""


def stalls_ms(state: CoordinatorState, table: TableState) -> float:
    """When the commit that is under way counts as stalled; never where there is none."""
    if table.attempt is None or table.phase is not TablePhase.COMMITTING or state.limits.stalled_ms is None:
        return float("inf")
    return table.attempt.started_ms + state.limits.stalled_ms


def report_states(turn: StepDraft) -> None:
    """Publish what has changed. Trouble is reported and its end; pauses are in the log already."""
    if not turn.state.caught_up or turn.state.needs_proof is not None:
        return
    for table in list(turn.state.tables.values()):
        event, reported = _next(turn.state, table, turn.now_ms), _reported(turn.state, table)
        if event is None:
            continue
        if reported is None or not 0 <= turn.now_ms - reported.timestamp_ms < _pause_ms(turn.state, reported, event):
            turn.emit(Publish(event))
            turn.put_table(changed(table, reported=event))


def next_report_ms(state: CoordinatorState) -> int | None:
    """When `report_states` has something to say that it may not say yet; None when it has not."""
    if not state.caught_up or state.needs_proof is not None:
        return None
    times = []
    for table in state.tables.values():
        reported = _reported(state, table)
        event = _next(state, table, reported.timestamp_ms) if reported is not None else None
        if reported is not None and event is not None:
            times.append(reported.timestamp_ms + _pause_ms(state, reported, event))
        stalls = stalls_ms(state, table)
        if stalls < float("inf") and (reported is None or reported.code != STALLED_COMMIT):
            times.append(
                max(int(stalls), reported.timestamp_ms + state.limits.report_ms if reported is not None else 0)
            )
    return min(times, default=None)


def _reported(state: CoordinatorState, table: TableState) -> StateChanged | None:
    """The newest word on the table: our own, or what a coordinator before us left in the log."""
    return table.reported or state.reports.get(table.table)


def _pause_ms(state: CoordinatorState, reported: StateChanged, event: StateChanged) -> int:
    same = reported.state is event.state and (reported.code == STALLED_COMMIT) == (event.code == STALLED_COMMIT)
    # Why a table is blocked is a sentence of floe's own, and another one is another cause with another remedy: who put
    # something back that was not enough reads so. What others say of a failure may differ each time.
    is_other = event.state is Health.BLOCKED and _FIGURES.sub("", reported.reason) != _FIGURES.sub("", event.reason)
    return state.limits.retell_ms if same and not is_other else state.limits.report_ms


def _next(state: CoordinatorState, table: TableState, now_ms: int) -> StateChanged | None:
    """What is to be reported of a table at some time, if anything."""
    health, reason, remedy = table_health(state, table, now_ms)
    if health in (Health.IDLE, Health.PAUSED):
        health, reason, remedy = Health.RUNNING, "", ""
    stalled = health is Health.STALLED
    if stalled:  # coordinators and runs of earlier versions know no such word, and would stop at it
        health = Health.DEGRADED
    reported = _reported(state, table)
    before = reported.state if reported is not None else Health.RUNNING
    if health is before and (health is Health.RUNNING or reported is None or reported.reason == reason):
        return None
    since_ms = reported.since_ms if reported is not None and health is before else now_ms
    if stalled and table.attempt is not None:
        since_ms = table.attempt.started_ms
    code = STALLED_COMMIT if stalled else {Health.BLOCKED: "FLOE-R110", Health.RUNNING: ""}.get(health, "FLOE-R136")
    return StateChanged(
        Subject.TABLE, table.table, health, reason, remedy, code, table.failures, since_ms, now_ms, state.coordinator
    )
