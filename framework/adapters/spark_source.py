"""The streaming data source `floe`: plans offset ranges and hands each task the spans it must read.

In: the options `offer` (a file in which the driver states how far the next batch goes) and `start` (where the query
begins). Out: one row a task, holding its spans as JSON; `framework.adapters.spark_stage` does the work in the same stage.
The planner runs in a process of its own and keeps no state: pause, drain and limits reach it through the offer alone,
because `latestOffset()` gets neither a start nor a limit. Keeps invariant 2: a batch starts where the query said.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from framework.commit.offsets import PartitionKey, Span, cut_tasks

Offsets = dict[str, dict[str, int]]
POLL_S = 0.01
POLLS = 20


def to_offsets(positions: dict[PartitionKey, int]) -> Offsets:
    """Positions in the form of a Spark offset: topic -> partition (text) -> next offset, sorted so that equal is equal."""
    result: Offsets = {}
    for (topic, partition), offset in sorted(positions.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result


def from_offsets(offsets: Offsets) -> dict[PartitionKey, int]:
    return {(topic, int(p)): offset for topic, partitions in offsets.items() for p, offset in partitions.items()}


@dataclass(frozen=True)
class Offer:
    """How far the next batch may go: written by the driver, read by the planner, atomically replaced."""

    starts: Offsets
    offsets: Offsets
    tasks: int
    min_records_per_task: int

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(self.__dict__, sort_keys=True))
        os.replace(temporary, path)

    @staticmethod
    def read(path: Path) -> Offer:
        return Offer(**json.loads(path.read_text()))


def ready_file(offer_file: Path) -> Path:
    """The file that the planner makes once it answers: the driver starts further queries only then."""
    return offer_file.with_suffix(".ready")


class TaskSpans(InputPartition):  # type: ignore[misc]
    """What one task reads."""

    def __init__(self, spans: list[Span]) -> None:
        super().__init__([(s.topic, s.partition, s.start, s.end) for s in spans])


class FloeStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: dict[str, str]) -> None:
        self._offer = Path(options["offer"])
        self._start: Offsets = json.loads(options["start"])
        self._seen = ""

    def initialOffset(self) -> Offsets:
        ready_file(self._offer).touch()
        return self._start

    def latestOffset(self) -> Offsets:
        """The offered end. Waits a moment for a new offer, so that an idle query does not spin."""
        for _ in range(POLLS):
            text = self._offer.read_text()
            if text != self._seen:
                self._seen = text
                break
            time.sleep(POLL_S)
        return Offer(**json.loads(text)).offsets

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        offer = Offer.read(self._offer)
        stop = from_offsets(end)
        # A partition that the query has not met before is in no Spark offset yet: it begins where the driver says.
        begin = from_offsets(offer.starts) | from_offsets(start)
        return [TaskSpans(spans) for spans in cut_tasks(begin, stop, offer.tasks, offer.min_records_per_task)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (json.dumps(partition.value),)

    def commit(self, end: Offsets) -> None:
        """Nothing: the safe offset is committed in the announcing transaction (invariant 1)."""


class NothingReader(DataSourceReader):  # type: ignore[misc]
    """No rows. Read once while a session starts, so that Spark's helper processes are there when the first batch comes."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        return iter(())


class FloeDataSource(DataSource):  # type: ignore[misc]
    """`spark.readStream.format("floe")`; registered by the driver."""

    @classmethod
    def name(cls) -> str:
        return "floe"

    def schema(self) -> str:
        return "spans string"

    def reader(self, schema: object) -> NothingReader:
        return NothingReader()

    def streamReader(self, schema: object) -> FloeStreamReader:
        return FloeStreamReader(dict(self.options))
