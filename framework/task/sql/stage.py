"""The stage cut in three for `transform.sql`: decode to Arrow rows, Spark SQL, then route, convert and write.

In: the frame of spans, the SQL text and the TaskContext. Out: pickled TaskReports, as from the fused stage. The SQL may
only project and filter, row by row, so that invariant 8 can hold: what SQL removed is `filtered`, known by the offsets
that were decoded and did not arrive. A hidden column carries each record's position and bytes through the SQL.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.adapters.host.failpoints import meet
from framework.commit.events.event_types import DataFile
from framework.metrics.store_requests import total
from framework.record.arrays import Ints
from framework.record.blocks.bisect_failures import joined
from framework.record.blocks.poison_records import set_aside
from framework.record.compiled import be_uncompiled
from framework.record.formats.wire import SchemaRef, WriterSchema
from framework.record.model import (
    BlockResult,
    DeadLetter,
    RecordBlock,
    TableNeed,
    TaskRange,
    TaskRangeReport,
    TaskReport,
)
from framework.record.sql.accounting import Packed, pack, removed, unpack
from framework.record.sql.failure import split
from framework.table.evolve import merge_needs
from framework.task.context import TaskContext, Work, ranges_of
from framework.task.exchange import Outbox, exchange, sent_report
from framework.task.reported_failure import reporting
from framework.task.sql.select import (
    HIDDEN,
    HIDDEN_TYPE,
    has_condition,
    schema_of_source,
    spark_schema,
    transformed,
    transformed_apart,
)
from framework.task.task_run import TaskRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PartitionCounts = dict[tuple[str, int], "Arrived"]


@dataclass
class Arrived:
    """What became of the rows of one topic-partition that came out of the SQL."""

    offsets: list[Packed] = field(default_factory=list)
    written: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped_for: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class TaskRangeNote:
    """What decoding a slice found, beside its rows. `early` holds what never reached the SQL, `decoded` the offsets of
    what did."""

    task_range: TaskRange
    early: BlockResult
    decoded: Packed
    holes: int
    newest_ms: int | None
    learned: dict[SchemaRef, WriterSchema]


def run_sql_stage(numbers: DataFrame, work: Work, sql: str, context: TaskContext) -> TaskReport:
    """Decode, transform and write one batch; the report covers all of it.

    The decoded rows are cached, because each slice's note (how many records it had) and its rows are read by two jobs.

    Raises:
        ConfigError: the SQL does more than project and filter.
    """
    schema = schema_of_source(context.plan)
    decoded = numbers.mapInArrow(reporting(make_decoder(context, work, schema)), spark_schema(schema)).persist()
    try:
        if context.is_sql_apart:
            rows, may_remove = transformed_apart(decoded, sql)
        else:
            source = decoded.where(f"{HIDDEN}.note IS NULL")
            rows = transformed(source, sql)
            may_remove = has_condition(rows, source)
        notes = decoded.where(f"{HIDDEN}.note IS NOT NULL").select(f"{HIDDEN}.note")
        early = notes.mapInArrow(reporting(make_note_writer(context)), "report binary").collect()
        if context.plan.is_distributed and not context.is_trial:
            late = exchange(rows, make_writer(context, sending=True), context).collect()
        else:
            late = rows.mapInArrow(reporting(make_writer(context)), "report binary").collect()
    finally:
        decoded.unpersist()
    arrived = [pickle.loads(bytes(row[0])) for row in late]
    # A writer behind the exchange gives a report of its files alone: it counted nothing.
    arrived = [each if isinstance(each, tuple) else (each, {}) for each in arrived]
    return combine([pickle.loads(bytes(row[0])) for row in early], arrived, may_remove)


def make_decoder(context: TaskContext, work: Work, schema: pa.Schema):  # type: ignore[no-untyped-def]  # for mapInArrow
    """The number of a piece of the work in; decoded rows out, and one note a slice."""

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for pieces in ranges_of(batches, context, work):
            yield from decode_ranges(pieces, context, schema)

    return decode


def decode_ranges(pieces: list[TaskRange], context: TaskContext, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from framework.adapters.kafka.fetch import RangeFetcher
    from framework.adapters.registry import PlanRegistries
    from framework.record.process import decode_block

    pa.set_cpu_count(1)
    be_uncompiled(context.is_uncompiled)
    fetcher, registries = (
        RangeFetcher(context.kafka, most_record_bytes=context.plan.read.max_record_bytes),
        PlanRegistries(context.registries, context.plan.decode, context.schemas),
    )
    for task_range in pieces:
        early, newest = BlockResult(), -1
        decoded: list[Ints] = []
        for block in fetcher.fetch(task_range, context.plan.decode.block_records):
            newest = max(newest, block.newest_ms())
            schemas = registries.schemas(block)
            if context.poison or block.unread:
                block, aside = set_aside(block, context.poison, context.plan, context.tables)
                early = joined([early, aside])
                if not len(block):
                    continue
            meet(block.values)
            rows, result = decode_block(block, context.plan, context.tables, schemas)
            early.dead_letters += result.dead_letters
            early.dropped += result.dropped
            early.dropped_for += result.dropped_for
            if len(rows):
                decoded.append(np.asarray(block.offsets, np.int64)[rows.column(HIDDEN).to_numpy()])
                yield from carry(block, rows, schema).to_batches()
        note = TaskRangeNote(
            task_range, early, pack(decoded), fetcher.holes, newest if newest >= 0 else None, registries.learned
        )
        yield note_batch(note, schema)


def carry(block: RecordBlock, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The decoded rows with the hidden column: each record's position and bytes."""
    at = rows.column(HIDDEN).to_pylist()
    hidden = [
        {
            "slice": 0,
            "topic": block.topic,
            "partition": block.partition,
            "offset": block.offsets[i],
            "timestamp_ms": block.timestamps_ms[i],
            "key": block.key(i),
            "value": block.values[i],
            "headers": [{"key": k, "value": v} for k, v in block.headers_of(i) or ()],
            "note": None,
        }
        for i in at
    ]
    columns = [rows.column(f.name).cast(f.type) for f in schema if f.name != HIDDEN]
    return pa.Table.from_arrays([*columns, pa.array(hidden, HIDDEN_TYPE)], schema=schema)


def note_batch(note: TaskRangeNote, schema: pa.Schema) -> pa.RecordBatch:
    hidden = pa.array([{"note": pickle.dumps(note)}], HIDDEN_TYPE)
    columns = [hidden if f.name == HIDDEN else pa.nulls(1, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def make_note_writer(context: TaskContext):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """Notes in; the records that failed before the SQL are written as dead letters; a report and the notes out."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = TaskRun(context)
        notes: list[TaskRangeNote] = []
        for batch in batches:
            for value in batch.column(0).to_pylist():
                note: TaskRangeNote = pickle.loads(value)
                run.add(note.early)
                notes.append(note)
        yield pickled((run.finish(), notes))

    return write


def make_writer(context: TaskContext, sending: bool = False):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """Rows after the SQL in; a report and the records counted per topic-partition out, and with `sending` the rows of
    distributed tables."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from framework.record.sql.transform import process_selected

        pa.set_cpu_count(1)
        outbox = Outbox(context.plan) if sending else None
        run = TaskRun(context, outbox)
        counts: PartitionCounts = {}
        for batch in batches:
            for block, rows in blocks(pa.Table.from_batches([batch])):
                result = process_selected(block, *split(rows, HIDDEN), context.plan, context.tables)
                run.add(result)
                arrived = counts.setdefault((block.topic, block.partition), Arrived())
                arrived.offsets.append(pack([np.array(block.offsets, np.int64)]))
                arrived.written += result.written
                arrived.dropped += result.dropped
                arrived.dead_lettered += len(result.dead_letters)
                arrived.letters.update((dead_letter.stage, dead_letter.code) for dead_letter in result.dead_letters)
                arrived.dropped_for += result.dropped_for
        report = (run.finish(), counts)
        if outbox is None:
            yield pickled(report)
        else:
            yield sent_report(pickle.dumps(report))
            yield from outbox.sent()

    return write


def pickled(value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(value)], pa.binary())], ["report"])


def combine(
    early: list[tuple[TaskReport, list[TaskRangeNote]]],
    late: list[tuple[TaskReport, PartitionCounts]],
    may_remove: bool,
) -> TaskReport:
    """One report for the batch: per topic-partition one slice, `filtered` being what was decoded and did not arrive.

    Raises:
        AccountingError: the rows that came out of the SQL are not rows that went in, each once.
    """
    reports = [report for report, _ in early] + [report for report, _ in late]
    failure: DeadLetter | None = next((r.failure for r in reports if r.failure), None)
    needs: dict[str, TableNeed] = {}
    files: dict[str, list[DataFile]] = {}
    targets: dict[str, tuple[str, int]] = {}
    rows: dict[str, int] = {}
    for report in reports:
        for name, need in report.needs.items():
            needs[name] = merge_needs([needs[name], need]) if name in needs else need
        for name, written in report.files.items():
            files.setdefault(name, []).extend(written)
        for name, count in report.rows.items():
            rows[name] = rows.get(name, 0) + count
        targets.update(report.targets)
    notes: dict[tuple[str, int], list[TaskRangeNote]] = {}
    for _, group in early:
        for note in group:
            notes.setdefault((note.task_range.topic, note.task_range.partition), []).append(note)
    slices = tuple(
        _slice(group, [counts[key] for _, counts in late if key in counts], may_remove)
        for key, group in sorted(notes.items())
    )
    for topic, partition in {key for _, counts in late for key in counts} - set(notes):
        stray = [counts[topic, partition].offsets for _, counts in late if (topic, partition) in counts]
        removed(f"{topic}-{partition}", [], map(unpack, chain(*stray)), may_remove)
    requests = total(report.requests for report in reports)
    learned = {ref: schema for _, group in early for note in group for ref, schema in note.learned.items()}
    if needs or failure:
        return TaskReport(slices, {}, {}, {}, needs, failure, requests=requests, learned=learned)
    return TaskReport(slices, files, targets, rows, {}, None, requests=requests, learned=learned)


def _slice(notes: list[TaskRangeNote], arrived: list[Arrived], may_remove: bool) -> TaskRangeReport:
    first = min(notes, key=lambda note: note.task_range.start).task_range
    end = max(note.task_range.end for note in notes)
    decoded, out = [note.decoded for note in notes], chain(*(a.offsets for a in arrived))
    return TaskRangeReport(
        TaskRange(first.topic, first.topic_id, first.partition, first.start, end),
        written=sum(a.written for a in arrived),
        filtered=removed(f"{first.topic}-{first.partition}", map(unpack, decoded), map(unpack, out), may_remove),
        dead_lettered=sum(a.dead_lettered for a in arrived) + sum(len(note.early.dead_letters) for note in notes),
        dropped=sum(a.dropped for a in arrived) + sum(note.early.dropped for note in notes),
        holes=sum(note.holes for note in notes),
        max_timestamp_ms=max((n.newest_ms for n in notes if n.newest_ms is not None), default=None),
        letters=sum(
            (a.letters for a in arrived), Counter((x.stage, x.code) for note in notes for x in note.early.dead_letters)
        ),
        dropped_for=sum((a.dropped_for for a in arrived), sum((n.early.dropped_for for n in notes), Counter[str]())),
    )


def blocks(rows: pa.Table) -> Iterator[tuple[RecordBlock, pa.Table]]:
    """Rows that arrived from SQL, as blocks of one topic-partition each with `__floe` as index into the block."""
    hidden = rows.column(HIDDEN).to_pylist()
    groups: dict[tuple[str, int], list[int]] = {}
    for index, record in enumerate(hidden):
        groups.setdefault((record["topic"], record["partition"]), []).append(index)
    for (topic, partition), indices in groups.items():
        picked = [hidden[i] for i in indices]
        block = RecordBlock(
            topic,
            partition,
            [r["value"] for r in picked],
            [r["offset"] for r in picked],
            [r["timestamp_ms"] for r in picked],
            [r["key"] for r in picked],
            [[(h["key"], h["value"]) for h in r["headers"] or ()] for r in picked],
        )
        table = rows.take(pa.array(indices, pa.int64())).drop_columns([HIDDEN])
        yield block, table.append_column(HIDDEN, pa.array(range(len(indices)), pa.int32()))
