"""ControlReader and ControlPublisher on a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Holds, PauseChanged
from framework.errors import DataLossError, FloeError, RetriableError, SetupError
from framework.observe.live.reader import LiveTarget, OverviewReader
from framework.runtime.pipeline.control_watch import ControlWatch
from tests.conftest import Broker
from tests.kafka.conftest import batches, heartbeat, unique, wait_for

pytestmark = pytest.mark.kafka


@pytest.fixture
def reader(settings: dict[str, str], control_topic: str) -> Iterator[ControlReader]:
    reader = ControlReader(settings, control_topic)
    yield reader
    reader.close()


def test_what_is_published_is_read_in_order(
    settings: dict[str, str], control_topic: str, reader: ControlReader
) -> None:
    """Published events come back with their offsets, from any offset on."""
    publisher = ControlPublisher(settings, control_topic)
    offsets = publisher.publish([heartbeat("p", batch) for batch in range(5)])
    assert offsets == [0, 1, 2, 3, 4]
    reader.seek(2)
    found = list(reader.read_until(reader.end_offset()))
    assert [offset for offset, _ in found] == [2, 3, 4]
    assert batches(found) == [("p", 2), ("p", 3), ("p", 4)]
    publisher.close()


def test_an_empty_log_has_nothing_to_wait_for(reader: ControlReader) -> None:
    """Reading a log that holds nothing ends at once."""
    reader.seek(0)
    assert list(reader.read_until(reader.end_offset())) == []
    assert reader.position() == 0


def test_the_position_passes_transaction_markers(
    broker: Broker, reader: ControlReader, admin: KafkaAdmin, new_producer: Callable[..., PipelineProducer]
) -> None:
    """The log's end lies behind the marker of the last transaction; the reader gets there, so "caught up" is
    reached."""
    source, pipeline = broker.new_topic(), unique("p")
    producer = new_producer(pipeline)
    for batch in (1, 2, 3):
        producer.announce([heartbeat(pipeline, batch)], {(source, 0): (batch, "")})
    wait_for(lambda: reader.end_offset() == 6)
    reader.seek(0)
    found = list(reader.read_until(6))
    assert [offset for offset, _ in found] == [0, 2, 4]
    assert reader.position() == 6


def test_reading_ends_at_the_end_seen_before(
    settings: dict[str, str], control_topic: str, reader: ControlReader
) -> None:
    """Events that come while reading are left alone: the end is the one that was asked for."""
    publisher = ControlPublisher(settings, control_topic)
    publisher.publish([heartbeat("p", 1)])
    end = reader.end_offset()
    publisher.publish([heartbeat("p", 2)])
    reader.seek(0)
    assert batches(list(reader.read_until(end))) == [("p", 1)]
    publisher.close()


def test_whoever_goes_on_behind_the_end_misses_nothing(
    settings: dict[str, str], control_topic: str, reader: ControlReader
) -> None:
    """Events that come while a reader reads up to an end are there for the next reading, raw, decoded or polled, and the
    position says so."""
    publisher = ControlPublisher(settings, control_topic)
    publisher.publish([heartbeat("p", batch) for batch in range(9)])
    reader.seek(0)
    assert batches(list(reader.read_until(2))) == [("p", 0), ("p", 1)]
    assert reader.position() == 2
    assert [each.offset for each in reader.raw_until(4)] == [2, 3]
    assert [each.offset for each in reader.records_until(6)] == [4, 5]
    found = reader.poll(5.0)
    while len(found) < 3:
        found += reader.poll(5.0)
    assert batches(found) == [("p", 6), ("p", 7), ("p", 8)]
    assert reader.position() == 9
    reader.seek(1)
    assert batches(list(reader.read_until(2))) == [("p", 1)], "what was put aside is forgotten by a seek"
    publisher.close()


def test_an_empty_record_behind_the_end_is_read_too(broker: Broker, control_topic: str, reader: ControlReader) -> None:
    """A record without a value that came since the end was asked for keeps its offset, like any other without an event."""
    broker.produce(control_topic, ["not an event", b"", None])
    reader.seek(0)
    assert list(reader.read_until(1)) == [(0, None)]
    found = reader.poll(5.0)
    while len(found) < 2:
        found += reader.poll(5.0)
    assert found == [(1, None), (2, None)]


@pytest.mark.parametrize("follower", ["watch", "overview"])
def test_what_comes_while_a_follower_starts_is_seen(
    settings: dict[str, str], control_topic: str, monkeypatch: pytest.MonkeyPatch, follower: str
) -> None:
    """A pause that is published between the look for the log's end and the first record read holds: the run and the page
    follow the log without a hole."""
    publisher = ControlPublisher(settings, control_topic)
    publisher.publish([heartbeat("p", 1)])
    asked = ControlReader.end_offset

    def then_paused(reader: ControlReader) -> int:
        end = asked(reader)
        publisher.publish([PauseChanged(Holds.READING, "p", True, "somebody", "INC-4711", 1)])
        return end

    monkeypatch.setattr(ControlReader, "end_offset", then_paused)
    if follower == "watch":
        watch = ControlWatch(settings, control_topic, unique("group"), print)
        watch.start()
        monkeypatch.undo()
        try:
            wait_for(lambda: watch.reading_pause("p") is not None)
        finally:
            watch.close()
    else:
        overview = OverviewReader(LiveTarget("it", unique("it"), settings, control_topic), print)
        overview.start()
        monkeypatch.undo()
        try:
            wait_for(lambda: [act.act for act in overview.view().acts] == ["pause"])
        finally:
            overview.close()
    publisher.close()


def test_the_page_is_there_before_the_first_run(broker: Broker) -> None:
    """Where the control topic does not exist yet, that is what is shown, and what the first run writes comes by itself.
    Whoever does not wait for it is told so."""
    settings, topic = {"bootstrap.servers": broker.bootstrap_servers}, unique("control")
    looked = LiveTarget("it", unique("it"), settings, topic)
    with pytest.raises(SetupError, match="does not exist"):
        OverviewReader(looked, print).start()
    overview = OverviewReader(looked, print)
    overview.start(waits=True)
    try:
        assert "does not exist" in overview.view().broker.trouble
        assert overview.view().broker.trouble_code == "FLOE-E108"
        ensure_control_topic(KafkaAdmin(settings), topic)
        publisher = ControlPublisher(settings, topic)
        publisher.publish([heartbeat("p", 1)])
        publisher.close()
        wait_for(lambda: [each.pipeline for each in overview.view().pipelines] == ["p"])
        wait_for(lambda: not overview.view().broker.trouble)
        assert not overview.view().broker.trouble_code
    finally:
        overview.close()


def test_an_unknown_event_is_read_as_none(broker: Broker, control_topic: str, reader: ControlReader) -> None:
    """An event of a newer version keeps its offset and is passed over, not an error."""
    broker.produce(control_topic, [{"type": "from_the_future", "version": 9}])
    reader.seek(0)
    assert list(reader.read_until(1)) == [(0, None)]


def test_a_malformed_record_is_an_error(broker: Broker, control_topic: str, reader: ControlReader) -> None:
    """A record that is named like an event stops the reader: skipping it could skip an announcement. One that can be no
    event keeps its offset and is passed over."""
    broker.produce(control_topic, ["not an event"])
    reader.seek(0)
    assert list(reader.read_until(1)) == [(0, None)]
    broker.produce(control_topic, [{"type": "DataWritten", "version": 1}])
    with pytest.raises(FloeError, match="offset 1"):
        list(reader.read_until(2))


def test_a_position_outside_the_log_is_an_error(
    settings: dict[str, str], control_topic: str, reader: ControlReader, admin: KafkaAdmin
) -> None:
    """Invariant 6: the reader never jumps to an end of the log when its position is gone."""
    publisher = ControlPublisher(settings, control_topic)
    publisher.publish([heartbeat("p", batch) for batch in range(110)])
    gone = TopicPartition(control_topic, 0, 100)
    admin.raw.delete_records([gone])[gone].result(10)
    for outside in (10, 500):
        reader.seek(outside)
        with pytest.raises(DataLossError, match=rf"read at {outside}, but its log is \[100, 110\)"):
            list(reader.read_until(110 if outside == 10 else 501))
    publisher.close()


def test_a_reader_that_gets_nothing_fails_in_time(
    settings: dict[str, str], control_topic: str, reader: ControlReader
) -> None:
    """An end that does not come is an error after the stall time-out, not a hang."""
    reader.seek(0)
    with pytest.raises(RetriableError, match="no records came"):
        list(reader.read_until(5, stall_timeout_s=1.0))


def test_publishing_to_nowhere_is_an_error(settings: dict[str, str]) -> None:
    """Events for a control topic that does not exist are reported as not taken, with the topic's name."""
    topic = unique("missing")
    publisher = ControlPublisher(settings, topic, timeout_s=2)
    with pytest.raises(FloeError, match=topic):
        publisher.publish([heartbeat("p", 1)])
