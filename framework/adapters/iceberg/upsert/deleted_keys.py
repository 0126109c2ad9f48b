"""Files of deleted keys that a table remembers: written, read, merged, and asked for the keys of a batch.

In: hashes of keys with the value that ordered each delete. Out: a file, and of some keys which of their records are
older than the delete. A file is as a run of the key index is, an Arrow file sorted by hash that is mapped into memory;
but it is state and no cache, so one that is not there or is damaged is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO

from framework.adapters.iceberg.upsert.hash_files import Damaged, read_hash_file, write_hash_file
from framework.adapters.iceberg.upsert.index_runs import find
from framework.adapters.key_hash import HASH_VERSION, KeyHashes, Words
from framework.adapters.value_bytes import plain
from framework.commit.events.event_types import DeletedKeysFile
from framework.record.arrays import Ints

Flags = npt.NDArray[np.bool_]
_ABOUT = b"floe.tombstones"
_TYPES = {"high": pa.uint64(), "low": pa.uint64(), "deleted_ms": pa.int64()}


@dataclass(frozen=True)
class DeletedKeys:
    """Parallel arrays, one entry for each key: `order` is the value of its delete, `deleted_ms` when that was
    written."""

    hashes: KeyHashes
    order: pa.Array
    deleted_ms: Ints

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Ints) -> DeletedKeys:
        return DeletedKeys(self.hashes.take(rows), self.order.take(pa.array(rows)), self.deleted_ms[rows])


class UnusableDeletedKeys(OSError):
    """A file that the table names and that cannot be used."""


def write_deleted_keys(io: FileIO, root: str, deleted: DeletedKeys) -> DeletedKeysFile:
    """Write the keys, in whatever order they are, each once.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    ordered = deleted.take(np.argsort(deleted.hashes.high, kind="stable"))
    columns = {
        "high": pa.array(ordered.hashes.high),
        "low": pa.array(ordered.hashes.low),
        "order": plain(ordered.order),
        "deleted_ms": pa.array(ordered.deleted_ms, pa.int64()),
    }
    path, size = write_hash_file(io, root, columns, _ABOUT, {"hash_version": HASH_VERSION})
    return DeletedKeysFile(path, len(ordered), size, int(ordered.deleted_ms.max(initial=0)))


def read_deleted_keys(io: FileIO, file: DeletedKeysFile, kind: pa.DataType, wanted: Words | None = None) -> DeletedKeys:
    """The keys of a file, or those among which the wanted hashes are; mapped, and read as far as that. Files of earlier
    versions have no checksums, and are believed until they are merged.

    Args:
        kind: the type of the ordering column now, as `value_bytes.plain_type` gives it.
        wanted: ascending.

    Raises:
        UnusableTombstones: it is not what was written.
        OSError: it is not there, or cannot be read now; each store has exceptions of its own.
    """
    try:
        held = read_hash_file(io, file.path, file.file_size_bytes, _ABOUT, _TYPES, wanted=wanted)
        order = held.rows.column("order")
        columns = {name: np.asarray(held.rows.column(name)) for name in ("high", "low", "deleted_ms")}
        found = DeletedKeys(
            KeyHashes(columns["high"], columns["low"]),
            order if order.type == kind else order.cast(kind),
            columns["deleted_ms"],
        )
    except (Damaged, LookupError, pa.ArrowException) as error:
        raise UnusableDeletedKeys(f"the deleted keys in {file.path} cannot be read: {error}") from error
    if held.about != {"hash_version": HASH_VERSION} or held.count != file.record_count:
        raise UnusableDeletedKeys(f"{file.path} has not the {file.record_count:,} deleted keys that the table names")
    return found


def merge_deleted_keys(
    io: FileIO, root: str, files: Sequence[DeletedKeysFile], kind: pa.DataType, before_ms: int
) -> DeletedKeysFile | None:
    """One file of several, of each key its newest delete, without those that were written before a moment; None where
    none is left.

    Raises:
        UnusableTombstones, OSError: as the others.
    """
    parts = [read_deleted_keys(io, file, kind) for file in files]
    together = DeletedKeys(
        KeyHashes(
            np.concatenate([part.hashes.high for part in parts]), np.concatenate([part.hashes.low for part in parts])
        ),
        pa.concat_arrays([part.order for part in parts]),
        np.concatenate([part.deleted_ms for part in parts]),
    )
    together = together.take(np.flatnonzero(together.deleted_ms >= before_ms))
    if not len(together):
        return None
    ranks = np.asarray(pc.rank(together.order, tiebreaker="dense"))
    places = np.lexsort((together.deleted_ms, ranks, together.hashes.low, together.hashes.high))
    high, low = together.hashes.high[places], together.hashes.low[places]
    is_last = np.append((high[1:] != high[:-1]) | (low[1:] != low[:-1]), True)
    return write_deleted_keys(io, root, together.take(places[is_last]))


def older_than_deletes(
    io: FileIO, files: Sequence[DeletedKeysFile], hashes: KeyHashes, order: pa.Array, before_ms: int
) -> Flags:
    """Which of these keys have a delete that is newer than the record.

    Args:
        hashes: of the keys.
        order: of each key the record's value.
        before_ms: what was deleted before this moment is remembered no longer.

    Raises:
        UnusableTombstones: a file cannot be used.
    """
    is_older = np.zeros(len(hashes), np.bool_)
    if not files or not len(hashes):
        return is_older
    order = plain(order)
    by_hash = np.argsort(hashes.high)
    ordered = hashes.take(by_hash)
    for file in files:
        held = read_deleted_keys(io, file, order.type, ordered.high)
        keys, entries = find(held.hashes, ordered.high, ordered.low)
        remembered = held.deleted_ms[entries] >= before_ms
        keys, entries = by_hash[keys[remembered]], entries[remembered]
        newer = pc.greater(held.order.take(pa.array(entries)), order.take(pa.array(keys)))
        is_older[keys[np.asarray(newer, np.bool_)]] = True
    return is_older
