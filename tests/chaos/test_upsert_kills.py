"""Random kill -9 of driver, coordinator and broker over one continuous flow of changes into a table that follows its
keys.

The seed is printed and read from FLOE_CHAOS_SEED, the number of kills from FLOE_CHAOS_KILLS. The oracle is a
dictionary, filled from the topic itself: what a producer sent while the broker was down may be there twice or not at
all.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import Running
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

KILLS = 20
PARTITIONS = 3
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, op: {{type: string}}, region: {{type: string}}, n: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], order: {order}, delete_when: {{field: op, equals: d}}}}
        create: {{partition_by: [region], properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
Document = dict[str, Any]


class Flow:
    """Keeps writing changes to a topic, through every outage of the broker, until it is told to stop. With `disorder` to
    any partition, and a tenth of them later than others."""

    def __init__(self, broker: FragileBroker, topic: str, chance: random.Random, disorder: bool = False) -> None:
        self.disorder = disorder
        self.pause = threading.Lock()
        self._stop = threading.Event()
        self._arguments = broker, topic, chance
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        broker, topic, chance = self._arguments
        number = 0
        late: list[Document] = []
        while not self._stop.wait(0.3):
            documents, late = late, []
            for _ in range(200):
                number += 1
                key = chance.randrange(2_000)
                op, region = chance.choice("uuuud"), chance.choice(["eu", "us", "ap"])
                is_late = self.disorder and chance.random() < 0.1
                (late if is_late else documents).append({"id": key, "op": op, "region": region, "n": number})
            if self.disorder:
                chance.shuffle(documents)
            keys = [str(chance.random() if self.disorder else each["id"]) for each in documents]
            with self.pause, contextlib.suppress(AssertionError):
                broker.produce(topic, documents, keys=keys)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)


def topic_as_it_is(bootstrap_servers: str, topic: str, by_n: bool = False) -> tuple[int, dict[int, Document]]:
    """How many changes the topic holds, and the row of each key behind them: of its largest `n`, or of the last one, for
    which a key is in one partition alone."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oracle",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    rows: dict[int, Document] = {}
    home: dict[int, int] = {}
    count = 0
    try:
        for partition in range(PARTITIONS):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, "the broker does not answer"
                if message.error():
                    break  # the partition's end
                count += 1
                document = json.loads(message.value())
                assert by_n or home.setdefault(document["id"], partition) == partition
                if not by_n or document["n"] >= rows.get(document["id"], document)["n"]:
                    rows[document["id"]] = document
    finally:
        consumer.close()
    return count, {key: row for key, row in rows.items() if row["op"] != "d"}


def run_kills(tmp_path: Path, broker: FragileBroker, kills: int, seed: int, version: str, order: str) -> None:
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_KILLS={kills}")
    began = time.monotonic()
    chance = random.Random(seed)
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("changes", partitions=PARTITIONS)
    file = project.pipeline("changes", PIPELINE.format(topic=topic, version=version, order=order))
    commands: dict[str, tuple[str | Path, ...]] = {
        "driver": ("run", file),
        "coordinator": ("coordinator", "--control-topic", project.control_topic),
    }
    started: list[Running] = []
    alive: dict[str, Running] = {}
    story: list[str] = []

    def start(name: str) -> None:
        alive[name] = Running(project, *commands[name])
        started.append(alive[name])

    by_n = order != "source"
    flow = Flow(broker, topic, random.Random(seed + 1), disorder=by_n)
    try:
        for name in commands:
            start(name)
        alive["driver"].wait_for_output("batch 1:")
        for number in range(kills):
            victim = chance.choice(["driver", "coordinator", "broker"]) if number else "driver"
            time.sleep(chance.uniform(0.0, 4.0))
            story.append(victim)
            if victim == "broker":
                with flow.pause:
                    broker.kill()
                    broker.restart()
            elif alive[victim].running:
                alive[victim].kill()
            for name, run in list(alive.items()):
                if not run.running:
                    assert name == victim or "error[FLOE-" in run.output, f"{name}: {run.output}"
                    start(name)
            if victim == "driver":
                alive["driver"].wait_for_output("announced in")
        flow.stop()
        for run in alive.values():
            run.terminate()
        project.run("run", file, "--until-caught-up", timeout_s=600)
    finally:
        flow.stop()
        for run in started:
            run.__exit__()
    count, rows = topic_as_it_is(broker.bootstrap_servers, topic, by_n)
    found = project.table("shop.orders").select(["id", "op", "region", "n"]).to_pylist()
    assert len(found) == len({row["id"] for row in found}), "two rows of one key"
    assert sorted(found, key=lambda row: row["id"]) == [rows[key] for key in sorted(rows)]
    assert project.tables("shop") == ["shop.orders"]
    deaths = ", ".join(f"{number} of the {name}" for name, number in sorted(Counter(story).items()))
    print(
        f"seed {seed}, version {version}, order {order}: {len(story)} kills ({deaths}) in "
        f"{(time.monotonic() - began) / 60:.0f} min, {count} changes, {len(rows)} rows as in the topic"
    )


@pytest.mark.chaos
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize(
    ("version", "order"),
    [
        pytest.param("2", "source", id="2"),
        pytest.param("3", "source", id="3"),
        pytest.param("2", "{field: n}", id="2-by-a-column"),
    ],
)
def test_a_table_follows_its_keys_through_random_kills(
    tmp_path: Path, fragile_broker: FragileBroker, version: str, order: str
) -> None:
    """Twenty deaths (FLOE_CHAOS_KILLS) of driver, coordinator and broker: the table has the newest row of each key, and
    no other, also where a column says which of records in any order is the newest."""
    seed = int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
    run_kills(tmp_path, fragile_broker, int(os.environ.get("FLOE_CHAOS_KILLS") or KILLS), seed, version, order)
