"""Tables in memory: created and changed by the same pure decisions as in a job, without a catalog.

In: what records need (TableNeed), and perhaps tables as a catalog has them. Out: targets to process the records with, and
tables that cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.plan.model import Plan
from framework.record.model import TableNeed, TableTarget
from framework.table.changes import AlterTable, Refusal
from framework.table.columns.new_fields import FieldIds, build_type
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.in_memory import altered_in_memory, made_in_memory
from framework.table.schema.arrow import parse_schema
from framework.table.schema.types import declared_type
from framework.table.trouble import frozen

Given = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


class MemoryTables:
    """The tables of one case. `partition_by`, `sort_by` and `created` tell of those that the case's records made. `found`
    are tables that are there, `refused` those that cannot be made or written, and why; `owned_by_others`
    are those of other pipelines."""

    def __init__(
        self,
        plan: Plan,
        given: Given,
        found: Iterable[TableTarget] = (),
        refused: tuple[tuple[str, str], ...] = (),
        owned_by_others: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._plan = plan
        self.targets: dict[str, TableTarget] = {target.name: target for target in found}
        self.created: list[str] = []
        self.refused = refused
        self.owned_by_others = owned_by_others
        self.partition_by: dict[str, tuple[PartitionFieldSpec, ...]] = {}
        self.sort_by: dict[str, tuple[SortFieldSpec, ...]] = {}
        for table, columns in given:
            ids = FieldIds(len(columns))
            fields = [
                NestedField(i, name, build_type(declared_type(kind), ids)) for i, (name, kind) in enumerate(columns, 1)
            ]
            self._add(table, Schema(*fields))

    def satisfy(self, need: TableNeed) -> None:
        """Make the table able to hold what was seen. As in a run, a table that cannot be made is added to `refused`,
        and its records fail; where a change is refused, the records that ask for it fail."""
        target = self.targets.get(need.table)
        if target is None:
            if reason := self._create(need):
                self.refused = (*self.refused, (need.table, reason))
            return
        change = plan_evolution(target, need)
        if isinstance(change, AlterTable):
            self.targets[need.table] = altered_in_memory(target, change)
        if isinstance(change, Refusal) and target.frozen:
            self.refused = (*self.refused, (need.table, change.reason))
        elif isinstance(change, Refusal):
            self.targets[need.table] = frozen(target, change.reason)

    def _create(self, need: TableNeed) -> str:
        """Make the table; returns why it cannot be made, or ""."""
        plan = self._plan
        limit = plan.route.max_new_tables_per_hour
        if len(self.created) >= limit:
            return f"routes.max_new_tables_per_hour is {limit}, and that many were created within the last hour"
        policy = plan.write.tables.policy_for(need.table)
        change = plan_create(need, policy, plan.hints_of(need.table), plan.metadata_columns_of(need.table))
        if isinstance(change, Refusal):
            return f"{'.'.join(change.path)}: {change.reason}" if change.path else change.reason
        self._add(need.table, parse_schema(change.schema_json), change.partition_by)
        self.created.append(need.table)
        self.partition_by[need.table] = change.partition_by
        self.sort_by[need.table] = change.sort_by
        return ""

    def _add(self, table: str, schema: Schema, partition_by: tuple[PartitionFieldSpec, ...] = ()) -> None:
        policy = self._plan.write.tables.policy_for(table)
        self.targets[table] = made_in_memory(table, schema, policy, partition_by)
