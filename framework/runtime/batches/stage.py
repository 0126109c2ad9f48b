"""One batch through Spark until every table can hold it: the stage is run, tables are changed, what they refused runs
again.

In: a batch's scope and what its tasks are given. Out: the reports of the tasks that wrote files, for `runtime.batch`.
Keeps nothing open between rounds: a task that needs a change reports no files, so no row is written under two schemas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from framework.commit.offsets import cut_tasks
from framework.metrics.figures import RunPhase
from framework.record.blocks.poison_records import NO_ISOLATION, Isolation
from framework.record.model import TableNeed, TaskReport
from framework.runtime.batches.batch import BatchScope
from framework.runtime.batches.change_rounds import change_tables_until_they_hold, context_now
from framework.runtime.tables.registry import TableRegistry
from framework.runtime.upsert.heads import UpsertHeads
from framework.task.context import TaskContext
from framework.task.failures import of_ended_keys
from framework.task.output import with_ended_keys, with_keys_of_unknown_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from framework.task.context import Work

MIN_RECORDS_PER_TASK = 20_000


@dataclass(frozen=True)
class StageOfBatch:
    """A batch, and all that its stage is run with. `base` is what tasks are given but for the tables, which change;
    `enter` is called with whether tasks write, or tables are changed for them."""

    session: SparkSession
    scope: BatchScope
    base: TaskContext
    tables: TableRegistry
    keyed: UpsertHeads
    enter: Callable[[RunPhase], None] = lambda phase: None
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def write(self, care: Isolation = NO_ISOLATION) -> tuple[list[TaskReport], int]:
        """The reports of all tasks, and how often a part was written again for changed tables.

        Raises:
            TableBlocked: the dead-letter table cannot be written, or rows of some table cannot be replaced by key.
            RetriableError: FLOE-R157, keys that a catalog lends ended while tasks wrote with them.
            FloeError: FLOE-R325, there is no end of changes.
        """
        from framework.runtime.batches.spark_stage import run_stage

        reports: list[TaskReport] = []
        work = self._work()

        def run(context: TaskContext) -> Sequence[TableNeed]:
            nonlocal work
            keyed = self.keyed.load(context.tables)
            if self.keyed.wait_for_indexes(self.session):
                keyed = self.keyed.load(context.tables)
            context = replace(context, keyed=keyed)
            self.enter(RunPhase.WRITING)
            try:
                done, work, needs = run_stage(self.session, work, context)
            except Exception as error:
                ended, unknown = with_ended_keys(context, self.wall_ms()), with_keys_of_unknown_end(context)
                if (of_keys := of_ended_keys(error, ended, unknown)) is not None:
                    raise of_keys from error
                raise
            self.enter(RunPhase.TABLES)
            reports.extend(done)
            return needs

        base = replace(self.base, poison=care.poison, is_uncompiled=care.is_uncompiled, is_sql_apart=care.is_sql_apart)
        rewrites = change_tables_until_they_hold(
            base, self.tables, run, subject=f"batch {self.scope.batch}", report_with="the driver's log"
        )
        return reports, rewrites

    def look_for_deadly(self, care: Isolation) -> Isolation | str:
        """How to do a batch whose tasks failed for no known reason: without the records that end them; or why they are
        none's."""
        from framework.runtime.batches.spark_stage import run_probe

        context = replace(context_now(self.base, self.tables), is_sql_apart=care.is_sql_apart)
        context = replace(context, keyed=self.keyed.load(context.tables))
        return run_probe(self.session, self._work(), context)

    def _work(self) -> Work:
        scope = self.scope
        return cut_tasks(scope.starts, scope.ends, self.base.plan.read.slices, MIN_RECORDS_PER_TASK)
