"""What is asked of a comparison, and what it found: values alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class RowDifference(str, Enum):
    """What one row is, seen from the first table."""

    MISSING = "missing"  # it is not in the other table, or there less often
    EXTRA = "extra"  # it is in the other table alone, or there more often
    CHANGED = "changed"  # the other table has its key with other values


@dataclass(frozen=True)
class Asked:
    """`key`: the columns by which a row is known; () where only whole rows are compared. `by_position`: these are the row's
    place in Kafka, and offsets are reported as ranges. `without`: columns that are not compared. `most_rows`: so many
    rows a side are looked at closely, and of each kind `examples` are shown."""

    key: tuple[str, ...]
    by_position: bool
    without: tuple[str, ...]
    most_rows: int
    examples: int


@dataclass(frozen=True)
class Compared:
    """One side: `snapshot_id` is None where the table never had a row."""

    table: str
    snapshot_id: int | None
    rows: int


@dataclass(frozen=True)
class ColumnDifference:
    """A column that one side lacks, or that holds values of another type there; None: it is not there."""

    column: str
    left: str | None
    right: str | None


@dataclass(frozen=True)
class Example:
    """A row that differs, with its values in the first table and in the other one; None where it is not there. `differing`
    names the columns in which a changed row differs."""

    what: RowDifference
    left: dict[str, Any] | None
    right: dict[str, Any] | None
    differing: tuple[str, ...] = ()


@dataclass(frozen=True)
class OffsetGap:
    """Neighbouring offsets whose rows differ in one way."""

    what: RowDifference
    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class TableComparison:
    """`counts` are exact where `is_complete`; otherwise of the buckets that were looked at closely, `buckets_seen` of
    `buckets_differing`."""

    left: Compared
    right: Compared
    columns: tuple[str, ...]
    column_differences: tuple[ColumnDifference, ...]
    counts: dict[RowDifference, int]
    buckets_differing: int
    buckets_seen: int
    examples: tuple[Example, ...] = ()
    gaps: tuple[OffsetGap, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.buckets_seen == self.buckets_differing

    @property
    def is_equal(self) -> bool:
        return not self.buckets_differing and not self.column_differences
