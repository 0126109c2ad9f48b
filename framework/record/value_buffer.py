"""Values of many records in one buffer, as the compiled fetch gathers them: no Python object a record until one is
asked for.

In: the buffer and where each record starts. Out: a sequence like a list of bytes, and for framework.record.json.framing
the buffer itself. It promises nothing about the content: a value may hold newlines, or be no JSON at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from framework.record.arrays import Ints, Mask


@dataclass(frozen=True, eq=False)
class JoinedValues(Sequence["bytes | None"]):
    """Record i is `data[starts[i] : starts[i + 1] - 1]`; a newline stands between two. `missing` marks records without
    a value (tombstones), None when there are none. `newlines` counts those inside of values. What was seen while the
    values were gathered: `is_braced`, whether each begins with `{`, ends with `}` and holds neither a newline nor a
    NUL; `is_ascii`, whether all are ASCII. None where nobody looked."""

    data: bytes
    starts: Ints
    missing: Mask | None
    newlines: int
    is_braced: bool | None = None
    is_ascii: bool | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        if self.missing is not None and self.missing[index]:
            return None
        return self.data[self.starts[index] : self.starts[index + 1] - 1]

    def __iter__(self) -> Iterator[bytes | None]:
        starts = self.starts.tolist()
        for i in range(len(starts) - 1):
            gone = self.missing is not None and self.missing[i]
            yield None if gone else self.data[starts[i] : starts[i + 1] - 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    @property
    def longest(self) -> int:
        """The length of the longest value."""
        return int(np.diff(self.starts).max(initial=1)) - 1


def join(values: Sequence[bytes]) -> JoinedValues:
    """Values of a list in one buffer; none of them is missing and there is at least one."""
    data = b"\n".join(values)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    starts = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths + 1, out=starts[1:])
    return JoinedValues(data, starts, None, data.count(b"\n") - (len(values) - 1))


def with_value(values: Sequence[bytes | None]) -> Ints:
    """The positions of the records that have a value."""
    if isinstance(values, JoinedValues):
        if values.missing is None:
            return np.arange(len(values), dtype=np.int64)
        return np.flatnonzero(~values.missing)
    if None not in values:
        return np.arange(len(values), dtype=np.int64)
    return np.array([i for i, value in enumerate(values) if value is not None], dtype=np.int64)


def without_value(values: Sequence[bytes | None]) -> int:
    """How many records have none, counted for themselves (invariant 8)."""
    if isinstance(values, JoinedValues):
        return 0 if values.missing is None else int(values.missing.sum())
    return values.count(None)
