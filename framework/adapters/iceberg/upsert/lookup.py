"""Where the live rows of keys are, by the table's key index where it has one and by its key columns elsewhere.

In: keys, the live files of a snapshot, and the runs of an index. Out: the same as `key_search.search` gives without an
index, whatever runs there are (invariant 18). A run knows nothing of deletes and of snapshots: what it finds counts
only in files that are live, for rows that are not deleted there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.project_by_id import TableColumns
from framework.adapters.iceberg.upsert.index_runs import Entries, UnusableRun, check_within, entries_of, find, read_run
from framework.adapters.iceberg.upsert.search import Hits, inherited, is_deleted, search
from framework.adapters.key_hash import KeyHashes
from framework.adapters.value_bytes import plain_type
from framework.record.arrays import Ints, rows_by_number
from framework.table.upsert.key_index import KeyIndex, KeyRun

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeyMatches:
    """`hits` count the files in `searched`; `lost_runs` are the paths of runs that are of no use any more."""

    hits: Hits
    searched: tuple[LiveFile, ...]
    lost_runs: tuple[str, ...] = ()


def look_up(
    io: FileIO,
    live: Mapping[str, LiveFile],
    candidates: Callable[[], Sequence[LiveFile]],
    key: TableColumns,
    keys: pa.Table,
    hashes: KeyHashes,
    order: Ints,
    index: KeyIndex | None,
) -> KeyMatches:
    """Every live row with one of the keys.

    Args:
        live: all live data files of the snapshot, by path.
        candidates: those that may hold one of the keys; asked for only where the index leaves files to read.
        keys: their values, columns in the order of `key`, no nulls, no key twice.
        hashes: of the keys; `order` sorts them.
        index: None where the table has none.

    Raises:
        OSError: a data file or a file of deletes cannot be read; each store has exceptions of its own.
    """
    if index is None:
        files_to_search = candidates()
        return KeyMatches(search(io, files_to_search, key, keys), tuple(files_to_search))
    ordered = hashes.take(order)
    covered: set[str] = set()
    files: dict[str, int] = {}
    parts: list[Hits] = []
    lost: list[str] = []
    for run in index.runs:
        try:
            found = _in_run(io, run, ordered, order, live, covered, files)
        except UnusableRun as error:
            _LOG.warning("a run of a key index is of no use, its data files are read instead: %s", error)
            lost.append(run.path)
            continue
        parts += found
    rest = [file for file in live.values() if file.path not in covered]
    if sum(file.record_count for file in rest) <= len(keys):
        # To hash a few rows is cheaper than to make ready for a search for many keys.
        kinds = [plain_type(column.type) for column in keys.columns]
        counts = [file.record_count for file in rest]
        parts += _hits(io, entries_of(io, rest, key, kinds).by_hash(), rest, counts, ordered, order, files)
        return KeyMatches(_joined(parts), tuple(live[path] for path in files), tuple(lost))
    rest = [file for file in candidates() if file.path not in covered]
    hits = search(io, rest, key, keys)
    parts.append(Hits(hits.keys, hits.files + len(files), hits.positions, hits.row_ids))
    return KeyMatches(_joined(parts), (*(live[path] for path in files), *rest), tuple(lost))


def _in_run(
    io: FileIO,
    run: KeyRun,
    keys: KeyHashes,
    rows: Ints,
    live: Mapping[str, LiveFile],
    covered: set[str],
    files: dict[str, int],
) -> list[Hits]:
    """Live rows in the data files that this run covers and no other before it.

    Args:
        keys, rows: hashes, ascending, and which key each is of.
        covered: paths of data files that were looked for; this run's are added.
        files: by path the number of each data file with hits; this run's are added.

    Raises:
        UnusableRun: nothing was looked for.
    """
    own = [
        live[path] if path in live and live[path].record_count == count and path not in covered else None
        for path, count in zip(run.files, run.file_rows, strict=True)
    ]
    if not any(own):
        return []
    entries = read_run(io, run, keys.high)
    hits = _hits(io, entries, own, run.file_rows, keys, rows, files)
    covered.update(file.path for file in own if file is not None)
    return hits


def _hits(
    io: FileIO,
    entries: Entries,
    held_in: Sequence[LiveFile | None],
    file_rows: Sequence[int],
    keys: KeyHashes,
    rows: Ints,
    files: dict[str, int],
) -> list[Hits]:
    """Live rows among the entries, by data file.

    Args:
        entries: ascending by hash.
        held_in: the data file of each number in the entries; None where its rows do not count.
        file_rows: of each how many rows it has.
        keys, rows, files: as in `_in_run`.

    Raises:
        UnusableRun: an entry is of none of the files, or of none of its file's rows; `files` is as before.
    """
    of_keys, at = find(entries.hashes, keys.high, keys.low)
    in_files = np.asarray(entries.files[at], np.int64)
    check_within(in_files, np.asarray(entries.positions[at], np.int64), file_rows)
    if not all(held_in):
        kept = np.asarray([file is not None for file in held_in])[in_files]
        of_keys, at, in_files = of_keys[kept], at[kept], in_files[kept]
    if not len(at):
        return []
    order, bounds = rows_by_number(in_files)
    of_keys, at = rows[of_keys[order]], at[order]
    numbers = in_files[order[bounds[:-1]]]
    positions = np.asarray(entries.positions[at], np.int64)
    held = None if entries.row_ids is None else np.asarray(entries.row_ids[at], np.int64)
    parts = []
    for number, start, end in zip(numbers, bounds[:-1], bounds[1:], strict=True):
        file = held_in[number]
        assert file is not None
        alive = np.flatnonzero(~is_deleted(io, file, positions[start:end])) + start
        if len(alive):
            ids = inherited(file, positions[alive], None if held is None else held[alive])
            place = files.setdefault(file.path, len(files))
            parts.append(Hits(of_keys[alive], np.full(len(alive), place, np.int64), positions[alive], ids))
    return parts


def _joined(parts: Sequence[Hits]) -> Hits:
    if not parts:
        nothing: Ints = np.empty(0, np.int64)
        return Hits(nothing, nothing, nothing, nothing)
    return Hits(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.files for part in parts]),
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.row_ids for part in parts]),
    )
