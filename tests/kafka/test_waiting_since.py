"""Since when unread records wait, asked of a real broker for several pipelines at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from framework.adapters.kafka.client import build
from framework.adapters.kafka.control import record_time
from framework.adapters.kafka.control.record_time import RecordTimes, record_times_ms
from framework.observe.waiting_since import UnreadPart, waiting_since
from tests.conftest import Broker

pytestmark = pytest.mark.kafka

MOMENT_MS = 1_700_000_000_000


def test_each_pipeline_has_the_time_of_its_oldest_unread_record(broker: Broker) -> None:
    """The oldest of its partitions counts; two pipelines may read one partition from two positions, and one that has read
    everything has no time."""
    topic = broker.new_topic("waits", partitions=2)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    for partition in (0, 1):
        times = [MOMENT_MS + partition * 500 + number * 1_000 for number in range(10)]
        broker.produce(topic, ["x"] * 10, partition=partition, timestamps_ms=times)
    one, other = (topic, 0), (topic, 1)
    found = waiting_since(
        partial(record_times_ms, kafka),
        {
            "behind": (UnreadPart(one, 3, 7), UnreadPart(other, 5, 5)),
            "further": (UnreadPart(one, 8, 2),),
            "done": (UnreadPart(one, 10, 0),),
            "new": (),
        },
    )
    assert found == {"behind": MOMENT_MS + 3_000, "further": MOMENT_MS + 8_000}


def test_what_no_record_answers_has_no_time(broker: Broker) -> None:
    """A position at the end of a log is waited for no longer than two seconds, and holds up no other."""
    topic = broker.new_topic("ends", partitions=2)
    broker.produce(topic, ["x"], partition=0, timestamps_ms=[MOMENT_MS])
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    places = [((topic, 0), 0), ((topic, 1), 0)]
    assert record_times_ms(kafka, places) == {places[0]: MOMENT_MS}


def test_whoever_looks_again_and_again_has_one_consumer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty looks at positions that move on make one consumer, and give the times of what is there now."""
    made = []

    def counted(*arguments: Any) -> Any:
        made.append(1)
        return build(*arguments)

    monkeypatch.setattr(record_time, "build", counted)
    topic = broker.new_topic("looks", partitions=1)
    broker.produce(topic, ["x"] * 20, partition=0, timestamps_ms=[MOMENT_MS + number for number in range(20)])
    times = RecordTimes({"bootstrap.servers": broker.bootstrap_servers})
    try:
        for number in range(20):
            place = ((topic, 0), number)
            assert times.of([place]) == {place: MOMENT_MS + number}
    finally:
        times.close()
    assert len(made) == 1
