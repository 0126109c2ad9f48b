"""Coordinators: floe's own `step` over a simulated log and lake.

In: the records of a control log, and the outcomes of what `step` asks for. Out: commits, information in the log, and
the low-water mark. A coordinator may stop for days with its requests in hand, or go on after another has taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from framework.commit.events.event_types import CommitComplete, CommitToTable
from framework.commit.file_ages import SET_BACK_MS, ClockReading, earliest_ms, stood_still
from framework.commit.machine.effects import (
    Assigned,
    ClockSetBack,
    CommitTable,
    Effect,
    Input,
    LoadFailed,
    LoadTable,
    Publish,
    Read,
    ReadAgain,
    StopCoordinator,
    StoreLowWater,
    TableLoaded,
    TableMissing,
    Tick,
)
from framework.commit.machine.step import CoordinatorState, Limits, step
from framework.errors import FloeError
from tests.simulator.lake import Lake
from tests.simulator.ports import Log, Machine

LIMITS = Limits()


@dataclass
class Coordinator:
    """One process. `tasks` are what it asked for and has not heard of, with when it asked."""

    name: str
    log: Log
    machine: Machine
    state: CoordinatorState = field(default_factory=lambda: CoordinatorState(limits=LIMITS))
    tasks: list[tuple[LoadTable | CommitTable, ClockReading]] = field(default_factory=list)
    ended: ClockReading | None = None
    stopped: StopCoordinator | None = None
    assignments: int = 0
    clock: ClockReading | None = None  # at its last input

    def assign(self) -> None:
        """It gets the control topic's partition, and forgets what it knew."""
        log = self.log
        log.owner = self
        self.assignments += 1
        self.state, self.tasks, self.ended, self.stopped = CoordinatorState(limits=LIMITS), [], None, None
        self._feed(assigned(log, f"{self.name}.{self.assignments}"))

    def _feed(self, message: Input) -> None:
        now = self.machine.moment()
        set_back_ms = 0 if self.clock is None else self.clock.set_back_ms(now)
        self.clock = now
        if set_back_ms > SET_BACK_MS:
            self.state, _ = step(self.state, ClockSetBack(set_back_ms), self.machine.wall_ms)
        self.state, effects = step(self.state, message, self.machine.wall_ms)
        for effect in effects:
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, LoadTable | CommitTable):
            self.tasks.append((effect, self.machine.moment()))
        elif isinstance(effect, Publish):
            if isinstance(effect.event, CommitToTable | CommitComplete):
                self.log.append((effect.event,), self.machine.wall_ms)
        elif isinstance(effect, StoreLowWater):
            if self.log.owner is self:
                self.log.low_water, self.log.chain_from = effect.offset, effect.chain_from
                self.log.low_water_topic_id, self.log.records_end = self.log.topic_id, effect.records_end
        elif isinstance(effect, StopCoordinator):
            self.stopped = effect
        else:
            assert isinstance(effect, ReadAgain)
            if self.log.owner is self:
                self.assign()

    def read(self) -> None:
        """Everything that is in the log by now."""
        if not self.state.assigned or self.stopped is not None:
            return
        began, log, end = self.machine.moment(), self.log, self.log.end
        if self.state.position < log.start:
            self.state, self.tasks = (
                CoordinatorState(limits=LIMITS),
                [],
            )  # the reader gets an error, and the process ends
            return
        for offset, entry in log.since(self.state.position, end):
            after_ms = None if self.ended is None else earliest_ms(self.ended, began)
            self._feed(Read(offset, entry.event, entry.wall_ms, 0, after_ms))
            if self.stopped is not None:
                return
        self.ended = began
        self._feed(Tick(True, end))

    def perform(self, lake: Lake, outcome: Callable[[], str], most: int) -> None:
        """What was asked for, the oldest first."""
        for _ in range(most):
            if not self.tasks or self.stopped is not None:
                return
            effect, asked = self.tasks.pop(0)
            self._feed(self._answer(lake, effect, asked, outcome()))

    def _answer(self, lake: Lake, effect: LoadTable | CommitTable, asked: ClockReading, outcome: str) -> Input:
        lake.machine = self.machine
        if isinstance(effect, CommitTable):
            if stood_still(asked, self.machine.moment()):
                effect = replace(effect, examine=tuple(file.path for file in effect.files))
            return lake.commit(effect, outcome)
        try:
            view = lake.load_view(effect.table, effect.branch, self.log.topic_id)
        except FloeError as error:
            return LoadFailed(effect.table, error.message)
        return TableLoaded(view) if view else TableMissing(effect.table, "it does not exist")


def assigned(log: Log, name: str) -> Assigned:
    """What a coordinator is told at its start."""
    return Assigned(
        name,
        log.topic_id,
        log.start,
        log.low_water,
        log.low_water_topic_id,
        log.chain_from,
        log.end,
        False,
        0 if log.low_water is not None else None,
        log.records_end,
    )
