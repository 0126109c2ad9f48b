"""What a run measures of itself: its phases, its batches, and how far it is behind.

In: what the threads of a run meet, as it happens: a phase, a look at the source, a batch that was announced or failed.
Out: values that whoever looks may take at any time. Costs a few microseconds a batch, and nothing a record.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping

from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.errors import FloeError
from framework.metrics.definitions import BATCH_BOUNDS_S
from framework.metrics.figures import Histogram, RunPhase, Service
from framework.metrics.lag import EndsSeen
from framework.metrics.progress import Progress
from framework.metrics.services import service_of
from framework.runtime.batches.handover import AnnouncedBatch


def steady_ms() -> int:
    """A clock that nobody sets: only differences mean something."""
    return int(time.monotonic() * 1000)


class RunMeasures:
    """Of one run. Every method may be called by any thread. `job_group`: under which Spark runs the present batch."""

    def __init__(self) -> None:
        self.job_group = ""
        self.ends = EndsSeen()
        self.durations = Histogram(BATCH_BOUNDS_S)
        self.announced_batches = 0
        self.failed_batches = 0
        self.failed_in_a_row = 0
        self.store_up: bool | None = None  # whether the store took files when it was last needed
        self.registry_up: bool | None = None  # whether batches go on since the registry failed one
        self.letters: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[str] = Counter()
        self.retries: Counter[Service] = Counter()
        self.newest_ms: dict[PartitionKey, int] = {}  # of records, by partition
        now_ms = steady_ms()
        self.announced_ms = now_ms  # when the newest batch of records was, or since when this run waits for one
        self.progress = Progress(RunPhase.STARTING, now_ms, now_ms)
        self._reported_s: Mapping[RunPhase, float] = {}
        self._lock = threading.Lock()

    def enter(self, phase: RunPhase, batch: int | None = None) -> None:
        """A phase begins; one that goes on has got on."""
        with self._lock:
            if self.progress.phase is phase and batch is None:
                self.progress = self.progress.got_on(steady_ms())
            else:
                self.progress = self.progress.enter(phase, steady_ms(), batch)

    def got_on(self) -> None:
        with self._lock:
            self.progress = self.progress.got_on(steady_ms())

    def phases_ms(self) -> dict[str, int]:
        """By phase how long, since it was asked for this the last time."""
        with self._lock:
            spent, before = self.progress.seconds_at(steady_ms()), self._reported_s
            self._reported_s = spent
        found = {phase.value: int((spent[phase] - before.get(phase, 0.0)) * 1000) for phase in spent}
        return {phase: ms for phase, ms in found.items() if ms > 0}

    def look(self, facts: Mapping[PartitionKey, PartitionFacts], positions: Mapping[PartitionKey, int]) -> None:
        """The source was looked at."""
        with self._lock:
            self.ends = self.ends.look(facts, positions, int(time.time() * 1000))

    def announced(self, batch: AnnouncedBatch) -> None:
        result = batch.result
        with self._lock:
            self.announced_batches += 1
            self.announced_ms = steady_ms()
            self.failed_in_a_row = 0
            self.store_up = True
            self.registry_up = True if self.registry_up is not None else None
            self.durations = self.durations.with_one(batch.seconds)
            self.letters += result.letters
            self.dropped += result.dropped_for
            self.dropped["rule"] += result.accounting.dropped - result.dropped_for.total()
            newest = {
                (r.topic, r.partition): r.max_timestamp_ms for r in result.ranges if r.max_timestamp_ms is not None
            }
            self.newest_ms = {**self.newest_ms, **newest}

    def failed(self, error: FloeError) -> None:
        """A batch failed, and is tried again or not."""
        with self._lock:
            self.failed_batches += 1
            self.failed_in_a_row += 1
            service = service_of(error)
            self.retries[service] += 1
            if service is Service.STORE:
                self.store_up = False
            if service is Service.REGISTRY:
                self.registry_up = False
