"""Debezium's change events become rows of the change log, in JSON with and without schemas and in Avro."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import Envelope, FieldHint, FormatSpec, FormatType
from framework.record.blocks.unwrap_envelope import flat_text
from framework.record.formats.debezium import flatten_json, kept_fields
from framework.record.strict_json import parse_record
from testbed.format_samples import Landed, avro_bytes, avro_schema, framed, land, record_of, records

JSON = FormatSpec(envelope=Envelope.DEBEZIUM)
AVRO = FormatSpec(FormatType.AVRO, registry="main", envelope=Envelope.DEBEZIUM)
UTC = dt.timezone.utc
SOURCE = {
    "version": "3.0", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_123, "snapshot": "false", "db": "shop",
    "schema": "public", "table": "orders", "txId": 571, "lsn": 24023128, "xmin": None,
}  # fmt: skip


def event(op: str, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1_700_000_000_456, **more}


def land_json(*events: Any) -> Landed:
    return land(records([None if e is None else json.dumps(e).encode() for e in events]), JSON)


def test_json_without_schemas() -> None:
    """The row after the change, or before a delete, with what happened and where it stood; tombstones are dropped."""
    landed = land_json(event("c", None, {"id": 1, "n": 2}), event("d", {"id": 1, "n": 2}, None), None)
    assert landed.types == {
        "id": "double", "n": "double", "__op": "string", "__ts_ms": "timestamptz", "__source_connector": "string",
        "__source_name": "string", "__source_ts_ms": "timestamptz", "__source_snapshot": "string", "__source_db": "string",
        "__source_schema": "string", "__source_table": "string", "__source_txId": "double", "__source_lsn": "double",
    }  # fmt: skip
    created, deleted = landed.rows
    assert (created["id"], created["__op"], created["__source_lsn"]) == (1, "c", 24023128)
    assert created["__ts_ms"] == dt.datetime(2023, 11, 14, 22, 13, 20, 456000, UTC)
    assert (deleted["id"], deleted["n"], deleted["__op"]) == (1, 2, "d")
    assert landed.result.dropped == 1


def test_what_is_no_change_of_a_row() -> None:
    """Schema changes, transactions, truncates, and deletes without a row are dead letters that say what they are."""
    landed = land_json(
        {"source": SOURCE, "databaseName": "shop", "ddl": "CREATE TABLE x", "tableChanges": []},
        {"status": "BEGIN", "id": "571", "event_count": None},
        event("t", None, None),
        event("d", None, None),
        event("u", {"id": 1}, {"id": 1, "big": 12345678901234567890123}),
    )
    assert landed.codes == [(0, "FLOE-D121"), (1, "FLOE-D121"), (2, "FLOE-D122"), (3, "FLOE-D122")]
    assert "schema history" in landed.letters[0].message
    assert "REPLICA IDENTITY" in landed.letters[3].message
    assert landed.rows[0]["big"] == Decimal("12345678901234567890123")


def with_schema(payload: Any, fields: list[dict[str, Any]]) -> bytes:
    row = [{"type": "struct", "optional": True, "field": image, "fields": fields} for image in ("before", "after")]
    source = {
        "type": "struct",
        "field": "source",
        "fields": [{"type": "int64", "field": "ts_ms"}, {"type": "int64", "field": "lsn"}],
    }
    schema = {
        "type": "struct",
        "fields": [*row, source, {"type": "string", "field": "op"}, {"type": "int64", "field": "ts_ms"}],
    }
    return json.dumps({"schema": schema, "payload": payload}).encode()


def named(field: str, kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"field": field, "type": kind, "name": name, "optional": True, "parameters": parameters}


FIELDS = [
    {"field": "id", "type": "int32"},
    named("day", "int32", "io.debezium.time.Date"),
    named("at", "int64", "io.debezium.time.MicroTimestamp"),
    named("ms", "int64", "io.debezium.time.Timestamp"),
    named("nano", "int64", "io.debezium.time.NanoTimestamp"),
    named("zoned", "string", "io.debezium.time.ZonedTimestamp"),
    named("clock", "int64", "io.debezium.time.MicroTime"),
    named("price", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2", **{"connect.decimal.precision": "10"}),
    {"field": "free", "type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "optional": True,
     "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]},
    named("moment", "int64", "org.apache.kafka.connect.data.Timestamp"),
    named("kind", "string", "io.debezium.data.Enum", allowed="a,b"),
    named("uid", "string", "io.debezium.data.Uuid"),
    {"field": "point", "type": "struct", "name": "io.debezium.data.geometry.Point", "optional": True, "fields": [
        {"field": "x", "type": "double"}, {"field": "y", "type": "double"},
        {"field": "wkb", "type": "bytes", "optional": True}, {"field": "srid", "type": "int32", "optional": True}]},
    {"field": "blob", "type": "bytes", "optional": True},
]  # fmt: skip


def b64(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


def test_json_with_schemas_has_its_types() -> None:
    """The schema beside the payload says what every column is; nothing is guessed from values."""
    row = {
        "id": 7, "day": 19_782, "at": 1_709_208_000_000_001, "ms": 1_709_208_000_001, "nano": 1_709_208_000_000_001_000,
        "zoned": "2024-02-29T12:00:00.5+01:00", "clock": 43_200_000_001, "price": b64(-1210),
        "free": {"scale": 3, "value": b64(12345)}, "moment": 1_709_208_000_001, "kind": "a",
        "uid": "00000000-0000-0000-0000-000000000007", "point": {"x": 1.5, "y": 2, "wkb": "/w==", "srid": None}, "blob": "AAE=",
    }  # fmt: skip
    payload = {"before": None, "after": row, "source": {"ts_ms": 5, "lsn": 9}, "op": "r", "ts_ms": 6}
    landed = land(
        records([with_schema(payload, FIELDS), with_schema(payload | {"op": "d", "before": {"id": 7}}, FIELDS)]), JSON
    )
    assert landed.letters == []
    types = landed.types
    assert {name: types[name] for name in ("id", "day", "at", "ms", "nano", "zoned", "clock", "price", "free", "moment")} == {
        "id": "int", "day": "date", "at": "timestamp", "ms": "timestamp", "nano": "timestamp", "zoned": "timestamptz",
        "clock": "time", "price": "decimal(10, 2)", "free": "string", "moment": "timestamptz",
    }  # fmt: skip
    first, deleted = landed.rows
    noon = dt.datetime(2024, 2, 29, 12)
    assert (first["day"], first["at"], first["ms"]) == (
        dt.date(2024, 2, 29),
        noon.replace(microsecond=1),
        noon.replace(microsecond=1000),
    )
    assert (first["nano"], first["zoned"]) == (
        noon.replace(microsecond=1),
        dt.datetime(2024, 2, 29, 11, 0, 0, 500000, UTC),
    )
    assert (first["clock"], first["price"], first["free"]) == (dt.time(12, 0, 0, 1), Decimal("-12.10"), "12.345")
    assert (first["blob"], first["point"]) == (b"\0\1", {"x": 1.5, "y": 2.0, "wkb": b"\xff", "srid": None})
    assert (first["uid"].int, first["__source_lsn"], first["__op"]) == (7, 9, "r")
    assert (deleted["id"], deleted["day"], deleted["__op"]) == (7, None, "d")


@pytest.mark.parametrize(
    ("parameters", "kind", "value"),
    [
        ({"scale": "40"}, "binary", b"09"),
        ({"scale": "2", "connect.decimal.precision": "50"}, "binary", b"09"),
        ({"scale": "10", "connect.decimal.precision": "5"}, "binary", b"09"),
        ({"scale": "2", "connect.decimal.precision": "0"}, "binary", b"09"),
        ({"scale": "-99999999999"}, "binary", b"09"),
        ({"scale": "abc"}, "binary", b"09"),
        ({"scale": "\u0662"}, "binary", b"09"),
        ({"scale": "2", "connect.decimal.precision": "x"}, "binary", b"09"),
        ({"scale": None}, "binary", b"09"),
        ({"scale": "38"}, "decimal(38, 38)", Decimal("12345e-38")),
        ({"scale": "-2"}, "decimal(38, 0)", Decimal(1_234_500)),
    ],
)
def test_decimals_that_iceberg_has_not_are_their_bytes(parameters: dict[str, Any], kind: str, value: object) -> None:
    """A Connect decimal of more than 38 digits, or with parameters that are no numbers, is the unscaled bytes, as in
    Avro; the records around it land."""
    plain = [{"field": "id", "type": "int32"}]
    fields = [*plain, {**named("price", "bytes", "org.apache.kafka.connect.data.Decimal"), "parameters": parameters}]

    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {"before": None, "after": row, "source": {"ts_ms": 5, "lsn": 9}, "op": "r", "ts_ms": 6}

    rows = [({"id": 1}, plain), ({"id": 2, "price": b64(12_345)}, fields), ({"id": 3}, plain)]
    landed = land(records([with_schema(read(row), described) for row, described in rows]), JSON)
    assert landed.letters == []
    assert landed.types["price"] == kind
    assert [row.get("price") for row in landed.rows] == [None, value, None]


def test_bad_records_with_schemas() -> None:
    """A value that its type cannot hold, and a payload with a key twice, cost themselves alone."""

    def payload(price: str) -> dict[str, Any]:
        return {
            "before": None,
            "after": {"id": 1, "price": price},
            "source": {"ts_ms": 5, "lsn": 9},
            "op": "c",
            "ts_ms": 6,
        }

    good = with_schema(payload(b64(100)), FIELDS)
    values = [
        good,
        with_schema(payload(b64(10**12)), FIELDS),
        good.replace(b'"id": 1', b'"id": 1, "id": 2'),
        good[:-1],
        good,
    ]
    landed = land(records(values), JSON)
    assert [row["price"] for row in landed.rows] == [Decimal("1.00")] * 2
    assert [offset for offset, _ in landed.codes] == [1, 2, 3]
    assert [code for _, code in landed.codes][1:] == ["FLOE-D103", "FLOE-D101"]


def test_avro_envelopes() -> None:
    """In Avro the names that Connect gives types say what the columns are."""
    value = record_of(
        {"name": "id", "type": "int"},
        {
            "name": "at",
            "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}],
            "doc": "when",
        },
        name="shop.Value",
    )
    source = record_of({"name": "ts_ms", "type": "long"}, {"name": "file", "type": "string"}, {"name": "pos", "type": "long"},
                       name="io.debezium.connector.mysql.Source")  # fmt: skip
    envelope = record_of(
        {"name": "before", "type": ["null", value]}, {"name": "after", "type": ["null", "shop.Value"]},
        {"name": "source", "type": source}, {"name": "op", "type": "string"}, {"name": "ts_ms", "type": ["null", "long"]},
        name="shop.Envelope",
    )  # fmt: skip
    place = {"ts_ms": 5, "file": "mysql-bin.000003", "pos": 154}
    row = {"id": 1, "at": 1_000_001}
    events = [
        {"before": None, "after": row, "source": place, "op": "c", "ts_ms": 6},
        {"before": row, "after": None, "source": place, "op": "d", "ts_ms": None},
        {"before": None, "after": None, "source": place, "op": "t", "ts_ms": None},
    ]
    data = [framed(1, avro_bytes(envelope, one)) for one in events]
    landed = land(records(data), AVRO, {1: avro_schema(envelope)})
    assert [(r["id"], r["at"], r["__op"], r["__source_file"], r["__source_pos"]) for r in landed.rows] == [
        (1, dt.datetime(1970, 1, 1, 0, 0, 1, 1), "c", "mysql-bin.000003", 154),
        (1, dt.datetime(1970, 1, 1, 0, 0, 1, 1), "d", "mysql-bin.000003", 154),
    ]
    assert landed.schema.find_field("at").doc == "when"
    assert landed.codes == [(2, "FLOE-D122")]


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), st.integers(), st.text(max_size=4)), max_size=4),
    st.sampled_from(["c", "u", "r"]),
    st.booleans(),
)
def test_flat_text_is_the_flat_record(after: dict[str, Any], op: str, spaced: bool) -> None:
    """The text of a row, cut out of its envelope's, says what the parsed envelope does, however it is spaced."""
    envelope = event(op, None, after)
    text = json.dumps(envelope, indent=1 if spaced else None, ensure_ascii=spaced).encode()
    for fields in ((), ("ts_us", "transaction", "source", "source.version")):
        kept = kept_fields(FormatSpec(envelope_fields=fields))
        assert parse_record(flat_text(text, kept)) == flatten_json(parse_record(text), kept)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b'{"op":"c","op":"c","after":{"id":1}}', "FLOE-D103"),
        (b'{"op":"c","after":{"id":1,"id":2}}', "FLOE-D103"),
        (b'{"op":"c","after":{"id":1}} x', "FLOE-D101"),
        (b'{"op":"c","after":{"id":1},}', "FLOE-D101"),
        (b'{"op":"c","after":{"id":"\xff"}}', "FLOE-D104"),
        (b'["op"]', "FLOE-D102"),
        (b'{"op":"c","after":[1]}', "FLOE-D122"),
        (b'{"op":"c","after":{"id":1},"source":{"lsn":1,"lsn":2}}', "FLOE-D103"),
    ],
)
def test_envelopes_that_are_no_json(text: bytes, code: str) -> None:
    """What strict JSON refuses is refused in an envelope too, with the same code."""
    assert land(records([text]), JSON).codes == [(0, code)]


def test_decimals_without_schemas_are_never_guessed() -> None:
    """Debezium writes a decimal as the Base64 of its unscaled bytes, unless it is told otherwise. Text that may be digits
    as well is a dead letter that says what to declare; the declared form is taken, and no other."""
    texts = ["EtY=", "1234", "12.3", "-1", 7]
    events = [event("c", None, {"id": 1, "price": text, "deep": {"paid": text}}) for text in texts]
    data = records([json.dumps(each).encode() for each in events])

    def landed(form: str | None) -> tuple[list[Any], list[tuple[int, str]], list[str]]:
        hints = [FieldHint(path, "decimal(8, 2)", form) for path in ("price", "deep.paid")]
        found = land(data, JSON, hints=hints)
        assert [row["price"] for row in found.rows] == [row["deep"]["paid"] for row in found.rows]
        return [row["price"] for row in found.rows], found.codes, [letter.message for letter in found.letters]

    prices, codes, messages = landed(None)
    assert prices == [Decimal("12.30"), Decimal("-1.00"), Decimal("7.00")]
    assert codes == [(0, "FLOE-D304"), (1, "FLOE-D304")]
    assert "declare `format: digits` or `format: base64`" in messages[1]
    prices, codes, _ = landed("base64")
    assert prices == [Decimal("48.22"), Decimal(int.from_bytes(base64.b64decode("1234"), "big", signed=True)) / 100]
    assert codes == [(2, "FLOE-D304"), (3, "FLOE-D304"), (4, "FLOE-D301")]
    prices, codes, _ = landed("digits")
    assert prices == [Decimal("1234.00"), Decimal("12.30"), Decimal("-1.00"), Decimal("7.00")]
    assert codes == [(0, "FLOE-D304")]


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30))
@settings(max_examples=200, deadline=None)
def test_a_decimal_in_base64_is_the_decimal_that_connect_wrote(value: Decimal) -> None:
    """Any decimal comes back from Connect's bytes for it, with and without bytes of the sign before it."""
    unscaled = int(format(value, ".4f").replace(".", ""))
    texts = [
        base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()
        for length in (unscaled.bit_length() // 8 + 1, 40)
    ]
    events = [json.dumps(event("c", None, {"price": text})).encode() for text in texts]
    found = land(records(events), JSON, hints=[FieldHint("price", "decimal(36, 4)", "base64")])
    assert [row["price"] for row in found.rows] == [value, value]
