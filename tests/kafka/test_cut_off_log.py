"""A control topic that lost its end on a real broker: whoever begins on a position that was read before is told.

The broker is stopped and the end of the topic's log cut off on disk, as after an unclean election or with a disk that
was put back; then it goes on under a new leader epoch.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.leadership import (
    CoordinatorLeadership,
    LeadershipAssigned,
    LeadershipRead,
    LeadershipUpdate,
    LogEndReached,
    holds_still,
)
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.commit.events.codec import encode
from framework.commit.machine.effects import Assigned, Effect, Read, StopCoordinator
from framework.commit.machine.step import CoordinatorState, step
from framework.local import stack
from tests.conftest import Broker
from tests.kafka.conftest import heartbeat, unique, wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, whose disk may be changed."""
    state = stack.up(tmp_path, kafka_port=0)
    try:
        yield Broker(tmp_path, state.bootstrap_servers, {})
    finally:
        stack.down(tmp_path, wipe=True)


def cut_off(broker: Broker, topic: str, end: int) -> None:
    """Take everything from an offset on out of the topic's only log while the broker is down, and start it again."""
    broker.kill()
    (log,) = broker.state_dir.rglob(f"{topic}-0/00000000000000000000.log")
    data, at = log.read_bytes(), 0
    while at < len(data):
        base, length = struct.unpack_from(">qi", data, at)  # a batch begins with its first offset and its length
        if base >= end:
            break
        at += 12 + length
    assert at < len(data), "there is something to cut off"
    log.write_bytes(data[:at])
    for other in [*log.parent.glob("*.index"), *log.parent.glob("*.timeindex"), *log.parent.glob("*.snapshot")]:
        other.unlink()
    broker.restart()


def leadership_updates(
    leadership: CoordinatorLeadership, wanted: Callable[[list[LeadershipUpdate]], object]
) -> list[LeadershipUpdate]:
    found: list[LeadershipUpdate] = []
    wait_for(lambda: found.extend(leadership.poll(0.2)) or wanted(found))
    return found


class SlowLeadership(CoordinatorLeadership):
    """Held up once it has begun to read, so that what the broker says of the position is there before anything is
    returned."""

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._on_assign(consumer, partitions)
        time.sleep(2)


def reported(assigned: LeadershipAssigned) -> Assigned:
    """As the coordinator is told of its leadership."""
    return Assigned(
        "c",
        assigned.topic_id,
        assigned.log_start,
        assigned.low_water,
        assigned.low_water_topic_id,
        assigned.chain_from,
        assigned.log_end,
        assigned.truncated,
        assigned.low_water_epoch,
        assigned.records_end,
    )


@pytest.mark.parametrize("written_anew", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_a_low_water_mark_above_what_is_left_is_reported(own_broker: Broker, written_anew: int) -> None:
    """Also where the log has grown past the mark again: the leader epoch beside the mark shows that these are other
    records."""
    settings = {"bootstrap.servers": own_broker.bootstrap_servers}
    topic, group = ensure_control_topic(KafkaAdmin(settings), unique("control")).name, unique("group")
    publisher = ControlPublisher(settings, topic)
    for batch in range(4):
        publisher.publish([heartbeat("p", batch)])  # one by one: each is a batch of its own in the log
    publisher.close()
    leadership = CoordinatorLeadership(settings, group, topic)
    read = leadership_updates(leadership, lambda found: sum(isinstance(u, LeadershipRead) for u in found) == 4)
    epochs = {update.leader_epoch for update in read if isinstance(update, LeadershipRead)}
    (epoch,) = epochs
    assert epoch is not None
    assert leadership.store_low_water(4, 4, epoch, 4)
    leadership.close()
    assert holds_still(settings, topic, 4, epoch)

    cut_off(own_broker, topic, 2)
    publisher = ControlPublisher(settings, topic)
    for batch in range(written_anew):
        publisher.publish([heartbeat("p", 10 + batch)])
    publisher.close()
    next_leadership = SlowLeadership(settings, group, topic)
    (assigned, *_) = leadership_updates(next_leadership, lambda found: found)
    next_leadership.close()
    assert isinstance(assigned, LeadershipAssigned)
    assert (assigned.low_water, assigned.log_end) == (4, 2 + written_anew)
    assert assigned.truncated == (written_anew > 0)
    _, effects = step(CoordinatorState(), reported(assigned), 0)
    assert [effect.code for effect in effects if isinstance(effect, StopCoordinator)] == ["FLOE-R117"]


@pytest.mark.slow
def test_a_marker_of_a_later_leader_is_no_loss(own_broker: Broker) -> None:
    """The end of a transaction may be written by another leader than its records: what a coordinator has read up to there
    is still there, after that leader and after the next; and a coordinator that goes on reading is not disturbed."""
    settings = {"bootstrap.servers": own_broker.bootstrap_servers}
    topic, group = ensure_control_topic(KafkaAdmin(settings), unique("control")).name, unique("group")
    writer = Producer({**settings, "transactional.id": unique("writer"), "transaction.timeout.ms": 60_000})
    writer.init_transactions(60)
    writer.begin_transaction()
    for batch in range(2):
        writer.produce(topic, encode(heartbeat("p", batch)))
    writer.flush(30)
    own_broker.kill()
    own_broker.restart()
    writer.commit_transaction(60)

    leadership = CoordinatorLeadership(settings, group, topic)
    read = leadership_updates(
        leadership, lambda found: any(isinstance(u, LogEndReached) and u.position == 3 for u in found)
    )
    epochs = {update.leader_epoch for update in read if isinstance(update, LeadershipRead)}
    (epoch,) = epochs
    assert epoch is not None
    assert leadership.store_low_water(3, 3, epoch, 2)
    assert not marked(settings, group, topic).truncated

    own_broker.kill()
    own_broker.restart()
    publisher = ControlPublisher(settings, topic)
    publisher.publish([heartbeat("p", 7)])
    publisher.close()
    assert not marked(settings, group, topic).truncated
    goes_on = leadership_updates(
        leadership, lambda found: any(isinstance(u, LeadershipRead) and u.offset == 3 for u in found)
    )
    assert [u.offset for u in goes_on if isinstance(u, LeadershipRead)][-1] == 3
    leadership.close()


@pytest.mark.slow
def test_a_marker_that_is_lost_is_reported(own_broker: Broker) -> None:
    """Where the end of a transaction is cut off and other records take its place below the mark, a coordinator that takes
    over stops."""
    settings = {"bootstrap.servers": own_broker.bootstrap_servers}
    topic, group = ensure_control_topic(KafkaAdmin(settings), unique("control")).name, unique("group")
    publisher = ControlPublisher(settings, topic)
    publisher.publish([heartbeat("p", 1)])
    publisher.close()
    writer = Producer({**settings, "transactional.id": unique("writer"), "transaction.timeout.ms": 60_000})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(topic, encode(heartbeat("p", 2)))
    writer.flush(30)
    writer.abort_transaction(60)
    leadership = CoordinatorLeadership(settings, group, topic)
    read = leadership_updates(
        leadership, lambda found: any(isinstance(u, LogEndReached) and u.position == 3 for u in found)
    )
    (epoch,) = {update.leader_epoch for update in read if isinstance(update, LeadershipRead)}
    assert epoch is not None
    assert leadership.store_low_water(3, 3, epoch, 1)
    leadership.close()

    cut_off(own_broker, topic, 1)
    publisher = ControlPublisher(settings, topic)
    for batch in range(3):
        publisher.publish([heartbeat("p", 10 + batch)])
    publisher.close()
    leadership = CoordinatorLeadership(settings, group, topic)
    found = leadership_updates(leadership, lambda found: sum(isinstance(u, LeadershipRead) for u in found) == 3)
    leadership.close()
    state, effects = CoordinatorState(), tuple[Effect, ...]()
    assert isinstance(found[0], LeadershipAssigned)
    for update in found:
        if isinstance(update, LeadershipAssigned):
            state, effects = step(state, reported(update), 0)
        elif isinstance(update, LeadershipRead):
            state, effects = step(state, Read(update.offset, update.event, None, update.leader_epoch), 0)
        if effects:
            break
    assert [effect.code for effect in effects if isinstance(effect, StopCoordinator)] == ["FLOE-R117"]


def marked(settings: dict[str, str], group: str, topic: str) -> LeadershipAssigned:
    """What whoever takes the leadership over would be told; the leadership itself is another's."""
    leadership = CoordinatorLeadership(settings, group, topic)
    try:
        return leadership._facts()
    finally:
        leadership.close()
