"""A pipeline moves to another cluster whose topics Kafka's MirrorMaker has copied, with other offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from framework.local import stack
from testbed.servers.mirror import MirrorMaker
from tests.chaos.harness import wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 2
TEXT = """
    source: {{kafka: {{connection: main, topics: [{topic}], starting_offsets: earliest}}, schema: {{id: long}}}}
    routes: {{rules: [{{table: shop.moved}}], unrouted: fail}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


@pytest.fixture
def later(tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "later"
    state = stack.up(folder, kafka_port=0)
    yield Broker(folder, state.bootstrap_servers, {})
    stack.down(folder, wipe=True)


def held(broker: Broker, topic: str) -> int:
    """How many records a consumer of committed records finds."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "count", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found = ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(10)
        assert message is not None
        ended += message.error() is not None
        found += message.error() is None
    consumer.close()
    return found


def write_in_transactions(broker: Broker, topic: str, numbers: range) -> None:
    """Each record in a transaction of its own, so that a marker stands behind it."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    for number in numbers:
        producer.begin_transaction()
        producer.produce(topic, f'{{"id": {number}}}', partition=number % PARTITIONS)
        producer.commit_transaction(30)


def test_a_pipeline_moves_to_a_cluster_with_other_offsets(tmp_path: Path, broker: Broker, later: Broker) -> None:
    """Drained on the former cluster, then begun at the end of the copies: each record is in the table once. As if the offsets
    were the same is refused, since the copies end before what the tables hold."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("moved", PARTITIONS)
    write_in_transactions(broker, topic, range(40))
    file = project.pipeline("moved", TEXT.format(topic=topic))
    project.run("run", file, "--until-caught-up")
    admin = AdminClient({"bootstrap.servers": later.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    mirror = MirrorMaker(tmp_path / "mirror", broker.bootstrap_servers, later.bootstrap_servers, topic)
    try:
        wait_for(lambda: held(later, topic) == 40, "the copies", 120)
    finally:
        mirror.stop()
    ends = admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)})
    assert sum(each.result(30).offset for each in ends.values()) == 40, "markers are not copied"

    project.write_target(later.bootstrap_servers)
    assert "FLOE-R320" in project.run("run", file, "--until-caught-up", code=None)
    assert "FLOE-R317" in project.run("rebase", file, "--same-offsets", code=None)
    project.run("rebase", file, "--begin-at", "latest")
    later.produce(topic, [{"id": number} for number in range(40, 60)])
    project.run("run", file, "--until-caught-up")
    assert Counter(project.table("shop.moved").column("id").to_pylist()) == Counter(range(60))
