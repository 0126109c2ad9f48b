"""Updates that lack values, and records that hold several changes, through random kill -9 of driver and coordinator.

The seed is printed and read from FLOE_CHAOS_SEED, the number of changes from FLOE_CHAOS_CHANGES, that of kills from
FLOE_CHAOS_KILLS. One driver runs three pipelines: updates without the columns that did not change, Debezium's placeholders,
and exploded records in a table that is appended to, one that is upserted, and its history. What Spark reads is compared, row
by row, with folds that were made while the changes were produced.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testbed.servers.spark_reader import java_read
from tests.chaos.harness import Running
from tests.conftest import Broker
from tests.project import Project
from tests.spark import test_explode as exploded
from tests.spark import test_partial_updates as partial

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

CHANGES, KILLS = 40_000, 4
CHANGES_PER_KEY = 20
# What is produced between two kills comes in so many pieces, so that a run has many batches.
PIECES = 8
# A kill comes within the time in which so many changes a second would be written, or a little more.
PACE, LEAST_S = 5_000, 3.0
PATIENCE_S = 1800.0
Document = dict[str, Any]
PEOPLE = pa.schema(
    {"id": pa.int64(), "n": pa.int64(), "region": pa.string(), "bio": pa.string(), "pic": pa.string()}
    | {"tags": pa.list_(pa.string())}
)
PLACE = {"p": pa.int32(), "o": pa.int64(), "i": pa.int32()}
ELEMENT = {"id": pa.int64(), "n": pa.int64(), "region": pa.string()}
_PLACE = "_kafka_partition, _kafka_offset, _kafka_index"
# By table: what is read of it.
READ = {
    "partial": "id, n, region, bio, base64(pic), tags",
    "unavailable": "id, n, region, bio, base64(pic), tags",
    "log": f"{_PLACE}, id, n, meta.region, op",
    "people": f"{_PLACE}, id, n, meta.region",
    "people_history": f"{_PLACE}, id, _op",
    "dead_letters": "partition, offset",
}


class Streams:
    """The changes of all topics, and the tables that they make."""

    def __init__(self, project: Project, broker: Broker, seed: int, changes: int) -> None:
        self._project, self._broker, self._seed = project, broker, seed
        self._keys = changes // 4 // CHANGES_PER_KEY
        self._topics = {name: broker.new_topic(name, partitions=2) for name in ("partial", "unavailable", "arrays")}
        self._rows: dict[str, partial.Rows] = {"partial": {}, "unavailable": {}}
        self._expected = exploded.Expected()
        self.produced = 0

    def files(self) -> Iterator[Path]:
        for name in self._rows:
            words = {"table": f"shop.{name}", "updates": "partial" if name == "partial" else "full", "version": "2"}
            text = partial.PIPELINE.format(topic=self._topics[name], deletes="auto", **words)
            yield self._project.pipeline(name, text)
        yield self._project.pipeline(
            "arrays", exploded.PIPELINE.format(topic=self._topics["arrays"], version="3", path="$")
        )

    def produce(self, count: int) -> None:
        """So many changes, half of them as elements of arrays; the broker has them when this returns."""
        self._seed += 1
        for name, rows in self._rows.items():
            documents = partial.changes(self._seed, -(-count // 4), name == "partial", self._keys)
            partial.produce(self._broker, self._topics[name], documents)
            partial.fold(rows, documents, name == "partial")
            self.produced += len(documents)
        elements = 0
        drawn = []
        for partition, record in exploded.records(self._seed, count, self._keys):
            if elements >= count // 2:
                break
            elements += len(record)
            drawn.append((partition, record))
            self._expected.add(partition, record)
        for partition, some in exploded.by_partition(drawn).items():
            self._broker.produce(self._topics["arrays"], some, partition=partition)
        self.produced += elements

    def tables(self) -> dict[str, pa.Table]:
        """The rows that each table must have, in the columns of `READ`."""
        folded = self._expected
        log = [(*at, *exploded.sent(one)) for at, one in folded.log.items()]
        people = [(*at, *exploded.sent(one)[:3]) for at, one in folded.people.values()]
        history = [(*row[:4], "delete" if row[6] == "d" else "upsert") for row in log]
        rows = {name: pa.Table.from_pylist([*held.values()], schema=PEOPLE) for name, held in self._rows.items()}
        return rows | {
            "log": _table(log, {**PLACE, **ELEMENT, "op": pa.string()}),
            "people": _table(people, {**PLACE, **ELEMENT}),
            "people_history": _table(history, {**PLACE, "id": pa.int64(), "op": pa.string()}),
            "dead_letters": _table([*folded.dead_letters], {"p": pa.int32(), "o": pa.int64()}),
        }


def _table(rows: list[tuple[Any, ...]], columns: dict[str, pa.DataType]) -> pa.Table:
    arrays = zip(*rows, strict=True) if rows else [[] for _ in columns]
    return pa.table([pa.array(each, kind) for each, kind in zip(arrays, columns.values(), strict=True)], [*columns])


def differences(project: Project, wanted: dict[str, pa.Table]) -> dict[str, list[dict[str, object]]]:
    """By table some of the rows that it has and must not have, or has too often, and some of those that it lacks."""
    queries: dict[str, str] = {}
    for name, rows in wanted.items():
        file = project.root / f"wanted-{name}.parquet"
        pq.write_table(rows, file)
        found, must = f"SELECT {READ[name]} FROM `default`.shop.{name}", f"SELECT * FROM parquet.`{file}`"
        queries[f"{name} has"] = f"({found}) EXCEPT ALL ({must}) LIMIT 5"
        queries[f"{name} lacks"] = f"({must}) EXCEPT ALL ({found}) LIMIT 5"
        queries[f"{name} count"] = f"SELECT n FROM (SELECT count(*) AS n FROM ({found})) WHERE n != {len(rows)}"
    read = java_read(project.catalog_settings, [*queries.values()], timeout_s=PATIENCE_S).rows
    return {name: rows for name, rows in zip(queries, read, strict=True) if rows}


@pytest.mark.failure("F71")
@pytest.mark.timeout(3 * 3600)
def test_what_updates_lack_and_each_element_are_there_through_random_kills(tmp_path: Path, broker: Broker) -> None:
    """A driver and a coordinator that are killed at random while changes come: each table is what a fold of all changes
    gives, with the old value of what an update lacks, and each element of a record once."""
    seed = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    changes = int(os.environ.get("FLOE_CHAOS_CHANGES") or CHANGES)
    kills = int(os.environ.get("FLOE_CHAOS_KILLS") or KILLS)
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_CHANGES={changes} FLOE_CHAOS_KILLS={kills}", flush=True)
    began = time.monotonic()
    chance = random.Random(seed)
    project = Project(tmp_path, broker.bootstrap_servers)
    streams = Streams(project, broker, seed, changes)
    files = [*streams.files()]
    commands: dict[str, tuple[str | Path, ...]] = {
        "driver": ("run", *files),
        "coordinator": ("coordinator", "--control-topic", project.control_topic),
    }
    share = changes // (kills + 1)
    story: list[str] = []
    started: list[Running] = []
    alive: dict[str, Running] = {}

    def start(name: str) -> None:
        alive[name] = Running(project, *commands[name])
        started.append(alive[name])

    try:
        for name in commands:
            start(name)
        for number in range(kills):
            for _ in range(PIECES):
                streams.produce(share // PIECES)
                time.sleep(chance.uniform(0.0, 0.5))
            alive["driver"].wait_for_output(f"{chance.choice(files).stem}: batch ", timeout_s=PATIENCE_S)
            time.sleep(chance.uniform(0.0, max(LEAST_S, share / PACE)))
            victim = chance.choice(["driver", "coordinator"]) if number else "driver"
            story.append(victim)
            for name, run in alive.items():
                assert run.running, f"{name} ended by itself: {run.output}"
            alive[victim].kill()
            start(victim)
            print(f"{time.monotonic() - began:.0f} s: kill {number + 1}, of the {victim}", flush=True)
        streams.produce(max(0, changes - streams.produced))
        for run in alive.values():
            assert run.terminate(PATIENCE_S) in (0, 143), run.output  # 143: it had not begun
        project.run("run", *files, "--until-caught-up", timeout_s=2 * PATIENCE_S)
    finally:
        for run in started:
            run.__exit__()
    wanted = streams.tables()
    assert differences(project, wanted) == {}
    deaths = ", ".join(f"{number} of the {name}" for name, number in sorted(Counter(story).items()))
    print(
        f"seed {seed}: {streams.produced:,} changes, {len(story)} kills ({deaths}), "
        f"{', '.join(f'{len(rows):,} rows of {name}' for name, rows in wanted.items())}, "
        f"{(time.monotonic() - began) / 60:.0f} min"
    )
