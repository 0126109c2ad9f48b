"""One view of where everything stands: safe offsets, announcements that wait, visible snapshots, who coordinates.

In: a target's control topic, its groups and its catalog; nothing is changed. Out: a Status value with a stable JSON
form (`schemas/status.v1.schema.json`). The waiting announcements are found with the coordinator's own pure `step`, so
that what is shown is what would be committed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.table_care import TableCare
from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    DataComplete,
    Deployed,
    Health,
    Heartbeat,
    Holds,
)
from framework.commit.machine.condition import PipelineFacts, TableFacts, pipeline_condition, table_condition
from framework.commit.machine.cycle import low_water
from framework.commit.machine.health import table_health
from framework.commit.machine.model import TableState, Unread
from framework.commit.machine.pauses import active, holding
from framework.commit.maintenance.health import TableHealth
from framework.commit.offsets import Gaps, PartitionKey, SafeOffset, decode_metadata
from framework.commit.recovery.letter_replay import is_replay, is_replay_topic
from framework.config.maintenance import CompactionPolicy
from framework.config.spec import TemplateUse
from framework.errors import FloeError, StateDisagreement
from framework.plan.compile import coordinator_group, group_id
from framework.runtime.control_log import ControlLog, read_control_log
from framework.runtime.liveness import live_members


@dataclass(frozen=True)
class PartitionStatus:
    """`safe_offset` None: never announced. `lag` is in records, up to the last stable offset. `gaps` are the newest
    ranges of offsets [start, end) that were gone before they were read, under `on_data_loss: skip_and_record`."""

    topic: str
    partition: int
    safe_offset: int | None
    log_end: int
    lag: int
    gaps: Gaps = ()


@dataclass(frozen=True)
class PipelineStatus:
    """`totals` is the sum of invariant 8 since the pipeline first ran. `since_ms` is None where nobody told, `template`
    where the newest run told of none."""

    pipeline: str
    state: Health
    reason: str
    remedy: str
    code: str
    since_ms: int | None
    runs: tuple[str, ...]
    batch: int
    lag: int
    totals: Accounting
    partitions: tuple[PartitionStatus, ...]
    template: TemplateUse | None = None


@dataclass(frozen=True)
class CommitStatus:
    """A snapshot that floe committed; `control_offset`: every announcement for the table below it is in it."""

    snapshot_id: int
    timestamp_ms: int
    rows: int
    files: int
    total_rows: int | None
    control_offset: int
    valid_through_ms: int | None


@dataclass(frozen=True)
class PendingStatus:
    """Written and announced, but not yet visible."""

    announcements: int
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class TableStatus:
    """`reason` and `remedy` are "" while all is well; `failures` is how many commits failed in a row."""

    table: str
    state: Health
    reason: str
    remedy: str
    code: str
    since_ms: int | None
    failures: int
    pending: PendingStatus
    last_commit: CommitStatus | None
    health: TableHealth | None = None  # only where it was asked for, since the table's manifests are read for it


@dataclass(frozen=True)
class PauseStatus:
    """What a person holds, under the pattern by which it is let go on."""

    holds: Holds
    pattern: str
    reason: str
    by: str
    timestamp_ms: int


@dataclass(frozen=True)
class ControlStatus:
    """`low_water`: everything below it is in every table."""

    topic: str
    topic_id: str
    log_start: int
    log_end: int
    low_water: int


@dataclass(frozen=True)
class Status:
    target: str
    control: ControlStatus
    coordinator: str | None
    pipelines: tuple[PipelineStatus, ...]
    tables: tuple[TableStatus, ...]
    pauses: tuple[PauseStatus, ...]

    def to_json(self) -> dict[str, object]:
        """The document that `floe status --json` prints."""
        value = asdict(self)
        for table in value["tables"]:
            if table["health"] is None:
                del table["health"]
        for pipeline in value["pipelines"]:
            if pipeline["template"] is None:
                del pipeline["template"]
        return {"command": "status", "ok": True, **value}


def read_status(
    target_name: str,
    prefix: str,
    kafka: dict[str, str],
    control_topic: str,
    catalog: IcebergTables,
    with_health: bool = False,
) -> Status:
    """Read everything once.

    Args:
        with_health: also read the manifests of every table, and say what maintenance would gain.

    Raises:
        SetupError: the broker or the catalog cannot be reached, or the control topic does not exist.
    """
    admin = KafkaAdmin(kafka)
    group = coordinator_group(prefix, control_topic)
    log = read_control_log(admin, kafka, control_topic, group, catalog)
    facts = log.facts
    members = admin.group_members(group)
    owner = next((m.client_id for m in members if (control_topic, 0) in m.partitions), None)
    names = sorted({*log.links, *log.state.pipelines, *log.reports})
    return Status(
        target_name,
        ControlStatus(control_topic, facts.topic_id, facts.log_start, log.end, low_water(log.state)),
        owner,
        tuple(_pipeline(admin, prefix, name, log) for name in names),
        tuple(
            _table(name, log, catalog, owner is not None, with_health)
            for name in sorted(set(log.commits) | set(log.state.tables))
        ),
        tuple(
            PauseStatus(seen.event.holds, seen.event.pattern, seen.event.reason, seen.event.by, seen.event.timestamp_ms)
            for seen in active(log.state.pauses)
        ),
    )


def _pipeline(admin: KafkaAdmin, prefix: str, name: str, log: ControlLog) -> PipelineStatus:
    folded = log.state.pipelines.get(name)
    link = log.links.get(name) or (folded.link if folded else None)
    group: dict[PartitionKey, SafeOffset] = {}
    foreign = ""
    for key, value in admin.group_offsets(group_id(prefix, name)).items():
        try:
            group[key] = decode_metadata(value.offset, value.metadata, f"{key[0]}-{key[1]}")
        except StateDisagreement as error:
            foreign = f"{error.place}: {error.message}"
    topics = sorted({r.topic for r in link.ranges} if link else {topic for topic, _ in group})
    topics = [topic for topic in topics if not is_replay_topic(topic)]
    found = admin.topics(topics) if topics else {}
    keys = [(topic, partition) for topic, facts in found.items() for partition in facts.partitions]
    ends = admin.end_offsets(keys) if keys else {}
    partitions = tuple(
        PartitionStatus(
            topic,
            partition,
            group[topic, partition].offset if (topic, partition) in group else None,
            end,
            max(0, end - group[topic, partition].offset) if (topic, partition) in group else end,
            group[topic, partition].gaps if (topic, partition) in group else (),
        )
        for (topic, partition), end in sorted(ends.items())
    )
    newest: SafeOffset | DataComplete | Heartbeat | None = max(
        group.values(), key=lambda safe: safe.batch, default=None
    )
    if is_replay(name):  # its source is a table: no group keeps its place
        newest = link
    missing = [topic for topic in topics if topic not in found]
    lag = sum(p.lag for p in partitions)
    live = tuple(member.run for member in live_members(admin, prefix, name) if member.run)
    condition = pipeline_condition(
        PipelineFacts(
            name=name,
            live=live,
            reports=tuple(log.reports.get(name, {}).values()),
            lag=lag,
            broken=(folded.broken if folded else None) or "",
            missing_topics=tuple(missing),
            foreign_offsets=foreign,
            pause=holding(log.state.pauses, Holds.READING, name),
            replay=is_replay(name),
        )
    )
    return PipelineStatus(
        name,
        condition.state,
        condition.reason,
        condition.remedy,
        condition.code,
        condition.since_ms,
        live,
        newest.batch if newest else 0,
        lag,
        newest.totals if newest else Accounting(),
        partitions,
        template_of(log.deployed.get(name)),
    )


def template_of(told: Deployed | None) -> TemplateUse | None:
    """The template that a run said it was made with."""
    value = told.plan.get("template") if told else None
    keys = tuple(each.name for each in fields(TemplateUse))
    if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in keys):
        return None
    return TemplateUse(*(value[key] for key in keys))


def _table(name: str, log: ControlLog, catalog: IcebergTables, coordinated: bool, with_health: bool) -> TableStatus:
    state: TableState | None = log.state.tables.get(name)
    pending = PendingStatus(0, 0, 0, 0)
    if state is not None and state.pending:
        unread = state.unread or Unread(0)
        pending = PendingStatus(
            len(state.pending) + unread.announcements,
            state.pending_files + unread.files,
            state.pending_rows + unread.rows,
            state.pending_bytes + unread.bytes,
        )
    commit = log.commits.get(name)
    total: int | None = None
    unreadable = ""
    health: TableHealth | None = None
    if with_health:
        try:
            health = TableCare(catalog).health(name, CompactionPolicy())
        except FloeError as error:
            unreadable = error.message
    if commit is not None:
        try:
            newest = catalog.snapshots(name, limit=1)
            total = newest[-1].total_rows if newest else None
        except FloeError as error:
            unreadable = error.message
    condition = table_condition(
        TableFacts(
            pending=pending.announcements,
            examined=table_health(log.state, state)[:2] if state is not None else (Health.IDLE, ""),
            report=log.state.reports.get(name),
            last_commit_ms=commit.timestamp_ms if commit is not None else None,
            pause=holding(log.state.pauses, Holds.COMMITS, name),
            coordinated=coordinated,
            unreadable=unreadable,
        )
    )
    return TableStatus(
        name,
        condition.state,
        condition.reason,
        condition.remedy,
        condition.code,
        condition.since_ms,
        condition.failures,
        pending,
        _commit(commit, total) if commit else None,
        health,
    )


def _commit(event: CommitToTable, total: int | None) -> CommitStatus:
    return CommitStatus(
        event.snapshot_id,
        event.timestamp_ms,
        event.rows,
        event.files,
        total,
        event.control_offset,
        event.valid_through_ms,
    )
