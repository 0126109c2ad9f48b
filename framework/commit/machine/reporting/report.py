"""What the coordinator's state says to people: the plain report behind `floe status`.

In: a `CoordinatorState`. Out: frozen values that `dataclasses.asdict` turns into JSON. Offsets are control offsets,
except `ends`, which are source offsets; times are milliseconds since 1970. Keeps invariant 10: a table that waits says
why.
"""

from __future__ import annotations

from dataclasses import dataclass

from framework.commit.events.event_types import Accounting, CommitToTable
from framework.commit.machine.cycle import low_water, waiting_reason
from framework.commit.machine.model import CoordinatorState, PipelineState, TablePhase, TableState
from framework.commit.machine.schedule import due_at_ms


@dataclass(frozen=True)
class PipelineReport:
    """`ends`: topic -> partition -> the safe source offset. `state` is ok or blocked."""

    pipeline: str
    state: str
    reason: str
    run: str
    batch: int
    ends: dict[str, dict[int, int]]
    topic_ids: dict[str, str]
    totals: Accounting
    valid_through_ms: int | None
    visible_through_ms: int | None
    repeats: int


@dataclass(frozen=True)
class TableReport:
    """`state` is ok (nothing waits), waiting, loading, committing, degraded, failed or blocked; `reason` says why.

    `progress` is the control offset below which everything is in the table, None when it was not examined yet.
    `pending_by_pipeline` counts announcements.
    """

    table: str
    state: str
    reason: str
    progress: int | None
    pending_announcements: int
    pending_files: int
    pending_rows: int
    pending_bytes: int
    pending_by_pipeline: dict[str, int]
    oldest_pending_offset: int | None
    due_at_ms: int | None
    retry_at_ms: int | None
    failures: int
    repeats: int
    valid_through_ms: int | None
    last_commit: CommitToTable | None


@dataclass(frozen=True)
class Report:
    """`state` is waiting (owns nothing), catching_up, running or stopped."""

    state: str
    reason: str
    coordinator: str
    control_topic_id: str
    low_water: int
    position: int
    pipelines: dict[str, PipelineReport]
    tables: dict[str, TableReport]
    open_requests: tuple[str, ...]


def snapshot(state: CoordinatorState) -> Report:
    """The state as a report. Tables of which nothing waits are named too, if the log reports a commit to them."""
    tables = {name: _table(state, table) for name, table in state.tables.items()}
    for name, commit in state.last_commits.items():
        if name not in tables:
            tables[name] = _quiet_table(name, commit)
    return Report(
        state=_overall(state),
        reason=state.stopped.message if state.stopped is not None else "",
        coordinator=state.coordinator,
        control_topic_id=state.control_topic_id,
        low_water=low_water(state),
        position=state.position,
        pipelines={name: _pipeline(pipeline) for name, pipeline in sorted(state.pipelines.items())},
        tables=dict(sorted(tables.items())),
        open_requests=tuple(sorted(r.request_id for r in state.requests.values() if r.answered_ms is None)),
    )


def _overall(state: CoordinatorState) -> str:
    if state.stopped is not None:
        return "stopped"
    if not state.assigned:
        return "waiting"
    return "running" if state.caught_up else "catching_up"


def _pipeline(pipeline: PipelineState) -> PipelineReport:
    link = pipeline.link
    ends: dict[str, dict[int, int]] = {}
    topic_ids: dict[str, str] = {}
    for r in link.ranges if link is not None else ():
        ends.setdefault(r.topic, {})[r.partition] = r.end
        topic_ids[r.topic] = r.topic_id
    return PipelineReport(
        pipeline=pipeline.pipeline,
        state="ok" if pipeline.broken is None else "blocked",
        reason=pipeline.broken or "",
        run=link.run if link is not None else "",
        batch=link.batch if link is not None else 0,
        ends=ends,
        topic_ids=topic_ids,
        totals=link.totals if link is not None else Accounting(),
        valid_through_ms=pipeline.valid_through_ms,
        visible_through_ms=pipeline.visible_through_ms,
        repeats=pipeline.repeats,
    )


def _table(state: CoordinatorState, table: TableState) -> TableReport:
    by_pipeline: dict[str, int] = {}
    for announcement in table.pending:
        name = announcement.event.pipeline
        by_pipeline[name] = by_pipeline.get(name, 0) + 1
    due = due_at_ms(state, table)
    return TableReport(
        table=table.table,
        state=_table_state(state, table),
        reason=waiting_reason(state, table) or table.failure,
        progress=table.recorded if table.table_uuid is not None else None,
        pending_announcements=len(table.pending),
        pending_files=table.pending_files,
        pending_rows=table.pending_rows,
        pending_bytes=table.pending_bytes,
        pending_by_pipeline=by_pipeline,
        oldest_pending_offset=table.first_offset,
        due_at_ms=due,
        retry_at_ms=table.retry_at_ms,
        failures=table.failures,
        repeats=table.repeats,
        valid_through_ms=table.valid_through_ms,
        last_commit=state.last_commits.get(table.table),
    )


def _table_state(state: CoordinatorState, table: TableState) -> str:
    if not table.pending:
        return "ok"
    if table.failures >= state.limits.failed_after:
        return "failed"
    if waiting_reason(state, table) is not None:
        return "blocked"
    if table.failures:
        return "degraded"
    return {TablePhase.COMMITTING: "committing", TablePhase.LOADING: "loading"}.get(table.phase, "waiting")


def _quiet_table(name: str, commit: CommitToTable) -> TableReport:
    return TableReport(
        table=name,
        state="ok",
        reason="",
        progress=commit.control_offset,
        pending_announcements=0,
        pending_files=0,
        pending_rows=0,
        pending_bytes=0,
        pending_by_pipeline={},
        oldest_pending_offset=None,
        due_at_ms=None,
        retry_at_ms=None,
        failures=0,
        repeats=0,
        valid_through_ms=commit.valid_through_ms,
        last_commit=commit,
    )
