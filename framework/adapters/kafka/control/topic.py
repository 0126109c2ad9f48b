"""The control topic: made with what the protocol needs, or checked for it; never changed.

In: an admin client and a name. Out: the topic's id and its log's ends, or a SetupError that says which setting is wrong
and the command that repairs it. What they must be is decided by `framework.plan.control_topic`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from framework.adapters.kafka.admin import KafkaAdmin, TopicFacts
from framework.adapters.kafka.client import error_of
from framework.diagnose.shown import argument
from framework.errors import SetupError
from framework.plan.control_topic import SETTINGS, Wrong, what_is_weak, what_is_wrong

VISIBLE_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class ControlTopicFacts:
    """The control topic as it is: log_end is the last stable offset; retention -1 is for ever; `weakness` is what a
    person should repair (empty: nothing)."""

    name: str
    topic_id: str
    log_start: int
    log_end: int
    retention_ms: int
    created: bool
    weakness: str = ""


def ensure_control_topic(admin: KafkaAdmin, name: str) -> ControlTopicFacts:
    """Create the topic if it does not exist ("already exists" is success), then check it.

    Raises:
        SetupError: FLOE-E107 cannot be created; otherwise as `check_control_topic`.
    """
    created = False
    if not admin.topics([name]):
        created = _create(admin, name)
        deadline = time.monotonic() + VISIBLE_TIMEOUT_S
        # The broker that is asked hears of a new topic a little later than the controller that made it.
        while not admin.topics([name]) and time.monotonic() < deadline:
            time.sleep(0.05)
    return check_control_topic(admin, name, created)


def _create(admin: KafkaAdmin, name: str) -> bool:
    # Replication factor -1: the broker's own default, which the cluster's owner has chosen.
    topic = NewTopic(name, num_partitions=1, replication_factor=-1, config=dict(SETTINGS))
    try:
        admin.answer(admin.raw.create_topics([topic], operation_timeout=10)[name])
    except KafkaException as raised:
        error = error_of(raised)
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.POLICY_VIOLATION):
            raise SetupError(
                f"the control topic {name} does not exist and may not be created: {error.str()}",
                code="FLOE-E107",
                place=admin.address,
                remedy=f"ask an administrator to run: {_create_command(admin, name)}",
            ) from raised
        raise admin.error(raised, f"creating the control topic {name}") from raised
    return True


def control_topic_there(admin: KafkaAdmin, name: str) -> TopicFacts:
    """The topic with its partitions.

    Raises:
        SetupError: FLOE-E108, there is no such topic.
    """
    facts = admin.topics([name]).get(name)
    if facts is None:
        raise SetupError(
            f"the control topic {name} does not exist",
            code="FLOE-E108",
            place=admin.address,
            remedy=f"`floe run` creates it, and says how to go on if it was deleted; or run: {_create_command(admin, name)}",
        )
    return facts


def check_control_topic(admin: KafkaAdmin, name: str, created: bool = False) -> ControlTopicFacts:
    """The topic's facts, after checking its partitions and settings.

    Raises:
        SetupError: FLOE-E108 no such topic, FLOE-E109 a setting that the protocol cannot live with.
    """
    facts = control_topic_there(admin, name)
    config = _config(admin, name)
    replicas, _ = admin.replicas(name)
    if (wrong := what_is_wrong(len(facts.partitions), replicas, config)) is not None:
        raise SetupError(
            f"the control topic {name} {wrong.reason}",
            code="FLOE-E109",
            place=admin.address,
            remedy=_remedy(admin, name, wrong),
        )
    weak = what_is_weak(replicas, config)
    weakness = f"the control topic {name} {weak.reason}; {_remedy(admin, name, weak)}" if weak else ""
    key = (name, 0)
    start, end = admin.start_offsets([key])[key], admin.end_offsets([key])[key]
    return ControlTopicFacts(name, facts.topic_id, start, end, int(config["retention.ms"]), created, weakness)


def _config(admin: KafkaAdmin, name: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    entries = admin.wait(admin.raw.describe_configs([resource])[resource], f"reading the settings of topic {name}")
    return {key: str(entry.value) for key, entry in entries.items()}


def _remedy(admin: KafkaAdmin, name: str, wrong: Wrong) -> str:
    which = f"--bootstrap-server {argument(admin.address)} --alter --topic {argument(name)}"
    command = f"kafka-configs.sh {which} --add-config {argument(wrong.setting)}"
    return "; ".join(([f"run: {command}"] if wrong.setting else []) + ([wrong.otherwise] if wrong.otherwise else []))


def _create_command(admin: KafkaAdmin, name: str) -> str:
    settings = " ".join(f"--config {key}={value}" for key, value in SETTINGS.items())
    which = f"--bootstrap-server {argument(admin.address)} --create --topic {argument(name)}"
    return f"kafka-topics.sh {which} --partitions 1 {settings}"
