"""Values that once came out otherwise than they were sent, in columns and alone."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, MapType, NestedField, StringType

from framework.config.spec import FieldHint
from testbed.record_samples import alone, block, plan, processed, same, target
from tests.fuzz.kinds import Shape
from tests.fuzz.ways import fixed_policy, without_compiled

FIXED = fixed_policy(Shape())

NOT_HELD = {
    "double": [b"1.8e308", b"12e308", b"1" * 310, b"9007199254740993", b"12345678901234567890123", b'"007"', b'"+1"'],
    "decimal(10, 2)": [b"1e-41", b"1e-9999999", b"0.001", b'"007"', b'"1e3"', b'"5."'],
    "decimal(38, 0)": [b"1e-39", b"9" * 39, b'"+49"'],
    "long": [b"1.3e-218", b"1e19", b'"007"', b'"1e3"', b'"12E5"', b'".5"'],
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("kind", NOT_HELD)
@pytest.mark.parametrize("neighbours", [0, 40])
def test_numbers_that_their_column_cannot_hold(kind: str, neighbours: int, compiled: bool) -> None:
    """Such a number is a dead letter, alone and among others, with either parser."""
    values = [b'{"v":%b}' % text for text in NOT_HELD[kind]] + [b'{"v":1}'] * neighbours
    tables = {"ns.t": target(columns={"v": kind}, table_policy=FIXED)}
    made = plan(defaults=FIXED)
    if compiled:
        result = processed(block(values), made, tables)
    else:
        with without_compiled():
            result = processed(block(values), made, tables)
    assert [letter.offset for letter in result.dead_letters] == list(range(len(NOT_HELD[kind])))
    same(result, alone(block(values), made, tables))


def test_entries_of_maps_stay_with_their_records() -> None:
    """Members that one parser leaves to another come back to their own record."""
    schema = Schema(
        NestedField(1, "id", StringType()),
        NestedField(2, "m", MapType(3, StringType(), 4, DecimalType(9, 2), value_required=False), required=False),
    )
    values: Sequence[Any] = [
        b'{"id":"1","m":{"alice":12.500,"bob":2.25}}',
        b'{"id":"2","m":{"carol":9.99,"dave":3.100}}',
    ]
    result = processed(block(values), plan(), {"ns.t": target(schema=schema)})
    assert result.rows["ns.t"].column("m").to_pylist() == [
        [("alice", Decimal("12.50")), ("bob", Decimal("2.25"))],
        [("carol", Decimal("9.99")), ("dave", Decimal("3.10"))],
    ]


@pytest.mark.parametrize(
    ("text", "utc"),
    [("2040-07-01 12:00:00", "2040-07-01T10:00:00"), ("2040-01-01 12:00:00", "2040-01-01T11:00:00"),
     ("1900-07-01 12:00:00", "1900-07-01T11:00:00"), ("2036-07-01 12:00:00", "2036-07-01T10:00:00")],
)  # fmt: skip
def test_zones_at_any_time(text: str, utc: str) -> None:
    """A zone's clock is read by its rule, before and after the changes that are listed for it."""
    hints = [FieldHint("at", "timestamptz", zone="Europe/Berlin")]
    tables = {"ns.t": target(columns={"at": "timestamptz"})}
    result = processed(block([{"at": text}, {"at": "2024-07-01 12:00:00"}]), plan(hints=hints), tables)
    assert result.rows["ns.t"].column("at").to_pylist()[0].replace(tzinfo=None).isoformat() == utc


def test_numbers_with_a_unit_are_not_rounded() -> None:
    """A number of more than 28 digits in a unit is a moment exactly, or a dead letter."""
    hints = [FieldHint("at", "timestamp", unit="s")]
    tables = {"ns.t": target(columns={"at": "timestamp"}, table_policy=FIXED)}
    values = [b'{"at":1704369600.123456000000000000000000000000}', b'{"at":1704369600.1234560000000000000000000000001}']
    result = processed(block(values), plan(hints=hints, defaults=FIXED), tables)
    assert result.rows["ns.t"].column("at").cast("int64").to_pylist() == [1_704_369_600_123_456]
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D303")]


def test_fields_named_like_metadata_columns_are_no_columns() -> None:
    """Such a field of a record changes nothing, whichever way the record takes."""
    tables = {"ns.t": target(columns={"a": "long", "_kafka_offset": "long"})}
    made = plan(metadata=["offset"])
    values = [
        b'{"a":1,"_kafka_offset":"x"}',
        b'{"a":"2","_KAFKA_OFFSET":{}}',
        b'{"a":3.0,"_kafka_offset":[1],"_Kafka_offset":2}',
    ]
    result = processed(block(values), made, tables)
    assert result.rows["ns.t"].to_pylist() == [{"a": i + 1, "_kafka_offset": i} for i in range(3)]
    same(result, alone(block(values), made, tables))
