"""Millions of changes over far fewer keys, with random kill -9 of driver, coordinator and broker, read by three readers.

The seed is printed and read from FLOE_CHAOS_SEED, the number of changes from FLOE_CHAOS_CHANGES, that of kills from
FLOE_CHAOS_KILLS. The oracle is a dictionary that is filled while the changes are produced, before anything is killed.
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


def produce(broker: FragileBroker, topic: str, changes: int, seed: int) -> dict[int, int]:
    """Fill the topic; by key the number of the change that is left of it. Keys that were deleted come back."""
    chance = random.Random(seed)
    keys = changes // CHANGES_PER_KEY
    settings = {"enable.idempotence": True, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    left: dict[int, int] = {}
    for number in range(changes):
        key = chance.randrange(keys)
        deletes = chance.random() < 0.2
        change = {"id": key, "op": "d" if deletes else "u", "region": region_of(number), "n": number}
        while True:
            try:
                producer.produce(topic, json.dumps(change).encode(), str(key).encode())
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
        if deletes:
            left.pop(key, None)
        else:
            left[key] = number
    assert producer.flush(300) == 0
    return left


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
    left = produce(fragile_broker, topic, changes, seed)
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
        for _ in range(kills):
            alive["driver"].wait_for_output("announced in")
            time.sleep(chance.uniform(0.0, 5.0))
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
