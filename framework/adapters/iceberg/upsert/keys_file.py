"""The keys that a batch changes, in a file of its own: who commits needs them where the table has changed meanwhile.

In: keys and where their live rows were found. Out: a Parquet file and the same again. A key stands in as many rows as
it has live rows, and once if it has none; so whoever goes by `file` and `pos` alone needs no key column. Written beside
the data files of its batch and named by its announcement; nothing refers to it after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from framework.adapters.iceberg.upsert.search import Hits
from framework.adapters.store.counted_files import native, parquet_file
from framework.adapters.value_bytes import plain
from framework.commit.events.event_types import KeysFile
from framework.record.arrays import Ints, Mask

# Key columns are called by their numbers here: a table may have columns of any name.
FILE, POSITION = "__floe_file", "__floe_pos"


@dataclass(frozen=True)
class RowPositions:
    """Live rows that are to go: parallel arrays, one entry for each; a path is reported once for all of its rows."""

    paths: pa.DictionaryArray
    positions: Ints


def write_keys(io: FileIO, path: str, keys: pa.Table, hits: Hits, searched: Sequence[str]) -> KeysFile:
    """Write the keys with where their rows are; `searched` are the paths of the files that `hits` counts."""
    used = np.flatnonzero(np.bincount(hits.files, minlength=1))
    names = pa.array([searched[number] for number in used], pa.string())
    numbers = np.zeros(len(searched) + 1, np.int32)
    numbers[used] = np.arange(len(used), dtype=np.int32)
    is_live: Mask = np.zeros(len(keys), np.bool_)
    is_live[hits.keys] = True
    if np.count_nonzero(is_live) == len(hits):  # as a rule: no key has two rows, and none has to move
        held, rows, isolated = keys, hits.keys, np.logical_not(is_live)
    else:
        without = np.flatnonzero(~is_live)
        held = keys.take(pa.array(np.concatenate([hits.keys, without])))
        rows = np.arange(len(hits))
        isolated = np.arange(len(held)) >= len(hits)
    codes, positions = np.zeros(len(held), np.int32), np.zeros(len(held), np.int64)
    codes[rows], positions[rows] = numbers[hits.files], hits.positions
    held = held.append_column(FILE, pa.DictionaryArray.from_arrays(pa.array(codes, mask=isolated), names))
    held = held.append_column(POSITION, pa.array(positions, mask=isolated))
    held = held.rename_columns([*(f"key{number}" for number in range(keys.num_columns)), FILE, POSITION])
    output = io.new_output(path)
    with output.create(overwrite=False) as stream:
        # It is read once, by the next commit: to make it small takes longer than to move it. Keys are often random.
        packed = {name: "lz4" if name in (FILE, POSITION) else "none" for name in held.column_names}
        pq.write_table(held, native(stream), compression=packed, use_dictionary=[FILE], write_statistics=False)
    return KeysFile(path, len(held), len(output))


def read_found(io: FileIO, path: str) -> RowPositions:
    """Where the rows of the keys were found; no key column is read.

    Raises:
        OSError: the file is not there, or is no such file.
    """
    with io.new_input(path).open() as stream:
        opened = parquet_file(stream, read_dictionary=[FILE])
        held = opened.read([FILE, POSITION], use_threads=False).unify_dictionaries()
    held = held.filter(pc.is_valid(held.column(POSITION))).combine_chunks()
    paths = held.column(FILE).combine_chunks()
    return RowPositions(paths, np.asarray(held.column(POSITION), np.int64))


def read_keys(io: FileIO, path: str) -> pa.Table:
    """The keys, each once, columns in their order, of a UUID its sixteen bytes.

    Raises:
        OSError: as `read_found`.
    """
    with io.new_input(path).open() as stream:
        opened = parquet_file(stream)
        names = [name for name in opened.schema_arrow.names if name not in (FILE, POSITION)]
        held = opened.read(names, use_threads=False)
    held = pa.table([plain(column) for column in held.columns], names)
    return held.group_by(names, use_threads=False).aggregate([]).select(names)
