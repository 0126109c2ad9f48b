"""Dead letters through the stage of a batch, in this process: few records are here already, so no job of Spark is
needed.

In: letters as blocks of records. Out: what became of each, and a TaskReport of the files for those that went through.
Blocks are processed, tables changed and files written by what does it for a batch's tasks, so no policy can differ
between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.registry import resolved_registries
from framework.config.spec import LoadedPipeline
from framework.diagnose.shown import argument
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import joined
from framework.record.model import BlockResult, RecordBlock, TableNeed, TaskRange, TaskReport
from framework.runtime.batches.change_rounds import change_tables_until_they_hold, context_now, merged_needs
from framework.runtime.job import Say
from framework.runtime.tables.registry import TableRegistry
from framework.task.blocks import BlockProcessor, TaskRangeSum
from framework.task.context import TaskContext
from framework.task.task_run import TaskRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DeadLetterStage:
    """The stage of one replay, with the plan of the replay. Close it at the end."""

    def __init__(
        self, pipeline: LoadedPipeline, plan: Plan, catalog: IcebergTables, tables: TableRegistry, run: str, say: Say
    ) -> None:
        self._base = TaskContext(
            plan=plan,
            kafka={},
            io_properties={},
            tables={},
            topic_ids={},
            run=run,
            batch=0,
            registries=resolved_registries(pipeline.target, plan.decode),
        )
        self._pipeline = pipeline
        self._catalog = catalog
        self._tables = tables
        self._say = say
        self._spark: SparkSession | None = None

    def process(self, blocks: Sequence[RecordBlock]) -> list[BlockResult]:
        """What becomes of each block as the pipeline file says now, once the tables can hold what goes through.

        Raises:
            TableBlocked, FloeError: as `change_tables_until_they_hold`.
        """
        results: list[BlockResult] = []

        def run(context: TaskContext) -> Sequence[TableNeed]:
            processor = BlockProcessor(context, sql=self._through_sql if context.plan.transform else None)
            results[:] = [joined([*processor.results(block)]) for block in blocks]
            return merged_needs(result.needs for result in results)

        change_tables_until_they_hold(
            self._base, self._tables, run, subject="the letters", report_with="the pipeline file"
        )
        return results

    def write(self, results: Iterable[BlockResult], more: BlockResult, batch: int, piece: TaskRange) -> TaskReport:
        """Files of what went through, as a task of a job would report them; the others are in the dead-letter table
        already.

        Args:
            more: rows that no letter gave, which count as no record.
            piece: the letters that went through.
        """
        io_properties = self._catalog.io_properties(used_catalogs(self._base.plan))
        context = context_now(replace(self._base, io_properties=io_properties, batch=batch), self._tables)
        run, total = TaskRun(context), TaskRangeSum()
        for result in results:
            went_through = replace(result, dead_letters=[])
            run.add(went_through)
            total.add(went_through)
        run.add(more)
        run.slices.append(total.report(piece, holes=0))
        return run.finish()

    def close(self) -> None:
        if self._spark is not None:
            from framework.runtime.spark.query import stop_session

            stop_session(self._spark)

    def _through_sql(self, rows: pa.Table) -> pa.Table:
        from framework.task.sql.select import transform_table

        transform = self._base.plan.transform
        assert transform is not None
        return transform_table(self._session(), rows, transform.sql)

    def _session(self) -> SparkSession:
        if self._spark is None:
            from framework.runtime.spark.query import start_session

            self._say("starting Spark for transform.sql")
            target = self._pipeline.target
            name = f"floe dlq replay {argument(self._pipeline.spec.name)}"
            self._spark = start_session(name, target.spark_master, target.spark_conf, Path(target.state_dir) / "logs")
        return self._spark
