"""Records in every format for tests, encoded by each format's own library, and one call that lands a block of them.

In: values and schemas. Out: bytes as a producer would send them, and the table's schema and rows that come of them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2
from pyiceberg.schema import Schema

from framework.config.spec import ErrorPolicy, FieldHint, FormatSpec, KeySpec, RouteRule, TablePolicy
from framework.plan.compile import debezium_hints
from framework.record.formats.wire import NO_SCHEMAS, Schemas, WriterSchema
from framework.record.model import BlockResult, DeadLetter, RecordBlock, TableTarget
from framework.record.process import process_block
from framework.table.schema.arrow import parse_schema
from framework.testing.tables import MemoryTables
from testbed.record_samples import plan, policy

TABLE = "ns.t"


def avro_bytes(schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def record_of(*fields: Mapping[str, Any], name: str = "shop.Order") -> dict[str, Any]:
    """An Avro record schema."""
    return {"type": "record", "name": name, "fields": list(fields)}


def framed(ref: int, payload: bytes) -> bytes:
    """The wire format: a zero byte, the id, the payload."""
    return b"\0" + ref.to_bytes(4, "big") + payload


def avro_schema(schema: Any, *references: tuple[str, Any]) -> WriterSchema:
    return WriterSchema("AVRO", json.dumps(schema), tuple((name, json.dumps(text)) for name, text in references))


def proto_schema(
    file: descriptor_pb2.FileDescriptorProto, *references: descriptor_pb2.FileDescriptorProto
) -> WriterSchema:
    return WriterSchema("PROTOBUF", serialized(file), tuple((one.name, serialized(one)) for one in references))


def serialized(message: Any) -> str:
    return base64.b64encode(message.SerializeToString()).decode()


def records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[list[tuple[str, bytes | None]] | None] | None = None,
) -> RecordBlock:
    count = len(values)
    return RecordBlock(
        "events", 0, list(values), list(range(count)), [1_700_000_000_000] * count,
        keys or [None] * count, headers or [None] * count,
    )  # fmt: skip


@dataclass(frozen=True)
class Landed:
    """The table as it is after a block, its rows in offset order, and what did not get there."""

    schema: Schema
    tables: MemoryTables
    letters: list[DeadLetter]
    result: BlockResult

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return self.result.rows[TABLE].to_pylist() if TABLE in self.result.rows else []

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.schema.fields}

    @property
    def codes(self) -> list[tuple[int, str]]:
        return [(letter.offset, letter.code) for letter in self.letters]


def land(
    block: RecordBlock,
    spec: FormatSpec,
    schemas: Schemas = NO_SCHEMAS,
    key: KeySpec | None = None,
    tables: MemoryTables | None = None,
    table_policy: TablePolicy | None = None,
    metadata: Sequence[str] = (),
    hints: Sequence[FieldHint] = (),
    rules: Sequence[RouteRule] = (RouteRule(TABLE),),
    given: tuple[Any, ...] = (),
    errors: ErrorPolicy = ErrorPolicy.DEAD_LETTER,
    known: Mapping[str, TableTarget] | None = None,
) -> Landed:
    """Process a block until nothing is needed any more, as the driver does."""
    made = plan(rules=list(rules), metadata=list(metadata), defaults=table_policy or policy(), errors=errors)
    hints = (*hints, *debezium_hints(spec, tuple(hints)))
    made = replace(made, decode=replace(made.decode, format=spec, key=key, hints=tuple(hints)))
    tables = tables or MemoryTables(made, given)
    tables.targets.update(known or {})
    for _ in range(10):
        result = process_block(block, made, tables.targets, schemas)
        if not result.needs:
            break
        for need in result.needs.values():
            tables.satisfy(need)
    assert not result.needs
    assert result.written + len(result.dead_letters) + result.dropped + result.filtered == len(block)
    target = tables.targets.get(TABLE)
    schema = parse_schema(target.schema_json) if target else Schema()
    return Landed(schema, tables, result.dead_letters, result)
