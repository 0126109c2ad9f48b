"""One view of where everything stands: safe offsets, announcements that wait, visible snapshots, who coordinates.

In: a target's control topic, its groups and its catalog; nothing is changed. Out: a Status value with a stable JSON form
(`schemas/status.v1.schema.json`). The waiting announcements are found with the coordinator's own pure `step`, so that
what is shown is what would be committed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from framework.adapters.iceberg import IcebergTables
from framework.adapters.kafka_admin import KafkaAdmin
from framework.adapters.kafka_control import ControlReader
from framework.adapters.kafka_seat import mark_metadata
from framework.commit.cycle import low_water, waiting_reason
from framework.commit.effects import Assigned, Effect, LoadTable, Read, TableLoaded, TableMissing, Tick
from framework.commit.events import Accounting, CommitComplete, CommitToTable, DataComplete, Heartbeat
from framework.commit.model import CoordinatorState, TableState
from framework.commit.offsets import decode_metadata
from framework.commit.state import start_offset, step
from framework.errors import FloeError
from framework.plan.compile import coordinator_group, group_id

TAIL = 20_000
ALL_DUE_MS = 2**53  # later than any interval ends


@dataclass(frozen=True)
class PartitionStatus:
    """`safe_offset` None: never announced. `lag` is in records, up to the last stable offset."""

    topic: str
    partition: int
    safe_offset: int | None
    log_end: int
    lag: int


@dataclass(frozen=True)
class PipelineStatus:
    """`totals` is the sum of invariant 8 since the pipeline first ran."""

    pipeline: str
    state: str
    reason: str
    batch: int
    lag: int
    totals: Accounting
    partitions: tuple[PartitionStatus, ...]


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
    """`state` is ok, waiting, degraded or blocked; `reason` says why when it is not ok."""

    table: str
    state: str
    reason: str
    pending: PendingStatus
    last_commit: CommitStatus | None


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

    def to_json(self) -> dict[str, object]:
        """The document that `floe status --json` prints."""
        return {"command": "status", "ok": True, **asdict(self)}


def read_status(
    target_name: str, prefix: str, kafka: dict[str, str], control_topic: str, catalog: IcebergTables
) -> Status:
    """Read everything once.

    Raises:
        SetupError: the broker or the catalog cannot be reached, or the control topic does not exist.
    """
    admin = KafkaAdmin(kafka)
    facts = admin.check_control_topic(control_topic)
    group = coordinator_group(prefix, control_topic)
    stored = admin.group_offsets(group).get((control_topic, 0))
    topic_id, chain_from = mark_metadata(stored.metadata) if stored else (None, None)
    assigned = Assigned(
        "status", facts.topic_id, facts.log_start, stored.offset if stored else None, topic_id, chain_from
    )
    reader = ControlReader(kafka, control_topic)
    try:
        fold = _Fold(assigned, catalog)
        end = reader.end_offset()
        begin = min(start_offset(assigned), max(facts.log_start, end - TAIL))
        reader.seek(begin)
        for offset, event in reader.read_until(end):
            fold.read(offset, event)
        fold.finish()
    finally:
        reader.close()
    members = admin.group_members(group)
    owner = next((m.client_id for m in members if (control_topic, 0) in m.partitions), None)
    names = sorted(set(fold.links) | set(fold.state.pipelines))
    return Status(
        target_name,
        ControlStatus(control_topic, facts.topic_id, facts.log_start, end, low_water(fold.state)),
        owner,
        tuple(_pipeline(admin, prefix, name, fold) for name in names),
        tuple(_table(name, fold, catalog) for name in sorted(set(fold.commits) | set(fold.state.tables))),
    )


class _Fold:
    """The control log folded as a coordinator would, without ever committing."""

    def __init__(self, assigned: Assigned, catalog: IcebergTables) -> None:
        self._catalog = catalog
        self.links: dict[str, DataComplete | Heartbeat] = {}
        self.commits: dict[str, CommitToTable] = {}
        self.state, _ = step(CoordinatorState(), assigned, 0)

    def read(self, offset: int, event: object) -> None:
        if isinstance(event, CommitToTable):
            self.commits[event.table] = event
        elif isinstance(event, CommitComplete):
            self.links = {**event.chain, **self.links}
        elif isinstance(event, DataComplete | Heartbeat):
            self.links[event.pipeline] = event
        self.state, effects = step(self.state, Read(offset, event), 0)  # type: ignore[arg-type]
        self._answer(effects)

    def finish(self) -> None:
        """What a coordinator would decide if every table were due: shows which announcements cannot be taken, and why.
        Nothing of it is performed."""
        self.state, effects = step(self.state, Tick(True), ALL_DUE_MS)
        self._answer(effects)

    def _answer(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, LoadTable):
                view = self._catalog.load_view(effect.table, effect.branch, self.state.control_topic_id)
                answer = TableLoaded(view) if view else TableMissing(effect.table, "the table does not exist")
                self.state, more = step(self.state, answer, 0)
                self._answer(more)


def _pipeline(admin: KafkaAdmin, prefix: str, name: str, fold: _Fold) -> PipelineStatus:
    folded = fold.state.pipelines.get(name)
    link = fold.links.get(name) or (folded.link if folded else None)
    group = {
        key: decode_metadata(value.offset, value.metadata, f"{key[0]}-{key[1]}")
        for key, value in admin.group_offsets(group_id(prefix, name)).items()
    }
    topics = sorted({r.topic for r in link.ranges} if link else {topic for topic, _ in group})
    found = admin.topics(topics)
    keys = [(topic, partition) for topic, facts in found.items() for partition in facts.partitions]
    ends = admin.end_offsets(keys) if keys else {}
    partitions = tuple(
        PartitionStatus(
            topic,
            partition,
            group[topic, partition].offset if (topic, partition) in group else None,
            end,
            max(0, end - group[topic, partition].offset) if (topic, partition) in group else end,
        )
        for (topic, partition), end in sorted(ends.items())
    )
    newest = max(group.values(), key=lambda safe: safe.batch, default=None)
    broken = (folded.broken if folded else None) or ""
    missing = [topic for topic in topics if topic not in found]
    reason = broken or (f"topic {', '.join(missing)} does not exist" if missing else "")
    return PipelineStatus(
        name,
        "blocked" if reason else "ok",
        reason,
        newest.batch if newest else 0,
        sum(p.lag for p in partitions),
        newest.totals if newest else Accounting(),
        partitions,
    )


def _table(name: str, fold: _Fold, catalog: IcebergTables) -> TableStatus:
    state: TableState | None = fold.state.tables.get(name)
    pending = PendingStatus(0, 0, 0, 0)
    reason = ""
    if state is not None and state.pending:
        pending = PendingStatus(len(state.pending), state.pending_files, state.pending_rows, state.pending_bytes)
        reason = waiting_reason(fold.state, state) or state.failure
    commit = fold.commits.get(name)
    total: int | None = None
    if commit is not None:
        try:
            newest = catalog.snapshots(name, limit=1)
            total = newest[-1].total_rows if newest else None
        except FloeError as error:
            reason = reason or error.message
    kind = "blocked" if reason else ("waiting" if pending.announcements else "ok")
    return TableStatus(name, kind, reason, pending, _commit(commit, total) if commit else None)


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
