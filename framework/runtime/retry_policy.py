"""What a running job does about an error: wait an outage out, try a few times, or give up.

In: an error, how often in a row it came and for how long. Out: whether to go on, and after which pause. An outage of
the broker, the catalog or the store is waited out without counting attempts: nothing is lost meanwhile, since the
source keeps the records and the control topic the announcements. Fenced, disagreeing or wrong is never tried again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from framework.errors import AccountingError, FloeError, OutcomeUnknown, RetriableError

BATCH_ATTEMPTS = 5
# An outage of the store looks like any failed batch, so a job without an end tries both for as long; then it ends with
# an exit code that is not 0, and what supervises it decides.
SERVICE_RETRY_S = 3_600.0
SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 10.0

# Nobody answers: the broker (E101, R120, R123), who gives tokens for it (E115), the catalog (E201, R132 creating, R134
# altering, R135 loading) or the schema registry (R141). A catalog that refuses a change (R140) may do so for credentials
# that are just being replaced.
_OUTAGE_CODES = frozenset(
    {
        "FLOE-E101",
        "FLOE-E115",
        "FLOE-E201",
        "FLOE-R120",
        "FLOE-R123",
        "FLOE-R132",
        "FLOE-R134",
        "FLOE-R135",
        "FLOE-R140",
        "FLOE-R141",
    }
)


# Rows of a table cannot be replaced by key, or what it remembers of deleted keys is lost, until somebody repairs it.
# Records of its batches cannot be left out, nor can others go ahead of them: the batch is tried again.
_HOLDING_CODES = frozenset({"FLOE-R144", "FLOE-R146"})

# The source keeps the records, and another start would wait for the registry as well: a run without an end does so
# itself, however long it takes.
_WAITED_OUT_CODES = frozenset({"FLOE-R141"})


@dataclass(frozen=True)
class ErrorStreak:
    """Errors in a row without a batch between them: how many, and since when (seconds of a monotonic clock)."""

    failures: int
    since_s: float


def is_outage(error: FloeError) -> bool:
    """Whether somebody we need does not answer now."""
    return error.code in _OUTAGE_CODES


def holds_batches(error: FloeError) -> bool:
    """Whether the pipeline holds until somebody repairs a table: nothing is read past the batch, and nothing of it is
    lost."""
    return error.code in _HOLDING_CODES


def is_retriable(error: FloeError) -> bool:
    """Whether doing the batch again may help: not when a person must decide, and never after being fenced."""
    return is_outage(error) or isinstance(error, RetriableError | OutcomeUnknown | AccountingError)


def gives_up(error: FloeError, trouble: ErrorStreak, now_s: float, has_an_end: bool) -> bool:
    """Whether to end the run with this error. `has_an_end`: the run reads to fixed offsets, so somebody waits for
    it."""
    if holds_batches(error):
        return has_an_end or now_s - trouble.since_s > SERVICE_RETRY_S
    if not is_retriable(error):
        return True
    if has_an_end and not is_outage(error):
        return trouble.failures >= BATCH_ATTEMPTS
    if error.code in _WAITED_OUT_CODES and not has_an_end:
        return False
    return now_s - trouble.since_s > SERVICE_RETRY_S


def pause_s(failures: int, interval_s: float) -> float:
    """How long to wait before the next attempt: doubling from a second up to the pipeline's interval, ten seconds at
    most, with jitter so that many jobs that met one outage do not come back in step."""
    longest_s = min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, interval_s))
    return min(longest_s, SHORTEST_PAUSE_S * 2.0 ** min(max(0, failures - 1), 10)) * random.uniform(0.8, 1.0)
