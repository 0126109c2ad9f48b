"""`floe rollback` and `floe replay` in any order, twice, with batches, compactions and rollbacks of others in between.

The decisions are floe's own; the log, the table and the replays' groups are Python's sets. After each step every offset
is in exactly one place: in the table, on its list of what it lacks, under way, or given up by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from framework.commit.events.event_types import SourceRange
from framework.commit.machine.effects import PipelineProgress, TableProgress
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.recovery.missing import gaps_from, gaps_of, gaps_text, lacking_after
from framework.commit.recovery.rollback import (
    Announcements,
    RollbackFacts,
    SnapshotFacts,
    given_up_ranges,
    plan_rollback,
)
from tests.protocol.build import TOPIC_ID, written

Offset = tuple[int, int]
PIPELINES = ("a", "b")


@dataclass
class Stored:
    """A snapshot: the paths that it added, and what a rollback is told of it."""

    facts: SnapshotFacts
    paths: frozenset[str] = frozenset()


@dataclass
class World:
    log: list[tuple[int, object]] = field(default_factory=list)
    snapshots: dict[int, Stored] = field(default_factory=dict)
    head: int | None = None
    recorded: int = 0
    text: str | None = None
    rows: dict[str, tuple[str, frozenset[Offset]]] = field(default_factory=dict)  # of a file: pipeline and offsets
    read: dict[str, dict[int, int]] = field(default_factory=dict)  # by replay: the safe offset of each partition
    ends: dict[str, dict[int, int]] = field(default_factory=dict)  # by pipeline
    given_up: dict[str, set[Offset]] = field(default_factory=lambda: {name: set() for name in PIPELINES})
    waiting: list[tuple[int, str]] = field(default_factory=list)  # announced, not committed: offset and path
    moves: int = 0
    headed: dict[int, int] = field(default_factory=dict)  # the last time that the branch was moved to a snapshot

    def move(self, to: int) -> None:
        self.moves += 1
        self.headed[to] = self.moves
        self.head = to

    def facts_of(self, number: int) -> SnapshotFacts:
        return replace(self.snapshots[number].facts, headed_ms=self.headed[number])

    # ---- what is where

    def line(self, at: int | None) -> list[Stored]:
        found = []
        while at is not None:
            found.append(self.snapshots[at])
            at = found[-1].facts.parent_id
        return found

    def held(self, pipeline: str) -> list[Offset]:
        paths = [path for each in self.line(self.head) for path in each.paths]
        return [offset for path in paths if self.rows[path][0] == pipeline for offset in sorted(self.rows[path][1])]

    def lacking(self, pipeline: str) -> list[Offset]:
        return [
            (r.partition, n)
            for gap in gaps_of(self.text)
            if gap.pipeline == pipeline
            for r in gap.ranges
            for n in range(max(r.start, self.read.get(gap.replay_pipeline, {}).get(r.partition, 0)), r.end)
        ]

    def under_way(self, pipeline: str) -> list[Offset]:
        return [offset for _, path in self.waiting if self.rows[path][0] == pipeline for offset in self.rows[path][1]]

    # ---- what happens

    def add(self, paths: frozenset[str], offset: int | None, recovery: str | None = None, operation: str = "append",
            parent: int | None = None, rows: int = 0) -> None:  # fmt: skip
        number = len(self.snapshots) + 1
        topic = None if offset is None else TOPIC_ID
        facts = SnapshotFacts(number, parent, number * 100, operation, rows, offset, topic, recovery)
        self.snapshots[number] = Stored(facts, paths)
        self.move(number)
        if offset is not None:
            self.recorded = max(self.recorded, offset)

    def announce(self, name: str, ranges: tuple[SourceRange, ...]) -> str:
        path = f"f{len(self.log)}"
        event = written(name, len(self.log), paths=(path,), source=ranges)
        self.log.append((len(self.log), event))
        offsets = frozenset((r.partition, n) for r in ranges for n in range(r.start, r.end))
        self.rows[path] = name.partition(".replay.")[0], offsets
        self.waiting.append((len(self.log), path))
        return path

    def commit(self) -> None:
        if not self.waiting:
            return
        paths = frozenset(path for _, path in self.waiting)
        rows = sum(file.record_count for _, event in self.log for file in event.files if file.path in paths)  # type: ignore[attr-defined]
        self.add(paths, self.waiting[-1][0], parent=self.head, rows=rows)
        self.waiting = []

    def roll_back(self, target: int, replay: bool) -> None:
        line = self.line(self.head)
        here = [each.facts.snapshot_id for each in line]
        beside = [self.facts_of(number) for number in self.snapshots if number not in here]
        progress = TableProgress(TOPIC_ID, self.recorded, {name: PipelineProgress(1) for name in PIPELINES})
        facts = RollbackFacts("db.t", TOPIC_ID, progress, tuple(map(self.facts_of, here)), tuple(beside), True)
        plan = plan_rollback(facts, self.snapshots[target].facts, replay)
        noted = gaps_of(self.text)
        announced = Announcements(tuple(event for _, event in self.log), 0)  # type: ignore[arg-type]
        lost = {path for number in plan.own_snapshots for path in self.snapshots[number].paths}
        given_up = given_up_ranges(plan, announced, lost) if replay else {}
        held = announced.ranges_of({path for number in plan.kept_snapshots for path in self.snapshots[number].paths})
        read = {gap.gap_id: announced.read_by(gap.replay_pipeline) for gap in noted}
        gaps = decided(noted, given_up, read, held, f"g{len(self.snapshots)}")
        if plan.settled and gaps == noted:
            return
        self.text = gaps_text(gaps)
        self.add(frozenset(), self.recorded, "rollback", parent=target)
        if not replay:
            for path in lost:
                pipeline, offsets = self.rows[path]
                self.given_up[pipeline] |= offsets - set(self.held(pipeline))


class Verbs(RuleBasedStateMachine):
    """One table, two pipelines, two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(
        pipeline=st.sampled_from(PIPELINES),
        counts=st.tuples(st.integers(0, 3), st.integers(1, 3)),
        commits=st.booleans(),
    )
    def batch(self, pipeline: str, counts: tuple[int, int], commits: bool) -> None:
        ends = self.world.ends.setdefault(pipeline, {0: 0, 1: 0})
        ranges = tuple(
            SourceRange(f"src-{pipeline}", "id", partition, ends[partition], ends[partition] + count)
            for partition, count in enumerate(counts)
        )
        for r in ranges:
            ends[r.partition] = r.end
        self.world.announce(pipeline, ranges)
        if commits:
            self.world.commit()

    @rule()
    def commit(self) -> None:
        self.world.commit()

    @precondition(lambda self: self.world.head is not None)
    @rule(back=st.integers(0, 5), replay=st.booleans(), twice=st.booleans())
    def roll_back(self, back: int, replay: bool, twice: bool) -> None:
        self.world.commit()
        line = self.world.line(self.world.head)
        target = line[min(back, len(line) - 1)].facts.snapshot_id
        for _ in range(1 + twice):
            self.world.roll_back(target, replay)

    @precondition(lambda self: self.world.head is not None)
    @rule(choice=st.integers(0, 30), replay=st.booleans())
    def somebody_elses(self, choice: int, replay: bool) -> None:
        """Another engine moves the table to any of its snapshots; floe's verb settles it there."""
        world = self.world
        world.commit()
        before = world.head
        to = sorted(world.snapshots)[choice % len(world.snapshots)]
        ahead = {each.facts.snapshot_id for each in world.line(before)}
        world.move(to)
        if to not in ahead:  # what had been given up is there again, and what was there is gone: his act
            for name in PIPELINES:
                world.given_up[name] -= set(world.held(name))
        world.roll_back(to, replay)
        for name in PIPELINES:
            if to not in ahead:
                seen = {*world.held(name), *world.lacking(name), *world.under_way(name)}
                world.given_up[name] |= set(everything(world, name)) - seen

    @rule()
    def compact(self) -> None:
        """The same rows in other files."""
        if self.world.head is not None:
            self.world.add(frozenset(), self.world.recorded, "compaction", "replace", self.world.head, rows=7)

    @precondition(lambda self: bool(gaps_of(self.world.text)))
    @rule(which=st.integers(0, 5), most=st.integers(0, 4), commits=st.booleans())
    def replay(self, which: int, most: int, commits: bool) -> None:
        """Part of a gap, or all of it; killed before or behind its commit."""
        world = self.world
        gaps = gaps_of(world.text)
        gap = gaps[which % len(gaps)]
        safe = world.read.setdefault(gap.replay_pipeline, {})
        ranges = []
        for r in gap.ranges:
            start = safe.get(r.partition, r.start)
            ranges.append(SourceRange(r.topic, r.topic_id, r.partition, start, min(start + most, r.end)))
        if any(r.start < r.end for r in ranges):
            world.announce(gap.replay_pipeline, tuple(ranges))
            safe.update({r.partition: r.end for r in ranges})
        if commits:
            world.commit()
            if all(safe.get(r.partition, r.start) == r.end for r in gap.ranges):
                world.text = gaps_text(each for each in gaps if each.gap_id != gap.gap_id)
                world.add(frozenset(), world.recorded, "replay", parent=world.head)

    @invariant()
    def each_offset_is_in_one_place(self) -> None:
        world = self.world
        for name in PIPELINES:
            held, lacking, waiting = world.held(name), world.lacking(name), world.under_way(name)
            places = [*held, *lacking, *waiting]
            assert len(places) == len(set(places)), f"twice: {sorted(o for o in places if places.count(o) > 1)}"
            assert set(places) | world.given_up[name] == everything(world, name)
            assert not set(places) & world.given_up[name], "what was given up has come back"

    @invariant()
    def no_two_gaps_have_one_id(self) -> None:
        ids = [gap.gap_id for gap in gaps_of(self.world.text)]
        assert len(ids) == len(set(ids))


def everything(world: World, pipeline: str) -> set[Offset]:
    return {(p, n) for p, end in world.ends.get(pipeline, {}).items() for n in range(end)}


Verbs.TestCase.settings = settings(max_examples=300, stateful_step_count=25, deadline=None)


class TestVerbs(Verbs.TestCase):  # type: ignore[name-defined, misc]
    """Each source position of each table at most once, and once unless it was given up by name."""


def appended(noted, given_up, read, held, gap_id):  # type: ignore[no-untyped-def]
    """What is given up comes to the list, whatever stands on it and whatever the table holds."""
    return (*noted, *gaps_from(given_up, gap_id))


def around(noted, given_up, read, held, gap_id):  # type: ignore[no-untyped-def]
    """One range of each partition, around all that is given up."""
    hulls = {}
    for name, ranges in given_up.items():
        spans: dict[tuple[str, str, int], list[int]] = {}
        for r in ranges.ranges:
            spans.setdefault((r.topic, r.topic_id, r.partition), []).extend((r.start, r.end))
        hulls[name] = OffsetRanges.of(SourceRange(*key, min(ends), max(ends)) for key, ends in spans.items())
    return lacking_after(noted, hulls, read, held, gap_id)


def unread(noted, given_up, read, held, gap_id):  # type: ignore[no-untyped-def]
    """As if no replay had read anything yet."""
    return lacking_after(noted, given_up, {}, held, gap_id)


def forgetful(noted, given_up, read, held, gap_id):  # type: ignore[no-untyped-def]
    """As if the table held nothing."""
    return lacking_after(noted, given_up, read, {}, gap_id)


@pytest.mark.parametrize("mutation", [appended, around, unread, forgetful])
def test_what_goes_wrong_without_it_is_found(mutation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these was, or would be, a rollback that repeats rows or brings back what was given up."""
    monkeypatch.setitem(globals(), "decided", mutation)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Verbs, settings=settings(max_examples=3_000, stateful_step_count=25, deadline=None,
                                                           phases=[Phase.generate], database=None))  # fmt: skip


decided = lacking_after
