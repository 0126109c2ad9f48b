"""Spark's exchange between decoding and writing: for tables with `distribution: hash` one writer a table and partition,
for upsert tables one writer a key.

In: the rows that tasks made for such tables, and their reports. Out: the same reports, and those of the writers, which
hold files and no slices. A task that needs a table changed sends no rows, so what is written belongs to tasks that are
done.
"""

from __future__ import annotations

import json
import pickle
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from framework.adapters.host.failpoints import meet_rows
from framework.adapters.host.memory import keep_large_blocks, release_after
from framework.adapters.store.counts import taken
from framework.adapters.waiting_pieces import Piece, WaitingPieces
from framework.config.spec import DistributionMode
from framework.plan.model import Plan
from framework.record.model import TableTarget, TaskReport, UpsertRows
from framework.record.rows.dictionary_text import plain_table
from framework.task.context import TaskContext
from framework.task.output import new_writer, remove_files, report_batch
from framework.task.reported_failure import reporting
from framework.task.upsert.changes import DELETE, PARTIAL, UPSERT, with_kept, with_positions
from framework.task.upsert.writer import UpsertWriter
from framework.task.writer_tasks import exchange_numbers, task_of

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyspark.sql import DataFrame

# What tasks send: a report, or rows of one table as an Arrow stream. `place` says which writer gets them; `change`
# says what rows of an upsert table do to it.
SENT_SCHEMA = "place int, report binary, table string, rows binary, change string"
_SENT = pa.schema(
    [
        ("place", pa.int32()),
        ("report", pa.binary()),
        ("table", pa.string()),
        ("rows", pa.binary()),
        ("change", pa.string()),
    ]
)
# Rows are sent in pieces of about this size: large enough for the exchange, small enough to be many in memory.
_PIECE_BYTES = 1024 * 1024
# Rows of all tables and writers that are not packed yet: of many, each may have less than a piece.
_UNPACKED_BYTES = 64 * 1024 * 1024
_COMPRESSION = "lz4"
_WORTH_COMPRESSING = 0.5


def exchange(frame: DataFrame, send: Callable[[Any], Iterator[Any]], context: TaskContext) -> DataFrame:
    """Run `send` (for `mapInArrow`, giving `SENT_SCHEMA`) on the frame, share out what it sends, and write it."""
    sent = frame.mapInArrow(reporting(send), SENT_SCHEMA)
    return sent.repartition(context.plan.read.slices, "place").mapInArrow(
        reporting(make_receiver(context)), "report binary"
    )


@lru_cache(maxsize=4096)
def _shape(spec_json: str, schema_json: str) -> tuple[PartitionSpec, Schema]:
    """Cached: a task adds rows of one table for each block that it reads."""
    from pyiceberg.partitioning import PartitionSpec

    from framework.table.schema.arrow import parse_schema

    return PartitionSpec.model_validate_json(spec_json), parse_schema(schema_json)


@dataclass(frozen=True)
class _Address:
    """`writer` is the number of a task behind the exchange."""

    writer: int
    table: str
    change: str | None = None


class Outbox:
    """The rows of one task for distributed tables, by table and writer, until the task is done; in memory within a bound.
    `sent_bytes` is how many bytes of rows were added."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tasks = plan.read.slices
        self._waiting: dict[_Address, tuple[list[pa.Table], int]] = {}
        self._unpacked = 0
        self._packed = WaitingPieces()
        self._pieces: list[tuple[_Address, Piece]] = []
        self.sent_bytes = 0
        # By table: its first piece decides. Of random keys and numbers it takes a tenth of the task's CPU, and saves a
        # third of the bytes.
        self._compression: dict[str, str | None] = {}

    def takes(self, table: str) -> bool:
        """Whether rows of the table, which are only added, go here; changes by key always do."""
        return self._plan.write.tables.policy_for(table).distribution is DistributionMode.HASH

    def add(self, target: TableTarget, rows: pa.Table) -> None:
        """Take rows of one table; they must have the file schema of `target`."""
        from framework.adapters.parquet.partition import partitions

        spec, schema = _shape(target.spec_json, target.schema_json)
        for partition in partitions(plain_table(rows), spec, schema):
            writer = task_of(json.dumps([target.name, *partition.values]), self._tasks)
            self._put(_Address(writer, target.name), partition.rows)

    def add_upsert(self, target: TableTarget, changes: UpsertRows, source: tuple[int, int]) -> None:
        """Take changes of an upsert table, with where they stood in the source.

        Args:
            source: the number of their topic among the pipeline's, by name, and their partition.
        """
        from framework.adapters.iceberg.upsert.target import key_ids_of
        from framework.adapters.parquet.key_places import key_places
        from framework.record.arrays import rows_by_number

        spec, schema = _shape(target.spec_json, target.schema_json)
        key_ids = key_ids_of(target)
        sent = [
            (UPSERT, changes.upserts, changes.upsert_offsets, changes.upsert_indexes),
            (DELETE, changes.deletes, changes.delete_offsets, changes.delete_indexes),
        ]
        if (partial := changes.partial) is not None:
            sent.append((PARTIAL, with_kept(partial), partial.offsets, partial.indexes))
        for change, rows, offsets, indexes in sent:
            if not len(rows):
                continue
            rows = plain_table(rows)
            places = key_places(rows, schema, spec, key_ids, self._tasks)
            order, bounds = rows_by_number(places)
            rows = with_positions(rows, source, offsets, indexes)
            for start, end in pairwise(bounds.tolist()):
                address = _Address(int(places[order[start]]), target.name, change)
                # A copy for each writer: what waits holds no block, and no rows of others.
                self._put(address, rows.take(pa.array(order[start:end])))

    def _put(self, address: _Address, rows: pa.Table) -> None:
        waiting, nbytes = self._waiting.get(address, ([], 0))
        waiting.append(rows)
        self._waiting[address] = (waiting, nbytes + rows.nbytes)
        self._unpacked += rows.nbytes
        self.sent_bytes += rows.nbytes
        if nbytes + rows.nbytes >= _PIECE_BYTES:
            self._pack(address)
        if self._unpacked > _UNPACKED_BYTES:
            for each in list(self._waiting):
                self._pack(each)

    def discard(self) -> None:
        self._waiting.clear()
        self._pieces.clear()
        self._packed.close()

    def sent(self) -> Iterator[pa.RecordBatch]:
        """Everything that was added; call once, at the end."""
        for address in list(self._waiting):
            self._pack(address)
        while self._pieces:
            address, piece = self._pieces.pop()
            number = exchange_numbers(self._tasks)[address.writer]
            yield _row(number, None, address.table, self._packed.take(piece), address.change)
        self._packed.close()

    def _pack(self, address: _Address) -> None:
        waiting, nbytes = self._waiting.pop(address)
        self._unpacked -= nbytes
        rows = pa.concat_tables(waiting).combine_chunks()
        compression = self._compression.get(address.table, _COMPRESSION)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
            stream.write_table(rows)
        packed = sink.getvalue()
        if address.table not in self._compression:
            is_worth_it = packed.size <= _WORTH_COMPRESSING * rows.nbytes
            self._compression[address.table] = _COMPRESSION if is_worth_it else None
        self._pieces.append((address, self._packed.put(packed)))


def sent_report(report: bytes) -> pa.RecordBatch:
    """A task's own report: it passes the exchange as it is."""
    return _row(0, report, None, None)


def _row(
    place: int, report: bytes | None, table: str | None, rows: pa.Buffer | None, change: str | None = None
) -> pa.RecordBatch:
    # Rows are taken as they lie: made from Python's bytes they would be copied twice.
    packed = pa.nulls(1, pa.binary()) if rows is None else _whole(rows)
    places, reports = pa.array([place], pa.int32()), pa.array([report], pa.binary())
    tables, changes = pa.array([table], pa.string()), pa.array([change], pa.string())
    return pa.RecordBatch.from_arrays([places, reports, tables, packed, changes], schema=_SENT)


def _whole(value: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(array("i", [0, value.size])), value])


def _each(values: pa.Array) -> Iterator[pa.Buffer]:
    """The values where they lie, nothing for null: a scalar of Arrow's would copy its bytes. An Arrow stream is some
    times eight bytes long, so the next one is aligned as well."""
    _, offsets, data = values.buffers()
    width = np.int64 if pa.types.is_large_binary(values.type) else np.int32  # as Spark's `arrow.useLargeVarTypes` says
    bounds = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1].tolist()
    whole = data or pa.py_buffer(b"")
    for start, end in pairwise(bounds):
        yield whole.slice(start, end - start)


def try_received(outbox: Outbox, context: TaskContext) -> None:
    """All that the writers behind the exchange do with what one task sent, and then their files are removed."""
    by_place: dict[int, list[pa.RecordBatch]] = {}
    for sent in outbox.sent():
        by_place.setdefault(sent.column("place")[0].as_py(), []).append(sent)
    receive = make_receiver(context)
    for batches in by_place.values():
        made = (pickle.loads(each.column("report")[0].as_py()) for each in receive(batches))
        remove_files(context, list(made))


def make_receiver(context: TaskContext):  # type: ignore[no-untyped-def]  # a closure for mapInArrow
    """What was sent to one writer in; the reports among it, and the writer's own, out."""

    def receive(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        keep_large_blocks()
        writer = new_writer(context)
        keyed = UpsertWriter(context, writer)
        records = 0
        for batch in batches:
            reports, tables, changes = (batch.column(name).to_pylist() for name in ("report", "table", "change"))
            for report, table, change, rows in zip(reports, tables, changes, _each(batch.column("rows")), strict=True):
                if report is not None:
                    yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], ["report"])
                elif change is not None:
                    records += keyed.add(table, change, rows)
                else:
                    received = pa.ipc.open_stream(rows).read_all()
                    meet_rows(received)
                    records += len(received)
                    writer.add(context.tables[table], received)
        parts = keyed.finish()
        files = writer.finish()
        parts = keyed.with_runs(parts)
        if files or parts:
            names = [*files, *(name for name in parts if name not in files)]
            targets = {name: (t.table_uuid, t.schema_id) for name in names for t in (context.tables[name],)}
            yield report_batch(
                TaskReport(
                    (), files, targets, {}, keyed.needs, None, parts, refused=tuple(keyed.refused), requests=taken()
                )
            )
        release_after(records)

    return receive
