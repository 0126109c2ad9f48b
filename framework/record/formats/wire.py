"""The wire format of schema registries: which schema a record names, and the bytes behind it.

In: values (or keys) with their headers. Out: for each record the id or GUID of its writer's schema and its payload, or
why it names none. An id stands before the payload: a zero byte, four bytes. A GUID stands in a header of its own (one
byte 1, sixteen bytes) and the value is the payload whole. What the ids mean comes in as values: pure code asks no
registry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

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
    if len(data) < ID_BYTES or data[0] != 0:
        shown = data[:ID_BYTES].hex(" ") or "nothing"
        raise not_framed(f"it begins with {shown}, not with a zero byte and a schema id")
    return FramedPayload(int.from_bytes(data[1:ID_BYTES], "big"), data[ID_BYTES:])


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
            heads.add(data[:ID_BYTES])
    for head in heads:
        if len(head) == ID_BYTES and head[0] == 0:
            found.add(int.from_bytes(head[1:], "big"))
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
