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
from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control import ControlPublisher
from framework.adapters.kafka.control_topic import ensure_control_topic
from framework.adapters.kafka.seat import CoordinatorSeat, SeatAssigned, SeatRead, SeatUpdate, holds_still
from framework.commit.machine.effects import Assigned, Stop
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


def seat_updates(seat: CoordinatorSeat, wanted: Callable[[list[SeatUpdate]], object]) -> list[SeatUpdate]:
    found: list[SeatUpdate] = []
    wait_for(lambda: found.extend(seat.poll(0.2)) or wanted(found))
    return found


class SlowSeat(CoordinatorSeat):
    """Held up once it has begun to read, so that what the broker says of the position is there before anything is
    returned."""

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._on_assign(consumer, partitions)
        time.sleep(2)


@pytest.mark.parametrize("written_anew", [0, 4])
def test_a_low_water_mark_above_what_is_left_is_told(own_broker: Broker, written_anew: int) -> None:
    """Also where the log has grown past the mark again: the leader epoch beside the mark shows that these are other
    records."""
    settings = {"bootstrap.servers": own_broker.bootstrap_servers}
    topic, group = ensure_control_topic(KafkaAdmin(settings), unique("control")).name, unique("group")
    publisher = ControlPublisher(settings, topic)
    for batch in range(4):
        publisher.publish([heartbeat("p", batch)])  # one by one: each is a batch of its own in the log
    publisher.close()
    seat = CoordinatorSeat(settings, group, topic)
    read = seat_updates(seat, lambda found: sum(isinstance(u, SeatRead) for u in found) == 4)
    epochs = {update.leader_epoch for update in read if isinstance(update, SeatRead)}
    (epoch,) = epochs
    assert epoch is not None
    assert seat.store_low_water(4, 4, epoch)
    seat.close()
    assert holds_still(settings, topic, 4, epoch)

    cut_off(own_broker, topic, 2)
    publisher = ControlPublisher(settings, topic)
    for batch in range(written_anew):
        publisher.publish([heartbeat("p", 10 + batch)])
    publisher.close()
    next_seat = SlowSeat(settings, group, topic)
    (assigned, *_) = seat_updates(next_seat, lambda found: found)
    next_seat.close()
    assert isinstance(assigned, SeatAssigned)
    assert (assigned.low_water, assigned.log_end) == (4, 2 + written_anew)
    assert assigned.truncated == (written_anew > 0)
    said = Assigned(
        "c",
        assigned.topic_id,
        assigned.log_start,
        assigned.low_water,
        assigned.low_water_topic_id,
        assigned.chain_from,
        assigned.log_end,
        assigned.truncated,
        assigned.low_water_epoch,
    )
    _, effects = step(CoordinatorState(), said, 0)
    assert [effect.code for effect in effects if isinstance(effect, Stop)] == ["FLOE-R117"]
