"""What a contender's processes cost together: CPU seconds over time, and the most memory at any moment.

In: the pids that were started. Out: samples of user and system time of them and all that they start, and the peak of
their proportional memory (shared pages are counted once). A process that ends between two samples counts up to the last
one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

# To look takes CPU of the machine that is measured: of all processes some milliseconds, of their memory tens of them.
INTERVAL_S = 0.5
MEMORY_EVERY = 3
_TICKS = os.sysconf("SC_CLK_TCK")


class Costs:
    """Watches process trees from `start` to `stop`; times are seconds since the epoch, as snapshots have them."""

    def __init__(self, *pids: int) -> None:
        self._known: dict[int, float] = {}
        self._roots = set(pids)
        self.samples: list[tuple[float, float]] = []
        self.peak_bytes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="costs", daemon=True)

    def start(self) -> Costs:
        self._thread.start()
        return self

    def stop(self) -> Costs:
        # The last look comes after the thread's own: two at once would note times and sums out of order.
        self._end.set()
        self._thread.join()
        self._sample(True)
        return self

    @property
    def cpu_s(self) -> float:
        """All CPU up to now."""
        return self.samples[-1][1] if self.samples else 0.0

    def cpu_at(self, moment: float) -> float:
        """CPU spent up to a moment, between samples on a straight line."""
        before = (self.samples[0][0], 0.0)
        for at, spent in self.samples:
            if at >= moment:
                share = (moment - before[0]) / max(at - before[0], 1e-9)
                return before[1] + (spent - before[1]) * min(max(share, 0.0), 1.0)
            before = (at, spent)
        return before[1]

    def _run(self) -> None:
        count = 0
        while not self._end.wait(INTERVAL_S):
            self._sample(count % MEMORY_EVERY == 0)
            count += 1

    def _sample(self, memory: bool) -> None:
        tree = self._tree()
        for pid, spent in tree.items():
            self._known[pid] = spent
        self.samples.append((time.time(), sum(self._known.values())))
        if memory:
            self.peak_bytes = max(self.peak_bytes, sum(map(_proportional_bytes, tree)))

    def _tree(self) -> dict[int, float]:
        """CPU seconds of the roots and everything below; a process once seen stays ours when its parent is gone."""
        parents: dict[int, int] = {}
        spent: dict[int, float] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError, IndexError):
                    fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                    parents[int(entry)] = int(fields[1])
                    spent[int(entry)] = (int(fields[11]) + int(fields[12])) / _TICKS
        ours = {pid for pid in spent if pid in self._roots or pid in self._known}
        while True:
            further = {pid for pid, parent in parents.items() if parent in ours} - ours
            if not further:
                return {pid: spent[pid] for pid in ours}
            ours |= further


def _proportional_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)
