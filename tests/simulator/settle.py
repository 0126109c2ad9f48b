"""The end of a history: trouble is over, people settle what is left, and every record must be where it belongs.

In: a `World` after its acts. Out: nothing, or a `Fault`. What floe refuses to do for good must be for a reason that a
person can see, such as a topic that is no more.
"""

from __future__ import annotations

from framework.commit.events.event_types import CommitComplete, CommitToTable, DataWritten
from framework.commit.machine.progress.recorded import MISSING_PROPERTY, PROGRESS_PROPERTY, parse
from framework.commit.offsets import decode_metadata
from framework.commit.recovery.missing import gaps_of
from framework.commit.recovery.settle_offsets import OffsetsOrigin
from framework.errors import FloeError
from tests.simulator import drivers, others, shells, verbs
from tests.simulator.drivers import ROUTED
from tests.simulator.invariants import Fault
from tests.simulator.ports import MINUTE_MS
from tests.simulator.world import PIPELINES, TABLES, World

ROUNDS = 4


def settle_everything(world: World) -> None:
    """Mend what is broken outside of floe, let floe work, settle, and look."""
    world.lake.late.clear()
    for machine in world.machines.values():
        machine.ahead_ms = 0
    world.is_ending = True
    world.say(lambda: "the end: all clocks are right, coordinators begin anew")
    _coordinate(world)
    _alone(world)
    world.lake.unloadable.clear()
    for name in TABLES:
        if name not in world.catalog.tables:
            world.catalog.tables[name] = world.catalog.tables.pop(f"{name}_renamed")
    world.catalog.versions += 1
    number, left = 0, _listed(world)
    while number < ROUNDS or _listed(world) < left:  # a gap in each round, where a table's interval is not over
        number, left = number + 1, _listed(world)
        _settle(world)
    world.oracle.check()
    for name in world.logs:
        _reported(world, name)
    for name in TABLES:
        if not world.oracle.truth(world.catalog.tables[name].uuid).unsettled:
            world.oracle.whole(name, _never(world, name))


def _coordinate(world: World) -> None:
    for name, group in world.coordinators.items():
        world.time.now_ms += 10 * MINUTE_MS
        group[0].assign()
        for _ in range(4):
            world.time.now_ms += 10 * MINUTE_MS
            shells.work_until_quiet(world, name)


def _alone(world: World) -> None:
    """A table that nothing is wrong with holds what was announced for it, whatever is wrong with others."""
    for name, group in world.coordinators.items():
        state = group[0].state
        for table in state.tables.values():
            loaded = world.catalog.tables.get(table.table)
            is_fine = loaded is not None and table.table not in world.lake.unloadable and table.blocked is None
            first = table.pending.first
            if not is_fine or first is None or group[0].stopped is not None:
                continue
            pipeline = state.pipelines.get(first.event.pipeline)
            if pipeline is not None and pipeline.broken is None and first.offset < pipeline.confirmed_below:
                raise Fault(
                    f"{table.table}: it waits for nothing, and log {name} has {len(table.pending)} announcements for it"
                )


def _reported(world: World, name: str) -> None:
    """Whoever reads the log alone sees that an announcement is in its table, once the mark has passed it."""
    log = world.logs[name]
    reported = max(
        (e.low_water for _, entry in log.since(0) if isinstance(e := entry.event, CommitComplete)), default=0
    )
    by_table: dict[str, int] = {}
    for _, entry in log.since(0):
        if isinstance(event := entry.event, CommitToTable):
            by_table[event.table_uuid] = max(event.control_offset, by_table.get(event.table_uuid, 0))
    for loaded in world.catalog.tables.values():
        progress = parse(loaded.properties.get(PROGRESS_PROPERTY), log.topic_id)
        passed = min(progress.control_offset if progress is not None else 0, log.low_water or 0)
        for offset, entry in log.since(0):
            event = entry.event
            if not isinstance(event, DataWritten) or event.table_uuid != loaded.uuid:
                continue
            if max(reported, by_table.get(loaded.uuid, 0)) <= offset < passed:
                raise Fault(f"{event.table}: it holds announcement {offset} of log {name}, and the log never says so")


def _settle(world: World) -> None:
    if "more-a" not in world.drivers["a"].topics:  # what lies in it may be wanted again
        world.drivers["a"].topics.append("more-a")
    for name in PIPELINES:
        if name in world.unrebased and not _rebased(world, name):
            others.delete_replayed(world, name)  # what a replay brought beyond the pipeline's record, as FLOE-R359 says
            _rebased(world, name)
    _coordinate(world)
    _rebase_blocked(world)
    for name in TABLES:
        for log in ("one", "two"):
            head = world.catalog.tables[name].head
            if head is not None and world.is_behind(name, log):
                done = verbs.roll_back_to(world, name, head.snapshot_id, True, log)
                done = done or verbs.roll_back_to(world, name, head.snapshot_id, False, log)
            verbs.discard_of(world, name, log)
    for name, driver in world.drivers.items():
        driver.die()
        _catch_up(world, name)
    _coordinate(world)
    for name, (tables, log) in PIPELINES.items():
        for table in tables:
            if not verbs.replay_noted(world, name, table, [STEP], []):
                head = world.catalog.tables[table].head
                if head is not None:  # the list is not in line with what the table holds
                    verbs.roll_back_to(world, table, head.snapshot_id, True, log)
    _coordinate(world)


def _rebase_blocked(world: World) -> None:
    """A person types what a blocked table names."""
    for group in world.coordinators.values():
        for table in group[0].state.tables.values():
            first = table.pending.first
            if table.blocked and "`floe rebase FILE`" in table.blocked and first and first.event.pipeline in PIPELINES:
                _rebased(world, first.event.pipeline)


def _rebased(world: World, name: str) -> bool:
    return verbs.rebase_pipeline(world, name, False) or verbs.rebase_pipeline(world, name, True)


def _listed(world: World) -> int:
    """How many gaps there are on the tables' own lists."""
    return sum(len(gaps_of(world.catalog.tables[name].properties.get(MISSING_PROPERTY))) for name in TABLES)


STEP = 1_000


def _catch_up(world: World, name: str) -> None:
    """A driver reads everything that its topics hold."""
    driver = world.drivers[name]
    world.lake.machine = driver.machine
    for attempt in range(3):
        try:
            drivers.begin(driver, world.broker, world.lake)
            world.reported[driver.log.name].add(name)
            for _ in range(40):
                facts = driver.facts(world.broker)
                counts = [max(0, facts[key].log_end - driver.positions.get(key, 0)) for key in sorted(facts)]
                if not any(counts) or drivers.write(driver, world.broker, world.lake, world.positions, counts) is None:
                    return
                world.announced(drivers.announce(driver, world.broker, world.lake))
        except FloeError as error:
            driver.die()
            said = f"{name}: {error.code} {error.message}"
            if said not in world.refused:
                world.refused.add(said)
                world.say(lambda: said)  # noqa: B023
            # A late request of the former control topic's was made after all, or a rebase was refused on its way.
            if error.code in ("FLOE-R319", "FLOE-R320"):
                verbs.rebase_pipeline(world, name, False) or verbs.rebase_pipeline(world, name, True)
            elif (
                attempt == 0 and not verbs.settle_offsets(world, name, OffsetsOrigin.LOG, {}, True, False)
            ) or attempt == 1:
                _begin_in_new_topics(world, name)


def _begin_in_new_topics(world: World, name: str) -> None:
    """A person says where to begin in topics that were made anew, and agrees to what that loses or repeats."""
    known = {
        key[0]: decode_metadata(value.offset, value.metadata, "") for key, value in world.broker.groups[name].items()
    }
    facts = world.drivers[name].facts(world.broker)
    begins = {
        key: fact.log_start
        for key, fact in facts.items()
        if key[0] in known and known[key[0]].topic_id != fact.topic_id
    }
    verbs.settle_given(world, name, begins, True)


def _never(world: World, table: str) -> int:
    """What is on the table's list and cannot be read again: its topic is no more, its replay began in a control topic
    that is no more, or the table holds some of it."""
    found = 0
    gaps = gaps_of(world.catalog.tables[table].properties.get(MISSING_PROPERTY))
    topics = {topic.topic_id for topic in world.broker.topics.values()}
    # The run of a gap whose log is no more does not begin, and the gaps behind it wait for it.
    stopped = {gap.pipeline for gap in gaps if gap.replay_pipeline in world.stranded}
    for gap in gaps:
        head = world.catalog.tables[table].head
        held = 0 if head is None else head.rows & world.gap_rows(gap, table, True)
        if gap.pipeline in stopped or held or any(r.topic_id not in topics for r in gap.ranges):
            found |= world.gap_rows(gap, table, False) & ROUTED[table]
    return found
