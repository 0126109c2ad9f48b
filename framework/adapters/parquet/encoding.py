"""Which columns of a Parquet file get a dictionary.

In: the rows of the file. Out: the paths of the leaves in which values repeat. Parquet's default builds a dictionary for
every column, also of a number that never repeats, and writes most of it before it gives up: without it such columns
take a quarter to a half less CPU and up to a third of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from framework.record.rows.dictionary_text import is_encoded, plain

SAMPLE = 2048
# A dictionary pays when a value comes this often on average; more rows than the sample only make it come more often.
LEAST_REPEATS = 4
# A dictionary that is there already is kept where a word stands for so many rows on average, or the words are few.
ROWS_PER_WORD = 8
_FEW_WORDS = 16


# Files of one table are alike: one in so many is looked at, since for small files a look is a good part of their cost.
FILES_PER_LOOK = 8


class SampledDictionaries:
    """The columns of one table that get a dictionary, looked at in its first file and now and then again.

    What a small file said does not serve a larger one: in ten rows little repeats. Threads may share it; at worst two
    look.
    """

    def __init__(self) -> None:
        self._columns: Sequence[str] = ()
        self._looked_at_rows = 0
        self._files_left = 0

    def columns(self, rows: pa.Table) -> Sequence[str]:
        """As `dictionary_columns`, perhaps of a file before."""
        seen = min(len(rows), SAMPLE)
        if self._files_left <= 0 or seen > 2 * self._looked_at_rows:
            self._columns, self._looked_at_rows, self._files_left = dictionary_columns(rows), seen, FILES_PER_LOOK
        self._files_left -= 1
        encoded = [_encoded_path(field) for field in rows.schema if is_encoded(field.type)]
        return [*self._columns, *(path for path in encoded if path not in self._columns)]


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The dotted paths, as Parquet names them, of the leaves whose values repeat."""
    paths = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        sample = column.slice(0, SAMPLE).combine_chunks()
        paths += [path for path, leaf in _leaves(name, sample) if _repeats(leaf)]
    return paths


def frugal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a file; encoded only where its words are few for its rows: the file holds all words of the
    dictionary.

    Chunks have one dictionary. Rows of one table among many are seldom of all words, but often of one or of neighbours.
    """
    kind = column.type
    if not is_encoded(kind):
        return column
    elements = [chunk if pa.types.is_dictionary(kind) else chunk.flatten() for chunk in column.chunks]
    most = max(_FEW_WORDS, sum(map(len, elements)) // ROWS_PER_WORD)
    if not elements or len(words := elements[0].dictionary) <= most:
        return column
    if pa.types.is_dictionary(kind):
        found = pc.min_max(pa.chunked_array([chunk.indices for chunk in elements]))
        first, last = found["min"].as_py(), found["max"].as_py()
        if first is not None and last - first < most:
            some = words.slice(first, last - first + 1)
            places = [pc.subtract(chunk.indices, pa.scalar(first, pa.int32())) for chunk in elements]
            return pa.chunked_array([pa.DictionaryArray.from_arrays(each, some, safe=False) for each in places])
    return pa.chunked_array([plain(chunk) for chunk in column.chunks])


def _encoded_path(field: pa.Field) -> str:
    return str(field.name) if pa.types.is_dictionary(field.type) else f"{field.name}.list.element"


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    kind = values.type
    if pa.types.is_struct(kind):
        for child, column in zip(kind, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{child.name}", column)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys.slice(0, SAMPLE))
        yield from _leaves(f"{path}.key_value.value", values.items.slice(0, SAMPLE))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        # No `flatten`: it makes nothing of lists without elements that hold a UUID inside of a struct or a map.
        first, last = (values.offsets[at].as_py() for at in (0, -1))
        yield from _leaves(f"{path}.list.element", values.values.slice(first, last - first))
    else:
        yield path, values.storage if isinstance(values, pa.ExtensionArray) else values


def _repeats(values: pa.Array) -> bool:
    present = len(values) - values.null_count
    return present > 0 and bool(len(values.unique()) * LEAST_REPEATS <= present + LEAST_REPEATS)
