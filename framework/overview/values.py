"""Where everything stands at one moment, as frozen values: what a terminal shows.

In: nothing; `framework.overview.fold` and `framework.overview.build` make them from the control log and from what the
broker says. Out: values with a plain JSON form. Times are milliseconds since 1970; no value holds a record, a key of
one, or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from framework.commit.events.event_types import Accounting, Health
from framework.commit.machine.reporting.condition import Condition
from framework.commit.maintenance.health import Need, TableHealth
from framework.commit.objectives.budget import Budget
from framework.commit.offsets import Gaps
from framework.commit.risks import OpenTransaction
from framework.config.values.owners import NOBODY, Owners


@dataclass(frozen=True)
class PartitionView:
    """`safe_offset` None: never announced. `lag` is in records, up to the last stable offset. `waits_since_ms`: the time of
    the first record that is not announced, where retention is near it."""

    topic: str
    partition: int
    safe_offset: int | None
    log_end: int
    lag: int
    gaps: Gaps = ()
    log_start: int = 0
    waits_since_ms: int | None = None


@dataclass(frozen=True)
class PipelineFactsSeen:
    """What the broker says of one pipeline: live runs, its partitions, and what is wrong with its group. `live_until_ms`:
    when its last run can have lived last, where it was seen alive."""

    runs: tuple[str, ...] = ()
    partitions: tuple[PartitionView, ...] = ()
    missing_topics: tuple[str, ...] = ()
    foreign_offsets: str = ""
    live_until_ms: int | None = None
    recreated_topics: tuple[str, ...] = ()
    waits_since_ms: int | None = None
    transactions: tuple[OpenTransaction, ...] = ()

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)


NO_CONTROL_TOPIC = "FLOE-E108"


@dataclass(frozen=True)
class BrokerSeen:
    """What the broker said when it was last asked. `trouble`: why it could not be asked since `trouble_since_ms`; what
    is shown then is what it said before."""

    at_ms: int = 0
    owner: str | None = None
    log_end: int = 0
    low_water: int = 0
    pipelines: Mapping[str, PipelineFactsSeen] = field(default_factory=dict)
    trouble: str = ""
    trouble_since_ms: int | None = None
    trouble_code: str = ""


@dataclass(frozen=True)
class Minute:
    """What was announced and committed in one minute; `minute` counts from 1970."""

    minute: int
    records: int = 0
    dead_letters: int = 0
    batches: int = 0
    commits: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class WaitingView:
    """Announced, and not known to be visible."""

    announcements: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    oldest_ms: int | None = None


@dataclass(frozen=True)
class PhaseTime:
    """How long a phase took of the newest batch that reported, and on average of the newest ones, up to an hour."""

    phase: str
    newest_ms: int
    mean_ms: int


@dataclass(frozen=True)
class PipelineView:
    """`valid_through_ms`: no older record is still to come in its tables. `risks`: what threatens it, in whatever state it is,
    the most urgent first; `at_risk`: the first of them. `waits_since_ms`: the time of its oldest unread record; `lag_trend`:
    growing, falling or steady, "" where it is not known. `phases`: where the time of its batches went, the longest first."""

    pipeline: str
    condition: Condition
    runs: tuple[str, ...]
    batch: int
    totals: Accounting
    lag: int
    partitions: tuple[PartitionView, ...]
    valid_through_ms: int | None
    waiting: WaitingView
    minutes: tuple[Minute, ...]
    at_risk: Condition | None = None
    phases: tuple[PhaseTime, ...] = ()
    risks: tuple[Condition, ...] = ()
    waits_since_ms: int | None = None
    lag_trend: str = ""
    owners: Owners = NOBODY
    budgets: tuple[Budget, ...] = ()

    def records_a_minute(self, minute: int) -> int:
        """Of the newest minute that is over: the present one says how far it has got, which is no rate."""
        return sum(each.records for each in self.minutes if each.minute == minute - 1)

    @property
    def hour_records(self) -> int:
        return sum(each.records for each in self.minutes)

    @property
    def hour_dead_letters(self) -> int:
        return sum(each.dead_letters for each in self.minutes)


class AnnouncementOutcome(str, Enum):
    """What became of an announcement, or what an entry of a table's timeline is."""

    WAITING = "waiting"  # announced, and not committed
    COMMITTED = "committed"
    UNKNOWN = "unknown"  # a commit of it was sent, and whether it is in the table is not known yet
    GIVEN_UP = "given up"  # by a person
    SNAPSHOT = "snapshot"  # a commit


@dataclass(frozen=True)
class TimelineEntry:
    """An announcement of a batch for a table, or a commit of the table. `through`: of a commit, below which offset of
    the control log all announcements are in it."""

    outcome: AnnouncementOutcome
    offset: int
    at_ms: int | None
    rows: int
    files: int
    bytes: int
    pipeline: str = ""
    batch: int = 0
    snapshot_id: int | None = None
    through: int | None = None


@dataclass(frozen=True)
class SchemaChange:
    """A table's schema became another one with this batch. `run` is the run that changed it, or that met a change by
    somebody else first."""

    at_ms: int | None
    before: int
    after: int
    pipeline: str
    batch: int
    run: str


@dataclass(frozen=True)
class TableView:
    """`hour` is the sum of the minutes of the last hour; `timeline` has the newest entries, newest first. `health` is as the
    coordinator saw it at `measured_ms`, None where it reported nothing lately; `needs` is why a person should maintain it."""

    table: str
    condition: Condition
    waiting: WaitingView
    pipelines: tuple[str, ...]
    snapshot_id: int | None
    last_commit_ms: int | None
    valid_through_ms: int | None
    hour: Minute
    minutes: tuple[Minute, ...]
    timeline: tuple[TimelineEntry, ...]
    schema_id: int | None
    schema_changes: tuple[SchemaChange, ...]
    health: TableHealth | None = None
    measured_ms: int | None = None
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True)
class ActView:
    """What a person did, as the control log has it."""

    offset: int
    at_ms: int
    act: str
    subject: str
    by: str
    why: str
    detail: str = ""


@dataclass(frozen=True)
class ScreenProblem:
    """One line of the first screen: what is not as it should be. `kind` is `pipeline`, `table` or `coordinator`."""

    kind: str
    name: str
    condition: Condition
    others: int = 0  # so many more have the same state and reason


@dataclass(frozen=True)
class Overview:
    """Everything. `version` grows whenever anything but the time has changed."""

    version: int
    at_ms: int
    target: str
    control_topic: str
    broker: BrokerSeen
    position: int
    pipelines: tuple[PipelineView, ...]
    tables: tuple[TableView, ...]
    troubles: tuple[ScreenProblem, ...]
    held: tuple[ScreenProblem, ...]
    acts: tuple[ActView, ...]


# Most urgent first.
URGENCY = (
    Health.BLOCKED,
    Health.FAILED,
    Health.STALLED,
    Health.DEGRADED,
    Health.PAUSED,
    Health.STOPPED,
    Health.RUNNING,
    Health.IDLE,
)
IN_TROUBLE = frozenset(URGENCY[:4])
