"""A run's streaming query, paced from one thread: look at the source, decide, offer a batch, wait for it.

In: the run's chain, its pacer and a session. Out: offered batches, which `runtime.batch_runner` does on Spark's
callback thread, and heartbeats between them. Keeps invariant 2: a query begins where the last batch ended, and a batch
is offered when none is under way.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.adapters.host.private_files import private_dir
from framework.commit.offsets import PartitionKey
from framework.commit.pacing import Pace
from framework.errors import FloeError, RetriableError
from framework.metrics.figures import RunPhase
from framework.plan.model import Plan
from framework.runtime.batches.announcer import Announcer, now_ms
from framework.runtime.batches.handover import AnnouncedBatch, BatchHandover, OfferedBatch
from framework.runtime.batches.measures import RunMeasures
from framework.runtime.batches.pacer import BatchPacer
from framework.runtime.batches.runner import BatchRunner
from framework.runtime.pipeline.batch_chain import BatchChain
from framework.runtime.pipeline.pipeline_state import PipelineRunStatus
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.tables.refresh import TableRefresh
from framework.task.failures import LOG_REMEDY, of_batch, said

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PacedQuery:
    """Of one run, whose parts it is given. Once `draining` is set, which any thread may do, no other batch begins."""

    def __init__(
        self,
        plan: Plan,
        chain: BatchChain,
        pacer: BatchPacer,
        announcer: Announcer,
        refresh: TableRefresh,
        run_status: PipelineRunStatus,
        report: WorkerReport,
        handover: BatchHandover,
        scratch: Path,
        draining: threading.Event,
        measures: RunMeasures,
    ) -> None:
        self._chain = chain
        self._pacer = pacer
        self._announcer = announcer
        self._refresh = refresh
        self._run_status = run_status
        self._report = report
        self._handover = handover
        self._scratch = scratch
        self._draining = draining
        self._measures = measures
        self._poll_s = min(0.5, max(0.05, plan.announce.trigger_every_ms / 10_000))
        self._offer_file: Path

    def run(self, spark: SparkSession, runner: BatchRunner) -> None:
        """Batches until drained or caught up.

        Raises:
            FloeError: a batch failed, or the query ended.
        """
        from framework.runtime.spark.query import spark_errors, start_query

        self._handover.withdraw()
        with spark_errors():
            while True:
                folder = self._scratch / f"query-{uuid.uuid4().hex}"
                try:
                    start = self._begin_offers(folder)
                    # Looked at before the query starts: its first micro-batch is then the first batch, and no empty
                    # one.
                    pace = self._step()
                    if pace is Pace.DONE:
                        return
                    if pace is None:
                        continue  # a query goes on where its last batch ended: a new one begins behind a recorded gap
                    query = start_query(spark, self._offer_file, start, runner.process)
                    try:
                        if self._follow(query, pace):
                            return
                    finally:
                        query.stop()  # from here on nothing runs on the callback thread
                        self._take_in(self._handover.withdraw())
                finally:
                    # Its offers and its checkpoint mean nothing to the next query, and a long outage makes many.
                    shutil.rmtree(folder, ignore_errors=True)

    def _begin_offers(self, folder: Path) -> Mapping[PartitionKey, int]:
        """A new query reads its offers from a new file, and begins where the last batch ended."""
        private_dir(self._scratch)
        self._offer_file = private_dir(folder) / "offer.json"
        self._pacer.begin_query()
        start = dict(self._chain.positions)
        self._write_offer(start)
        return start

    def _write_offer(self, ends: Mapping[PartitionKey, int]) -> None:
        from framework.adapters.spark.source import offer

        offer(self._offer_file, ends)

    def _follow(self, query: Any, pace: Pace | None) -> bool:
        """Steps until there is nothing to do (True), or until the query has to be begun anew (False)."""
        while pace is not None and pace is not Pace.DONE:
            if pace is Pace.BATCH:
                self._await_batch(query)
            elif pace is Pace.HEARTBEAT:
                self._chain.heartbeat(self._pacer.is_idle)
            else:
                _check(query, self._handover)
                self._draining.wait(self._poll_s)
            pace = self._step()
        return pace is Pace.DONE

    def _step(self) -> Pace | None:
        """Look, and decide what to do now; a batch is on offer when this returns. None: a gap was recorded instead."""
        self._measures.enter(RunPhase.WAITING)
        facts = self._chain.look()
        if facts is None:
            return None
        self._measures.look(facts, self._chain.positions)
        ends = self._pacer.see(self._chain.positions, facts)
        hold = self._run_status.hold(self._pacer.has_an_end)
        turn = self._pacer.decide(
            self._chain.positions,
            ends,
            now_ms(),
            self._announcer.last_ms,
            is_draining=self._draining.is_set(),
            is_held=hold is not None,
        )
        if turn.pace is Pace.BATCH:
            self._offer(OfferedBatch(self._chain.next_scope(turn.ends), self._offer_file, self._report.totals))
        return turn.pace

    def _offer(self, batch: OfferedBatch) -> None:
        """Hand a batch over; the tables are looked at again while Spark begins it, and it waits for that, and gets its
        error."""
        self._measures.enter(RunPhase.PLANNING, batch.scope.batch)
        self._handover.offer(batch)
        self._write_offer(batch.scope.ends)
        try:
            self._refresh.begin_batch(self._report.rows)
        except BaseException as error:  # handed to the batch, which would wait for ever
            batch.tables_refreshed.set_exception(error)
        else:
            batch.tables_refreshed.set_result(None)

    def _await_batch(self, query: Any) -> None:
        self._refresh.during_batch(self._handover.has_come_back)
        while (done := self._handover.wait(0.1)) is None:
            _check(query, self._handover)
        self._take_in(done)

    def _take_in(self, done: AnnouncedBatch | None) -> None:
        if done is not None:
            self._chain.advance(done)
            self._measures.announced(done)
            self._pacer.learn(done)


def _check(query: Any, handover: BatchHandover) -> None:
    """Raise what ended the query. The Python error is kept by us, since it crosses the JVM as text only."""
    failure = handover.take_failure()
    if failure is not None:
        query.stop()
        if isinstance(failure, FloeError):
            raise failure
        raise of_batch(failure) from failure
    if not query.isActive:
        error = query.exception()
        raise RetriableError(
            f"the streaming query ended: {said(error) if error else 'no reason given'}",
            code="FLOE-R324",
            remedy=LOG_REMEDY,
        )
