"""How long something took, including time in which this machine or its virtual machine was suspended.

In: nothing. Out: seconds since the watch was started, by the machine's clock that shows the most: the monotonic clock
stops while a machine is suspended, the boot clock while a virtual machine is, and the wall clock goes on through both.
A broker's timeouts go on through both too.
"""

from __future__ import annotations

import time


class Stopwatch:
    """Started when it is made."""

    def __init__(self) -> None:
        self._begun = _clocks()

    def elapsed_s(self) -> float:
        return max(now - begun for now, begun in zip(_clocks(), self._begun, strict=True))


def _clocks() -> tuple[float, float, float]:
    boot = getattr(time, "CLOCK_BOOTTIME", None)  # Linux alone has it
    return time.monotonic(), time.time(), time.clock_gettime(boot) if boot is not None else 0.0
