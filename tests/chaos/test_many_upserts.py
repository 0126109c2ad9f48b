"""Millions of changes over far fewer keys, with random kill -9 of driver, coordinator and broker, read by three readers.

The seed is printed and read from FLOE_CHAOS_SEED, the number of changes from FLOE_CHAOS_CHANGES, that of kills from
FLOE_CHAOS_KILLS. The oracle is a dictionary that is filled while the changes are produced; nothing is killed meanwhile.
"""

from __future__ import annotations

import json
import os
import random
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testbed.servers.spark_reader import java_read
from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.chaos]

CHANGES, KILLS = 1_000_000, 6
CHANGES_PER_KEY = 10
PARTITIONS = 4
REGIONS = ("eu", "us", "ap")
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, op: {{type: string}}, region: {{type: string}}, n: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], key_index: always, delete_when: {{field: op, equals: d}}}}
        create: {{partition_by: [region], properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""


def region_of(number: int) -> str:
    return REGIONS[zlib.crc32(str(number).encode()) % len(REGIONS)]


class Changes:
    """Random changes in the order of the source, and what they leave: by key the number of the last one. Keys that were
    deleted come back."""

    def __init__(self, broker: FragileBroker, topic: str, keys: int, seed: int) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        self._topic, self._keys, self._chance = topic, keys, random.Random(seed)
        self.produced = 0
        self.left: dict[int, int] = {}

    def produce(self, until: int) -> None:
        """So many in all; the broker has them when this returns."""
        for number in range(self.produced, until):
            key = self._chance.randrange(self._keys)
            deletes = self._chance.random() < 0.2
            change = {"id": key, "op": "d" if deletes else "u", "region": region_of(number), "n": number}
            while True:
                try:
                    self._producer.produce(self._topic, json.dumps(change).encode(), str(key).encode())
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if number % 10_000 == 0:
                self._producer.poll(0)
            if deletes:
                self.left.pop(key, None)
            else:
                self.left[key] = number
        assert self._producer.flush(300) == 0
        self.produced = until


@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("version", ["3"])
def test_millions_of_changes_leave_what_a_fold_leaves(
    tmp_path: Path, fragile_broker: FragileBroker, version: str
) -> None:
    """Inserts, updates, deletes, keys that come back and rows that move to another partition, through random deaths of
    every process: PyIceberg, Spark and Iceberg's Java library read the newest row of each key, and no other."""
    seed = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    changes = int(os.environ.get("FLOE_CHAOS_CHANGES") or CHANGES)
    kills = int(os.environ.get("FLOE_CHAOS_KILLS") or KILLS)
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_CHANGES={changes} FLOE_CHAOS_KILLS={kills}")
    began = time.monotonic()
    chance = random.Random(seed)
    project = Project(tmp_path, fragile_broker.bootstrap_servers)
    topic = fragile_broker.new_topic("many", partitions=PARTITIONS)
    source = Changes(fragile_broker, topic, changes // CHANGES_PER_KEY, seed)
    left = source.left
    file = project.pipeline("many", PIPELINE.format(topic=topic, version=version))
    commands: dict[str, tuple[str | Path, ...]] = {
        "driver": ("run", file),
        "coordinator": ("coordinator", "--control-topic", project.control_topic),
    }
    story: list[str] = []
    alive: dict[str, Running] = {}
    try:
        for name, command in commands.items():
            alive[name] = Running(project, *command)
        for number in range(1, kills + 1):
            # A share before each kill: all at once would be done before the last ones.
            source.produce(changes * number // kills)
            alive["driver"].wait_for_output("announced in")
            time.sleep(chance.uniform(0.0, 3.0))
            victim = chance.choice(["driver", "coordinator", "broker"])
            story.append(victim)
            if victim == "broker":
                fragile_broker.kill()
                fragile_broker.restart()
            elif alive[victim].running:
                alive[victim].kill()
            for name, run in list(alive.items()):
                if not run.running:
                    assert name == victim or "error[FLOE-" in run.output, f"{name}: {run.output}"
                    run.__exit__()
                    alive[name] = Running(project, *commands[name])
        for run in alive.values():
            run.terminate()
        project.run("run", file, "--until-caught-up", timeout_s=1800)
    finally:
        for run in alive.values():
            run.__exit__()

    found = project.table("shop.orders").select(["id", "region", "n"]).sort_by("id")
    assert len(found) == len(left)
    assert dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True)) == left
    assert found["region"].to_pylist() == [region_of(number) for number in found["n"].to_pylist()]
    query = "SELECT count(*) AS rows, sum(crc32(concat_ws('|', id, region, n))) AS sum FROM `default`.shop.orders"
    read = java_read(project.catalog_settings, [query], ["shop.orders"], timeout_s=1200)
    sums = (zlib.crc32(f"{key}|{region_of(number)}|{number}".encode()) for key, number in left.items())
    assert read.rows[0] == [{"rows": len(left), "sum": sum(sums)}]
    assert read.counts == {"shop.orders": len(left)}
    deaths = ", ".join(f"{number} of the {name}" for name, number in sorted(Counter(story).items()))
    print(
        f"seed {seed}, version {version}: {changes:,} changes, {len(story)} kills ({deaths}), {len(left):,} rows, "
        f"{(time.monotonic() - began) / 60:.0f} min"
    )
