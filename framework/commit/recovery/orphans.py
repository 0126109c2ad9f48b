"""Which files of a table are nobody's: written, never announced, never committed, and old enough to be sure.

In: the files below a table's location, what the table refers to, what announcements name, and the time. Out: a verdict
for each file; and, for whoever is about to announce or commit files, whether they are so old that they may have been
taken for orphans. Keeps invariant 12: a file that an unexpired announcement names, or any snapshot refers to, or that
is young, or that is of no kind that floe writes, is never an orphan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import Enum

from framework.commit.deleted_keys import FOLDER
from framework.config.values.maintenance import ORPHAN_SAFETY_AGE_MS

DAY_MS = 24 * 60 * 60 * 1000
SAFETY_AGE_MS = ORPHAN_SAFETY_AGE_MS
DEFAULT_AGE_MS = 3 * DAY_MS
# Files that are younger than this, by every clock that was asked, are in nobody's way to remove orphans: the other half
# of the safety age is for those who look for orphans, and for what a clock may be off.
YOUNG_MS = SAFETY_AGE_MS // 2
CLOCKS_APART_MS = 600_000
SUFFIXES = (".parquet", ".avro", ".puffin")
# Of deleted keys that tables remember. Runs of a key index are their driver's own.
_TOMBSTONES = re.compile(rf"/{FOLDER}/[^/]+\.arrow$")


@dataclass(frozen=True)
class StoredFile:
    """`key` is what its names have in common; `modified_ms` None where the store does not tell."""

    location: str
    key: str
    size: int
    modified_ms: int | None


class Verdict(str, Enum):
    ORPHAN = "orphan"
    REFERENCED = "referenced"  # by a snapshot, a manifest or the table's metadata
    ANNOUNCED = "announced"  # by an announcement that is still in the control topic
    YOUNG = "young"  # or of unknown age
    OTHER = "other"  # of a kind that floe does not write: metadata files, marks of other tools


def judge(
    file: StoredFile,
    referenced: Container[str],
    announced: Container[str],
    now_ms: int,
    older_than_ms: int,
    kept_folder: str = "",
) -> Verdict:
    """Invariant 12, for one file; all in `kept_folder` may be in use."""
    if file.key in referenced or (kept_folder and inside(kept_folder, file.key)):
        return Verdict.REFERENCED
    if file.key in announced:
        return Verdict.ANNOUNCED
    if not file.key.endswith(SUFFIXES) and _TOMBSTONES.search(file.key) is None:
        return Verdict.OTHER
    if file.modified_ms is None or file.modified_ms > now_ms - older_than_ms:
        return Verdict.YOUNG
    return Verdict.ORPHAN


@dataclass(frozen=True)
class Moment:
    """One moment by two clocks of this machine, in ms: the time of day, which may be set, and the time since the machine
    started, which counts the sleep of processes and of the machine."""

    wall_ms: int
    boot_ms: int

    def elapsed_ms(self, now: Moment) -> int:
        """How long ago this was, by the clock that says the most. One that was set back says as much."""
        return max(abs(now.wall_ms - self.wall_ms), now.boot_ms - self.boot_ms)


def now_for_orphans_ms(machine_ms: int, store_ms: int | None) -> int | None:
    """The time by which files of a store are old; None: it is not known, and no file is old enough.

    Files carry the store's time, so a machine that is ahead would find those of a minute ago old. One that is behind
    finds fewer: the earlier of the two counts.
    """
    return None if store_ms is None else min(machine_ms, store_ms)


def may_be_gone(now_ms: int, after_ms: int | None, told_ms: int | None, begun_ms: int | None, most_ms: int) -> bool:
    """Whether announced files may be so old that somebody has removed them as orphans. No clock is compared with that
    of another machine: what is not known, or contradicts itself, counts as old.

    Args:
        now_ms, after_ms: by the clock of whoever commits: now, and when the announcement was certainly not there yet.
        told_ms, begun_ms: by the clock of whoever wrote: when the files were announced, and when they were begun.
        most_ms: what both together may take.
    """
    if after_ms is None or told_ms is None or begun_ms is None:
        return True
    waited_ms, took_ms = now_ms - after_ms, told_ms - begun_ms
    if min(waited_ms, took_ms) < -CLOCKS_APART_MS:
        return True
    return max(waited_ms, 0) + max(took_ms, 0) + CLOCKS_APART_MS >= most_ms


@dataclass(frozen=True)
class Sorted:
    """The orphans of one table, and how many files of each kind were spared."""

    orphans: tuple[StoredFile, ...]
    spared: dict[str, int]

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.orphans)


def sort_out(
    files: Iterable[StoredFile],
    referenced: Container[str],
    announced: Container[str],
    now_ms: int,
    older_than_ms: int,
    kept_folder: str = "",
) -> Sorted:
    orphans: list[StoredFile] = []
    spared: Counter[str] = Counter()
    for file in files:
        verdict = judge(file, referenced, announced, now_ms, older_than_ms, kept_folder)
        if verdict is Verdict.ORPHAN:
            orphans.append(file)
        else:
            spared[verdict.value] += 1
    return Sorted(tuple(sorted(orphans, key=lambda file: file.key)), dict(sorted(spared.items())))


def inside(root: str, other: str) -> bool:
    """Whether a location (as a key) lies in another, or is the same: then the files of two tables cannot be told
    apart."""
    return other == root or other.startswith(root + "/")
