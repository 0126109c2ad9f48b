"""The control topic: made with what the protocol needs, or checked for it; never changed.

In: an admin client and a name. Out: the topic's id and its log's ends, or a SetupError that says which setting is wrong
and the command that mends it. Keeps the rule that the log is one partition (total order) and that no announcement is
removed by compaction, and removed by retention only long after a coordinator should have committed it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from framework.adapters.kafka_client import error_of
from framework.errors import SetupError

if TYPE_CHECKING:
    from framework.adapters.kafka_admin import KafkaAdmin

DAY_MS = 24 * 60 * 60 * 1000
# The log is small (some kilobytes a batch), and an announcement lost to retention means files that no table will ever
# show: so a created topic outlives a month without a coordinator.
RETENTION_MS = 30 * DAY_MS
# Below this an ordinary night without a coordinator could already lose announcements.
MIN_RETENTION_MS = DAY_MS
# A producer's batch is bounded by message.max.bytes (1,000,000) before compression, an event by 512 KiB.
MIN_MESSAGE_BYTES = 1_000_000
MESSAGE_BYTES = 1_048_588
VISIBLE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ControlTopicFacts:
    """The control topic as it is: log_end is the last stable offset; retention -1 is for ever."""

    name: str
    topic_id: str
    log_start: int
    log_end: int
    retention_ms: int
    created: bool


def ensure(admin: KafkaAdmin, name: str) -> ControlTopicFacts:
    """Create the topic if it does not exist ("already exists" is success), then check it.

    Raises:
        SetupError: FLOE-E107 cannot be created; otherwise as `check`.
    """
    created = False
    if not admin.topics([name]):
        created = _create(admin, name)
        deadline = time.monotonic() + VISIBLE_TIMEOUT_S
        # The broker that is asked hears of a new topic a little later than the controller that made it.
        while not admin.topics([name]) and time.monotonic() < deadline:
            time.sleep(0.05)
    return check(admin, name, created)


def _create(admin: KafkaAdmin, name: str) -> bool:
    config = {
        "cleanup.policy": "delete",
        "retention.ms": str(RETENTION_MS),
        "retention.bytes": "-1",
        "max.message.bytes": str(MESSAGE_BYTES),
    }
    # Replication factor -1: the broker's own default, which the cluster's owner has chosen.
    topic = NewTopic(name, num_partitions=1, replication_factor=-1, config=config)
    try:
        admin.raw.create_topics([topic], operation_timeout=10)[name].result(20)
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION):
            raise SetupError(
                f"the control topic {name} does not exist and may not be created: {error.str()}",
                code="FLOE-E107",
                place=admin.address,
                remedy=f"let an administrator run: {_create_command(admin, name)}",
            ) from raised
        raise admin.error(raised, f"creating the control topic {name}") from raised
    return True


def check(admin: KafkaAdmin, name: str, created: bool = False) -> ControlTopicFacts:
    """The topic's facts, after checking partitions, clean-up policy, retention and message size.

    Raises:
        SetupError: FLOE-E108 no such topic, FLOE-E109 a setting that the protocol cannot live with.
    """
    facts = admin.topics([name]).get(name)
    if facts is None:
        raise SetupError(
            f"the control topic {name} does not exist",
            code="FLOE-E108",
            place=admin.address,
            remedy=f"`floe run` creates it; or run: {_create_command(admin, name)}",
        )
    config = _config(admin, name)
    alter = f"kafka-configs.sh --bootstrap-server {admin.address} --alter --topic {name} --add-config"
    policy, retention_ms = config["cleanup.policy"], int(config["retention.ms"])
    if len(facts.partitions) != 1:
        raise _wrong(
            admin,
            f"the control topic {name} has {len(facts.partitions)} partitions; the protocol needs one, for one order",
            "name another topic in commit.control_topic; partitions cannot be removed",
        )
    if policy != "delete":
        raise _wrong(
            admin,
            f"the control topic {name} has cleanup.policy={policy}; compaction would remove announcements",
            f"run: {alter} cleanup.policy=delete; if it was compacted already, name another topic",
        )
    if 0 <= retention_ms < MIN_RETENTION_MS:
        raise _wrong(
            admin,
            f"the control topic {name} keeps records for {retention_ms} ms only; later, announcements are lost",
            f"run: {alter} retention.ms={RETENTION_MS}",
        )
    if int(config["max.message.bytes"]) < MIN_MESSAGE_BYTES:
        raise _wrong(
            admin,
            f"the control topic {name} takes {config['max.message.bytes']} bytes a message, not {MIN_MESSAGE_BYTES}",
            f"run: {alter} max.message.bytes={MESSAGE_BYTES}",
        )
    key = (name, 0)
    start, end = admin.start_offsets([key])[key], admin.end_offsets([key])[key]
    return ControlTopicFacts(name, facts.topic_id, start, end, retention_ms, created)


def _config(admin: KafkaAdmin, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = admin.wait(admin.raw.describe_configs([resource])[resource], f"reading the settings of topic {name}")
    return {key: str(entry.value) for key, entry in entries.items()}


def _wrong(admin: KafkaAdmin, message: str, remedy: str) -> SetupError:
    return SetupError(message, code="FLOE-E109", place=admin.address, remedy=remedy)


def _create_command(admin: KafkaAdmin, name: str) -> str:
    return (
        f"kafka-topics.sh --bootstrap-server {admin.address} --create --topic {name} --partitions 1 "
        f"--config cleanup.policy=delete --config retention.ms={RETENTION_MS} "
        f"--config max.message.bytes={MESSAGE_BYTES}"
    )
