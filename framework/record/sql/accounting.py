"""Which records went into the SQL and which came out of it, by their offsets.

In: the offsets that were decoded and those that arrived behind the SQL, packed by the tasks that saw them. Out: how
many the SQL removed. Keeps invariant 8: a record that comes out twice, or that never went in, ends the batch, and so
does one that is missing where the SQL has no condition that could have removed it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from framework.diagnose.counted import counted
from framework.errors import AccountingError
from framework.record.arrays import Ints
from framework.record.gaps import REMEDY


@dataclass(frozen=True, slots=True)
class Packed:
    """Offsets in the order in which they came: most follow one another, so their steps take next to no room."""

    count: int
    steps: bytes


def pack(offsets: Iterable[Ints]) -> Packed:
    """The offsets of several blocks."""
    every = _joined(offsets)
    return Packed(len(every), zlib.compress(np.diff(every, prepend=0).tobytes(), 1))


def unpack(packed: Packed) -> Ints:
    """What `pack` was given."""
    return np.cumsum(np.frombuffer(zlib.decompress(packed.steps), np.int64))


def removed(place: str, decoded: Iterable[Ints], arrived: Iterable[Ints], may_remove: bool) -> int:
    """How many records of a topic-partition the SQL removed.

    Args:
        place: the topic-partition, for the message.
        may_remove: whether the SQL has a condition.

    Raises:
        AccountingError: what arrived is not a part of what was decoded, each record once.
    """
    into, out = np.sort(_joined(decoded)), np.sort(_joined(arrived))
    for offsets, what in ((out, "given out by transform.sql"), (into, "decoded")):
        twice = offsets[1:][offsets[1:] == offsets[:-1]]
        if len(twice):
            raise _unsound(
                place,
                f"{counted(len(twice), 'record was', 'records were')} {what} more than once, the first at offset {twice[0]}",
            )
    unknown = np.setdiff1d(out, into, assume_unique=True)
    if len(unknown):
        raise _unsound(
            place,
            f"{counted(len(unknown), 'record')} came out of transform.sql that never went in, the first at offset {unknown[0]}",
        )
    gone = np.setdiff1d(into, out, assume_unique=True)
    if len(gone) and not may_remove:
        raise _unsound(
            place,
            f"{counted(len(gone), 'record was', 'records were')} lost in or after transform.sql, which has no WHERE, the "
            f"first at offset {gone[0]}",
        )
    return len(gone)


def _joined(offsets: Iterable[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *offsets])


def _unsound(place: str, what: str) -> AccountingError:
    return AccountingError(f"{place}: {what}", place=place, remedy=REMEDY)
