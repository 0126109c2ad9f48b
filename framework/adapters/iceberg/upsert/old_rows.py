"""Values of live rows, as the table has its columns now: what a partial update of their key keeps.

In: a data file, columns, and positions of rows. Out: their values in the order of the positions. Only the row groups that
hold one of the rows are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.project_by_id import FileColumns, NotProjected, TableColumns, open_parquet
from framework.record.arrays import Ints


def read_rows(io: FileIO, file: LiveFile, columns: TableColumns, positions: Ints) -> pa.Table:
    """These columns of the rows at these positions, in any order.

    Raises:
        NotProjected: the file has not all of the columns, and nothing says what they are.
        OSError: the file cannot be read; each store has exceptions of its own.
    """
    with io.new_input(file.path).open() as stream:
        opened = open_parquet(stream)
        try:
            found = FileColumns(opened.schema_arrow, columns, file.spec_id, file.partition)
            sizes = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
            ends = np.cumsum(sizes)
            group_of = np.searchsorted(ends, positions, side="right")
            groups, number = np.unique(group_of, return_inverse=True)
            # Of a file without any of the columns one that it has says how many rows there are.
            names = found.names or opened.schema_arrow.names[:1]
            rows = found.read(opened.read_row_groups(groups.tolist(), names, use_threads=False))
        except NotProjected as error:
            raise NotProjected(f"rows of {file.path} cannot be read: {error}") from error
    begins = np.cumsum(np.append(0, np.asarray(sizes)[groups]))[:-1]
    first = ends[group_of] - np.asarray(sizes)[group_of]
    return rows.take(pa.array(begins[number] + positions - first))


def rows_at_once(file: LiveFile, bytes_at_once: int) -> int:
    """How many rows of the file take about so many bytes in memory, where files are packed four times as small."""
    return max(1, bytes_at_once * file.record_count // max(1, 4 * file.file_size_bytes))
