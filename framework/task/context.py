"""What every task of a stage is given, as values that pickle with its closure.

In: the driver's plan, settings and tables. Out: a TaskContext, and the slices that a task reads, by the number of its
work. No task asks the catalog or the driver for more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.adapters.telemetry.safe_output import guard_logging
from framework.commit.offsets import OffsetRange
from framework.plan.model import Plan
from framework.record.blocks.poison_records import PoisonRecord
from framework.record.formats.wire import SchemaRef, WriterSchema
from framework.record.model import RefusedUpdate, TableTarget, TaskRange

if TYPE_CHECKING:
    from framework.adapters.iceberg.upsert.target import UpsertTarget

guard_logging()  # a worker's log lines name records

# What each task of a stage reads.
Work = Sequence[Sequence[OffsetRange]]


@dataclass(frozen=True)
class TaskContext:
    """All that a task needs, as values: it talks to the broker and the store, never to the catalog or the driver."""

    plan: Plan
    kafka: dict[str, str] = field(repr=False)
    # By catalog, and by table where its catalog lends keys for it (`file_io.settings_of`).
    io_properties: dict[str, dict[str, str]] = field(repr=False)
    tables: dict[str, TableTarget]
    topic_ids: dict[str, str]
    run: str
    batch: int
    registries: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    # What the run's tasks have had from them: a process that is new asks for none of it, and reads on in an outage.
    schemas: dict[SchemaRef, WriterSchema] = field(default_factory=dict, repr=False)
    poison: tuple[PoisonRecord, ...] = ()  # records that ended a task (framework.task.probe)
    refused: tuple[RefusedUpdate, ...] = ()  # updates of this batch whose row is not there
    # Do without compiled modules, in small blocks: some task of this batch ended for no known reason.
    is_uncompiled: bool = False
    # An expression of `transform.sql` failed in this run: such records are distinguished from the others.
    is_sql_apart: bool = False
    is_trial: bool = False  # files are removed once they are written
    # Where live rows are, of each upsert table; for whoever writes them alone.
    keyed: dict[str, UpsertTarget] = field(default_factory=dict, repr=False)


def known_to_tasks(tables: Mapping[str, TableTarget]) -> dict[str, TableTarget]:
    """The tables as tasks need them: only the properties that they read, and each text that tables share only once. All
    of it travels to every task of every batch; for a thousand tables it would be megabytes."""
    texts: dict[str, str] = {}
    properties: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}

    def once(text: str) -> str:
        return texts.setdefault(text, text)

    def needed(found: Mapping[str, str]) -> dict[str, str]:
        # Others change with each commit, as those in which floe keeps account.
        wanted = tuple(sorted(item for item in found.items() if item[0].startswith("write.")))
        return properties.setdefault(wanted, dict(wanted))

    return {
        name: replace(
            table,
            schema_json=once(table.schema_json),
            spec_json=once(table.spec_json),
            sort_order_json=once(table.sort_order_json),
            properties=needed(table.properties),
        )
        for name, table in tables.items()
    }


def ranges_of(batches: Iterator[pa.RecordBatch], context: TaskContext, work: Work) -> Iterator[list[TaskRange]]:
    """What a task is to read, whose number came in."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield [TaskRange(s.topic, context.topic_ids[s.topic], s.partition, s.start, s.end) for s in work[number]]
