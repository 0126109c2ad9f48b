"""The control log folded for people who look: what each pipeline and table did lately, and what waits.

In: the log's records in order. Out: what `framework.overview.build` makes values of. It decides nothing and loads no
table: what a coordinator found out, it has published in the log. Memory is bounded: an hour of minutes and the newest
entries of each, and of what waits one small entry for each announcement, which back-pressure bounds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from framework.commit.dead_letter_history import DeadLetterHistory
from framework.commit.events.event_types import (
    Acted,
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataWritten,
    Deployed,
    Discarded,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
    Skipped,
    StateChanged,
    StopRequested,
    Subject,
    TableMeasured,
)
from framework.commit.lag_trend import LagTrend, oldest_partition_ms
from framework.commit.machine.pauses import Pauses, with_pause, with_repeated
from framework.commit.machine.progress.chain import settled_link
from framework.commit.machine.reporting.blocked_words import BlockedTables
from framework.commit.objectives.log import ObjectiveLog
from framework.commit.risks import LeadershipHistory, leadership_claim, silent_after_ms
from framework.config.values.owners import NOBODY, Owners, owners_in
from framework.diagnose.whole_commands import StartedFrom
from framework.overview.values import ActView, AnnouncementOutcome, Minute, SchemaChange, TimelineEntry

ENTRIES = 40
ACTS = 100
CHANGES = 20
RUNS = 4
MINUTES = 60
MINUTE_MS = 60_000


class Minutes:
    """The last hour of one pipeline or table."""

    def __init__(self) -> None:
        self.found: deque[Minute] = deque(maxlen=MINUTES)

    def add(self, at_ms: int | None, **counts: int) -> None:
        if at_ms is None:
            return
        minute = at_ms // MINUTE_MS
        if not self.found or self.found[-1].minute < minute:
            self.found.append(Minute(minute))
        last = self.found[-1]  # clocks of several machines: what seems older counts with the newest
        self.found[-1] = replace(last, **{name: getattr(last, name) + count for name, count in counts.items()})


@dataclass
class PendingAnnouncement:
    """One announcement that is not known to be in its table."""

    offset: int
    pipeline: str
    rows: int
    files: int
    bytes: int
    at_ms: int | None


@dataclass
class TableFold:
    """By the name under which it is announced."""

    table: str
    uuids: set[str] = field(default_factory=set)
    waiting: dict[str, deque[PendingAnnouncement]] = field(default_factory=dict)  # by uuid
    pipelines: set[str] = field(default_factory=set)
    timeline: deque[TimelineEntry] = field(default_factory=lambda: deque(maxlen=ENTRIES))
    minutes: Minutes = field(default_factory=Minutes)
    commit: CommitToTable | None = None
    report: StateChanged | None = None
    blocked: str = ""
    blocked_since_ms: int | None = None
    schema_id: int | None = None
    schema_changes: deque[SchemaChange] = field(default_factory=lambda: deque(maxlen=CHANGES))
    measured: TableMeasured | None = None


@dataclass
class PipelineFold:
    pipeline: str
    link: DataComplete | Heartbeat | None = None
    minutes: Minutes = field(default_factory=Minutes)
    phases: deque[tuple[int, dict[str, int]]] = field(
        default_factory=lambda: deque(maxlen=MINUTES)
    )  # with their minute
    reports: dict[str, StateChanged] = field(default_factory=dict)  # by run, the newest last
    broken: str = ""
    valid_through_ms: int | None = None
    last_batch_ms: int | None = None
    heard_ms: int | None = None  # of any of its runs
    tables: set[str] = field(default_factory=set)
    dead_letters: DeadLetterHistory = field(default_factory=DeadLetterHistory)
    trend: LagTrend = field(default_factory=LagTrend)
    silent_after_ms: int | None = None
    owners: Owners = NOBODY
    run: StartedFrom = field(default_factory=StartedFrom)


class LogFold:
    """Changed by `observe` and `everything_is_in` alone, by one thread at a time. `touched` names the tables that
    changed since it was emptied."""

    def __init__(self) -> None:
        self.position = 0
        self.pipelines: dict[str, PipelineFold] = {}
        self.tables: dict[str, TableFold] = {}
        self.pauses: Pauses = {}
        self.acts: deque[ActView] = deque(maxlen=ACTS)
        self.low_water = 0
        self.touched: set[str] = set()
        self.leadership = LeadershipHistory()
        self.objectives = ObjectiveLog()
        self._blocked = BlockedTables()
        self._begin: int | None = None
        self._names: dict[str, set[str]] = {}  # a table's uuid -> the names under which it was announced

    def observe(self, offset: int, event: ControlEvent | None, at_ms: int | None) -> None:
        """One more record of the log, and when it was written."""
        if self._begin is None:
            self._begin = offset
        self.position = offset + 1
        self.leadership = self.leadership.after(leadership_claim(event))
        self.objectives.hear(offset, event, at_ms)
        if isinstance(event, DataComplete | Heartbeat | Deployed):
            self._pipeline(event.pipeline).heard_ms = at_ms
        if isinstance(event, Deployed):
            self._started(event)
        if isinstance(event, DataWritten):
            self._written(offset, event, at_ms)
        elif isinstance(event, DataComplete):
            self._complete(event, at_ms)
        elif isinstance(event, Heartbeat):
            self._pipeline(event.pipeline).link = event
        elif isinstance(event, CommitToTable):
            self._committed(offset, event)
        elif isinstance(event, CommitComplete):
            self._cycle(offset, event)
        elif isinstance(event, StateChanged):
            self._state(event)
        elif isinstance(event, PauseChanged):
            self.pauses = with_pause(self.pauses, offset, event)
            self.touched |= set(self.tables)
            self._act(
                offset,
                event.timestamp_ms,
                "pause" if event.paused else "resume",
                f"{event.holds.value} {event.pattern}",
                event.by,
                event.reason,
            )
        elif isinstance(event, Discarded):
            self._discarded(event)
        elif isinstance(event, OffsetsSet):
            self._pipeline(event.pipeline).link = settled_link(event)
        elif isinstance(event, StopRequested):
            self._act(offset, at_ms or event.deadline_ms, "stop", event.pipeline, event.by, event.reason)
        elif isinstance(event, Skipped):
            self._act(offset, event.timestamp_ms, "skip", f"offset {event.offset}", event.by, "", event.reason)
        elif isinstance(event, TableMeasured):
            self._table(event.table).measured = event
        elif isinstance(event, Acted):
            self._act(offset, event.timestamp_ms, event.act, event.subject, event.by, event.why, event.detail)

    def everything_is_in(self, below: int) -> None:
        """A low-water mark was seen: what was announced below it is in its tables."""
        if below <= self.low_water:
            return
        self.low_water = below
        for table in self.tables.values():
            for uuid in list(table.waiting):
                self._forget(table, uuid, below)

    def _pipeline(self, name: str) -> PipelineFold:
        return self.pipelines.setdefault(name, PipelineFold(name, run=StartedFrom(pipeline=name)))

    def _table(self, name: str, uuid: str = "") -> TableFold:
        table = self.tables.setdefault(name, TableFold(name))
        if uuid and uuid not in table.uuids:
            table.uuids.add(uuid)
            self._names.setdefault(uuid, set()).add(name)
        self.touched.add(name)
        return table

    def _written(self, offset: int, event: DataWritten, at_ms: int | None) -> None:
        table = self._table(event.table, event.table_uuid)
        rows, files, size = event.rows, len(event.files), event.bytes
        if offset >= self.low_water:
            entry = PendingAnnouncement(offset, event.pipeline, rows, files, size, at_ms)
            table.waiting.setdefault(event.table_uuid, deque()).append(entry)
        table.pipelines.add(event.pipeline)
        self._pipeline(event.pipeline).tables.add(event.table)
        outcome = AnnouncementOutcome.WAITING if offset >= self.low_water else AnnouncementOutcome.COMMITTED
        table.timeline.append(TimelineEntry(outcome, offset, at_ms, rows, files, size, event.pipeline, event.batch))
        table.minutes.add(at_ms, bytes=size, files=files, rows=rows)
        if table.schema_id is not None and event.schema_id != table.schema_id:
            change = SchemaChange(at_ms, table.schema_id, event.schema_id, event.pipeline, event.batch, event.run)
            table.schema_changes.append(change)
        table.schema_id = event.schema_id

    def _complete(self, event: DataComplete, at_ms: int | None) -> None:
        pipeline = self._pipeline(event.pipeline)
        pipeline.link, pipeline.last_batch_ms = event, at_ms
        if event.phase_ms and at_ms is not None:
            pipeline.phases.append((at_ms // MINUTE_MS, event.phase_ms))
        a = event.accounting
        pipeline.trend.add(at_ms, oldest_partition_ms(event))
        pipeline.dead_letters.add(at_ms, a.offsets - a.holes, a.dead_lettered)
        pipeline.minutes.add(at_ms, records=a.offsets, dead_letters=a.dead_lettered, batches=1, rows=a.rows)

    def _committed(self, offset: int, event: CommitToTable) -> None:
        table = self._table(event.table, event.table_uuid)
        if table.commit is not None and table.commit.snapshot_id == event.snapshot_id:
            return  # reported twice
        table.commit, table.blocked, table.blocked_since_ms = event, "", None
        self._blocked.committed(event.table)
        entry = TimelineEntry(
            AnnouncementOutcome.SNAPSHOT,
            offset,
            event.timestamp_ms,
            event.rows,
            event.files,
            0,
            snapshot_id=event.snapshot_id,
            through=event.control_offset,
        )
        table.timeline.append(entry)
        table.minutes.add(event.timestamp_ms, commits=1)
        for name in self._names.get(event.table_uuid, ()):
            self._forget(self._table(name), event.table_uuid, event.control_offset)

    def _forget(self, table: TableFold, uuid: str, below: int) -> None:
        entries = table.waiting.get(uuid)
        while entries and entries[0].offset < below:
            entries.popleft()
        if not entries:
            table.waiting.pop(uuid, None)
        self._settle(table, 0, below, AnnouncementOutcome.COMMITTED)

    def _settle(self, table: TableFold, first: int, below: int, outcome: AnnouncementOutcome) -> None:
        self.touched.add(table.table)
        # What stands below the low-water mark is taken for committed until somebody is seen to have given it up.
        settled = (
            (AnnouncementOutcome.WAITING, AnnouncementOutcome.COMMITTED)
            if outcome is AnnouncementOutcome.GIVEN_UP
            else (AnnouncementOutcome.WAITING,)
        )
        for number, entry in enumerate(table.timeline):
            if entry.outcome in settled and first <= entry.offset < below:
                table.timeline[number] = replace(entry, outcome=outcome)

    def _started(self, event: Deployed) -> None:
        found = self._pipeline(event.pipeline)
        found.run = StartedFrom(event.file, event.deployment, event.pipeline)
        found.silent_after_ms = silent_after_ms(event)
        found.owners = owners_in(event.plan.get("owners"))
        self.touched |= found.tables

    def _cycle(self, offset: int, event: CommitComplete) -> None:
        if self._begin is not None and event.position >= self._begin:
            self.pauses = with_repeated(self.pauses, offset, event, 0)
        self.everything_is_in(event.low_water)
        for name in self._blocked.hear(event):
            table, word = self._table(name), self._blocked.found.get(name)
            table.blocked, table.blocked_since_ms = (word.reason, word.since_ms) if word is not None else ("", None)
        for name, pipeline in self.pipelines.items():
            pipeline.broken = event.blocked_pipelines.get(name, "")
        for name, link in event.chain.items():
            found = self._pipeline(name)
            if found.link is None or found.link.batch < link.batch:
                found.link = link
        for name, valid_ms in event.valid_through_ms.items():
            self._pipeline(name).valid_through_ms = valid_ms

    def _state(self, event: StateChanged) -> None:
        if event.subject is Subject.TABLE:
            self._table(event.name).report = event
            return
        reports = self._pipeline(event.name).reports
        reports.pop(event.by, None)
        reports[event.by] = event
        while len(reports) > RUNS:
            del reports[next(iter(reports))]

    def _discarded(self, event: Discarded) -> None:
        names = {event.table, *(name for uuid in event.table_uuids for name in self._names.get(uuid, ()))}
        for name in names:
            table = self._table(name)
            for uuid in list(table.waiting):
                if not event.table_uuids or uuid in event.table_uuids:
                    kept = [w for w in table.waiting[uuid] if not event.first <= w.offset < event.below]
                    table.waiting[uuid] = deque(kept)
            self._settle(table, event.first, event.below, AnnouncementOutcome.GIVEN_UP)

    def _act(self, offset: int, at_ms: int, act: str, subject: str, by: str, why: str, detail: str = "") -> None:
        self.acts.append(ActView(offset, at_ms, act, subject, by, why, detail))
