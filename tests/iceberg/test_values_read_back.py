"""The type table, read back from a real table by PyIceberg.

Each column type with its declared format, zone and unit is a column of one table; each good value is a row of its own.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.parquet_files import TableWriter
from framework.commit.effects import Committed
from framework.config.spec import EvolveMode, FieldHint
from framework.record.process import process_block
from framework.table.types import primitive_type
from tests.iceberg.conftest import Lake
from tests.record_samples import block, plan, policy
from tests.type_cases import CASES, TypeCase

pytestmark = pytest.mark.iceberg


STRICT = policy(columns=EvolveMode.DISCARD_VALUE, data_type=EvolveMode.FREEZE)
# Nanoseconds need format version 3.
GOOD = [case for case in CASES if not case.is_error and not case.type.endswith("_ns")]
COLUMNS = list(dict.fromkeys((case.type, case.format, case.zone, case.unit) for case in GOOD))


def column_of(case: TypeCase) -> str:
    return f"c{COLUMNS.index((case.type, case.format, case.zone, case.unit))}"


def written(lake: Lake) -> str:
    """A table with every good value of the type table, written and committed by floe."""
    fields = [NestedField(i, f"c{i - 2}", primitive_type(kind[0])) for i, kind in enumerate(COLUMNS, 2)]
    name = lake.create("ns.values", Schema(NestedField(1, "row", LongType()), *fields))
    target = lake.tables.load_target(name, STRICT)
    assert target is not None
    hints = [FieldHint(f"c{i}", kind, form, unit, zone) for i, (kind, form, zone, unit) in enumerate(COLUMNS)]
    pipeline = plan(hints=hints, defaults=STRICT, allow=["ns.*"], rules=[plan().route.rules[0].__class__(name)])
    records = [f'{{"row":{i},"{column_of(case)}":{case.json}}}'.encode() for i, case in enumerate(GOOD)]
    result = process_block(block(records), pipeline, {name: target})
    assert not result.dead_letters
    writer = TableWriter(lake.tables.io_properties(), "p", "run", 1, 1 << 28, 1 << 28)
    writer.add(target, result.rows[name])
    answer = lake.tables.commit(lake.effect(name, writer.finish()[name], 1))
    assert isinstance(answer, Committed), answer
    return name


def test_pyiceberg_reads_every_value_back(lake: Lake) -> None:
    """Every value of the type table is in the table exactly, as PyIceberg reads it."""
    rows = lake.plain(written(lake)).scan().to_arrow().sort_by("row")
    for i, case in enumerate(GOOD):
        column = rows.column(column_of(case))
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        elif pa.types.is_temporal(column.type):
            column = column.cast(pa.int64())
        found = column[i].as_py()
        assert found == case.result, str(case)
        assert type(found) is type(case.result), str(case)
