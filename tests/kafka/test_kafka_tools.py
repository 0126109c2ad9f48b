"""Remedies that are commands of Kafka's own tools, typed as they are shown, with those tools."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from framework.adapters.host.java import find_java
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.risks import Held, OpenTransaction, records_hidden, retention_near
from framework.errors import SetupError
from framework.local.jars import KAFKA_VERSION
from framework.ops.readiness.model import PartitionBacklog, judge_retention
from framework.plan.grants.kafka import Grant, Resource
from framework.plan.topic_retention import PartitionHeld, TopicHeld, alter_command, needed_retention
from framework.runtime.source import create_command
from testbed.servers.maven import dependency, jars
from tests.conftest import Broker
from tests.kafka.conftest import unique

pytestmark = pytest.mark.kafka

FRAMEWORK = Path(__file__).parents[2] / "framework"
HOUR_MS = 3_600_000
# What each script of Kafka's starts.
CLASSES = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
# Where such commands are made, and the tests here that type them. Codes show what these make.
MADE_IN = {
    "adapters/kafka/control/topic.py": "test_a_control_topic_is_made_and_mended",
    "commit/risks.py": "test_what_risks_name",
    "ops/readiness/model.py": "test_retention_is_raised",
    "plan/grants/kafka.py": "test_grants_are_commands",
    "plan/topic_retention.py": "test_a_topic_keeps_what_an_outage_needs",
    "runtime/source.py": "test_a_topic_is_created",
}


def typed(command: str) -> tuple[int, str]:
    """Runs it as the scripts of Kafka's distribution would."""
    script, *words = shlex.split(command)
    folder = jars(f"kafka-tools-{KAFKA_VERSION}", [
        dependency("org.apache.kafka", "kafka-tools", KAFKA_VERSION), dependency("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ])  # fmt: skip
    java = [find_java(), "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/*", CLASSES[script]]
    done = subprocess.run([*java, *words], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def commands(remedy: str) -> list[str]:
    return [each.strip() for each in re.findall(r"kafka-[a-z]+\.sh [^;`]*", remedy)]


def settings_of(broker: Broker, topic: str) -> dict[str, str]:
    client, resource = (
        AdminClient({"bootstrap.servers": broker.bootstrap_servers}),
        ConfigResource(ResourceType.TOPIC, topic),
    )
    found = client.describe_configs([resource])[resource].result(30)
    return {name: str(entry.value) for name, entry in found.items()}


def test_whoever_names_a_tool_of_kafkas_has_a_test_here() -> None:
    """A new place that makes such a command is a failure here, until somebody types what it makes."""
    naming = {
        str(path.relative_to(FRAMEWORK))
        for path in FRAMEWORK.rglob("*.py")
        if re.search(r"kafka-[a-z]+\.sh ", path.read_text()) and "codes" not in path.parts
    }
    assert naming - {"diagnose/whole_commands.py"} == set(MADE_IN)
    assert set(MADE_IN.values()) <= set(globals())


@pytest.mark.slow
def test_a_topic_is_created(broker: Broker) -> None:
    name = unique("typed")
    code, said = typed(create_command(broker.bootstrap_servers, name))
    assert code == 0, said
    assert name in KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).topics([name])


@pytest.mark.slow
def test_what_risks_name(broker: Broker) -> None:
    """The retention of a topic whose records are about to go, and the end of a transaction that nobody ends."""
    topic = broker.new_topic("typed", config={"retention.ms": "1800000"})
    near = retention_near("orders", [Held(topic, 0, 10, 100, 11)])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"{}")
    producer.flush(30)
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    [offset] = admin.end_offsets([(topic, 0)]).values()
    open_ = OpenTransaction(topic, 0, offset, 1, 0)
    hidden = records_hidden("orders", [open_], HOUR_MS)
    assert near is not None
    assert hidden is not None
    for risk in (near, hidden):
        [command] = commands(risk.remedy)
        code, said = typed(command.replace(" BROKER ", f" {broker.bootstrap_servers} "))
        assert code == 0, said
    assert settings_of(broker, topic)["retention.ms"] == "604800000"
    assert admin.end_offsets([(topic, 0)])[topic, 0] > offset, "what was behind it can be read"


@pytest.mark.slow
def test_retention_is_raised(broker: Broker) -> None:
    """By time, by size, and where the topic is compacted."""
    wrong = {"retention.ms": "1800000", "retention.bytes": "1000000", "cleanup.policy": "compact"}
    topic = broker.new_topic("typed", config=wrong)
    facts = {"place": f"{topic}-0", "position": 1, "log_start": 0, "log_end": 9, "oldest_ms": 0}
    for more in (
        {"retention_ms": HOUR_MS, "retention_bytes": -1},
        {"retention_ms": -1, "retention_bytes": 1_000_000},
        {"retention_ms": -1, "retention_bytes": -1, "is_compacted": True},
    ):
        backlog = PartitionBacklog(**facts, **more)  # type: ignore[arg-type]
        code, said = typed(judge_retention(backlog, 2 * HOUR_MS, topic, "read", broker.bootstrap_servers).remedy)
        assert code == 0, said
    found = settings_of(broker, topic)
    assert {name: found[name] for name in wrong} == {
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
    }


@pytest.mark.slow
def test_a_topic_keeps_what_an_outage_needs(broker: Broker) -> None:
    """Time and size at once."""
    topic = broker.new_topic("typed", config={"retention.ms": "1800000", "retention.bytes": "1000000"})
    held = TopicHeld(topic, (PartitionHeld(5, 3_605, 0, HOUR_MS, 1_000.0),), 1_800_000, 1_000_000)
    needed = needed_retention(held, 3 * 24 * HOUR_MS, HOUR_MS)
    code, said = typed(alter_command(broker.bootstrap_servers, topic, needed.settings))
    assert code == 0, said
    found = settings_of(broker, topic)
    assert found["retention.ms"] == "604800000"
    assert int(found["retention.bytes"]) >= 2 * 73 * 3_600 * 1_000


@pytest.mark.slow
def test_a_control_topic_is_made_and_mended(broker: Broker) -> None:
    """The command that makes one, then those that mend each setting with which the protocol cannot live."""
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    wrong = broker.new_topic("control", config={"cleanup.policy": "compact", "retention.ms": "1000"})
    for name in (unique("control"), wrong):
        for _ in range(6):
            try:
                check_control_topic(admin, name)
            except SetupError as error:
                [command] = commands(error.remedy)
                code, said = typed(command)
                assert code == 0, said
        check_control_topic(admin, name)


@pytest.mark.slow
@pytest.mark.parametrize("resource", list(Resource))
def test_grants_are_commands(broker: Broker, resource: Resource) -> None:
    """A broker without access lists understands them, and says that it has none."""
    operation = "Write" if resource is not Resource.GROUP else "Read"
    grant = Grant(resource, "floe orders", operation, prefixed=True)
    code, said = typed(grant.command(broker.bootstrap_servers, "User:floe"))
    assert code != 0
    assert "No Authorizer is configured" in said
