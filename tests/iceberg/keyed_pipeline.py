"""A pipeline with an upsert table, without Spark: for tests of what its tasks and its driver do."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from framework.adapters.iceberg.upsert.search import search
from framework.adapters.iceberg.upsert.target import upsert_target_of
from framework.adapters.maintenance.copy_on_write import copies_without
from framework.commit.events.event_types import Accounting, DataComplete, DataWritten
from framework.commit.machine.effects import Committed
from framework.config.spec import Deletes, KeyIndexUse, PartitionFieldSpec, TablePolicy, WriteMode, WritePolicy
from framework.plan.model import Plan
from framework.record.model import BlockResult, TaskRange, TaskRangeReport, TaskReport, UpsertRows
from framework.runtime.batches.batch import BatchScope, summarise
from framework.runtime.upsert.heads import UpsertHeads
from framework.table.schema.arrow import arrow_schema, parse_schema
from framework.table.upsert.key_index import Step
from framework.task.context import TaskContext
from framework.task.exchange import Outbox, make_receiver, sent_report
from framework.task.task_run import TaskRun
from framework.task.upsert.index_job import IndexedTable, Made, do_step
from framework.task.writer_tasks import exchange_numbers
from testbed.record_samples import plan as sample_plan
from testbed.record_samples import policy
from tests.iceberg.conftest import Lake

SCHEMA = Schema(
    NestedField(1, "shop", LongType(), required=True),
    NestedField(2, "code", StringType(), required=True),
    NestedField(3, "day", LongType(), required=False),
    NestedField(4, "name", StringType(), required=False),
    identifier_field_ids=[1, 2],
)
UPSERT = replace(policy(), write=WritePolicy(WriteMode.UPSERT, key=("code", "shop")))
SPECS: dict[str, list[PartitionFieldSpec]] = {
    "unpartitioned": [],
    "by a column that moves": [PartitionFieldSpec("day", "identity")],
    "by the key": [PartitionFieldSpec("code", "bucket", 3), PartitionFieldSpec("shop", "identity")],
}
Key = tuple[int, str]
Row = tuple[int, str] | None  # day and name; None: deleted
Change = tuple[int, Key, Row]  # the source's partition comes first


def together(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in two batches, as Spark puts the small ones of several tasks together."""
    if not batches:
        return []
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return [whole.slice(0, len(whole) // 2), whole.slice(len(whole) // 2)]


_SESSION: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


def _in_this_process(session: object, table: IndexedTable, steps: Sequence[Step]) -> list[Made]:
    """What `do_steps` gives, without Spark."""
    found = (do_step(table, step) for step in steps)
    return [each for each in found if each is not None]


def upserting(name: str, slices: int = 3, policy: TablePolicy = UPSERT) -> Plan:
    made = sample_plan(allow=("shop.*",), overrides=[(name, policy)])
    return replace(made, read=replace(made.read, slices=slices))


class Pipeline:
    """A run's driver and tasks without Spark, and the table's coordinator."""

    def __init__(
        self, lake: Lake, name: str, key_index: KeyIndexUse = KeyIndexUse.NEVER, deletes: Deletes = Deletes.AUTO
    ) -> None:
        self.policy = replace(UPSERT, write=replace(UPSERT.write, key_index=key_index, deletes=deletes))
        self.lake = lake
        self.name = name
        self.plan = upserting(name, policy=self.policy)
        self.restart()
        self.offsets = {("events", 0): 0, ("events", 1): 0}
        self.batch = 0
        self.rows: dict[Key, tuple[int, str]] = {}

    def restart(self) -> None:
        """As a new run of the pipeline, which knows only what it can read."""
        self.tables = UpsertHeads(self.plan, self.lake.tables)
        self.tables.indexes._do_work = _in_this_process

    def context(self) -> TaskContext:
        target = self.lake.tables.load_target(self.name, self.policy)
        assert target is not None
        return TaskContext(
            plan=self.plan,
            kafka={},
            io_properties=self.lake.tables.io_properties(),
            tables={self.name: target},
            topic_ids={"events": "id"},
            run="run",
            batch=self.batch,
            keyed=self.tables.load({self.name: target}),
        )

    def reports(
        self, context: TaskContext, changes: Sequence[Any], block: int = 3
    ) -> tuple[BatchScope, list[TaskReport]]:
        """What tasks report, one for each partition, with an exchange between them."""
        schema = arrow_schema(parse_schema(context.tables[self.name].schema_json))
        starts, sent, reports = dict(self.offsets), [], []
        for partition in (0, 1):
            own = [(key, row) for at, key, row in changes if at == partition]
            start = self.offsets["events", partition]
            run = TaskRun(context, outbox := Outbox(self.plan))
            for first in range(0, len(own), block):
                run.add(
                    BlockResult(keyed={self.name: self.keyed_rows(own[first : first + block], start + first, schema)}),
                    "events",
                    partition,
                )
            piece = TaskRange("events", "id", partition, start, start + len(own))
            run.slices.append(TaskRangeReport(piece, len(own), 0, 0, 0, 0, None))
            sent += [sent_report(pickle.dumps(run.finish())), *outbox.sent()]
            self.offsets["events", partition] += len(own)
        for receiver in range(self.plan.read.slices):
            number = exchange_numbers(self.plan.read.slices)[receiver]
            own_rows = [each for each in sent if each.column("place")[0].as_py() == number]
            for made in make_receiver(context)(together(own_rows)):
                reports.append(unpickled(made))
        self.batch += 1
        return BatchScope("run", self.batch, starts, dict(self.offsets), {"events": "id"}), reports

    def keyed_rows(self, changes: Sequence[tuple[Key, Any]], first: int, schema: pa.Schema) -> UpsertRows:
        """These changes of one partition as tasks read them, the first of them at this offset."""
        return keyed_rows(changes, first, schema)

    def announce(self, changes: Sequence[Any]) -> DataWritten:
        scope, reports = self.reports(self.context(), changes)
        self.tables.keep_indexes(_SESSION, reports)
        wait([known.job for known in self.tables.indexes._known.values() if known.job is not None])
        written, complete = summarise(self.plan, scope, reports, Accounting()).events
        assert isinstance(written, DataWritten)
        assert isinstance(complete, DataComplete)
        assert complete.accounting == Accounting(len(changes), len(changes), rows=len(changes))
        return written

    def do(self, changes: Sequence[Change]) -> DataWritten:
        """One batch, committed; afterwards the table holds what a fold of the changes holds."""
        before = dict(self.rows)
        written = self.announce(changes)
        assert written.keyed is not None
        self.commit(written)
        for _, key, row in sorted(changes, key=lambda change: change[0]):
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        inserted, updated, deleted = (
            len(self.rows.keys() - before.keys()),
            len({key for _, key, _ in changes} & self.rows.keys() & before.keys()),
            len(before.keys() - self.rows.keys()),
        )
        assert (written.keyed.inserted, written.keyed.updated, written.keyed.deleted) == (inserted, updated, deleted)
        self.check()
        return written

    def commit(self, written: DataWritten) -> None:
        """As the coordinator does, of the head as it is now."""
        assert written.keyed is not None
        effect = replace(self.lake.effect(self.name, written.files, self.batch), keyed=(written.keyed,))
        answer = self.lake.tables.commit(effect, copies_without)
        assert isinstance(answer, Committed), answer

    def check(self) -> None:
        found = self.lake.plain(self.name).scan().to_arrow().to_pylist()
        held = sorted((row["shop"], row["code"], row["day"], row["name"]) for row in found)
        assert held == sorted((*key, *row) for key, row in self.rows.items())

    def ids(self) -> dict[Key, int]:
        """By key the id of its live row, read from files and metadata."""
        table = self.lake.plain(self.name)
        target = self.lake.tables.load_target(self.name, UPSERT)
        assert target is not None
        base = upsert_target_of(table, target)
        keys = pa.Table.from_pylist([{"code": code, "shop": shop} for shop, code in self.rows])
        hits = search(table.io, list(base.files.by_path.values()), base.columns.of(base.key_ids), keys)
        found = {list(self.rows)[key]: int(row) for key, row in zip(hits.keys, hits.row_ids, strict=True)}
        assert len(found) == len(hits)
        return found


def unpickled(made: pa.RecordBatch) -> TaskReport:
    report = pickle.loads(made.column("report")[0].as_py())
    assert isinstance(report, TaskReport)
    return report


def keyed_rows(changes: Sequence[tuple[Key, Row]], first: int, schema: pa.Schema) -> UpsertRows:
    placed = list(enumerate(changes, first))
    upserts = [(offset, key, row) for offset, (key, row) in placed if row is not None]
    deletes = [(offset, key) for offset, (key, row) in placed if row is None]
    keys = pa.schema([schema.field("code"), schema.field("shop")])
    return UpsertRows(
        pa.Table.from_pylist([{"shop": k[0], "code": k[1], "day": r[0], "name": r[1]} for _, k, r in upserts], schema),
        np.array([offset for offset, _, _ in upserts], np.int64),
        pa.Table.from_pylist([{"shop": shop, "code": code} for _, (shop, code) in deletes], keys),
        np.array([offset for offset, _ in deletes], np.int64),
    )


def made(
    lake: Lake,
    version: str,
    spec: str,
    key_index: KeyIndexUse = KeyIndexUse.NEVER,
    deletes: Deletes = Deletes.AUTO,
) -> Pipeline:
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", SCHEMA, SPECS[spec], format_version=version)
    return Pipeline(lake, name, key_index, deletes)
