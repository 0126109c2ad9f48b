"""128 bits for each row: two rows have the same words exactly where all their values are the same.

In: columns of Arrow, of any type. Out: two words for each row. A number has the same words whatever the width of its
column is, and a decimal whatever its precision; the entries of a map have no order; NaN is NaN and
-0.0 is 0.0, as where Spark joins and groups. Null is not the empty text, and an empty list is not a null one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.adapters.key_hash import KeyHashes, hash_keys
from framework.record.arrays import one_array

_WORD_BYTES = 16
# Of so many columns one number says which have a value.
_IN_ONE_NUMBER = 62


def row_words(columns: Sequence[pa.ChunkedArray | pa.Array]) -> KeyHashes:
    """The words of each row of some columns, of which there is at least one."""
    leaves = [leaf for column in columns for leaf in _leaves(one_array(column))]
    return hash_keys([*_presence([each.is_valid() for each in leaves]), *map(_without_nulls, leaves)])


def _presence(valid: Sequence[pa.Array]) -> Iterator[pa.Array]:
    for at in range(0, len(valid), _IN_ONE_NUMBER):
        some = valid[at : at + _IN_ONE_NUMBER]
        bits = np.zeros(len(some[0]), np.int64)
        for place, each in enumerate(some):
            bits |= np.asarray(each).astype(np.int64) << place
        yield pa.array(bits)


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Columns of plain values that say the same; a value of a list or a map becomes a few bytes."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        yield from _leaves(column.storage)
    elif pa.types.is_dictionary(kind):
        yield from _leaves(column.dictionary_decode())
    elif pa.types.is_struct(kind):
        yield pc.if_else(column.is_valid(), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
        named = zip((each.name for each in kind), column.flatten(), strict=True)
        for _, child in sorted(named, key=lambda pair: pair[0]):
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _of_map(column)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield _of_list(column)
    elif pa.types.is_floating(kind):
        wide = pc.add(column.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0
        yield pc.if_else(pc.is_nan(wide), pa.scalar(float("nan")), wide).view(pa.int64())
    else:
        yield column


def _of_list(column: pa.Array) -> pa.Array:
    """The words of a list's elements, one behind the other."""
    offsets = np.asarray(column.offsets, np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    words = _bytes(column.values.slice(first, last - first))
    bounds = pa.py_buffer(np.ascontiguousarray((offsets - first) * _WORD_BYTES))
    made = pa.Array.from_buffers(pa.large_binary(), len(column), [None, bounds, pa.py_buffer(words)])
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.large_binary()))


def _bytes(elements: pa.Array) -> bytes:
    if not len(elements):
        return b""
    words = row_words([elements])
    return np.column_stack([words.high, words.low]).astype("<u8").tobytes()


def _of_map(column: pa.Array) -> Iterator[pa.Array]:
    """How many entries a map has, and the sum of their words, which knows no order."""
    offsets = np.asarray(column.offsets, np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    yield pc.if_else(column.is_valid(), pa.array(np.diff(offsets)), pa.scalar(None, pa.int64()))
    if last > first:
        entries = [each.slice(first, last - first) for each in (column.keys, column.items)]
        words = row_words(entries)
        for each in (words.high, words.low):
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
            yield pa.array((sums[offsets[1:] - first] - sums[offsets[:-1] - first]).view(np.int64))
    else:
        yield from (pa.array(np.zeros(len(column), np.int64)) for _ in range(2))


def _without_nulls(column: pa.Array) -> pa.Array:
    """The same bytes under every null, whatever was there."""
    kind = column.type
    if not column.null_count and not pa.types.is_null(kind):
        return column
    if pa.types.is_null(kind):
        return pa.array(np.zeros(len(column), np.int64))
    if pa.types.is_fixed_size_binary(kind):
        return pc.if_else(column.is_valid(), column, pa.scalar(bytes(kind.byte_width), kind))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.fill_null("")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.fill_null(b"")
    if pa.types.is_boolean(kind):
        return column.fill_null(False)
    is_plain = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    zero = (
        pa.scalar(0, kind) if is_plain else pa.scalar(0, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    )
    return pc.if_else(column.is_valid(), column, zero)
