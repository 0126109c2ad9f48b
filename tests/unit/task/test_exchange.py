"""What crosses Spark's exchange, as the receiving task takes it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from framework.task.exchange import _each

VALUES = pa.array([b"12345678", None, b"", b"abc"], pa.binary())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (VALUES, [b"12345678", b"", b"", b"abc"]),
        (VALUES.slice(1), [b"", b"", b"abc"]),
        (VALUES.slice(0, 1), [b"12345678"]),
        (VALUES.cast(pa.large_binary()), [b"12345678", b"", b"", b"abc"]),
        (VALUES.cast(pa.large_binary()).slice(1), [b"", b"", b"abc"]),
        (pa.nulls(2, pa.binary()), [b"", b""]),
        (pa.array([], pa.binary()), []),
        # Older versions of Arrow for Java give an empty column no offset at all.
        (pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")]), []),
    ],
)
def test_values_are_taken_where_they_lie(values: pa.Array, expected: list[bytes]) -> None:
    """As Arrow's own scalars say them, from any slice, without a copy; a null is empty."""
    found = list(_each(values))
    assert [each.to_pybytes() for each in found] == expected
    data = values.buffers()[2]
    assert all(data.address <= each.address <= data.address + data.size for each in found if each.size)
