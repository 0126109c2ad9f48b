"""Rows are cut by partition: each in its own, none lost, in their order."""

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import LongType, NestedField, StringType, TimestampType, TimestamptzType

from framework.adapters.parquet import partition
from framework.adapters.parquet.partition import partitions, transformed
from framework.record import arrays
from framework.record.arrays import rows_by_number

NUMBERS = st.one_of(st.integers(0, 5), st.integers(0, 2**40))
SCHEMA = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", StringType()), NestedField(3, "row", LongType()))
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "a"),
    PartitionField(2, 1001, IdentityTransform(), "b"),
    PartitionField(3, 1002, BucketTransform(2), "row_bucket"),
)


@given(st.lists(NUMBERS, max_size=50))
def test_rows_of_a_number_stand_together_in_their_order(numbers: list[int]) -> None:
    """Small numbers and large ones give what a plain sort gives."""
    order, bounds = rows_by_number(np.array(numbers, np.int64))
    assert order.tolist() == sorted(range(len(numbers)), key=lambda row: numbers[row])
    pieces = [[numbers[row] for row in order[start:end]] for start, end in itertools.pairwise(bounds)]
    assert [piece[0] for piece in pieces] == sorted(set(numbers))
    assert all(len(set(piece)) == 1 for piece in pieces)


@given(
    st.lists(st.tuples(st.one_of(st.none(), NUMBERS), st.sampled_from([None, "x", "y", ""])), max_size=40),
    st.sampled_from([2, 2**16]),
)
def test_each_row_is_in_the_partition_of_its_values(rows: list[tuple[int | None, str | None]], small: int) -> None:
    """Also where there are more combinations than can be numbered shortly, and with nulls."""
    table = pa.table(
        {
            "a": pa.array([a for a, _ in rows], pa.int64()),
            "b": pa.array([b for _, b in rows], pa.string()),
            "row": pa.array(range(len(rows)), pa.int64()),
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        for module in (partition, arrays):
            patch.setattr(module, "SMALL", small)
        found = list(partitions(table, SPEC, SCHEMA))
    assert len({each.values for each in found}) == len(found)
    for each in found:
        assert each.rows.column("row").to_pylist() == sorted(each.rows.column("row").to_pylist())
        assert {(a, b) for a, b in zip(*map(pa.ChunkedArray.to_pylist, each.rows.columns[:2]), strict=True)} == {
            each.values[:2]
        }
    assert sorted(number for each in found for number in each.rows.column("row").to_pylist()) == list(range(len(rows)))
    firsts = [each.rows.column("row")[0].as_py() for each in found]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize("others", [(), (PartitionField(1, 1001, IdentityTransform(), "a"),)])
def test_a_removed_partition_field_whose_column_is_gone_is_null(others: tuple[PartitionField, ...]) -> None:
    """A table of version 1 keeps a removed field as `void`; its column may be dropped since (apache/iceberg#4563)."""
    spec = PartitionSpec(PartitionField(9, 1000, VoidTransform(), "gone"), *others)
    rows = pa.table({"a": pa.array([1, 2, 1], pa.int64())})
    schema = Schema(NestedField(1, "a", LongType(), required=False))
    found = [(each.values, each.path, each.rows.column("a").to_pylist()) for each in partitions(rows, spec, schema)]
    assert found == (
        [((None, 1), "gone=null/a=1", [1, 1]), ((None, 2), "gone=null/a=2", [2])]
        if others
        else [((None,), "gone=null", [1, 2, 1])]
    )


EDGES = [
    datetime(1, 1, 1),
    datetime(1582, 10, 10),
    datetime(1900, 2, 28, 23),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
SINCE = datetime(1970, 1, 1)
TRANSFORMS: dict[Transform[Any, Any], Callable[[datetime], int]] = {
    YearTransform(): lambda at: at.year - 1970,
    MonthTransform(): lambda at: 12 * (at.year - 1970) + at.month - 1,
    DayTransform(): lambda at: (at - SINCE) // timedelta(days=1),
    HourTransform(): lambda at: (at - SINCE) // timedelta(hours=1),
}


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_no_moment_of_a_column_overflows_a_partition(transform: Transform[Any, Any], zone: str | None) -> None:
    """Iceberg keeps years, months, days and hours in 32 bits, which hold every moment that a record can bring."""
    moments = [at.replace(tzinfo=timezone.utc) if zone else at for at in EDGES]
    schema = Schema(NestedField(1, "at", TimestamptzType() if zone else TimestampType(), required=False))
    found = transformed(pa.table({"at": pa.array(moments, pa.timestamp("us", zone))}), schema, 1, transform)
    assert found.to_pylist() == [TRANSFORMS[transform](at) for at in EDGES]
    assert all(-(2**31) <= each < 2**31 for each in found.to_pylist())
