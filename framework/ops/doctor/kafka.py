"""What `floe doctor` checks of Kafka: does it answer, is the control topic safe, what is granted, and does its clock
agree.

In: a connection's settings and the plans that use it. Out: Findings. It creates one scratch topic,
`<prefix>-doctor-...`, to read the broker's clock, and deletes it; no group, offset or transactional id is touched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.client import ClientLog, build, client_config, error_of
from framework.adapters.kafka.control.topic import check_control_topic
from framework.adapters.kafka.tokens import plain_settings
from framework.diagnose.counted import counted
from framework.errors import SetupError
from framework.ops.doctor.model import DoctorFinding, ask, error, ok, warning
from framework.plan.grants.kafka import Grant, Resource, grants_for, replay_grants
from framework.plan.model import Plan
from framework.runtime.source import no_topic_remedy

SKEW_WARNING_MS = 1_000
SKEW_ERROR_MS = 30_000
TIMEOUT_S = 10.0
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Connection:
    """A connection of the target, its secrets resolved, and the pipelines that were named to use it."""

    name: str
    settings: Mapping[str, str]
    prefix: str
    control_topics: tuple[str, ...]
    plans: tuple[Plan, ...] = ()

    def check(self, what: str) -> str:
        return f"kafka {self.name} {what}".strip()


def reachable(connection: Connection) -> Iterator[DoctorFinding]:
    admin = KafkaAdmin(connection.settings)
    cluster = admin.wait(admin.raw.describe_cluster(request_timeout=TIMEOUT_S), "describing the cluster")
    yield ok(
        connection.check(""),
        f"cluster {cluster.cluster_id} at {admin.address} answers, {counted(len(cluster.nodes), 'broker')}",
    )
    yield _encryption(connection)


def _encryption(connection: Connection) -> DoctorFinding:
    protocol = plain_settings(connection.settings).get("security.protocol", "plaintext").lower()
    hosts = {server.rpartition(":")[0].strip() for server in connection.settings["bootstrap.servers"].split(",")}
    if "ssl" not in protocol and not hosts <= set(_LOOPBACK):
        return warning(
            connection.check("encryption"),
            f"security.protocol is {protocol}: records and passwords cross the network unencrypted",
            "set security.protocol to ssl or sasl_ssl",
        )
    return ok(connection.check("encryption"), f"security.protocol is {protocol}")


def control_topic(connection: Connection, topic: str) -> Iterator[DoctorFinding]:
    """What the protocol needs is an error where it fails; replication, of which floe knows only what is usual, a
    warning."""
    check = connection.check(f"topic {topic}")
    admin = KafkaAdmin(connection.settings)
    facts = admin.topics([topic]).get(topic)
    if facts is None:
        yield warning(
            check, "the control topic does not exist yet", "`floe run` creates it if it has the Create permission"
        )
        return
    found = check_control_topic(admin, topic)
    retention = "for ever" if found.retention_ms < 0 else f"{found.retention_ms / 86_400_000:.0f} days"
    yield ok(check, f"one partition, kept {retention}, holds {counted(found.log_end - found.log_start, 'offset')}")
    replicas, now_in_sync = admin.replicas(topic)
    nodes = len(admin.wait(admin.raw.describe_cluster(request_timeout=TIMEOUT_S), "describing the cluster").nodes)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = admin.wait(admin.raw.describe_configs([resource])[resource], "reading the topic's settings")
    in_sync = int(str(config["min.insync.replicas"].value))
    text = f"{counted(replicas, 'replica')}, at least {in_sync} in sync, on {counted(nodes, 'broker')}"
    if now_in_sync < min(in_sync, replicas):  # brokers ask for no more than there are
        text += f", and now {now_in_sync}: nobody can write to it"
        yield error(check, text, f"bring the brokers back that hold {topic}, or ask an administrator to")
    elif nodes > 1 and (replicas < 2 or in_sync < 2 <= replicas - 1):
        remedy = "ask an administrator to raise the replication factor to 3 and min.insync.replicas to 2"
        yield warning(check, f"{text}: the loss of one broker can lose announcements", remedy)
    else:
        yield ok(check, text)


def source_topics(connection: Connection) -> Iterator[DoctorFinding]:
    """Every topic that the plans name is there and can be read."""
    admin = KafkaAdmin(connection.settings)
    for plan in connection.plans:
        found = admin.topics(plan.read.topics or plan.read.topic_pattern or ())
        missing = [name for name in plan.read.topics if name not in found]
        check = connection.check(f"source of {plan.pipeline}")
        if missing or not found:
            wanted = ", ".join(missing) or f"one that matches {plan.read.topic_pattern}"
            yield error(check, f"no topic {wanted}", no_topic_remedy(admin.address, missing))
        else:
            yield ok(
                check,
                f"{counted(len(found), 'topic')}, {counted(sum(len(f.partitions) for f in found.values()), 'partition')}",
            )


# ---- grants ---------------------------------------------------------------------------------------------------------


def grants(connection: Connection) -> Iterator[DoctorFinding]:
    """The least set, and whether the broker grants it. Of a transactional id only the broker's list of ACLs says so, which not
    everybody may read."""
    admin = KafkaAdmin(connection.settings)
    principal = connection.settings.get("sasl.username", "PRINCIPAL")
    for grant in grants_for(connection.plans):
        check = connection.check("grant")
        name = f"{grant.name}*" if grant.prefixed else grant.name
        text = f"{grant.operation} on {grant.resource.value} {name}, to {grant.why}"
        held = _held(admin, grant)
        held = _listed(admin, grant, connection.settings.get("sasl.username")) if held is None else held
        if held is None:
            yield ok(check, f"{text} (needed; cannot be checked without using it)", looked=False)
        elif held:
            yield ok(check, text)
        else:
            yield error(check, f"not granted: {text}", grant.command(admin.address, f"User:{principal}"))
    for grant in replay_grants(connection.plans):
        text = f"{grant.operation} on {grant.resource.value} {grant.name}*, to {grant.why}"
        said = f"{text} (only for `floe replay` and `floe dlq replay`; not checked)"
        yield ok(connection.check("grant"), said, looked=False, needed=False)


def _held(admin: KafkaAdmin, grant: Grant) -> bool | None:
    if grant.prefixed or grant.name == "*" or grant.resource is Resource.TRANSACTIONAL_ID:
        return None
    try:
        if grant.resource is Resource.TOPIC:
            collection = TopicCollection([grant.name])
            future = admin.raw.describe_topics(collection, include_authorized_operations=True)[grant.name]
        else:
            admin.group_members(grant.name)  # waits until the group's coordinator can be asked
            future = admin.raw.describe_consumer_groups([grant.name], include_authorized_operations=True)[grant.name]
        operations = admin.answer(future).authorized_operations
    except SetupError as raised:
        if raised.code == "FLOE-E103":
            return False
        raise
    except KafkaException as raised:
        code = error_of(raised).code()
        if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
            return False
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND):
            return None
        raise admin.error(raised, f"asking what is granted on {grant.name}") from raised
    return None if operations is None else _operation(grant.operation) in operations


_KINDS = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


def _listed(admin: KafkaAdmin, grant: Grant, user: str | None) -> bool | None:
    """What the broker's settings and ACLs say: True where it has no authorizer, so that everybody may do everything; None
    where they may not be read, or name nobody whom this client is known to be."""
    try:
        if not _authorizer(admin):
            return True
        if grant.name == "*":
            return None
        anybody: Any = None
        kind, match, operation = _KINDS[grant.resource], ResourcePatternType.MATCH, AclOperation.ANY
        wanted = AclBindingFilter(kind, grant.name, match, anybody, anybody, operation, AclPermissionType.ANY)
        found = admin.answer(admin.raw.describe_acls(wanted, request_timeout=TIMEOUT_S))
    except (KafkaException, SetupError):
        return None  # nobody has to let a run read settings or ACLs
    mine = [acl for acl in found if acl.principal in ("User:*", f"User:{user}") and acl.host == "*"]
    mine = [acl for acl in mine if acl.operation in (AclOperation.ALL, _operation(grant.operation))]
    if grant.prefixed:
        mine = [acl for acl in mine if acl.resource_pattern_type is ResourcePatternType.PREFIXED or acl.name == "*"]
    if any(acl.permission_type is AclPermissionType.DENY for acl in mine):
        return False
    return True if mine else None


def _authorizer(admin: KafkaAdmin) -> str:
    """The class that decides what clients may do; "" where the broker has none."""
    brokers = admin.wait(admin.raw.describe_cluster(request_timeout=TIMEOUT_S), "describing the cluster").nodes
    resource = ConfigResource(ResourceType.BROKER, str(brokers[0].id))
    settings = admin.answer(admin.raw.describe_configs([resource], request_timeout=TIMEOUT_S)[resource])
    return str(settings["authorizer.class.name"].value or "")


def _operation(name: str) -> AclOperation:
    return {
        "Read": AclOperation.READ,
        "Write": AclOperation.WRITE,
        "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    }[name]


# ---- the clock ------------------------------------------------------------------------------------------------------


def clock(connection: Connection) -> Iterator[DoctorFinding]:
    """The broker's clock, as it stamps one record of a scratch topic, against ours."""
    admin = KafkaAdmin(connection.settings)
    check = connection.check("clock")
    topic = f"{connection.prefix}-doctor-{uuid.uuid4().hex[:8]}"
    scratch = NewTopic(
        topic, num_partitions=1, replication_factor=-1, config={"message.timestamp.type": "LogAppendTime"}
    )
    try:
        admin.answer(admin.raw.create_topics([scratch], operation_timeout=TIMEOUT_S)[topic])
    except KafkaException as raised:
        why = error_of(raised).str()
        yield warning(
            check, f"not compared: no scratch topic {topic} could be created ({why})", "compare `date` on both sides"
        )
        return
    try:
        yield judge_skew(check, _skew_ms(connection.settings, topic))
    finally:
        admin.wait(admin.raw.delete_topics([topic])[topic], "deleting the scratch topic")


def judge_skew(check: str, skew_ms: int) -> DoctorFinding:
    """What a difference of the clocks means: deadlines and watermarks are compared across machines."""
    text = f"the broker's clock is {abs(skew_ms)} ms {'ahead of' if skew_ms >= 0 else 'behind'} this machine's"
    if abs(skew_ms) >= SKEW_ERROR_MS:
        return error(check, text, "synchronize both machines with NTP")
    if abs(skew_ms) >= SKEW_WARNING_MS:
        return warning(check, text, "synchronize both machines with NTP")
    return ok(check, text)


def _skew_ms(settings: Mapping[str, str], topic: str) -> int:
    """Broker's time minus ours, in the middle of the request. The first record only opens the connection."""
    log = ClientLog()
    producer = build(Producer, settings, client_config(settings, log, linger_ms=0))
    skew = 0
    for _ in range(2):
        stamps: list[Any] = []

        def done(failed: KafkaError | None, message: Message, stamps: list[Any] = stamps) -> None:
            stamps.append(failed or message.timestamp()[1])

        before_ms = time.time() * 1000
        producer.produce(topic, value=b"", on_delivery=done)
        producer.flush(TIMEOUT_S)
        after_ms = time.time() * 1000
        if not stamps or isinstance(stamps[0], KafkaError):
            raise SetupError(
                f"one record could not be written to the scratch topic: {stamps[0].str() if stamps else log.newest}",
                code="FLOE-E501",
                place=topic,
                remedy=f"grant Write on topics that begin with {topic.rpartition('-')[0]}-, or ignore this line",
            )
        skew = int(stamps[0] - (before_ms + after_ms) / 2)
    return skew


def examine(connect: Callable[[], Connection]) -> Iterator[DoctorFinding]:
    """All questions of one connection; when nobody answers, the others are not asked."""
    connection = connect()
    yield from reachable(connection)
    for topic in connection.control_topics:
        yield from ask(connection.check(f"topic {topic}"), partial(control_topic, connection, topic))
    if connection.plans:
        yield from ask(connection.check("source"), partial(source_topics, connection))
        yield from ask(connection.check("grant"), partial(grants, connection))
    yield from ask(connection.check("clock"), partial(clock, connection))
