"""How healthy a table is, as numbers: what its readers pay for, and what maintenance would gain.

In: what manifests say of the live files, what the metadata holds, and the policy. Out: one frozen value a table, and
whether a person should be notified of it. Pure; nothing is decided here: what is rewritten is planned by `compaction`, what
expires by `expire`, with the same facts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum

from framework.commit.maintenance.compaction import GOOD_SHARE, LiveFileFacts, Reason, plan_compaction
from framework.commit.maintenance.others import OtherMaintainer
from framework.config.values.maintenance import MIB, CompactionPolicy
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument

# The upper ends of the histogram's steps, and what the steps are called.
STEPS = (("1MiB", MIB), ("8MiB", 8 * MIB), ("32MiB", 32 * MIB), ("128MiB", 128 * MIB), ("512MiB", 512 * MIB))
LARGER = "larger"
SIZES = (*(name for name, _ in STEPS), LARGER)

# From these on a person is notified. Below, the next round of maintenance is soon enough.
MANY_FILES = 100
MANY_MANIFESTS = 100
MANY_SNAPSHOTS = 500
MUCH_DELETED = 0.1
_NOT_SUMMED = frozenset({"histogram", "last_maintenance_ms", "other"})


class Need(str, Enum):
    """Why a table should be maintained."""

    SMALL_FILES = "small_files"
    DELETES = "deletes"
    MANIFESTS = "manifests"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class MetadataFacts:
    """`metadata_bytes` is the size of the present metadata file; `last_maintenance_ms` is None where no snapshot of
    floe's maintenance is left. `other`: who else maintains the table. What maintenance would take away now:
    `gain_manifests` and `gain_snapshots`."""

    snapshots: int
    manifests: int
    metadata_bytes: int
    delete_files: int
    last_maintenance_ms: int | None
    other: OtherMaintainer | None = None
    gain_manifests: int = 0
    gain_snapshots: int = 0


@dataclass(frozen=True)
class TableHealth:
    """`histogram` counts data files below each size. `gain_files` would be fewer files after a compaction that reads
    `gain_bytes`, and leaves out `gain_rows` that are deleted; `deleted_rows` may count more than there are.
    `gain_manifests` and `gain_snapshots` would be fewer, too."""

    data_files: int
    small_files: int
    bytes: int
    rows: int
    deleted_rows: int
    delete_files: int
    manifests: int
    metadata_bytes: int
    snapshots: int
    last_maintenance_ms: int | None
    gain_files: int
    gain_bytes: int
    histogram: dict[str, int] = field(default_factory=dict, hash=False)
    other: OtherMaintainer | None = None
    gain_rows: int = 0
    gain_manifests: int = 0
    gain_snapshots: int = 0


def health_of(files: Collection[LiveFileFacts], metadata: MetadataFacts, policy: CompactionPolicy) -> TableHealth:
    """The numbers of one table."""
    groups = plan_compaction(files, policy)
    ends = [end for _, end in STEPS]
    sizes = Counter(SIZES[bisect_right(ends, file.bytes)] for file in files)
    deleted = (file.deleted_rows for group in groups if group.reason is Reason.DELETES for file in group.files)
    return TableHealth(
        data_files=len(files),
        small_files=sum(file.bytes < GOOD_SHARE * policy.target_file_bytes for file in files),
        bytes=sum(file.bytes for file in files),
        rows=sum(file.rows for file in files),
        deleted_rows=sum(file.deleted_rows for file in files),
        delete_files=metadata.delete_files,
        manifests=metadata.manifests,
        metadata_bytes=metadata.metadata_bytes,
        snapshots=metadata.snapshots,
        last_maintenance_ms=metadata.last_maintenance_ms,
        gain_files=sum(len(group.files) - 1 for group in groups),
        gain_bytes=sum(group.bytes for group in groups),
        histogram={name: sizes[name] for name in SIZES},
        other=metadata.other,
        gain_rows=sum(deleted),
        gain_manifests=metadata.gain_manifests,
        gain_snapshots=metadata.gain_snapshots,
    )


def needs_of(health: TableHealth) -> tuple[Need, ...]:
    """Why a person should maintain the table, the worst first; nothing where somebody else rewrites it."""
    if health.other is not None:
        return ()
    found = (
        (Need.SMALL_FILES, health.gain_files >= MANY_FILES),
        (Need.DELETES, health.gain_rows > 0 and health.gain_rows >= MUCH_DELETED * health.rows),
        (Need.MANIFESTS, health.gain_manifests >= MANY_MANIFESTS),
        (Need.SNAPSHOTS, health.gain_snapshots >= MANY_SNAPSHOTS),
    )
    return tuple(need for need, is_so in found if is_so)


def united(found: Sequence[TableHealth]) -> TableHealth | None:
    """Several tables as one: sums, and of maintenance the oldest; None for no table."""
    if not found:
        return None
    numbers = [each.name for each in fields(TableHealth) if each.name not in _NOT_SUMMED]
    maintained = [each.last_maintenance_ms for each in found if each.last_maintenance_ms is not None]
    sizes = sum((Counter(each.histogram) for each in found), Counter[str]())
    summed = {name: sum(getattr(each, name) for each in found) for name in numbers}
    return replace(
        found[0], **summed, histogram=dict(sizes), last_maintenance_ms=min(maintained, default=None), other=None
    )


def gain_words(health: TableHealth) -> str:
    """What maintenance would take away; "" where that is nothing."""
    found = (
        (health.gain_files, "file"),
        (health.gain_rows, "deleted row"),
        (health.gain_manifests, "manifest"),
        (health.gain_snapshots, "snapshot"),
    )
    words = [counted(count, what) for count, what in found if count]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def maintain_command(table: str, target: str) -> str:
    """What a person types."""
    return f"floe maintain {argument(table)} -t {argument(target)}"
