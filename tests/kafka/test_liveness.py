"""Whether a pipeline is live, on a real broker: seen, refused, fenced."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.presence import Presence
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.errors import FencedError, SetupError
from framework.observe.liveness import exclusive, live_members, refuse_live
from framework.plan.compile import group_id
from tests.conftest import Broker
from tests.kafka.conftest import heartbeat, unique, wait_for

pytestmark = pytest.mark.kafka

MEMBER = Path(__file__).with_name("presence_member.py")


@pytest.fixture
def pipeline() -> str:
    return unique("p")


@pytest.fixture
def live(broker: Broker, admin: KafkaAdmin, settings: dict[str, str], pipeline: str) -> Iterator[Presence]:
    """A run of the pipeline that has joined its group."""
    presence = Presence(settings, group_id("it", pipeline), [broker.new_topic()], "run-1")
    wait_for(lambda: live_members(admin, "it", pipeline))
    yield presence
    presence.close()


def test_a_live_run_is_seen_and_refused_by_name(admin: KafkaAdmin, live: Presence, pipeline: str) -> None:
    """What changes a pipeline's state refuses while a run is live, names it, and goes ahead once it has ended."""
    with pytest.raises(SetupError, match="run run-1 on") as caught:
        refuse_live(admin, "it", pipeline, "floe rebase")
    assert caught.value.code == "FLOE-E111"
    assert "floe rebase" in caught.value.message
    live.close()
    refuse_live(admin, "it", pipeline, "floe rebase")


def test_a_live_run_moves_its_offsets_and_nobody_else_can(
    broker: Broker, admin: KafkaAdmin, live: Presence, pipeline: str, settings: dict[str, str], control_topic: str
) -> None:
    """Transactions commit the group's offsets beside the membership; the broker refuses what ordinary tools would
    do."""
    source, group = broker.new_topic(), group_id("it", pipeline)
    producer = PipelineProducer(settings, group, group, control_topic)
    producer.start()
    try:
        for batch in (1, 2):
            producer.announce([heartbeat(pipeline, batch)], {(source, 0): (batch, "")})
            assert admin.group_offsets(group, [(source, 0)])[source, 0].offset == batch
    finally:
        producer.close()
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(source, 0, 0)])]
    [answer] = admin.raw.alter_consumer_group_offsets(asked)[group].result(10).topic_partitions
    assert answer.error is not None
    with pytest.raises(KafkaException):
        admin.raw.delete_consumer_groups([group])[group].result(10)
    assert admin.group_offsets(group, [(source, 0)])[source, 0].offset == 2


def test_a_killed_run_is_gone_within_seconds(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], pipeline: str
) -> None:
    """A run that was killed is taken for live for its session time-out of 6 s, and not for longer than twice that."""
    command = [sys.executable, str(MEMBER), settings["bootstrap.servers"], group_id("it", pipeline), broker.new_topic()]
    process = subprocess.Popen(command)
    try:
        wait_for(lambda: live_members(admin, "it", pipeline))
        process.kill()
        process.wait()
        killed = time.monotonic()
        assert live_members(admin, "it", pipeline)
        wait_for(lambda: not live_members(admin, "it", pipeline))
        assert time.monotonic() - killed < 12
    finally:
        process.kill()
        process.wait()


def test_another_consumer_in_the_group_is_refused_as_what_it_is(
    broker: Broker, admin: KafkaAdmin, pipeline: str
) -> None:
    """A consumer that joined a pipeline's group by mistake is not taken for a run of it."""
    group = group_id("it", pipeline)
    consumer = Consumer({"bootstrap.servers": admin.address, "group.id": group, "client.id": "stranger"})
    try:
        consumer.subscribe([broker.new_topic()])
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment())
        with pytest.raises(SetupError, match="consumer stranger on") as caught:
            refuse_live(admin, "it", pipeline, "floe rebase")
        assert caught.value.code == "FLOE-E106"
    finally:
        consumer.close()


def test_exclusive_fences_a_run_that_was_not_seen(
    settings: dict[str, str], control_topic: str, pipeline: str, new_producer: Callable[..., PipelineProducer]
) -> None:
    """Invariant 2: a run that hides (stopped, cut off) can announce nothing once a verb has the pipeline to itself."""
    hidden = new_producer(group_id("it", pipeline))
    hidden.announce([heartbeat(pipeline, 1)], {})
    with exclusive(settings, "it", pipeline, control_topic, "floe rebase") as producer:
        with pytest.raises(FencedError):
            hidden.announce([heartbeat(pipeline, 2)], {})
        producer.announce([heartbeat(pipeline, 3)], {})
