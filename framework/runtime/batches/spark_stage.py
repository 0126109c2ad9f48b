"""A stage as jobs of Spark: run once over the work that is left, or in search of the records that end its tasks.

In: a session, the work of each task and a TaskContext. Out: reports of the tasks that are done, and what the others
need; or the records that end a task. Nothing is changed but files that no table knows yet.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.adapters.store.counts import reported
from framework.commit.offsets import OffsetRange
from framework.metrics.store_requests import total
from framework.record.blocks.poison_records import Isolation, PoisonRecord
from framework.record.model import TableNeed, TaskReport
from framework.record.sql.failure import SQL_FAILED
from framework.runtime.batches.change_rounds import merged_needs
from framework.task.context import TaskContext, Work, ranges_of
from framework.task.exchange import exchange
from framework.task.failures import is_known
from framework.task.output import REPORT_SCHEMA, remove_files
from framework.task.reported_failure import reporting
from framework.task.stage import make_sending_task, make_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_stage(
    session: SparkSession, work: Work, context: TaskContext
) -> tuple[list[TaskReport], Work, list[TableNeed]]:
    """Run the stage once, with a task for each piece of `work`.

    Returns:
        The reports of the tasks that are done; the work of those that must be done again once the tables are changed,
        which is all of it where tables are upserted; and what the tables need. Updates whose row is not there are found
        when all of the batch was read: then it is done again without them.
    """
    plan = context.plan
    numbers = session.range(0, len(work), 1, max(1, len(work)))
    if plan.transform is not None:
        from framework.task.sql.stage import run_sql_stage

        report = run_sql_stage(numbers, work, plan.transform.sql, context)
        reported(plan.pipeline, report.requests)
        redo_all = bool(report.needs) and report.failure is None
        return ([], work, list(report.needs.values())) if redo_all else ([report], [], [])
    if plan.is_distributed:
        rows = exchange(numbers, make_sending_task(context, work), context).collect()
    else:
        rows = numbers.mapInArrow(reporting(make_task(context, work)), REPORT_SCHEMA).collect()
    reports: list[TaskReport] = [pickle.loads(bytes(row[0])) for row in rows]
    reported(plan.pipeline, total(report.requests for report in reports))
    failed = [report for report in reports if report.failure is not None]
    again = [report for report in reports if report.needs or report.refused]
    if plan.is_upserted and (failed or again):
        # The newest change of a key is found among all that the batch has of it, so no part of it may be done already.
        remove_files(context, reports)
        refused = [record for report in again for record in report.refused]
        if refused and not failed and not any(report.needs for report in again):
            return run_stage(session, work, replace(context, refused=(*context.refused, *refused)))
        return failed, [] if failed else work, [] if failed else merged_needs(report.needs for report in again)
    if failed:
        return failed, [], []
    spans = [
        [OffsetRange(p.slice.topic, p.slice.partition, p.slice.start, p.slice.end) for p in report.slices]
        for report in again
    ]
    return [report for report in reports if not report.needs], spans, merged_needs(report.needs for report in again)


def run_probe(session: SparkSession, work: Work, context: TaskContext) -> Isolation | str:
    """How this work is done nevertheless: with the expressions of `transform.sql` apart, or without the records that end
    its tasks. In words why it is none of them, where it is so."""
    plan = context.plan
    is_apart = context.is_sql_apart
    if plan.transform is not None and not is_apart:
        fails = _fails_in_sql(session, work, plan.transform.sql, context)
        if fails:
            return Isolation(is_sql_apart=True)
        is_apart = fails is not None
    context = replace(context, is_uncompiled=True)
    numbers = session.range(0, len(work), 1, max(1, len(work)))
    rows = numbers.mapInArrow(reporting(make_probe(context, work)), REPORT_SCHEMA).collect()
    found: list[list[PoisonRecord] | str] = [pickle.loads(bytes(row[0])) for row in rows]
    for each in found:
        if isinstance(each, str):
            return each
    poison = tuple(record for each in found if not isinstance(each, str) for record in each)
    return Isolation(poison, is_uncompiled=True, is_sql_apart=is_apart)


def _fails_in_sql(session: SparkSession, work: Work, sql: str, context: TaskContext) -> bool | None:
    """Whether a trial of this work with expressions apart ends well, and finds some that fail; None where Spark does not
    take the SELECT apart. Its files are removed.

    Raises:
        FloeError, OSError: what no record is to blame for.
    """
    from framework.adapters.spark.expressions_apart import NotApart
    from framework.task.sql.stage import run_sql_stage

    numbers = session.range(0, len(work), 1, max(1, len(work)))
    try:
        report = run_sql_stage(numbers, work, sql, replace(context, is_sql_apart=True, is_trial=True))
    except NotApart:
        return None
    except Exception as error:
        if is_known(error):
            raise
        return False
    if report.failure is not None:
        return report.failure.code == SQL_FAILED
    refused = sum((part.dropped_for for part in report.slices), Counter[str]())
    for part in report.slices:
        refused.update(code for _, code in part.letters)
    return refused[SQL_FAILED] > 0


def make_probe(context: TaskContext, work: Work):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """The number of a piece of the work in; its deadly records out, or why it is none of them."""

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from framework.task.probe import NotARecord, deadly_records

        for slices in ranges_of(batches, context, work):
            found: list[PoisonRecord] | str
            try:
                found = deadly_records(slices, context)
            except NotARecord as error:
                found = str(error)
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found)], pa.binary())], ["report"])

    return probe
