"""Explores every world that can be reached in a small scope, by the coordinator's real `step`.

In: a `Scope` (what may happen, and how often). Out: how many states and transitions there are, and the first fault with
the path that leads to it. Two worlds that differ in nothing a later step can see count as one: snapshot ids are counted
per table, and names of commits and numbers of retries are left out. Information events are not modelled here (`step`
does not need them); the random histories have them.

What a writer adds behind an open transaction is seen by nobody: everything that coordinators do afterwards they could
have done before. So once something hidden was written, only writers go on, until something shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from framework.commit.events.event_types import DataComplete
from framework.commit.machine.effects import CommitTable, LoadTable, TableProgress, Tick
from framework.commit.machine.model import CoordinatorState, TableState
from framework.commit.machine.step import step as real_step
from tests.protocol import world as w
from tests.protocol.build import TOPIC_ID
from tests.protocol.world import Step, World, replace


@dataclass(frozen=True)
class Scope:
    """`scripts`: per pipeline the tables of each batch. The numbers bound how often trouble happens in one history."""

    scripts: tuple[tuple[tuple[str, ...], ...], ...]
    coordinators: int = 2
    takeovers: int = 3  # the first owner included; a takeover leaves the old owner running
    coordinator_crashes: int = 1
    worker_crashes: int = 1
    unknown_outcomes: int = 1  # commits whose answer is lost, or that are applied late
    foreign_commits: int = 0
    commit_files: int = 10_000
    undrained_files: int = 5_000
    partitions: int = 1  # that each pipeline reads in turn
    aliases: tuple[tuple[str, str], ...] = ()  # another spelling of a table's name, and the table
    truncations: int = 0  # the log loses its end and goes on under a new leader
    put_back: int = 0  # a table is put back to an older state, or its record is taken away
    give_up: int = 0  # a partition is given up and comes back, or the topic is made anew and grows
    new: bool = False  # tables record nothing yet: they wait until the log is read to its end
    every_record: bool = False  # stop reading after every record; else only where a batch ends, and at the log's end


@dataclass(frozen=True)
class Budget:
    takeovers: int
    coordinator_crashes: int
    worker_crashes: int
    unknown_outcomes: int
    foreign_commits: int
    truncations: int = 0
    put_back: int = 0
    give_up: int = 0
    hidden: bool = False  # the last thing that happened was written to the log, but nobody can read it yet


@dataclass
class Outcome:
    """`fault` is None when nothing was found; `path` are the actions that lead to it."""

    states: int = 0
    transitions: int = 0
    drained: int = 0
    logs: int = 0
    complete: bool = True
    fault: str | None = None
    path: list[str] = field(default_factory=list)
    log: tuple[str, ...] = ()


Node = tuple[World, Budget]


def start(scope: Scope) -> Node:
    names = [chr(ord("a") + n) for n in range(len(scope.scripts))]
    aliases = dict(scope.aliases)
    named = {t.partition("*")[0] for script in scope.scripts for batch in script for t in batch}
    tables = sorted({aliases.get(name, name) for name in named})
    positions = tuple(("src", "src-id", number, 0) for number in range(scope.partitions))
    world = World(
        workers=tuple(
            w.Worker(name, script, positions=positions) for name, script in zip(names, scope.scripts, strict=True)
        ),
        tables=tuple(
            w.Table(
                name,
                f"uuid-{name}",
                names=tuple(other for other, of in scope.aliases if of == name),
                progress=None if scope.new else TableProgress(TOPIC_ID, 0, {}),
            )
            for name in tables
        ),
        coordinators=(None,) * scope.coordinators,
        publishes=False,
    )
    budget = Budget(
        scope.takeovers,
        scope.coordinator_crashes,
        scope.worker_crashes,
        scope.unknown_outcomes,
        scope.foreign_commits,
        scope.truncations,
        scope.put_back,
        scope.give_up,
    )
    return world, budget


def logs(scope: Scope) -> list[World]:
    """Every log that the pipelines can write: all interleavings of their events, with up to `worker_crashes` aborted
    transactions."""
    world, budget = start(scope)
    found: dict[tuple[w.Entry, ...], World] = {}
    stack = [(world, budget.worker_crashes)]
    while stack:
        at, crashes = stack.pop()
        if not any(worker.script for worker in at.workers):
            found.setdefault(at.log, at)
        for worker in at.workers:
            if worker.script:
                stack.append((w.worker_append(at, worker), crashes))
                if worker.appended and crashes:
                    stack.append((w.worker_crash(at, worker), crashes - 1))
    return list(found.values())


def successors(node: Node, scope: Scope, step: Step = real_step) -> Iterator[tuple[str, Node]]:
    """Everything that can happen next."""
    world, budget = node
    limits = replace(w.PROMPT, commit_files=scope.commit_files, undrained_files=scope.undrained_files)
    for worker in world.workers:
        if worker.script:
            yield f"{worker.pipeline} announces", _written(world, w.worker_append(world, worker), budget)
            if worker.appended and budget.worker_crashes:
                less = replace(budget, worker_crashes=budget.worker_crashes - 1)
                yield f"{worker.pipeline} dies", _written(world, w.worker_crash(world, worker), less)
    if budget.hidden:
        return
    for index, coordinator in enumerate(world.coordinators):
        if budget.takeovers and world.owner != index:
            less = replace(budget, takeovers=budget.takeovers - 1)
            yield f"c{index} takes over", (w.assign(world, index, step, limits), less)
        if coordinator is None:
            continue
        if budget.coordinator_crashes:
            less = replace(budget, coordinator_crashes=budget.coordinator_crashes - 1)
            yield f"c{index} dies", (w.crash(world, index), less)
        # A stale owner reads no more (the group refuses it), but what it decided and asked for goes on.
        if world.owner == index and w.next_visible(world, index) is not None:
            one = _read_on(world, index, step, scope.every_record)
            yield f"c{index} reads on", (one, budget)
            if w.next_visible(one, index) is not None:
                yield f"c{index} reads all", (_read_all(world, index, step), budget)
        for number, task in enumerate(coordinator.tasks):
            yield f"c{index} commits {_name(task)}", (_perform(world, index, number, "sound", step), budget)
            if budget.unknown_outcomes:
                less = replace(budget, unknown_outcomes=budget.unknown_outcomes - 1)
                for outcome in ("lost", "late", "failed"):
                    after = _perform(world, index, number, outcome, step)
                    yield f"c{index} commits {_name(task)}: {outcome}", (after, less)
    for number, effect in enumerate(world.orphans):
        yield f"late request arrives: {_name(effect)}", (w.apply_orphan(world, number), budget)
    if budget.foreign_commits:
        less = replace(budget, foreign_commits=budget.foreign_commits - 1)
        for table in world.tables:
            yield f"somebody commits to {table.name}", (w.foreign_commit(world, table.name), less)
    if budget.truncations and not any(worker.appended for worker in world.workers):
        less = replace(budget, truncations=budget.truncations - 1)
        for end in range(world.log_start, len(world.log)):
            yield f"the log is cut off at {end}", (w.truncate(world, end), less)
    if budget.put_back:
        less = replace(budget, put_back=budget.put_back - 1)
        for table in world.tables:
            for number in range(len(table.versions)):
                yield f"{table.name} is put back to {number}", (w.put_back(world, table.name, number), less)
            yield f"the record of {table.name} is taken away", (w.unset_progress(world, table.name), less)
    for worker in world.workers if budget.give_up else ():
        if worker.appended:
            continue
        less = replace(budget, give_up=budget.give_up - 1)
        name = worker.pipeline
        for label, after in (
            ("gives a partition up", w.give_up(world, worker)),
            ("takes it back", w.take_back(world, worker)),
            ("takes it back from its start", w.take_back(world, worker, kept=False)),
            ("has its topic made anew", w.make_anew(world, worker)),
            ("has its topic grow", w.grow(world, worker)),
        ):
            if after is not world:
                yield f"{name} {label}", (after, less)


def _written(before: World, after: World, budget: Budget) -> Node:
    return after, replace(budget, hidden=after.stable_end == before.stable_end)


def _perform(world: World, index: int, number: int, outcome: str, step: Step) -> World:
    """An outcome and the Tick that follows each: a table that is to be examined again is examined again."""
    world = _settle(w.perform(world, index, number, outcome, step), index, step)
    return _tick(world, index, step)


def _tick(world: World, index: int, step: Step) -> World:
    """A Tick that believes the log to end here, as it may have when the record was read."""
    at_end = world.stable_end if w.next_visible(world, index) is None else None  # past the markers
    return _settle(w.feed(world, index, Tick(True, at_end), step), index, step)


def _name(task: LoadTable | CommitTable) -> str:
    return f"{task.table}<{task.progress.control_offset}" if isinstance(task, CommitTable) else task.table


def _read_on(world: World, index: int, step: Step, one_record: bool) -> World:
    while (offset := w.next_visible(world, index)) is not None:
        world = _settle(w.read(world, index, step), index, step)
        if one_record or isinstance(world.log[offset].event, DataComplete):
            break
    return _tick(world, index, step)


def _read_all(world: World, index: int, step: Step) -> World:
    while w.next_visible(world, index) is not None:
        world = w.read(world, index, step)
        world = _settle(world, index, step)
    return _tick(world, index, step)


def _settle(world: World, index: int, step: Step) -> World:
    """Loads are answered at once: a view that is old by the time of the commit comes about by waiting to commit."""
    while True:
        coordinator = world.coordinators[index]
        assert coordinator is not None
        number = next((n for n, task in enumerate(coordinator.tasks) if isinstance(task, LoadTable)), None)
        if number is None:
            return world
        world = w.perform(world, index, number, step=step)


def key(node: Node) -> int:
    """Equal for two nodes that no later step can tell apart."""
    world, budget = node
    return hash(
        (
            world.log,
            tuple((x.batch, x.run, x.appended, x.positions, x.left) for x in world.workers),
            world.tables_key,
            # Coordinators are alike: which of them is which makes no difference.
            tuple(
                sorted(
                    hash((_state_key(s.state), _tasks_key(s.tasks), world.owner == n))
                    for n, s in enumerate(world.coordinators)
                    if s is not None
                )
            ),
            tuple(sorted(hash(task) for task in _tasks_key(world.orphans))),
            world.low_water,
            world.chain_from,
            _edges(world) if budget.put_back or world.epoch or any(t.lost for t in world.tables) else (),
            budget,
        )
    )


def _edges(world: World) -> tuple[object, ...]:
    """What tells worlds apart only where a table may be put back, or was, or the log was cut off."""
    recorded = (tuple(sorted(t.progress.pipelines)) if t.progress is not None else () for t in world.tables)
    return world.epoch, world.low_water_epoch, tuple(len(t.versions) for t in world.tables), tuple(recorded)


def _tasks_key(tasks: tuple[LoadTable | CommitTable, ...]) -> tuple[object, ...]:
    return tuple(
        (t.table, t.view.table_uuid, t.view.snapshot_id, t.progress.control_offset, len(t.files))
        if isinstance(t, CommitTable)
        else t.table
        for t in tasks
    )


def _state_key(state: CoordinatorState) -> tuple[object, ...]:
    return (
        state.begin,
        state.position,
        state.floor,
        state.stored_low_water,
        state.caught_up,
        state.stopped is None,
        state.cycle_open,
        state.settled,
        state.wants_again,
        tuple(sorted(_table_key(t) for t in state.tables.values())),
        tuple(
            sorted(
                (
                    p.pipeline,
                    p.link.batch if p.link else -1,
                    p.link_offset,
                    tuple(p.anchors),
                    p.last_offset,
                    p.confirmed_below,
                    p.open.first_offset if p.open else -1,
                    len(p.open.parts) if p.open else 0,
                    p.broken or "",
                )
                for p in state.pipelines.values()
            )
        ),
    )


def _table_key(table: TableState) -> tuple[object, ...]:
    view = table.view
    return (
        table.table,
        tuple(a.offset for a in table.pending),
        table.phase.value,
        (view.table_uuid, view.snapshot_id or 0, view.progress.control_offset if view.progress else -1) if view else (),
        table.recorded,
        table.attempt.through if table.attempt else -1,
        table.blocked or "",
        table.unread.offset if table.unread else -1,
    )


def explore_logs(scope: Scope, step: Step = real_step, most_states: int = 1_000_000) -> Outcome:
    """As `explore`, with each possible log written beforehand.

    A coordinator that has read a part of a log that is there has seen the same as one that reads a log still to be
    written, so this visits the same decisions with far fewer states. Every place of the log counts as a possible end.
    """
    total = Outcome()
    for world in logs(scope):
        found = explore(scope, step, most_states - total.states, world)
        total.states += found.states
        total.transitions += found.transitions
        total.drained += found.drained
        total.logs += 1
        if found.fault is not None or not found.complete:
            total.fault, total.path, total.complete = found.fault, found.path, found.complete
            total.log = tuple(entry.brief for entry in world.log)
            break
    return total


def explore(scope: Scope, step: Step = real_step, most_states: int = 1_000_000, world: World | None = None) -> Outcome:
    """Visit every state once, nearest first; stop at the first fault. `world`: one with its log already written."""
    root = start(scope)
    if world is not None:
        root = (world, replace(root[1], worker_crashes=0))
    outcome = Outcome(states=1)
    parents: dict[int, tuple[int, str]] = {key(root): (0, "")}
    queue: deque[tuple[Node, int]] = deque([(root, key(root))])
    drained: set[int] = set()
    while queue:
        node, at = queue.popleft()
        for label, after in successors(node, scope, step):
            outcome.transitions += 1
            to = key(after)
            if to in parents:
                continue
            parents[to] = (at, label)
            outcome.states += 1
            world = after[0]
            found = w.faults(world)
            if not found:
                durable = hash((world.log, world.tables_key, world.low_water, world.chain_from))
                if durable not in drained:
                    drained.add(durable)
                    outcome.drained += 1
                    _, found = w.drain(world, step)
            if found:
                outcome.fault = found[0]
                outcome.path = _path(parents, to)
                return outcome
            if outcome.states >= most_states:
                outcome.complete = False
                return outcome
            queue.append((after, to))
    return outcome


def _path(parents: dict[int, tuple[int, str]], at: int) -> list[str]:
    path: list[str] = []
    while at in parents and parents[at][1]:
        at, label = parents[at]
        path.append(label)
    return path[::-1]
