"""From announced data files to Avro: manifests, one per partition spec, and the manifest list of a new snapshot.

In: `DataFile` values of announcements, rows to delete, and the manifests of the parent snapshot. Out: manifest files
with their sequence numbers set, and the paths that were written, so that a refused attempt can be tidied up. No file is
removed here. Files are written under the spec they were made for: PyIceberg's own append puts all of them under the
table's current default spec, and rows vanish from filtered scans once the spec has changed.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    DEFAULT_READ_VERSION,
    UNASSIGNED_SEQ,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriter,
    ManifestWriter,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.manifest import DataFile as IcebergDataFile
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    StringType,
    UUIDType,
)
from pyiceberg.utils.bin_packing import ListPacker
from pyiceberg.utils.properties import property_as_bool, property_as_int

from framework.adapters.file_io import location_provider
from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.avro.blocks import ManifestListWriterV2, ManifestWriterV2
from framework.adapters.iceberg.private.avro.damaged_doubles import places_of_doubles, repair_doubles
from framework.adapters.iceberg.private.deletes import row_deletes
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.deletes.manifests import DeleteManifestWriterV2, DeleteManifestWriterV3
from framework.adapters.iceberg.private.entry_fields import REFERENCED_DATA_FILE_ID
from framework.adapters.iceberg.private.live_files import LiveFiles, UnsupportedDeletes, live_files
from framework.adapters.iceberg.private.spec_schemas import (
    UnknownSpec,
    can_be_rewritten,
    schema_for_spec,
    uuid_places,
)
from framework.adapters.uuid_order import signs
from framework.commit.events.event_types import DataFile

# Tables of format version 1 keep PyIceberg's writer, and have no deletes.
_WRITERS: dict[tuple[int, ManifestContent], type[ManifestWriterV2]] = {
    (2, ManifestContent.DATA): ManifestWriterV2,
    (2, ManifestContent.DELETES): DeleteManifestWriterV2,
    (lineage.VERSION, ManifestContent.DATA): lineage.ManifestWriterV3,
    (lineage.VERSION, ManifestContent.DELETES): DeleteManifestWriterV3,
}
# The fields of a file that each of them writes. Version 1 has no other content (134) than
# data.
_WRITTEN = {
    (version, content): frozenset(field.field_id for field in DATA_FILE_TYPE[version].fields) | {134} | more
    for version in (1, 2, lineage.VERSION)
    for content, more in ((ManifestContent.DATA, set()), (ManifestContent.DELETES, {REFERENCED_DATA_FILE_ID}))
}
_FILE_FIELDS = tuple(field.name for field in DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields)


def partition_value(field_type: IcebergType, value: object) -> Any:
    """One partition value from its JSON form (see `DataFile.partition`) to what PyIceberg's manifest writer takes."""
    if value is None:
        return None
    if isinstance(field_type, (BinaryType, FixedType)):
        return bytes.fromhex(str(value))
    if isinstance(field_type, UUIDType):
        return uuid.UUID(str(value)).bytes
    if isinstance(field_type, DecimalType):
        return Decimal(str(value))
    if isinstance(field_type, (FloatType, DoubleType)):
        return float(str(value))
    if isinstance(field_type, (StringType, BooleanType)):
        return value
    return int(str(value))


def to_iceberg(file: DataFile, types: Sequence[IcebergType]) -> IcebergDataFile:
    """An announced file as PyIceberg's DataFile; `types` are those of its spec's partition values."""
    if len(types) != len(file.partition):
        raise UnknownSpec(f"{file.path}: {len(file.partition)} partition values, spec {file.spec_id} has {len(types)}")
    values = [partition_value(kind, value) for kind, value in zip(types, file.partition, strict=True)]
    known = {
        "content": DataFileContent.DATA,
        "file_path": file.path,
        "file_format": FileFormat.PARQUET,
        "partition": Record(*values),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_bytes,
        "column_sizes": _counts(file.column_sizes),
        "value_counts": _counts(file.value_counts),
        "null_value_counts": _counts(file.null_value_counts),
        "nan_value_counts": _counts(file.nan_value_counts),
        "lower_bounds": _bounds(file.lower_bounds),
        "upper_bounds": _bounds(file.upper_bounds),
        "split_offsets": list(file.split_offsets) or None,
        "sort_order_id": file.sort_order_id,
    }
    # What `from_args` does, without asking each field of the specification's struct for its name and its default.
    made = IcebergDataFile(*map(known.get, _FILE_FIELDS))
    made.spec_id = file.spec_id
    return made


def _counts(counts: dict[str, int]) -> dict[int, int]:
    return {int(field_id): count for field_id, count in counts.items()}


def _bounds(bounds: dict[str, str]) -> dict[int, bytes]:
    return {int(field_id): base64.b64decode(bound) for field_id, bound in bounds.items()}


@dataclass(frozen=True)
class WrittenSnapshot:
    """The manifest list of a new snapshot, and the manifests it names. `first_row_id` and `added_rows` are the row ids
    that it took, which tables have from format version 3 on. `added_deletes` and `removed_deletes` are the delete
    files, or the deletion vectors in them, that it names anew and no longer; `removed_files` are data files that others
    take the place of."""

    manifest_list: str
    manifests: tuple[ManifestFile, ...]
    first_row_id: int | None = None
    added_rows: int | None = None
    added_deletes: tuple[IcebergDataFile, ...] = ()
    removed_deletes: tuple[IcebergDataFile, ...] = ()
    removed_files: tuple[IcebergDataFile, ...] = ()


class SnapshotFiles:
    """Writes the manifests and the manifest list of one attempted snapshot, and remembers the paths it has written."""

    def __init__(self, metadata: TableMetadata, io: FileIO, snapshot_id: int) -> None:
        self.written: list[str] = []
        self._metadata = metadata
        self._io = io
        self._snapshot_id = snapshot_id
        self._sequence_number = metadata.next_sequence_number()
        self._next_row_id = metadata.next_row_id if isinstance(metadata, TableMetadataV3) else None
        self._attempt = uuid.uuid4()
        self._locations = location_provider(metadata.location, metadata.properties)
        self._compression: Any = metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def write(
        self,
        parent_snapshot_id: int | None,
        parent: Sequence[ManifestFile],
        files: Iterable[IcebergDataFile],
        deletes: Mapping[str, Positions] | None = None,
        live: LiveFiles | None = None,
    ) -> WrittenSnapshot:
        """Write everything.

        The new files come first, then the parent's data manifests (merged where many small ones have gathered), then
        its delete manifests: as they are, unless rows are deleted.

        Args:
            deletes: by path of a data file of the parent, which rows of it are deleted; the first row is 0. Some may be
                deleted already.
            live: the parent's live files, where they are at hand; they are read otherwise.

        Raises:
            WrongDeletes: a file of `deletes` is not live, is one of `files`, or has no such row; or `live` is not the
                parent's.
            UnsupportedDeletes: the table has deletes that cannot be carried over, or its version has none.
            DamagedDeletionVector: an old deletion vector is not what its entry says.
        """
        added: dict[int, list[IcebergDataFile]] = defaultdict(list)
        for file in files:
            added[file.spec_id].append(file)
        parent = [manifest for manifest in parent if manifest.has_added_files() or manifest.has_existing_files()]
        changes = self._deletes(parent, added, deletes, live) if deletes else []
        new_deletes = self._delete_files(changes)
        new = [each for spec_id, group in sorted(added.items()) for each in self._added(spec_id, group)]
        data = [manifest for manifest in parent if manifest.content == ManifestContent.DATA]
        listed = [manifest for manifest in parent if manifest.content == ManifestContent.DELETES]
        removed: list[IcebergDataFile] = []
        if new_deletes:
            listed, removed = self._without({key for change in changes for key in change.replaced}, listed)
            listed = self._added_deletes(new_deletes) + listed
        manifests = new + self._merged(data) + listed
        listed_as = self._list(parent_snapshot_id, manifests)
        return replace(listed_as, added_deletes=tuple(new_deletes), removed_deletes=tuple(removed))

    def _list(self, parent_snapshot_id: int | None, manifests: list[ManifestFile]) -> WrittenSnapshot:
        """The manifest list, with row ids where the table has them."""
        added_rows = None
        if self._next_row_id is not None:
            manifests, added_rows = lineage.with_row_ids(manifests, self._next_row_id)
        path = self._locations.new_metadata_location(f"snap-{self._snapshot_id}-0-{self._attempt}.avro")
        self.written.append(path)
        with self._list_writer(path, parent_snapshot_id) as writer:
            writer.add_manifests(manifests)
        return WrittenSnapshot(path, tuple(manifests), self._next_row_id, added_rows)

    # ---- deletes ----------------------------------------------------------------------------------------------------

    def _deletes(
        self,
        parent: Sequence[ManifestFile],
        added: Mapping[int, Sequence[IcebergDataFile]],
        deletes: Mapping[str, Positions],
        live: LiveFiles | None,
    ) -> list[row_deletes.FileDeletes]:
        version = self._metadata.format_version
        if live is None:
            live = live_files(self._io, parent, version, bounds_of=())
        elif live.manifests != {manifest.manifest_path for manifest in parent}:
            # A file could have a second vector, or a vector be for a file that is gone; no reader would say so.
            raise row_deletes.WrongDeletes("rows would be deleted from the live files of another snapshot")
        paths = {file.file_path for group in added.values() for file in group}
        return row_deletes.resolved(self._io, live, deletes, paths, version)

    def _delete_files(self, changes: Sequence[row_deletes.FileDeletes]) -> list[IcebergDataFile]:
        for spec_id in {change.file.spec_id for change in changes}:
            self._check_rewritable(spec_id)
        if self._metadata.format_version >= lineage.VERSION:
            return row_deletes.write_vector_files(self._io, self._new_file("puffin"), changes)
        return row_deletes.write_position_delete_files(self._io, self._new_file("parquet"), changes)

    def _new_file(self, suffix: str) -> Callable[[], str]:
        def path() -> str:
            name = f"{self._attempt}-{len(self.written)}-deletes.{suffix}"
            self.written.append(self._locations.new_data_location(name))
            return self.written[-1]

        return path

    def _added_deletes(self, files: Sequence[IcebergDataFile]) -> list[ManifestFile]:
        by_spec: dict[int, list[IcebergDataFile]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(file)
        return [
            each
            for spec_id, group in sorted(by_spec.items())
            for each in self._added(spec_id, group, ManifestContent.DELETES)
        ]

    def _without(
        self, gone: set[row_deletes.EntryKey], manifests: Sequence[ManifestFile]
    ) -> tuple[list[ManifestFile], list[IcebergDataFile]]:
        """Delete manifests in which these entries are deleted, and their files. What stood beside one of them stays, in
        a manifest with them; manifests that have none of them are merged as those of data are."""
        untouched, touched = [], defaultdict[int, list[ManifestEntry]](list)
        for manifest in manifests:
            entries = self._to_change(manifest, lambda file: row_deletes.entry_key(file) in gone) if gone else []
            if entries:
                touched[manifest.partition_spec_id] += entries
            else:
                untouched.append(manifest)
        written, removed = self._merged(untouched), []
        for spec_id, entries in sorted(touched.items()):
            self._check_rewritable(spec_id)
            going = [row_deletes.entry_key(entry.data_file) in gone for entry in entries]
            removed += [entry.data_file for entry, goes in zip(entries, going, strict=True) if goes]
            how = ("delete" if goes else "existing" for goes in going)
            written += self._manifests(spec_id, zip(how, entries, strict=True), ManifestContent.DELETES)
        if len(removed) != len(gone):  # else a file would have two deletion vectors, or lose one
            raise row_deletes.WrongDeletes(f"{len(gone)} delete entries were to go, and {len(removed)} were found")
        return written, removed

    def _check_rewritable(self, spec_id: int) -> None:
        if not can_be_rewritten(self._metadata, self._metadata.specs()[spec_id]):
            raise UnsupportedDeletes(f"partition spec {spec_id} has columns or transforms that floe cannot write")

    # ---- manifests --------------------------------------------------------------------------------------------------

    def _list_writer(self, path: str, parent_snapshot_id: int | None) -> ManifestListWriter:
        output, number = self._io.new_output(path), self._sequence_number
        if self._next_row_id is not None:
            return lineage.ManifestListWriterV3(
                output, self._snapshot_id, parent_snapshot_id, number, self._compression, self._next_row_id
            )
        if self._metadata.format_version == 2:
            return ManifestListWriterV2(output, self._snapshot_id, parent_snapshot_id, number, self._compression)
        return write_manifest_list(
            format_version=self._metadata.format_version,
            output_file=output,
            snapshot_id=self._snapshot_id,
            parent_snapshot_id=parent_snapshot_id,
            sequence_number=number,
            avro_compression=self._compression,
        )

    def _writer(self, spec_id: int, content: ManifestContent = ManifestContent.DATA) -> ManifestWriter:
        spec = self._metadata.specs()[spec_id]
        schema = schema_for_spec(self._metadata, spec)
        path = self._locations.new_metadata_location(f"{self._attempt}-m{len(self.written)}.avro")
        self.written.append(path)
        output = self._io.new_output(path)
        version = self._metadata.format_version
        if (version, content) in _WRITERS:
            return _WRITERS[version, content](spec, schema, output, self._snapshot_id, self._compression)
        return write_manifest(
            format_version=version,
            spec=spec,
            schema=schema,
            output_file=output,
            snapshot_id=self._snapshot_id,
            avro_compression=self._compression,
        )

    def _finished(self, writer: ManifestWriter) -> ManifestFile:
        """The manifest with its sequence numbers, which PyIceberg would assign only in the manifest list it writes."""
        manifest = writer.to_manifest_file()
        manifest.sequence_number = self._sequence_number
        if manifest.min_sequence_number == UNASSIGNED_SEQ:
            manifest.min_sequence_number = self._sequence_number
        return manifest

    def _manifests(
        self,
        spec_id: int,
        entries: Iterable[tuple[str, ManifestEntry]],
        content: ManifestContent = ManifestContent.DATA,
    ) -> list[ManifestFile]:
        """One manifest of these entries, each with the name of what the writer does with it; several where partitions are
        UUIDs that readers do not order alike: the bounds of one manifest would hide some from them."""
        places = uuid_places(self._metadata, self._metadata.specs()[spec_id])
        groups: dict[tuple[Any, ...], list[tuple[str, ManifestEntry]]] = defaultdict(list)
        for how, entry in entries:
            groups[tuple(signs(entry.data_file.partition[place]) for place in places)].append((how, entry))
        written = []
        for group in groups.values():
            with self._writer(spec_id, content) as writer:
                for how, entry in group:
                    getattr(writer, how)(entry)
            written.append(self._finished(writer))
        return written

    def _added(
        self, spec_id: int, files: list[IcebergDataFile], content: ManifestContent = ManifestContent.DATA
    ) -> list[ManifestFile]:
        # As `add` does, which makes a second entry of each.
        entries = (ManifestEntry(ManifestEntryStatus.ADDED, self._snapshot_id, None, None, file) for file in files)
        return self._manifests(spec_id, (("add_entry", entry) for entry in entries), content)

    def _kin(self, manifests: Iterable[ManifestFile]) -> dict[tuple[Any, ...], list[ManifestFile]]:
        """Manifests that may become one: those of one spec, and of UUIDs in one order."""
        specs = self._metadata.specs()
        groups: dict[tuple[Any, ...], list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            spec = specs[manifest.partition_spec_id]
            places = uuid_places(self._metadata, spec) if can_be_rewritten(self._metadata, spec) else []
            summaries = [manifest.partitions[place] for place in places] if manifest.partitions else []
            bounds = (bound for each in summaries for bound in (each.lower_bound, each.upper_bound))
            kin = (spec.spec_id, *map(signs, bounds))
            groups[kin].append(manifest)
        return groups

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Merge where `commit.manifest.min-count-to-merge` manifests of one spec and one order of size have gathered.

        Iceberg's own rule rewrites the big merged manifest with every merge. Here manifests that hold about equally
        many files are merged with each other, so that an entry is rewritten once per order of magnitude, not once per
        merge, and the list stays below (minimum count) x (orders of magnitude) manifests.
        """
        properties = self._metadata.properties
        if not property_as_bool(properties, TableProperties.MANIFEST_MERGE_ENABLED, True):
            return manifests
        minimum = max(2, _integer(properties, TableProperties.MANIFEST_MIN_MERGE_COUNT, 100))
        specs = self._metadata.specs()
        groups: dict[tuple[Any, ...], list[ManifestFile]] = defaultdict(list)
        for kin, alike in self._kin(manifests).items():
            for manifest in alike:
                key = (*kin, _order_of_size(manifest, minimum))
                groups[key].append(manifest)
        merged: list[ManifestFile] = []
        for (spec_id, *_), group in groups.items():
            if len(group) < minimum or not can_be_rewritten(self._metadata, specs[spec_id]):
                merged.extend(group)
                continue
            merged.extend(self._packed(spec_id, group))
        return merged

    def _packed(self, spec_id: int, group: list[ManifestFile]) -> list[ManifestFile]:
        """Manifests of one spec and content in place of these, as large as the table wants them at most."""
        target = _integer(
            self._metadata.properties,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
        )
        packer: ListPacker[ManifestFile] = ListPacker(target_weight=target, lookback=1, largest_bin_first=False)
        merged: list[ManifestFile] = []
        for packed in packer.pack_end(group, lambda manifest: manifest.manifest_length):
            merged.extend(packed if len(packed) == 1 else self._rewritten(spec_id, packed))
        return merged

    def _rewritten(self, spec_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """One manifest in place of several, as `_manifests` says. Entries keep their snapshot and their sequence numbers,
        or delete files that came after them would no longer apply to the right rows; and their row ids, where they have
        some. A manifest with something that floe does not write stays as it is."""
        entries: list[ManifestEntry] = []
        kept: list[ManifestFile] = []
        for manifest in manifests:
            try:
                entries += self._entries(manifest)
            except UnsupportedDeletes:
                kept.append(manifest)
        if not entries:
            return kept
        return [*self._manifests(spec_id, (("existing", entry) for entry in entries), manifests[0].content), *kept]

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The live entries, to be written again: with every value that they have, in the table's version.

        Raises:
            UnsupportedDeletes: one has a value that floe does not write.
        """
        written = _WRITTEN[self._metadata.format_version, manifest.content]
        try:
            entries = lineage.read_live_entries(self._io, manifest, written)
        except lineage.UnwrittenFields as error:
            raise UnsupportedDeletes(f"manifest {manifest.manifest_path}: {error}") from error
        spec = self._metadata.specs()[manifest.partition_spec_id]
        places = places_of_doubles(self._metadata, spec)
        for entry in entries if places else ():
            repair_doubles(entry.data_file, places)
        return entries

    def _to_change(self, manifest: ManifestFile, is_meant: Callable[[IcebergDataFile], bool]) -> list[ManifestEntry]:
        """The live entries of a manifest with a file that is meant, to be written again; nothing, where it has none.

        Raises:
            UnsupportedDeletes: as `_entries`, and only where the manifest has such a file.
        """
        try:
            entries = self._entries(manifest)
        except UnsupportedDeletes:
            if any(is_meant(entry.data_file) for entry in lineage.read_live_entries(self._io, manifest)):
                raise
            return []
        return entries if any(is_meant(entry.data_file) for entry in entries) else []


def _integer(properties: dict[str, str], name: str, default: int) -> int:
    value = property_as_int(properties, name, default)
    return default if value is None else value


def _order_of_size(manifest: ManifestFile, base: int) -> int:
    files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    # Rounded a little: math.log(1000, 10) is 2.9999999999999996.
    return int(math.log(max(files, 1), base) + 1e-9)
