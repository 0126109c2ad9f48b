"""What a key's hash is made of: key indexes that were written before must be found by it; and how hashes are found."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.adapters import key_hash
from framework.adapters.iceberg.upsert import index_runs as key_runs
from framework.adapters.iceberg.upsert.index_runs import find
from framework.adapters.key_hash import KeyHashes, hash_keys

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


# Few words, so that many are equal; both ends of what there is, and one that lies as hashes do: evenly.
WORDS = st.sampled_from([0, 1, 2, 5, 2**63, 2**64 - 2, 2**64 - 1]) | st.integers(0, 2**64 - 1)
PAIRS = st.lists(st.tuples(WORDS, st.integers(0, 2)), max_size=40)


def words(pairs: list[tuple[int, int]]) -> KeyHashes:
    high, low = (np.array([pair[at] for pair in pairs], np.uint64) for at in (0, 1))
    return KeyHashes(high, low)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_every_entry_of_a_hash_is_found(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of a wanted and a held hash that are equal in both words, and no other, in order."""
    if not is_compiled:
        monkeypatch.setattr(key_runs, "available", lambda: False)

    @given(PAIRS, PAIRS, st.booleans())
    def holds(held: list[tuple[int, int]], wanted: list[tuple[int, int]], some: bool) -> None:
        wanted = [*wanted, *held[::2]] if some else wanted
        held, wanted = sorted(held), sorted(wanted)
        rows, entries = find(words(held), words(wanted).high, words(wanted).low)
        pairs = [(i, j) for i, want in enumerate(wanted) for j, own in enumerate(held) if want == own]
        assert list(zip(rows.tolist(), entries.tolist(), strict=True)) == pairs

    holds()


@pytest.mark.parametrize("is_compiled", [True, False])
def test_hashes_are_found_wherever_they_lie(is_compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred thousand even hashes those that are there, and none of those that are not, in words that are not
    aligned."""
    if not is_compiled:
        monkeypatch.setattr(key_runs, "available", lambda: False)
    chance = np.random.default_rng(3)
    all_words = np.unique(chance.integers(0, 2**64 - 1, 100_000, np.uint64))
    held, absent = all_words[::2], all_words[1::2]
    aligned = np.frombuffer(b"x" + held.tobytes(), np.uint8)[1:].view(np.uint64)
    for wanted in (held, held[::97], absent, absent[::97], np.sort(np.concatenate([held[:9], absent]))):
        rows, entries = find(KeyHashes(aligned, aligned), wanted, wanted)
        at = np.searchsorted(held, wanted)
        is_there = held[np.minimum(at, len(held) - 1)] == wanted
        assert rows.tolist() == np.flatnonzero(is_there).tolist()
        assert entries.tolist() == at[is_there].tolist()
