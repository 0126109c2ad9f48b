"""When the record at an offset was written, asked for one record at a time by whoever shows how long it waits.

In: a connection's settings and a position. Out: a time or None. It joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.client import ClientLog, build, consumer_config
from framework.adapters.kafka.control.leadership import written_at_ms
from framework.adapters.kafka.control.log import READ_GROUP_ID

TIMEOUT_S = 5.0


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
