"""Which metrics a table's files have, and what Parquet's own statistics lack: counts of NaN.

In: a table's schema and properties; rows of a file. Out: PyIceberg's statistics plan with the rules of Iceberg's Java
writer where PyIceberg's differ (fields of structs have bounds, those of lists and maps have sizes alone, wide tables
have metrics for their first columns and for those they are sorted by), and NaN counts by field id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
from pyiceberg.types import BinaryType, DoubleType, FloatType, StringType
from pyiceberg.utils.properties import property_as_int

from framework.adapters.parquet.partition import column_at, leaves

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


def nan_counts(rows: pa.Table, columns: tuple[LeafColumn, ...]) -> dict[str, int]:
    """How many values are NaN, by field id as text."""
    counts = {}
    for column in columns:
        values = column_at(rows, column.path)
        if values is not None:
            counts[str(column.field_id)] = pc.sum(pc.is_nan(values)).as_py() or 0
    return counts
