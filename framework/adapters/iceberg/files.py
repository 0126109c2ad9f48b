"""Which files a table refers to, and which files are below a location.

In: a loaded table, or a FileIO and a location. Out: plain values. Reads manifests and lists folders; changes nothing.
Every snapshot counts, on every branch, and so does what one of them removed: it is better to keep a file too many than
one too few (invariant 12).
"""

from __future__ import annotations

import gzip
import json
import re
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlparse

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table, TableProperties

from framework.adapters.iceberg.upsert.order import deleted_key_files_of
from framework.commit.deleted_keys import root_of
from framework.commit.file_ages import ClockReading
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, filled_from
from framework.commit.recovery.orphans import StoredFile

__all__ = [
    "StoredFile",
    "TablePlace",
    "TableReferences",
    "foreign_metadata",
    "list_files",
    "missing_of",
    "moment",
    "path_key",
    "place_of",
    "references_of",
    "store_now_ms",
]

_TABLE_UUID = re.compile(rb'"table-uuid"\s*:\s*"([0-9a-fA-F-]{36})"')
LOOKERS = 16
# Of whoever has no such clock, the one that counts the least of what others count.
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class TablePlace:
    """`roots`: where the table's files lie; `control_topic_ids`: whose announcements it records, empty for a table that
    floe never committed to; `filled_from`: those and the ones whose announcements may name files of it."""

    table_uuid: str
    roots: tuple[str, ...]
    control_topic_ids: frozenset[str]
    filled_from: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TableReferences:
    """`paths`: keys of all files that the table refers to, as `path_key` makes them. `kept_folder`: the key of a folder
    whose files stay, since the table should say which of them it needs and does not; "" where there is none.
    `filled_from`: as in `TablePlace`, of the same moment as the paths."""

    table_uuid: str
    paths: frozenset[str]
    kept_folder: str = ""
    filled_from: frozenset[str] = frozenset()


def path_key(location: str) -> str:
    """What two names of one file have in common: the path without scheme and authority, since `s3` and `s3a`, or
    `file:` and no scheme at all, may name the same file."""
    parsed = urlparse(location)
    path = parsed.path if parsed.scheme else location
    return "/" + "/".join(part for part in unquote(path).split("/") if part)


def references_of(table: Table) -> TableReferences:
    """Reads every manifest that is still referred to, each once."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    manifests: dict[str, Any] = {}
    snapshot_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        manifests.update({manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)})
    for path, manifest in manifests.items():
        found.add(path)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            # What an expired snapshot removed was live for expired ones alone.
            if entry.status != ManifestEntryStatus.DELETED or entry.snapshot_id in snapshot_ids:
                found.add(entry.data_file.file_path)
    found |= {statistics.statistics_path for statistics in metadata.statistics}
    found |= {statistics.statistics_path for statistics in metadata.partition_statistics}
    remembered = deleted_key_files_of(metadata)
    found |= set(remembered or ())
    kept_folder = "" if remembered is not None else path_key(root_of(metadata.location))
    paths = frozenset(path_key(path) for path in found if path)
    return TableReferences(str(metadata.table_uuid), paths, kept_folder, place_of(table).filled_from)


def place_of(table: Table) -> TablePlace:
    """Reads nothing but the metadata that is loaded."""
    metadata = table.metadata
    data_path = metadata.properties.get(TableProperties.WRITE_DATA_PATH)
    metadata_path = metadata.properties.get(TableProperties.WRITE_METADATA_PATH)
    roots = dict.fromkeys(root.rstrip("/") for root in (metadata.location, data_path, metadata_path) if root)
    progress = json.loads(metadata.properties.get(PROGRESS_PROPERTY) or "{}")
    filled = filled_from(metadata.properties)
    return TablePlace(str(metadata.table_uuid), tuple(roots), frozenset(progress), filled)


def foreign_metadata(table: Table, files: Iterable[StoredFile]) -> str | None:
    """A metadata file among these that is another table's, or that does not say whose: then two tables share a place,
    perhaps by catalogs that nobody here knows. None where all are this table's, of whatever age."""
    own = str(table.metadata.table_uuid)
    known = {path_key(table.metadata_location), *(path_key(each.metadata_file) for each in table.metadata.metadata_log)}
    for file in files:
        if file.key.endswith((".metadata.json", ".metadata.json.gz")) and file.key not in known:
            with table.io.new_input(file.location).open() as stream:
                text = stream.read()
            if file.key.endswith(".gz"):
                text = gzip.decompress(text)
            found = _TABLE_UUID.search(text)
            if found is None or found[1].decode() != own:
                return file.location
    return None


def list_files(io: FileIO, location: str) -> list[StoredFile]:
    """Every file below the location, none when it does not exist. Raises what the store raises."""
    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = io.parse_location(location, io.properties)
        base = f"{scheme}://{netloc}" if scheme in ("hdfs", "viewfs") else f"{scheme}://"
        infos = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
        return [
            StoredFile(
                f"{base}{info.path}",
                path_key(f"{base}{info.path}"),
                info.size or 0,
                None if info.mtime_ns is None else info.mtime_ns // 1_000_000,
            )
            for info in infos
            if info.type is FileType.File
        ]
    from pyiceberg.io.fsspec import FsspecFileIO  # 0.2 s of every start, for what only a listing asks

    if isinstance(io, FsspecFileIO):
        parsed = urlparse(location)
        files = io.get_fs(parsed.scheme, parsed.hostname).find(location, detail=True)
        base = f"{parsed.scheme}://"
        return [
            StoredFile(f"{base}{path}", path_key(f"{base}{path}"), int(info.get("size") or 0), _modified_ms(info))
            for path, info in files.items()
        ]
    raise NotImplementedError(f"{type(io).__name__} cannot list files")


def missing_of(io: FileIO, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of some files that are not in the store. Raises what the store raises."""
    asked = list(dict.fromkeys(paths))
    if len(asked) < 2:
        return tuple(path for path in asked if not io.new_input(path).exists())
    with ThreadPoolExecutor(min(LOOKERS, len(asked))) as pool:
        found = list(pool.map(lambda path: io.new_input(path).exists(), asked))
    return tuple(path for path, is_there in zip(asked, found, strict=True) if not is_there)


def moment() -> ClockReading:
    """Now."""
    return ClockReading(time.time_ns() // 1_000_000, time.clock_gettime_ns(_BOOT_CLOCK) // 1_000_000)


def store_now_ms(table: Table) -> int | None:
    """What time it is at the table's store: what it says of a file that is written there and removed again. None where
    it does not tell. Raises what the store raises."""
    # Left by a process that ends here, it is an orphan like another.
    location = table.location_provider().new_metadata_location(f"clock-{uuid.uuid4()}.avro")
    with table.io.new_output(location).create() as stream:
        stream.write(b"when")
    try:
        return _asked_modified_ms(table.io, location)
    finally:
        table.io.delete(location)


def _asked_modified_ms(io: FileIO, location: str) -> int | None:
    if isinstance(io, PyArrowFileIO):
        scheme, netloc, path = io.parse_location(location, io.properties)
        found = io.fs_by_scheme(scheme, netloc).get_file_info(path).mtime_ns
        return None if found is None else found // 1_000_000
    from pyiceberg.io.fsspec import FsspecFileIO

    if isinstance(io, FsspecFileIO):
        parsed = urlparse(location)
        return _modified_ms(io.get_fs(parsed.scheme, parsed.hostname).info(location))
    return None


def _modified_ms(info: dict[str, Any]) -> int | None:
    """When a file was written, under the names that fsspec's file systems have for it; None when none is known."""
    for name in ("LastModified", "last_modified", "mtime", "updated"):
        value = info.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, (int, float)):
            return int(value * 1000)
    return None
