"""How an existing table must change for what records showed: columns added at any depth, types widened, columns
relaxed.

In: the table as examined (TableTarget) and a TableNeed. Out: AlterTable with the whole new schema, ids kept and new
ones above the last; None when nothing is needed any more (somebody else made the change); or a Refusal. Only additions,
Iceberg's own promotions and required to optional: never a drop, a rename or a reordering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from framework.config.spec import NameCase
from framework.table.changes import AddColumn, AlterTable, Refusal, RelaxColumn, SchemaChange, WidenColumn
from framework.table.columns.details import merge_details
from framework.table.columns.limit import CODE as TOO_WIDE
from framework.table.columns.limit import too_wide, within
from framework.table.columns.new_fields import FieldIds, build_field, children, element
from framework.table.model import ObservedType, TableNeed, TableTarget
from framework.table.partitions import partition_fields, specs
from framework.table.policy.admitted import most_columns
from framework.table.policy.names import named
from framework.table.policy.rules import rules_of
from framework.table.policy.words import Aspect
from framework.table.readable import UNREADABLE, TableDefinition, new_faults, without_clashes
from framework.table.schema.arrow import always_required, parse_schema
from framework.table.schema.types import known_part, merge_observed, merge_spellings, primitive_of, promotes


def merge_needs(needs: Sequence[TableNeed]) -> TableNeed:
    """One need for one table; earlier needs win where kinds contradict, so merge them in the order of their slices.

    Raises:
        ValueError: no needs, or of different tables.
    """
    if not needs or len({need.table for need in needs}) > 1:
        raise ValueError("merge_needs takes the needs of one table")
    fields: dict[str, ObservedType] = {}
    details = dict(needs[0].details)
    for need in needs[1:]:
        details = merge_details(details, dict(need.details))
    for need in needs:
        for name, kind in need.fields:
            fields[name] = merge_observed(fields[name], kind) if name in fields else kind
    optional = frozenset[tuple[str, ...]]().union(*(need.optional for need in needs))
    return TableNeed(needs[0].table, tuple(fields.items()), tuple(details.items()), optional)


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def plan_evolution(target: TableTarget, need: TableNeed) -> AlterTable | Refusal | None:
    """The change that lets the need's records in, under the table's policy."""
    schema = parse_schema(target.schema_json)
    try:
        planner, root = _wanted(schema, target, need)
    except _Refused as refused:
        return refused.refusal
    if not planner.changes:
        return None
    distinct = without_clashes(root.fields, schema.fields)
    most = most_columns(target.policy)
    columns = within(distinct, schema.fields, most)
    as_wanted = {field.name for field in root.fields if field in columns}
    changes = tuple(change for change in planner.changes if change.path[0] in as_wanted)
    if not changes:
        path = planner.changes[0].path
        if any(field.name == path[0] for field in root.fields if field in distinct):
            return Refusal(target.name, path, too_wide(most), TOO_WIDE)
        return Refusal(target.name, path, _clash(path), "FLOE-T109")
    changed = Schema(*columns, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
    if (unreadable := _unreadable(target, schema, columns)) is not None:
        return unreadable
    return AlterTable(
        table=target.name,
        table_uuid=target.table_uuid,
        base_schema_id=target.schema_id,
        last_column_id=target.last_column_id,
        schema_json=changed.model_dump_json(),
        changes=changes,
    )


def unmakeable(target: TableTarget, need: TableNeed) -> Refusal | None:
    """Why the table cannot have all columns that the need asks for: two of them would have one full name, or Iceberg's Java
    library could not read the table. None where it can, or where the policy or its width are what is in the way."""
    schema = parse_schema(target.schema_json)
    try:
        planner, root = _wanted(schema, target, need)
    except _Refused:
        return None  # for another reason, which its records are refused
    distinct = without_clashes(root.fields, schema.fields)
    left_out = {field.name for field in root.fields if field not in distinct}
    for change in planner.changes:
        if change.path[0] in left_out:
            return Refusal(target.name, change.path, _clash(change.path), "FLOE-T109")
    return _unreadable(target, schema, distinct) if planner.changes else None


def _unreadable(target: TableTarget, schema: Schema, columns: Sequence[NestedField]) -> Refusal | None:
    before = _definition(schema, target)
    wanted = Schema(*columns, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
    found = new_faults(replace(before, schema=wanted), before)
    return Refusal(target.name, found[0].path, found[0].why, UNREADABLE) if found else None


def _wanted(schema: Schema, target: TableTarget, need: TableNeed) -> tuple[_Planner, StructType]:
    """The changes that the need asks for, and the columns with them."""
    planner = _Planner(target, FieldIds(max(target.last_column_id, schema.highest_field_id)), need.optional)
    present = schema.as_struct()
    fields = merge_spellings(need.fields, target.policy.case is NameCase.INSENSITIVE)
    columns = named(fields, present, target.policy, partition_fields(target)).columns
    root = planner.struct(present, ["struct", [[name, kind] for name, kind in columns.items()]], ())
    return planner, StructType(*(planner.relaxed(child, (child.name,)) for child in root.fields))


def _definition(schema: Schema, target: TableTarget) -> TableDefinition:
    orders = (SortOrder.model_validate_json(target.sort_order_json),) if target.sort_order_json else ()
    return TableDefinition(schema, specs(target), orders, target.format_version)


def _clash(path: tuple[str, ...]) -> str:
    return f"another column has the full name {'.'.join(path)}, or a column inside it has"


@dataclass
class _Planner:
    target: TableTarget
    ids: FieldIds
    optional: frozenset[tuple[str, ...]]
    changes: list[SchemaChange] = field(default_factory=list)

    @property
    def _fold(self) -> Callable[[str], str]:
        return str.lower if self.target.policy.case is NameCase.INSENSITIVE else str

    def struct(self, kind: StructType, observed: ObservedType, path: tuple[str, ...]) -> StructType:
        fields = list(kind.fields)
        by_name = {self._fold(child.name): i for i, child in enumerate(fields)}
        for name, wanted in children(observed):
            at = by_name.get(self._fold(name))
            if at is not None:
                fields[at] = self._existing(fields[at], wanted, (*path, fields[at].name))
                continue
            part = known_part(wanted)
            if part is None:
                continue
            place = (*path, name)
            self._allow(Aspect.COLUMNS, place, "a new column")
            added = build_field(name, part, self.ids)
            by_name[self._fold(name)] = len(fields)
            fields.append(added)
            self.changes.append(AddColumn(place, str(added.field_type)))
        return StructType(*fields)

    def _existing(self, field_: NestedField, observed: ObservedType, path: tuple[str, ...]) -> NestedField:
        return _with(field_, self._type(field_.field_type, observed, path), field_.required)

    def relaxed(self, field_: NestedField, path: tuple[str, ...]) -> NestedField:
        """The field with every column below and including it optional that must be."""
        if not any(wanted[: len(path)] == path for wanted in self.optional):
            return field_
        required = field_.required
        if required and path in self.optional:
            self._allow(Aspect.NULLABILITY, path, "a missing value")
            if field_.field_id in always_required(parse_schema(self.target.schema_json)):
                reason = "an identifier field must stay required"
                raise _Refused(Refusal(self.target.name, path, reason, "FLOE-T203"))
            self.changes.append(RelaxColumn(path))
            required = False
        kind = field_.field_type
        if isinstance(kind, StructType):
            kind = StructType(*(self.relaxed(child, (*path, child.name)) for child in kind.fields))
        elif isinstance(kind, ListType):
            inner = self.relaxed(kind.element_field, (*path, "element"))
            kind = ListType(kind.element_id, inner.field_type, element_required=inner.required)
        elif isinstance(kind, MapType):
            inner = self.relaxed(kind.value_field, (*path, "value"))
            kind = MapType(kind.key_id, kind.key_type, kind.value_id, inner.field_type, value_required=inner.required)
        return _with(field_, kind, required)

    def _type(self, kind: IcebergType, observed: ObservedType, path: tuple[str, ...]) -> IcebergType:
        if isinstance(kind, StructType) and isinstance(observed, list) and observed[0] == "struct":
            return self.struct(kind, observed, path)
        if isinstance(kind, ListType) and isinstance(observed, list) and observed[0] == "list":
            inner = self._existing(kind.element_field, element(observed), (*path, "element"))
            return ListType(kind.element_id, inner.field_type, element_required=inner.required)
        if isinstance(kind, MapType) and isinstance(observed, list) and observed[0] == "map":
            value = self._existing(kind.value_field, element(observed), (*path, "value"))
            return MapType(kind.key_id, kind.key_type, kind.value_id, value.field_type, value_required=value.required)
        if isinstance(kind, PrimitiveType) and isinstance(observed, str) and observed != "null":
            wanted = promotion(kind, primitive_of(observed))
            if wanted is not None:
                self._allow(Aspect.DATA_TYPE, path, f"widening {kind} to {wanted}")
                self.changes.append(WidenColumn(path, str(kind), str(wanted)))
                return wanted
        # Another kind of value is no matter of the schema: the record is judged when it is converted.
        return kind

    def _allow(self, aspect: Aspect, path: tuple[str, ...], change: str) -> None:
        word = rules_of(self.target).refusing_word(aspect)
        if word is not None:
            reason = f"{change} is refused by evolve.{aspect.value}: {word.value}"
            raise _Refused(Refusal(self.target.name, path, reason, "FLOE-T201"))


def _with(field_: NestedField, kind: IcebergType, required: bool) -> NestedField:
    return NestedField(
        field_.field_id,
        field_.name,
        kind,
        required=required,
        doc=field_.doc,
        initial_default=field_.initial_default,
        write_default=field_.write_default,
    )


def promotion(present: IcebergType, wanted: IcebergType) -> PrimitiveType | None:
    """The wider type, if Iceberg promotes `present` to it."""
    return wanted if isinstance(wanted, PrimitiveType) and promotes(str(present), str(wanted)) else None
