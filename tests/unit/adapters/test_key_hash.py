"""What a key's hash is made of: key indexes that were written before must be found by it."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from framework.adapters import key_hash
from framework.adapters.key_hash import hash_keys

TEXTS = pa.chunked_array([["skipped", "a", "", "\u00e4\u20ac"], ["b" * 200, "a"]]).slice(1)
NUMBERS = pa.array([9, -1, 0, 2**62, 7, -1], pa.int64()).slice(1)
BYTES = pa.array([b"", b"\x00", b"\x00\x00", b"x", b""], pa.binary())


def expected(columns: list[pa.Array | pa.ChunkedArray]) -> list[bytes]:
    """By the words of the module, with Python's own BLAKE2b."""
    found = []
    for values in zip(*(column.to_pylist() for column in columns), strict=True):
        each = [
            v.to_bytes(8, "little", signed=True) if isinstance(v, int) else v.encode() if isinstance(v, str) else v
            for v in values
        ]
        whole = each[0] if len(each) == 1 else b"".join(len(v).to_bytes(4, "little") + v for v in each)
        found.append(hashlib.blake2b(whole, digest_size=16, person=b"floe key").digest())
    return found


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize(
    "columns", [[TEXTS], [NUMBERS], [TEXTS, NUMBERS], [NUMBERS, TEXTS, BYTES], [TEXTS, TEXTS.slice(0)]]
)
def test_hashes_are_blake2b_of_lengths_and_values(
    columns: list[pa.Array], is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one column the value, of several each behind its length; slices, empty values and none at all are the same."""
    if not is_compiled:
        monkeypatch.setattr(key_hash, "available", lambda: False)
    for part in (columns, [column.slice(0, 0) for column in columns]):
        found = hash_keys(part)
        assert np.column_stack([found.high, found.low]).astype("<u8").tobytes() == b"".join(expected(part))
