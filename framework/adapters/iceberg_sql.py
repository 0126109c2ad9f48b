"""PyIceberg's SQL catalog with a commit time that does not grow with the number of snapshots.

In and out: exactly what `pyiceberg.catalog.sql.SqlCatalog` takes and gives; the rows it keeps and the metadata files it
writes are the same. Only three inner steps differ, each of which handles all snapshots again in PyIceberg: a metadata
file that was read or written before is not parsed again (metadata files never change, so the location is a sound key),
the deep copy leaves the snapshots out, and each snapshot's JSON is rendered once. The compare-and-swap on the metadata
location, and with it invariant 4, stays PyIceberg's own.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from pyiceberg.catalog.sql import IcebergTables as CatalogRow
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel, Identifier

# About 5 kB of memory each; tables beyond this are read again from their metadata files, which is slow but right.
MAX_CACHED_SNAPSHOTS = 40_000

# Updates that look at no snapshots but those they name themselves; any other update takes PyIceberg's own way.
_LOCAL_UPDATES = (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)


@dataclass
class _Known:
    """One version of a table's metadata, and the JSON of its snapshots as far as it was rendered."""

    metadata: TableMetadata
    rendered: dict[int, tuple[Snapshot, str]] = field(default_factory=dict)


class FlatSqlCatalog(SqlCatalog):
    """A `SqlCatalog` whose `commit_table` costs the same at the first and at the 5,000th snapshot. Safe for threads.

    It also writes metadata of format version 3, which PyIceberg reads and does not write.
    """

    writes_version_3 = True

    def __init__(self, name: str, **properties: str) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[str, _Known]] = OrderedDict()
        self._snapshots = 0  # of all that is in `_known`
        self._known_lock = threading.Lock()
        super().__init__(name, **properties)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        response = super().commit_table(table, requirements, updates)
        namespace = self.namespace_to_string(self.namespace_from(table.name()))
        name = (namespace, self.table_name_from(table.name()))
        with self._known_lock:
            before = self._known.get(name)
            rendered = before[1].rendered if before else {}
        self._remember(name, response.metadata_location, _Known(response.metadata, rendered))
        return response

    def _convert_orm_to_iceberg(self, orm_table: CatalogRow) -> Table:
        name = (orm_table.table_namespace, orm_table.table_name)
        location = orm_table.metadata_location
        with self._known_lock:
            held = self._known.get(name)
            if held is not None and held[0] == location:
                self._known.move_to_end(name)
        if held is None or location is None or held[0] != location:
            table = super()._convert_orm_to_iceberg(orm_table)
            rendered = held[1].rendered if held else {}
            self._remember(name, table.metadata_location, _Known(table.metadata, rendered))
            return table
        metadata = held[1].metadata
        return Table(
            identifier=(*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

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
        metadata = _updated(current_table.metadata, updates, current_table.metadata_location)
        version = self._parse_metadata_version(current_table.metadata_location) + 1
        provider = load_location_provider(metadata.location, metadata.properties)
        location = provider.new_table_metadata_file_location(version)
        return StagedTable(
            identifier=table_identifier,
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(properties=metadata.properties, location=location),
            catalog=self,
        )

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        """Write a metadata file; an instance method here, since it uses what was rendered before."""
        own = isinstance(metadata, TableMetadataV3)
        if not own and metadata.current_snapshot_id is None:  # also the one case in which PyIceberg may write nulls
            ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))
            return
        text = self._render(metadata)
        output = io.new_output(metadata_path)
        content = Compressor.get_compressor(output.location).bytes_compressor()(text.encode())
        with output.create(overwrite=False) as stream:
            stream.write(content)

    def _render(self, metadata: TableMetadata) -> str:
        with self._known_lock:
            # The newest first: what is rendered was loaded a moment ago.
            versions = (known for _, known in reversed(self._known.values()))
            rendered = next((each.rendered for each in versions if each.metadata.table_uuid == metadata.table_uuid), {})
        texts = []
        for snapshot in metadata.snapshots:
            held = rendered.get(snapshot.snapshot_id)
            if held is None or held[0] is not snapshot:
                plain = snapshot
                if metadata.format_version == 1:  # which knows no sequence numbers
                    plain = snapshot.model_copy(update={"sequence_number": None})
                held = (snapshot, plain.model_dump_json())
                rendered[snapshot.snapshot_id] = held
            texts.append(held[1])
        rest = _rest(metadata)
        return f'{rest[:-1]},"snapshots":[{",".join(texts)}]}}'

    def _remember(self, name: tuple[str, str], location: str, known: _Known) -> None:
        if len(known.rendered) > 2 * len(known.metadata.snapshots):
            live = {snapshot.snapshot_id for snapshot in known.metadata.snapshots}
            known.rendered = {key: value for key, value in known.rendered.items() if key in live}
        with self._known_lock:
            before = self._known.pop(name, None)
            self._snapshots -= len(before[1].metadata.snapshots) if before else 0
            self._known[name] = (location, known)
            self._snapshots += len(known.metadata.snapshots)
            while self._snapshots > MAX_CACHED_SNAPSHOTS:
                _, (_, dropped) = self._known.popitem(last=False)
                self._snapshots -= len(dropped.metadata.snapshots)


def _rest(metadata: TableMetadata) -> str:
    """Metadata without its snapshots as JSON."""
    if not isinstance(metadata, TableMetadataV3):
        return metadata.model_dump_json(exclude={"snapshots"})
    if metadata.next_row_id is None and not metadata.snapshots:  # PyIceberg leaves out what a new table must say
        metadata = metadata.model_copy(update={"next_row_id": 0})
    # PyIceberg's own method refuses version 3, for want of the manifests; the model is complete.
    return IcebergBaseModel.model_dump_json(metadata, exclude={"snapshots"})


def _updated(base: TableMetadata, updates: tuple[TableUpdate, ...], base_location: str) -> TableMetadata:
    """What `update_table_metadata` gives, without its deep copy of snapshots that no update looks at."""
    # A snapshot that is added must not exist: keep such a one in sight, so that PyIceberg's own check refuses it.
    named = {update.snapshot_id for update in updates if isinstance(update, SetSnapshotRefUpdate)}
    named |= {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    seen = [snapshot for snapshot in base.snapshots if snapshot.snapshot_id in named]
    slim = base.model_copy(update={"snapshots": seen, "snapshot_log": []})
    new = update_table_metadata(slim, updates, metadata_location=base_location)
    return new.model_copy(
        update={
            "snapshots": base.snapshots + new.snapshots[len(seen) :],
            "snapshot_log": base.snapshot_log + new.snapshot_log,
        }
    )
