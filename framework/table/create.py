"""A new table from what records showed: its schema, partition fields and properties, or the reason why it cannot be.

In: a TableNeed, the table's policy, the pipeline's hints and metadata columns. Out: CreateTable or Refusal. Columns come in
the order they were first seen, then hinted columns no record had yet, then metadata columns; all optional, except hints
that say `required`. Every partition column must be among them: a table cannot be partitioned by it later without a
second spec, so creation waits until it is seen or declared.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import NestedField, StructType

from framework.config.metadata import metadata_column, metadata_type
from framework.config.spec import Case, FieldHint, PartitionFieldSpec, TablePolicy
from framework.table.build import FieldIds, build_type, children
from framework.table.changes import CreateTable, Refusal
from framework.table.details import with_details
from framework.table.model import ObservedType, TableNeed
from framework.table.types import known_part, merge_spellings, primitive_type

_TRANSFORMS = frozenset({"identity", "bucket", "truncate", "year", "month", "day", "hour"})
_WITH_ARGUMENT = frozenset({"bucket", "truncate"})


def plan_create(
    need: TableNeed, policy: TablePolicy, hints: Sequence[FieldHint], metadata_columns: Sequence[str]
) -> CreateTable | Refusal:
    """The table to create for a need, or why it must not be created."""
    if not policy.create.enabled:
        return Refusal(need.table, (), "the table does not exist and create.enabled is false", "FLOE-T101")
    insensitive = policy.case is Case.INSENSITIVE
    columns = _with_hints(_observed_columns(need, insensitive), hints, insensitive)
    for name in metadata_columns:
        columns[metadata_column(name)] = metadata_type(name)
    if not columns:
        return Refusal(need.table, (), "no record has shown a field with a value, and none is declared", "FLOE-T103")
    required = {hint.path for hint in hints if hint.required}
    ids = FieldIds(len(columns))
    fields = [
        NestedField(i, name, build_type(kind, ids), required=name in required)
        for i, (name, kind) in enumerate(columns.items(), 1)
    ]
    schema = Schema(*(with_details(field, dict(need.details), insensitive) for field in fields))
    partition_by = []
    for wanted in policy.create.partition_by:
        found = _partition_field(schema, wanted, need.table, insensitive)
        if isinstance(found, Refusal):
            return found
        partition_by.append(found)
    return CreateTable(need.table, schema.model_dump_json(), tuple(partition_by), policy.create.properties)


def _observed_columns(need: TableNeed, insensitive: bool) -> dict[str, ObservedType]:
    fields = merge_spellings(need.fields, insensitive)
    return {name: part for name, kind in fields.items() if (part := known_part(kind)) is not None}


def _with_hints(
    columns: dict[str, ObservedType], hints: Sequence[FieldHint], insensitive: bool
) -> dict[str, ObservedType]:
    """The columns with every hinted field in them at its declared type, also those no record has shown."""
    for hint in hints:
        columns = _place(columns, hint.path.split("."), str(primitive_type(hint.type)), insensitive)
    return columns


def _place(columns: dict[str, ObservedType], path: list[str], kind: str, insensitive: bool) -> dict[str, ObservedType]:
    name = next((n for n in columns if _fold(n, insensitive) == _fold(path[0], insensitive)), path[0])
    if len(path) == 1:
        present = columns.get(name)
        # A hint on a list says what its elements are.
        return columns | {name: _in_lists(present, kind)}
    inner = columns.get(name, ["struct", []])
    if isinstance(inner, list) and inner[0] == "list":
        # Hints reach into lists of structs under the list's own path.
        element = inner[1] if isinstance(inner[1], (str, list)) else "null"
        placed = _place({name: element}, path, kind, insensitive)
        return columns | {name: ["list", placed[name]]}
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


def _partition_field(
    schema: Schema, wanted: PartitionFieldSpec, table: str, insensitive: bool
) -> PartitionFieldSpec | Refusal:
    """The partition field with its column as the schema spells it, or why the table cannot have it."""
    path = tuple(wanted.column.split("."))
    if wanted.transform not in _TRANSFORMS or (wanted.argument is None) == (wanted.transform in _WITH_ARGUMENT):
        return Refusal(table, path, f"{_text(wanted)} is no Iceberg partition transform", "FLOE-T104")
    try:
        source = schema.find_field(wanted.column, case_sensitive=not insensitive)
    except ValueError:
        return Refusal(
            table,
            path,
            f"the table is partitioned by {_text(wanted)}, and no record has shown a value for {wanted.column}; "
            "declare its type under source.schema",
            "FLOE-T105",
        )
    name = schema.find_column_name(source.field_id) or wanted.column
    transform = parse_transform(
        f"{wanted.transform}[{wanted.argument}]" if wanted.transform in _WITH_ARGUMENT else wanted.transform
    )
    if isinstance(source.field_type, StructType) or not transform.can_transform(source.field_type):
        return Refusal(
            table,
            path,
            f"{_text(wanted)} cannot take the type {source.field_type}; declare another type under source.schema "
            "or choose another transform",
            "FLOE-T106",
        )
    return PartitionFieldSpec(name, wanted.transform, wanted.argument)


def _text(wanted: PartitionFieldSpec) -> str:
    if wanted.transform == "identity":
        return wanted.column
    argument = "" if wanted.argument is None else f"{wanted.argument}, "
    return f"{wanted.transform}({argument}{wanted.column})"
