"""Manifests and manifest lists, encoded quickly and in blocks of many entries: PyIceberg's own writers, with another
file beneath them.

In: manifest entries, or manifests, one after another. Out: one Avro file with the bytes that PyIceberg's encoder makes
of each, in blocks as large as Iceberg's Java writer makes them. PyIceberg 0.12 writes each entry as a block of its own,
compressed alone and followed by a marker, each byte of a number with a call, makes its writers and its header anew for
each file, and asks the store how long the file has become: most of what a commit cost.
Doubles that are read come with all their bits, for PyIceberg's own readers, too.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType

from pyiceberg.avro import resolver
from pyiceberg.avro.codecs import AVRO_CODEC_KEY, CODEC_MAPPING_ICEBERG_TO_AVRO
from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader, AvroOutputFile, D
from pyiceberg.avro.reader import DoubleReader
from pyiceberg.avro.resolver import construct_writer, resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.io import InputFile, OutputFile, OutputStream
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestEntry,
    ManifestFile,
    ManifestListWriter,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.manifest import ManifestListWriterV2 as IcebergListWriterV2
from pyiceberg.manifest import ManifestWriterV2 as IcebergManifestWriterV2
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion
from typing_extensions import override

from framework.adapters.iceberg.private.avro.names import defined_once

# As large as the blocks of Iceberg's Java writer: `DataFileConstants.DEFAULT_SYNC_INTERVAL` of Avro.
BLOCK_BYTES = 64_000
AVRO_SCHEMA_KEY = "avro.schema"

_HEADER = construct_writer(META_SCHEMA)
_DOUBLE = struct.Struct("<d")


@dataclass(frozen=True)
class Form:
    """What all files of one kind share: the schema, how a value in memory becomes bytes, and the schema as Avro says
    it."""

    name: str
    schema: Schema
    writer: Writer
    avro_schema: str


def _form(name: str, schema: Schema, in_memory: Schema) -> Form:
    avro_schema = json.dumps(defined_once(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name)))
    return Form(name, schema, resolve_writer(record_schema=in_memory, file_schema=schema), avro_schema)


@lru_cache(maxsize=512)
def manifest_form(
    version: TableVersion, in_memory: TableVersion, partition: StructType, more_field_ids: tuple[int, ...] = ()
) -> Form:
    """Of manifests of a format version, whose entries have in memory the fields of another one.

    Args:
        more_field_ids: fields of files that the entries have in memory, and that are written though PyIceberg's schema
            of the version lacks them.
    """
    data_file, in_memory_file = (data_file_with_partition(partition, each) for each in (version, in_memory))
    more = [field for field in in_memory_file.fields if field.field_id in more_field_ids]
    file = manifest_entry_schema_with_data_file(version, StructType(*data_file.fields, *more))
    return _form("manifest_entry", file, manifest_entry_schema_with_data_file(in_memory, in_memory_file))


@lru_cache(maxsize=8)
def list_form(version: TableVersion, in_memory: TableVersion) -> Form:
    """Of manifest lists of a format version, whose manifests have in memory the fields of another one."""
    return _form("manifest_file", MANIFEST_LIST_FILE_SCHEMAS[version], MANIFEST_LIST_FILE_SCHEMAS[in_memory])


class ExactDoubleReader(DoubleReader):
    """A double with all its bits. PyIceberg's compiled decoder gives it as a float of single precision: 19.99 becomes
    19.989999771118164, and 1e300 an infinity, in partition values as everywhere.

    Goes when PyIceberg's decoder is right, which `test_pyiceberg_reads_doubles_in_single_precision` notices.
    """

    @override
    def read(self, decoder: BinaryDecoder) -> float:
        (value,) = _DOUBLE.unpack(decoder.read(8))
        return float(value)


# For whoever reads a manifest in this process, PyIceberg's own scans included.
resolver.DoubleReader = ExactDoubleReader  # type: ignore[attr-defined]


class BlockEncoder(BinaryEncoder):
    """PyIceberg's encoder, its bytes gathered in `block`. Goes when PyIceberg writes a number with one call."""

    def __init__(self) -> None:
        self.block = bytearray()

    @override
    def write(self, b: bytes) -> None:
        self.block += b

    @override
    def write_int(self, integer: int) -> None:
        datum = (integer << 1) ^ (integer >> 63)
        block = self.block
        while datum > 0x7F:
            block.append(datum & 0x7F | 0x80)
            datum >>= 7
        block.append(datum)

    @override
    def write_bytes(self, b: bytes) -> None:
        self.write_int(len(b))
        self.block += b


class BlockFile(AvroOutputFile[D]):
    """An Avro file whose blocks end where they are large enough, written at once when it ends without an error.

    Goes when PyIceberg writes several entries into one block, and keeps a writer for each schema.
    """

    def __init__(self, output_file: OutputFile, form: Form, metadata: dict[str, str]) -> None:
        # All that the constructor of AvroOutputFile sets, which would also make a writer anew.
        self.output_file = self._sized = _SizedOutput(output_file)
        self.file_schema, self.schema_name, self.writer = form.schema, form.name, form.writer
        self.metadata = metadata
        self.sync_bytes = os.urandom(SYNC_SIZE)
        self._avro_schema = form.avro_schema
        self._gathered = BlockEncoder()
        self._values = 0
        self._whole = BlockEncoder()

    @override
    def __enter__(self) -> AvroOutputFile[D]:
        self.encoder = self._whole
        self._write_header()
        return self

    @override
    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if exctype is None:
            self._end_block()
            with self.output_file.create(overwrite=True) as stream:
                stream.write(bytes(self._whole.block))
            self._sized.length = len(self._whole.block)

    @override
    def _write_header(self) -> None:
        codec = self.metadata[AVRO_CODEC_KEY]
        codec = CODEC_MAPPING_ICEBERG_TO_AVRO.get(codec) or codec
        meta = {**self.metadata, AVRO_SCHEMA_KEY: self._avro_schema, AVRO_CODEC_KEY: codec}
        _HEADER.write(self.encoder, AvroFileHeader(MAGIC, meta, self.sync_bytes))

    @override
    def write_block(self, objects: list[D]) -> None:
        for each in objects:
            self.writer.write(self._gathered, each)
            self._values += 1
            if len(self._gathered.block) >= BLOCK_BYTES:
                self._end_block()

    @override
    def tell(self) -> int:
        return len(self._whole.block)

    def _end_block(self) -> None:
        if not self._values:
            return
        content = bytes(self._gathered.block)
        if codec := self.compression_codec():
            content, _ = codec.compress(content)
        self.encoder.write_int(self._values)
        self.encoder.write_bytes(content)
        self.encoder.write(self.sync_bytes)
        self._gathered.block.clear()
        self._values = 0


class _SizedOutput(OutputFile):
    """An output file that knows its length once it is written, so that the store is not asked for it.

    Goes when PyIceberg takes a manifest's length from its stream.
    """

    def __init__(self, inner: OutputFile) -> None:
        super().__init__(inner.location)
        self._inner = inner
        self.length: int | None = None

    @override
    def __len__(self) -> int:
        return len(self._inner) if self.length is None else self.length

    @override
    def exists(self) -> bool:
        return self._inner.exists()

    @override
    def to_input_file(self) -> InputFile:
        return self._inner.to_input_file()

    @override
    def create(self, overwrite: bool = False) -> OutputStream:
        return self._inner.create(overwrite)


class ManifestWriterV2(IcebergManifestWriterV2):
    """A data manifest of version 2. Goes when PyIceberg's `AvroOutputFile` no longer needs `BlockFile`."""

    # The version whose fields an entry has in memory.
    in_memory: TableVersion = DEFAULT_READ_VERSION

    @override
    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        form = manifest_form(self.version, self.in_memory, self._spec.partition_type(self._schema))
        return BlockFile(self._output_file, form, self._meta)


class ManifestListWriterV2(IcebergListWriterV2):
    """A manifest list of version 2. Goes when PyIceberg's `AvroOutputFile` no longer needs `BlockFile`."""

    version: TableVersion = 2
    in_memory: TableVersion = DEFAULT_READ_VERSION

    @override
    def __enter__(self) -> ManifestListWriter:
        form = list_form(self.version, self.in_memory)
        self._writer: AvroOutputFile[ManifestFile] = BlockFile(self._output_file, form, self._meta)
        self._writer.__enter__()
        return self
