"""What a task gives back: files, and one pickled TaskReport that describes them.

In: a TaskContext or a report. Out: the writer of the task's files, and the row that brings the report to the driver.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.record.model import TaskReport
from framework.task.context import TaskContext

if TYPE_CHECKING:
    from framework.adapters.parquet.files import TableWriter

REPORT_SCHEMA = "report binary"


def new_writer(context: TaskContext) -> TableWriter:
    """The writer of one task, with the bounds of its plan."""
    from framework.adapters.parquet.files import TableWriter

    plan = context.plan
    return TableWriter(
        context.io_properties,
        plan.pipeline,
        context.run,
        context.batch,
        plan.write.buffer_bytes,
        plan.write.target_file_bytes,
    )


def report_batch(report: TaskReport) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(report)], pa.binary())], ["report"])
