"""One block of records as every task does it, whether the records are a batch's or dead letters that are replayed.

In: a block and a TaskContext. Out: what became of its records, and the sum of a slice. Decides nothing:
`framework.record` says what becomes of every record. Keeps invariant 8 per slice by counting what became of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from framework.adapters.host.failpoints import meet
from framework.adapters.registry import PlanRegistries
from framework.record.blocks.poison_records import set_aside
from framework.record.formats.wire import SchemaRef, WriterSchema
from framework.record.model import BlockResult, RecordBlock, TaskRange, TaskRangeReport
from framework.record.process import Sql, process_block_into, process_with_sql
from framework.record.state.block_tables import BlockTables
from framework.task.context import TaskContext


class BlockProcessor:
    """Decodes, routes and converts blocks.

    Args:
        scatter: as in `process_block_into`: whether rows of tables that are alike may be given unsorted.
        sql: runs `transform.sql` on rows that are here already; None where the plan has none.
    """

    def __init__(self, context: TaskContext, scatter: bool = False, sql: Sql | None = None) -> None:
        self._context = context
        self._scatter = scatter
        self._sql = sql
        self._registries = PlanRegistries(context.registries, context.plan.decode, context.schemas)
        self._tables = BlockTables(context.plan, context.tables)

    @property
    def learned(self) -> dict[SchemaRef, WriterSchema]:
        """The schemas that registries were asked for."""
        return self._registries.learned

    def results(self, block: RecordBlock) -> Sequence[BlockResult]:
        """What became of the block: of the records that are set aside, and of the others.

        Raises:
            RetriableError: the schema registry does not answer.
        """
        context = self._context
        schemas = self._registries.schemas(block)
        left, aside = block, BlockResult()
        if context.poison or context.refused or block.unread:
            left, aside = set_aside(block, context.poison, context.plan, context.tables, context.refused)
        meet(left.values)
        if not len(left):
            return (aside,)
        if self._sql is not None:
            return aside, process_with_sql(left, context.plan, context.tables, self._sql, schemas)
        encode = not context.is_uncompiled
        return aside, process_block_into(left, self._tables, schemas, encode=encode, scatter=self._scatter)


@dataclass
class TaskRangeSum:
    """What became of a slice's records so far."""

    written: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    newest_ms: int = -1
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped_for: Counter[str] = field(default_factory=Counter)

    def add(self, result: BlockResult) -> None:
        self.written += result.written
        self.filtered += result.filtered
        self.dead_lettered += len(result.dead_letters)
        self.dropped += result.dropped
        self.letters.update((dead_letter.stage, dead_letter.code) for dead_letter in result.dead_letters)
        self.dropped_for.update(result.dropped_for)

    def see(self, block: RecordBlock) -> None:
        """Keep the time of the newest record."""
        self.newest_ms = max(self.newest_ms, block.newest_ms())

    def report(self, task_range: TaskRange, holes: int) -> TaskRangeReport:
        newest_ms = self.newest_ms if self.newest_ms >= 0 else None
        return TaskRangeReport(
            task_range,
            self.written,
            self.filtered,
            self.dead_lettered,
            self.dropped,
            holes,
            max_timestamp_ms=newest_ms,
            letters=self.letters,
            dropped_for=self.dropped_for,
        )
