"""PyIceberg's files in S3, with every request counted.

In: the properties of PyIceberg's FileIO. Out: a FileIO as PyIceberg's own. PyIceberg imports the class by its name, which
`framework.adapters.file_io` says; whoever opens, writes, lists or removes a file goes through it. A file below ten megabytes
is written with one request: PyArrow would take three.
"""

from __future__ import annotations

from typing import Any, cast

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, S3FileSystem
from pyiceberg.io import S3_RETRY_STRATEGY_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO
from typing_extensions import override

from framework.adapters.store.counted_files import CountedReader, CountedWriter
from framework.adapters.store.counts import count
from framework.metrics import store_requests


class S3Files(PyArrowFileIO):
    """PyArrow's, which counts. Goes when PyIceberg lets a FileIO be given its file system."""

    @override
    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        made = super()._initialize_s3_fs(netloc)
        if S3_RETRY_STRATEGY_IMPL not in self.properties:  # which does not say how it was made
            rebuild, (settings,) = made.__reduce__()
            made = rebuild(settings | {"allow_delayed_open": True})
        return cast(FileSystem, CountedStore(cast(S3FileSystem, made)))


class CountedStore:
    """The methods of PyArrow's file system that floe and PyIceberg call, each with its requests."""

    def __init__(self, inner: S3FileSystem) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open_input_file(self, path: str) -> CountedReader:
        count(store_requests.opening())
        return CountedReader(self._inner.open_input_file(path))

    def open_input_stream(self, path: str, **_: Any) -> CountedReader:
        """As a file: who reads all of it needs one request, and a stream makes one for each megabyte."""
        return self.open_input_file(path)

    def open_output_stream(self, path: str, **options: Any) -> CountedWriter:
        return CountedWriter(self._inner.open_output_stream(path, **options))

    def get_file_info(self, asked: str | FileSelector) -> FileInfo | list[FileInfo]:
        found = self._inner.get_file_info(asked)
        if isinstance(found, FileInfo):
            count(store_requests.looking(found.type is FileType.File))
        else:
            count(store_requests.listing(sum(each.type is FileType.File for each in found)))
        return found

    def delete_file(self, path: str) -> None:
        is_there = True
        try:
            self._inner.delete_file(path)
        except FileNotFoundError:
            is_there = False
            raise
        finally:
            count(store_requests.removing(is_there, in_bucket=path.count("/") < 2))
