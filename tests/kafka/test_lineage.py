"""Lineage events in a topic of the real broker."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.lineage_topic import TopicSink
from framework.errors import FloeError, SetupError
from tests.conftest import Broker

pytestmark = pytest.mark.kafka


def test_events_are_records_of_the_topic(broker: Broker, settings: dict[str, str]) -> None:
    """In order, with the job as the key; a topic that is not there is an error and is not made."""
    topic = broker.new_topic("lineage")
    sink = TopicSink(settings, topic)
    for i in range(3):
        sink.send("prod/shop", json.dumps({"i": i}).encode())
    sink.close()
    consumer = Consumer({**settings, "group.id": "not-joined", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = list(consumer.consume(3, 30))
    consumer.close()
    assert [(message.key(), json.loads(message.value() or b"")) for message in found] == [
        (b"prod/shop", {"i": i}) for i in range(3)
    ]
    with pytest.raises(SetupError) as raised:
        TopicSink(settings, f"{topic}-not-there")
    assert raised.value.code == "FLOE-E110"


def test_a_broker_that_is_gone_is_an_error_within_seconds() -> None:
    """Nobody waits longer than the sink's own time-out."""
    begun = time.monotonic()
    with pytest.raises(FloeError):
        TopicSink({"bootstrap.servers": "127.0.0.1:1"}, "lineage")
    assert time.monotonic() - begun < 30
