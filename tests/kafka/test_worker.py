"""PipelineProducer on a real broker: one transaction a batch, fencing, and what others see of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from framework.adapters.kafka.admin import GroupOffset, KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.codec import encode
from framework.errors import FencedError, OutcomeUnknown, SetupError
from tests.conftest import Broker
from tests.kafka.conftest import batches, complete, heartbeat, unique, wait_for

pytestmark = pytest.mark.kafka

NewProducer = Callable[..., PipelineProducer]
HALF_DONE = Path(__file__).with_name("half_done.py")


def read_all(settings: dict[str, str], topic: str) -> list[tuple[str, int]]:
    """(pipeline, batch) of all that read_committed shows now."""
    reader = ControlReader(settings, topic)
    try:
        reader.seek(0)
        return batches(list(reader.read_until(reader.end_offset())))
    finally:
        reader.close()


def test_events_and_offsets_appear_together(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """Invariant 1: one transaction holds the events and the offsets of all partitions with their metadata strings."""
    source, pipeline = broker.new_topic(partitions=2), unique("p")
    producer = new_producer(pipeline)
    end = producer.announce(
        [heartbeat(pipeline, 1), complete(pipeline, 2)],
        {(source, 0): (7, '{"batch":2}'), (source, 1): (0, "second")},
    )
    assert end == 2
    assert admin.group_offsets(pipeline, [(source, 0), (source, 1)]) == {
        (source, 0): GroupOffset(7, '{"batch":2}'),
        (source, 1): GroupOffset(0, "second"),
    }
    assert read_all(settings, control_topic) == [(pipeline, 1), (pipeline, 2)]


def test_the_offset_after_the_last_event_is_exact(
    broker: Broker, admin: KafkaAdmin, control_topic: str, new_producer: NewProducer
) -> None:
    """The returned control offset counts the markers of earlier transactions, so it can be compared with positions."""
    source, pipeline = broker.new_topic(), unique("p")
    producer = new_producer(pipeline)
    assert producer.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "")}) == 1
    assert producer.announce([heartbeat(pipeline, 2)], {(source, 0): (1, "")}) == 3
    key = (control_topic, 0)
    wait_for(lambda: admin.end_offsets([key])[key] == 4)


def test_an_offset_committed_a_moment_ago_is_waited_for(
    broker: Broker, admin: KafkaAdmin, new_producer: NewProducer
) -> None:
    """The broker confirms a commit before its offsets can be read; asking for a partition by name waits for them."""
    source, pipeline = broker.new_topic(), unique("p")
    producer = new_producer(pipeline)
    for batch in range(1, 20):
        producer.announce([heartbeat(pipeline, batch)], {(source, 0): (batch, "m")})
        assert admin.group_offsets(pipeline, [(source, 0)]) == {(source, 0): GroupOffset(batch, "m")}


def test_a_new_run_sees_the_last_offsets_of_the_run_before(
    broker: Broker, admin: KafkaAdmin, new_producer: NewProducer
) -> None:
    """After taking over, all offsets of the run before are there at once, without asking for partitions by name."""
    for _ in range(5):
        source, pipeline = broker.new_topic(), unique("p")
        new_producer(pipeline).announce([heartbeat(pipeline, 1)], {(source, 0): (1, "m")})
        new_producer(pipeline)
        assert admin.group_offsets(pipeline) == {(source, 0): GroupOffset(1, "m")}


def test_group_offsets_are_read_by_ordinary_tools(
    broker: Broker, settings: dict[str, str], new_producer: NewProducer
) -> None:
    """The group offset is the safe source offset: any consumer of the group that asks for it gets it."""
    source, pipeline = broker.new_topic(), unique("p")
    new_producer(pipeline).announce([heartbeat(pipeline, 1)], {(source, 0): (42, "m")})
    consumer = Consumer({**settings, "group.id": pipeline})
    try:
        [committed] = consumer.committed([TopicPartition(source, 0)], timeout=10)
    finally:
        consumer.close()
    assert committed.offset == 42


def test_the_group_has_no_member_while_it_is_written(
    broker: Broker, admin: KafkaAdmin, new_producer: NewProducer
) -> None:
    """The metadata of a consumer that never subscribes is enough: nothing joins the group, so nothing rebalances."""
    source, pipeline = broker.new_topic(), unique("p")
    producer = new_producer(pipeline)
    producer.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "")})
    assert admin.group_members(pipeline) == ()
    producer.announce([heartbeat(pipeline, 2)], {(source, 0): (2, "")})
    assert admin.group_offsets(pipeline, [(source, 0)])[source, 0].offset == 2


def test_a_newer_run_fences_the_older_one(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """Invariant 2: after a newer run has started, the older one announces nothing, now or later."""
    source, pipeline = broker.new_topic(), unique("p")
    older = new_producer(pipeline)
    older.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "a")})
    newer = new_producer(pipeline)
    with pytest.raises(FencedError, match=pipeline) as caught:
        older.announce([heartbeat(pipeline, 2)], {(source, 0): (2, "b")})
    assert caught.value.exit_code == 4
    assert admin.group_offsets(pipeline, [(source, 0)])[source, 0] == GroupOffset(1, "a")
    newer.announce([heartbeat(pipeline, 3)], {(source, 0): (3, "c")})
    assert read_all(settings, control_topic) == [(pipeline, 1), (pipeline, 3)]
    with pytest.raises(OutcomeUnknown):
        older.announce([heartbeat(pipeline, 4)], {(source, 0): (4, "d")})


def test_offsets_beside_the_transaction_would_be_noticed(
    broker: Broker,
    admin: KafkaAdmin,
    settings: dict[str, str],
    control_topic: str,
    new_producer: NewProducer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Invariant 1 is needed: where offsets are committed beside the announcing transaction, the test above fails."""
    real = PipelineProducer.announce

    def beside(self: PipelineProducer, events: Any, offsets: Any) -> int:
        consumer = Consumer({**settings, "group.id": self._group_id})
        moved = [TopicPartition(t, p, offset, metadata) for (t, p), (offset, metadata) in offsets.items()]
        consumer.commit(offsets=moved, asynchronous=False)
        consumer.close()
        return real(self, events, {})

    monkeypatch.setattr(PipelineProducer, "announce", beside)
    with pytest.raises(AssertionError, match="GroupOffset"):
        test_a_newer_run_fences_the_older_one(broker, admin, settings, control_topic, new_producer)


def test_pipelines_do_not_fence_each_other(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """Two pipelines share the control topic, each with its own transactions and its own offsets."""
    source, one, two = broker.new_topic(), unique("one"), unique("two")
    first, second = new_producer(one), new_producer(two)
    for batch in (1, 2):
        first.announce([heartbeat(one, batch)], {(source, 0): (batch, "")})
        second.announce([heartbeat(two, batch)], {(source, 0): (batch * 10, "")})
    assert admin.group_offsets(one, [(source, 0)])[source, 0].offset == 2
    assert admin.group_offsets(two, [(source, 0)])[source, 0].offset == 20
    assert read_all(settings, control_topic) == [(one, 1), (two, 1), (one, 2), (two, 2)]


def test_transactions_interleave_and_each_is_whole(
    broker: Broker, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """Events of two transactions may lie in the log in turns; a reader sees them in log order, once both are
    decided."""
    source, slow, quick = broker.new_topic(), unique("slow"), unique("quick")
    other = Producer({**settings, "transactional.id": slow})
    other.init_transactions(10)
    other.begin_transaction()
    other.produce(control_topic, encode(heartbeat(slow, 1)), partition=0)
    other.flush(10)
    new_producer(quick).announce([heartbeat(quick, 1), complete(quick, 1)], {(source, 0): (1, "")})
    other.produce(control_topic, encode(complete(slow, 1)), partition=0)
    other.flush(10)
    assert read_all(settings, control_topic) == []
    other.commit_transaction(10)
    order = [(slow, 1), (quick, 1), (quick, 1), (slow, 1)]
    wait_for(lambda: read_all(settings, control_topic) == order)


def test_an_aborted_transaction_leaves_nothing(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """What the broker refuses is aborted as a whole: neither its events nor its offsets are seen, and the run goes
    on."""
    source, pipeline = broker.new_topic(), unique("p")
    producer = new_producer(pipeline)
    with pytest.raises(Exception, match=r"(?i)metadata"):
        producer.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "x" * 5000)})
    assert admin.group_offsets(pipeline) == {}
    producer.announce([heartbeat(pipeline, 2)], {(source, 0): (2, "fits")})
    assert admin.group_offsets(pipeline, [(source, 0)])[source, 0] == GroupOffset(2, "fits")
    assert read_all(settings, control_topic) == [(pipeline, 2)]


@pytest.mark.timeout(120)
def test_a_run_killed_in_a_transaction_hides_others_for_seconds_only(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """A driver that dies in an open transaction hides later events of others until its short time-out, not longer."""
    source, dead, alive = broker.new_topic(), unique("dead"), unique("alive")
    subprocess.run([sys.executable, str(HALF_DONE), settings["bootstrap.servers"], dead, control_topic], check=False)
    new_producer(alive).announce([heartbeat(alive, 1)], {(source, 0): (1, "")})
    assert read_all(settings, control_topic) == []
    wait_for(lambda: read_all(settings, control_topic) == [(alive, 1)], timeout_s=40)


def test_the_next_run_settles_what_a_killed_one_left_open(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, new_producer: NewProducer
) -> None:
    """Taking over the transactional id aborts the dead run's transaction at once, before any time-out."""
    source, pipeline = broker.new_topic(), unique("p")
    ended = subprocess.run(
        [sys.executable, str(HALF_DONE), settings["bootstrap.servers"], pipeline, control_topic], check=False
    )
    assert ended.returncode == -signal.SIGKILL
    producer = new_producer(pipeline)
    assert admin.group_offsets(pipeline) == {}
    producer.announce([heartbeat(pipeline, 1)], {(source, 0): (1, "")})
    assert read_all(settings, control_topic) == [(pipeline, 1)]


def test_announcing_before_start_is_refused(settings: dict[str, str], control_topic: str) -> None:
    """A producer that has not taken over its id cannot announce."""
    producer = PipelineProducer(settings, unique("p"), "g", control_topic)
    with pytest.raises(OutcomeUnknown, match="start"):
        producer.announce([heartbeat("p", 1)], {})


def test_starting_without_a_broker_is_a_setup_error() -> None:
    """No broker: one error with the address, before anything is taken over."""
    producer = PipelineProducer({"bootstrap.servers": "127.0.0.1:1"}, "t", "g", "c")
    with pytest.raises(SetupError, match=r"(?i)refused|no answer") as caught:
        producer.start()
    assert caught.value.code == "FLOE-E101"
