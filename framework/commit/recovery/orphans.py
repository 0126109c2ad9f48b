"""Which files of a table are nobody's: written, never announced, never committed, and old enough to be sure.

In: the files below a table's location, what the table refers to, what announcements name, and the time. Out: a verdict
for each file. Keeps invariant 12: a file that an unexpired announcement names, or any snapshot refers to, or that is
young, or that is of no kind that floe writes, is never an orphan.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import Enum

from framework.commit.deleted_keys import FOLDER

SUFFIXES = (".parquet", ".avro", ".puffin")
# Of deleted keys that tables remember. Runs of a key index are their driver's own.
_DELETED_KEYS = re.compile(rf"/{FOLDER}/[^/]+\.arrow$")


@dataclass(frozen=True)
class StoredFile:
    """`key` is what its names have in common; `modified_ms` None where the store does not tell."""

    location: str
    key: str
    size: int
    modified_ms: int | None


class FileVerdict(str, Enum):
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
) -> FileVerdict:
    """Invariant 12, for one file; all in `kept_folder` may be in use."""
    if file.key in referenced or (kept_folder and inside(kept_folder, file.key)):
        return FileVerdict.REFERENCED
    if file.key in announced:
        return FileVerdict.ANNOUNCED
    if not file.key.endswith(SUFFIXES) and _DELETED_KEYS.search(file.key) is None:
        return FileVerdict.OTHER
    if file.modified_ms is None or file.modified_ms > now_ms - older_than_ms:
        return FileVerdict.YOUNG
    return FileVerdict.ORPHAN


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
        if verdict is FileVerdict.ORPHAN:
            orphans.append(file)
        else:
            spared[verdict.value] += 1
    return Sorted(tuple(sorted(orphans, key=lambda file: file.key)), dict(sorted(spared.items())))


def inside(root: str, other: str) -> bool:
    """Whether a location (as a key) lies in another, or is the same: then the files of two tables cannot be distinguished
    apart."""
    return other == root or other.startswith(root + "/")
