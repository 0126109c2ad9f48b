"""What becomes of every kind of JSON value in a column of every Iceberg type: the table behind docs/types.md and its
tests.

Each case: the column's type, its hint (format, zone, unit), the value as it stands in the record, and the result: the
value as Arrow gives it back to Python (a number of the column's unit for dates and times), or the code of the error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID


@dataclass(frozen=True)
class TypeCase:
    type: str
    json: str
    result: object
    format: str | None = None
    zone: str | None = None
    unit: str | None = None

    @property
    def is_error(self) -> bool:
        return isinstance(self.result, str) and self.result.startswith("FLOE-")

    def __str__(self) -> str:
        hint = " ".join(f"{k}={v}" for k, v in vars(self).items() if k in ("format", "zone", "unit") and v)
        return f"{self.type} {hint} {self.json}"[:90]


KIND, RANGE, DIGITS, TEXT, AMBIGUOUS = "FLOE-D301", "FLOE-D302", "FLOE-D303", "FLOE-D304", "FLOE-D308"
INFINITY = float("inf")
U = UUID("2b3c0d5e-0000-4000-8000-0123456789ab")
NOON_US = 1_704_369_600_000_000  # 2024-01-04T12:00:00Z in microseconds

DAY_US = NOON_US - 43_200_000_000
# Forms of ISO 8601 for a moment, and what each of them is in microseconds.
ISO_FORMS: tuple[tuple[str, int | str], ...] = (
    ("2024-01-04T12:00:00.0Z", NOON_US),
    ("2024-01-04T12:00:00.000Z", NOON_US),
    ("2024-01-04T12:00:00.000001Z", NOON_US + 1),
    ("2024-01-04T12:00:00.1Z", NOON_US + 100_000),
    ("2024-01-04T12:00:00,123Z", NOON_US + 123_000),
    ("2024-01-04T12:00:00.123456000Z", NOON_US + 123_456),
    ("2024-01-04T12:00:00.123456789Z", DIGITS),
    ("2024-01-04T12:00Z", NOON_US),
    ("2024-01-04T12Z", NOON_US),
    ("2024-01-04 12:00Z", NOON_US),
    ("2024-01-04 12:00:00 Z", NOON_US),
    ("2024-01-04 12:00:00 +00:00", NOON_US),
    ("2024-01-04T12:00:00+00:00", NOON_US),
    ("2024-01-04T12:00:00-00:00", NOON_US),
    ("2024-01-04T17:30:00+05:30", NOON_US),
    ("2024-01-04T17:45:00+0545", NOON_US),
    ("2024-01-04T02:00:00-10", NOON_US),
    ("2024-01-05T02:00:00+14:00", NOON_US),
    ("2024-01-04T00:00:00-12:00", NOON_US),
    ("2024-01-04T12:00:00+24:00", TEXT),
    ("2024-01-04T12:00:00+01:60", TEXT),
    ("2024-01-03T24:00:00Z", DAY_US),
    ("2024-01-03T24:00:01Z", TEXT),
    ("2024-01-04T25:00:00Z", TEXT),
    ("2024-01-04T12:60:00Z", TEXT),
    ("2024-01-04T12:00:61Z", TEXT),
    ("20240104T120000Z", NOON_US),
    ("20240104T1200Z", NOON_US),
    ("20240104T12+0000", NOON_US),
    ("20240104T120000.5Z", NOON_US + 500_000),
    ("2024004T120000Z", NOON_US),
    ("2024-004T12:00:00Z", NOON_US),
    ("2024-366T00:00:00Z", DAY_US + 362 * 86_400_000_000),
    ("2023-366T00:00:00Z", TEXT),
    ("2024-W01-4T12:00Z", NOON_US),
    ("2024W014T12:00Z", NOON_US),
    ("2020-W53-7T00:00:00Z", 1_609_632_000_000_000),
    ("2021-W53-1T00:00:00Z", TEXT),
    ("2024-02-29T00:00:00Z", DAY_US + 56 * 86_400_000_000),
    ("2023-02-29T00:00:00Z", TEXT),
    ("1969-12-31T23:59:59.999999Z", -1),
    ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
    ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
    ("0001-01-01T00:00:00+00:01", RANGE),
    ("10000-01-01T00:00:00Z", TEXT),
    ("+2024-01-04T12:00:00Z", TEXT),
    ("24-01-04T12:00:00Z", TEXT),
    ("2024-1-4T12:00:00Z", TEXT),
    ("2024-01-04T12:00:00 UTC", TEXT),
    ("2024-01-04T12:00:00[Europe/Berlin]", TEXT),
    ("٢٠٢٤-01-04T12:00:00Z", TEXT),
    (" 2024-01-04T12:00:00Z", TEXT),
    ("2024-01-04T12:00:00Z\n", TEXT),
)

CASES: tuple[TypeCase, ...] = (
    # boolean
    TypeCase("boolean", "true", True),
    TypeCase("boolean", "false", False),
    TypeCase("boolean", "null", None),
    TypeCase("boolean", '"true"', True),
    TypeCase("boolean", '"FALSE"', False),
    TypeCase("boolean", '"yes"', TEXT),
    TypeCase("boolean", "1", KIND),
    TypeCase("boolean", "{}", KIND),
    # int
    TypeCase("int", "2147483647", 2147483647),
    TypeCase("int", "-2147483648", -2147483648),
    TypeCase("int", "2147483648", RANGE),
    TypeCase("int", "-2147483649", RANGE),
    TypeCase("int", "1.0", 1),
    TypeCase("int", "1e3", 1000),
    TypeCase("int", "1.5", DIGITS),
    TypeCase("int", '"12"', 12),
    TypeCase("int", '"twelve"', TEXT),
    TypeCase("int", "true", KIND),
    TypeCase("int", "[1]", KIND),
    # long
    TypeCase("long", "9007199254740993", 9007199254740993),
    TypeCase("long", "9223372036854775807", 9223372036854775807),
    TypeCase("long", "-9223372036854775808", -9223372036854775808),
    TypeCase("long", "9223372036854775808", RANGE),
    TypeCase("long", "123456789012345678901234567890", RANGE),
    TypeCase("long", "9007199254740993.0", 9007199254740993),
    TypeCase("long", "1e400", RANGE),
    TypeCase("long", "1e-400", DIGITS),
    TypeCase("long", "NaN", KIND),
    TypeCase("long", "-0", 0),
    # float
    TypeCase("float", "0.1", 0.10000000149011612),
    TypeCase("float", "16777217", 16777216.0),
    TypeCase("float", "3.4028235e38", 3.4028234663852886e38),
    TypeCase("float", "1e39", RANGE),
    TypeCase("float", "Infinity", INFINITY),
    TypeCase("float", "-Infinity", -INFINITY),
    TypeCase("float", '"1.5"', 1.5),
    TypeCase("float", '"x"', TEXT),
    TypeCase("float", "false", KIND),
    # double
    TypeCase("double", "0.1", 0.1),
    TypeCase("double", "1", 1.0),
    TypeCase("double", "1.7976931348623157e308", 1.7976931348623157e308),
    TypeCase("double", "1e400", RANGE),
    TypeCase("double", "-Infinity", -INFINITY),
    TypeCase("double", '"Infinity"', INFINITY),
    TypeCase("double", '"0x1p3"', TEXT),
    TypeCase("double", "{}", KIND),
    # decimal
    TypeCase("decimal(6, 2)", "1234.56", Decimal("1234.56")),
    TypeCase("decimal(6, 2)", "-9999.99", Decimal("-9999.99")),
    TypeCase("decimal(6, 2)", "10000", RANGE),
    TypeCase("decimal(6, 2)", "1.005", DIGITS),
    TypeCase("decimal(6, 2)", "1.500", Decimal("1.50")),
    TypeCase("decimal(6, 2)", "1e2", Decimal("100.00")),
    TypeCase("decimal(6, 2)", "1e-2", Decimal("0.01")),
    TypeCase("decimal(6, 2)", '"12.3"', Decimal("12.30")),
    TypeCase("decimal(6, 2)", '"1_0"', TEXT),
    TypeCase("decimal(6, 2)", "NaN", KIND),
    TypeCase("decimal(6, 2)", '"EtY="', Decimal("48.22"), format="base64"),
    TypeCase("decimal(6, 2)", '"/w=="', Decimal("-0.01"), format="base64"),
    TypeCase("decimal(6, 2)", '"AAAAAAAAAAAAAAAAAAAAAAAAAAAA1g=="', Decimal("2.14"), format="base64"),
    TypeCase("decimal(6, 2)", '"D0JA"', RANGE, format="base64"),
    TypeCase("decimal(6, 2)", '"1234"', RANGE, format="base64"),
    TypeCase("decimal(6, 2)", '""', TEXT, format="base64"),
    TypeCase("decimal(6, 2)", '"12.3"', TEXT, format="base64"),
    TypeCase("decimal(6, 2)", "12.3", KIND, format="base64"),
    TypeCase("decimal(6, 2)", '"1234"', Decimal("1234.00"), format="digits"),
    TypeCase("decimal(38, 0)", "18446744073709551615", Decimal("18446744073709551615")),
    TypeCase("decimal(38, 18)", "0.1", Decimal("0.100000000000000000")),
    TypeCase("decimal(38, 18)", "12345678901234567890.123456789", Decimal("12345678901234567890.123456789000000000")),
    TypeCase("decimal(38, 18)", "1e30", RANGE),
    TypeCase("decimal(38, 18)", "123456789012345678901234567890", RANGE),
    TypeCase("decimal(38, 37)", "9.5", Decimal("9.5000000000000000000000000000000000000")),
    TypeCase("decimal(38, 37)", "99", RANGE),
    TypeCase("decimal(6, 2)", "9e36", RANGE),
    TypeCase("decimal(6, 2)", "0", Decimal("0.00")),
    # string
    TypeCase("string", '"text"', "text"),
    TypeCase("string", '""', ""),
    TypeCase("string", '"\\u0000\\ud83d\\ude00"', "\0😀"),
    TypeCase("string", "1.10", "1.10"),
    TypeCase("string", "true", "true"),
    TypeCase("string", '{"a": [1, 2.50, "x"]}', '{"a":[1,2.50,"x"]}'),
    # uuid
    TypeCase("uuid", f'"{U}"', U),
    TypeCase("uuid", f'"{str(U).upper()}"', U),
    TypeCase("uuid", f'"{U.hex}"', U),
    TypeCase("uuid", '"2b3c0d5e"', TEXT),
    TypeCase("uuid", '"2b3c0d5e00004-000-8000-0123456789ab"', TEXT),
    TypeCase("uuid", "7", KIND),
    # binary and fixed
    TypeCase("binary", '"AP8="', b"\x00\xff"),
    TypeCase("binary", '""', b""),
    TypeCase("binary", '"AP8"', TEXT),
    TypeCase("binary", '"A P8="', TEXT),
    TypeCase("binary", '"00ff"', b"\x00\xff", format="hex"),
    TypeCase("binary", '"0"', TEXT, format="hex"),
    TypeCase("binary", "1", KIND),
    TypeCase("fixed[2]", '"AP8="', b"\x00\xff"),
    TypeCase("fixed[2]", '"AA=="', RANGE),
    # date
    TypeCase("date", '"2024-02-29"', 19782),
    TypeCase("date", '"1969-12-31"', -1),
    TypeCase("date", '"0001-01-01"', -719162),
    TypeCase("date", '"9999-12-31"', 2932896),
    TypeCase("date", '"20240229"', 19782),
    TypeCase("date", '"2024-060"', 19782),
    TypeCase("date", '"2024-W09-4"', 19782),
    TypeCase("date", '"2023-02-29"', TEXT),
    TypeCase("date", '"2024-02-29T00:00:00"', DIGITS),
    TypeCase("date", '"29.02.2024"', 19782, format="%d.%m.%Y"),
    TypeCase("date", "19782", AMBIGUOUS),
    TypeCase("date", "19782", 19782, unit="d"),
    TypeCase("date", "1709164800000", 19782, unit="ms"),
    TypeCase("date", "1709164800001", DIGITS, unit="ms"),
    TypeCase("date", "true", KIND),
    # time
    TypeCase("time", '"12:00"', 43_200_000_000),
    TypeCase("time", '"23:59:59.999999"', 86_399_999_999),
    TypeCase("time", '"12:00:00.1234567"', DIGITS),
    TypeCase("time", '"12:00:00.1234560"', 43_200_123_456),
    TypeCase("time", '"24:00"', TEXT),
    TypeCase("time", '"12:00Z"', TEXT),
    TypeCase("time", "43200", 43_200_000_000, unit="s"),
    TypeCase("time", "86400", RANGE, unit="s"),
    # timestamp
    TypeCase("timestamp", '"2024-01-04T12:00:00"', NOON_US),
    TypeCase("timestamp", '"2024-01-04 12:00"', NOON_US),
    TypeCase("timestamp", '"2024-01-04T12"', NOON_US),
    TypeCase("timestamp", '"2024-01-04"', NOON_US - 43_200_000_000),
    TypeCase("timestamp", '"20240104T120000"', NOON_US),
    TypeCase("timestamp", '"2024-01-03T24:00:00"', NOON_US - 43_200_000_000),
    TypeCase("timestamp", '"2024-01-04t12:00:00,5"', NOON_US + 500_000),
    TypeCase("timestamp", '"2024-01-04T12:00:00.1234567"', DIGITS),
    TypeCase("timestamp", '"2024-01-04T12:00:60"', TEXT),
    TypeCase("timestamp", '"0000-01-01T00:00:00"', RANGE),
    TypeCase("timestamp", '"2024-01-04T12:00:00Z"', AMBIGUOUS),
    TypeCase("timestamp", '"2024-01-04T12:00:00Z"', NOON_US + 3_600_000_000, zone="Europe/Berlin"),
    TypeCase("timestamp", '"Jan 4, 2024 12:00:00 PM"', NOON_US, format="%b %d, %Y %I:%M:%S %p"),
    TypeCase("timestamp", "1704369600", AMBIGUOUS),
    TypeCase("timestamp", "1704369600", NOON_US, unit="s"),
    TypeCase("timestamp", "1704369600.25", NOON_US + 250_000, unit="s"),
    TypeCase("timestamp", "1704369600000", NOON_US, unit="ms"),
    TypeCase("timestamp", "1704369600000000", NOON_US, unit="us"),
    TypeCase("timestamp", "1704369600000000000", NOON_US, unit="ns"),
    TypeCase("timestamp", "1704369600000000001", DIGITS, unit="ns"),
    TypeCase("timestamp", "1e30", RANGE, unit="s"),
    TypeCase("timestamp", '"1704369600"', NOON_US, unit="s"),
    TypeCase("timestamp", '"+1704369600"', TEXT, unit="s"),
    TypeCase("timestamp", '"1.7e9"', TEXT, unit="s"),
    TypeCase("timestamp", '"20240104"', TEXT, unit="s"),
    TypeCase("timestamp", '"Thu, 04 Jan 2024 12:00:00"', NOON_US, format="%a, %d %b %Y %H:%M:%S"),
    TypeCase("timestamp", '"Fri, 04 Jan 2024 12:00:00"', TEXT, format="%a, %d %b %Y %H:%M:%S"),
    # timestamptz
    TypeCase("timestamptz", '"2024-01-04T12:00:00Z"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04T13:00:00+01:00"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04T13:00:00+0100"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04T13:00:00+01"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04 07:00:00.000-05:00"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04t12:00:00z"', NOON_US),
    TypeCase("timestamptz", '"2024-W01-4T12:00:00Z"', NOON_US),
    TypeCase("timestamptz", '"2024-01-04T12:00:00"', AMBIGUOUS),
    TypeCase("timestamptz", '"2024-01-04 12:00:00"', NOON_US, format="%Y-%m-%d %H:%M:%S", zone="UTC"),
    TypeCase("timestamptz", '"2024-01-04 13:00:00"', NOON_US, zone="Europe/Berlin"),
    TypeCase("timestamptz", '"2024-03-31 02:30:00"', TEXT, zone="Europe/Berlin"),
    TypeCase("timestamptz", '"2024-10-27 02:30:00"', TEXT, zone="Europe/Berlin"),
    TypeCase("timestamptz", '"2024-01-04T12:00:00Z"', NOON_US, zone="Europe/Berlin"),
    TypeCase("timestamptz", '"04/01/2024 12:00 +0000"', NOON_US, format="%d/%m/%Y %H:%M %z"),
    TypeCase("timestamptz", '"2024-13-01T00:00:00Z"', TEXT),
    TypeCase("timestamptz", '"yesterday"', TEXT),
    TypeCase("timestamptz", "1704369600000", NOON_US, unit="ms"),
    TypeCase("timestamptz", "true", KIND),
    *(TypeCase("timestamptz", json.dumps(text, ensure_ascii=False), result) for text, result in ISO_FORMS),
    TypeCase("timestamptz", "253402300799999", 253_402_300_799_999_000, unit="ms"),
    TypeCase("timestamptz", "253402300800000", RANGE, unit="ms"),
    TypeCase("timestamptz", "1704369600000000", RANGE, unit="ms"),
    TypeCase("timestamptz", "-62135596800", -62_135_596_800_000_000, unit="s"),
    TypeCase("timestamptz", "-62135596801", RANGE, unit="s"),
    TypeCase("timestamptz", '"01/Mar/2024:10:12:44 +0100"', 1_709_284_364_000_000, format="%d/%b/%Y:%H:%M:%S %z"),
    TypeCase("timestamptz", '"1/mar/2024:10:12:44 Z"', 1_709_287_964_000_000, format="%d/%b/%Y:%H:%M:%S %z"),
    TypeCase("timestamptz", '"31/Feb/2024:10:12:44 +0100"', TEXT, format="%d/%b/%Y:%H:%M:%S %z"),
    TypeCase("timestamptz", '"01/Mar/2024:10:12:44"', TEXT, format="%d/%b/%Y:%H:%M:%S %z"),
    TypeCase(
        "timestamptz", '"20240301-09:12:44.123456"', 1_709_284_364_123_456, format="%Y%m%d-%H:%M:%S.%f", zone="UTC"
    ),
    TypeCase("timestamptz", '"20240301-09:12:44.1234567"', DIGITS, format="%Y%m%d-%H:%M:%S.%f", zone="UTC"),
    TypeCase(
        "timestamptz", '"20240301-09:12:44.1234560"', 1_709_284_364_123_456, format="%Y%m%d-%H:%M:%S.%f", zone="UTC"
    ),
    TypeCase(
        "timestamptz", '"01.03.2024 09:12:44"', 1_709_280_764_000_000, format="%d.%m.%Y %H:%M:%S", zone="Europe/Berlin"
    ),
    TypeCase("timestamptz", '"31.03.2024 02:30:00"', TEXT, format="%d.%m.%Y %H:%M:%S", zone="Europe/Berlin"),
    TypeCase("date", '"2932896"', TEXT),
    TypeCase("date", "2932896", 2932896, unit="d"),
    TypeCase("date", "2932897", RANGE, unit="d"),
    TypeCase("date", "-719162", -719162, unit="d"),
    TypeCase("date", "-719163", RANGE, unit="d"),
    TypeCase("time", '"09:12 PM"', 76_320_000_000, format="%I:%M %p"),
    TypeCase("time", '"13:12 PM"', TEXT, format="%I:%M %p"),
    TypeCase("time", '"130000"', 46_800_000_000, format="%H%M%S"),
    TypeCase("time", '"13000"', TEXT, format="%H%M%S"),
    TypeCase("time", '"02:19:05.0010000"', 8_345_001_000, format="%H:%M:%S.%f"),
    TypeCase("time", '"02:19:05.0010001"', DIGITS, format="%H:%M:%S.%f"),
    TypeCase("date", '"2024111"', TEXT, format="%Y%m%d"),
    # nanoseconds
    TypeCase("timestamp_ns", '"2024-01-04T12:00:00.123456789"', NOON_US * 1000 + 123_456_789),
    TypeCase("timestamptz_ns", '"2024-01-04T12:00:00.123456789Z"', NOON_US * 1000 + 123_456_789),
    TypeCase("timestamptz_ns", '"3000-01-01T00:00:00Z"', RANGE),
    TypeCase("timestamp_ns", "1704369600000000001", NOON_US * 1000 + 1, unit="ns"),
)
