"""A small world for the coordinator's real `step`: a control log with transactions, tables with conditional commits.

In: a `World` value and an action. Out: the next `World`. Everything is immutable, so that one world can be explored
along every path. What Kafka and a catalog promise is modelled as promised and no more: transactions become visible
whole and in log order behind the oldest open one, a catalog commits if uuid, head and schema are still those that were
examined; a coordinator may die at any moment, a stale one goes on, a request in flight may be applied long after its
sender died, answers get lost. `faults` at the end of this file lists what must never be seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TypeVar

from framework.commit import watch
from framework.commit.events import split
from framework.commit.events.event_types import (
    ControlEvent,
    DataComplete,
    DataWritten,
    Discarded,
    Health,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
    SourceRange,
    StateChanged,
    Subject,
)
from framework.commit.machine.effects import (
    Assigned,
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    Effect,
    ExaminedTable,
    Input,
    LoadTable,
    Publish,
    Read,
    ReadAgain,
    StopCoordinator,
    StoreLowWater,
    TableLoaded,
    TableMissing,
    TableProgress,
    Tick,
)
from framework.commit.machine.model import TablePhase
from framework.commit.machine.step import CoordinatorState, Limits, step
from framework.commit.recovery.discard import batches_of
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
    immediate_conflict_retries=0,
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
    epoch: int = 0  # of the leader that took it
    brief: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "brief", self.brief or _brief(self.event))

    def _key(self) -> tuple[object, ...]:
        return self.brief, self.writer, self.committed, self.epoch

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self._key() == other._key()


def _brief(event: ControlEvent | None) -> str:
    if isinstance(event, DataWritten):
        spans = " ".join(f"{r.topic_id}-{r.partition} {r.start}..{r.end}" for r in event.ranges)
        return (
            f"{event.pipeline} {event.run} {event.batch} after {event.after_batch} -> {event.table} {event.table_uuid} "
            f"{event.part}/{event.parts} {spans}"
        )
    return repr(event)


Position = tuple[str, str, int, int]
"""Topic, its id, partition, and the source offset where the next batch that reads it starts."""


@dataclass(frozen=True)
class Worker:
    """One pipeline. `script`: the tables of each batch still to come; `appended`: events of the open transaction.

    Batches read the partitions in turn, one each. `left`: positions of partitions that a person gave up.
    """

    pipeline: str
    script: tuple[tuple[str, ...], ...]
    batch: int = 1
    positions: tuple[Position, ...] = (("src", "src-id", 0, 0),)
    run: int = 1
    appended: int = 0
    base: int = 0  # the batch under which the offsets were last moved by hand
    left: tuple[Position, ...] = ()
    announced: tuple[tuple[str, int], ...] = ()  # by table uuid the newest batch that this very run announced for it
    uuids: tuple[tuple[str, str], ...] = ()  # of the tables by name, as they were when the batch was written

    @property
    def at(self) -> int:
        """Where the first partition stands."""
        return self.positions[0][3]

    @property
    def busy(self) -> int:
        """Which partition the next batch reads."""
        return (self.batch - 1) % len(self.positions)

    def moved(self, by: int) -> tuple[Position, ...]:
        return tuple(
            (topic, tid, number, at + (by if n == self.busy else 0))
            for n, (topic, tid, number, at) in enumerate(self.positions)
        )


@dataclass(frozen=True)
class Snapshot:
    """`files` are (offset of the announcement, path); `marker` is `floe.control-offset`, None for a foreign
    snapshot."""

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
    names: tuple[str, ...] = ()  # other spellings that the catalog takes for the same
    unset: bool = False  # somebody took the property with its progress away
    made: int = 0  # snapshots that were ever made of it: their numbers are not used again
    versions: tuple[Table, ...] = ()  # as it was before each of floe's commits, oldest first
    lost: frozenset[str] = frozenset()  # in it once, before somebody put it back to an older state
    tampered: bool = False  # somebody once put it back or took its record away, whatever a coordinator made of it since

    def at(self, snapshot_id: int) -> Snapshot:
        return dict(self.snapshots)[snapshot_id]

    @property
    def files(self) -> tuple[str, ...]:
        return self.at(self.head).files if self.head is not None else ()

    def view(self, name: str) -> ExaminedTable:
        """What is examined, under the name that was asked for."""
        return ExaminedTable(
            table=name,
            table_uuid=self.uuid,
            branch="main",
            snapshot_id=self.head,
            schema_id=self.schema_id,
            progress=None if self.unset else self.progress,
            snapshot_control_offset=self.marker,
            elsewhere=dict(self.elsewhere),
            unrecorded=TOPIC_ID if self.unset and self.marked else None,
        )

    @property
    def marked(self) -> bool:
        """Whether a snapshot of floe's is left, on whatever line; one behind the head shows even where others have
        expired."""
        return any(s.marker is not None for n, s in self.snapshots if n not in self.expired)

    @property
    def marker(self) -> int | None:
        """`snapshot_control_offset` of a view: of the newest of floe's snapshots behind the head. Where ancestors have
        expired it is not known, unless one of floe's is left on another line: then the head is older than that."""
        snapshots = dict(self.snapshots)
        at, line = self.head, set()
        while at is not None and at not in self.expired:
            if snapshots[at].marker is not None:
                return snapshots[at].marker
            line.add(at)
            at = snapshots[at].parent
        beside = any(s.marker is not None for n, s in self.snapshots if n not in line and n not in self.expired)
        return 0 if at is None or beside else None


@dataclass(frozen=True)
class CoordinatorProcess:
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
    coordinators: tuple[CoordinatorProcess | None, ...] = ()
    orphans: tuple[CommitTable, ...] = ()  # requests of dead coordinators that may still be applied
    owner: int | None = None
    term: int = 0
    low_water: int | None = None
    chain_from: int | None = None
    low_water_topic_id: str = TOPIC_ID
    low_water_epoch: int | None = None
    records_end: int | None = None
    was_cut: bool = False  # the broker once lost the log's end
    epoch: int = 0  # of the control topic's leader
    now_ms: int = 0
    before_cut: frozenset[str] = frozenset()  # files that were in tables when the log lost their announcements
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
            (
                *(t.uuid, t.head, t.files, t.progress and t.progress.control_offset, t.marker, t.elsewhere, t.unset),
                *(t.lost, t.tampered),
            )
            for t in self.tables
        )

    def entry(self, event: ControlEvent | None, writer: str = "", committed: bool | None = True) -> Entry:
        """An entry as the present leader takes it."""
        return Entry(event, writer, committed, self.epoch)

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name or name in t.names)

    def with_table(self, table: Table) -> World:
        return replace(self, tables=tuple(table if t.name == table.name else t for t in self.tables))

    def with_coordinator(self, index: int, coordinator: CoordinatorProcess | None) -> World:
        return replace(
            self, coordinators=tuple(coordinator if n == index else s for n, s in enumerate(self.coordinators))
        )

    def with_worker(self, worker: Worker) -> World:
        return replace(self, workers=tuple(worker if w.pipeline == worker.pipeline else w for w in self.workers))


# ---- workers ---------------------------------------------------------------------------------------------------------


def spans(worker: Worker, read: int) -> tuple[SourceRange, ...]:
    """The ranges of a batch that reads so many records: all partitions, one of them busy."""
    after = worker.moved(read)
    return tuple(
        SourceRange(topic, tid, number, start, end)
        for (topic, tid, number, start), (_, _, _, end) in sorted(zip(worker.positions, after, strict=True))
    )


def ends(positions: tuple[Position, ...]) -> tuple[SourceRange, ...]:
    """Positions as ranges that end there."""
    return tuple(SourceRange(topic, tid, number, at, at) for topic, tid, number, at in sorted(positions))


def shifted(worker: Worker, by: int) -> Worker:
    """The worker as if it stood elsewhere in the partition that it reads next."""
    return replace(worker, positions=tuple((t, i, n, max(0, at)) for t, i, n, at in worker.moved(by)))


def ranges_of(world: World, pipeline: str, batch: int) -> tuple[SourceRange, ...] | None:
    """What a sound batch of the pipeline covered, as the log tells; None where none of this number did."""
    for entry in world.log:
        event = entry.event
        sound = entry.committed and isinstance(event, DataComplete) and not event.run.startswith(("wrong", "copy"))
        if sound and isinstance(event, DataComplete) and (event.pipeline, event.batch) == (pipeline, batch):
            return event.ranges
    return None


def batch_before(world: World, worker: Worker, table: Table) -> int | None:
    """The batch that a driver says was announced for a table before the next one: its own decision from what the log
    tells."""
    known = None if table.unset or table.progress is None else table.progress.pipelines.get(worker.pipeline)
    return watch.batch_before(_newest(world.log, world.log_start, worker.pipeline).get(table.uuid), known)


@lru_cache(maxsize=4_000)
def _newest(log: tuple[Entry, ...], begin: int, pipeline: str) -> Mapping[str, watch.Newest]:
    seen = watch.Watch()
    for offset in range(begin, len(log)):
        if log[offset].committed:
            seen.observe(offset, log[offset].event)
    return seen.newest(pipeline)


KEYED = "db.k"
"""An upsert table: announcements for it say whose rows go. Every second batch only deletes."""


def paths_of(event: DataWritten) -> tuple[str, ...]:
    """What an announcement brings, each of which must come into its table once: its files, and its changes by key."""
    changed = () if event.keyed is None else event.keyed.keys
    return (*(file.path for file in event.files), *(keys.path for keys in changed))


def brought_by(effect: CommitTable) -> tuple[str, ...]:
    """What a commit brings, of the same kinds."""
    return (*(file.path for file in effect.files), *(keys.path for one in effect.keyed for keys in one.keys))


def worker_events(world: World, worker: Worker) -> tuple[ControlEvent, ...]:
    """The events of the worker's next batch, for the tables as they are now."""
    if not worker.script:
        return ()
    tables = worker.script[0]
    run = f"r{worker.run}"
    source = spans(worker, STEP if tables else 0)
    pieces: list[DataWritten] = []
    for name in tables:
        table, _, parts = name.partition("*")
        count = int(parts or 1)
        now = world.table(table)
        uuid = dict(worker.uuids).get(table) or now.uuid
        before = dict(worker.announced).get(uuid)
        before = batch_before(world, worker, replace(now, uuid=uuid)) if before is None else before
        for part in range(count):
            pieces.append(
                written(
                    worker.pipeline,
                    worker.batch,
                    table,
                    run=run,
                    uuid=uuid,
                    interval_ms=0,
                    source=source,
                    part=part,
                    parts=count,
                    base_batch=worker.base,
                    after_batch=before,
                    keyed=table == KEYED and part == 0,
                    files=0 if table == KEYED and worker.batch % 2 == 0 and count == 1 else 1,
                )
            )
    events: list[ControlEvent] = [*split.number_parts(pieces)]
    names = tuple(name.partition("*")[0] for name in tables)
    if names:
        events.append(
            complete(worker.pipeline, worker.batch, names, run=run, source=source, given_up=ends(worker.left))
        )
    else:  # nothing to read: a heartbeat takes a batch number too
        events.append(heartbeat(worker.pipeline, worker.batch, 0, run, source))
    return tuple(events)


def worker_append(world: World, worker: Worker) -> World:
    """One more event of the batch; with the last one the transaction commits and leaves its marker."""
    events = worker_events(world, worker)
    log = (*world.log, world.entry(events[worker.appended], worker.pipeline, None))
    if worker.appended + 1 < len(events):
        uuids = tuple(sorted({(e.table, e.table_uuid) for e in events if isinstance(e, DataWritten)}))
        return replace(world, log=log).with_worker(replace(worker, appended=worker.appended + 1, uuids=uuids))
    log = _settle(world, log, worker.pipeline, committed=True)
    positions = worker.moved(STEP if worker.script[0] else 0)
    announced_for = dict(worker.announced) | {e.table_uuid: e.batch for e in events if isinstance(e, DataWritten)}
    after = replace(
        worker,
        appended=0,
        uuids=(),
        script=worker.script[1:],
        batch=worker.batch + 1,
        positions=positions,
        announced=tuple(sorted(announced_for.items())),
    )
    return replace(world, log=log).with_worker(after)


def worker_crash(world: World, worker: Worker) -> World:
    """The driver dies: its open transaction is aborted and a new run announces the batch again, with new files."""
    log = _settle(world, world.log, worker.pipeline, committed=False) if worker.appended else world.log
    return replace(world, log=log).with_worker(replace(worker, appended=0, uuids=(), run=worker.run + 1, announced=()))


def _settle(world: World, log: tuple[Entry, ...], writer: str, committed: bool) -> tuple[Entry, ...]:
    entries = [
        Entry(e.event, e.writer, committed, e.epoch, e.brief) if e.writer == writer and e.committed is None else e
        for e in log
    ]
    return (*entries, world.entry(None, writer))


def announce_wrongly(
    world: World,
    pipeline: str,
    batch: int,
    table: str,
    start: int = 0,
    end: int = 0,
    run: str = "wrong",
    topic_id: str = "src-id",
    source: tuple[SourceRange, ...] | None = None,
) -> World:
    """A whole transaction that a sound worker would never send: a repeat, a gap, an overlap."""
    source = ranges(batch, topic_id, start, end) if source is None else source
    events: tuple[ControlEvent, ...] = (
        written(pipeline, batch, table, run=run, uuid=world.table(table).uuid, interval_ms=0, source=source),
        complete(pipeline, batch, (table,), run=run, source=source),
    )
    return replace(world, log=(*world.log, *(world.entry(e, pipeline) for e in events), world.entry(None, pipeline)))


def settle_offsets(world: World, worker: Worker, move: int = 0) -> World:
    """A person settles where a pipeline goes on, where its good chain ends; or moves its first partition away from
    there, by consent."""
    world, worker = _ended(world, worker)
    good = announced(world.log).ends.get(worker.pipeline)
    ends = dict(good.ends) if good is not None else {(p[0], p[2]): (p[1], p[3]) for p in worker.positions}
    read = [key for key in sorted(ends) if any((p[0], p[2]) == key for p in worker.positions)]
    positions = tuple(
        (topic, ends[topic, number][0], number, max(0, ends[topic, number][1] + (move if n == 0 else 0)))
        for n, (topic, number) in enumerate(read)
    )
    moved = any(ends[topic, number][1] != at for topic, _, number, at in positions)
    return _set_offsets(world, worker, positions, moved, worker.left)


def give_up(world: World, worker: Worker) -> World:
    """A person gives up the last partition of a pipeline: it goes on without it."""
    if len(worker.positions) < 2:
        return world
    world, worker = _ended(world, worker)
    rest, last = worker.positions[:-1], worker.positions[-1]
    return _set_offsets(world, worker, rest, True, (*worker.left, last))


def take_back(world: World, worker: Worker, kept: bool = True) -> World:
    """What was given up last is read again: where that was, or (which no sound driver does) from its log's start."""
    if not worker.left or worker.appended:
        return world
    topic, tid, number, at = worker.left[-1]
    back = (topic, tid, number, at if kept else 0)
    return world.with_worker(replace(worker, positions=(*worker.positions, back), left=worker.left[:-1]))


def make_anew(world: World, worker: Worker) -> World:
    """The worker's topic is deleted and made again with one partition; a person says where each begins."""
    world, worker = _ended(world, worker)
    tid = worker.positions[0][1] + "+"
    return _set_offsets(world, worker, (("src", tid, 0, 0),), True, ())


def grow(world: World, worker: Worker) -> World:
    """The topic gets one more partition, which is read from its beginning."""
    if worker.appended or len(worker.positions) > 2:
        return world
    topic, tid, _, _ = worker.positions[0]
    number = 1 + max(p[2] for p in worker.positions)
    if any((p[0], p[1], p[2]) == (topic, tid, number) for p in worker.left):
        return world
    return world.with_worker(replace(worker, positions=(*worker.positions, (topic, tid, number, 0))))


def _ended(world: World, worker: Worker) -> tuple[World, Worker]:
    """The run has ended before a person moves what it goes by."""
    if worker.appended:
        world = worker_crash(world, worker)
        worker = next(x for x in world.workers if x.pipeline == worker.pipeline)
    return world, worker


def _set_offsets(
    world: World, worker: Worker, positions: tuple[Position, ...], moved: bool, left: tuple[Position, ...]
) -> World:
    # Above the number of any batch, sound or not, so far.
    batches = [e.event.batch for e in world.log if isinstance(e.event, DataComplete) and e.writer == worker.pipeline]
    batch = max([worker.batch, *batches]) + 1
    base = batch if moved else worker.base
    source = ends(positions)
    event = offsets_set(worker.pipeline, batch, 0, base, source=source, given_up=ends(left))
    log = (*world.log, world.entry(event, worker.pipeline), world.entry(None, worker.pipeline))
    run = worker.run + 1
    after = replace(worker, batch=batch + 1, positions=positions, run=run, base=base, left=left, announced=())
    return replace(world, log=log).with_worker(after)


def end_of_announcements(world: World) -> int:
    """Where the newest announcement, settled offsets or word of a person ends, with its marker."""
    ends = [
        n + 2 for n, entry in enumerate(world.log) if entry.writer or isinstance(entry.event, Discarded | PauseChanged)
    ]
    return max(ends, default=0)


def truncate(world: World, end: int) -> World:
    """The broker loses the end of the control topic (an unclean election, a disk that was put back) and goes on under a
    new leader. Whoever has read further is told so when it reads on, and ends; a driver only writes, and is told
    nothing."""
    end = max(world.log_start, min(end, len(world.log)))
    for worker in world.workers:
        if worker.appended:
            world = worker_crash(world, worker)
    for index, coordinator in enumerate(world.coordinators):
        if coordinator is not None and coordinator.state.position > end:
            world = crash(world, index)
    files = {file for table in world.tables for file in table.files}
    under_way = [
        *world.orphans,
        *(task for coordinator in world.coordinators if coordinator is not None for task in coordinator.tasks),
    ]
    files |= {path for task in under_way if isinstance(task, CommitTable) for path in brought_by(task)}
    # Of a transaction whose end is lost nobody reads anything, until the next one of its writer ends.
    log = [*world.log[:end]]
    for offset in range(end - 1, -1, -1):
        entry = log[offset]
        if entry.event is None or not entry.writer:
            continue
        whole = any(e.event is None and e.writer == entry.writer for e in log[offset:])
        if entry.committed and not whole:
            log[offset] = replace(entry, committed=None)
    return replace(world, log=tuple(log), epoch=world.epoch + 1, before_cut=world.before_cut | files, was_cut=True)


def new_leader(world: World) -> World:
    """Another broker leads the control topic, or the same one again; nothing is lost."""
    return replace(world, epoch=world.epoch + 1)


def discard_waiting(world: World, name: str) -> World:
    """A person gives up what was announced for a table that is not there, or for the one that was there before."""
    table = world.table(name)
    present = set(table.files) | table.removed
    # In the order of the log, in which a queue stands; batches end in another.
    waiting = sorted(
        offset
        for offset, event in announced(world.log[: world.stable_end]).sound
        if same_name(event.table, name)
        and not present.issuperset(paths_of(event))
        and not (table.exists and event.table_uuid == table.uuid)
    )
    run = list(takewhile(lambda pair: pair[0] == pair[1], zip(waiting, _sound_waiting(world, name), strict=False)))
    if not run:
        return world
    return _give_up(world, name, [offset for offset, _ in run])


def discard_first(world: World, name: str, count: int) -> World:
    """A person gives up the first announcements that wait for a table, whose files are gone from the store; what was
    announced behind them, perhaps of the same batch, can still come."""
    given_up = _sound_waiting(world, name)[:count]
    return _give_up(world, name, given_up) if given_up else world


def _give_up(world: World, name: str, offsets: list[int]) -> World:
    """`floe discard`, which no run that is alive is told of: it refuses while one is whose announcements are given up,
    be they confirmed or not."""
    between = [world.log[offset] for offset in range(offsets[0], offsets[-1] + 1)]
    announced_by = {e.writer for e in between if isinstance(e.event, DataWritten) and same_name(e.event.table, name)}
    for worker in world.workers:
        if worker.pipeline in announced_by:
            world = worker_crash(world, worker)
    number = len(offsets)
    events = [e.event for e in between if isinstance(e.event, DataWritten) and same_name(e.event.table, name)]
    uuids = tuple(sorted({event.table_uuid for event in events}))
    batches = batches_of(events)
    return append_plainly(
        world, Discarded(name, offsets[0], offsets[-1] + 1, number, number, {}, "", 0, uuids, batches)
    )


def _sound_waiting(world: World, name: str) -> list[int]:
    """Where what waits for a table stands, whether it can come or not: a person gives up the first of it only."""
    table = world.table(name)
    present = set(table.files) | table.removed
    reached = table.progress.control_offset if table.progress is not None else 0
    return sorted(
        offset
        for offset, event in announced(world.log[: world.stable_end]).sound
        if same_name(event.table, name) and offset >= reached and not present.issuperset(paths_of(event))
    )


def append_plainly(world: World, event: ControlEvent) -> World:
    return replace(world, log=(*world.log, world.entry(event)))


def same_name(one: str, other: str) -> bool:
    """Whether two spellings mean one table: the catalog folds names."""
    return one.casefold() == other.casefold()


def note() -> ControlEvent:
    """An event that means nothing to a coordinator's decisions."""
    return StateChanged(Subject.PIPELINE, "a", Health.RUNNING, "", "", "", 0, 0, 0, "r")


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
    if effect.progress.control_offset < before and not _cut_off(world, table):
        seen.append(f"{table.name}: progress moved back from {before} to {effect.progress.control_offset}")
    paths = brought_by(effect)
    number = table.made + 1
    snapshot = Snapshot(table.head, table.files + paths, effect.progress.control_offset)
    seen += _written_on(world, table, effect)
    seen += _beside_keys(world, table, effect)
    marker = table.marker
    if marker is not None and marker < before and not table.unset:
        seen.append(f"{table.name}: it was rolled back to {marker}, and is written on before anybody settled that")
    table = replace(
        table,
        head=number,
        snapshots=(*table.snapshots, (number, snapshot)),
        progress=effect.progress,
        unset=False,
        removed=table.removed - set(paths),
        lost=table.lost - set(paths),
        made=number,
        versions=(*table.versions, replace(table, versions=())),
    )
    if seen:
        world = replace(world, moved_back=world.moved_back + tuple(seen))
    return world.with_table(table)


def _written_on(world: World, table: Table, effect: CommitTable) -> list[Fault]:
    """A table that was put back takes nothing whose announcement says what must be in it first, and is not."""
    coming = set(brought_by(effect))
    gone = table.lost - coming
    sound = (e for _, e in announced(world.log).sound if e.table_uuid == table.uuid)
    lost = {(e.pipeline, e.batch) for e in sound if gone.issuperset(paths_of(e))}
    return [
        f"{table.name}: batch {e.batch} of {e.pipeline} is added, and batch {e.after_batch} before it was lost with its state"
        for e in _announced_for(world, table)
        if (e.pipeline, e.after_batch) in lost and coming.issuperset(paths_of(e))
    ]


def _beside_keys(world: World, table: Table, effect: CommitTable) -> list[Fault]:
    """A batch that changes rows by their keys has its commit to itself, and says once what it changes."""
    if not effect.keyed:
        return []
    coming = set(brought_by(effect))
    batches = {(e.pipeline, e.batch) for e in _announced_for(world, table) if coming.intersection(paths_of(e))}
    if len(batches) <= 1 and len(effect.keyed) == 1:  # none where the log no longer has the announcement
        return []
    return [f"{table.name}: a commit that changes rows by their keys takes {sorted(batches)} at once"]


def _announced_for(world: World, table: Table) -> list[DataWritten]:
    found = (entry.event for entry in world.log[world.log_start :] if entry.committed)
    return [e for e in found if isinstance(e, DataWritten) and e.table_uuid == table.uuid]


def _cut_off(world: World, table: Table) -> bool:
    """Whether the log was cut off below the table's progress."""
    progress = table.progress
    if progress is None:
        return False
    written_anew = any(e.epoch > (progress.leader_epoch or 0) for e in world.log[: progress.control_offset])
    return written_anew or progress.control_offset > len(world.log)


def put_back(world: World, name: str, pick: int) -> World:
    """Somebody restores an older metadata file of a table. Not one on whose head a commit may still be under way: a
    head that comes back looks unchanged to a conditional commit (named as a limit in docs/protocol.md)."""
    table = world.table(name)
    held = {head for held_name, head in held_views(world) if held_name == table.name}
    found = [n for n, version in enumerate(table.versions) if version.head not in held]
    if not found or not table.exists:
        return world
    at = found[pick % len(found)]
    older = replace(table.versions[at], versions=table.versions[:at], made=table.made, removed=table.removed)
    lost = (table.lost | set(table.files)) - set(older.files)
    return world.with_table(replace(older, lost=lost, tampered=True))


def unset_progress(world: World, name: str) -> World:
    """Somebody takes the property away in which floe records progress."""
    table = world.table(name)
    return world.with_table(replace(table, unset=True, tampered=True)) if table.progress is not None else world


def foreign_commit(world: World, name: str) -> World:
    """Somebody else (a compaction, a second writer) adds a snapshot."""
    table = world.table(name)
    number = table.made + 1
    snapshot = Snapshot(table.head, table.files, None)
    return world.with_table(replace(table, head=number, snapshots=(*table.snapshots, (number, snapshot)), made=number))


def filled_from_elsewhere(world: World, name: str, pipeline: str) -> World:
    """The pipeline's first batch came into the table by another control topic: of a cluster that was copied, say."""
    table = world.table(name)
    number = table.made + 1
    snapshot = Snapshot(table.head, (*table.files, f"{name}/{pipeline}-elsewhere-1-0-0"), None)
    return world.with_table(
        replace(
            table,
            head=number,
            snapshots=(*table.snapshots, (number, snapshot)),
            made=number,
            elsewhere=(*table.elsewhere, (pipeline, "another-control-id")),
        )
    )


def expire(world: World, name: str) -> World:
    """`expire_snapshots` with one retained: everything behind the head is forgotten. Not of a table whose record was
    taken away: without both, nothing at all says what it holds (named as a limit in docs/protocol.md)."""
    table = world.table(name)
    if table.unset:
        return world
    old = frozenset(number for number, _ in table.snapshots if number != table.head)
    return world.with_table(replace(table, expired=old))


def held_views(world: World) -> set[tuple[str, int | None]]:
    """Heads that somebody may still commit on: in coordinators' memories and in requests under way. By the tables' own
    names."""
    held = [c.view for c in world.orphans]
    for coordinator in world.coordinators:
        if coordinator is not None:
            held += [t.view for t in coordinator.state.tables.values() if t.view is not None]
            held += [c.view for c in coordinator.tasks if isinstance(c, CommitTable)]
    return {(world.table(view.table).name, view.snapshot_id) for view in held}


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
    for index, coordinator in enumerate(world.coordinators):
        if coordinator is not None and coordinator.state.position < world.log_start:
            world = crash(world, index)
    return world


def rollback(world: World, name: str, target: int) -> World:
    table = world.table(name)
    lost = set(table.files) - set(table.at(target).files)
    return world.with_table(replace(table, head=target, removed=table.removed | lost))


def recreate(world: World, name: str) -> World:
    """Dropped and created again under its name: nothing of before is in it."""
    table = world.table(name)
    return world.with_table(Table(table.name, f"{table.uuid}+", schema_id=table.schema_id, names=table.names))


# ---- coordinators ----------------------------------------------------------------------------------------------------


def assign(world: World, index: int, step: Step = step, limits: Limits = PROMPT) -> World:
    """The control topic's partition goes to a process. Whoever had it is not told: it goes on with what it knows."""
    world = replace(world, owner=index, term=world.term + 1)
    old = world.coordinators[index]
    if old is not None:
        world = orphan(world, old)
    assigned = Assigned(
        f"c{index}.{world.term}",
        TOPIC_ID,
        world.log_start,
        world.low_water,
        world.low_water_topic_id if world.low_water is not None else None,
        world.chain_from,
        world.stable_end,
        world.low_water is not None
        and end_of_epoch(world, world.low_water_epoch)
        < min(world.low_water, len(world.log), len(world.log) if world.records_end is None else world.records_end),
        world.low_water_epoch,
        world.records_end,
    )
    coordinator = CoordinatorProcess(CoordinatorState(limits=limits), (), world.term)
    world = world.with_coordinator(index, coordinator)
    return feed(world, index, assigned, step)


def end_of_epoch(world: World, epoch: int | None) -> int:
    """Where the records end that leaders up to this one have taken, as the broker tells (KIP-320)."""
    if epoch is None:
        return len(world.log)
    return next((offset for offset, entry in enumerate(world.log) if entry.epoch > epoch), len(world.log))


def orphan(world: World, coordinator: CoordinatorProcess) -> World:
    commits = tuple(task for task in coordinator.tasks if isinstance(task, CommitTable))
    return replace(world, orphans=world.orphans + commits)


def crash(world: World, index: int) -> World:
    coordinator = world.coordinators[index]
    if coordinator is None:
        return world
    world = orphan(world, coordinator).with_coordinator(index, None)
    return replace(world, owner=None) if world.owner == index else world


def feed(world: World, index: int, message: Input, step: Step = step) -> World:
    """One input to one coordinator; its information events and its low-water mark go out at once, in order."""
    coordinator = world.coordinators[index]
    assert coordinator is not None
    state, effects = step(coordinator.state, message, world.now_ms)
    assert state.committing == sum(table.phase is TablePhase.COMMITTING for table in state.tables.values())
    tasks = list(coordinator.tasks)
    log = list(world.log)
    low_water, chain_from, low_water_epoch = world.low_water, world.chain_from, world.low_water_epoch
    records_end = world.records_end
    again = False
    for effect in effects:
        if isinstance(effect, LoadTable | CommitTable):
            tasks.append(effect)
        elif isinstance(effect, Publish):
            if world.publishes:
                log.append(world.entry(effect.event))
        elif isinstance(effect, StoreLowWater):
            if world.owner == index and world.term == coordinator.term:  # a stale member's offset commit is refused
                low_water, chain_from, low_water_epoch = effect.offset, effect.chain_from, effect.leader_epoch
                records_end = effect.records_end
        elif isinstance(effect, ReadAgain):
            again = True
        else:
            assert isinstance(effect, StopCoordinator)
    if low_water != world.low_water:
        world = replace(world, low_water_topic_id=TOPIC_ID)
    world = replace(
        world,
        log=tuple(log),
        low_water=low_water,
        chain_from=chain_from,
        low_water_epoch=low_water_epoch,
        records_end=records_end,
    )
    world = world.with_coordinator(index, CoordinatorProcess(state, tuple(tasks), coordinator.term))
    if again:  # the leadership is given up, and taken again if nobody else has it
        owned = world.owner == index and world.term == coordinator.term
        world = crash(world, index)
        if owned:
            world = assign(world, index, step, state.limits)
    return world


def next_visible(world: World, index: int) -> int | None:
    """The next offset that a coordinator can read."""
    coordinator = world.coordinators[index]
    if coordinator is None or not coordinator.state.assigned or coordinator.state.stopped is not None:
        return None
    end = world.stable_end
    for offset in range(max(coordinator.state.position, world.log_start), end):
        entry = world.log[offset]
        if entry.committed and entry.event is not None:
            return offset
    return None


def read(world: World, index: int, step: Step = step) -> World:
    offset = next_visible(world, index)
    assert offset is not None
    entry = world.log[offset]
    return feed(world, index, Read(offset, entry.event, None, entry.epoch), step)


def tick(world: World, index: int, step: Step = step) -> World:
    at_end = next_visible(world, index) is None
    return feed(world, index, Tick(at_end, world.stable_end if at_end else None), step)


def take_task(world: World, index: int, number: int) -> tuple[World, LoadTable | CommitTable]:
    coordinator = world.coordinators[index]
    assert coordinator is not None
    tasks = coordinator.tasks[:number] + coordinator.tasks[number + 1 :]
    return world.with_coordinator(index, replace(coordinator, tasks=tasks)), coordinator.tasks[number]


def perform(world: World, index: int, number: int, outcome: str = "sound", step: Step = step) -> World:
    """Perform what a coordinator asked for. `outcome`: sound; lost (applied if it can be, no answer); failed (not
    applied, an error); late (no answer now, and it may be applied at any time from here on)."""
    world, task = take_task(world, index, number)
    if isinstance(task, LoadTable):
        table = world.table(task.table)
        answer: Input = TableLoaded(table.view(task.table)) if table.exists else TableMissing(task.table, "dropped")
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
    return feed(applied, index, Committed(task.table, task.commit_id, table.view(task.table), head, world.now_ms), step)


def apply_orphan(world: World, number: int) -> World:
    """A request that was under way reaches the catalog at last."""
    effect = world.orphans[number]
    world = replace(world, orphans=world.orphans[:number] + world.orphans[number + 1 :])
    return apply_commit(world, effect) or world


# ---- what must hold --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """Where a pipeline's good chain ends: by partition the topic's id and the source offset; and what was given up."""

    batch: int = 0
    ends: Mapping[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    left: Mapping[tuple[str, str, int], int] = field(default_factory=dict)

    def takes(self, batch: int, source: tuple[SourceRange, ...]) -> bool:
        """Whether a batch begins where this ends: in each partition that it knows, or that it knew once."""
        for r in source:
            known = self.ends.get((r.topic, r.partition))
            if known is not None and known != (r.topic_id, r.start):
                return False
            if known is None and self.left.get((r.topic, r.topic_id, r.partition), r.start) != r.start:
                return False
        return batch == self.batch + 1

    def holds(self, batch: int, source: tuple[SourceRange, ...]) -> bool:
        """Whether all of a batch was announced before."""
        return batch <= self.batch and all(
            (end := self.ends.get((r.topic, r.partition))) is not None and end[0] == r.topic_id and r.end <= end[1]
            for r in source
        )

    def after(self, batch: int, source: tuple[SourceRange, ...]) -> Chain:
        ends = {**self.ends, **{(r.topic, r.partition): (r.topic_id, r.end) for r in source}}
        left = {key: at for key, at in self.left.items() if (key[0], key[2]) not in ends}
        return Chain(batch, ends, left)

    def settled(self, batch: int, source: tuple[SourceRange, ...], given_up: tuple[SourceRange, ...]) -> Chain:
        """A person says where each partition goes on; those that are not named are given up, and some were before."""
        ends = {(r.topic, r.partition): (r.topic_id, r.end) for r in source}
        left = {**self.left, **{(topic, tid, n): at for (topic, n), (tid, at) in self.ends.items()}}
        left |= {(r.topic, r.topic_id, r.partition): r.end for r in given_up}
        return Chain(batch, ends, {key: at for key, at in left.items() if (key[0], key[2]) not in ends})


@dataclass(frozen=True)
class Announced:
    """What the log says, worked out without `step`: sound announcements, and the files that must never be seen."""

    sound: tuple[tuple[int, DataWritten], ...]
    held: tuple[tuple[int, DataWritten], ...]  # of a broken batch or behind one: no table's progress may pass them
    unsound: frozenset[str]
    ends: Mapping[str, Chain]  # by pipeline, where its good chain ends


@lru_cache(maxsize=4_000)
def announced(log: tuple[Entry, ...]) -> Announced:
    """The oracle: batches in the order of their ends; a batch counts if it begins where the one before ended."""
    chains: dict[str, Chain] = {}
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
                [
                    (at, w)
                    for at, w in found
                    if not same_name(w.table, event.table) or not event.first <= at < event.below
                ]
                for found in (sound, held)
            )
        if not entry.committed or not isinstance(event, DataWritten | DataComplete | Heartbeat | OffsetsSet):
            continue
        name = event.pipeline
        if isinstance(event, OffsetsSet):  # the chain goes on from here, and what was held of it is given up
            begins = {(r.topic_id, r.partition): r.end for r in event.ranges}
            sound = [(at, w) for at, w in sound if w.pipeline != name or not _read_again(w, begins)]
            chains[name] = chains.get(name, Chain()).settled(event.batch, event.ranges, event.given_up)
            unsound |= {path for _, w in waiting.pop(name, []) for path in paths_of(w)}
            broken.discard(name)
            held = [(at, w) for at, w in held if w.pipeline != name]
            continue
        if isinstance(event, DataWritten):
            waiting.setdefault(name, []).append((offset, event))
            continue
        chain = chains.get(name, Chain())
        mine = waiting.pop(name, [])
        if name not in broken and chain.takes(event.batch, event.ranges):
            chains[name] = chain.after(event.batch, event.ranges)
            sound += mine
            paths |= {path for _, w in mine for path in paths_of(w)}
            continue
        if name in broken or not chain.holds(event.batch, event.ranges):
            broken.add(name)
            held += mine
        unsound |= {path for _, w in mine for path in paths_of(w)}
    return Announced(tuple(sound), tuple(held), frozenset(unsound - paths), chains)


def _read_again(event: DataWritten, begins: Mapping[tuple[str, int], int]) -> bool:
    """Whether all records of an announcement are read again from where a person said."""
    busy = [r for r in event.ranges if r.start < r.end]
    return all(begins.get((r.topic_id, r.partition), r.end) <= r.start for r in busy)


@lru_cache(maxsize=4_000)
def pauses_said(log: tuple[Entry, ...]) -> tuple[tuple[int, PauseChanged], ...]:
    """Every pause that was ever said or taken back, and where."""
    return tuple((n, e.event) for n, e in enumerate(log) if isinstance(e.event, PauseChanged))


def _pauses_not_held(world: World) -> Iterator[Fault]:
    """A coordinator that has read past a pause holds it until it has read that it was taken back. (One whose beginning
    the log has lost may not know of it.)"""
    said = pauses_said(world.log)
    last = {event.pattern: offset for offset, event in said}
    for index, coordinator in enumerate(world.coordinators if said else ()):
        if coordinator is None or not coordinator.state.assigned or coordinator.state.stopped is not None:
            continue
        if coordinator.state.position < coordinator.state.floor:
            continue  # what it reads now is read for the chains' sake, and nothing of it will be committed
        held = {seen.event.pattern: seen.event.paused for seen in coordinator.state.pauses.values()}
        for offset, event in said:
            # A pause that was taken back further on need not be known to who begins to read in between.
            known = last[event.pattern] == offset < coordinator.state.position and offset >= world.log_start
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
        if bad := facts.unsound.intersection(files) - world.before_cut:
            found.append(f"{table.name}: files of a repeated or broken batch are in it: {sorted(bad)}")
        present = set(files) | table.removed | table.lost
        progress = table.progress if not table.unset else None
        reached = progress.control_offset if progress is not None else 0
        for offset, event in facts.sound:
            if event.table_uuid != table.uuid:
                continue
            held = present.issuperset(paths_of(event))
            # What was written where the log had been cut off is not below what was recorded or stored before that.
            anew = progress is not None and _later(world.log[offset].epoch, progress.leader_epoch)
            if not held and offset < reached and not anew:
                found.append(
                    f"{table.name}: progress {reached} passed the announcement at {offset}, which is not in it"
                )
            if not held and offset < low_water and not _later(world.log[offset].epoch, world.low_water_epoch):
                found.append(f"{table.name}: low-water mark {world.low_water} passed the announcement at {offset}")
        for offset, event in facts.held:
            anew = progress is not None and _later(world.log[offset].epoch, progress.leader_epoch)
            was_in = world.before_cut.issuperset(paths_of(event))
            if event.table_uuid == table.uuid and offset < reached and not anew and not was_in:
                found.append(f"{table.name}: progress {reached} passed the broken batch announced at {offset}")
        keys = Counter(_source_key(path) for path in files)
        if twice := sorted(key for key, count in keys.items() if count > 1):
            found.append(f"{table.name}: source records are in it twice: {twice}")
        found += _read_twice(world, table)
    return found


def _later(epoch: int, recorded: int | None) -> bool:
    return recorded is not None and epoch > recorded


def _source_key(path: str) -> str:
    """A batch's files of one table, whoever announced them: name, pipeline, batch, part and number."""
    name, _, rest = path.partition("/")
    pipeline, _run, batch, part, number = rest.split("-")
    return f"{name} {pipeline}-{batch}-{part}-{number}"


def _read_twice(world: World, table: Table) -> Iterator[Fault]:
    """Source records that two batches of a pipeline brought into a table although nobody moved its offsets in
    between."""
    live = set(table.files)
    spans: dict[tuple[object, ...], list[tuple[int, int, int]]] = {}
    for event in _announced_for(world, table):
        if event.part == 0 and live.issuperset(paths_of(event)):
            for r in event.ranges:
                if r.start < r.end:
                    key = event.pipeline, event.table, event.base_batch, r.topic_id, r.partition
                    spans.setdefault(key, []).append((r.start, r.end, event.batch))
    for key, found in spans.items():
        for (_, end, one), (start, _, two) in pairwise(sorted(found)):
            if start < end and one != two:
                yield f"{table.name}: batches {one} and {two} hold the same records of {key}"


def drain(world: World, step: Step = step, rounds: int = 60) -> tuple[World, list[Fault]]:
    """Trouble ends: one fresh coordinator, everything performed. Then every sound announcement must be in its table. A
    transaction that the log lost the end of is aborted by hand: until then it hides what stands behind it."""
    world = replace(world, orphans=())
    hanging = {x.pipeline for x in world.workers if not x.appended}
    log = (
        Entry(e.event, e.writer, False, e.epoch) if e.committed is None and e.writer in hanging else e
        for e in world.log
    )
    world = replace(world, log=tuple(log))
    for worker in world.workers:
        if worker.appended:
            world = worker_crash(world, worker)
    for pattern in {event.pattern for _, event in pauses_said(world.log)}:
        world = append_plainly(world, pause(pattern, False))
    for index in range(len(world.coordinators)):
        world = crash(world, index)
        world = replace(world, orphans=())
    world = assign(world, 0, step)
    for _ in range(rounds):
        before = world
        world = replace(world, now_ms=world.now_ms + 100_000)
        while next_visible(world, 0) is not None:
            world = read(world, 0, step)
        while (coordinator := world.coordinators[0]) is not None and coordinator.tasks:
            world = perform(world, 0, 0, step=step)
        world = tick(world, 0, step)
        while (coordinator := world.coordinators[0]) is not None and coordinator.tasks:
            world = perform(world, 0, 0, step=step)
        found = faults(world)
        if found:
            return world, found
        if replace(before, now_ms=0, coordinators=()) == replace(world, now_ms=0, coordinators=()) and _quiet(world):
            break
    return world, list(_left_behind(world))


def _quiet(world: World) -> bool:
    coordinator = world.coordinators[0]
    return coordinator is not None and not coordinator.tasks and next_visible(world, 0) is None


def _kept_all(table: Table) -> bool:
    """Whether nobody ever took rows or floe's record out of a table."""
    return not (table.tampered or table.removed)


def _left_behind(world: World) -> Iterator[Fault]:
    coordinator = world.coordinators[0]
    assert coordinator is not None
    state = coordinator.state
    facts = announced(world.log)
    if state.stopped is not None:
        if state.stopped.code == "FLOE-R117" and not world.was_cut:
            yield f"a coordinator stops, and it is not so: {state.stopped.message}"
        return
    for table in world.tables:
        known = state.tables.get(state.queues.get(table.uuid, ""))
        if known is not None and known.blocked is not None:
            if "was put back to an older state" in known.blocked and world.epoch == 0 and _kept_all(table):
                yield Fault(f"{table.name} waits, and what it says of it is not so: {known.blocked}")
            continue  # it waits and says why; `faults` has checked that nothing passed what waits
        # What waits for a table that was there before under this name stands in the same queue.
        barrier = min((o for o, e in facts.held if same_name(e.table, table.name)), default=None)
        for offset, event in facts.sound:
            if event.table_uuid != table.uuid or (barrier is not None and offset > barrier):
                continue
            if not {f.path for f in event.files} <= set(table.files) | table.removed | table.lost:
                yield f"{table.name}: the announcement at {offset} never came into it and nothing says why"
