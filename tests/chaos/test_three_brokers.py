"""Three brokers that hold copies of everything: crashes, rolling restarts, frozen ones and leaderships that move, beside a
driver and a coordinator that nobody restarts.

In: a seed (FLOE_CHAOS_SEED), how many acts (FLOE_CHAOS_ACTS) and for how long at most (FLOE_CHAOS_MINUTES). Out: twenty tables
that hold what was produced, each once, and the two processes that were started at the beginning. Which broker is hurt, how,
and for how long depends on the seed alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer

from framework.adapters.kafka.admin import KafkaAdmin
from framework.errors import SetupError
from testbed.servers.kafka_cluster import KafkaCluster, Node
from tests.chaos.checker import assert_exact, assert_sum_holds, produced_positions
from tests.chaos.harness import Running, fan_out, landed, records, wait_for
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

TABLES = 20
SHORT_ACTS, LONG_ACTS = 6, 60
MINUTES = float(os.environ.get("FLOE_CHAOS_MINUTES") or "inf")
# Two at once leave too few copies in sync, and no controller: nothing can be written until one of them is back.
ACTS = {"crash": 4, "restart": 4, "freeze": 2, "elect": 3, "two": 1}


class Flow:
    """Writes a hundred records twice a second; what no quorum of brokers took is not in the topic, and is not asked for."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        count = 0
        while not self._stop.wait(0.5):
            for record in records(100, start=count, kinds=TABLES):
                self._producer.produce(self._topic, json.dumps(record))
            count += 100
            self._producer.poll(0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)
        assert self._producer.flush(120) == 0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(tmp_path / "kafka")
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def elect_preferred(cluster: KafkaCluster) -> None:
    """Each partition's first broker leads it again: leaderships move while all brokers are well."""
    cluster.admin.elect_leaders(ElectionType.PREFERRED).result(30)
    cluster.wait_for(len(cluster.nodes))


def act(cluster: KafkaCluster, chance: random.Random, kind: str) -> None:
    """One trouble, until all brokers are well again."""
    first, second = chance.sample(cluster.nodes, 2)
    pause_s = chance.uniform(0.0, 6.0)
    if kind == "elect":
        elect_preferred(cluster)
    elif kind == "freeze":
        cluster.freeze(first, 4 + pause_s)
    else:
        hurt: list[Node] = [first, second] if kind == "two" else [first]
        for node in hurt:
            cluster.end(node, signal.SIGTERM if kind == "restart" else signal.SIGKILL)
        time.sleep(pause_s)
        cluster.begin(*hurt)


def run_acts(tmp_path: Path, cluster: KafkaCluster, acts: int, seed: int) -> None:
    """A flow, a driver and a coordinator that last; `acts` troubles; then one quiet run and the check."""
    print(f"FLOE_CHAOS_SEED={seed} FLOE_CHAOS_ACTS={acts}")
    began = time.monotonic()
    chance = random.Random(seed)
    project = Project(tmp_path, cluster.bootstrap_servers)
    topic = cluster.new_topic("three-brokers", 3)
    file = project.pipeline("three", fan_out(topic))
    flow = Flow(cluster, topic)
    story: list[str] = []
    with Running(project, "run", file) as driver, contextlib.ExitStack() as stack:
        try:
            driver.wait_for_output("batch 1:")  # the control topic is there
            coordinator = Running(project, "coordinator", "--control-topic", project.control_topic)
            stack.enter_context(coordinator)
            for number in range(acts):
                if time.monotonic() - began > MINUTES * 60:
                    break
                time.sleep(chance.uniform(0.0, 4.0))
                kind = list(ACTS)[number] if number < len(ACTS) else chance.choices([*ACTS], [*ACTS.values()])[0]
                story.append(kind)
                act(cluster, chance, kind)
                for name, run in (("driver", driver), ("coordinator", coordinator)):
                    assert run.running, f"{name} ended after {story}\n{run.output}"
        finally:
            flow.stop()
        produced = produced_positions(cluster.bootstrap_servers, [topic])
        wait_for(lambda: landed(project) == len(produced), f"{len(produced)} rows by the same two processes")
        driver.terminate()
        coordinator.terminate()
    project.run("run", file, "--until-caught-up", timeout_s=600)
    verdict = assert_exact(project.catalog(), cluster.bootstrap_servers, [topic])
    done = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(story).items()))
    print(
        f"seed {seed}: {len(story)} acts ({done}) in {(time.monotonic() - began) / 60:.0f} min, {len(produced)} records in "
        f"{TABLES} tables, lost 0, twice 0, no process restarted"
    )
    assert len(project.tables("shop")) == TABLES
    assert verdict.rows == len(produced) > 0
    assert_sum_holds(project.status(), "three", len(produced))


def seed() -> int:
    return int(os.environ.get("FLOE_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))


@pytest.mark.timeout(1200)
@pytest.mark.slow
def test_six_troubles_of_three_brokers(tmp_path: Path, cluster: KafkaCluster) -> None:
    """Each kind of trouble once: nothing lost, nothing twice, and neither driver nor coordinator ends."""
    run_acts(tmp_path, cluster, SHORT_ACTS, seed())


@pytest.mark.chaos
@pytest.mark.timeout(2 * 3600)
def test_sixty_troubles_of_three_brokers(tmp_path: Path, cluster: KafkaCluster) -> None:
    """Sixty troubles (FLOE_CHAOS_ACTS): nothing lost, nothing twice, and neither driver nor coordinator ends."""
    run_acts(tmp_path, cluster, int(os.environ.get("FLOE_CHAOS_ACTS") or LONG_ACTS), seed())


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_a_broker_that_is_gone_for_good(tmp_path: Path, cluster: KafkaCluster) -> None:
    """The first broker of the target file never comes back: a live run goes on, and a run that starts later finds the others."""
    project = Project(tmp_path, cluster.bootstrap_servers)
    topic = cluster.new_topic("two-are-left", 3)
    file = project.pipeline("two", fan_out(topic))
    flow = Flow(cluster, topic)
    with Running(project, "run", file) as driver:
        driver.wait_for_output("batch 1:")
        cluster.end(cluster.nodes[0])
        cluster.wait_for(2)
        seen = driver.output.count("announced in")
        driver.wait_for_output("announced in", seen + 3)
        flow.stop()
        driver.terminate()
    project.run("run", file, "--until-caught-up", timeout_s=300)
    verdict = assert_exact(project.catalog(), cluster.bootstrap_servers, [topic])
    assert verdict.rows == len(produced_positions(cluster.bootstrap_servers, [topic]))


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_what_one_broker_does_not_answer_another_is_asked(cluster: KafkaCluster) -> None:
    """One of three brokers stands still, connections to it and all: each question is answered, also where the client sends it
    there first. With none left that answers, it is an error, no later than with one."""
    topic = cluster.new_topic("asked", 3)
    admin = KafkaAdmin({"bootstrap.servers": cluster.bootstrap_servers}, timeout_s=8)
    keys = [(topic, partition) for partition in range(3)]
    wait_for(lambda: admin.topics([topic]), "the topic on each broker")
    time.sleep(2)
    assert admin.end_offsets(keys) == dict.fromkeys(keys, 0)
    frozen = cluster.nodes[1]
    assert frozen.process is not None
    frozen.process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(12):
            assert list(admin.topics([topic])) == [topic]
            assert admin.cluster_id()
        cluster.wait_for(2)
        assert admin.end_offsets(keys) == dict.fromkeys(keys, 0)
        assert admin.replicas(topic)[0] == 3
        for node in cluster.nodes:
            assert node.process is not None
            node.process.send_signal(signal.SIGSTOP)
        with pytest.raises(SetupError, match="no answer from Kafka"):
            admin.topics([topic])
    finally:
        for node in cluster.nodes:
            assert node.process is not None
            node.process.send_signal(signal.SIGCONT)
