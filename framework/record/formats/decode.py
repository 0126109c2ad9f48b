"""Blocks of bytes to typed rows, whatever the format: the one door of the decoders that bring their types with them.

In: values (and keys) of records with their headers, the format of each, and the registry's schemas. Out: parts of rows
with typed columns, failures by place in the block, and how many records the format itself drops. Records of different
writers' schemas are different parts, since their columns differ.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from typing_extensions import assert_never

from framework.config.spec import Encoding, Envelope, FormatSpec, FormatType, KeySpec
from framework.plan.model import Decode
from framework.record.arrays import Ints
from framework.record.failure import RecordFailure
from framework.record.formats.columns import MappedColumn, PlainColumn, StructColumn, build_rows
from framework.record.formats.debezium import flatten_rows
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import (
    ID_BYTES,
    KEY_HEADER,
    VALUE_HEADER,
    FramedPayload,
    SchemaRef,
    Schemas,
    WriterSchema,
    schema_of,
    schemas_of_keys,
    unframe,
)
from framework.record.model import ColumnDetail, RecordBlock

Failures = dict[int, RecordFailure]
# The column of rows that have none; no field has this name.
_NO_VALUE = "\0no value"


@dataclass
class Decoded:
    """What a block's bytes are."""

    parts: list[TypedRows] = field(default_factory=list)
    failures: Failures = field(default_factory=dict)
    dropped: int = 0


@dataclass(frozen=True)
class Items:
    """Values or keys, none of them missing, with their places in the block; `header` may name their schema."""

    data: list[bytes]
    places: Ints
    block: RecordBlock
    header: str


def decode_rows(
    block: RecordBlock, positions: Ints, decode: Decode, schemas: Schemas, tombstones: Ints | None = None
) -> Decoded:
    """The typed rows of the records at these positions, and of `tombstones`, which have the columns of their keys
    alone."""
    values = [value for i in positions.tolist() if (value := block.values[i]) is not None]
    with without_cycle_collection():
        return _decode_rows(block, positions, values, decode, schemas, tombstones)


@contextmanager
def without_cycle_collection() -> Iterator[None]:
    """What decoders make holds no cycles, but it is so much that looking for them takes longer than decoding."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _decode_rows(
    block: RecordBlock,
    positions: Ints,
    values: list[bytes],
    decode: Decode,
    schemas: Schemas,
    tombstones: Ints | None,
) -> Decoded:
    decoded = _decode(Items(values, positions, block, VALUE_HEADER), decode.format, decode.format.column, schemas)
    if decode.format.envelope is Envelope.DEBEZIUM:
        parts, decoded.parts = decoded.parts, []
        for part in parts:
            flat = flatten_rows(part, decode.format)
            decoded.parts += flat.parts
            decoded.failures |= flat.failures
            decoded.dropped += len(flat.dropped)
    if tombstones is not None and len(tombstones):
        columns = pa.table({_NO_VALUE: pa.nulls(len(tombstones))})
        decoded.parts.append(TypedRows(tombstones, columns, {_NO_VALUE: "null"}))
    if decode.key is not None:
        _add_key(decoded, block, decode.key, schemas_of_keys(schemas, decode))
    return decoded


def _decode(items: Items, spec: FormatSpec, column: str, schemas: Schemas) -> Decoded:
    if spec.type is FormatType.RAW:
        return _raw(items, spec.encoding, column)
    decoder, kind = _decoder(spec, column)
    if spec.registry is None:
        parts, failures = decoder([FramedPayload(0, data) for data in items.data], items.places, None)
        return Decoded(parts, failures)
    decoded = Decoded()
    for ref, framed, places in _by_schema(items, decoded.failures):
        try:
            schema = schema_of(ref, kind, schemas)
        except RecordFailure as failure:
            decoded.failures |= dict.fromkeys(places.tolist(), failure)
            continue
        parts, failures = decoder(framed, places, schema)
        decoded.parts += parts
        decoded.failures |= failures
    return decoded


Decoder = Callable[[list[FramedPayload], Ints, "WriterSchema | None"], tuple[list[TypedRows], Failures]]


def _decoder(spec: FormatSpec, column: str) -> tuple[Decoder, str]:
    """How the payloads of one writer are read, and what the registry calls the format."""
    # The libraries are loaded by pipelines that need them alone.
    if spec.type is FormatType.AVRO:
        from framework.record.formats.avro.decode import decode_avro

        def avro(
            framed: list[FramedPayload], places: Ints, writer: WriterSchema | None
        ) -> tuple[list[TypedRows], Failures]:
            own = writer or WriterSchema("AVRO", spec.schema or "")
            reader = spec.schema if writer is not None else None
            return decode_avro([one.payload for one in framed], places, own, reader, column)

        return avro, "AVRO"
    if spec.type is FormatType.PROTOBUF:
        from framework.record.formats.protobuf import decode_protobuf

        def protobuf(
            framed: list[FramedPayload], places: Ints, writer: WriterSchema | None
        ) -> tuple[list[TypedRows], Failures]:
            return decode_protobuf(framed, places, writer, spec)

        return protobuf, "PROTOBUF"
    if spec.type is FormatType.JSON or spec.type is FormatType.RAW:
        raise ValueError(f"{spec.type.value} is read without a decoder of columns")
    assert_never(spec.type)


def _by_schema(items: Items, failures: Failures) -> Iterable[tuple[SchemaRef, list[FramedPayload], Ints]]:
    """The items grouped by the schema they name, in the order of first sight."""
    groups: dict[int | str, tuple[list[FramedPayload], list[int]]] = {}
    headers = items.block.headers
    heads: dict[bytes, tuple[int | str, list[FramedPayload], list[int]]] = {}
    for data, place in zip(items.data, items.places.tolist(), strict=True):
        own = headers[place]
        known = None if own else heads.get(data[:ID_BYTES])
        if known is not None:
            ref, payloads, places = known
            payloads.append(FramedPayload(ref, data[ID_BYTES:]))
            places.append(place)
            continue
        try:
            framed = unframe(data, own or (), items.header)
        except RecordFailure as failure:
            failures[place] = failure
            continue
        payloads, places = groups.setdefault(framed.schema, ([], []))
        payloads.append(framed)
        places.append(place)
        if not own and data[:1] == b"\0":
            heads[data[:ID_BYTES]] = (framed.schema, payloads, places)
    return [(ref, framed, np.array(places, dtype=np.int64)) for ref, (framed, places) in groups.items()]


def _raw(items: Items, encoding: Encoding, column: str) -> Decoded:
    if encoding is Encoding.BYTES:
        kind, child = "binary", PlainColumn("binary", pa.binary())
        root = StructColumn(["struct", [[column, kind]]], ((column, child, list),))
    else:
        text = MappedColumn("string", PlainColumn("string", pa.string()), lambda data: str(data, "utf-8"))
        root = StructColumn(["struct", [[column, "string"]]], ((column, text, list),))
    columns, places, failures = build_rows(root, items.data, items.places)
    failures = {
        place: RecordFailure("decode", "FLOE-D104", "the record is not UTF-8", field_path=column, expected="text")
        for place in failures
    }
    kinds = {name: child.kind for name, child, _ in root.children}
    details = {column: ColumnDetail(required=True)}
    return Decoded([TypedRows(places, columns, kinds, details)] if len(places) else [], failures)


# ---- keys ----------------------------------------------------------------------------------------------------------


def _add_key(decoded: Decoded, block: RecordBlock, key: KeySpec, schemas: Schemas) -> None:
    """Put the key's columns beside the value's."""
    places = np.array(sorted(place for part in decoded.parts for place in part.places.tolist()), dtype=np.int64)
    found = [(block.key(i), i) for i in places.tolist()]
    with_key = np.array([i for data, i in found if data is not None], dtype=np.int64)
    column = key.column
    items = Items([data for data, _ in found if data is not None], with_key, block, KEY_HEADER)
    keys = _decode(items, key.format, column, schemas)
    decoded.failures |= keys.failures
    parts: list[TypedRows] = []
    for part in decoded.parts:
        left = np.setdiff1d(part.places, with_key)
        if len(left):
            parts.append(part.at(left))
        for key_part in keys.parts:
            both = np.intersect1d(part.places, key_part.places)
            if len(both):
                names = {n: n if n == column else key.prefix + n for n in key_part.columns.column_names}
                if same := sorted(set(names.values()) & set(part.columns.column_names)):
                    decoded.failures |= dict.fromkeys(both.tolist(), _both_have(same[0]))
                    continue
                parts.append(_beside(part.at(both), key_part.at(both), names))
    decoded.parts = parts


def _both_have(name: str) -> RecordFailure:
    return RecordFailure(
        "decode", "FLOE-D306", f"{name}: the key and the value both have it; choose another prefix", field_path=name
    )


def _beside(value: TypedRows, key: TypedRows, names: dict[str, str]) -> TypedRows:
    """The value's columns and the key's under their new names; a key's field is never required, since keys may be
    null."""
    columns = value.columns
    for name, new in names.items():
        columns = columns.append_column(new, key.columns.column(name))
    kinds = {**value.kinds, **{new: key.kinds[name] for name, new in names.items()}}
    details = dict(value.details)
    for path, detail in key.details.items():
        root, _, rest = path.partition(".")
        details[names.get(root, root) + (f".{rest}" if rest else "")] = ColumnDetail(detail.comment)
    return TypedRows(value.places, columns, kinds, details)
