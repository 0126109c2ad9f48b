"""What the coordinator knows, as values: the log's fold, the tables it examined, and what it has asked for.

In: nothing; `framework.commit.machine.step.step` makes each state from the one before. Out: frozen dataclasses.
Dictionaries in them are never changed in place. Times are milliseconds since 1970, offsets are offsets of the control
topic unless they are said to be source offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from framework.commit.events.event_types import CommitToTable, DataWritten, Heartbeat, StateChanged, TableCommitPolicy
from framework.commit.file_ages import YOUNG_MS
from framework.commit.machine.effects import ExaminedTable, StopCoordinator
from framework.commit.machine.fifo import Fifo
from framework.commit.machine.pauses import Pauses


@dataclass(frozen=True)
class Limits:
    """The coordinator's own bounds; the tables' intervals and sizes come with the announcements."""

    commit_files: int = 10_000  # one commit takes at most so many files, unless a single batch has more
    retry_first_ms: int = 1_000  # pause after the first failed commit or load; doubles
    retry_most_ms: int = 60_000
    failed_after: int = 10  # failures in a row until a table is called FAILED instead of DEGRADED
    immediate_conflict_retries: int = 3  # conflicts in a row that are decided anew at once; further ones pause
    conflict_first_ms: int = 100
    conflict_most_ms: int = 5_000
    blocked_first_ms: int = 5_000  # a blocked table is examined again after this; doubles
    blocked_most_ms: int = 60_000
    complete_most_ms: int = 30_000  # a CommitComplete at least this often while commits follow one another without end
    store_ms: int = 10_000  # the low-water mark of a log without commits is stored at most this often
    carry_ms: int = 600_000  # all chain links are repeated in a CommitComplete at least this often
    pending_files: int = 20_000  # with more in memory, tables are due at once and the log is not read on meanwhile
    report_ms: int = 10_000  # a new state of one table is reported at most this often
    retell_ms: int = 300_000  # another reason for the same state
    undrained_files: int = 5_000  # of a table that cannot be committed now; what comes after is read again later
    answered_ms: int = 60_000  # an answer that is not read back is waited for so long
    clocks_apart_ms: int = 600_000  # so far the clock of another machine may be off from ours
    examine_after_ms: int = YOUNG_MS  # files that may be older are looked for before they are added
    stalled_ms: int | None = None  # a commit that is under way for longer is reported as stalled; None: none is


@dataclass(frozen=True, slots=True)
class Announcement:
    """One DataWritten and where it stands in the control topic; when it was written, by its writer's clock, under which
    leader, and when by our clock it was not there yet, where that is known."""

    offset: int
    event: DataWritten
    timestamp_ms: int | None = None
    leader_epoch: int | None = None
    after_ms: int | None = None


class TablePhase(str, Enum):
    """What the coordinator waits for before it can decide about a table."""

    LOADING = "loading"  # for the answer to LoadTable
    READY = "ready"  # for the table to be due; `view` is what was examined
    COMMITTING = "committing"  # for the answer to CommitTable
    PAUSED = "paused"  # until `retry_at_ms`, to examine the table again


@dataclass(frozen=True)
class Attempt:
    """A commit in flight: takes every announcement below `through`."""

    commit_id: str
    through: int
    started_ms: int
    rows: int
    files: int
    valid_through_ms: int | None


@dataclass(frozen=True)
class Unread:
    """Announcements for a table that cannot be committed now, which are not kept in memory: all from `offset` on."""

    offset: int
    announcements: int = 0
    rows: int = 0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True)
class Settled:
    """A person settled what was announced of a pipeline below an offset of the log, so an announcement there may follow
    one that is in no table. `read_from`, by topic id and partition: what is read again from there; None: some were
    given up."""

    pipeline: str
    below: int
    read_from: Mapping[tuple[str, int], int] | None = None

    def frees(self, announcement: Announcement) -> bool:
        """Whether what stands in front of an announcement may have been settled: it was given up, or ends behind where
        a partition is read again from."""
        event = announcement.event
        if event.pipeline != self.pipeline or announcement.offset >= self.below:
            return False
        if self.read_from is None:
            return True
        return any(self.read_from.get((r.topic_id, r.partition), r.start) < r.start for r in event.ranges)


@dataclass(frozen=True)
class TableState:
    """One table: its announcements above its recorded progress, in log order, and how far deciding about it has come.

    `table` is the name by which it is loaded. One physical table may be announced under several `names` (spellings that
    its catalog folds, two names of one catalog): only the uuid says that they are one, and one queue holds them all.
    """

    table: str
    branch: str
    policy: TableCommitPolicy
    pending: Fifo[Announcement] = field(default_factory=Fifo)
    pending_rows: int = 0
    pending_bytes: int = 0
    pending_files: int = 0
    first_pending_ms: int = 0
    newest: dict[str, int] = field(default_factory=dict)  # pipeline -> offset of its newest announcement for this table
    phase: TablePhase = TablePhase.LOADING
    view: ExaminedTable | None = None
    table_uuid: str | None = None  # of the newest view
    recorded: int = 0  # P of the table with that uuid: every announcement below is in it; 0 when not known
    recorded_epoch: int | None = None  # the leader epoch that stands beside it
    ahead: int = 0  # P, where it was found above the log's end
    behind: int | None = None  # P, where it was found below what the log says was committed
    names: frozenset[str] = frozenset()
    first_batches: dict[str, int] = field(default_factory=dict)  # by pipeline the first that was read for this table
    # Batches that a person gave up, or that are read again: not missed. Those of a `Discarded` from one to another.
    given_up: frozenset[tuple[str, int]] = frozenset()
    discarded: frozenset[tuple[str, int, int]] = frozenset()
    settled: tuple[Settled, ...] = ()
    attempt: Attempt | None = None
    retry_at_ms: int | None = None
    blocked: str | None = None  # invariant 10: why this table waits
    examinations: int = 0  # in a row that ended in `blocked`
    failures: int = 0  # in a row
    failure: str = ""
    conflicts: int = 0  # in a row
    stalled_at: int = -1  # the position at which a due table had nothing to take yet
    last_commit_ms: int | None = None  # when the last commit was begun: intervals count from here
    valid_through_ms: int | None = None
    repeats: int = 0  # announcements found to be repeats and skipped
    unread: Unread | None = None  # what stands behind `pending` and is to be read again
    reported: StateChanged | None = None  # what was last said of its state; information

    def was_given_up(self, pipeline: str, batch: int) -> bool:
        return (pipeline, batch) in self.given_up or any(
            name == pipeline and first <= batch <= last for name, first, last in self.discarded
        )

    @property
    def first_offset(self) -> int | None:
        """Offset of the oldest announcement that is not known to be in the table."""
        first = self.pending.first
        if first is not None:
            return first.offset
        return self.unread.offset if self.unread is not None else None


@dataclass(frozen=True)
class OpenBatch:
    """A batch of which DataWritten events, but not yet the DataComplete, have been folded."""

    run: str
    batch: int
    first_offset: int
    link_before: int  # where the link before it is seen
    parts: Fifo[tuple[str, str, int, int]] = field(default_factory=Fifo)  # table, its uuid, part, parts


@dataclass(frozen=True)
class PipelineState:
    """One pipeline's chain (invariant 2).

    `link` is the newest good end of the chain, with start == end in each range; a reader that begins at `link_offset`
    sees it. `anchors` holds, for each batch that ends above the low-water mark, the offset of its end and where the
    link before it is seen. Announcements below `confirmed_below` belong to complete batches that fit the chain; those
    above it must not be committed. `broken` says why the chain is broken, from `broken_offset` on.
    """

    pipeline: str
    link: Heartbeat | None = None
    link_offset: int = 0
    anchors: Fifo[tuple[int, int]] = field(default_factory=Fifo)
    last_offset: int = -1
    confirmed_below: int = 0
    open: OpenBatch | None = None
    broken: str | None = None
    broken_offset: int | None = None
    repeats: int = 0
    newest_ms: int | None = None  # highest record timestamp ever announced
    valid_through_ms: int | None = None  # announced: no older record is still to come
    visible_through_ms: int | None = None  # the same for what is in the tables


@dataclass(frozen=True)
class CommitRequest:
    """A CommitRequested: covers every announcement below `offset`, of `pipeline` or of all ("")."""

    request_id: str
    offset: int
    pipeline: str
    deadline_ms: int
    answered_ms: int | None = None  # when it was answered; kept until the answer is read back


@dataclass(frozen=True)
class CoordinatorState:
    """Everything `step` knows. `CoordinatorState()` owns nothing and waits for `Assigned`."""

    limits: Limits = field(default_factory=Limits)
    coordinator: str = ""
    control_topic_id: str = ""
    assigned: bool = False
    begin: int = 0  # where reading began
    position: int = 0  # everything below is folded
    floor: int = 0  # the low-water mark found at the start: what is below it is in every table
    floor_epoch: int | None = None  # the leader epoch that was stored beside it
    stored_low_water: int | None = None
    needs_proof: int | None = None  # invariant 6: a CommitComplete must show a low-water mark of at least this
    caught_up: bool = False  # the log's end was reached once since the assignment
    stopped: StopCoordinator | None = None
    wants_again: str = ""  # a table whose unread announcements are to be read: the state is to be forgotten
    reading_again: bool = False  # and that was asked for
    tables: dict[str, TableState] = field(default_factory=dict)
    queues: dict[str, str] = field(default_factory=dict)  # a table's uuid -> under which name its queue stands
    pipelines: dict[str, PipelineState] = field(default_factory=dict)
    requests: dict[str, CommitRequest] = field(default_factory=dict)
    last_commits: dict[str, CommitToTable] = field(default_factory=dict)  # as read from the log: information
    committed: dict[str, int] = field(default_factory=dict)  # a table's uuid -> the highest P that the log reports
    reports: dict[str, StateChanged] = field(default_factory=dict)  # of tables, as read from the log: information
    pauses: Pauses = field(default_factory=dict)
    leader_epoch: int | None = None  # the newest of any record that was folded
    records_end: int | None = None  # behind the last of them; the position may have passed markers behind it
    log_end: int | None = None  # when this was assigned
    pending_files: int = 0  # over all tables
    committing: int = 0  # tables with a commit in flight
    commits: int = 0  # commits asked for since the assignment
    cycle_open: bool = False  # something was committed, or found in a table, since the last CommitComplete
    unreported: frozenset[str] = frozenset()  # pipelines that moved since the last CommitComplete
    last_complete_ms: int | None = None
    last_carry_ms: int | None = None
    last_store_ms: int | None = None
    clock_ms: int = 0  # of the last Tick
    settled_until_ms: int | None = None  # a Tick before this changes nothing, unless something was folded or answered
    settled: bool = False

    def table_named(self, name: str) -> TableState | None:
        """The table with this name, or with this spelling of its name."""
        found = self.tables.get(name)
        return found or next((table for table in self.tables.values() if name in table.names), None)
