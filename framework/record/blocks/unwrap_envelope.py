"""JSON values before they are parsed by the tables' columns: what wraps a record is taken off, what belongs to it is
put in.

In: a block and how it is decoded. Out: for each record the bytes of one JSON object, or None for a tombstone; failures.
The registry's wire format is taken off, Debezium's envelope is flattened, the fields of a JSON key are put into the
value's text under their prefix. A record that brings its types with it (Kafka Connect's `schema` beside `payload`)
becomes a typed row instead. Plain JSON goes through untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from framework.config.spec import Envelope, KeySpec
from framework.plan.model import Decode
from framework.record.convert.text import json_text
from framework.record.failure import RecordFailure
from framework.record.formats.connect_json import ConnectRecords
from framework.record.formats.debezium import SOURCE_FIELDS, flatten_json, flatten_rows
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import KEY_HEADER, VALUE_HEADER, Schemas, schema_of, unframe
from framework.record.json.member_spans import member_spans, object_spans
from framework.record.model import RecordBlock
from framework.record.strict_json import JsonValue, parse_record

_SPACE = b" \t\r\n"
_JSON_SPACE = " \t\r\n"
_ROW_OPS = frozenset({'"c"', '"u"', '"d"', '"r"'})


@dataclass
class JsonRead:
    """`values` are texts to parse, None for tombstones, failures and records that became typed rows."""

    values: Sequence[bytes | None]
    failures: dict[int, RecordFailure] = field(default_factory=dict)
    parts: list[TypedRows] = field(default_factory=list)


def read_json(block: RecordBlock, decode: Decode, schemas: Schemas, with_tombstones: bool = False) -> JsonRead:
    """The texts of a block's records; with tombstones a record without a value has the fields of its key alone."""
    spec = decode.format
    if not with_tombstones and spec.registry is None and spec.envelope is Envelope.NONE and decode.key is None:
        return JsonRead(block.values)
    read = JsonRead(list(block.values))
    connect = ConnectRecords()
    values: list[bytes | None] = []
    for i, data in enumerate(block.values):
        try:
            text = data
            if data is not None and spec.registry is not None:
                framed = unframe(data, block.headers[i] or (), VALUE_HEADER)
                schema_of(framed.schema, "JSON", schemas)
                text = framed.payload
            if text is not None and spec.envelope is Envelope.DEBEZIUM:
                text = None if connect.take(text, i) else _flat(text)
            if data is None and with_tombstones:
                text = b"{}"
            if text is not None and decode.key is not None:
                text = _with_key(text, block.key(i), block.headers[i] or (), decode.key, schemas)
        except RecordFailure as failure:
            read.failures[i] = failure
            text = None
        values.append(text)
    read.values = values
    for envelopes, failures in connect.rows():
        flat = flatten_rows(envelopes)
        read.parts += flat.parts
        read.failures |= failures | flat.failures
    return read


def _flat(data: bytes) -> bytes:
    """The row of an envelope as JSON. Its own text is taken as it stands, so that it is parsed once, by the columns."""
    found = member_spans(data)
    if found is not None:
        text, places = found
        at = places.get("op", (0, 0))
        op = text[at[0] : at[1]]
        start, end = places.get("before" if op == '"d"' else "after", (0, 0))
        source = object_spans(text, places["source"][0]) if "source" in places else ({}, 0)
        if op in _ROW_OPS and text[start] == "{" and start and source is not None:
            inner = text[start + 1 : end - 1]
            parts = [inner] if inner.strip(_JSON_SPACE) else []
            parts.append(f'"__op":{op}')
            if "ts_ms" in places:
                parts.append(f'"__ts_ms":{text[slice(*places["ts_ms"])]}')
            parts += [f'"__source_{n}":{text[slice(*at)]}' for n, at in source[0].items() if n in SOURCE_FIELDS]
            return f"{{{','.join(parts)}}}".encode()
    return json_text(flatten_json(parse_record(data))).encode()


def _with_key(
    text: bytes, key: bytes | None, headers: Sequence[tuple[str, bytes | None]], spec: KeySpec, schemas: Schemas
) -> bytes:
    """The value's text with the key's fields before its own."""
    if key is None:
        return text
    if spec.format.registry is not None:
        framed = unframe(key, headers, KEY_HEADER)
        schema_of(framed.schema, "JSON", schemas)
        key = framed.payload
    try:
        fields: dict[str, JsonValue] = {spec.prefix + name: value for name, value in parse_record(key).items()}
    except RecordFailure as failure:
        raise RecordFailure("decode", failure.code, f"the key: {failure.message}", expected=failure.expected) from None
    value = text.strip(_SPACE)
    inner = json_text(fields).encode()[1:-1]
    if not value.startswith(b"{") or not inner:
        return text  # what is no object is judged as it is
    empty = value[1:].lstrip(_SPACE).startswith(b"}")
    return b"{" + inner + (b"" if empty else b",") + value[1:]
