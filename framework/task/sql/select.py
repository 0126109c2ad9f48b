"""The SELECT of `transform.sql` over decoded rows: what of SQL it may use, and each record carried along through it.

In: rows of the declared columns with a hidden one, and the SQL text. Out: its rows, with the hidden column. It may only
project and filter, row by row; anything else is refused before Spark analyses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from framework.adapters.spark.expressions_apart import NotApart, apart
from framework.adapters.spark.sql_allowed import refusal
from framework.errors import ConfigError, RetriableError
from framework.plan.model import Plan
from framework.record.sql.failure import FAILED

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

HIDDEN = "__floe"
_CARRIED = "__floe_carried"
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
# A row is either a record (all set) or the note of a slice that was decoded (`note`: a pickled SliceNote).
HIDDEN_TYPE = pa.struct(
    [
        ("slice", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
        ("note", pa.binary()),
    ]
)
ALLOWED_NODES = {
    "Project",
    "Filter",
    "SubqueryAlias",
    "View",
    "LogicalRDD",
    "MapInArrow",
    "LocalRelation",
    "InMemoryRelation",
}
SELECT = re.compile(r"^\s*select\s+", re.IGNORECASE)
REFUSED = re.compile(r"^\s*select\s+distinct\b", re.IGNORECASE)


def spark_schema(schema: pa.Schema) -> StructType:
    """Spark's types of these columns. A timestamp without a zone stays one (TIMESTAMP_NTZ): what PySpark makes of it by
    itself is a moment, read from the clock of the session's zone."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def schema_of_source(plan: Plan) -> pa.Schema:
    """What the SQL sees, and the hidden column."""
    from framework.record.process import declared_schema

    return pa.schema([*declared_schema(plan), pa.field(HIDDEN, HIDDEN_TYPE)])


def transformed(source: DataFrame, sql: str) -> DataFrame:
    """The user's SELECT with the hidden column carried along.

    Raises:
        ConfigError: as in `run_sql_stage`.
    """
    return _selected(source, sql).drop(HIDDEN).withColumnRenamed(_CARRIED, HIDDEN)


def transformed_apart(decoded: DataFrame, sql: str) -> tuple[DataFrame, bool]:
    """The same for rows that may make an expression fail: these are among the rows, and the column `FAILED` says of each
    which expression it is. And whether the SELECT has a condition.

    Raises:
        ConfigError: as in `run_sql_stage`.
        NotApart: Spark does not bring the SELECT into the form that this takes.
    """
    from pyspark.sql.types import StructType

    # Where records are few and here, the column holds their numbers.
    is_note_beside = isinstance(decoded.schema[HIDDEN].dataType, StructType)
    is_record = f"{HIDDEN}.offset IS NOT NULL" if is_note_beside else f"{HIDDEN} IS NOT NULL"
    made = apart(decoded, _selected(decoded, sql), HIDDEN, _CARRIED, FAILED, is_record)
    return made.rows.withColumnRenamed(_CARRIED, HIDDEN), made.has_condition


def _selected(source: DataFrame, sql: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    if not SELECT.match(sql) or REFUSED.match(sql):
        raise sql_error("it must begin with SELECT, without DISTINCT")
    if "${" in sql:  # Spark would put a variable of the machine there, before anything is parsed
        raise sql_error("it holds `${`")
    if HIDDEN in sql.lower():
        raise sql_error(f"names that begin with `{HIDDEN}` are floe's own")
    text = SELECT.sub(f"SELECT {HIDDEN} AS {_CARRIED}, ", sql, count=1)
    session = source.sparkSession
    source.createOrReplaceTempView("source")
    try:
        # Before Spark analyses it: that alone would list files and resolve functions.
        parsed = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
        if (why := refusal(parsed, frozenset(name.lower() for name in source.columns))) is not None:
            raise sql_error(why)
        rows = session.sql(text)
    except AnalysisException as error:
        raise sql_error(_said(error)) from error
    plan = rows._jdf.queryExecution().analyzed()
    refused = sorted(set(nodes(plan)) - ALLOWED_NODES)
    if refused:
        raise sql_error(f"it may only project and filter rows of `source`, but it uses {', '.join(refused)}")
    own = {HIDDEN, _CARRIED}
    if taken := [name for name in rows.columns if name.lower().startswith(HIDDEN) and name.lower() not in own]:
        raise sql_error(f"names that begin with `{HIDDEN}` are floe's own, and it gives out {taken[0]}")
    return rows


def _said(error: AnalysisException) -> str:
    """Spark's own sentence, without a position in a text that is not the user's, and without the hidden column."""
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    sentence = re.sub(r"^\[[A-Z_.0-9]+\] ", "", first.split(" SQLSTATE:", 1)[0].strip())
    return re.sub(rf"`{HIDDEN}`, |, `{HIDDEN}`", "", sentence).rstrip(".")


def transform_table(session: SparkSession, rows: pa.Table, sql: str) -> pa.Table:
    """Decoded rows that are here already, through the SQL; each keeps its hidden column. Where an expression fails for
    one of them, the column `FAILED` says of each row which one.

    Raises:
        RetriableError: FLOE-R324, the SQL fails, and not for some of the rows.
    """
    from pyspark.errors import PySparkException

    frame = session.createDataFrame(rows, schema=spark_schema(rows.schema))
    try:
        return transformed(frame, sql).toArrow()
    except PySparkException as error:
        try:
            return transformed_apart(frame, sql)[0].toArrow()
        except (PySparkException, NotApart):
            raise RetriableError(
                f"a batch failed: {error}", code="FLOE-R324", reported="a batch failed: transform.sql fails"
            ) from error


def has_condition(rows: DataFrame, source: DataFrame) -> bool:
    """Whether the SQL that made these rows may have removed some of the source's."""
    return _filters(rows) > _filters(source)


def _filters(frame: DataFrame) -> int:
    return list(nodes(frame._jdf.queryExecution().analyzed())).count("Filter")


def nodes(plan: Any) -> Iterator[str]:
    """Names of the logical plan's nodes, above the decoded rows."""
    name = str(plan.nodeName())
    yield name
    if name in {"MapInArrow", "InMemoryRelation", "LogicalRDD"}:
        return
    children = plan.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))


def sql_error(reason: str) -> ConfigError:
    return ConfigError(
        f"transform.sql is refused: {reason}",
        code="FLOE-C801",
        place="transform.sql",
        remedy="write one SELECT of columns and expressions FROM source, with a WHERE if needed; do joins and "
        "aggregates downstream, on the tables",
    )
