"""The one Spark stage of a micro-batch: each task fetches its spans, decodes, routes, converts and writes Parquet.

In: the spans of all tasks, of which each task has the number of one, and a TaskContext; both pickle with the closure. Out: one
pickled TaskReport a task. Decides nothing: `framework.record` says what becomes of every record. Keeps invariant 8 per slice by
counting what it was given against what it reports.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.adapters.faults import meet, reach
from framework.adapters.memory import keep_large_blocks, release_memory
from framework.adapters.sinks import guard_logging
from framework.commit.offsets import Span
from framework.plan.model import Plan
from framework.record.compiled import be_plain
from framework.record.condemned import Condemned, set_aside
from framework.record.model import BlockResult, DeadLetter, Slice, SliceReport, TableNeed, TableTarget, TaskReport
from framework.task.exchange import Outbox, sent_report

if TYPE_CHECKING:
    from framework.adapters.parquet.files import TableWriter

guard_logging()  # a worker's log lines name records
REPORT_SCHEMA = "report binary"
# What each task of a stage reads.
Work = Sequence[Sequence[Span]]


@dataclass(frozen=True)
class TaskContext:
    """All that a task needs, as values: it talks to the broker and the store, never to the catalog or the driver."""

    plan: Plan
    kafka: dict[str, str] = field(repr=False)
    io_properties: dict[str, dict[str, str]] = field(repr=False)
    tables: dict[str, TableTarget]
    topic_ids: dict[str, str]
    run: str
    batch: int
    registry: dict[str, str] = field(default_factory=dict, repr=False)
    condemned: tuple[Condemned, ...] = ()  # records that ended a task (framework.task.probe)
    # Do without compiled modules, in small blocks: some task of this batch ended for no known reason.
    is_plain: bool = False
    is_trial: bool = False  # files are removed once they are written


# Blocks of a batch that is done with care.
PLAIN_BLOCK_RECORDS = 1_000


def known_to_tasks(tables: Mapping[str, TableTarget]) -> dict[str, TableTarget]:
    """The tables with what a task heeds alone, and what many have in common once: it travels to every task of every batch, and
    of a thousand tables that were megabytes."""
    texts: dict[str, str] = {}
    properties: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def once(text: str) -> str:
        return texts.setdefault(text, text)

    def heeded(found: Mapping[str, str]) -> dict[str, str]:
        # Others change with each commit, as those in which floe keeps account.
        some = tuple(sorted(item for item in found.items() if item[0].startswith("write.")))
        return properties.setdefault(some, dict(some))

    return {
        name: replace(
            table,
            schema_json=once(table.schema_json),
            spec_json=once(table.spec_json),
            sort_order_json=once(table.sort_order_json),
            properties=heeded(table.properties),
        )
        for name, table in tables.items()
    }


def make_task(context: TaskContext, work: Work):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """The function for `mapInArrow`: the number of a piece of the work in, one report out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for spans in spans_of(batches, context, work):
            yield report_batch(run_slices(spans, context))

    return task


def make_sending_task(context: TaskContext, work: Work):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """As `make_task`, for plans with distributed tables: a report and the rows for other writers out."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for spans in spans_of(batches, context, work):
            outbox = Outbox(context.plan)
            yield sent_report(pickle.dumps(run_slices(spans, context, outbox)))
            yield from outbox.sent()

    return task


def spans_of(batches: Iterator[pa.RecordBatch], context: TaskContext, work: Work) -> Iterator[list[Slice]]:
    """What a task is to read, whose number came in."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield [Slice(s.topic, context.topic_ids[s.topic], s.partition, s.start, s.end) for s in work[number]]


def report_batch(report: TaskReport) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(report)], pa.binary())], ["report"])


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


class TaskRun:
    """Gathers the results of a task's blocks; files are closed at the end, so a task that fails reports nothing. With an
    outbox, rows of the tables that it takes go there; dead letters never do."""

    def __init__(self, context: TaskContext, outbox: Outbox | None = None) -> None:
        self.context = context
        self.writer = new_writer(context)
        self.outbox = outbox
        self.needs: dict[str, TableNeed] = {}
        self.failure: DeadLetter | None = None
        self.rows: dict[str, int] = {}
        self.slices: list[SliceReport] = []

    def add(self, result: BlockResult) -> None:
        """Take in one block: its rows are buffered unless some table must change first."""
        from framework.record.letters.dead_letter import dead_letters_to_arrow
        from framework.table.evolve import merge_needs

        plan = self.context.plan
        for name, need in result.needs.items():
            self.needs[name] = merge_needs([self.needs[name], need]) if name in self.needs else need
        self.failure = self.failure or result.failure
        if result.dead_letters:
            name = plan.write.dead_letter_table or ""
            if name and name not in self.context.tables:
                self.needs.setdefault(name, TableNeed(name, ()))
        if self.needs or self.failure:
            # The batch will be done again or not at all: go on reading only to learn everything that must change.
            return
        if result.dead_letters:
            target = self.context.tables[name]
            letters = dead_letters_to_arrow(result.dead_letters, plan.pipeline, self.context.run, target)
            self.writer.add(target, letters)
            self.rows[name] = self.rows.get(name, 0) + len(letters)
        for table, rows in result.rows.items():
            self._write(table, rows)
        for alike in result.alike:
            if self.outbox is None and self.writer.add_alike(
                [self.context.tables[name] for name in alike.tables], alike
            ):
                for table, count in zip(alike.tables, alike.counts(), strict=True):
                    if count:
                        self.rows[table] = self.rows.get(table, 0) + count
            else:
                for table, _, rows in alike.split():
                    self._write(table, rows)

    def _write(self, table: str, rows: pa.Table) -> None:
        if len(rows):
            writer = self.outbox if self.outbox is not None and self.outbox.takes(table) else self.writer
            writer.add(self.context.tables[table], rows)
            self.rows[table] = self.rows.get(table, 0) + len(rows)

    def finish(self) -> TaskReport:
        if self.needs or self.failure:
            self.writer.discard()
            if self.outbox is not None:
                self.outbox.discard()
            return TaskReport(tuple(self.slices), {}, {}, {}, self.needs, self.failure)
        files = self.writer.finish()
        if self.context.is_trial:
            self.writer.discard()
            files = {}
        targets = {name: (t.table_uuid, t.schema_id) for name in files for t in (self.context.tables[name],)}
        return TaskReport(tuple(self.slices), files, targets, self.rows, {}, None)


# After a task of so many records another one follows at once, as a rule, and needs the same memory: to give it back and to fetch
# it again takes a tenth of the CPU and more. A pipeline that has caught up has smaller tasks.
RECORDS_OF_A_BUSY_TASK = 200_000


def run_slices(slices: list[Slice], context: TaskContext, outbox: Outbox | None = None) -> TaskReport:
    """The fused path: fetch, decode, route, convert and write the slices of one task."""
    run = _run_slices(slices, context, outbox)
    report = run.finish()
    if sum(piece.end - piece.start for piece in slices) < RECORDS_OF_A_BUSY_TASK:
        release_memory()
    return report


def try_slices(slices: list[Slice], context: TaskContext) -> None:
    """All that a task does, and then its files are removed."""
    context = replace(context, is_trial=True)
    run = _run_slices(slices, context, None) if context.plan.transform is None else _decoded(slices, context)
    run.finish()


def _decoded(slices: list[Slice], context: TaskContext) -> TaskRun:
    """What a task does before `transform.sql`."""
    from framework.task.sql import decode_slices, schema_of_source

    run = TaskRun(context)
    for _ in decode_slices(slices, context, schema_of_source(context.plan)):
        pass
    return run


def _run_slices(slices: list[Slice], context: TaskContext, outbox: Outbox | None) -> TaskRun:
    from framework.adapters.kafka.fetch import SliceFetcher
    from framework.adapters.registry import registry_of
    from framework.record.process import needed_schemas, process_block, records_in_block
    from framework.record.rows.scatter import available

    pa.set_cpu_count(1)  # one task a core: Arrow's own threads would fight the neighbours
    be_plain(context.is_plain)
    keep_large_blocks()
    run = TaskRun(context, outbox)
    fetcher, registry = SliceFetcher(context.kafka), registry_of(context.registry)
    scatter = available() and outbox is None
    block_records = records_in_block(context.plan.decode.block_records, len(context.tables), scatter)
    block_records = min(block_records, PLAIN_BLOCK_RECORDS) if context.is_plain else block_records
    for piece in slices:
        written = filtered = dead = dropped = 0
        newest: int | None = None
        for block in fetcher.fetch(piece, block_records):
            schemas = registry.schemas(needed_schemas(block, context.plan.decode))
            left, aside = block, BlockResult()
            if context.condemned:
                left, aside = set_aside(block, context.condemned, context.plan, context.tables)
            meet(left.values)
            result = BlockResult()
            if len(left):
                result = process_block(
                    left, context.plan, context.tables, schemas, encode=not context.is_plain, scatter=scatter
                )
            for some in (aside, result):
                run.add(some)
                written += some.written
                filtered += some.filtered
                dropped += some.dropped
                dead += len(some.dead_letters)
            stamp = int(np.max(block.timestamps_ms, initial=-1))
            newest = stamp if stamp >= 0 and (newest is None or stamp > newest) else newest
            del block, left, result, aside  # or its bytes would be held until there is another one
        run.slices.append(SliceReport(piece, written, filtered, dead, dropped, fetcher.holes, newest))
    reach("records-written")
    return run
