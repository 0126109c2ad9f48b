"""Runs of one pipeline as steps: they begin, announce, stop for a while, die, and take each other's place.

In: choices, one after another. Out: what the broker holds at the end, and what is wrong with it. The runs are the real
ones, `framework.runtime.pipeline.worker` with its announcer; a broker in memory plays the ports of `PipelineProducer` and
`PipelineSource`, and passes the same contract test as these (`tests/kafka/test_producer_contract.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from framework.adapters.kafka.control.topic import ControlTopicFacts
from framework.commit.events.event_types import Accounting, ControlEvent, DataComplete, Heartbeat, OffsetsSet
from framework.commit.machine.progress.chain import settled_link
from framework.commit.offsets import PartitionFacts, PartitionKey, SafeOffset, decode_metadata
from framework.config.spec import (
    KafkaSourceSpec,
    LoadedPipeline,
    PipelineSpec,
    RouteRule,
    RoutesSpec,
    SourceSpec,
    TargetSpec,
)
from framework.errors import FencedError, FloeError, OutcomeUnknown
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.runtime import source
from framework.runtime.batches import announcer
from framework.runtime.batches.batch import BatchResult
from framework.runtime.batches.handover import AnnouncedBatch
from framework.runtime.pipeline import worker
from framework.runtime.pipeline.worker import PipelineWorker
from framework.runtime.retry_policy import is_retriable

KEY: PartitionKey = ("src", 0)
TOPIC_ID = "src-id"


def plan(starting_offsets: str, topic: str = KEY[0], name: str = "p") -> Plan:
    """One topic, one table."""
    kafka = KafkaSourceSpec("main", (topic,), starting_offsets=starting_offsets)
    spec = PipelineSpec(name, SourceSpec(kafka), RoutesSpec((RouteRule("a.b"),)))
    return compile_plan(LoadedPipeline("p.yaml", spec, TargetSpec("local", {"main": {}}, {"default": {}})))


class Killed(BaseException):
    """kill -9 at this very call: no handler of ours may catch it."""


class Choices:
    """All ways through a program that asks `choose`, one after another: the next one differs in its last choice."""

    def __init__(self, fixed: Sequence[int] = ()) -> None:
        self.taken: list[tuple[int, int]] = []
        self._fixed = list(fixed)

    def choose(self, count: int) -> int:
        at = len(self.taken)
        choice = self._fixed[at] if at < len(self._fixed) else 0
        self.taken.append((choice, count))
        return choice

    def following(self) -> list[int] | None:
        """The choices of the next way; None behind the last."""
        taken = list(self.taken)
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        return [*(choice for choice, _ in taken[:-1]), taken[-1][0] + 1] if taken else None


@dataclass
class MemoryBroker:
    """One source partition, one group, one control topic, one transactional id. Transactions happen at once or not at
    all."""

    records: int = 0
    epoch: int = 0
    log: list[ControlEvent] = field(default_factory=list)
    group: dict[PartitionKey, tuple[int, str]] = field(default_factory=dict)

    def take_over(self) -> int:
        self.epoch += 1
        return self.epoch

    def commit(
        self, epoch: int, events: Sequence[ControlEvent], offsets: Mapping[PartitionKey, tuple[int, str]]
    ) -> int:
        if epoch != self.epoch:
            raise FencedError("another producer has the transactional id")
        self.log.extend(events)
        self.group.update(offsets)
        return len(self.log)


class MemoryProducer:
    """As `PipelineProducer`."""

    def __init__(self, broker: MemoryBroker, before: Callable[[str], str]) -> None:
        self._broker, self._before = broker, before
        self._epoch: int | None = None

    def start(self) -> None:
        self._before("take over")
        self._epoch = self._broker.take_over()

    def recover(self) -> None:
        self._epoch = None
        self._before("take over")
        self._epoch = self._broker.take_over()

    def announce(
        self,
        events: Sequence[ControlEvent],
        offsets: Mapping[PartitionKey, tuple[int, str]],
        letters: Iterable[object] = (),
        letter_topic: str = "",
    ) -> int:
        if self._epoch is None:
            raise OutcomeUnknown("no transactional id")
        fate = self._before("announce")
        if fate == "not done":
            self._epoch = None
            raise OutcomeUnknown("no answer")
        end = self._broker.commit(self._epoch, events, offsets)
        if fate == "answer lost":
            self._epoch = None
            raise OutcomeUnknown("no answer")
        if fate == "killed after":
            raise Killed
        return end

    def close(self) -> None:
        self._epoch = None


class MemorySource:
    """As `PipelineSource`."""

    def __init__(self, broker: MemoryBroker, before: Callable[[str], str], pipeline: str) -> None:
        self._broker, self._before, self._pipeline = broker, before, pipeline
        self.ids = {KEY[0]: TOPIC_ID}

    def facts(self) -> dict[PartitionKey, PartitionFacts]:
        return {KEY: PartitionFacts(TOPIC_ID, 0, self._broker.records)}

    def check_dead_letter_topic(self) -> None:
        pass

    def ensure_control_topic(self) -> ControlTopicFacts:
        return ControlTopicFacts("control", "control-id", 0, len(self._broker.log), -1, False)

    def group_offsets(
        self, keys: Iterable[PartitionKey] | None = None, settled: bool = True
    ) -> dict[PartitionKey, SafeOffset]:
        found = {key: decode_metadata(at, text, "group") for key, (at, text) in self._broker.group.items()}
        self._before("looked")
        return found

    def newest_announcement(self) -> DataComplete | Heartbeat | None:
        reader = SimpleNamespace(
            end_offset=lambda: len(self._broker.log),
            seek=lambda at: None,
            read_until=lambda end: list(enumerate(self._broker.log)),
        )
        found = source.find_link(reader, self._pipeline, 0)
        return settled_link(found) if isinstance(found, OffsetsSet) else found


class Run:
    """A run that does what is next for it: begin, a batch if there is something to read, or a heartbeat."""

    def __init__(self, world: World, name: str) -> None:
        self.name, self.world = name, world
        self.ended = ""  # why; "" while it lives
        self.begun = False
        self._error: FloeError | None = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(announcer, "PipelineProducer", lambda *a, **k: MemoryProducer(world.broker, self._before))
            patch.setattr(worker, "PipelineSource", lambda plan, kafka: self._source())
            patch.setattr(worker, "TableRegistry", lambda *a: NO_TABLES)
            self.worker = PipelineWorker(world.plan, {}, None, Path("scratch"), lambda text: None)  # type: ignore[arg-type]

    def _source(self) -> MemorySource:
        return MemorySource(self.world.broker, self._before, self.world.plan.pipeline)

    def _before(self, what: str) -> str:
        return self.world.before(self, what)

    def act(self) -> None:
        """One step as the worker takes it; what it raises is met as `PipelineWorker.run` meets it."""
        try:
            if not self.begun:
                self._begin()
            elif self._error is not None:
                error, self._error = self._error, None
                self.worker.chain.settle(error)
            else:
                self._step()
        except Killed:
            self.ended = "killed"
        except FencedError:
            self.ended = "fenced"
        except FloeError as error:
            if self.begun and is_retriable(error):
                self._error = error
            else:
                self.ended = f"{error.code}: {error.message}"
        finally:
            self.world.acting.discard(self.name)

    def _begin(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "Presence", lambda *a: SimpleNamespace(close=lambda: None))
            self.worker.prepare()
        self.begun = True
        if self.world.safe_from is None:
            self.world.safe_from = self.worker.chain.positions[KEY]

    def _step(self) -> None:
        end = self.world.broker.records
        if self.worker.chain.positions[KEY] == end:
            self.worker.heartbeat()
            return
        scope = self.worker.chain.next_scope({KEY: end})
        ranges = self.worker.announcer._current_ranges(dict(scope.starts))
        ranges = tuple(type(r)(r.topic, r.topic_id, r.partition, r.start, end) for r in ranges)
        count = end - ranges[0].start
        line = Accounting(offsets=count, written=count, rows=count)
        totals = self.worker.report.totals + line
        event = DataComplete(self.world.plan.pipeline, self.worker.run_id, scope.batch, ranges, line, totals, ())
        result = BatchResult((event,), ranges, line, totals, {}, 0, 0)
        self.worker.announcer.announce(scope, result)
        self.worker.chain.advance(AnnouncedBatch(scope, result, self.worker.announcer.control_offset))


NO_TABLES = SimpleNamespace(targets={}, troubles={}, preload=lambda: None)


class World:
    """One history. `budget` counts what may go wrong in it: a death, a lost answer, another run in between."""

    def __init__(self, plan: Plan, choices: Choices, budget: int) -> None:
        self.plan, self.choices, self.budget = plan, choices, budget
        self.broker = MemoryBroker(records=3)
        self.safe_from: int | None = None
        self.acting: set[str] = set()
        self.reported: list[str] = []
        self.runs = [Run(self, "older"), Run(self, "newer")]

    def act(self, run: Run) -> None:
        self.reported.append(f"{run.name} acts")
        self.acting.add(run.name)
        run.act()
        if run.ended:
            self.reported.append(f"{run.name} ended: {run.ended}")

    def before(self, run: Run, what: str) -> str:
        """What happens at a call to the broker: nothing, or something that counts."""
        if self.budget == 0:
            return ""
        fates = ["", "killed"]
        if what == "announce":
            fates += ["killed after", "answer lost", "not done"]
        others = [r for r in self.runs if r.name not in self.acting and not r.ended]
        choice = self.choices.choose(len(fates) + len(others))
        if choice == 0:
            return ""
        self.budget -= 1
        if choice >= len(fates):
            self.reported.append(f"at {what} of {run.name}:")
            self.act(others[choice - len(fates)])
            return ""
        self.reported.append(f"at {what} of {run.name}: {fates[choice]}")
        if fates[choice] == "killed":
            raise Killed
        return fates[choice]

    def play(self, steps: int) -> list[str]:
        """A history of so many steps, then an end without faults; what is wrong."""
        for _ in range(steps):
            alive = [run for run in self.runs if not run.ended]
            choice = self.choices.choose(2 + len(alive))
            if choice == 0:
                break
            if choice == 1:
                self.reported.append("a record is produced")
                self.broker.records += 1
            else:
                self.act(alive[choice - 2])
        self.budget = 0
        return self._end()

    def _end(self) -> list[str]:
        wrong = [f"{run.name} ended with {run.ended}" for run in self.runs if run.ended not in ("", "fenced", "killed")]
        begun = [run for run in self.runs if run.begun or run.ended]
        for _ in range(6):
            for run in begun:
                if not run.ended:
                    self.act(run)
        if begun and all(run.ended == "fenced" for run in begun):
            wrong.append("each run ended since another one was to go on, and none does")
        if not any(run.begun and not run.ended for run in self.runs):
            heir = Run(self, "heir")
            self.runs.append(heir)
            self.act(heir)
            self.act(heir)
            if heir.ended:
                wrong.append(f"heir ended with {heir.ended}")
        return wrong + self._not_exact()

    def _not_exact(self) -> list[str]:
        """Every record from where the first run that began said it would read is announced once."""
        batches = [e.ranges[0] for e in self.broker.log if isinstance(e, DataComplete)]
        found = [offset for r in batches for offset in range(r.start, r.end)]
        wanted = list(range(self.safe_from or 0, self.broker.records))
        wrong = [f"record {n} was announced {found.count(n)} times" for n in wanted if found.count(n) != 1]
        return wrong + [f"record {n} was announced out of order" for n in found if n not in wanted][:1]


def explore(loaded_plan: Plan, steps: int, budget: int, limit: int = 10_000_000) -> tuple[int, list[str], list[str]]:
    """Every history of so many steps with so much going wrong; (how many, what is wrong with the first bad one, its
    story)."""
    fixed: list[int] | None = []
    count = 0
    while fixed is not None and count < limit:
        choices = Choices(fixed)
        world = World(loaded_plan, choices, budget)
        wrong = world.play(steps)
        count += 1
        if wrong:
            return count, wrong, world.reported
        fixed = choices.following()
    return count, [], []
