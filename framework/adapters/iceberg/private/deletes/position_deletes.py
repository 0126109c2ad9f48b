"""Position delete files: which rows of data files are deleted, as tables of format version 2 hold it.

In: the sorted positions of one data file. Out: a Parquet file that names this data file alone, and its metadata as
Iceberg's Java writer gives it; or the positions that a file of any engine has for one data file. Lower and upper bound
of `file_path` are equal, which is how readers see that a file concerns one data file. PyIceberg reads such files and
does not write them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.types import LongType, StringType

from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions

PATH_FIELD_ID = 2147483546
POSITION_FIELD_ID = 2147483545
_FIELD_ID_KEY = b"PARQUET:field_id"
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={_FIELD_ID_KEY: str(PATH_FIELD_ID).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={_FIELD_ID_KEY: str(POSITION_FIELD_ID).encode()}),
    ]
)


class UnsupportedDeletes(ValueError):
    """The table has deletes of a kind that floe can neither apply nor carry over; the message names a file."""


@dataclass(frozen=True)
class PositionDeletes:
    """A position delete file that applies to a data file. `file_scoped`: to that one alone."""

    path: str
    file_format: str
    record_count: int
    file_scoped: bool


@dataclass(frozen=True)
class WrittenPositionDeletes:
    """A new file that deletes `record_count` rows of one data file; bounds and sizes by field id."""

    data_file: str
    path: str
    record_count: int
    file_size_bytes: int
    column_sizes: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


def write_position_deletes(io: FileIO, path: str, data_file: str, positions: Positions) -> WrittenPositionDeletes:
    """Write one file; `positions` are ascending and at least one."""
    # The one path stands in memory once; the file is the same as of a text for each row.
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(positions), np.int32)), pa.array([data_file]))
    schema = pa.schema([_SCHEMA.field(0).with_type(paths.type), _SCHEMA.field(1)])
    table = pa.table([paths, pa.array(positions)], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        use_dictionary=["file_path"],
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
        store_schema=False,
    )
    content = sink.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(content))
    with io.new_output(path).create() as stream:
        stream.write(content.to_pybytes())
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    named = to_bytes(StringType(), data_file)
    return WrittenPositionDeletes(
        data_file,
        path,
        len(positions),
        content.size,
        {
            field_id: sum(group.column(place).total_compressed_size for group in groups)
            for place, field_id in enumerate((PATH_FIELD_ID, POSITION_FIELD_ID))
        },
        {PATH_FIELD_ID: named, POSITION_FIELD_ID: to_bytes(LongType(), int(positions[0]))},
        {PATH_FIELD_ID: named, POSITION_FIELD_ID: to_bytes(LongType(), int(positions[-1]))},
        [_first_byte(group) for group in groups],
    )


def _first_byte(group: pq.RowGroupMetaData) -> int:
    column = group.column(0)
    offset = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return int(offset)


def read_position_deletes(io: FileIO, file: PositionDeletes, data_file: str) -> dict[str, Positions]:
    """By data file, what one file deletes, in the file's order.

    Args:
        data_file: the one that a file-scoped file deletes rows of, whose paths are not read; nothing to others.

    Raises:
        UnsupportedDeletes: the file is neither Parquet nor ORC.
    """
    readers = {FileFormat.PARQUET.value: pq.read_table, FileFormat.ORC.value: orc.read_table}
    if file.file_format not in readers:
        raise UnsupportedDeletes(f"{file.path} has position deletes as {file.file_format}: Parquet and ORC are read")
    if file.file_scoped and file.file_format == FileFormat.PARQUET.value:
        with io.new_input(file.path).open() as stream:
            held = pq.read_table(stream, columns=["pos"], use_threads=False)
        return {data_file: held["pos"].to_numpy().astype(np.int64)}
    with io.new_input(file.path).open() as stream:
        table = readers[file.file_format](stream, columns=["file_path", "pos"])
    paths = table["file_path"].combine_chunks().dictionary_encode()
    codes = paths.indices.to_numpy()
    positions = table["pos"].to_numpy().astype(np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(1, len(paths.dictionary)))
    return dict(zip(paths.dictionary.to_pylist(), np.split(positions[order], starts), strict=True))
