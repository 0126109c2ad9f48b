"""Whether each key of a table has one live row, asked once before the table is first changed by its key.

In: the live files of a snapshot and the key's columns. Out: how many keys have several rows. A table that was appended
to may hold any key twice; an update would take all its rows and leave one, and nobody asked for that. Hashes of all
keys are compared; of large tables only as many at once as fit in memory, in several passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.project_by_id import TableColumns
from framework.adapters.iceberg.upsert.search import is_deleted, read_key_columns
from framework.adapters.key_hash import Words, hash_keys
from framework.record.arrays import Ints

# Sixteen bytes of each key are held, and as much again while they are sorted.
ROWS_AT_ONCE = 20_000_000


def double_keys(
    io: FileIO,
    files: Sequence[LiveFile],
    key: TableColumns,
    kinds: Sequence[pa.DataType],
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """How many keys have several live rows among these files.

    Args:
        kinds: the types of the key columns, as `value_bytes.plain_type` gives them.
        say: is called for each pass, where there are several.

    Raises:
        OSError: a file cannot be read; each store has exceptions of its own.
    """
    rows = sum(file.record_count for file in files)
    passes = max(1, -(-rows // ROWS_AT_ONCE))
    count = 0
    for number in range(passes):
        if passes > 1:
            say(f"looking for keys with several rows among {rows:,}: pass {number + 1} of {passes}")
        high, low = _hashes(io, files, key, kinds, number, passes)
        count += _repeated(high, low)
    return count


def _live_keys(io: FileIO, file: LiveFile, key: TableColumns, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    columns = read_key_columns(io, file, key, kinds)
    positions: Ints = np.arange(len(columns[0]), dtype=np.int64)
    kept = ~is_deleted(io, file, positions)
    for column in columns:
        if column.null_count:
            kept &= np.asarray(column.is_valid())
    return columns if kept.all() else [column.filter(pa.array(kept)) for column in columns]


def _hashes(
    io: FileIO,
    files: Sequence[LiveFile],
    key: TableColumns,
    kinds: Sequence[pa.DataType],
    number: int,
    passes: int,
) -> tuple[Words, Words]:
    """Of the keys that this pass is about."""
    parts = []
    for file in files:
        columns = _live_keys(io, file, key, kinds)
        hashes = hash_keys(columns)
        own = np.flatnonzero(hashes.high % np.uint64(passes) == number)
        parts.append(hashes if passes == 1 else hashes.take(own))
    nothing = np.empty(0, np.uint64)
    return np.concatenate([part.high for part in parts] or [nothing]), np.concatenate(
        [part.low for part in parts] or [nothing]
    )


def _repeated(high: Words, low: Words) -> int:
    """How many hashes are there more than once."""
    order = np.argsort(high)
    same = high[order][1:] == high[order][:-1]
    if not same.any():
        return 0
    rows = order[np.append(same, False) | np.append(False, same)]
    _, counts = np.unique(np.stack([high[rows], low[rows]]), axis=1, return_counts=True)
    return int(np.count_nonzero(counts > 1))
