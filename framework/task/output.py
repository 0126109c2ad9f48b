"""What a task gives back: files, and one pickled TaskReport that describes them.

In: a TaskContext or a report. Out: the writer of the task's files, and the row that brings the report to the driver.
"""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.record.model import TaskReport, UpsertPart
from framework.task.context import TaskContext

if TYPE_CHECKING:
    from framework.adapters.parquet.files import TableWriter

REPORT_SCHEMA = "report binary"


def new_writer(context: TaskContext) -> TableWriter:
    """The writer of one task, with the bounds of its plan.

    Raises:
        OSError: keys that were lent for one of the tables have ended. Spark tries a failed task again with the same keys, and
            what it reads would be read in vain.
    """
    from framework.adapters.parquet.files import TableWriter

    plan = context.plan
    if ended := with_ended_keys(context, time.time_ns() // 1_000_000):
        raise OSError(f"the keys that were lent for {ended[0]} had ended when the task began")
    return TableWriter(
        context.io_properties,
        plan.pipeline,
        context.run,
        context.batch,
        plan.write.buffer_bytes,
        plan.write.target_file_bytes,
    )


def with_ended_keys(context: TaskContext, now_ms: int) -> list[str]:
    """The tables whose lent keys have ended by the wall clock."""
    from framework.adapters.file_io import key_of
    from framework.adapters.server_settings import has_ended

    return [name for name in context.tables if has_ended(context.io_properties.get(key_of(name), {}), now_ms)]


def with_keys_of_unknown_end(context: TaskContext) -> list[str]:
    """The tables whose catalog lends keys and does not say how long they are good for."""
    from framework.adapters.file_io import key_of
    from framework.adapters.server_settings import says_no_end

    lent = {name: context.io_properties.get(key_of(name)) for name in context.tables}
    return [name for name, settings in lent.items() if settings is not None and says_no_end(settings)]


def remove_files(context: TaskContext, reports: Iterable[TaskReport]) -> None:
    """Remove what tasks wrote in vain: it was never announced, so it is nobody's. A file that cannot be removed now
    stays for the removal of orphans."""
    from framework.adapters.file_io import file_io, settings_of

    for report in reports:
        paths = [(table, file.path) for table, files in report.files.items() for file in files]
        paths += [(table, part.keys.path) for table, part in report.keyed.items()]
        paths += [(table, part.run.path) for table, part in report.keyed.items() if part.run is not None]
        paths += [
            (table, path) for table, part in report.keyed.items() for path in _own_deleted_keys(context, table, part)
        ]
        for table, path in paths:
            with contextlib.suppress(OSError):
                file_io(settings_of(context.io_properties, table), path).delete(path)


def _own_deleted_keys(context: TaskContext, table: str, part: UpsertPart) -> list[str]:
    """The files of deleted keys that the task itself wrote; the others were made for the whole batch."""
    order = context.keyed[table].order if table in context.keyed else None
    if part.tombstones is None or order is None:
        return []
    known = {file.path for file in order.added}
    return [file.path for file in part.tombstones.added if file.path not in known]


def report_batch(report: TaskReport) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(report)], pa.binary())], ["report"])
