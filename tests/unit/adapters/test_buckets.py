"""Buckets of values: those of the specification, which every other engine prunes by."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import StringType

from framework.adapters.key_hash import available
from framework.adapters.parquet.buckets import bucket_numbers

TEXTS = st.lists(st.none() | st.text(max_size=40))
KINDS = {
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "binary": (pa.binary(), st.lists(st.none() | st.binary(max_size=300))),
    "large_binary": (pa.large_binary(), st.lists(st.none() | st.binary(max_size=9))),
    "int": (pa.int32(), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))),
    "long": (pa.int64(), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1))),
}
COUNTS = st.sampled_from([1, 2, 16, 1000, 2**31 - 1])


def expected(value: object, buckets: int) -> int | None:
    """By the words of the specification, with the Murmur3 of another library."""
    if value is None:
        return None
    taken = struct.pack("<q", value) if isinstance(value, int) else value
    assert isinstance(taken, (bytes, str))
    return (mmh3.hash(taken) & 0x7FFFFFFF) % buckets


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_s_bucket_is_that_of_the_specification(
    kind: str, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each type that has code of our own, whatever the values are, in slices and with nulls."""
    if not is_compiled:
        monkeypatch.setattr("framework.adapters.parquet.buckets.available", lambda: False)
    arrow, lists = KINDS[kind]

    @given(lists, COUNTS, st.integers(0, 3))
    def holds(values: list[object], buckets: int, first: int) -> None:
        column = pa.array(values, arrow).slice(first)
        found = bucket_numbers(column, buckets)
        assert found.type == pa.int32()
        assert found.to_pylist() == [expected(value, buckets) for value in values[first:]]

    holds()


def test_other_types_are_pyiceberg_s() -> None:
    """Days, moments, decimals and bytes of one width have the bucket that PyIceberg gives them."""
    import datetime
    import decimal

    columns = [
        pa.array([datetime.date(2017, 11, 16), None]),
        pa.array([1510871468000000], pa.timestamp("us")),
        pa.array([decimal.Decimal("14.20"), None], pa.decimal128(9, 2)),
        pa.array([bytes(range(16))], pa.binary(16)),
    ]
    for column in columns:
        assert bucket_numbers(column, 100) == BucketTransform(num_buckets=100).pyarrow_transform(StringType())(column)
    # From the appendix of the specification, with all bits but the sign.
    found = [bucket_numbers(column, 2**31 - 1)[0].as_py() for column in columns[:3]]
    hashes = [-653330422, -2047944441, -500754589]
    assert found == [(each & 0x7FFFFFFF) % (2**31 - 1) for each in hashes]


def _seconds(do: Callable[[], object]) -> float:
    took = []
    for _ in range(5):
        began = time.process_time()
        do()
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.skipif(not available(), reason="the compiled modules are not built here")
def test_buckets_are_worth_it() -> None:
    """Code of our own takes less than half of the time of PyIceberg's; else it can go."""
    texts = pa.array([f"{number:036d}" for number in range(200_000)])
    theirs = BucketTransform(num_buckets=16).pyarrow_transform(StringType())
    assert _seconds(lambda: bucket_numbers(texts, 16)) < 0.5 * _seconds(lambda: theirs(texts))
