"""Which tables a driver looks at again, and whether a batch waits for that: others may have changed them since.

In: how long ago each was loaded, and the time since the batch before. Out: those to load before the batch, and those to
load while it runs. Keeps the promise of decision 0072: of up to 20 tables the next batch follows a change, of up to 150
one within half a minute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

REFRESH_AFTER_S = 30.0
REFRESHED_AT_ONCE = 20
REFRESHES_A_SECOND = 5.0
# Sooner than half a minute, so that a table's turn comes before a batch has to wait for it.
ROUND_S = 25.0
# Of more tables than may be loaded: so many tell whether the catalog answers.
PROBES = 4


@dataclass(frozen=True, slots=True)
class Refresh:
    """Places in the sequence that was asked about: `first` before the batch, `meanwhile` while it runs."""

    first: range
    meanwhile: range


def plan_refresh(ages_s: Sequence[float], since_batch_s: float) -> Refresh:
    """`ages_s`: seconds since each table was loaded, the oldest first; `since_batch_s`: since the last batch began."""
    count = len(ages_s)
    if count <= REFRESHED_AT_ONCE:
        return Refresh(range(count), range(0))
    due = sum(age >= REFRESH_AFTER_S for age in ages_s)
    # Without a bound a thousand tables, made within seconds, would all be loaded again before one batch.
    if due > max(REFRESHED_AT_ONCE, since_batch_s * REFRESHES_A_SECOND):
        due = PROBES
    most = math.ceil(since_batch_s * min(REFRESHES_A_SECOND, count / ROUND_S))
    return Refresh(range(due), range(due, min(count, max(due, most))))
