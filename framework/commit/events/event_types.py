"""The events of the control topic, as frozen values.

In: what a run, a coordinator or a person has to say. Out: a value that `framework.commit.events.codec` writes as JSON,
valid under `schemas/control-event.v1.schema.json`, so that anyone can read the log with a console consumer. Keeps
nothing but what was said: a field whose meaning needs a decision belongs elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from framework.commit.maintenance.health import TableHealth


@dataclass(frozen=True)
class DataFile:
    """One Parquet file as Iceberg must know it.

    `partition` holds the partition tuple in the order of the spec's fields, as Iceberg JSON single values (dates as
    days since 1970, timestamps as microseconds, decimals and uuids as text, binary as hex). Metrics are keyed by field
    id (as text, since JSON keys are text); bounds are Iceberg's binary single values in base64.
    """

    path: str
    record_count: int
    file_size_bytes: int
    spec_id: int
    partition: tuple[object, ...] = ()
    column_sizes: dict[str, int] = field(default_factory=dict)
    value_counts: dict[str, int] = field(default_factory=dict)
    null_value_counts: dict[str, int] = field(default_factory=dict)
    nan_value_counts: dict[str, int] = field(default_factory=dict)
    lower_bounds: dict[str, str] = field(default_factory=dict)
    upper_bounds: dict[str, str] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    sort_order_id: int | None = None


@dataclass(frozen=True)
class SourceRange:
    """Offsets [start, end) of one partition of one incarnation (topic id) of a topic. Invariant 11: the id qualifies
    them.

    `max_timestamp_ms` is the highest record timestamp seen in the range, None when it held no record.
    """

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    max_timestamp_ms: int | None = None


@dataclass(frozen=True)
class Accounting:
    """Invariant 8, in records: offsets = written + filtered + dead_lettered + dropped + holes + lost.

    `written` counts source records that landed in at least one table (`rows` counts rows over all tables, dead letters
    excluded); `filtered` were removed by `transform.sql`; `dropped` by a rule that says so (unrouted, errors,
    tombstones); `holes` are offsets without a record: transaction markers, aborted and compacted records. `lost` are
    offsets that retention removed before they were read, under `on_data_loss: skip_and_record`; what stood at them is
    not known.
    """

    offsets: int = 0
    written: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    holes: int = 0
    rows: int = 0
    lost: int = 0

    def __add__(self, other: Accounting) -> Accounting:
        return Accounting(
            self.offsets + other.offsets,
            self.written + other.written,
            self.filtered + other.filtered,
            self.dead_lettered + other.dead_lettered,
            self.dropped + other.dropped,
            self.holes + other.holes,
            self.rows + other.rows,
            self.lost + other.lost,
        )

    @property
    def difference(self) -> int:
        """Zero when the sum holds."""
        return self.offsets - (
            self.written + self.filtered + self.dead_lettered + self.dropped + self.holes + self.lost
        )

    def __str__(self) -> str:
        """The sum in words; what was lost is named only where something was."""
        return (
            f"{self.offsets:,} offsets = {self.written:,} written + {self.filtered:,} filtered + "
            f"{self.dead_lettered:,} dead letters + {self.dropped:,} dropped + {self.holes:,} holes"
            + (f" + {self.lost:,} lost" if self.lost else "")
        )


@dataclass(frozen=True)
class TableCommitPolicy:
    """When a table is due, carried by the announcement so that a coordinator needs no pipeline file."""

    interval_ms: int
    max_bytes: int
    max_rows: int
    branch: str = "main"


@dataclass(frozen=True)
class KeysFile:
    """A Parquet file of keys that a batch changes, one row for each key: the key columns (with their field ids), and
    `file` and `pos`, where its live row was found at the base snapshot; both null for a key without one."""

    path: str
    record_count: int
    file_size_bytes: int


@dataclass(frozen=True)
class DeletedKeysFile:
    """An Arrow file of deleted keys, by hash, each with the value that ordered its delete. `newest_ms` is when the
    newest of them was deleted."""

    path: str
    record_count: int
    file_size_bytes: int
    newest_ms: int


@dataclass(frozen=True)
class DeletedKeysChange:
    """What a batch does to the deleted keys that a table remembers, where a column orders its records.

    `order_id` is that column's field id. The changes were compared with the files in `known`, which the table must
    still name; from the commit on it names those in `added`, too, and those in `removed` no longer.
    """

    order_id: int
    known: tuple[str, ...] = ()
    added: tuple[DeletedKeysFile, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class UpsertChanges:
    """What a batch does to an upsert table, besides adding files: the rows of `keys` that are live go.

    `base_snapshot_id` is the head at which the live rows were looked for, None if the table had no snapshot. `key_ids`
    are the field ids of the key columns, in the order of the pipeline file. The counts are of keys, as they were found
    there. `tombstones` are there where a column orders the table's records. `copy_on_write`: rows go by writing their
    data files anew; a coordinator that does not know the word marks them as deleted, which gives the same rows.
    """

    base_snapshot_id: int | None
    key_ids: tuple[int, ...]
    keys: tuple[KeysFile, ...]
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    tombstones: DeletedKeysChange | None = None
    copy_on_write: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that must be there for the commit."""
        deleted = self.tombstones.added if self.tombstones is not None else ()
        return (*(each.path for each in self.keys), *(each.path for each in deleted))


@dataclass(frozen=True)
class DataWritten:
    """Files of one batch for one table. `part` of `parts` where the batch has several for the physical table (split,
    with several schemas, under several names); ranges are the batch's whole ranges, in every part.

    `base_batch`: the batch number under which the pipeline's offsets were last moved by hand, 0 if never. What a table
    records of the batches before it says nothing about where this batch may start.

    `after_batch`: the pipeline's batch before this one that was announced for this very table (by its uuid), as far as
    the run knows; None where it knows of none. A table whose record ends before it has lost what lay between.

    `keyed`: it is an upsert table. It stands in one part of those of a schema, and no other batch shares its
    commit.

    `begun_ms`: when the first of its files may have been begun, by the run's clock; None where it does not say.
    """

    pipeline: str
    run: str
    batch: int
    table: str
    table_uuid: str
    schema_id: int
    files: tuple[DataFile, ...]
    ranges: tuple[SourceRange, ...]
    commit: TableCommitPolicy
    part: int = 0
    parts: int = 1
    base_batch: int = 0
    after_batch: int | None = None
    keyed: UpsertChanges | None = None
    begun_ms: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that it names, of rows and of keys."""
        keyed = self.keyed.paths if self.keyed is not None else ()
        return (*(file.path for file in self.files), *keyed)

    @property
    def rows(self) -> int:
        return sum(f.record_count for f in self.files)

    @property
    def bytes(self) -> int:
        return sum(f.file_size_bytes for f in self.files)


@dataclass(frozen=True)
class DataComplete:
    """The end of one batch: ALL partitions of the pipeline (also those without records, start == end), its accounting
    and the running totals since the pipeline first ran. `tables` names the tables that have a DataWritten in this
    batch.

    `gaps` are the offsets that were gone before they could be read; together they are the accounting's `lost`. A batch
    with gaps has nothing else in it. `given_up` are the ends of partitions that a person gave up. `phase_ms`: where the
    run's time went since it announced the batch before, for people; nothing is decided by it.
    """

    pipeline: str
    run: str
    batch: int
    ranges: tuple[SourceRange, ...]
    accounting: Accounting
    totals: Accounting
    tables: tuple[str, ...] = ()
    gaps: tuple[SourceRange, ...] = ()
    given_up: tuple[SourceRange, ...] = ()
    phase_ms: dict[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Heartbeat:
    """A pipeline is alive: its chain ends here (start == end in every range) and everything before is announced.

    With a number of its own it says besides that there was nothing to read, or that a partition which was given up is
    read again. With the number of the batch before (0 for none) it only says where the pipeline stands and whose run it
    is: at the start of each run, and while a run is held. `given_up` are the ends of partitions that a person gave up.
    """

    pipeline: str
    run: str
    batch: int
    ranges: tuple[SourceRange, ...]
    totals: Accounting
    given_up: tuple[SourceRange, ...] = ()


@dataclass(frozen=True)
class OffsetsSet:
    """A person settled where a pipeline goes on: its chain continues at these ends (start == end in every range),
    whatever came before, and what waits of a broken chain is given up. In one transaction with the group's offsets.

    `base_batch` as in the announcements that follow. `lost` and `repeated` count the source offsets that were skipped,
    or will be read a second time, by consent; `reason` says how the positions were chosen. `given_up` are the ends of
    partitions that are not read any more: one that comes back goes on there.
    """

    pipeline: str
    run: str
    batch: int
    ranges: tuple[SourceRange, ...]
    totals: Accounting
    base_batch: int
    lost: int
    repeated: int
    reason: str
    timestamp_ms: int
    given_up: tuple[SourceRange, ...] = ()


class Health(str, Enum):
    """The state of a pipeline or of a table."""

    RUNNING = "RUNNING"  # work is done, or waits for its interval
    IDLE = "IDLE"  # there is nothing to do
    DEGRADED = "DEGRADED"  # something fails and is tried again
    STALLED = "STALLED"  # should get on and does not; reported to the log as DEGRADED with a code of its own
    BLOCKED = "BLOCKED"  # cannot go on until somebody repairs it
    FAILED = "FAILED"  # has given up, or failed many times in a row
    PAUSED = "PAUSED"  # a person holds it
    STOPPED = "STOPPED"  # ended, as was asked


class Subject(str, Enum):
    PIPELINE = "pipeline"
    TABLE = "table"


@dataclass(frozen=True)
class StateChanged:
    """Information, at least once: a pipeline's state as its run knows it, or a table's as the coordinator knows it.

    `by` is the run or the coordinator; `since_ms` when the state began; `failures` how many there were in a row.
    """

    subject: Subject
    name: str
    state: Health
    reason: str
    remedy: str
    code: str
    failures: int
    since_ms: int
    timestamp_ms: int
    by: str


class Holds(str, Enum):
    """What a pause holds."""

    READING = "reading"  # of pipelines
    COMMITS = "commits"  # of tables


@dataclass(frozen=True)
class PauseChanged:
    """A person holds, or lets go on, the reading of pipelines or the commits of tables whose names match `pattern` (a
    glob). It holds until it is taken back under the same pattern, whoever coordinates or runs meanwhile."""

    holds: Holds
    pattern: str
    paused: bool
    reason: str
    by: str
    timestamp_ms: int


@dataclass(frozen=True)
class StopRequested:
    """Asks the live run of a pipeline to drain: finish the batch in hand, announce it, commit what is announced, and
    end.

    Who sees it after the deadline does not heed it. Answered by the run's StateChanged to STOPPED or FAILED. `reason`
    is why, "" where nobody said.
    """

    request_id: str
    pipeline: str
    deadline_ms: int
    by: str
    reason: str = ""


@dataclass(frozen=True)
class Discarded:
    """A person gave up what waits for a table: its announcements in [first, below) of this log count no more.

    The record of what was given up: `announcements` with `files` files and, by pipeline, `rows`; `reason` says why the
    table could not take them. The files stay where they are, as orphans. `table_uuids` say which tables they were
    written for: one table may go by several names, and whoever begins to read behind the announcements knows it by
    another. `batches` are the first and the last batch of each pipeline that were given up, the last perhaps in part.
    """

    table: str
    first: int
    below: int
    announcements: int
    files: int
    rows: dict[str, int]
    reason: str
    timestamp_ms: int
    table_uuids: tuple[str, ...] = ()
    batches: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """A person let the record at `offset` of this log be passed over: it is named like an event and cannot be read."""

    offset: int
    reason: str
    by: str
    timestamp_ms: int


@dataclass(frozen=True)
class Acted:
    """Information: a person changes something, who it is, when, and why. Published before the act, or with it, of what has no
    such words of its own: offsets that are set, announcements that are discarded, a table that is rolled back.

    `subject` is the pipeline or the table, `why` what the person said ("" where nothing was), `detail` what is done.
    Nothing is decided by it: what is done has its own event, or its own commit.
    """

    act: str
    subject: str
    by: str
    why: str
    timestamp_ms: int
    detail: str = ""


@dataclass(frozen=True)
class CommitRequested:
    """Asks whichever coordinator is alive to commit what is announced by now, without waiting for intervals.

    `pipeline` "" means all. Answered by a CommitComplete whose `request_id` is this one's.
    """

    request_id: str
    pipeline: str
    deadline_ms: int


@dataclass(frozen=True)
class CommitToTable:
    """Information, at least once: a table has a new snapshot that contains every announcement below
    `control_offset`."""

    table: str
    table_uuid: str
    snapshot_id: int
    commit_id: str
    control_offset: int
    rows: int
    files: int
    timestamp_ms: int
    valid_through_ms: int | None = None


@dataclass(frozen=True)
class CommitComplete:
    """Information, at least once: a commit cycle ended. Everything below `low_water` is in every table.

    `blocked` maps tables to the reason why they wait. `request_id` answers a CommitRequested ("" otherwise). `chain`
    repeats each pipeline's newest batch number and range ends, so that a start-up check need not read the whole log: of
    the pipelines that moved since the coordinator's previous CommitComplete, and of all at longer intervals. `position`
    is how far the log was folded when this was said (exclusive; -1 not known). `blocked_pipelines` maps pipelines whose
    chain is broken to the reason. `valid_through_ms` is by pipeline. `paused` repeats the pauses that hold at
    `position`. `more_blocked` counts tables that wait besides those in `blocked`, where these are too many to name.
    """

    coordinator: str
    low_water: int
    timestamp_ms: int
    request_id: str = ""
    blocked: dict[str, str] = field(default_factory=dict)
    chain: dict[str, Heartbeat] = field(default_factory=dict)
    valid_through_ms: dict[str, int] = field(default_factory=dict)
    position: int = -1
    blocked_pipelines: dict[str, str] = field(default_factory=dict)
    paused: tuple[PauseChanged, ...] = ()
    more_blocked: int = 0


@dataclass(frozen=True)
class Deployed:
    """Information: what the run that announces from here on runs, reported at its start and again from time to time.

    `plan` is the canonical value of `framework.plan.canonical` and `hash` its hash; `deployment` names the folder that
    `floe deploy` rolled out ("" for a run that was started alone); `file` is the pipeline file as whoever started the run named
    it, for commands that people are shown. No decision about rows rests on it; how a table is maintained does.
    """

    pipeline: str
    run: str
    hash: str
    plan: dict[str, object]
    floe: str
    timestamp_ms: int
    deployment: str = ""
    file: str = ""


@dataclass(frozen=True)
class TableChanged:
    """Information: a run makes a table, or changes its columns, because its records ask for it. Published before the act, which
    may still be refused, or be made by another run.

    `changes` says each in words, such as `add column customer.zip string`. `cause` names the batch whose records asked.
    """

    table: str
    pipeline: str
    run: str
    changes: tuple[str, ...]
    cause: str
    timestamp_ms: int


@dataclass(frozen=True)
class CoordinatorAssigned:
    """Information: somebody coordinates from here on, reported before it has read the log. `reads_again`: it gave leadership
    up by itself, to read a part of the log again."""

    coordinator: str
    timestamp_ms: int
    reads_again: bool = False


@dataclass(frozen=True)
class CoordinatorReleased:
    """Information: a coordinator whose work was done gave leadership back, so the next one takes it from nobody. One that
    fails or is killed publishes none."""

    coordinator: str
    timestamp_ms: int


@dataclass(frozen=True)
class TableMeasured:
    """Information: how healthy a table was when the coordinator `by` looked at its manifests, after a round of maintenance
    or, of a table that it does not maintain, now and then."""

    table: str
    health: TableHealth
    timestamp_ms: int
    by: str


ControlEvent = (
    DataWritten
    | DataComplete
    | Heartbeat
    | OffsetsSet
    | Discarded
    | Skipped
    | CommitRequested
    | CommitToTable
    | CommitComplete
    | StateChanged
    | PauseChanged
    | StopRequested
    | Deployed
    | Acted
    | TableMeasured
    | TableChanged
    | CoordinatorAssigned
    | CoordinatorReleased
)
