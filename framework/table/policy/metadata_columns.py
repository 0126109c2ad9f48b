"""The columns that floe fills itself from Kafka's own fields, beside the fields of records.

In: names of `source.metadata_columns`, and names and types of fields. Out: the columns with their types, and the fields
that are a record's own. A record's field that is spelled like such a column, in whatever case, is no column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from framework.config.names.metadata import metadata_column, metadata_type
from framework.table.model import ObservedType

_T = TypeVar("_T")


def metadata_columns(names: Sequence[str]) -> dict[str, ObservedType]:
    """The columns that floe fills itself, with their types."""
    return {metadata_column(name): metadata_type(name) for name in names}


def spellings(columns: Iterable[str]) -> frozenset[str]:
    """What `own_fields` compares the names of a record's fields with."""
    return frozenset(name.lower() for name in columns)


def own_fields(fields: dict[str, _T], taken: frozenset[str]) -> dict[str, _T]:
    """The fields without those that are named like one of the columns with these `spellings`."""
    if not taken:
        return fields
    return {name: value for name, value in fields.items() if name.lower() not in taken}
