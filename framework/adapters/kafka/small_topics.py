"""Small topics of floe's own: made, written, read whole and removed, such as those of a drill.

In: a connection's settings, names and values. Out: what the broker holds. Invariant: whatever is removed was named by the caller,
and a group that has a member stays.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import ClientLog, build, client_config, error_of, setup_error
from framework.adapters.kafka.fetch import RangeFetcher
from framework.record.model import TaskRange

_FLUSH_S = 60.0
_GONE_S = 30.0
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)
_VISIBLE_S = 10.0


def ensure_topic(admin: KafkaAdmin, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Make a topic with the broker's own number of replicas, if it is not there, and wait until it can be seen.

    Raises:
        SetupError: the broker does not make it.
    """
    if admin.topics([name]):
        return
    topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=dict(settings))
    try:
        admin.answer(admin.raw.create_topics([topic], operation_timeout=10)[name])
    except KafkaException as raised:
        if error_of(raised).code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise admin.error(raised, f"creating the topic {name}") from raised
    deadline = time.monotonic() + _VISIBLE_S
    while not admin.topics([name]) and time.monotonic() < deadline:
        time.sleep(0.05)


def write(settings: Mapping[str, str], topic: str, values: Sequence[tuple[int, bytes]]) -> None:
    """Write each value to its partition, once, and wait until the broker has all.

    Raises:
        FloeError: it does not take them.
    """
    log, failed = ClientLog(), list[KafkaError]()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = build(Producer, settings, client_config(settings, log, enable_idempotence=True, acks="all"))
    try:
        for partition, value in values:
            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        if producer.flush(_FLUSH_S):
            failed.append(KafkaError(KafkaError._TIMED_OUT))
    except KafkaException as raised:
        failed.append(error_of(raised))
    if failed:
        raise setup_error(failed[0], settings, log, f"writing to the topic {topic}")


def read_all(settings: Mapping[str, str], topic: str) -> list[bytes | None]:
    """Every value of a topic's first partition, in order; none where there is no such topic."""
    admin, key = KafkaAdmin(settings), (topic, 0)
    facts = admin.topics([topic]).get(topic)
    if facts is None:
        return []
    start, end = admin.start_offsets([key])[key], admin.end_offsets([key])[key]
    if start >= end:
        return []
    blocks = RangeFetcher(dict(settings)).fetch(TaskRange(topic, facts.topic_id, 0, start, end))
    return [value for block in blocks for value in block.values]


def topics_and_groups(admin: KafkaAdmin, pattern: str) -> tuple[list[str], list[str]]:
    """The names of the topics that match, and of all consumer groups that can be seen."""
    groups = admin.wait(admin.raw.list_consumer_groups(), "listing consumer groups").valid
    return sorted(admin.topics(pattern)), sorted(group.group_id for group in groups)


def remove(admin: KafkaAdmin, topics: Iterable[str], groups: Collection[str]) -> list[str]:
    """Remove these topics and groups, and wait until they are gone; returns what stays. A member that has just ended may be
    counted for a few seconds."""
    wanted, refused, deadline = list(topics), list[str](), time.monotonic() + _GONE_S
    for name, future in admin.raw.delete_topics(wanted).items() if wanted else ():
        try:
            admin.answer(future)
        except KafkaException as raised:
            if error_of(raised).code() not in _GONE:
                refused.append(name)
    wanted = [name for name in wanted if name not in refused]
    left = set(groups)
    while left and time.monotonic() < deadline:
        for name, future in admin.raw.delete_consumer_groups(sorted(left)).items():
            try:
                admin.answer(future)
                left.discard(name)
            except KafkaException as raised:
                if error_of(raised).code() in _GONE:
                    left.discard(name)
        if left:
            time.sleep(0.5)
    while (there := sorted(admin.topics(wanted))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [*sorted(refused), *there, *sorted(left)]
