"""Who else keeps a table healthy: a job of Spark, S3 Tables, Snowflake, a person with a procedure.

In: the snapshots of a table that put its rows into other files and are not floe's own. Out: the other maintainer, or
none. Pure. Two who compact the same table undo each other's work, so that `maintenance: {mode: auto}` leaves its files
to the other; a single run by hand changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from framework.config.values.maintenance import DAY_MS

# The other counts as a maintainer for so long after its last work.
REMEMBERED_MS = 7 * DAY_MS
# One rewriting may commit in parts; what is further apart than this was begun anew.
APART_MS = 600_000
_LONGEST_NAME = 60


@dataclass(frozen=True)
class ForeignReplace:
    """A `replace` snapshot that floe did not make, and who says to have made it."""

    timestamp_ms: int
    by: str


@dataclass(frozen=True)
class OtherMaintainer:
    """`rounds` of work in the time that is remembered, the last at `last_ms`."""

    name: str
    rounds: int
    last_ms: int


def engine_of(summary: Mapping[str, str]) -> str:
    """Who made a snapshot, as far as its summary says: engines name themselves with `engine-name` (Iceberg's
    EnvironmentContext)."""
    named = " ".join(summary[key] for key in ("engine-name", "engine-version") if summary.get(key))
    return named[:_LONGEST_NAME] or "another engine"


def other_maintainer(replaced: Collection[ForeignReplace], now_ms: int) -> OtherMaintainer | None:
    """Whoever worked at least twice in the last days."""
    recent = sorted(
        (each for each in replaced if now_ms - each.timestamp_ms < REMEMBERED_MS), key=lambda each: each.timestamp_ms
    )
    rounds, last_ms = 0, -APART_MS
    for each in recent:
        rounds += each.timestamp_ms - last_ms >= APART_MS
        last_ms = each.timestamp_ms
    return OtherMaintainer(recent[-1].by, rounds, last_ms) if rounds > 1 else None
