"""What `floe status` shows, as frozen values: pipelines, tables, pauses, who coordinates, and whose word it is.

In: nothing; `framework.observe.status.judge` makes them. Out: a Status value with a stable JSON form
(`schemas/status.v1.schema.json`). Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from framework.commit.events.event_types import Accounting, Health, Holds
from framework.commit.objectives.budget import Budget
from framework.commit.offsets import Gaps
from framework.commit.risks import Risk
from framework.config.names.table_names import name_matches
from framework.config.values.owners import NOBODY, Owners

if TYPE_CHECKING:
    from framework.commit.maintenance.health import TableHealth
    from framework.config.spec import TemplateUse

TROUBLE = 9
TROUBLED = frozenset({Health.BLOCKED, Health.STALLED, Health.FAILED})
"""States that end `floe status` with `TROUBLE`: they do not pass by themselves, or have lasted for long."""


@dataclass(frozen=True)
class LatestEvent:
    """Something that was said in the control log: by which run or coordinator, and when by its clock."""

    by: str
    timestamp_ms: int


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
    """`totals` is the sum of invariant 8 since the pipeline first ran. `since_ms` is None where nobody reported, `template`
    where the newest run published of none. Every record with a timestamp before `valid_through_ms` is visible in its tables,
    and `freshness_ms` is how long ago that was; `word` is the newest thing that a run of it said. `waits_since_ms`: the time of
    its oldest unread record; `lag_trend`: whether that lag is growing, falling or steady, "" where it is not known."""

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
    valid_through_ms: int | None = None
    freshness_ms: int | None = None
    word: LatestEvent | None = None
    waits_since_ms: int | None = None
    lag_trend: str = ""
    owners: Owners = NOBODY
    budgets: tuple[Budget, ...] = ()


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
    """`reason` and `remedy` are "" while all is well; `failures` is how many commits failed in a row. `pipelines` are
    those whose batches named it in the part of the log that was read. `differs` is what the log alone says of it, where
    a look at the table found something else; "" where it found the same, or nobody looked."""

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
    valid_through_ms: int | None = None
    freshness_ms: int | None = None
    pipelines: tuple[str, ...] = ()
    differs: str = ""


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
    """`low_water`: everything below it is in every table. `reason`: why no coordinator can go on with this log; then
    nothing is known of what waits."""

    topic: str
    topic_id: str
    log_start: int
    log_end: int
    low_water: int
    reason: str = ""
    remedy: str = ""
    code: str = ""


@dataclass(frozen=True)
class Status:
    """As of `read_ms`. `word` is the newest thing that a coordinator said, None where it said nothing in the part of the
    log that was read. `verified`: the tables were looked at besides. `risks` threaten what may be well still.
    """

    target: str
    control: ControlStatus
    coordinator: str | None
    pipelines: tuple[PipelineStatus, ...]
    tables: tuple[TableStatus, ...]
    pauses: tuple[PauseStatus, ...]
    read_ms: int = 0
    word: LatestEvent | None = None
    verified: bool = False
    risks: tuple[Risk, ...] = ()

    @property
    def exit_code(self) -> int:
        """0, or `TROUBLE` where something needs a person."""
        states = {p.state for p in self.pipelines} | {t.state for t in self.tables}
        is_troubled = self.control.reason or self.risks or states & TROUBLED
        return TROUBLE if is_troubled else 0

    def to_json(self) -> dict[str, object]:
        """The document that `floe status --json` prints."""
        value = {"dangers" if name == "risks" else name: part for name, part in asdict(self).items()}
        for table in value["tables"]:
            if table["health"] is None:
                del table["health"]
        for pipeline, found in zip(value["pipelines"], self.pipelines, strict=True):
            pipeline["owners"] = found.owners.to_json()
            pipeline["objectives"] = [each.to_json() for each in found.budgets]
            del pipeline["budgets"]
            if pipeline["template"] is None:
                del pipeline["template"]
        return {"command": "status", "ok": True, "exit_code": self.exit_code, **value}


def filtered(
    status: Status, pipelines: Sequence[str] = (), tables: Sequence[str] = (), states: Sequence[Health] = ()
) -> Status:
    """The pipelines and tables that match: one of the patterns of their kind, and one of the states; none: all do. A
    pattern of pipelines also keeps to the tables that they write to."""

    def named(name: str) -> bool:
        return not pipelines or any(fnmatchcase(name, pattern) for pattern in pipelines)

    def wanted(table: TableStatus) -> bool:
        is_named = not tables or any(name_matches(table.table, pattern) for pattern in tables)
        return is_named and (not pipelines or any(map(named, table.pipelines)))

    shown = tuple(p for p in status.pipelines if named(p.pipeline))
    return replace(
        status,
        pipelines=tuple(p for p in shown if not states or p.state in states),
        tables=tuple(t for t in status.tables if wanted(t) and (not states or t.state in states)),
        risks=tuple(
            risk
            for risk in status.risks
            if (named(risk.name) if risk.kind == "pipeline" else not (pipelines or tables)) and not states
        ),
    )
