"""Rows of many tables that are alike, put apart by table: each row is copied to where the others of its table are.

In: rows in columns, with the number of its table for each. Out: the rows of one table, in the order in which they came,
in one chunk a column. The compiled module does it; where there is none, or for columns that it does not know, the
caller sorts the rows by table (`framework.record.model.AlikeRows.split`) and gets the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from framework.record.compiled import has_compiled, load_compiled
from framework.record.rows.dictionary_text import held_bytes, is_encoded

if TYPE_CHECKING:
    from framework.record.rows import _scatter

INTERFACE = 2
# Numbers of tables have two bytes.
MOST_TABLES = 1 << 16
# Places in a dictionary, as Arrow has them.
_PLACE_BYTES = 4


def available() -> bool:
    """Whether this process has the compiled module."""
    return has_compiled("framework.record.rows", "_scatter", INTERFACE)


@cache
def _module() -> ModuleType:
    return load_compiled("framework.record.rows", "_scatter", INTERFACE)


def can_scatter(schema: pa.Schema) -> bool:
    """Whether rows with these columns can be given to a `Scatter`."""
    return available() and _spec(schema, None) is not None


def release_scattered() -> None:
    """Gives back the memory that is kept for the next rows."""
    if available():
        _module().release()


class Scatter:
    """Holds rows of one schema for tables that are numbered from 0 on; `can_scatter` has been asked.

    Places in dictionaries are held in one byte or two where those of the first rows have few words: of rows with much
    text a quarter of their memory.

    Args:
        like: rows as they will come; these are not taken.
    """

    def __init__(self, like: pa.Table) -> None:
        self.schema = like.schema
        words = [max(map(len, pieces), default=1 << 31) for pieces in _dictionaries(like)]
        self._place_bytes = tuple(map(_bytes_of_places, words))
        self._rows: _scatter.Scatter = _module().create(_spec(self.schema, self._place_bytes))
        self._dictionaries: list[pa.Array] = []

    def fits(self, rows: pa.Table) -> bool:
        """Whether these rows can be added to those that are held: they are of the same types, and their dictionaries go
        on where the ones before ended, with no more words than there are places for."""
        if not rows.schema.equals(self.schema):
            return False
        found = _dictionaries(rows)
        if any(
            len(each) > 1 << 8 * nbytes
            for nbytes, all_of in zip(self._place_bytes, found, strict=True)
            for each in all_of
        ):
            return False
        before = self._dictionaries or [pieces[-1] for pieces in found]
        return all(
            _goes_on(one, further)
            for words, pieces in zip(before, found, strict=True)
            for one, further in pairwise([words, *pieces])
        )

    def held_bytes(self, rows: pa.Table) -> int:
        """What these rows would take here, but for their dictionaries."""
        encoded = [column for column in rows.columns if is_encoded(column.type)]
        saved = [
            (_PLACE_BYTES - nbytes) * sum(map(_places, column.chunks))
            for nbytes, column in zip(self._place_bytes, encoded, strict=True)
        ]
        return held_bytes(rows) - sum(saved)

    def add(self, rows: pa.Table, numbers: npt.NDArray[np.uint16], tables: int) -> None:
        """Take rows, of which row `i` is of table `numbers[i]`, below `tables`; they `fit`."""
        if not len(rows):
            return
        self._dictionaries = [pieces[-1] for pieces in _dictionaries(rows)]
        numbers = np.ascontiguousarray(numbers, np.uint16)
        start = 0
        for batch in rows.to_batches():
            arrays = [node for column in batch.columns for node in _nodes(column)]
            address = numbers.ctypes.data + 2 * start
            _module().add(self._rows, arrays, address, len(batch), tables)
            start += len(batch)

    def take(self, number: int) -> pa.Table:
        """The rows of a table, which are held no more."""
        nodes, words = iter(_module().take(self._rows, number)), iter(self._dictionaries)
        columns = [_array(field.type, nodes, words) for field in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _dictionaries(rows: pa.Table) -> list[list[pa.Array]]:
    """Of each encoded column, in order, the dictionary of each chunk."""
    found = []
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            found.append([chunk.dictionary for chunk in column.chunks])
        elif pa.types.is_list(column.type) and pa.types.is_dictionary(column.type.value_type):
            found.append([chunk.values.dictionary for chunk in column.chunks])
    return found


def _goes_on(before: pa.Array, after: pa.Array) -> bool:
    """Whether each place in the dictionary before has the same word after it."""
    return len(before) <= len(after) and bool(after.slice(0, len(before)).equals(before))


def _bytes_of_places(words: int) -> int:
    """With room for as many words again: dictionaries grow from block to block."""
    return next((nbytes for nbytes in (1, 2) if 2 * words <= 1 << 8 * nbytes), _PLACE_BYTES)


def _places(values: pa.Array) -> int:
    if pa.types.is_dictionary(values.type):
        return len(values)
    return int(values.offsets[-1].as_py() - values.offsets[0].as_py()) if len(values) else 0


@lru_cache(maxsize=256)
def _spec(schema: pa.Schema, place_bytes: tuple[int, ...] | None) -> _scatter.Spec | None:
    """`place_bytes` of each encoded column, in order."""
    widths = None if place_bytes is None else iter(place_bytes)
    kinds = []
    for field in schema:
        nbytes = next(widths) if widths is not None and is_encoded(field.type) else _PLACE_BYTES
        kinds.append(_kind(field.type, nbytes, inside=False))
    return None if None in kinds or not kinds else ("struct", tuple(kinds))


def _kind(kind: pa.DataType, place_bytes: int = _PLACE_BYTES, inside: bool = True) -> _scatter.Spec | None:
    if pa.types.is_boolean(kind):
        return ("bits",)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return ("text",)
    if pa.types.is_dictionary(kind):
        # Text at the top, or in a list at the top: wherever the parser may encode it.
        known = not inside and pa.types.is_int32(kind.index_type) and pa.types.is_string(kind.value_type)
        if not known:
            return None
        return ("codes", place_bytes) if place_bytes < _PLACE_BYTES else ("fixed", _PLACE_BYTES)
    if pa.types.is_list(kind):
        element = _kind(kind.value_type, place_bytes, inside or not pa.types.is_dictionary(kind.value_type))
        return None if element is None else ("list", element)
    if pa.types.is_map(kind):
        entries = [_kind(kind.key_type), _kind(kind.item_type)]
        return None if None in entries else ("list", ("struct", tuple(entries)))
    if pa.types.is_struct(kind):
        children = [_kind(child.type) for child in kind]
        return None if None in children else ("struct", tuple(children))
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return ("fixed", kind.byte_width) if kind.byte_width else None
    return None


def _nodes(values: pa.Array) -> Iterator[_scatter.Array]:
    """The buffers of an array and of what is in it, depth first."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _nodes(values.indices)
        return
    buffers = values.buffers()
    valid = _address(buffers[0]) if values.null_count else 0
    if pa.types.is_struct(kind):
        yield values.offset, valid, 0, 0
        for i in range(kind.num_fields):
            yield from _nodes(values.field(i))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        yield values.offset, valid, _address(buffers[1]), 0
        first, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        if pa.types.is_map(kind):
            yield 0, 0, 0, 0
            yield from _nodes(values.keys.slice(first, end - first))
            yield from _nodes(values.items.slice(first, end - first))
        else:
            yield from _nodes(values.values.slice(first, end - first))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield values.offset, valid, _address(buffers[1]), _address(buffers[2])
    else:
        yield values.offset, valid, 0, _address(buffers[1])


def _address(buffer: pa.Buffer | None) -> int:
    """Where there are no values there may be no buffer either."""
    return 0 if buffer is None else int(buffer.address)


def _array(kind: pa.DataType, nodes: Iterator[_scatter.Node], words: Iterator[pa.Array]) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(_array(pa.int32(), nodes, words), next(words), safe=False)
    rows, nulls, *found = next(nodes)
    valid, offsets, data = (None if each is None else pa.py_buffer(each) for each in found)
    children = None
    if pa.types.is_struct(kind):
        children = [_array(child.type, nodes, words) for child in kind]
    elif pa.types.is_map(kind):
        inner, _, *_ = next(nodes)
        entries = [kind.key_field, kind.item_field]
        arrays = [_array(child.type, nodes, words) for child in entries]
        children = [pa.Array.from_buffers(pa.struct(entries), inner, [None], null_count=0, children=arrays)]
    elif pa.types.is_list(kind):
        children = [_array(kind.value_type, nodes, words)]
    parts = [valid] + [each for each in (offsets, data) if each is not None]
    return pa.Array.from_buffers(kind, rows, parts, null_count=nulls, children=children)
