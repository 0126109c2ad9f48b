"""Figures from what driver and coordinator know: the same facts, judged by the same functions, as `floe status`.

In: the values that a run, its watch and a coordinator's state give at a moment. Out: figures for the metrics. Pure: the
time is an argument, and nothing is asked of anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    Health,
    Holds,
    PauseChanged,
    StateChanged,
    TableMeasured,
)
from framework.commit.machine.cycle import low_water
from framework.commit.machine.model import CoordinatorState, TableState, Unread
from framework.commit.machine.pauses import holding
from framework.commit.machine.reporting.condition import (
    HELD,
    PipelineFacts,
    TableFacts,
    pipeline_condition,
    table_condition,
)
from framework.commit.machine.reporting.health import table_health
from framework.commit.maintenance.health import needs_of
from framework.commit.objectives.budget import counted_and_bad
from framework.commit.objectives.fresh_time import FreshTime
from framework.commit.offsets import PartitionKey
from framework.commit.risks import recent
from framework.commit.watch import PipelineBacklog
from framework.config.values.objectives import NO_OBJECTIVES, Objective, Objectives
from framework.config.values.owners import NOBODY, Owners
from framework.metrics.figures import (
    CoordinatorFigures,
    ObjectiveFigures,
    PartitionFigures,
    PipelineFigures,
    Stall,
    TableFigures,
)
from framework.metrics.lag import EndsSeen
from framework.metrics.store_requests import Requests
from framework.runtime.batches.measures import RunMeasures
from framework.runtime.measures.commits import CommitMeasures


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run now. `reported` is its newest word on its state; `broken` why its chain is, if a coordinator
    in this process knows."""

    pipeline: str
    run: str
    positions: Mapping[PartitionKey, int]
    totals: Accounting
    batch: int
    reported: StateChanged | None
    pause: PauseChanged | None
    waiting: PipelineBacklog
    broken: str = ""
    silent_after_ms: int | None = None
    owners: Owners = NOBODY
    objectives: Objectives = NO_OBJECTIVES
    fresh: FreshTime | None = None
    requests: Requests = field(default_factory=dict)


def pipeline_figures(
    facts: RunFacts, measures: RunMeasures, now_ms: int, steady_ms: int, stalled_after_ms: int
) -> PipelineFigures:
    """One pipeline.

    Args:
        steady_ms: now, by the clock of the measures.
    """
    partitions = partition_figures(facts.positions, measures.ends, measures.newest_ms)
    progress = measures.progress
    stall = progress.stall(steady_ms, stalled_after_ms)
    has_ended = facts.reported is not None and facts.reported.state in (Health.STOPPED, Health.FAILED)
    condition = pipeline_condition(
        PipelineFacts(
            name=facts.pipeline,
            live=() if has_ended else (facts.run,),
            reports=(facts.reported,) if facts.reported is not None else (),
            lag=sum(each.lag for each in partitions),
            broken=facts.broken,
            missing_topics=(),
            foreign_offsets="",
            pause=facts.pause,
        )
    )
    since_ms = condition.since_ms
    state = condition.state
    is_held = condition.code == HELD or state in (Health.BLOCKED, Health.PAUSED)
    if stall is not None and not has_ended and not is_held:
        state, since_ms = Health.STALLED, now_ms - (steady_ms - stall.since_ms)
    return PipelineFigures(
        pipeline=facts.pipeline,
        state=state,
        since_ms=since_ms,
        batch=facts.batch,
        totals=facts.totals,
        partitions=partitions,
        phase=progress.phase,
        progress_ms=now_ms - (steady_ms - progress.progress_ms),
        stall=Stall(stall.phase, now_ms - (steady_ms - stall.since_ms)) if stall is not None else None,
        phase_seconds=progress.seconds_at(steady_ms),
        durations=measures.durations,
        announced=measures.announced_batches,
        failed=measures.failed_batches,
        waiting_batches=facts.waiting.batches,
        waiting_bytes=facts.waiting.bytes,
        dead_letters=dict(measures.letters),
        dropped=dict(measures.dropped),
        is_silent=facts.silent_after_ms is not None
        and not has_ended
        and steady_ms - measures.announced_ms >= facts.silent_after_ms,
        owners=facts.owners,
        objectives=tuple(_objectives(facts, now_ms)),
        requests=facts.requests,
    )


def _objectives(facts: RunFacts, now_ms: int) -> Iterator[ObjectiveFigures]:
    for objective, allowed in facts.objectives.allowed.items():
        if objective is not Objective.FRESHNESS:
            yield ObjectiveFigures(objective, float(allowed), *counted_and_bad(objective, facts.totals))
        elif facts.fresh is not None:
            counted, bad = facts.fresh.counted_ms(0, now_ms), facts.fresh.stale_in_all_ms(now_ms)
            yield ObjectiveFigures(objective, float(allowed), counted / 1000, bad / 1000)


def partition_figures(
    positions: Mapping[PartitionKey, int], ends: EndsSeen, newest_ms: Mapping[PartitionKey, int]
) -> tuple[PartitionFigures, ...]:
    """Every partition that was looked at and has a position."""
    return tuple(
        PartitionFigures(
            *key,
            safe_offset=positions[key],
            log_start=fact.log_start,
            log_end=fact.log_end,
            behind_since_ms=ends.behind_since_ms(key, positions[key], newest_ms.get(key)),
        )
        for key, fact in sorted(ends.facts.items())
        if key in positions
    )


def coordinator_figures(
    control_topic: str,
    state: CoordinatorState,
    measures: CommitMeasures,
    now_ms: int,
    measured: Mapping[str, TableMeasured] | None = None,
    takeovers_ms: Sequence[int] = (),
) -> CoordinatorFigures:
    """One coordinator, and, while it owns the control topic, the tables that it knows. One that hangs owns nothing: what
    it knows is old, and its leadership is given to another one."""
    owns = measures.owns and not measures.hangs
    figures = CoordinatorFigures(
        control_topic,
        owns,
        measures.owner_since_ms,
        measures.takeovers,
        outcomes=dict(measures.outcomes),
        durations=measures.durations,
        oldest_request_ms={catalog: now_ms - age_ms for catalog, age_ms in measures.oldest_ms().items()},
    )
    if not owns or not state.assigned:
        return figures
    names = sorted(set(state.tables) | set(state.last_commits))
    return replace(
        figures,
        leader_epoch=state.leader_epoch,
        low_water=low_water(state),
        position=state.position,
        recent_takeovers=len(recent(takeovers_ms, now_ms)),
        tables=tuple(_with_health(_table(state, name, now_ms), (measured or {}).get(name)) for name in names),
    )


def _with_health(figures: TableFigures, measured: TableMeasured | None) -> TableFigures:
    if measured is None:
        return figures
    needs = dict.fromkeys(needs_of(measured.health), 1)
    return replace(figures, health=measured.health, measured_ms=measured.timestamp_ms, needs=needs)


def _table(state: CoordinatorState, name: str, now_ms: int) -> TableFigures:
    table: TableState | None = state.tables.get(name)
    commit: CommitToTable | None = state.last_commits.get(name)
    pending, unread = (len(table.pending), table.unread or Unread(0)) if table is not None else (0, Unread(0))
    waits = table is not None and pending > 0
    condition = table_condition(
        TableFacts(
            table=name,
            pending=pending + unread.announcements if waits else 0,
            examined=table_health(state, table, now_ms)[:2] if table is not None else (Health.IDLE, ""),
            report=state.reports.get(name),
            last_commit_ms=commit.timestamp_ms if commit is not None else None,
            pause=holding(state.pauses, Holds.COMMITS, name),
            coordinated=True,
            waits_since_ms=_waits_since_ms(table) if waits and table is not None else None,
        )
    )
    valid_through_ms = table.valid_through_ms if table is not None else None
    if valid_through_ms is None and commit is not None:
        valid_through_ms = commit.valid_through_ms
    last_commit_ms = commit.timestamp_ms if commit is not None else None
    if table is None or not waits:
        return TableFigures(name, condition.state, valid_through_ms=valid_through_ms, last_commit_ms=last_commit_ms)
    return TableFigures(
        name,
        condition.state,
        pending + unread.announcements,
        table.pending_rows + unread.rows,
        table.pending_files + unread.files,
        table.pending_bytes + unread.bytes,
        _waits_since_ms(table),
        valid_through_ms,
        last_commit_ms,
    )


def _waits_since_ms(table: TableState) -> int:
    """When the oldest announcement that waits was made, or, where its record has no time, was read."""
    first = table.pending.first
    written_ms = first.timestamp_ms if first is not None else None
    return written_ms if written_ms is not None else table.first_pending_ms
