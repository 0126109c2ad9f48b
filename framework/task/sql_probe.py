"""Which records make `transform.sql` fail, as a cast of text that is no number does: found by halving the batch in
jobs.

In: the spans of a batch that failed twice, and is sound up to the SQL. Out: the records, each with what Spark says of
it; or in words why it is none of them. A record is condemned only if the job is done without it. Files of a trial are
removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.commit.offsets import Span
from framework.errors import FloeError
from framework.record.condemned import Condemned
from framework.task.context import TaskContext
from framework.task.probe import MOST_CONDEMNED
from framework.task.sql import run_sql_stage, why_sql_failed
from framework.task.told_failure import is_outside, told_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deadly_to_sql(
    session: SparkSession, spans: Sequence[Span], sql: str, context: TaskContext
) -> tuple[Condemned, ...] | str:
    """The records that make the SQL fail, or why it is none of them."""
    found: list[Condemned] = []

    def failure(some: Sequence[Span]) -> str | None:
        return _failure(session, some, sql, replace(context, condemned=(*context.condemned, *found), is_trial=True))

    while (why := failure(spans)) is not None:
        if len(found) == MOST_CONDEMNED:
            return f"more than {MOST_CONDEMNED} records make transform.sql fail: {why}"
        left = list(spans)
        while _records(left) > 1:
            first, second = _halves(left)
            left = first if failure(first) is not None else second
        why = failure(left)
        if why is None:
            return "transform.sql fails for the batch, but for none of its records alone"
        found.append(Condemned(left[0].topic, left[0].partition, left[0].start, why, in_sql=True))
        if (still := failure(left)) is not None:
            return still
    return tuple(found)


def _failure(session: SparkSession, spans: Sequence[Span], sql: str, context: TaskContext) -> str | None:
    """What the job over some spans fails with; errors of floe's own, of files and of networks are
    raised."""
    try:
        run_sql_stage(session.range(0, 1, 1, 1), [list(spans)], sql, context)
    except Exception as error:
        if isinstance(error, FloeError) or is_outside(error) or told_failure(error) is not None:
            raise
        return why_sql_failed(error)
    return None


def _records(spans: Sequence[Span]) -> int:
    return sum(span.end - span.start for span in spans)


def _halves(spans: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    room = _records(spans) // 2
    first: list[Span] = []
    second: list[Span] = []
    for span in spans:
        cut = min(span.end, span.start + room)
        room -= cut - span.start
        if cut > span.start:
            first.append(replace(span, end=cut))
        if cut < span.end:
            second.append(replace(span, start=cut))
    return first, second
