"""Files sorted by the hashes of keys, where a process can map them into memory: written with checksums, and read no
further than the checksums have been compared.

In: columns in the order of their hashes; or a path in a table's store, and hashes that are looked for. Out: a file; or
the rows of the blocks that may hold these hashes. Such files never change, and nothing of them is believed but what was
written: each block of rows has a checksum, and the list of them, which also names the file, has one. So a flipped bit,
another file's bytes in place of its own and a copy of something older are all found before a row is taken for true.

A file that lies in a store over the network is copied once for a machine, into a private folder of bounded size; what
was used longest ago goes first. A copy that is not what was written is copied again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.host.private_files import private_dir
from framework.adapters.key_hash import Words
from framework.adapters.store.counted_files import native
from framework.record.arrays import Ints, Mask

# Of all copies on one machine; what does not fit is copied again when it is needed.
MOST_BYTES = 20 * 1024**3
_USED_AGAIN_S = 600.0
# The end of a name says that the file has checksums: what stands in the file may be damaged.
_CHECKED = ".sums.arrow"
_CHECKSUMS = b"floe.checksums"
# About a quarter of a mebibyte: what a small batch reads of a large file, for each of its keys at most.
BLOCK_ROWS = 8192
# Where so many blocks are asked for, all of them are compared, and rows are not copied.
_MOST_OF_THEM = 0.25
# Blocks that this process has compared, by file: as it was then, down to the moment of its last change.
_compared: OrderedDict[tuple[object, ...], Mask] = OrderedDict()
_MOST_COMPARED = 512


class Damaged(ValueError):
    """The file is not what was written."""


@dataclass(frozen=True)
class HashRows:
    """Rows in the order of their hashes. `count` is how many the whole file has, `about` what its writer said of it."""

    rows: pa.RecordBatch
    count: int
    about: Any


def write_hash_file(
    io: FileIO, root: str, columns: Mapping[str, pa.Array], key: bytes, about: Mapping[str, object]
) -> tuple[str, int]:
    """Write columns, the first of which are ascending hashes, as a file of a new name; gives its path and its size.

    Args:
        key: under which `about` is kept in the file.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    path = f"{root}/{uuid.uuid4()}{_CHECKED}"
    said = json.dumps(about).encode()
    batch = pa.RecordBatch.from_pydict(dict(columns))
    checksums = _checksums(path, said, batch).encode()
    schema = batch.schema.with_metadata({key: said, _CHECKSUMS: checksums})
    output = io.new_output(path)
    with output.create(overwrite=False) as stream, pa.ipc.new_file(native(stream), schema) as writer:
        writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return path, len(output)


def read_hash_file(
    io: FileIO,
    path: str,
    size_bytes: int,
    key: bytes,
    types: Mapping[str, pa.DataType],
    optional: Collection[str] = (),
    wanted: Words | None = None,
) -> HashRows:
    """The rows of a file, or of those blocks of it that may hold the wanted hashes.

    Args:
        types: of columns that must be there; of `optional` ones if they are.
        wanted: ascending.

    Raises:
        Damaged: it is not what was written.
        OSError: it is not there, or cannot be read now; each store has exceptions of its own.
    """
    own = _local(path)
    local = own or _copy(io, path, size_bytes)
    try:
        return _read(local, path, size_bytes, key, types, optional, wanted)
    except Damaged:
        if own is not None:
            raise
        local.unlink(missing_ok=True)
        return _read(_copy(io, path, size_bytes), path, size_bytes, key, types, optional, wanted)


def has_checksums(path: str) -> bool:
    """Whether the file was written with checksums; those of earlier versions were not."""
    return path.endswith(_CHECKED)


def _read(
    local: Path,
    path: str,
    size_bytes: int,
    key: bytes,
    types: Mapping[str, pa.DataType],
    optional: Collection[str],
    wanted: Words | None,
) -> HashRows:
    about = local.stat()
    if about.st_size != size_bytes:
        raise Damaged(f"it has {about.st_size:,} bytes and not {size_bytes:,}")
    mapped = pa.memory_map(str(local))
    try:
        held = pa.ipc.open_file(mapped)
        batch = held.get_batch(0)
        batch.validate()
        _check_columns(batch, types, optional)
        metadata = held.schema.metadata or {}
        said = metadata[key]
        rows = batch
        if has_checksums(path):
            blocks = _Blocks.of(path, said, batch, metadata[_CHECKSUMS])
            version = (str(local), about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
            rows = blocks.compared(batch, wanted, version)
        return HashRows(rows, len(batch), json.loads(said))
    except Damaged:
        raise
    except Exception as error:  # damaged bytes have many, among them OSError
        raise Damaged(f"{type(error).__name__}: {error}") from error


def _check_columns(batch: pa.RecordBatch, types: Mapping[str, pa.DataType], optional: Collection[str]) -> None:
    """Compiled code goes by the bytes of these columns."""
    for name, kind in types.items():
        if name in optional and name not in batch.schema.names:
            continue
        column = batch.column(name)
        if column.type != kind or column.null_count:
            raise Damaged(
                f"its column {name} is {column.type} with {column.null_count:,} nulls, and not {kind} without"
            )


# ---- checksums ----------------------------------------------------------------------------------------------------------


def _checksums(path: str, said: bytes, batch: pa.RecordBatch) -> str:
    sums = [_checksum(batch, start, BLOCK_ROWS) for start in range(0, len(batch), BLOCK_ROWS)]
    fences = np.asarray(batch.column(0))[::BLOCK_ROWS]
    listed = {
        "name": path.rsplit("/", 1)[-1],
        "columns": _described(batch),
        "rows": len(batch),
        "block_rows": BLOCK_ROWS,
        "sums": base64.b64encode(np.array(sums, "<u4").tobytes()).decode(),
        "fences": base64.b64encode(fences.astype("<u8").tobytes()).decode(),
    }
    text = json.dumps(listed)
    return f"{_of_list(text, said)} {text}"


def _of_list(text: str, said: bytes) -> int:
    return zlib.crc32(said, zlib.crc32(text.encode()))


def _described(batch: pa.RecordBatch) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in batch.schema)


def _checksum(batch: pa.RecordBatch, start: int, rows: int) -> int:
    """Of the bytes of a block's values, column by column."""
    end, found = min(start + rows, len(batch)), 0
    for column in batch.columns:
        for part in _bytes_of(column, start, end):
            found = zlib.crc32(part, found)
    return found


def _bytes_of(column: pa.Array, start: int, end: int) -> list[memoryview]:
    _, *buffers = column.buffers()
    start, end = start + column.offset, end + column.offset
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        offsets = memoryview(buffers[0])[start * 8 : (end + 1) * 8]
        bounds = np.frombuffer(offsets, "<i8")
        data = memoryview(buffers[1] or b"")[int(bounds[0]) : int(bounds[-1])]
        # Where values begin counts from the block's first: the same whichever array they were in.
        return [memoryview((bounds - bounds[0]).tobytes()), data]
    width = column.type.bit_width // 8
    return [memoryview(buffers[0] or b"")[start * width : end * width]]


@dataclass(frozen=True)
class _Blocks:
    """What was written of a file's blocks: the checksum of each and its first hash."""

    block_rows: int
    sums: Ints
    fences: Words

    @classmethod
    def of(cls, path: str, said: bytes, batch: pa.RecordBatch, listed: bytes) -> _Blocks:
        own, _, text = listed.decode().partition(" ")
        if int(own) != _of_list(text, said):
            raise Damaged("its list of checksums is not what was written")
        held = json.loads(text)
        if held["name"] != path.rsplit("/", 1)[-1]:
            raise Damaged(f"it is {held['name']} under another name")
        if (held["columns"], held["rows"]) != (_described(batch), len(batch)):
            raise Damaged("it has other columns or rows than were written")
        sums, fences = (np.frombuffer(base64.b64decode(held[each]), kind) for each, kind in _LISTS)
        return cls(held["block_rows"], sums.astype(np.int64), fences)

    def compared(self, batch: pa.RecordBatch, wanted: Words | None, version: tuple[object, ...]) -> pa.RecordBatch:
        """The rows of the blocks that are asked for, each compared with its checksum once for this version of the file.

        Raises:
            Damaged: one is not what was written.
        """
        asked = np.ones(len(self.sums), np.bool_) if wanted is None else self._asked(wanted)
        if np.count_nonzero(asked) > _MOST_OF_THEM * len(asked):
            asked[:] = True
        known = _compared.setdefault(version, np.zeros(len(self.sums), np.bool_))
        _compared.move_to_end(version)
        if len(_compared) > _MOST_COMPARED:
            _compared.popitem(last=False)
        for number in np.flatnonzero(asked & ~known):
            if _checksum(batch, int(number) * self.block_rows, self.block_rows) != self.sums[number]:
                raise Damaged(f"its block {number} is not what was written")
            known[number] = True
        if asked.all():
            return batch
        slices = [batch.slice(int(n) * self.block_rows, self.block_rows) for n in np.flatnonzero(asked)]
        if not slices:
            return batch.slice(0, 0)
        return pa.Table.from_batches(slices).combine_chunks().to_batches()[0]

    def _asked(self, wanted: Words) -> Mask:
        """A block may hold what lies between its first hash and that of the next one, which may begin in it."""
        first = np.searchsorted(wanted, self.fences, "left")
        behind = np.append(np.searchsorted(wanted, self.fences[1:], "right"), len(wanted))
        return np.asarray(behind[: len(first)] > first)


_LISTS = (("sums", "<u4"), ("fences", "<u8"))


# ---- where files lie ----------------------------------------------------------------------------------------------------


def _local(path: str) -> Path | None:
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(path) if not parts.scheme else None


def _copy(io: FileIO, path: str, size_bytes: int) -> Path:
    folder = Path(tempfile.gettempdir()).resolve() / f"floe-key-index-{os.getuid()}"
    private_dir(folder)
    copy = folder / f"{hashlib.sha256(path.encode()).hexdigest()}.arrow"
    with contextlib.suppress(FileNotFoundError):
        about = copy.stat()
        if about.st_size == size_bytes:
            if time.time() - about.st_mtime > _USED_AGAIN_S:  # seldom: what changed is compared anew
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
