"""What each topic of a pipeline must keep so that its longest outage loses nothing, beside what it is set to keep.

In: a plan, the outage, and the offsets of the topics' partitions. Out: what is needed, with the command where a topic is short
of it. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.held import held_topics
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.plan.model import Plan
from framework.plan.topic_retention import (
    DEFAULT_OUTAGE_MS,
    RetentionFit,
    alter_command,
    longest_interval_ms,
    needed_retention,
)


@dataclass(frozen=True)
class JudgedTopic:
    """`remedy` is a command of Kafka's tools, "" where nothing must be altered."""

    fit: RetentionFit
    text: str
    remedy: str


def judged_topics(
    plan: Plan,
    outage_ms: int | None,
    kafka: Mapping[str, str],
    facts: Mapping[PartitionKey, PartitionFacts],
    always_look: bool,
) -> Iterator[JudgedTopic]:
    """
    Args:
        outage_ms: None where nobody has said how long one may be.
        always_look: False: records are read only where a topic has a limit in bytes.

    Raises:
        FloeError: a topic cannot be asked for its settings, or read.
    """
    admin, interval_ms = KafkaAdmin(kafka), longest_interval_ms(plan.write.tables)
    for held in held_topics(kafka, admin, facts, always_look):
        found = needed_retention(held, DEFAULT_OUTAGE_MS if outage_ms is None else outage_ms, interval_ms)
        remedy = alter_command(admin.address, held.topic, found.settings) if found.settings else ""
        yield JudgedTopic(found.fit, found.text, remedy)
