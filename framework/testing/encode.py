"""Encodes test values, written in YAML for people, as the bytes that a producer would send.

In: a node of a pipeline file and the format that the file reads. Out: bytes, in the registry's wire format where the
file names a registry; or an error at the value that the schema does not allow. Dates and times are ISO 8601, decimals
are numbers or text, bytes are `{base64: ...}` or text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping as Mapped
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from io import BytesIO
from typing import Any

from typing_extensions import assert_never

from framework.config.spec import FormatSpec, FormatType
from framework.config.tree import Mapping, Node, Scalar, Sequence, plain
from framework.diagnose.diagnostic import Span
from framework.record.convert.iso_time import parse_moment, parse_time
from framework.record.formats.avro.schema import AvroFault, parse_avro, physical, without_null
from framework.record.formats.avro.schema import Node as AvroType
from framework.record.formats.wire import OfKeys, SchemaRef, UnknownSchema, WriterSchema

VALUE_SCHEMA, KEY_SCHEMA = 1, 2  # the ids of a test's schemas in the wire format
_WIDE = Context(prec=200)
_NANOSECONDS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}


class EncodeFault(Exception):
    """Why a value cannot be encoded, and where it stands."""

    def __init__(self, message: str, span: Span) -> None:
        super().__init__(message)
        self.message = message
        self.span = span


@dataclass(frozen=True)
class TestSchemas(Mapped[SchemaRef, "WriterSchema | UnknownSchema"]):
    """What a test's registry holds: the schema of values and that of keys; it knows no other."""

    __test__ = False

    known: Mapped[SchemaRef, WriterSchema]

    def __getitem__(self, ref: SchemaRef) -> WriterSchema | UnknownSchema:
        return self.known.get(ref.ref if isinstance(ref, OfKeys) else ref) or UnknownSchema(
            "the test has no such schema"
        )

    def __iter__(self) -> Any:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def registered(kind: FormatType, text: str) -> WriterSchema:
    """A test's schema as a registry holds it. Of a descriptor set the last file is the schema, the others it
    imports."""
    if kind is not FormatType.PROTOBUF:
        return WriterSchema({FormatType.AVRO: "AVRO"}.get(kind, "JSON"), text)
    from google.protobuf import descriptor_pb2

    whole = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text))
    files = [(file.name, base64.b64encode(file.SerializeToString()).decode()) for file in whole.file]
    return WriterSchema("PROTOBUF", files[-1][1], tuple(files[:-1])) if files else WriterSchema("PROTOBUF", "")


def encoded(node: Node, spec: FormatSpec, schema: str | None, ref: int, json_text: str) -> bytes:
    """The bytes of one value or key.

    Args:
        schema: the schema to write with, where the format has one.
        json_text: the same value as JSON.

    Raises:
        EncodeFault: there is no schema, or it does not allow the value.
    """
    if spec.type is FormatType.RAW:
        return bytes_of(node)
    if spec.type is FormatType.JSON:
        data = json_text.encode()
    elif schema is None:
        message = (
            "the record cannot be encoded: the file gives no schema (`schema`, `schema_file`, or `given` of the test)"
        )
        raise EncodeFault(message, node.span)
    elif spec.type is FormatType.AVRO:
        data = _avro(node, schema)
    elif spec.type is FormatType.PROTOBUF:
        data = _protobuf(node, schema, spec.message, spec.registry is not None)
    else:
        assert_never(spec.type)
    return data if spec.registry is None else b"\0" + ref.to_bytes(4, "big") + data


def bytes_of(node: Node) -> bytes:
    """Bytes given as text, or as `{base64: ...}`."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value.encode()
    inner = node.get("base64") if isinstance(node, Mapping) else None
    if isinstance(inner, Scalar) and isinstance(inner.value, str):
        try:
            return base64.b64decode(inner.value, validate=True)
        except binascii.Error:
            pass
    raise EncodeFault("bytes are text, or `{base64: ...}`", node.span)


# ---- protobuf ------------------------------------------------------------------------------------------------------


def _protobuf(node: Node, schema: str, message: str | None, is_framed: bool) -> bytes:
    from google.protobuf import json_format

    from framework.record.formats.protobuf import ProtobufFault, descriptor_set, message_type

    try:
        kind, _ = message_type(None, schema, message, ())
        _, files = descriptor_set(schema)
        data: bytes = json_format.ParseDict(plain(node), kind()).SerializeToString()
    except (ProtobufFault, json_format.ParseError) as error:
        raise EncodeFault(f"the value cannot be encoded: {error}", node.span) from None
    if not is_framed:
        return data
    place = list(files[-1].message_types_by_name).index(kind.DESCRIPTOR.name)
    return (b"\0" if place == 0 else bytes([2, place << 1])) + data


# ---- avro ----------------------------------------------------------------------------------------------------------


def _avro(node: Node, schema: str) -> bytes:
    import fastavro

    try:
        kind = parse_avro(schema)
        value = _written(node, kind)
        stream = BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(physical(kind), _force=True), value)
    except AvroFault as fault:
        raise EncodeFault(f"the schema cannot be used: {fault}", node.span) from None
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
        raise EncodeFault(f"the value cannot be encoded: {error}", node.span) from None
    return stream.getvalue()


def _written(node: Node, kind: AvroType) -> Any:
    """A value as the writer of physical types takes it."""
    if kind.kind == "union":
        return _of_union(node, kind)
    if isinstance(node, Scalar) and node.value is None:
        if kind.kind == "null":
            return None
        raise EncodeFault(f"null is no {kind.logical or kind.kind}", node.span)
    if kind.kind == "record":
        return _record(node, kind)
    if kind.kind == "array" and isinstance(node, Sequence) and kind.items:
        return [_written(item, kind.items) for item in node.items]
    if kind.kind == "map" and isinstance(node, Mapping) and kind.items:
        return {entry.key: _written(entry.value, kind.items) for entry in node.entries}
    if kind.logical == "decimal" and isinstance(node, Scalar):
        return _decimal(node, kind)
    if kind.kind == "fixed" and kind.logical == "uuid" and isinstance(node, Scalar) and isinstance(node.value, str):
        return bytes.fromhex(node.value.replace("-", ""))
    if kind.kind in ("bytes", "fixed"):
        return bytes_of(node)
    if not isinstance(node, Scalar):
        raise EncodeFault(f"a {kind.logical or kind.kind} is expected here", node.span)
    value = node.value
    if isinstance(value, str) and kind.kind in ("int", "long"):
        return _count(value, kind, node.span)
    expected: dict[str, tuple[type, ...]] = {
        "boolean": (bool,), "int": (int,), "long": (int,), "float": (int, float), "double": (int, float),
        "string": (str,), "enum": (str,),
    }  # fmt: skip
    if not isinstance(value, expected.get(kind.kind, ())) or (isinstance(value, bool) and kind.kind != "boolean"):
        raise EncodeFault(f"a {kind.logical or kind.kind} is expected here, not `{node.text or value}`", node.span)
    return value


def _record(node: Node, kind: AvroType) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        raise EncodeFault(f"the record {kind.name} is expected here", node.span)
    fields = {field.name: field for field in kind.fields}
    for entry in node.entries:
        if entry.key not in fields:
            raise EncodeFault(f"{kind.name} has no field `{entry.key}`", entry.key_span)
    record = {}
    for name, field in fields.items():
        value = node.get(name)
        if value is not None:
            record[name] = _written(value, field.node)
        elif "default" in field.raw:
            record[name] = field.raw["default"]
        elif without_null(field.node)[1]:
            record[name] = None
        else:
            raise EncodeFault(f"the field `{name}` of {kind.name} has no value and no default", node.span)
    return record


def _of_union(node: Node, kind: AvroType) -> Any:
    """The first branch that takes the value; a named one with its name, since two may look alike."""
    fault: EncodeFault | None = None
    for branch in kind.branches:
        try:
            value = _written(node, branch)
        except EncodeFault as found:
            fault = fault or (found if branch.kind != "null" else None)
            continue
        if branch.kind == "null" and not (isinstance(node, Scalar) and node.value is None):
            continue
        return (branch.name, value) if branch.name else value
    raise fault or EncodeFault("this fits no type of the union", node.span)


def _decimal(node: Scalar, kind: AvroType) -> bytes:
    scale = int(kind.raw.get("scale", 0))
    try:
        scaled = Decimal(node.text or str(node.value)).scaleb(scale, _WIDE)
        number = int(scaled)
    except (InvalidOperation, OverflowError, ValueError):
        raise EncodeFault(f"`{node.value}` is no decimal", node.span) from None
    if number != scaled:
        raise EncodeFault(f"`{node.text or node.value}` has more than {scale} digits after the point", node.span)
    size = kind.raw["size"] if kind.kind == "fixed" else number.bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def _count(text: str, kind: AvroType, span: Span) -> int:
    """A day, moment or time of day in ISO 8601 as the number that the schema counts."""
    if kind.logical == "date" and (moment := parse_moment(text, None)) is not None and not moment.has_time:
        return moment.days
    name, _, unit = kind.logical.rpartition("-")
    nanoseconds = None
    if name == "time":
        nanoseconds = parse_time(text, None)
    elif name in ("timestamp", "local-timestamp") and (moment := parse_moment(text, None)) is not None:
        nanoseconds = moment.local_nanoseconds - (moment.offset_seconds or 0) * 1_000_000_000
    if nanoseconds is None or unit not in _NANOSECONDS or nanoseconds % _NANOSECONDS[unit]:
        raise EncodeFault(f"`{text}` is no {kind.logical or kind.kind}", span)
    return nanoseconds // _NANOSECONDS[unit]
