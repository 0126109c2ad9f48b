"""Bytes that wait, as packed rows do for the end of a task: in memory up to a bound, beyond it in a temporary file without
a name.

In: pieces of up to about a mebibyte, and again which one is wanted. Out: its bytes. The file goes with the process, and
takes as much of the folder for temporary files as does not fit in memory.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

# Of one task. Batches of a usual size stay below it.
MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Piece:
    """`held` are its bytes where they are in memory, else they lie in the file."""

    held: pa.Buffer | None
    start: int
    size: int


class WaitingPieces:
    """Of one task."""

    def __init__(self, most_bytes: int | None = None) -> None:
        """`most_bytes` are held in memory, `MOST_BYTES` unless something else is said."""
        self._most_bytes = MOST_BYTES if most_bytes is None else most_bytes
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._end = 0

    def put(self, data: pa.Buffer) -> Piece:
        """Raises OSError where the folder for temporary files is full."""
        if self._bytes + data.size <= self._most_bytes:
            self._bytes += data.size
            return Piece(data, 0, data.size)
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open until the task ends
        start, left = self._end, memoryview(data)
        while left:
            written = os.pwrite(self._file.fileno(), left, self._end)
            self._end, left = self._end + written, left[written:]
        return Piece(None, start, data.size)

    def take(self, piece: Piece) -> pa.Buffer:
        """The bytes of a piece; one in memory is no longer counted."""
        if piece.held is not None:
            self._bytes -= piece.size
        return self.read(piece)

    def read(self, piece: Piece) -> pa.Buffer:
        """The bytes of a piece, which goes on waiting."""
        if piece.held is not None:
            return piece.held
        assert self._file is not None
        parts, at = [], piece.start
        while at < piece.start + piece.size:
            parts.append(os.pread(self._file.fileno(), piece.start + piece.size - at, at))
            if not parts[-1]:
                raise OSError("a temporary file has lost what was written to it")
            at += len(parts[-1])
        return pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))

    def close(self) -> None:
        """Nothing is taken any more."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._bytes = self._end = 0
