"""Manifests of delete files: entries of position delete files or of deletion vectors, of format versions 2 and 3.

In: manifest entries. Out: Avro files as Iceberg's Java writer lays them out. PyIceberg 0.12 writes manifests of data
files alone.
"""

from __future__ import annotations

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import ManifestContent, ManifestEntry
from typing_extensions import override

from framework.adapters.iceberg.private.avro.blocks import BlockFile, ManifestWriterV2, manifest_form
from framework.adapters.iceberg.private.entry_fields import REFERENCED_DATA_FILE_ID
from framework.adapters.iceberg.private.row_lineage import VERSION, ManifestWriterV3


class DeleteManifestWriterV2(ManifestWriterV2):
    """A manifest of position delete files. Goes when PyIceberg writes manifests of deletes."""

    in_memory = VERSION

    @override
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    @override
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    @override
    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        partition = self._spec.partition_type(self._schema)
        form = manifest_form(self.version, self.in_memory, partition, (REFERENCED_DATA_FILE_ID,))
        return BlockFile(self._output_file, form, self._meta)


class DeleteManifestWriterV3(ManifestWriterV3):
    """A manifest of deletion vectors, and of older position delete files. Goes when PyIceberg writes manifests of
    deletes."""

    @override
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    @override
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}
