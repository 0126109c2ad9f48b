"""The streaming data source `floe`: it lets Spark know when there is a batch, and how far that goes.

In: the options `offer` (a file in which the driver states how far the next batch goes) and `start` (where the query
begins). Out: offsets, and no rows: what a batch reads is what the driver offered, and `framework.task.stage` reads it.
The planner runs in a process of its own and keeps no state: pause, drain and limits reach it through the offer alone,
because `latestOffset()` gets neither a start nor a limit. Keeps invariant 2: a batch starts where the query said.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from framework.adapters.host.private_files import touch_private, write_private
from framework.commit.offsets import PartitionKey

Offsets = dict[str, dict[str, int]]
POLL_S = 0.01
POLLS = 20


def to_offsets(positions: Mapping[PartitionKey, int]) -> Offsets:
    """Positions in the form of a Spark offset: topic -> partition (text) -> next offset, sorted so that equal is
    equal."""
    result: Offsets = {}
    for (topic, partition), offset in sorted(positions.items()):
        result.setdefault(topic, {})[str(partition)] = offset
    return result


def offer(offer_file: Path, ends: Mapping[PartitionKey, int]) -> None:
    """State how far the next batch may go: written by the driver, read by the planner, atomically replaced."""
    _replace(offer_file, json.dumps(to_offsets(ends)))


def is_taken(offer_file: Path, ends: Mapping[PartitionKey, int]) -> bool:
    """Whether the micro-batch that Spark runs now is the one that was offered. It calls the planner for each before it
    runs it, and a query begins with one of its own, which is empty if the offer came a moment too late for it."""
    taken = _taken_file(offer_file)
    return taken.exists() and json.loads(taken.read_text()) == to_offsets(ends)


def ready_file(offer_file: Path) -> Path:
    """The file that the planner makes once it answers: the driver starts further queries only then."""
    return offer_file.with_suffix(".ready")


def _taken_file(offer_file: Path) -> Path:
    return offer_file.with_suffix(".taken")


def _replace(path: Path, text: str) -> None:
    write_private(path, text)


class FloeStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    def __init__(self, options: dict[str, str]) -> None:
        self._offer = Path(options["offer"])
        self._start: Offsets = json.loads(options["start"])
        self._seen = ""

    def initialOffset(self) -> Offsets:
        touch_private(ready_file(self._offer))
        return self._start

    def latestOffset(self) -> Offsets:
        """The offered end. Waits a moment for a new offer, so that an idle query does not spin."""
        for _ in range(POLLS):
            text = self._offer.read_text()
            if text != self._seen:
                self._seen = text
                _replace(_taken_file(self._offer), text)
                break
            time.sleep(POLL_S)
        ends: Offsets = json.loads(self._seen)
        return ends

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        return iter(())

    def commit(self, end: Offsets) -> None:
        """Nothing: the safe offset is committed in the announcing transaction (invariant 1)."""


class NothingReader(DataSourceReader):  # type: ignore[misc]
    """No rows. Read once while a session starts, so that Spark's helper processes are there when the first batch
    comes."""

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
        return "nothing string"

    def reader(self, schema: object) -> NothingReader:
        return NothingReader()

    def streamReader(self, schema: object) -> FloeStreamReader:
        return FloeStreamReader(dict(self.options))
