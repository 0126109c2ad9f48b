"""How healthy a table is, as numbers: what its readers pay for, and what maintenance would gain.

In: what manifests say of the live files, what the metadata holds, and the policy. Out: one frozen value a table. Pure;
nothing is decided here: what is rewritten is planned by `compaction`, with the same facts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from framework.commit.maintenance.compaction import GOOD_SHARE, LiveFileFacts, plan_compaction
from framework.commit.maintenance.others import OtherMaintainer
from framework.config.maintenance import MIB, CompactionPolicy

# The upper ends of the histogram's steps, and what the steps are called.
STEPS = (("1MiB", MIB), ("8MiB", 8 * MIB), ("32MiB", 32 * MIB), ("128MiB", 128 * MIB), ("512MiB", 512 * MIB))
LARGER = "larger"


@dataclass(frozen=True)
class MetadataFacts:
    """`metadata_bytes` is the size of the present metadata file; `last_maintenance_ms` is None where no snapshot of
    floe's maintenance is left. `other`: who else maintains the table."""

    snapshots: int
    manifests: int
    metadata_bytes: int
    delete_files: int
    last_maintenance_ms: int | None
    other: OtherMaintainer | None = None


@dataclass(frozen=True)
class TableHealth:
    """`histogram` counts data files below each size. `gain_files` would be fewer files after a compaction that reads
    `gain_bytes`; `deleted_rows` may count more than there are."""

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
    histogram: dict[str, int] = field(default_factory=dict)
    other: OtherMaintainer | None = None


def health_of(files: Collection[LiveFileFacts], metadata: MetadataFacts, policy: CompactionPolicy) -> TableHealth:
    """The numbers of one table."""
    groups = plan_compaction(files, policy)
    ends = [end for _, end in STEPS]
    names = [*(name for name, _ in STEPS), LARGER]
    sizes = Counter(names[bisect_right(ends, file.bytes)] for file in files)
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
        histogram={name: sizes[name] for name in names},
        other=metadata.other,
    )
