"""Changes of an upsert table on their way through the exchange: rows, and behind their columns what else is known of each.

In: rows of one block, and where they stood in the source. Out: pieces as they are sent, and of a piece that came the
columns that are asked for. What stands behind the table's columns is found by its place, never by its name: a record may
have fields of any name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from framework.adapters.waiting_pieces import Piece, WaitingPieces
from framework.record.arrays import Ints
from framework.record.model import PartialRows
from framework.task.upsert.kept_values import PartialChanges, partial_changes
from framework.task.upsert.newest import Flags, Positions

UPSERT, DELETE, PARTIAL = "upsert", "delete", "partial"
_POSITIONS = ("topic", "partition", "offset")
_INDEX = "index"  # a fourth one, where records hold several documents
_KEPT = "kept"


def with_positions(rows: pa.Table, source: tuple[int, int], offsets: Ints, indexes: Ints | None = None) -> pa.Table:
    """The rows with where they stood: the topic's number, its partition, each row's offset, and its index in the record,
    if that holds several documents."""
    topic, partition = source
    numbers = (pa.array(np.full(len(rows), number, np.int32)) for number in (topic, partition))
    for name, column in zip(_POSITIONS, (*numbers, pa.array(offsets, pa.int64())), strict=True):
        rows = rows.append_column(name, column)
    return rows if indexes is None else rows.append_column(_INDEX, pa.array(indexes, pa.int32()))


def with_kept(partial: PartialRows) -> pa.Table:
    """The rows with what they lack."""
    return partial.rows.append_column(_KEPT, partial.kept)


def behind(change: str, names: Sequence[str]) -> int:
    """How many of a piece's columns stand behind those of the table; the last one is never the table's."""
    return len(_positions(names)) + (change == PARTIAL)


def _positions(names: Sequence[str]) -> tuple[str, ...]:
    return (*_POSITIONS, _INDEX) if names[-1] == _INDEX else _POSITIONS


def head_of(
    stream: pa.Buffer, change: str, names: Sequence[str]
) -> tuple[list[pa.ChunkedArray], pa.Table, pa.ChunkedArray | None]:
    """Some columns of the rows in an Arrow stream, in this order, where the rows stood, and what partial ones lack; the
    other columns are not unpacked."""
    found = pa.ipc.open_stream(stream).schema.names
    own, stood = len(found) - behind(change, found), _positions(found)
    columns = read_columns(stream, [*(found.index(name, 0, own) for name in names), *range(own, len(found))])
    positions = pa.Table.from_arrays(columns[len(columns) - len(stood) :], stood)
    return columns[: len(names)], positions, columns[len(names)] if change == PARTIAL else None


def read_columns(stream: pa.Buffer, places: Sequence[int]) -> list[pa.ChunkedArray]:
    """The columns at these places of a stream, in this order."""
    wanted = sorted(set(places))
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    held = pa.ipc.open_stream(stream, options=options).read_all()
    by_place = dict(zip(wanted, held.columns, strict=True))
    return [by_place[place] for place in places]


def positions_of(pieces: Sequence[pa.Table]) -> Positions:
    held = pa.concat_tables(pieces)
    return Positions(*(np.asarray(held.column(name), np.int64) for name in held.column_names))


class ReadChanges(Protocol):
    def __call__(self, numbers: Ints, names: Sequence[str]) -> pa.Table:
        """These columns of the changes with these numbers, in their order."""


@dataclass
class TableChanges:
    """Of one table: pieces as they were sent, and of all of them the keys and positions, in the same order; of partial
    ones, by the number of the first change, what each change lacks."""

    pieces: list[tuple[Piece, str]] = field(default_factory=list)
    keys: list[pa.Table] = field(default_factory=list)
    order: list[pa.ChunkedArray] = field(default_factory=list)
    positions: list[pa.Table] = field(default_factory=list)
    kept: dict[int, pa.ChunkedArray] = field(default_factory=dict)
    count: int = 0

    @property
    def is_delete(self) -> Flags:
        deletes = np.array([change == DELETE for _, change in self.pieces], np.bool_)
        return np.repeat(deletes, [len(each) for each in self.positions])

    @property
    def partial(self) -> PartialChanges:
        """What partial changes lack."""
        numbers = [np.arange(first, first + len(each)) for first, each in self.kept.items()]
        kept = pa.chunked_array([chunk for each in self.kept.values() for chunk in each.chunks], pa.string())
        return partial_changes(np.concatenate(numbers), kept)

    def reader(self, waiting: WaitingPieces) -> ReadChanges:
        """Reads changes of all pieces by their numbers; call before the pieces are unpacked for good."""
        starts = np.cumsum([0, *(len(each) for each in self.positions)])
        pieces = list(self.pieces)

        def read(numbers: Ints, names: Sequence[str]) -> pa.Table:
            of_piece = np.searchsorted(starts, numbers, side="right") - 1
            parts, order = [], []
            for piece in np.unique(of_piece).tolist():
                mine = np.flatnonzero(of_piece == piece)
                held, change = pieces[piece]
                stream = waiting.read(held)
                found = pa.ipc.open_stream(stream).schema.names
                own = len(found) - behind(change, found)
                columns = read_columns(stream, [found.index(name, 0, own) for name in names])
                rows = pa.Table.from_arrays(columns, names=list(names))
                parts.append(rows.take(pa.array(numbers[mine] - starts[piece])))
                order.append(mine)
            return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order))))

        return read
