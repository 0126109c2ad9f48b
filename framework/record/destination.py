"""Where a record goes: a table, and what the record does there.

In: the name of a table. Out: destinations, by which the steps of a block keep targets, shapes and rows apart. An upsert
table has three: deletes have the key's columns alone, and partial rows lack values that the old row has. A history has one for
each thing that it says of records.
A destination never leaves `framework.record`: whoever writes knows tables by their names.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple


class RecordOperation(IntEnum):
    """What a record does at its destination, in the order in which the destinations of one table are looked at."""

    WRITE = 0
    DELETE = 1
    LOG_DELETE = 2
    LOG_UPSERT = 3
    WRITE_PARTIAL = 4


# What a record did to the row of its key, as its history says it. Whether a row was there, a record need not know.
_IN_HISTORY = {RecordOperation.LOG_DELETE: "delete", RecordOperation.LOG_UPSERT: "upsert"}


class Destination(NamedTuple):
    """A tuple, since each look-up of a block's tables hashes one, and Python hashes a dataclass four times as slowly."""

    table: str
    operation: RecordOperation

    @property
    def is_delete(self) -> bool:
        return self.operation is RecordOperation.DELETE

    @property
    def is_partial(self) -> bool:
        return self.operation is RecordOperation.WRITE_PARTIAL

    @property
    def in_history(self) -> str | None:
        """What the history says that the record did; None where this is no destination of a history."""
        return _IN_HISTORY.get(self.operation)

    @property
    def in_table(self) -> Destination:
        """The destination of the table's rows, of partial ones, or of its deletes, whatever its records did in a history."""
        return self if self.is_delete or self.is_partial else rows_of(self.table)


@lru_cache(maxsize=1 << 14)
def rows_of(table: str) -> Destination:
    """Where rows of the table go. One object for all blocks: it is made and found in half the time of equal ones."""
    return Destination(table, RecordOperation.WRITE)


@lru_cache(maxsize=1 << 14)
def deletes_of(table: str) -> Destination:
    """Where what deletes in an upsert table goes."""
    return Destination(table, RecordOperation.DELETE)


@lru_cache(maxsize=1 << 14)
def partial_rows_of(table: str) -> Destination:
    """Where rows of an upsert table go that lack values of the old row."""
    return Destination(table, RecordOperation.WRITE_PARTIAL)
