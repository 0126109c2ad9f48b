"""Brokers of other versions of Kafka than the one that `floe local up` starts, each a real one.

In: a broker of that version, records, a driver that is killed before its announcement, behind it, and in a commit. Out: tables
that Spark finds exact, and what `floe doctor` and `floe status` say of that broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testbed.servers.kafka_cluster import KafkaCluster
from testbed.servers.spark_reader import java_read
from tests.chaos.checker import assert_exact, assert_sum_holds
from tests.chaos.harness import crash, fan_out, records
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]

VERSIONS = ("3.7.2", "3.9.2", "4.0.1")
TOPIC, ROWS = "orders", 1_000


@pytest.fixture(params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(tmp_path / "kafka", brokers=1, version=request.param)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def produce(cluster: KafkaCluster, start: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for number, record in enumerate(records(ROWS, start=start)):
        producer.produce(TOPIC, json.dumps(record), partition=number % 2)
    assert producer.flush(60) == 0


def test_a_broker_of_another_version_is_read_exactly(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Killed in a transaction, behind it and in a commit, then run again with more records: each record is there once. `floe
    doctor` finds nothing wrong with the broker."""
    cluster.new_topic(TOPIC, 2)
    project = Project(tmp_path, cluster.bootstrap_servers)
    file = project.pipeline("orders", fan_out(TOPIC))
    produce(cluster, 0)
    project.run("doctor", file)
    for point in ("in-transaction", "announced", "before-commit"):
        crash(project, point, "run", file, "--until-caught-up")
    produce(cluster, ROWS)
    project.run("run", file, "--until-caught-up")
    assert_exact(project.catalog(), cluster.bootstrap_servers, [TOPIC])
    status = project.status()
    assert_sum_holds(status, "orders", 2 * ROWS)
    tables = project.tables("shop")
    queries = [f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM `default`.{name}" for name in tables]
    found = [one for [one] in java_read(project.catalog_settings, queries).rows]
    assert [sum(one["n"] for one in found), sum(one["ids"] for one in found)] == [2 * ROWS, 2 * ROWS], found
