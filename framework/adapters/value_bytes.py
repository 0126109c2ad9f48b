"""The bytes that stand for each value of a column, one value after the other, for what hashes values.

In: a column, made plain first. Out: bytes, and where each value begins. Whole numbers go by eight bytes, little endian,
so that a number has the same bytes whatever width its column has; other values of fixed width as Arrow holds them,
texts in UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints, one_array


@dataclass(frozen=True)
class ValueBytes:
    """Values one after the other; value `i` is `data[offsets[i]:offsets[i + 1]]`."""

    data: pa.Buffer
    offsets: Ints

    def __post_init__(self) -> None:
        """Compiled code goes by these numbers, and checks nothing."""
        is_ascending = bool((self.offsets[1:] >= self.offsets[:-1]).all())
        if not len(self.offsets) or self.offsets[0] < 0 or not is_ascending or self.offsets[-1] > self.data.size:
            raise ValueError("a column's offsets are out of its bounds")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_pylist(self) -> list[bytes]:
        data = memoryview(self.data)
        bounds = self.offsets.tolist()
        return [bytes(data[start:end]) for start, end in pairwise(bounds)]


def bytes_of(column: pa.Array) -> ValueBytes:
    """The values of a column; of a null there are some bytes or none."""
    kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return ValueBytes(pa.py_buffer(b"") if data is None else data, bounds if len(bounds) else np.zeros(1, np.int64))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
        kind = column.type
    if pa.types.is_integer(kind):
        # A column may have been `int` when a file was written: one number has one hash.
        numbers = column.fill_null(0) if column.null_count else column
        return fixed_width(np.asarray(numbers, np.int64).astype("<i8").tobytes(), 8, 0, len(column))
    data = column.buffers()[1]
    return fixed_width(b"" if data is None else data, kind.bit_width // 8, column.offset, len(column))


def fixed_width(data: pa.Buffer | bytes, width: int, first: int, count: int) -> ValueBytes:
    """Values of one width, without the first few."""
    offsets = (np.arange(count + 1, dtype=np.int64) + first) * width
    return ValueBytes(data if isinstance(data, pa.Buffer) else pa.py_buffer(data), offsets)


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array of a type that compute functions take: of a UUID its sixteen bytes."""
    array = one_array(column)
    if isinstance(array, pa.ChunkedArray):  # more bytes than one array has offsets for
        array = pa.concat_arrays([chunk.cast(_large(chunk.type)) for chunk in array.chunks])
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    large = _large(array.type)
    return array if large == array.type else array.cast(large)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of `plain` arrays of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return _large(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _large(kind: pa.DataType) -> pa.DataType:
    """Texts and bytes with long offsets: those of many files are put together."""
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind
