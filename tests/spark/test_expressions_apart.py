"""SELECTs whose expressions are evaluated apart, beside Spark's plain answer for each row alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from framework.adapters.spark.expressions_apart import NotApart
from framework.record.sql.failure import FAILED
from framework.task.sql.select import HIDDEN, transformed, transformed_apart
from tests.security.test_sql import ORDINARY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = pa.table(
    {
        "a": pa.array([1, 2, 0, None, 3, 2**62], pa.int64()),
        "b": ["x", "7", "", None, "2024-02-30", "11"],
        "arr": pa.array([[1], [2, 3], [], None, [0], [2**62]], pa.list_(pa.int64())),
        "s": [{"x": 1}, {"x": 0}, {"x": 2}, None, {"x": None}, {"x": 5}],
        "at": pa.array([0, 1, None, -1, 10**15, 2 * 10**15], pa.timestamp("us", "UTC")),
        "m": pa.array([[("k", 1)], [], [("k", 0)], None, [("j", 2)], [("k", 3)]], pa.map_(pa.string(), pa.int64())),
        HIDDEN: pa.array(range(6), pa.int32()),
    }
)
# Each fails for some of the rows, or would if a part of it were evaluated where it must not be.
FAILING = [
    "CAST(b AS int)",
    "10 / a",
    "10 % s.x",
    "a * 4",
    "arr[0]",
    "element_at(arr, 1)",
    "to_date(b)",
    "make_date(2024, a, 30)",
    "CAST(b AS int) BETWEEN 1 AND 9",
    "nullif(CAST(b AS int), 7)",
    "coalesce(CAST(b AS int), a)",
    "CASE WHEN a > 0 THEN 10 / a END",
    "CASE WHEN b RLIKE '^[0-9]+$' THEN CAST(b AS int) ELSE -1 END",
    "if(s.x = 0, 0, 10 / s.x)",
    "transform(arr, x -> 10 / x)",
    "aggregate(arr, 0L, (acc, x) -> acc + 10 div x)",
    "named_struct('n', CAST(b AS bigint), 'm', m)",
    "map_filter(m, (k, v) -> 10 / v > 5)",
    "try_cast(b AS int)",
    "unhex(b)",
    "CAST(a AS int) + CAST(a AS int)",
    "m['k'] + CAST(b AS int)",
    "date_add(at, CAST(b AS int))",
]
PARTS = 4  # so that no single test takes long
SHAPES = [
    "SELECT {0} AS one FROM source",
    "SELECT a, {0} AS one, {1} AS two, * FROM source",
    "SELECT {0} AS one, {0} AS two FROM source WHERE a > 1",
    "SELECT a, b FROM source WHERE ({0}) IS NOT NULL",
    "SELECT {1} AS two FROM source WHERE a IS NULL OR ({0}) IS NULL",
    "SELECT {0} AS one, concat(CAST(one AS string), 'x') AS two FROM source",
    "SELECT one, t.a FROM (SELECT *, {0} AS one FROM source WHERE a < 3) t WHERE one IS NOT NULL AND ({1}) IS NULL",
    "SELECT {0} AS one FROM (SELECT * FROM (SELECT * FROM source WHERE b <> 'x') u WHERE a >= 0) t",
]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    made = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    yield made
    made.stop()


def plainly(session: SparkSession, sql: str) -> list[dict[str, object] | None]:
    """What Spark gives out for each row alone, None where it fails; rows that the condition removes are not there."""
    from pyspark.errors import PySparkException

    found: list[dict[str, object] | None] = []
    for at in range(len(ROWS)):
        try:
            found += transformed(session.createDataFrame(ROWS.slice(at, 1)), sql).toArrow().to_pylist()
        except PySparkException:
            found.append(None)
    return found


def texts() -> list[str]:
    chance = random.Random(5)
    shaped = [
        shape.format(chance.choice(FAILING) if at else one, chance.choice(FAILING))
        for one in FAILING
        for at, shape in enumerate([SHAPES[0], *chance.sample(SHAPES[1:], 2)])
    ]
    # The same moment for all rows of a SELECT, and another for each SELECT.
    return [*(text for text in ORDINARY if "current_timestamp" not in text), *shaped]


@pytest.mark.parametrize("part", range(PARTS))
def test_what_fails_for_a_row_fails_for_no_other(session: SparkSession, part: int) -> None:
    """Rows that are whole are Spark's own, in names, types and values; a row is told as failing just where Spark fails
    for it alone."""
    for sql in texts()[part::PARTS]:
        apart, has_condition = transformed_apart(session.createDataFrame(ROWS), sql)
        found = apart.toArrow()
        expected = plainly(session, sql)

        assert has_condition == ("WHERE" in sql), sql
        whole = found.filter(pa.compute.is_null(found[FAILED])).drop_columns([FAILED])
        assert whole.to_pylist() == [row for row in expected if row is not None], sql
        assert len(found) - len(whole) == expected.count(None), sql
        for cause in found[FAILED].to_pylist():
            assert cause is None or cause.startswith("WHERE ") or " = " in cause, sql
        plain = transformed(session.createDataFrame(ROWS), sql).schema
        assert [(f.name, f.dataType) for f in apart.drop(FAILED).schema] == [(f.name, f.dataType) for f in plain], sql


def test_the_message_names_the_column_and_its_expression(session: SparkSession) -> None:
    """What a person reads in a dead letter: the first column that fails, as the file has it."""
    sql = "SELECT a, CAST(b AS int) AS number, 10 / a AS share FROM source WHERE make_date(2024, a, 1) IS NOT NULL OR a < 1"
    rows = transformed_apart(session.createDataFrame(ROWS), sql)[0].toArrow()
    assert dict(zip(rows[HIDDEN].to_pylist(), rows[FAILED].to_pylist(), strict=True)) == {
        0: "number = CAST(b AS INT)",
        1: None,
        2: "WHERE ((make_date(2024, CAST(a AS INT), 1) IS NOT NULL) OR (a < CAST(1 AS BIGINT)))",
        4: "number = CAST(b AS INT)",
        5: "WHERE ((make_date(2024, CAST(a AS INT), 1) IS NOT NULL) OR (a < CAST(1 AS BIGINT)))",
    }


def test_what_is_no_projection_is_reported(session: SparkSession) -> None:
    """A form that Spark does not bring down to one projection and one condition is not tried."""
    from framework.adapters.spark.expressions_apart import apart

    frame = session.createDataFrame(ROWS)
    grouped = frame.groupBy("a").count()
    with pytest.raises(NotApart, match="Aggregate"):
        apart(frame, grouped, HIDDEN, "carried", FAILED, f"{HIDDEN} IS NOT NULL")
