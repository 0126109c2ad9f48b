"""The demo's flights for tests: topics filled with them, the project's own pipeline file on those topics, what must
land.

In: a broker. Out: `Flights`, with the number of records for every table, worked out from the source data alone.
`FLOE_FLIGHTS` takes that many records of each topic; without it all 336,776 flights are taken.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from framework.local import nycflights
from framework.local.fill_topic import Record, replay
from framework.local.nycflights import DemoTopic
from tests.conftest import Broker
from tests.project import Project

NAMESPACE = "flights_by_carrier"
PIPELINE = Path(__file__).parent.parent / "pipelines" / "flights.yaml"


@dataclass(frozen=True)
class Flights:
    """Two topics; `rows` and `distance` (the miles that a table's flights went) by table, the weather's without
    miles."""

    flights: str
    weather: str
    rows: Mapping[str, int]
    distance: Mapping[str, int]

    @property
    def topics(self) -> list[str]:
        return [self.flights, self.weather]

    @property
    def carriers(self) -> list[str]:
        return sorted(self.distance)

    @property
    def count(self) -> int:
        return sum(self.rows[name] for name in self.carriers)


def limit() -> int:
    return int(os.environ.get("FLOE_FLIGHTS") or nycflights.FLIGHTS.records)


def fill(broker: Broker) -> Flights:
    """Fills two new topics."""
    rows: Counter[str] = Counter()
    distance: Counter[str] = Counter()
    for _, _, value in _records(nycflights.FLIGHTS):
        flight = json.loads(value)
        table = f"{NAMESPACE}.carrier_{flight['carrier'].lower()}"
        rows[table] += 1
        distance[table] += flight["distance"]
    rows[f"{NAMESPACE}.weather"] = min(nycflights.WEATHER.records, limit())
    return Flights(_fill(broker, nycflights.FLIGHTS), _fill(broker, nycflights.WEATHER), rows, distance)


def _records(topic: DemoTopic) -> Iterator[Record]:
    return islice(nycflights.records(nycflights.fetch(print), topic), limit())


def _fill(broker: Broker, topic: DemoTopic) -> str:
    name = broker.new_topic(topic.name, partitions=topic.partitions)
    total = min(topic.records, limit())
    replay(broker.bootstrap_servers, name, topic.partitions, lambda: _records(topic), total, lambda _: None)
    return name


def flights_pipeline(project: Project, flights: Flights, partition_by: str = "day(time_hour)") -> Path:
    """The project's own file on these topics, with the Kafka position of each record as columns."""
    text = PIPELINE.read_text(encoding="utf-8").partition("\ntests:")[0]
    for old, new in (
        ("topics: [flights, weather]", f"topics: [{flights.flights}, {flights.weather}]"),
        ("format: {type: json}", "format: {type: json}\n  metadata_columns: [topic, partition, offset]"),
        ("^weather$", f"^{flights.weather}$"),
        ("control-iceberg", project.control_topic),
        ("day(time_hour)", partition_by),
    ):
        assert old in text, old
        text = text.replace(old, new)
    path = project.root / "pipelines" / "flights.yaml"
    path.write_text(text, encoding="utf-8")
    return path
