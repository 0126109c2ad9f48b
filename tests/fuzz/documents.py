# ruff: noqa: E501  (tables of literals)
"""Records that nobody in their right mind would send, and others: schemas, and documents for them.

In: a seed. Out: blocks of 1 to 1,000 records with the shape of their table. Most records of a block are plain and a few
are odd, or all are odd: what stands beside a value must not change it. Literals are written by hand or drawn; what they
mean is for `tests.fuzz.oracle` to say.
"""

from __future__ import annotations

import base64
import json
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from uuid import UUID

from tests.fuzz.kinds import Kind, Shape, declared_whole, may_be_declared
from tests.fuzz.oracle import as_json
from tests.fuzz.strict import Number
from tests.real_records import data_sets, records

SIZES = (1, 1, 1, 2, 2, 3, 5, 8, 13, 30, 60, 120, 250, 500, 1000)
ODD_SHARES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.5, 1.0)
NAMES = (
    "a",
    "b",
    "id",
    "value",
    "Id2",
    "é",
    "long name",
    "x" * 40,
    "quote'",
    'dou"ble',
    "back\\slash",
    "",
    "a.b",
    "a.b.c",
)
NAMES = (
    *NAMES,
    "k",
    "v",
    "null",
    "true",
    "1",
    "-",
    "floe.map:",
    "Infinity",
    "NaN",
    "_kafka_key",
    "\u212a",
    "ſ",
    "😀",
    "tab\t",
)
# Names that no column can have in some place, what their columns are called, and what is the same in files.
NAMES = (*NAMES, "_file", "_FILE", "_file_", "_row_id", "_row_id_", "__floe_offset", "__floe_offset_", "_", "_1", "_1_")
NAMES = (*NAMES, "a_x2Eb", "a_x2Eb_", "long_x20name", "long_x20name_", "_x1F600", "_xD83D_xDE00_")
METADATA = ("_kafka_offset", "_KAFKA_OFFSET", "_kafka_timestamp", "_Kafka_Offset")
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "UTC",
    "Etc/UTC",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/St_Johns",
)
ZONES = (
    *ZONES,
    "Africa/Casablanca",
    "Pacific/Apia",
    "Asia/Tehran",
    "America/Sao_Paulo",
    "Africa/Monrovia",
    "Europe/Dublin",
)
FORMATS = ("%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%d%H%M%S", "%d %b %Y %H:%M:%S")
FORMATS = (*FORMATS, "%Y-%m-%dT%H:%M:%S%z", "%m/%d/%Y %I:%M:%S %p", "%a, %d %b %Y %H:%M:%S", "%A %Y%j %H%M")
FORMATS = (*FORMATS, "%d%b%y %H%M%S", "%Y%m%dT%H%M%S.%f", "%d.%m.%y %H:%M")
DATE_FORMATS = ("%d.%m.%Y", "%Y%m%d", "%d%m%y", "%a %d %b %Y", "%Y%j", "%y-%m-%d")
DAYS = ("Mon", "Tue", "Wednesday", "Thu", "Friday", "Sun")
# Behind a second: more digits than columns hold, with zones and without.
DIGITS = (".1234567Z", ".123456789+02:00", ".9999999999", ".0000000001Z", ".1234567 +02:00", ".1234560000000")
# Texts in a column with a unit: counts, dates without their dashes, and what only looks like a number.
COUNTS = (
    '"+1704369600"', '"0001704369600"', '".5"', '"1.7e9"', '"1704369600"', '"1704369600.25"', '"20240104"', '"2024004"', '"20241301"',
    '"2024366"', '"-1"', '"0"', '"-0"', '"19782"', '"1."', '"00"', '"1704369600000"', '" 1704369600"', '"2024-01-04"', '"99991231"',
    '"-9223372036854775808"', "-9223372036854775808", '"-9223372036854775.808"', "-9223372036.854775808", '"202401"', '"2024W011"',
)  # fmt: skip
# Times of databases that are none of Iceberg's: PostgreSQL's infinities and what Debezium makes of them, SQL Server's
# `datetimeoffset`, MySQL's durations.
OF_DATABASES = (
    '"infinity"', '"-infinity"', '"Infinity"', '"-INFINITY"', '"+infinity"', '"infinit"', '" infinity"', '"inf"', "Infinity", "-Infinity",
    "9223372036825200000", "-9223372036832400000", "9223372036825200", "-9223372036832400", "9223372036825200000.0", "92233720368252e5",
    "9223372036825201", "-9223372036832400.5", '"9223372036825200000"', '"-9223372036832400"', '"+294247-01-10T04:00:25.200Z"',
    '"-290308-12-21T19:59:27.600Z"', '"+294247-01-10T04:00:25.200000Z"', '"2024-01-02 03:04:05.1234567 +02:00"', '"2024-01-02 03:04:05 -11:30"',
    '"-838:59:59.000000"', '"838:59:59"', '"34:00:00"', "3020399000000", "-3020399000000", '"294247-01-10T04:00:25.200Z"',
)  # fmt: skip
TIME_FORMATS = ("%H:%M:%S", "%H%M%S", "%I:%M %p", "%H%M", "%I%M%p", "%H:%M:%S.%f")

DIGITS18, DIGITS19 = "123456789012345678", "1234567890123456789"
ODD_NUMBERS = (
    "-0", "-0.0", "0.0", "-0e5", "0e0", "0e20", "0e-20", "-0e-9999999", "0e9999999", "0e99999999999999999999", "0.000",
    "1e0", "1e2", "1E2", "1e+2", "1E-2", "100e-2", "1.5e1", "12.500", "2.50", "3.10", "1.0", "1.00", "1000.000", "1e18", "1e19",
    "9.3e18", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "9223372036854775807.0", "9223372036854775808.0", "922337203685477580.7e1", "18446744073709551615", "18446744073709551616",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "2147483647.0", "2147483647.5", "9007199254740993",
    "9007199254740993.0", "9007199254740992.5", DIGITS18, DIGITS19, DIGITS19 + "0", "0." + DIGITS18, DIGITS18 + ".5",
    "1.8e308", "12e308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e309", "1e400",
    "17976931348623157" + "0" * 292, "1" * 310, "-" + "9" * 310, "1" * 308 + ".0", "0." + "0" * 330 + "1", "1e-323", "1e-324",
    "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400", "1e-41", "1e-39", "1.3e-218", "-1e-41",
    "1e-40", "1e-38", "1e-77", "1e-76", "1e-100", "1e38", "1e37", "1e39", "1e76", "1e77", "1e100", "1e-999", "1e-9999999",
    "1e9999999", "-1e9999999", "1e-99999999999999999999", "1e99999999999999999999", "1e0000000002", "1e-0000000002",
    "100e-0000000000000000002", "3.4028235e38", "3.4028235677973366e38", "3.4028235677973365e38",
    "340282356779733661637539395458142568447.9", "340282356779733661637539395458142568447.99999999999999999999999999999",
    "340282356779733661637539395458142568448", "340282356779733661637539395458142568448.000001",
    "-340282356779733661637539395458142568447.9999999999", "340282356779733661637539395458142560000", "3.5e38", "1e39",
    "1.4e-45", "7.006492321624085e-46", "7.006492321624086e-46", "1e-46", "16777217", "16777217.0000000001", "16777216.9999",
    "1.00000005960464477539062500000000000001", "1.000000059604644775390625", "0.1", "0.30000000000000004", "1e23",
    "8.5e22", "9.5e-23", "1e22", "1e-22", "123456789012345e22", "123456789012345e23", "179769313486231580793e289",
    "99999999999999999999999999999999999999", "100000000000000000000000000000000000000", "9" * 38 + ".0", "9" * 36 + ".99",
    "9" * 37 + ".9", "9" * 29 + "." + "9" * 9, "9" * 28 + ".999999999", "1" * 39, "0.1" + "0" * 40, "0." + "9" * 38, "0." + "1" * 39,
    "1." + "0" * 75, "1." + "0" * 80, "1" + "0" * 75, "9" * 56 + ".5", "9" * 76, "9" * 77, "9" * 76 + ".0", "1" * 100, "1" * 5000,
    "0." + "0" * 5000 + "1", "1." + "0" * 250 + "1", "1e-2147483649", "1e2147483649", "1e4294967297", "1e-4294967296",
    "1e18446744073709551617", "123456789.123456789123456789", "1234567890123456789012.123456789", "1704369600.123456789012345678901234567890",
    "1704369600123456789012345678.5", "NaN", "Infinity", "-Infinity",
)  # fmt: skip
# Whole numbers of which a double loses digits, and others near them; text that is a code, and text that is a number.
WHOLES = (
    "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740994", "18446744073709551615",
    "18446744073709551616", "18446744073709552000", "12345678901234567890123", "1234567890123456789", "1700000000000000001",
    "100000000000000000000", "100000000000000000001", "123456789012345678901234567890", "9" * 20, "9007199254740993.0", "9e18",
)  # fmt: skip
CODES = (
    '"007"', '"-007"', '"00"', '"1e3"', '"1E-2"', '"+49"', '"5."', '".5"', '"12"', '"-12.50"', '"1.0"', '"-0"', '"0"', '"0.10"', '"true"',
    '"9007199254740993"', '"Infinity"', '"NaN"',
)  # fmt: skip
NUMERIC = ("boolean", "int", "long", "float", "double", "decimal")
NO_NUMBERS = (
    "Inf", "-Inf", "-NaN", "+1", "01", "-01", "1.", ".5", "-.5", "1e", "1e+", "0x10", "1_000", "--1", "-", "+Infinity", "nan",
    "infinity", "INF", "1,5", "0b1", "1f", "1d", "1L", "00", "-00", "1.2.3", "1e5.5", "tru", "True", "nul", "undefined", "'a'", "NaNa",
)  # fmt: skip
ODD_TEXTS = (
    '""', r'"\u0000"', r'"a\u0000b"', r'"\ud800"', r'"\udc00"', r'"\ud83d\ude00"', r'"\ude00\ud83d"', r'"\ud83d\u0041"', r'"\uD83D\uDE00"',
    r'"\/"', r'"\""', r'"\\"', r'"\\u0000"', r'"\b\f\n\r\t"', r'"\u00e9"', '"é😀"', '"\x7f"', r'"\x"', r'"\u12"', '"tab\there"', '"\x1f"',
    '"' + "a" * 100 + '"', '"' + "é" * 70 + '"', '"' + "z" * 40000 + '"', '"{"', '"}"', '"[1,2"', '"]"', '"},{"', '"\\"}"', '"null"',
    '"true"', '"FALSE"', '"NaN"', '"Infinity"', '"-Infinity"', '"Inf"', '"1e5"', '"+5"', '"5."', '".5"', '" 1"', '"1 "', '"1\\n"', '"0x1p3"',
    '"٣"', '"１"', '"1e400"', '"-0"', '"007"', '"2024-01-04"', '"2024-01-04T12:00:00Z"', '"12:00"', '"\ufeff"', '"\u2028"', '"floe.map:a"',
)  # fmt: skip
ODD_MOMENTS = (
    "2040-07-01 12:00:00", "2038-01-19 03:14:08", "2037-10-25 02:30:00", "2037-12-31 23:59:59", "2038-03-28 02:30:00", "2038-07-01T00:00:00",
    "2100-07-01 12:00:00", "9999-12-31T23:59:59.999999", "9999-12-31 23:59:59", "0001-01-01 00:00:00", "0001-01-01T00:30:00", "1900-01-01 00:00:00",
    "1800-07-01 12:00:00", "1883-11-18 12:03:58", "1893-04-01 00:00:00", "1916-05-01 00:00:00", "1945-05-24 02:00:00", "1969-12-31 23:59:59.999999",
    "2024-03-31 02:30:00", "2024-03-31 01:59:59", "2024-03-31 03:00:00", "2024-10-27 02:30:00", "2024-10-27 03:00:00", "2024-11-03 01:30:00",
    "2011-12-30 12:00:00", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29T24:00:00", "2024-01-03T24:00:01", "2024-01-04T25:00",
    "2024-01-04T12:60", "2024-01-04T12:00:60", "2016-12-31T23:59:60Z", "2024-01-04", "20240104", "2024004", "2024-004", "2024-366", "2023-366",
    "2024-W01-4", "2020-W53-7", "2021-W53-1", "2024W014", "2024-01-04T12:00:00Z", "2024-01-04T12:00:00.5Z", "2024-01-04T12:00:00,123Z",
    "2024-01-04T12:00:00.123456789Z", "2024-01-04T12:00:00.123456000Z", "2024-01-04T12:00:00.1234567890Z", "2024-01-04T12:00:00.0000000001Z",
    "2024-01-04T17:30:00+05:30", "2024-01-04T12:00:00-00:00", "2024-01-04T12:00:00+24:00", "2024-01-04T12:00:00+01:60", "2024-01-04T12:00:00+14",
    "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59.999999Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z",
    "+2024-01-04", "-0044-03-15", "2024-1-4", "2024-01-04T12:00:00 UTC", "2024-01-04T12:00:00[Europe/Berlin]", " 2024-01-04", "2024-01-04T12:00:00Z ",
    "2024-01-04T12", "2024-01-04 12Z", "2024-01-04t12:00:00z", "1677-09-21T00:12:43.145224193Z", "1677-09-21T00:12:43.145224192Z",
    "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z", "12:00:00", "24:00", "23:59:59.999999", "23:59:59.9999999", "T12:00", "12",
    "1230", "00:00:00.000000000", "", "now", "1704369600", "1e9", "0", "2024-13-01", "2024-00-10", "2024-01-32", "٢٠٢٤-01-04",
)  # fmt: skip
ODD_JSON = (
    "null", "true", "false", "{}", "[]", "[null]", "[[]]", '{"":null}', "[1,\"a\",null,{}]", '{"a":1,"a":2}', '{"a":1,"A":2}', '{"a.b":1,"a":{"b":2}}',
    "[[null],[1]]", '[{"a":1},{"b":"x"}]', '{"a":Inf}', '{"a":-NaN}', "[Inf]", "[1,]", "{,}", "{1:2}", "[1 2]", '{"a" 1}', "[[[[[[1]]]]]]", '{"x":1e-9999999}',
    "[1e9999999]", '[{"k":[{"v":1e-41}]}]',
)  # fmt: skip
DEEP = (20, 60, 98, 99, 100, 101, 130, 600, 990, 1000, 5000, 10_000, 100_000)


def _kind_of(value: object) -> Kind:
    """The column that a value of a real record asks for; without a name where that is nothing simple."""
    if isinstance(value, bool):
        return Kind("boolean")
    if isinstance(value, Number):
        return Kind("double")
    return Kind("string" if isinstance(value, str) else "")


@dataclass(frozen=True)
class Block:
    """Records of one table. `rows` is what `make` drew: the share of odd values, for reports."""

    shape: Shape
    values: list[bytes]
    routed: bool


@dataclass
class Writer:
    """Everything that is drawn comes from one seed."""

    seed: int
    odd: float = 0.0
    near: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        # A stream of its own: what came later changes no block that a seed is known for.
        self.later = random.Random(-1 - self.seed)

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def block(self, most: int = 1000) -> Block:
        """Records of one table; with `routed` a field names the table."""
        chance = self.chance
        if chance.random() < 0.08 and (real := self._real(most)):
            return real
        shape = self.shape()
        share = chance.choice(ODD_SHARES)
        # In some blocks what is odd is nearly right, and stands alone in its record.
        self.near = chance.random() < 0.2
        # Where most are odd each is judged alone by every way: slow, and no other for being many.
        count = min(chance.choice(SIZES), most, 60 if share > 0.1 else most)
        routed = chance.random() < 0.25
        values = []
        for _ in range(count):
            # An odd record has one odd value in the middle, as a rule; in some all are.
            self.odd = chance.choice((0.2, 0.5, 1.0)) if chance.random() < share else 0.0
            values.append(self.document(shape, routed))
        return Block(shape, values, routed)

    def _real(self, most: int) -> Block | None:
        """Consecutive records of a data set of the world, some of them with one odd value; the table is of what they
        hold."""
        chance = self.chance
        held = records(chance.choice(data_sets()))
        count = min(chance.choice(SIZES), most, len(held))
        begin = chance.randint(0, len(held) - count)
        fields = [json.loads(data, parse_float=Number, parse_int=Number) for data in held[begin : begin + count]]
        columns: dict[str, Kind] = {}
        for row in fields:
            for name, value in row.items():
                if value is not None and "." not in name:
                    columns.setdefault(name, _kind_of(value))
        names = self._different([name for name in columns if columns[name].name])
        if not names:
            return None
        shape = Shape({name: columns[name] for name in names}, reads_text=chance.random() < 0.8)
        shape = replace(shape, empty_is_null=chance.random() < 0.5)
        share, values = chance.choice(ODD_SHARES[:5]), []
        for data, row in zip(held[begin:], fields, strict=False):
            self.odd = 0.0
            if chance.random() < share:
                self.odd, name = 1.0, chance.choice(names)
                texts = {n: self.value(shape.columns[n]) if n == name else as_json(v) for n, v in row.items()}
                data = ("{" + ",".join(f"{self.key(n)}:{text}" for n, text in texts.items()) + "}").encode(
                    "utf-8", "surrogatepass"
                )
            values.append(data)
        return Block(shape, values, routed=False)

    def document(self, shape: Shape, routed: bool = False) -> bytes:
        chance, odd = self.chance, self.odd
        fields = [(name, self.value(kind)) for name, kind in shape.columns.items() if chance.random() < 0.9]
        if routed:
            fields.append(("r", json.dumps(chance.choice("xyz"))))
        if odd and not self.near and chance.random() < 0.5:
            fields.append(self._odd_field(shape))
        if odd or chance.random() < 0.1:
            chance.shuffle(fields)
        text = "{" + ",".join(f"{self.key(name)}:{value}" for name, value in fields) + "}"
        if odd and chance.random() < 0.05:
            return self._broken(text.encode("utf-8", "surrogatepass"))
        if odd and chance.random() < 0.03:
            return self._framed(text).encode("utf-8", "surrogatepass")
        return text.encode("utf-8", "surrogatepass")

    def _odd_field(self, shape: Shape) -> tuple[str, str]:
        """A field beside the columns: unknown, another spelling, a name twice, one of floe's own."""
        chance, known = self.chance, list(shape.columns)
        what = chance.random()
        if what < 0.15 and known:
            name = chance.choice(known)
            return chance.choice((name, name.upper(), name.title(), name.swapcase())), self.value(shape.columns[name])
        if what < 0.35:
            return chance.choice(METADATA), self.anything(1)
        if what < 0.4:
            return "deep", self._deep()
        return chance.choice(NAMES), self.anything(2)

    def _deep(self) -> str:
        depth = self.chance.choice(DEEP if self.chance.random() < 0.1 else DEEP[:8])
        opening, closing = self.chance.choice((("[", "]"), ('{"a":', "}"), ('[{"b":', "}]"), ('{"c":[', "]}")))
        depth //= len(closing)
        middle = self.chance.choice(("", "1", '"x"')) if opening == "[" else self.chance.choice(("null", "1", '"x"'))
        return opening * depth + middle + closing * depth

    def _broken(self, record: bytes) -> bytes:
        wrong = bytearray(record)
        for _ in range(self.chance.randint(1, 2)):
            at = self.chance.randint(0, len(wrong))
            piece = self.chance.choice(
                (b"", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\xed\xa0\x80", b"\n", b"e9")
            )
            wrong[at : at + self.chance.randint(0, 2)] = piece
        return bytes(wrong)

    def _framed(self, text: str) -> str:
        return self.chance.choice(
            (
                f" {text} ",
                f"\n{text}\n",
                f"{text}{text}",
                f"[{text}]",
                f"{text},",
                f"\ufeff{text}",
                text + "\n{}",
                text[:-1],
                "null",
                "1",
                "",
                " ",
            )
        )

    # ---- shapes ------------------------------------------------------------------------------------------------------

    def shape(self) -> Shape:
        """One to six columns."""
        chance = self.chance
        names = chance.sample(NAMES, chance.choice((1, 1, 2, 3, 4, 6)))
        names = self._different([name for name in names if "." not in name]) or ["a"]
        # Nobody can declare a field inside of one without a name.
        columns = {name: self.kind(2 if name else 0) for name in names}
        needed = frozenset(name for name in names if chance.random() < 0.05)
        share = chance.choice((0.0, 0.0, 0.5, 1.0, 1.0))
        whole = {name for name in names if name.strip() and may_be_declared(columns[name]) and chance.random() < share}
        columns |= {name: declared_whole(columns[name]) for name in whole}
        shape = Shape(columns, needed, reads_text=chance.random() < 0.8, whole=frozenset(whole))
        return replace(shape, empty_is_null=shape.may_take_empty_as_null and chance.random() < 0.5)

    @staticmethod
    def _different(names: list[str]) -> list[str]:
        return list({name.lower(): name for name in names}.values())

    def kind(self, depth: int) -> Kind:
        chance = self.chance
        what = chance.random()
        if depth and what < 0.1:
            return Kind("list", (self.kind(depth - 1),), needed=self._needed("element"))
        if depth and what < 0.25:
            key = (
                Kind("string")
                if chance.random() < 0.85
                else Kind(chance.choice(("long", "int", "date", "boolean", "decimal(9, 2)")))
            )
            return Kind("map", (key, self.kind(depth - 1)), needed=self._needed("value"))
        if depth and what < 0.35:
            names = tuple(self._different(chance.sample([n for n in NAMES if "." not in n], chance.randint(1, 3))))
            return Kind(
                "struct", tuple(self.kind(depth - 1 if name else 0) for name in names), names, self._needed(*names)
            )
        name = chance.choice(tuple(self._literals))
        if name == "decimal":
            precision = chance.choice((1, 5, 9, 10, 18, 19, 28, 29, 37, 38))
            return Kind(f"decimal({precision}, {chance.choice((0, 0, min(2, precision), precision // 2, precision))})")
        if name == "fixed":
            return Kind(f"fixed[{chance.choice((1, 4, 16))}]", format=chance.choice((None, None, "hex")))
        if name == "binary":
            return Kind("binary", format=chance.choice((None, None, "hex")))
        return self._declared(Kind(name))

    def _needed(self, *names: str) -> frozenset[str]:
        return frozenset(name for name in names if self.chance.random() < 0.1)

    def _declared(self, kind: Kind) -> Kind:
        chance = self.chance
        if kind.name.startswith("timestamp") or kind.name in ("date", "time"):
            kind = replace(kind, cuts=chance.random() < 0.25)
            kind = replace(kind, ends=kind.name == "time" or self.later.random() < 0.75)
        if kind.name.startswith("timestamp"):
            kind = replace(
                kind,
                zone=chance.choice((None, *ZONES))
                if kind.name.startswith("timestamptz") or chance.random() < 0.3
                else None,
            )
            way = chance.random()
            if way < 0.3:
                return replace(kind, unit=chance.choice(("s", "ms", "us", "ns", "d")))
            return replace(kind, format=chance.choice(FORMATS)) if way < 0.5 else kind
        if kind.name == "double":
            return replace(kind, declared=chance.random() < 0.3)
        if kind.name == "date":
            way = chance.random()
            if way < 0.2:
                return replace(kind, unit=chance.choice(("d", "s", "ms")))
            return replace(kind, format=chance.choice((*DATE_FORMATS, "%m/%d/%Y", "%d %b %Y"))) if way < 0.4 else kind
        if kind.name == "time":
            way = chance.random()
            if way < 0.2:
                return replace(kind, unit=chance.choice(("s", "ms", "us", "ns")))
            return replace(kind, format=chance.choice((*TIME_FORMATS, "%H.%M"))) if way < 0.4 else kind
        return kind

    # ---- values ------------------------------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        if name.endswith("_") and self.chance.random() < 0.5:
            name = name[:-1]  # what records have in a column that is called otherwise, as nothing can be called so
        if self.odd and self.chance.random() < 0.05 and name:
            return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in name) + '"'
        return json.dumps(name, ensure_ascii=False)

    def value(self, kind: Kind) -> str:
        """A value for a column, as it stands in the record."""
        chance = self.chance
        if chance.random() < 0.06:
            return "null"
        is_odd = self.odd and chance.random() < self.odd
        if is_odd and not self.near and chance.random() < 0.15:
            return self.anything(1)
        if is_odd and chance.random() < (0.3 if self.near else 0.1):
            return chance.choice(("[]", "{}"))
        if is_odd and kind.family in NUMERIC and chance.random() < (0.9 if self.near else 0.2):
            return chance.choice(WHOLES if kind.family in ("double", "long") and chance.random() < 0.7 else CODES)
        if kind.name == "list":
            return "[" + ",".join(self.value(kind.inner[0]) for _ in range(chance.choice((0, 1, 2, 3)))) + "]"
        if kind.name == "struct":
            fields = [(n, self.value(k)) for n, k in zip(kind.names, kind.inner, strict=True) if chance.random() < 0.9]
            if is_odd and chance.random() < 0.3:
                fields.append((chance.choice((*NAMES, *kind.names)), self.anything(1)))
            return "{" + ",".join(f"{self.key(n)}:{v}" for n, v in fields) + "}"
        if kind.name == "map":
            return self._map(kind, bool(is_odd))
        text = self._literals[kind.family](kind, bool(is_odd))
        if chance.random() < 0.02:
            text = f" {text}\t"
        return text

    def _map(self, kind: Kind, is_odd: bool) -> str:
        chance = self.chance
        count = chance.choice((0, 1, 1, 2, 3, 20 if chance.random() < 0.1 else 2))
        if kind.inner[0].name == "string":
            keys = [
                chance.choice(NAMES)
                if is_odd
                else chance.choice(("alice", "bob", "carol", "dave", f"k{chance.randint(0, 99)}"))
                for _ in range(count)
            ]
        else:
            drawn = [self._literals[kind.inner[0].family](kind.inner[0], False) for _ in range(count)]
            keys = [text[1:-1] if text[:1] == '"' else text for text in drawn]
        if not is_odd:
            keys = list(dict.fromkeys(keys))
        gap = chance.choice(("", "", " "))
        written = (f"{self.key(key)}{gap}:{gap}{self.value(kind.inner[1])}" for key in keys)
        return "{" + gap + ",".join(written) + gap + "}"

    def anything(self, depth: int) -> str:
        chance = self.chance
        what = chance.random()
        if depth and what < 0.1:
            return "[" + ",".join(self.anything(depth - 1) for _ in range(chance.randint(0, 3))) + "]"
        if depth and what < 0.2:
            return (
                "{"
                + ",".join(
                    f"{self.key(chance.choice(NAMES))}:{self.anything(depth - 1)}" for _ in range(chance.randint(0, 3))
                )
                + "}"
            )
        if what < 0.23:
            return self._deep()
        if what < 0.27:
            return chance.choice(NO_NUMBERS)
        if what < 0.45:
            return chance.choice(ODD_JSON)
        if what < 0.7:
            return chance.choice(ODD_NUMBERS)
        return chance.choice(ODD_TEXTS)

    @cached_property
    def _literals(self) -> dict[str, Callable[[Kind, bool], str]]:
        return {
            "boolean": self._boolean, "int": self._whole, "long": self._whole, "float": self._floating, "double": self._floating,
            "decimal": self._decimal, "string": self._string, "uuid": self._uuid, "binary": self._binary, "fixed": self._binary,
            "date": self._date, "time": self._time, "timestamp": self._moment, "timestamptz": self._moment,
            "timestamp_ns": self._moment, "timestamptz_ns": self._moment,
        }  # fmt: skip

    def _quoted(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False) if self.chance.random() < 0.1 else text

    def _odd_number(self) -> str:
        chance = self.chance
        if chance.random() < 0.7:
            found = chance.choice(ODD_NUMBERS)
        else:
            whole = str(chance.randint(0, 10 ** chance.randint(0, 40)))
            found = chance.choice(("", "-")) + whole
            if chance.random() < 0.6:
                found += (
                    "."
                    + "".join(chance.choices("0123456789", k=chance.randint(1, 30)))
                    + "0" * chance.choice((0, 0, 3))
                )
            if chance.random() < 0.5:
                found += (
                    chance.choice("eE")
                    + chance.choice(("", "+", "-"))
                    + str(chance.randint(0, 10 ** chance.randint(0, 4)))
                )
        return found if chance.random() < 0.8 else json.dumps(found)

    def _boolean(self, kind: Kind, is_odd: bool) -> str:
        return (
            self.chance.choice(('"true"', '"False"', "1", '"yes"', "null"))
            if is_odd
            else self.chance.choice(("true", "false"))
        )

    def _whole(self, kind: Kind, is_odd: bool) -> str:
        if is_odd and self.later.random() < 0.05:
            return self.later.choice(OF_DATABASES)
        if is_odd:
            return self._odd_number()
        bits = self.chance.randint(1, 31 if kind.name == "int" else 63)
        return str(self.chance.randint(-(1 << bits), (1 << bits) - 1))

    def _floating(self, kind: Kind, is_odd: bool) -> str:
        if is_odd:
            return self._odd_number()
        if self.chance.random() < 0.3:
            return str(round(self.chance.uniform(-1000, 1000), 2))
        drawn = repr(struct.unpack("d", self.chance.randbytes(8))[0])
        return "0.5" if drawn in ("nan", "inf", "-inf") else drawn

    def _decimal(self, kind: Kind, is_odd: bool) -> str:
        if is_odd:
            return self._odd_number()
        precision, scale = kind.size()
        digits = str(self.chance.randint(0, 10 ** self.chance.randint(0, precision) - 1)).rjust(scale + 1, "0")
        cut = len(digits) - scale
        behind = digits[cut:][: self.chance.choice((scale, scale, scale // 2))] if scale else ""
        return self.chance.choice(("", "-")) + digits[:cut] + ("." + behind if behind else "")

    def _string(self, kind: Kind, is_odd: bool) -> str:
        if is_odd:
            return self.chance.choice(ODD_TEXTS) if self.chance.random() < 0.7 else self.anything(1)
        words = ("plain", "two words", "é", "", "x" * 30, "order-17", "10115 Berlin", "a,b", "line\nend")
        return json.dumps(self.chance.choice(words), ensure_ascii=False)

    def _uuid(self, kind: Kind, is_odd: bool) -> str:
        text = str(UUID(bytes=self.chance.randbytes(16)))
        if is_odd:
            dash = text.replace("-", "")
            text = self.chance.choice(
                (
                    dash,
                    text.upper(),
                    text[:-1],
                    text + "0",
                    text.replace("-", "_"),
                    dash[:4] + "-" + dash[4:],
                    "{" + text + "}",
                    dash[:8] + "-" + dash[8:],
                )
            )
        return f'"{text}"'

    def _binary(self, kind: Kind, is_odd: bool) -> str:
        length = kind.size()[0] if kind.family == "fixed" else self.chance.randint(0, 9)
        data = self.chance.randbytes(length + (self.chance.choice((-1, 1, 0)) if is_odd and length else 0))
        text = data.hex() if kind.format == "hex" else base64.b64encode(data).decode()
        if is_odd and self.chance.random() < 0.6:
            text = self.chance.choice(
                (
                    text.rstrip("="),
                    text + "=",
                    " " + text,
                    text + "\\n",
                    text.replace("A", "-"),
                    text[:-1],
                    text + "é",
                    text.upper(),
                )
            )
        return f'"{text}"'

    def _drawn_moment(self) -> datetime:
        chance = self.chance
        year = chance.choice((1970, 2000, 2024, 2024, 2025, chance.randint(1950, 2060), chance.randint(1, 9999)))
        moment = datetime(year, 1, 1) + timedelta(seconds=chance.randint(0, 366 * 86_400 - 1) if year < 9999 else 0)
        return moment.replace(microsecond=chance.choice((0, 0, 500_000, 123_456, 1)))

    def _odd_moment(self, kind: Kind) -> str:
        chance = self.chance
        if self.later.random() < 0.15:
            return self.later.choice(OF_DATABASES)
        if kind.unit and chance.random() < 0.6:
            return chance.choice(COUNTS) if chance.random() < 0.3 else self._odd_number()
        if kind.cuts and chance.random() < 0.3:
            return json.dumps(self._drawn_moment().isoformat() + chance.choice(DIGITS))
        if kind.format and chance.random() < 0.7:
            return json.dumps(self._nearly_in_format(self._in_format(self._drawn_moment(), kind.format)))
        return json.dumps(self.chance.choice(ODD_MOMENTS), ensure_ascii=False)

    def _moment(self, kind: Kind, is_odd: bool) -> str:
        if not kind.ends and self.later.random() < 0.1:
            return self.later.choice(OF_DATABASES)
        chance = self.chance
        if is_odd:
            return self._odd_moment(kind)
        moment = self._drawn_moment()
        if kind.unit:
            seconds = int((moment - datetime(1970, 1, 1)).total_seconds())
            if kind.unit == "d":
                return str(seconds // 86_400)
            power = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
            text = str(seconds) + "0" * power
            return text + chance.choice(("", "", "", ".5", ".125", ".000001"))
        if kind.format:
            return json.dumps(self._in_format(moment, kind.format))
        text = moment.isoformat(sep=chance.choice("T "))
        if kind.name.startswith("timestamptz") and (kind.zone is None or chance.random() < 0.2):
            text += chance.choice(("Z", "+00:00", "+05:30", "-0800"))
        return json.dumps(text)

    def _nearly_in_format(self, text: str) -> str:
        """A digit missing or too many, another word, other marks between."""
        chance, at = self.chance, self.chance.randrange(len(text))
        what = chance.randrange(6)
        if what == 0:
            return text[:at] + text[at + 1 :]
        if what == 1:
            return re.sub(r"(?<![0-9])0(?=[0-9])", "", text)
        if what == 2:
            return re.sub("[A-Z][a-z]{2,}", lambda _: chance.choice((*DAYS, "Xyz", "Smarch")), text, count=1)
        if what == 3:
            return text[:at] + chance.choice("0123456789 :.-TZ+") + text[at:]
        if what == 4:
            return chance.choice((text.lower(), text.upper(), f" {text}", f"{text} ", text.replace(" ", "  ")))
        return re.sub("[0-9]{2}", lambda _: chance.choice(("00", "13", "24", "59", "60", "31")), text, count=1)

    @staticmethod
    def _in_format(moment: datetime, pattern: str) -> str:
        """strftime, which writes years before 1000 as it likes."""
        text = moment.strftime(pattern.replace("%Y", "<Y>").replace("%z", "+0100"))
        return text.replace("<Y>", f"{moment.year:04d}")

    def _date(self, kind: Kind, is_odd: bool) -> str:
        if not kind.ends and self.later.random() < 0.1:
            return self.later.choice(OF_DATABASES)
        if is_odd:
            return self._odd_moment(kind)
        moment = self._drawn_moment()
        if kind.unit:
            days = (moment - datetime(1970, 1, 1)).days
            return str(days * {"d": 1, "s": 86_400, "ms": 86_400_000}[kind.unit])
        return json.dumps(self._in_format(moment, kind.format or "%Y-%m-%d"))

    def _time(self, kind: Kind, is_odd: bool) -> str:
        if is_odd:
            return self._odd_moment(kind)
        moment = self._drawn_moment()
        if kind.unit:
            midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
            return str(int((moment - midnight).total_seconds())) + "0" * {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        return json.dumps(self._in_format(moment, kind.format) if kind.format else moment.time().isoformat())
