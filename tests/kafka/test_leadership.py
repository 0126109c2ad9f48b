"""The coordinator's leadership on a real broker: one owner, its low-water mark, and how the leadership changes hands."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from framework.adapters.kafka.admin import GroupOffset, KafkaAdmin
from framework.adapters.kafka.control.leadership import first_offset
from framework.adapters.kafka.control.log import (
    ControlPublisher,
    CoordinatorLeadership,
    LeadershipAssigned,
    LeadershipRead,
    LeadershipRevoked,
    LeadershipUpdate,
    LogEndReached,
)
from tests.kafka.conftest import heartbeat, unique, wait_for
from tests.kafka.test_admin import recreate

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

NewMember = Callable[[str, str], "subprocess.Popen[str]"]


def until(leadership: CoordinatorLeadership, kind: type[LeadershipUpdate]) -> list[LeadershipUpdate]:
    """All updates up to the first of one kind."""
    updates: list[LeadershipUpdate] = []
    wait_for(lambda: updates.extend(leadership.poll(0.2)) or any(isinstance(u, kind) for u in updates))
    return updates


def offsets_of(updates: list[LeadershipUpdate]) -> list[int]:
    return [u.offset for u in updates if isinstance(u, LeadershipRead)]


def hear(member: subprocess.Popen[str], word: str) -> list[object]:
    """The next line of a member that begins with `word`."""
    assert member.stdout is not None
    for line in member.stdout:
        said: list[object] = json.loads(line)
        if said[0] == word:
            return said
    raise AssertionError(f"the member ended before it said {word}")


def test_the_first_owner_reads_from_the_beginning(
    settings: dict[str, str], control_topic: str, admin: KafkaAdmin
) -> None:
    """Invariant 6: without a known position the log is read from its beginning, and its end is announced."""
    ControlPublisher(settings, control_topic).publish([heartbeat("p", batch) for batch in range(3)])
    leadership = CoordinatorLeadership(settings, unique("g"), control_topic)
    updates = until(leadership, LogEndReached)
    topic_id = admin.topics([control_topic])[control_topic].topic_id
    assert updates[0] == LeadershipAssigned(topic_id, 0, None, None, log_end=3)
    assert offsets_of(updates) == [0, 1, 2]
    assert updates[-1] == LogEndReached(3)
    assert leadership.owned
    leadership.close()
    assert not leadership.owned


def test_the_next_owner_begins_at_the_low_water_mark(
    settings: dict[str, str], control_topic: str, admin: KafkaAdmin
) -> None:
    """The mark survives its owner, with the topic's id beside it, and the next owner reads from there."""
    group = unique("g")
    ControlPublisher(settings, control_topic).publish([heartbeat("p", batch) for batch in range(6)])
    first = CoordinatorLeadership(settings, group, control_topic)
    until(first, LogEndReached)
    assert first.store_low_water(4)
    first.close()
    topic_id = admin.topics([control_topic])[control_topic].topic_id
    assert admin.group_offsets(group) == {(control_topic, 0): GroupOffset(4, f'{{"topic_id":"{topic_id}"}}')}
    second = CoordinatorLeadership(settings, group, control_topic)
    updates = until(second, LogEndReached)
    assert updates[0] == LeadershipAssigned(topic_id, 0, 4, topic_id, log_end=6)
    assert offsets_of(updates) == [4, 5]
    second.close()


def test_a_log_that_starts_above_the_mark_is_reported(
    settings: dict[str, str], control_topic: str, admin: KafkaAdmin
) -> None:
    """Invariant 6: when retention took what was not yet committed, both positions are told, and nothing is skipped."""
    group = unique("g")
    ControlPublisher(settings, control_topic).publish([heartbeat("p", batch) for batch in range(9)])
    first = CoordinatorLeadership(settings, group, control_topic)
    until(first, LogEndReached)
    assert first.store_low_water(3)
    first.close()
    gone = TopicPartition(control_topic, 0, 7)
    admin.raw.delete_records([gone])[gone].result(10)
    second = CoordinatorLeadership(settings, group, control_topic)
    updates = until(second, LogEndReached)
    assigned = updates[0]
    assert isinstance(assigned, LeadershipAssigned)
    assert (assigned.low_water, assigned.log_start) == (3, 7)
    assert offsets_of(updates) == [7, 8]
    second.close()


def test_a_mark_of_another_topic_id_is_reported(
    settings: dict[str, str], control_topic: str, admin: KafkaAdmin
) -> None:
    """Invariant 11: the mark of a control topic that was recreated is told with its id, and its offset is not used."""
    group = unique("g")
    ControlPublisher(settings, control_topic).publish([heartbeat("p", batch) for batch in range(5)])
    first = CoordinatorLeadership(settings, group, control_topic)
    old = until(first, LogEndReached)[0]
    assert first.store_low_water(5)
    first.close()
    recreate(admin, control_topic)
    ControlPublisher(settings, control_topic).publish([heartbeat("p", batch) for batch in range(9)])
    # Deleting a topic removes its group offsets where the broker gets to it; a mark from a mirrored group remains.
    assert isinstance(old, LeadershipAssigned)
    stale = TopicPartition(control_topic, 0, 5, json.dumps({"topic_id": old.topic_id}))
    by_hand = Consumer({**settings, "group.id": group})
    by_hand.commit(offsets=[stale], asynchronous=False)
    by_hand.close()
    second = CoordinatorLeadership(settings, group, control_topic)
    updates = until(second, LogEndReached)
    assigned = updates[0]
    assert isinstance(assigned, LeadershipAssigned)
    assert assigned.low_water_topic_id == old.topic_id != assigned.topic_id
    assert offsets_of(updates) == list(range(9))
    second.close()


def test_a_member_that_joins_takes_nothing_from_the_owner(settings: dict[str, str], control_topic: str) -> None:
    """Drivers that start and stop never move the leadership, so the log is not read again each time."""
    group = unique("g")
    publisher = ControlPublisher(settings, control_topic)
    owner = CoordinatorLeadership(settings, group, control_topic)
    seen = until(owner, LogEndReached)
    for _ in range(2):
        joined = CoordinatorLeadership(settings, group, control_topic)
        others: list[LeadershipUpdate] = []
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline:
            seen += owner.poll(0.1)
            others += joined.poll(0.1)
        joined.close()
        assert others == []
    publisher.publish([heartbeat("p", 1)])
    seen += until(owner, LeadershipRead)
    # The group may still be changing hands after the last one that left: a mark is then refused, and comes again.
    wait_for(lambda: seen.extend(owner.poll(0.1)) or owner.store_low_water(1))
    assert [u for u in seen if isinstance(u, (LeadershipAssigned, LeadershipRevoked))] == seen[:1]
    owner.close()


def test_an_owner_that_leaves_hands_over_at_once(settings: dict[str, str], control_topic: str) -> None:
    """Closing the leadership gives it to the next member without waiting for a session to end."""
    group = unique("g")
    owner = CoordinatorLeadership(settings, group, control_topic)
    until(owner, LogEndReached)
    waiting = CoordinatorLeadership(settings, group, control_topic)
    assert waiting.poll(1.0) == []
    owner.close()
    assert isinstance(until(waiting, LeadershipAssigned)[0], LeadershipAssigned)
    waiting.close()


def test_only_the_owner_stores_a_mark(settings: dict[str, str], control_topic: str, admin: KafkaAdmin) -> None:
    """A member without the leadership stores nothing and is told so."""
    group = unique("g")
    owner = CoordinatorLeadership(settings, group, control_topic)
    until(owner, LogEndReached)
    waiting = CoordinatorLeadership(settings, group, control_topic)
    waiting.poll(0.5)
    assert not waiting.store_low_water(0)
    assert admin.group_offsets(group) == {}
    waiting.close()
    owner.close()


def test_a_killed_owner_is_replaced(
    settings: dict[str, str], control_topic: str, new_member: NewMember, capsys: pytest.CaptureFixture[str]
) -> None:
    """After kill -9 of the owner a waiting member gets the leadership within its session, and reads on from the mark."""
    group = unique("g")
    owner = new_member(group, control_topic)
    hear(owner, "end")
    publisher = ControlPublisher(settings, control_topic)
    publisher.publish([heartbeat("p", 1)])
    assert hear(owner, "stored") == ["stored", 1, True]
    waiting = CoordinatorLeadership(settings, group, control_topic)
    assert waiting.poll(2.0) == []
    owner.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    [assigned] = [u for u in until(waiting, LeadershipAssigned) if isinstance(u, LeadershipAssigned)]
    with capsys.disabled():
        print(f"\n[leadership] replaced {time.monotonic() - killed:.1f} s after kill -9")
    assert assigned.low_water == 1
    publisher.publish([heartbeat("p", 2)])
    assert offsets_of(until(waiting, LeadershipRead)) == [1]
    waiting.close()


def test_a_stopped_owner_wakes_up_without_leadership(
    settings: dict[str, str], control_topic: str, admin: KafkaAdmin, new_member: NewMember
) -> None:
    """SIGSTOP across a take-over: the old owner learns that the leadership is gone and cannot move the new owner's mark."""
    group = unique("g")
    publisher = ControlPublisher(settings, control_topic)
    owner = new_member(group, control_topic)
    hear(owner, "end")
    publisher.publish([heartbeat("p", 1)])
    assert hear(owner, "stored") == ["stored", 1, True]
    owner.send_signal(signal.SIGSTOP)
    taker = CoordinatorLeadership(settings, group, control_topic)
    until(taker, LogEndReached)
    publisher.publish([heartbeat("p", batch) for batch in range(2, 6)])
    assert offsets_of(until(taker, LeadershipRead))[0] == 1
    assert taker.store_low_water(5)
    owner.send_signal(signal.SIGCONT)
    deadline = time.monotonic() + 60
    heard: list[object] = []
    assert owner.stdout is not None
    while time.monotonic() < deadline and heard[:1] != ["revoked"]:
        heard = json.loads(owner.stdout.readline())
        taker.poll(0.05)
        if heard[0] == "stored":
            assert heard[2] is False, "a zombie stored a mark"
    assert heard == ["revoked"]
    assert admin.group_offsets(group)[control_topic, 0].offset == 5
    assert taker.store_low_water(5)
    taker.close()


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        (LeadershipAssigned("a", 0, None, None), 0),
        (LeadershipAssigned("a", 40, None, None), 40),
        (LeadershipAssigned("a", 0, 7, "a"), 7),
        (LeadershipAssigned("a", 40, 7, "a"), 40),
        (LeadershipAssigned("a", 0, 7, "b"), 0),
        (LeadershipAssigned("a", 0, 7, None), 0),
    ],
)
def test_where_an_owner_begins(assigned: LeadershipAssigned, expected: int) -> None:
    """Invariant 6: at the mark of this very topic, else at the log's beginning, never at its end."""
    assert first_offset(assigned) == expected
