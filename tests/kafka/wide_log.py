"""A control log of a pipeline with many tables, as drivers and coordinators write it: for tests of who reads it."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import (
    Accounting,
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Health,
    SourceRange,
    StateChanged,
    Subject,
    TableCommitPolicy,
)
from framework.commit.offsets import encode_metadata
from framework.plan.compile import coordinator_group, group_id, transactional_id
from tests.conftest import Broker

ROWS = 10  # of each announcement
COORDINATOR = "coordinator-of-this-test"
RUN = "run-of-this-test"


class WideLog:
    """One pipeline whose batches have an announcement for each table."""

    def __init__(self, broker: Broker, prefix: str, control_topic: str, tables: int, pipeline: str = "wide") -> None:
        self.kafka = {"bootstrap.servers": broker.bootstrap_servers}
        self.admin = KafkaAdmin(self.kafka)
        self.pipeline, self.prefix, self.control_topic = pipeline, prefix, control_topic
        self.names = [f"shop.t{number:04}" for number in range(tables)]
        self.topic = broker.new_topic("wide")
        broker.produce(self.topic, ["{}"] * 5)
        ensure_control_topic(self.admin, control_topic)
        self.batch, self.end = 0, 0

    def announce(self) -> int:
        """One batch for every table; gives where the log ends behind it."""
        self.batch += 1
        topic_id = self.admin.topics([self.topic])[self.topic].topic_id
        start, end = self.end, self.end + 1
        ranges = (SourceRange(self.topic, topic_id, 0, start, end, now_ms()),)
        sizes = {str(column): 100 for column in range(1, 9)}
        bounds = {str(column): "AAAAAAAAAAA=" for column in range(1, 9)}
        policy = TableCommitPolicy(1_000, 1 << 40, 1 << 40)
        events: list[ControlEvent] = []
        for name in self.names:
            path = f"s3://warehouse-of-the-shop/shop.db/{name}/data/{self.batch}-00000-{name}.parquet"
            file = DataFile(path, ROWS, 1_000, 0, (), sizes, sizes, sizes, {}, bounds, bounds)
            events.append(DataWritten(self.pipeline, RUN, self.batch, name, f"uuid-{name}", 0, (file,), ranges, policy))
        total = Accounting(offsets=end, written=end, rows=end * len(self.names))
        events.append(DataComplete(self.pipeline, RUN, self.batch, ranges, Accounting(1, 1), total, tuple(self.names)))
        producer = PipelineProducer(
            self.kafka,
            transactional_id(self.prefix, self.pipeline),
            group_id(self.prefix, self.pipeline),
            self.control_topic,
        )
        producer.start()
        try:
            metadata = encode_metadata(topic_id, self.batch, total, RUN)
            after = producer.announce(events, {(self.topic, 0): (end, metadata)})
        finally:
            producer.close()
        self.end = end
        return after

    def commit(self, through: int, but: frozenset[str] = frozenset()) -> None:
        """What a coordinator says after it has committed everything below `through`, but of some tables."""
        events: list[ControlEvent] = [
            CommitToTable(name, f"uuid-{name}", 7_000 + n, f"c{n}", through, ROWS, 1, now_ms(), now_ms() - 5_000)
            for n, name in enumerate(self.names)
            if name not in but
        ]
        self.tell(*events)
        if not but:
            self.tell(
                CommitComplete(COORDINATOR, through, now_ms(), valid_through_ms={self.pipeline: now_ms() - 5_000})
            )
            self.store_low_water(through)

    def table_state(self, name: str, state: Health, reason: str, code: str) -> None:
        reported = StateChanged(
            Subject.TABLE, name, state, reason, "the remedy", code, 1, now_ms(), now_ms(), COORDINATOR
        )
        self.tell(reported)

    def tell(self, *events: ControlEvent) -> None:
        publisher = ControlPublisher(self.kafka, self.control_topic)
        publisher.publish(events)
        publisher.close()

    def store_low_water(self, offset: int, topic_id: str = "") -> None:
        topic_id = topic_id or self.admin.topics([self.control_topic])[self.control_topic].topic_id
        group = coordinator_group(self.prefix, self.control_topic)
        consumer = Consumer({**self.kafka, "group.id": group})
        metadata = f'{{"topic_id":"{topic_id}","chain_from":{offset}}}'
        consumer.commit(offsets=[TopicPartition(self.control_topic, 0, offset, metadata)], asynchronous=False)
        consumer.close()


def now_ms() -> int:
    return int(time.time() * 1000)
