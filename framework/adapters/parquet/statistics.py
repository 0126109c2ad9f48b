"""A data file's metrics, from the statistics that its Parquet writer kept.

In: the metadata of a file that was just written, and for each of its columns what is collected. Out: counts, sizes and
bounds by field id, as Iceberg serializes them. Parquet's own values are taken, which are Iceberg's but for their bytes:
to make Python's dates and decimals of them and bytes of those again, as PyIceberg does, was a sixth of what a small
file cost.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

_FIRST_SURROGATE, _LAST_SURROGATE, _LAST_CHARACTER = 0xD800, 0xDFFF, 0x10FFFF
_FORMATS: dict[type[PrimitiveType], str] = {
    BooleanType: "<?",
    IntegerType: "<i",
    DateType: "<i",
    LongType: "<q",
    TimeType: "<q",
    TimestampType: "<q",
    TimestamptzType: "<q",
    TimestampNanoType: "<q",
    TimestamptzNanoType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
}


@dataclass(frozen=True)
class CollectedColumn:
    """What is collected of one column of a file: nothing but its size, or its counts, or its bounds too.

    `parse` makes of Parquet's value one that compares as Iceberg's type does; `lower` and `upper` make its bounds of
    that, an upper one only where there is one.
    """

    field_id: str
    has_counts: bool
    has_bounds: bool
    parse: Callable[[Any], Any] | None = None
    lower: Callable[[Any], bytes] = bytes
    upper: Callable[[Any], bytes | None] = bytes


@dataclass
class FileMetrics:
    """By field id, as text; bounds are Iceberg's bytes in base64."""

    column_sizes: dict[str, int] = field(default_factory=dict)
    value_counts: dict[str, int] = field(default_factory=dict)
    null_value_counts: dict[str, int] = field(default_factory=dict)
    lower_bounds: dict[str, str] = field(default_factory=dict)
    upper_bounds: dict[str, str] = field(default_factory=dict)


def collected_columns(
    plan: Mapping[int, StatisticsCollector], ids_by_path: Mapping[str, int]
) -> tuple[CollectedColumn, ...]:
    """The columns of a file in their order, which is that of `ids_by_path`."""
    return tuple(_collected(str(field_id), plan[field_id]) for field_id in ids_by_path.values())


def file_metrics(metadata: pq.FileMetaData, columns: Sequence[CollectedColumn]) -> FileMetrics:
    """The metrics of a file with these columns."""
    found = FileMetrics()
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place, column in enumerate(columns):
        chunks = [group.column(place) for group in groups]
        name = column.field_id
        found.column_sizes[name] = sum(chunk.total_compressed_size for chunk in chunks)
        if not column.has_counts:
            continue
        found.value_counts[name] = sum(chunk.num_values for chunk in chunks)
        statistics = [chunk.statistics for chunk in chunks]
        # Parquet's writer leaves out what it does not know, and so must the file: a bound that is missing hides no row.
        if not all(each is not None and each.has_null_count for each in statistics):
            continue
        found.null_value_counts[name] = sum(each.null_count for each in statistics)
        known = [each for each in statistics if each.has_min_max]
        if not column.has_bounds or not known or any(not each.has_min_max and each.num_values for each in statistics):
            continue
        lowest, highest = [each.min_raw for each in known], [each.max_raw for each in known]
        if column.parse is not None:
            lowest, highest = [*map(column.parse, lowest)], [*map(column.parse, highest)]
        found.lower_bounds[name] = base64.b64encode(column.lower(min(lowest))).decode("ascii")
        upper = column.upper(max(highest))
        if upper is not None:
            found.upper_bounds[name] = base64.b64encode(upper).decode("ascii")
    return found


def split_offsets(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Where the row groups begin."""
    found = []
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(0)
        starts = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
        found.append(min(start for start in starts if start is not None))
    return tuple(sorted(found))


def _collected(name: str, collector: StatisticsCollector) -> CollectedColumn:
    mode, kind = collector.mode, collector.iceberg_type
    counts = mode.type != MetricModeTypes.NONE
    if not counts or mode.type == MetricModeTypes.COUNTS:
        return CollectedColumn(name, counts, has_bounds=False)
    length = mode.length if mode.type == MetricModeTypes.TRUNCATE else None
    if isinstance(kind, StringType):
        return CollectedColumn(
            name,
            True,
            True,
            lambda raw: raw.decode("utf-8"),
            lambda text: text[:length].encode("utf-8"),
            lambda text: upper_text(text, length),
        )
    if isinstance(kind, BinaryType):
        return CollectedColumn(
            name,
            True,
            True,
            None,
            lambda value: value[:length],
            lambda value: truncate_upper_bound_binary_string(value, length),
        )
    if isinstance(kind, UUIDType):  # they have no statistics here: `RowMetrics` has them
        return CollectedColumn(name, True, has_bounds=False)
    if isinstance(kind, FixedType):
        return CollectedColumn(name, True, True)
    if isinstance(kind, DecimalType):
        return CollectedColumn(name, True, True, _unscaled, _decimal_bytes, _decimal_bytes)
    if type(kind) not in _FORMATS:
        return CollectedColumn(name, True, has_bounds=False)
    pack = struct.Struct(_FORMATS[type(kind)]).pack
    return CollectedColumn(name, True, True, None, pack, pack)


def upper_text(text: str, length: int | None) -> bytes | None:
    """The least text of at most `length` characters that is not below `text`, in UTF-8; None where there is none.

    As Iceberg's `UnicodeUtil.truncateStringMax`: the last character that can be raised is raised. What follows U+D7FF
    is U+E000, since the numbers between them are no characters and have no UTF-8.
    """
    if length is None or len(text) <= length:
        return text.encode("utf-8")
    for last in range(length - 1, -1, -1):
        raised = ord(text[last]) + 1
        if _FIRST_SURROGATE <= raised <= _LAST_SURROGATE:
            raised = _LAST_SURROGATE + 1
        if raised <= _LAST_CHARACTER:
            return (text[:last] + chr(raised)).encode("utf-8")
    return None


def _unscaled(raw: int | bytes) -> int:
    return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)


def _decimal_bytes(unscaled: int) -> bytes:
    """The fewest bytes that hold it, as Iceberg's specification has it."""
    magnitude = unscaled if unscaled >= 0 else -unscaled - 1
    return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
