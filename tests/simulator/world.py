"""A whole installation in memory: pipelines, coordinators, maintainers, people and other engines around two tables.

In: a seed for what stays the same over a history, such as policies and the kind of catalog. Out: a `World` on which acts
work. It binds the parts together and tells the oracle what happens; it decides nothing that floe decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from framework.commit.events.event_types import DataWritten, SourceRange
from framework.commit.machine.effects import CommitTable
from framework.commit.machine.model import CoordinatorState
from framework.commit.machine.progress.recorded import MISSING_PROPERTY
from framework.commit.offsets import PartitionKey
from framework.commit.recovery.missing import Gap, gaps_of
from framework.config.spec import TablePolicy, TablesSpec
from framework.config.values.maintenance import (
    CompactionPolicy,
    ExpirePolicy,
    MaintenanceMode,
    MaintenancePolicy,
    ManifestsPolicy,
    OrphansPolicy,
)
from framework.errors import FloeError
from tests.simulator import drivers
from tests.simulator.catalog import Catalog, Metadata, view_of
from tests.simulator.coordinators import Coordinator
from tests.simulator.drivers import ROUTED, Driver
from tests.simulator.invariants import Oracle, Truth
from tests.simulator.lake import Lake
from tests.simulator.picks import Picks
from tests.simulator.ports import DAY_MS, HOUR_MS, Broker, Log, Machine, Positions, Store, Time, Topic

if TYPE_CHECKING:
    from tests.simulator.acts import Act

# Which tables a pipeline fills, and by which control topic.
PIPELINES = {"a": (("t", "u"), "one"), "b": (("t",), "one"), "c": (("u",), "two")}
TABLES = ("t", "u")


class World:
    """One history's world."""

    def __init__(self, seed: int, trace: list[str] | None = None) -> None:
        chance = random.Random(seed)
        self.trace = trace
        self.time, self.broker, self.positions = Time(), Broker(), Positions()
        self.store = Store(self.time)
        # PyIceberg's SQL catalog, a server of PyIceberg's, and one of Java's.
        self.catalog = Catalog(*chance.choice(((True, True), (True, True), (False, True), (False, False))))
        self.rows: dict[str, int] = {}
        self.logs = {name: Log(name, f"{name}-1") for name in ("one", "two")}
        self.policies = {name: _policy(chance) for name in PIPELINES}
        self.lake = Lake(self.catalog, self.store, self, self.rows)
        self.lake.wanted = self._wanted
        self.oracle = Oracle(
            self.time, self.catalog, self.store, self.positions, self.logs, self.policies, self.lacking, self.unread
        )
        self.machines = {name: Machine(self.time) for name in ("drivers", "one", "two", "other", "person", "foreign")}
        self.drivers: dict[str, Driver] = {}
        for name, (tables, log) in PIPELINES.items():
            topics = [f"src-{name}", f"more-{name}"] if name == "a" else [f"src-{name}"]
            for number, topic in enumerate(topics):
                size = 2 if name == "a" and number == 0 else 1
                self.broker.topics[topic] = Topic(topic, f"{topic}-1", [0] * size, [0] * size)
            self.drivers[name] = Driver(name, self.logs[log], self.machines["drivers"], tables, topics)
        self.replays: dict[str, Driver] = {}
        self.coordinators = {
            "one": [Coordinator("one", self.logs["one"], self.machines["one"])],
            "two": [Coordinator("two", self.logs["two"], self.machines["two"])],
        }
        # A second coordinator of the first log, which takes over and is taken over from.
        self.coordinators["one"].append(Coordinator("other", self.logs["one"], self.machines["other"]))
        for name in TABLES:
            self.catalog.tables[name] = Metadata(f"uuid-{name}", f"/lake/{name}")
            self.oracle.truth(f"uuid-{name}")
        self.coordinators["one"][0].assign()
        self.coordinators["two"][0].assign()
        # Plans are told when runs begin; those of the second control topic are known to who reads it.
        self.reported: dict[str, set[str]] = {"one": set(), "two": set()}
        self.removed_by_others: list[tuple[str, str]] = []
        self.ranges: dict[str, tuple[SourceRange, ...]] = {}  # of the announcement of each file
        self.made_anew = 0
        # One history makes source topics anew, another one control topics: for both at once floe has no verb.
        self.remakes = chance.choice(("sources", "control"))
        self.is_ending = False
        self.refused: set[str] = set()  # said already
        self.unrebased: set[str] = set()
        self.moved_back: set[str] = set()  # whose offsets a person has moved back
        self.stranded: set[str] = set()  # replays whose announcements went with their control topic
        self.views: dict[str, tuple[int, Any, Any]] = {}  # by maintainer: since when, places, announcements
        self.inside: list[tuple[str, Act]] = []
        self.depth = 0
        self.perform: Callable[[World, Act], None] | None = None

    # ---- what happens, in words

    def say(self, text: Callable[[], str]) -> None:
        if self.trace is not None:
            self.trace.append("  " * self.depth + text())

    # ---- the witness of the lake

    def committed(self, name: str, before: Metadata, after: Metadata, by_floe: bool) -> None:
        self.oracle.committed(name, before, after, by_floe)

    def removing(self, name: str, path: str, why: str) -> None:
        self.oracle.removing(name, path, why)

    def reach(self, where: str) -> None:
        """A place between two steps of one act, at which others may act."""
        if self.depth or self.perform is None:
            return
        while (found := next((each for each in self.inside if each[0] == where), None)) is not None:
            self.inside.remove(found)
            machine, work = self.lake.machine, self.oracle.work
            self.depth += 1
            self.say(lambda: f"meanwhile ({where}):")
            try:
                self.perform(self, found[1])
            finally:
                self.depth -= 1
                self.lake.machine, self.oracle.work = machine, work

    # ---- what the oracle asks

    def _wanted(self, table: str, ranges: Collection[SourceRange]) -> int:
        """The records of some ranges that belong into a table."""
        found = 0
        for r in ranges:
            name = r.topic.rpartition("-")[2]
            found |= self.positions.rows(name, (r,))
        return found & self.routed(table)

    def routed(self, table: str) -> int:
        return ROUTED[self.table_of(table)]

    def table_of(self, name: str) -> str:
        """The table that a name meant at first; tables are renamed and registered again."""
        metadata = self.catalog.tables.get(name)
        return name if metadata is None else metadata.location.rpartition("/")[2]

    def gap_rows(self, gap: Gap, table: str, unread: bool) -> int:
        """The records of a gap, or of it those that no run has announced yet."""
        ranges = gap.ranges
        if unread:
            group = self.broker.groups.get(gap.replay_pipeline, {})
            ranges = tuple(
                SourceRange(r.topic, r.topic_id, r.partition, max(r.start, at), r.end)
                for r in gap.ranges
                for at in [group[r.topic, r.partition].offset if (r.topic, r.partition) in group else r.start]
            )
        return self.positions.rows(gap.pipeline, ranges) & ROUTED[table]

    def lacking(self, metadata: Metadata) -> int:
        """What a table's own list says it lacks, and no run has announced yet."""
        found = 0
        table = metadata.location.rpartition("/")[2]
        for gap in gaps_of(metadata.properties.get(MISSING_PROPERTY)):
            found |= self.gap_rows(gap, table, gap.replay_pipeline not in self.stranded)
        return found

    def unread(self) -> int:
        """What pipelines read again by themselves: behind their offsets, or all where these are to be settled first."""
        found = 0
        for name, driver in self.drivers.items():
            group = self.broker.groups.get(name, {})
            for topic in driver.topics:
                for (_, partition), fact in self.broker.topics[topic].facts().items():
                    stored = group.get((topic, partition))
                    start = 0 if stored is None or name in self.unrebased else stored.offset
                    ranges = (SourceRange(topic, fact.topic_id, partition, start, fact.log_end),)
                    found |= self.positions.rows(name, ranges)
            if name in self.unrebased:
                found |= self.positions.all_of(name)
        return found

    # ---- tables, as acts find them

    def main_names(self) -> list[str]:
        """Tables by the names that they have now, without those that are registered beside them."""
        return sorted(name for name in self.catalog.tables if name not in self.oracle.clones)

    def log_of_table(self, name: str, picks: Picks) -> str:
        return picks.of(("one", "one", "two")) if self.table_of(name) == "u" else "one"

    def shared_files(self) -> list[tuple[str, str]]:
        """Names of tables that have a registered twin."""
        uuids = [uuid for uuid, _ in self.oracle.clones.values()]
        return [(name, each.uuid) for name, each in self.catalog.tables.items() if each.uuid in uuids]

    def had_line(self, metadata: Metadata) -> set[int]:
        """The snapshots behind what the table is to hold."""
        truth = self.oracle.truth(metadata.uuid)
        heads = [metadata.head.snapshot_id if metadata.head is not None else None]
        heads += truth.had_heads if truth.unsettled else []
        return {each for head in heads for each in self.oracle.line(metadata.uuid, head)}

    def is_behind(self, name: str, log: str) -> bool:
        """Whether floe sees that the table was moved back behind what a log recorded."""
        return self.is_behind_of(self.catalog.tables[name], log)

    def is_behind_of(self, metadata: Metadata, log: str) -> bool:
        return view_of("", metadata, self.logs[log].topic_id).is_behind

    def held_heads(self, name: str) -> set[int | None]:
        """Heads on which somebody may still commit: a head that comes back looks unchanged to a conditional commit,
        which docs/protocol.md names as a limit."""
        found = {late.effect.view.snapshot_id for late in self.lake.late if late.effect.table == name}
        for each in (each for group in self.coordinators.values() for each in group):
            table = each.state.tables.get(name)
            if table is not None and table.view is not None:
                found.add(table.view.snapshot_id)
            found |= {
                effect.view.snapshot_id
                for effect, _ in each.tasks
                if isinstance(effect, CommitTable) and effect.table == name
            }
        return found

    def was_announced(self, pipeline: str, table: str) -> bool:
        metadata = self.catalog.tables.get(table)
        if metadata is None:
            return True
        return bool(self.oracle.truth(metadata.uuid).announced & self.positions.all_of(pipeline))

    # ---- what the oracle is to know

    def truth_of(self, table: str) -> Truth:
        """Of a table by its first name."""
        return self.oracle.truth(f"uuid-{table}")

    def metadata_of(self, table: str) -> Metadata:
        """Of a table by its first name, whatever it is called now."""
        return self.catalog.tables.get(table) or self.catalog.tables[f"{table}_renamed"]

    def are_read_again(self, pipeline: str, begins: Mapping[PartitionKey, tuple[str, int]]) -> None:
        """A person lets a pipeline go on at these offsets: what waits and begins there or later is read again, and
        counts no more."""
        for table in PIPELINES[pipeline][0]:
            truth = self.truth_of(table)
            for path in list(truth.waiting):
                busy = [r for r in self.ranges[path] if r.start < r.end]
                again = all(
                    begins.get((r.topic, r.partition), ("", r.end)) <= (r.topic_id, r.start)
                    and begins.get((r.topic, r.partition), ("", r.end))[0] == r.topic_id
                    for r in busy
                )
                if again and path.rpartition("/")[2].split("-")[1] == pipeline:
                    del truth.waiting[path]

    def are_lost(self, pipeline: str, lost: int) -> None:
        """A person agreed by name that some records are never read: those that are in no place are given up, and those that
        were not announced yet may come or not, if they are read again after all."""
        for table in PIPELINES[pipeline][0]:
            truth, metadata = self.truth_of(table), self.metadata_of(table)
            held = (metadata.head.rows if metadata.head is not None else 0) | truth.under_way | self.lacking(metadata)
            truth.given_up |= lost & truth.announced & ~held
            truth.either |= lost & ~truth.announced

    def discarded(self, offset: int, event: object, uuids: Collection[str]) -> None:
        if isinstance(event, DataWritten) and event.table_uuid in uuids:
            truth = self.oracle.truth(event.table_uuid)
            named = (self.catalog.tables[name] for name in self.main_names())
            table = next((each for each in named if each.uuid == event.table_uuid), None)
            # What a pipeline announces once more after it was taken over is passed over as a repeat: its rows, where they are
            # not in the table, are on its list, and come with their replay, or are announced by that and come by themselves.
            # To discard the repeat takes neither away, as `are_lost` has it, too.
            held = 0 if table is None else self.lacking(table) | (table.head.rows if table.head else 0)
            for file in event.files:
                rows = truth.waiting.pop(file.path, 0)
                for path, coming in truth.waiting.items():
                    held |= coming if ".replay." in path else 0
                truth.given_up |= rows & ~held

    def settled_sideways(self, name: str) -> None:
        """Another engine moved the branch to another line, and floe's verb settled it there: what is nowhere then was
        given up with that, and what is there is no longer given up."""
        metadata = self.catalog.tables[name]
        truth = self.oracle.truth(metadata.uuid)
        if not truth.unsettled and metadata.head is not None:
            seen = metadata.head.rows | self.lacking(metadata) | truth.under_way | self.unread()
            truth.given_up = (truth.given_up | (truth.announced & ~seen)) & ~metadata.head.rows

    def new_log(self, name: str, new: Log) -> None:
        """A control topic is made anew: nothing of what was announced in the old one is known any more."""
        old = self.logs[name]
        self.logs[name] = new
        for driver in self.drivers.values():
            if driver.log is old:
                driver.log = new
                driver.die()
                self.unrebased.add(driver.name)
        for replay in self.replays.values():
            if replay.log is old:
                replay.log = new
                self.stranded.add(replay.name)
        for coordinator in self.coordinators[name]:
            coordinator.log, coordinator.tasks, coordinator.state = new, [], CoordinatorState()
        self.coordinators[name][0].assign()
        self._forget(old.paths)

    def expire_log(self, log: Log, start: int) -> None:
        """Records below an offset go by retention."""
        log.start = start
        kept = {path for _, e in log.since(start) if isinstance(e.event, DataWritten) for path in e.event.paths}
        self._forget(log.paths - kept)
        log.paths = kept

    def _forget(self, paths: set[str]) -> None:
        for truth in self.oracle.truths.values():
            for path in truth.waiting.keys() & paths:
                del truth.waiting[path]

    def announced(self, events: Collection[DataWritten]) -> None:
        """The oracle learns of announced files."""
        for event in events:
            truth = self.oracle.truth(event.table_uuid)
            for file in event.files:
                rows = self.rows[file.path]
                self.ranges[file.path] = event.ranges
                truth.announced |= rows
                truth.waiting[file.path] = rows


@contextmanager
def at_work(world: World, machine: Machine) -> Iterator[None]:
    """Who is at work now, and by whose clock."""
    before = world.lake.machine
    world.lake.machine = machine
    try:
        yield
    finally:
        world.lake.machine = before


def _policy(chance: random.Random) -> MaintenancePolicy:
    return MaintenancePolicy(
        chance.choice((*(MaintenanceMode.ALWAYS,) * 7, MaintenanceMode.NEVER)),
        CompactionPolicy(target_file_bytes=100, min_input_files=2),
        ExpirePolicy(
            chance.random() < 0.9,
            chance.choice((0, HOUR_MS, DAY_MS, 5 * DAY_MS)),
            chance.choice((1, 2, 5)),
            chance.choice((0, HOUR_MS, 6 * HOUR_MS)),
            chance.choice((0, HOUR_MS)),
        ),
        OrphansPolicy(chance.random() < 0.9, chance.choice((1, 3)) * DAY_MS),
        ManifestsPolicy(enabled=False),
    )


def spec_of(policy: MaintenancePolicy) -> TablesSpec:
    """What a pipeline's plan says of its tables."""
    return TablesSpec(TablePolicy(maintenance=policy))


__all__ = ["PIPELINES", "TABLES", "FloeError", "World", "at_work", "dataclass", "drivers", "field", "spec_of"]
