"""The control topic on a real broker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import check_control_topic, ensure_control_topic
from framework.commit.events.event_types import CommitRequested
from framework.errors import FloeError, SetupError
from framework.local.broker import free_port
from framework.plan.control_topic import MIN_RETENTION_BYTES, RETENTION_MS
from framework.runtime.retry_policy import is_retriable
from tests.conftest import Broker
from tests.kafka.conftest import unique

pytestmark = pytest.mark.kafka

GOOD = {"cleanup.policy": "delete", "retention.ms": str(RETENTION_MS), "max.message.bytes": "1048588"}


def test_it_is_created_once(admin: KafkaAdmin) -> None:
    """The first call creates the topic with the settings the protocol needs; the second finds it and says so."""
    name = unique("control")
    first, second = ensure_control_topic(admin, name), ensure_control_topic(admin, name)
    assert (first.created, second.created) == (True, False)
    assert first.topic_id == second.topic_id
    assert (first.log_start, first.log_end, first.retention_ms) == (0, 0, RETENTION_MS)


def test_a_good_topic_of_somebody_else_is_accepted(broker: Broker, admin: KafkaAdmin) -> None:
    """A topic that an administrator made is used as it is, also one that keeps its records for ever."""
    assert not ensure_control_topic(admin, broker.new_topic(config=GOOD)).created
    assert check_control_topic(admin, broker.new_topic(config=GOOD | {"retention.ms": "-1"})).retention_ms == -1


@pytest.mark.parametrize(
    ("partitions", "config", "says"),
    [
        (2, {}, "has 2 partitions"),
        (1, {"cleanup.policy": "compact"}, "cleanup.policy=compact"),
        (1, {"cleanup.policy": "compact,delete"}, "compaction would remove announcements"),
        (1, {"retention.ms": "3600000"}, "3600000 ms"),
        (1, {"retention.bytes": "1048576"}, "keeps only 1048576 bytes"),
        (1, {"max.message.bytes": "100000"}, "100000 bytes"),
    ],
)
def test_a_wrong_topic_is_refused(
    broker: Broker, admin: KafkaAdmin, partitions: int, config: Mapping[str, str], says: str
) -> None:
    """A topic that would lose or reorder announcements is refused, with the setting that is wrong and how to repair it."""
    topic = broker.new_topic(partitions=partitions, config=GOOD | config)
    with pytest.raises(SetupError, match=says) as caught:
        ensure_control_topic(admin, topic)
    assert caught.value.code == "FLOE-E109"
    assert caught.value.remedy
    if partitions == 1:
        [(name, _)] = config.items()
        assert f"--alter --topic {topic} --add-config {name}=" in caught.value.remedy


def test_a_bound_by_size_is_accepted_where_it_is_large(broker: Broker, admin: KafkaAdmin) -> None:
    """A log that may grow to a gibibyte keeps announcements for long enough; with one replica no other can lead in its
    place."""
    config = {"retention.bytes": str(MIN_RETENTION_BYTES), "unclean.leader.election.enable": "true"}
    assert check_control_topic(admin, broker.new_topic(config=GOOD | config)).weakness == ""


def test_a_missing_topic_is_named_with_the_command_that_makes_it(admin: KafkaAdmin) -> None:
    """Checking does not create: the error has the command."""
    name = unique("control")
    with pytest.raises(SetupError) as caught:
        check_control_topic(admin, name)
    assert caught.value.code == "FLOE-E108"
    assert f"--create --topic {name}" in caught.value.remedy
    assert admin.topics([name]) == {}


def test_an_event_that_nobody_takes_is_an_outage() -> None:
    """A broker that is away for longer than a message may wait is waited for: whoever publishes tries again."""
    publisher = ControlPublisher({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "control", timeout_s=0.5)

    with pytest.raises(FloeError) as raised:
        publisher.publish([CommitRequested("request", "", 0)])
    publisher.close()

    assert raised.value.code == "FLOE-E101"
    assert is_retriable(raised.value)
