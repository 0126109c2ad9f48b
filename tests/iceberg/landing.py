"""Records into real tables of a real catalog, as driver, tasks and coordinator do it between them, without a broker.

In: a lake, a pipeline's policy and records, batch after batch. Out: tables with the records' rows, committed, and the
codes of those that are dead letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import FieldHint, RouteRule, TablePolicy
from framework.record.model import BlockResult, TableTarget
from framework.record.process import process_block
from framework.table.changes import AlterTable, CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from testbed.record_samples import block, plan
from tests.iceberg.conftest import Lake

Way = Callable[..., BlockResult]
MOST_ROUNDS = 8


@dataclass
class Landing:
    """One table of a lake. `letters` are the codes of dead letters by offset; `refusals` what was not done to the table."""

    lake: Lake
    name: str
    policy: TablePolicy
    hints: Sequence[FieldHint] = ()
    way: Way = process_block
    letters: dict[int, str] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    _offset: int = 0
    _commits: int = 0

    def take(self, *values: object) -> None:
        """Land one batch."""
        made = plan([RouteRule(self.name)], hints=self.hints, defaults=self.policy, allow=["*"])
        records = block(values, first_offset=self._offset)
        self._offset += len(values)
        for _ in range(MOST_ROUNDS):
            target = self.lake.tables.load_target(self.name, self.policy)
            result = self.way(records, made, {} if target is None else {self.name: target})
            if not result.needs:
                break
            for need in result.needs.values():
                change = (
                    plan_create(need, self.policy, self.hints, ()) if target is None else plan_evolution(target, need)
                )
                if isinstance(change, CreateTable):
                    self.lake.tables.create_table(change)
                elif isinstance(change, AlterTable):
                    assert self.lake.tables.alter_table(change)
                else:
                    assert isinstance(change, Refusal), "the record asks for what is there"
                    self.refusals.append(change)
                    return
        else:
            raise AssertionError(f"a table that must change again and again: {result.needs}")
        self.letters |= {letter.offset: letter.code for letter in result.dead_letters}
        for _, rows in result.rows.items():
            assert target is not None
            self._commit(target, rows)

    def _commit(self, target: TableTarget, rows: object) -> None:
        self._commits += 1
        writer = TableWriter(self.lake.tables.io_properties(), "p", "run", self._commits, 1 << 28, 1 << 28)
        writer.add(target, rows)
        files = writer.finish()[self.name]
        answer = self.lake.tables.commit(self.lake.effect(self.name, files, self._commits))
        assert isinstance(answer, Committed), answer

    def columns(self) -> list[str]:
        """The full names of the table's columns."""
        return list(self.lake.plain(self.name).schema().column_names)
