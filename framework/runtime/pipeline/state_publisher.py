"""Publishes to the control topic in which state this driver's pipelines are, and which tables they change. Information: a
word that cannot be said is dropped.

In: states as the workers find them, as often as they like. Out: `StateChanged` events, when a state changes and, with
another reason, at most once a minute, and each `TableChanged`; published in a thread of its own, so that no worker waits
for a broker that is down.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from framework.adapters.kafka.control.log import ControlPublisher
from framework.commit.events.event_types import Health, StateChanged, Subject, TableChanged
from framework.commit.machine.reporting.health import STALLED_BATCH
from framework.task.failures import in_words, say_safely

ANOTHER_STATE_MS = 5_000
SAME_STATE_MS = 60_000
PUBLISH_TIMEOUT_S = 10.0
# What ends a run is always reported, and the state that it begins with.
_LAST = (Health.STOPPED, Health.FAILED)


class StatePublisher:
    """One per control topic and driver."""

    def __init__(self, kafka: dict[str, str], control_topic: str, say: Callable[[str], None]) -> None:
        self._kafka = kafka
        self._control_topic = control_topic
        self._say = say
        self._reported: dict[str, StateChanged] = {}
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[StateChanged | TableChanged | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._publish, name="states", daemon=True)
        self._thread.start()

    def report_state(
        self,
        pipeline: str,
        run: str,
        state: Health,
        reason: str = "",
        remedy: str = "",
        code: str = "",
        failures: int = 0,
        since_ms: int | None = None,
    ) -> None:
        """Say it, unless it was said already or something was said a moment ago.

        Args:
            since_ms: when the state began; None: now, unless it goes on.
        """
        with self._lock:  # the run's own thread, and the one that looks whether it gets on
            now_ms = int(time.time() * 1000)
            reported = self._reported.get(pipeline)
            same = reported is not None and reported.state is state
            if reported is not None and STALLED_BATCH in (reported.code, code):
                # A stall is reported as DEGRADED with a code of its own; that it begins, ends, or is elsewhere now is news.
                same = (reported.code, reported.reason) == (code, reason)
            if reported is not None and state not in _LAST:
                if same and reported.reason == reason:
                    return
                if now_ms - reported.timestamp_ms < (SAME_STATE_MS if same else ANOTHER_STATE_MS):
                    return
            if since_ms is None:
                since_ms = reported.since_ms if reported is not None and same else now_ms
            event = StateChanged(
                Subject.PIPELINE, pipeline, state, reason, remedy, code, failures, since_ms, now_ms, run
            )
            self._reported[pipeline] = event
            self._queue.put(event)

    def report_change(self, change: TableChanged) -> None:
        """Say that a table is made or changed."""
        self._queue.put(change)

    def close(self) -> None:
        """Says what is still to be said, for as long as a publication may take."""
        self._queue.put(None)
        self._thread.join(PUBLISH_TIMEOUT_S + 1)

    def _publish(self) -> None:
        publisher: ControlPublisher | None = None
        while (event := self._queue.get()) is not None:
            try:
                publisher = publisher or ControlPublisher(self._kafka, self._control_topic, PUBLISH_TIMEOUT_S)
                publisher.publish((event,))
            except Exception as error:  # whatever it is: the reports that follow are sent all the same
                said = (
                    f"the state {event.state.value} of {event.name}"
                    if isinstance(event, StateChanged)
                    else f"a change of {event.table}"
                )
                say_safely(self._say, f"{said} could not be announced: {in_words(error)}")
                publisher = None  # a producer that has failed for good says so again; the next word gets a new one
        if publisher is not None:
            publisher.close()
