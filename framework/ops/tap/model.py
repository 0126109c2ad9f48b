"""What a run would make of records that are in a topic now, one record at a time.

In: blocks of records, a plan, and the tables as their catalogs have them. Out: what becomes of each record, and what it is
at each stage. Decides nothing: decode, route, convert and the policies are the run's own (`framework.task.blocks`), and
what tables would have to become is decided as a run decides it, in memory. Nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.registry import PlanRegistries
from framework.errors import FloeError, StateDisagreement, TableBlocked
from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import joined, records_at
from framework.record.blocks.decoded import decoded_fields
from framework.record.model import BlockResult, DeadLetter, RecordBlock, TableTarget, timestamp_us
from framework.record.process import Sql
from framework.runtime.tables.owner import check_owner
from framework.runtime.tables.registry import reachable_tables
from framework.table.owner import OWNED
from framework.table.schema.arrow import parse_schema
from framework.task.blocks import BlockProcessor
from framework.task.context import TaskContext
from framework.testing.execute import settled
from framework.testing.tables import MemoryTables
from framework.testing.values import rows_of

RUN = "tap"


class RecordOutcome(str, Enum):
    """What becomes of a record. `FAILED`: the file says `fail`, so that a run would stop here."""

    WRITTEN = "written"
    DEAD_LETTER = "dead_letter"
    FAILED = "failed"
    DROPPED = "dropped"
    FILTERED = "filtered"


@dataclass(frozen=True)
class Change:
    """What one record does to one table; `action` is append, upsert or delete, a delete has its key alone."""

    table: str
    action: str
    row: dict[str, Any]


@dataclass(frozen=True)
class SampledRecord:
    """One record, and what becomes of it. `fields` is None where it cannot be decoded or has no value; `code` says why a
    record was dropped that is in error; `letter` is what a dead-letter table, or the error of a run, would say."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    fate: RecordOutcome
    fields: dict[str, Any] | None = None
    changes: tuple[Change, ...] = ()
    letter: DeadLetter | None = None
    code: str | None = None


@dataclass
class Tap:
    """Looks at blocks one after another. The tables stay as earlier blocks would have left them."""

    plan: Plan
    tables: MemoryTables
    registries: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    sql: Sql | None = None

    def samples(self, blocks: Sequence[RecordBlock]) -> list[SampledRecord]:
        """What becomes of each record, in the order of their times.

        Raises:
            RetriableError: the schema registry does not answer.
            ConfigError: the pipeline's SQL is refused.
        """
        self._settled(blocks)  # first together, as a batch: what tables must become does not depend on one record alone
        found = [one for block in blocks for one in self._of_block(block)]
        return sorted(found, key=lambda one: (one.timestamp_ms or -1, one.topic, one.partition, one.offset))

    def rows(self, blocks: Sequence[RecordBlock]) -> dict[str, pa.Table]:
        """The rows that blocks give to each table that is appended to."""
        found: dict[str, list[pa.Table]] = {}
        for result in self._settled(blocks):
            for table, rows in result.rows.items():
                found.setdefault(table, []).append(rows)
        return {table: pa.concat_tables(parts) for table, parts in found.items()}

    def _of_block(self, block: RecordBlock) -> Iterator[SampledRecord]:
        schemas = PlanRegistries(self.registries, self.plan.decode).schemas(block)
        fields = decoded_fields(block, self.plan, self.tables.targets, schemas)
        for place in range(len(block)):
            (result,) = self._settled([records_at(block, [place])])
            at_us = timestamp_us(block.timestamps_ms[place])
            yield SampledRecord(
                block.topic,
                block.partition,
                block.offsets[place],
                None if at_us is None else at_us // 1000,
                block.key(place),
                block.values[place],
                _fate(result),
                fields.get(place),
                tuple(self._changes(result)),
                result.failure or next(iter(result.dead_letters), None),
                next(iter(result.dropped_for), None),
            )

    def _settled(self, blocks: Sequence[RecordBlock]) -> list[BlockResult]:
        results = settled(blocks, self.plan, self.tables, self._process)
        if results is None:
            raise FloeError(
                "the records asked for table changes again and again",
                code="FLOE-R325",
                place=self.plan.source_file,
                remedy="report this with the pipeline file",
            )
        return results

    def _process(self, block: RecordBlock, plan: Plan) -> BlockResult:
        context = TaskContext(plan, {}, {}, self.tables.targets, {}, RUN, 0, self.registries, is_uncompiled=True)
        return joined(list(BlockProcessor(context, sql=self.sql).results(block)))

    def _changes(self, result: BlockResult) -> Iterator[Change]:
        for table, rows in result.rows.items():
            yield from (Change(table, "append", row) for row in rows_of(rows, self._schema(table)))
        for table, changes in result.keyed.items():
            yield from (Change(table, "upsert", row) for row in rows_of(changes.upserts, self._schema(table)))
            if (partial := changes.partial) is not None:
                yield from (Change(table, "update", row) for row in rows_of(partial.rows, self._schema(table)))
            yield from (Change(table, "delete", row) for row in rows_of(changes.deletes, self._schema(table)))

    def _schema(self, table: str) -> Any:
        return parse_schema(self.tables.targets[table].schema_json)


def _fate(result: BlockResult) -> RecordOutcome:
    if result.failure is not None:
        return RecordOutcome.FAILED
    if result.dead_letters:
        return RecordOutcome.DEAD_LETTER
    if result.dropped:
        return RecordOutcome.DROPPED
    return RecordOutcome.FILTERED if result.filtered else RecordOutcome.WRITTEN


def tables_now(plan: Plan, catalog: IcebergTables) -> MemoryTables:
    """The tables that the plan may reach, as they are now; one that cannot be used is refused, as in a run.

    Raises:
        FloeError: the catalog does not answer.
    """
    found: list[TableTarget] = []
    refused: list[tuple[str, str]] = []
    foreign: list[tuple[str, str]] = []
    for name in reachable_tables(plan, catalog):
        if name == plan.write.dead_letter_table:
            continue
        try:
            target = catalog.load_target(name, plan.write.tables.policy_for(name))
            if target is not None:
                check_owner(plan, target)
        except FloeError as error:
            if not isinstance(error, TableBlocked | StateDisagreement) and error.code != "FLOE-R135":
                raise
            (foreign if error.code == OWNED else refused).append((name, error.message))
            continue
        if target is not None:
            found.append(target)
    return MemoryTables(plan, (), found, tuple(refused), tuple(foreign))
