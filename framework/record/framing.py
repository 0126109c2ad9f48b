"""Many records to one buffer that Arrow's JSON reader can take at once, without letting one record leak into the next.

In: the values of a block. Out: a newline-joined buffer with the start of every record, and the positions of records that
must be judged alone. Keeps invariant 9 at the borders of records:

A joined buffer is *sound* when every record starts with `{`, ends with `}` and holds no newline, the buffer is UTF-8 and
holds no NUL byte (Arrow's parser takes a NUL for the end). Then every separator is preceded by `}` and followed by `{`.
No string can contain it (a raw newline inside a string is no JSON and Arrow refuses it), and `}` followed by `{` is
legal only between two top-level documents; so each record holds one document or more, whole ones. If Arrow then counts
exactly as many rows as there are records, each record is exactly one JSON object. Starting with `{` matters for another
reason too: Arrow 25 crashes on a buffer that begins with `null`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from framework.record.arrays import Ints
from framework.record.joined import JoinedValues, join

_WHITESPACE = b" \t\r\n"


@dataclass(frozen=True)
class Framed:
    """`data` holds the records at `positions` (ascending positions in the block), joined by newlines; `alone` the rest."""

    data: bytes
    positions: Ints
    alone: list[int]
    longest: int


def record_starts(data: bytes) -> Ints:
    """The start of each joined record, and one past the end: record i is data[starts[i] : starts[i + 1] - 1]."""
    newlines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A)
    return np.concatenate([[0], newlines + 1, [len(data) + 1]])


def frame(values: Sequence[bytes] | JoinedValues, positions: Ints) -> Framed:
    """Join records, none of which lacks a value; `positions` gives each one's place in the block."""
    if not len(values):
        return Framed(b"", np.empty(0, np.int64), [], 0)
    joined = values if isinstance(values, JoinedValues) else join(values)
    if _is_sound(joined):
        return Framed(joined.data, positions, [], joined.longest)
    good: list[bytes] = []
    good_positions: list[int] = []
    alone: list[int] = []
    for position, value in zip(positions.tolist(), cast("Sequence[bytes]", values), strict=True):
        # A raw newline is legal between JSON tokens only, where a tab means the same; inside a string both are refused.
        clean = value.strip(_WHITESPACE).replace(b"\n", b"\t")
        if _is_braced(clean) and _is_utf8(clean):
            good.append(clean)
            good_positions.append(position)
        else:
            alone.append(position)
    longest = max(map(len, good), default=0)
    return Framed(b"\n".join(good), np.array(good_positions, np.int64), alone, longest)


def _is_sound(joined: JoinedValues) -> bool:
    return _is_braced(joined.data) and _is_separated(joined) and _is_utf8(joined.data)


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
