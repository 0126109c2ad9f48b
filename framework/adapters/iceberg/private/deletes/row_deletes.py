"""Deletes of rows: from positions in live data files to delete files that replace the ones before.

In: the live files of the parent snapshot, and for some of them positions to delete. Out: new delete files, written,
with the entries that name them, and which old entries go. Keeps invariant 14: a data file has at most one deletion
vector, or one position delete file of its own, which holds all that was deleted before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.utils.concurrent import ExecutorFactory

from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions, read_vectors, united, write_vectors
from framework.adapters.iceberg.private.deletes.position_deletes import (
    PositionDeletes,
    UnsupportedDeletes,
    read_position_deletes,
    write_position_deletes,
)
from framework.adapters.iceberg.private.entry_fields import content_range, delete_file
from framework.adapters.iceberg.private.live_files import LiveFile, LiveFiles

# What distinguishes a delete entry from all others: its file, and where in it a deletion vector begins.
EntryKey = tuple[str, int | None]


class WrongDeletes(ValueError):
    """Deletes name a file that is not live, is added by the same commit, or has no such row; or they are made for
    another snapshot than the parent."""


@dataclass(frozen=True)
class FileDeletes:
    """What is deleted in one data file from now on, and which entries said so before."""

    file: LiveFile
    positions: Positions
    replaced: tuple[EntryKey, ...]


def entry_key(file: DataFile) -> EntryKey:
    """The key of a delete entry."""
    place = content_range(file)
    return file.file_path, None if place is None else place[0]


def resolved(
    io: FileIO, live: LiveFiles, deletes: Mapping[str, Positions], added: Collection[str], format_version: int
) -> list[FileDeletes]:
    """Old and new positions united, for those files in which a row is deleted that was not before; ordered by
    partition.

    Args:
        added: paths of data files that the same commit adds, and that it must not delete from.

    Raises:
        WrongDeletes: see there.
        UnsupportedDeletes: the table's version has no deletes, or old ones cannot be read.
        DamagedDeletionVector: an old deletion vector is not what its entry says.
    """
    if format_version < 2:
        raise UnsupportedDeletes(f"format version {format_version} has no deletes of single rows")
    new = {path: _checked(path, positions, live, added) for path, positions in deletes.items()}
    files = [live.by_path[path] for path, positions in new.items() if len(positions)]
    vectors = read_vectors(io, (file.vector for file in files if file.vector is not None))
    executor = ExecutorFactory.get_or_create()
    old_files = {each: file.path for file in files for each in file.position_deletes}
    contents = executor.map(lambda each: read_position_deletes(io, *each), old_files.items())
    read = dict(zip(old_files, contents, strict=True))
    found = []
    for file in files:
        own = [each for each in file.position_deletes if each.file_scoped]
        old = {each: read[each].get(file.path, _NONE) for each in file.position_deletes}
        before = vectors[file.vector] if file.vector is not None else united(old.values())
        after = united((before, new[file.path]))
        if len(after) == len(before):
            continue
        if format_version < lineage.VERSION:  # what a file for several data files deletes stays in force beside ours
            after = united((*(old[each] for each in own), new[file.path]))
        found.append(FileDeletes(file, after, _replaced(file, own)))
    return sorted(found, key=_order)


_NONE: Positions = np.empty(0, np.int64)


def _checked(path: str, positions: Positions, live: LiveFiles, added: Collection[str]) -> Positions:
    if path in added:
        raise WrongDeletes(f"rows of {path} would be deleted by the commit that adds it")
    file = live.by_path.get(path)
    if file is None:
        raise WrongDeletes(f"rows of {path} would be deleted, which is no live data file")
    if not len(positions):
        return _NONE
    if not np.issubdtype(positions.dtype, np.integer):
        raise WrongDeletes(f"positions in {path} are no whole numbers: {positions.dtype}")
    first, last = int(positions.min()), int(positions.max())
    if first < 0 or last >= file.record_count:
        raise WrongDeletes(f"{path} has {file.record_count} rows, and none at {first if first < 0 else last}")
    return positions


def _replaced(file: LiveFile, own: Iterable[PositionDeletes]) -> tuple[EntryKey, ...]:
    if file.vector is not None:
        return ((file.vector.path, file.vector.content_offset),)
    return tuple((each.path, None) for each in own)


def _order(deletes: FileDeletes) -> tuple[int, list[tuple[bool, str]], str]:
    file = deletes.file
    return file.spec_id, [(value is None, str(value)) for value in file.partition], file.path


def write_vector_files(io: FileIO, new_path: Callable[[], str], deletes: Iterable[FileDeletes]) -> list[DataFile]:
    """Write deletion vectors; gives their entries' files."""
    by_path = {each.file.path: each for each in deletes}
    written = write_vectors(io, new_path, ((path, each.positions) for path, each in by_path.items()))
    return [
        delete_file(
            by_path[each.data_file].file.spec_id,
            by_path[each.data_file].file.partition,
            each.vector.path,
            FileFormat.PUFFIN,
            each.vector.cardinality,
            each.file_size_bytes,
            each.data_file,
            content_offset=each.vector.content_offset,
            content_size_in_bytes=each.vector.content_size_bytes,
        )
        for each in written
    ]


def write_position_delete_files(
    io: FileIO, new_path: Callable[[], str], deletes: Iterable[FileDeletes]
) -> list[DataFile]:
    """Write a position delete file for each data file, several at a time; gives their entries' files."""
    named = [
        (new_path(), each) for each in deletes
    ]  # before the first is written, so that a failure leaves none unnamed

    def write(path: str, each: FileDeletes) -> DataFile:
        made = write_position_deletes(io, path, each.file.path, each.positions)
        return delete_file(
            each.file.spec_id,
            each.file.partition,
            path,
            FileFormat.PARQUET,
            made.record_count,
            made.file_size_bytes,
            each.file.path,
            column_sizes=made.column_sizes,
            lower_bounds=made.lower_bounds,
            upper_bounds=made.upper_bounds,
            split_offsets=made.split_offsets,
        )

    executor = ExecutorFactory.get_or_create()
    futures = [executor.submit(write, path, each) for path, each in named]
    wait(futures)  # also for those after a failure, or what is removed then would be written later
    return [future.result() for future in futures]
