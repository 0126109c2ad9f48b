"""Puts a fixed sequence of records into a topic exactly once, however often it is called.

Records with their partitions come in; the missing ones are written. An idempotent producer writes each partition's
records in order, so the records that a partition already holds are the first of its sequence: an interrupted replay
resumes after them, a complete one writes nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from framework.diagnose.counted import counted
from framework.errors import SetupError

_NOT_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)
Record = tuple[int, bytes, bytes]
_WIPE = "floe local down --wipe, then run the command again; this deletes all topics and tables of the embedded stack"


def ensure_topic(bootstrap_servers: str, topic: str, partitions: int) -> None:
    """Creates a topic that keeps its records for ever, or checks that the one there has as many partitions.

    Raises:
        SetupError: it has another number of partitions.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config={"retention.ms": "-1"})
    try:
        admin.create_topics([wanted])[topic].result(timeout=30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        there = len(admin.list_topics(topic, timeout=30).topics[topic].partitions)
        if there != partitions:
            message = f"topic {topic} has {counted(there, 'partition')}, but the demo's has {partitions}"
            raise SetupError(message, code="FLOE-E027", place=bootstrap_servers, remedy=_WIPE) from error


def counts(bootstrap_servers: str, topic: str, partitions: int) -> list[int]:
    """How many records were ever written to each partition (without transactions, so an offset is a record)."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "floe-demo", "enable.auto.commit": False})
    try:
        return [_end(consumer, TopicPartition(topic, number)) for number in range(partitions)]
    finally:
        consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + 30
    while True:
        try:
            _, high = consumer.get_watermark_offsets(partition, timeout=30)
            return int(high)
        except KafkaException as error:
            # For a moment after its creation a topic is listed and its partitions have no leader yet.
            if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def replay(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    records: Callable[[], Iterable[Record]],
    total: int,
    advance: Callable[[int], None],
) -> int:
    """Writes what the topic does not hold yet of `total` records, waits until the broker has it, and checks the sum.

    Args:
        records: gives the whole sequence; called only when something is missing.
        advance: called with how many records more are done, those that were there already included.

    Returns:
        How many records were written now.

    Raises:
        SetupError: the topic holds other records too, or the broker refused some.
    """
    ensure_topic(bootstrap_servers, topic, partitions)
    there = counts(bootstrap_servers, topic, partitions)
    if sum(there) > total:
        message = f"topic {topic} holds {counted(sum(there), 'record')}, but the demo's holds {total:,}"
        raise SetupError(message, code="FLOE-E027", place=bootstrap_servers, remedy=_WIPE)
    advance(sum(there))
    if sum(there) == total:
        return 0
    _write(bootstrap_servers, topic, there, records(), advance)
    now = sum(counts(bootstrap_servers, topic, partitions))
    if now != total:
        message = f"topic {topic} holds {now:,} records after the replay, not {total:,}"
        raise SetupError(message, code="FLOE-E027", place=bootstrap_servers, remedy=_WIPE)
    return total - sum(there)


def _write(
    bootstrap_servers: str, topic: str, there: list[int], records: Iterable[Record], advance: Callable[[int], None]
) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "compression.type": "zstd",
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "log_level": 3,  # a broker that has just started answers "load in progress" first, which is no news
        }
    )
    seen: Counter[int] = Counter()
    pending = 0
    for partition, key, value in records:
        seen[partition] += 1
        if seen[partition] <= there[partition]:
            continue
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=delivered)
                break
            except BufferError:  # the local queue is full: wait until the broker has taken some of it
                producer.poll(0.1)
        pending += 1
        if pending == 5_000:
            producer.poll(0)
            advance(pending)
            pending = 0
    left = producer.flush(60)
    if failures or left:
        reason = str(failures[0]) if failures else f"{left} records were not acknowledged within 60 s"
        message = f"the broker did not accept all records of topic {topic}: {reason}"
        raise SetupError(message, code="FLOE-E027", place=bootstrap_servers, remedy="run the command again; it resumes")
    advance(pending)
