"""What a snapshot holds: its live data files, and for each the deletes that apply to it.

In: a snapshot's manifests. Out: one value for each data file, with what it inherits written out, and its deletion
vector or its position delete files by the specification's rules of sequence number, partition and path. Live equality
deletes are refused by name: whoever went by the rest alone would show rows that are deleted. The value is small when
pickled, since executors get it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as IcebergDataFile
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from typing_extensions import override

from framework.adapters.iceberg.private import entry_fields
from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.deletes.deletion_vectors import DeletionVector, Positions, read_vectors, united
from framework.adapters.iceberg.private.deletes.position_deletes import (
    PATH_FIELD_ID,
    PositionDeletes,
    UnsupportedDeletes,
    read_position_deletes,
)
from framework.diagnose.counted import counted

__all__ = [
    "LiveFile",
    "LiveFiles",
    "UnreadFiles",
    "UnsupportedDeletes",
    "check_formats",
    "deleted_positions",
    "live_files",
]

Bounds = dict[int, bytes]
# A partition: its spec and its values, of which NaN equals itself.
_Place = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a snapshot. `partition` has the values that PyIceberg's reader gives; `sequence_number` is the one
    that deletes are compared with; `first_row_id` is None before format version 3. With a `vector`, nothing else
    deletes rows."""

    path: str
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    file_size_bytes: int
    sequence_number: int
    file_sequence_number: int
    snapshot_id: int
    first_row_id: int | None
    lower_bounds: Bounds
    upper_bounds: Bounds
    vector: DeletionVector | None
    position_deletes: tuple[PositionDeletes, ...]
    file_format: str = FileFormat.PARQUET.value

    @property
    def is_parquet(self) -> bool:
        """Whether floe reads it: other engines write Avro and ORC into the same table. Names say nothing of it."""
        return self.file_format == FileFormat.PARQUET.value

    @property
    def has_deletes(self) -> bool:
        """Whether a row of it may be deleted."""
        return self.vector is not None or bool(self.position_deletes)

    @property
    def deleted_rows(self) -> int:
        """No less than the rows of it that are deleted: position delete files may name one twice, or those of others."""
        vector, named = self.vector, sum(each.record_count for each in self.position_deletes)
        return min(vector.cardinality if vector is not None else named, self.record_count)

    def has_deletes_of(self, other: LiveFile) -> bool:
        """Whether the same rows are deleted in both, which are one file in two snapshots."""
        return (self.vector, self.position_deletes) == (other.vector, other.position_deletes)


@dataclass(frozen=True)
class LiveFiles:
    """By path, the data files of one snapshot; `manifests` are the paths of those that they were read from, which tell
    one snapshot's files from another's. `dangling` are its delete entries for single data files that are gone: each by
    its file, and where in it a vector begins."""

    by_path: Mapping[str, LiveFile]
    manifests: frozenset[str]
    dangling: frozenset[tuple[str, int | None]] = frozenset()

    @override
    def __reduce__(self) -> tuple[Callable[..., LiveFiles], tuple[list[Any], frozenset[str]]]:
        columns = zip(*map(_values, self.by_path.values()), strict=True)
        return _from_columns, ([_packed(column) for column in columns], self.manifests)


_NAMES = tuple(field.name for field in fields(LiveFile) if field.name != "vector")
_VECTOR_NAMES = tuple(field.name for field in fields(DeletionVector))
_NO_VECTOR = ("", 0, 0, 0)


def _values(file: LiveFile) -> tuple[Any, ...]:
    own = tuple(getattr(file, name) for name in _NAMES)
    vector = file.vector
    return own + (_NO_VECTOR if vector is None else tuple(getattr(vector, name) for name in _VECTOR_NAMES))


def _packed(column: tuple[Any, ...]) -> Any:
    """Numbers as an array, of which a pickle takes eight bytes each; other equal values as one object, which it names
    twice."""
    if all(type(value) is int for value in column):
        return np.array(column, np.int64)
    if isinstance(column[0], dict):
        return list(column)
    known: dict[Any, Any] = {}
    return [known.setdefault(value, value) for value in column]


def _from_columns(columns: list[Any], manifests: frozenset[str]) -> LiveFiles:
    lists = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
    found = {}
    for values in zip(*lists, strict=True):
        own, vector = values[: len(_NAMES)], values[len(_NAMES) :]
        given = dict(zip(_NAMES, own, strict=True))
        found[given["path"]] = LiveFile(**given, vector=DeletionVector(*vector) if vector[0] else None)
    return LiveFiles(found, manifests)


def live_files(
    io: FileIO, manifests: Iterable[ManifestFile], format_version: int, bounds_of: Collection[int] | None = None
) -> LiveFiles:
    """Reads every manifest once, and no other file.

    Args:
        manifests: all of one snapshot, with first row ids where the table has them (`row_lineage.read_manifests`).
        bounds_of: the ids of the fields whose bounds are kept; None for all.

    Raises:
        UnsupportedDeletes: there are equality deletes, or two deletion vectors for one file.
    """
    listed = [manifest for manifest in manifests if manifest.has_added_files() or manifest.has_existing_files()]
    deletes = _Deletes(format_version)
    for manifest in listed:
        if manifest.content == ManifestContent.DELETES:
            for entry in lineage.read_live_entries(io, manifest):
                deletes.add(entry)
    found: dict[str, LiveFile] = {}
    partitions: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for manifest in listed:
        if manifest.content != ManifestContent.DATA:
            continue
        for entry in lineage.read_live_entries(io, manifest):
            file = entry.data_file
            values = partition_of(file)
            partition = partitions.setdefault(values, values)
            number = entry.sequence_number or 0
            vector = deletes.vector_of(file.file_path, number)
            applied = () if vector else deletes.position_deletes_of(file.file_path, file.spec_id, partition, number)
            found[file.file_path] = LiveFile(
                file.file_path,
                file.spec_id,
                partition,
                file.record_count,
                file.file_size_in_bytes,
                number,
                entry.file_sequence_number or 0,
                entry.snapshot_id or 0,
                entry_fields.first_row_id_of(file),
                _kept(file.lower_bounds, bounds_of),
                _kept(file.upper_bounds, bounds_of),
                vector,
                applied,
                file.file_format.value,
            )
    return LiveFiles(found, frozenset(manifest.manifest_path for manifest in listed), deletes.of_others(found))


class UnreadFiles(ValueError):
    """A table whose rows are looked for has data files that floe does not read."""


def check_formats(live: LiveFiles) -> None:
    """Raises UnreadFiles: data files are not Parquet, so that no key in them could be found."""
    others = [file for file in live.by_path.values() if not file.is_parquet]
    if others:
        formats = " and ".join(sorted({file.file_format for file in others}))
        raise UnreadFiles(
            f"{counted(len(others), 'data file')} of it {'is' if len(others) == 1 else 'are'} {formats}, and floe reads "
            f"Parquet: {others[0].path}"
        )


def deleted_positions(io: FileIO, live_file: LiveFile) -> Positions:
    """The rows that are deleted in one file now, ascending; the first row is 0.

    Raises:
        DamagedDeletionVector: its deletion vector is not what the manifest entry says.
        UnsupportedDeletes: a position delete file is of a format that floe does not read.
    """
    if live_file.vector is not None:
        return read_vectors(io, [live_file.vector])[live_file.vector]
    found = (read_position_deletes(io, file, live_file.path) for file in live_file.position_deletes)
    return united(each[live_file.path] for each in found if live_file.path in each)


def partition_of(file: IcebergDataFile) -> tuple[Any, ...]:
    """The partition values of a data file or a delete file."""
    return tuple(file.partition[place] for place in range(len(file.partition)))


def referenced_path(file: IcebergDataFile) -> str | None:
    """The one data file that a delete file names: by its field, or by equal bounds of `file_path`; None if there may be
    more."""
    if (named := entry_fields.referenced_data_file(file)) is not None:
        return named
    lower, upper = ((bounds or {}).get(PATH_FIELD_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower.decode() if lower and lower == upper else None


def vector_in(file: IcebergDataFile) -> DeletionVector | None:
    """The deletion vector that a delete file's entry names; None for files of another kind."""
    if file.file_format != FileFormat.PUFFIN:
        return None
    place = entry_fields.content_range(file)
    if place is None:
        raise UnsupportedDeletes(f"{file.file_path} is a Puffin file, and its entry does not say where its content is")
    return DeletionVector(file.file_path, *place, file.record_count)


def _kept(bounds: Bounds | None, field_ids: Collection[int] | None) -> Bounds:
    if not bounds:
        return {}
    return dict(bounds) if field_ids is None else {key: bounds[key] for key in field_ids if key in bounds}


def _place(spec_id: int, partition: tuple[Any, ...]) -> _Place:
    return spec_id, tuple("NaN" if value != value else value for value in partition)


class _Numbered:
    """Position delete files by sequence number: those that are not older than a data file apply to it."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._files: list[tuple[PositionDeletes, bytes | None, bytes | None]] = []

    def add(self, number: int, file: PositionDeletes, lower: bytes | None, upper: bytes | None) -> None:
        place = bisect_left(self._numbers, number)
        self._numbers.insert(place, number)
        self._files.insert(place, (file, lower, upper))

    def since(self, number: int, path: bytes) -> list[PositionDeletes]:
        return [
            file
            for file, lower, upper in self._files[bisect_left(self._numbers, number) :]
            if _may_name(path, lower, upper)
        ]


def _may_name(path: bytes, lower: bytes | None, upper: bytes | None) -> bool:
    return (lower is None or lower <= path) and (upper is None or path <= upper)


class _Deletes:
    """The live deletes of a snapshot, to be asked by data file."""

    def __init__(self, format_version: int) -> None:
        self._format_version = format_version
        self._vectors: dict[str, tuple[int, DeletionVector]] = {}
        self._by_path: dict[str, _Numbered] = defaultdict(_Numbered)
        self._by_place: dict[_Place, _Numbered] = defaultdict(_Numbered)
        self._entries: list[tuple[str, tuple[str, int | None]]] = []

    def of_others(self, live: Collection[str]) -> frozenset[tuple[str, int | None]]:
        """The entries that are for one data file each, which is none of these."""
        return frozenset(entry for path, entry in self._entries if path not in live)

    def add(self, entry: ManifestEntry) -> None:
        file, number = entry.data_file, entry.sequence_number or 0
        if file.content == DataFileContent.EQUALITY_DELETES:
            raise UnsupportedDeletes(f"{file.file_path} has equality deletes")
        path = referenced_path(file)
        vector = vector_in(file)
        if path is not None:
            self._entries.append((path, (file.file_path, None if vector is None else vector.content_offset)))
        if vector is not None:
            if self._format_version < lineage.VERSION or path is None:
                raise UnsupportedDeletes(f"{file.file_path} is a Puffin file, and the entry is no deletion vector's")
            if path in self._vectors:
                raise UnsupportedDeletes(f"{path} has two deletion vectors, one in {file.file_path}")
            self._vectors[path] = number, vector
            return
        deletes = PositionDeletes(file.file_path, file.file_format.value, file.record_count, path is not None)
        if path is not None:
            self._by_path[path].add(number, deletes, None, None)
            return
        lower, upper = ((bounds or {}).get(PATH_FIELD_ID) for bounds in (file.lower_bounds, file.upper_bounds))
        self._by_place[_place(file.spec_id, partition_of(file))].add(number, deletes, lower, upper)

    def vector_of(self, path: str, number: int) -> DeletionVector | None:
        found = self._vectors.get(path)
        if found is None:
            return None
        if found[0] < number:  # readers differ: Java's refuses the table
            raise UnsupportedDeletes(f"{path} is younger than its deletion vector in {found[1].path}")
        return found[1]

    def position_deletes_of(
        self, path: str, spec_id: int, partition: tuple[Any, ...], number: int
    ) -> tuple[PositionDeletes, ...]:
        if not self._by_path and not self._by_place:
            return ()
        found = (self._by_path.get(path), self._by_place.get(_place(spec_id, partition)))
        return tuple(file for group in found if group for file in group.since(number, path.encode()))
