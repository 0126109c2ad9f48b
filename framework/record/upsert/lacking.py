"""Values that a record does not have, though the row of its key does: Debezium's placeholder for a value that the database
did not log (an unchanged TOAST column, a LOB), and columns that a partial update leaves out.

In: what records lack, and the policy of their table. Out: whether such a record is an error, a row, or a partial row,
which keeps values of the old one; and which columns keep them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from framework.config.names.metadata import kept_column
from framework.config.spec import FormatSpec, NameCase, TablePolicy, UnavailableValues, Updates, WritePolicy
from framework.record.arrays import Ints, Mask
from framework.record.convert.nested import fold
from framework.record.failure import RecordFailure

UNAVAILABLE = "FLOE-D314"
# Fields that tell of the change, and are none of the row's.
OF_THE_CHANGE = ("__op", "__ts_", "__source", "__transaction")


@dataclass(frozen=True)
class Lacking:
    """Of one record: the fields that hold a placeholder; and of a partial update the fields that it has, None where a field
    that is not there is null."""

    unavailable: frozenset[str] = frozenset()
    present: frozenset[str] | None = None


@dataclass
class LackingRecords:
    """By place in the block what a record lacks."""

    by_place: dict[int, Lacking] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_place)

    def masks(self, places: Ints) -> LackingRows:
        """Of some records."""
        found = [self.by_place.get(place) for place in places.tolist()]
        return LackingRows(
            np.array([each is not None and bool(each.unavailable) for each in found], bool),
            np.array([each is not None and each.present is not None for each in found], bool),
        )


@dataclass(frozen=True)
class LackingRows:
    """Which rows hold a placeholder, and which are partial updates."""

    unavailable: Mask
    partial: Mask


def is_about_the_change(name: str, of_envelope: Collection[str]) -> bool:
    """Whether a field is none of the row's. `of_envelope` are the names of what is kept of an envelope."""
    return name in of_envelope or name.startswith(OF_THE_CHANGE)


def envelope_columns(form: FormatSpec) -> frozenset[str]:
    """The names of what the file keeps of an envelope."""
    paths = form.envelope_paths
    return frozenset(map(kept_column, (*form.envelope_fields, *(paths.fields if paths is not None else ()))))


def is_partial(lacking: Lacking, write: WritePolicy) -> bool:
    """Whether by the policy of its table a record takes values of the old row."""
    keeps = bool(lacking.unavailable) and write.unavailable is UnavailableValues.KEEP
    return keeps or (lacking.present is not None and write.updates is Updates.PARTIAL)


def unavailable(lacking: Lacking, table: str) -> RecordFailure:
    """The failure of a record with a placeholder, where the table's policy makes it an error."""
    name = min(lacking.unavailable)
    message = (
        f"{name}: the record has no value for it, since the database logged none, and {table} takes no such record"
    )
    return RecordFailure(
        "convert", UNAVAILABLE, message, field_path=name, expected="a value", actual="Debezium's placeholder"
    )


@dataclass(frozen=True)
class ColumnNames:
    """A column of a table, and the names of the fields that it takes."""

    field_id: int
    names: tuple[str, ...]


def kept_ids(
    lacking: Lacking, columns: Iterable[ColumnNames], policy: TablePolicy, of_envelope: Collection[str] = ()
) -> tuple[int, ...]:
    """The field ids of the columns that keep the value of the old row. Those that a row is found and ordered by never do, nor
    those that tell of the change, among them what is kept `of_envelope`."""
    insensitive = policy.case is NameCase.INSENSITIVE
    write = policy.write
    unavailable = lacking.unavailable if write.unavailable is UnavailableValues.KEEP else frozenset()
    present = lacking.present if write.updates is Updates.PARTIAL else None
    needed = {fold(name, insensitive) for name in write.needed}
    about = {fold(name, insensitive) for name in of_envelope}
    gone = {fold(name, insensitive) for name in unavailable}
    there = {fold(name, insensitive) for name in present or ()}
    found = []
    for column in columns:
        names = {fold(name, insensitive) for name in column.names}
        if names & needed or any(is_about_the_change(name, about) for name in names):
            continue
        if names & gone or (present is not None and not names & there):
            found.append(column.field_id)
    return tuple(found)
