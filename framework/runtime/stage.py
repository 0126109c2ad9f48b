"""One batch through Spark until every table can hold it: the stage is run, tables are changed, what they refused runs again.

In: a batch's scope. Out: the reports of the tasks that wrote files, for `runtime.batch`. Keeps nothing open between rounds: a
task that needs a change reports no files, so no row is written under two schemas.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.adapters.registry import less_patient
from framework.commit.offsets import cut_tasks
from framework.errors import FloeError
from framework.plan.model import Plan
from framework.record.condemned import NO_CARE, Care
from framework.record.model import TaskReport
from framework.runtime.batch import BatchScope
from framework.runtime.tables import TableRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.task.stage import Work

CHANGE_ROUNDS = 8
MIN_RECORDS_PER_TASK = 20_000


def write_batch(
    session: SparkSession,
    plan: Plan,
    scope: BatchScope,
    kafka: dict[str, str],
    io_properties: dict[str, dict[str, str]],
    tables: TableRegistry,
    registry: dict[str, str],
    care: Care = NO_CARE,
) -> tuple[list[TaskReport], int]:
    """The reports of all tasks, and how often a part was written again for changed tables.

    Raises:
        TableBlocked: the dead-letter table cannot be written.
        FloeError: FLOE-R325, there is no end of changes.
    """
    from framework.runtime.spark_query import run_stage

    reports: list[TaskReport] = []
    began_s = time.monotonic()
    work: Work = cut_tasks(scope.starts, scope.ends, plan.read.slices, MIN_RECORDS_PER_TASK)
    for rewrites in range(CHANGE_ROUNDS):
        route = replace(plan.route, refused_tables=tables.refused)
        done, work, needs = run_stage(
            session,
            work,
            replace(plan, route=route),
            kafka,
            io_properties,
            tables.targets,
            dict(scope.topic_ids),
            scope.run,
            scope.batch,
            less_patient(registry, time.monotonic() - began_s) if rewrites else registry,
            care,
        )
        reports += done
        if not needs:
            return reports, rewrites
        tables.satisfy(needs)
    raise FloeError(
        f"batch {scope.batch} asked for table changes {CHANGE_ROUNDS} times in a row",
        code="FLOE-R325",
        remedy="report this with the driver's log",
    )


def look_for_deadly(
    session: SparkSession,
    plan: Plan,
    scope: BatchScope,
    kafka: dict[str, str],
    io_properties: dict[str, dict[str, str]],
    tables: TableRegistry,
    registry: dict[str, str],
) -> Care | str:
    """How to do a batch whose tasks failed for no known reason: without the records that end them; or why they are none's."""
    from framework.runtime.spark_query import run_probe

    return run_probe(
        session,
        cut_tasks(scope.starts, scope.ends, plan.read.slices, MIN_RECORDS_PER_TASK),
        replace(plan, route=replace(plan.route, refused_tables=tables.refused)),
        kafka,
        io_properties,
        tables.targets,
        dict(scope.topic_ids),
        scope.run,
        scope.batch,
        registry,
    )
