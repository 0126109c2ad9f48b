"""The type table and the matrix of values, read back from real tables by PyIceberg and by Iceberg's own Java runtime.

Each column type with its declared format, zone and unit is a column of one table; each good value is a row of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import EvolveMode, FieldHint, RouteRule
from framework.record.process import process_block
from framework.table.schema.types import primitive_type
from testbed.record_samples import block, plan, policy
from tests.iceberg.conftest import Lake
from tests.iceberg.spark_server import IcebergSpark
from tests.type_cases import CASES, TypeCase

pytestmark = pytest.mark.iceberg


STRICT = policy(columns=EvolveMode.DISCARD_VALUE, data_type=EvolveMode.FREEZE)
MATRIX = Path(__file__).parents[1] / "unit" / "record" / "type_matrix.golden"
Kind = tuple[str, str | None, str | None, str | None]
# A column's kind, the value as it stands in a record, and how Python shows what it becomes.
Value = tuple[Kind, str, str]


def kind_of(case: TypeCase) -> Kind:
    return case.type, case.format, case.zone, case.unit


def good_values() -> list[Value]:
    """Every value of the type table and of the matrix that is no error."""
    found = [(kind_of(case), case.json, repr(case.result)) for case in CASES if not case.is_error]
    for line in MATRIX.read_text(encoding="utf-8").splitlines():
        kind, value, expected = line.split(" | ")
        if not expected.startswith("'FLOE-"):
            found.append(((kind, None, None, None), value, expected))
    return found


def since_version_3(value: Value) -> bool:
    return value[0][0].endswith("_ns")


GOOD = good_values()


def written(lake: Lake, values: list[Value], version: str = "2") -> tuple[str, list[str]]:
    """A table with these values, written and committed by floe, and the column of each."""
    kinds = list(dict.fromkeys(kind for kind, _, _ in values))
    fields = [NestedField(i, f"c{i - 2}", primitive_type(kind[0])) for i, kind in enumerate(kinds, 2)]
    name = lake.create("ns.values", Schema(NestedField(1, "row", LongType()), *fields), format_version=version)
    target = lake.tables.load_target(name, STRICT)
    assert target is not None
    hints = [FieldHint(f"c{i}", kind, form, unit, zone) for i, (kind, form, zone, unit) in enumerate(kinds)]
    pipeline = plan(hints=hints, defaults=STRICT, allow=["ns.*"], rules=[RouteRule(name)])
    columns = [f"c{kinds.index(kind)}" for kind, _, _ in values]
    records = [
        f'{{"row":{i},"{column}":{text}}}'.encode()
        for i, (column, (_, text, _)) in enumerate(zip(columns, values, strict=True))
    ]
    result = process_block(block(records), pipeline, {name: target}, encode=True)
    assert not result.dead_letters
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    writer.add(target, result.rows[name])
    answer = lake.tables.commit(lake.effect(name, writer.finish()[name], 1))
    assert isinstance(answer, Committed), answer
    return name, columns


def plain(column: pa.ChunkedArray) -> list[object]:
    """Values as Python's, dates and times as numbers of their unit."""
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    return list(column.to_pylist())


@pytest.mark.parametrize("version", ["2", "3"])
def test_pyiceberg_reads_every_value_back(lake: Lake, version: str) -> None:
    """Every value of the type table and of the matrix is in the table exactly, as PyIceberg reads it; nanoseconds where
    the format version has them."""
    values = [value for value in GOOD if version == "3" or not since_version_3(value)]
    assert any(since_version_3(value) for value in values) == (version == "3")
    name, columns = written(lake, values, version)
    rows = lake.plain(name).scan().to_arrow().sort_by("row")
    for i, (value, column) in enumerate(zip(values, columns, strict=True)):
        assert repr(plain(rows.column(column))[i]) == value[2], value


@pytest.mark.parametrize("last", ["b", "\ud7ff", "\U0010ffff"])
def test_long_text_is_found_whatever_its_characters(lake: Lake, last: str) -> None:
    """Text that is cut for its file's bounds is written, and found by a filter for it, also where no character follows
    the last one that is kept."""
    text = "a" * 15 + last + "!"
    name, (column,) = written(lake, [(("string", None, None, None), json.dumps(text), repr(text))])
    found = lake.plain(name).scan(EqualTo(column, text)).to_arrow()
    assert found.column(column).to_pylist() == [text]


@pytest.mark.spark
@pytest.mark.slow
def test_iceberg_in_spark_reads_every_value_back(lake: Lake, iceberg_spark: IcebergSpark) -> None:
    """The same as Iceberg's Java runtime reads them in Spark, which has no type for times of a day; UUIDs are text
    there."""
    values = [value for value in GOOD if value[0][0] != "time" and not since_version_3(value)]
    name, columns = written(lake, values)
    [rows] = iceberg_spark.ask(lake.settings, [f"SELECT * FROM `default`.{name} ORDER BY row"])
    assert len(rows) == len(values)
    for i, (value, column) in enumerate(zip(values, columns, strict=True)):
        found = plain(rows.column(column))[i]
        if value[0][0] == "uuid" and found is not None:
            found = UUID(str(found))
        assert repr(found) == value[2], value
