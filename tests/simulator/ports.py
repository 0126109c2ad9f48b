"""The simulated world outside of floe: clocks, control logs, source topics and an object store.

In: calls, as adapters make them. Out: the answers of a real broker and store, and no more than these promise. Keeps
time: there is one true time, which is the store's; each machine has a clock of its own, which may be wrong by days.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from framework.adapters.kafka.admin import GroupOffset
from framework.commit.events.event_types import (
    ControlEvent,
    DataComplete,
    DataWritten,
    Heartbeat,
    OffsetsSet,
    SourceRange,
)
from framework.commit.file_ages import ClockReading
from framework.commit.machine.progress.chain import next_link, settled_link
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.commit.recovery.orphans import StoredFile
from framework.commit.watch import Watch

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
BEGIN_MS = 1_800_000_000_000
# Positions of one partition that a history can reach; a multiple of the tables' routing pattern.
STRIDE = 1_024


@dataclass
class Time:
    """The true time."""

    now_ms: int = BEGIN_MS


@dataclass
class Machine:
    """A process's machine: `ahead_ms` is how far its time of day is off."""

    time: Time
    ahead_ms: int = 0

    @property
    def wall_ms(self) -> int:
        return self.time.now_ms + self.ahead_ms

    def moment(self) -> ClockReading:
        return ClockReading(self.wall_ms, self.time.now_ms)


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed record of a control log, by whose writer's clock it was written when. `event` None: a marker."""

    event: ControlEvent | None
    wall_ms: int


@dataclass
class Log:
    """A control topic. Transactions are committed at once; `start` moves by retention."""

    name: str
    topic_id: str
    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    low_water: int | None = None
    chain_from: int | None = None
    low_water_topic_id: str | None = None
    records_end: int | None = None
    watch: Watch = field(default_factory=Watch)
    links: dict[str, Heartbeat] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    owner: object = None  # who may store the low-water mark

    @property
    def end(self) -> int:
        return len(self.entries)

    def append(self, events: Iterable[ControlEvent], wall_ms: int, marker: bool = False) -> int:
        """Where the first of the events stands."""
        first = len(self.entries)
        for event in events:
            self.watch.observe(len(self.entries), event)
            self.entries.append(Entry(event, wall_ms))
            if isinstance(event, DataWritten):
                self.paths.update(event.paths)
            elif isinstance(event, DataComplete | Heartbeat):
                self.links[event.pipeline] = next_link(self.links.get(event.pipeline), event)
            elif isinstance(event, OffsetsSet):
                self.links[event.pipeline] = settled_link(event, self.links.get(event.pipeline))
        if marker:
            self.entries.append(Entry(None, wall_ms))
        return first

    def since(self, position: int, end: int | None = None) -> Iterator[tuple[int, Entry]]:
        """The records from a position on, without markers."""
        for offset in range(max(position, self.start), self.end if end is None else end):
            entry = self.entries[offset]
            if entry.event is not None:
                yield offset, entry


@dataclass
class Topic:
    """A source topic: for each partition where its records begin and end."""

    name: str
    topic_id: str
    starts: list[int]
    ends: list[int]

    def facts(self) -> dict[PartitionKey, PartitionFacts]:
        return {
            (self.name, number): PartitionFacts(self.topic_id, start, end)
            for number, (start, end) in enumerate(zip(self.starts, self.ends, strict=True))
        }


@dataclass
class Broker:
    """What is not a log: source topics, and committed offsets by pipeline."""

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, dict[PartitionKey, GroupOffset]] = field(default_factory=dict)


class Positions:
    """Every source record has a bit; sets of records are whole numbers."""

    def __init__(self) -> None:
        self._bases: dict[tuple[str, str, int], int] = {}
        self._whole = 0

    def rows(self, pipeline: str, ranges: Iterable[SourceRange]) -> int:
        """The records of some ranges of the pipeline."""
        found = 0
        for r in ranges:
            if r.start < r.end:
                key = (pipeline, r.topic_id, r.partition)
                base = self._bases.get(key)
                if base is None:
                    base = self._bases[key] = STRIDE * len(self._bases)
                found |= ((1 << (r.end - r.start)) - 1) << (base + r.start)
        return found

    def all_of(self, pipeline: str) -> int:
        """Every record of a pipeline that was ever read."""
        whole = (1 << STRIDE) - 1
        return sum(whole << base for (name, _, _), base in self._bases.items() if name == pipeline)

    def of_partitions(self, pipeline: str, partitions: Collection[tuple[str, int]]) -> int:
        """Every record of some partitions, whatever the ids of their topics are."""
        whole = (1 << STRIDE) - 1
        return sum(
            whole << base
            for (name, topic_id, partition), base in self._bases.items()
            if name == pipeline and (topic_id.rpartition("-")[0], partition) in partitions
        )

    def of_former(self, pipeline: str, topic: str, topic_id: str) -> int:
        """Every record of the topics that had a topic's name before."""
        whole = (1 << STRIDE) - 1
        return sum(
            whole << base
            for (name, known, _), base in self._bases.items()
            if name == pipeline and known != topic_id and known.rpartition("-")[0] == topic
        )

    def names(self, rows: int) -> str:
        """Some records in words."""
        found = []
        for (pipeline, topic_id, partition), base in self._bases.items():
            part = (rows >> base) & ((1 << STRIDE) - 1)
            offsets = [n for n in range(STRIDE) if part >> n & 1]
            if offsets:
                found.append(f"{pipeline} {topic_id}-{partition} {offsets}")
        return "; ".join(found)


class Missing(Exception):
    """A file is not in the store."""


class Store:
    """Files by the folder of their table, each with when it was written by the store's clock, and its size."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.folders: dict[str, dict[str, int]] = {}
        self._made = 0

    def write(self, root: str, name: str) -> str:
        """The path of a new file; names are made once."""
        self._made += 1
        path = f"{root}/{self._made}-{name}"
        self.folders.setdefault(root, {})[path] = self.time.now_ms
        return path

    def holds(self, path: str) -> bool:
        return path in self.folders.get(root_of(path), ())

    def remove(self, path: str) -> None:
        """Raises FileNotFoundError where it is gone already."""
        if self.folders.get(root_of(path), {}).pop(path, None) is None:
            raise FileNotFoundError(path)

    def files(self, root: str) -> list[StoredFile]:
        return [StoredFile(path, path, 1, written_ms) for path, written_ms in self.folders.get(root, {}).items()]


def root_of(path: str) -> str:
    return path.rpartition("/")[0]
