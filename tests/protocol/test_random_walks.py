"""Long random histories, many of them: the rules of `test_histories` in an order drawn from a seed, weighted so that
most of what happens is work and some of it is trouble.

`FLOE_HISTORIES` sets their number; a failure names its seed and what happened, and runs again by that seed alone.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

from framework.commit.events.event_types import CommitComplete, Discarded
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    CommitTable,
    Effect,
    Input,
    Read,
    ReadAgain,
    StopCoordinator,
)
from framework.commit.machine.step import CoordinatorState
from tests.protocol import world as w
from tests.protocol.test_histories import Protocol

HISTORIES = int(os.environ.get("FLOE_HISTORIES", "400"))
STEPS = 60

TABLES = ["db.t", "db.u", "db.k"]
RULES: list[tuple[int, str, dict[str, list[object]]]] = [
    (12, "announce_a_batch", {"which": [0, 1, 2]}),
    (10, "announce", {"which": [0, 1, 2], "count": [1, 2, 3]}),
    (12, "the_owner_works", {"mended": [True, False]}),
    (6, "works_for_a_while", {"coordinator": [0, 1, 2], "all_done": [True, False]}),
    (8, "reads", {"coordinator": [0, 1, 2], "count": [1, 2, 3, 8]}),
    (6, "ticks", {"coordinator": [0, 1, 2]}),
    (
        8,
        "performs",
        {"coordinator": [0, 1, 2], "number": [0, 1, 2], "outcome": ["sound", "sound", "lost", "failed", "late"]},
    ),
    (3, "a_late_request_arrives", {"number": [0, 1, 2]}),
    (3, "commit_is_requested", {"pipeline": ["", "a", "b"], "patience": [0, 10, 5_000]}),
    (
        3,
        "trouble_in_a_pipeline",
        {
            "which": [0, 1, 2],
            "kind": ["dies", "dies", "repeat", "break", "break", "settled"],
            "table": TABLES,
            "pick": [0, 1, 2, 3, 4, 5],
        },
    ),
    (
        5,
        "trouble_with_coordinators",
        {"coordinator": [0, 1, 2], "kind": ["takes over", "takes over", "dies", "reads again"], "back": [1, 2, 3, 4]},
    ),
    (2, "commits_are_paused", {"table": TABLES, "paused": [True, False]}),
    (4, "clock_moves", {"change": [1, 1_000, 60_000, 700_000, -50_000]}),
    (
        9,
        "somebody_touches_a_table",
        {
            "table": TABLES,
            "kind": ["commit"] * 8
            + ["expire"] * 4
            + ["schema"] * 2
            + ["rollback"] * 4
            + ["gone"] * 2
            + ["replaced", "elsewhere", "put back", "put back", "unset"]
            + ["discard"] * 3
            + ["discard first"] * 3,
            "pick": [0, 1, 2, 3, 4],
        },
    ),
    (
        4,
        "trouble_with_the_log",
        {
            "kind": ["below"] * 6
            + ["links"]
            + ["announcements"] * 3
            + ["position"] * 2
            + ["cut off"] * 3
            + ["leader"] * 5,
            "back": [1, 2, 3, 4, 6],
        },
    ),
    (
        4,
        "trouble_with_topics",
        {
            "which": [0, 1, 2],
            "kind": ["given up", "given up", "back", "back", "from its start", "anew", "grows", "grows"],
        },
    ),
    (
        6,
        "commits_meet_trouble",
        {"outcome": ["lost", "lost", "failed", "late", "late", "dies"], "others": [True, False]},
    ),
    (3, "a_person_mends", {"move": [0, 0, -10, 5, -5, 20]}),
]


class Walking(Protocol):
    """The same three pipelines, three coordinators and two tables, with what rarely meets by chance brought
    together."""

    def commits_meet_trouble(self, outcome: str, others: bool) -> None:
        """The owner decides commits, and none of them ends well; perhaps somebody else commits just before."""
        if (owner := self.world.owner) is None:
            return
        self.works_for_a_while(owner, all_done=False)
        if outcome == "dies":
            self.world = w.crash(self.world, owner)
            return
        while (coordinator := self.world.coordinators[owner]) is not None:
            number = next((n for n, task in enumerate(coordinator.tasks) if isinstance(task, CommitTable)), None)
            if number is None:
                return
            if others:
                self.world = w.foreign_commit(self.world, coordinator.tasks[number].table)
            self.world = w.perform(self.world, owner, number, outcome, self.step)

    def a_person_mends(self, move: int) -> None:
        """Whoever reads that a chain is broken settles it, and gives up what a lost table can never take."""
        for worker in self.world.workers:
            known = [
                coordinator.state.pipelines.get(worker.pipeline)
                for coordinator in self.world.coordinators
                if coordinator is not None
            ]
            if any(pipeline is not None and pipeline.broken for pipeline in known) and not self.cut:
                self.world = w.settle_offsets(self.world, worker, move)
        for table in self.world.tables:
            self.world = w.discard_waiting(self.world, table.name)


class Watched:
    """A `step` that keeps what coordinators were told and asked for, and what that did to what they know."""

    def __init__(self, step: w.Step, seen: set[str]) -> None:
        self._step = step
        self._seen = seen
        self.reported: list[Input] = []

    def __call__(
        self, state: CoordinatorState, message: Input, now: int
    ) -> tuple[CoordinatorState, tuple[Effect, ...]]:
        after, effects = self._step(state, message, now)
        self.reported.append(message)
        pipelines = [(pipeline, state.pipelines.get(name)) for name, pipeline in after.pipelines.items()]
        tables = [(table, state.tables.get(name)) for name, table in after.tables.items()]
        repeats = [new.repeats > (old.repeats if old else 0) for new, old in (*pipelines, *tables)]
        blocked = [table.blocked for table, old in tables if table.blocked and not (old and old.blocked)]
        asked = [effect for effect in effects if isinstance(effect, CommitTable)]
        seen = {
            "a record is read twice": isinstance(message, Read) and message.offset < state.position,
            "a repeat is dropped": any(repeats),
            "a chain breaks": any(new.broken and not (old and old.broken) for new, old in pipelines),
            "a chain is settled": any(old and old.broken and not new.broken for new, old in pipelines),
            "commits are held": bool(after.pauses) and any(table.pending_files for table, _ in tables),
            "a table is gone": any("missing" in reason for reason in blocked),
            "a table was replaced": any("replaced" in reason for reason in blocked),
            "a table was rolled back": any("rolled back" in reason for reason in blocked),
            "a table was filled by another topic": any("control topic" in reason for reason in blocked),
            "what waits is not kept": any(table.unread for table, _ in tables),
            "the log is read again": any(isinstance(effect, ReadAgain) for effect in effects),
            "a coordinator stops": any(isinstance(effect, StopCoordinator) for effect in effects),
            "rows change by their keys": any(c.keyed for c in asked),
            "rows only go": any(c.keyed and not c.files for c in asked),
            "pipelines share a commit": any(len({file.path.split("-")[0] for file in c.files}) > 1 for c in asked),
        }
        self._seen |= {name for name, happened in seen.items() if happened}
        return after, effects


def took_effect(before: w.World, after: w.World, reported: list[Input]) -> set[str]:
    """What one step of a history did to the world, whatever the step was called."""
    moved = list(zip(before.tables, after.tables, strict=True))
    same = [(old, new) for old, new in moved if old.uuid == new.uuid]
    ours = [
        new for old, new in same if len(new.snapshots) > len(old.snapshots) and new.at(new.head or 0).marker is not None
    ]
    unanswered = any(isinstance(each, CommitFailed) for each in reported)
    new_events = [entry.event for entry in after.log[len(before.log) :]]
    died = [new is None for old, new in zip(before.coordinators, after.coordinators, strict=True) if old is not None]
    seen = {
        "a commit is made": bool(ours),
        "another takes over beside the old one": after.term > before.term
        and before.owner not in (None, after.owner)
        and after.coordinators[before.owner or 0] is not None,
        "a coordinator dies with a commit under way": any(died) and len(after.orphans) > len(before.orphans),
        "an answer is lost": unanswered and bool(ours),
        "a commit fails": unanswered and not ours and len(after.orphans) == len(before.orphans),
        "a commit is late": unanswered and len(after.orphans) > len(before.orphans),
        "a late commit is applied": len(after.orphans) < len(before.orphans) and bool(ours),
        "a late commit is refused": len(after.orphans) < len(before.orphans) and not ours,
        "a commit meets a conflict": any(isinstance(each, CommitConflict) for each in reported),
        "a driver dies in its transaction": sum(e.committed is False for e in after.log)
        > sum(e.committed is False for e in before.log),
        "somebody else commits": any(
            len(new.snapshots) > len(old.snapshots) and new.at(new.head or 0).marker is None for old, new in same
        ),
        "snapshots expire": any(new.expired > old.expired for old, new in same),
        "a schema changes": any(new.schema_id != old.schema_id for old, new in same),
        "a rollback takes rows out": any(new.removed > old.removed for old, new in same),
        "a table is replaced": any(new.uuid != old.uuid for old, new in moved),
        "retention moves the log's start": after.log_start > before.log_start,
        "the stored position is lost": before.low_water is not None and after.low_water is None,
        "what waits is given up": any(isinstance(event, Discarded) for event in new_events),
        "a request is answered": any(isinstance(event, CommitComplete) and event.request_id for event in new_events),
        "the clock goes back": after.now_ms < before.now_ms,
    }
    return {name for name, happened in seen.items() if happened}


def walk(seed: int, seen: set[str] | None = None) -> tuple[list[str], list[w.Fault], w.World]:
    """One history: what happened, the faults seen (none), and the world before it was drained. `seen` is filled with
    what took effect."""
    chance = random.Random(seed)
    protocol = Walking()
    watched = Watched(protocol.step, seen if seen is not None else set())
    if seen is not None:
        protocol.step = watched
    names = [name for _, name, _ in RULES]
    weights = [weight for weight, _, _ in RULES]
    choices = {name: arguments for _, name, arguments in RULES}
    happened: list[str] = []
    for name in chance.choices(names, weights, k=STEPS):
        if name == "a_late_request_arrives" and not protocol.world.orphans:
            continue
        arguments = {key: chance.choice(values) for key, values in choices[name].items()}
        happened.append(f"{name}({arguments})")
        before = protocol.world
        getattr(protocol, name)(**arguments)
        if seen is not None:
            seen |= took_effect(before, protocol.world, watched.reported)
            watched.reported.clear()
        if found := w.faults(protocol.world):
            return happened, found, protocol.world
    for table in protocol.world.tables:
        protocol.world = protocol.world.with_table(w.replace(table, exists=True))
    _, found = w.drain(protocol.world, protocol.step)
    return happened, found, protocol.world


CHUNK = 100


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(0, HISTORIES, CHUNK))
def test_no_history_has_a_fault(first: int) -> None:
    """Nothing lost, nothing twice, progress never back, low-water mark sound, whatever happened in whatever order."""
    for seed in range(first, min(first + CHUNK, HISTORIES)):
        happened, found, _ = walk(seed)
        assert found == [], f"seed {seed}: " + "\n".join(happened)


# In how many of two hundred histories each must take effect at least: about half of what was measured.
WORTH = {
    "a commit is made": 150,
    "pipelines share a commit": 150,
    "rows change by their keys": 60,
    "rows only go": 30,
    "somebody else commits": 60,
    "commits are held": 60,
    "what waits is not kept": 60,
    "a request is answered": 60,
    "another takes over beside the old one": 60,
    "retention moves the log's start": 40,
    "a commit is late": 30,
    "a chain breaks": 20,
    "the clock goes back": 20,
    "a commit fails": 20,
    "a record is read twice": 20,
    "a driver dies in its transaction": 20,
    "a schema changes": 20,
    "snapshots expire": 20,
    "a commit meets a conflict": 16,
    "an answer is lost": 16,
    "a rollback takes rows out": 15,
    "a late commit is refused": 13,
    "a table was rolled back": 12,
    "the log is read again": 11,
    "what waits is given up": 11,
    "a table is replaced": 9,
    "the stored position is lost": 8,
    "a chain is settled": 7,
    "a table was replaced": 7,
    "a late commit is applied": 7,
    "a repeat is dropped": 7,
    "a table was filled by another topic": 6,
    "a table is gone": 6,
    "a coordinator stops": 6,
    "a coordinator dies with a commit under way": 3,
}


def test_histories_are_worth_their_name() -> None:
    """Most histories commit, and trouble of every kind takes effect in many: as seen in the log, the tables and what
    coordinators were told, not in what was drawn."""
    counts: Counter[str] = Counter()
    for seed in range(200):
        seen: set[str] = set()
        walk(seed, seen)
        counts.update(seen)
    assert {name: (counts[name], least) for name, least in WORTH.items() if counts[name] < least} == {}
    assert set(counts) <= set(WORTH), "whatever is looked for has its least number"
