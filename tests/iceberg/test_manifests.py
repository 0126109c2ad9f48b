"""Manifests: files stay under the partition spec they were written for, and the list of manifests stays short."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import Committed
from framework.config.spec import PartitionFieldSpec
from tests.iceberg.conftest import Lake

pytestmark = pytest.mark.iceberg

UTC = timezone.utc
TYPES = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "b", BooleanType(), required=False),
    NestedField(3, "i", IntegerType(), required=False),
    NestedField(4, "f", FloatType(), required=False),
    NestedField(5, "d", DoubleType(), required=False),
    NestedField(6, "dec", DecimalType(20, 3), required=False),
    NestedField(7, "day", DateType(), required=False),
    NestedField(8, "clock", TimeType(), required=False),
    NestedField(9, "ts", TimestampType(), required=False),
    NestedField(10, "tz", TimestamptzType(), required=False),
    NestedField(11, "s", StringType(), required=False),
    NestedField(12, "u", UUIDType(), required=False),
    NestedField(13, "x", FixedType(4), required=False),
    NestedField(14, "bin", BinaryType(), required=False),
)
ROWS: list[dict[str, object]] = [
    {
        "id": 1,
        "b": True,
        "i": -7,
        "f": 1.5,
        "d": -2.25,
        "dec": Decimal("-12345678901234567.891"),
        "day": date(1969, 12, 31),
        "clock": time(23, 59, 59, 999999),
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "tz": datetime(2024, 2, 29, 12, tzinfo=UTC),
        "s": "über/=&?",
        "u": uuid.UUID("2b3c0d5e-0000-4000-8000-00000000000f").bytes,
        "x": b"\x00\xff\x10\x20",
        "bin": b"\xff\x00",
    },
    {"id": 2},
]

PARTITIONS = [
    *(
        PartitionFieldSpec(column)
        for column in ("b", "i", "f", "d", "dec", "day", "clock", "ts", "tz", "s", "bin")  # of `fixed`: FLOE-T115
    ),
    *(
        PartitionFieldSpec(column, "bucket", 7)
        for column in ("i", "id", "dec", "day", "ts", "tz", "s", "u", "x", "bin")
    ),
    *(PartitionFieldSpec(column, "truncate", 3) for column in ("i", "id", "dec", "s")),
    *(PartitionFieldSpec("day", transform) for transform in ("year", "month", "day")),
    *(
        PartitionFieldSpec(column, transform)
        for column in ("ts", "tz")
        for transform in ("year", "month", "day", "hour")
    ),
]


def ok(answer: object) -> Committed:
    assert isinstance(answer, Committed), answer
    return answer


def entries(lake: Lake, name: str) -> list[ManifestEntry]:
    """The live entries as PyIceberg reads them (its `inspect.files` cannot show tables with uuid columns)."""
    table = lake.plain(name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [entry for manifest in snapshot.manifests(table.io) for entry in manifest.fetch_manifest_entry(table.io)]


def summaries(lake: Lake, name: str) -> list[str]:
    table = lake.plain(name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [str(manifest.partitions) for manifest in snapshot.manifests(table.io)]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda each: f"{each.transform}-{each.column}")
def test_every_partition_value_survives_the_announcement(lake: Lake, partition: PartitionFieldSpec) -> None:
    """For every transform and type, the committed partition value is the one PyIceberg's own append records."""
    ours, theirs = (lake.made_by_others(name, TYPES, [partition]) for name in ("t.ours", "t.theirs"))
    ok(lake.tables.commit(lake.effect(ours, lake.files(ours, ROWS), 1)))
    lake.plain(theirs).append(lake.plain(ours).scan().to_arrow())

    def partitions(name: str) -> list[str]:
        return sorted(str(entry.data_file.partition) for entry in entries(lake, name))

    assert partitions(ours) == partitions(theirs)
    assert summaries(lake, ours) == summaries(lake, theirs)
    assert lake.rows(ours) == [1, 2]


@pytest.mark.parametrize(
    ("partition", "announced", "read"),
    [
        (PartitionFieldSpec("u"), "2b3c0d5e-0000-4000-8000-00000000000f", "2b3c0d5e-0000-4000-8000-00000000000f"),
        (PartitionFieldSpec("bin", "truncate", 1), "ff", b"\xff"),
    ],
    ids=["identity-uuid", "truncate-binary"],
)
def test_partition_values_that_pyiceberg_cannot_compute(
    lake: Lake, partition: PartitionFieldSpec, announced: str, read: object
) -> None:
    """Partitions that PyIceberg's own writer refuses are still recorded right when somebody announces them."""
    name = lake.create("t.ours", TYPES, [partition])
    file = DataFile("file:///never/read.parquet", 1, 10, spec_id=0, partition=(announced,))
    ok(lake.tables.commit(lake.effect(name, [file], 1)))
    [entry] = entries(lake, name)
    value = entry.data_file.partition[0]
    assert (str(value) if isinstance(value, uuid.UUID) else value) == read


def test_metrics_are_what_pyiceberg_would_have_written(lake: Lake) -> None:
    """Sizes, counts and bounds of every column pass through the announcement unchanged."""
    ours, theirs = lake.create("t.ours", TYPES), lake.create("t.theirs", TYPES)
    ok(lake.tables.commit(lake.effect(ours, lake.files(ours, ROWS), 1)))
    lake.plain(theirs).append(lake.plain(ours).scan().to_arrow())
    [mine], [other] = entries(lake, ours), entries(lake, theirs)
    for name in ("record_count", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds", "split_offsets"):
        assert getattr(mine.data_file, name) == getattr(other.data_file, name), name
    assert set(mine.data_file.column_sizes) == set(other.data_file.column_sizes)
    assert mine.data_file.file_format == other.data_file.file_format


def by_day(lake: Lake, **properties: str) -> str:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "day", DateType(), required=False))
    return lake.create("shop.days", schema, [PartitionFieldSpec("day")], **properties)


def test_files_of_an_old_spec_keep_it(lake: Lake) -> None:
    """Files announced before a partition spec change are committed under their own spec, so that filters find them."""
    name = by_day(lake)
    old = lake.files(name, [{"id": 1, "day": date(2024, 1, 1)}, {"id": 2, "day": date(2024, 1, 2)}])
    with lake.plain(name).update_spec() as update:
        update.remove_field("day")
        update.add_field("id", BucketTransform(4), "id_bucket")
    new = lake.files(name, [{"id": 3, "day": date(2024, 1, 1)}])
    assert {file.spec_id for file in old} == {0}
    assert {file.spec_id for file in new} == {1}
    ok(lake.tables.commit(lake.effect(name, (*old, *new), 1)))
    table = lake.plain(name)
    assert sorted(table.inspect.manifests()["partition_spec_id"].to_pylist()) == [0, 1]
    found = table.scan(row_filter=EqualTo("day", "2024-01-01")).to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 3]
    assert table.scan(row_filter=EqualTo("id", 3)).to_arrow().num_rows == 1


def test_a_spec_whose_column_is_gone_can_still_be_committed(lake: Lake) -> None:
    """A file of a spec whose source column was dropped since is written with the schema that still had it."""
    name = by_day(lake)
    with lake.plain(name).update_spec() as update:
        update.remove_field("day")
    with lake.plain(name).update_schema() as update:
        update.delete_column("day")
    old = DataFile("file:///never/read.parquet", 1, 10, spec_id=0, partition=(19723,))
    ok(lake.tables.commit(lake.effect(name, [old], 1)))
    [entry] = entries(lake, name)
    assert entry.data_file.partition[0] == 19723


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_manifests_are_merged_and_entries_keep_their_origin(lake: Lake, version: str) -> None:
    """Merging keeps every row, every entry's snapshot and sequence number, and bounds the number of manifests."""
    name = lake.create(**{"format_version": version, "commit.manifest.min-count-to-merge": "4"})
    snapshots = []
    for number in range(1, 22):
        files = lake.files(name, [{"id": number}])
        snapshots.append(ok(lake.tables.commit(lake.effect(name, files, number))).snapshot_id)
    table = lake.plain(name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    assert len(manifests) <= 3 * 4
    live_entries = entries(lake, name)
    assert sorted(str(entry.snapshot_id) for entry in live_entries) == sorted(map(str, snapshots))
    if version != "1":
        numbers = {each.snapshot_id: each.sequence_number for each in table.metadata.snapshots}
        for entry in live_entries:
            assert entry.sequence_number == entry.file_sequence_number == numbers[entry.snapshot_id]
        for manifest in manifests:
            live = [entry.sequence_number for entry in manifest.fetch_manifest_entry(table.io)]
            assert manifest.min_sequence_number == min(live)
    assert {entry.status for entry in live_entries} == {ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING}
    assert lake.rows(name) == list(range(1, 22))
    summary = snapshot.summary
    assert summary is not None
    assert summary.additional_properties["total-data-files"] == "21"


def test_merging_keeps_specs_apart(lake: Lake) -> None:
    """Manifests of different partition specs are never merged into one."""
    name = lake.create(
        "shop.days", by_day_schema(), [PartitionFieldSpec("day")], **{"commit.manifest.min-count-to-merge": "2"}
    )
    day = date(2024, 1, 1)
    for number in range(1, 4):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number, "day": day}]), number)))
    with lake.plain(name).update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_part")
    for number in range(4, 8):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number, "day": day}]), number)))
    assert set(lake.plain(name).inspect.manifests()["partition_spec_id"].to_pylist()) == {0, 1}
    assert lake.rows(name) == list(range(1, 8))
    later = lake.plain(name).scan(row_filter=GreaterThanOrEqual("id", 4)).to_arrow()
    assert sorted(later["id"].to_pylist()) == [4, 5, 6, 7]


def by_day_schema() -> Schema:
    return Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "day", DateType(), required=False))


def test_merging_can_be_switched_off(lake: Lake) -> None:
    """The table's own `commit.manifest-merge.enabled: false` is respected."""
    name = lake.create(**{"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "false"})
    for number in range(1, 6):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    assert len(lake.plain(name).inspect.manifests()) == 5


def test_rows_deleted_by_others_stay_deleted(lake: Lake) -> None:
    """What another engine deleted does not come back when manifests are carried on and merged."""
    name = lake.create(**{"commit.manifest.min-count-to-merge": "2"})
    for number in range(1, 4):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    lake.plain(name).delete(EqualTo("id", 2))
    for number in range(4, 8):
        ok(lake.tables.commit(lake.effect(name, lake.files(name, [{"id": number}]), number)))
    assert lake.rows(name) == [1, 3, 4, 5, 6, 7]


def test_a_file_with_hours_before_1970_is_found_by_its_time(lake: Lake) -> None:
    """Partition bounds of negative hours still let a filter on the timestamp find the row."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "ts", TimestamptzType(), required=False)
    )
    name = lake.create("shop.hours", schema, [PartitionFieldSpec("ts", "hour")])
    moment = datetime(1969, 12, 31, 22, 30, tzinfo=UTC)
    rows: list[dict[str, object]] = [{"id": each, "ts": moment + timedelta(hours=each)} for each in range(4)]
    ok(lake.tables.commit(lake.effect(name, lake.files(name, rows), 1)))
    found = lake.plain(name).scan(row_filter=EqualTo("ts", moment.isoformat())).to_arrow()
    assert found["id"].to_pylist() == [0]
