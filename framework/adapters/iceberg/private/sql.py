"""PyIceberg's SQL catalog with a commit time that does not grow with the number of snapshots.

In and out: exactly what `pyiceberg.catalog.sql.SqlCatalog` takes and gives; the rows it keeps and the metadata files it
writes are the same. Only three inner steps differ, each of which handles all snapshots again in PyIceberg: a metadata
file that was read or written before is not parsed again (metadata files never change, so the location is a sound key),
the deep copy leaves the snapshots and their log out, and the JSON of each of their entries is rendered once. The
compare-and-swap on the metadata location, and with it invariant 4, stays PyIceberg's own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache
from pyiceberg.catalog.sql import IcebergTables as CatalogRow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table, TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel, Identifier
from pyiceberg.utils.properties import property_as_int
from typing_extensions import override

from framework.adapters.file_io import location_provider

# Of all tables' metadata together, as `_memory_bytes` has it; tables beyond this are read again from their metadata
# files, which is slow but right. Four tables of 5,000 snapshots, or a thousand of 14.
MAX_KNOWN_BYTES = 100_000_000

# Updates that look at no snapshots but those they name themselves; any other update takes PyIceberg's own way.
_LOCAL_UPDATES = (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)


# What only grows at its end, and is rendered once; all else is rendered with each commit.
_GROWING = {"snapshots", "snapshot_log"}

Ids = npt.NDArray[np.int64]
_Text = tuple[bytes, ...]  # pieces of JSON, between which commas belong


@dataclass(frozen=True)
class _GrowingLists:
    """The ids of a table's snapshots, and the JSON of the entries of both growing lists."""

    ids: Ids
    snapshots: _Text
    snapshot_log: _Text

    @classmethod
    def of(cls, metadata: TableMetadata) -> _GrowingLists:
        nothing = _GrowingLists(np.empty(0, np.int64), (), ())
        return nothing.grown(metadata.format_version, metadata.snapshots, metadata.snapshot_log)

    def grown(self, version: int, snapshots: Sequence[Snapshot], log: Sequence[SnapshotLogEntry]) -> _GrowingLists:
        ids = np.append(self.ids, np.array([snapshot.snapshot_id for snapshot in snapshots], np.int64))
        if version == 1:  # which knows no sequence numbers
            snapshots = [snapshot.model_copy(update={"sequence_number": None}) for snapshot in snapshots]
        return _GrowingLists(ids, _appended(self.snapshots, snapshots), _appended(self.snapshot_log, log))


def _appended(text: _Text, entries: Sequence[IcebergBaseModel]) -> _Text:
    """One more piece, put together with those before it that are no longer: a byte is copied as often as the text
    doubles."""
    pieces = [*text, b",".join(entry.model_dump_json().encode() for entry in entries)]
    if not pieces[-1]:
        return text
    while len(pieces) > 1 and len(pieces[-2]) <= len(pieces[-1]):
        pieces[-2:] = [b",".join(pieces[-2:])]
    return tuple(pieces)


@dataclass(frozen=True)
class _Known:
    """One version of a table's metadata, and its snapshots as they were rendered; not before a commit needs them."""

    location: str
    metadata: TableMetadata
    rendered: _GrowingLists | None = None


def _memory_bytes(known: _Known) -> int:
    """About what one table takes, measured: PyIceberg's objects are models with a dictionary and a set each, and what
    was rendered comes to a fifth of a snapshot. Columns that were dropped count, too: those that are there would have
    to be counted anew for each commit."""
    metadata = known.metadata
    columns = len(metadata.schemas) * metadata.last_column_id
    return 10_000 + 1_300 * columns + 4_500 * len(metadata.snapshots) + 700 * len(metadata.metadata_log)


class FlatSqlCatalog(SqlCatalog):
    """A `SqlCatalog` whose `commit_table` costs the same at the first and at the 5,000th snapshot. Safe for threads.

    It also writes metadata of format version 3, which PyIceberg reads and does not write. Goes when PyIceberg commits
    to a SQL catalog without copying and rendering all snapshots, and writes version 3.
    """

    writes_version_3 = True

    def __init__(self, name: str, **properties: str) -> None:
        self._known: LRUCache[tuple[str, str], _Known] = LRUCache(MAX_KNOWN_BYTES, _memory_bytes)
        self._known_lock = threading.Lock()
        self._staged = threading.local()  # the `_Known` of a commit in progress
        super().__init__(name, **properties)

    @override
    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        self._staged.known = None
        response = super().commit_table(table, requirements, updates)
        known = self._as_staged(response.metadata) or _Known(response.metadata_location, response.metadata)
        self._staged.known = None
        self._remember(self._key(table.name()), known)
        return response

    def _key(self, identifier: Identifier) -> tuple[str, str]:
        return self.namespace_to_string(self.namespace_from(identifier)), self.table_name_from(identifier)

    def _as_staged(self, metadata: TableMetadata) -> _Known | None:
        known: _Known | None = getattr(self._staged, "known", None)
        return known if known is not None and known.metadata is metadata else None

    @override
    def _convert_orm_to_iceberg(self, orm_table: CatalogRow) -> Table:
        key = (orm_table.table_namespace, orm_table.table_name)
        with self._known_lock:
            known = self._known.get(key)
        if known is None or known.location != orm_table.metadata_location:
            table = super()._convert_orm_to_iceberg(orm_table)
            self._remember(key, _Known(table.metadata_location, table.metadata))
            return table
        return Table(
            identifier=(*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name),
            metadata=known.metadata,
            metadata_location=known.location,
            io=self._load_file_io(known.metadata.properties, known.location),
            catalog=self,
        )

    @override
    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None or not all(isinstance(update, _LOCAL_UPDATES) for update in updates):
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        for requirement in requirements:
            requirement.validate(current_table.metadata)
        base = current_table.metadata
        rendered = self._rendered(self._key(current_table.name()), base)
        metadata = _updated(base, rendered.ids, updates, current_table.metadata_location)
        new = metadata.snapshots[len(base.snapshots) :], metadata.snapshot_log[len(base.snapshot_log) :]
        version = self._parse_metadata_version(current_table.metadata_location) + 1
        provider = location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location(version)
        self._staged.known = _Known(location, metadata, rendered.grown(metadata.format_version, *new))
        return StagedTable(
            identifier=table_identifier,
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(properties=metadata.properties, location=location),
            catalog=self,
        )

    @override
    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        """Write a metadata file; an instance method here, since it uses what was rendered before."""
        own = isinstance(metadata, TableMetadataV3)
        if not own and metadata.current_snapshot_id is None:  # also the one case in which PyIceberg may write nulls
            ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))
            return
        staged = self._as_staged(metadata)
        rendered = (staged.rendered if staged is not None else None) or _GrowingLists.of(metadata)
        log, snapshots = _with_commas(rendered.snapshot_log), _with_commas(rendered.snapshots)
        head = _rest(metadata).encode()
        pieces = (head[:-1], b',"snapshot-log":[', *log, b'],"snapshots":[', *snapshots, b"]}")
        output = io.new_output(metadata_path)
        with output.create(overwrite=False) as stream:
            if output.location.endswith(".gz.metadata.json"):
                stream.write(Compressor.get_compressor(output.location).bytes_compressor()(b"".join(pieces)))
            else:
                for piece in pieces:  # of several megabytes in all, which need not be put together first
                    stream.write(piece)

    def _rendered(self, key: tuple[str, str], metadata: TableMetadata) -> _GrowingLists:
        with self._known_lock:
            known = self._known.get(key)
        found = known.rendered if known is not None and known.metadata is metadata else None
        return found or _GrowingLists.of(metadata)

    def _remember(self, key: tuple[str, str], known: _Known) -> None:
        with self._known_lock:
            self._known.pop(key, None)
            if _memory_bytes(known) <= self._known.maxsize:
                self._known[key] = known


def _with_commas(text: _Text) -> list[bytes]:
    return [part for piece in text for part in (b",", piece)][1:]


def _rest(metadata: TableMetadata) -> str:
    """Metadata without its snapshots and their log as JSON."""
    if not isinstance(metadata, TableMetadataV3):
        return metadata.model_dump_json(exclude=_GROWING)
    if metadata.next_row_id is None and not metadata.snapshots:  # PyIceberg leaves out what a new table must say
        metadata = metadata.model_copy(update={"next_row_id": 0})
    # PyIceberg's own method refuses version 3, for want of the manifests; the model is complete.
    return IcebergBaseModel.model_dump_json(metadata, exclude=_GROWING)


def _updated(base: TableMetadata, ids: Ids, updates: tuple[TableUpdate, ...], base_location: str) -> TableMetadata:
    """What `update_table_metadata` gives, without its deep copy of snapshots and of logs that no update looks at."""
    # A snapshot that is added must not exist: keep such a one in sight, so that PyIceberg's own check refuses it.
    named = {update.snapshot_id for update in updates if isinstance(update, SetSnapshotRefUpdate)}
    named |= {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    seen = [base.snapshots[at] for at in np.flatnonzero(np.isin(ids, list(named)))]
    slim = base.model_copy(update={"snapshots": seen, "snapshot_log": [], "metadata_log": []})
    new = update_table_metadata(slim, updates, metadata_location=base_location)
    logged = base.metadata_log
    if new.metadata_log:  # none where nothing has changed
        logged = (logged + new.metadata_log)[-_kept_metadata_files(new) :]
    return new.model_copy(
        update={
            "snapshots": base.snapshots + new.snapshots[len(seen) :],
            "snapshot_log": base.snapshot_log + new.snapshot_log,
            "metadata_log": logged,
        }
    )


def _kept_metadata_files(metadata: TableMetadata) -> int:
    """How many entries its log keeps: PyIceberg's rule, which applies it as it appends to them."""
    default = TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT
    kept = property_as_int(metadata.properties, TableProperties.METADATA_PREVIOUS_VERSIONS_MAX, default)
    return max(1, default if kept is None else kept)


class AssertAsSeen(ValidatableTableRequirement):
    """Nobody has set a branch or a tag since the look, and every snapshot that is to go is there. Catalogs that check
    requirements in this process ask it; a REST server knows no such requirement.

    Goes when PyIceberg has a requirement that a table has no other references than these.
    """

    type: Literal["floe-as-seen"] = "floe-as-seen"
    refs: frozenset[str]
    snapshot_ids: frozenset[int]

    @override
    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        there = {each.snapshot_id for each in base_metadata.snapshots} if base_metadata else set()
        if base_metadata is None or not self.snapshot_ids <= there or not base_metadata.refs.keys() <= self.refs:
            raise CommitFailedException("branches, tags or snapshots have changed since they were looked at")
