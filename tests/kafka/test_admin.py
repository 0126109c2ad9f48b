"""KafkaAdmin on a real broker."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from framework.adapters.kafka.admin import KafkaAdmin, TopicFacts
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.errors import SetupError
from framework.local import stack
from tests.conftest import Broker
from tests.kafka.conftest import unique, wait_for

pytestmark = pytest.mark.kafka


def test_topics_by_name_have_an_id_and_all_partitions(broker: Broker, admin: KafkaAdmin) -> None:
    """A named topic is described by its id and its partitions; a name that does not exist is absent, and stays so."""
    topic = broker.new_topic(partitions=3)
    missing = unique("missing")
    found = admin.topics([topic, missing])
    assert found.keys() == {topic}
    assert found[topic].partitions == (0, 1, 2)
    assert admin.topics([missing]) == {}


def test_topics_by_pattern(broker: Broker, admin: KafkaAdmin) -> None:
    """A pattern finds what its regular expression matches, sorted, and never an internal topic."""
    prefix = unique("orders")
    names = sorted(broker.new_topic(prefix=prefix) for _ in range(2))
    broker.new_topic(prefix="other")
    assert list(admin.topics(f"^{prefix}-")) == names
    assert not [name for name in admin.topics(".") if name.startswith("__")]


def test_a_recreated_topic_has_another_id(broker: Broker, admin: KafkaAdmin) -> None:
    """Invariant 11 can be kept, because a topic that is deleted and made again is told apart by its id."""
    topic = broker.new_topic()
    before = admin.topics([topic])[topic]
    recreate(admin, topic)
    after = admin.topics([topic])[topic]
    assert isinstance(after, TopicFacts)
    assert after.topic_id != before.topic_id


def test_the_cluster_has_an_id(admin: KafkaAdmin) -> None:
    """The cluster's id is known and stays the same between clients."""
    assert admin.cluster_id()
    assert admin.cluster_id() == KafkaAdmin({"bootstrap.servers": admin.address}).cluster_id()


def test_start_and_end_offsets(broker: Broker, admin: KafkaAdmin) -> None:
    """A log's ends are known per partition, also after its head was removed."""
    topic = broker.new_topic(partitions=2)
    broker.produce(topic, ["a", "b", "c"], partition=0)
    admin.raw.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0, 2)].result(10)
    keys = [(topic, 0), (topic, 1)]
    assert admin.start_offsets(keys) == {(topic, 0): 2, (topic, 1): 0}
    assert admin.end_offsets(keys) == {(topic, 0): 3, (topic, 1): 0}


def test_the_end_is_the_last_stable_offset(broker: Broker, admin: KafkaAdmin) -> None:
    """Records of an open transaction lie above the end, since a batch that covers them could not be read to its end."""
    topic = broker.new_topic()
    broker.produce(topic, ["a", "b"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique("tx")})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(10)
    broker.produce(topic, ["after"])
    key = (topic, 0)
    assert admin.end_offsets([key])[key] == 2
    producer.commit_transaction(10)
    wait_for(lambda: admin.end_offsets([key])[key] == 5)


def test_a_group_without_offsets_is_empty(admin: KafkaAdmin) -> None:
    """A group that never committed has no offsets and no members, and that is no error."""
    assert admin.group_offsets(unique("group")) == {}
    assert admin.group_members(unique("group")) == ()


@pytest.mark.parametrize("host", ["127.0.0.1", "kafka.invalid"])
def test_an_unreachable_broker_is_a_setup_error(host: str) -> None:
    """An address where no broker answers ends in one error with the address and the remedy, not in a hang."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"{host}:{probe.getsockname()[1]}"
    admin = KafkaAdmin({"bootstrap.servers": address}, timeout_s=0.5)
    asks = [
        admin.cluster_id,
        lambda: admin.topics(["t"]),
        lambda: admin.topics("^t"),
        lambda: admin.end_offsets([("t", 0)]),
        lambda: admin.group_offsets("g"),
        lambda: admin.group_members("g"),
        lambda: ensure_control_topic(admin, "c"),
    ]
    for ask in asks:
        with pytest.raises(SetupError) as caught:
            ask()
        assert caught.value.code == "FLOE-E101"
        assert caught.value.place == address
        assert ("floe local up" in caught.value.remedy) == (host == "127.0.0.1")


def test_settings_that_the_protocol_owns_are_refused() -> None:
    """A connection cannot set what exactly-once depends on; it is told so by name instead of being overridden."""
    with pytest.raises(SetupError, match=r"enable\.auto\.commit, isolation\.level") as caught:
        KafkaAdmin({"bootstrap.servers": "h:1", "isolation.level": "read_uncommitted", "enable.auto.commit": "true"})
    assert caught.value.code == "FLOE-E104"


def test_a_connection_without_an_address_is_refused() -> None:
    """A connection without bootstrap.servers is an error at once."""
    with pytest.raises(SetupError) as caught:
        KafkaAdmin({})
    assert caught.value.code == "FLOE-E105"


@pytest.mark.parametrize(
    ("setting", "says"),
    [({"bogus.key": "1"}, "bogus.key"), ({"security.protocol": "FOO"}, "FOO")],
)
def test_a_setting_that_the_library_does_not_know_is_refused(setting: dict[str, str], says: str) -> None:
    """A misspelt key or value of the connection is named, before anything is connected."""
    with pytest.raises(SetupError, match=says) as caught:
        KafkaAdmin({"bootstrap.servers": "h:1", **setting})
    assert caught.value.place == "h:1"


@pytest.mark.parametrize(
    "security",
    [
        {"security.protocol": "SSL"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "s3"},
    ],
)
def test_a_connection_of_the_wrong_kind_is_distinguished_from_a_missing_broker(
    settings: dict[str, str], security: dict[str, str]
) -> None:
    """A broker that answers but does not take TLS or the credentials is reported as that, without the password."""
    with pytest.raises(SetupError) as caught:
        KafkaAdmin(settings | security, timeout_s=1).check()
    assert caught.value.code == "FLOE-E102"
    assert "s3" not in str(caught.value)


def recreate(admin: KafkaAdmin, topic: str) -> None:
    """Delete a topic and make it again under the same name."""
    admin.raw.delete_topics([topic])[topic].result(10)
    wait_for(lambda: not admin.topics([topic]))
    deadline = time.monotonic() + 10
    while True:
        try:
            admin.raw.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
            break
        except KafkaException:  # the broker is still busy with the deletion
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    wait_for(lambda: admin.topics([topic]))


@pytest.mark.slow
def test_a_broker_that_never_had_a_group_can_be_asked_about_one(tmp_path: Path) -> None:
    """The first question about a group on a new broker, which has no offsets topic yet, does not end the process."""
    code = "import sys; from framework.adapters.kafka.admin import KafkaAdmin; "
    code += "admin = KafkaAdmin({'bootstrap.servers': sys.argv[1]}); print(admin.group_offsets('g'), admin.group_members('g'))"
    for number in range(6):
        state = stack.up(tmp_path / str(number), kafka_port=0)
        try:
            command = [sys.executable, "-c", code, state.bootstrap_servers]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        finally:
            stack.down(tmp_path / str(number), wipe=True)
        assert (done.returncode, done.stdout) == (0, "{} ()\n"), done.stderr
