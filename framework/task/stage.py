"""The one Spark stage of a micro-batch: each task fetches its spans, decodes, routes, converts and writes Parquet.

In: the spans of all tasks, of which each task has the number of one, and a TaskContext; both pickle with the closure.
Out: one pickled TaskReport a task, which covers exactly the offsets that the task was given (invariant 8).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from framework.adapters.host.failpoints import failpoint
from framework.adapters.host.memory import keep_large_blocks, release_after
from framework.record.compiled import be_uncompiled
from framework.record.model import TaskRange, TaskReport
from framework.task.context import TaskContext, Work, ranges_of
from framework.task.exchange import Outbox, sent_report, try_received
from framework.task.output import report_batch
from framework.task.task_run import TaskRun

# Blocks of a batch that is done with care.
UNCOMPILED_BLOCK_RECORDS = 1_000


def make_task(context: TaskContext, work: Work):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """The function for `mapInArrow`: the number of a piece of the work in, one report out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for spans in ranges_of(batches, context, work):
            yield report_batch(run_ranges(spans, context))

    return task


def make_sending_task(context: TaskContext, work: Work):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """As `make_task`, for plans with distributed tables: a report and the rows for other writers out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for spans in ranges_of(batches, context, work):
            outbox = Outbox(context.plan)
            yield sent_report(pickle.dumps(run_ranges(spans, context, outbox)))
            yield from outbox.sent()

    return task


def run_ranges(slices: list[TaskRange], context: TaskContext, outbox: Outbox | None = None) -> TaskReport:
    """The fused path: fetch, decode, route, convert and write the slices of one task."""
    run = _run_ranges(slices, context, outbox)
    report = run.finish()
    release_after(sum(task_range.end - task_range.start for task_range in slices))
    return report


def try_ranges(slices: list[TaskRange], context: TaskContext) -> None:
    """All that tasks do with these records, also behind the exchange, and then the files are removed."""
    context = replace(context, is_trial=True)
    if context.plan.transform is not None:
        _decoded(slices, context).finish()
        return
    outbox = Outbox(context.plan) if context.plan.is_distributed else None
    _run_ranges(slices, context, outbox).finish()
    if outbox is not None:
        try_received(outbox, context)


def _decoded(slices: list[TaskRange], context: TaskContext) -> TaskRun:
    """What a task does before `transform.sql`."""
    from framework.task.sql.select import schema_of_source
    from framework.task.sql.stage import decode_ranges

    run = TaskRun(context)
    for _ in decode_ranges(slices, context, schema_of_source(context.plan)):
        pass
    return run


def _run_ranges(slices: list[TaskRange], context: TaskContext, outbox: Outbox | None) -> TaskRun:
    from framework.adapters.kafka.fetch import RangeFetcher
    from framework.record.process import records_in_block
    from framework.record.rows.scatter import available
    from framework.task.blocks import BlockProcessor, TaskRangeSum

    pa.set_cpu_count(1)  # one task a core: Arrow's own threads would fight the neighbours
    be_uncompiled(context.is_uncompiled)
    keep_large_blocks()
    run = TaskRun(context, outbox)
    fetcher = RangeFetcher(context.kafka, most_record_bytes=context.plan.read.max_record_bytes)
    scatter = available() and outbox is None
    processor = BlockProcessor(context, scatter)
    block_records = records_in_block(context.plan.decode.block_records, len(context.tables), scatter)
    block_records = min(block_records, UNCOMPILED_BLOCK_RECORDS) if context.is_uncompiled else block_records
    for task_range in slices:
        total = TaskRangeSum()
        for block in fetcher.fetch(task_range, block_records):
            for result in processor.results(block):
                run.add(result, task_range.topic, task_range.partition)
                total.add(result)
            total.see(block)
            del block, result  # or its bytes would be held until there is another one
        run.slices.append(total.report(task_range, fetcher.holes))
    run.learned = processor.learned
    failpoint("records-written")
    return run
