"""Faults as figures: what a process knows of itself before one begins, and while it lasts.

In: a minute. Out: the Figures of that minute. Each fault is one that operators meet; what it looks like in figures is
what the code makes of it: `tests/unit/runtime/test_figures.py` and the tests on real servers show that it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from framework.commit.events.event_types import Accounting, Health
from framework.config.values.objectives import Objective
from framework.metrics.definitions import BATCH_BOUNDS_S
from framework.metrics.figures import (
    CoordinatorFigures,
    Figures,
    Histogram,
    ObjectiveFigures,
    PartitionFigures,
    PipelineFigures,
    RunPhase,
    Service,
    Stall,
    TableFigures,
)

BEGINS_MIN = 10


def pipeline(minute: int) -> PipelineFigures:
    """A pipeline that is well and reads a thousand records a minute."""
    now_ms = minute * 60_000
    read = 1_000 * minute
    return PipelineFigures(
        pipeline="orders",
        state=Health.RUNNING,
        since_ms=0,
        batch=minute,
        totals=Accounting(read, read),
        partitions=(PartitionFigures("orders", 0, read, 1, read + 10, now_ms - 1_000),),
        phase=RunPhase.WAITING,
        progress_ms=now_ms,
        stall=None,
        phase_seconds={RunPhase.WAITING: minute * 50.0, RunPhase.WRITING: minute * 10.0},
        durations=Histogram(BATCH_BOUNDS_S).with_one(3.0),
        announced=minute,
        failed=0,
        waiting_batches=1,
        waiting_bytes=1_000,
        objectives=(
            ObjectiveFigures(Objective.FRESHNESS, 0.01, minute * 60.0, 0.0),
            ObjectiveFigures(Objective.COMPLETE, 0.001, read, read // 5_000),  # a fifth of what is allowed
        ),
    )


def coordinator(minute: int) -> CoordinatorFigures:
    now_ms = minute * 60_000
    table = TableFigures("shop.orders", Health.RUNNING, 1, 10, 1, 1_000, now_ms - 5_000, now_ms, now_ms - 9_000)
    return CoordinatorFigures("control", True, 0, 1, 0, minute, minute, (table,), {("default", "committed"): minute})


def well(minute: int) -> Figures:
    """A driver with a pipeline and a coordinator, and no fault."""
    return Figures(
        at_ms=minute * 60_000,
        target="prod",
        version="1",
        pipelines=(pipeline(minute),),
        coordinators=(coordinator(minute),),
        memory_bytes={"python": 10**8},
        services={Service.BROKER: True, Service.CATALOG: True},
    )


def _with_pipeline(figures: Figures, **changes: object) -> Figures:
    return replace(figures, pipelines=(replace(figures.pipelines[0], **changes),))  # type: ignore[arg-type]


def _with_table(figures: Figures, **changes: object) -> Figures:
    owner = figures.coordinators[0]
    table = replace(owner.tables[0], **changes)  # type: ignore[arg-type]
    return replace(figures, coordinators=(replace(owner, tables=(table,)),))


def _catalog_down(minute: int) -> Figures:
    figures = replace(well(minute), services={Service.BROKER: True, Service.CATALOG: False})
    figures = replace(figures, retries={Service.CATALOG: minute - BEGINS_MIN})
    return _with_table(figures, state=Health.FAILED, oldest_ms=BEGINS_MIN * 60_000)


def _store_full(minute: int) -> Figures:
    figures = replace(well(minute), retries={Service.STORE: 6 * (minute - BEGINS_MIN)})
    return _with_pipeline(figures, state=Health.DEGRADED)


def _registry_gone(minute: int) -> Figures:
    figures = replace(well(minute), retries={Service.REGISTRY: 6 * (minute - BEGINS_MIN)})
    return _with_pipeline(figures, state=Health.DEGRADED)


def _poison_schema(minute: int) -> Figures:
    """`errors.policy: fail`: the run ends at the first record, and its last word is what it leaves behind."""
    return _with_pipeline(well(BEGINS_MIN), state=Health.FAILED, phase=RunPhase.ENDED)


def _blocked_table(minute: int) -> Figures:
    return _with_table(well(minute), state=Health.BLOCKED, oldest_ms=BEGINS_MIN * 60_000)


def _flapping(minute: int) -> Figures:
    figures = well(minute)
    return replace(figures, coordinators=(replace(figures.coordinators[0], recent_takeovers=minute - BEGINS_MIN),))


def _retention_near(minute: int) -> Figures:
    partition = PartitionFigures("orders", 0, 1_500, 1_000, 6_000, BEGINS_MIN * 60_000)
    return _with_pipeline(well(minute), partitions=(partition,), state=Health.PAUSED)


def _group_moved(minute: int) -> Figures:
    """Another program moved the group's offsets: the chain is broken, which the coordinator in the process knows."""
    return _with_pipeline(well(minute), state=Health.BLOCKED)


def _hung_task(minute: int) -> Figures:
    stall = Stall(RunPhase.WRITING, BEGINS_MIN * 60_000)
    return _with_pipeline(well(minute), state=Health.STALLED, phase=RunPhase.WRITING, stall=stall)


def _dead_letter_flood(minute: int) -> Figures:
    refused = 900 * (minute - BEGINS_MIN)
    read = 1_000 * minute
    totals = Accounting(read, read - refused, dead_lettered=refused)
    return _with_pipeline(well(minute), totals=totals, dead_letters={("convert", "FLOE-D301"): refused})


def _silent_feed(minute: int) -> Figures:
    return _with_pipeline(well(minute), state=Health.IDLE, is_silent=True)


def _hung_commit(minute: int) -> Figures:
    return _with_table(well(minute), state=Health.STALLED, oldest_ms=BEGINS_MIN * 60_000)


def _many_incomplete(minute: int) -> Figures:
    """Three in a hundred records, which is thirty times what is allowed, and no flood."""
    promised = ObjectiveFigures(Objective.COMPLETE, 0.001, 1_000 * minute, 30 * (minute - BEGINS_MIN) + 2)
    return _with_pipeline(well(minute), objectives=(promised,))


def _late(minute: int) -> Figures:
    """Tables are older than is promised for twenty seconds of each minute."""
    promised = ObjectiveFigures(Objective.FRESHNESS, 0.01, minute * 60.0, 20.0 * (minute - BEGINS_MIN))
    return _with_pipeline(well(minute), objectives=(promised,))


@dataclass(frozen=True)
class Fault:
    """`figures` from `BEGINS_MIN` on; `alert` names the part within half an hour."""

    name: str
    figures: Callable[[int], Figures]
    alert: str


FAULTS = (
    Fault("catalog down", _catalog_down, "FloeCatalogSilent"),
    Fault("store full", _store_full, "FloeStoreRefuses"),
    Fault("registry gone", _registry_gone, "FloeRegistrySilent"),
    Fault("poison schema", _poison_schema, "FloePipelineFailed"),
    Fault("blocked table", _blocked_table, "FloeTableBlocked"),
    Fault("coordinator flapping", _flapping, "FloeCoordinatorFlaps"),
    Fault("retention near", _retention_near, "FloeRetentionNear"),
    Fault("consumer group moved", _group_moved, "FloePipelineBlocked"),
    Fault("hung task", _hung_task, "FloePipelineStalled"),
    Fault("dead-letter flood", _dead_letter_flood, "FloeDeadLetterFlood"),
    Fault("many incomplete", _many_incomplete, "FloeBudgetBurnsFast"),
    Fault("late", _late, "FloeBudgetBurnsFast"),
    Fault("silent feed", _silent_feed, "FloeFeedSilent"),
    Fault("hung commit", _hung_commit, "FloeCommitStalled"),
)
