"""One batch through Spark until every table can hold it: the stage is run, tables are changed, what they refused runs again.

In: the frame of a micro-batch and its scope. Out: the reports of the tasks that wrote files, for `runtime.batch`. Keeps
nothing open between rounds: a task that needs a change reports no files, so no row is written under two schemas.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from framework.errors import FloeError
from framework.plan.model import Plan
from framework.record.model import TaskReport
from framework.runtime.batch import BatchScope
from framework.runtime.tables import TableRegistry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGE_ROUNDS = 8


def write_batch(
    frame: DataFrame,
    plan: Plan,
    scope: BatchScope,
    kafka: dict[str, str],
    io_properties: dict[str, dict[str, str]],
    tables: TableRegistry,
    registry: dict[str, str],
) -> tuple[list[TaskReport], int]:
    """The reports of all tasks, and how often a part was written again for changed tables.

    Raises:
        TableBlocked: a table can or may not be changed as the records need it.
        FloeError: FLOE-R325, there is no end of changes.
    """
    from framework.adapters.spark_query import run_stage

    reports: list[TaskReport] = []
    todo: DataFrame | None = frame
    for rewrites in range(CHANGE_ROUNDS):
        route = replace(plan.route, refused_tables=tables.refused)
        done, again, needs = run_stage(
            todo,
            replace(plan, route=route),
            kafka,
            io_properties,
            tables.targets,
            dict(scope.topic_ids),
            scope.run,
            scope.batch,
            registry,
        )
        reports += done
        if not needs:
            return reports, rewrites
        tables.satisfy(needs)
        todo = again
    raise FloeError(
        f"batch {scope.batch} asked for table changes {CHANGE_ROUNDS} times in a row",
        code="FLOE-R325",
        remedy="report this with the driver's log",
    )
