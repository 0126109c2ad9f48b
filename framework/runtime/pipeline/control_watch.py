"""Follows the control topic for the pipelines of one driver: pauses, requests to stop, what waits for their tables.

In: the control topic, read in a thread of its own from where a coordinator would begin. Out: answers to the workers'
questions. It commits nothing, and an outage of the broker is waited out: the workers meet it themselves. Its thread
ends with `close` alone: whatever else happens in it is said, and it goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.leadership import Mark, mark_of
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.events.event_types import ControlEvent, PauseChanged, StopRequested
from framework.commit.watch import Newest, PipelineBacklog, Watch
from framework.errors import FloeError
from framework.task.failures import in_words, say_safely

log = logging.getLogger(__name__)

POLL_S = 0.5
AGAIN_AFTER_S = 5.0
LOW_WATER_EVERY_S = 5.0
TAIL = 2_000


class ControlWatch:
    """`since_offset` is the log's end when the run began: what was asked of earlier runs is not meant for this one."""

    def __init__(self, kafka: dict[str, str], control_topic: str, group: str, say: Callable[[str], None]) -> None:
        self._watch = Watch()
        self._lock = threading.Lock()
        self.since_offset = 0
        self._kafka = kafka
        self._control_topic = control_topic
        self._group = group
        self._say = say
        self._admin = KafkaAdmin(kafka)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="control-watch", daemon=True)
        self._reader: ControlReader | None = None
        self._asked_at = 0.0
        self._topic_id = ""

    def start(self) -> None:
        """Reads what is there, so that a pause holds from the first moment on, then goes on in the background.

        Raises:
            FloeError: the control topic cannot be read.
        """
        facts = check_control_topic(self._admin, self._control_topic)
        self._topic_id = facts.topic_id
        stored = self._stored_low_water()
        begin = facts.log_start if stored is None else max(facts.log_start, stored[1])
        self._reader = ControlReader(self._kafka, self._control_topic)
        self.since_offset = self._reader.end_offset()
        # A little further back than need be: what was announced last for each table shows one that was put back.
        self._reader.seek(max(facts.log_start, min(begin, self.since_offset - TAIL)))
        for offset, event in self._reader.read_until(self.since_offset):
            self._watch.observe(offset, event)
        if stored is not None:
            self._watch.everything_is_in(stored[0])
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._reader is not None:
            self._reader.close()

    def ask_for_low_water(self) -> None:
        """Read the stored low-water mark, now and then: a coordinator that died may have committed without a word."""
        if time.monotonic() < self._asked_at + LOW_WATER_EVERY_S:
            return
        self._asked_at = time.monotonic()
        stored = self._stored_low_water()
        if stored is not None:
            with self._lock:
                self._watch.everything_is_in(stored[0])

    def reading_pause(self, pipeline: str) -> PauseChanged | None:
        with self._lock:
            return self._watch.reading_pause(pipeline)

    def waiting(self, pipeline: str) -> PipelineBacklog:
        with self._lock:
            return self._watch.waiting(pipeline)

    def valid_through_ms(self, pipeline: str) -> int | None:
        """See `Watch.valid_through_ms`."""
        with self._lock:
            return self._watch.valid_through_ms(pipeline)

    def has_seen(self, pipeline: str, batch: int) -> bool:
        """See `Watch.has_seen`."""
        with self._lock:
            return self._watch.has_seen(pipeline, batch)

    def newest(self, pipeline: str) -> Mapping[str, Newest]:
        """See `Watch.newest`."""
        with self._lock:
            return self._watch.newest(pipeline)

    def stop_request(self, pipeline: str) -> StopRequested | None:
        """A request to stop that is meant for this run and whose deadline has not passed."""
        with self._lock:
            return self._watch.stop_request(pipeline, self.since_offset, int(time.time() * 1000))

    def _stored_low_water(self) -> tuple[int, int] | None:
        """The stored low-water mark of this very topic (invariant 11), and where a coordinator would begin to read."""
        key = (self._control_topic, 0)
        stored = self._admin.group_offsets(self._group, [key]).get(key)
        mark = mark_of(stored.metadata) if stored is not None else Mark()
        if stored is None or mark.topic_id != self._topic_id:
            return None
        return stored.offset, stored.offset if mark.chain_from is None else min(stored.offset, mark.chain_from)

    def _follow(self) -> None:
        assert self._reader is not None
        reported = False
        while not self._closing.is_set():
            try:
                for offset, event in self._reader.poll(POLL_S):
                    self._observe(offset, event)
                reported = False
            except Exception as error:  # whatever it is: without this thread nobody hears a pause, or a request to stop
                if not reported:
                    if not isinstance(error, FloeError):
                        log.exception("the control topic could not be followed")
                    say_safely(self._say, f"control topic: {in_words(error)}; asking again")
                reported = True
                self._closing.wait(AGAIN_AFTER_S)

    def _observe(self, offset: int, event: ControlEvent | None) -> None:
        try:
            with self._lock:
                self._watch.observe(offset, event)
        except Exception as error:  # whatever it is: one event that is not understood must not hide those behind it
            log.exception("an event of the control topic is ignored")
            say_safely(self._say, f"control topic: the event at offset {offset} is ignored: {in_words(error)}")
