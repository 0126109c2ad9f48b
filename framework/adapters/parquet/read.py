"""Rows of data files that this pipeline has just written, read back from the store.

In: paths, and the settings of PyIceberg's FileIO. Out: record batches, file after file; one batch is in memory at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from framework.adapters.file_io import file_io
from framework.adapters.store.counted_files import parquet_file

_BATCH_ROWS = 10_000


def read_files(io_properties: Mapping[str, str], paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of these files, in order."""
    for path in paths:
        with file_io(io_properties, path).new_input(path).open() as stream, parquet_file(stream) as file:
            yield from file.iter_batches(_BATCH_ROWS)
