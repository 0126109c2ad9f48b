"""How a table has grown: what each snapshot of main added and removed, in files and bytes.

In: a loaded table. Out: values. Only its metadata is read; what the summaries of snapshots say is believed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from framework.adapters.iceberg.views import ancestry, head_of

MAIN = "main"


@dataclass(frozen=True)
class SnapshotGrowth:
    """`has_parent`: the snapshot before it is kept, too, so that what this one removed is still in the store. `rewrites`: the
    rows are those of before, in other files."""

    at_ms: int
    rewrites: bool
    has_parent: bool
    added_data_files: int
    added_delete_files: int
    added_bytes: int
    removed_bytes: int


@dataclass(frozen=True)
class TableGrowth:
    """`snapshots`: those of main that are kept, the newest first. `live_bytes` is the size of the files that the newest reads;
    None where no summary says it."""

    table: str
    live_bytes: int | None
    snapshots: tuple[SnapshotGrowth, ...]


def growth_of(name: str, table: Table) -> TableGrowth:
    """What the table's metadata says."""
    metadata = table.metadata
    line = tuple(ancestry(metadata, head_of(metadata, MAIN)))
    kept = {each.snapshot_id for each in line}
    live = _number(line[0], "total-files-size") if line else 0
    return TableGrowth(
        name,
        live,
        tuple(
            SnapshotGrowth(
                each.timestamp_ms,
                each.summary is not None and each.summary.operation is Operation.REPLACE,
                each.parent_snapshot_id in kept,
                _number(each, "added-data-files") or 0,
                _number(each, "added-delete-files") or 0,
                _number(each, "added-files-size") or 0,
                _number(each, "removed-files-size") or 0,
            )
            for each in line
        ),
    )


def _number(snapshot: Snapshot, key: str) -> int | None:
    text = snapshot.summary.additional_properties.get(key) if snapshot.summary else None
    return int(text) if text is not None and text.isdecimal() else None
