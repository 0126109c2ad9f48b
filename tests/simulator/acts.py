"""What may happen, how often, and what each act does to the world.

In: a seed. Out: acts that carry their own choices, and functions that carry them out. Most of what happens is work, and
some of it is trouble; an act may hold others, which happen between two of its own steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from framework.errors import FloeError
from framework.runtime.maintenance import orphans
from framework.runtime.maintenance import tables as maintenance
from tests.simulator import drivers, others, shells, verbs
from tests.simulator.invariants import Fault, Work
from tests.simulator.lake import outcome_of
from tests.simulator.picks import Picks
from tests.simulator.ports import DAY_MS, HOUR_MS
from tests.simulator.world import PIPELINES, World, at_work, spec_of

BITS = 96


@dataclass(frozen=True, slots=True)
class Act:
    """`number` holds its choices. `inside`: what others do meanwhile, and between which of its steps."""

    kind: str
    number: int
    inside: tuple[tuple[str, Act], ...] = ()


# ---- work


def batch(world: World, picks: Picks) -> None:
    """A driver writes a batch and announces it, or leaves that for later."""
    driver = world.drivers[picks.of(tuple(PIPELINES))]
    counts = [picks.below(4), picks.below(3), picks.below(2)]
    later = picks.below(6) == 0
    try:
        if not driver.is_up:
            with at_work(world, driver.machine):
                drivers.begin(driver, world.broker, world.lake)
            world.reported[driver.log.name].add(driver.name)
        if driver.written is None:
            written = drivers.write(driver, world.broker, world.lake, world.positions, counts)
            if written is None:
                return
            files = [path for path, _ in written.files.values()]
            said = [(r.topic, r.partition, r.start, r.end) for r in written.ranges]
            world.say(lambda: f"{driver.name} writes batch {driver.batch + 1} {said}: {files}")
            if later:
                return
        _announce(world, driver)
    except FloeError as error:
        driver.die()
        _refused(world, driver.name, error)


def announce(world: World, picks: Picks) -> None:
    """A driver that slept announces what it wrote."""
    waiting = [driver for driver in world.drivers.values() if driver.written is not None]
    if not waiting:
        return
    driver = picks.of(waiting)
    try:
        _announce(world, driver)
    except FloeError as error:
        driver.die()
        _refused(world, driver.name, error)


def _refused(world: World, who: str, error: FloeError) -> None:
    world.say(lambda: f"{who}: {error.code} {error.message}")


def _announce(world: World, driver: drivers.Driver) -> None:
    world.announced(drivers.announce(driver, world.broker, world.lake))
    world.say(lambda: f"{driver.name} announces batch {driver.batch}")


def kill_driver(world: World, picks: Picks) -> None:
    driver = world.drivers[picks.of(tuple(PIPELINES))]
    driver.die()
    world.say(lambda: f"driver {driver.name} is killed")


def coordinate(world: World, picks: Picks) -> None:
    """A coordinator reads, and does some of what it has asked for."""
    coordinator = picks.of((*world.coordinators["one"], *world.coordinators["one"][:1], *world.coordinators["two"]))
    chance, most = picks.below(1 << 24), 1 + picks.below(4)

    def outcome() -> str:
        nonlocal chance
        chance, found = divmod(chance, 15)
        return outcome_of(found) if chance else "sound"

    with at_work(world, coordinator.machine):
        coordinator.read()
        coordinator.perform(world.lake, outcome, most)
    if coordinator.stopped is not None:
        stop = coordinator.stopped
        world.say(lambda: f"coordinator {coordinator.name} stops: {stop.code}")
    world.say(lambda: f"coordinator {coordinator.name} works; it waits for {len(coordinator.tasks)}")


def coordinate_all(world: World, picks: Picks) -> None:
    """The owner of a log works until nothing is left to do."""
    log = picks.of(("one", "one", "two"))
    shells.work_until_quiet(world, log)
    world.say(lambda: f"the coordinator of {log} works until nothing is left: {_heads(world)}")


def _heads(world: World) -> str:
    return ", ".join(f"{n} at {m.head.snapshot_id if m.head else None}" for n, m in world.catalog.tables.items())


def take_over(world: World, picks: Picks) -> None:
    """The partition of a control topic goes to a coordinator; who had it is not told, and goes on."""
    group = world.coordinators[picks.of(("one", "one", "two"))]
    coordinator = picks.of(group)
    with at_work(world, coordinator.machine):
        coordinator.assign()
    world.say(lambda: f"coordinator {coordinator.name} takes log {coordinator.log.name} over")


def late_request(world: World, picks: Picks) -> None:
    if world.lake.late:
        number = picks.below(len(world.lake.late))
        name = world.lake.late[number].effect.table
        world.lake.arrive(number)
        world.say(lambda: f"a request for {name} arrives late")


# ---- maintenance


def _who(world: World, picks: Picks) -> tuple[str, tuple[str, ...]]:
    return picks.of(("one", "other", "person")), picks.of((("one", "two"), ("one", "two"), ("one",), ("two",)))


def _known(world: World, logs: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name for log in logs for name in world.reported[log])


def maintain(world: World, picks: Picks) -> None:
    """`floe maintain '*'`, by a maintainer that reads some of the control topics."""
    machine, logs = _who(world, picks)
    world.oracle.work = Work(world.time.now_ms, _known(world, logs), True)
    _each_table(world, machine, f"floe maintain by {machine} with {logs}", lambda say: [
        (each.table, each.skipped or f"{each.expired} snapshots, {each.removed} files, {each.orphans} orphans")
        for each in maintenance.maintain({}, logs, world.lake, ["*"], False, say)  # type: ignore[arg-type]
    ])  # fmt: skip


def clean(world: World, picks: Picks) -> None:
    """`floe clean --delete`."""
    machine, logs = _who(world, picks)
    age_ms = picks.of((DAY_MS, DAY_MS, 3 * DAY_MS))
    world.oracle.work = Work(world.time.now_ms, _known(world, logs))
    _each_table(world, machine, f"floe clean by {machine} with {logs}", lambda say: [
        (each.table, each.skipped or f"{each.removed} orphans")
        for each in orphans.clean({}, logs, world.lake, [], age_ms, True, say)  # type: ignore[arg-type]
    ])  # fmt: skip


def _each_table(
    world: World, machine: str, text: str, do: Callable[[Callable[[str], None]], list[tuple[str, str]]]
) -> None:
    """All tables at once: a table in trouble keeps nobody from the others."""
    before = {name for name, each in world.catalog.tables.items() if world.lake.place_of(each).control_topic_ids}
    with at_work(world, world.machines[machine]):
        try:
            reports = do(lambda said: None)
        except FloeError as error:
            _refused(world, text, error)
            if before - world.lake.unloadable:
                raise Fault(f"{text}: {error.message}, and nothing was done to {sorted(before)}") from error
            return
        finally:
            world.oracle.work = None
    world.say(lambda: f"{text}: {reports}")
    if missing := (before & world.catalog.tables.keys()) - {name for name, _ in reports}:
        raise Fault(f"{text}: nothing is said of {sorted(missing)}")


def keeper_round(world: World, picks: Picks) -> None:
    """A round of the coordinator's own maintenance over one table, by what it knew of all tables up to an hour ago."""
    machine = picks.of(("one", "other"))
    logs = ("one",)
    name = picks.of(world.main_names())
    care = maintenance.TableCare(world.lake)  # type: ignore[arg-type]
    reported = {each: spec_of(world.policies[each]) for each in _known(world, logs)}
    now_ms = world.machines[machine].wall_ms
    view = world.views.get(machine)
    if view is None or not 0 <= now_ms - view[0] <= HOUR_MS:
        view = world.views[machine] = now_ms, world.lake.places()[0], shells.Announced(world, logs)
    _, places, announced = view
    world.oracle.work = Work(min(world.time.now_ms, world.time.now_ms - (now_ms - view[0])), _known(world, logs), True)
    with at_work(world, world.machines[machine]):
        try:
            table = care.look(name)
            if table is None:
                return
            policy = maintenance.policy_of(name, table.pipelines, reported)
            if policy is None or not policy.covers(True) or maintenance.why_left_alone(table, name, places):
                return
            care.compact(name, policy.compaction, False)
            for _ in range(4):
                went = maintenance.expire_once(name, care, policy, places, False)
                if went is None or not went.expiry.expired:
                    break
                care.remove(name, went.paths)
                expired = f"keeper {machine}: {went.expiry.expired} of {name} expire: {went.paths}"
                world.say(partial(str, expired))
                if went.is_last:
                    break
            clear = name in places and not orphans.why_not(name, places, announced.control_topic_ids)
            if policy.orphans.enabled and clear:
                age_ms = policy.orphans.older_than_ms
                orphans.look(name, world.lake, places[name], announced, age_ms, True, lambda text: None)  # type: ignore[arg-type]
        except FloeError as error:
            _refused(world, f"keeper {machine}: {name}", error)
        finally:
            world.oracle.work = None
    world.say(lambda: f"keeper {machine}: a round over {name}")


DO: dict[str, tuple[int, Callable[[World, Picks], None]]] = {
    "batch": (30, batch),
    "announce": (4, announce),
    "coordinate": (12, coordinate),
    "coordinate_all": (10, coordinate_all),
    "kill_driver": (2, kill_driver),
    "take_over": (2, take_over),
    "late_request": (2, late_request),
    "time_passes": (8, others.time_passes),
    "sleep": (1, others.sleep),
    "clock_jumps": (3, others.clock_jumps),
    "roll_back": (4, verbs.roll_back),
    "replay": (5, verbs.replay),
    "replay_named": (1, verbs.replay_named),
    "discard": (1, verbs.give_up_waiting),
    "set_offsets": (1, verbs.set_offsets),
    "rebase": (1, verbs.take_over),
    "maintain": (3, maintain),
    "clean": (2, clean),
    "keeper_round": (3, keeper_round),
    "tag": (2, others.tag),
    "untag": (2, others.untag),
    "branch": (1, others.branch),
    "other_commit": (2, others.other_commit),
    "delete_rows": (1, others.delete_rows),
    "add_again": (2, others.add_again),
    "move_branch": (1, others.move_branch),
    "expire_by_others": (2, others.expire_by_others),
    "orphans_by_others": (1, others.orphans_by_others),
    "register": (1, others.register),
    "rename": (1, others.rename),
    "share_files": (1, others.share_files),
    "keep_snapshots": (1, others.keep_snapshots),
    "unloadable": (1, others.unloadable),
    "topic_out": (1, others.topic_out),
    "topic_anew": (1, others.topic_anew),
    "control_anew": (1, others.control_anew),
    "retention": (1, others.retention),
}
_KINDS = tuple(DO)
_WEIGHTS = tuple(accumulate(weight for weight, _ in DO.values()))
# Between which steps of an act others may act.
_EXPIRY = ("rewritten", "manifests written", "expiry decided", "expiry decided", "snapshots expired", "file removed")
_ORPHANS = ("announcements read", "announcements read")
_COMMIT = ("files looked for", "table-recovered")
PLACES: dict[str, tuple[str, ...]] = {
    "maintain": _EXPIRY + _ORPHANS,
    "keeper_round": _EXPIRY + _ORPHANS,
    "clean": _ORPHANS,
    "roll_back": ("rollback decided", *_COMMIT),
    "replay": ("replay decided", "replay wrote", *_COMMIT),
    "replay_named": ("replay decided", "replay wrote", *_COMMIT),
    "discard": ("discard decided", "told"),
    "set_offsets": ("offsets decided",),
    "rebase": ("rebase decided", *_COMMIT),
}
_MEANWHILE = (
    "batch", "coordinate_all", "tag", "tag", "tag", "time_passes", "sleep", "sleep", "expire_by_others", "expire_by_others",
    "other_commit", "kill_driver", "delete_rows", "add_again", "keeper_round", "clean", "unloadable",
)  # fmt: skip


def draw(chance: random.Random, steps: int) -> list[Act]:
    """The acts of one history."""
    kinds = chance.choices(_KINDS, cum_weights=_WEIGHTS, k=steps)
    return [Act(kind, chance.getrandbits(BITS), _meanwhile(chance, PLACES.get(kind, ()))) for kind in kinds]


def _meanwhile(chance: random.Random, places: tuple[str, ...]) -> tuple[tuple[str, Act], ...]:
    if not places or chance.random() < 0.4:
        return ()
    count = chance.choice((1, 1, 2, 3))
    return tuple(
        (chance.choice(places), Act(chance.choice(_MEANWHILE), chance.getrandbits(BITS))) for _ in range(count)
    )


def perform(world: World, act: Act) -> None:
    """One act; what it leaves of the others inside it does not happen."""
    if world.depth == 0:
        world.inside = list(act.inside)
    try:
        DO[act.kind][1](world, Picks(act.number))
    finally:
        if world.depth == 0:
            world.inside = []
