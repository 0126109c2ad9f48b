"""A look at a topic: the newest few records, for people who are about to write a pipeline or a test for it.

In: a connection and a topic. Out: the records, or their values. Read through the same fetcher as a run's; no group, no
offset and nothing else is left behind on the broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.fetch import RangeFetcher
from framework.errors import SetupError
from framework.record.model import RecordBlock, TaskRange


def newest_values(settings: Mapping[str, str], topic: str, count: int) -> list[bytes]:
    """Values of the newest records, up to `count`, taken evenly from all partitions; tombstones are passed over.

    Raises:
        SetupError: as `newest_records`.
    """
    blocks = newest_records(settings, topic, count)
    return [value for block in blocks for value in block.values if value is not None][:count]


def newest_records(settings: Mapping[str, str], topic: str, count: int) -> list[RecordBlock]:
    """The newest records, at least `count` where the topic has so many, evenly from all partitions.

    Raises:
        SetupError: the broker cannot be asked, or has no such topic.
    """
    admin = KafkaAdmin(settings)
    facts = admin.topics([topic]).get(topic)
    if facts is None:
        raise SetupError(
            f"there is no topic {topic}",
            code="FLOE-E110",
            place=admin.address,
            remedy="check the topic's name and the target's connection",
        )
    keys = [(topic, partition) for partition in facts.partitions]
    starts, ends = admin.start_offsets(keys), admin.end_offsets(keys)
    share = max(1, -(-count // len(keys)))
    fetcher = RangeFetcher(settings)
    pieces = [TaskRange(topic, facts.topic_id, key[1], max(starts[key], ends[key] - share), ends[key]) for key in keys]
    return [block for task_range in pieces for block in fetcher.fetch(task_range)]
