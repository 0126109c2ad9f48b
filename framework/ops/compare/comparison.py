"""Compares two tables: sums of all rows first, then, of the buckets whose sums differ, the rows themselves.

In: two tables that are open (`RowScan`), and what is asked. Out: a `TableComparison`. Memory holds the sums, a few batches and
at most `most_rows` rows a side, whatever the tables' size. Keeps one rule: what was not compared is said, and never counts
as equal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Lock

import numpy as np
import pyarrow as pa

from framework.adapters.iceberg.row_scan import RowScan
from framework.adapters.key_hash import KeyHashes
from framework.config.names.metadata import metadata_column
from framework.diagnose.counted import counted
from framework.errors import FloeError
from framework.ops.compare.model import (
    Asked,
    ColumnDifference,
    Compared,
    Example,
    OffsetGap,
    RowDifference,
    TableComparison,
)
from framework.ops.compare.row_words import row_words
from framework.ops.compare.sums import BucketSums, Differing, buckets_of, buckets_of_positions, chosen, differing
from framework.record.arrays import Ints, Mask

POSITION = tuple(metadata_column(name) for name in ("topic", "partition", "offset"))
Say = Callable[[str], None]
_THREADS = 2
_SAY_EVERY_S = 3.0


def compare(left: RowScan, right: RowScan, asked: Asked, say: Say) -> TableComparison:
    """What differs between two tables, seen from the first.

    Raises:
        FloeError: FLOE-R135, a table cannot be read; FLOE-R412, they lack a column that was asked for, or have none in
            common.
    """
    columns, others = _columns(left, right, asked)
    sums = [BucketSums(), BucketSums()]
    for side, scan in zip(sums, (left, right), strict=True):
        lock = Lock()

        def add(batch: pa.RecordBatch, into: BucketSums = side, lock: Lock = lock) -> None:
            places, _, rows = _words(batch, columns, asked)
            with lock:
                into.add(places, rows)

        _each_batch(scan, columns, add, say)
    differ = sums[0].differing(sums[1])
    seen, _ = chosen(sums[0], sums[1], asked.most_rows)
    counts = dict.fromkeys(RowDifference, 0)
    examples: tuple[Example, ...] = ()
    gaps: tuple[OffsetGap, ...] = ()
    if seen.any():
        say(f"rows that differ lie in {int(differ.sum()):,} of {len(differ):,} buckets; looking at {int(seen.sum()):,}")
        mine, theirs = (_rows_in(scan, columns, asked, seen, say) for scan in (left, right))
        found = differing(_key_and_row(mine, columns, asked), _key_and_row(theirs, columns, asked))
        counts = {
            RowDifference.MISSING: len(found.missing),
            RowDifference.EXTRA: len(found.extra),
            RowDifference.CHANGED: len(found.changed_left),
        }
        examples = tuple(_examples(mine, theirs, found, asked))
        gaps = tuple(_gaps(mine, theirs, found)) if asked.by_position else ()
    compared = [
        Compared(scan.name, scan.snapshot_id, side.count) for scan, side in zip((left, right), sums, strict=True)
    ]
    return TableComparison(
        compared[0], compared[1], columns, others, counts, int(differ.sum()), int(seen.sum()), examples, gaps
    )


def _columns(left: RowScan, right: RowScan, asked: Asked) -> tuple[tuple[str, ...], tuple[ColumnDifference, ...]]:
    """The columns that can be compared, and those that cannot."""
    names = [*left.columns, *(name for name in right.columns if name not in left.columns)]
    pairs = {name: (left.columns.get(name), right.columns.get(name)) for name in names if name not in asked.without}
    same = tuple(name for name, (mine, theirs) in pairs.items() if mine == theirs)
    others = tuple(ColumnDifference(name, *pair) for name, pair in pairs.items() if name not in same)
    unknown = [name for name in asked.without if name not in names]
    lacking = [name for name in asked.key if name not in same]
    if not same or unknown or lacking:
        wrong = unknown or lacking
        raise FloeError(
            f"{left.name} and {right.name} have no column {wrong[0]} in common" if wrong else
            f"{left.name} and {right.name} have no column in common",
            code="FLOE-R412",
            place=wrong[0] if wrong else left.name,
            remedy=f"name columns that both have: {', '.join(same) or 'there are none'}",
        )  # fmt: skip
    return same, others


# ---- rows --------------------------------------------------------------------------------------------------------


def _words(batch: pa.RecordBatch | pa.Table, columns: Sequence[str], asked: Asked) -> tuple[Ints, KeyHashes, KeyHashes]:
    """The bucket of each row, and the words of its key and of the whole row."""
    rows = row_words([batch.column(name) for name in columns])
    if asked.by_position:
        places = row_words([batch.column(name) for name in asked.key[:2]])
        offsets = np.asarray(batch.column(asked.key[2]).fill_null(-1), np.int64)
        return buckets_of_positions(places, offsets), row_words([batch.column(name) for name in asked.key]), rows
    keys = row_words([batch.column(name) for name in asked.key]) if asked.key else rows
    return buckets_of(keys), keys, rows


def _each_batch(scan: RowScan, columns: Sequence[str], take: Callable[[pa.RecordBatch], None], say: Say) -> None:
    """Every batch of a table, a few files at a time."""

    def whole(file: Iterator[pa.RecordBatch]) -> None:
        for batch in file:
            if len(batch):
                take(batch)

    files, said = scan.files(columns), time.monotonic()
    running = set[Future[None]]()
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for number, file in enumerate(files):
            if len(running) > _THREADS:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for each in ended:
                    each.result()
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                say(f"{scan.name}: {number - len(running):,} of {counted(len(files), 'file')} read")
            running.add(pool.submit(whole, file))
        for each in running:
            each.result()


def _rows_in(scan: RowScan, columns: Sequence[str], asked: Asked, seen: Mask, say: Say) -> pa.Table | None:
    """The rows of some buckets; None where there are none."""
    found, lock = list[pa.Table](), Lock()

    def pick(batch: pa.RecordBatch) -> None:
        places, _, _ = _words(batch, columns, asked)
        here = np.flatnonzero(seen[places])
        if len(here):
            with lock:
                found.append(pa.Table.from_batches([batch.take(pa.array(here))]))

    _each_batch(scan, columns, pick, say)
    return pa.concat_tables(found, promote_options="permissive") if found else None


def _key_and_row(rows: pa.Table | None, columns: Sequence[str], asked: Asked) -> tuple[KeyHashes, KeyHashes]:
    if rows is None:
        empty = KeyHashes(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
        return empty, empty
    _, keys, whole = _words(rows, columns, asked)
    return keys, whole


# ---- what is shown -----------------------------------------------------------------------------------------------


def _values(rows: pa.Table | None, numbers: Ints, most: int) -> list[dict[str, object]]:
    return [] if rows is None or not len(numbers) else rows.take(pa.array(numbers[:most])).to_pylist()


def _examples(mine: pa.Table | None, theirs: pa.Table | None, found: Differing, asked: Asked) -> Iterator[Example]:
    yield from _changed(mine, theirs, found, asked)
    yield from (Example(RowDifference.MISSING, row, None) for row in _values(mine, found.missing, asked.examples))
    yield from (Example(RowDifference.EXTRA, None, row) for row in _values(theirs, found.extra, asked.examples))


def _changed(mine: pa.Table | None, theirs: pa.Table | None, found: Differing, asked: Asked) -> Iterator[Example]:
    """Rows of one key on both sides, and the columns in which they differ: by their words, as all rows were compared."""
    if mine is None or theirs is None or not len(found.changed_left):
        return
    left, right = mine.take(pa.array(found.changed_left[: asked.examples])), theirs.take(pa.array(found.changed_right))
    at = {words: number for number, words in enumerate(_words_of(right, asked.key))}
    right = right.take(pa.array([at[words] for words in _words_of(left, asked.key)], pa.int64()))
    columns = [(name, _words_of(left, (name,)), _words_of(right, (name,))) for name in left.column_names]
    for number, (own, other) in enumerate(zip(left.to_pylist(), right.to_pylist(), strict=True)):
        differing = tuple(name for name, here, there in columns if here[number] != there[number])
        yield Example(RowDifference.CHANGED, own, other, differing)


def _words_of(rows: pa.Table, columns: Sequence[str]) -> list[tuple[int, int]]:
    words = row_words([rows.column(name) for name in columns])
    return list(zip(words.high.tolist(), words.low.tolist(), strict=True))


def _gaps(mine: pa.Table | None, theirs: pa.Table | None, found: Differing) -> Iterator[OffsetGap]:
    """The offsets of all rows that differ, neighbours together."""
    sides = (
        (RowDifference.MISSING, mine, found.missing),
        (RowDifference.EXTRA, theirs, found.extra),
        (RowDifference.CHANGED, mine, found.changed_left),
    )
    for what, rows, numbers in sides:
        if rows is None or not len(numbers):
            continue
        places = rows.select(list(POSITION)).take(pa.array(numbers)).to_pylist()
        at = sorted({tuple(place.values()) for place in places if None not in place.values()})
        begin = None
        for number, (topic, partition, offset) in enumerate(at):
            begin = offset if begin is None else begin
            follows = number + 1 < len(at) and at[number + 1] == (topic, partition, offset + 1)
            if not follows:
                yield OffsetGap(what, topic, partition, begin, offset + 1)
                begin = None
