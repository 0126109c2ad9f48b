"""What the model of two runs takes for granted of a broker is true of a real one: the same promises, asked of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Accounting, Heartbeat, SourceRange
from framework.commit.offsets import encode_metadata
from framework.errors import FencedError, OutcomeUnknown
from framework.runtime.source import PipelineSource
from tests.conftest import Broker
from tests.protocol.runs import KEY, TOPIC_ID, MemoryBroker, MemoryProducer, MemorySource, plan

pytestmark = pytest.mark.kafka


@dataclass
class Ports:
    """New producers of one transactional id, and looks at the source; `key` and `topic_id` are of its only
    partition."""

    producer: Callable[[], PipelineProducer | MemoryProducer]
    source: PipelineSource | MemorySource
    key: tuple[str, int]
    topic_id: str
    pipeline: str

    def announce(self, producer: PipelineProducer | MemoryProducer, run: str, batch: int, end: int) -> int:
        ranges = (SourceRange(*self.key[:1], self.topic_id, self.key[1], end, end),)
        line = Accounting()
        text = encode_metadata(self.topic_id, batch, line, run)
        return producer.announce((Heartbeat(self.pipeline, run, batch, ranges, line),), {self.key: (end, text)})

    def stands(self, settled: bool = True) -> tuple[str, int] | None:
        safe = self.source.group_offsets([self.key], settled=settled).get(self.key)
        return (safe.run, safe.offset) if safe is not None else None

    def reported(self) -> tuple[str, int] | None:
        link = self.source.newest_announcement()
        return (link.run, link.ranges[0].end) if link is not None else None


def in_memory() -> Ports:
    broker = MemoryBroker()
    quiet = lambda what: ""  # noqa: E731
    return Ports(lambda: MemoryProducer(broker, quiet), MemorySource(broker, quiet, "p"), KEY, TOPIC_ID, "p")


def on_a_broker(broker: Broker) -> Ports:
    topic = broker.new_topic("contract", partitions=1)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    made = plan("latest", topic, topic)
    admin = KafkaAdmin(kafka)
    ensure_control_topic(admin, made.announce.control_topic)
    names = (made.announce.transactional_id, made.read.group_id, made.announce.control_topic)
    topic_id = admin.topics([topic])[topic].topic_id
    return Ports(lambda: PipelineProducer(kafka, *names), PipelineSource(made, kafka), (topic, 0), topic_id, topic)


@pytest.fixture(params=["memory", "broker"])
def ports(request: pytest.FixtureRequest) -> Ports:
    if request.param == "memory":
        return in_memory()
    return on_a_broker(request.getfixturevalue("broker"))


def test_an_announcement_and_its_offsets_are_there_together(ports: Ports) -> None:
    """Nothing before it, both after it; the returned offset lies behind the event."""
    producer = ports.producer()
    producer.start()
    assert (ports.stands(), ports.reported()) == (None, None)
    first = ports.announce(producer, "one", 0, 5)
    assert (ports.stands(), ports.stands(settled=False), ports.reported()) == (("one", 5),) * 3
    assert ports.announce(producer, "one", 1, 7) > first
    assert (ports.stands(), ports.reported()) == (("one", 7), ("one", 7))
    producer.close()


def test_who_starts_fences_who_was_there(ports: Ports) -> None:
    """The older producer is told so at its next announcement, which does not happen; the newer one goes on."""
    older, newer = ports.producer(), ports.producer()
    older.start()
    ports.announce(older, "one", 0, 5)
    newer.start()
    with pytest.raises(FencedError):
        ports.announce(older, "one", 1, 6)
    assert (ports.stands(), ports.reported()) == (("one", 5), ("one", 5))
    ports.announce(newer, "two", 1, 9)
    assert (ports.stands(), ports.reported()) == (("two", 9), ("two", 9))


def test_who_recovers_fences_who_is_there(ports: Ports) -> None:
    """Recovering takes the transactional id again, like a start; so whoever recovers has to look first."""
    older, newer = ports.producer(), ports.producer()
    older.start()
    newer.start()
    ports.announce(newer, "two", 0, 5)
    older.recover()
    with pytest.raises(FencedError):
        ports.announce(newer, "two", 1, 6)
    ports.announce(older, "one", 1, 6)
    assert (ports.stands(), ports.reported()) == (("one", 6), ("one", 6))


def test_nothing_is_announced_before_a_start(ports: Ports) -> None:
    """A producer without a transactional id of its own knows nothing of what became of its word."""
    with pytest.raises(OutcomeUnknown):
        ports.announce(ports.producer(), "one", 0, 5)
    assert ports.stands() is None
