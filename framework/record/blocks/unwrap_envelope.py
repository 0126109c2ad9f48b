"""JSON values before they are parsed by the tables' columns: what wraps a record is taken off, what belongs to it is
put in.

In: a block and how it is decoded. Out: for each record the bytes of one JSON object, or None for a tombstone; failures.
The registry's wire format is taken off, Debezium's envelope is flattened, the fields of a JSON key are put into the
value's text under their prefix. A record that brings its types with it (Kafka Connect's `schema` beside `payload`)
becomes a typed row instead. Plain JSON goes through untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from framework.config.spec import Envelope, KeySpec, Truncates
from framework.plan.model import Decode
from framework.record.blocks.parse_texts import with_parsed_texts
from framework.record.convert.text import json_text
from framework.record.failure import RecordFailure
from framework.record.formats.connect_json import ConnectRecords
from framework.record.formats.debezium import EnvelopeFields, flatten_json, flatten_rows, is_truncate, kept_fields
from framework.record.formats.envelope_paths import object_at, row_text
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import (
    KEY_HEADER,
    VALUE_HEADER,
    Schemas,
    WriterSchema,
    schema_of,
    schemas_of_keys,
    unframe,
)
from framework.record.json.json_schema import (
    NOTHING_DECLARED,
    DeclaredFields,
    beside_key,
    declared_fields,
    declared_value,
)
from framework.record.json.member_spans import member_spans, object_spans
from framework.record.model import RecordBlock
from framework.record.strict_json import JsonValue, parse_record

_SPACE = b" \t\r\n"
_JSON_SPACE = " \t\r\n"
_ROW_OPS = frozenset({'"c"', '"u"', '"d"', '"r"'})


@dataclass
class JsonRead:
    """`values` are texts to parse, None for tombstones, failures, records that became typed rows, and `dropped` ones."""

    values: Sequence[bytes | None]
    failures: dict[int, RecordFailure] = field(default_factory=dict)
    parts: list[TypedRows] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    declared: Sequence[DeclaredFields] = ()  # what a record's schema says of its fields, for each of `values`


def read_json(block: RecordBlock, decode: Decode, schemas: Schemas, with_tombstones: bool = False) -> JsonRead:
    """The texts of a block's records; with tombstones a record without a value has the fields of its key alone."""
    spec = decode.format
    if not (with_tombstones or spec.registry or spec.envelope is not Envelope.NONE or _is_finished_by_text(decode)):
        return JsonRead(block.values)
    read = JsonRead(list(block.values))
    connect = ConnectRecords()
    is_declared = spec.registry is not None and spec.envelope is Envelope.NONE and spec.envelope_paths is None
    declared: list[DeclaredFields] = []
    values: list[bytes | None] = []
    for i, data in enumerate(block.values):
        own = NOTHING_DECLARED
        try:
            text = data
            if data is not None and spec.registry is not None:
                framed = unframe(data, block.headers[i] or (), VALUE_HEADER)
                schema = schema_of(framed.schema, "JSON", schemas)
                if is_declared and spec.explode is None:
                    own = _declared(schema, decode.parsed, decode.key, _schema_of_key(block, i, decode, schemas))
                text = framed.payload
            if text is not None and spec.envelope in (Envelope.DEBEZIUM, Envelope.CONNECT) and connect.take(text, i):
                text = None
            elif text is not None and spec.envelope is Envelope.DEBEZIUM:
                if spec.on_truncate is Truncates.IGNORE and b'"t"' in text and is_truncate(parse_record(text)):
                    read.dropped.append(i)
                    text = None
                else:
                    text = flat_text(text, kept_fields(spec))
            elif text is not None and spec.envelope is Envelope.CONNECT:
                text = _payload(text)
            if data is None and with_tombstones:
                text = b"{}"
            if text is not None and spec.explode is None:
                text = finished(text, block, i, decode, schemas)
                if text is None:
                    read.dropped.append(i)
        except RecordFailure as failure:
            read.failures[i] = failure
            text = None
        values.append(text)
        declared.append(own)
    read.values = values
    read.declared = declared if is_declared else ()
    for envelopes, failures in connect.rows():
        if spec.envelope is Envelope.CONNECT:
            read.parts.append(envelopes)
            read.failures |= failures
            continue
        flat = flatten_rows(envelopes, spec)
        read.parts += flat.parts
        read.failures |= failures | flat.failures
        read.dropped += flat.dropped
    return read


@lru_cache(maxsize=256)
def _declared(
    schema: WriterSchema, parsed: tuple[str, ...], key: KeySpec | None, of_key: WriterSchema | None
) -> DeclaredFields:
    """What the schemas of a value and its key say, without what they say of texts whose inside is read."""
    found = declared_fields(schema.text, schema.references)
    if key is not None and of_key is not None:
        found = beside_key(
            found,
            declared_fields(of_key.text, of_key.references),
            declared_value(of_key.text, of_key.references),
            key.prefix,
            key.column,
        )
    roots = {path.split(".")[0] for path in parsed}
    return replace(found, kinds={n: k for n, k in found.kinds.items() if n not in roots}) if roots else found


def _schema_of_key(block: RecordBlock, record: int, decode: Decode, schemas: Schemas) -> WriterSchema | None:
    """The schema of a record's key, where it has one.

    Raises:
        RecordFailure: the key names none.
    """
    data, spec = block.key(record), decode.key
    if spec is None or spec.format.registry is None or data is None:
        return None
    named = unframe(data, block.headers[record] or (), KEY_HEADER).schema
    return schema_of(named, "JSON", schemas_of_keys(schemas, decode))


def _is_finished_by_text(decode: Decode) -> bool:
    """Whether `finished` changes texts of records that hold one document."""
    return decode.format.explode is None and (decode.key is not None or bool(decode.parsed))


def finished(text: bytes, block: RecordBlock, record: int, decode: Decode, schemas: Schemas) -> bytes | None:
    """The text of one row of a record: out of the envelope that the file describes, with the values inside of texts, and the
    fields of the record's key. None for a change event that is ignored.

    Raises:
        RecordFailure: it is no change of a row, a text is no JSON, or the key cannot be read.
    """
    paths = decode.format.envelope_paths
    if paths is not None and block.values[record] is not None:
        row = row_text(text, paths)
        if row is None:
            return None
        text = row
    if decode.parsed:
        text = with_parsed_texts(text, decode.parsed)
    if decode.key is not None:
        text = _with_key(
            text, block.key(record), block.headers[record] or (), decode.key, schemas_of_keys(schemas, decode)
        )
    return text


def flat_text(data: bytes, kept: EnvelopeFields) -> bytes:
    """The row of an envelope as JSON. Its own text is taken as it stands, so that it is parsed once, by the columns."""
    found = member_spans(data)
    if found is not None:
        text, places = found
        at = places.get("op", (0, 0))
        op = text[at[0] : at[1]]
        inner = object_at(text, places.get("before" if op == '"d"' else "after"))
        source = object_spans(text, places["source"][0]) if "source" in places else ({}, 0)
        if op in _ROW_OPS and inner is not None and source is not None:
            parts = [inner] if inner.strip(_JSON_SPACE) else []
            parts.append(f'"__op":{op}')
            parts += [f'"__{n}":{text[slice(*places[n])]}' for n in kept.top[1:] if n in places]
            parts += [f'"__source_{n}":{text[slice(*at)]}' for n, at in source[0].items() if n in kept.source]
            return f"{{{','.join(parts)}}}".encode()
    return json_text(flatten_json(parse_record(data), kept)).encode()


def _payload(data: bytes) -> bytes:
    """What a record without a schema holds: Connect writes `{"schema": null, "payload": ...}`, or the payload alone."""
    found = member_spans(data)
    if found is None or found[1].keys() != {"schema", "payload"}:
        return data
    text, places = found
    if text[slice(*places["schema"])] != "null":
        return data
    payload = text[slice(*places["payload"])]
    if payload == "null":
        raise RecordFailure("decode", "FLOE-D122", "the record's payload is null, so it holds no row")
    return payload.encode()


def _fields_of_key(key: bytes, spec: KeySpec) -> dict[str, JsonValue]:
    """The fields of a JSON key under their prefix; one that is no object is a column. Connect may write its schema beside
    it."""
    whole = parse_record(b'{"key":' + key + b"}")
    if whole.keys() != {"key"}:
        raise RecordFailure("decode", "FLOE-D101", "it is not one JSON value")
    value = whole["key"]
    if isinstance(value, dict) and value.keys() == {"schema", "payload"} and isinstance(value["schema"], dict | None):
        value = value["payload"]
    if isinstance(value, list):
        raise RecordFailure("decode", "FLOE-D102", "it is a list, which is no column", expected="object or one value")
    if isinstance(value, dict):
        return {spec.prefix + name: each for name, each in value.items()}
    return {spec.column: value}


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
        fields = _fields_of_key(key, spec)
    except RecordFailure as failure:
        raise RecordFailure("decode", failure.code, f"the key: {failure.message}", expected=failure.expected) from None
    value = text.strip(_SPACE)
    inner = json_text(fields).encode()[1:-1]
    if not value.startswith(b"{") or not inner:
        return text  # what is no object is judged as it is
    empty = value[1:].lstrip(_SPACE).startswith(b"}")
    return b"{" + inner + (b"" if empty else b",") + value[1:]
