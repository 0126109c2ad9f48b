"""When the record at an offset was written, asked for one record at a time by whoever shows how long it waits.

In: a connection's settings and a position. Out: a time or None. It joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.client import ClientLog, build, consumer_config
from framework.adapters.kafka.control.leadership import written_at_ms
from framework.adapters.kafka.control.log import READ_GROUP_ID
from framework.commit.offsets import PartitionKey

TIMEOUT_S = 5.0
# Of many records at once: what is shown must not wait for one of them.
MANY_TIMEOUT_S = 2.0

Place = tuple[PartitionKey, int]


def record_time_ms(settings: Mapping[str, str], topic: str, partition: int, offset: int) -> int | None:
    """The time of the first record at or behind the offset; None where none came, or it has no time."""
    consumer = build(Consumer, settings, consumer_config(settings, ClientLog(), READ_GROUP_ID, fetch_wait_max_ms=100))
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        limit = time.monotonic() + TIMEOUT_S
        while time.monotonic() < limit:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                return written_at_ms(message)
        return None
    finally:
        consumer.close()


def record_times_ms(settings: Mapping[str, str], places: Sequence[Place]) -> dict[Place, int]:
    """The times of the first records at or behind many places, as many as come soon. Places in one partition are asked one
    after the other."""
    found: dict[Place, int] = {}
    todo = list(dict.fromkeys(places))
    consumer = build(Consumer, settings, consumer_config(settings, ClientLog(), READ_GROUP_ID, fetch_wait_max_ms=100))
    limit = time.monotonic() + MANY_TIMEOUT_S
    try:
        while todo and time.monotonic() < limit:
            asked = dict(reversed(todo))  # one place of each partition
            consumer.assign([TopicPartition(*key, offset) for key, offset in asked.items()])
            left = set(asked)
            while left and time.monotonic() < limit:
                message = consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                key = (str(message.topic()), int(message.partition() or 0))
                if key in left:
                    left.remove(key)
                    at_ms = written_at_ms(message)
                    if at_ms is not None:
                        found[key, asked[key]] = at_ms
            todo = [place for place in todo if asked.get(place[0]) != place[1]]
    finally:
        consumer.close()
    return found
