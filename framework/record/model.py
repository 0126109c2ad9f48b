"""The values that travel through the data plane: blocks of Kafka records, rows for tables, and what went wrong.

In: records as fetched (bytes with positions). Out: Arrow rows per table, dead letters, and what tables would have to
change first. Everything here is plain data: it pickles to and from Spark's tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from framework.commit.events.event_types import DataFile, DeletedKeysChange, KeysFile
from framework.metrics.store_requests import Requests
from framework.record.arrays import Ints, Mask, Numbers
from framework.table.model import ColumnDetail, ObservedType, TableNeed, TableTarget
from framework.table.upsert.key_index import KeyRun

__all__ = [
    "AlikeRows",
    "BlockResult",
    "ColumnDetail",
    "DeadLetter",
    "ObservedType",
    "RecordBlock",
    "TableNeed",
    "TableTarget",
    "TaskRange",
    "TaskRangeReport",
    "TaskReport",
    "UpsertPart",
    "UpsertRows",
]


# The year 10000. Kafka counts milliseconds; what lies behind it is a count of microseconds (from 1978 on), and what lies
# behind it as microseconds one of nanoseconds: some producers send those, and no moment can be meant in two ways.
_PAST_LAST_MS = 253_402_300_800_000


def timestamps_us(timestamps_ms: Sequence[int] | Ints) -> tuple[Ints, Mask]:
    """Records' timestamps in microseconds, and which records have none."""
    counts = np.asarray(timestamps_ms, np.int64)
    micros = np.where(counts < _PAST_LAST_MS, counts * 1000, counts)
    return np.where(counts < _PAST_LAST_MS * 1000, micros, counts // 1000), counts < 0


def timestamp_us(timestamp_ms: int) -> int | None:
    """The timestamp of one record in microseconds; None where there is none."""
    found, absent = timestamps_us([timestamp_ms])
    return None if absent[0] else int(found[0])


@dataclass(frozen=True)
class TaskRange:
    """The work of one task: offsets [start, end) of one partition. Every record's offset lies in it."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """Why a record was not read: it has so many bytes and may have `most`; or no `size` where the batch that it is in
    cannot be decompressed."""

    size: int | None
    most: int


@dataclass
class RecordBlock:
    """Consecutive records of one task range, about 100,000 of them. All sequences are of one length.

    `values` and `keys` are None where the record has none (a None value is a tombstone). `timestamps_ms` is as the broker
    gives it, -1 where it gives none; `timestamps_us` says what it means. `values` may be a
    `framework.record.value_buffer.JoinedValues`; `keys` and `headers` may be
    built on demand: few records are ever asked for theirs. `unread` are records that were not read, by their offsets, and
    why: their values are empty, and they have neither key nor headers.
    """

    topic: str
    partition: int
    values: Sequence[bytes | None]
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    headers: Sequence[list[tuple[str, bytes | None]] | None]
    unread: Mapping[int, UnreadRecord] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def newest_ms(self) -> int:
        """The newest timestamp; -1 where no record has one."""
        newest = int(np.max(self.timestamps_ms, initial=-1))
        if newest < _PAST_LAST_MS:  # nearly every block
            return newest
        found, _ = timestamps_us(self.timestamps_ms)
        return int(np.max(found)) // 1000

    def key(self, index: int) -> bytes | None:
        return self.keys[index]

    def headers_of(self, index: int) -> list[tuple[str, bytes | None]]:
        """The headers of one record, in order; empty when it has none."""
        return list(self.headers[index] or ())


@dataclass(frozen=True)
class DeadLetter:
    """One record that cannot be written, with its bytes, its place and the reason.

    `stage` is fetch, decode, transform, route, convert or write; `code` a stable code such as FLOE-D201.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    stage: str
    code: str
    message: str
    field_path: str | None = None
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True)
class AlikeRows:
    """Rows of tables that have the same columns: row `i` is of `tables[numbers[i]]`; those of each table are in offset
    order."""

    tables: tuple[str, ...]
    numbers: Numbers
    rows: pa.Table

    def counts(self) -> list[int]:
        """How many rows each table has."""
        return np.bincount(self.numbers, minlength=len(self.tables)).tolist()  # type: ignore[no-any-return]

    def split(self) -> Iterator[tuple[str, Ints, pa.Table]]:
        """Each table that has rows, the places of its rows in order, and the rows."""
        counts = self.counts()
        # As narrow as they can be: numbers of one byte or two are sorted by their digits, in a fraction of the time.
        order = np.argsort(self.numbers.astype(np.min_scalar_type(len(self.tables))), kind="stable")
        ordered = self.rows.take(pa.array(order))
        for name, count, end in zip(self.tables, counts, accumulate(counts), strict=True):
            if count:
                yield name, order[end - count : end], ordered.slice(end - count, count)


@dataclass(frozen=True)
class UpsertRows:
    """Changes of an upsert table, from one block: `upserts` in the table's file schema, and `deletes`, of
    which only the key columns are there, in the order of the policy's `key`, and the one that orders records. Each has
    the source offsets of its rows, ascending. `partial` are rows in the table's columns that keep values of the old row:
    None where there is none. Where records hold several documents, `indexes` order the rows of one offset; else they are
    None."""

    upserts: pa.Table
    upsert_offsets: Ints
    deletes: pa.Table
    delete_offsets: Ints
    partial: PartialRows | None = None
    upsert_indexes: Ints | None = None
    delete_indexes: Ints | None = None

    def __len__(self) -> int:
        return len(self.upserts) + len(self.deletes) + (0 if self.partial is None else len(self.partial.rows))


@dataclass(frozen=True)
class PartialRows:
    """One row or more, with their source offsets, ascending; `kept` are of each the field ids of the columns that keep the old
    row's value, as text with commas."""

    rows: pa.Table
    offsets: Ints
    kept: pa.Array
    indexes: Ints | None = None


@dataclass
class BlockResult:
    """What became of a block. When `needs` is not empty, nothing of `rows` for those tables may be written.

    A table has its rows in `rows`, or, where that was asked for, in one of `alike`, or, where it is an upsert table, in
    `keyed`, and never in two of them.

    The record counts satisfy, when `needs` is empty: records in block = written + filtered + len(dead_letters) +
    dropped. `dropped_for` has by code those of the dropped that were errors. `failure` is the first record that the
    policy `fail` stops at; it is among `dead_letters` too. `refused` are the offsets of all records that were, whatever
    the policy made of them.
    """

    rows: dict[str, pa.Table] = field(default_factory=dict)
    alike: list[AlikeRows] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)
    needs: dict[str, TableNeed] = field(default_factory=dict)
    written: int = 0
    filtered: int = 0
    dropped: int = 0
    dropped_for: Counter[str] = field(default_factory=Counter)
    failure: DeadLetter | None = None
    keyed: dict[str, UpsertRows] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class TaskRangeReport:
    """The accounting of one slice.

    Invariant 8: ``written + filtered + dead_lettered + dropped + holes == slice.end - slice.start``, where holes are
    offsets without a record, counted by the fetcher.

    `letters` has the dead letters by stage and code, `dropped_for` those of the dropped records that were errors.
    """

    slice: TaskRange
    written: int
    filtered: int
    dead_lettered: int
    dropped: int
    holes: int
    max_timestamp_ms: int | None
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped_for: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class UpsertPart:
    """What one task made of the changes of an upsert table: of all changes of some keys in the batch.

    Live rows were looked for at `base_snapshot_id`. The counts add up to the changes that reached the task: `inserted`
    and `updated` keys have a row in its files, `deleted` ones had one in the table, `ignored` deletes found none, and a
    change is `superseded` by a newer one of its key. `run` is what the table's key index needs of the task's files,
    and `lost_runs` what of it was not to be used.
    """

    base_snapshot_id: int | None
    key_ids: tuple[int, ...]
    keys: KeysFile
    inserted: int
    updated: int
    deleted: int
    superseded: int
    ignored: int
    run: KeyRun | None = None
    lost_runs: tuple[str, ...] = ()
    tombstones: DeletedKeysChange | None = None

    @property
    def changes(self) -> int:
        return self.superseded + self.inserted + self.updated + self.deleted + self.ignored


@dataclass(frozen=True)
class RefusedUpdate:
    """A record that lacks a value which its table requires, and no old row has."""

    topic: str
    partition: int
    offset: int
    table: str
    column: str


@dataclass(frozen=True)
class TaskReport:
    """What a task reports to the driver about its task ranges; sent as one pickled value.

    `files` maps a table's name to its data files, `targets` to the (table_uuid, schema_id) they were written for,
    `rows` to its rows. With `needs` the task must be done again once the tables are changed, and `files` is empty.
    `failure` is the first record that the policy `fail` stops at. `keyed` has the changes of tables that follow their
    keys; a target stands for each of them, too. `sent_bytes` of rows went through the exchange, as they are in memory.
    With `refused` the batch must be done again without these records, and `files` are nobody's. `requests` went to stores.
    `learned` are schemas that registries were asked for.
    """

    slices: tuple[TaskRangeReport, ...]
    files: dict[str, list[DataFile]]
    targets: dict[str, tuple[str, int]]
    rows: dict[str, int]
    needs: dict[str, TableNeed]
    failure: DeadLetter | None = None
    keyed: dict[str, UpsertPart] = field(default_factory=dict)
    sent_bytes: int = 0
    refused: tuple[RefusedUpdate, ...] = ()
    requests: Requests = field(default_factory=dict)
    learned: dict[Any, Any] = field(default_factory=dict)  # framework.record.formats.wire knows what they are
