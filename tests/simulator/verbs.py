"""What people do to recover: floe's verbs, and what the oracle is to expect of each.

In: a `World` and the act's own numbers. Out: the verb, done, refused or killed on its way. After each the oracle knows
which records were given up by name, which were wanted again, and which may be there twice by consent.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from framework.commit.events.event_types import SourceRange
from framework.commit.offsets import PartitionKey
from framework.commit.recovery.rebase import RebaseChoice, RebaseFacts
from framework.commit.recovery.settle_offsets import OffsetsOrigin, PipelineOffsets, Settlement, settle
from framework.errors import FencedError, FloeError
from framework.recovery import discard, rebase, rollback, source_offsets, table_replay
from framework.recovery.discard import ControlPlace
from framework.recovery.recover_table import untold
from framework.recovery.source_offsets import Where
from framework.recovery.table_replay import ReplayRequest
from tests.simulator.catalog import MAIN, Metadata, Snapshot
from tests.simulator.drivers import ROUTED
from tests.simulator.picks import Picks
from tests.simulator.shells import PREFIX, Killed
from tests.simulator.world import PIPELINES, World, at_work

UPSERTS: Any = SimpleNamespace(policy_for=lambda table: SimpleNamespace(write=SimpleNamespace(is_upsert=False)))


NOTHING = "nothing to do"


class PlanStub:
    """As much of a plan as recovery asks for; `kills` counts batches until a replay is killed, `counts` sizes them."""

    def __init__(self, world: World, pipeline: str, counts: list[int], kills: list[int]) -> None:
        log = world.drivers[pipeline].log
        self.pipeline = pipeline
        self.announce = SimpleNamespace(control_topic=log.name)
        self.commit = SimpleNamespace(coordinator_group="")
        self.write = SimpleNamespace(dead_letter_table=None, tables=UPSERTS)
        self._counts, self._kills = counts, kills

    def of(self, gap: object, tables: tuple[str, ...]) -> SimpleNamespace:
        return SimpleNamespace(gap=gap, tables=tables, counts=self._counts, kills=self._kills)


def recovery_at(world: World, pipeline: str, counts: list[int], kills: list[int]) -> Any:
    plan = PlanStub(world, pipeline, counts, kills)
    return SimpleNamespace(
        plan=plan, prefix=PREFIX, kafka={}, catalog=world.lake, say=lambda text: None, reported=untold,
        exclusive=lambda doing: rebase.exclusive({}, PREFIX, pipeline, plan.announce.control_topic, doing),
        where=Where(pipeline, PREFIX, {}, plan.announce.control_topic),
    )  # fmt: skip


def attempted(world: World, text: str, do: Callable[[], str]) -> bool:
    """Do it, by the clock of the person's machine; whether it was done."""
    with at_work(world, world.machines["person"]):
        try:
            said = do()
        except FloeError as error:
            said = f"{text}: refused, {error.code} {error.message}"
            if said not in world.refused:
                world.say(lambda: said)
            if world.is_ending:
                world.refused.add(said)
            return False
        except Killed:
            world.say(lambda: f"{text}: killed")
            return False
        if said != NOTHING or not world.is_ending:
            world.say(lambda: f"{text}: {said}")
        return True


# ---- rollback


def roll_back(world: World, picks: Picks) -> None:
    """`floe rollback --to SNAPSHOT --replay` or `--skip`, once or twice."""
    table = picks.of(world.main_names())
    metadata = world.catalog.tables.get(table)
    if metadata is None or metadata.head is None:
        return
    line = metadata.line(metadata.head.snapshot_id)
    target = line[min(picks.below(6), len(line) - 1)]
    replay, twice = picks.below(2) == 0, picks.below(4) == 0
    for _ in range(1 + twice):
        roll_back_to(world, table, target.snapshot_id, replay, world.log_of_table(table, picks))


def roll_back_to(world: World, table: str, target: int, replay: bool, log: str) -> bool:
    at = ControlPlace(PREFIX, {}, log, world.lake)  # type: ignore[arg-type]

    def do() -> str:
        plan = rollback.decide_rollback(at, table, target, False, replay)
        if plan.settled:
            return NOTHING
        world.reach("rollback decided")
        before = world.catalog.tables[table]

        def reported(verb: str, effect: object, outcome: object) -> None:
            rolled_back(world, before, world.catalog.tables[table], target, replay, log)

        rollback.perform_rollback(at, plan, reported=reported)
        return f"gaps {[(g.gap_id, g.pipeline, [(r.partition, r.start, r.end) for r in g.ranges]) for g in plan.gaps]}"

    how = "--replay" if replay else "--skip"
    return attempted(world, f"floe rollback --table {table} --to {target} {how}", do)


def settle_roll_back(world: World, table: str, to: int, replay: bool, log: str) -> bool:
    """Once more with `--skip`, as a refusal of `--replay` says; whether one of them was done."""
    return roll_back_to(world, table, to, replay, log) or (replay and roll_back_to(world, table, to, False, log))


def rolled_back(world: World, before: Metadata, after: Metadata, target: int, replay: bool, log: str) -> None:
    """What the oracle expects from here on. A verb settles what came by its own control topic; what came by another
    waits until it is settled there."""
    truth = world.oracle.truth(after.uuid)
    snapshot = after.snapshots.get(target) or before.snapshots[target]
    line = set(world.oracle.line(after.uuid, target))
    lost_line = world.had_line(before) - line
    had = truth.had if truth.unsettled else (before.head.rows if before.head else 0)
    own = sum(world.positions.all_of(name) for name, (_, theirs) in PIPELINES.items() if theirs == log)
    lost, others = had & ~snapshot.rows & own, had & ~snapshot.rows & ~own
    truth.given_up &= ~snapshot.rows
    if replay:
        wanted = 0
        for each in lost_line:
            wanted |= truth.added.get(each, 0) & own
        wanted &= ~snapshot.rows
        # Rows that others added are in no announcement, which the plan says; all else comes back.
        truth.given_up = (truth.given_up | lost) & ~wanted
    else:
        # What the verb took off the table's list goes with it: nobody could tell which of it the table holds.
        struck = world.lacking(before) & ~world.lacking(after) & truth.announced & ~snapshot.rows & ~truth.under_way
        truth.given_up |= lost | struck
    if not replay:  # the plan names all that goes, and what came by the other log may still be wanted there
        truth.either |= others
        for each in lost_line:
            truth.either |= truth.added.get(each, 0) & ~own & ~snapshot.rows
        others = 0
    # What the list named before, although others had brought it back, stays on it where the log does not tell of it.
    truth.either |= had & ~snapshot.rows & (world.lacking(before) | truth.under_way)
    # What came by the other log is brought in line by the verb with that log: until then a replay may bring it again, also
    # where others delete it meanwhile.
    truth.either |= snapshot.rows & world.lacking(after) & ~own
    if not truth.unsettled:
        truth.had_heads = []
    if before.head is not None:
        truth.had_heads.append(before.head.snapshot_id)
    # Also where no row of another log's went: its verb still sees the branch behind, and reads again all that it added to
    # the line which was left, also what others had deleted there, as after a move that one log alone has to settle.
    still = replay and any(world.is_behind_of(after, other) for other in world.logs if other != log)
    truth.had, truth.unsettled = snapshot.rows | others, bool(others) or still


# ---- replay


def replay(world: World, picks: Picks) -> None:
    """`floe replay FILE --table TABLE`: everything that is on the table's list of this pipeline; perhaps killed."""
    pipeline = picks.of(tuple(PIPELINES))
    table = picks.of(PIPELINES[pipeline][0])
    counts = [1 + picks.below(4), 1 + picks.below(4)]
    kills = [picks.below(3)] if picks.below(2) == 0 else []
    replay_noted(world, pipeline, table, counts, kills)


def replay_noted(world: World, pipeline: str, table: str, counts: list[int], kills: list[int]) -> bool:
    at = recovery_at(world, pipeline, counts, kills)

    def do() -> str:
        plan = table_replay.decide_replay(at, table, None)
        if plan.settled:
            return NOTHING
        world.reach("replay decided")
        table_replay.perform_replay(at, None, plan, lambda text: None)  # type: ignore[arg-type]
        return f"filled {[gap.gap_id for gap in plan.gaps]}"

    return attempted(world, f"floe replay {pipeline} --table {table}", do)


def replay_named(world: World, picks: Picks) -> None:
    """`floe replay FILE --table TABLE --from --to`: records that a person names."""
    pipeline = picks.of(tuple(PIPELINES))
    table = picks.of(PIPELINES[pipeline][0])
    driver = world.drivers[pipeline]
    key = picks.of(tuple(sorted(driver.facts(world.broker))))
    topic = world.broker.topics[key[0]]
    end = topic.ends[key[1]]
    start = picks.below(end + 1)
    stop = min(end, start + 1 + picks.below(6))
    number, allow = picks.below(1 << 16), picks.below(4) == 0
    at = recovery_at(world, pipeline, [1 + picks.below(4)], [picks.below(2)] if picks.below(4) == 0 else [])
    named = ReplayRequest({key: start}, {key: stop}, f"n{number:x}", allow)
    metadata = world.catalog.tables.get(table)
    if metadata is None:
        return
    truth = world.oracle.truth(metadata.uuid)
    rows = world.positions.rows(pipeline, (SourceRange(key[0], topic.topic_id, key[1], start, stop),)) & ROUTED[table]
    given_up, there = truth.given_up, 0
    if pipeline in world.unrebased:
        return

    def do() -> str:
        nonlocal given_up, there
        plan = table_replay.decide_replay(at, table, named)
        world.reach("replay decided")
        given_up = truth.given_up  # others may have deleted rows by now
        seen = world.metadata_of(world.table_of(table)).head
        there = seen.rows if seen is not None else 0
        if allow:
            truth.consented |= rows
        truth.given_up &= ~rows
        table_replay.perform_replay(at, None, plan, lambda text: None)  # type: ignore[arg-type]
        return "done"

    attempted(world, f"floe replay {pipeline} --table {table} --from {key}={start} --to {stop} {allow}", do)
    now = world.catalog.tables.get(table)
    if now is not None:  # what did not come onto the list is as it was
        came = now.head.rows & ~there if now.head is not None else 0
        truth.given_up |= rows & given_up & ~(came | world.lacking(now) | truth.under_way)


# ---- discard


def give_up_waiting(world: World, picks: Picks) -> None:
    """`floe discard --table TABLE`."""
    table = picks.of(world.main_names())
    discard_of(world, table, world.log_of_table(table, picks))


def discard_of(world: World, table: str, log: str) -> None:
    at = ControlPlace(PREFIX, {}, log, world.lake)  # type: ignore[arg-type]

    def do() -> str:
        plan = discard.decide_discard(at, table)
        if plan.settled:
            return NOTHING
        world.reach("discard decided")
        first_of = world.logs[log].end
        discard.perform_discard(at, plan)
        for offset, entry in world.logs[log].since(plan.first, min(plan.below, first_of)):
            world.discarded(offset, entry.event, plan.table_uuids)
        return f"{plan.announcements} announcements, {plan.reason}"

    attempted(world, f"floe discard --table {table}", do)


# ---- offsets


def set_offsets(world: World, picks: Picks) -> None:
    """`floe offsets set`: from the log, from the tables, or a partition moved by hand; with consent or without."""
    pipeline = picks.of(tuple(PIPELINES))
    if pipeline in world.unrebased:
        return  # whose control topic was made anew is taken over by `floe rebase`
    driver = world.drivers[pipeline]
    origin = picks.of((OffsetsOrigin.LOG, OffsetsOrigin.TABLES, OffsetsOrigin.GIVEN, OffsetsOrigin.GIVEN))
    given: dict[PartitionKey, int] = {}
    if origin is OffsetsOrigin.GIVEN:
        key = picks.of(tuple(sorted(driver.facts(world.broker))))
        given = {key: max(0, driver.positions.get(key, 0) + picks.below(9) - 4)}
    settle_offsets(world, pipeline, origin, given, picks.below(2) == 0, picks.below(2) == 0)


def settle_offsets(
    world: World, pipeline: str, origin: OffsetsOrigin, given: dict[PartitionKey, int], loss: bool, twice: bool
) -> bool:
    if any(name not in world.catalog.tables for name in PIPELINES[pipeline][0]):
        return False  # what a table holds that is not there by its name is in no place that could be asked
    driver = world.drivers[pipeline]
    where = Where(pipeline, PREFIX, {}, driver.log.name, tuple(driver.topics), driver.tables)

    def decide(places: PipelineOffsets) -> Settlement:
        return settle(places, origin, given, loss, twice)

    def do() -> str:
        expected = decide(source_offsets.read_places(where, world.lake))  # type: ignore[arg-type]
        world.reach("offsets decided")
        source_offsets.perform(where, world.lake, decide, expected, "floe offsets set")  # type: ignore[arg-type]
        consents(world, pipeline, expected)
        return f"{[(m.topic, m.partition, m.before, m.after) for m in expected.moves]}"

    text = f"floe offsets set {pipeline} {origin.value} {given} loss={loss} twice={twice}"
    return attempted(world, text, do)


def settle_given(world: World, pipeline: str, given: dict[PartitionKey, int], twice: bool) -> bool:
    """Offsets that a person gives, with consent to what that loses. Where floe does not know where the others stay, a
    person names them, too, as FLOE-R347 says: each where its group is. The command wants at least one to be named."""
    if not given:
        return False
    if settle_offsets(world, pipeline, OffsetsOrigin.GIVEN, given, True, twice):
        return True
    there = {key: each.offset for key, each in world.broker.groups.get(pipeline, {}).items()}
    facts = world.drivers[pipeline].facts(world.broker)
    every = {**{key: at for key, at in there.items() if key in facts and at <= facts[key].log_end}, **given}
    return every != given and settle_offsets(world, pipeline, OffsetsOrigin.GIVEN, every, True, twice)


def consents(world: World, pipeline: str, made: Settlement) -> None:
    """What a person has agreed to by name: records that are read again, and records that are never read."""
    if made.repeated:
        world.moved_back.add(pipeline)
    lost = 0
    for move in made.moves:
        again = SourceRange(move.topic, move.topic_id, move.partition, move.after, move.after + move.repeated)
        rows = world.positions.rows(pipeline, (again,))
        for table in PIPELINES[pipeline][0]:
            truth = world.truth_of(table)
            truth.consented |= rows & ROUTED[table]
            truth.given_up &= ~rows
        skipped = SourceRange(move.topic, move.topic_id, move.partition, move.after - move.lost, move.after)
        lost |= world.positions.rows(pipeline, (skipped,))
    world.are_read_again(pipeline, {(m.topic, m.partition): (m.topic_id, m.after) for m in made.moves})
    left = {(*name.rpartition(":")[::2],) for name in made.forgotten}
    partitions = {(topic, int(number)) for topic, number in left} | {(r.topic, r.partition) for r in made.given_up}
    lost |= world.positions.of_partitions(pipeline, partitions)
    for topic in made.recreated:
        lost |= world.positions.of_former(pipeline, topic, world.broker.topics[topic].topic_id)
    world.are_lost(pipeline, lost)


# ---- rebase


def take_over(world: World, picks: Picks) -> None:
    """`floe rebase FILE`."""
    rebase_pipeline(world, picks.of(tuple(PIPELINES)), picks.below(3) == 0)


def rebase_pipeline(world: World, pipeline: str, from_start: bool, begin: bool = False) -> bool:
    """`begin`: with `--begin-at earliest`, where the topics hold other records."""
    if any(name not in world.catalog.tables for name in PIPELINES[pipeline][0]):
        return False  # what was announced for a table that is not there is in no place that could be asked
    at = recovery_at(world, pipeline, [3], [])
    complete = tuple(name for name in PIPELINES[pipeline][0] if not world.was_announced(pipeline, name))

    def choice(facts: RebaseFacts) -> RebaseChoice:
        begin_at = {key: fact.log_start for key, fact in facts.partitions.items()} if begin else None
        return RebaseChoice(begin=begin_at, complete=complete, from_log_start=from_start)

    def do() -> str:
        expected = rebase.decide_rebase(at, choice, True)
        if expected.settled:
            world.unrebased.discard(pipeline)
            return NOTHING
        world.reach("rebase decided")
        changed: list[object] = []
        at.reported = lambda *what: changed.append(what)
        try:
            rebase.perform_rebase(at, choice, expected, "floe rebase")
        except FloeError as error:
            if changed or isinstance(error, FencedError):  # some tables are, so the command is to be run again
                world.unrebased.add(pipeline)
            raise
        world.unrebased.discard(pipeline)
        world.are_read_again(pipeline, {(p.topic, p.partition): (p.topic_id, p.after) for p in expected.partitions})
        again = [SourceRange(p.topic, p.topic_id, p.partition, p.after, p.log_end) for p in expected.partitions]
        for table in PIPELINES[pipeline][0]:  # what was given up by offsets or by discarding is written nowhere else
            truth = world.truth_of(table)
            truth.either |= truth.given_up & world.positions.rows(pipeline, again)
        world.drivers[pipeline].die()
        return f"{[(p.topic, p.partition, p.after) for p in expected.partitions]}"

    return attempted(world, f"floe rebase {pipeline} {'--from-log-start' if from_start else ''}", do)


__all__ = ["MAIN", "Metadata", "Snapshot"]
