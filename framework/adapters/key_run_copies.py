"""Files of a key index where a process can map them into memory: on this machine's disk.

In: a path in a table's store. Out: the file, mapped. A file that lies in a store over the network is copied once for a
machine, into a private folder of bounded size; what was used longest ago goes first. Files of an index never change, so
a copy is as good as the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.private_files import private_dir

# Of all copies on one machine; what does not fit is copied again when it is needed.
MOST_BYTES = 20 * 1024**3


def opened(io: FileIO, path: str, size_bytes: int) -> pa.MemoryMappedFile:
    """The file, mapped.

    Raises:
        OSError: it is not there, or has another size; each store has exceptions of its own.
    """
    local = _local(path) or _copy(io, path, size_bytes)
    found = local.stat().st_size
    if found != size_bytes:
        raise OSError(f"it has {found:,} bytes and not {size_bytes:,}")
    return pa.memory_map(str(local))


def check_columns(batch: pa.RecordBatch, types: Mapping[str, pa.DataType], optional: Collection[str] = ()) -> None:
    """Compiled code goes by the bytes of these columns.

    Raises:
        ValueError: one is not there, has another type, or lacks values.
    """
    for name, kind in types.items():
        if name in optional and name not in batch.schema.names:
            continue
        column = batch.column(name)
        if column.type != kind or column.null_count:
            raise ValueError(
                f"its column {name} is {column.type} with {column.null_count:,} nulls, and not {kind} without"
            )


def _local(path: str) -> Path | None:
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(path) if not parts.scheme else None


def _copy(io: FileIO, path: str, size_bytes: int) -> Path:
    folder = Path(tempfile.gettempdir()) / f"floe-key-index-{os.getuid()}"
    private_dir(folder)
    copy = folder / f"{hashlib.sha256(path.encode()).hexdigest()}.arrow"
    with contextlib.suppress(FileNotFoundError):
        if copy.stat().st_size == size_bytes:
            os.utime(copy)
            return copy
    _make_room(folder, size_bytes)
    handle, scratch = tempfile.mkstemp(dir=folder)
    try:
        with io.new_input(path).open() as source, os.fdopen(handle, "wb") as target:
            shutil.copyfileobj(source, target, 8 * 1024 * 1024)
        os.replace(scratch, copy)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
    return copy


def _make_room(folder: Path, needed: int) -> None:
    """Copies that are mapped stay readable when they are removed."""
    held = []
    for each in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            about = each.stat()
            held.append((about.st_mtime, about.st_size, each))
    total = sum(size for _, size, _ in held) + needed
    for _, size, each in sorted(held):
        if total <= MOST_BYTES:
            break
        each.unlink(missing_ok=True)
        total -= size
