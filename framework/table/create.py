"""A new table from what records showed: its schema, partition fields and properties, or the reason why it cannot be.

In: a TableNeed, the table's policy, the pipeline's hints and metadata columns. Out: CreateTable or Refusal. Columns
come in the order they were first seen (without those that `evolve.include` and `exclude` keep out), then hinted columns
no record had yet, then metadata columns; all optional, except hints that say `required`. Every partition column must be
among them: a table cannot be partitioned by it later without a second spec, so creation waits until it is seen or
declared. The columns of an upsert table's key are its identifier fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from framework.config.names.table_names import identifier_of
from framework.config.spec import FieldHint, NameCase, PartitionFieldSpec, TablePolicy
from framework.config.units import partition_text
from framework.config.values.transforms import TRANSFORMS
from framework.table.changes import CreateTable, Refusal
from framework.table.columns.details import with_details
from framework.table.columns.limit import CODE as TOO_WIDE
from framework.table.columns.limit import too_wide, within
from framework.table.columns.new_fields import FieldIds, build_type, children
from framework.table.model import ColumnDetail, ObservedType, TableNeed
from framework.table.partitions import order_of, spec_of, transform_of
from framework.table.policy.admitted import admitted_fields, most_columns
from framework.table.policy.metadata_columns import metadata_columns as filled_by_floe
from framework.table.policy.names import keeps_to_iceberg, named, with_column_names
from framework.table.policy.rules import may_create
from framework.table.readable import UNREADABLE, TableDefinition, faults, without_clashes
from framework.table.schema.types import (
    NANOSECONDS_SINCE,
    as_declared,
    declared_type,
    format_version,
    known_part,
    merge_spellings,
    without_nanoseconds,
)
from framework.table.upsert.keys import unordered


def plan_create(
    need: TableNeed, policy: TablePolicy, hints: Sequence[FieldHint], metadata_columns: Sequence[str]
) -> CreateTable | Refusal:
    """The table to create for a need, or why it must not be created."""
    if not may_create(policy):
        return Refusal(need.table, (), "the table does not exist and create.enabled is false", "FLOE-T101")
    insensitive = policy.case is NameCase.INSENSITIVE
    columns = _with_hints(_observed_columns(need, policy), hints, insensitive)
    if format_version(policy.create.properties) < NANOSECONDS_SINCE:
        columns = {name: without_nanoseconds(kind) for name, kind in columns.items()}
    filled = filled_by_floe(metadata_columns)
    # Until the end fields are called what records, hints and the policy call them.
    columns = named(columns, StructType(), policy, declared=True).fields
    columns.update(filled)
    if not columns:
        return Refusal(need.table, (), "no record so far has a field with a value, and none is declared", "FLOE-T103")
    ids = FieldIds(len(columns))
    fields = [
        NestedField(i, n, build_type(kind, ids), required=False) for i, (n, kind) in enumerate(columns.items(), 1)
    ]
    ours = {hint.path.split(".")[0] for hint in hints} | set(filled)
    # A record that asks for a column which is left out here learns so when it asks again.
    fields = without_clashes(fields, first=ours)
    if not fields:
        return Refusal(need.table, (), "its columns do not have different names", "FLOE-T109")
    most = most_columns(policy)
    fields = within(fields, (), most, first=ours)
    if not fields:
        return Refusal(need.table, (), too_wide(most), TOO_WIDE)
    identifiers = _identifiers(Schema(*fields), policy, need.table)
    if isinstance(identifiers, Refusal):
        return identifiers
    if (refused := _order_refused(Schema(*fields), policy, need.table)) is not None:
        return refused
    fields = [with_details(field, _details(need, policy), insensitive) for field in fields]
    schema = _with_hints_on_columns(fields, hints, identifiers, insensitive)
    made = Schema(*with_column_names(schema.fields, policy, filled), identifier_field_ids=sorted(identifiers))
    partition_by = []
    for wanted in policy.create.partition_by:
        found = _transformed_field(schema, made, wanted, need.table, insensitive, "partitioned")
        if isinstance(found, Refusal):
            return found
        partition_by.append(found)
    sort_by = []
    for order in policy.create.sort_by:
        found = _transformed_field(schema, made, order.by, need.table, insensitive, "sorted")
        if isinstance(found, Refusal):
            return found
        sort_by.append(replace(order, by=found))
    if keeps_to_iceberg(policy):
        version = format_version(policy.create.properties)
        wrong = faults(TableDefinition(made, (spec_of(made, partition_by),), (order_of(made, sort_by),), version))
        if wrong:
            return Refusal(need.table, wrong[0].path, wrong[0].why, UNREADABLE)
    return CreateTable(
        need.table,
        made.model_dump_json(),
        tuple(partition_by),
        _properties(policy),
        tuple(sort_by),
        location_of(policy.create.location, need.table),
    )


def _properties(policy: TablePolicy) -> tuple[tuple[str, str], ...]:
    comment = policy.create.comment
    return policy.create.properties if comment is None else (*policy.create.properties, ("comment", comment))


def location_of(pattern: str | None, table: str) -> str | None:
    """A table's own location: `{namespace}` with `/` between its parts, and `{table}`."""
    if pattern is None:
        return None
    namespace, _, name = identifier_of(table).rpartition(".")
    return pattern.replace("{namespace}", namespace.replace(".", "/")).replace("{table}", name)


def _identifiers(schema: Schema, policy: TablePolicy, table: str) -> frozenset[int] | Refusal:
    """The ids of the fields that identify rows, or why they cannot."""
    found = set()
    for path in policy.write.key or policy.create.identifier_fields:
        names = tuple(path.split("."))
        try:
            field = schema.find_field(path, case_sensitive=policy.case is not NameCase.INSENSITIVE)
        except ValueError:
            reason = (
                f"rows are identified by {path}, but no record so far has a value for it that can, such as text or a whole "
                "number; declare it under source.schema"
            )
            return Refusal(table, names, reason, "FLOE-T107")
        alone = field.field_type.is_primitive and field.field_id in _ids_inside(schema.as_struct())
        if not alone or isinstance(field.field_type, (FloatType, DoubleType)):
            reason = f"{path} is {field.field_type}, and in Iceberg floats, and fields inside lists or maps, cannot identify rows"
            return Refusal(table, names, reason, "FLOE-T108")
        found.add(field.field_id)
    return frozenset(found)


def _order_refused(schema: Schema, policy: TablePolicy, table: str) -> Refusal | None:
    """Why the column that is to say which record is newer cannot."""
    column = policy.write.order_field
    if column is None:
        return None
    try:
        field = schema.find_field(column, case_sensitive=policy.case is not NameCase.INSENSITIVE)
    except ValueError:
        reason = (
            f"{column} says which record is newer, but no record so far has a value for it that can, such as text or a whole "
            "number; declare it under source.schema"
        )
        return Refusal(table, (column,), reason, "FLOE-T107")
    reason_of_type = unordered(field)
    return Refusal(table, (column,), reason_of_type, "FLOE-T114") if reason_of_type is not None else None


def _details(need: TableNeed, policy: TablePolicy) -> dict[str, ColumnDetail]:
    """What schemas say of the columns. Of an upsert table the key alone is required: the image of a row need not be
    whole."""
    if not policy.write.is_upsert:
        return dict(need.details)
    return {path: ColumnDetail(detail.comment) for path, detail in need.details}


def _with_hints_on_columns(
    fields: Sequence[NestedField], hints: Sequence[FieldHint], identifiers: frozenset[int], insensitive: bool
) -> Schema:
    """The schema of the fields with the hints' comments, and with every column required that a hint or its being an
    identifier makes so."""
    by_path = {_fold(hint.path, insensitive): hint for hint in hints}

    def inside(kind: IcebergType, path: str) -> IcebergType:
        if isinstance(kind, StructType):
            return StructType(*(column(child, f"{path}.{child.name}") for child in kind.fields))
        if isinstance(kind, ListType):
            return ListType(kind.element_id, inside(kind.element_type, path), element_required=kind.element_required)
        if isinstance(kind, MapType):
            value = inside(kind.value_type, path)
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
        return kind

    def column(field: NestedField, path: str) -> NestedField:
        hint = by_path.get(_fold(path, insensitive))
        kind = inside(field.field_type, path)
        identifies = not identifiers.isdisjoint({field.field_id, *_ids_inside(kind)})
        required = field.required or identifies or (hint is not None and hint.required)
        comment = hint.comment if hint and hint.comment else field.doc
        return NestedField(field.field_id, field.name, kind, required=required, doc=comment)

    return Schema(*(column(field, field.name) for field in fields), identifier_field_ids=sorted(identifiers))


def _ids_inside(kind: IcebergType) -> set[int]:
    """The ids of the fields of a struct, at any depth of structs; a list or a map holds no identifier."""
    if not isinstance(kind, StructType):
        return set()
    return {field_id for child in kind.fields for field_id in (child.field_id, *_ids_inside(child.field_type))}


def _observed_columns(need: TableNeed, policy: TablePolicy) -> dict[str, ObservedType]:
    fields = admitted_fields(merge_spellings(need.fields, policy.case is NameCase.INSENSITIVE), policy)
    return {name: part for name, kind in fields.items() if (part := known_part(kind)) is not None}


def _with_hints(
    columns: dict[str, ObservedType], hints: Sequence[FieldHint], insensitive: bool
) -> dict[str, ObservedType]:
    """The columns with every hinted field in them at its declared type, also those no record has shown."""
    # What is declared of a struct as a whole stands below what is declared of one of its fields.
    for hint in sorted(hints, key=lambda hint: "<" not in hint.type):
        columns = _place(columns, hint.path.split("."), declared_type(hint.type), insensitive)
    return columns


def _place(
    columns: dict[str, ObservedType], path: list[str], kind: ObservedType, insensitive: bool
) -> dict[str, ObservedType]:
    name = next((n for n in columns if _fold(n, insensitive) == _fold(path[0], insensitive)), path[0])
    if len(path) == 1:
        present = columns.get(name)
        if isinstance(kind, list):
            return columns | {name: as_declared(kind, "null" if present is None else present, insensitive, whole=True)}
        # A hint on a list says what its elements are.
        return columns | {name: _in_lists(present, kind)}
    inner = columns.get(name, ["struct", []])
    if isinstance(inner, list) and inner[0] == "list":
        # Hints reach into lists of structs under the list's own path.
        element = inner[1] if isinstance(inner[1], (str, list)) else "null"
        placed = _place({name: element}, path, kind, insensitive)
        return columns | {name: ["list", placed[name]]}
    if isinstance(inner, list) and inner[0] == "map":
        placed = _place({name: inner[2]}, path, kind, insensitive)
        return columns | {name: ["map", inner[1], placed[name]]}
    if isinstance(inner, str):
        inner = ["struct", []]
    nested = _place(dict(children(inner)), path[1:], kind, insensitive)
    return columns | {name: ["struct", [[n, k] for n, k in nested.items()]]}


def _in_lists(present: ObservedType | None, kind: str) -> ObservedType:
    if isinstance(present, list) and present[0] == "list" and isinstance(present[1], (str, list)):
        return ["list", _in_lists(present[1], kind)]
    return kind


def _fold(name: str, insensitive: bool) -> str:
    return name.lower() if insensitive else name


def _transformed_field(
    schema: Schema, as_made: Schema, wanted: PartitionFieldSpec, table: str, insensitive: bool, made: str
) -> PartitionFieldSpec | Refusal:
    """A partition or sort field with its column as the table spells it, or why the table cannot have it."""
    path = tuple(wanted.column.split("."))
    known = TRANSFORMS.get(wanted.transform)
    if known is None or (wanted.argument is None) == bool(known.counts):
        return Refusal(table, path, f"{partition_text(wanted)} is not an Iceberg transform", "FLOE-T104")
    try:
        source = schema.find_field(wanted.column, case_sensitive=not insensitive)
    except ValueError:
        return Refusal(
            table,
            path,
            f"the table is {made} by {partition_text(wanted)}, but no record so far has a value for {wanted.column}; "
            "declare its type under source.schema",
            "FLOE-T105",
        )
    name = as_made.find_column_name(source.field_id) or wanted.column
    transform = transform_of(wanted)
    # PyIceberg cannot read the manifests of a table that is partitioned by nanoseconds as they are.
    nanoseconds = isinstance(source.field_type, (TimestampNanoType, TimestamptzNanoType))
    unreadable = made == "partitioned" and wanted.transform == "identity" and nanoseconds
    if isinstance(source.field_type, StructType) or unreadable or not transform.can_transform(source.field_type):
        return Refusal(
            table,
            path,
            f"{partition_text(wanted)} cannot take the type {source.field_type}; declare another type under source.schema "
            "or choose another transform",
            "FLOE-T106",
        )
    return PartitionFieldSpec(name, wanted.transform, wanted.argument)
