"""Many records to one buffer that Arrow's JSON reader can take at once, without letting one record leak into the next.

In: the values of a block. Out: a newline-joined buffer with the start of every record, and the positions of records
that must be judged alone. Keeps invariant 9 at the borders of records:

A joined buffer is *sound* when every record starts with `{`, ends with `}` and holds no newline, the buffer is UTF-8
and holds no NUL byte (Arrow's parser takes a NUL for the end). Then every separator is preceded by `}` and followed by
`{`. No string can contain it (a raw newline inside a string is no JSON and Arrow refuses it), and `}` followed by `{`
is legal only between two top-level documents; so each record holds one document or more, whole ones. If Arrow then
counts exactly as many rows as there are records, each record is exactly one JSON object. Starting with `{` matters for
another reason too: Arrow 25 crashes on a buffer that begins with `null`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints
from framework.record.value_buffer import JoinedValues, join

_WHITESPACE = b" \t\r\n"
_UTF8_ROWS = 256


@dataclass(frozen=True)
class JoinedRecords:
    """`data` holds the records at `positions` (ascending positions in the block), joined by newlines; `alone` the
    rest."""

    data: bytes
    positions: Ints
    alone: list[int]
    longest: int


@dataclass(frozen=True)
class ParsedRows:
    """Rows of `table` are the records at `positions` of the block, in order."""

    positions: Ints
    table: pa.Table

    def __len__(self) -> int:
        return len(self.positions)


def record_starts(data: bytes) -> Ints:
    """The start of each joined record, and one past the end: record i is data[starts[i] : starts[i + 1] - 1]."""
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A)
    return np.concatenate([[0], newlines + 1, [len(data) + 1]])


def frame(values: Sequence[bytes] | JoinedValues, positions: Ints) -> JoinedRecords:
    """Join records, none of which lacks a value; `positions` gives each one's place in the block."""
    if not len(values):
        return JoinedRecords(b"", np.empty(0, np.int64), [], 0)
    joined = values if isinstance(values, JoinedValues) else join(values)
    if _is_sound(joined):
        return JoinedRecords(joined.data, positions, [], joined.longest)
    return _repaired(joined.data, joined.starts, positions)


def _repaired(data: bytes, starts: Ints, positions: Ints) -> JoinedRecords:
    """Only the records that do not frame well are looked at one by one."""
    pieces: list[bytes] = []
    alone: list[int] = []
    done = 0
    for row in _odd_rows(data, starts).tolist():
        if done < row:
            pieces.append(data[starts[done] : starts[row] - 1])
        done = row + 1
        # A raw newline is legal between JSON tokens only, where a tab means the same; inside a string both are refused.
        clean = data[starts[row] : starts[row + 1] - 1].strip(_WHITESPACE).replace(b"\n", b"\t")
        if _is_braced(clean) and _is_utf8(clean):
            pieces.append(clean)
        else:
            alone.append(row)
    if done < len(positions):
        pieces.append(data[starts[done] : starts[-1] - 1])
    kept = np.delete(positions, alone)
    longest = int(np.diff(starts).max(initial=1)) - 1
    return JoinedRecords(b"\n".join(pieces), kept, positions[alone].tolist(), longest)


def _odd_rows(data: bytes, starts: Ints) -> Ints:
    """Rows that do not begin and end with a brace, hold a newline or a NUL, or are no UTF-8."""
    octets = np.frombuffer(data, dtype=np.uint8)
    odd = np.diff(starts) < 3
    whole = ~odd
    odd[whole] = (octets[starts[:-1][whole]] != 0x7B) | (octets[starts[1:][whole] - 2] != 0x7D)
    marks = np.flatnonzero(octets == 0x0A)
    if len(marks) >= len(starts) - 1:
        odd[np.searchsorted(starts, np.setdiff1d(marks, starts[1:-1] - 1), side="right") - 1] = True
    if b"\0" in data:
        odd[np.searchsorted(starts, np.flatnonzero(octets == 0), side="right") - 1] = True
    if not _is_utf8(data):
        for first in range(0, len(odd), _UTF8_ROWS):
            end = min(first + _UTF8_ROWS, len(odd))
            if not _is_utf8(data[starts[first] : starts[end] - 1]):
                odd[first:end] |= [not _is_utf8(data[starts[i] : starts[i + 1] - 1]) for i in range(first, end)]
    return np.flatnonzero(odd)


def without(framed: JoinedRecords, starts: Ints, rows: Ints) -> JoinedRecords:
    """The framed records without these rows; `starts` as of `record_starts`."""
    kept = np.delete(np.arange(len(framed.positions)), rows)
    pieces = [framed.data[starts[first] : starts[end] - 1] for first, end in runs(kept)]
    return JoinedRecords(b"\n".join(pieces), framed.positions[kept], [], framed.longest)


def only(framed: JoinedRecords, starts: Ints, rows: Ints) -> JoinedRecords:
    """These rows of the framed records; `starts` as of `record_starts`."""
    pieces = [framed.data[starts[row] : starts[row + 1] - 1] for row in rows.tolist()]
    return JoinedRecords(b"\n".join(pieces), framed.positions[rows], [], framed.longest)


def runs(rows: Ints) -> list[tuple[int, int]]:
    """Ascending rows as ranges [first, end)."""
    if not len(rows):
        return []
    if rows[-1] - rows[0] == len(rows) - 1:
        return [(int(rows[0]), int(rows[-1]) + 1)]
    breaks = np.flatnonzero(np.diff(rows) != 1)
    firsts = rows[np.concatenate([[0], breaks + 1])]
    lasts = rows[np.concatenate([breaks, [len(rows) - 1]])]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _is_sound(joined: JoinedValues) -> bool:
    braced = joined.is_braced
    if braced is None:
        braced = _is_braced(joined.data) and _is_separated(joined)
    return braced and (joined.is_ascii or _is_utf8(joined.data))


def _is_braced(data: bytes) -> bool:
    return data.startswith(b"{") and data.endswith(b"}") and b"\0" not in data


def _is_separated(joined: JoinedValues) -> bool:
    """Whether there is one newline less than records, each after `}` and before `{`."""
    octets = np.frombuffer(joined.data, dtype=np.uint8)
    firsts = joined.starts[1:-1]  # a buffer in braces begins and ends with a record that is not empty: none is outside
    return bool(joined.newlines == 0 and (octets[firsts - 2] == 0x7D).all() and (octets[firsts] == 0x7B).all())


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
