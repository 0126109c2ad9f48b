"""Manifests in blocks of many entries, encoded quickly: PyIceberg's own writers, with another file beneath them.

In: manifest entries, one after another. Out: the Avro bytes that PyIceberg's encoder makes of each, in blocks as large as
Iceberg's Java writer makes them. PyIceberg 0.12 writes each entry as a block of its own, compressed alone and followed by a
marker, and each byte of a number with a call: for a commit of thousands of files that was most of what it cost.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import DEFAULT_READ_VERSION, ManifestEntry
from pyiceberg.manifest import ManifestWriterV2 as OneEntryABlock
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion

# As large as the blocks of Iceberg's Java writer: `DataFileConstants.DEFAULT_SYNC_INTERVAL` of Avro.
BLOCK_BYTES = 64_000


class BlockEncoder(BinaryEncoder):
    """PyIceberg's encoder, its bytes gathered in `block`."""

    def __init__(self) -> None:
        self.block = bytearray()

    def write(self, b: bytes) -> None:
        self.block += b

    def write_int(self, integer: int) -> None:
        datum = (integer << 1) ^ (integer >> 63)
        block = self.block
        while datum > 0x7F:
            block.append(datum & 0x7F | 0x80)
            datum >>= 7
        block.append(datum)

    def write_bytes(self, b: bytes) -> None:
        self.write_int(len(b))
        self.block += b


class BlockFile(AvroOutputFile[ManifestEntry]):
    """An Avro file whose blocks end where they are large enough, and not after each write."""

    def __init__(self, file_schema: Schema, record_schema: Schema, metadata: dict[str, str], output_file: Any) -> None:
        super().__init__(output_file, file_schema, "manifest_entry", record_schema, metadata)
        self._gathered = BlockEncoder()
        self._entries = 0

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if exctype is None:
            self._end_block()
        super().__exit__(exctype, excinst, exctb)

    def write_block(self, objects: list[ManifestEntry]) -> None:
        for each in objects:
            self.writer.write(self._gathered, each)
        self._entries += len(objects)
        if len(self._gathered.block) >= BLOCK_BYTES:
            self._end_block()

    def _end_block(self) -> None:
        if not self._entries:
            return
        content = bytes(self._gathered.block)
        if codec := self.compression_codec():
            content, _ = codec.compress(content)
        self.encoder.write_int(self._entries)
        self.encoder.write_bytes(content)
        self.encoder.write(self.sync_bytes)
        self._gathered.block.clear()
        self._entries = 0


class ManifestWriterV2(OneEntryABlock):
    """A data manifest of version 2, in large blocks."""

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return self.file_for(DEFAULT_READ_VERSION)

    def file_for(self, record_version: TableVersion) -> BlockFile:
        """The file, for entries in memory with the fields of `record_version`."""
        file_schema, record_schema = self._with_partition(self.version), self._with_partition(record_version)
        return BlockFile(file_schema, record_schema, self._meta, self._output_file)
