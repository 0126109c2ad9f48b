"""The worker: one pipeline's life in the driver, from what an older run left to its last batch.

In: a Plan, resolved connections and a Spark session. Out: batches, each announced once, and what the run reports of
itself. Keeps invariant 2: older runs are fenced before anything is read, and a fenced worker stops for good.

Two threads do the work. The one that calls `run` paces: `batch_chain`, `batch_pacer`, `table_refresh` and `paced_query`
are its own. Spark's callback thread does batches: `batch_runner` is its own. They pass the values of `handover` to each
other. The announcer goes with the batch, to whoever has it; only the table registry is in use by both at once, and has
a lock.
"""

from __future__ import annotations

import gc
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control.presence import Presence
from framework.commit.events.event_types import Deployed
from framework.commit.machine.reporting.batch_remedies import KEYS_ENDED
from framework.diagnose.log_lines import Level, LogLine
from framework.errors import FloeError
from framework.metrics.figures import RunPhase
from framework.plan.model import Plan
from framework.runtime.batches.announced import AnnouncedTables
from framework.runtime.batches.announcer import Announcer
from framework.runtime.batches.handover import BatchHandover
from framework.runtime.batches.measures import RunMeasures
from framework.runtime.batches.pacer import BatchPacer
from framework.runtime.batches.runner import BatchRunner
from framework.runtime.pipeline.batch_chain import BatchChain
from framework.runtime.pipeline.begin import begin
from framework.runtime.pipeline.paced_query import PacedQuery
from framework.runtime.pipeline.pipeline_state import PipelineRunStatus
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.retry_policy import ErrorStreak, gives_up, pause_s
from framework.runtime.source import PipelineSource
from framework.runtime.tables.refresh import TableRefresh
from framework.runtime.tables.registry import TableRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineWorker:
    """Runs one pipeline. `prepare` before Spark starts, then `run` in a thread of its own; `drain` from any thread."""

    def __init__(
        self,
        plan: Plan,
        kafka: dict[str, str],
        catalog: IcebergTables,
        scratch: Path,
        say: Callable[[str], None],
        registries: dict[str, dict[str, str]] | None = None,
    ) -> None:
        self.plan = plan
        self.report = WorkerReport(plan.pipeline)
        self.measures = RunMeasures()
        self.run_id = uuid.uuid4().hex[:12]
        self.run_status = PipelineRunStatus(plan, self.run_id, self.report, say)
        self._kafka = kafka
        self._registries = registries or {}
        self._catalog = catalog
        self._say = say
        self._draining = threading.Event()
        self._presence: Presence | None = None
        self._announced: AnnouncedTables
        self.source = PipelineSource(plan, kafka)
        self._tables = TableRegistry(plan, catalog, say, self.run_status.report_change)
        self.run_status.follow_tables(lambda: self._tables.troubles)
        self.announcer = Announcer(plan, kafka, self.source, catalog, self.run_id, say)
        self.announcer.phases_ms = self.measures.phases_ms
        self.chain = BatchChain(plan, self.run_id, self.source, self.announcer, self.run_status, self.report, say)
        self._pacer = BatchPacer(plan)
        self._handover = BatchHandover()
        self._query = PacedQuery(
            plan=plan,
            chain=self.chain,
            pacer=self._pacer,
            announcer=self.announcer,
            refresh=TableRefresh(self._tables, say),
            run_status=self.run_status,
            report=self.report,
            handover=self._handover,
            scratch=scratch,
            draining=self._draining,
            measures=self.measures,
        )

    # ---- before Spark ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Fence older runs, settle an unfinished transaction, and decide where to start.

        Raises:
            SetupError, FencedError, StateDisagreement: as their classes say; nothing was written to a table.
        """
        self.source.facts()  # a missing topic is said before anything is fenced
        self.source.check_dead_letter_topic()
        control = self.source.ensure_control_topic()
        if control.weakness:
            self._say(LogLine(f"warning: {control.weakness}", Level.WARNING))
        group = self.announcer.start()
        self._presence = Presence(self._kafka, self.plan.read.group_id, sorted(self.source.ids), self.run_id)
        begun = begin(self.plan, control, group, self.source, self.announcer, self._tables, self._say)
        self.chain.begin(begun)
        self._pacer.hold_to(begun.held)
        self._announced = begun.announced

    def publish_plan(self, deployed: Deployed) -> None:
        """Put on record what this run runs, and again every few hours; call after `prepare`."""
        self.announcer.publish_plan(deployed)

    def heartbeat(self) -> None:
        """Announce that this run is alive, and where it stands."""
        self.chain.heartbeat(self._pacer.is_idle)

    # ---- with Spark -----------------------------------------------------------------------------------------------

    def freeze_ends(self) -> int:
        """Read to the end offsets of this moment and no further; returns how many offsets that is."""
        ends = {key: fact.log_end for key, fact in self.source.facts().items()}
        self._pacer.wanted_ends = ends
        self.report.state = "caught up"
        return sum(max(0, end - self.chain.positions.get(key, 0)) for key, end in ends.items())

    def run(self, spark: SparkSession) -> None:
        """Batches until drained, caught up (after `freeze_ends`), or failed for good.

        A failed batch is done again from what the group says.

        Raises:
            FloeError: what stopped the pipeline.
        """
        runner = BatchRunner(
            plan=self.plan,
            kafka=self._kafka,
            registries=self._registries,
            catalog=self._catalog,
            tables=self._tables,
            announcer=self.announcer,
            announced=self._announced,
            newest_announced=self.run_status.newest_announced,
            handover=self._handover,
            say=self._say,
            measures=self.measures,
        )
        trouble: ErrorStreak | None = None
        error: FloeError | None = None
        while True:
            batches_before = self.report.batches
            try:
                if error is not None:
                    # The error, its frames and the query that failed refer to each other. Python looks for such rings
                    # when its own memory has grown, and does not see what Java holds for them.
                    gc.collect()
                    self.chain.settle(error)
                self._query.run(spark, runner)
                self.report.state = "drained" if self._draining.is_set() else "caught up"
                self.measures.enter(RunPhase.ENDED)
                return
            except FloeError as raised:
                error = raised
                self.measures.failed(error)
                self.measures.enter(RunPhase.RETRYING)
                now_s = time.monotonic()
                if trouble is None or self.report.batches > batches_before:
                    trouble = ErrorStreak(0, now_s)
                trouble = ErrorStreak(trouble.failures + 1, trouble.since_s)
                if self._draining.is_set() or gives_up(error, trouble, now_s, self._pacer.has_an_end):
                    self.report.state, self.report.reason = "failed", error.reported
                    self.measures.enter(RunPhase.ENDED)
                    raise
                if error.code == KEYS_ENDED:
                    self._pacer.make_smaller()
                self.run_status.failed(error, trouble.failures, self.chain.batch)
                if self._draining.wait(pause_s(trouble.failures, self.plan.announce.trigger_every_ms / 1000)):
                    # Asked to drain while a failed batch waits: what was begun was not finished, and that is said.
                    self.report.state = "failed"
                    self.measures.enter(RunPhase.ENDED)
                    raise

    def drain(self) -> None:
        """Finish the batch in hand, announce it, and start no other."""
        self._draining.set()

    def close(self) -> None:
        self.announcer.close()
        if self._presence is not None:
            self._presence.close()
