"""Those who look at a process of floe from outside: a scraper of its metrics and people with its page open.

In: the addresses that its log names. Out: how often each was answered, and how often not.
"""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

SCRAPE_EVERY_S = 15.0


def addresses(log: Path) -> tuple[str, str] | None:
    """Of the metrics and of the page, once the process serves them."""
    text = log.read_text(errors="replace")
    metrics = re.search(r"metrics and health at (http://\S+/metrics)", text)
    page = re.search(r"the page of \S+ is at (http://[^/]+)/", text)
    return (metrics[1], page[1]) if metrics and page else None


class Looks:
    """Each in a thread of its own, until the end."""

    def __init__(self, end: threading.Event) -> None:
        self._end = end
        self.scrapes = self.events = self.failures = 0

    def at(self, metrics: str, page: str, *places: str) -> None:
        """One scraper, and one who follows the first page and each of the places."""
        self._start(self._scrape, metrics)
        for place in ("/", *places):
            self._start(self._follow, f"{page}/events?at={place}")

    def _start(self, work: Callable[[str], None], address: str) -> None:
        threading.Thread(target=work, args=(address,), daemon=True).start()

    def _scrape(self, address: str) -> None:
        while not self._end.wait(SCRAPE_EVERY_S):
            try:
                with urllib.request.urlopen(address, timeout=10) as answer:
                    assert b"floe_" in answer.read()
                self.scrapes += 1
            except OSError:
                self.failures += 1

    def _follow(self, address: str) -> None:
        while not self._end.is_set():
            try:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    for line in answer:
                        self.events += line.startswith(b"event:")
                        if self._end.is_set():
                            return
            except OSError:
                self.failures += 1
                self._end.wait(1.0)
