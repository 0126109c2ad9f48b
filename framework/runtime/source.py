"""What the broker says about a pipeline's source: its partitions, its safe offsets, its newest announcement.

In: a plan and resolved Kafka settings. Out: plain values that `framework.commit.offsets` decides from. Keeps invariant
11: the topic ids are remembered from the first look, so that a topic recreated later is noticed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import ControlTopicFacts, ensure_control_topic
from framework.adapters.project.files import local_state
from framework.commit.events.event_types import CommitComplete, DataComplete, Heartbeat, OffsetsSet
from framework.commit.machine.progress.chain import settled_link
from framework.commit.offsets import PartitionFacts, PartitionKey, SafeOffset, decode_metadata
from framework.diagnose.shown import argument
from framework.errors import FloeError, SetupError
from framework.plan.model import Plan

CHAIN_TAIL = 2_000


def no_topic_remedy(address: str, missing: Sequence[str]) -> str:
    """What to do where topics of the source are not there, or, without names, none matches its pattern."""
    if not missing:
        return "correct source.kafka.topic_pattern, or create a topic that it matches"
    return f"create it: `{create_command(address, missing[0])}`; or correct source.kafka.topics"


def create_command(address: str, topic: str) -> str:
    """The command that makes a topic: floe's own on the embedded stack, elsewhere that of Kafka's tools; how many partitions
    it has is the broker's to say."""
    if address == local_state().get("bootstrap_servers"):
        return f"floe local topic {shlex.quote(topic)}"
    return f"kafka-topics.sh --bootstrap-server {argument(address)} --create --topic {shlex.quote(topic)}"


class PipelineSource:
    """Looks, never decides. `ids` maps each topic to the id under which it was first seen."""

    def __init__(self, plan: Plan, kafka: dict[str, str]) -> None:
        self._plan = plan
        self.settings = kafka
        self._admin = KafkaAdmin(kafka)
        self.ids: dict[str, str] = {}

    def facts(self) -> dict[PartitionKey, PartitionFacts]:
        """Every partition of the pipeline's topics now.

        Raises:
            SetupError: a named topic does not exist, or none matches the pattern.
        """
        read = self._plan.read
        topics = self._admin.topics(read.topics or read.topic_pattern or ())
        missing = [name for name in read.topics if name not in topics]
        if missing or not topics:
            raise SetupError(
                f"no topic {', '.join(missing)}" if missing else f"no topic matches {read.topic_pattern}",
                code="FLOE-E310",
                place=self._plan.source_file,
                remedy=no_topic_remedy(self._admin.address, missing),
            )
        window = {(name, partition): (start, end) for name, partition, start, end in read.window}
        keys = [
            (name, partition)
            for name, topic in topics.items()
            for partition in topic.partitions
            if not window or (name, partition) in window
        ]
        starts, ends = self._admin.start_offsets(keys), self._admin.end_offsets(keys)
        for key, (start, end) in window.items():
            if key in starts:
                starts[key], ends[key] = max(starts[key], start), min(ends[key], end)
        self.ids.update({name: topic.topic_id for name, topic in topics.items() if name not in self.ids})
        return {key: PartitionFacts(topics[key[0]].topic_id, starts[key], ends[key]) for key in keys}

    def check_dead_letter_topic(self, kind: type[FloeError] = SetupError) -> None:
        """Raises an error of this kind when the pipeline names a dead-letter topic and it does not exist: a typing error
        would otherwise become a topic on brokers that make topics by themselves, and a client waits half a minute for a topic
        that was there before."""
        topic = self._plan.write.dead_letter_topic
        if topic and topic not in self._admin.topics((topic,)):
            raise kind(
                f"no topic {topic}",
                code="FLOE-E310",
                place=self._plan.source_file,
                remedy=f"create it: `{create_command(self._admin.address, topic)}`; or correct errors.dead_letter_topic",
            )

    def group_offsets(
        self, keys: Iterable[PartitionKey] | None = None, settled: bool = True
    ) -> dict[PartitionKey, SafeOffset]:
        """The safe offsets, with what was committed beside them. Name `keys` unless transactions were just settled:
        only a named partition is waited for whose first offset ever is in a transaction of a moment ago. Not `settled`:
        what is committed by now, whatever transaction is still open."""
        group = self._plan.read.group_id
        return {
            key: decode_metadata(value.offset, value.metadata, f"group {group}, {key[0]}-{key[1]}")
            for key, value in self._admin.group_offsets(group, keys, settled).items()
        }

    def ensure_control_topic(self) -> ControlTopicFacts:
        """Create the control topic, or check the one that is there."""
        return ensure_control_topic(self._admin, self._plan.announce.control_topic)

    def newest_announcement(self) -> DataComplete | Heartbeat | None:
        """The pipeline's newest announcement in the control log."""
        return newest_link(self.settings, self._plan.announce.control_topic, self._plan.pipeline)


def newest_link(kafka: dict[str, str], control_topic: str, pipeline: str) -> DataComplete | Heartbeat | None:
    """A pipeline's newest DataComplete or Heartbeat in the control log, also as others repeat it: looked for in the
    log's tail first, then, if need be, in all of it."""
    reader = ControlReader(kafka, control_topic)
    try:
        start, end = reader.start_offset(), reader.end_offset()
        for begin in dict.fromkeys((max(start, end - CHAIN_TAIL), start)):
            if (found := find_link(reader, pipeline, begin)) is not None:
                return settled_link(found) if isinstance(found, OffsetsSet) else found
    finally:
        reader.close()
    return None


def find_link(reader: ControlReader, pipeline: str, begin: int) -> DataComplete | Heartbeat | OffsetsSet | None:
    """Read the log from `begin` to its end; the pipeline's newest batch, heartbeat or settled offsets, also as others
    repeat them."""
    end = reader.end_offset()
    reader.seek(begin)
    newest: DataComplete | Heartbeat | OffsetsSet | None = None
    for _, event in reader.read_until(end):
        link = event.chain.get(pipeline) if isinstance(event, CommitComplete) else event
        if not isinstance(link, DataComplete | Heartbeat | OffsetsSet) or link.pipeline != pipeline:
            continue
        if newest is None or link.batch >= newest.batch:
            newest = link
    return newest
