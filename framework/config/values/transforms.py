"""Iceberg's partition transforms, in one table: everything that floe decides by a transform's name is a column of it.

In: nothing. Out: for each transform what its number counts, how Iceberg calls its field, and which declared types it
takes. A transform that is not here cannot be written in a file; what types it takes in the end Iceberg's library says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

NESTED_TYPES = ("list", "map", "struct")
_DATES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


@dataclass(frozen=True)
class PartitionTransform:
    """`suffix`: Iceberg's standard name of the field is that of the column with it.

    `counts`: what the number is for, "" where it takes none. `takes`: the only declared types that it takes, where these
    are few; `takes_not`: those that it does not take. `is_of_time`: it takes the time out of a date or a moment.
    """

    suffix: str
    counts: str = ""
    takes: tuple[str, ...] = ()
    takes_not: tuple[str, ...] = NESTED_TYPES
    is_of_time: bool = False

    def fits(self, declared: str) -> bool:
        """Whether a column of a declared type, such as `long`, can be transformed."""
        return declared in self.takes if self.takes else declared not in self.takes_not


TRANSFORMS: Mapping[str, PartitionTransform] = MappingProxyType(
    {
        "year": PartitionTransform("_year", takes=_DATES, is_of_time=True),
        "month": PartitionTransform("_month", takes=_DATES, is_of_time=True),
        "day": PartitionTransform("_day", takes=_DATES, is_of_time=True),
        "hour": PartitionTransform("_hour", takes=_DATES[1:], is_of_time=True),
        "bucket": PartitionTransform(
            "_bucket", "how many buckets", takes_not=("boolean", "float", "double", *NESTED_TYPES)
        ),
        "truncate": PartitionTransform(
            "_trunc", "how many characters", takes=("int", "long", "string", "binary", "decimal")
        ),
        "identity": PartitionTransform(""),
    }
)
