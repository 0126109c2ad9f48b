"""What a process shows: every metric of the list, in bounded number, with labels that are allowed."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from framework.adapters.telemetry.metrics_registry import registry_of_samples
from framework.commit.events.event_types import Health
from framework.commit.maintenance.health import Need, TableHealth
from framework.config.values.objectives import Objective
from framework.config.values.owners import Owners, OwningTeam
from framework.metrics import definitions as d
from framework.metrics.definitions import METRICS, OTHERS, Metric, MetricKind
from framework.metrics.figures import (
    CoordinatorFigures,
    Figures,
    Histogram,
    ObjectiveFigures,
    PartitionFigures,
    TableFigures,
)
from framework.metrics.labels import LABELS, Label
from framework.metrics.samples import MAX_PARTITIONS, MAX_REASONS, MetricSample, samples
from tests.unit.metrics.planted import FAULTS, well

# Version 1 of the contract. A line goes from here in a new version only, and a new one names its version.
VERSION_1 = {
    "floe_info", "floe_metrics_contract_version", "floe_metrics_summed", "floe_process_resident_memory_bytes",
    "floe_service_up", "floe_pipeline_state", "floe_pipeline_state_since_timestamp_seconds", "floe_pipeline_lag_records",
    "floe_pipeline_lag_seconds", "floe_pipeline_retention_used_ratio", "floe_source_safe_offset",
    "floe_source_log_end_offset", "floe_records_total", "floe_dead_letters_total", "floe_dropped_records_total",
    "floe_batch_number", "floe_batches_total", "floe_batch_duration_seconds", "floe_batch_phase_seconds_total",
    "floe_batch_phase", "floe_batch_progress_timestamp_seconds", "floe_pipeline_stalled", "floe_announced_batches",
    "floe_announced_bytes", "floe_retries_total", "floe_lineage_dropped_events_total", "floe_coordinator_owner",
    "floe_coordinator_owner_since_timestamp_seconds", "floe_coordinator_takeovers_total",
    "floe_control_topic_leader_epoch", "floe_control_topic_low_water_offset", "floe_control_topic_position_offset",
    "floe_tables", "floe_table_state", "floe_table_announced_announcements", "floe_table_announced_records",
    "floe_table_announced_files", "floe_table_announced_bytes", "floe_table_oldest_announced_timestamp_seconds",
    "floe_table_valid_through_timestamp_seconds", "floe_table_last_commit_timestamp_seconds", "floe_commits_total",
    "floe_commit_duration_seconds", "floe_catalog_request_started_timestamp_seconds",
}  # fmt: skip
VERSION_2 = VERSION_1 | {
    "floe_table_measured_timestamp_seconds", "floe_table_data_files", "floe_table_small_files",
    "floe_table_delete_files", "floe_table_deleted_rows", "floe_table_manifests", "floe_table_metadata_bytes",
    "floe_table_snapshots", "floe_table_last_maintenance_timestamp_seconds", "floe_table_gain_files",
    "floe_table_gain_read_bytes", "floe_table_gain_snapshots", "floe_table_needs_maintenance",
}  # fmt: skip
VERSION_3 = VERSION_2 | {"floe_coordinator_recent_takeovers"}
VERSION_4 = VERSION_3 | {"floe_pipeline_silent"}
VERSION_5 = VERSION_4 | {"floe_pipeline_owner"}
VERSION_6 = VERSION_5 | {"floe_objective_target_ratio", "floe_objective_counted_total", "floe_objective_bad_total"}
VERSION_7 = VERSION_6 | {"floe_store_requests_total", "floe_task_store_requests_total"}


HEALTH = TableHealth(
    40, 30, 10**9, 10**6, 5, 2, 3, 70_000, 12, 30_000, 20, 10**8, {"1MiB": 30, "larger": 10}, gain_snapshots=4
)


def full(minute: int = 20) -> Figures:
    """Figures in which nothing is missing."""
    figures = well(minute)
    owner = replace(
        figures.coordinators[0],
        tables=(replace(figures.coordinators[0].tables[0], health=HEALTH, measured_ms=60_000),),
        durations={"default": Histogram(d.COMMIT_BOUNDS_S).with_one(0.3)},
        oldest_request_ms={"default": 1},
    )
    pipeline = replace(
        figures.pipelines[0],
        dead_letters={("decode", "FLOE-D101"): 2},
        dropped={"rule": 3},
        owners=Owners(OwningTeam("team-orders")),
        objectives=(ObjectiveFigures(Objective.COMPLETE, 0.001, 1_000, 2),),
    )
    return replace(figures, pipelines=(pipeline,), coordinators=(owner,))


def of(found: tuple[MetricSample, ...], metric: Metric) -> dict[tuple[str, ...], float]:
    return {s.labels: s.value for s in found if s.metric is metric and not isinstance(s.value, Histogram)}


def test_every_metric_of_the_contract_is_shown_and_no_other() -> None:
    """The list, what a process shows, and version 7 of the contract name the same metrics; those of the versions before are
    as they were."""
    assert {sample.metric.name for sample in samples(full())} == {metric.name for metric in METRICS} == VERSION_7
    assert {metric.name for metric in METRICS if metric.since == 1} == VERSION_1
    assert {metric.name for metric in METRICS if metric.since <= 2} == VERSION_2
    assert {metric.name for metric in METRICS if metric.since <= 3} == VERSION_3
    assert {metric.name for metric in METRICS if metric.since <= 4} == VERSION_4
    assert {metric.name for metric in METRICS if metric.since <= 5} == VERSION_5
    assert {metric.name for metric in METRICS if metric.since <= 6} == VERSION_6
    assert d.CONTRACT_VERSION == max(metric.since for metric in METRICS) == 7


def test_names_and_labels_keep_the_conventions() -> None:
    """Counters end in `_total`, others do not; a unit is in the name; each label is allowed and explained."""
    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
        assert bool(metric.bounds_s) == (metric.kind is MetricKind.HISTOGRAM), metric.name
        if metric.unit.split(" ")[0] in ("seconds", "bytes", "ratio"):
            assert metric.unit.split(" ")[0] in metric.name, metric.name
        assert len(set(metric.labels)) == len(metric.labels)
    assert set(LABELS) == set(Label)
    assert {label for metric in METRICS for label in metric.labels} == set(Label)


@pytest.mark.parametrize("figures", [full(), *(fault.figures(20) for fault in FAULTS)])
def test_prometheus_reads_what_is_written(figures: Figures) -> None:
    """Each sample comes back from the text with its labels and its value, and no series is there twice."""
    found = samples(figures)
    text = generate_latest(registry_of_samples(lambda: found)).decode()
    read = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in read]
    assert len(series) == len(set(series))
    back = {(s.name, *(value for _, value in sorted(s.labels.items()))): s.value for s in read}
    for sample in found:
        if isinstance(sample.value, Histogram):
            continue
        labels = sorted(zip((label.value for label in sample.metric.labels), sample.labels, strict=True))
        key = (sample.metric.name, *(value for _, value in labels))
        assert back[key] == sample.value


def test_a_histogram_counts_what_took_no_longer_than_its_bound() -> None:
    """Buckets add up from the shortest on, the last one is the count, and a value on a bound is in its bucket."""
    durations = Histogram((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 9.0):
        durations = durations.with_one(seconds)
    metric = replace(d.COMMIT_SECONDS, bounds_s=(1.0, 2.0))
    text = generate_latest(registry_of_samples(lambda: (MetricSample(metric, ("default",), durations),))).decode()
    assert [line.split()[-1] for line in text.splitlines() if "_bucket" in line] == ["2.0", "3.0", "4.0"]
    assert 'floe_commit_duration_seconds_sum{catalog="default"} 12.0' in text


@given(st.lists(st.sampled_from(Health), min_size=1, max_size=40), st.integers(1, 20))
def test_tables_beyond_the_bound_are_summed(states: list[Health], most: int) -> None:
    """However many tables there are, at most one more than the bound has series; nothing that waits is left out of the
    sums; the counts by state are of all tables; one that is in trouble is not summed while a sound one is named."""
    tables = tuple(TableFigures(f"t{n}", state, 1, n, 2, 3, 1_000 + n) for n, state in enumerate(states))
    found = samples(Figures(0, "t", "1", coordinators=(CoordinatorFigures("c", True, tables=tables),)), most)
    waiting = of(found, d.PENDING_RECORDS)
    assert len(waiting) <= most + 1
    assert sum(waiting.values()) == sum(range(len(states)))
    assert of(found, d.SUMMED)["table",] == max(0, len(states) - most)
    by_state = of(found, d.TABLES)
    assert {state: by_state["c", state.value] for state in Health} == {state: states.count(state) for state in Health}
    named = {labels[1] for labels in waiting} - {OTHERS}
    well_named = [t for t in tables if t.table in named and t.state in (Health.RUNNING, Health.IDLE)]
    in_trouble = [t for t in tables if t.table not in named and t.state not in (Health.RUNNING, Health.IDLE)]
    assert not (well_named and in_trouble)


def test_the_health_of_a_table_is_shown_by_size_and_by_need() -> None:
    """Data files add up over their sizes, each need has a series that is 0 or 1, and a table that nobody has measured shows
    none of it."""
    sick = TableFigures("sick", Health.RUNNING, health=HEALTH, measured_ms=9_000, needs={Need.SMALL_FILES: 1})
    owner = CoordinatorFigures("c", True, tables=(sick, TableFigures("new", Health.IDLE)))
    found = samples(Figures(0, "t", "1", coordinators=(owner,)))
    assert {labels[2]: count for labels, count in of(found, d.DATA_FILES).items()} == {
        "1MiB": 30, "8MiB": 0, "32MiB": 0, "128MiB": 0, "512MiB": 0, "larger": 10,
    }  # fmt: skip
    assert of(found, d.NEEDS) == {("c", "sick", need.value): int(need is Need.SMALL_FILES) for need in Need}
    assert of(found, d.MEASURED) == {("c", "sick"): 9}
    assert of(found, d.LAST_MAINTENANCE) == {("c", "sick"): 30}
    assert {labels[1] for labels in of(found, d.GAIN_FILES)} == {"sick"}


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 8))
def test_the_health_of_tables_beyond_the_bound_is_summed(sick: list[bool], most: int) -> None:
    """Nothing is left out of the sums, however many tables there are; a table that needs maintenance is named before one
    that does not, and of those that are summed it is said how many need it."""
    tables = tuple(
        TableFigures(f"t{n}", Health.IDLE, health=HEALTH, measured_ms=n, needs={Need.DELETES: 1} if bad else {})
        for n, bad in enumerate(sick)
    )
    found = samples(Figures(0, "t", "1", coordinators=(CoordinatorFigures("c", True, tables=tables),)), most)
    small, needs = of(found, d.SMALL_FILES), of(found, d.NEEDS)
    assert len(small) <= most + 1
    assert sum(small.values()) == 30 * len(sick)
    assert sum(of(found, d.DATA_FILES).values()) == 40 * len(sick)
    assert sum(needs.values()) == sum(sick)
    named = {labels[1] for labels in small} - {OTHERS}
    assert not ({f"t{n}" for n, bad in enumerate(sick) if bad} - named) or named <= {
        f"t{n}" for n, bad in enumerate(sick) if bad
    }


def test_partitions_and_reasons_are_bounded() -> None:
    """A pipeline with thousands of partitions or codes has a bounded number of series, and its lag is that of all."""
    figures = full()
    pipeline = replace(
        figures.pipelines[0],
        partitions=tuple(PartitionFigures("t", n, 0, 0, n) for n in range(1_000)),
        dropped={f"FLOE-D{n}": 1 for n in range(500)},
    )
    found = samples(replace(figures, pipelines=(pipeline,)))
    assert len(of(found, d.SAFE_OFFSET)) == MAX_PARTITIONS
    assert of(found, d.LAG_RECORDS) == {("orders",): sum(range(1_000))}
    assert len(of(found, d.DROPPED)) == MAX_REASONS + 1
    assert sum(of(found, d.DROPPED).values()) == 500
    assert of(found, d.SUMMED) == {("table",): 0, ("partition",): 800, ("reason",): 400}


def test_who_stands_by_shows_no_tables() -> None:
    """Tables are shown by the owner of the control topic alone, so that a sum over processes is right."""
    standby = CoordinatorFigures("c", False, tables=(TableFigures("t", Health.RUNNING, records=5),))
    found = samples(Figures(0, "t", "1", coordinators=(standby,)))
    assert of(found, d.OWNER) == {("c",): 0}
    assert of(found, d.PENDING_RECORDS) == of(found, d.TABLES) == {}


def test_figures_hold_names_and_numbers_alone() -> None:
    """No field of the figures could hold a record's value or key: there are no bytes among them, and texts are names."""
    texts = {
        (kind.__name__, each.name)
        for kind in (Figures, CoordinatorFigures, TableFigures, PartitionFigures)
        for each in fields(kind)
        if each.type in ("str", "bytes", "object")
    }
    assert texts == {
        ("Figures", "target"), ("Figures", "version"), ("CoordinatorFigures", "control_topic"), ("TableFigures", "table"),
        ("PartitionFigures", "topic"),
    }  # fmt: skip
