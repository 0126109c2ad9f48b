"""The worker: one pipeline's life in the driver. It settles what an older run left, paces batches, has them announced.

In: a Plan, resolved connections and a Spark session. Out: batches, each announced once by `runtime.announcer`, and what
the run reports of itself. Keeps invariant 2: a batch starts where the one before ended, and a fenced worker stops for good.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.adapters.faults import reach
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.presence import Presence
from framework.adapters.private_files import private_dir
from framework.commit.events.event_types import Deployed, SourceRange
from framework.commit.offsets import (
    PartitionFacts,
    PartitionKey,
    check_still_readable,
    find_gaps,
    first_position,
    plan_ends,
)
from framework.commit.pacing import BatchBefore, Pace, PaceFacts, decide_pace, records_in_batch
from framework.commit.recovery.rebase import next_cut
from framework.diagnose.counted import counted
from framework.errors import FloeError, RetriableError
from framework.plan.catalogs import used_catalogs
from framework.plan.model import Plan
from framework.plan.pace import pace_rules
from framework.runtime.announced import AnnouncedTables
from framework.runtime.announcer import Announcer, now_ms
from framework.runtime.batch import BatchResult, BatchScope, summarise, summarise_gaps
from framework.runtime.begin import begin
from framework.runtime.careful import Careful
from framework.runtime.failures import LOG_REMEDY, of_batch, said
from framework.runtime.patience import Trouble, gives_up, pause_s
from framework.runtime.pipeline_state import Standing
from framework.runtime.source import PipelineSource
from framework.runtime.stage import look_for_deadly, write_batch
from framework.runtime.tables import TableRegistry
from framework.runtime.worker_report import WorkerReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PipelineWorker:
    """Runs one pipeline. `prepare` before Spark starts, then `run` in a thread of its own; `drain` from any thread."""

    def __init__(
        self,
        plan: Plan,
        kafka: dict[str, str],
        catalog: IcebergTables,
        scratch: Path,
        say: Callable[[str], None],
        registry: dict[str, str] | None = None,
    ) -> None:
        self.plan = plan
        self.report = WorkerReport(plan.pipeline)
        self.run_id = uuid.uuid4().hex[:12]
        self._kafka = kafka
        self._registry = registry or {}
        self._catalog = catalog
        self._catalogs = used_catalogs(plan)
        self._scratch = scratch
        self._say = say
        self.standing = Standing(plan, self.run_id, self.report, say)
        self._source = PipelineSource(plan, kafka)
        self._tables = TableRegistry(plan, catalog, say)
        self.standing.follow_tables(lambda: self._tables.troubles)
        self._announcer = Announcer(plan, kafka, self._source, catalog, self.run_id, say)
        self._presence: Presence | None = None
        self._positions: dict[PartitionKey, int] = {}
        self._wanted: dict[PartitionKey, int] | None = None
        self._held: tuple[dict[PartitionKey, int], ...] = ()
        self._batch = 0
        self._given_up: tuple[SourceRange, ...] = ()
        self._announced: AnnouncedTables
        self._backlog = 0
        self._bytes_per_record = 0.0
        self._before: BatchBefore | None = None
        self._was_cut = False
        self._draining = threading.Event()
        self._batch_done = threading.Event()
        self._tables_begun: Future[None] = Future()
        self._rules = pace_rules(plan)
        self._last_batch_ms: int | None = None
        self._offer_file: Path
        self._start: dict[PartitionKey, int] = {}
        self._careful = Careful(say)
        self._failure: BaseException | None = None
        self._scope: BatchScope | None = None

    # ---- before Spark ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Fence older runs, settle an unfinished transaction, and decide where to start.

        Raises:
            SetupError, FencedError, StateDisagreement: as their classes say; nothing was written to a table.
        """
        self._source.facts()  # a missing topic is said before anything is fenced
        self._source.check_dead_letter_topic()
        control = self._source.ensure_control_topic()
        if control.weakness:
            self._say(f"warning: {control.weakness}")
        group = self._announcer.start()
        self._presence = Presence(self._kafka, self.plan.read.group_id, sorted(self._source.ids), self.run_id)
        begun = begin(self.plan, control, group, self._source, self._announcer, self._tables, self._say)
        self._positions, self._batch, self._given_up = begun.positions, begun.batch, begun.given_up
        self._held, self._announced, self.report.totals = begun.held, begun.announced, begun.totals

    def tell_plan(self, deployed: Deployed) -> None:
        """Put on record what this run runs, and again every few hours; call after `prepare`."""
        self._announcer.tell_plan(deployed)

    # ---- with Spark -----------------------------------------------------------------------------------------------

    def freeze_ends(self) -> int:
        """Read to the end offsets of this moment and no further; returns how many offsets that is."""
        self._wanted = {key: fact.log_end for key, fact in self._source.facts().items()}
        self.report.state = "caught up"
        return sum(max(0, end - self._positions.get(key, 0)) for key, end in self._wanted.items())

    def run(self, spark: SparkSession) -> None:
        """Batches until drained, caught up (after `freeze_ends`), or failed for good.

        A failed batch is done again from what the group says.

        Raises:
            FloeError: what stopped the pipeline.
        """
        trouble: Trouble | None = None
        error: FloeError | None = None
        while True:
            batches_before = self.report.batches
            try:
                if error is not None:
                    self._settle(error)
                self._run_query(spark)
                self.report.state = "drained" if self._draining.is_set() else "caught up"
                return
            except FloeError as raised:
                error = raised
                now_s = time.monotonic()
                if trouble is None or self.report.batches > batches_before:
                    trouble = Trouble(0, now_s)
                trouble = Trouble(trouble.failures + 1, trouble.since_s)
                has_an_end = self._wanted is not None
                if self._draining.is_set() or gives_up(error, trouble, now_s, has_an_end):
                    self.report.state, self.report.reason = "failed", error.message
                    raise
                self.standing.failed(error, trouble.failures)
                if self._draining.wait(pause_s(trouble.failures, self.plan.announce.trigger_every_ms / 1000)):
                    # Asked to drain while a failed batch waits: what was begun was not finished, and that is said.
                    self.report.state = "failed"
                    raise

    def _run_query(self, spark: SparkSession) -> None:
        from framework.runtime.spark_query import spark_errors, start_query

        self._failure, self._scope = None, None
        with spark_errors():
            while True:
                self._begin_offers()
                # Looked at before the query starts: its first micro-batch is then the first batch, and no empty one.
                pace = self._step()
                if pace is Pace.DONE:
                    return
                if pace is None:
                    continue  # a query goes on where its last batch ended, so a new one begins behind each recorded gap
                query = start_query(spark, self._offer_file, self._start, self._process)
                try:
                    if self._follow(query, pace):
                        return
                finally:
                    query.stop()

    def drain(self) -> None:
        """Finish the batch in hand, announce it, and start no other."""
        self._draining.set()

    def close(self) -> None:
        self._announcer.close()
        if self._presence is not None:
            self._presence.close()

    def _settle(self, error: FloeError) -> None:
        """After a failure: positions from the group, since an announcement may have gone through."""
        group = self._announcer.settle(error, self._positions)
        if group:
            self._positions.update({key: safe.offset for key, safe in group.items()})
            newest = max(group.values(), key=lambda safe: safe.batch)
            self.report.totals = newest.totals
        # Invariant 2: the number of a batch that was not announced is used again; a number left out breaks the chain.
        self._batch = newest.batch if group else 0

    def _look(self) -> dict[PartitionKey, PartitionFacts]:
        """The source as it is now, checked, with new partitions begun and gaps recorded.

        Raises:
            DataLossError, StateDisagreement: a position no longer fits its log.
        """
        facts = self._source.facts()
        policy = self.plan.read.on_data_loss
        new = [key for key in facts if key not in self._positions]
        for key in new:
            # A partition that appeared while running is read at once; no restart is needed.
            self._positions[key] = first_position(self.plan.pipeline, key, facts[key], self._given_up, policy)
        check_still_readable(self.plan.pipeline, self._positions, self._source.ids, facts, policy)
        if new:
            self._given_up = tuple(r for r in self._given_up if (r.topic, r.partition) not in self._positions)
            self._announcer.claim(self._batch, self._positions, self.report.totals, self._given_up)
        gaps = find_gaps(self._positions, facts)
        if gaps:
            self._record_gaps(gaps)
        return facts

    def _begin_offers(self) -> None:
        """A new query reads its offers from a new file, and begins where the last batch ended."""
        private_dir(self._scratch)
        self._offer_file = self._scratch / f"offer-{uuid.uuid4().hex}.json"
        self._last_batch_ms = None
        self._start = dict(self._positions)
        self._offer(self._start)

    def _offer(self, ends: dict[PartitionKey, int]) -> None:
        from framework.adapters.spark.source import offer

        offer(self._offer_file, ends)

    def heartbeat(self) -> None:
        """Announces that this run is alive, and where it stands. A number of its own says besides that there was nothing to
        read; a run that is held says no such thing. An idle partition's offset would expire: all are committed again."""
        self._announcer.tell_plan_again()
        if not self._backlog:
            self._batch += 1
        self._announcer.claim(self._batch, self._positions, self.report.totals, self._given_up)

    def _follow(self, query: Any, pace: Pace | None) -> bool:
        """Steps until there is nothing to do (True), or until the query has to be begun anew (False)."""
        poll_s = min(0.5, max(0.05, self.plan.announce.trigger_every_ms / 10_000))
        while pace is not None and pace is not Pace.DONE:
            if pace is Pace.BATCH:
                self._await_batch(query)
            elif pace is Pace.HEARTBEAT:
                self.heartbeat()
            else:
                self._check(query)
                self._draining.wait(poll_s)
            pace = self._step()
        return pace is Pace.DONE

    def _step(self) -> Pace | None:
        """Look, and decide what to do now; a batch is on offer when this returns. None: a gap was recorded instead."""
        batch_before = self._batch
        facts = self._look()
        if self._batch != batch_before:
            return None
        self._backlog = sum(max(0, fact.log_end - self._positions[key]) for key, fact in facts.items())
        ends = self._wanted or {key: fact.log_end for key, fact in facts.items()}
        cut = next_cut(self._positions, self._held)
        if cut is not None:
            ends = {key: min(end, cut.get(key, end)) for key, end in ends.items()}
        hold = self.standing.hold(has_an_end=self._wanted is not None)
        backlog = sum(max(0, ends.get(key, at) - at) for key, at in self._positions.items())
        pace = decide_pace(
            self._rules,
            PaceFacts(
                now_ms(),
                backlog,
                self._bytes_per_record,
                self._last_batch_ms,
                self._announcer.last_ms,
                self._wanted is not None,
                self._draining.is_set(),
                hold is not None,
                self._was_cut,
            ),
        )
        if pace is Pace.BATCH:
            self._last_batch_ms = now_ms()
            cap = records_in_batch(self._rules, self._before)
            self._was_cut = backlog > cap
            self._scope = self._scope_to(plan_ends(self._positions, ends, cap))
            self._batch_done.clear()
            self._tables_begun = Future()
            self._offer(dict(self._scope.ends))
            self._begin_tables()
        return pace

    def _begin_tables(self) -> None:
        """Look at the tables again, while Spark begins the batch that is on offer; the batch waits for it, and gets its error."""
        try:
            self._tables.begin_batch(self.report.rows)
        except BaseException as error:  # handed to the batch, which would wait for ever
            self._tables_begun.set_exception(error)
        else:
            self._tables_begun.set_result(None)

    def _await_batch(self, query: Any) -> None:
        self._tables.refresh_meanwhile(self._batch_done.is_set)
        while not self._batch_done.wait(0.1):
            self._check(query)

    def _check(self, query: Any) -> None:
        """Raise what ended the query. The Python error is kept by us, since it crosses the JVM as text only."""
        if self._failure is not None:
            query.stop()
            failure, self._failure = self._failure, None
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

    # ---- one batch, on Spark's callback thread -----------------------------------------------------------------------

    def _process(self, frame: DataFrame, batch_id: int) -> None:
        """What foreachBatch calls. Errors are kept for the pacing thread and raised, so that the query ends."""
        try:
            if self._process_batch(frame):
                self._scope = None  # done once, whatever micro-batch Spark makes of the same offsets
                self._batch_done.set()
        except BaseException as error:
            self._failure = error
            raise

    def _process_batch(self, frame: DataFrame) -> bool:
        """Do the offered batch; False when this is not it."""
        from framework.adapters.spark.source import is_taken

        scope = self._scope
        if scope is None or not is_taken(self._offer_file, scope.ends):
            return False
        started = time.monotonic()
        self._tables_begun.result()
        io = self._catalog.io_properties(self._catalogs)
        session = frame.sparkSession
        given = (session, self.plan, scope, self._kafka, io, self._tables, self._registry)
        reports, rewrites = self._careful.do(
            scope, lambda care: write_batch(*given, care), lambda: look_for_deadly(*given)
        )
        reach("files-written")
        known = self._tables.targets.values()
        before = self._announced.batches_before(reports, self.standing.newest_announced(), known)
        result = summarise(self.plan, scope, reports, self.report.totals, before)
        self._announcer.announce(scope, result)
        self._announced.remember(scope, result, self._announcer.control_offset)
        self._record(scope, result, rewrites, time.monotonic() - started)
        return True

    def _record_gaps(self, gaps: tuple[SourceRange, ...]) -> None:
        """Announce what retention removed before it was read as a batch of its own, so that the chain goes on behind it
        and the sum of invariant 8 names it."""
        scope = self._scope_to(self._positions | {(gap.topic, gap.partition): gap.end for gap in gaps})
        result = summarise_gaps(self.plan, scope, gaps, self.report.totals)
        self._announcer.announce_gaps(scope, result, gaps)
        self._advance(scope, result)
        for gap in gaps:
            self._say(
                f"batch {scope.batch}: records {gap.start:,} to {gap.end - 1:,} of {gap.topic}-{gap.partition} were "
                "removed by retention before they were read; recorded as lost (on_data_loss: skip_and_record)"
            )

    def _scope_to(self, ends: dict[PartitionKey, int]) -> BatchScope:
        """The next batch, from the present positions to `ends`."""
        self._batch += 1
        base = self._announcer.base_batch
        return BatchScope(
            self.run_id, self._batch, dict(self._positions), ends, dict(self._source.ids), base, self._given_up
        )

    def _advance(self, scope: BatchScope, result: BatchResult) -> None:
        self._positions = dict(scope.ends)
        self.standing.announced()
        self.report.add(result, self._announcer.control_offset)

    def _record(self, scope: BatchScope, result: BatchResult, rewrites: int, seconds: float) -> None:
        self._advance(scope, result)
        records = result.accounting.offsets - result.accounting.holes
        if records:
            self._bytes_per_record = result.bytes / records
            self._before = BatchBefore(records, result.files, seconds)
        self._say(
            f"batch {scope.batch}: {counted(records, 'record')}, {counted(result.files, 'file')} for "
            f"{counted(len(result.rows), 'table')}, announced in {seconds:.1f} s"
            + (f", {counted(rewrites, 're-write')} for changed tables" if rewrites else "")
            + (
                f", {counted(result.accounting.dead_lettered, 'dead letter')}"
                if result.accounting.dead_lettered
                else ""
            )
        )
