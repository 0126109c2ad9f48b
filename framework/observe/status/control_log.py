"""The control log folded as a coordinator would fold it, by somebody who only looks.

In: a control topic, its coordinators' group and, where tables matter, a catalog; nothing is changed. Out: the state
that the coordinator's own pure `step` comes to, with the newest link of each pipeline and the newest commit of each
table, so that what is shown is what would be committed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.leadership import Mark, mark_of
from framework.adapters.kafka.control.log import ControlReader, RawRecord
from framework.adapters.kafka.control.topic import ControlTopicFacts, check_control_topic
from framework.commit.dead_letter_history import DeadLetterHistory
from framework.commit.events.codec import is_of_type
from framework.commit.events.event_types import (
    CommitComplete,
    CommitToTable,
    DataComplete,
    DataWritten,
    Deployed,
    Heartbeat,
    OffsetsSet,
    StateChanged,
    Subject,
)
from framework.commit.lag_trend import LagTrend, oldest_partition_ms
from framework.commit.machine.changed import changed
from framework.commit.machine.effects import (
    Assigned,
    Effect,
    Input,
    LoadFailed,
    LoadTable,
    Read,
    TableLoaded,
    TableMissing,
    Tick,
)
from framework.commit.machine.model import TablePhase
from framework.commit.machine.progress.chain import settled_link
from framework.commit.machine.queues import drop_announcements
from framework.commit.machine.reporting.blocked_words import BlockedTables
from framework.commit.machine.step import CoordinatorState, Limits, start_offset, step
from framework.commit.objectives.log import ObjectiveLog
from framework.commit.risks import LeadershipHistory, leadership_claim
from framework.errors import FloeError
from framework.observe.status.model import LatestEvent

if TYPE_CHECKING:
    from framework.adapters.iceberg.tables import IcebergTables

TAIL = 20_000
EVENT_TAIL = 10_000  # undecoded for the most part
ALL_DUE_MS = 2**53  # later than any interval ends
# Who only looks keeps all that waits: the bounds of a coordinator's memory are for those that go on for weeks.
READER = Limits(pending_files=2**53, undrained_files=2**53)


@dataclass
class ControlLog:
    """What the log says up to `end`. `by_word`: what it reports of commits is believed, and not looked for in the tables.
    `links` holds the newest batch, heartbeat or settled offsets of each pipeline,
    good or not; `state.pipelines` the good chains; `deployed` what each pipeline's newest run published that it runs."""

    facts: ControlTopicFacts
    end: int
    state: CoordinatorState
    links: dict[str, DataComplete | Heartbeat] = field(default_factory=dict)
    commits: dict[str, CommitToTable] = field(default_factory=dict)
    deployed: dict[str, Deployed] = field(default_factory=dict)
    reports: dict[str, dict[str, StateChanged]] = field(default_factory=dict)
    """Of pipelines: by name, and by the run that reported; the newest run last."""
    by_word: bool = False
    words: dict[str, LatestEvent] = field(default_factory=dict)  # by pipeline, the newest of any of its runs
    word: LatestEvent | None = None  # the newest of any coordinator
    batched_ms: dict[str, int | None] = field(default_factory=dict)  # by pipeline, when a batch was announced last
    dead_letters: dict[str, DeadLetterHistory] = field(default_factory=dict)  # by pipeline
    blocked: BlockedTables = field(default_factory=BlockedTables)
    trends: dict[str, LagTrend] = field(default_factory=dict)  # by pipeline
    leadership: LeadershipHistory = field(default_factory=LeadershipHistory)
    writers: dict[str, frozenset[str]] = field(default_factory=dict)  # by table, pipelines whose batches named it
    objectives: ObjectiveLog = field(default_factory=ObjectiveLog)

    def read(self, record: Read, catalog: IcebergTables | None) -> None:
        event = record.event
        if isinstance(event, CommitToTable):
            self.commits[event.table] = event
            self.blocked.committed(event.table)
        elif isinstance(event, CommitComplete):
            self.blocked.hear(event)
            self.links = {**event.chain, **self.links}
        elif isinstance(event, DataComplete | Heartbeat):
            self.links[event.pipeline] = event
        elif isinstance(event, OffsetsSet):
            self.links[event.pipeline] = settled_link(event)
        elif isinstance(event, Deployed):
            self.deployed[event.pipeline] = event
        elif isinstance(event, StateChanged) and event.subject is Subject.PIPELINE:
            by_run = self.reports.setdefault(event.name, {})
            by_run.pop(event.by, None)
            by_run[event.by] = event
        self._hear(record)
        if isinstance(event, CommitToTable):
            self._forget_attempt(event.table_uuid)
        self.state, effects = step(self.state, record, 0)
        self._answer(effects, catalog)
        if self.by_word and isinstance(event, CommitToTable):
            self._is_in(self.state.queues.get(event.table_uuid, ""), min(event.control_offset, record.offset))
        elif self.by_word and isinstance(event, CommitComplete):
            for name in self.state.tables:
                self._is_in(name, min(event.low_water, record.offset))

    def _hear(self, record: Read) -> None:
        """Whose word it is, and which tables it names."""
        event = record.event
        self.leadership = self.leadership.after(leadership_claim(event))
        if self.by_word:  # who looks at tables, too, is shown what the log says of objectives
            self.objectives.hear(record.offset, event, record.timestamp_ms)
        if isinstance(event, DataComplete | Heartbeat | Deployed):
            self.words[event.pipeline] = LatestEvent(event.run, record.timestamp_ms or 0)
        elif isinstance(event, StateChanged) and event.subject is Subject.PIPELINE:
            self.words[event.name] = LatestEvent(event.by, event.timestamp_ms)
        elif isinstance(event, StateChanged):
            self.word = LatestEvent(event.by, event.timestamp_ms)
        elif isinstance(event, CommitComplete):
            self.word = LatestEvent(event.coordinator, event.timestamp_ms)
        elif isinstance(event, CommitToTable):
            self.word = LatestEvent(self.word.by if self.word is not None else "", event.timestamp_ms)
        if isinstance(event, DataComplete):
            self.batched_ms[event.pipeline] = record.timestamp_ms
            a = event.accounting
            history = self.dead_letters.setdefault(event.pipeline, DeadLetterHistory())
            history.add(record.timestamp_ms, a.offsets - a.holes, a.dead_lettered)
            self.trends.setdefault(event.pipeline, LagTrend()).add(record.timestamp_ms, oldest_partition_ms(event))
            for table in event.tables:
                known = self.writers.get(table, frozenset())
                if event.pipeline not in known:
                    self.writers[table] = known | {event.pipeline}

    def _forget_attempt(self, table_uuid: str) -> None:
        """A request in the log lets a coordinator begin a commit; nobody performs it here. What the log then says of that
        commit makes the table be looked at again, as one that is not under way."""
        table = self.state.tables.get(self.state.queues.get(table_uuid, ""))
        if table is not None and table.phase is TablePhase.COMMITTING:
            idle = changed(table, phase=TablePhase.READY, attempt=None)
            self.state = changed(self.state, tables={**self.state.tables, table.table: idle})

    def _is_in(self, name: str, below: int) -> None:
        """A table holds what was announced for it below an offset, as a coordinator has said."""
        table = self.state.tables.get(name)
        if table is None:
            return
        count = next((n for n, each in enumerate(table.pending) if each.offset >= below), len(table.pending))
        if count:
            tables = {**self.state.tables, name: drop_announcements(table, count, 0)}
            self.state = changed(self.state, tables=tables)

    def make_all_due(self, catalog: IcebergTables) -> None:
        """What a coordinator would decide if every table were due: shows which announcements cannot be taken, and why.
        Nothing of it is performed. A table that seems put back, or beyond the log, is looked at twice, as a coordinator does."""
        self.state, effects = step(self.state, Tick(True), ALL_DUE_MS)
        self._answer(effects, catalog)
        if any(table.behind is not None or table.ahead for table in self.state.tables.values()):
            self.state, effects = step(self.state, Tick(True), ALL_DUE_MS)
            self._answer(effects, catalog)

    def _answer(self, effects: tuple[Effect, ...], catalog: IcebergTables | None) -> None:
        for effect in effects:
            if isinstance(effect, LoadTable) and catalog is not None:
                answer: Input
                try:
                    view = catalog.load_view(effect.table, effect.branch, self.state.control_topic_id)
                    answer = TableLoaded(view) if view else TableMissing(effect.table, "the table does not exist")
                except FloeError as error:
                    answer = LoadFailed(effect.table, error.message)  # shown as the state of that table
                self.state, more = step(self.state, answer, 0)
                self._answer(more, catalog)


def read_control_log(
    admin: KafkaAdmin,
    kafka: dict[str, str],
    control_topic: str,
    group: str,
    catalog: IcebergTables | None,
) -> ControlLog:
    """Read the log to its end: from where a coordinator would begin, or further back if that is near its end.

    Raises:
        SetupError: the broker cannot be reached, or the control topic does not exist.
    """
    assigned, facts = _assigned(admin, control_topic, group)
    reader = ControlReader(kafka, control_topic)
    try:
        log = _empty(facts, assigned, reader.end_offset())
        reader.seek(_first(assigned, log))
        for record in reader.records_until(log.end):
            log.read(record, catalog)
        if catalog is not None:
            log.make_all_due(catalog)
    finally:
        reader.close()
    return log


def read_latest_event(
    admin: KafkaAdmin, kafka: dict[str, str], control_topic: str, group: str, catalog: IcebergTables | None = None
) -> tuple[ControlLog, ControlLog | None]:
    """What the log says, believed; and with a catalog also what the same records come to when the tables are looked at.

    Raises:
        SetupError: the broker cannot be reached, or the control topic does not exist.
    """
    assigned, facts = _assigned(admin, control_topic, group)
    reader = ControlReader(kafka, control_topic)
    try:
        said = _empty(facts, assigned, reader.end_offset())
        said.by_word = True
        looked = _empty(facts, assigned, said.end) if catalog is not None else None
        reader.seek(_first(assigned, said))
        for record in map(reader.decoded, _worth_decoding(tuple(reader.raw_until(said.end)), said.state.begin)):
            said.read(record, None)
            if looked is not None:
                looked.read(record, catalog)
    finally:
        reader.close()
    if looked is not None and catalog is not None:
        looked.make_all_due(catalog)
    return said, looked


_COMMITTED_TABLE = re.compile(rb'\{"type":"CommitToTable","version":\d+,"table":"([^"\\]+)",')


def _worth_decoding(records: Sequence[RawRecord], begin: int) -> Iterable[RawRecord]:
    """In log order, without announcements below `begin`, which are in every table, and of the commits below it only the
    newest of each table."""
    kept: list[RawRecord] = []
    tables: set[bytes] = set()
    for record in reversed(records):
        if record.offset < begin:
            if is_of_type(record.value, DataWritten.__name__):
                continue
            table = _COMMITTED_TABLE.match(record.value)
            if table is not None:
                if table[1] in tables:
                    continue
                tables.add(table[1])
        kept.append(record)
    return reversed(kept)


def _assigned(admin: KafkaAdmin, control_topic: str, group: str) -> tuple[Assigned, ControlTopicFacts]:
    """What a coordinator would know at its start."""
    facts = check_control_topic(admin, control_topic)
    stored = admin.group_offsets(group, [(control_topic, 0)]).get((control_topic, 0))
    mark = mark_of(stored.metadata) if stored else Mark()
    assigned = Assigned(
        "reader",
        facts.topic_id,
        facts.log_start,
        stored.offset if stored else None,
        mark.topic_id,
        mark.chain_from,
        facts.log_end,
        low_water_epoch=mark.leader_epoch,
        records_end=mark.records_end,
    )
    return assigned, facts


def _empty(facts: ControlTopicFacts, assigned: Assigned, end: int) -> ControlLog:
    state, _ = step(CoordinatorState(limits=READER), assigned, 0)
    return ControlLog(facts, end, state)


def _first(assigned: Assigned, log: ControlLog) -> int:
    tail = EVENT_TAIL if log.by_word else TAIL
    return min(start_offset(assigned), max(log.facts.log_start, log.end - tail))
