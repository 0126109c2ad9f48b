"""Rows of one partition into one data file of any length, while no more than a row group of them is in memory.

In: Arrow rows in the table's file schema, piece by piece. Out: a DataFile with the metrics that `TableWriter` gives its
files; its rows are as they came, or in the table's order where it has one. The file is created under a name that no
other writer can have; one that fails is removed.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID

from framework.adapters.file_io import file_io
from framework.adapters.parquet.files import as_column, layout_of
from framework.adapters.parquet.metrics import RowMetrics
from framework.adapters.parquet.partition import PartitionRows, partitions
from framework.adapters.parquet.sorting.external import sorted_pieces
from framework.adapters.parquet.statistics import file_metrics, split_offsets
from framework.adapters.store.counted_files import native
from framework.commit.events.event_types import DataFile
from framework.record.model import TableTarget


def write_long_file(
    io_properties: Mapping[str, str],
    target: TableTarget,
    pieces: Iterable[pa.Table],
    prefix: str,
    reported: Callable[[pa.ChunkedArray], None] | None = None,
) -> DataFile | None:
    """Write all pieces; None, and no file, where there is no row.

    Args:
        reported: if given, pieces come with one more column at their end, which is not written: it is given its values, in
            the order of the file's rows.
        pieces: rows of one partition of the table's present spec; none of them encoded as dictionaries.
        prefix: the beginning of the file's name.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    layout = layout_of(target)
    if layout.order is not None:
        pieces = sorted_pieces(pieces, layout.order, layout.schema)
    groups = _row_groups(pieces, layout.row_group_rows, layout.row_group_bytes)
    first = next(groups, None)
    if first is None:
        return None
    partition: PartitionRows = next(partitions(first.slice(0, 1), layout.spec, layout.schema))
    key = None if partition.path is None else partition
    path = layout.locations.new_data_location(f"{prefix}-{uuid.uuid4()}.parquet", key)  # type: ignore[arg-type]  # only to_path is asked for
    io = file_io(io_properties, path)
    of_rows = RowMetrics(layout.floats, layout.uuids)
    try:
        with io.new_output(path).create(overwrite=False) as stream:
            with pq.ParquetWriter(
                native(stream),
                layout.arrow,
                store_schema=False,
                store_decimal_as_integer=True,
                use_dictionary=layout.dictionaries.columns(first),
                **layout.writer_options,
            ) as writer:
                group: pa.Table | None = first
                while group is not None:
                    if reported is not None:
                        reported(group.column(group.num_columns - 1))
                        group = group.select(list(range(group.num_columns - 1)))
                    columns = [
                        as_column(column, field) for column, field in zip(group.columns, layout.arrow, strict=True)
                    ]
                    writer.write_table(pa.Table.from_arrays(columns, schema=layout.arrow), len(group))
                    of_rows.add(group)
                    group = next(groups, None)
            size = stream.tell()
    except BaseException:
        with contextlib.suppress(OSError):
            io.delete(path)
        raise
    metadata = writer.writer.metadata
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


def _row_groups(pieces: Iterable[pa.Table], most_rows: int, most_bytes: int) -> Iterator[pa.Table]:
    """The pieces put together until a row group is full; a piece that is larger is cut."""
    held: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        for start in range(0, len(piece), most_rows):
            part = piece.slice(start, most_rows)
            if held and (rows + len(part) > most_rows or size >= most_bytes):
                yield pa.concat_tables(held).combine_chunks()
                held, rows, size = [], 0, 0
            held.append(part)
            rows, size = rows + len(part), size + part.nbytes
    if held:
        yield pa.concat_tables(held).combine_chunks()
