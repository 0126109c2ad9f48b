"""A table's rows, a few at a time: PyIceberg's own scan, without a whole file in memory.

In: a table, a snapshot, and columns. Out: its live rows in batches, deletes applied. PyIceberg 0.12's
`ArrowScan.to_record_batches` makes a list of each file's batches first, several files at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.table import FileScanTask, Table


class FileScan(ArrowScan):
    """`ArrowScan` for one file, its batches one by one. Goes when PyIceberg streams the batches of a scan."""

    def batches(self, task: FileScanTask) -> Iterator[pa.RecordBatch]:
        deletes = _read_all_delete_files(self._io, [task])
        yield from self._record_batches_from_scan_tasks_and_deletes([task], deletes)


def scan_files(
    table: Table, snapshot_id: int, where: BooleanExpression
) -> tuple[list[FileScanTask], Callable[[FileScanTask, Sequence[str]], Iterator[pa.RecordBatch]]]:
    """The files of a snapshot that may hold matching rows, and what reads some columns of one of them.

    Raises:
        Exception: whatever PyIceberg, the catalog or the store raises.
    """
    tasks = list(table.scan(row_filter=where, snapshot_id=snapshot_id).plan_files())
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    schema = table.schemas()[snapshot.schema_id] if snapshot and snapshot.schema_id is not None else table.schema()

    def read(task: FileScanTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return FileScan(table.metadata, table.io, schema.select(*columns), where).batches(task)

    return tasks, read
