"""Which metrics a table's files have, and what Parquet's own statistics lack: counts of NaN, and metrics of UUIDs.

In: a table's schema and properties; rows of a file. Out: PyIceberg's statistics plan with the rules of Iceberg's Java
writer where PyIceberg's differ (fields of structs have bounds, those of lists and maps have sizes alone, wide tables
have metrics for their first columns and for those they are sorted by); NaN counts by field id, and counts and bounds of
UUIDs, which have no statistics in the Parquet file.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    match_metrics_mode,
)
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import SortOrder
from pyiceberg.types import BinaryType, DoubleType, FloatType, StringType, UUIDType
from pyiceberg.utils.properties import property_as_int

from framework.adapters.parquet.partition import column_at, leaves
from framework.adapters.parquet.statistics import FileMetrics
from framework.adapters.value_bytes import plain

MAX_INFERRED_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"
MAX_INFERRED_COLUMNS_DEFAULT = 100


@dataclass(frozen=True)
class LeafColumn:
    """A column of a file outside lists and maps, with its path of names."""

    field_id: int
    path: tuple[str, ...]


def statistics_plan(schema: Schema, properties: dict[str, str], order: SortOrder) -> dict[int, StatisticsCollector]:
    """What is collected for each column, by field id."""
    # Properties name columns as the table does, so the plan is made from the table's own names.
    plan = compute_statistics_plan(schema, properties)
    default = properties.get(
        TableProperties.DEFAULT_WRITE_METRICS_MODE, TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT
    )
    in_structs = {field.field_id for _, field in leaves(schema.fields)}
    inferred = _inferred(plan, schema, properties)
    sorted_by = {field.source_id for field in order.fields}
    for field_id, collector in plan.items():
        own = properties.get(f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{collector.column_name}")
        if field_id not in in_structs or (own is None and field_id not in inferred):
            # Of fields in lists and maps Parquet counts the places: an empty list would count as a value that is null.
            mode = MetricsMode(MetricModeTypes.NONE)
        else:
            mode = match_metrics_mode(own or default)
        if own is None and field_id in sorted_by and mode.type in (MetricModeTypes.NONE, MetricModeTypes.COUNTS):
            mode = match_metrics_mode(TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT)
        if mode.type == MetricModeTypes.TRUNCATE and not isinstance(collector.iceberg_type, (StringType, BinaryType)):
            mode = MetricsMode(MetricModeTypes.FULL)
        plan[field_id] = replace(collector, mode=mode)
    return plan


def _inferred(plan: Mapping[int, StatisticsCollector], schema: Schema, properties: Mapping[str, str]) -> set[int]:
    """The columns that the default mode holds for: all when it is written down, else the first ones, the outer before
    the inner."""
    limit = property_as_int(dict(properties), MAX_INFERRED_COLUMNS, MAX_INFERRED_COLUMNS_DEFAULT)
    if TableProperties.DEFAULT_WRITE_METRICS_MODE in properties or limit is None or len(plan) <= limit:
        return set(plan)
    depth = {field_id: (schema.find_column_name(field_id) or "").count(".") for field_id in plan}
    return set(sorted(plan, key=lambda field_id: depth[field_id])[:limit])


def float_columns(schema: Schema, plan: Mapping[int, StatisticsCollector]) -> tuple[LeafColumn, ...]:
    """The columns whose NaN are counted: floats outside lists and maps that have metrics."""
    return tuple(
        LeafColumn(field.field_id, path)
        for path, field in leaves(schema.fields)
        if isinstance(field.field_type, (FloatType, DoubleType))
        and plan[field.field_id].mode.type != MetricModeTypes.NONE
    )


@dataclass(frozen=True)
class UuidColumn(LeafColumn):
    """A column of UUIDs outside lists and maps, and what is collected of it."""

    has_counts: bool
    has_bounds: bool


def uuid_columns(schema: Schema, plan: Mapping[int, StatisticsCollector]) -> tuple[UuidColumn, ...]:
    """The columns that have no statistics in a Parquet file, whether or not metrics are wanted of them: readers order them in
    two ways (`framework.adapters.uuid_order`), and skip row groups by them."""
    modes = {field.field_id: plan[field.field_id].mode.type for _, field in leaves(schema.fields)}
    return tuple(
        UuidColumn(
            field.field_id,
            path,
            modes[field.field_id] != MetricModeTypes.NONE,
            modes[field.field_id] not in (MetricModeTypes.NONE, MetricModeTypes.COUNTS),
        )
        for path, field in leaves(schema.fields)
        if isinstance(field.field_type, UUIDType)
    )


def with_statistics(ids_by_path: Mapping[str, int], uuids: Iterable[UuidColumn]) -> bool | list[str]:
    """The columns of a file that have statistics in Parquet, as its writer takes them."""
    without = {column.field_id for column in uuids}
    return [path for path, field_id in ids_by_path.items() if field_id not in without] if without else True


class RowMetrics:
    """Gathers from a file's rows, piece by piece, what Parquet's statistics do not say of them."""

    def __init__(self, floats: tuple[LeafColumn, ...], uuids: tuple[UuidColumn, ...]) -> None:
        self.nan_value_counts: Counter[str] = Counter()
        self._floats = floats
        self._uuids = tuple(column for column in uuids if column.has_counts)
        self._nulls: Counter[str] = Counter()
        self._ends: dict[str, set[bytes]] = {}
        self._signs: dict[str, set[tuple[int, int]]] = {}

    def add(self, rows: pa.Table) -> None:
        """The file's next rows."""
        self.nan_value_counts.update(nan_counts(rows, self._floats))
        for column in self._uuids:
            values = column_at(rows, column.path)
            if values is not None:
                self._add_uuids(str(column.field_id), plain(values))

    def _add_uuids(self, name: str, values: pa.Array) -> None:
        self._nulls[name] += values.null_count
        values = values.drop_null()
        if not len(values):
            return
        data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 : (values.offset + len(values)) * 16]
        halves = data.reshape(-1, 16)[:, (0, 8)] >> 7
        found = np.flatnonzero(np.bincount(halves[:, 0] * 2 + halves[:, 1], minlength=4))
        self._signs.setdefault(name, set()).update(divmod(each, 2) for each in found.tolist())
        words = data.view(">u8").reshape(-1, 2)
        first, last = words[:, 0].min(), words[:, 0].max()
        ends = ((first, words[words[:, 0] == first, 1].min()), (last, words[words[:, 0] == last, 1].max()))
        self._ends.setdefault(name, set()).update(
            int(a).to_bytes(8, "big") + int(b).to_bytes(8, "big") for a, b in ends
        )

    def completed(self, found: FileMetrics) -> FileMetrics:
        """The metrics of the file, with those of its UUIDs: bounds only where all readers order them alike."""
        for column in self._uuids:
            name = str(column.field_id)
            if name not in self._nulls:
                continue
            found.null_value_counts[name] = self._nulls[name]
            if column.has_bounds and len(self._signs.get(name, ())) == 1:
                found.lower_bounds[name] = base64.b64encode(min(self._ends[name])).decode("ascii")
                found.upper_bounds[name] = base64.b64encode(max(self._ends[name])).decode("ascii")
        return found


def nan_counts(rows: pa.Table, columns: tuple[LeafColumn, ...]) -> dict[str, int]:
    """How many values are NaN, by field id as text."""
    counts = {}
    for column in columns:
        values = column_at(rows, column.path)
        if values is not None:
            counts[str(column.field_id)] = pc.sum(pc.is_nan(values)).as_py() or 0
    return counts
