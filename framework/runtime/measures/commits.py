"""Measures a coordinator's requests to catalogs: results of commits, their duration, and requests under way.

In: the begin and the end of each request, from the threads of a pool. Out: values that any thread may read at any time.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from framework.commit.machine.effects import CommitTable, Committed, Input, LoadFailed
from framework.metrics.definitions import COMMIT_BOUNDS_S
from framework.metrics.figures import Histogram, Service
from framework.metrics.services import outcome_of, service_of_commit
from framework.runtime.batches.measures import steady_ms

# A turn that publishes waits for the broker this long.
HANGS_AFTER_MS = 45_000


class CommitMeasures:
    """The measurements of one coordinator. Any thread may call any method."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.retries: Counter[Service] = Counter()
        self.durations: dict[str, Histogram] = {}
        self.store_up: bool | None = None  # whether the store took files when a commit last needed it
        self.takeovers = 0
        self.owns: bool | None = None
        self.owner_since_ms: int | None = None
        self._turned_ms = steady_ms()
        self._under_way: dict[int, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def turned(self) -> None:
        """Note that the coordinator's loop completed a turn."""
        self._turned_ms = steady_ms()

    @property
    def hangs(self) -> bool:
        """Whether the loop has not completed a turn for so long that its state is stale. Another process may lead by now."""
        return steady_ms() - self._turned_ms > HANGS_AFTER_MS

    def assigned(self, owns: bool) -> None:
        """Note that this process has taken coordinator leadership, or lost it."""
        with self._lock:
            self.takeovers += owns
            self.owns = owns
            self.owner_since_ms = int(time.time() * 1000) if owns else None

    def tried_again(self, service: Service) -> None:
        with self._lock:
            self.retries[service] += 1

    def begin(self, catalog: str, request: object) -> None:
        with self._lock:
            self._under_way[id(request)] = (catalog, steady_ms())

    def end(self, catalog: str, request: object, effect: object, answer: Input) -> None:
        """Note the end of a request. `effect` is the request, `answer` its result."""
        with self._lock:
            _, began_ms = self._under_way.pop(id(request))
            if isinstance(answer, LoadFailed):
                self.retries[Service.CATALOG] += 1
            if not isinstance(effect, CommitTable):
                return
            self.outcomes[catalog, outcome_of(answer)] += 1
            before = self.durations.get(catalog, Histogram(COMMIT_BOUNDS_S))
            self.durations = {**self.durations, catalog: before.with_one((steady_ms() - began_ms) / 1000)}
            service = service_of_commit(answer)
            if service is not None:
                self.retries[service] += 1
            if service is Service.STORE or isinstance(answer, Committed):
                self.store_up = service is not Service.STORE

    def oldest_ms(self) -> dict[str, int]:
        """By catalog for how long the oldest request has been under way."""
        with self._lock:
            oldest: dict[str, int] = {}
            for catalog, began_ms in self._under_way.values():
                oldest[catalog] = max(oldest.get(catalog, 0), steady_ms() - began_ms)
            return oldest
