"""A small world for the coordinator's real `step`: a control log with transactions, tables with conditional commits.

In: a `World` value and an action. Out: the next `World`. Everything is immutable, so that one world can be explored along
every path. What Kafka and a catalog promise is modelled as promised and no more: transactions become visible whole and in
log order behind the oldest open one, a catalog commits if uuid, head and schema are still those that were examined; a
coordinator may die at any moment, a stale one goes on, a request in flight may be applied long after its sender died,
answers get lost. `faults` at the end of this file lists what must never be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import TypeVar

from framework.commit.effects import (
    Assigned,
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    Effect,
    Input,
    LoadTable,
    Publish,
    Read,
    ReadAgain,
    Stop,
    StoreLowWater,
    TableLoaded,
    TableMissing,
    TableProgress,
    TableView,
    Tick,
)
from framework.commit.events import (
    ControlEvent,
    DataComplete,
    DataWritten,
    Discarded,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
)
from framework.commit.model import Phase
from framework.commit.state import CoordinatorState, Limits, step
from tests.protocol.build import STEP, TOPIC_ID, complete, heartbeat, offsets_set, pause, ranges, written

Step = Callable[[CoordinatorState, Input, int], tuple[CoordinatorState, tuple[Effect, ...]]]
Fault = str
T = TypeVar("T")


def replace(value: T, **changes: object) -> T:
    """`dataclasses.replace` for plain frozen dataclasses, several times as fast: exploring makes millions of values."""
    new = object.__new__(type(value))
    new.__dict__.update(value.__dict__)
    new.__dict__.update(changes)
    return new


# Pauses of no length: a Tick retries at once, so that a world needs no clock to go on.
PROMPT = Limits(
    retry_first_ms=0,
    retry_most_ms=0,
    conflict_patience=0,
    conflict_first_ms=0,
    conflict_most_ms=0,
    blocked_first_ms=0,
    blocked_most_ms=0,
    failed_after=1_000_000,
    store_ms=0,
)


@dataclass(frozen=True, eq=False)
class Entry:
    """One offset of the control log. `event` None: a marker. Visible when `committed` and no older transaction is open.

    Compared by `brief`, which says everything about an event but its sizes.
    """

    event: ControlEvent | None
    writer: str
    committed: bool | None  # None while its transaction is open; False when aborted
    brief: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "brief", self.brief or _brief(self.event))

    def __hash__(self) -> int:
        return hash((self.brief, self.writer, self.committed))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and (self.brief, self.writer, self.committed) == (
            other.brief,
            other.writer,
            other.committed,
        )


def _brief(event: ControlEvent | None) -> str:
    if isinstance(event, DataWritten):
        span = event.ranges[0]
        return (
            f"{event.pipeline} {event.run} {event.batch} -> {event.table} {event.table_uuid} {event.part}/{event.parts} "
            f"{span.start}..{span.end}"
        )
    return repr(event)


@dataclass(frozen=True)
class Worker:
    """One pipeline. `script`: the tables of each batch still to come; `appended`: events of the open transaction."""

    pipeline: str
    script: tuple[tuple[str, ...], ...]
    batch: int = 1
    at: int = 0  # source offset where the next batch starts
    run: int = 1
    appended: int = 0
    base: int = 0  # the batch under which the offsets were last moved by hand


@dataclass(frozen=True)
class Snapshot:
    """`files` are (offset of the announcement, path); `marker` is `floe.control-offset`, None for a foreign snapshot."""

    parent: int | None
    files: tuple[str, ...]
    marker: int | None


@dataclass(frozen=True)
class Table:
    name: str
    uuid: str
    head: int | None = None
    snapshots: tuple[tuple[int, Snapshot], ...] = ()
    expired: frozenset[int] = frozenset()
    progress: TableProgress | None = None
    schema_id: int = 0
    removed: frozenset[str] = frozenset()  # taken out by somebody's rollback, not by us
    exists: bool = True
    elsewhere: tuple[tuple[str, str], ...] = ()  # pipelines whose records came by another control topic, and its id

    def at(self, snapshot_id: int) -> Snapshot:
        return dict(self.snapshots)[snapshot_id]

    @property
    def files(self) -> tuple[str, ...]:
        return self.at(self.head).files if self.head is not None else ()

    def view(self) -> TableView:
        return TableView(
            table=self.name,
            table_uuid=self.uuid,
            branch="main",
            snapshot_id=self.head,
            schema_id=self.schema_id,
            progress=self.progress,
            snapshot_control_offset=self.marker,
            elsewhere=dict(self.elsewhere),
        )

    @property
    def marker(self) -> int | None:
        snapshots = dict(self.snapshots)
        at = self.head
        while at is not None:
            if at in self.expired:
                return None
            if snapshots[at].marker is not None:
                return snapshots[at].marker
            at = snapshots[at].parent
        return 0


@dataclass(frozen=True)
class Seat:
    """One coordinator process: its state, and the loads and commits it has asked for and not heard of."""

    state: CoordinatorState
    tasks: tuple[LoadTable | CommitTable, ...] = ()
    term: int = 0  # which assignment it believes in


@dataclass(frozen=True)
class World:
    log: tuple[Entry, ...] = ()
    log_start: int = 0
    workers: tuple[Worker, ...] = ()
    tables: tuple[Table, ...] = ()
    seats: tuple[Seat | None, ...] = ()
    orphans: tuple[CommitTable, ...] = ()  # requests of dead coordinators that may still be applied
    owner: int | None = None
    term: int = 0
    low_water: int | None = None
    chain_from: int | None = None
    low_water_topic_id: str = TOPIC_ID
    now_ms: int = 0
    publishes: bool = True  # whether information events reach the log
    moved_back: tuple[Fault, ...] = ()  # faults seen while acting

    @property
    def stable_end(self) -> int:
        """What read_committed may see ends at the oldest open transaction."""
        for offset in range(self.log_start, len(self.log)):
            if self.log[offset].committed is None:
                return offset
        return len(self.log)

    @property
    def tables_key(self) -> tuple[object, ...]:
        """What can be seen of the tables."""
        return tuple(
            (t.uuid, t.head, t.files, t.progress and t.progress.control_offset, t.marker, t.elsewhere)
            for t in self.tables
        )

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)

    def with_table(self, table: Table) -> World:
        return replace(self, tables=tuple(table if t.name == table.name else t for t in self.tables))

    def with_seat(self, index: int, seat: Seat | None) -> World:
        return replace(self, seats=tuple(seat if n == index else s for n, s in enumerate(self.seats)))

    def with_worker(self, worker: Worker) -> World:
        return replace(self, workers=tuple(worker if w.pipeline == worker.pipeline else w for w in self.workers))


# ---- workers ---------------------------------------------------------------------------------------------------------


def worker_events(world: World, worker: Worker) -> tuple[ControlEvent, ...]:
    """The events of the worker's next batch, for the tables as they are now."""
    if not worker.script:
        return ()
    tables = worker.script[0]
    run = f"r{worker.run}"
    source = ranges(worker.batch, start=worker.at, end=worker.at + STEP)
    events: list[ControlEvent] = []
    for name in tables:
        table, _, parts = name.partition("*")
        count = int(parts or 1)
        for part in range(count):
            events.append(
                written(
                    worker.pipeline,
                    worker.batch,
                    table,
                    run=run,
                    uuid=world.table(table).uuid,
                    interval_ms=0,
                    source=source,
                    part=part,
                    parts=count,
                    base_batch=worker.base,
                )
            )
    names = tuple(name.partition("*")[0] for name in tables)
    if names:
        events.append(complete(worker.pipeline, worker.batch, names, run=run, source=source))
    else:  # nothing to read: a heartbeat takes a batch number too
        events.append(heartbeat(worker.pipeline, worker.batch, worker.at, run))
    return tuple(events)


def worker_append(world: World, worker: Worker) -> World:
    """One more event of the batch; with the last one the transaction commits and leaves its marker."""
    events = worker_events(world, worker)
    log = (*world.log, Entry(events[worker.appended], worker.pipeline, None))
    if worker.appended + 1 < len(events):
        return replace(world, log=log).with_worker(replace(worker, appended=worker.appended + 1))
    log = _settle(log, worker.pipeline, committed=True)
    at = worker.at + (STEP if worker.script[0] else 0)
    after = replace(worker, appended=0, script=worker.script[1:], batch=worker.batch + 1, at=at)
    return replace(world, log=log).with_worker(after)


def worker_crash(world: World, worker: Worker) -> World:
    """The driver dies: its open transaction is aborted and a new run announces the batch again, with new files."""
    log = _settle(world.log, worker.pipeline, committed=False) if worker.appended else world.log
    return replace(world, log=log).with_worker(replace(worker, appended=0, run=worker.run + 1))


def _settle(log: tuple[Entry, ...], writer: str, committed: bool) -> tuple[Entry, ...]:
    entries = [
        Entry(e.event, e.writer, committed, e.brief) if e.writer == writer and e.committed is None else e for e in log
    ]
    return (*entries, Entry(None, "", True))


def announce_wrongly(
    world: World, pipeline: str, batch: int, table: str, start: int, end: int, run: str, topic_id: str = "src-id"
) -> World:
    """A whole transaction that a sound worker would never send: a repeat, a gap, an overlap."""
    source = ranges(batch, topic_id, start, end)
    events: tuple[ControlEvent, ...] = (
        written(pipeline, batch, table, run=run, uuid=world.table(table).uuid, interval_ms=0, source=source),
        complete(pipeline, batch, (table,), run=run, source=source),
    )
    return replace(world, log=(*world.log, *(Entry(e, pipeline, True) for e in events), Entry(None, "", True)))


def settle_offsets(world: World, worker: Worker, move: int = 0) -> World:
    """A person settles where a pipeline goes on, where its good chain ends; or moves it away from there, by consent."""
    if worker.appended:
        world = worker_crash(world, worker)
        worker = next(x for x in world.workers if x.pipeline == worker.pipeline)
    _, end, topic_id = announced(world.log).ends.get(worker.pipeline, (0, worker.at, "src-id"))
    # Above the number of any batch, sound or not, so far.
    batches = [e.event.batch for e in world.log if isinstance(e.event, DataComplete) and e.writer == worker.pipeline]
    batch, at = max([worker.batch, *batches]) + 1, max(0, end + move)
    base = batch if at != end else worker.base
    event = offsets_set(worker.pipeline, batch, at, base, topic_id)
    log = (*world.log, Entry(event, worker.pipeline, True), Entry(None, "", True))
    return replace(world, log=log).with_worker(replace(worker, batch=batch + 1, at=at, run=worker.run + 1, base=base))


def discard_waiting(world: World, name: str) -> World:
    """A person gives up what was announced for a table that is not there, or for the one that was there before."""
    table = world.table(name)
    present = set(table.files) | table.removed
    # In the order of the log, in which a queue stands; batches end in another.
    waiting = sorted(
        offset
        for offset, event in announced(world.log[: world.stable_end]).sound
        if event.table == name
        and not present.issuperset(file.path for file in event.files)
        and not (table.exists and event.table_uuid == table.uuid)
    )
    run = list(takewhile(lambda pair: pair[0] == pair[1], zip(waiting, _sound_waiting(world, name), strict=False)))
    if not run:
        return world
    return append_plainly(world, Discarded(name, run[0][0], run[-1][0] + 1, len(run), len(run), {}, "", 0))


def _sound_waiting(world: World, name: str) -> list[int]:
    """Where what waits for a table stands, whether it can come or not: a person gives up the first of it only."""
    table = world.table(name)
    present = set(table.files) | table.removed
    reached = table.progress.control_offset if table.progress is not None else 0
    return sorted(
        offset
        for offset, event in announced(world.log[: world.stable_end]).sound
        if event.table == name and offset >= reached and not present.issuperset(file.path for file in event.files)
    )


def append_plainly(world: World, event: ControlEvent) -> World:
    return replace(world, log=(*world.log, Entry(event, "", True)))


# ---- tables ----------------------------------------------------------------------------------------------------------


def apply_commit(world: World, effect: CommitTable) -> World | None:
    """What a catalog does with a conditional commit; None: refused (invariant 4)."""
    table = world.table(effect.table)
    view = effect.view
    if (
        not table.exists
        or table.uuid != view.table_uuid
        or table.head != view.snapshot_id
        or table.schema_id != view.schema_id
    ):
        return None
    seen: list[Fault] = []
    before = table.progress.control_offset if table.progress is not None else 0
    if effect.progress.control_offset < before:
        seen.append(f"{table.name}: progress moved back from {before} to {effect.progress.control_offset}")
    paths = tuple(file.path for file in effect.files)
    number = len(table.snapshots) + 1
    snapshot = Snapshot(table.head, table.files + paths, effect.progress.control_offset)
    table = replace(
        table,
        head=number,
        snapshots=(*table.snapshots, (number, snapshot)),
        progress=effect.progress,
        removed=table.removed - set(paths),
    )
    if seen:
        world = replace(world, moved_back=world.moved_back + tuple(seen))
    return world.with_table(table)


def foreign_commit(world: World, name: str) -> World:
    """Somebody else (a compaction, a second writer) adds a snapshot."""
    table = world.table(name)
    number = len(table.snapshots) + 1
    snapshot = Snapshot(table.head, table.files, None)
    return world.with_table(replace(table, head=number, snapshots=(*table.snapshots, (number, snapshot))))


def filled_from_elsewhere(world: World, name: str, pipeline: str) -> World:
    """The pipeline's first batch came into the table by another control topic: of a cluster that was copied, say."""
    table = world.table(name)
    number = len(table.snapshots) + 1
    snapshot = Snapshot(table.head, (*table.files, f"{name}/{pipeline}-elsewhere-1-0-0"), None)
    return world.with_table(
        replace(
            table,
            head=number,
            snapshots=(*table.snapshots, (number, snapshot)),
            elsewhere=(*table.elsewhere, (pipeline, "another-control-id")),
        )
    )


def expire(world: World, name: str) -> World:
    """`expire_snapshots` with one retained: everything behind the head is forgotten."""
    table = world.table(name)
    old = frozenset(number for number, _ in table.snapshots if number != table.head)
    return world.with_table(replace(table, expired=old))


def held_views(world: World) -> set[tuple[str, int | None]]:
    """Heads that somebody may still commit on: in coordinators' memories and in requests under way."""
    held = {(c.table, c.view.snapshot_id) for c in world.orphans}
    for seat in world.seats:
        if seat is not None:
            held |= {(t.table, t.view.snapshot_id) for t in seat.state.tables.values() if t.view is not None}
            held |= {(c.table, c.view.snapshot_id) for c in seat.tasks if isinstance(c, CommitTable)}
    return held


def rollback_targets(world: World, name: str) -> list[int]:
    """Older snapshots that a person may roll back to. Not those on which a commit may still be under way: a head that
    comes back looks unchanged to a conditional commit (named as a limit in docs/protocol.md)."""
    table = world.table(name)
    held = held_views(world)
    found: list[int] = []
    snapshots = dict(table.snapshots)
    at = snapshots[table.head].parent if table.head is not None else None
    while at is not None and at not in table.expired:
        if (name, at) not in held:
            found.append(at)
        at = snapshots[at].parent
    return found


def remove_below(world: World, start: int) -> World:
    """Retention: the log begins at `start`. Who would have to read below it gets an error (never a reset) and stops."""
    world = replace(world, log_start=max(world.log_start, min(start, world.stable_end)))
    for index, seat in enumerate(world.seats):
        if seat is not None and seat.state.position < world.log_start:
            world = crash(world, index)
    return world


def rollback(world: World, name: str, target: int) -> World:
    table = world.table(name)
    lost = set(table.files) - set(table.at(target).files)
    return world.with_table(replace(table, head=target, removed=table.removed | lost))


def recreate(world: World, name: str) -> World:
    """Dropped and created again under its name: nothing of before is in it."""
    table = world.table(name)
    return world.with_table(Table(name, f"{table.uuid}+", schema_id=table.schema_id))


# ---- coordinators ----------------------------------------------------------------------------------------------------


def assign(world: World, index: int, step: Step = step, limits: Limits = PROMPT) -> World:
    """The control topic's partition goes to a process. Whoever had it is not told: it goes on with what it knows."""
    world = replace(world, owner=index, term=world.term + 1)
    old = world.seats[index]
    if old is not None:
        world = orphan(world, old)
    assigned = Assigned(
        f"c{index}.{world.term}",
        TOPIC_ID,
        world.log_start,
        world.low_water,
        world.low_water_topic_id if world.low_water is not None else None,
        world.chain_from,
    )
    seat = Seat(CoordinatorState(limits=limits), (), world.term)
    world = world.with_seat(index, seat)
    return feed(world, index, assigned, step)


def orphan(world: World, seat: Seat) -> World:
    commits = tuple(task for task in seat.tasks if isinstance(task, CommitTable))
    return replace(world, orphans=world.orphans + commits)


def crash(world: World, index: int) -> World:
    seat = world.seats[index]
    if seat is None:
        return world
    world = orphan(world, seat).with_seat(index, None)
    return replace(world, owner=None) if world.owner == index else world


def feed(world: World, index: int, message: Input, step: Step = step) -> World:
    """One input to one coordinator; its information events and its low-water mark go out at once, in order."""
    seat = world.seats[index]
    assert seat is not None
    state, effects = step(seat.state, message, world.now_ms)
    assert state.committing == sum(table.phase is Phase.COMMITTING for table in state.tables.values())
    tasks = list(seat.tasks)
    log = list(world.log)
    low_water, chain_from = world.low_water, world.chain_from
    again = False
    for effect in effects:
        if isinstance(effect, LoadTable | CommitTable):
            tasks.append(effect)
        elif isinstance(effect, Publish):
            if world.publishes:
                log.append(Entry(effect.event, "", True))
        elif isinstance(effect, StoreLowWater):
            if world.owner == index and world.term == seat.term:  # a stale member's offset commit is refused
                low_water, chain_from = effect.offset, effect.chain_from
        elif isinstance(effect, ReadAgain):
            again = True
        else:
            assert isinstance(effect, Stop)
    if low_water != world.low_water:
        world = replace(world, low_water_topic_id=TOPIC_ID)
    world = replace(world, log=tuple(log), low_water=low_water, chain_from=chain_from)
    world = world.with_seat(index, Seat(state, tuple(tasks), seat.term))
    if again:  # the seat is given up, and taken again if nobody else has it
        owned = world.owner == index and world.term == seat.term
        world = crash(world, index)
        if owned:
            world = assign(world, index, step, state.limits)
    return world


def next_visible(world: World, index: int) -> int | None:
    """The next offset that a coordinator can read."""
    seat = world.seats[index]
    if seat is None or not seat.state.assigned or seat.state.stopped is not None:
        return None
    end = world.stable_end
    for offset in range(max(seat.state.position, world.log_start), end):
        entry = world.log[offset]
        if entry.committed and entry.event is not None:
            return offset
    return None


def read(world: World, index: int, step: Step = step) -> World:
    offset = next_visible(world, index)
    assert offset is not None
    return feed(world, index, Read(offset, world.log[offset].event), step)


def tick(world: World, index: int, step: Step = step) -> World:
    at_end = next_visible(world, index) is None
    return feed(world, index, Tick(at_end, world.stable_end if at_end else None), step)


def take_task(world: World, index: int, number: int) -> tuple[World, LoadTable | CommitTable]:
    seat = world.seats[index]
    assert seat is not None
    tasks = seat.tasks[:number] + seat.tasks[number + 1 :]
    return world.with_seat(index, replace(seat, tasks=tasks)), seat.tasks[number]


def perform(world: World, index: int, number: int, outcome: str = "sound", step: Step = step) -> World:
    """Perform what a coordinator asked for. `outcome`: sound; lost (applied if it can be, no answer); failed (not
    applied, an error); late (no answer now, and it may be applied at any time from here on)."""
    world, task = take_task(world, index, number)
    if isinstance(task, LoadTable):
        table = world.table(task.table)
        answer: Input = TableLoaded(table.view()) if table.exists else TableMissing(task.table, "dropped")
        return feed(world, index, answer, step)
    if outcome == "failed":
        return feed(world, index, CommitFailed(task.table, task.commit_id, "503"), step)
    if outcome == "late":
        world = replace(world, orphans=(*world.orphans, task))
        return feed(world, index, CommitFailed(task.table, task.commit_id, "no answer"), step)
    applied = apply_commit(world, task)
    if outcome == "lost":
        return feed(applied or world, index, CommitFailed(task.table, task.commit_id, "no answer"), step)
    if applied is None:
        return feed(world, index, CommitConflict(task.table, task.commit_id, "changed"), step)
    table = applied.table(task.table)
    head = table.head
    assert head is not None
    return feed(applied, index, Committed(task.table, task.commit_id, table.view(), head, world.now_ms), step)


def apply_orphan(world: World, number: int) -> World:
    """A request that was under way reaches the catalog at last."""
    effect = world.orphans[number]
    world = replace(world, orphans=world.orphans[:number] + world.orphans[number + 1 :])
    return apply_commit(world, effect) or world


# ---- what must hold --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Announced:
    """What the log says, worked out without `step`: sound announcements, and the files that must never be seen."""

    sound: tuple[tuple[int, DataWritten], ...]
    held: tuple[tuple[int, DataWritten], ...]  # of a broken batch or behind one: no table's progress may pass them
    unsound: frozenset[str]
    ends: Mapping[
        str, tuple[int, int, str]
    ]  # pipeline -> batch, source offset and topic id at which its good chain ends


@lru_cache(maxsize=4_000)
def announced(log: tuple[Entry, ...]) -> Announced:
    """The oracle: batches in the order of their ends; a batch counts if it begins where the one before ended."""
    ends: dict[str, tuple[int, int, str]] = {}
    waiting: dict[str, list[tuple[int, DataWritten]]] = {}
    sound: list[tuple[int, DataWritten]] = []
    held: list[tuple[int, DataWritten]] = []
    unsound: set[str] = set()
    paths: set[str] = set()  # of what was sound when it was announced: it may be in its table, whatever came later
    broken: set[str] = set()
    for offset, entry in enumerate(log):
        event = entry.event
        if entry.committed and isinstance(event, Discarded):  # given up: it need not come, and it may have come
            sound, held = (
                [(at, w) for at, w in found if w.table != event.table or not event.first <= at < event.below]
                for found in (sound, held)
            )
        if not entry.committed or not isinstance(event, DataWritten | DataComplete | Heartbeat | OffsetsSet):
            continue
        if isinstance(event, OffsetsSet):  # the chain goes on from here, and what was held of it is given up
            at = event.ranges[0]
            sound = [
                (offset, w)
                for offset, w in sound
                if w.pipeline != event.pipeline or w.ranges[0].topic_id != at.topic_id or w.ranges[0].start < at.end
            ]
            ends[event.pipeline] = (event.batch, event.ranges[0].end, event.ranges[0].topic_id)
            unsound |= {file.path for _, w in waiting.pop(event.pipeline, []) for file in w.files}
            broken.discard(event.pipeline)
            held = [(at, w) for at, w in held if w.pipeline != event.pipeline]
            continue
        if isinstance(event, DataWritten):
            waiting.setdefault(event.pipeline, []).append((offset, event))
            continue
        span = event.ranges[0]
        batch, end, topic_id = ends.get(event.pipeline, (0, 0, span.topic_id))
        mine = waiting.pop(event.pipeline, [])
        same = span.topic_id == topic_id
        if event.pipeline not in broken and same and event.batch == batch + 1 and span.start == end:
            ends[event.pipeline] = (event.batch, span.end, topic_id)
            sound += mine
            paths |= {file.path for _, w in mine for file in w.files}
            continue
        if event.pipeline in broken or not (same and event.batch <= batch and span.end <= end):
            broken.add(event.pipeline)
            held += mine
        unsound |= {file.path for _, w in mine for file in w.files}
    return Announced(tuple(sound), tuple(held), frozenset(unsound - paths), ends)


@lru_cache(maxsize=4_000)
def pauses_said(log: tuple[Entry, ...]) -> tuple[tuple[int, PauseChanged], ...]:
    """Every pause that was ever said or taken back, and where."""
    return tuple((n, e.event) for n, e in enumerate(log) if isinstance(e.event, PauseChanged))


def _pauses_not_held(world: World) -> Iterator[Fault]:
    """A coordinator that has read past a pause holds it until it has read that it was taken back. (One whose beginning the
    log has lost may not know of it.)"""
    said = pauses_said(world.log)
    last = {event.pattern: offset for offset, event in said}
    for index, seat in enumerate(world.seats if said else ()):
        if seat is None or not seat.state.assigned or seat.state.stopped is not None:
            continue
        if seat.state.position < seat.state.floor:
            continue  # what it reads now is read for the chains' sake, and nothing of it will be committed
        held = {seen.event.pattern: seen.event.paused for seen in seat.state.pauses.values()}
        for offset, event in said:
            # A pause that was taken back further on need not be known to who begins to read in between.
            known = last[event.pattern] == offset < seat.state.position and offset >= world.log_start
            if known and event.paused != held.get(event.pattern, False):
                yield f"c{index}: the pause of {event.pattern} said at {offset} is {'not' if event.paused else 'still'} held"


def faults(world: World) -> list[Fault]:
    """What must never be seen, in any world that was reached."""
    found = [*world.moved_back, *_pauses_not_held(world)]
    facts = announced(world.log)
    low_water = (world.low_water or 0) if world.low_water_topic_id == TOPIC_ID else 0
    for table in world.tables:
        files = table.files
        if len(set(files)) != len(files):
            found.append(f"{table.name}: a path is live twice: {files}")
        if bad := facts.unsound.intersection(files):
            found.append(f"{table.name}: files of a repeated or broken batch are in it: {sorted(bad)}")
        present = set(files) | table.removed
        reached = table.progress.control_offset if table.progress is not None else 0
        for offset, event in facts.sound:
            if event.table != table.name or event.table_uuid != table.uuid:
                continue
            held = present.issuperset(file.path for file in event.files)
            if not held and offset < reached:
                found.append(
                    f"{table.name}: progress {reached} passed the announcement at {offset}, which is not in it"
                )
            if not held and offset < low_water:
                found.append(f"{table.name}: low-water mark {world.low_water} passed the announcement at {offset}")
        for offset, event in facts.held:
            if event.table == table.name and event.table_uuid == table.uuid and offset < reached:
                found.append(f"{table.name}: progress {reached} passed the broken batch announced at {offset}")
        for name in {path.split("/")[1].split("-")[0] for path in files}:
            batches = [path for path in files if path.split("/")[1].startswith(f"{name}-")]
            keys = [_source_key(path) for path in batches]
            if len(set(keys)) != len(keys):
                found.append(f"{table.name}: source records are in it twice: {batches}")
    return found


def _source_key(path: str) -> str:
    pipeline, _run, batch, part, number = path.split("/")[1].split("-")
    return f"{pipeline}-{batch}-{part}-{number}"


def drain(world: World, step: Step = step, rounds: int = 60) -> tuple[World, list[Fault]]:
    """Trouble ends: one fresh coordinator, everything performed. Then every sound announcement must be in its table."""
    world = replace(world, orphans=())
    for worker in world.workers:
        if worker.appended:
            world = worker_crash(world, worker)
    for pattern in {event.pattern for _, event in pauses_said(world.log)}:
        world = append_plainly(world, pause(pattern, False))
    for index in range(len(world.seats)):
        world = crash(world, index)
        world = replace(world, orphans=())
    world = assign(world, 0, step)
    for _ in range(rounds):
        before = world
        world = replace(world, now_ms=world.now_ms + 100_000)
        while next_visible(world, 0) is not None:
            world = read(world, 0, step)
        while (seat := world.seats[0]) is not None and seat.tasks:
            world = perform(world, 0, 0, step=step)
        world = tick(world, 0, step)
        while (seat := world.seats[0]) is not None and seat.tasks:
            world = perform(world, 0, 0, step=step)
        found = faults(world)
        if found:
            return world, found
        if replace(before, now_ms=0, seats=()) == replace(world, now_ms=0, seats=()) and _quiet(world):
            break
    return world, list(_left_behind(world))


def _quiet(world: World) -> bool:
    seat = world.seats[0]
    return seat is not None and not seat.tasks and next_visible(world, 0) is None


def _left_behind(world: World) -> Iterator[Fault]:
    seat = world.seats[0]
    assert seat is not None
    state = seat.state
    facts = announced(world.log)
    if state.stopped is not None:
        return
    for table in world.tables:
        known = state.tables.get(table.name)
        if known is not None and known.blocked is not None:
            continue  # it waits and says why; `faults` has checked that nothing passed what waits
        barrier = min((o for o, e in facts.held if e.table == table.name), default=None)
        for offset, event in facts.sound:
            if event.table != table.name or (barrier is not None and offset > barrier):
                continue
            if event.table_uuid != table.uuid:
                continue
            if not {f.path for f in event.files} <= set(table.files) | table.removed:
                yield f"{table.name}: the announcement at {offset} never came into it and nothing says why"
