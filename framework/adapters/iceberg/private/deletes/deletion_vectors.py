"""Deletion vectors: which rows of a data file are deleted, as Puffin files hold it from format version 3 on.

In: sorted positions for each data file. Out: Puffin files of bounded size, and where in them each vector lies; or the
positions of a vector that any engine wrote, checked against its checksum and its count. The bytes are those that
Iceberg's Java writer makes. PyIceberg reads deletion vectors and does not write them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
from pyiceberg.io import FileIO
from pyiceberg.table.deletion_vector import PROPERTY_REFERENCED_DATA_FILE
from pyiceberg.table.puffin import MAGIC_BYTES
from pyroaring import BitMap64

Positions = npt.NDArray[np.int64]

# PyIceberg reads the whole Puffin file for any vector in it.
MAX_PUFFIN_BYTES = 16 << 20

BLOB_TYPE = "deletion-vector-v1"
_BLOB_MAGIC = bytes.fromhex("d1d33964")
# Length and magic before the bitmap, a checksum after it.
_FRAME_BYTES = 12
_ROW_POSITION_FIELD_ID = 2147483645
_NO_FLAGS = bytes(4)


class DamagedDeletionVector(ValueError):
    """The bytes at a vector's place are not the vector that the manifest entry names."""


@dataclass(frozen=True)
class DeletionVector:
    """Where a vector lies: a Puffin file, the first byte, how many bytes, and how many rows it deletes."""

    path: str
    content_offset: int
    content_size_bytes: int
    cardinality: int


@dataclass(frozen=True)
class WrittenVector:
    """`file_size_bytes` is that of the Puffin file, which may hold other vectors as well."""

    data_file: str
    vector: DeletionVector
    file_size_bytes: int


def encoded(positions: Positions) -> bytes:
    """A vector as the blob of a Puffin file. `positions` are distinct, not negative, and in any order."""
    bitmap = BitMap64(positions.astype(np.uint64))
    bitmap.run_optimize()
    checked = _BLOB_MAGIC + bitmap.serialize()
    return struct.pack(">i", len(checked)) + checked + struct.pack(">I", zlib.crc32(checked))


def decoded(blob: bytes, vector: DeletionVector) -> Positions:
    """The positions of a blob, ascending.

    Raises:
        DamagedDeletionVector: the blob's length, magic, checksum or number of positions is not what it should be.
    """
    checked = blob[4:-4]
    if (
        len(blob) != vector.content_size_bytes
        or len(blob) < _FRAME_BYTES
        or struct.unpack(">i", blob[:4])[0] != len(checked)
        or checked[:4] != _BLOB_MAGIC
        or struct.unpack(">I", blob[-4:])[0] != zlib.crc32(checked)
    ):
        raise DamagedDeletionVector(f"{vector.path} holds no deletion vector at byte {vector.content_offset}")
    positions = np.array(BitMap64.deserialize(checked[4:]).to_array(), dtype=np.int64)
    if len(positions) != vector.cardinality:
        raise DamagedDeletionVector(
            f"the deletion vector at byte {vector.content_offset} of {vector.path} has {len(positions)} positions, "
            f"its manifest entry says {vector.cardinality}"
        )
    return positions


def write_vectors(
    io: FileIO,
    new_path: Callable[[], str],
    vectors: Iterable[tuple[str, Positions]],
    max_puffin_bytes: int = MAX_PUFFIN_BYTES,
) -> list[WrittenVector]:
    """Write the vectors in the order given, which should be that of partitions, so that a scan of one reads few files.

    Args:
        new_path: gives the location of the next Puffin file.
        vectors: by data file, the positions that are deleted in it.
        max_puffin_bytes: a file ends before the vector that would make its blobs longer; one vector may be longer
            alone.
    """
    written: list[WrittenVector] = []
    blobs: list[tuple[str, bytes, int]] = []
    size = 0
    for data_file, positions in vectors:
        blob = encoded(positions)
        if blobs and size + len(blob) > max_puffin_bytes:
            written += _write_puffin(io, new_path(), blobs)
            blobs, size = [], 0
        blobs.append((data_file, blob, len(positions)))
        size += len(blob)
    if blobs:
        written += _write_puffin(io, new_path(), blobs)
    return written


def _write_puffin(io: FileIO, path: str, blobs: Sequence[tuple[str, bytes, int]]) -> list[WrittenVector]:
    placed, offset = [], len(MAGIC_BYTES)
    for data_file, blob, cardinality in blobs:
        placed.append((data_file, DeletionVector(path, offset, len(blob), cardinality)))
        offset += len(blob)
    footer = json.dumps(
        {
            "blobs": [
                {
                    "type": BLOB_TYPE,
                    "fields": [_ROW_POSITION_FIELD_ID],
                    # Inherited from the snapshot that adds the file.
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": vector.content_offset,
                    "length": vector.content_size_bytes,
                    "properties": {
                        PROPERTY_REFERENCED_DATA_FILE: data_file,
                        "cardinality": str(vector.cardinality),
                    },
                }
                for data_file, vector in placed
            ],
            "properties": {"created-by": "floe"},
        }
    ).encode()
    content = b"".join(
        (
            MAGIC_BYTES,
            *(blob for _, blob, _ in blobs),
            MAGIC_BYTES,
            footer,
            struct.pack("<i", len(footer)),
            _NO_FLAGS,
            MAGIC_BYTES,
        )
    )
    with io.new_output(path).create() as stream:
        stream.write(content)
    return [WrittenVector(data_file, vector, len(content)) for data_file, vector in placed]


def read_vectors(io: FileIO, vectors: Iterable[DeletionVector]) -> dict[DeletionVector, Positions]:
    """The positions of each vector. A Puffin file is read once, from the first to the last vector that is wanted.

    Raises:
        DamagedDeletionVector: a vector is not what its manifest entry says.
    """
    by_path: dict[str, list[DeletionVector]] = defaultdict(list)
    for vector in vectors:
        by_path[vector.path].append(vector)
    found: dict[DeletionVector, Positions] = {}
    for path, wanted in by_path.items():
        first = min(vector.content_offset for vector in wanted)
        end = max(vector.content_offset + vector.content_size_bytes for vector in wanted)
        with io.new_input(path).open() as stream:
            stream.seek(first)
            content = stream.read(end - first)
        for vector in wanted:
            start = vector.content_offset - first
            found[vector] = decoded(content[start : start + vector.content_size_bytes], vector)
    return found


def united(parts: Iterable[Positions]) -> Positions:
    """All positions once, ascending."""
    gathered = list(chain(parts))
    if not gathered:
        return np.empty(0, np.int64)
    return np.unique(np.concatenate(gathered).astype(np.int64, copy=False))
