"""Watches what runs in this process: says when a run stands still, and gives metrics and health to whoever asks.

In: the runs and coordinators of a process, and what the target says of monitoring. Out: `StateChanged` for a run that
stalls; a page of metrics and of health, files, pushes. Its threads only look: nothing that is decided or committed
waits for them, and what fails in them is said once and ends nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from framework import __version__
from framework.adapters.host.process_memory import java_pid, resident_bytes
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.secrets import resolve
from framework.adapters.store.counts import made, of_tasks
from framework.commit.machine.model import PipelineState
from framework.commit.objectives.fresh_time import FreshTime
from framework.config.rules.target.monitoring import host_and_port
from framework.config.spec import TargetSpec
from framework.metrics.figures import Figures, PipelineFigures, RunPhase, Service
from framework.metrics.progress import stalled_condition
from framework.metrics.samples import MetricSample, samples
from framework.observe.live.reader import LiveTarget
from framework.runtime.batches.measures import steady_ms
from framework.runtime.coordinator.thread import Coordinator
from framework.runtime.measures.figures import RunFacts, coordinator_figures, pipeline_figures
from framework.runtime.monitoring.page import Page
from framework.runtime.monitoring.probes import Probe
from framework.runtime.pipeline.worker import PipelineWorker
from framework.runtime.source import PipelineSource
from framework.runtime.spark.progress import SparkProgress
from framework.task.failures import in_words, say_safely

log = logging.getLogger(__name__)

WATCH_EVERY_S = 1.0
PROBE_EVERY_S = 10.0
DELIVER_EVERY_S = 15.0
# The run itself looks at its source more often than that, unless a batch is under way.
LOOK_AGAIN_MS = 5_000
FAILS_READINESS = 2


@dataclass(frozen=True)
class Connections:
    """What a process is connected to. `kafka` and `control_topics` belong together, entry by entry."""

    target: TargetSpec
    kafka: tuple[Mapping[str, str], ...]
    control_topics: tuple[str, ...]
    catalog: IcebergTables
    catalogs: tuple[str, ...]


class Monitor:
    """Of one process. `start` after the runs were prepared; `close` at the end of the process, with the last figures.

    `workers` and `coordinators` may grow until `start`.
    """

    def __init__(
        self,
        connections: Connections,
        workers: Sequence[PipelineWorker],
        coordinators: Sequence[Coordinator],
        say: Callable[[str], None],
        lineage_dropped: Callable[[], int] = int,
    ) -> None:
        self._lineage_dropped = lineage_dropped
        self._connections = connections
        self._spec = connections.target.monitoring
        self._workers = workers
        self._coordinators = coordinators
        self._say = say
        self._closing = threading.Event()
        self._deliveries: dict[str, bool] = {}  # by way, whether the last one failed
        self._spark = SparkProgress()
        self._threads: list[threading.Thread] = []
        self._probes: dict[Service, Probe] = {}
        self._server_close: Callable[[], None] = lambda: None
        self._pages: list[Page] = []
        self._fresh: dict[str, FreshTime] = {}  # by pipeline with an objective of freshness

    def start(self) -> None:
        """Begin to watch; serve and deliver what the target says.

        Raises:
            SetupError: FLOE-E034 or FLOE-E036, an address cannot be listened at. FLOE-E002, there is no token. FLOE-E411,
                what serves the page is not installed.
        """
        if self._workers:
            promised = {x.plan.pipeline: x.plan.announce.objectives.freshness_ms for x in self._workers}
            self._fresh = {name: FreshTime(age_ms) for name, age_ms in promised.items() if age_ms is not None}
            self._begin("stall-watch", self._watch)
            self._spark.start(lambda: [worker.measures for worker in self._workers], self._spec.stalled_after_ms)
        if self._spec.page:
            self._serve_pages()
        if not (self._spec.listen or self._spec.textfile or self._spec.pushgateway):
            return
        looked = [PipelineSource(worker.plan, worker.source.settings) for worker in self._workers]
        self._probes = {
            Service.BROKER: Probe("broker", lambda: self._ask_broker(looked), PROBE_EVERY_S),
            Service.CATALOG: Probe("catalog", self._ask_catalog, PROBE_EVERY_S),
        }
        for probe in self._probes.values():
            probe.start()
        if self._spec.listen:
            self._serve()
        if self._spec.textfile or self._spec.pushgateway:
            self._begin("metrics-delivery", self._deliver_often)

    def close(self) -> None:
        """End all of it. What is delivered rather than scraped is delivered once more."""
        self._closing.set()
        self._spark.close()
        for thread in self._threads:
            thread.join(PROBE_EVERY_S)
        for probe in self._probes.values():
            probe.close()
        if self._probes:
            self._deliver()
        self._server_close()
        for page in self._pages:
            page.close()

    # ---- what it shows -------------------------------------------------------------------------------------------

    def samples(self) -> tuple[MetricSample, ...]:
        """The metrics of this moment."""
        return samples(self.figures(), self._spec.max_tables)

    def figures(self) -> Figures:
        now_ms, steady = int(time.time() * 1000), steady_ms()
        chains: dict[str, PipelineState] = {}
        for coordinator in self._coordinators:
            chains.update(coordinator.state.pipelines)
        retries: Counter[Service] = Counter()
        for found in (*(x.measures.retries for x in self._workers), *(x.measures.retries for x in self._coordinators)):
            retries.update(found)
        memory = {"python": resident_bytes(os.getpid())}
        if (pid := java_pid()) is not None:
            memory["java"] = resident_bytes(pid)
        return Figures(
            at_ms=now_ms,
            target=self._connections.target.name,
            version=__version__,
            pipelines=tuple(self._of(worker, chains, now_ms, steady) for worker in self._workers),
            coordinators=tuple(
                coordinator_figures(
                    each.control_topic, each.state, each.measures, now_ms, each.measured, each.takeovers_ms
                )
                for each in self._coordinators
            ),
            memory_bytes={process: found for process, found in memory.items() if found is not None},
            services={
                **{service: up for service, probe in self._probes.items() if (up := probe.is_up) is not None},
                **self._used(),
            },
            retries=dict(retries),
            lineage_dropped=self._lineage_dropped(),
            requests=made(),
        )

    def _used(self) -> dict[Service, bool]:
        """Whether stores and registries gave what they were last needed for; nothing where that is not known yet. A question
        of our own to a store would be a file in somebody's table."""
        stores = [*(x.measures.store_up for x in self._workers), *(x.measures.store_up for x in self._coordinators)]
        found = {Service.STORE: stores, Service.REGISTRY: [x.measures.registry_up for x in self._workers]}
        known = {service: [is_up for is_up in each if is_up is not None] for service, each in found.items()}
        return {service: all(each) for service, each in known.items() if each}

    def checks(self) -> dict[str, bool]:
        """What must be true for the process to be ready."""
        now = steady_ms()
        checks = {service.value: bool(probe.is_up) for service, probe in self._probes.items()}
        checks |= {service.value: is_up for service, is_up in self._used().items()}
        checks["coordinator"] = all(coordinator.knows_the_owner for coordinator in self._coordinators)
        for worker in self._workers:
            progress = worker.measures.progress
            is_well = progress.stall(now, self._spec.stalled_after_ms) is None
            name = worker.plan.pipeline
            checks[f"pipeline {name}"] = is_well and progress.phase not in (RunPhase.STARTING, RunPhase.ENDED)
            # One that failed once is tried again; one that fails again and again gets nothing written.
            checks[f"batch of {name}"] = is_well and worker.measures.failed_in_a_row < FAILS_READINESS
        return checks

    def _of(
        self, worker: PipelineWorker, chains: Mapping[str, PipelineState], now_ms: int, steady: int
    ) -> PipelineFigures:
        name = worker.plan.pipeline
        chain, stand = chains.get(name), worker.announcer.stand
        facts = RunFacts(
            name,
            worker.run_status.run,
            stand.positions,
            stand.totals,
            stand.batch,
            worker.run_status.reported,
            worker.run_status.reading_pause(),
            worker.run_status.waiting(),
            (chain.broken or "") if chain is not None else "",
            worker.plan.announce.silent_after_ms,
            worker.plan.owners,
            worker.plan.announce.objectives,
            self._fresh.get(name),
            of_tasks().get(name, {}),
        )
        return pipeline_figures(facts, worker.measures, now_ms, steady, self._spec.stalled_after_ms)

    # ---- its threads ---------------------------------------------------------------------------------------------

    def _begin(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _watch(self) -> None:
        while not self._closing.wait(WATCH_EVERY_S):
            now, wall_ms = steady_ms(), int(time.time() * 1000)
            for worker in self._workers:
                progress = worker.measures.progress
                stall = progress.stall(now, self._spec.stalled_after_ms)
                if stall is not None:
                    condition = stalled_condition(progress, stall, wall_ms - (now - stall.since_ms))
                    if worker.run_status.stalls(condition):
                        say_safely(self._say, f"{worker.plan.pipeline}: {condition.reason}")
                if (fresh := self._fresh.get(worker.plan.pipeline)) is not None:
                    all_read_ms = worker.measures.ends.all_read_ms(worker.announcer.stand.positions)
                    through_ms = worker.run_status.visible_through_ms(all_read_ms)
                    if through_ms is not None:
                        fresh.reach(wall_ms, through_ms)

    def _ask_broker(self, looked: Sequence[PipelineSource]) -> None:
        for settings, topic in zip(self._connections.kafka, self._connections.control_topics, strict=True):
            KafkaAdmin(settings).end_offsets([(topic, 0)])
        now_ms = int(time.time() * 1000)
        for worker, source in zip(self._workers, looked, strict=True):
            measures = worker.measures
            if measures.progress.phase is not RunPhase.ENDED and now_ms - measures.ends.looked_ms > LOOK_AGAIN_MS:
                measures.look(source.facts(), worker.announcer.stand.positions)

    def _ask_catalog(self) -> None:
        self._connections.catalog.check(self._connections.catalogs)

    # ---- where it shows it ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        from framework.adapters.telemetry.metrics_registry import registry_of_samples
        from framework.adapters.telemetry.metrics_server import MetricsServer

        parts = host_and_port(self._spec.listen)
        assert parts is not None, "the rules of a target refuse another form"
        token = self._token()
        server = MetricsServer(*parts, token, registry_of_samples(self.samples), self.checks, self._spec.names)
        self._server_close = server.close
        self._say(f"metrics and health at http://{server.address}/metrics, /healthz and /readyz")

    def _serve_pages(self) -> None:
        parts = host_and_port(self._spec.page)
        assert parts is not None, "the rules of a target refuse another form"
        target = self._connections.target
        for kafka, topic in zip(self._connections.kafka, self._connections.control_topics, strict=True):
            looked = LiveTarget(target.name, target.prefix, kafka, topic)
            self._pages.append(Page(looked, *parts, self._token(), self._spec.names))
            self._say(f"the page of {topic} is at http://{self._pages[-1].address}/")

    def _token(self) -> str:
        return resolve({"token": self._spec.token})["token"] if self._spec.token else ""

    def _deliver_often(self) -> None:
        while not self._closing.wait(DELIVER_EVERY_S):
            self._deliver()

    def _deliver(self) -> None:
        from framework.adapters.telemetry.metrics_delivery import push, write_textfile
        from framework.adapters.telemetry.metrics_registry import registry_of_samples

        registry, instance = registry_of_samples(self.samples), self._instance()
        for way, where, send in (
            ("textfile", self._spec.textfile, write_textfile),
            ("pushgateway", self._spec.pushgateway, push),
        ):
            if not where:
                continue
            try:
                send(where, instance, registry)
                self._deliveries[way] = False
            except Exception as error:  # metrics that do not arrive end no run
                log.info("metrics were not delivered by %s: %s", way, error)
                if not self._deliveries.get(way):
                    say_safely(self._say, f"metrics: the {way} does not take them: {in_words(error)}; going on without")
                self._deliveries[way] = True

    def _instance(self) -> str:
        """The same for each run of the same pipelines, so that one follows the other."""
        names = [worker.plan.pipeline for worker in self._workers] or ["coordinator"]
        name = names[0] if len(names) == 1 else hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:12]
        return f"{self._connections.target.name}-{name}"
