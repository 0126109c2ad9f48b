"""Row lineage, which format version 3 asks of every commit: manifests and manifest lists that say which row ids files
have.

In: a table's manifests and its next row id. Out: the same with `first_row_id` where the specification wants one, as
Iceberg's own writer sets it, and how many ids that took. PyIceberg reads and writes the fields of version 2 alone; its
readers and writers are used here with the schemas of version 3. A data file that has row ids never gets others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.schema import Schema
from pyiceberg.typedef import StructProtocol, TableVersion
from pyiceberg.types import NestedField, StructType
from typing_extensions import override

from framework.adapters.iceberg.private.avro.blocks import ManifestListWriterV2, ManifestWriterV2
from framework.adapters.iceberg.private.entry_fields import FILE_FIELDS, FIRST_ROW_ID

VERSION: TableVersion = 3
_MANIFEST_FIELDS = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[VERSION].fields]
_MANIFEST_FIRST_ROW_ID = _MANIFEST_FIELDS.index("first_row_id")


def first_row_id(manifest: ManifestFile) -> int | None:
    """The id from which the manifest's files inherit theirs; None for one of deletes, or written before version 3."""
    return manifest[_MANIFEST_FIRST_ROW_ID] if len(manifest) > _MANIFEST_FIRST_ROW_ID else None


def with_row_ids(manifests: Sequence[ManifestFile], next_row_id: int) -> tuple[list[ManifestFile], int]:
    """The manifests of a new snapshot as its list names them, and how many row ids they took from `next_row_id` on.

    A data manifest without a first row id (a new one, a merged one, one from before the table was upgraded) gets the
    next, and takes one for each of its rows; those that have one, and manifests of deletes, stay as they are.

    Raises:
        ValueError: a manifest that does not say how many rows it holds, as old writers of version 1 left it.
    """
    listed, free = [], next_row_id
    for manifest in manifests:
        own = first_row_id(manifest)
        if own is None and manifest.content == ManifestContent.DATA:
            if manifest.added_rows_count is None or manifest.existing_rows_count is None:
                raise ValueError(
                    f"manifest {manifest.manifest_path} does not say how many rows it holds, so its rows cannot get ids; "
                    "rewrite it with Spark's procedure rewrite_manifests"
                )
            own = free
            free += manifest.added_rows_count + manifest.existing_rows_count
        listed.append(_listed(manifest, own))
    return listed, free - next_row_id


def _listed(manifest: ManifestFile, own: int | None) -> ManifestFile:
    # A new object: PyIceberg keeps those that it has read for other readers.
    return ManifestFile(*(manifest[place] for place in range(_MANIFEST_FIRST_ROW_ID)), own)


def read_manifests(io: FileIO, manifest_list: str) -> tuple[ManifestFile, ...]:
    """What a manifest list names, first row ids included; a list from before the upgrade has none."""
    with AvroFile[ManifestFile](
        io.new_input(manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[VERSION],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return tuple(reader)


class UnwrittenFields(ValueError):
    """An entry holds a value that would be lost if floe wrote the entry again."""


_ENTRY = MANIFEST_ENTRY_SCHEMAS[VERSION]
_TYPES: dict[int, Callable[..., StructProtocol]] = {-1: ManifestEntry, 2: DataFile}
_ENUMS: dict[int, Callable[..., Enum]] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}


def read_live_entries(
    io: FileIO, manifest: ManifestFile, written: Collection[int] | None = None
) -> list[ManifestEntry]:
    """The live entries of a manifest, each with what it inherits written out: so it can stand in another manifest.

    A file without a first row id has the next after those before it; where the manifest itself has none yet, neither
    have its files, and they inherit from the manifest that they are written into.

    Args:
        written: the ids of the fields of a file that will be written again; None where none will.

    Raises:
        UnwrittenFields: a live entry holds a value in another field, of a later version of Iceberg perhaps.
    """
    with AvroFile[ManifestEntry](io.new_input(manifest.manifest_path), _ENTRY, _TYPES, _ENUMS) as reader:
        beside = [] if written is None else _read_beside(reader)
        entries = [each for each in reader if each.status != ManifestEntryStatus.DELETED]
    if written is not None:
        ids = (*_FILE_IDS, *beside)
        for entry in entries:
            entry.data_file = _checked(entry.data_file, ids, written)
    entries = [_inherit_from_manifest(each, manifest) for each in entries]
    free = first_row_id(manifest)
    for entry in entries:
        file = entry.data_file
        if free is None:
            file[FIRST_ROW_ID] = None
        elif file[FIRST_ROW_ID] is None:
            file[FIRST_ROW_ID] = free
            free += file.record_count
    return entries


def _file_type(schema: Schema) -> StructType:
    found = schema.find_field("data_file").field_type
    assert isinstance(found, StructType)
    return found


_FILE_IDS = tuple(field.field_id for field in _file_type(_ENTRY).fields)


def _read_beside(reader: AvroFile[ManifestEntry]) -> list[int]:
    """Lets the reader give the fields of a file that PyIceberg does not know, too, behind the others; their ids."""
    known = {field.field_id for field in _ENTRY.fields}
    if any(field.field_id not in known for field in reader.schema.fields):
        raise UnwrittenFields("entries have fields beside those of Iceberg's third version")
    more = [field for field in _file_type(reader.schema).fields if field.field_id not in _FILE_IDS]
    if more:
        file = StructType(*_file_type(_ENTRY).fields, *(_optional(field) for field in more))
        wanted = (
            field if field.name != "data_file" else NestedField(field.field_id, field.name, file, required=True)
            for field in _ENTRY.fields
        )
        reader.reader = resolve_reader(reader.schema, Schema(*wanted), _TYPES, _ENUMS)
    return [field.field_id for field in more]


def _optional(field: NestedField) -> NestedField:
    return NestedField(field.field_id, field.name, field.field_type, required=False)


def _checked(file: DataFile, ids: Sequence[int], written: Collection[int]) -> DataFile:
    values = [file[place] for place in range(len(ids))]
    for field_id, value in zip(ids, values, strict=True):
        if value is not None and field_id not in written:
            raise UnwrittenFields(f"{file.file_path} has a value in field {field_id}, which floe does not write")
    return DataFile(*values[: len(_FILE_IDS)]) if len(ids) > len(_FILE_IDS) else file


class ManifestWriterV3(ManifestWriterV2):
    """A data manifest of version 3. A file's first row id is written as it is; a new file has none and inherits it.

    Goes when PyIceberg writes manifests of version 3.
    """

    in_memory = VERSION

    @property
    @override
    def version(self) -> TableVersion:
        return VERSION

    @override
    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        entry = super().prepare_entry(entry)
        missing = len(FILE_FIELDS) - len(entry.data_file)
        if missing:
            values = [entry.data_file[place] for place in range(len(entry.data_file))]
            entry.data_file = DataFile(*values, *[None] * missing)
        return entry


class ManifestListWriterV3(ManifestListWriterV2):
    """A manifest list of version 3, of manifests as `with_row_ids` gives them.

    Goes when PyIceberg writes manifest lists of version 3.
    """

    version = in_memory = VERSION

    def __init__(
        self,
        output_file: OutputFile,
        snapshot_id: int,
        parent_snapshot_id: int | None,
        sequence_number: int,
        compression: str,
        next_row_id: int,
    ) -> None:
        super().__init__(output_file, snapshot_id, parent_snapshot_id, sequence_number, compression)  # type: ignore[arg-type]
        self._meta = {**self._meta, "first-row-id": str(next_row_id), "format-version": str(VERSION)}
