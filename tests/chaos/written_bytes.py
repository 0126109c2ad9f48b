"""All that a run leaves in writing, for a search by bytes: files below a folder, and what a topic holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.conftest import Broker


def files_of(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file())


def values_of(broker: Broker, topic: str) -> Iterator[bytes]:
    """Keys, values and headers of all that a topic holds."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reads-bytes"})
    for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions:
        at = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(at, timeout=30)
        consumer.assign([at])
        while consumer.position([at])[0].offset < end:
            message = consumer.poll(5)
            if message is None:
                break
            assert message.error() is None, message.error()
            headers = [value or b"" for _, value in message.headers() or ()]
            yield b"\n".join([message.key() or b"", message.value() or b"", *map(bytes, headers)])
    consumer.close()
