"""From announced data files to Avro: manifests, one per partition spec, and the manifest list of a new snapshot.

In: `DataFile` values of announcements and the manifests of the parent snapshot. Out: manifest files with their sequence
numbers set, and the paths that were written, so that a refused attempt can be tidied up. Nothing is deleted here.
Files are written under the spec they were made for: PyIceberg's own append puts all of them under the table's current
default spec, and rows vanish from filtered scans once the spec has changed.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.transforms import UnknownTransform
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
from framework.adapters.iceberg.private.avro import ManifestListWriterV2, ManifestWriterV2
from framework.commit.events.event_types import DataFile

# Tables of format version 1 keep PyIceberg's writer.
_WRITERS: dict[int, type[ManifestWriterV2]] = {2: ManifestWriterV2, lineage.VERSION: lineage.ManifestWriterV3}
_FILE_FIELDS = tuple(field.name for field in DATA_FILE_TYPE[DEFAULT_READ_VERSION].fields)


class UnknownSpec(ValueError):
    """A file names a partition spec that the table does not have, or whose columns no schema of the table has."""


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


def schema_for_spec(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema, or, when it has lost a source column of an old spec, the newest one that still has them all.

    Raises:
        UnknownSpec: no schema of the table has the spec's source columns.
    """
    current = metadata.schema()
    older = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    sources = {field.source_id for field in spec.fields}
    for schema in (current, *older):
        if sources <= set(schema.field_ids):
            return schema
    raise UnknownSpec(f"partition spec {spec.spec_id} names columns that no schema of the table has: {sorted(sources)}")


def partition_types(spec: PartitionSpec, schema: Schema) -> list[IcebergType]:
    """The types of a file's partition values."""
    return [field.field_type for field in spec.partition_type(schema).fields]


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
    """The manifest list of a new snapshot, and the manifests it names. `first_row_id` and `added_rows` are the row ids that
    it took, which tables have from format version 3 on."""

    manifest_list: str
    manifests: tuple[ManifestFile, ...]
    first_row_id: int | None = None
    added_rows: int | None = None


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
        self, parent_snapshot_id: int | None, parent: Sequence[ManifestFile], files: Iterable[IcebergDataFile]
    ) -> WrittenSnapshot:
        """Write everything.

        The new files come first, then the parent's data manifests (merged where many small ones have gathered), then
        its delete manifests as they are.
        """
        added: dict[int, list[IcebergDataFile]] = defaultdict(list)
        for file in files:
            added[file.spec_id].append(file)
        new = [self._added(spec_id, group) for spec_id, group in sorted(added.items())]
        live = [manifest for manifest in parent if manifest.has_added_files() or manifest.has_existing_files()]
        data = [manifest for manifest in live if manifest.content == ManifestContent.DATA]
        deletes = [manifest for manifest in live if manifest.content == ManifestContent.DELETES]
        manifests = new + self._merged(data) + deletes
        added_rows = None
        if self._next_row_id is not None:
            manifests, added_rows = lineage.with_row_ids(manifests, self._next_row_id)
        path = self._locations.new_metadata_location(f"snap-{self._snapshot_id}-0-{self._attempt}.avro")
        self.written.append(path)
        with self._list_writer(path, parent_snapshot_id) as writer:
            writer.add_manifests(manifests)
        return WrittenSnapshot(path, tuple(manifests), self._next_row_id, added_rows)

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

    def _writer(self, spec_id: int) -> ManifestWriter:
        spec = self._metadata.specs()[spec_id]
        schema = schema_for_spec(self._metadata, spec)
        path = self._locations.new_metadata_location(f"{self._attempt}-m{len(self.written)}.avro")
        self.written.append(path)
        output = self._io.new_output(path)
        version = self._metadata.format_version
        if version in _WRITERS:
            return _WRITERS[version](spec, schema, output, self._snapshot_id, self._compression)
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

    def _added(self, spec_id: int, files: list[IcebergDataFile]) -> ManifestFile:
        with self._writer(spec_id) as writer:
            for file in files:
                # As `add` does, which makes a second entry of each.
                writer.add_entry(ManifestEntry(ManifestEntryStatus.ADDED, self._snapshot_id, None, None, file))
        return self._finished(writer)

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
        target = _integer(
            properties,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES,
            TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT,
        )
        specs = self._metadata.specs()
        groups: dict[tuple[int, int], list[ManifestFile]] = defaultdict(list)
        for manifest in manifests:
            groups[(manifest.partition_spec_id, _order_of_size(manifest, minimum))].append(manifest)
        merged: list[ManifestFile] = []
        for (spec_id, _), group in groups.items():
            if len(group) < minimum or not _can_be_rewritten(self._metadata, specs[spec_id]):
                merged.extend(group)
                continue
            packer: ListPacker[ManifestFile] = ListPacker(target_weight=target, lookback=1, largest_bin_first=False)
            for packed in packer.pack_end(group, lambda manifest: manifest.manifest_length):
                merged.extend(packed if len(packed) == 1 else self._rewritten(spec_id, packed))
        return merged

    def _rewritten(self, spec_id: int, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """One manifest in place of several. Entries keep their snapshot and their sequence numbers, or delete files
        that came after them would no longer apply to the right rows; and their row ids, where they have some."""
        entries = [entry for manifest in manifests for entry in self._entries(manifest)]
        if not entries:
            return []
        with self._writer(spec_id) as writer:
            for entry in entries:
                writer.existing(entry)
        return [self._finished(writer)]

    def _entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        if self._next_row_id is not None:
            return lineage.read_live_entries(self._io, manifest)
        return manifest.fetch_manifest_entry(self._io)


def _integer(properties: dict[str, str], name: str, default: int) -> int:
    value = property_as_int(properties, name, default)
    return default if value is None else value


def _order_of_size(manifest: ManifestFile, base: int) -> int:
    files = (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
    # Rounded a little: math.log(1000, 10) is 2.9999999999999996.
    return int(math.log(max(files, 1), base) + 1e-9)


def _can_be_rewritten(metadata: TableMetadata, spec: PartitionSpec) -> bool:
    """Manifests of a transform that PyIceberg does not know, or of columns that are gone, stay as they are."""
    sources = {field.source_id for field in spec.fields}
    known = any(sources <= set(schema.field_ids) for schema in metadata.schemas)
    return known and not any(isinstance(field.transform, UnknownTransform) for field in spec.fields)
