"""Connect's and Debezium's JSON with a schema: a field is exactly what its schema says, or its record is a dead letter.

In: a seed. Out: a Report of one block of change events, most of them with one odd value. The oracle reads the record by
itself.
"""

from __future__ import annotations

import json
import math
import random
import struct
import traceback
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from framework.config.spec import Envelope, FormatSpec
from testbed.format_samples import land, records
from tests.fuzz.documents import NO_NUMBERS, ODD_JSON, ODD_NUMBERS, ODD_TEXTS, SIZES
from tests.fuzz.kinds import Kind
from tests.fuzz.oracle import exact, nearest_double, nearest_float, same, value_of
from tests.fuzz.report import Landed, Report
from tests.fuzz.strict import Number, Refused, read

CONNECT = FormatSpec(envelope=Envelope.DEBEZIUM)
_TIME = "org.apache.kafka.connect.data."
# type, name, parameters
TYPES: dict[str, tuple[str, str, dict[str, str]]] = {
    **{kind: (kind, "", {}) for kind in ("boolean", "int8", "int16", "int32", "int64", "float", "double", "string")},
    "date": ("int32", _TIME + "Date", {}),
    "time": ("int32", _TIME + "Time", {}),
    "moment_ms": ("int64", _TIME + "Timestamp", {}),
    "moment_us": ("int64", "io.debezium.time.MicroTimestamp", {}),
    "decimal": ("bytes", _TIME + "Decimal", {"scale": "2", "connect.decimal.precision": "12"}),
    "hundreds": ("bytes", _TIME + "Decimal", {"scale": "-2"}),
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
    if kind == "decimal" and isinstance(value, str) and not isinstance(value, Number):
        data = value_of(value, Kind("binary"))
        if not data or abs(int.from_bytes(data, "big", signed=True)) >= 10**12:
            raise Refused("no decimal of the column")
        return Fraction(int.from_bytes(data, "big", signed=True), 100)
    if kind == "hundreds" and isinstance(value, str) and not isinstance(value, Number):
        data = value_of(value, Kind("binary"))
        if not data or abs(int.from_bytes(data, "big", signed=True) * 100) >= 10**38:
            raise Refused("no decimal of the column")
        return Fraction(int.from_bytes(data, "big", signed=True) * 100)
    number = exact(value) if isinstance(value, Number) else None
    if number is None:
        raise Refused("no number")
    if kind == "hundreds":
        if (number / 100).denominator != 1 or abs(number) >= 10**38:
            raise Refused("no decimal of the column")
        return number
    if kind in ("float", "double"):
        found = nearest_float(number) if kind == "float" else nearest_double(number)
        if math.isinf(found):
            raise Refused("beyond the range")
        return -0.0 if found == 0 and str(value).startswith("-") else found
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
    if kind == "hundreds":
        return str(chance.randint(-(10**12), 10**12)) + chance.choice(("", "0", "00", "000"))
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


def check_connect(seed: int, most: int = 1000) -> Report:
    """What became of a block of change events."""
    chance = random.Random(seed)
    names = chance.sample(list(TYPES), chance.choice((1, 3, 5)))
    fields = [
        {"field": n, "type": TYPES[n][0], "name": TYPES[n][1] or None, "parameters": TYPES[n][2], "optional": True}
        for n in names
    ]
    row = {"type": "struct", "fields": fields, "optional": True}
    envelope = {"type": "struct", "fields": [{**row, "field": "after"}, {"field": "op", "type": "string"}]}
    schema, values = json.dumps(envelope), []
    for _ in range(min(most, chance.choice(SIZES))):
        odd = chance.choice((*names, None))
        after = ",".join(f'"{n}":{literal(chance, n) if n == odd or chance.random() < 0.1 else "null"}' for n in names)
        values.append(
            f'{{"schema":{schema},"payload":{{"after":{{{after}}},"op":"c"}}}}'.encode("utf-8", "surrogatepass")
        )
    report = Report(documents=len(values))
    try:
        landed = land(records(values), CONNECT)
        refused = {letter.offset: letter for letter in landed.letters}
        assert all(letter.code != "FLOE-D119" for letter in landed.letters)
        columns = {name: plain(landed.result.rows["ns.t"].column(name)) for name in names} if landed.rows else {}
        assert len(landed.rows) + len(refused) == len(values), "a record is nowhere, or twice"
        schema = landed.schema.model_dump_json()
        report.landed = [Landed("connect", "ns.t", schema, rows) for rows in landed.result.rows.values()]
    except Exception:
        report.uncaught += 1
        report.faults.append(("uncaught connect", seed, traceback.format_exc()))
        return report
    at = 0
    for offset, data in enumerate(values):
        text = data.rpartition(b'"payload"')[2]
        try:
            found_fields = read(data)["payload"]["after"]
            must = {n: None if found_fields[n] is None else expected(n, found_fields[n]) for n in names}
        except Refused:
            must = None
        if offset in refused:
            report.refused["connect"] += 1
            # What a schema's whole number is written as is its own digits: 1.0 may be refused.
            good, reported = must is None or any(mark in text for mark in (b".", b"e", b"E")), refused[offset].code
        else:
            report.rows["connect"] += 1
            found = {name: columns[name][at] for name in names}
            at += 1
            reported = str(found)
            good = must is not None and all(_same(must[name], value) for name, value in found.items())
            for name, value in found.items():
                if value is not None:
                    report.values["connect", _FAMILY.get(name, name)] += 1
        if not good:
            report.wrong += 1
            report.faults.append(
                ("wrong connect", seed, f"{text[:300]!r}\n  must be {must!r:.300}\n  is {reported:.300}")
            )
    return report


_FAMILY = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "moment_ms": "timestamptz",
    "moment_us": "timestamp",
}


def _same(wanted: Any, found: Any) -> bool:
    return same(wanted, Fraction(found) if isinstance(found, Decimal) else found)
