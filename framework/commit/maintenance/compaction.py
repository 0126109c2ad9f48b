"""Which data files of a table are worth rewriting, and which of them together.

In: what manifests say of the live files, and a policy. Out: groups of files of one partition, each to become one file,
the ones that gain most first. A file joins a group only where that is worth its bytes: small files are put together
with files of about their own size, so that each byte is rewritten a few times, however small the files come. Tiny files
are put together whatever their sizes are: to open one costs a reader more than its bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from framework.config.values.maintenance import CompactionPolicy

# Files of this share of the target are good as they are.
GOOD_SHARE = 0.75
# Files of up to this share of the target, 1 MiB of 128, are tiny. Iceberg's readers plan as if opening a file took as
# long as reading 4 MiB (`read.split.open-file-cost`).
TINY_SHARE = 1 / 128


@dataclass(frozen=True)
class LiveFileFacts:
    """`place` is the partition, spec and values as text; `deleted_rows` may count more than there are."""

    path: str
    place: str
    bytes: int
    rows: int
    deleted_rows: int
    sequence_number: int


class Reason(str, Enum):
    SMALL = "small files"
    DELETES = "deleted rows"


@dataclass(frozen=True)
class Group:
    """`files` in the order in which they came into the table."""

    place: str
    files: tuple[LiveFileFacts, ...]
    reason: Reason

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)


def plan_compaction(
    files: Collection[LiveFileFacts], policy: CompactionPolicy, max_bytes: int | None = None
) -> tuple[Group, ...]:
    """The groups to rewrite, those with the most files or the most deletes for their bytes first.

    Args:
        max_bytes: what may be read now; the first group may be larger.
    """
    if not policy.enabled:
        return ()
    by_place: dict[str, list[LiveFileFacts]] = defaultdict(list)
    for file in files:
        if _is_small(file, policy) or _is_deleted(file, policy):
            by_place[file.place].append(file)
    groups = [group for place, found in by_place.items() for group in _groups(place, found, policy)]
    groups.sort(key=lambda group: (-_gain(group), group.place))
    if max_bytes is None:
        return tuple(groups)
    chosen: list[Group] = []
    for group in groups:
        if chosen and sum(each.bytes for each in chosen) + group.bytes > max_bytes:
            break
        chosen.append(group)
    return tuple(chosen)


def _groups(place: str, files: Sequence[LiveFileFacts], policy: CompactionPolicy) -> list[Group]:
    """Files in the order of their commits, cut where the target is reached."""
    found: list[list[LiveFileFacts]] = []
    current: list[LiveFileFacts] = []
    size = 0
    for file in sorted(files, key=lambda each: (each.sequence_number, each.path)):
        if current and size + file.bytes > policy.target_file_bytes:
            found.append(current)
            current, size = [], 0
        current.append(file)
        size += file.bytes
    found.append(current)
    groups = (_worth_it(place, each, policy) for each in found)
    return [group for group in groups if group is not None]


def _worth_it(place: str, files: list[LiveFileFacts], policy: CompactionPolicy) -> Group | None:
    """The files without those that are too large for the rest; None where it is better to wait."""
    deleted = [file for file in files if _is_deleted(file, policy)]
    kept = list(files)
    while not deleted and kept:
        largest = max(kept, key=lambda file: file.bytes)
        others = sum(file.bytes for file in kept) - largest.bytes
        if largest.bytes <= max(others, TINY_SHARE * policy.target_file_bytes):
            break
        if largest.bytes + others >= GOOD_SHARE * policy.target_file_bytes:
            break
        kept.remove(largest)
    if deleted:
        return Group(place, tuple(kept), Reason.DELETES)
    return Group(place, tuple(kept), Reason.SMALL) if len(kept) >= policy.min_input_files else None


def _gain(group: Group) -> float:
    """Files that go, and rows that need not be read any more, for each byte that is rewritten."""
    rows = sum(file.rows for file in group.files)
    deleted = min(sum(file.deleted_rows for file in group.files), rows)
    return (len(group.files) - 1 + len(group.files) * deleted / max(rows, 1)) / max(group.bytes, 1)


def _is_small(file: LiveFileFacts, policy: CompactionPolicy) -> bool:
    return file.bytes < GOOD_SHARE * policy.target_file_bytes


def _is_deleted(file: LiveFileFacts, policy: CompactionPolicy) -> bool:
    return file.deleted_rows > 0 and file.deleted_rows >= policy.delete_ratio * file.rows
