"""Observed types to Iceberg fields with ids: the part that creating and evolving a table have in common.

In: observed types and a counter of field ids. Out: Iceberg types whose nested fields have fresh ids. Null, empty
structs and lists of nothing give no type: a column needs a value that says what it is.
"""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.table.model import ObservedType
from framework.table.schema.types import primitive_of


class FieldIds:
    """Gives out the ids above `last`, one after another."""

    def __init__(self, last: int) -> None:
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last


def build_type(observed: ObservedType, ids: FieldIds) -> IcebergType:
    """The Iceberg type for an observed type that has a known part (`framework.table.schema.types.known_part`)."""
    if isinstance(observed, str):
        return primitive_of(observed)
    if observed[0] == "list":
        element_id = ids.next()
        return ListType(element_id, build_type(_observed(observed[1]), ids), element_required=False)
    if observed[0] == "map":
        key_id, value_id = ids.next(), ids.next()
        key, value = build_type(_observed(observed[1]), ids), build_type(_observed(observed[2]), ids)
        return MapType(key_id, key, value_id, value, value_required=False)
    return StructType(*(build_field(name, kind, ids) for name, kind in children(observed)))


def build_field(name: str, observed: ObservedType, ids: FieldIds) -> NestedField:
    """A new optional field; its id is taken before its children's."""
    field_id = ids.next()
    return NestedField(field_id, name, build_type(observed, ids), required=False)


def children(observed: ObservedType) -> list[tuple[str, ObservedType]]:
    """Name and type of each field of an observed struct."""
    assert isinstance(observed, list)
    found = observed[1]
    assert isinstance(found, list)
    return [(str(name), kind) for name, kind in found]


def element(observed: ObservedType) -> ObservedType:
    """The type of an observed list's elements, or of an observed map's values."""
    assert isinstance(observed, list)
    return _observed(observed[-1])


def _observed(value: object) -> ObservedType:
    assert isinstance(value, (str, list))
    return value
