"""Figures as samples of the metrics: names, labels and values, bounded in number.

In: the Figures of one process and how many series it may have. Out: samples, in the order of the definitions. Beyond a
number of tables, partitions and reasons the rest is summed under one label, and a metric says how many those are; what
is in trouble keeps its name longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from framework.commit import risks as risks
from framework.commit.events.event_types import Health
from framework.commit.maintenance.health import SIZES, Need, TableHealth, united
from framework.commit.risks import Held
from framework.metrics import definitions as d
from framework.metrics.definitions import OTHERS, Metric
from framework.metrics.figures import (
    CoordinatorFigures,
    Figures,
    Histogram,
    PartitionFigures,
    PipelineFigures,
    RunPhase,
    Service,
    TableFigures,
)
from framework.metrics.store_requests import StoreRequest

K = TypeVar("K")
MAX_TABLES = 200
MAX_PARTITIONS = 200  # of a pipeline
MAX_REASONS = 100  # of a pipeline
_WELL = (Health.RUNNING, Health.IDLE)
# Where tables are summed, the worst state of them is shown.
_WORST_FIRST = (
    Health.FAILED, Health.STALLED, Health.BLOCKED, Health.DEGRADED, Health.STOPPED, Health.PAUSED, Health.RUNNING,
    Health.IDLE,
)  # fmt: skip


@dataclass(frozen=True)
class MetricSample:
    """One series now. The labels stand in the order of the metric's."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Histogram


def samples(figures: Figures, max_tables: int = MAX_TABLES) -> tuple[MetricSample, ...]:
    """Everything that a process shows."""
    found = list(
        chain(
            _of_process(figures),
            *(_of_pipeline(each, figures.at_ms) for each in figures.pipelines),
            *(_of_coordinator(each, max_tables) for each in figures.coordinators),
            _summed(figures, max_tables),
        )
    )
    place = {metric.name: number for number, metric in enumerate(d.METRICS)}
    return tuple(sorted(found, key=lambda sample: place[sample.metric.name]))


def lag_seconds(partitions: Iterable[PartitionFigures], at_ms: int) -> float:
    """For how long the oldest record of any partition has waited."""
    since = [each.behind_since_ms for each in partitions if each.behind_since_ms is not None]
    return max(0.0, (at_ms - min(since)) / 1000) if since else 0.0


def retention_used(partitions: Iterable[PartitionFigures]) -> float:
    """The largest part of what a partition still holds that is not announced; 0 where nothing was removed yet."""
    return risks.retention_used(
        Held(each.topic, each.partition, each.log_start, each.log_end, each.safe_offset) for each in partitions
    )


def _of_process(figures: Figures) -> Iterator[MetricSample]:
    yield MetricSample(d.INFO, (figures.version, figures.target), 1)
    yield MetricSample(d.CONTRACT, (), d.CONTRACT_VERSION)
    for process, resident in sorted(figures.memory_bytes.items()):
        yield MetricSample(d.MEMORY, (process,), resident)
    for service, is_up in sorted(figures.services.items()):
        yield MetricSample(d.SERVICE_UP, (service.value,), int(is_up))
    for each in Service:
        yield MetricSample(d.RETRIES, (each.value,), figures.retries.get(each, 0))
    yield MetricSample(d.LINEAGE_DROPPED, (), figures.lineage_dropped)
    for kind in StoreRequest:
        yield MetricSample(d.STORE_REQUESTS, (kind.value,), figures.requests.get(kind, 0))


def _of_pipeline(pipeline: PipelineFigures, at_ms: int) -> Iterator[MetricSample]:
    name = pipeline.pipeline
    for state in Health:
        yield MetricSample(d.PIPELINE_STATE, (name, state.value), int(state is pipeline.state))
    if pipeline.since_ms is not None:
        yield MetricSample(d.PIPELINE_SINCE, (name,), pipeline.since_ms / 1000)
    for duty, owner in pipeline.owners.named:
        yield MetricSample(d.PIPELINE_OWNER, (name, duty.value, owner.team), 1)
    for promised in pipeline.objectives:
        of = (name, promised.objective.value)
        yield MetricSample(d.OBJECTIVE_TARGET, of, 1 - promised.allowed)
        yield MetricSample(d.OBJECTIVE_COUNTED, of, promised.counted)
        yield MetricSample(d.OBJECTIVE_BAD, of, promised.bad)
    yield MetricSample(d.LAG_RECORDS, (name,), sum(each.lag for each in pipeline.partitions))
    yield MetricSample(d.LAG_SECONDS, (name,), lag_seconds(pipeline.partitions, at_ms))
    yield MetricSample(d.RETENTION_USED, (name,), retention_used(pipeline.partitions))
    for each in _named_partitions(pipeline):
        labels = (name, each.topic, str(each.partition))
        yield MetricSample(d.SAFE_OFFSET, labels, each.safe_offset)
        yield MetricSample(d.LOG_END, labels, each.log_end)
    for outcome in ("written", "filtered", "dead_lettered", "dropped", "holes", "lost"):
        yield MetricSample(d.RECORDS, (name, outcome), getattr(pipeline.totals, outcome))
    for (stage, code), count in _bounded(pipeline.dead_letters, (OTHERS, OTHERS)):
        yield MetricSample(d.DEAD_LETTERS, (name, stage, code), count)
    for reason, count in _bounded(pipeline.dropped, OTHERS):
        yield MetricSample(d.DROPPED, (name, reason), count)
    yield MetricSample(d.BATCH, (name,), pipeline.batch)
    yield MetricSample(d.BATCHES, (name, "announced"), pipeline.announced)
    yield MetricSample(d.BATCHES, (name, "failed"), pipeline.failed)
    yield MetricSample(d.BATCH_SECONDS, (name,), pipeline.durations)
    for phase in RunPhase:
        if phase is not RunPhase.ENDED:
            yield MetricSample(d.PHASE_SECONDS, (name, phase.value), pipeline.phase_seconds.get(phase, 0.0))
        yield MetricSample(d.PHASE, (name, phase.value), int(phase is pipeline.phase))
    yield MetricSample(d.PROGRESS, (name,), pipeline.progress_ms / 1000)
    stall = pipeline.stall
    yield MetricSample(d.STALLED, (name, (stall.phase if stall else pipeline.phase).value), int(stall is not None))
    yield MetricSample(d.SILENT, (name,), int(pipeline.is_silent))
    yield MetricSample(d.WAITING_BATCHES, (name,), pipeline.waiting_batches)
    yield MetricSample(d.WAITING_BYTES, (name,), pipeline.waiting_bytes)
    for kind in StoreRequest:
        yield MetricSample(d.TASK_STORE_REQUESTS, (name, kind.value), pipeline.requests.get(kind, 0))


def _of_coordinator(coordinator: CoordinatorFigures, max_tables: int) -> Iterator[MetricSample]:
    topic = coordinator.control_topic
    yield MetricSample(d.OWNER, (topic,), int(bool(coordinator.owns)))
    yield MetricSample(d.TAKEOVERS, (topic,), coordinator.takeovers)
    for (catalog, outcome), count in sorted(coordinator.outcomes.items()):
        yield MetricSample(d.COMMITS, (catalog, outcome), count)
    for catalog, durations in sorted(coordinator.durations.items()):
        yield MetricSample(d.COMMIT_SECONDS, (catalog,), durations)
    for catalog, started_ms in sorted(coordinator.oldest_request_ms.items()):
        yield MetricSample(d.OLDEST_REQUEST, (catalog,), started_ms / 1000)
    if not coordinator.owns:
        return
    if coordinator.since_ms is not None:
        yield MetricSample(d.OWNER_SINCE, (topic,), coordinator.since_ms / 1000)
    yield MetricSample(d.RECENT_TAKEOVERS, (topic,), coordinator.recent_takeovers)
    for metric, value in (
        (d.LEADER_EPOCH, coordinator.leader_epoch),
        (d.LOW_WATER, coordinator.low_water),
        (d.POSITION, coordinator.position),
    ):
        if value is not None:
            yield MetricSample(metric, (topic,), value)
    states = Counter(table.state for table in coordinator.tables)
    for state in Health:
        yield MetricSample(d.TABLES, (topic, state.value), states[state])
    for table in _named_tables(coordinator.tables, max_tables):
        yield from _of_table(topic, table)


def _of_table(topic: str, table: TableFigures) -> Iterator[MetricSample]:
    labels = (topic, table.table)
    for state in Health:
        yield MetricSample(d.TABLE_STATE, (*labels, state.value), int(state is table.state))
    yield MetricSample(d.PENDING_ANNOUNCEMENTS, labels, table.announcements)
    yield MetricSample(d.PENDING_RECORDS, labels, table.records)
    yield MetricSample(d.PENDING_FILES, labels, table.files)
    yield MetricSample(d.PENDING_BYTES, labels, table.bytes)
    for metric, at_ms in (
        (d.OLDEST, table.oldest_ms),
        (d.VALID_THROUGH, table.valid_through_ms),
        (d.LAST_COMMIT, table.last_commit_ms),
    ):
        if at_ms is not None:
            yield MetricSample(metric, labels, at_ms / 1000)
    if table.health is not None:
        yield from _of_health(labels, table, table.health)


def _of_health(labels: tuple[str, str], table: TableFigures, health: TableHealth) -> Iterator[MetricSample]:
    for metric, at_ms in ((d.MEASURED, table.measured_ms), (d.LAST_MAINTENANCE, health.last_maintenance_ms)):
        if at_ms is not None:
            yield MetricSample(metric, labels, at_ms / 1000)
    for size in SIZES:
        yield MetricSample(d.DATA_FILES, (*labels, size), health.histogram.get(size, 0))
    for metric, value in (
        (d.SMALL_FILES, health.small_files),
        (d.DELETE_FILES, health.delete_files),
        (d.DELETED_ROWS, health.deleted_rows),
        (d.MANIFESTS, health.manifests),
        (d.METADATA_BYTES, health.metadata_bytes),
        (d.SNAPSHOTS, health.snapshots),
        (d.GAIN_FILES, health.gain_files),
        (d.GAIN_BYTES, health.gain_bytes),
        (d.GAIN_SNAPSHOTS, health.gain_snapshots),
    ):
        yield MetricSample(metric, labels, value)
    for need in Need:
        yield MetricSample(d.NEEDS, (*labels, need.value), table.needs.get(need, 0))


# ---- the bound -------------------------------------------------------------------------------------------------------


def _named_tables(tables: Iterable[TableFigures], most: int) -> list[TableFigures]:
    """The tables that have series of their own, those in trouble first, and one that is the sum of all others."""
    ordered = sorted(tables, key=lambda each: (each.state in _WELL, not each.needs, -each.records, each.table))
    named, others = ordered[:most], ordered[most:]
    return [*named, _sum_of(others)] if others else named


def _sum_of(tables: list[TableFigures]) -> TableFigures:
    def oldest(of: Callable[[TableFigures], int | None]) -> int | None:
        return min((value for each in tables if (value := of(each)) is not None), default=None)

    return TableFigures(
        OTHERS,
        min((each.state for each in tables), key=_WORST_FIRST.index),
        sum(each.announcements for each in tables),
        sum(each.records for each in tables),
        sum(each.files for each in tables),
        sum(each.bytes for each in tables),
        oldest(lambda each: each.oldest_ms),
        oldest(lambda each: each.valid_through_ms),
        oldest(lambda each: each.last_commit_ms),
        united([each.health for each in tables if each.health is not None]),
        oldest(lambda each: each.measured_ms),
        sum((Counter(each.needs) for each in tables), Counter()),
    )


def _named_partitions(pipeline: PipelineFigures) -> list[PartitionFigures]:
    """Those that are furthest behind; the sum of the others has no meaning as an offset, and is in the lag."""
    ordered = sorted(pipeline.partitions, key=lambda each: (-each.lag, each.topic, each.partition))
    return sorted(ordered[:MAX_PARTITIONS], key=lambda each: (each.topic, each.partition))


def _bounded(counts: Mapping[K, int], others: K) -> list[tuple[K, int]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    named, rest = ordered[:MAX_REASONS], ordered[MAX_REASONS:]
    return [*named, (others, sum(count for _, count in rest))] if rest else named


def _summed(figures: Figures, max_tables: int) -> Iterator[MetricSample]:
    pipelines = figures.pipelines
    counts = {
        "table": sum(max(0, len(each.tables) - max_tables) for each in figures.coordinators),
        "partition": sum(max(0, len(each.partitions) - MAX_PARTITIONS) for each in pipelines),
        "reason": sum(
            max(0, len(one) - MAX_REASONS) for each in pipelines for one in (each.dead_letters, each.dropped)
        ),
    }
    for kind, count in counts.items():
        yield MetricSample(d.SUMMED, (kind,), count)
