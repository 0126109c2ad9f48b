"""Floe's own recovery verbs and its cleaner over the simulated ports: what they reach for outside is replaced here.

In: a `World`. Out: the same modules, in which broker, log, producer and clock are simulated. The verbs themselves, their
order of questions and their conditions run as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from framework.adapters.kafka.admin import GroupOffset
from framework.commit.events.event_types import ControlEvent
from framework.commit.machine.effects import Read
from framework.commit.machine.step import CoordinatorState, Limits, start_offset, step
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.errors import FencedError, FloeError, SetupError
from framework.observe.status.control_log import ControlLog
from framework.plan.compile import group_id
from framework.recovery import discard, rebase, recover_table, rollback, source_offsets, table_replay
from framework.runtime.maintenance import orphans
from framework.runtime.maintenance import tables as maintenance
from tests.simulator import drivers
from tests.simulator.care import Care
from tests.simulator.coordinators import assigned
from tests.simulator.drivers import Driver
from tests.simulator.ports import Log
from tests.simulator.world import World, spec_of

PREFIX = "floe"
READER = Limits(pending_files=2**53, undrained_files=2**53)


class Killed(Exception):
    """A process ends in the middle of a verb."""


class Current:
    """The world that the replaced modules work in."""

    world: World


def log_of(world: World, control_topic: str) -> Log:
    return world.logs[control_topic]


class Admin:
    """Stands in for `KafkaAdmin`."""

    address = "simulated"

    def __init__(self, kafka: object) -> None:
        self._world = Current.world

    def group_offsets(
        self, group: str, keys: Collection[PartitionKey] | None = None, settled: bool = True
    ) -> dict[PartitionKey, GroupOffset]:
        stored = self._world.broker.groups.get(group.removeprefix(group_id(PREFIX, "")), {})
        return {key: value for key, value in stored.items() if keys is None or key in keys}

    def topics(self, wanted: Sequence[str] | str) -> dict[str, SimpleNamespace]:
        names = [wanted] if isinstance(wanted, str) else wanted
        found = self._world.broker.topics
        return {
            name: SimpleNamespace(topic_id=found[name].topic_id, partitions=range(len(found[name].ends)))
            for name in sorted(set(names))
            if name in found
        }

    def start_offsets(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, int]:
        return {key: self._world.broker.topics[key[0]].starts[key[1]] for key in keys}

    def end_offsets(self, keys: Collection[PartitionKey]) -> dict[PartitionKey, int]:
        return {key: self._world.broker.topics[key[0]].ends[key[1]] for key in keys}

    def cluster_id(self) -> str:
        return "cluster"


class Reader:
    """Stands in for `ControlReader`."""

    def __init__(self, kafka: object, control_topic: str) -> None:
        self._log = log_of(Current.world, control_topic)
        self._position = self._log.start

    def seek(self, position: int) -> None:
        self._position = position

    def start_offset(self) -> int:
        return self._log.start

    def end_offset(self) -> int:
        return self._log.end

    def read_until(self, end: int) -> Iterator[tuple[int, ControlEvent]]:
        for offset, entry in self._log.since(self._position, end):
            assert entry.event is not None
            yield offset, entry.event
        self._position = max(self._position, end)

    def close(self) -> None:
        return None


class Publisher:
    """Stands in for `ControlPublisher`."""

    def __init__(self, kafka: object, control_topic: str) -> None:
        self._log = log_of(Current.world, control_topic)

    def publish(self, events: Sequence[ControlEvent]) -> None:
        self._log.append(events, Current.world.lake.machine.wall_ms)
        Current.world.reach("told")

    def close(self) -> None:
        return None


class Producer:
    """Stands in for `PipelineProducer`: one transaction with events and offsets, unless a run has begun since."""

    def __init__(self, log: Log, pipeline: str) -> None:
        self._log, self._pipeline = log, pipeline
        self._driver = Current.world.drivers.get(pipeline)
        self._run = self._driver.run if self._driver is not None else 0

    def announce(self, events: Sequence[ControlEvent], offsets: dict[PartitionKey, tuple[int, str]]) -> int:
        world = Current.world
        if self._driver is not None and self._driver.run != self._run:
            raise FencedError(f"a run of {self._pipeline} has begun since", place=self._pipeline, remedy="")
        self._log.append(events, world.lake.machine.wall_ms, marker=True)
        group = world.broker.groups.setdefault(self._pipeline, {})
        group.update({key: GroupOffset(*value) for key, value in offsets.items()})
        return self._log.end

    def recover(self) -> None:
        return None


class Inline:
    """Stands in for `ThreadPoolExecutor`: one after another."""

    def __init__(self, workers: int) -> None:
        del workers

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def map(self, do: Callable[[Any], Any], values: Collection[Any]) -> Iterator[Any]:
        return map(do, values)

    def submit(self, do: Callable[[], Any]) -> Future[Any]:
        raise NotImplementedError


class Source:
    """Stands in for `PipelineSource`."""

    def __init__(self, plan: Any, kafka: object) -> None:
        self._driver = Current.world.drivers[plan.pipeline]

    def facts(self) -> dict[PartitionKey, PartitionFacts]:
        return self._driver.facts(Current.world.broker)


def refuse_live(admin: object, prefix: str, pipeline: str, doing: str) -> None:
    """A driver whose batch is not announced yet is live."""
    driver = Current.world.drivers.get(pipeline)
    if driver is not None and driver.written is not None:
        raise SetupError(f"pipeline {pipeline} is live", code="FLOE-E111", place="", remedy="")


@contextmanager
def exclusive(kafka: object, prefix: str, pipeline: str, control_topic: str, doing: str) -> Iterator[Producer]:
    refuse_live(None, prefix, pipeline, doing)
    world = Current.world
    if (driver := world.drivers.get(pipeline)) is not None:
        driver.die()
    yield Producer(log_of(world, control_topic), pipeline)


def check_control_topic(admin: object, control_topic: str) -> SimpleNamespace:
    log = log_of(Current.world, control_topic)
    return SimpleNamespace(name=log.name, topic_id=log.topic_id, log_start=log.start, log_end=log.end)


def read_control_log(admin: object, kafka: object, control_topic: str, group: str, catalog: Any) -> ControlLog:
    log = log_of(Current.world, control_topic)
    reported = assigned(log, "reader")
    state, _ = step(CoordinatorState(limits=READER), reported, 0)
    found = ControlLog(check_control_topic(None, control_topic), log.end, state)  # type: ignore[arg-type]
    found.links = {**log.links}
    for offset, entry in log.since(start_offset(reported)):
        found.read(Read(offset, entry.event, entry.wall_ms, 0), catalog)
    if catalog is not None:
        found.make_all_due(catalog)
    return found


class Job:
    """Stands in for the run that fills a gap: until all of it is announced and in the table, or until it is killed."""

    def __init__(self, loaded: object, until_caught_up: bool, say: object, plans: tuple[Any, ...]) -> None:
        self._plan = plans[0]

    def run(self) -> SimpleNamespace:
        world, plan = Current.world, self._plan
        gap, pipeline = plan.gap, plan.gap.pipeline
        driver = world.replays.get(gap.replay_pipeline)
        if driver is None:
            owner = world.drivers[pipeline]
            driver = Driver(
                gap.replay_pipeline,
                owner.log,
                world.lake.machine,
                plan.tables,
                [r.topic for r in gap.ranges],
                {(r.topic, r.partition): r.end for r in gap.ranges},
                {(r.topic, r.partition): r.start for r in gap.ranges},
            )
            world.replays[driver.name] = driver
        driver.machine = world.lake.machine
        drivers.begin(driver, world.broker, world.lake)
        while any(driver.positions[key] < end for key, end in (driver.window or {}).items()):
            if plan.kills and plan.kills[0] == 0:
                raise Killed(driver.name)
            written = drivers.write(driver, world.broker, world.lake, world.positions, plan.counts)
            if written is None:
                break
            world.reach("replay wrote")
            world.announced(drivers.announce(driver, world.broker, world.lake))
            if plan.kills:
                plan.kills[0] -= 1
        work_until_quiet(world, driver.log.name)
        if any(file in world.oracle.truth(uuid).waiting for uuid, file in self._files(world, driver)):
            raise FloeError("not in the table yet", code="FLOE-R110", place=driver.name, remedy="")
        return SimpleNamespace(signal=None, reports=())

    @staticmethod
    def _files(world: World, driver: Driver) -> Iterator[tuple[str, str]]:
        for uuid, truth in world.oracle.truths.items():
            for path in truth.waiting:
                if path.rpartition("/")[2].partition("-")[2].startswith(driver.name):
                    yield uuid, path


def work_until_quiet(world: World, log: str) -> None:
    """The log's owner works until nothing is left to do now."""
    machine = world.lake.machine
    for coordinator in world.coordinators[log]:
        if world.logs[log].owner is coordinator:
            for _ in range(6):
                coordinator.read()
                if not coordinator.tasks:
                    break
                coordinator.perform(world.lake, lambda: "sound", 20)
    world.lake.machine = machine


class Announced:
    """Stands in for what the cleaner reads of control topics; `read_on` is a place where others may act."""

    def __init__(self, world: World, logs: Sequence[str]) -> None:
        self._world, self._logs = world, [world.logs[name] for name in logs]
        self.control_topic_ids = frozenset(log.topic_id for log in self._logs)
        self.keys: set[str] = set()
        self.plans: dict[str, Any] = {
            each: spec_of(world.policies[each]) for name in logs for each in sorted(world.reported[name])
        }

    def read_on(self) -> set[str]:
        self._world.reach("announcements read")
        for log in self._logs:
            self.keys |= log.paths
        return self.keys

    def branches(self, table: str) -> dict[str, str]:
        return {}

    def close(self) -> None:
        return None


def install(patch: Callable[[object, str, object], None]) -> None:
    """Replace what floe's verbs reach for; `patch` sets an attribute and puts it back later."""
    for module in (rollback, discard, rebase, source_offsets, table_replay):
        for name, value in {
            "KafkaAdmin": Admin,
            "ControlReader": Reader,
            "ControlPublisher": Publisher,
            "check_control_topic": check_control_topic,
            "ensure_control_topic": check_control_topic,
            "exclusive": exclusive,
            "refuse_live": refuse_live,
            "read_control_log": read_control_log,
            "PipelineSource": Source,
            "ThreadPoolExecutor": Inline,
        }.items():
            if hasattr(module, name):
                patch(module, name, value)
    patch(table_replay, "Job", Job)
    patch(table_replay, "replay_plan_of", lambda plan, prefix, tables, gap: plan.of(gap, tables))
    patch(rebase, "reachable_tables", lambda plan, catalog: Current.world.drivers[plan.pipeline].tables)
    patch(orphans, "moment", lambda: Current.world.lake.machine.moment())
    for module in (orphans, maintenance):
        patch(module, "Announced", lambda kafka, logs: Announced(Current.world, logs))
    patch(maintenance, "TableCare", Care)
    patch(maintenance, "published_tables", lambda plan: plan)
    clock = SimpleNamespace(time=lambda: Current.world.lake.machine.wall_ms / 1000)
    patch(maintenance, "time", clock)
    patch(recover_table, "failpoint", lambda point: Current.world.reach(point))
    patch(discard, "failpoint", lambda point: Current.world.reach(point))
