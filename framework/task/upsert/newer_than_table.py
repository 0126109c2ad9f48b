"""Of the newest changes of a batch those that are newer than the table: than the live rows and the deleted keys that it
remembers.

In: a key's change with the value that orders it, and where its live rows are. Out: the changes that stay, and a file of
the keys that they delete. Invariant 19: an older change never wins. It is older only if its value is smaller: of equal
ones the later record wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.commit.events.event_types import DeletedKeysChange
from framework.record.arrays import Ints
from framework.task.upsert.newest import Flags

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from framework.adapters.iceberg.project_by_id import TableColumns
    from framework.adapters.iceberg.upsert.lookup import KeyMatches
    from framework.adapters.iceberg.upsert.order import RowOrder
    from framework.adapters.iceberg.upsert.search import Hits
    from framework.adapters.key_hash import KeyHashes


def newer_than_table(
    io: FileIO, by: RowOrder, column: TableColumns, found: KeyMatches, hashes: KeyHashes, order: pa.ChunkedArray
) -> Ints:
    """The rows of those keys whose change no live row and no deleted key is newer than, ascending.

    Raises:
        UnusableTombstones: a file of deleted keys is damaged.
        OSError: a data file, or a file of deleted keys, cannot be read; each store has exceptions of its own.
    """
    from framework.adapters.iceberg.upsert.deleted_keys import older_than_deletes
    from framework.adapters.iceberg.upsert.row_versions import older_than_rows
    from framework.adapters.value_bytes import plain

    values = plain(order)
    is_older = older_than_rows(io, found.searched, found.hits, values, column)
    is_older |= older_than_deletes(io, by.files, hashes, values, by.before_ms)
    return np.flatnonzero(~is_older).astype(np.int64)


def hits_of(hits: Hits, kept: Ints) -> Hits:
    """The live rows of the keys that stay, which are numbered anew."""
    from framework.adapters.iceberg.upsert.search import Hits

    is_kept = np.isin(hits.keys, kept)
    keys = np.searchsorted(kept, hits.keys[is_kept])
    return Hits(keys, hits.files[is_kept], hits.positions[is_kept], hits.row_ids[is_kept])


def remember(
    io: FileIO, by: RowOrder, hashes: KeyHashes, order: pa.ChunkedArray, is_delete: Flags
) -> DeletedKeysChange:
    """What the table is to remember of this task's deletes: of keys that had a live row and of those that had none.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    from framework.adapters.iceberg.upsert.deleted_keys import DeletedKeys, write_deleted_keys
    from framework.adapters.value_bytes import plain

    rows = np.flatnonzero(is_delete).astype(np.int64)
    added = by.added
    if len(rows):
        deleted = DeletedKeys(
            hashes.take(rows), plain(order).take(pa.array(rows)), np.full(len(rows), by.now_ms, np.int64)
        )
        added = (*added, write_deleted_keys(io, by.root, deleted))
    return DeletedKeysChange(by.field_id, by.known, added, by.removed)
