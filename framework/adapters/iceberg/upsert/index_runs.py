"""The files of a table's key index: written, merged, and searched where they lie.

In: hashes of keys with the rows that they stand for. Out: a file, and of some hashes the rows. A run is an Arrow file
of one batch, uncompressed and sorted by hash, so that a search maps it into memory and touches the pages that it needs.
A run that is not there, is not what was written or is of another version is reported as such: whoever searches reads the
data files instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.project_by_id import TableColumns
from framework.adapters.iceberg.upsert.hash_files import has_checksums, read_hash_file, write_hash_file
from framework.adapters.iceberg.upsert.search import read_key_columns, row_ids_in
from framework.adapters.key_hash import HASH_VERSION, KeyHashes, Words, available, compiled, hash_keys
from framework.record.arrays import Ints
from framework.table.upsert.key_index import KeyRun

_ABOUT = b"floe.key-run"
_TYPES = {"high": pa.uint64(), "low": pa.uint64(), "file": pa.int32(), "position": pa.int64(), "row_id": pa.int64()}
_NO_ROW_ID = -1


@dataclass(frozen=True)
class Entries:
    """Parallel arrays, one entry for each row; `files` numbers the data files. `row_ids` are those that a file itself
    holds, -1 where a row's id is its file's first plus the position; None where that holds of all."""

    hashes: KeyHashes
    files: Ints
    positions: Ints
    row_ids: Ints | None

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Ints) -> Entries:
        ids = None if self.row_ids is None else self.row_ids[rows]
        return Entries(self.hashes.take(rows), self.files[rows], self.positions[rows], ids)

    def by_hash(self) -> Entries:
        """In the order in which they are searched."""
        return self.take(np.argsort(self.hashes.high))


class UnusableRun(Exception):
    """A run that cannot be searched, and why, in words for a log."""


def entries_of(io: FileIO, files: Sequence[LiveFile], key: TableColumns, types: Sequence[pa.DataType]) -> Entries:
    """An entry for each row of the data files that has a key, deleted or not.

    Args:
        types: of the key columns, as Arrow has those of the table.

    Raises:
        OSError: a file cannot be read; each store has exceptions of its own.
    """
    parts = [_entries_of_file(io, number, file, key, types) for number, file in enumerate(files)]
    return _together(parts)


def _entries_of_file(
    io: FileIO, number: int, file: LiveFile, key: TableColumns, types: Sequence[pa.DataType]
) -> Entries:
    columns = read_key_columns(io, file, key, types)
    positions: Ints = np.arange(len(columns[0]), dtype=np.int64)
    if any(column.null_count for column in columns):
        is_key = reduce(np.logical_and, (np.asarray(column.is_valid()) for column in columns))
        positions = np.flatnonzero(is_key).astype(np.int64)
        columns = [column.take(pa.array(positions)) for column in columns]
    held = row_ids_in(io, file)
    ids = None if held is None else held[positions]
    return Entries(hash_keys(columns), np.full(len(positions), number, np.int64), positions, ids)


_NOTHING = Entries(
    KeyHashes(np.empty(0, np.uint64), np.empty(0, np.uint64)), np.empty(0, np.int64), np.empty(0, np.int64), None
)


def _together(parts: Sequence[Entries]) -> Entries:
    if not parts:
        return _NOTHING
    ids = None
    if any(part.row_ids is not None for part in parts):
        ids = np.concatenate(
            [np.full(len(part), _NO_ROW_ID) if part.row_ids is None else part.row_ids for part in parts]
        )
    return Entries(
        KeyHashes(
            np.concatenate([part.hashes.high for part in parts]), np.concatenate([part.hashes.low for part in parts])
        ),
        np.concatenate([part.files for part in parts]),
        np.concatenate([part.positions for part in parts]),
        ids,
    )


def write_run(
    io: FileIO,
    root: str,
    entries: Entries,
    files: Sequence[str],
    file_rows: Sequence[int],
    order: Ints | None = None,
) -> KeyRun:
    """Write the entries, in whatever order they are, as a run that covers `files`.

    Args:
        order: what sorts the entries by hash, where that is known. Entries of one hash may stand in any order.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    ordered = entries.take(np.argsort(entries.hashes.high) if order is None else order)
    columns = {
        "high": pa.array(ordered.hashes.high),
        "low": pa.array(ordered.hashes.low),
        "file": pa.array(ordered.files.astype(np.int32)),
        "position": pa.array(ordered.positions),
    }
    if ordered.row_ids is not None:
        columns["row_id"] = pa.array(ordered.row_ids)
    about = {"hash_version": HASH_VERSION, "files": list(files), "file_rows": list(file_rows)}
    path, size = write_hash_file(io, root, columns, _ABOUT, about)
    return KeyRun(path, len(ordered), size, tuple(files), tuple(file_rows))


def read_run(io: FileIO, run: KeyRun, wanted: Words | None = None) -> Entries:
    """The entries of a run, or those among which the wanted hashes are; mapped, and read as far as that.

    Args:
        wanted: ascending.

    Raises:
        UnusableRun: it is not there, or not what was written.
    """
    if not has_checksums(run.path):
        raise UnusableRun(f"{run.path} is of a version without checksums")
    try:
        held = read_hash_file(io, run.path, run.file_size_bytes, _ABOUT, _TYPES, ["row_id"], wanted)
    except Exception as error:  # each store has exceptions of its own
        raise UnusableRun(f"{run.path}: {error}") from error
    expected = {"hash_version": HASH_VERSION, "files": list(run.files), "file_rows": list(run.file_rows)}
    if held.about != expected or held.count != run.entries:
        raise UnusableRun(f"{run.path} covers something else than the index says, or is of another version")
    columns = {name: np.asarray(held.rows.column(name)) for name in held.rows.schema.names}
    return Entries(
        KeyHashes(columns["high"], columns["low"]), columns["file"], columns["position"], columns.get("row_id")
    )


def check_within(files: Ints, positions: Ints, file_rows: Sequence[int]) -> None:
    """Raises UnusableRun where an entry is of none of so many files, or of none of its file's rows."""
    if not len(files):
        return
    if not 0 <= files.min() <= files.max() < len(file_rows):
        raise UnusableRun("it names files that it does not cover")
    if ((positions < 0) | (positions >= np.asarray(file_rows, np.int64)[files])).any():
        raise UnusableRun("it names rows that its files do not have")


def merge_runs(io: FileIO, root: str, runs: Sequence[KeyRun], live: Collection[str]) -> KeyRun | None:
    """One run of several, without data files that are gone; None where nothing is left.

    Raises:
        UnusableRun: one of them cannot be read.
        OSError: as `write_run`.
    """
    files: dict[str, int] = {}
    rows: list[int] = []
    parts = []
    for run in runs:
        entries = read_run(io, run)
        numbers = np.full(len(run.files), -1, np.int64)
        for number, (path, count) in enumerate(zip(run.files, run.file_rows, strict=True)):
            if path in live and path not in files:
                numbers[number] = files[path] = len(files)
                rows.append(count)
        check_within(entries.files, entries.positions, run.file_rows)
        renumbered = numbers[entries.files]
        kept = np.flatnonzero(renumbered >= 0)
        part = entries.take(kept)
        parts.append(Entries(part.hashes, renumbered[kept], part.positions, part.row_ids))
    if not files:
        return None
    together = _together(parts)
    # Of pieces that are sorted each, a merge sort is the faster one.
    return write_run(io, root, together, list(files), rows, np.argsort(together.hashes.high, kind="stable"))


def find(held: KeyHashes, high: Words, low: Words) -> tuple[Ints, Ints]:
    """Which of the keys are among hashes that are held, ascending by `high`: for each entry that is found the key's row
    and the entry's, ascending by both.

    Args:
        high, low: hashes of keys, `high` ascending.
    """
    if not available():
        return _find_plainly(held, high, low)
    # Compiled code takes whole words where they lie; mapped files are aligned as Arrow asks, others are copied.
    held_high, held_low, high, low = (
        np.require(words, np.uint64, ["C", "A"]) for words in (held.high, held.low, high, low)
    )
    assert len(held_high) == len(held_low)
    assert len(high) == len(low)
    room = len(high)
    while True:
        rows, entries = np.empty(room, np.int64), np.empty(room, np.int64)
        count = compiled().find_hashes(
            held_high.ctypes.data, held_low.ctypes.data, len(held_high), high.ctypes.data, low.ctypes.data, len(high),
            rows.ctypes.data, entries.ctypes.data, room,
        )  # fmt: skip
        if count <= room:
            return rows[:count], entries[:count]
        room = count  # a key that was updated has an entry for each of its rows


def _find_plainly(held: KeyHashes, high: Words, low: Words) -> tuple[Ints, Ints]:
    held_high, held_low = held.high, held.low
    at: Ints = np.searchsorted(held_high, high)
    rows: Ints = np.arange(len(high))
    keys_found, entries_found = [], []
    while True:
        # Several entries of one hash stand one after the other: a key that was updated has one for each of its rows.
        within = at < len(held_high)
        rows, at = rows[within], at[within]
        same = held_high[at] == high[rows]
        rows, at = rows[same], at[same]
        if not len(rows):
            break
        is_key = held_low[at] == low[rows]
        keys_found.append(rows[is_key])
        entries_found.append(at[is_key])
        at = at + 1
    nothing = [np.empty(0, np.int64)]
    keys, found = np.concatenate(keys_found or nothing), np.concatenate(entries_found or nothing)
    order = np.lexsort((found, keys))
    return keys[order], found[order]
