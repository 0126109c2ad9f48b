"""How long rows took from their own time to the snapshot that made them visible.

In: a table whose rows carry the time at which they were made. Out: seconds, one a row. A row is visible from the snapshot
that added its file on; a `replace` snapshot, as compaction makes one, writes rows again that were visible before, and
makes none visible.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot


def seconds_to_visible(table: Table, column: str) -> npt.NDArray[np.float64]:
    """Of each row of a table to which rows are only appended, in no order.

    Args:
        column: a timestamp, the row's own time.

    Raises:
        AssertionError: rows cannot be accounted for: snapshots have expired, or rows were changed.
    """
    found: list[npt.NDArray[np.float64]] = [np.empty(0, np.float64)]
    for snapshot in table.snapshots():
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            found += [(snapshot.timestamp_ms - made) / 1000 for made in _added(table, snapshot, column)]
    seconds = np.concatenate(found)
    newest = table.current_snapshot()
    rows = int(newest.summary["total-records"] or 0) if newest is not None and newest.summary is not None else 0
    assert len(seconds) == rows, f"{len(seconds)} rows were added by the snapshots that are there, and {rows} are there"
    return seconds


def _added(table: Table, snapshot: Snapshot, column: str) -> list[npt.NDArray[np.int64]]:
    """The own times, in ms, of the rows that a snapshot added, by file."""
    return [
        pq.read_table(entry.data_file.file_path.removeprefix("file://"), columns=[column])[column]
        .to_numpy()
        .astype("datetime64[ms]")
        .astype(np.int64)
        for manifest in snapshot.manifests(table.io)
        if manifest.added_snapshot_id == snapshot.snapshot_id
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
    ]
