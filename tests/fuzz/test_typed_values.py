"""Formats that bring their types with them: a value is what its schema's type can hold, or its record is a dead
letter."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from pyiceberg.types import ListType

from framework.config.spec import Envelope, ErrorPolicy, FormatSpec, FormatType
from framework.record.formats.wire import Schemas
from framework.table.schema.types import primitive_type
from testbed.format_samples import avro_bytes, avro_schema, framed, land, record_of, records
from testbed.record_samples import target
from tests.fuzz.oracle import nearest_float


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "int", "logicalType": "date"}, 2_932_896, True),
        ({"type": "int", "logicalType": "date"}, 2_932_897, False),
        ({"type": "int", "logicalType": "date"}, -719_163, False),
        ({"type": "long", "logicalType": "timestamp-millis"}, 253_402_300_800_000, False),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1 << 62, False),
        ({"type": "long", "logicalType": "timestamp-micros"}, 9_223_372_036_825_200_000, False),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, -(1 << 63), False),
        ({"type": "long", "logicalType": "time-micros"}, 86_400_000_000, False),
        ({"type": "array", "items": {"type": "int", "logicalType": "date"}}, [2_932_897], False),
        ({"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}}, {"a": 1 << 62}, False),
        (
            record_of({"name": "x", "type": {"type": "int", "logicalType": "date"}}, name="shop.In"),
            {"x": 1 << 30},
            False,
        ),
    ],
)
def test_avro_beyond_the_calendar(schema: Any, value: Any, fits: bool) -> None:
    """A day or a moment outside of the years 1 to 9999 is a dead letter with a reason, at any depth; its neighbours are
    rows."""
    outer = record_of({"name": "id", "type": "int"}, {"name": "v", "type": ["null", schema]})
    spec = FormatSpec(FormatType.AVRO, registry="main")
    values = [framed(1, avro_bytes(outer, {"id": i, "v": v})) for i, v in enumerate((None, value, None))]
    landed = land(records(values), spec, {1: avro_schema(outer)})
    assert [letter.offset for letter in landed.letters] == ([] if fits else [1])
    assert landed.result.rows["ns.t"].column("id").to_pylist() == ([0, 1, 2] if fits else [0, 2])


OUTER = record_of(
    {"name": "id", "type": ["null", "int"]}, {"name": "v", "type": ["null", {"type": "int", "logicalType": "date"}]}
)
RAW = record_of({"name": "id", "type": ["null", "int"]}, {"name": "v", "type": ["null", "int"]})


@pytest.mark.parametrize("errors", [ErrorPolicy.DEAD_LETTER, ErrorPolicy.DROP])
def test_refused_records_of_typed_formats_shape_nothing(errors: ErrorPolicy) -> None:
    """Where all records of a typed format are refused there is no table; where its table is there, no new column."""
    spec = FormatSpec(FormatType.AVRO, registry="main")
    bad = framed(1, avro_bytes(RAW, {"id": 1, "v": 2_932_897}))
    wider = record_of(*OUTER["fields"], {"name": "new", "type": "int"})
    raw_wider = record_of(*RAW["fields"], {"name": "new", "type": "int"})
    also_bad = framed(2, avro_bytes(raw_wider, {"id": 1, "v": 2_932_897, "new": 1}))
    good = framed(1, avro_bytes(RAW, {"id": 1, "v": 1}))
    schemas: Schemas = {1: avro_schema(OUTER), 2: avro_schema(wider)}
    for values, columns in (([bad], None), ([bad, also_bad], None), ([good, also_bad], ["id", "v"])):
        landed = land(records(values), spec, schemas, errors=errors)
        assert ("ns.t" in landed.tables.targets) is (columns is not None)
        if columns is not None:
            assert [field.name for field in landed.schema.fields] == columns
            assert landed.result.written == 1


def avro_in(column: str, kind: Any, physical: Any, values: list[Any]) -> tuple[list[Any], list[int]]:
    """What values become in a column of this type, and which records are refused."""
    schema, raw = (record_of({"name": "v", "type": each}) for each in (kind, physical))
    data = [framed(1, avro_bytes(raw, {"v": value})) for value in values]
    spec, given = FormatSpec(FormatType.AVRO, registry="main"), (("ns.t", (("v", column),)),)
    landed = land(records(data), spec, {1: avro_schema(schema)}, given=given)
    return [row["v"] for row in landed.rows], [letter.offset for letter in landed.letters]


def test_decimals_are_numbers_of_bytes_and_the_nearest_float() -> None:
    """No bytes are no decimal; a decimal in a float is the nearest one, and all its digits in a text."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 18}
    small = 53_121_890_886_131  # 0.000053121890886131
    values = [b"", small.to_bytes(8, "big", signed=True), (-117).to_bytes(2, "big", signed=True)]
    assert avro_in("decimal(18, 18)", kind, "bytes", values)[1] == [0]
    floats, refused = avro_in("float", kind, "bytes", values)
    assert refused == [0]
    assert floats == [nearest_float(Fraction(small, 10**18)), nearest_float(Fraction(-117, 10**18))]
    assert avro_in("string", kind, "bytes", values)[0] == ["0.000053121890886131", "-0.000000000000000117"]


def test_whole_numbers_in_doubles_are_those_of_json() -> None:
    """A whole number is in a double if it holds it, or is printed as it, in typed formats, too."""
    held, printed, lost = 1 << 53, 1_234_567_890_123_456_800, (1 << 53) + 1
    assert avro_in("double", "long", "long", [held, printed, lost]) == ([float(held), float(printed)], [2])


def test_what_holds_nothing_is_null_in_a_column_of_another_kind() -> None:
    """An empty list of a typed format is null in a column of numbers, as JSON's is; one that holds a value is
    refused."""
    kind = {"type": "array", "items": ["null", "int"]}
    assert avro_in("long", kind, kind, [[], [None], [1]]) == ([None, None], [2])


def test_minus_zero_and_scales_of_connect() -> None:
    """The sign of 0 is kept in columns of floats; a decimal's own scale has a bound."""
    variable = {
        "type": "struct",
        "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
    }
    fields = [
        {"field": "d", "type": "double"},
        {"field": "i", "type": "int32"},
        {**variable, "field": "v", "optional": True},
    ]
    envelope = {
        "type": "struct",
        "fields": [{"field": "after", "type": "struct", "fields": fields}, {"field": "op", "type": "string"}],
    }

    def event(variable: str) -> bytes:
        after = f'{{"d":-0,"i":-0,"v":{variable}}}'
        return f'{{"schema":{json.dumps(envelope)},"payload":{{"after":{after},"op":"c"}}}}'.encode()

    events = [
        event('{"scale":3,"value":"AQ=="}'),
        event('{"scale":2000000000,"value":"AQ=="}'),
        event('{"scale":0,"value":""}'),
    ]
    landed = land(records(events), FormatSpec(envelope=Envelope.DEBEZIUM))
    assert [letter.offset for letter in landed.letters] == [1, 2]
    assert [(str(row["d"]), row["i"], row["v"]) for row in landed.rows] == [("-0.0", 0, "0.001")]


DIGITS = bytes.fromhex("11112222333344445555666677778888")
FIXED_UUID = {"type": "fixed", "name": "shop.U", "size": 16, "logicalType": "uuid"}
TEXT_UUID = {"type": "string", "logicalType": "uuid"}


@pytest.mark.parametrize("column", ["binary", "fixed[16]", "fixed[24]", "decimal(38, 0)", "double", "long", "boolean"])
@pytest.mark.parametrize(
    ("schema", "value"),
    [(FIXED_UUID, DIGITS), (TEXT_UUID, "11112222333344445555666677778888"), (TEXT_UUID, "x" * 36)],
    ids=["fixed", "text", "no UUID"],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_uuid_is_no_number_and_no_base64(schema: Any, value: Any, column: str, nested: bool) -> None:
    """The digits of a UUID are a UUID's, whatever else they could be read as: in a column of another kind it is a dead
    letter."""
    inner = {"type": "array", "items": ["null", schema]} if nested else ["null", schema]
    outer = record_of({"name": "id", "type": "int"}, {"name": "v", "type": inner})
    plain = ["null", {**schema, "logicalType": "none"}]
    raw = record_of(
        {"name": "id", "type": "int"}, {"name": "v", "type": {"type": "array", "items": plain} if nested else plain}
    )
    values = [{"id": 0, "v": [] if nested else None}, {"id": 1, "v": [value] if nested else value}]
    bytes_ = [framed(1, avro_bytes(raw, each)) for each in values]
    known = {
        "ns.t": target(
            "ns.t",
            {"id": "int", "v": ListType(100, primitive_type(column), element_required=False) if nested else column},
        )
    }
    spec = FormatSpec(FormatType.AVRO, registry="main")
    landed = land(records(bytes_), spec, {1: avro_schema(outer)}, known=known)
    assert [letter.offset for letter in landed.letters] == [1]
    assert landed.result.rows["ns.t"].column("id").to_pylist() == [0]


def test_a_uuid_of_16_bytes_is_written_as_people_write_it() -> None:
    """In a column of text a UUID has its dashes, whichever form it came in."""
    outer = record_of({"name": "v", "type": FIXED_UUID})
    plain = record_of({"name": "v", "type": {**FIXED_UUID, "logicalType": "none"}})
    spec = FormatSpec(FormatType.AVRO, registry="main")
    known = {"ns.t": target("ns.t", {"v": "string"})}
    value = framed(1, avro_bytes(plain, {"v": DIGITS}))
    landed = land(records([value]), spec, {1: avro_schema(outer)}, known=known)
    assert landed.result.rows["ns.t"].column("v").to_pylist() == ["11112222-3333-4444-5555-666677778888"]
