"""128 bits for each key: BLAKE2b of its values' bytes, so that whoever knows a key cannot make another with its hash.

In: key columns in the table's own types, no nulls. Out: two arrays of 64 bits. Equal keys have equal hashes on every
machine: whole numbers go by eight bytes, little endian, other values of fixed width as Arrow holds them, texts in
UTF-8. A key of several columns is their bytes one after the other, each with its length. The compiled module is faster
by far than Python's own BLAKE2b, and gives the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from framework.adapters.value_bytes import ValueBytes, bytes_of, fixed_width, plain
from framework.record.arrays import Ints
from framework.record.compiled import has_compiled, load_compiled

Words = npt.NDArray[np.uint64]
# Raised with every change of what is hashed: hashes of another version are of no use.
HASH_VERSION = 1
INTERFACE = 2
_PERSON = b"floe key"
_DIGEST_BYTES = 16
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


def available() -> bool:
    """Whether this process has the compiled module."""
    return has_compiled("framework.adapters", "_key_hash", INTERFACE)


@cache
def compiled() -> ModuleType:
    """The compiled module; ask `available` first."""
    return load_compiled("framework.adapters", "_key_hash", INTERFACE)


def hash_keys(columns: Sequence[pa.ChunkedArray | pa.Array]) -> KeyHashes:
    """The hash of each row's key."""
    each = [bytes_of(plain(column)) for column in columns]
    digests = _digests(each[0] if len(each) == 1 else _joined(each))
    words = np.frombuffer(digests, "<u8").reshape(-1, 2)
    return KeyHashes(np.ascontiguousarray(words[:, 0]), np.ascontiguousarray(words[:, 1]))


def _digests(values: ValueBytes) -> bytes | npt.NDArray[np.uint8]:
    count = len(values.offsets) - 1
    if not available():
        # Cheaper than to begin anew for each.
        start = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=_PERSON)

        def digest(value: bytes) -> bytes:
            state = start.copy()
            state.update(value)
            return state.digest()

        return b"".join(map(digest, values.to_pylist()))
    found = np.empty(count * _DIGEST_BYTES, np.uint8)
    offsets = np.ascontiguousarray(values.offsets, np.int64)
    compiled().hash_values(values.data.address, offsets.ctypes.data, count, found.ctypes.data, _PERSON)
    return found


def _joined(columns: Sequence[ValueBytes]) -> ValueBytes:
    """Of each row the values of all columns, each behind its length."""
    parts: list[pa.Array] = []
    for column in columns:
        lengths = np.diff(column.offsets).astype(f"<u{_LENGTH_BYTES}")
        parts += [_binary(fixed_width(lengths.tobytes(), _LENGTH_BYTES, 0, len(lengths))), _binary(column)]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))
    return bytes_of(joined)


def _binary(values: ValueBytes) -> pa.Array:
    offsets = pa.py_buffer(np.ascontiguousarray(values.offsets, np.int64))
    return pa.Array.from_buffers(pa.large_binary(), len(values.offsets) - 1, [None, offsets, values.data])
