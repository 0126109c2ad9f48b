"""What files say of themselves, compared with what Iceberg's own writer says of the same rows."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.record.fit.parsed_columns import from_python
from framework.record.model import TableTarget
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.spark_server import IcebergSpark

pytestmark = [pytest.mark.iceberg, pytest.mark.spark, pytest.mark.slow]

ITEM = StructType(
    NestedField(20, "sku", StringType(), required=False), NestedField(21, "weight", DoubleType(), required=False)
)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "small", IntegerType(), required=False),
    NestedField(3, "single", FloatType(), required=False),
    NestedField(4, "double", DoubleType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "large", DecimalType(38, 10), required=False),
    NestedField(7, "text", StringType(), required=False),
    NestedField(8, "flag", BooleanType(), required=False),
    NestedField(9, "key", UUIDType(), required=False),
    NestedField(10, "raw", BinaryType(), required=False),
    NestedField(11, "code", FixedType(20), required=False),
    NestedField(12, "day", DateType(), required=False),
    NestedField(13, "at", TimestamptzType(), required=False),
    NestedField(14, "local", TimestampType(), required=False),
    NestedField(15, "nothing", StringType(), required=False),
    NestedField(16, "item", ITEM, required=False),
    NestedField(17, "tags", ListType(18, StringType(), element_required=False), required=False),
    NestedField(19, "items", ListType(22, StructType(
        NestedField(23, "n", LongType(), required=False), NestedField(24, "x", FloatType(), required=False)
    ), element_required=False), required=False),
    NestedField(25, "sizes", MapType(26, StringType(), 27, LongType(), value_required=False), required=False),
)  # fmt: skip
PARTITIONS = (
    PartitionFieldSpec("day", "month"),
    PartitionFieldSpec("flag"),
    PartitionFieldSpec("price", "bucket", 2),
    PartitionFieldSpec("text", "truncate", 1),
)


def row(number: int) -> dict[str, Any]:
    """Rows with nulls, NaN, long and empty text, empty and missing lists and maps; few partitions."""
    even, odd = number % 2 == 0, number % 2 == 1
    return {
        "id": number,
        "small": None if number % 5 == 0 else number - 20,
        "single": float("nan") if number % 7 == 0 else number / 8,
        "double": None if number % 4 == 0 else float("nan") if number % 9 == 0 else -number * 1e100,
        "price": Decimal(number) / 4 - 5,
        "large": Decimal(number).scaleb(-10) if odd else -Decimal(10**27 + number),
        "text": "ä" * number if number % 3 else "ab\U0001f600cd" * 6,
        "flag": None if number % 6 == 0 else even,
        "key": UUID(int=number * 2**100 + 5).bytes,
        "raw": bytes([255 - number]) * number,
        "code": bytes([number]) * 20,
        "day": date(2023 + number % 2, 12, 31),
        "at": datetime(1969, 12, 31, 23, 59, number % 60, 999_999, tzinfo=timezone.utc),
        "local": datetime(2024, 1, 1, 0, number % 60),
        "nothing": None,
        "item": None if number % 3 == 0 else {"sku": None if even else f"s{number}", "weight": float(number)},
        "tags": [None, [], ["a", None], ["b"]][number % 4],
        "items": [None, [], [None], [{"n": number, "x": float("nan")}, {"n": None, "x": 1.0}]][number % 4],
        "sizes": [None, [], [("a", 1), ("b", None)]][number % 3],
    }


def made(
    lake: Lake, name: str, sort_by: tuple[SortFieldSpec, ...], partition_by: tuple[PartitionFieldSpec, ...]
) -> str:
    lake.tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), partition_by, (), sort_by))
    return name


def target(lake: Lake, name: str) -> TableTarget:
    found = lake.tables.load_target(name, POLICY)
    assert found is not None
    return found


def by_partition(lake: Lake, name: str) -> dict[str, dict[str, Any]]:
    """What the manifests say of each file, by the file's partition."""
    table = lake.plain(name)
    found: dict[str, dict[str, Any]] = {}
    for file in (task.file for task in table.scan().plan_files()):
        of_columns = {
            what: {table.schema().find_column_name(key): value for key, value in (getattr(file, what) or {}).items()}
            for what in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
        }
        place = repr(file.partition)
        assert place not in found, "one file for a partition"
        found[place] = of_columns | {what: getattr(file, what) for what in ("record_count", "spec_id", "sort_order_id")}
    return found


@pytest.mark.parametrize("partitioned", [True, False])
def test_files_say_what_icebergs_own_writer_says(lake: Lake, iceberg_spark: IcebergSpark, partitioned: bool) -> None:
    """For the same rows, partition values, column bounds, counts of values, nulls and NaN, and sort order are what
    Iceberg's Java writer records, column by column and file by file."""
    sort_by = (SortFieldSpec(PartitionFieldSpec("id"), descending=True),)
    names = [made(lake, f"ns.{each}", sort_by, PARTITIONS if partitioned else ()) for each in ("ours", "theirs")]
    ours = target(lake, names[0])
    schema = arrow_schema(lake.plain(names[0]).schema())
    rows = [row(number) for number in range(1, 37)]
    columns = [from_python([each[field.name] for each in rows], field.type) for field in schema]
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    writer.add(ours, pa.Table.from_arrays(columns, schema=schema))
    answer = lake.tables.commit(lake.effect(names[0], writer.finish()[names[0]], 1))
    assert isinstance(answer, Committed), answer
    counts = iceberg_spark.ask(
        lake.settings,
        [
            f"INSERT INTO `default`.{names[1]} SELECT * FROM `default`.{names[0]}",
            f"SELECT count(*) AS n FROM `default`.{names[1]}",
        ],
    )[1]
    assert counts.to_pylist() == [{"n": len(rows)}]
    found, expected = (by_partition(lake, name) for name in names)
    assert sorted(found) == sorted(expected)
    for place, said in expected.items():
        for what, values in said.items():
            assert settled(found[place][what]) == settled(values), (place, what)


def settled(values: Any) -> Any:
    """Without the counts in which Iceberg disagrees with itself: a value in a struct that is null counts as a null,
    except where the writer of floats and doubles counts for itself."""
    return (
        {name: value for name, value in values.items() if name != "item.weight"} if isinstance(values, dict) else values
    )
