"""What source topics hold and how their retention is set, for whoever judges it.

In: a connection and the offsets of partitions. Out: `TopicHeld`, topic by topic. Times and sizes are those of some records at
both ends of each partition, read through the same fetcher as a run's; nothing is left behind on the broker. Producers date
records, so the time of an end is the middle one of several, and never ahead of this clock: one record with a wrong date says
nothing of a rate.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from confluent_kafka.admin import ConfigResource, ResourceType

from framework.adapters.kafka.admin import KafkaAdmin, Key
from framework.adapters.kafka.fetch import RangeFetcher
from framework.commit.offsets import PartitionFacts
from framework.plan.topic_retention import PartitionHeld, TopicHeld
from framework.record.model import RecordBlock, TaskRange, timestamp_us

_LOOK_RECORDS = 200
_SEVERAL = 5  # so two wrong dates among them are outvoted


def topic_settings(admin: KafkaAdmin, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    """The settings of topics by name, asked for at once.

    Raises:
        SetupError: one may not be asked for.
    """
    asked = {topic: ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(set(topics))}
    answers = admin.raw.describe_configs(list(asked.values())) if asked else {}
    found = {}
    for topic, resource in asked.items():
        config = admin.wait(answers[resource], f"reading the settings of topic {topic}")
        found[topic] = {name: str(entry.value) for name, entry in config.items()}
    return found


def topic_facts(admin: KafkaAdmin, topic: str) -> dict[Key, PartitionFacts]:
    """Where the partitions of one topic begin and end now; none where there is no such topic.

    Raises:
        FloeError: the broker does not say.
    """
    found = admin.topics((topic,)).get(topic)
    keys = [(topic, number) for number in found.partitions] if found else []
    starts, ends = admin.start_offsets(keys), admin.end_offsets(keys)
    return {key: PartitionFacts(found.topic_id, starts[key], ends[key]) for key in keys} if found else {}


def held_topics(
    settings: Mapping[str, str], admin: KafkaAdmin, facts: Mapping[Key, PartitionFacts], always_look: bool
) -> Iterator[TopicHeld]:
    """
    Args:
        always_look: False: records are read only where a topic has a limit in bytes.

    Raises:
        FloeError: a topic cannot be asked for its settings, or read.
    """
    fetcher = RangeFetcher(settings)
    for topic, has in topic_settings(admin, [topic for topic, _ in facts]).items():
        by_size = int(has["retention.bytes"])
        partitions = [(number, found) for (name, number), found in sorted(facts.items()) if name == topic]
        looks = always_look or by_size >= 0
        yield TopicHeld(
            topic,
            tuple(_held(fetcher if looks else None, topic, number, found) for number, found in partitions),
            int(has["retention.ms"]),
            by_size,
            has["cleanup.policy"] == "compact",
        )


def _held(fetcher: RangeFetcher | None, topic: str, number: int, found: PartitionFacts) -> PartitionHeld:
    start, end = found.log_start, found.log_end
    if fetcher is None or end <= start:
        return PartitionHeld(start, end, None, None, None)
    looks = [(start, min(end, start + _LOOK_RECORDS)), (max(start, end - _LOOK_RECORDS), end)]
    first, last = (list(fetcher.fetch(TaskRange(topic, found.topic_id, number, *look))) for look in looks)
    seen = [*first, *last]
    records = sum(map(len, seen))
    return PartitionHeld(
        start,
        end,
        _moment_ms(time for block in first for time in block.timestamps_ms),
        _moment_ms(reversed([time for block in last for time in block.timestamps_ms])),
        sum(map(_bytes, seen)) / records if records else None,
    )


def _moment_ms(times: Iterable[int]) -> int | None:
    """The middle one of the first times that are known."""
    known = islice((at // 1000 for each in times if (at := timestamp_us(each)) is not None), _SEVERAL)
    found = sorted(min(at, int(time.time() * 1000)) for at in known)
    return found[len(found) // 2] if found else None


def _bytes(block: RecordBlock) -> int:
    total = 0
    for value, key, headers in zip(block.values, block.keys, block.headers, strict=True):
        total += len(value or b"") + len(key or b"")
        total += sum(len(name) + len(content or b"") for name, content in headers or ())
    return total
