"""A whole run: several pipelines in one driver, one embedded coordinator per control topic, one Spark session.

In: loaded pipelines of one target. Out: an exit code and a summary. The order matters: transactions are settled and
older runs fenced before a query starts (invariant 2); at the end what is announced is committed before the process
leaves.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from framework import __version__
from framework.adapters.host.failpoints import failpoint
from framework.adapters.host.scratch import scratch_dir
from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.reader import fetch_described
from framework.adapters.registry import resolved_registries
from framework.adapters.secrets import resolve
from framework.commit.events.event_types import CommitComplete, CommitRequested, Deployed, Health, StopRequested
from framework.config.spec import LoadedPipeline, TargetSpec
from framework.diagnose.counted import counted
from framework.diagnose.log_lines import LogLine, under
from framework.errors import DeadlinePassed, FloeError, TableBlocked
from framework.lineage.values import RunEnd
from framework.plan.canonical import canonical, hash_of
from framework.plan.catalogs import used_catalogs
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.job_lineage import JobLineage
from framework.runtime.monitoring.monitor import Connections, Monitor
from framework.runtime.pipeline.begin import naming_file
from framework.runtime.pipeline.control_watch import ControlWatch
from framework.runtime.pipeline.state_publisher import StatePublisher
from framework.runtime.pipeline.worker import PipelineWorker
from framework.runtime.pipeline.worker_report import WorkerReport
from framework.runtime.spark.session import StartingSession
from framework.task.failures import unforeseen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_DEADLINE_S = 120.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class JobResult:
    """What a run did; `signal` is the one that ended it, if one did."""

    reports: tuple[WorkerReport, ...]
    seconds: float
    signal: int | None


def run_job(
    pipelines: Sequence[LoadedPipeline],
    until_caught_up: bool,
    say: Say,
    deployment: str = "",
    spark: StartingSession | None = None,
) -> JobResult:
    """Run pipelines until caught up, drained by SIGTERM or SIGINT, or failed.

    Args:
        deployment: the name under which `floe deploy` started them; it is reported with the plan.
        spark: the session, where it is being started already.

    Raises:
        FloeError: the first failure; the other pipelines are drained before it is raised.
    """
    return Job(pipelines, until_caught_up, say, deployment, spark=spark).run()


class Job:
    """`plans` are run instead of those that the files say, where given: of the same target, in the same order. `spark`
    may be under way already; the job ends it."""

    def __init__(
        self,
        pipelines: Sequence[LoadedPipeline],
        until_caught_up: bool,
        say: Say,
        deployment: str = "",
        plans: Sequence[Plan] | None = None,
        spark: StartingSession | None = None,
    ) -> None:
        self._plans = plans
        self._pipelines = pipelines
        self._until_caught_up = until_caught_up
        self._say = say
        self._deployment = deployment
        self._target = pipelines[0].target
        self._signal: int | None = None
        self._scratch = scratch_dir(f"job-{uuid.uuid4().hex[:8]}")
        self._workers: list[PipelineWorker] = []
        self._coordinators: dict[tuple[str, str], Coordinator] = {}
        self._watches: dict[tuple[str, str], ControlWatch] = {}
        self._publishers: dict[tuple[str, str], StatePublisher] = {}
        self._stop_requests: dict[str, StopRequested] = {}
        self._monitor: Monitor | None = None
        self._lineage = JobLineage(self._target, say)
        self._ended: set[str] = set()  # pipelines that were stopped while others go on
        self._spark = spark or StartingSession(pipelines, [plan.pipeline for plan in plans or ()])

    def run(self) -> JobResult:
        """A wish to stop counts from here on: one that comes before the first batch leaves as clean an end as a later one.
        Python lets the main thread alone heed signals; a run in another one is stopped through the control topic."""
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGTERM, signal.SIGINT) if is_main else ()
        restore = [(number, signal.signal(number, self._on_signal)) for number in numbers]
        try:
            return self._run()
        finally:
            for number, handler in restore:
                signal.signal(number, handler)

    def _run(self) -> JobResult:
        started = time.monotonic()
        is_done = False
        try:
            failpoint("run-begins")
            plans = self._plans or [compile_plan(pipeline) for pipeline in self._pipelines]
            if not self._until_caught_up:
                self._spark.begin()  # a run that may have nothing to read does not begin with it
            catalog = open_catalog(self._target, used_catalogs(*plans))
            for pipeline, plan in zip(self._pipelines, plans, strict=True):
                self._prepare(plan, catalog)
                self._workers[-1].publish_plan(reported(pipeline, self._deployment))
                self._lineage.began(self._workers[-1], catalog)
            self._follow_control_topics()
            self._start_coordinators(plans, catalog)
            self._monitor = self._watched(catalog, used_catalogs(*plans))
            self._monitor.start()
            failpoint("prepared")
            backlog = sum([worker.freeze_ends() for worker in self._workers]) if self._until_caught_up else 1
            if backlog and not self._signal:
                self._run_workers()
            self._commit_announced(plans)
            for worker in self._workers:
                if worker.plan.pipeline not in self._ended:
                    worker.run_status.report_state(Health.STOPPED, self._why_ended(worker))
                    self._lineage.ended(worker, RunEnd.COMPLETE)
            is_done = True
        except Exception as error:
            self._report_failure(error if isinstance(error, FloeError) else unforeseen(error))
            raise
        finally:
            if self._monitor is not None:
                self._monitor.close()
            for coordinator in self._coordinators.values():
                coordinator.stop(is_done)
            for watch in self._watches.values():
                watch.close()
            self._lineage.close()
            for publisher in self._publishers.values():
                publisher.close()  # before the run leaves its group: who waits for its end waits for its last word
            for worker in self._workers:
                worker.close()
            self._spark.stop()
            shutil.rmtree(self._scratch, ignore_errors=True)
        return JobResult(tuple(w.report for w in self._workers), time.monotonic() - started, self._signal)

    def _kafka(self, connection: str) -> dict[str, str]:
        return resolve(self._target.kafka[connection])

    def _prepare(self, plan: Plan, catalog: IcebergTables) -> None:
        def say(text: str, name: str = plan.pipeline) -> None:
            self._say(under(name, text, pipeline=name))

        registries = resolved_registries(self._target, plan.decode)
        kafka = self._kafka(plan.read.connection)
        worker = PipelineWorker(plan, kafka, catalog, self._scratch / plan.pipeline, say, registries)
        self._workers.append(worker)
        with naming_file(plan):
            worker.prepare()

    def _follow_control_topics(self) -> None:
        for worker in self._workers:
            plan = worker.plan
            key = (plan.read.connection, plan.announce.control_topic)
            if key not in self._watches:
                kafka = self._kafka(key[0])
                self._publishers[key] = StatePublisher(kafka, key[1], self._say)
                self._watches[key] = ControlWatch(kafka, key[1], plan.commit.coordinator_group, self._say)
                self._watches[key].start()
            worker.run_status.attach(self._watches[key], self._publishers[key])
            worker.run_status.report_state(Health.RUNNING)

    def _why_ended(self, worker: PipelineWorker) -> str:
        if self._signal:
            return f"drained on {signal.Signals(self._signal).name}"
        request = self._stop_requests.get(worker.plan.pipeline)
        return f"drained: `floe stop` by {request.by}" if request is not None else worker.report.state

    def _report_failure(self, error: FloeError) -> None:
        """The state in which each pipeline ends. Each of them should run and does not, whosever failure it was, so none is
        STOPPED, which is what somebody asked for; all that one failure ended name the same cause."""
        failed = sorted(each.plan.pipeline for each in self._workers if each.report.state == "failed")
        cause = f"pipeline {', '.join(failed)} of this driver failed" if failed else "this driver failed"
        for worker in self._workers:
            if worker.plan.pipeline in self._ended:
                continue
            if isinstance(error, TableBlocked | DeadlinePassed):
                self._report_uncommitted(worker, error)
            elif worker.report.state == "failed" or len(self._workers) == 1:
                reason = worker.report.reason if worker.report.state == "failed" else error.reported
                worker.run_status.report_state(Health.FAILED, reason, error.remedy, error.code)
                self._lineage.ended(worker, RunEnd.FAIL, error.code)
            else:
                self._lineage.ended(worker, RunEnd.ABORT)
                reason = f"drained, since {cause}: {error.reported}"
                worker.run_status.report_state(Health.FAILED, reason, error.remedy, error.code)

    def _report_uncommitted(self, worker: PipelineWorker, error: FloeError) -> None:
        self._lineage.ended(worker, RunEnd.FAIL, error.code)
        worker.run_status.report_state(
            Health.STOPPED, f"drained, but not all is committed: {error.reported}", error.remedy, error.code
        )

    def _heed_stop_requests(self) -> None:
        """`floe stop` was asked for: those pipelines drain, the others of this driver go on."""
        for worker in self._workers:
            name = worker.plan.pipeline
            watch = self._watches[worker.plan.read.connection, worker.plan.announce.control_topic]
            request = watch.stop_request(name)
            if request is not None and name not in self._stop_requests:
                self._stop_requests[name] = request
                self._say(LogLine(f"{name}: {request.by} asked it to stop: finishing the current batch", pipeline=name))
                worker.drain()

    def _run_worker(self, worker: PipelineWorker, spark: SparkSession) -> None:
        """One pipeline to its end. One that was asked to stop is committed and leaves its group while others go on."""
        with naming_file(worker.plan):
            worker.run(spark)
        if worker.plan.pipeline in self._stop_requests and len(self._workers) > 1:
            key = (worker.plan.read.connection, worker.plan.announce.control_topic)
            name = worker.plan.pipeline
            try:
                request_commit(self._kafka(key[0]), key[1], COMMIT_DEADLINE_S, self._coordinators[key], name)
                worker.run_status.report_state(Health.STOPPED, self._why_ended(worker))
                self._lineage.ended(worker, RunEnd.COMPLETE)
            except (TableBlocked, DeadlinePassed) as error:
                # Reported to who asked; the other pipelines go on, and the end of the job asks again.
                self._report_uncommitted(worker, error)
            self._ended.add(name)
            worker.close()

    def _start_coordinators(self, plans: Sequence[Plan], catalog: IcebergTables) -> None:
        for plan in plans:
            key = (plan.read.connection, plan.announce.control_topic)
            if key not in self._coordinators:
                coordinator = Coordinator(
                    self._kafka(plan.read.connection),
                    plan.commit.coordinator_group,
                    plan.announce.control_topic,
                    catalog,
                    lambda text: self._say(under("coordinator", text)),
                    self._target.monitoring.stalled_after_ms,
                    self._target.maintenance,
                    self._lineage.of(plan.read.connection, catalog),
                    self._target.log_archive,
                )
                coordinator.start()
                self._coordinators[key] = coordinator

    def _watched(self, catalog: IcebergTables, catalogs: Iterable[str]) -> Monitor:
        connections = Connections(
            self._target,
            tuple(self._kafka(connection) for connection, _ in self._coordinators),
            tuple(topic for _, topic in self._coordinators),
            catalog,
            tuple(catalogs),
        )
        return Monitor(connections, self._workers, tuple(self._coordinators.values()), self._say, self._lineage.dropped)

    def _run_workers(self) -> None:
        failpoint("before-query")
        self._say("starting Spark")
        spark = self._spark.result()
        if spark.sparkContext.master.startswith("local"):  # a cluster's executors have an environment of their own
            self._say(f"records are fetched by {fetch_described()}")
        failpoint("spark-begun")
        try:
            with ThreadPoolExecutor(len(self._workers)) as pool:
                runs = [pool.submit(self._run_worker, worker, spark) for worker in self._workers]
                while not all(run.done() for run in runs):
                    time.sleep(0.05)
                    self._heed_stop_requests()
                    failed = any(run.done() and run.exception() for run in runs)
                    if failed or self._signal or self._coordinator_error():
                        for worker in self._workers:
                            worker.drain()
                # A coordinator that ended is why the workers were drained: what they met meanwhile is not the reason.
                error = self._coordinator_error() or next((run.exception() for run in runs if run.exception()), None)
            if error is not None:
                raise error
        finally:
            self._spark.stop()

    def _coordinator_error(self) -> FloeError | None:
        return next((c.error for c in self._coordinators.values() if c.error), None)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signal is not None:
            sys.exit(
                128 + number
            )  # asked twice: leave now; what is announced will be committed by the next coordinator
        self._signal = number
        self._say("draining: finishing the current batch and committing what is announced")

    def _commit_announced(self, plans: Sequence[Plan]) -> None:
        done: set[tuple[str, str]] = set()
        for plan in plans:
            key = (plan.read.connection, plan.announce.control_topic)
            if key not in done:
                done.add(key)
                request_commit(self._kafka(key[0]), key[1], COMMIT_DEADLINE_S, self._coordinators[key])


def reported(pipeline: LoadedPipeline, deployment: str) -> Deployed:
    """What a run publishes of itself; the worker adds its run and the time."""
    value = canonical(pipeline)
    return Deployed(pipeline.spec.name, "", hash_of([value]), value, __version__, 0, deployment, pipeline.file)


def open_catalog(target: TargetSpec, needed: Iterable[str]) -> IcebergTables:
    """The tables of a target's catalogs. Those that are needed are checked; the others are opened if they are asked
    for.

    Args:
        needed: none where an outage is to be shown, or to hold up a catalog's own tables, rather than to stop us.

    Raises:
        SetupError: one that is needed cannot be reached, or the target does not name it.
    """
    tables = IcebergTables.over(
        {
            name: IcebergCatalog(None, name, partial(resolve, settings), target.allow_locations)
            for name, settings in target.catalogs.items()
        }
    )
    tables.check(needed)
    return tables


def request_commit(
    kafka: dict[str, str], control_topic: str, deadline_s: float, local: Coordinator | None, pipeline: str = ""
) -> CommitComplete:
    """Ask whichever coordinator is alive to commit everything that a pipeline (or all, "") announced by now, and wait.

    Raises:
        TableBlocked: some table could not be committed; its announcements wait.
        DeadlinePassed, FloeError: as `ask_commit`.
    """
    event = ask_commit(kafka, control_topic, deadline_s, local)
    if event.blocked:
        table, reason = next(iter(sorted(event.blocked.items())))
        blocked = counted(len(event.blocked) + event.more_blocked, "table is", "tables are")
        raise TableBlocked(
            f"{blocked} blocked; the first is {table}: {reason}",
            place=table,
            remedy="`floe status` shows all of them; what was announced for them waits and is not lost",
        )
    return event


def ask_commit(
    kafka: dict[str, str], control_topic: str, deadline_s: float, local: Coordinator | None, pipeline: str = ""
) -> CommitComplete:
    """Ask for a commit of what a pipeline (or, without a name, anyone) announced by now, and wait for the answer, which
    names the tables that are blocked.

    Raises:
        DeadlinePassed: no coordinator answered in time.
        FloeError: our own coordinator stopped with an error.
    """
    request = CommitRequested(uuid.uuid4().hex, pipeline, int((time.time() + deadline_s) * 1000))
    reader = ControlReader(kafka, control_topic)
    publisher = ControlPublisher(kafka, control_topic)
    try:
        reader.seek(reader.end_offset())
        publisher.publish((request,))
        limit = time.monotonic() + deadline_s
        while time.monotonic() < limit:
            if local is not None and local.error is not None:
                raise local.error
            for _, event in reader.poll(0.2):
                if isinstance(event, CommitComplete) and event.request_id == request.request_id:
                    return event
    finally:
        reader.close()
        publisher.close()
    raise DeadlinePassed(
        f"no coordinator committed within {deadline_s:.0f} s",
        place=control_topic,
        remedy="what is announced is not lost: start `floe coordinator`, or run again; `floe status` shows what waits",
    )
