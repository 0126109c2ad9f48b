"""The worker: one pipeline's life in the driver. It settles what an older run left, paces batches, announces them.

In: a Plan, resolved connections and a Spark session. Out: announcements in the control topic, each one Kafka transaction
with the source offsets in it. Keeps invariants 1, 2 and 7: a fenced worker stops for good; an outcome that is not known
is read back before anything else is done.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.adapters.faults import reach
from framework.adapters.iceberg import IcebergTables
from framework.adapters.kafka_presence import Presence
from framework.adapters.kafka_worker import (
    LETTERS_TRANSACTION_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    PipelineProducer,
)
from framework.adapters.parquet_read import read_files
from framework.commit.codec import MAX_EVENT_BYTES, encode
from framework.commit.condition import Condition, reading_hold
from framework.commit.events import Accounting, DataWritten, Deployed, Health, Heartbeat, SourceRange
from framework.commit.offsets import (
    AnnounceState,
    Gaps,
    PartitionFacts,
    PartitionKey,
    add_gap,
    check_announced,
    check_owner,
    check_still_readable,
    decide_start,
    encode_metadata,
    find_gaps,
    plan_ends,
    read_back,
)
from framework.commit.pacing import Pace, PaceFacts, PaceRules, decide_pace
from framework.commit.progress import PROGRESS_PROPERTY, check_recorded_here
from framework.commit.rebase import held_ends, next_cut
from framework.errors import FloeError, OutcomeUnknown, RetriableError
from framework.plan.model import Plan
from framework.record.dead_letter import LetterMessage, letter_messages
from framework.runtime.batch import BatchResult, BatchScope, summarise, summarise_gaps
from framework.runtime.control_watch import ControlWatch
from framework.runtime.failures import LOG_REMEDY, of_task, said
from framework.runtime.patience import Trouble, gives_up, pause_s
from framework.runtime.source import PipelineSource
from framework.runtime.tables import TableRegistry
from framework.runtime.telling import StateTeller

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIN_RECORDS_PER_TASK = 20_000
FIRST_BATCH_RECORDS = 50_000
CHANGE_ROUNDS = 8
# Well inside the shortest retention that a control topic may have, so that a live run's plan can always be found.
TELL_AGAIN_MS = 6 * 60 * 60 * 1000


@dataclass
class WorkerReport:
    """What one run of a pipeline did so far; read by the summary and by the status server."""

    pipeline: str
    batches: int = 0
    accounting: Accounting = field(default_factory=Accounting)
    totals: Accounting = field(default_factory=Accounting)
    rows: dict[str, int] = field(default_factory=dict)
    control_offset: int = 0
    state: str = "starting"
    reason: str = ""


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
        self._scratch = scratch
        self._say = say
        self._source = PipelineSource(plan, kafka)
        self._tables = TableRegistry(plan, catalog, say)
        self._producer = PipelineProducer(
            kafka,
            plan.announce.transactional_id,
            plan.read.group_id,
            plan.announce.control_topic,
            transaction_timeout_ms=LETTERS_TRANSACTION_TIMEOUT_MS
            if plan.write.dead_letter_topic
            else TRANSACTION_TIMEOUT_MS,
        )
        self._presence: Presence | None = None
        self._positions: dict[PartitionKey, int] = {}
        self._gaps: dict[PartitionKey, Gaps] = {}
        self._wanted: dict[PartitionKey, int] | None = None
        self._held: tuple[dict[PartitionKey, int], ...] = ()
        self._runs: set[str] = {self.run_id}
        self._batch = 0
        self._base_batch = 0
        self._bytes_per_record = 0.0
        self._last_announce_ms = 0
        self._deployed: Deployed | None = None
        self._deployed_at: int | None = None
        self._told_ms = 0
        self._draining = threading.Event()
        self._batch_done = threading.Event()
        self._failure: BaseException | None = None
        self._scope: BatchScope | None = None
        self._watch: ControlWatch | None = None
        self._teller: StateTeller | None = None
        self._troubled = False  # a batch has failed, and none was announced since

    # ---- before Spark ---------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Fence older runs, settle an unfinished transaction, and decide where to start.

        Raises:
            SetupError, FencedError, StateDisagreement: as their classes say; nothing was written to a table.
        """
        self._source.facts()  # a missing topic is said before anything is fenced
        self._source.check_dead_letter_topic()
        control = self._source.ensure_control_topic()
        # Invariant 2: init_transactions comes before the offsets are read, so that no older run can move them any more.
        self._producer.start()
        self._presence = Presence(self._kafka, self.plan.read.group_id, sorted(self._source.ids), self.run_id)
        group = self._source.group_offsets()
        self._runs = {self.run_id} | {safe.run for safe in group.values()}
        chain, totals = self._source.newest_announcement()
        # The ends are asked for after the offsets: an older run may have gone on until it was fenced.
        read = self.plan.read
        start = decide_start(
            self.plan.pipeline, group, self._source.facts(), chain, read.starting_offsets, read.on_data_loss
        )
        check_announced(self.plan.pipeline, group, chain, self.plan.announce.control_topic)
        self._positions, self._batch, self._base_batch = start.positions, start.batch, start.base_batch
        self._gaps = {key: safe.gaps for key, safe in group.items()}
        self.report.totals = totals if totals and not group else start.totals
        self._tables.preload()
        recorded = {name: target.properties.get(PROGRESS_PROPERTY) for name, target in self._tables.targets.items()}
        check_recorded_here(self.plan.pipeline, control.name, control.topic_id, recorded, start.first_run)
        held = (held_ends(text, control.topic_id, self.plan.pipeline, start.base_batch) for text in recorded.values())
        self._held = tuple(ends for ends in held if ends)
        self._last_announce_ms = _now_ms()
        self._say("first run" if start.first_run else f"goes on after batch {start.batch}")

    def attach(self, watch: ControlWatch, teller: StateTeller) -> None:
        """What is asked of the pipeline through the control topic, and where its state is told."""
        self._watch, self._teller = watch, teller

    def tell_plan(self, deployed: Deployed) -> None:
        """Put on record what this run runs, and again every few hours; call after `prepare`.

        It goes through the transactional producer, so that a run that was fenced can never tell of its older plan.
        """
        self._deployed = replace(deployed, run=self.run_id)
        if len(encode(self._deployed)) > MAX_EVENT_BYTES:
            self._say("the plan is too large for the control topic; only its hash is told")
            self._deployed = replace(self._deployed, plan={})
        self._tell_plan()

    def _tell_plan(self) -> None:
        if self._deployed is None:
            return
        self._told_ms = _now_ms()
        try:
            end = self._producer.announce((replace(self._deployed, timestamp_ms=self._told_ms),), {})
        except OutcomeUnknown:
            self._producer.recover()  # it is information: told or not, the next time comes
        except RetriableError as error:
            self._say(f"what runs could not be told ({error.message})")
        else:
            self._deployed_at = end - 1

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
                self._say(f"batch failed ({error.message}); attempt {trouble.failures + 1} follows")
                self.report.state, self.report.reason = "degraded", error.message
                self._troubled = True
                self.tell(Health.DEGRADED, error.message, error.remedy, error.code, trouble.failures)
                if self._draining.wait(pause_s(trouble.failures, self.plan.announce.trigger_every_ms / 1000)):
                    # Asked to drain while a failed batch waits: what was begun was not finished, and that is said.
                    self.report.state = "failed"
                    raise

    def _run_query(self, spark: SparkSession) -> None:
        from framework.adapters.spark_query import spark_errors

        self._failure, self._scope = None, None
        done = False
        with spark_errors():
            while not done:
                self._look()
                # A query goes on where its last batch ended, so a new one begins behind each recorded gap.
                query = self._start_query(spark)
                try:
                    done = self._pace(query)
                finally:
                    query.stop()

    def drain(self) -> None:
        """Finish the batch in hand, announce it, and start no other."""
        self._draining.set()

    def tell(self, state: Health, reason: str = "", remedy: str = "", code: str = "", failures: int = 0) -> None:
        """Tell the control topic; a word that was said already is not said again."""
        if self._teller is not None:
            self._teller.tell(self.plan.pipeline, self.run_id, state, reason, remedy, code, failures)

    def _hold(self) -> Condition | None:
        """Why nothing is read for now, as the control topic says. Heartbeats go on meanwhile.

        Raises:
            FloeError: FLOE-R137, the run is to catch up and then to end, which it cannot while a person holds it.
        """
        if self._watch is None:
            return None
        name, announce, watch = self.plan.pipeline, self.plan.announce, self._watch
        hold = reading_hold(
            watch.reading_pause(name), watch.waiting(name), announce.max_waiting_batches, announce.max_waiting_bytes
        )
        if hold is not None and hold.state is Health.BLOCKED:
            self._watch.ask_for_low_water()
        elif hold is not None and self._wanted is not None:
            said = f"pipeline {name} cannot catch up: {hold.reason}"
            raise FloeError(said, code="FLOE-R137", place=name, remedy=hold.remedy)
        return hold

    def _note(self, hold: Condition | None) -> None:
        """Say when reading begins and ends to be held; figures alone are no news."""
        if (hold is not None) != (self.report.state == "held"):
            self._say(f"reads nothing: {hold.reason}" if hold is not None else "reads on")
        if self._troubled:
            return
        self.report.state, self.report.reason = ("held", hold.reason) if hold is not None else ("running", "")
        if hold is not None and hold.state is Health.BLOCKED:
            self.tell(hold.state, hold.reason, hold.remedy, hold.code)
        else:  # a pause stands in the log already; while it lasts the run is well
            self.tell(Health.RUNNING)

    def close(self) -> None:
        self._producer.close()
        if self._presence is not None:
            self._presence.close()

    def _start_query(self, spark: SparkSession) -> Any:
        from framework.adapters.spark_query import start_query

        self._offer_file = self._scratch / f"offer-{uuid.uuid4().hex}.json"
        return start_query(spark, self._offer_file, self._positions, self._process)

    def _settle(self, error: FloeError) -> None:
        """After a failure: positions from the group, since an announcement may have gone through.

        Only an unknown outcome asks for a new producer: taking the transactional id again would fence a newer run.
        """
        if isinstance(error, OutcomeUnknown):
            self._producer.recover()
        group = self._source.group_offsets(self._positions)
        check_owner(self.plan.pipeline, self._runs, group)
        self._gaps = {key: safe.gaps for key, safe in group.items()}
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
        for key, fact in facts.items():
            # A partition that appeared while running is read from its beginning; no restart is needed.
            self._positions.setdefault(key, fact.log_start)
        policy = self.plan.read.on_data_loss
        check_still_readable(self.plan.pipeline, self._positions, self._source.ids, facts, policy)
        gaps = find_gaps(self._positions, facts)
        if gaps:
            self._record_gaps(gaps)
        return facts

    def _pace(self, query: Any) -> bool:
        """Batches until there is nothing to do (True), or until the query has to be begun anew (False)."""
        from framework.adapters.spark_source import Offer, to_offsets

        last_batch_ms: int | None = None
        announce = self.plan.announce
        policies = [self.plan.write.tables.defaults, *(p for _, p in self.plan.write.tables.overrides)]
        rules = PaceRules(
            announce.trigger_every_ms,
            announce.heartbeat_ms,
            self.plan.read.max_records_per_batch,
            min(p.commit.max_bytes for p in policies),
            min(p.commit.max_rows for p in policies),
        )
        poll_s = min(0.5, max(0.05, announce.trigger_every_ms / 10_000))
        while True:
            batch_before = self._batch
            facts = self._look()
            if self._batch != batch_before:
                return False
            ends = self._wanted or {key: fact.log_end for key, fact in facts.items()}
            cut = next_cut(self._positions, self._held)
            if cut is not None:
                ends = {key: min(end, cut.get(key, end)) for key, end in ends.items()}
            backlog = sum(max(0, ends.get(key, at) - at) for key, at in self._positions.items())
            hold = self._hold()
            self._note(hold)
            pace = decide_pace(
                rules,
                PaceFacts(
                    _now_ms(),
                    backlog,
                    self._bytes_per_record,
                    last_batch_ms,
                    self._last_announce_ms,
                    self._wanted is not None,
                    self._draining.is_set(),
                    hold is not None,
                ),
            )
            if pace is Pace.DONE:
                return True
            if pace is Pace.BATCH:
                last_batch_ms = _now_ms()
                cap = rules.max_records if self._tables.targets else FIRST_BATCH_RECORDS
                new_ends = plan_ends(self._positions, ends, cap)
                self._batch += 1
                self._scope = BatchScope(
                    self.run_id,
                    self._batch,
                    dict(self._positions),
                    new_ends,
                    dict(self._source.ids),
                    self._base_batch,
                )
                self._batch_done.clear()
                Offer(
                    to_offsets(self._positions), to_offsets(new_ends), self.plan.read.slices, MIN_RECORDS_PER_TASK
                ).write(self._offer_file)
                self._await_batch(query)
            elif pace is Pace.HEARTBEAT:
                if _now_ms() - self._told_ms > TELL_AGAIN_MS:
                    self._tell_plan()
                self.heartbeat()
            else:
                self._check(query)
                self._draining.wait(poll_s)

    def _await_batch(self, query: Any) -> None:
        while not self._batch_done.wait(0.1):
            self._check(query)

    def _check(self, query: Any) -> None:
        """Raise what ended the query. The Python error is kept by us, since it crosses the JVM as text only."""
        if self._failure is not None:
            query.stop()
            failure, self._failure = self._failure, None
            if isinstance(failure, FloeError):
                raise failure
            if told := of_task(failure):
                raise told from failure
            raise RetriableError(f"a batch failed: {said(failure)}", code="FLOE-R324", remedy=LOG_REMEDY) from failure
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
                self._batch_done.set()
        except BaseException as error:
            self._failure = error
            raise

    def _process_batch(self, frame: DataFrame) -> bool:
        """Do the offered batch; False when this is not it: a new query begins with a micro-batch of its own, which is
        empty if the offer came a moment too late for it."""
        from framework.adapters.spark_query import run_stage

        scope = self._scope
        if scope is None:
            return False
        started = time.monotonic()
        self._tables.begin_batch(self.report.rows)
        reports = []
        todo: DataFrame | None = frame
        rewrites = 0
        for _ in range(CHANGE_ROUNDS):
            route = replace(self.plan.route, refused_tables=self._tables.refused)
            done, again, needs = run_stage(
                todo,
                replace(self.plan, route=route),
                self._kafka,
                self._catalog.io_properties(),
                self._tables.targets,
                dict(self._source.ids),
                self.run_id,
                scope.batch,
                self._registry,
            )
            reports += done
            if not needs:
                break
            self._tables.satisfy(needs)
            rewrites += 1
            todo = again
        else:
            raise FloeError(
                f"batch {scope.batch} asked for table changes {CHANGE_ROUNDS} times in a row",
                code="FLOE-R325",
                remedy="report this with the driver's log",
            )
        if scope.starts != scope.ends and not any(report.slices for report in reports):
            return False
        reach("files-written")
        result = summarise(self.plan, scope, reports, self.report.totals)
        self._announce(scope, result)
        self._record(scope, result, rewrites, time.monotonic() - started)
        return True

    def _announce(self, scope: BatchScope, result: BatchResult) -> None:
        # Invariant 1: the offsets are committed in the transaction that announces the files with their records.
        offsets = {
            (r.topic, r.partition): (r.end, self._metadata(r, scope.batch, result.totals)) for r in result.ranges
        }
        try:
            self._send(result, offsets)
        except OutcomeUnknown as error:
            # Invariant 7: read back before anything else.
            self._say(f"outcome of batch {scope.batch} unknown ({error.message}); reading back")
            self._producer.recover()
            group = self._source.group_offsets(scope.ends)
            check_owner(self.plan.pipeline, self._runs, group)
            state = read_back(self.plan.pipeline, self.run_id, scope.batch, result.ranges, group)
            if state is AnnounceState.NOT_ANNOUNCED:
                self._send(result, offsets)
        reach("announced")
        self._last_announce_ms = _now_ms()

    def _metadata(self, r: SourceRange, batch: int, totals: Accounting) -> str:
        gaps = self._gaps.get((r.topic, r.partition), ())
        return encode_metadata(r.topic_id, batch, totals, self.run_id, self._base_batch, gaps, self._deployed_at)

    def _record_gaps(self, gaps: tuple[SourceRange, ...]) -> None:
        """Announce what retention removed before it was read as a batch of its own, so that the chain goes on behind it
        and the sum of invariant 8 names it."""
        self._batch += 1
        ends = self._positions | {(gap.topic, gap.partition): gap.end for gap in gaps}
        scope = BatchScope(
            self.run_id, self._batch, dict(self._positions), ends, dict(self._source.ids), self._base_batch
        )
        result = summarise_gaps(self.plan, scope, gaps, self.report.totals)
        for gap in gaps:
            key = (gap.topic, gap.partition)
            self._gaps[key] = add_gap(self._gaps.get(key, ()), gap.start, gap.end)
        self._announce(scope, result)
        self._advance(scope, result)
        for gap in gaps:
            self._say(
                f"batch {scope.batch}: records {gap.start:,} to {gap.end - 1:,} of {gap.topic}-{gap.partition} were "
                "removed by retention before they were read; recorded as lost (on_data_loss: skip_and_record)"
            )

    def _send(self, result: BatchResult, offsets: dict[PartitionKey, tuple[int, str]]) -> None:
        """One transaction; the dead letters for a topic are read from the files that it announces for their table."""
        write = self.plan.write
        letters: Iterable[LetterMessage] = ()
        if write.dead_letter_topic:
            paths = [
                file.path
                for event in result.events
                if isinstance(event, DataWritten) and event.table == write.dead_letter_table
                for file in event.files
            ]
            batches = read_files(self._catalog.io_properties(), paths)
            letters = (letter for batch in batches for letter in letter_messages(batch))
        self.report.control_offset = self._producer.announce(
            result.events, offsets, letters, write.dead_letter_topic or ""
        )

    def _advance(self, scope: BatchScope, result: BatchResult) -> None:
        self._positions = dict(scope.ends)
        self._troubled = False
        report = self.report
        report.batches += 1
        report.totals = result.totals
        report.accounting = report.accounting + result.accounting

    def _record(self, scope: BatchScope, result: BatchResult, rewrites: int, seconds: float) -> None:
        self._advance(scope, result)
        report = self.report
        for table, rows in result.rows.items():
            report.rows[table] = report.rows.get(table, 0) + rows
        records = result.accounting.offsets - result.accounting.holes
        if records:
            self._bytes_per_record = result.bytes / records
        self._say(
            f"batch {scope.batch}: {records:,} records, {result.files} files for {len(result.rows)} tables, "
            f"announced in {seconds:.1f} s"
            + (f", {rewrites} re-write{'s' if rewrites > 1 else ''} for changed tables" if rewrites else "")
            + (f", {result.accounting.dead_lettered:,} dead letters" if result.accounting.dead_lettered else "")
        )

    def heartbeat(self) -> None:
        """Idle, but alive: all offsets are committed again (an idle partition's offset would expire) with the chain's end."""
        self._batch += 1
        ranges = tuple(
            SourceRange(topic, self._source.ids[topic], partition, at, at)
            for (topic, partition), at in sorted(self._positions.items())
        )
        totals = self.report.totals
        event = Heartbeat(self.plan.pipeline, self.run_id, self._batch, ranges, totals)
        offsets = {(r.topic, r.partition): (r.end, self._metadata(r, self._batch, totals)) for r in ranges}
        self._producer.announce((event,), offsets)
        self._last_announce_ms = _now_ms()


def _now_ms() -> int:
    return int(time.time() * 1000)
