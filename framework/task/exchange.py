"""Spark's exchange between decoding and writing, for tables with `distribution: hash`: one writer a table and partition.

In: the rows that tasks made for such tables, and their reports. Out: the same reports, and those of the writers, which hold
files and no slices. A task that needs a table changed sends no rows, so what is written belongs to tasks that are done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.adapters.memory import release_memory
from framework.config.spec import Distribution
from framework.plan.model import Plan
from framework.record.model import TableTarget, TaskReport
from framework.record.rows.dictionary_text import plain_table
from framework.task.context import TaskContext
from framework.task.output import new_writer, report_batch

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame

# What tasks send: a report, or rows of one table as an Arrow stream. `place` decides which writer gets them.
SENT_SCHEMA = "place string, report binary, table string, rows binary"
_SENT = pa.schema([("place", pa.string()), ("report", pa.binary()), ("table", pa.string()), ("rows", pa.binary())])
# Rows are sent in pieces of about this size: large enough for the exchange, small enough to be many in memory.
_PIECE_BYTES = 1024 * 1024


def exchange(frame: DataFrame, send: Callable[..., object], context: TaskContext) -> DataFrame:
    """Run `send` (for `mapInArrow`, giving `SENT_SCHEMA`) on the frame, share out what it sends, and write it."""
    sent = frame.mapInArrow(send, SENT_SCHEMA)
    return sent.repartition(context.plan.read.slices, "place").mapInArrow(make_receiver(context), "report binary")


@lru_cache(maxsize=4096)
def _shape(spec_json: str, schema_json: str) -> tuple[PartitionSpec, Schema]:
    """Cached: a task adds rows of one table for each block that it reads."""
    from pyiceberg.partitioning import PartitionSpec

    from framework.table.arrow_schema import parse_schema

    return PartitionSpec.model_validate_json(spec_json), parse_schema(schema_json)


class Outbox:
    """The rows of one task for distributed tables, by table and partition, until the task is done."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._waiting: dict[str, tuple[str, list[pa.Table], int]] = {}
        self._pieces: list[tuple[str, str, bytes]] = []

    def takes(self, table: str) -> bool:
        return self._plan.write.tables.policy_for(table).distribution is Distribution.HASH

    def add(self, target: TableTarget, rows: pa.Table) -> None:
        """Take rows of one table; they must have the file schema of `target`."""
        from framework.adapters.parquet.partition import partitions

        spec, schema = _shape(target.spec_json, target.schema_json)
        for partition in partitions(plain_table(rows), spec, schema):
            place = json.dumps([target.name, *partition.values])
            _, waiting, nbytes = self._waiting.get(place, (target.name, [], 0))
            waiting.append(partition.rows)
            self._waiting[place] = (target.name, waiting, nbytes + partition.rows.nbytes)
            if nbytes + partition.rows.nbytes >= _PIECE_BYTES:
                self._pack(place)

    def discard(self) -> None:
        self._waiting.clear()
        self._pieces.clear()

    def sent(self) -> Iterator[pa.RecordBatch]:
        """Everything that was added; call once, at the end."""
        for place in list(self._waiting):
            self._pack(place)
        while self._pieces:
            place, table, rows = self._pieces.pop()
            yield _row(place, None, table, rows)

    def _pack(self, place: str) -> None:
        table, waiting, _ = self._waiting.pop(place)
        rows = pa.concat_tables(waiting).combine_chunks()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            stream.write_table(rows)
        self._pieces.append((place, table, sink.getvalue().to_pybytes()))


def sent_report(report: bytes) -> pa.RecordBatch:
    """A task's own report: it passes the exchange as it is."""
    return _row("", report, None, None)


def _row(place: str, report: bytes | None, table: str | None, rows: bytes | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"place": place, "report": report, "table": table, "rows": rows}], _SENT)


def make_receiver(context: TaskContext):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """What was sent to one writer in; the reports among it, and the writer's own, out."""

    def receive(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        writer = new_writer(context)
        for batch in batches:
            for row in batch.to_pylist():
                if row["report"] is not None:
                    yield pa.RecordBatch.from_arrays([pa.array([row["report"]], pa.binary())], ["report"])
                else:
                    rows = pa.ipc.open_stream(row["rows"]).read_all()
                    writer.add(context.tables[row["table"]], rows)
        files = writer.finish()
        if files:
            targets = {name: (t.table_uuid, t.schema_id) for name in files for t in (context.tables[name],)}
            yield report_batch(TaskReport((), files, targets, {}, {}, None))
        release_memory()

    return receive
