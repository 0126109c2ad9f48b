"""A file's metrics from its writer's statistics: PyIceberg's, and right where PyIceberg's are not."""

from __future__ import annotations

import base64
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.adapters.parquet.metrics import RowMetrics, statistics_plan, uuid_columns
from framework.adapters.parquet.statistics import (
    FileMetrics,
    collected_columns,
    file_metrics,
    split_offsets,
    upper_text,
)
from framework.adapters.uuid_order import signs
from framework.record.fit.parsed_columns import from_python
from framework.table.schema.arrow import arrow_schema

INT64 = st.integers(-(2**63), 2**63 - 1)
DAYS_0001, DAYS_9999 = -719_162, 2_932_896
US_0001, US_9999 = DAYS_0001 * 86_400_000_000, (DAYS_9999 + 1) * 86_400_000_000 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
KINDS: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), INT64),
    (FloatType(), st.floats(width=32, allow_nan=False)),
    (DoubleType(), st.floats(allow_nan=False)),
    (DateType(), st.integers(DAYS_0001, DAYS_9999)),
    (TimeType(), st.integers(0, 86_399_999_999)),
    (TimestamptzType(), st.integers(US_0001, US_9999)),
    (StringType(), TEXT),
    (BinaryType(), st.binary(max_size=24)),
    (FixedType(4), st.binary(min_size=4, max_size=4)),
    (DecimalType(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    (DecimalType(18, 0), st.decimals(-(10**17), 10**17, places=0)),
    (DecimalType(38, 5), st.decimals(-(10**30), 10**30, places=5)),
]


def written(schema: Schema, rows: list[dict[str, Any]], rows_in_group: int = 1 << 20) -> pq.FileMetaData:
    sink = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    with pq.ParquetWriter(sink, table.schema, store_schema=False, store_decimal_as_integer=True) as writer:
        writer.write_table(table, rows_in_group)
    return writer.writer.metadata


def metrics(schema: Schema, metadata: pq.FileMetaData, properties: dict[str, str]) -> FileMetrics:
    plan = statistics_plan(schema, properties, UNSORTED_SORT_ORDER)
    return file_metrics(metadata, collected_columns(plan, parquet_path_to_id_mapping(schema)))


def one_column(kind: IcebergType, values: list[Any], rows_in_group: int = 1 << 20) -> FileMetrics:
    schema = Schema(NestedField(1, "v", kind, required=False))
    return metrics(schema, written(schema, [{"v": value} for value in values], rows_in_group), {})


def bound(found: dict[str, str], field_id: int = 1) -> bytes | None:
    text = found.get(str(field_id))
    return None if text is None else base64.b64decode(text)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind[0]), st.lists(st.none() | kind[1], min_size=1, max_size=12))
    ),
    st.sampled_from([1, 3, 100]),
    st.sampled_from(["truncate(16)", "truncate(1)", "full", "counts", "none"]),
)
def test_metrics_are_those_that_pyiceberg_finds(
    case: tuple[PrimitiveType, list[Any]], rows_in_group: int, mode: str
) -> None:
    """Counts, sizes, bounds and offsets of every type but UUIDs are PyIceberg's, for one row group and for many, in every
    mode; an upper bound that is cut may be a lower one than PyIceberg's, and never below the greatest value."""
    kind, values = case
    if mode.startswith("truncate") and not isinstance(kind, (StringType, BinaryType)):
        mode = "full"  # PyIceberg's plan refuses the others
    schema = Schema(NestedField(1, "v", kind, required=False))
    properties = {"write.metadata.metrics.default": mode}
    plan = compute_statistics_plan(schema, properties)
    metadata = written(schema, [{"v": value} for value in values], rows_in_group)
    found = metrics(schema, metadata, properties)
    theirs = data_file_statistics_from_parquet_metadata(metadata, plan, parquet_path_to_id_mapping(schema))
    assert found.column_sizes == {str(i): n for i, n in theirs.column_sizes.items()}
    assert found.value_counts == {str(i): n for i, n in theirs.value_counts.items()}
    assert found.null_value_counts == {str(i): n for i, n in theirs.null_value_counts.items()}
    assert list(split_offsets(metadata)) == theirs.split_offsets
    collected = theirs.column_aggregates.get(1)
    assert bound(found.lower_bounds) == (collected.min_as_bytes() if collected else None)
    upper = bound(found.upper_bounds)
    if isinstance(kind, StringType) and upper is not None:
        greatest = max(value for value in values if value is not None)
        assert upper.decode("utf-8") >= greatest
        assert upper == greatest.encode("utf-8") or mode.startswith("truncate")
    else:
        assert upper == (collected.max_as_bytes() if collected else None)


def signed(value: bytes) -> tuple[int, int]:
    """A UUID as Java compares it: two signed numbers."""
    return int.from_bytes(value[:8], "big", signed=True), int.from_bytes(value[8:], "big", signed=True)


# Few first and second halves of both signs, so that many share one.
UUIDS = st.tuples(st.sampled_from(b"\x00\x01\x7f\x80\xff"), st.sampled_from(b"\x00\x7f\x80\xff")).map(
    lambda ends: bytes([ends[0], *bytes(7), ends[1], *bytes(7)])
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.none() | UUIDS | st.uuids().map(lambda value: value.bytes), min_size=1, max_size=12),
    st.sampled_from([1, 3, 100]),
    st.sampled_from(["full", "counts", "none"]),
    st.booleans(),
)
def test_bounds_of_uuids_hold_for_whoever_compares_them(
    values: list[bytes | None], step: int, mode: str, in_struct: bool
) -> None:
    """Of a file's UUIDs, which come in pieces, the bounds are the least and the greatest in both orders that readers use,
    signed and unsigned, or there are none; nulls are counted as ever."""
    schema = Schema(NestedField(1, "v", UUIDType(), required=False))
    if in_struct:
        schema = Schema(NestedField(2, "s", StructType(*schema.fields), required=False))
    plan = statistics_plan(schema, {"write.metadata.metrics.default": mode}, UNSORTED_SORT_ORDER)
    rows = [{"s": {"v": value} if value else None} if in_struct else {"v": value} for value in values]
    of_rows = RowMetrics((), uuid_columns(schema, plan))
    for start in range(0, len(rows), step):
        [column] = arrow_schema(schema)
        held = from_python([row[column.name] for row in rows[start : start + step]], column.type)
        of_rows.add(pa.table({column.name: held}))
    found = of_rows.completed(FileMetrics())
    assert found.null_value_counts == ({} if mode == "none" else {"1": values.count(None)})
    known = [value for value in values if value is not None]
    if mode != "full" or not known:
        assert not found.lower_bounds
        assert not found.upper_bounds
        return
    lower, upper = bound(found.lower_bounds), bound(found.upper_bounds)
    assert (lower is not None) == (upper is not None) == (len({signs(value) for value in known}) == 1)
    if lower is not None and upper is not None:
        assert (lower, upper) == (min(known), max(known)) == (min(known, key=signed), max(known, key=signed))


def test_nested_columns_are_found_by_their_place() -> None:
    """Each leaf has its own metrics, whatever stands around it: structs, lists, maps."""
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(2, "a", LongType()), NestedField(3, "b", StringType()))),
        NestedField(4, "l", ListType(5, LongType(), element_required=False), required=False),
        NestedField(6, "m", MapType(7, StringType(), 8, DoubleType(), value_required=False), required=False),
        NestedField(9, "z", IntegerType(), required=False),
    )
    rows = [
        {"s": {"a": 5, "b": "x"}, "l": [1, 2], "m": [("k", 1.0)], "z": 9},
        {"s": {"a": 7, "b": "y"}, "l": None, "m": None, "z": None},
    ]
    found = metrics(schema, written(schema, rows), {})
    assert set(found.column_sizes) == {"2", "3", "5", "7", "8", "9"}
    assert (bound(found.lower_bounds, 2), bound(found.upper_bounds, 2)) == (
        to_bytes(LongType(), 5),
        to_bytes(LongType(), 7),
    )
    assert (bound(found.lower_bounds, 3), bound(found.upper_bounds, 3)) == (b"x", b"y")
    assert (bound(found.lower_bounds, 9), found.null_value_counts["9"]) == (to_bytes(IntegerType(), 9), 1)


def test_nanoseconds_are_not_cut() -> None:
    """Bounds of nanoseconds are exact: cut to microseconds, an upper one would hide the rows behind it."""
    values = [1_704_369_600_000_000_001, 1_704_369_600_000_000_999]
    found = one_column(TimestampNanoType(), values)
    assert bound(found.lower_bounds) == to_bytes(TimestampNanoType(), values[0])
    assert bound(found.upper_bounds) == to_bytes(TimestampNanoType(), values[1])


def test_a_bound_that_a_row_group_lacks_is_left_out() -> None:
    """Parquet's writer keeps no bounds of long text: those of the other row groups would hide its rows."""
    found = one_column(StringType(), ["a", "z" * 5_000, "b"], rows_in_group=1)
    assert not found.lower_bounds
    assert not found.upper_bounds
    assert found.value_counts == {"1": 3}


def test_a_row_group_of_nulls_has_no_say() -> None:
    """Row groups without a value leave the bounds to the others."""
    found = one_column(LongType(), [None, 3, None], rows_in_group=1)
    assert (bound(found.lower_bounds), bound(found.upper_bounds)) == (to_bytes(LongType(), 3),) * 2
    assert found.null_value_counts == {"1": 2}


def test_decimals_are_compared_as_numbers() -> None:
    """Of decimals too large for a number of Parquet's, which are bytes there, the least is the least number."""
    values = [Decimal(1), Decimal(-1), Decimal(10) ** 20]
    kind = DecimalType(38, 0)
    found = one_column(kind, values, rows_in_group=1)
    assert bound(found.lower_bounds) == to_bytes(kind, Decimal(-1))
    assert bound(found.upper_bounds) == to_bytes(kind, Decimal(10) ** 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abc", "abc"),
        ("abcd", "abd"),
        ("ab\ud7ff…", "ab\ue000"),  # the next numbers are no characters, and PyIceberg's bound has no UTF-8
        ("ab\U0010ffff…", "ac"),
        ("\U0010ffff" * 4, None),
        ("a\U0010ffff\U0010ffff…", "b"),
    ],
)
def test_upper_bounds_of_cut_text(text: str, expected: str | None) -> None:
    """Text that is cut to three characters has an upper bound that is not below it and has UTF-8, or none."""
    assert upper_text(text, 3) == (None if expected is None else expected.encode("utf-8"))
