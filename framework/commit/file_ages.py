"""How old a file is, where clocks disagree.

In: moments by the clocks of this machine, of a writer and of the store. Out: whether files may be so old that somebody
has removed them as orphans, and the time by which files of a store are old. Keeps: what is not known counts as old for
whoever commits files, and as young for whoever removes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from framework.config.values.maintenance import ORPHAN_SAFETY_AGE_MS

DAY_MS = 24 * 60 * 60 * 1000
SAFETY_AGE_MS = ORPHAN_SAFETY_AGE_MS
DEFAULT_AGE_MS = 3 * DAY_MS
# Files that are younger than this, by every clock that was asked, are in nobody's way to remove orphans: the other half
# of the safety age is for those who look for orphans, and for what a clock may be off.
YOUNG_MS = SAFETY_AGE_MS // 2
CLOCKS_APART_MS = 600_000
# What clocks of one machine differ in by themselves, between two looks at them.
SET_BACK_MS = 1_000


@dataclass(frozen=True)
class ClockReading:
    """One moment by two clocks of this machine, in ms: the time of day, which may be set, and the time since the machine
    started, which counts the sleep of processes and of the machine."""

    wall_ms: int
    boot_ms: int

    def elapsed_ms(self, now: ClockReading) -> int:
        """How long ago this was, by the clock that says the most. One that was set back says as much."""
        return max(abs(now.wall_ms - self.wall_ms), now.boot_ms - self.boot_ms)

    def set_back_ms(self, now: ClockReading) -> int:
        """By how much the time of day was set back since; less than 0 where it was set forward."""
        return (now.boot_ms - self.boot_ms) - (now.wall_ms - self.wall_ms)


def earliest_ms(past: ClockReading, now: ClockReading) -> int:
    """When a moment was, by the time of day as it is set now: a clock that was set back since would make it look
    later."""
    return now.wall_ms - past.elapsed_ms(now)


def stood_still(begun: ClockReading, now: ClockReading) -> bool:
    """Whether so long has passed by any clock that files which nobody named at `begun` may have gone as orphans."""
    return begun.elapsed_ms(now) >= YOUNG_MS


class FilePresence(str, Enum):
    """What is known of files that nobody names: whether somebody has removed them as orphans."""

    THERE = "there"
    UNCLEAR = "unclear"  # they have to be looked for
    UNSAFE = "unsafe"  # they may be removed at any moment, so that looking for them shows nothing


def presence_of_unnamed(begun: ClockReading, now: ClockReading) -> FilePresence:
    """By how long ago, by any clock, the first of the files was begun."""
    if stood_still(begun, now):
        return FilePresence.UNSAFE
    return FilePresence.THERE if begun.elapsed_ms(now) < CLOCKS_APART_MS else FilePresence.UNCLEAR


def now_for_orphans_ms(machine_ms: int, store_ms: int | None) -> int | None:
    """The time by which files of a store are old; None: it is not known, and no file is old enough.

    Files carry the store's time, so a machine that is ahead would find those of a minute ago old. One that is behind
    finds fewer: the earlier of the two counts.
    """
    return None if store_ms is None else min(machine_ms, store_ms)


def may_be_gone(now_ms: int, after_ms: int | None, reported_ms: int | None, begun_ms: int | None, most_ms: int) -> bool:
    """Whether announced files may be so old that somebody has removed them as orphans. No clock is compared with that
    of another machine: what is not known, or contradicts itself, counts as old.

    Args:
        now_ms, after_ms: by the clock of whoever commits: now, and when the announcement was certainly not there yet.
        told_ms, begun_ms: by the clock of whoever wrote: when the files were announced, and when they were begun.
        most_ms: what both together may take.
    """
    if after_ms is None or reported_ms is None or begun_ms is None:
        return True
    waited_ms, took_ms = now_ms - after_ms, reported_ms - begun_ms
    if min(waited_ms, took_ms) < -CLOCKS_APART_MS:
        return True
    return max(waited_ms, 0) + max(took_ms, 0) + CLOCKS_APART_MS >= most_ms
