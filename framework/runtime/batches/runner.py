"""One offered batch from the stage to its announcement, on Spark's callback thread.

In: an OfferedBatch from `runtime.handover`. Out: an AnnouncedBatch, or the error that the pacing thread raises.
Everything here belongs to the callback thread; the announcer is used by it for as long as it has the batch, and by the
pacing thread otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.files import moment
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.registry import with_learned
from framework.commit.watch import Newest
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import LogLine
from framework.metrics.figures import RunPhase
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.record.formats.wire import SchemaRef, WriterSchema
from framework.runtime.batches.announced import AnnouncedTables
from framework.runtime.batches.announcer import Announcer
from framework.runtime.batches.batch import summarise
from framework.runtime.batches.handover import AnnouncedBatch, BatchHandover, OfferedBatch
from framework.runtime.batches.measures import RunMeasures
from framework.runtime.batches.poison_records import PoisonIsolation
from framework.runtime.batches.stage import StageOfBatch
from framework.runtime.tables.registry import TableRegistry
from framework.runtime.upsert.heads import UpsertHeads
from framework.task.context import TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.runtime.batches.batch import BatchScope


JOB_GROUP = "spark.jobGroup.id"


class BatchRunner:
    """Of one run. `newest_announced` gives by table uuid what the control topic says was announced last for it."""

    def __init__(
        self,
        plan: Plan,
        kafka: dict[str, str],
        registries: dict[str, dict[str, str]],
        catalog: IcebergTables,
        tables: TableRegistry,
        announcer: Announcer,
        announced: AnnouncedTables,
        newest_announced: Callable[[], Mapping[str, Newest]],
        handover: BatchHandover,
        say: Callable[[str], None],
        measures: RunMeasures,
    ) -> None:
        self._plan = plan
        self._measures = measures
        self._kafka = kafka
        self._registries = registries
        self._schemas: dict[SchemaRef, WriterSchema] = {}
        self._catalog = catalog
        self._catalogs = used_catalogs(plan)
        self._tables = tables
        self._announcer = announcer
        self._announced = announced
        self._newest_announced = newest_announced
        self._handover = handover
        self._upsert_heads = UpsertHeads(plan, catalog, say)
        self._isolation = PoisonIsolation(say)
        self._say = say

    def process(self, frame: DataFrame, batch_id: int) -> None:
        """What foreachBatch calls. Errors are kept for the pacing thread and raised, so that the query ends: crossing
        the JVM, an error is left with its text only."""
        try:
            from framework.adapters.spark.source import is_taken

            batch = self._handover.offered()
            if batch is not None and is_taken(batch.offer_file, batch.scope.ends):
                self._handover.announced(self._do(frame.sparkSession, batch))
        except BaseException as error:
            self._handover.failed(error)
            raise

    def _do(self, session: SparkSession, batch: OfferedBatch) -> AnnouncedBatch:
        started, begun = time.monotonic(), moment()
        scope = batch.scope
        self._measures.job_group = session.sparkContext.getLocalProperty(JOB_GROUP) or ""
        self._measures.enter(RunPhase.TABLES)
        batch.tables_refreshed.result()
        stage = StageOfBatch(
            session, scope, self._context(scope), self._tables, self._upsert_heads, self._measures.enter
        )
        reports, rewrites = self._isolation.do(scope, stage.write, stage.look_for_deadly)
        for report in reports:
            self._schemas = with_learned(self._schemas, report.learned)
        self._upsert_heads.keep_indexes(session, reports)
        self._measures.enter(RunPhase.ANNOUNCING)
        failpoint("files-written")
        known = self._tables.targets.values()
        before = self._announced.batches_before(reports, self._newest_announced(), known)
        result = summarise(self._plan, scope, reports, batch.totals, before, begun.wall_ms)
        self._announcer.announce(scope, result, begun)
        control_offset = self._announcer.control_offset
        self._announced.remember(scope, result, control_offset)
        done = AnnouncedBatch(scope, result, control_offset, rewrites, time.monotonic() - started)
        self._say(LogLine(in_words(done), batch=scope.batch))
        return done

    def _context(self, scope: BatchScope) -> TaskContext:
        return TaskContext(
            plan=self._plan,
            kafka=self._kafka,
            io_properties=self._catalog.io_properties(self._catalogs),
            tables={},
            topic_ids=dict(scope.topic_ids),
            run=scope.run,
            batch=scope.batch,
            registries=self._registries,
            schemas=self._schemas,
        )


def in_words(batch: AnnouncedBatch) -> str:
    """A batch as a line of progress."""
    accounting, rewrites = batch.result.accounting, batch.rewrites
    return (
        f"batch {batch.scope.batch}: {counted(accounting.offsets - accounting.holes, 'record')}, "
        f"{counted(batch.result.files, 'file')} for {counted(len(batch.result.rows), 'table')}, "
        f"announced in {batch.seconds:.1f} s"
        + (f", {counted(rewrites, 're-write')} for changed tables" if rewrites else "")
        + (f", {counted(accounting.dead_lettered, 'dead letter')}" if accounting.dead_lettered else "")
    )
