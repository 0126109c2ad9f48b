"""The wire format of schema registries: which schema a record names, and the bytes behind it.

In: values (or keys) with their headers. Out: for each record the id or GUID of its writer's schema and its payload, or
why it names none. An id stands before the payload: a zero byte, four bytes. A GUID stands in a header of its own (one
byte 1, sixteen bytes) and the value is the payload whole. AWS Glue's records begin with a byte 3, one that says whether
the payload is compressed, and sixteen of a UUID. What the ids mean comes in as values: pure code asks no
registry.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from framework.config.spec import MAX_RECORD_BYTES
from framework.plan.model import Decode
from framework.record.failure import RecordFailure
from framework.record.model import RecordBlock


class OfKeys(NamedTuple):
    """An id or a GUID in the registry of keys, where that is another than the one of values."""

    ref: int | str


SchemaRef = int | str | OfKeys  # an id, or a GUID as text
VALUE_HEADER = "__value_schema_id"
KEY_HEADER = "__key_schema_id"
ID_BYTES, _GUID_BYTES = 5, 17
_GLUE, _GLUE_BYTES = b"\3", 18
_PLAIN, _ZLIB = 0, 5
_GLUE_PAYLOADS = (_PLAIN, _ZLIB)
_MOST_TIMES, _LEAST_INFLATED = 100, 1 << 16


@dataclass(frozen=True)
class WriterSchema:
    """A schema as the registry holds it; `references` are the schemas it names, each after those it needs itself."""

    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class UnknownSchema:
    """The registry answers, and has no such schema, or one that nothing can be read with."""

    reason: str
    is_faulty: bool = False


Schemas = Mapping[SchemaRef, WriterSchema | UnknownSchema]
NO_SCHEMAS: Schemas = {}


class FramedPayload(NamedTuple):
    """One record's payload and its writer's schema; `which` is what a protobuf header holds behind the GUID."""

    schema: int | str
    payload: bytes
    which: bytes | None = None


def unframe(data: bytes, headers: Sequence[tuple[str, bytes | None]], header: str) -> FramedPayload:
    """Take the schema's name off a value or key.

    Raises:
        RecordFailure: FLOE-D111, the bytes are not in the wire format.
    """
    for name, content in headers:
        if name == header and content:
            if content[0] == 1 and len(content) >= _GUID_BYTES:
                return FramedPayload(str(UUID(bytes=content[1:_GUID_BYTES])), data, content[_GUID_BYTES:])
            if content[0] == 0 and len(content) >= ID_BYTES:
                return FramedPayload(int.from_bytes(content[1:ID_BYTES], "big"), data, content[ID_BYTES:])
            raise not_framed(f"the header {header} holds no schema id")
    if data[:1] == _GLUE and len(data) >= _GLUE_BYTES and data[1] in _GLUE_PAYLOADS:
        payload = data[_GLUE_BYTES:] if data[1] == _PLAIN else _inflated(data)
        return FramedPayload(_uuid_of(data), payload)
    if len(data) < ID_BYTES or data[0] != 0:
        shown = data[:ID_BYTES].hex(" ") or "nothing"
        raise not_framed(f"it begins with {shown}, not with a zero byte and a schema id")
    return FramedPayload(int.from_bytes(data[1:ID_BYTES], "big"), data[ID_BYTES:])


def _uuid_of(data: bytes) -> str:
    return str(UUID(bytes=data[2:_GLUE_BYTES]))


def _inflated(data: bytes) -> bytes:
    """The payload of a compressed record, which is one large record at most: a few bytes may stand for a thousand
    times as many.

    Raises:
        RecordFailure: FLOE-D111, it is too large, or is no zlib.
    """
    most = min(MAX_RECORD_BYTES, max(_LEAST_INFLATED, _MOST_TIMES * len(data)))
    inflating = zlib.decompressobj()
    try:
        payload = inflating.decompress(data[_GLUE_BYTES:], most)
    except zlib.error:
        raise not_framed("its payload is no zlib") from None
    if not inflating.eof:
        raise not_framed(f"its payload does not end within {most:,} bytes")
    return payload


def not_framed(reason: str) -> RecordFailure:
    return RecordFailure(
        "decode",
        "FLOE-D111",
        f"the record is not in the schema registry's wire format: {reason}",
        expected="a zero byte, the schema's id, the data",
    )


def schemas_named(block: RecordBlock, decode: Decode) -> set[SchemaRef]:
    """The schemas that a block's records name; records that name none are judged when they are decoded."""
    found: set[SchemaRef] = set()
    if decode.format.registry is not None:
        found |= _named(block.values, block, VALUE_HEADER)
    if decode.key is not None and decode.key.format.registry is not None:
        named = _named(block.keys, block, KEY_HEADER)
        found |= {OfKeys(ref) for ref in named} if decode.has_keys_apart else named
    return found


def schemas_of_keys(schemas: Schemas, decode: Decode) -> Schemas:
    """The schemas by what keys name."""
    return _SchemasOfKeys(schemas) if decode.has_keys_apart else schemas


@dataclass(frozen=True)
class _SchemasOfKeys(Mapping[SchemaRef, WriterSchema | UnknownSchema]):
    of_both: Schemas

    def __getitem__(self, ref: SchemaRef) -> WriterSchema | UnknownSchema:
        return self.of_both[ref if isinstance(ref, OfKeys) else OfKeys(ref)]

    def __iter__(self) -> Iterator[SchemaRef]:
        return (ref.ref for ref in self.of_both if isinstance(ref, OfKeys))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _named(items: Iterable[bytes | None], block: RecordBlock, header: str) -> set[int | str]:
    found: set[int | str] = set()
    heads: set[bytes] = set()
    for i, data in enumerate(items):
        if data is None:
            continue
        headers = block.headers[i]
        if headers:
            try:
                found.add(unframe(data, headers, header).schema)
            except RecordFailure:
                continue
        else:
            heads.add(data[:_GLUE_BYTES] if data[:1] == _GLUE else data[:ID_BYTES])
    for head in heads:
        if len(head) == ID_BYTES and head[0] == 0:
            found.add(int.from_bytes(head[1:], "big"))
        elif head[:1] == _GLUE and len(head) == _GLUE_BYTES and head[1] in _GLUE_PAYLOADS:
            found.add(_uuid_of(head))
    return found


def schema_of(ref: SchemaRef, kind: str, schemas: Schemas) -> WriterSchema:
    """The schema that a record names.

    Raises:
        RecordFailure: FLOE-D112, the registry has none; FLOE-D113, it is of another format; FLOE-D116, it is faulty.
    """
    found = schemas[ref]
    if isinstance(found, UnknownSchema) and found.is_faulty:
        raise RecordFailure("decode", "FLOE-D116", f"the writer's schema cannot be used: {found.reason}")
    if isinstance(found, UnknownSchema):
        raise RecordFailure(
            "decode", "FLOE-D112", f"the registry has no schema {ref}: {found.reason}", expected=f"schema {ref}"
        )
    if found.kind != kind:
        raise RecordFailure(
            "decode",
            "FLOE-D113",
            f"schema {ref} is {found.kind}, and the pipeline reads {kind}",
            expected=kind,
            actual=found.kind,
        )
    return found
