"""How an existing table must change for what records showed: columns added at any depth, types widened, columns relaxed.

In: the table as examined (TableTarget) and a TableNeed. Out: AlterTable with the whole new schema, ids kept and new ones
above the last; None when nothing is needed any more (somebody else made the change); or a Refusal. Only additions,
Iceberg's own promotions and required to optional: never a drop, a rename or a reordering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
)

from framework.config.spec import Case, EvolveMode
from framework.table.arrow_schema import parse_schema
from framework.table.build import FieldIds, build_field, children, element
from framework.table.changes import AddColumn, AlterTable, Refusal, RelaxColumn, SchemaChange, WidenColumn
from framework.table.details import merge_details
from framework.table.model import ObservedType, TableNeed, TableTarget
from framework.table.types import known_part, merge_observed, merge_spellings, primitive_of, promotes


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
    return TableNeed(needs[0].table, tuple(fields.items()), tuple(details.items()))


class _Refused(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def plan_evolution(target: TableTarget, need: TableNeed) -> AlterTable | Refusal | None:
    """The change that lets the need's records in, under the table's policy."""
    schema = parse_schema(target.schema_json)
    planner = _Planner(target, FieldIds(max(target.last_column_id, schema.highest_field_id)))
    fields = merge_spellings(need.fields, target.policy.case is Case.INSENSITIVE)
    try:
        root = planner.struct(schema.as_struct(), ["struct", [[name, kind] for name, kind in fields.items()]], ())
    except _Refused as refused:
        return refused.refusal
    if not planner.changes:
        return None
    changed = Schema(*root.fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)
    return AlterTable(
        table=target.name,
        table_uuid=target.table_uuid,
        base_schema_id=target.schema_id,
        last_column_id=target.last_column_id,
        schema_json=changed.model_dump_json(),
        changes=tuple(planner.changes),
    )


@dataclass
class _Planner:
    target: TableTarget
    ids: FieldIds
    changes: list[SchemaChange] = field(default_factory=list)

    @property
    def _fold(self) -> Callable[[str], str]:
        return str.lower if self.target.policy.case is Case.INSENSITIVE else str

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
            self._allow(
                self.target.policy.evolve.columns, (EvolveMode.EVOLVE,), (*path, name), "columns", "a new column"
            )
            added = build_field(name, part, self.ids)
            by_name[self._fold(name)] = len(fields)
            fields.append(added)
            self.changes.append(AddColumn((*path, name), str(added.field_type)))
        return StructType(*fields)

    def _existing(self, field_: NestedField, observed: ObservedType, path: tuple[str, ...]) -> NestedField:
        required = field_.required
        if observed == "null":
            if required:
                allowed = (EvolveMode.RELAX, EvolveMode.EVOLVE)
                self._allow(self.target.policy.evolve.nullability, allowed, path, "nullability", "a missing value")
                if field_.field_id in parse_schema(self.target.schema_json).identifier_field_ids:
                    raise _Refused(
                        Refusal(self.target.name, path, "an identifier field must stay required", "FLOE-T203")
                    )
                self.changes.append(RelaxColumn(path))
                required = False
            return field_.model_copy(update={"required": required})
        kind = self._type(field_.field_type, observed, path)
        return NestedField(
            field_.field_id,
            field_.name,
            kind,
            required=required,
            doc=field_.doc,
            initial_default=field_.initial_default,
            write_default=field_.write_default,
        )

    def _type(self, kind: IcebergType, observed: ObservedType, path: tuple[str, ...]) -> IcebergType:
        if isinstance(kind, StructType) and isinstance(observed, list) and observed[0] == "struct":
            return self.struct(kind, observed, path)
        if isinstance(kind, ListType) and isinstance(observed, list) and observed[0] == "list":
            inner = self._existing(kind.element_field, element(observed), (*path, "element"))
            return ListType(kind.element_id, inner.field_type, element_required=inner.required)
        if isinstance(kind, MapType):
            if not (isinstance(observed, list) and observed[0] == "map"):
                return kind
            value = self._existing(kind.value_field, observed[2], (*path, "value"))
            return MapType(kind.key_id, kind.key_type, kind.value_id, value.field_type, value_required=value.required)
        if isinstance(kind, PrimitiveType) and isinstance(observed, str):
            wanted = _promotion(kind, primitive_of(observed))
            if wanted is not None:
                allowed = (EvolveMode.WIDEN, EvolveMode.EVOLVE)
                change = f"widening {kind} to {wanted}"
                self._allow(self.target.policy.evolve.data_type, allowed, path, "data_type", change)
                self.changes.append(WidenColumn(path, str(kind), str(wanted)))
                return wanted
        # Another kind of value is no matter of the schema: the record is judged when it is converted.
        return kind

    def _allow(
        self, mode: EvolveMode, allowed: tuple[EvolveMode, ...], path: tuple[str, ...], aspect: str, change: str
    ) -> None:
        if mode not in allowed:
            reason = f"{change} is refused by evolve.{aspect}: {mode.value}"
            raise _Refused(Refusal(self.target.name, path, reason, "FLOE-T201"))


def _promotion(present: PrimitiveType, wanted: IcebergType) -> PrimitiveType | None:
    """The wider type, if Iceberg promotes `present` to it."""
    return wanted if isinstance(wanted, PrimitiveType) and promotes(str(present), str(wanted)) else None
