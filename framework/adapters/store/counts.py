"""The requests to object stores of this process, and those that tasks have reported to it.

In: requests, from any thread. Out: how many there were, by kind. A count never falls while the process lives, so that it
is a counter of the metrics; tasks take theirs, which the driver then adds up by pipeline.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from framework.metrics.store_requests import Requests, StoreRequest


class RequestCount:
    """Requests by kind, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: Counter[StoreRequest] = Counter()
        self._taken: Counter[StoreRequest] = Counter()

    def add(self, requests: Requests) -> None:
        with self._lock:
            self._made.update(requests)

    def made(self) -> dict[StoreRequest, int]:
        """All of them."""
        with self._lock:
            return dict(self._made)

    def take(self) -> dict[StoreRequest, int]:
        """Those since they were taken last."""
        with self._lock:
            new = self._made - self._taken
            self._taken = Counter(self._made)
            return dict(new)


_OWN = RequestCount()
_OF_TASKS: dict[str, RequestCount] = {}


def count(requests: Requests) -> None:
    """This process makes these."""
    _OWN.add(requests)


def made() -> dict[StoreRequest, int]:
    """All that this process has made."""
    return _OWN.made()


def taken() -> dict[StoreRequest, int]:
    """Those that were not taken yet: a task's own, and those of tasks before it in its process that failed."""
    return _OWN.take()


def reported(pipeline: str, requests: Requests) -> None:
    """A task of the pipeline has made these."""
    if requests:
        _OF_TASKS.setdefault(pipeline, RequestCount()).add(requests)


def of_tasks() -> Mapping[str, dict[StoreRequest, int]]:
    """By pipeline, what its tasks have reported to this process."""
    return {pipeline: each.made() for pipeline, each in _OF_TASKS.copy().items()}
