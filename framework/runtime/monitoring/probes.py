"""Asks services now and then whether they answer, each in a thread of its own: one that hangs holds up no other.

In: what to ask, and how often. Out: whether it answered last time, and when. Decides nothing, and ends with the process
at the latest.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class Probe:
    """`ask` raises where nobody answers. A question that takes longer than `every_s` counts as not answered.

    `is_up` None: it was not asked yet.
    """

    def __init__(self, name: str, ask: Callable[[], object], every_s: float) -> None:
        self._name = name
        self._ask = ask
        self._every_s = every_s
        self._up: bool | None = None
        self._asked_at: float | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"probe-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_up(self) -> bool | None:
        asked_at = self._asked_at
        if asked_at is not None and time.monotonic() - asked_at > self._every_s:
            return False
        return self._up

    def close(self) -> None:
        """Ask no more; a question that hangs is not waited for."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._asked_at = time.monotonic()
            try:
                self._ask()
                self._up = True
            except Exception as error:  # whatever it is: that it does not answer is the result
                log.info("%s does not answer: %s", self._name, error)
                self._up = False
            self._asked_at = None
            self._closing.wait(self._every_s)
