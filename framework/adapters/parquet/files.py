"""Rows to Parquet data files, for many tables at once and within a bound of memory.

In: Arrow rows per table, in the table's file schema. Out: DataFile values with the metrics Iceberg needs, as PyIceberg
computes them. Files are created under names that no other writer can have, never over an existing one
(invariant 5), and are nobody's until they are announced.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import TableProperties
from pyiceberg.table.locations import LocationProvider
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID, SortOrder
from pyiceberg.utils.properties import property_as_int

import framework.adapters.file_io_guard  # noqa: F401  # tasks load location providers, too
from framework.adapters.file_io import file_io, key_of, location_provider
from framework.adapters.parquet.encoding import SampledDictionaries, frugal
from framework.adapters.parquet.metrics import (
    LeafColumn,
    RowMetrics,
    UuidColumn,
    float_columns,
    statistics_plan,
    uuid_columns,
    with_statistics,
)
from framework.adapters.parquet.partition import PartitionRows, partitions
from framework.adapters.parquet.private import writer_options
from framework.adapters.parquet.sorting.in_memory import can_sort, sorted_rows
from framework.adapters.parquet.statistics import CollectedColumn, collected_columns, file_metrics, split_offsets
from framework.adapters.store.counted_files import native
from framework.commit.events.event_types import DataFile
from framework.config.names.table_names import catalog_of
from framework.record.model import AlikeRows, TableTarget
from framework.record.rows.dictionary_text import held_bytes, like, schema_like, together
from framework.record.rows.nested_slices import own_entries
from framework.record.rows.scatter import MOST_TABLES, Scatter, can_scatter
from framework.table.schema.arrow import arrow_schema, parse_schema

# The path of a file that was written, and the values of the column that travelled with its rows.
Follow = Callable[[str, pa.ChunkedArray], None]


@dataclass(frozen=True)
class _Layout:
    """What every file of one table shares."""

    schema: Schema
    spec: PartitionSpec
    arrow: pa.Schema
    locations: LocationProvider
    order: SortOrder | None
    collected: tuple[CollectedColumn, ...]
    floats: tuple[LeafColumn, ...]
    uuids: tuple[UuidColumn, ...]
    writer_options: dict[str, object]
    row_group_rows: int
    row_group_bytes: int
    target_file_bytes: int | None
    dictionaries: SampledDictionaries


# Flushed down to this share of the bound, so that what stays is copied seldom.
_FLUSH_DOWN_TO = 0.75
# A table may ask for small files, not for one a row.
_LEAST_FILE_BYTES = 64 * 1024
# Rows of less are put in one piece before they are written: Parquet's writer does not like many small ones.
_SMALL_BYTES = 8 * 1024 * 1024


# The size of rows is asked for. Of small pieces, which may be a thousand a block, one in so many is asked, and the
# others are taken to be like it: asking takes longer than all else that is done with them here.
_SMALL_ROWS = 20_000
_PIECES_PER_LOOK = 8


@dataclass
class _Buffer:
    target: TableTarget
    rows: list[pa.Table] = field(default_factory=list)
    nbytes: int = 0
    row_nbytes: float = 0.0
    looks: int = 0
    scattered: Scatter | None = None
    number: int = 0

    def gather(self) -> None:
        """Rows that were put apart from those of other tables are now held as the others are, behind them."""
        if self.scattered is not None:
            self.rows.append(self.scattered.take(self.number))
            self.scattered = None

    def add(self, rows: pa.Table) -> int:
        """Takes rows, and says how many bytes they are."""
        self.gather()
        self.rows.append(rows)
        if len(rows) >= _SMALL_ROWS or self.looks % _PIECES_PER_LOOK == 0:
            nbytes = held_bytes(rows)
            self.row_nbytes = nbytes / len(rows)
        else:
            nbytes = int(self.row_nbytes * len(rows))
        self.looks += 1
        self.nbytes += nbytes
        return nbytes

    @property
    def count(self) -> int:
        return sum(map(len, self.rows))


class TableWriter:
    """Buffers rows per table and writes one file per table and partition at each flush.

    Args:
        io_properties: by catalog the settings of PyIceberg's FileIO: each may have a store of its own; and by table
            (`key_of`) those of a table with keys of its own.
        pipeline, run, batch: become part of every file name.
        buffer_bytes: rows held in memory over all tables; above it the largest tables are flushed.
        target_file_bytes: a partition with more rows than that (in memory) is written as several files, unless the
            table's `write.target-file-size-bytes` says another size.
    """

    def __init__(
        self,
        io_properties: Mapping[str, Mapping[str, str]],
        pipeline: str,
        run: str,
        batch: int,
        buffer_bytes: int,
        target_file_bytes: int,
    ) -> None:
        self._io_properties = dict(io_properties)
        self._prefix = f"{pipeline}-{run}-{batch}"
        self._buffer_bytes = buffer_bytes
        self._target_file_bytes = max(target_file_bytes, 1)
        self._buffers: dict[str, _Buffer] = {}
        self._buffered = 0
        self._scatter: Scatter | None = None
        self._scattered_tables = 0
        self._files: dict[str, list[DataFile]] = {}
        self._io: dict[tuple[str, str], FileIO] = {}
        self._followed: dict[str, tuple[str, Follow]] = {}

    def follow(self, table: str, column: str, reported: Follow) -> None:
        """Rows of this table come with one more column, which is not written: `reported` is given its values for each file
        that is, in the order of the file's rows."""
        self._followed[table] = column, reported

    def add(self, target: TableTarget, rows: pa.Table) -> None:
        """Take rows of one table; they must have the file schema of `target`."""
        if not len(rows):
            return
        buffer = self._buffers.setdefault(target.name, _Buffer(target))
        self._buffered += buffer.add(rows)
        self._bound()

    def add_alike(self, targets: Sequence[TableTarget], alike: AlikeRows) -> bool:
        """Take rows of several tables, unsorted; False, with none taken, where they must be split and added table by
        table."""
        rows = alike.rows
        if not can_scatter(rows.schema) or len(targets) > MOST_TABLES:
            return False
        if not len(rows):
            return True
        scatter = self._scatter_for(rows, len(targets))
        row_nbytes = scatter.held_bytes(rows) / len(rows)
        numbers = np.empty(len(targets), np.uint16)
        for i, (target, count) in enumerate(zip(targets, alike.counts(), strict=True)):
            buffer = self._buffers.setdefault(target.name, _Buffer(target))
            if buffer.scattered is not scatter:
                buffer.gather()
                buffer.scattered, buffer.number = scatter, self._scattered_tables
                self._scattered_tables += 1
            numbers[i] = buffer.number
            buffer.nbytes += (nbytes := int(row_nbytes * count))
            self._buffered += nbytes
        scatter.add(rows, np.take(numbers, alike.numbers), self._scattered_tables)
        self._bound()
        return True

    def _scatter_for(self, rows: pa.Table, tables: int) -> Scatter:
        """The one in use, or a new one where these rows do not fit in with what it holds."""
        most = MOST_TABLES - self._scattered_tables
        if self._scatter is None or tables > most or not self._scatter.fits(rows):
            for buffer in self._buffers.values():
                buffer.gather()
            self._scatter, self._scattered_tables = Scatter(rows), 0
        return self._scatter

    def _bound(self) -> None:
        if self._buffered <= self._buffer_bytes:
            return
        while self._buffered > self._buffer_bytes * _FLUSH_DOWN_TO:
            self._flush(max(self._buffers, key=lambda name: self._buffers[name].nbytes))
        for buffer in self._buffers.values():
            # What stays are slices, each of which would keep the whole block it was cut from in memory. Copied here
            # and not before: while no table has been flushed, the slices of a block are all of the block.
            if buffer.rows:
                buffer.rows = [together(buffer.rows).take(pa.array(np.arange(buffer.count)))]

    def finish(self) -> dict[str, list[DataFile]]:
        """Write what is buffered and return every file by table name."""
        for name in list(self._buffers):
            self._flush(name)
        return self._files

    def discard(self) -> None:
        """Drop what is buffered and remove the files of this writer; they were never announced, so they are nobody's.

        A file that cannot be removed now stays for the removal of orphans.
        """
        self._buffers.clear()
        self._buffered = 0
        self._scatter = None
        for name, files in self._files.items():
            for file in files:
                with contextlib.suppress(OSError):
                    self._io_for(name, file.path).delete(file.path)
        self._files = {}

    def _flush(self, name: str) -> None:
        buffer = self._buffers.pop(name)
        self._buffered -= buffer.nbytes
        target = buffer.target
        layout = layout_of(target)
        buffer.gather()
        rows = together(buffer.rows)
        if layout.order or not layout.spec.is_unpartitioned() or buffer.nbytes < _SMALL_BYTES:
            rows = rows.combine_chunks()
        else:
            # Rows that are only written stay as they are: a copy of a large buffer would double what a task holds.
            rows = rows.unify_dictionaries()
        buffer.rows.clear()
        for partition in partitions(rows, layout.spec, layout.schema):
            ordered = sorted_rows(partition.rows, layout.order, layout.schema) if layout.order else partition.rows
            pieces = max(1, -(-ordered.nbytes // (layout.target_file_bytes or self._target_file_bytes)))
            step = -(-len(ordered) // pieces)
            for start in range(0, len(ordered), step):
                file = self._write(partition, ordered.slice(start, step), target, layout)
                self._files.setdefault(name, []).append(file)

    def _write(self, partition: PartitionRows, rows: pa.Table, target: TableTarget, layout: _Layout) -> DataFile:
        name, reported = self._followed.get(target.name, ("", None))
        if reported is not None:
            marks, rows = rows.column(name), rows.drop_columns([name])
        file_name = f"{self._prefix}-{uuid.uuid4()}.parquet"
        key = None if partition.path is None else partition
        path = layout.locations.new_data_location(file_name, key)  # type: ignore[arg-type]  # only to_path is asked for
        output: OutputFile = self._io_for(target.name, path).new_output(path)
        columns = [
            as_column(column, field) for column, field in zip(map(frugal, rows.columns), layout.arrow, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=schema_like(layout.arrow, [column.type for column in columns]))
        # Nobody has a file of this name. Whether one is there is not asked: that costs a request, and S3 answers it only to who
        # may read files and list the bucket.
        with output.create(overwrite=True) as stream:
            with pq.ParquetWriter(
                native(stream),
                table.schema,
                # Arrow's own schema would say which columns came as dictionaries; Iceberg's and Parquet's say what they
                # are.
                store_schema=False,
                store_decimal_as_integer=True,
                use_dictionary=layout.dictionaries.columns(table),
                **layout.writer_options,
            ) as writer:
                fitting = max(1, len(table) * layout.row_group_bytes // max(1, table.nbytes))
                writer.write_table(table, min(layout.row_group_rows, fitting))
            size = stream.tell()
        metadata = writer.writer.metadata
        if reported is not None:
            reported(path, marks)
        of_rows = RowMetrics(layout.floats, layout.uuids)
        of_rows.add(rows)
        found = of_rows.completed(file_metrics(metadata, layout.collected))
        return DataFile(
            path=path,
            record_count=metadata.num_rows,
            file_size_bytes=size,
            spec_id=target.spec_id,
            partition=partition.values,
            column_sizes=found.column_sizes,
            value_counts=found.value_counts,
            null_value_counts=found.null_value_counts,
            nan_value_counts=dict(of_rows.nan_value_counts),
            lower_bounds=found.lower_bounds,
            upper_bounds=found.upper_bounds,
            split_offsets=split_offsets(metadata),
            sort_order_id=target.sort_order_id if layout.order else UNSORTED_SORT_ORDER_ID,
        )

    def _io_for(self, table: str, location: str) -> FileIO:
        own = key_of(table)
        place = own if own in self._io_properties else catalog_of(table)
        key = (place, location.split("://", 1)[0] if "://" in location else "")
        if key not in self._io:
            self._io[key] = file_io(self._io_properties[place], location)
        return self._io[key]


def layout_of(target: TableTarget) -> _Layout:
    """How the table's files are written. Raises ValueError where its properties cannot be read."""
    return _layout(
        target.schema_json,
        target.spec_json,
        target.sort_order_json,
        target.location,
        # A writer heeds these alone. Others change with each commit, as those in which floe keeps account.
        tuple(sorted(item for item in target.properties.items() if item[0].startswith("write."))),
    )


@lru_cache(maxsize=4096)
def _layout(
    schema_json: str, spec_json: str, order_json: str, location: str, properties: tuple[tuple[str, str], ...]
) -> _Layout:
    """Cached: a task writes many files of one table."""
    schema = parse_schema(schema_json)
    order = SortOrder.model_validate_json(order_json) if order_json else UNSORTED_SORT_ORDER
    # Iceberg's writers give files names that Avro and Parquet readers can take; columns are found by field id.
    file_schema = sanitize_column_names(schema)
    table_properties = dict(properties)
    statistics = statistics_plan(schema, table_properties, order)
    ids_by_path = parquet_path_to_id_mapping(file_schema)
    uuids = uuid_columns(schema, statistics)
    row_group_bytes = table_properties.pop(TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES, None)
    target_file_bytes = table_properties.get(TableProperties.WRITE_TARGET_FILE_SIZE_BYTES)
    return _Layout(
        schema=schema,
        order=order if can_sort(order, schema) else None,
        spec=PartitionSpec.model_validate_json(spec_json),
        arrow=arrow_schema(file_schema),
        locations=location_provider(location, table_properties),
        collected=collected_columns(statistics, ids_by_path),
        floats=float_columns(schema, statistics),
        uuids=uuids,
        writer_options=writer_options(table_properties) | {"write_statistics": with_statistics(ids_by_path, uuids)},
        row_group_rows=property_as_int(
            table_properties, TableProperties.PARQUET_ROW_GROUP_LIMIT, TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT
        )
        or TableProperties.PARQUET_ROW_GROUP_LIMIT_DEFAULT,
        row_group_bytes=int(row_group_bytes or TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES_DEFAULT),
        target_file_bytes=max(int(target_file_bytes), _LEAST_FILE_BYTES) if target_file_bytes else None,
        dictionaries=SampledDictionaries(),
    )


def as_column(values: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The values as the file's column of this name and type, encoded where they are."""
    if not pa.types.is_nested(values.type):
        return values
    return pa.chunked_array([relabel(chunk, like(field, chunk.type).type) for chunk in values.chunks])


def relabel(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under a type that differs in names of nested fields only."""
    if values.type.equals(kind, check_metadata=True) or not pa.types.is_nested(kind):
        return values
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        children = [relabel(values.field(i), child.type) for i, child in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_map(kind):
        offsets, (keys, items) = own_entries(values, values.keys, values.items)
        keys, items = relabel(keys, kind.key_type), relabel(items, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    offsets, (elements,) = own_entries(values, values.values)
    return pa.ListArray.from_arrays(offsets, relabel(elements, kind.value_type), type=kind, mask=mask)
