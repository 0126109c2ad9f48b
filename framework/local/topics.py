"""Topics of the embedded stack: made by name, and filled with records of a file, so that trying a pipeline needs no other tool.

A running stack's broker and values come in; what was made and sent goes out. Unlike a demo's topic, one of these is sent to
each time anew: whoever sends twice has the records twice.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from framework.adapters.kafka.admin import KafkaAdmin
from framework.diagnose.counted import counted
from framework.errors import SetupError

_QUIET = {"log_level": 3}  # a broker that has just started answers "load in progress" first, which is no news
_FLUSH_S = 60.0


def make_topic(bootstrap_servers: str, topic: str, partitions: int | None = None) -> tuple[int, bool]:
    """How many partitions the topic has, and whether it was made now. It keeps its records for ever.

    Args:
        partitions: None takes what is there, or one.

    Raises:
        SetupError: its name is not one of Kafka's, or it is there with another number of partitions.
    """
    admin = KafkaAdmin({"bootstrap.servers": bootstrap_servers})
    wanted = NewTopic(topic, num_partitions=partitions or 1, replication_factor=1, config={"retention.ms": "-1"})
    try:
        admin.answer(admin.raw.create_topics([wanted])[topic])
        return partitions or 1, True
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise SetupError(
                f"the broker does not make the topic {topic}: {error.args[0].str()}",
                code="FLOE-E027",
                place=bootstrap_servers,
                remedy="correct the topic's name: letters, digits, `.`, `_` and `-`",
            ) from error
    there = len(admin.topics([topic])[topic].partitions)
    if partitions and there != partitions:
        message = f"the topic {topic} is there with {counted(there, 'partition')}, not {partitions:,}"
        remedy = f"floe local topic {shlex.quote(topic)} --partitions {there}"
        raise SetupError(message, code="FLOE-E027", place=bootstrap_servers, remedy=remedy)
    return there, False


def send(
    bootstrap_servers: str,
    topic: str,
    values: Sequence[bytes],
    key: str | None,
    rate: float | None,
    advance: Callable[[int], None],
) -> int:
    """Sends the values in their order and returns how many the broker has.

    Args:
        key: the field whose value is the record's key; a record without it has none.
        rate: records a second; None sends as fast as the broker takes them.
        advance: called with how many records more were handed over.

    Raises:
        SetupError: the broker refused some.
    """
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, **_QUIET})
    for value in _paced(values, rate):
        while True:
            try:
                producer.produce(topic, value, _key(value, key), on_delivery=delivered)
                break
            except BufferError:  # the local queue is full: wait until the broker has taken some of it
                producer.poll(0.1)
            except KafkaException as error:  # larger than the client sends
                failures.append(error.args[0])
                break
        producer.poll(0)
        advance(1)
    left = producer.flush(_FLUSH_S)
    if failures or left:
        reason = (
            failures[0].str() if failures else f"{counted(left, 'record')} not acknowledged within {_FLUSH_S:.0f} s"
        )
        message = f"the broker has {len(values) - len(failures) - left:,} of {counted(len(values), 'record')}: {reason}"
        raise SetupError(message, code="FLOE-E024", place=bootstrap_servers, remedy="floe local status")
    return len(values)


def _paced(values: Sequence[bytes], rate: float | None) -> Iterator[bytes]:
    began = time.monotonic()
    for number, value in enumerate(values):
        if rate is not None and (early := began + number / rate - time.monotonic()) > 0:
            time.sleep(early)
        yield value


def _key(value: bytes, field: str | None) -> bytes | None:
    """The field's value as text, or as JSON where it is none."""
    if field is None:
        return None
    try:
        found: object = json.loads(value, parse_float=str, parse_int=str)
        for part in field.split("."):
            found = found[part]  # type: ignore[index]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    if found is None:
        return None
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).encode()
