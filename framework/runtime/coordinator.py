"""The coordinator's loop: it feeds the pure `step` with what happens and performs the effects that come back.

In: a seat (ownership of the control topic's partition), a catalog and a publisher. Out: table commits, information events
and the stored low-water mark. Decides nothing itself. Keeps invariant 7 by leaving read-back to the catalog adapter and
invariant 4 by dropping answers that belong to an ownership that has ended.
"""

from __future__ import annotations

import gc
import queue
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from framework.adapters.faults import reach
from framework.adapters.iceberg.commit import Outcome
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control import ControlPublisher
from framework.adapters.kafka.seat import CoordinatorSeat, SeatAssigned, SeatEnd, SeatRead, SeatRevoked
from framework.commit.events.event_types import ControlEvent
from framework.commit.events.split import split_information
from framework.commit.machine.effects import (
    Assigned,
    CommitFailed,
    CommitTable,
    Committed,
    Effect,
    FilesGone,
    Input,
    LoadFailed,
    LoadTable,
    Publish,
    Read,
    ReadAgain,
    Revoked,
    Stop,
    StoreLowWater,
    TableLoaded,
    TableMissing,
    Tick,
)
from framework.commit.machine.step import CoordinatorState, next_due_ms, step, wants_more
from framework.config.table_names import catalog_of
from framework.diagnose.counted import counted
from framework.errors import FloeError, StateDisagreement
from framework.runtime.patience import is_retriable

COMMITTERS = 4
# What the pool is given at once: enough that no thread waits for this one.
SUBMITTED = 2 * COMMITTERS
IDLE_POLL_S = 0.2
BUSY_POLL_S = 0.01
# An answer is acted upon at once; a Tick looks at every table, and a thousand answers with one after each were dear. While
# commits are in flight it comes this often, and takes no more than this share of the time.
BUSY_TICK_S = 0.05
BUSY_TICK_SHARE = 0.1
REBUILD_AFTER_S = 2.0
# What waits in the state is many small values without a cycle among them. Python's usual 700 new ones between two looks for
# cycles make a good part of what reading a long control log costs.
NEW_OBJECTS_BETWEEN_COLLECTIONS = 50_000


class Coordinator:
    """Runs in a thread of a driver or alone. Several may be alive: one owns the partition, the others wait."""

    def __init__(
        self,
        kafka: dict[str, str],
        group: str,
        control_topic: str,
        catalog: IcebergTables,
        say: Callable[[str], None],
    ) -> None:
        self.name = f"{group}/{uuid.uuid4().hex[:8]}"
        self.error: FloeError | None = None
        self.state = CoordinatorState()
        self.owner = False
        self._kafka = kafka
        self._group = group
        self._control_topic = control_topic
        self._seat: CoordinatorSeat
        self._publisher: ControlPublisher
        self._catalog = catalog
        self._say = say
        self._stopping = threading.Event()
        self._answers: queue.SimpleQueue[tuple[int, str, Input]] = queue.SimpleQueue()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._loads: dict[str, deque[tuple[int, LoadTable]]] = {}
        self._submitted: Counter[str] = Counter()
        self._term = 0
        self._in_flight = 0
        self._tick_again_at = 0.0
        self._to_publish: list[ControlEvent] = []
        self._caught_up = False
        self._position: int | None = None
        self._paused = False
        self._read_again = False
        self._thread = threading.Thread(target=self._run, name="coordinator", daemon=True)

    def start(self) -> None:
        youngest, *older = gc.get_threshold()
        if youngest:  # 0: somebody has turned it off
            gc.set_threshold(max(youngest, NEW_OBJECTS_BETWEEN_COLLECTIONS), *older)
        self._thread.start()

    def stop(self) -> None:
        """End the loop; commits in flight are waited for, so that their outcome is known."""
        self._stopping.set()
        self._thread.join()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        """Serve, and after an outage of the broker serve again with clients made anew."""
        try:
            while not self._stopping.is_set():
                try:
                    self._serve()
                except FloeError as error:
                    if not is_retriable(error):
                        self.error = error
                        return
                    self._say(f"degraded: {error.message}; trying again")
                    self._stopping.wait(REBUILD_AFTER_S)
        except Exception as error:  # a thread that ends without a word would leave announcements waiting for ever
            self.error = FloeError(f"the coordinator ended: {type(error).__name__}: {error}", place=self.name)
            self.error.__cause__ = error
        finally:
            for pool in self._pools.values():
                pool.shutdown(wait=True)

    def _serve(self) -> None:
        self._seat = CoordinatorSeat(self._kafka, self._group, self._control_topic, self.name)
        self._publisher = ControlPublisher(self._kafka, self._control_topic)
        try:
            while (not self._stopping.is_set() or self._in_flight) and not self._read_again:
                self._turn()
        finally:
            # Answers to what was asked until now belong to an ownership that has ended.
            self._term += 1
            self._in_flight = 0
            self._paused = False
            self._read_again = False
            self._to_publish = []
            self.owner = False
            self.state = CoordinatorState()
            self._seat.close()
            self._publisher.close()

    def _turn(self) -> None:
        if not wants_more(self.state):
            # Back-pressure: the log waits in the broker, not in memory, until tables are drained.
            self._seat.pause(True)
            self._paused = True
        elif self._paused:
            self._seat.pause(False)
            self._paused = False
        for message in self._seat.poll(self._timeout_s()):
            if isinstance(message, SeatAssigned):
                self._term += 1
                self._in_flight = 0
                self._caught_up = False
                self.owner = True
                self._position = None
                self._say("coordinates")
                self._feed(
                    Assigned(
                        self.name,
                        message.topic_id,
                        message.log_start,
                        message.low_water,
                        message.low_water_topic_id,
                        message.chain_from,
                        message.log_end,
                        message.truncated,
                        message.low_water_epoch,
                    )
                )
            elif isinstance(message, SeatRevoked):
                # What was asked before must not be answered into the next state.
                self._term += 1
                self._in_flight = 0
                self.owner = False
                self._feed(Revoked())
                self._say("no longer coordinates")
            elif isinstance(message, SeatRead):
                self._feed(Read(message.offset, message.event, message.timestamp_ms, message.leader_epoch))
            elif isinstance(message, SeatEnd):
                self._caught_up = True
                self._position = message.position
        while not self._answers.empty():
            term, catalog, answer = self._answers.get()
            self._submitted[catalog] -= 1
            if term == self._term:
                self._in_flight -= 1
                self._feed(answer)
            self._submit_loads(catalog)
        if self.owner and (not self._in_flight or time.monotonic() >= self._tick_again_at):
            began = time.monotonic()
            self._feed(Tick(self._caught_up, self._position))
            ended = time.monotonic()
            self._tick_again_at = ended + max(BUSY_TICK_S, (ended - began) / BUSY_TICK_SHARE)
        self._publish()

    def _timeout_s(self) -> float:
        if self._in_flight:
            return BUSY_POLL_S
        due = next_due_ms(self.state) if self.owner else None
        if due is None:
            return IDLE_POLL_S
        return min(IDLE_POLL_S, max(0.0, (due - _now_ms()) / 1000))

    def _feed(self, message: Input) -> None:
        self.state, effects = step(self.state, message, _now_ms())
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, LoadTable):
            self._in_flight += 1
            catalog = catalog_of(effect.table)
            self._loads.setdefault(catalog, deque()).append((self._term, effect))
            self._submit_loads(catalog)
        elif isinstance(effect, CommitTable):
            self._in_flight += 1
            self._submit(self._term, effect)
        elif isinstance(effect, Publish):
            self._to_publish += split_information(effect.event)
        elif isinstance(effect, StoreLowWater):
            self._publish()  # what is told of the tables is in the log before the mark passes it
            self._seat.store_low_water(effect.offset, effect.chain_from, effect.leader_epoch)
            reach("low-water-stored")
        elif isinstance(effect, ReadAgain):
            # The seat is given up and taken again: whoever gets it begins at the stored low-water mark.
            self._say(f"{effect.table} has recovered: reading its announcements from {effect.offset} on")
            self._read_again = True
        elif isinstance(effect, Stop):
            raise StateDisagreement(effect.message, code=effect.code, remedy=effect.remedy)

    def _publish(self) -> None:
        """Append what this turn has to tell, at once: to wait for the broker after each commit of a thousand takes longer than
        the commits."""
        if self._to_publish:
            events, self._to_publish = self._to_publish, []
            try:
                self._publisher.publish(events)
            except FloeError as error:
                if is_retriable(error):
                    raise
                # Information never ends a coordinator: what is refused for good is said here and told anew by what follows.
                self._say(f"could not write to the control topic: {error.message}")
                self._publisher.close()
                self._publisher = ControlPublisher(self._kafka, self._control_topic)
            reach("progress-published")

    def _submit(self, term: int, effect: LoadTable | CommitTable) -> None:
        """Invariant 10: a catalog that hangs holds threads of its own, and no other catalog's."""
        catalog = catalog_of(effect.table)
        if catalog not in self._pools:
            self._pools[catalog] = ThreadPoolExecutor(COMMITTERS, thread_name_prefix=f"commit-{catalog}")
        self._submitted[catalog] += 1
        self._pools[catalog].submit(self._answer, term, effect)

    def _submit_loads(self, catalog: str) -> None:
        """A few at a time: of a thousand tables that are due at once each is committed soon after it was examined, while
        what was loaded for it is still at hand, and not after the last of the thousand."""
        waiting = self._loads.get(catalog, deque())
        while waiting and self._submitted[catalog] < SUBMITTED:
            term, effect = waiting.popleft()
            if term == self._term:
                self._submit(term, effect)

    def _answer(self, term: int, effect: LoadTable | CommitTable) -> None:
        """On a thread of the pool. Every outcome becomes an input; none is swallowed."""
        answer: Input
        try:
            if isinstance(effect, LoadTable):
                view = self._catalog.load_view(effect.table, effect.branch, self.state.control_topic_id)
                answer = TableLoaded(view) if view else TableMissing(effect.table, "the table does not exist")
            else:
                reach("before-commit")
                outcome = self._catalog.commit(effect)
                reach("committed")
                self._report(effect, outcome)
                answer = outcome
        except Exception as error:  # whatever it is, the state must be told, or the table waits for ever
            reason = error.message if isinstance(error, FloeError) else f"{type(error).__name__}: {error}"
            if isinstance(effect, CommitTable):
                answer = CommitFailed(effect.table, effect.commit_id, reason)
            else:
                answer = LoadFailed(effect.table, reason)
            self._say(f"{effect.table}: {reason}")
        self._answers.put((term, catalog_of(effect.table), answer))

    def _report(self, effect: CommitTable, answer: Outcome) -> None:
        if isinstance(answer, Committed):
            rows = sum(file.record_count for file in effect.files)
            self._say(
                f"committed {effect.table}: {counted(rows, 'row')} in {counted(len(effect.files), 'file')}, "
                f"snapshot {answer.snapshot_id}"
            )
        else:
            gone = (
                counted(len(answer.missing), "announced file is gone", "announced files are gone")
                if isinstance(answer, FilesGone)
                else answer.reason
            )
            self._say(f"not committed {effect.table}: {gone}")


def _now_ms() -> int:
    return int(time.time() * 1000)
