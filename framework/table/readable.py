"""Whether Iceberg's Java library, and Spark with it, can write and read a table that is defined so.

In: a schema, all partition specs, sort orders and the format version of a table, as they are wanted. Out: what is wrong
with them, and of columns that are wanted those that have names of their own. The rules are those of the Java library
1.11 and 1.12 (`PartitionSpec.Builder`, `Schema`, `SortOrder`, `MetadataColumns`, `AvroSchemaUtil`, `InternalReader`).
Every definition that floe makes passes `faults`, before it is asked for and where it is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_id, index_by_name
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import Transform, UnknownTransform, VoidTransform
from pyiceberg.types import (
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from framework.config.names.column_names import (
    LAST_FIELD_ID,
    SUFFIX,
    TOP,
    SiblingNames,
    file_names,
    prefixes_inside,
    prefixes_of,
)

# What a definition is refused for that Java could not read.
UNREADABLE = "FLOE-T115"
Chain = tuple[int, ...]
_SINCE_VERSION_3 = (TimestampNanoType, TimestamptzNanoType, UnknownType, GeometryType, GeographyType)


@dataclass(frozen=True)
class TableDefinition:
    """A table as its metadata defines it. `specs` and `orders` are all there are; the current ones come first."""

    schema: Schema
    specs: tuple[PartitionSpec, ...] = ()
    orders: tuple[SortOrder, ...] = ()
    format_version: int = 2

    @property
    def partition_fields(self) -> frozenset[str]:
        """The names of the partition fields of all specs."""
        return frozenset(field.name for spec in self.specs for field in spec.fields)


@dataclass(frozen=True)
class Fault:
    """`path` is the column's full path, with `element` and `value` of lists and maps; () where it is about none.
    `is_name`: the column would do under another name."""

    path: tuple[str, ...]
    why: str
    is_name: bool = False

    def __str__(self) -> str:
        return f"column {'.'.join(self.path)!r}: {self.why}" if self.path else self.why


def faults(definition: TableDefinition) -> tuple[Fault, ...]:
    """Everything for which a reader or writer of Java's would refuse the table; () where it is sound."""
    found = list(_names(definition.schema.as_struct(), TOP, ()))
    full = _by_name(definition.schema)
    if full is None:
        # What follows looks columns up by their names.
        return (*found, Fault((), "two columns have the same full name"))
    fields = index_by_id(definition.schema)
    chains = dict(_chains(definition.schema.as_struct(), ()))
    found += _types(fields, chains, definition)
    found += _identifiers(definition.schema, fields, chains)
    for number, spec in enumerate(_specs_of(definition)):
        found += _spec(spec, fields, chains, full, is_current=number == 0)
    for order in definition.orders[:1]:
        found += _order(order, fields)
    return tuple(found)


def with_names_repaired(definition: TableDefinition) -> tuple[Schema, dict[tuple[str, ...], str]]:
    """The schema under names that can be read, ids and all else as they are, and what each renamed column is called by
    its path. The name is that by which later records find the column (`framework.table.policy.names`), unless another
    column has it."""
    wrong = {fault.path for fault in faults(definition) if fault.is_name}
    renamed: dict[tuple[str, ...], str] = {}

    def struct(kind: StructType, prefixes: tuple[str, ...], path: tuple[str, ...]) -> StructType:
        siblings = SiblingNames(prefixes, definition.partition_fields)
        names = [each.name for each in kind.fields if (*path, each.name) not in wrong]
        for name in names:
            siblings.add(name)
        found = []
        for each in kind.fields:
            here, name = (*path, each.name), each.name
            if here in wrong:
                name = siblings.renamed(name)
                while name in names:
                    name = siblings.renamed(name + SUFFIX)
                names.append(name)
                siblings.add(name)
                renamed[here] = name
            inner = inside(each.field_type, prefixes_of(prefixes, name), here)
            found.append(each.model_copy(update={"name": name, "field_type": inner}))
        return StructType(*found)

    def inside(kind: IcebergType, prefixes: tuple[str, ...], path: tuple[str, ...]) -> IcebergType:
        if isinstance(kind, StructType):
            return struct(kind, prefixes, path)
        if isinstance(kind, ListType):
            below = prefixes_inside(prefixes, "element", kind.element_type.is_struct)
            element = inside(kind.element_type, below, (*path, "element"))
            return ListType(kind.element_id, element, element_required=kind.element_required)
        if isinstance(kind, MapType):
            below = prefixes_inside(prefixes, "value", kind.value_type.is_struct)
            value = inside(kind.value_type, below, (*path, "value"))
            return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required)
        return kind

    schema = definition.schema
    root = struct(schema.as_struct(), TOP, ())
    return Schema(*root.fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids), renamed


def _specs_of(definition: TableDefinition) -> tuple[PartitionSpec, ...]:
    """Those that a reader meets: all of them, since files of old ones may be there."""
    return definition.specs


def new_faults(wanted: TableDefinition, before: TableDefinition | None) -> tuple[Fault, ...]:
    """Those of a changed definition that the table does not have already: what is broken is no worse for a change beside
    it."""
    known = set(faults(before)) if before is not None else set()
    return tuple(fault for fault in faults(wanted) if fault not in known)


def _names(struct: StructType, prefixes: tuple[str, ...], path: tuple[str, ...]) -> Iterator[Fault]:
    siblings = SiblingNames(prefixes)
    for field in struct.fields:
        here = (*path, field.name)
        if why := siblings.said(field.name):
            yield Fault(here, why, is_name=True)
        siblings.add(field.name)
        kind, below, inside = field.field_type, prefixes_of(prefixes, field.name), here
        while isinstance(kind, (ListType, MapType)):
            word = "element" if isinstance(kind, ListType) else "value"
            held = kind.element_type if isinstance(kind, ListType) else kind.value_type
            below, inside = prefixes_inside(below, word, held.is_struct), (*inside, word)
            if isinstance(kind, MapType) and isinstance(kind.key_type, StructType):
                yield from _names(kind.key_type, prefixes_of(prefixes, "key"), (*inside[:-1], "key"))
            kind = held
        if isinstance(kind, StructType):
            yield from _names(kind, below, inside)


def _by_name(schema: Schema) -> Mapping[str, int] | None:
    """The ids of columns by all their full names; None where two have the same."""
    try:
        return index_by_name(schema)
    except ValueError:
        return None


def _types(
    fields: Mapping[int, NestedField], chains: Mapping[int, Chain], definition: TableDefinition
) -> Iterator[Fault]:
    for field in fields.values():
        path = _path(field.field_id, fields, chains)
        if field.field_id > LAST_FIELD_ID:
            yield Fault(path, f"Iceberg keeps the field id {field.field_id} for itself")
        if definition.format_version >= 3:
            continue
        if isinstance(field.field_type, _SINCE_VERSION_3):
            yield Fault(path, f"{field.field_type} needs format version 3")
        if field.initial_default is not None:
            yield Fault(path, "a default for rows that lack the column needs format version 3")


def _identifiers(schema: Schema, fields: Mapping[int, NestedField], chains: Mapping[int, Chain]) -> Iterator[Fault]:
    for field_id in schema.identifier_field_ids:
        field = fields.get(field_id)
        if field is None:
            yield Fault((), f"rows are identified by field {field_id}, which is no column")
            continue
        kind = field.field_type
        if not kind.is_primitive or isinstance(kind, (FloatType, DoubleType)):
            yield Fault((field.name,), f"it identifies rows, which {kind} cannot")
        for each in chains[field_id]:
            if fields[each].optional or (each != field_id and not isinstance(fields[each].field_type, StructType)):
                yield Fault(
                    (field.name,), "it identifies rows, and it or what it is in is optional, or in a list or map"
                )
                break


def _chains(kind: IcebergType, above: Chain) -> Iterator[tuple[int, Chain]]:
    """By a field's id its own and those of what it is in, the outermost first."""
    inner: tuple[NestedField, ...] = ()
    if isinstance(kind, StructType):
        inner = kind.fields
    elif isinstance(kind, ListType):
        inner = (kind.element_field,)
    elif isinstance(kind, MapType):
        inner = (kind.key_field, kind.value_field)
    for field in inner:
        chain = (*above, field.field_id)
        yield field.field_id, chain
        yield from _chains(field.field_type, chain)


def _spec(
    spec: PartitionSpec,
    fields: Mapping[int, NestedField],
    chains: Mapping[int, Chain],
    full: Mapping[str, int],
    is_current: bool,
) -> Iterator[Fault]:
    files: set[str] = set()
    for field in spec.fields:
        if not _own_name(field.name, files):
            yield Fault((), f"the name of partition field {field.name!r} is empty, or not its own in files")
        files |= file_names(field.name)
        column = _taken_by(field, full)
        if column is not None:
            yield Fault(_path(column, fields, chains), "a partition field of the table has this name", is_name=True)
        source = fields.get(field.source_id)
        if isinstance(field.transform, VoidTransform):
            continue
        if source is not None:
            yield from _partition(field, source, fields, chains, is_current)
        elif is_current:
            yield Fault((), f"partition field {field.name} has no column")


def _own_name(name: str, others_in_files: Collection[str]) -> bool:
    return bool(name) and file_names(name).isdisjoint(others_in_files)


def _taken_by(field: PartitionField, full: Mapping[str, int]) -> int | None:
    """The column that has the name of a partition field and is not its own, which Java lets a field of any transform
    have."""
    column = full.get(field.name)
    return None if column == field.source_id else column


def _partition(
    field: PartitionField,
    source: NestedField,
    fields: Mapping[int, NestedField],
    chains: Mapping[int, Chain],
    is_current: bool,
) -> Iterator[Fault]:
    path = _path(source.field_id, fields, chains)
    if not _takes(field.transform, source.field_type):
        yield Fault(
            path, f"the table is partitioned by {field.transform} of it, which does not take {source.field_type}"
        )
        return
    around = [fields[each].field_type for each in chains[source.field_id][:-1]]
    if is_current and not all(isinstance(kind, StructType) for kind in around):
        yield Fault(path, "the table is partitioned by it, and it is inside of a list or map")
    # Java reads and writes a partition's fixed bytes as if their length stood before them, which in Avro it does not.
    if isinstance(field.transform.result_type(source.field_type), FixedType):
        why = f"the table is partitioned by it, and Iceberg's Java library cannot read {source.field_type} in manifests"
        yield Fault(path, why)


def _takes(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    return kind.is_primitive and not isinstance(transform, UnknownTransform) and transform.can_transform(kind)


def _order(order: SortOrder, fields: Mapping[int, NestedField]) -> Iterator[Fault]:
    for each in order.fields:
        source = fields.get(each.source_id)
        if source is None:
            yield Fault((), f"the table is sorted by field {each.source_id}, which is no column")
        elif not _takes(each.transform, source.field_type):
            yield Fault((source.name,), f"the table is sorted by {each.transform} of it, which does not take its type")


def _path(field_id: int, fields: Mapping[int, NestedField], chains: Mapping[int, Chain]) -> tuple[str, ...]:
    return tuple(fields[each].name for each in chains[field_id])


def without_clashes(
    wanted: Sequence[NestedField], before: Sequence[NestedField] = (), first: Collection[str] = ()
) -> list[NestedField]:
    """The wanted columns at the top, in their order: of two with one full name (`a.b` at the top, and `b` inside of `a`)
    the one that is there stays, and the other is as it was before, or left out.

    Args:
        first: columns whose names are taken before those of the others.
    """
    taken = _full_names(before) or set()
    as_before = {field.field_id: field for field in before}
    found: dict[int, NestedField] = {}
    for field in sorted(wanted, key=lambda field: field.name not in first):
        old = as_before.get(field.field_id)
        names = _full_names((field,))
        new = names - (_full_names((old,)) or set()) if names is not None and old is not None else names
        if new is not None and taken.isdisjoint(new):
            taken |= new
            found[field.field_id] = field
        elif old is not None:
            found[field.field_id] = old
    return [found[field.field_id] for field in wanted if field.field_id in found]


def _full_names(fields: Iterable[NestedField]) -> set[str] | None:
    """All full names; None where two are the same."""
    try:
        return set(index_by_name(StructType(*fields)))
    except ValueError:
        return None
