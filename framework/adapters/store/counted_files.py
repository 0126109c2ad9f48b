"""Open files in a store, whose requests are counted as they are read and written.

In: streams of PyArrow's. Out: streams with the same methods, for Python and for PyArrow's own readers and writers. Invariant:
nothing is asked of the store that PyArrow would not ask, and what it reads side by side it still reads side by side.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import Self, override

from framework.adapters.store.counts import count
from framework.metrics import store_requests


class _Counted:
    """A stream of PyArrow's behind the same methods."""

    def __init__(self, native: pa.NativeFile) -> None:
        self.native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.native.close()


class CountedReader(_Counted):
    """What reads bytes, PyArrow's readers among them, asks here."""

    def read(self, nbytes: int | None = None) -> Any:
        self._count(nbytes)
        return self.native.read(nbytes)

    def read_buffer(self, nbytes: int | None = None) -> pa.Buffer:
        self._count(nbytes)
        return self.native.read_buffer(nbytes)

    def _count(self, nbytes: int | None) -> None:
        left = self.native.size() - self.native.tell()
        count(store_requests.reading(left if nbytes is None or nbytes < 0 else min(nbytes, left)))


class CountedWriter(_Counted):
    """What is written is sent, at the latest, when it is closed."""

    def write(self, data: Any) -> Any:
        return self.native.write(data)

    @override
    def close(self) -> None:
        if not self.native.closed:
            size = self.native.tell()
            self.native.close()
            count(store_requests.writing(size))


def native(stream: Any) -> Any:
    """PyArrow's own stream: who writes Parquet calls it a thousand times, and does not come back to Python for it."""
    return stream.native if isinstance(stream, CountedWriter) else stream


def parquet_file(stream: Any, **options: Any) -> pq.ParquetFile:
    """A Parquet file. PyArrow reads parts of it beside one another, which it cannot where it comes back to Python for each; so
    its requests are counted by what it says of its columns."""
    if not isinstance(stream, CountedReader):
        return pq.ParquetFile(stream, **options)
    return _CountedParquet(stream.native, **options)


class _CountedParquet(pq.ParquetFile):  # type: ignore[misc]  # PyArrow has no types
    def __init__(self, source: pa.NativeFile, **options: Any) -> None:
        super().__init__(source, **options)
        count(store_requests.opening_parquet(self.metadata.serialized_size + 8))

    @override
    def read(self, columns: Any = None, **options: Any) -> pa.Table:
        self._count(range(self.num_row_groups), columns)
        return super().read(columns, **options)

    @override
    def read_row_group(self, i: int, columns: Any = None, **options: Any) -> pa.Table:
        self._count([i], columns)
        return super().read_row_group(i, columns, **options)

    @override
    def read_row_groups(self, row_groups: Any, columns: Any = None, **options: Any) -> pa.Table:
        self._count(row_groups, columns)
        return super().read_row_groups(row_groups, columns, **options)

    @override
    def iter_batches(
        self, batch_size: int = 65_536, row_groups: Any = None, columns: Any = None, **options: Any
    ) -> Any:
        groups = range(self.num_row_groups) if row_groups is None else row_groups
        self._count(groups, columns)
        return super().iter_batches(batch_size, groups, columns, **options)

    def _count(self, groups: Any, columns: Any) -> None:
        count(store_requests.reading_ranges(_range(self.metadata.row_group(group).column(column)) for group in groups
                                     for column in self._wanted(columns)))  # fmt: skip

    def _wanted(self, columns: Any) -> list[int]:
        paths = [self.schema.column(number).path for number in range(len(self.schema))]
        return [
            number
            for number, path in enumerate(paths)
            if columns is None or any(path == name or path.startswith(f"{name}.") for name in columns)
        ]


def _range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    return start, chunk.total_compressed_size
