"""How fast this machine is now: bounds of time are for one of usual pace, and a slower one may take as much longer."""

from __future__ import annotations

import time

PACE_S = 0.1  # what two million squares take on a machine of usual pace


def pace() -> float:
    """How many times as long as there everything takes on this machine, now: at least once, for what is faster at squares is
    not so at reading modules, and no promise of half a second is for a quarter."""
    begun = time.process_time()
    assert sum(n * n for n in range(2_000_000)) > 0
    return max(1.0, (time.process_time() - begun) / PACE_S)
