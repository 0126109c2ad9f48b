"""The control log folded as a coordinator would fold it, by somebody who only looks.

In: a control topic, its coordinators' group and, where tables matter, a catalog; nothing is changed. Out: the state
that the coordinator's own pure `step` comes to, with the newest link of each pipeline and the newest commit of each
table, so that what is shown is what would be committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control import ControlReader
from framework.adapters.kafka.control_topic import ControlTopicFacts, check_control_topic
from framework.adapters.kafka.seat import Mark, mark_of
from framework.commit.events.event_types import (
    CommitComplete,
    CommitToTable,
    DataComplete,
    Deployed,
    Heartbeat,
    OffsetsSet,
    StateChanged,
    Subject,
)
from framework.commit.machine.chain import settled_link
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
from framework.commit.machine.step import CoordinatorState, Limits, start_offset, step
from framework.errors import FloeError

TAIL = 20_000
ALL_DUE_MS = 2**53  # later than any interval ends
# Who only looks keeps all that waits: the bounds of a coordinator's memory are for those that go on for weeks.
READER = Limits(pending_files=2**53, undrained_files=2**53)


@dataclass
class ControlLog:
    """What the log says up to `end`. `links` holds the newest batch, heartbeat or settled offsets of each pipeline,
    good or not; `state.pipelines` the good chains; `deployed` what each pipeline's newest run told that it runs."""

    facts: ControlTopicFacts
    end: int
    state: CoordinatorState
    links: dict[str, DataComplete | Heartbeat] = field(default_factory=dict)
    commits: dict[str, CommitToTable] = field(default_factory=dict)
    deployed: dict[str, Deployed] = field(default_factory=dict)
    reports: dict[str, dict[str, StateChanged]] = field(default_factory=dict)
    """Of pipelines: by name, and by the run that told; the newest run last."""

    def read(self, record: Read, catalog: IcebergTables | None) -> None:
        event = record.event
        if isinstance(event, CommitToTable):
            self.commits[event.table] = event
        elif isinstance(event, CommitComplete):
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
        self.state, effects = step(self.state, record, 0)
        self._answer(effects, catalog)

    def make_all_due(self, catalog: IcebergTables) -> None:
        """What a coordinator would decide if every table were due: shows which announcements cannot be taken, and why.
        Nothing of it is performed."""
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
    admin: KafkaAdmin, kafka: dict[str, str], control_topic: str, group: str, catalog: IcebergTables | None
) -> ControlLog:
    """Read the log to its end: from where a coordinator would begin, or further back if that is near its end.

    Raises:
        SetupError: the broker cannot be reached, or the control topic does not exist.
    """
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
    )
    reader = ControlReader(kafka, control_topic)
    try:
        end = reader.end_offset()
        state, _ = step(CoordinatorState(limits=READER), assigned, 0)
        log = ControlLog(facts, end, state)
        reader.seek(min(start_offset(assigned), max(facts.log_start, end - TAIL)))
        for record in reader.records_until(end):
            log.read(record, catalog)
        if catalog is not None:
            log.make_all_due(catalog)
    finally:
        reader.close()
    return log
