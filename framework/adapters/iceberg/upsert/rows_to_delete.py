"""Which rows go with a commit to an upsert table, for the very head that it is conditional on.

In: announcements of changed keys, and the live files of the head. Out: by data file the positions to delete. Keeps
invariant 15: no positions are committed unless every live file was known at the snapshot that was searched, or is
searched here. A file that is gone took its rows with it; where they went is found by searching the files that are new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from framework.adapters.iceberg.private.live_files import LiveFile, LiveFiles
from framework.adapters.iceberg.project_by_id import table_columns
from framework.adapters.iceberg.upsert.keys_file import read_found, read_keys
from framework.adapters.iceberg.upsert.search import search
from framework.adapters.iceberg.views import head_of, snapshot_by_id
from framework.commit.events.event_types import UpsertChanges
from framework.record.arrays import Ints


def rows_to_delete(
    io: FileIO, metadata: TableMetadata, branch: str, live: LiveFiles, keyed: Sequence[UpsertChanges]
) -> dict[str, Ints]:
    """By path of a live file, the positions of the rows whose keys change.

    Raises:
        OSError: a file of keys, or a data file, cannot be read.
    """
    found: dict[str, list[Ints]] = defaultdict(list)
    for changes in keyed:
        unknown = _unknown(metadata, branch, live, changes.base_snapshot_id)
        for file in changes.keys:
            before = read_found(io, file.path)
            _add(found, before.paths, before.positions, live.by_path)
            if unknown:
                key = table_columns(metadata).of(changes.key_ids)
                hits = search(io, unknown, key, key.as_now(read_keys(io, file.path)))
                for number in np.unique(hits.files):
                    found[unknown[number].path].append(hits.positions[hits.files == number])
    return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}


def _add(
    found: dict[str, list[Ints]], paths: pa.DictionaryArray, positions: Ints, live: Mapping[str, LiveFile]
) -> None:
    codes = np.asarray(paths.indices)
    # NumPy sorts numbers of 16 bits by their digits.
    order = np.argsort(codes.astype(np.uint16) if len(paths.dictionary) < 2**16 else codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
    for path, (start, end) in zip(paths.dictionary.to_pylist(), pairwise(bounds), strict=True):
        if path in live and start < end:
            found[path].append(positions[order[start:end]])


def _unknown(metadata: TableMetadata, branch: str, live: LiveFiles, base_snapshot_id: int | None) -> list[LiveFile]:
    """The live files that the search at the base snapshot cannot have seen."""
    base = snapshot_by_id(metadata, base_snapshot_id) if base_snapshot_id is not None else None
    if base is None or not _is_ancestor(metadata, branch, base.snapshot_id):
        return list(live.by_path.values())
    # A file's own sequence number is that of the commit that brought it, whatever rows it was made from.
    number = base.sequence_number or 0
    return [file for file in live.by_path.values() if file.file_sequence_number > number]


def _is_ancestor(metadata: TableMetadata, branch: str, snapshot_id: int) -> bool:
    at = head_of(metadata, branch)
    while at is not None and at.snapshot_id != snapshot_id:
        at = snapshot_by_id(metadata, at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    return at is not None
