"""The demo's records on a real broker: put there once, resumed after an interruption, and never mixed with others."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from framework.errors import SetupError
from framework.local import nycflights, pizzas
from framework.local.fill_topic import counts, ensure_topic, replay

if TYPE_CHECKING:
    from tests.conftest import Broker

pytestmark = pytest.mark.kafka
PARTITIONS = 3


def records(count: int) -> list[tuple[int, bytes, bytes]]:
    return [(number % PARTITIONS, b"key", str(number).encode()) for number in range(count)]


def read_all(broker: Broker, topic: str, partitions: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    try:
        return [message.value() for message in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


@pytest.mark.parametrize("topic", [nycflights.FLIGHTS, nycflights.WEATHER], ids=lambda topic: topic.name)
def test_the_demos_data_is_whole_and_keeps_its_types(topic: nycflights.DemoTopic) -> None:
    """Every record is there, a missing value is null and not text, and all records of a day share a partition."""
    days: dict[str, set[int]] = {}
    count = 0
    for partition, key, value in nycflights.records(nycflights.fetch(print), topic):
        count += 1
        record = json.loads(value)
        days.setdefault(record["time_hour"][:10], set()).add(partition)
        assert record["origin"] == key.decode()
        assert "NA" not in record.values()
        assert isinstance(record["year"], int)
    assert count == topic.records
    assert all(len(partitions) == 1 for partitions in days.values())
    assert set.union(*days.values()) == set(range(topic.partitions))


def test_a_complete_replay_is_not_repeated(broker: Broker) -> None:
    """Asked a second time, nothing is written and the records are not even read."""
    topic, done = f"replay-{uuid.uuid4().hex}", []
    wanted = records(1000)
    assert replay(broker.bootstrap_servers, topic, PARTITIONS, lambda: wanted, 1000, done.append) == 1000
    assert sum(done) == 1000

    def never() -> Iterator[tuple[int, bytes, bytes]]:
        raise AssertionError("read again")

    assert replay(broker.bootstrap_servers, topic, PARTITIONS, never, 1000, done.append) == 0
    assert sorted(map(int, read_all(broker, topic, PARTITIONS, 1000))) == list(range(1000))


def test_an_interrupted_replay_is_resumed_where_each_partition_ends(broker: Broker) -> None:
    """After an interruption in the middle, the topic ends with every record exactly once."""
    topic = f"replay-{uuid.uuid4().hex}"

    def broken() -> Iterator[tuple[int, bytes, bytes]]:
        yield from records(500)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(broker.bootstrap_servers, topic, PARTITIONS, broken, 1000, lambda count: None)
    there = sum(counts(broker.bootstrap_servers, topic, PARTITIONS))
    written = replay(broker.bootstrap_servers, topic, PARTITIONS, lambda: records(1000), 1000, lambda count: None)
    assert written == 1000 - there
    assert sorted(map(int, read_all(broker, topic, PARTITIONS, 1000))) == list(range(1000))


def test_a_topic_with_other_records_is_refused(broker: Broker) -> None:
    """A topic that holds more than the demo's records, or has other partitions, is left alone and named."""
    topic = broker.new_topic(partitions=PARTITIONS)
    broker.produce(topic, ["x"] * 11)
    with pytest.raises(SetupError, match="holds 11 records, but the demo's holds 10"):
        replay(broker.bootstrap_servers, topic, PARTITIONS, lambda: records(10), 10, lambda count: None)
    with pytest.raises(SetupError, match="has 3 partitions, but the demo's has 2"):
        ensure_topic(broker.bootstrap_servers, topic, 2)


def test_orders_are_those_that_the_pipeline_declares() -> None:
    """An order has the seven declared fields, a UUID, an integer store, and a zoneless time; a seed repeats it."""
    moment = datetime(2024, 1, 4, 12, 28, 13, tzinfo=timezone.utc)
    first = json.loads(pizzas.order(random.Random(1), moment))
    assert list(first) == ["order_id", "store_id", "sauce", "cheese", "meats", "veggies", "date_ordered"]
    assert str(uuid.UUID(first["order_id"])) == first["order_id"]
    assert isinstance(first["store_id"], int)
    assert first["date_ordered"] == "2024-01-04 12:28:13"
    assert first == json.loads(pizzas.order(random.Random(1), moment))


def test_the_generator_writes_at_its_rate_and_tells_what_the_broker_has(broker: Broker) -> None:
    """The number it returns is the number of orders in the topic."""
    ensure_topic(broker.bootstrap_servers, pizzas.TOPIC, 1)
    before = sum(counts(broker.bootstrap_servers, pizzas.TOPIC, 1))
    reported: list[int] = []
    sent = pizzas.produce(broker.bootstrap_servers, 200, 0.5, reported.append, random.Random(1))
    assert sum(counts(broker.bootstrap_servers, pizzas.TOPIC, 1)) - before == sent > 0
    assert reported[0] <= sent
