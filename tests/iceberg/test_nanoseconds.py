"""Columns of nanoseconds, which tables have from format version 3 on: partitions, bounds and values are exact."""

from __future__ import annotations

import base64
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType, TimestampNanoType, TimestamptzNanoType

from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import Committed
from framework.config.spec import PartitionFieldSpec
from framework.errors import TableBlocked
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.lineage import local

pytestmark = pytest.mark.iceberg

MOMENTS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "local", TimestampNanoType(), required=False),
    NestedField(3, "at", TimestamptzNanoType(), required=False),
    NestedField(4, "inner", StructType(NestedField(5, "at", TimestamptzNanoType(), required=False)), required=False),
)
NANOSECONDS = [
    1_704_369_600_123_456_789,
    1_704_369_600_123_456_999,
    -1,
    None,
    2**63 - 1,
    1_000 - 2**63,
    -3_600_000_000_001,
]
TRANSFORMS = [("year", None), ("month", None), ("day", None), ("hour", None), ("bucket", 4)]


def moments_written(lake: Lake, name: str, moments: list[int | None]) -> tuple[DataFile, ...]:
    target = lake.tables.load_target(name, POLICY)
    assert target is not None
    at = pa.array(moments, pa.timestamp("ns", "UTC"))
    rows = {
        "id": pa.array(range(len(moments))),
        "local": pa.array(moments, pa.timestamp("ns")),
        "at": at,
        "inner": pa.StructArray.from_arrays([at], names=["at"]),
    }
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    writer.add(target, pa.table(rows))
    return tuple(writer.finish()[name])


@pytest.mark.parametrize("column", ["local", "at"])
@pytest.mark.parametrize(("transform", "argument"), TRANSFORMS)
def test_moments_in_nanoseconds_are_in_the_partition_that_iceberg_defines(
    lake: Lake, column: str, transform: str, argument: int | None
) -> None:
    """Rows lie in the partition that Iceberg's transform of their moment gives, rounded down also before 1970."""
    name = lake.create("shop.moments", MOMENTS, [PartitionFieldSpec(column, transform, argument)], format_version="3")
    files = moments_written(lake, name, list(NANOSECONDS))
    answer = lake.tables.commit(lake.effect(name, files, 1))
    assert isinstance(answer, Committed), answer
    table = lake.plain(name)
    [field] = table.spec().fields
    expected = field.transform.transform(table.schema().find_type(field.source_id))
    for file in files:
        for moment in pq.read_table(local(file.path))[column].cast(pa.int64()).to_pylist():
            assert file.partition == (None if moment is None else expected(moment),)
    rows = table.scan().to_arrow().sort_by("id")
    assert rows[column].cast(pa.int64()).to_pylist() == NANOSECONDS


def test_bounds_of_nanoseconds_are_exact(lake: Lake) -> None:
    """The bounds of a column of nanoseconds are its least and its highest moment to the nanosecond, so that no filter
    misses a row; a column without values has none."""
    name = lake.create("shop.moments", MOMENTS, format_version="3")
    for moments in ([5, 7, None], [1_704_369_600_123_456_789, -1], [None]):
        [file] = moments_written(lake, name, moments)
        found = [each for each in moments if each is not None]
        for bounds, value in (
            (file.lower_bounds, min(found, default=None)),
            (file.upper_bounds, max(found, default=None)),
        ):
            read = {key: struct.unpack("<q", base64.b64decode(bound))[0] for key, bound in bounds.items() if key != "1"}
            assert read == ({} if value is None else dict.fromkeys(("2", "3", "5"), value))


def test_a_table_partitioned_by_nanoseconds_themselves_is_refused(lake: Lake) -> None:
    """PyIceberg cannot read such a table's manifests, so floe adds none of its own."""
    name = lake.create("shop.moments", MOMENTS, [PartitionFieldSpec("at")], format_version="3")
    with pytest.raises(TableBlocked, match="partitioned by the nanosecond column at"):
        lake.tables.load_target(name, POLICY)
