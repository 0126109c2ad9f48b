"""What one process knows of its pipelines, its coordinators and itself, as frozen values.

In: nothing; `framework.runtime.measures.figures` makes them from what driver and coordinator know. Out: values. Times are
milliseconds since 1970, durations seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from framework.commit.events.event_types import Accounting, Health
from framework.commit.maintenance.health import Need, TableHealth
from framework.config.values.objectives import Objective
from framework.config.values.owners import NOBODY, Owners
from framework.metrics.store_requests import Requests


class RunPhase(str, Enum):
    """What a run is at."""

    STARTING = "starting"  # Spark is being started
    WAITING = "waiting"  # no batch is under way; the source is looked at
    PLANNING = "planning"  # a batch is offered, and Spark has not begun it
    TABLES = "tables"  # tables are looked at again, and changed
    WRITING = "writing"  # tasks fetch, convert and write
    ANNOUNCING = "announcing"  # checked, and announced in a transaction
    RETRYING = "retrying"  # a batch failed, and the next attempt has not begun
    ENDED = "ended"


class Service(str, Enum):
    """Whose failure it was."""

    BROKER = "broker"
    CATALOG = "catalog"
    STORE = "store"
    REGISTRY = "registry"
    SPARK = "spark"


@dataclass(frozen=True)
class Histogram:
    """Durations as a histogram counts them: `counts` has one entry for each bound and one for what is longer."""

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...] = ()
    sum_s: float = 0.0

    def with_one(self, seconds: float) -> Histogram:
        counts = list(self.counts or (0,) * (len(self.bounds_s) + 1))
        counts[bisect_left(self.bounds_s, seconds)] += 1
        return replace(self, counts=tuple(counts), sum_s=self.sum_s + seconds)

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True)
class Stall:
    """No progress since then, in that phase."""

    phase: RunPhase
    since_ms: int


@dataclass(frozen=True)
class ObjectiveFigures:
    """One objective of a pipeline. `counted` and `bad` are records, of freshness seconds; they never fall while a process
    lives."""

    objective: Objective
    allowed: float
    counted: float
    bad: float


@dataclass(frozen=True)
class PartitionFigures:
    """`behind_since_ms`: since when records wait; None while none does."""

    topic: str
    partition: int
    safe_offset: int
    log_start: int
    log_end: int
    behind_since_ms: int | None = None

    @property
    def lag(self) -> int:
        return max(0, self.log_end - self.safe_offset)


@dataclass(frozen=True)
class PipelineFigures:
    """One pipeline of a driver. `totals` are of its whole life, all other counts of this run."""

    pipeline: str
    state: Health
    since_ms: int | None
    batch: int
    totals: Accounting
    partitions: tuple[PartitionFigures, ...]
    phase: RunPhase
    progress_ms: int
    stall: Stall | None
    phase_seconds: Mapping[RunPhase, float]
    durations: Histogram
    announced: int
    failed: int
    waiting_batches: int
    waiting_bytes: int
    dead_letters: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by stage and code
    dropped: Mapping[str, int] = field(default_factory=dict)  # by reason
    is_silent: bool = False  # for longer than its file says
    owners: Owners = NOBODY
    objectives: tuple[ObjectiveFigures, ...] = ()
    requests: Requests = field(default_factory=dict)  # to stores, of its tasks


@dataclass(frozen=True)
class TableFigures:
    """One table as the coordinator knows it: what is announced for it and not known to be committed."""

    table: str
    state: Health
    announcements: int = 0
    records: int = 0
    files: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    valid_through_ms: int | None = None
    last_commit_ms: int | None = None
    health: TableHealth | None = None  # as it was at `measured_ms`
    measured_ms: int | None = None
    needs: Mapping[Need, int] = field(default_factory=dict)  # why it should be maintained, and how many tables


@dataclass(frozen=True)
class CoordinatorFigures:
    """One coordinator. `owns` None: the group has not answered yet. What stands behind it is known to an owner alone."""

    control_topic: str
    owns: bool | None
    since_ms: int | None = None
    takeovers: int = 0
    leader_epoch: int | None = None
    low_water: int | None = None
    position: int | None = None
    tables: tuple[TableFigures, ...] = ()
    outcomes: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by catalog and outcome
    durations: Mapping[str, Histogram] = field(default_factory=dict)  # by catalog
    oldest_request_ms: Mapping[str, int] = field(default_factory=dict)  # by catalog
    recent_takeovers: int = 0  # of any process, as the control log reports them


@dataclass(frozen=True)
class Figures:
    """One process at one moment."""

    at_ms: int
    target: str
    version: str
    pipelines: tuple[PipelineFigures, ...] = ()
    coordinators: tuple[CoordinatorFigures, ...] = ()
    memory_bytes: Mapping[str, int] = field(default_factory=dict)  # by process
    services: Mapping[Service, bool] = field(default_factory=dict)  # whether each answered when it was last asked
    retries: Mapping[Service, int] = field(default_factory=dict)
    lineage_dropped: int = 0
    requests: Requests = field(default_factory=dict)  # to stores, without those of tasks
