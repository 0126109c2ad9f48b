"""How wide records may make a table: `evolve.max_columns`, fields inside of columns counted.

In: the columns of a table as they are and as they are wanted, or what records ask for. Out: the columns that the bound
lets in, or how many there would be. Invariant: no record makes a table wider than its policy says, whichever way it
took; the bound holds across restarts, since it counts what the table has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.table.columns.new_fields import children, element
from framework.table.model import ObservedType

CODE = "FLOE-T110"


def columns_in(fields: Iterable[NestedField]) -> int:
    """How many columns there are, those inside of others counted; elements of lists, and keys and values of maps, are
    not."""
    return sum(1 + _inside(field.field_type) for field in fields)


def _inside(kind: IcebergType) -> int:
    if isinstance(kind, StructType):
        return columns_in(kind.fields)
    if isinstance(kind, ListType):
        return _inside(kind.element_type)
    return _inside(kind.value_type) if isinstance(kind, MapType) else 0


def new_columns(asked: ObservedType, present: IcebergType | None, insensitive: bool) -> int:
    """How many columns of what is asked for a table does not have. `asked` at the top is a struct."""
    if not isinstance(asked, list):
        return 0
    if asked[0] == "struct":
        own = present.fields if isinstance(present, StructType) else ()
        known = {_folded(field.name, insensitive): field.field_type for field in own}
        new = 0
        for name, kind in children(asked):
            found = known.get(_folded(name, insensitive))
            new += (found is None) + new_columns(kind, found, insensitive)
        return new
    inner = (
        present.element_type
        if isinstance(present, ListType)
        else present.value_type
        if isinstance(present, MapType)
        else None
    )
    return new_columns(element(asked), inner, insensitive)


def within(
    wanted: Sequence[NestedField], before: Sequence[NestedField], most: int, first: Collection[str] = ()
) -> list[NestedField]:
    """The wanted columns at the top, in their order, as far as the bound goes: one that would grow beyond it is as it
    was before, or left out.

    Args:
        first: columns that are let in whatever they count.
    """
    left = most - columns_in(before)
    as_before = {field.field_id: field for field in before}
    found: dict[int, NestedField] = {}
    for field in sorted(wanted, key=lambda field: field.name not in first):
        old = as_before.get(field.field_id)
        more = columns_in((field,)) - (columns_in((old,)) if old is not None else 0)
        if more <= max(left, 0) or field.name in first:
            found[field.field_id] = field
            left -= more
        elif old is not None:
            found[field.field_id] = old
    return [found[field.field_id] for field in wanted if field.field_id in found]


def too_wide(most: int) -> str:
    """The reason why a column is not made."""
    return f"evolve.max_columns is {most}, and the table would have more"


def _folded(name: str, insensitive: bool) -> str:
    return name.lower() if insensitive else name
