"""A pipeline's source offsets on a real broker and catalog: looked at everywhere, and moved in one transaction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Accounting, DataComplete, OffsetsSet, SourceRange
from framework.commit.offsets import PartitionFacts, decide_start, decode_metadata, encode_metadata
from framework.commit.recovery.settle_offsets import OffsetsOrigin, PipelineOffsets, Settlement, disagreements, settle
from framework.errors import DataLossError, FencedError, SetupError
from framework.recovery.source_offsets import Where, offsets_at, perform, read_places
from tests.conftest import Broker
from tests.kafka.conftest import unique

pytestmark = [pytest.mark.kafka, pytest.mark.iceberg]


def from_log(places: PipelineOffsets) -> Settlement:
    return settle(places, OffsetsOrigin.LOG, {})


def test_offsets_that_were_moved_by_hand_come_back_from_the_log(
    broker: Broker,
    admin: KafkaAdmin,
    settings: dict[str, str],
    control_topic: str,
    new_producer: Callable[..., PipelineProducer],
    catalog_settings: dict[str, str],
) -> None:
    """One transaction sets the group where the announcements end, tells the chain so, and fences whoever was not
    seen."""
    source, name, prefix = broker.new_topic(partitions=2), unique("p"), unique("it")
    broker.produce(
        source, [{"id": n} for n in range(80)], partition=0, timestamps_ms=[1_000 * n + 1 for n in range(80)]
    )
    topic_id = admin.topics([source])[source].topic_id
    ranges = (SourceRange(source, topic_id, 0, 0, 50), SourceRange(source, topic_id, 1, 0, 0))
    group, sums = f"{prefix}-{name}", Accounting(offsets=50, written=50, rows=50)
    old_run = new_producer(group)
    metadata = encode_metadata(topic_id, 1, sums, "run", gaps=((3, 5),), deployed_at=7)
    old_run.announce(
        (DataComplete(name, "run", 1, ranges, sums, sums),), {(source, 0): (50, metadata), (source, 1): (0, metadata)}
    )
    where, catalog = Where(name, prefix, settings, control_topic), IcebergTables(catalog_settings)
    assert disagreements(read_places(where, catalog)) == ()

    raw = AdminClient(settings)
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(source, 0, 70, metadata)])
    raw.alter_consumer_group_offsets([moved])[group].result(20)
    places = read_places(where, catalog)
    assert any("announced up to 50, the group's offset is 70" in line for line in disagreements(places))
    assert offsets_at(where, places, 30_000) == {(source, 0): 30, (source, 1): 0}

    expected = from_log(places)
    assert [(m.partition, m.before, m.after) for m in expected.moves] == [(0, 70, 50), (1, 0, 0)]
    perform(where, catalog, from_log, expected, "floe offsets set")

    now = admin.group_offsets(group)
    safe = {key: decode_metadata(v.offset, v.metadata, "") for key, v in now.items()}
    assert {key: (s.offset, s.batch, s.totals) for key, s in safe.items()} == {
        (source, 0): (50, 2, sums),
        (source, 1): (0, 2, sums),
    }
    assert {(s.gaps, s.deployed_at) for s in safe.values()} == {(((3, 5),), 7)}, (
        "what the run told of itself stays known"
    )
    reader = ControlReader(settings, control_topic)
    reader.seek(0)
    last = [event for _, event in reader.read_until(reader.end_offset())][-1]
    reader.close()
    assert isinstance(last, OffsetsSet)
    assert (last.batch, last.lost, last.repeated) == (2, 0, 0)
    after = read_places(where, catalog)
    assert disagreements(after) == ()
    facts = {p.key: PartitionFacts(topic_id, 0, p.log_end or 0) for p in after.partitions}
    start = decide_start(name, safe, facts, last.ranges, "earliest")
    assert (start.positions[source, 0], start.batch, start.totals) == (50, 2, sums)
    with pytest.raises(FencedError):
        old_run.announce((DataComplete(name, "run", 2, ranges, sums, sums),), {(source, 0): (50, metadata)})

    with pytest.raises(DataLossError):
        settle(after, OffsetsOrigin.GIVEN, {(source, 0): 60})
    jump = settle(after, OffsetsOrigin.GIVEN, {(source, 0): 60}, allow_loss=True)
    perform(where, catalog, lambda p: settle(p, OffsetsOrigin.GIVEN, {(source, 0): 60}, True), jump, "floe offsets set")
    value = admin.group_offsets(group)[source, 0]
    assert (value.offset, decode_metadata(value.offset, value.metadata, "").base_batch) == (60, 3)


def test_a_live_pipeline_is_refused(
    broker: Broker, admin: KafkaAdmin, settings: dict[str, str], control_topic: str, catalog_settings: dict[str, str]
) -> None:
    """Nothing is fenced and nothing is set while a run is a member of the pipeline's group."""
    from framework.adapters.kafka.control.presence import Presence
    from tests.kafka.conftest import wait_for

    source, name, prefix = broker.new_topic(), unique("p"), unique("it")
    broker.produce(source, [{"id": 1}])
    where, catalog = Where(name, prefix, settings, control_topic, topics=(source,)), IcebergTables(catalog_settings)
    presence = Presence(settings, f"{prefix}-{name}", [source], "abc")
    try:
        wait_for(lambda: bool(admin.group_members(f"{prefix}-{name}")))
        places = read_places(where, catalog)
        jump = settle(places, OffsetsOrigin.GIVEN, {(source, 0): 1})
        with pytest.raises(SetupError, match="live"):
            perform(
                where, catalog, lambda p: settle(p, OffsetsOrigin.GIVEN, {(source, 0): 1}), jump, "floe offsets set"
            )
    finally:
        presence.close()
    assert admin.group_offsets(f"{prefix}-{name}") == {}
