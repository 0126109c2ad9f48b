"""The least set of Kafka permissions that a run needs, from its plans: what to grant, and why.

In: the plans of the pipelines that share one principal on one connection. Out: Grants, sorted, each once. Pure. A test
on a broker with an authorizer proves the set sufficient for a whole run, and each grant in it necessary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from framework.commit.dead_letter_replay import replay_name
from framework.diagnose.shown import argument
from framework.plan.model import Plan, ReadKafka

_LITERAL = re.compile(r"(?:[A-Za-z0-9_-]|\\[.\-])+(?![*+?{])")


class Resource(str, Enum):
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, order=True)
class Grant:
    """Allow `operation` on a resource by its name, or by the beginning of its name where `prefixed`."""

    resource: Resource
    name: str
    operation: str
    prefixed: bool = False
    why: str = ""

    def command(self, bootstrap_servers: str, principal: str) -> str:
        """The words for Kafka's own `kafka-acls.sh`."""
        pattern = " --resource-pattern-type prefixed" if self.prefixed else ""
        return (
            f"kafka-acls.sh --bootstrap-server {argument(bootstrap_servers)} --add --allow-principal {argument(principal)} "
            f"--operation {self.operation} --{self.resource.value} {argument(self.name)}{pattern}"
        )


def grants_for(plans: Iterable[Plan]) -> tuple[Grant, ...]:
    """What one principal needs to run these pipelines with their coordinator.

    Not among them: creating the control topic (`control_topic_grants`), since an administrator may do that once.
    """
    found: set[Grant] = set()
    for plan in plans:
        for name, prefixed in source_topics(plan.read):
            found.add(Grant(Resource.TOPIC, name, "Read", prefixed, "read records and their offsets"))
        control = plan.announce.control_topic
        found |= {
            Grant(Resource.TOPIC, control, "Read", why="read announcements"),
            Grant(Resource.TOPIC, control, "Write", why="announce batches and commits"),
            Grant(Resource.TOPIC, control, "DescribeConfigs", why="check retention and clean-up policy at the start"),
            Grant(Resource.GROUP, plan.read.group_id, "Read", why="keep the safe source offsets"),
            Grant(Resource.GROUP, plan.commit.coordinator_group, "Read", why="take the coordinator's leadership"),
            Grant(Resource.TRANSACTIONAL_ID, plan.announce.transactional_id, "Write", why="announce in transactions"),
        }
        if plan.write.dead_letter_topic:
            found.add(Grant(Resource.TOPIC, plan.write.dead_letter_topic, "Write", why="send dead letters"))
    return tuple(sorted(found))


def control_topic_grants(plans: Iterable[Plan]) -> tuple[Grant, ...]:
    """What the first run needs besides, where nobody has made the control topic before."""
    return tuple(
        sorted({Grant(Resource.TOPIC, p.announce.control_topic, "Create", why="make the control topic") for p in plans})
    )


def replay_grants(plans: Iterable[Plan]) -> tuple[Grant, ...]:
    """What `floe replay` and `floe dlq replay` need besides: they announce as pipelines of their own, whose names begin
    with the pipeline's and `.replay`."""
    found: set[Grant] = set()
    for plan in plans:
        group, transactions = replay_name(plan.read.group_id), replay_name(plan.announce.transactional_id)
        found |= {
            Grant(Resource.GROUP, group, "Read", True, "keep the offsets of a table's replay"),
            Grant(Resource.TRANSACTIONAL_ID, transactions, "Write", True, "announce what is replayed"),
        }
    return tuple(sorted(found))


def looking_grants(plans: Iterable[Plan]) -> tuple[Grant, ...]:
    """What a principal needs that only looks: `floe ops` as a process of its own, `floe status`, and `floe plan` in CI. With
    `Read` in place of `Describe` on the source topics it sees the times of records, too."""
    found: set[Grant] = set()
    for plan in plans:
        for name, prefixed in source_topics(plan.read):
            found.add(Grant(Resource.TOPIC, name, "Describe", prefixed, "see where partitions begin and end"))
        found |= {
            Grant(Resource.TOPIC, plan.announce.control_topic, "Read", why="read announcements"),
            Grant(Resource.TOPIC, plan.announce.control_topic, "DescribeConfigs", why="see its retention"),
            Grant(Resource.GROUP, plan.read.group_id, "Describe", why="see the safe source offsets"),
            Grant(Resource.GROUP, plan.commit.coordinator_group, "Describe", why="see what is committed"),
        }
    return tuple(sorted(found))


def source_topics(read: ReadKafka) -> tuple[tuple[str, bool], ...]:
    """The topics as (name, prefixed): a pattern becomes the beginning that all its topics share, `*` for all topics."""
    if read.topics:
        return tuple((name, False) for name in read.topics)
    pattern = read.topic_pattern or ""
    match = _LITERAL.match(pattern[1:]) if pattern.startswith("^") and "|" not in pattern else None
    if match is None:
        return (("*", False),)
    return ((match.group().replace("\\", ""), True),)
