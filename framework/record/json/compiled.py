"""The compiled parser of plain JSON: records that are just what a schema says, at a fraction of Arrow's cost.

In: sound framed records and an Arrow schema. Out: the table that Arrow's own parser would give of them, but for those
about which that one must be asked: an unknown field, a value of another kind, a number that needs care, no JSON. None
where these are many, or where there is no compiled parser. It decides nothing that Arrow would decide otherwise
(invariant 9).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from framework.record.arrays import Ints
from framework.record.compiled import has_compiled, load_compiled
from framework.record.rows.dictionary_text import schema_like

if TYPE_CHECKING:
    from framework.record.json import _json

INTERFACE = 4
_FEW_ODD = 8
# One record in so many may be unlike the others without all of them being parsed by Arrow.
_RARELY = 50


def available() -> bool:
    """Whether this process parses with the compiled parser."""
    return has_compiled("framework.record.json", "_json", INTERFACE)


@cache
def _module() -> ModuleType:
    return load_compiled("framework.record.json", "_json", INTERFACE)


def most_odd(records: int) -> int:
    """Of how many records another way of parsing may be tried before all go that way."""
    return max(_FEW_ODD, records // _RARELY)


def parse_plain(
    data: bytes, records: int, schema: pa.Schema, most_odd: int = 0, encode: bool = False
) -> tuple[pa.Table, Ints] | None:
    """The records in columns of `schema`, one chunk each, nothing inferred, and the rows that are left out of them, up
    to `most_odd`; None where Arrow's parser must be asked about all. With `encode`, columns of text, and of lists of
    text, in which few words come are dictionaries (framework.record.rows.dictionary_text)."""
    if not available() or not len(schema):
        return None
    tree = _tree(schema, encode)
    if tree is None:
        return None
    decoded = _module().decode(tree, data, records, most_odd)
    if decoded is None:
        return None
    nodes, odd = decoded
    found = iter(nodes)
    next(found)  # the records themselves: never null
    columns = [_array(field.type, found) for field in schema]
    table = pa.Table.from_arrays(columns, schema=schema_like(schema, [column.type for column in columns]))
    return table, np.array(odd, np.int64)


def _array(kind: pa.DataType, nodes: Iterator[_json.Node]) -> pa.Array:
    rows, nulls, *buffers, words = next(nodes)
    if words is not None:
        valid, _, places = (None if each is None else pa.py_buffer(each) for each in buffers)
        indices = pa.Array.from_buffers(pa.int32(), rows, [valid, places], null_count=nulls)
        return pa.DictionaryArray.from_arrays(indices, _dictionary(words), safe=False)
    children = None
    if pa.types.is_struct(kind):
        children = [_array(child.type, nodes) for child in kind]
    elif pa.types.is_map(kind):
        entries = [kind.key_field, kind.item_field]
        children = [pa.StructArray.from_arrays([_array(child.type, nodes) for child in entries], fields=entries)]
    elif pa.types.is_list(kind):
        children = [_array(kind.value_type, nodes)]
        kind = pa.list_(kind.value_field.with_type(children[0].type))
    valid, offsets, data = (None if each is None else pa.py_buffer(each) for each in buffers)
    parts = [valid] + [each for each in (offsets, data) if each is not None]
    return pa.Array.from_buffers(kind, rows, parts, null_count=nulls, children=children)


@lru_cache(maxsize=256)
def _dictionary(words: _json.Words) -> pa.Array:
    """Cached: the dictionaries of two blocks are compared when their rows are put together, and the same one is soon
    reported."""
    count, ends, texts = words
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(_FIRST + ends), pa.py_buffer(texts)])


_FIRST = bytes(4)


@lru_cache(maxsize=64)
def _tree(schema: pa.Schema, encode: bool) -> _json.Tree | None:
    columns = [(field.name, _spec(field.type)) for field in schema]
    if any(spec is None for _, spec in columns) or len(set(schema.names)) < len(schema):
        return None
    fields = tuple((name.encode(), _ENCODING.get(spec, spec) if encode else spec) for name, spec in columns)
    tree: _json.Tree = _module().compile(("struct", fields))
    return tree


# The trees of columns whose text may be encoded: at their top, or in their lists.
_ENCODING: dict[object, _json.Spec] = {("string",): ("words",), ("list", ("string",)): ("list", ("words",))}


def _spec(kind: pa.DataType) -> _json.Spec | None:
    """The parser's tree for a type; None for types that it does not know."""
    for name, is_kind in _SIMPLE.items():
        if is_kind(kind):
            return (name,)
    if pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        return ("decimal", kind.byte_width, kind.precision, kind.scale) if kind.scale >= 0 else None
    if pa.types.is_list(kind):
        element = _spec(kind.value_type)
        return None if element is None else ("list", element)
    if pa.types.is_map(kind):
        item = _spec(kind.item_type) if pa.types.is_string(kind.key_type) else None
        return None if item is None else ("map", item)
    if pa.types.is_struct(kind):
        names = [child.name for child in kind]
        children = [_spec(child.type) for child in kind]
        if None in children or len(set(names)) < len(names):
            return None
        return ("struct", tuple((name.encode(), child) for name, child in zip(names, children, strict=True)))
    return None


_SIMPLE = {
    "boolean": pa.types.is_boolean,
    "long": pa.types.is_int64,
    "double": pa.types.is_float64,
    "string": pa.types.is_string,
}
