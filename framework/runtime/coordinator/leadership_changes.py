"""How often who coordinates has changed lately, as the one that coordinates now knows it for its metrics.

In: the control log: the part before where a new coordinator begins to read, looked through once by a thread of its own,
and each event that it reads from there on. Out: when leadership was taken, by the rule that `floe status` and the page
follow, so that all report the same. What cannot be read counts as calm, and is read again later: nothing waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from framework.adapters.kafka.control.log import ControlReader
from framework.commit.events.codec import is_of_type
from framework.commit.events.event_types import (
    CommitComplete,
    ControlEvent,
    CoordinatorAssigned,
    CoordinatorReleased,
    StateChanged,
)
from framework.commit.risks import TAKEOVERS_KEPT, LeadershipClaim, LeadershipHistory, leadership_claim

log = logging.getLogger(__name__)

TAIL = 10_000  # as far back as `floe status` looks
PAUSES_S = (1.0, 10.0, 60.0, 60.0, 60.0)  # then what came before is too old to count
_LEADERSHIP_EVENTS = tuple(
    each.__name__ for each in (CoordinatorAssigned, CoordinatorReleased, CommitComplete, StateChanged)
)


def read_claims(kafka: dict[str, str], control_topic: str, first: int, below: int) -> list[LeadershipClaim]:
    """What the log says between two offsets of who coordinates."""
    reader = ControlReader(kafka, control_topic)
    try:
        reader.seek(max(first, reader.start_offset()))
        raw = (
            each for each in reader.raw_until(below) if any(is_of_type(each.value, kind) for kind in _LEADERSHIP_EVENTS)
        )
        return [claim for each in raw if (claim := leadership_claim(reader.decoded(each).event)) is not None]
    finally:
        reader.close()


class RecentLeadership:
    """Of one coordinator. `hear` and `begins` belong to its thread; anybody may look."""

    def __init__(
        self, read: Callable[[int, int], Sequence[LeadershipClaim]], pauses_s: Iterable[float] = PAUSES_S
    ) -> None:
        self._read = read
        self._pauses_s = tuple(pauses_s)
        self._history = LeadershipHistory()
        self._held: deque[LeadershipClaim] | None = None  # until what came before is known
        self._lock = threading.Lock()

    @property
    def takeovers_ms(self) -> tuple[int, ...]:
        with self._lock:
            history = self._history
            for claim in self._held or ():
                history = history.after(claim)
        return history.takeovers_ms

    def begins(self, log_start: int, begin: int, log_end: int) -> None:
        """It coordinates from now on, and reads on from `begin`."""
        first = max(log_start, min(begin, log_end - TAIL))
        held: deque[LeadershipClaim] = deque(maxlen=TAKEOVERS_KEPT)
        with self._lock:
            self._history, self._held = LeadershipHistory(), held
        if first >= begin:
            self._knows((), held)
            return
        threading.Thread(target=self._look, args=(first, begin, held), name="leadership-history", daemon=True).start()

    def hear(self, event: ControlEvent) -> None:
        claim = leadership_claim(event)
        if claim is None:
            return
        with self._lock:
            if self._held is None:
                self._history = self._history.after(claim)
            elif claim.begins or claim.ends or not self._held or self._held[-1].coordinator != claim.coordinator:
                self._held.append(claim)

    def _look(self, first: int, below: int, held: deque[LeadershipClaim]) -> None:
        words: Sequence[LeadershipClaim] = ()
        for pause_s in (*self._pauses_s, None):
            try:
                words = self._read(first, below)
                break
            except Exception as error:  # metrics lack it meanwhile; whoever looks at the log itself sees it
                log.info("who coordinated before is not known: %s", error)
            if pause_s is None or self._held is not held:
                break
            time.sleep(pause_s)
        self._knows(words, held)

    def _knows(self, words: Sequence[LeadershipClaim], held: deque[LeadershipClaim]) -> None:
        with self._lock:
            if self._held is not held:
                return  # it got leadership anew meanwhile
            for claim in (*words, *held):
                self._history = self._history.after(claim)
            self._held = None
