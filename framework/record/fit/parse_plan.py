"""What JSON is parsed to, so that one parse serves many tables.

In: the shapes of the tables a block may go to. Out: groups of tables whose fields agree on their parse types, each with
the Arrow schema of all its fields. Tables that disagree about a field (a long here, text there) are in different
groups; then records are routed on the routing fields alone first, and each group's records are parsed with the group's
schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from framework.record.destination import Destination
from framework.record.fit.table_shape import TableShape
from framework.record.rows.nested_slices import own_entries


@dataclass(frozen=True)
class ParseGroup:
    """Tables that one parse serves."""

    tables: frozenset[Destination]
    schema: pa.Schema


def parse_groups(shapes: Mapping[Destination, TableShape]) -> list[ParseGroup]:
    """The fewest groups found by going through the tables in name order; no tables at all make one group of no
    fields."""
    groups: list[tuple[set[Destination], dict[str, pa.DataType]]] = []
    for table in sorted(shapes):
        fields = shapes[table].parse_fields
        for names, merged in groups:
            together = _merge_fields(merged, fields)
            if together is not None:
                names.add(table)
                merged.update(together)
                break
        else:
            groups.append(({table}, dict(fields)))
    return [ParseGroup(frozenset(names), _schema(fields)) for names, fields in groups] or [
        ParseGroup(frozenset(), pa.schema([]))
    ]


def _schema(fields: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


def _merge_fields(left: Mapping[str, pa.DataType], right: Mapping[str, pa.DataType]) -> dict[str, pa.DataType] | None:
    """Fields of both; None when they disagree. Only fields that change anything are returned."""
    changed: dict[str, pa.DataType] = {}
    for name, kind in right.items():
        if name not in left:
            changed[name] = kind
            continue
        if left[name] == kind:
            continue
        merged = _merge_types(left[name], kind)
        if merged is None:
            return None
        changed[name] = merged
    return changed


def _merge_types(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields = {child.name: child.type for child in left}
        changed = _merge_fields(fields, {child.name: child.type for child in right})
        return None if changed is None else pa.struct(list((fields | changed).items()))
    if pa.types.is_list(left) and pa.types.is_list(right):
        element = _merge_types(left.value_type, right.value_type)
        return None if element is None else pa.list_(element)
    return None


def project(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """`values` without the children that Arrow inferred beyond `kind`. Inferred children are never read: Arrow 25 gives
    inferred lists that begin with null wrong lengths."""
    if values.type == kind:
        return values
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        children = [project(values.field(child.name), child.type) for child in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    offsets, (elements,) = own_entries(values, values.values)
    return pa.ListArray.from_arrays(offsets, project(elements, kind.value_type), type=kind, mask=mask)
