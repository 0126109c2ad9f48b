"""One serving of a coordinator, turn by turn: what leadership and the catalogs say goes into the pure `step`, its effects
come out.

In: leadership (ownership of the control topic's partition), requests to catalogs, and the information that is reported. Out:
effects that were performed. Decides nothing itself. All of it belongs to the coordinator's thread; the others are
behind `catalog_requests`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.files import moment
from framework.adapters.kafka.control.leadership import (
    CoordinatorLeadership,
    LeadershipAssigned,
    LeadershipRead,
    LeadershipRevoked,
    LeadershipUpdate,
    LogEndReached,
)
from framework.commit.events.event_types import (
    ControlEvent,
    CoordinatorAssigned,
    CoordinatorReleased,
    Deployed,
    TableMeasured,
)
from framework.commit.file_ages import SET_BACK_MS, ClockReading, earliest_ms
from framework.commit.machine.effects import (
    Assigned,
    ClockSetBack,
    CommitTable,
    Committed,
    Effect,
    Input,
    LoadTable,
    Publish,
    Read,
    ReadAgain,
    Revoked,
    StopCoordinator,
    StoreLowWater,
    Tick,
)
from framework.commit.machine.step import CoordinatorState, Limits, next_due_ms, step, wants_more
from framework.diagnose.log_lines import LogLine
from framework.errors import FloeError, StateDisagreement
from framework.runtime.coordinator.catalog_requests import CatalogRequests
from framework.runtime.coordinator.information import Information
from framework.runtime.coordinator.leadership_changes import RecentLeadership
from framework.runtime.maintenance.background import TableKeeper

IDLE_POLL_S = 0.2
BUSY_POLL_S = 0.01
# An answer is acted upon at once; a Tick looks at every table, which costs too much after each of a thousand answers.
# While commits are in flight it comes this often, and takes no more than this share of the time.
BUSY_TICK_S = 0.05
BUSY_TICK_SHARE = 0.1


@dataclass(frozen=True)
class Ownership:
    """How far the owner of the partition has read: whether to the log's end, and the position that it saw there.
    `ended` is before the end was seen: what is read behind it came later."""

    caught_up: bool = False
    position: int | None = None
    ended: ClockReading | None = None


class CoordinatorTurns:
    """`name` is this coordinator's, as others see it."""

    def __init__(
        self,
        name: str,
        leadership: CoordinatorLeadership,
        requests: CatalogRequests,
        information: Information,
        keeper: TableKeeper,
        say: Callable[[str], None],
        limits: Limits | None = None,
        hearers: Sequence[Callable[[ControlEvent], None]] = (),
        history: RecentLeadership | None = None,
        reads_again: bool = False,
    ) -> None:
        """`hearers` are notified of each event that is read; they neither block nor raise. `reads_again`: leadership was given up
        by the turns before, to take it again."""
        self.wants_new_leadership = False
        self.state = CoordinatorState(limits=limits or Limits())  # others may look at it; it is never changed in place
        self._name = name
        self._leadership = leadership
        self._requests = requests
        self._information = information
        self._keeper = keeper
        self._say = say
        self._hearers = hearers if history is None else (*hearers, history.hear)
        self._history = history
        self._reads_again = reads_again
        self._ownership: Ownership | None = None  # None: another coordinator owns the partition
        self._is_paused = False
        self._tick_again_at = 0.0
        now = moment()
        self._polled = (now, now)  # when the poll before this one began, and this one
        self._clock = now  # at the last input

    @property
    def has_joined(self) -> bool:
        return self._leadership.has_joined

    @property
    def is_caught_up_owner(self) -> bool:
        """Whether it coordinates, and has read the log to its end."""
        ownership = self._ownership
        return ownership is not None and ownership.caught_up

    def turn(self) -> None:
        """Wait a moment for what happens, and act upon all of it.

        Raises:
            StateDisagreement: a person must decide.
            FloeError: the broker does not answer, or the log cannot be read.
        """
        self._requests.measures.turned()
        self._hold_back(not wants_more(self.state))
        # The client may have seen the end before it is asked: not before it was asked the last time.
        self._polled = (self._polled[1], moment())
        for update in self._leadership.poll(self._timeout_s()):
            self._take_in(update)
        for answer in self._requests.answers():
            if isinstance(answer, Committed):
                self._keeper.committed(answer.table)
            self._feed(answer)
        if self._ownership is not None and (not self._requests.in_flight or time.monotonic() >= self._tick_again_at):
            began = time.monotonic()
            self._feed(Tick(self._ownership.caught_up, self._ownership.position))
            ended = time.monotonic()
            self._tick_again_at = ended + max(BUSY_TICK_S, (ended - began) / BUSY_TICK_SHARE)
        for measured in self._keeper.news():
            if self._ownership is not None:
                self._information.enqueue(measured)
        self._information.publish()
        is_idle = self.is_caught_up_owner and not self._requests.in_flight
        self._keeper.gap(self._ownership is not None, is_idle, self.state.pauses)

    def _hold_back(self, is_full: bool) -> None:
        """Back-pressure: the log waits in the broker, not in memory, until tables are drained."""
        if is_full or self._is_paused:
            self._leadership.pause(is_full)
        self._is_paused = is_full

    def _take_in(self, update: LeadershipUpdate) -> None:
        if isinstance(update, LeadershipAssigned):
            self._requests.new_term()
            self._ownership = Ownership()
            self._requests.measures.assigned(owns=True)
            self._say("coordinates")
            self._feed(
                Assigned(
                    self._name,
                    update.topic_id,
                    update.log_start,
                    update.low_water,
                    update.low_water_topic_id,
                    update.chain_from,
                    update.log_end,
                    update.truncated,
                    update.low_water_epoch,
                    update.records_end,
                )
            )
            # Published before the log is read: one that ends meanwhile, again and again, is seen as well.
            self._information.enqueue(CoordinatorAssigned(self._name, _now_ms(), self._reads_again))
            self._reads_again = False
            if self._history is not None:
                begin = self.state.begin
                self._history.begins(update.log_start, begin, max(begin, update.log_end or begin))
        elif isinstance(update, LeadershipRevoked):
            self._requests.new_term()
            self._ownership = None
            self._requests.measures.assigned(owns=False)
            self._feed(Revoked())
            self._say("no longer coordinates")
        elif isinstance(update, LeadershipRead):
            if isinstance(update.event, Deployed | TableMeasured):
                self._keeper.note(update.event)
            if update.event is not None:
                for hear in self._hearers:
                    hear(update.event)
            ended = None if self._ownership is None else self._ownership.ended
            after_ms = None if ended is None else earliest_ms(ended, moment())
            self._feed(Read(update.offset, update.event, update.timestamp_ms, update.leader_epoch, after_ms))
        elif isinstance(update, LogEndReached) and self._ownership is not None:
            self._ownership = Ownership(True, update.position, self._polled[0])

    def release(self) -> None:
        """Publish that it coordinates no more, since its work is done. What the broker does not take now looks like an end
        that nobody wanted, which is the safe way to be wrong."""
        if self._ownership is None:
            return
        self._information.enqueue(CoordinatorReleased(self._name, _now_ms()))
        with contextlib.suppress(FloeError):
            self._information.publish()

    def _timeout_s(self) -> float:
        if self._requests.in_flight:
            return BUSY_POLL_S
        due = next_due_ms(self.state) if self._ownership is not None else None
        if due is None:
            return IDLE_POLL_S
        return min(IDLE_POLL_S, max(0.0, (due - _now_ms()) / 1000))

    def _feed(self, message: Input) -> None:
        now = moment()
        set_back_ms, self._clock = self._clock.set_back_ms(now), now
        if set_back_ms > SET_BACK_MS:
            self.state, _ = step(self.state, ClockSetBack(set_back_ms), _now_ms())
        self.state, effects = step(self.state, message, _now_ms())
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, LoadTable | CommitTable):
            self._requests.ask(effect, self.state.control_topic_id)
        elif isinstance(effect, Publish):
            self._information.enqueue(effect.event)
        elif isinstance(effect, StoreLowWater):
            self._information.publish()  # what is reported of the tables is in the log before the mark passes it
            self._leadership.store_low_water(effect.offset, effect.chain_from, effect.leader_epoch, effect.records_end)
            failpoint("low-water-stored")
        elif isinstance(effect, ReadAgain):
            # Leadership is given up and taken again: whoever gets it begins at the stored low-water mark.
            text = f"{effect.table} has recovered: reading its announcements from {effect.offset} on"
            self._say(LogLine(text, table=effect.table))
            self.wants_new_leadership = True
        elif isinstance(effect, StopCoordinator):
            raise StateDisagreement(effect.message, code=effect.code, remedy=effect.remedy)


def _now_ms() -> int:
    return int(time.time() * 1000)
