"""One case of `tests:` as a value: the records that go in, as Kafka would hand them over, and what is expected, with
places.

In: the checked tree of a pipeline file and its spec. Out: frozen `Case` values. A mapping becomes JSON with its numbers
as they were written, so that `12.10` reaches a decimal column exactly (invariant 9).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from framework.config.spec import FormatSpec, FormatType, PipelineSpec
from framework.config.tree import Entry, Mapping, Node, Scalar, Sequence, plain
from framework.diagnose.diagnostic import Span
from framework.record.formats.wire import SchemaRef, Schemas, WriterSchema
from framework.record.model import RecordBlock
from framework.testing.encode import KEY_SCHEMA, VALUE_SCHEMA, TestSchemas, encoded, registered

_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")


@dataclass(frozen=True)
class InputRecord:
    """One record as a consumer would see it; `timestamp_ms` is -1 where the case gives none."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Case:
    """`given` holds the types of the columns of tables that exist before, by table; `expect` keeps its places.

    `entry` is the key `expect` with its value, `span` the case's name, `schemas` what its registry holds.
    """

    name: str
    span: Span
    records: tuple[InputRecord, ...]
    given: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    entry: Entry
    schemas: Schemas

    @property
    def expect(self) -> Mapping:
        assert isinstance(self.entry.value, Mapping)
        return self.entry.value


def read_cases(tree: Mapping, spec: PipelineSpec) -> tuple[Case, ...]:
    """The cases of a file that the loader found nothing wrong with.

    Raises:
        EncodeFault: a value that its schema does not allow.
    """
    tests = tree.get("tests")
    items = tests.items if isinstance(tests, Sequence) else ()
    return tuple(_case(item, spec) for item in items if isinstance(item, Mapping))


def _case(test: Mapping, spec: PipelineSpec) -> Case:
    name, records, expect = test.get("name"), test.get("input"), test.entry("expect")
    # The schema has checked all of this.
    assert isinstance(name, Scalar)
    assert isinstance(records, Sequence)
    assert expect is not None
    given = test.get("given")
    stated = plain(given) if given is not None else {}
    tables = stated.get("tables", {})
    written = _RecordFormat(
        spec,
        stated.get("value_schema") or spec.source.format.schema,
        stated.get("key_schema") or (spec.source.key.format.schema if spec.source.key else None),
    )
    return Case(
        name=str(name.value),
        span=name.span,
        records=tuple(_records(records, written)),
        given=tuple(
            (table, tuple((column, str(kind)) for column, kind in one["schema"].items()))
            for table, one in tables.items()
            if not table.startswith("x-")
        ),
        entry=expect,
        schemas=written.registry,
    )


@dataclass(frozen=True)
class _RecordFormat:
    """How a case's records are written."""

    spec: PipelineSpec
    value_schema: str | None
    key_schema: str | None

    @property
    def registry(self) -> Schemas:
        known: dict[SchemaRef, WriterSchema] = {}
        key = self.spec.source.key.format if self.spec.source.key else None
        for ref, one, text in (
            (VALUE_SCHEMA, self.spec.source.format, self.value_schema),
            (KEY_SCHEMA, key, self.key_schema),
        ):
            if one is not None and one.registry is not None:
                known[ref] = registered(one.type, text or "")
        return TestSchemas(known)

    def value(self, node: Node | None) -> bytes | None:
        """The bytes of `value`: null is a tombstone; JSON takes text as it is, everything else becomes JSON."""
        if node is None or (isinstance(node, Scalar) and node.value is None):
            return None
        form = self.spec.source.format
        if form.type is FormatType.JSON and isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value.encode()
        return encoded(node, form, self.value_schema, VALUE_SCHEMA, json_text(node))

    def key(self, node: Node) -> bytes:
        """The bytes of a key that is given by its fields."""
        form = self.spec.source.key.format if self.spec.source.key else FormatSpec()
        return encoded(node, form, self.key_schema, KEY_SCHEMA, json_text(node))


def _records(records: Sequence, written: _RecordFormat) -> Iterator[InputRecord]:
    following: dict[tuple[str, int], int] = {}
    for item in records.items:
        assert isinstance(item, Mapping)
        values = plain(item)
        topic = values.get("topic") or written.spec.source.kafka.topics[0]
        partition = values.get("partition", 0)
        offset = values.get("offset", following.get((topic, partition), 0))
        following[topic, partition] = offset + 1
        key = item.get("key_value")
        yield InputRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            value=_bytes(values["raw"]) if "raw" in values else written.value(item.get("value")),
            key=written.key(key) if key is not None else None if values.get("key") is None else _bytes(values["key"]),
            timestamp_ms=values.get("timestamp_ms", -1),
            headers=tuple(
                (name, None if value is None else value.encode()) for name, value in values.get("headers", {}).items()
            ),
        )


def _bytes(value: str | dict[str, str]) -> bytes:
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def json_text(node: Node) -> str:
    """A node as JSON on one line; numbers keep the form they were written in where JSON has it."""
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{_quoted(entry.key)}: {json_text(entry.value)}" for entry in node.entries) + "}"
    if isinstance(node, Sequence):
        return "[" + ", ".join(json_text(item) for item in node.items) + "]"
    if isinstance(node.value, float) and _JSON_NUMBER.match(node.text):
        return node.text
    return _quoted(node.value)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def blocks(records: tuple[InputRecord, ...]) -> Iterator[RecordBlock]:
    """The records as the job's tasks get them: one block for each partition of each topic."""
    grouped: dict[tuple[str, int], list[InputRecord]] = {}
    for record in records:
        grouped.setdefault((record.topic, record.partition), []).append(record)
    for (topic, partition), found in grouped.items():
        yield RecordBlock(
            topic=topic,
            partition=partition,
            values=[record.value for record in found],
            offsets=[record.offset for record in found],
            timestamps_ms=[record.timestamp_ms for record in found],
            keys=[record.key for record in found],
            headers=[list(record.headers) for record in found],
        )
