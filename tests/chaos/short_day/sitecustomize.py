"""Lets a day of maintenance last FLOE_CHAOS_DAY_S seconds, and the clock be FLOE_CHAOS_CLOCK_S ahead, in every Python
process that has this folder in PYTHONPATH.

The clock is that of Python's `time`: under libfaketime librdkafka hangs, since it waits on conditions by the time of day.

In: the environment. Out: the ages of orphans, of files that are looked for before a commit and of rounds, all shorter by
one factor. Only what people would wait days for is changed; decisions are floe's own.
"""

from __future__ import annotations

import os
import time

if shift_s := int(os.environ.get("FLOE_CHAOS_CLOCK_S") or 0):
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + shift_s
    time.time_ns = lambda: real_ns() + shift_s * 10**9

if day_s := float(os.environ.get("FLOE_CHAOS_DAY_S") or 0):
    from framework.config.values import maintenance

    maintenance.HOUR_MS = int(day_s * 1000 / 6)
    maintenance.ORPHAN_SAFETY_AGE_MS = int(day_s * 1000)

    from framework.commit import file_ages
    from framework.commit.maintenance import rounds

    file_ages.CLOCKS_APART_MS = 1_000
    rounds.COMMITS_BETWEEN, rounds.LEAST_MS, rounds.AFTER_FAILURE_MS = 5, 8_000, 15_000
    rounds.are_orphans_due = lambda table, limits, since_ms, now_ms: abs(now_ms - since_ms) > day_s * 1000 / 2
