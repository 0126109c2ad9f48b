"""Upsert tables, as one block sees them: which records delete, where those that do go, and where all
of them go as well.

In: the plan and the tables of a block. Out: for each such table a second target, with the key columns and the one that
orders records alone, and for its history, where it has one, a target for each thing that a record does; all of them by
their destinations. A record that deletes takes the same ways as any other, so its key is converted exactly as a row's is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from pyiceberg.schema import Schema

from framework.config.spec import (
    DeleteWhen,
    Envelope,
    NameCase,
    RouteCondition,
    TablePolicy,
    TablesSpec,
    Updates,
    WritePolicy,
)
from framework.plan.model import Plan
from framework.record.convert.nested import fold
from framework.record.destination import Destination, RecordOperation, deletes_of, partial_rows_of
from framework.table.model import TableTarget
from framework.table.policy.delete_policy import delete_policy
from framework.table.schema.arrow import parse_schema

DEBEZIUM_DELETES = DeleteWhen("__op", "d")


def delete_when(write: WritePolicy, envelope: Envelope) -> DeleteWhen | None:
    """What makes a record of the table a delete; an envelope of change events says it without a word of the
    pipeline file."""
    if not write.is_upsert:
        return None
    says_it = envelope in (Envelope.DEBEZIUM, Envelope.FIELDS)
    return write.delete_when or (DEBEZIUM_DELETES if says_it else None)


@dataclass(frozen=True)
class UpsertTables:
    """
    Attributes:
        targets: the second targets.
        fields: the paths that tell whether a record deletes.
        takes_tombstones: whether a record without a value may delete.
        are_partial: whether updates of some table have the changed columns alone.
        histories: by table that of its changes.
        refused: histories that cannot be written now, and why.
    """

    tables: TablesSpec
    envelope: Envelope
    targets: Mapping[Destination, TableTarget]
    fields: frozenset[str]
    takes_tombstones: bool
    histories: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    are_partial: bool = False

    def write(self, table: str) -> WritePolicy:
        known = self.targets.get(deletes_of(table))
        return (known.policy if known is not None else self.tables.policy_for(table)).write

    def delete_when(self, table: str) -> DeleteWhen | None:
        return delete_when(self.write(table), self.envelope)

    def condition(self, table: str) -> RouteCondition | None:
        """What a record's field must be for the record to delete; None where no field says it."""
        said = self.delete_when(table)
        return None if said is None or said.field is None else RouteCondition(said.field, said.equals)

    def history_of(self, to: Destination) -> Destination | None:
        """Where in the history of its table a row or a delete goes as well; None where there is no history."""
        history = self.histories.get(to.table)
        operation = RecordOperation.LOG_DELETE if to.is_delete else RecordOperation.LOG_UPSERT
        return None if history is None else Destination(history, operation)

    def deletes_by_tombstone(self, table: str) -> bool:
        said = self.delete_when(table)
        return said is not None and said.field is None


def upsert_tables(plan: Plan, tables: Mapping[str, TableTarget]) -> UpsertTables | None:
    """None where no table may be an upsert table."""
    spec = plan.write.tables
    policies = (spec.defaults, *(policy for _, policy in spec.overrides), *(each.policy for each in tables.values()))
    writes = [policy.write for policy in policies if policy.write.is_upsert]
    if not writes:
        return None
    # No rule leads to the dead-letter table: its rows are made elsewhere, and are never of a key.
    targets = {
        deletes_of(name): delete_target(target)
        for name, target in tables.items()
        if target.policy.write.is_upsert and name != plan.write.dead_letter_table
    }
    targets |= {
        partial_rows_of(name): partial_target(target)
        for name, target in tables.items()
        if deletes_of(name) in targets and target.policy.write.keeps_old_values
    }
    histories = {spec.full_name(each.of): spec.full_name(each.table) for each in spec.histories}
    for history in histories.values():
        if history in tables:
            for operation in (RecordOperation.LOG_UPSERT, RecordOperation.LOG_DELETE):
                targets[Destination(history, operation)] = tables[history]
    refused = {name: why for name, why in plan.route.refused_tables if name in histories.values()}
    envelope = plan.decode.format.envelope
    said = [when for write in writes if (when := delete_when(write, envelope)) is not None]
    fields = frozenset(when.field for when in said if when.field is not None)
    takes_tombstones = any(when.field is None for when in said)
    are_partial = any(write.updates is Updates.PARTIAL for write in writes)
    return UpsertTables(spec, envelope, targets, fields, takes_tombstones, histories, refused, are_partial)


def key_columns(names: Iterable[str], policy: TablePolicy) -> tuple[str, ...]:
    """Of these names those of the key, as they are spelled there, in the order of the policy's key."""
    return _spelled(names, policy.write.key, policy)


def order_column(names: Iterable[str], policy: TablePolicy) -> str | None:
    """Of these names the column whose larger value is newer; None where the source's own order holds."""
    field = policy.write.order_field
    return next(iter(_spelled(names, (field,), policy)), None) if field is not None else None


def needed_columns(names: Iterable[str], policy: TablePolicy) -> tuple[str, ...]:
    """Of these names those that each record of the table has a value for: the key's, then the one that orders."""
    return _spelled(names, policy.write.needed, policy)


def _spelled(names: Iterable[str], wanted: Iterable[str], policy: TablePolicy) -> tuple[str, ...]:
    insensitive = policy.case is NameCase.INSENSITIVE
    spelled: dict[str, str] = {}
    for name in names:
        spelled.setdefault(fold(name, insensitive), name)
    return tuple(spelled[folded] for each in wanted if (folded := fold(each, insensitive)) in spelled)


def absent_columns(names: Iterable[str], policy: TablePolicy) -> list[str]:
    """The columns that each record must have a value for, in order, that none of these names is."""
    insensitive = policy.case is NameCase.INSENSITIVE
    present = {fold(name, insensitive) for name in names}
    return [each for each in policy.write.needed if fold(each, insensitive) not in present]


def delete_target(target: TableTarget) -> TableTarget:
    """The second target of a table: its key columns, and the one that orders records, as they are."""
    return replace(
        target,
        schema_json=_schema_of_deletes(target.schema_json, target.policy.write.needed, target.policy.case),
        policy=delete_policy(target.policy),
    )


@lru_cache(maxsize=1024)
def _schema_of_deletes(schema_json: str, columns: tuple[str, ...], case: NameCase) -> str:
    schema = parse_schema(schema_json)
    policy = TablePolicy(case=case, write=WritePolicy(key=columns))
    by_name = {field.name: field for field in schema.fields}
    return Schema(*(by_name[name] for name in key_columns(by_name, policy))).model_dump_json()


def partial_target(target: TableTarget) -> TableTarget:
    """The third target of a table: all of its columns, of which the key's alone are required, and what orders records."""
    return replace(
        target, schema_json=_schema_of_partial_rows(target.schema_json, target.policy.write.needed, target.policy.case)
    )


@lru_cache(maxsize=1024)
def _schema_of_partial_rows(schema_json: str, needed: tuple[str, ...], case: NameCase) -> str:
    schema = parse_schema(schema_json)
    names = set(_spelled((field.name for field in schema.fields), needed, TablePolicy(case=case)))
    fields = (
        field
        if field.name in names or field.field_id in schema.identifier_field_ids
        else field.model_copy(update={"required": False})
        for field in schema.fields
    )
    return Schema(*fields, identifier_field_ids=schema.identifier_field_ids).model_dump_json()
