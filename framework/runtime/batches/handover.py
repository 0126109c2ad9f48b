"""Where the pacing thread and Spark's callback thread meet: one batch is offered, and comes back announced or as a
failure.

In: an OfferedBatch from the pacing thread. Out: an AnnouncedBatch from the callback thread, or the error that ended it.
Both are values that nobody changes; a batch belongs to the thread that has it, so each other part of a run has one
owner.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from framework.commit.events.event_types import Accounting
from framework.runtime.batches.batch import BatchResult, BatchScope


@dataclass(frozen=True)
class OfferedBatch:
    """A batch to do. `offer_file` is where Spark's planner reads how far it goes; `totals` are those before it.

    `tables_refreshed` is done once the tables were looked at again for this batch, or has the error of it.
    """

    scope: BatchScope
    offer_file: Path
    totals: Accounting
    tables_refreshed: Future[None] = field(default_factory=Future)


@dataclass(frozen=True)
class AnnouncedBatch:
    """A batch that is announced: where the control log ended behind it, how often a part was written again for changed
    tables, and how long all of it took."""

    scope: BatchScope
    result: BatchResult
    control_offset: int
    rewrites: int = 0
    seconds: float = 0.0


class BatchHandover:
    """Holds at most one batch. `offered`, `announced` and `failed` are for the callback thread, the rest for the pacing
    one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._came_back = threading.Event()
        self._offered: OfferedBatch | None = None
        self._announced: AnnouncedBatch | None = None
        self._failure: BaseException | None = None

    def offer(self, batch: OfferedBatch) -> None:
        with self._lock:
            self._offered, self._announced = batch, None
            self._came_back.clear()

    def has_come_back(self) -> bool:
        """Whether the callback thread is done with the batch, one way or the other."""
        return self._came_back.is_set()

    def wait(self, timeout_s: float) -> AnnouncedBatch | None:
        """The announced batch, once; None when it has not come back within the time, or has failed."""
        self._came_back.wait(timeout_s)
        with self._lock:
            announced, self._announced = self._announced, None
            return announced

    def take_failure(self) -> BaseException | None:
        """What ended the callback, once."""
        with self._lock:
            failure, self._failure = self._failure, None
            return failure

    def withdraw(self) -> AnnouncedBatch | None:
        """No batch is on offer any more, and no failure is left; what was announced and not taken yet is returned."""
        with self._lock:
            announced = self._announced
            self._offered = self._announced = self._failure = None
            self._came_back.clear()
            return announced

    def offered(self) -> OfferedBatch | None:
        """The batch to do; None when it was done already, whatever micro-batch Spark makes of the same offsets."""
        with self._lock:
            return self._offered

    def announced(self, batch: AnnouncedBatch) -> None:
        with self._lock:
            self._offered, self._announced = None, batch
            self._came_back.set()

    def failed(self, error: BaseException) -> None:
        with self._lock:
            self._failure = error
            self._came_back.set()
