"""Columns that a new table is made by (keys, order, partitions, sort order): no single record decides for a type that
cannot be one.

In: a table's policy and what one record's fields were observed to be. Out: the fields, with nothing said of those columns
where the record's value is of a type of which none can be made (a list, an object; a float where rows are identified or
put into buckets). So the other records of a batch decide what the column is, and such a record alone is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.config.spec import NameCase, TablePolicy
from framework.config.values.transforms import TRANSFORMS
from framework.record.convert.nested import fold
from framework.record.model import ObservedType

_FLOATS = ("double", "float")


@dataclass(frozen=True)
class KeyPaths:
    """Folded names from the top to each column, and whether floats may be in it."""

    paths: tuple[tuple[tuple[str, ...], bool], ...]
    insensitive: bool

    def usable(self, fields: Mapping[str, ObservedType]) -> dict[str, ObservedType]:
        """The fields of one record, or of several that are alike."""
        found = dict(fields)
        for path, has_floats in self.paths:
            for name in found:
                if fold(name, self.insensitive) == path[0]:
                    found[name] = self._usable(found[name], path[1:], has_floats)
        return found

    def _usable(self, kind: ObservedType, below: tuple[str, ...], has_floats: bool) -> ObservedType:
        if not below:
            return "null" if isinstance(kind, list) or (kind in _FLOATS and not has_floats) else kind
        if isinstance(kind, str) or kind[0] != "struct":
            return "null"
        children = [
            [name, self._usable(child, below[1:], has_floats) if fold(name, self.insensitive) == below[0] else child]
            for name, child in kind[1]
        ]
        return ["struct", children]


def exact_columns(policy: TablePolicy) -> tuple[str, ...]:
    """The columns by which a new table's rows are distinguished, or the newer one is found."""
    write = policy.write
    keys = write.key or policy.create.identifier_fields
    return (*keys, write.order_field) if write.order_field is not None else keys


def key_paths(policy: TablePolicy) -> KeyPaths:
    """What of a new table's columns must be of a certain kind."""
    insensitive = policy.case is NameCase.INSENSITIVE
    has_floats = dict.fromkeys(exact_columns(policy), False)
    create = policy.create
    for by in (*create.partition_by, *(order.by for order in create.sort_by)):
        transform = TRANSFORMS[by.transform]
        fits = transform.is_of_time or transform.fits("double")  # that a number is no moment is said of the table
        has_floats[by.column] = has_floats.get(by.column, True) and fits
    steps = {tuple(fold(step, insensitive) for step in path.split(".")): fits for path, fits in has_floats.items()}
    return KeyPaths(tuple(steps.items()), insensitive)
