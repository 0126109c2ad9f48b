"""Columns whose full names are the same: `a.b` at the top, and `b` inside of `a`.

In: the columns of a table as they are, and as they are wanted. Out: those that can be. Iceberg knows columns by their
full names with dots, and its libraries refuse a schema in which two have one name; so of two that clash the one that is
there stays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pyiceberg.schema import index_by_name
from pyiceberg.types import NestedField, StructType


def without_clashes(
    wanted: Sequence[NestedField], before: Sequence[NestedField] = (), first: Collection[str] = ()
) -> list[NestedField]:
    """The wanted columns at the top, in their order: one whose new names are taken is as it was before, or left out.

    Args:
        first: columns whose names are taken before those of the others.
    """
    taken = _names(before) or set()
    as_before = {field.field_id: field for field in before}
    found: dict[int, NestedField] = {}
    for field in sorted(wanted, key=lambda field: field.name not in first):
        old = as_before.get(field.field_id)
        names = _names((field,))
        new = names - (_names((old,)) or set()) if names is not None and old is not None else names
        if new is not None and taken.isdisjoint(new):
            taken |= new
            found[field.field_id] = field
        elif old is not None:
            found[field.field_id] = old
    return [found[field.field_id] for field in wanted if field.field_id in found]


def _names(fields: Sequence[NestedField]) -> set[str] | None:
    """All full names; None where two are the same."""
    try:
        return set(index_by_name(StructType(*fields)))
    except ValueError:
        return None
