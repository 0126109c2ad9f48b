"""Start-up checks: each position or topic that no longer fits stops its pipeline with both values, and nothing is
written.

One driver run settles a pipeline for each test; every test then spoils its own pipeline's state, and no other's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from tests.chaos.conftest import FragileBroker
from tests.chaos.harness import records, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.iceberg,
    pytest.mark.chaos,
    pytest.mark.timeout(1200),
]

ROWS = 40
NAMES = (
    "deleted",
    "ahead",
    "foreign",
    "recreated",
    "expired",
    "vanished",
    "renewed",
    "compacted",
    "short",
    "elsewhere",
)
FILE = """apiVersion: floe/v1
kind: Pipeline
metadata: {{name: {name}}}
source:
  kafka: {{connection: main, topics: [{topic}]}}
  format: {{type: json}}
  metadata_columns: [topic, partition, offset]
routes:
  rules: [{{table: shop.{name}}}]
  allow_tables: ["shop.*"]
  unrouted: fail
tables: {{defaults: {{commit: {{interval: 1s}}}}}}
errors: {{policy: fail}}
commit: {{control_topic: {control}}}
"""
# Pipelines whose control topic is spoilt have one of their own.
OWN_CONTROL = ("renewed", "compacted", "short")


class Settled:
    """A project whose pipelines have each run once; by name: the file, the source topic and the control topic."""

    def __init__(self, root: Path, broker: Broker) -> None:
        self.broker = broker
        self.project = Project(root, broker.bootstrap_servers)
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        self.files: dict[str, Path] = {}
        self.topics: dict[str, str] = {}
        self.controls: dict[str, str] = {}
        for name in NAMES:
            self.topics[name] = broker.new_topic(name, partitions=2)
            own = name in OWN_CONTROL
            self.controls[name] = f"{self.project.control_topic}-{name}" if own else self.project.control_topic
            path = self.files[name] = self.project.root / "pipelines" / f"{name}.yaml"
            path.write_text(FILE.format(name=name, topic=self.topics[name], control=self.controls[name]))
            for partition in (0, 1):
                broker.produce(self.topics[name], records(ROWS // 2), partition=partition)
        files = list(self.files.values())
        for some in (files[:5], files[5:]):  # each starts a planner of its own, and Spark waits 10 s for it, no longer
            self.project.run("run", *some, "--until-caught-up", timeout_s=400)
        assert self.rows() == dict.fromkeys(NAMES, ROWS)

    def rows(self) -> dict[str, int]:
        return {name: self.project.catalog().load_table(f"shop.{name}").scan().count() for name in NAMES}

    def group(self, name: str) -> str:
        found = self.admin.list_consumer_groups().result(20).valid
        (group,) = [
            g.group_id
            for g in found
            if g.group_id.startswith(self.project.prefix)
            and g.group_id.endswith(name)
            and "coordinator" not in g.group_id
        ]
        return group

    def offsets(self, group: str) -> list[TopicPartition]:
        answer = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        return list(answer[group].result(20).topic_partitions)

    def set_offsets(self, group: str, offsets: list[TopicPartition]) -> None:
        asked = [ConsumerGroupTopicPartitions(group, offsets)]
        self.admin.alter_consumer_group_offsets(asked)[group].result(20)

    def delete_topic(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(20)
        wait_for(lambda: topic not in self.admin.list_topics(timeout=10).topics, f"the end of {topic}")

    def create_topic(self, topic: str, partitions: int = 2, **config: str) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config)
        wait_for(lambda: self._try_create(new), f"the making of {topic}")

    def _try_create(self, topic: NewTopic) -> bool:
        return self.admin.create_topics([topic])[topic.topic].exception(20) is None

    def refused(self, name: str, code: int) -> str:
        """Run the pipeline: it must end with `code`, name a remedy, and change no row of any table."""
        before = self.rows()
        output = self.project.run("run", self.files[name], "--until-caught-up", code=code)
        assert "error[FLOE-" in output, output
        assert "remedy:" in output, output
        assert "Traceback" not in output, output
        assert self.rows() == before
        return output

    def mended(self, name: str, *arguments: str, rows: int) -> None:
        """What the message said was done: the pipeline goes on, and its table holds `rows` rows, each once."""
        self.project.run("offsets", "set", self.files[name], *arguments)
        self.project.run("run", self.files[name], "--until-caught-up")
        counts = self.project.positions([f"shop.{name}"])
        assert set(counts.values()) == {1}
        assert len(counts) == rows


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Settled:
    return Settled(tmp_path_factory.mktemp("settled"), broker)


@pytest.mark.failure("F20")
def test_group_offsets_deleted(settled: Settled) -> None:
    """Offsets that are gone are never read as 'new, from 0': the start is refused with what was announced."""
    group = settled.group("deleted")
    settled.admin.delete_consumer_groups([group])[group].result(20)
    output = settled.refused("deleted", 5)
    assert str(ROWS // 2) in output
    assert "floe offsets set deleted --from-log" in output
    settled.broker.produce(settled.topics["deleted"], records(10), partition=1)
    settled.mended("deleted", "--from-log", rows=ROWS + 10)


@pytest.mark.failure("F20")
def test_one_partitions_offset_deleted(settled: Settled) -> None:
    """One partition's missing offset, its sibling's still there, stops the start as well."""
    group = settled.group("foreign")
    before = settled.offsets(group)
    settled.admin.delete_consumer_groups([group])[group].result(20)
    settled.set_offsets(group, [p for p in before if p.partition == 0])
    assert f"{settled.topics['foreign']}-1" in settled.refused("foreign", 5)


@pytest.mark.failure("F02")
def test_group_offsets_moved_ahead(settled: Settled) -> None:
    """Offsets set ahead by somebody would skip records: refused with both values."""
    group = settled.group("ahead")
    settled.broker.produce(settled.topics["ahead"], records(20), partition=0)
    moved = settled.offsets(group)
    for position in moved:
        position.offset += 5 if position.partition == 0 else 0
    settled.set_offsets(group, moved)
    output = settled.refused("ahead", 5)
    assert f"is {ROWS // 2 + 5}, but pipeline ahead announced up to {ROWS // 2}" in output
    settled.mended("ahead", "--from-log", rows=ROWS + 20)


@pytest.mark.failure("F11")
def test_source_topic_recreated(settled: Settled) -> None:
    """A topic of the same name with another id holds other records: refused with both ids. `floe status` says so, too, while
    the new topic is empty and nobody has tried to run."""
    topic = settled.topics["recreated"]
    settled.delete_topic(topic)
    settled.create_topic(topic)
    [seen] = [each for each in settled.project.status()["pipelines"] if each["pipeline"] == "recreated"]
    assert (seen["state"], seen["code"]) == ("BLOCKED", "FLOE-R316")
    assert f"topic {topic} was recreated" in seen["reason"]
    for partition in (0, 1):
        settled.broker.produce(topic, records(100), partition=partition)
    assert "recreated" in settled.refused("recreated", 5)


@pytest.mark.failure("F11")
def test_source_topic_gone(settled: Settled) -> None:
    """A source topic that was deleted stops the start and says which."""
    settled.delete_topic(settled.topics["vanished"])
    assert settled.topics["vanished"] in settled.refused("vanished", 3)


@pytest.mark.failure("F11")
def test_retention_passed_the_safe_offset(settled: Settled) -> None:
    """Records that were removed before they were read are named, and the start is refused."""
    topic = settled.topics["expired"]
    settled.broker.produce(topic, records(30), partition=0)
    end = settled.admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    (latest,) = [future.result(20).offset for future in end.values()]
    (future,) = settled.admin.delete_records([TopicPartition(topic, 0, latest - 5)]).values()
    future.result(20)
    output = settled.refused("expired", 5)
    assert "retention" in output
    assert str(ROWS // 2) in output
    command = f"floe offsets set expired {topic}:0={latest - 5} --allow-loss"
    assert command in output
    settled.project.run("offsets", "set", settled.files["expired"], f"{topic}:0={latest - 5}", code=5)
    settled.mended("expired", f"{topic}:0={latest - 5}", "--allow-loss", rows=ROWS + 5)


@pytest.mark.failure("F10")
def test_control_topic_recreated(settled: Settled) -> None:
    """A control topic of the same name that knows nothing of the pipeline: announcements may be lost, so it is
    refused."""
    settled.delete_topic(settled.controls["renewed"])
    settled.broker.produce(settled.topics["renewed"], records(10), partition=0)
    assert "recreated" in settled.refused("renewed", 5)


@pytest.mark.failure("F20")
def test_control_topic_compacted(settled: Settled) -> None:
    """Compaction would remove announcements: a compacted control topic is refused, with the command that mends it."""
    _alter(settled, settled.controls["compacted"], "cleanup.policy", "compact")
    assert "cleanup.policy" in settled.refused("compacted", 3)


@pytest.mark.failure("F20")
def test_control_topic_with_short_retention(settled: Settled) -> None:
    """A control topic that forgets announcements within the hour is refused."""
    _alter(settled, settled.controls["short"], "retention.ms", "60000")
    assert "60000" in settled.refused("short", 3)


def _alter(settled: Settled, topic: str, key: str, value: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    settled.admin.incremental_alter_configs([resource])[resource].result(20)


@pytest.mark.failure("F10")
def test_another_cluster(settled: Settled, fragile_broker: FragileBroker) -> None:
    """The same names on another cluster are other records: tables that hold the first cluster's refuse them."""
    other = AdminClient({"bootstrap.servers": fragile_broker.bootstrap_servers})
    topic = settled.topics["elsewhere"]
    other.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result(20)
    fragile_broker.produce(topic, records(60))
    settled.project.write_target(fragile_broker.bootstrap_servers)
    try:
        before = settled.rows()
        output = settled.project.run("run", settled.files["elsewhere"], "--until-caught-up", code=5)
        assert "error[FLOE-R320]" in output, output
        assert "floe rebase" in output, output
        assert settled.rows() == before
    finally:
        settled.project.write_target()
