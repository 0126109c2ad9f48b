"""128 bits for each key: BLAKE2b of its values' bytes, so that whoever knows a key cannot make another with its hash.

In: key columns in the table's own types, no nulls. Out: two arrays of 64 bits. Equal keys have equal hashes on every
machine: whole numbers go by eight bytes, little endian, other values of fixed width as Arrow holds them, texts in
UTF-8. A key of several columns is their bytes one after the other, each with its length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framework.adapters.key_search import Ints, plain

Words = npt.NDArray[np.uint64]
# Raised with every change of what is hashed: hashes of another version are of no use.
HASH_VERSION = 1
_LENGTH_BYTES = 4


@dataclass(frozen=True)
class KeyHashes:
    """Of some rows, in their order. `high` sorts them; two keys are the same where both words are."""

    high: Words
    low: Words

    def __len__(self) -> int:
        return len(self.high)

    def take(self, rows: Ints) -> KeyHashes:
        return KeyHashes(self.high[rows], self.low[rows])


def hash_keys(columns: Sequence[pa.ChunkedArray | pa.Array]) -> KeyHashes:
    """The hash of each row's key."""
    each = [_values(plain(column)) for column in columns]
    keys = each[0] if len(each) == 1 else [b"".join(map(_with_length, values)) for values in zip(*each, strict=True)]
    start = hashlib.blake2b(digest_size=16, person=b"floe key")

    def digest(key: bytes) -> bytes:
        state = start.copy()  # cheaper than to begin anew for each
        state.update(key)
        return state.digest()

    words = np.frombuffer(b"".join(map(digest, keys)), "<u8").reshape(-1, 2)
    return KeyHashes(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]))


def _with_length(value: bytes) -> bytes:
    return len(value).to_bytes(_LENGTH_BYTES, "little") + value


def _values(column: pa.Array) -> list[bytes]:
    """The bytes of each value."""
    kind = column.type
    if pa.types.is_large_string(kind):
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_large_binary(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
        kind = column.type
    if pa.types.is_integer(kind):
        # A column may have been `int` when a file was written: one number has one hash.
        return _pieces(np.asarray(column, np.int64).astype("<i8").tobytes(), 8)
    width = kind.bit_width // 8
    data = column.buffers()[1]
    start = column.offset * width
    return _pieces(data.to_pybytes()[start : start + len(column) * width] if data is not None else b"", width)


def _pieces(data: bytes, width: int) -> list[bytes]:
    return [data[start : start + width] for start in range(0, len(data), width)]
