"""What the coordinator's pure `step` may ask for, and what it gets in return.

Effects are the only way in which a decision reaches the world; inputs are the only way in which the world reaches a
decision. `framework.runtime.coordinator.turns` performs the effects through `framework.adapters`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from framework.commit.events.event_types import ControlEvent, DataFile, UpsertChanges


@dataclass(frozen=True)
class PipelineProgress:
    """What of one pipeline is in a table: its newest batch, and per topic the id and the source offset of each
    partition."""

    batch: int
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)  # topic -> partition (text) -> next offset
    topic_ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableProgress:
    """A table's recorded progress (property `floe.progress`): every DataWritten for it below `control_offset` of the
    control topic with id `control_topic_id` is in it. Invariant 3: never moves backwards.

    `leader_epoch` is the newest that any record of the log had when this was recorded; None: not known. A record below
    `control_offset` of a later epoch shows that the log was cut off there and written anew.
    """

    control_topic_id: str
    control_offset: int
    pipelines: dict[str, PipelineProgress] = field(default_factory=dict)
    leader_epoch: int | None = None


@dataclass(frozen=True)
class ExaminedTable:
    """What was examined of a table before a commit is decided (invariant 4).

    `snapshot_id` is the branch's head, None if it has none. `progress` is None when floe never committed to it under
    this control topic. `unusable_schema_ids` are schema ids whose files may no longer be added (a field dropped, a type
    changed in a way that is no promotion). `snapshot_control_offset` is `floe.control-offset` of the newest ancestor of
    the head that has one; lower than `progress.control_offset` after a rollback; 0 when the ancestry is whole and none
    has one; None when ancestors have expired and none of those left has one. `elsewhere` names pipelines whose records
    the table holds by announcements of another control topic, with that topic's id (invariant 11). `unrecorded` is the
    control topic by which the newest of floe's snapshots behind the head was made, where the table records nothing of
    that topic: somebody has taken the record away. `is_older`: the head is older than the snapshot in which the record
    of this control topic began, as `floe rebase` makes one, or is not built on the one in which it was made last.
    """

    table: str
    table_uuid: str
    branch: str
    snapshot_id: int | None
    schema_id: int
    progress: TableProgress | None
    unusable_schema_ids: frozenset[int] = frozenset()
    snapshot_control_offset: int | None = None
    elsewhere: dict[str, str] = field(default_factory=dict)
    unrecorded: str | None = None
    is_older: bool = False

    @property
    def is_behind(self) -> bool:
        """Whether somebody moved the branch back behind what the table records of this control topic."""
        if self.progress is None or self.is_older:
            return self.progress is not None
        return self.snapshot_control_offset is not None and self.snapshot_control_offset < self.progress.control_offset

    @property
    def log_covered_below(self) -> int | None:
        """The first control offset that the branch may lack, 0 where it has nothing of the log; None where that is not known:
        somebody has taken the record away, or moved the branch back to where no snapshot of floe is left."""
        if self.progress is None:
            return None if self.unrecorded is not None else 0
        return self.snapshot_control_offset if self.is_behind else self.progress.control_offset


# ---- effects: what `step` asks for -------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadTable:
    """Read the table's metadata and answer with TableLoaded or TableMissing."""

    table: str
    branch: str


@dataclass(frozen=True)
class CommitTable:
    """Append files and record progress, conditional on the view (invariants 3, 4); answer with one of the outcomes.

    `files` may be empty: then progress alone moves, with an empty snapshot. `commit_id` names the attempt for
    read-back. `examine` are the paths of files that may be so old that others have removed them as orphans: they must
    be there before they are added. `keyed` says which rows go in the same commit; all of it is of one batch.
    """

    table: str
    view: ExaminedTable
    commit_id: str
    files: tuple[DataFile, ...]
    progress: TableProgress
    valid_through_ms: int | None
    examine: tuple[str, ...] = ()
    keyed: tuple[UpsertChanges, ...] = ()


@dataclass(frozen=True)
class RecoverTable(CommitTable):
    """What a person decided about a table: an empty snapshot that changes what floe records there, under the same
    conditions as any commit. The snapshot is what lets those conditions see the change, whoever commits at the same
    time.

    `properties` are set as they are, the text of `floe.progress` among them if it changes. `onto` is the snapshot to
    build on: a rollback names an older one; None: the head. `notes` go into the snapshot's summary.
    `binds`: the record is true of lines with this snapshot alone; not where only the list changes of what the table lacks.
    """

    properties: dict[str, str] = field(default_factory=dict)
    onto: int | None = None
    notes: dict[str, str] = field(default_factory=dict)
    binds: bool = True


@dataclass(frozen=True)
class RecordedTable:
    """A table with all that floe records in its properties: what a recovery is decided from."""

    view: ExaminedTable
    progress_text: str | None
    missing_text: str | None


@dataclass(frozen=True)
class Publish:
    """Append an event to the control topic: information, at least once."""

    event: ControlEvent


@dataclass(frozen=True)
class StoreLowWater:
    """Record durably that everything below `offset` is committed in every table (group offset of the coordinator).

    `chain_from` (never above `offset`) is where a successor begins to read, so that it knows the newest link of every
    pipeline's chain: kept beside the offset, in its metadata, with the control topic's id. `leader_epoch` is the newest
    of the records that were read, which end at `records_end`, by which the broker can tell whether the log still holds
    what was read. Behind that stand markers only, which may be of a later leader.
    """

    offset: int
    chain_from: int | None = None
    leader_epoch: int | None = None
    records_end: int | None = None


@dataclass(frozen=True)
class ReadAgain:
    """Forget everything and begin anew at the stored low-water mark, as a successor would: `table` can be committed
    again, and its announcements from `offset` on were not kept in memory."""

    table: str
    offset: int


@dataclass(frozen=True)
class StopCoordinator:
    """The coordinator must not go on (invariants 6, 11); `message` and `remedy` are for people."""

    code: str
    message: str
    remedy: str


Effect = LoadTable | CommitTable | Publish | StoreLowWater | StopCoordinator | ReadAgain


# ---- inputs: what `step` is given -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assigned:
    """This process owns the control topic's partition now. `low_water` is None when no position was ever stored.

    `low_water_topic_id`, `chain_from`, `low_water_epoch` and `records_end` are what was stored with it; a low-water mark
    without a topic id is refused (invariant 11). `log_end` is where the log ends now, None when that is not known; `truncated`:
    the broker says that the log was cut off below the low-water mark and written anew (its leader epochs do not fit
    those that were read). `framework.commit.machine.step.start_offset` says where reading begins.
    """

    coordinator: str
    control_topic_id: str
    log_start: int
    low_water: int | None
    low_water_topic_id: str | None = None
    chain_from: int | None = None
    log_end: int | None = None
    truncated: bool = False
    low_water_epoch: int | None = None
    records_end: int | None = None


@dataclass(frozen=True)
class Revoked:
    """This process owns the control topic's partition no longer: everything in memory is forgotten."""


@dataclass(frozen=True)
class Read:
    """One committed control record. `event` None: an offset that holds no event for us (unknown type).

    `timestamp_ms` is when its writer says that it was written, by its own clock; `leader_epoch` under which leader.
    `after_ms` is, by our clock, a moment at which it was certainly not in the log yet. None: not known.
    """

    offset: int
    event: ControlEvent | None
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    after_ms: int | None = None


@dataclass(frozen=True)
class Tick:
    """Time has passed; also sent once the log's end is reached (`caught_up`).

    `position`, when known, is the reader's position: everything below it was delivered or holds no event, such as the
    markers that end transactions. It lets the low-water mark reach the end of an idle log.
    """

    caught_up: bool
    position: int | None = None


@dataclass(frozen=True)
class ClockSetBack:
    """The time of day was set back by so much since the last input, as the machine's other clock shows. Whatever was seen
    before is longer ago by that than the time of day says."""

    by_ms: int


@dataclass(frozen=True)
class TableLoaded:
    view: ExaminedTable


@dataclass(frozen=True)
class TableMissing:
    table: str
    reason: str


@dataclass(frozen=True)
class LoadFailed:
    """The table could not be examined now (catalog unreachable, for example): asked again after a pause."""

    table: str
    reason: str


@dataclass(frozen=True)
class Committed:
    """The commit is in the table: `view` is the table after it."""

    table: str
    commit_id: str
    view: ExaminedTable
    snapshot_id: int
    timestamp_ms: int


@dataclass(frozen=True)
class CommitConflict:
    """The commit is certainly not in the table: what was examined has changed. Load again and decide again."""

    table: str
    commit_id: str
    reason: str


@dataclass(frozen=True)
class FilesGone:
    """The commit is certainly not in the table: of the files that were to be examined, `missing` are not in the
    store."""

    table: str
    commit_id: str
    missing: tuple[str, ...]


# So begins the reason of a commit that was sent and whose outcome cannot be found out now.
OUTCOME_UNKNOWN = "outcome unknown"


class FailureCause(str, Enum):
    """Why a commit failed."""

    CATALOG = "catalog"  # it did not answer, and nothing was sent
    STORE = "store"  # metadata could not be written or files not looked for, and nothing was sent
    REFUSED = "refused"  # by the catalog, or the table cannot take it
    FLOE = "floe"  # an error of floe's own, and nothing was sent
    UNKNOWN = "unknown"  # it was sent, and the table cannot be read back


@dataclass(frozen=True)
class CommitFailed:
    """The commit is certainly not in the table, or that cannot be found out now; retry after a pause by loading
    again. `cause` is for people: what is decided is the same."""

    table: str
    commit_id: str
    reason: str
    cause: FailureCause = FailureCause.CATALOG


Input = (
    Assigned
    | Revoked
    | Read
    | Tick
    | ClockSetBack
    | TableLoaded
    | TableMissing
    | LoadFailed
    | Committed
    | CommitConflict
    | FilesGone
    | CommitFailed
)
