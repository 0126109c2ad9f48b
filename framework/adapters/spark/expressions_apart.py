"""A SELECT whose expressions are evaluated apart from each other, so that a row for which one of them fails is a row
that says so and not the end of a job.

In: a frame, and Spark's analysis of a SELECT from it. Out: the same rows with the same columns, and one column more:
null, or the expression that fails for the row. Rows that fail are never removed. Goes by Spark's inside, through py4j:
Spark has `try_` forms of some functions, and none of a whole SELECT (a public `try()` for any expression would remove
this module). `tests/spark/test_expressions_apart.py` compares it with Spark's plain answers, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from framework.adapters.spark.sql_allowed import items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
# Each step takes a projection or a condition away; a text has not so many.
_MOST_STEPS = 1000
_WHERE = "__floe_where"
_LONGEST = 200


class NotApart(Exception):
    """Spark does not bring this SELECT into the form that is looked for."""


@dataclass(frozen=True)
class Apart:
    """`rows` has the column `carried`, the SELECT's columns without the hidden one, and `failed`. `has_condition` says
    whether the SELECT may remove rows."""

    rows: DataFrame
    has_condition: bool


def apart(source: DataFrame, selected: DataFrame, hidden: str, carried: str, failed: str, is_record: str) -> Apart:
    """The SELECT with each expression by itself.

    Args:
        source: what the SELECT reads. Its plan is one relation, and no projection or condition.
        selected: the SELECT as Spark analysed it; its first column is `hidden` of the source.
        hidden: a column of the source that no SELECT sees.
        carried: the name that this column gets.
        failed: the name of the column that says what fails.
        is_record: a condition of SQL on the hidden column. Other rows are left out.

    Raises:
        NotApart: the SELECT is no projection and condition on the rows of the source.
    """
    from pyspark.sql import DataFrame

    spark = _Spark(source, is_record)
    projection, condition = spark.normal_form(selected._jdf.queryExecution().analyzed())
    rows = source._jdf.where(is_record)
    causes: list[Any] = []
    if condition is not None:
        rows = rows.withColumn(_WHERE, spark.tried(condition))
        rows = rows.where(f"{_WHERE} IS NULL OR {_WHERE}.v")
        causes.append((spark.column(_WHERE).isNull(), f"WHERE {_text(condition)}"))
    columns: list[Any] = []
    tries: list[Any] = []
    for expression in projection:
        if expression.name().lower() in {hidden.lower(), carried.lower()}:
            continue
        name = f"c{len(columns)}"
        inner = _inner(expression)
        if _is_plain(inner):
            tries.append(spark.as_column(inner).alias(name))
            columns.append(spark.column(name).alias(expression.name()))
            continue
        tries.append(spark.tried(inner).alias(name))
        columns.append(spark.column(f"{name}.v").alias(expression.name()))
        causes.append((spark.column(name).isNull(), f"{expression.name()} = {_text(inner)}"))
    kept = [rows.col(_WHERE)] if condition is not None else []
    rows = rows.select(spark.sequence([rows.col(hidden), *kept, *tries]))
    cause = spark.first_of(causes).alias(failed)
    rows = rows.select(spark.sequence([spark.column(hidden).alias(carried), *columns, cause]))
    return Apart(DataFrame(rows, source.sparkSession), condition is not None)


class _Spark:
    """Spark's classes, as py4j reaches them."""

    def __init__(self, source: DataFrame, is_record: str) -> None:
        self._jvm: Any = source.sparkSession._jvm
        asked = source._jdf.selectExpr(self.sequence([is_record])).queryExecution().analyzed()
        self._is_record = _inner(next(items(asked.projectList())))

    def normal_form(self, plan: Any) -> tuple[list[Any], Any | None]:
        """The expressions of one projection, and the condition below it, of projections and conditions in any order:
        what Spark's own optimiser makes of them."""
        plan = self._object(_ANALYSIS, "EliminateView").apply(
            self._object(_ANALYSIS, "EliminateSubqueryAliases").apply(plan)
        )
        push_down, collapse = (
            self._object(_OPTIMIZER, "PushDownPredicates"),
            self._object(_OPTIMIZER, "CollapseProject"),
        )
        for _ in range(_MOST_STEPS):
            simpler = collapse.apply(push_down.apply(plan), True)
            if simpler.fastEquals(plan):
                break
            plan = simpler
        if plan.nodeName() != "Project":
            raise NotApart(f"its outermost part is {plan.nodeName()}")
        projection, below = list(items(plan.projectList())), plan.child()
        condition = None
        if below.nodeName() == "Filter":
            condition, below = below.condition(), below.child()
        if below.nodeName() in {"Project", "Filter"}:  # what made the rows is no part of the SELECT
            raise NotApart(f"it has {below.nodeName()} below its condition")
        return projection, condition

    def tried(self, expression: Any) -> Any:
        """A struct with the value as its field `v`; null where the expression fails.

        It stands in a branch: what is in none is evaluated before the rest where it occurs twice, and would fail
        outside of the attempt.
        """
        classes = getattr(self._jvm, _EXPRESSIONS)
        literal = self._object(_EXPRESSIONS, "Literal")
        value = classes.CreateNamedStruct(self.sequence([literal.apply("v"), expression]))
        nothing = literal.create(None, value.dataType())
        return self.as_column(classes.TryEval(classes.If(self._is_record, value, nothing)))

    def first_of(self, causes: Sequence[tuple[Any, str]]) -> Any:
        """The text of the first condition that holds; null where none does."""
        functions = self._jvm.org.apache.spark.sql.functions
        texts = [functions.when(holds, functions.lit(text)) for holds, text in causes]
        return functions.coalesce(self.sequence([*texts, functions.lit(None).cast("string")]))

    def as_column(self, expression: Any) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression)

    def column(self, name: str) -> Any:
        return self._jvm.org.apache.spark.sql.functions.col(name)

    def sequence(self, values: Sequence[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for value in values:
            made.add(value)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(made)

    def _object(self, package: str, name: str) -> Any:
        """One of Scala's singletons."""
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return loader.loadClass(f"{package}.{name}$").getField("MODULE$").get(None)


def _inner(expression: Any) -> Any:
    return expression.child() if expression.getClass().getSimpleName() == "Alias" else expression


def _is_plain(expression: Any) -> bool:
    """A column as it is, which cannot fail."""
    return bool(expression.getClass().getSimpleName() == "AttributeReference")


def _text(expression: Any) -> str:
    """The expression as SQL, without the name of the relation."""
    text = str(expression.sql()).replace("source.", "")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
