"""The metrics: names, types, labels and units. Everything that shows or explains a metric is made from this list.

In: nothing. Out: definitions, in the order of the reference. The list is a contract: a metric keeps its name, its type,
its unit and its labels, and what is added says since which version.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from framework.commit.maintenance.health import MANY_FILES, MANY_MANIFESTS, MANY_SNAPSHOTS, MUCH_DELETED
from framework.commit.risks import TAKEOVERS_MIN
from framework.metrics.labels import Label

CONTRACT_VERSION = 7
# Beyond so many tables, partitions or reasons the rest is summed under this label.
OTHERS = "(others)"


class MetricKind(str, Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


BATCH_BOUNDS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
COMMIT_BOUNDS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True)
class Metric:
    """One metric. `name` ends in its unit; `since`: the version of the contract that added it; `bounds_s`: of a
    histogram."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[Label, ...]
    unit: str
    since: int = 1
    bounds_s: tuple[float, ...] = ()


def _gauge(name: str, help_: str, *labels: Label, unit: str = "", since: int = 1) -> Metric:
    return Metric(name, MetricKind.GAUGE, help_, labels, unit, since)


def _counter(name: str, help_: str, *labels: Label, unit: str = "", since: int = 1) -> Metric:
    return Metric(name, MetricKind.COUNTER, help_, labels, unit, since)


_PARTITION = (Label.PIPELINE, Label.TOPIC, Label.PARTITION)
_TABLE = (Label.CONTROL_TOPIC, Label.TABLE)
_OBJECTIVE = (Label.PIPELINE, Label.OBJECTIVE)

INFO = _gauge("floe_info", "Always 1. The version of floe, and the target.", Label.VERSION, Label.TARGET)
CONTRACT = _gauge("floe_metrics_contract_version", "The version of this list of metrics.")
SUMMED = _gauge(
    "floe_metrics_summed",
    f"How many tables, partitions and reasons have no series of their own; they are summed under `{OTHERS}`.",
    Label.KIND,
)
MEMORY = _gauge("floe_process_resident_memory_bytes", "Memory in use.", Label.PROCESS, unit="bytes")
SERVICE_UP = _gauge(
    "floe_service_up",
    "1: the service answered when it was last asked. 0: it did not. Broker and catalog are asked every ten seconds; the store is "
    "as files were written last, and has no series before; the registry has one once a batch failed for it.",
    Label.SERVICE,
)

PIPELINE_STATE = _gauge(
    "floe_pipeline_state", "1 for the state in which the pipeline is, 0 for the others.", Label.PIPELINE, Label.STATE
)
PIPELINE_OWNER = _gauge(
    "floe_pipeline_owner",
    "Always 1. The team that owns a duty of the pipeline; no series where the file names nobody. Alerts take their label `team` "
    "from it.",
    Label.PIPELINE,
    Label.DUTY,
    Label.TEAM,
    since=5,
)
OBJECTIVE_TARGET = _gauge(
    "floe_objective_target_ratio",
    "The share that must be good by the file's `objectives:`; of `freshness` 0.99 of the time. None without them.",
    *_OBJECTIVE,
    unit="ratio",
    since=6,
)
OBJECTIVE_COUNTED = _counter(
    "floe_objective_counted_total",
    "What the objective counts: records since the pipeline first ran; of `freshness`, seconds of this process.",
    *_OBJECTIVE,
    since=6,
)
OBJECTIVE_BAD = _counter(
    "floe_objective_bad_total",
    "Of these, what misses the objective: records that reach no table, dead letters, or seconds in which the tables were older "
    "than promised. Bad by counted, divided by what the objective allows, is the burn rate.",
    *_OBJECTIVE,
    since=6,
)
PIPELINE_SINCE = _gauge(
    "floe_pipeline_state_since_timestamp_seconds",
    "When that state began, as far as the run knows.",
    Label.PIPELINE,
    unit="seconds since 1970",
)
LAG_RECORDS = _gauge(
    "floe_pipeline_lag_records",
    "Offsets between the safe offsets and the ends of the source topics.",
    Label.PIPELINE,
    unit="records",
)
LAG_SECONDS = _gauge(
    "floe_pipeline_lag_seconds",
    "For how long the oldest record that is not announced has waited; 0 if nothing waits. Of a backlog from before the "
    "run: since the newest record that was announced, or since the run began.",
    Label.PIPELINE,
    unit="seconds",
)
RETENTION_USED = _gauge(
    "floe_pipeline_retention_used_ratio",
    "The worst partition's part of what its topic still holds that is not announced. Near 1, retention is about to "
    "remove records that were not read. 0 while retention has removed nothing.",
    Label.PIPELINE,
    unit="ratio",
)
SAFE_OFFSET = _gauge(
    "floe_source_safe_offset", "The offset below which everything is announced.", *_PARTITION, unit="offset"
)
LOG_END = _gauge("floe_source_log_end_offset", "The partition's end, as last seen.", *_PARTITION, unit="offset")
RECORDS = _counter(
    "floe_records_total",
    "Offsets since the pipeline first ran, by what became of them: `written`, `filtered`, `dead_lettered`, `dropped`, "
    "`holes`, `lost`. They are those of `floe status`.",
    Label.PIPELINE,
    Label.OUTCOME,
    unit="records",
)
DEAD_LETTERS = _counter(
    "floe_dead_letters_total",
    "Dead letters of this run by stage and code.",
    Label.PIPELINE,
    Label.STAGE,
    Label.CODE,
    unit="records",
)
DROPPED = _counter(
    "floe_dropped_records_total",
    "Records that this run dropped, by the code of why; `rule` where the file says so and nothing is wrong with them.",
    Label.PIPELINE,
    Label.REASON,
    unit="records",
)
BATCH = _gauge("floe_batch_number", "The newest batch that is announced.", Label.PIPELINE)
BATCHES = _counter("floe_batches_total", "Batches of this run: `announced` or `failed`.", Label.PIPELINE, Label.OUTCOME)
BATCH_SECONDS = Metric(
    "floe_batch_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long announced batches took, from the offer to the announcement.",
    (Label.PIPELINE,),
    "seconds",
    bounds_s=BATCH_BOUNDS_S,
)
PHASE_SECONDS = _counter(
    "floe_batch_phase_seconds_total",
    "Where the time of batches went: `planning`, `tables`, `writing`, `announcing`, `retrying`; beside them `starting` "
    "and `waiting`.",
    Label.PIPELINE,
    Label.PHASE,
    unit="seconds",
)
PHASE = _gauge("floe_batch_phase", "1 for the phase in which the run is.", Label.PIPELINE, Label.PHASE)
PROGRESS = _gauge(
    "floe_batch_progress_timestamp_seconds",
    "When the run last got on: another phase, another look at its source, or a finished task.",
    Label.PIPELINE,
    unit="seconds since 1970",
)
STALLED = _gauge(
    "floe_pipeline_stalled",
    "1: the run has made no progress for longer than the target's `stalled_after_ms`; the phase says where.",
    Label.PIPELINE,
    Label.PHASE,
)
SILENT = _gauge(
    "floe_pipeline_silent",
    "1: no record came for longer than `source.silent_after` of its file; 0 otherwise, and where the file says nothing.",
    Label.PIPELINE,
    since=4,
)
WAITING_BATCHES = _gauge(
    "floe_announced_batches",
    "Batches of the pipeline that are announced and not known to be in all their tables.",
    Label.PIPELINE,
)
WAITING_BYTES = _gauge(
    "floe_announced_bytes", "The size of the files that wait, by pipeline.", Label.PIPELINE, unit="bytes"
)
RETRIES = _counter("floe_retries_total", "What was or will be tried again, by whose failure it was.", Label.SERVICE)

LINEAGE_DROPPED = _counter(
    "floe_lineage_dropped_events_total",
    "Lineage events that were dropped, because nobody took them or too many waited. 0 without lineage.",
    unit="events",
)

STORE_REQUESTS = _counter(
    "floe_store_requests_total",
    "Requests to S3 that this process made, as driver and coordinator; what its tasks made is in the next one. A request that is "
    "made again after an error counts once.",
    Label.REQUEST,
    unit="requests",
    since=7,
)
TASK_STORE_REQUESTS = _counter(
    "floe_task_store_requests_total",
    "Requests to S3 that tasks of this run made, as they reported when they ended.",
    Label.PIPELINE,
    Label.REQUEST,
    unit="requests",
    since=7,
)

OWNER = _gauge("floe_coordinator_owner", "1: this process coordinates. 0: it stands by.", Label.CONTROL_TOPIC)
OWNER_SINCE = _gauge(
    "floe_coordinator_owner_since_timestamp_seconds",
    "Since when it coordinates.",
    Label.CONTROL_TOPIC,
    unit="seconds since 1970",
)
TAKEOVERS = _counter(
    "floe_coordinator_takeovers_total",
    "The coordinator's epoch in this process: how often it began to coordinate.",
    Label.CONTROL_TOPIC,
)
RECENT_TAKEOVERS = _gauge(
    "floe_coordinator_recent_takeovers",
    f"How often who coordinates changed within {TAKEOVERS_MIN} minutes, by whichever processes, as the control topic says.",
    Label.CONTROL_TOPIC,
    since=3,
)
LEADER_EPOCH = _gauge(
    "floe_control_topic_leader_epoch", "The newest leader epoch in the control topic.", Label.CONTROL_TOPIC
)
LOW_WATER = _gauge(
    "floe_control_topic_low_water_offset",
    "Everything announced below is in every table.",
    Label.CONTROL_TOPIC,
    unit="offset",
)
POSITION = _gauge(
    "floe_control_topic_position_offset",
    "How far the coordinator has read.",
    Label.CONTROL_TOPIC,
    unit="offset",
)
TABLES = _gauge(
    "floe_tables", "How many tables are in the state. No table is left out.", Label.CONTROL_TOPIC, Label.STATE
)
TABLE_STATE = _gauge(
    "floe_table_state", "1 for the state in which the table is, 0 for the others.", *_TABLE, Label.STATE
)
PENDING_ANNOUNCEMENTS = _gauge("floe_table_announced_announcements", "Announcements that wait for a commit.", *_TABLE)
PENDING_RECORDS = _gauge(
    "floe_table_announced_records", "Rows that are announced and not committed.", *_TABLE, unit="records"
)
PENDING_FILES = _gauge("floe_table_announced_files", "Files that are announced and not committed.", *_TABLE)
PENDING_BYTES = _gauge("floe_table_announced_bytes", "The size of those files.", *_TABLE, unit="bytes")
OLDEST = _gauge(
    "floe_table_oldest_announced_timestamp_seconds",
    "When the oldest of them was announced. Its age is `time()` less this; absent if nothing waits.",
    *_TABLE,
    unit="seconds since 1970",
)
VALID_THROUGH = _gauge(
    "floe_table_valid_through_timestamp_seconds",
    "No record with an earlier timestamp is still to come. The valid-through age is `time()` less this.",
    *_TABLE,
    unit="seconds since 1970",
)
LAST_COMMIT = _gauge(
    "floe_table_last_commit_timestamp_seconds", "When the newest commit was made.", *_TABLE, unit="seconds since 1970"
)
COMMITS = _counter(
    "floe_commits_total",
    "Commits of this process. `committed`; `conflict`: the table changed, and it is decided anew; `files_gone`: "
    "announced files are not in the store; `refused`: the catalog or the table does not take it; `failed`: nothing was "
    "sent; `unknown`: sent, and the outcome cannot be found out now.",
    Label.CATALOG,
    Label.OUTCOME,
)
COMMIT_SECONDS = Metric(
    "floe_commit_duration_seconds",
    MetricKind.HISTOGRAM,
    "How long commits took, whatever came of them.",
    (Label.CATALOG,),
    "seconds",
    bounds_s=COMMIT_BOUNDS_S,
)
OLDEST_REQUEST = _gauge(
    "floe_catalog_request_started_timestamp_seconds",
    "When the oldest request began that the catalog has not answered; absent if none is under way.",
    Label.CATALOG,
    unit="seconds since 1970",
)

MEASURED = _gauge(
    "floe_table_measured_timestamp_seconds",
    "When the coordinator last looked at the table's manifests: after each round of maintenance, and at most once an hour "
    "where it does none. The metrics below are of that moment, and absent before it.",
    *_TABLE,
    unit="seconds since 1970",
    since=2,
)
DATA_FILES = _gauge(
    "floe_table_data_files", "Live data files by size. Their sum is all of them.", *_TABLE, Label.SIZE, since=2
)
SMALL_FILES = _gauge(
    "floe_table_small_files", "Data files below three quarters of the size that compaction makes.", *_TABLE, since=2
)
DELETE_FILES = _gauge("floe_table_delete_files", "Delete files, of which a deletion vector is one.", *_TABLE, since=2)
DELETED_ROWS = _gauge("floe_table_deleted_rows", "Rows that readers pass over.", *_TABLE, since=2)
MANIFESTS = _gauge("floe_table_manifests", "Manifests that the newest snapshot lists.", *_TABLE, since=2)
METADATA_BYTES = _gauge(
    "floe_table_metadata_bytes",
    "The size of the metadata file, which each commit writes anew.",
    *_TABLE,
    unit="bytes",
    since=2,
)
SNAPSHOTS = _gauge("floe_table_snapshots", "Snapshots that the metadata holds.", *_TABLE, since=2)
LAST_MAINTENANCE = _gauge(
    "floe_table_last_maintenance_timestamp_seconds",
    "When floe last put files or manifests of the table together; absent where no such snapshot is left.",
    *_TABLE,
    unit="seconds since 1970",
    since=2,
)
GAIN_FILES = _gauge(
    "floe_table_gain_files", "So many fewer data files would be left by a compaction now.", *_TABLE, since=2
)
GAIN_BYTES = _gauge("floe_table_gain_read_bytes", "What that compaction would read.", *_TABLE, unit="bytes", since=2)
GAIN_SNAPSHOTS = _gauge("floe_table_gain_snapshots", "Snapshots that would expire now.", *_TABLE, since=2)
NEEDS = _gauge(
    "floe_table_needs_maintenance",
    f"1: a person should maintain the table, for `small_files` ({MANY_FILES} fewer to be had), `deletes` "
    f"({MUCH_DELETED:.0%} of the rows), `manifests` ({MANY_MANIFESTS} fewer) or `snapshots` ({MANY_SNAPSHOTS} to expire). "
    "Never where another engine rewrites it.",
    *_TABLE,
    Label.REASON,
    since=2,
)

METRICS: tuple[Metric, ...] = (
    INFO, CONTRACT, SUMMED, MEMORY, SERVICE_UP,
    PIPELINE_STATE, PIPELINE_SINCE, PIPELINE_OWNER, OBJECTIVE_TARGET, OBJECTIVE_COUNTED, OBJECTIVE_BAD,
    LAG_RECORDS, LAG_SECONDS, RETENTION_USED, SAFE_OFFSET, LOG_END,
    RECORDS, DEAD_LETTERS, DROPPED, BATCH, BATCHES, BATCH_SECONDS, PHASE_SECONDS, PHASE, PROGRESS, STALLED, SILENT,
    WAITING_BATCHES, WAITING_BYTES, RETRIES, LINEAGE_DROPPED, STORE_REQUESTS, TASK_STORE_REQUESTS,
    OWNER, OWNER_SINCE, TAKEOVERS, RECENT_TAKEOVERS, LEADER_EPOCH, LOW_WATER, POSITION,
    TABLES, TABLE_STATE, PENDING_ANNOUNCEMENTS, PENDING_RECORDS, PENDING_FILES, PENDING_BYTES, OLDEST, VALID_THROUGH,
    LAST_COMMIT, COMMITS, COMMIT_SECONDS, OLDEST_REQUEST,
    MEASURED, DATA_FILES, SMALL_FILES, DELETE_FILES, DELETED_ROWS, MANIFESTS, METADATA_BYTES, SNAPSHOTS,
    LAST_MAINTENANCE, GAIN_FILES, GAIN_BYTES, GAIN_SNAPSHOTS, NEEDS,
)  # fmt: skip
