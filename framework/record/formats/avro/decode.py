"""Avro data to typed columns: many records in one read, none of which can leak into the next.

In: payloads with their writer's schema, and the schema to read with, if the pipeline has one. Out: rows and failures.
The payloads of one writer are joined into one Avro array whose elements are pairs of a record and a token that stands
in no record: if each element's token is there, each record ended exactly where its bytes end. Else the block is halved,
down to single records, so that a bad one costs itself alone (invariant 9 at the borders of records).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import fastavro
import fastavro.schema
from fastavro.read import SchemaResolutionError

from framework.record.arrays import Ints
from framework.record.failure import RecordFailure
from framework.record.formats.avro.columns import column_of, details_of, record_column
from framework.record.formats.avro.schema import AvroFault, Node, parse_avro, physical
from framework.record.formats.columns import StructColumn, build_rows, is_too_wide, take_item
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import WriterSchema
from framework.record.model import ColumnDetail

_TOKEN_BYTES = 16
_TOKEN, _RECORD = "floe_token__", "floe_record__"
# What the reader raises for bytes that are not of the schema, beside its own error for schemas that do not fit.
_NOT_AVRO = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, StopIteration)
Failures = dict[int, RecordFailure]


@dataclass(frozen=True)
class AvroReader:
    """How to read one writer's data: the schemas for fastavro, and the columns of what comes out. `reader` is None
    where it is the writer's own."""

    writer: Any
    framed_writer: Any
    reader: Any
    framed_reader: Any
    wrapped: bool
    root: StructColumn
    details: dict[str, ColumnDetail]


def decode_avro(
    payloads: list[bytes], places: Ints, writer: WriterSchema, reader: str | None, column: str
) -> tuple[list[TypedRows], Failures]:
    """The rows of one writer's payloads.

    Args:
        reader: the schema to read with; None for the writer's own.
        column: the name of the column when the schema is no record.
    """
    try:
        how = avro_reader(writer, reader, column)
    except AvroFault as fault:
        failure = RecordFailure("decode", "FLOE-D116", f"the writer's schema cannot be used: {fault}")
        return [], dict.fromkeys(places.tolist(), failure)
    values, kept, failures = _read(payloads, places, how)
    columns, good, unfit = build_rows(how.root, values, kept)
    failures |= unfit
    kinds = {name: child.kind for name, child, _ in how.root.children}
    return ([TypedRows(good, columns, kinds, how.details)] if len(good) else []), failures


@lru_cache(maxsize=1024)
def avro_reader(writer: WriterSchema, reader: str | None, column: str) -> AvroReader:
    """How to read a writer's data; cached, since blocks of one topic name the same few schemas.

    Raises:
        AvroFault: one of the schemas is none.
    """
    try:
        return _reader(writer, reader, column)
    except RecursionError:
        raise AvroFault("it is nested too deep") from None


def _reader(writer: WriterSchema, reader: str | None, column: str) -> AvroReader:
    written = parse_avro(writer.text, writer.references)
    read = parse_avro(reader) if reader is not None else written
    try:
        plain = [fastavro.parse_schema(physical(node), _force=True) for node in (written, read)]
        wrapped = any(node.kind != "record" or _holds_itself(node, node.name, set()) for node in (written, read))
        framed = [fastavro.parse_schema(_framed(node, wrapped), _force=True) for node in (written, read)]
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, KeyError) as error:
        raise AvroFault(str(error)) from None
    if is_too_wide(read, Node.inner, lambda node: node.name):
        raise AvroFault("it stands for more columns than any table has")
    is_record = read.kind == "record"
    root = record_column(read) if is_record else _single(read, column)
    details = details_of(read) if is_record else {}
    same = reader is None
    return AvroReader(
        plain[0], framed[0], None if same else plain[1], None if same else framed[1], wrapped, root, details
    )


def _single(node: Node, name: str) -> StructColumn:
    column = column_of(node)
    return StructColumn(["struct", [[name, column.kind]]], ((name, column, list),))


def _framed(node: Node, wrapped: bool) -> dict[str, Any]:
    """An array of records with a token behind each: as a last field of the record itself, which costs less, or beside
    it where the record is `wrapped`, since it holds records of its own type or is none."""
    token = {"name": _TOKEN, "type": {"type": "fixed", "name": "floe.Token", "size": _TOKEN_BYTES}}
    schema = physical(node)
    if wrapped:
        fields = [{"name": _RECORD, "type": schema}, token]
        return {"type": "array", "items": {"type": "record", "name": "floe.Framed", "fields": fields}}
    return {"type": "array", "items": {**schema, "fields": [*schema["fields"], token]}}


def _holds_itself(node: Node, name: str, seen: set[int]) -> bool:
    if id(node) in seen:
        return False
    seen.add(id(node))
    return any(child.name == name or _holds_itself(child, name, seen) for child in node.inner())


def _read(payloads: list[bytes], places: Ints, how: AvroReader) -> tuple[list[Any], Ints, Failures]:
    """The values that could be read, their places, and the failures of the others."""
    good: list[Any] = []
    failures: Failures = {}
    pending = [(0, len(payloads))]
    while pending:
        first, end = pending.pop()
        if end - first == 1:
            try:
                good.append(_read_one(payloads[first], how))
            except RecordFailure as failure:
                failures[int(places[first])] = failure
            continue
        values = _read_many(payloads[first:end], how)
        if values is None:
            middle = (first + end) // 2
            pending += [(middle, end), (first, middle)]
        else:
            good += values
    if not failures:
        return good, places, failures
    keep = [i for i, place in enumerate(places.tolist()) if place not in failures]
    return good, places[keep], failures


def _read_many(payloads: list[bytes], how: AvroReader) -> list[Any] | None:
    """The values of all payloads; None when one of them is not what the schema says."""
    token = hashlib.blake2b(b"".join(payloads), digest_size=_TOKEN_BYTES).digest()
    data = _zigzag(len(payloads)) + token.join(payloads) + token + b"\0"
    stream = BytesIO(data)
    try:
        framed = _value(stream, how.framed_writer, how.framed_reader)
    except (SchemaResolutionError, RecursionError, *_NOT_AVRO):
        return None
    if len(framed) != len(payloads) or stream.tell() != len(data) or any(one[_TOKEN] != token for one in framed):
        return None
    return take_item(_RECORD)(framed) if how.wrapped else framed


def _read_one(payload: bytes, how: AvroReader) -> Any:
    stream = BytesIO(payload)
    try:
        value = _value(stream, how.writer, how.reader)
    except SchemaResolutionError as error:
        raise RecordFailure(
            "decode", "FLOE-D117", f"the writer's schema does not fit the schema to read with: {error}"
        ) from None
    except RecursionError:
        raise RecordFailure("decode", "FLOE-D105", "the record is nested too deeply") from None
    except _NOT_AVRO as error:
        what = str(error) or "it ends too early"
        raise RecordFailure("decode", "FLOE-D115", f"the record is not Avro of its schema: {what}") from None
    if stream.tell() != len(payload):
        surplus = len(payload) - stream.tell()
        raise RecordFailure(
            "decode", "FLOE-D115", f"the record is not Avro of its schema: {surplus} bytes stand behind its end"
        )
    return value


def _value(stream: BytesIO, writer: Any, reader: Any) -> Any:
    # Branches of a union come with the name of their type, where it has one; otherwise two records are not distinguished.
    return fastavro.schemaless_reader(stream, writer, reader, return_named_type=True, handle_unicode_errors="strict")


def _zigzag(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
