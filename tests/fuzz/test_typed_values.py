"""Formats that bring their types with them: a value is what its schema's type can hold, or its record is a dead letter."""

from __future__ import annotations

import json
import math
import random
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from framework.config.spec import Envelope, ErrorPolicy, FormatSpec, FormatType
from tests.format_samples import avro_bytes, avro_schema, framed, land, record_of, records
from tests.fuzz.documents import NO_NUMBERS, ODD_JSON, ODD_NUMBERS, ODD_TEXTS
from tests.fuzz.oracle import exact, nearest_double, nearest_float
from tests.fuzz.strict import Number, Refused, read

CONNECT = FormatSpec(envelope=Envelope.DEBEZIUM)
BLOCKS, RECORDS = 60, 40
_TIME = "org.apache.kafka.connect.data."
# type, name, parameters
TYPES: dict[str, tuple[str, str, dict[str, str]]] = {
    **{kind: (kind, "", {}) for kind in ("boolean", "int8", "int16", "int32", "int64", "float", "double", "string")},
    "date": ("int32", _TIME + "Date", {}),
    "time": ("int32", _TIME + "Time", {}),
    "moment_ms": ("int64", _TIME + "Timestamp", {}),
    "moment_us": ("int64", "io.debezium.time.MicroTimestamp", {}),
    "decimal": ("bytes", _TIME + "Decimal", {"scale": "2", "connect.decimal.precision": "12"}),
}  # fmt: skip
DAYS = (-719_162, 2_932_896)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TOKENS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def expected(kind: str, value: Any) -> Any:
    """The value that must be in the column, in its units. Raises Refused."""
    if kind == "boolean":
        if not isinstance(value, bool):
            raise Refused("no boolean")
        return value
    if kind == "string":
        if not isinstance(value, str) or isinstance(value, Number):
            raise Refused("no text")
        return value
    if kind in ("float", "double") and isinstance(value, str) and value in _TOKENS:
        return _TOKENS[value]
    number = exact(value) if isinstance(value, Number) else None
    if number is None:
        raise Refused("no number")
    if kind in ("float", "double"):
        found = nearest_float(number) if kind == "float" else nearest_double(number)
        if math.isinf(found):
            raise Refused("beyond the range")
        return found
    if kind == "decimal":
        if (number * 100).denominator != 1 or abs(number * 100) >= 10**12:
            raise Refused("no decimal of the column")
        return number
    if number.denominator != 1:
        raise Refused("no whole number")
    whole = int(number)
    day_us = 86_400 * 10**6
    scale = {"moment_ms": 1000, "time": 1000}.get(kind, 1)
    low, high = {
        "date": DAYS, "time": (0, 86_399_999), "moment_ms": (DAYS[0] * day_us // 1000, (DAYS[1] + 1) * day_us // 1000 - 1),
        "moment_us": (DAYS[0] * day_us, (DAYS[1] + 1) * day_us - 1),
    }.get(kind) or (-(1 << _BITS[kind] - 1), (1 << _BITS[kind] - 1) - 1)  # fmt: skip
    if not low <= whole <= high:
        raise Refused("out of range")
    return whole * scale


def literal(chance: random.Random, kind: str) -> str:
    """What a producer might write for a field."""
    what = chance.random()
    if what < 0.08:
        return chance.choice(ODD_JSON)
    if what < 0.14:
        return chance.choice(ODD_TEXTS)
    if what < 0.17:
        return chance.choice(NO_NUMBERS)
    if what < 0.5:
        return chance.choice((*ODD_NUMBERS, "127", "128", "-128", "-129", "32767", "32768", "1.5", "true", "2932896", "2932897",
                              "-719162", "-719163", "86399999", "86400000", "253402300799999", "253402300800000",
                              "9223372036825200000"))  # fmt: skip
    if kind in ("float", "double"):
        drawn = repr(struct.unpack("d", chance.randbytes(8))[0])
        return drawn if drawn not in ("nan", "inf", "-inf") else "0.1"
    if kind == "decimal":
        return str(Decimal(chance.randint(-(10**12), 10**12)).scaleb(-chance.randint(0, 3)))
    if kind == "boolean":
        return chance.choice(("true", "false"))
    return (
        '"plain"'
        if kind == "string"
        else str(chance.randint(-(1 << chance.randint(0, 63)), 1 << chance.randint(0, 63)))
    )


def plain(array: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return array.cast(pa.int32()).to_pylist() if pa.types.is_date32(array.type) else array.to_pylist()


@pytest.mark.parametrize("seed", range(BLOCKS))
def test_connect_json_with_a_schema(seed: int) -> None:
    """A field of Connect's JSON is exactly what its schema says, or the record is a dead letter; so are its neighbours."""
    chance = random.Random(seed)
    names = chance.sample(list(TYPES), 3)
    fields = [
        {
            "field": name,
            "type": TYPES[name][0],
            "name": TYPES[name][1] or None,
            "parameters": TYPES[name][2],
            "optional": True,
        }
        for name in names
    ]
    row = {"type": "struct", "fields": fields, "optional": True}
    envelope = {"type": "struct", "fields": [{**row, "field": "after"}, {"field": "op", "type": "string"}]}
    values = []
    for _ in range(RECORDS):
        # One odd value at most, as a rule.
        odd = chance.choice((*names, None))
        after = ",".join(f'"{n}":{literal(chance, n) if n == odd or chance.random() < 0.1 else "null"}' for n in names)
        values.append(f'{{"schema":{json.dumps(envelope)},"payload":{{"after":{{{after}}},"op":"c"}}}}'.encode())
    landed = land(records(values), CONNECT)
    refused = {letter.offset for letter in landed.letters}
    kept = iter(range(len(values)))
    columns = {name: plain(landed.result.rows["ns.t"].column(name)) for name in names} if landed.rows else {}
    at = 0
    for offset in kept:
        try:
            fields_of = read(values[offset])["payload"]["after"]
            must = {n: None if fields_of[n] is None else expected(n, fields_of[n]) for n in names}
        except Refused:
            must = None
        if offset in refused:
            # What a schema's whole number is written as is its own digits: 1.0 may be refused.
            text = values[offset].rpartition(b'"payload"')[2]
            assert must is None or any(mark in text for mark in (b".", b"e", b"E")), text
            continue
        assert must is not None, values[offset][-200:]
        for name in names:
            found = columns[name][at]
            found = Fraction(found) if isinstance(found, Decimal) else found
            same = found == must[name] or (found != found and must[name] != must[name])
            assert same, (name, found, must[name], values[offset][-200:])
            assert isinstance(found, bool) == isinstance(must[name], bool), (name, found)
        at += 1
    assert at + len(refused) == len(values)


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
    """A day or a moment outside of the years 1 to 9999 is a dead letter with a reason, at any depth; its neighbours are rows."""
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
    schemas = {1: avro_schema(OUTER), 2: avro_schema(wider)}
    for values, columns in (([bad], None), ([bad, also_bad], None), ([good, also_bad], ["id", "v"])):
        landed = land(records(values), spec, schemas, errors=errors)
        assert ("ns.t" in landed.tables.targets) is (columns is not None)
        if columns is not None:
            assert [field.name for field in landed.schema.fields] == columns
            assert landed.result.written == 1
