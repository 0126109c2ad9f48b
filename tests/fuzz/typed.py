"""Formats that bring their types with them: Avro and protobuf, encoded by their own libraries from values that the
oracle knows.

In: a seed. Out: a Report: each record is the row that its values make in the columns, or a dead letter. Tables are made
of the schema, or are there with columns of other types; a block may hold records of two writers' schemas. Avro is
encoded by the schema without its logical types, so that counts and digits come that no honest producer sends.
"""

from __future__ import annotations

import math
import random
import struct
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from framework.config.spec import EmptyValues, EvolveMode, FormatSpec, FormatType, TextAsNumber, ValuesPolicy
from framework.record.formats.wire import Schemas
from framework.record.model import BlockResult, TableTarget
from testbed.format_samples import avro_bytes, avro_schema, framed, land, proto_schema, records
from testbed.record_samples import policy, target
from tests.fuzz.documents import ODD_MOMENTS, ODD_SHARES, SIZES
from tests.fuzz.kinds import Kind, Shape
from tests.fuzz.oracle import May, Pairs, may_be_refused, nearest_double, nearest_float, same, value_of
from tests.fuzz.report import Landed, Report, plain_values
from tests.fuzz.strict import Number, Refused

DAY_US = 86_400 * 10**6
_FIRST = (date(1, 1, 1) - date(1970, 1, 1)).days
_LAST = (date(9999, 12, 31) - date(1970, 1, 1)).days
NUMERIC = ("boolean", "int", "long", "float", "double", "decimal")
TEXTS = (
    "plain",
    "",
    "é😀",
    "12",
    "007",
    "1e3",
    "-1.50",
    "true",
    "NaN",
    "2024-01-04",
    "[]",
    "\0",
    "9007199254740993",
    "1.5",
)


def calendar(days: int) -> None:
    if not _FIRST <= days <= _LAST:
        raise Refused("beyond the calendar")


@dataclass(frozen=True)
class Source:
    """A type of a schema: as written, as encoded, the column that a new table has for it, and what draws a value: what
    is encoded and what must be in that column, or Refused."""

    schema: Any
    physical: Any
    kind: Kind
    draw: Callable[[random.Random, bool], tuple[Any, Any]]


# ---- Avro
# --------------------------------------------------------------------------------------------------------------


def whole(chance: random.Random, bits: int) -> int:
    drawn = chance.randint(-(1 << chance.randint(0, bits - 1)), (1 << chance.randint(0, bits - 1)) - 1)
    return chance.choice((drawn, drawn, drawn, 0, -(1 << bits - 1), (1 << bits - 1) - 1))


def floating(chance: random.Random, single: bool) -> float:
    drawn = chance.choice(
        (chance.uniform(-1000, 1000), 0.0, -0.0, 1.5, 1e300, 5e-324, 3.4e38, 2.0**53, 2.0**63, 1e22, 0.1, math.nan, math.inf,
         struct.unpack("d", chance.randbytes(8))[0])
    )  # fmt: skip
    if not single:
        return drawn
    return struct.unpack("f", chance.randbytes(4))[0] if chance.random() < 0.5 or abs(drawn) > 3e38 else (
        struct.unpack("f", struct.pack("f", drawn))[0]
    )  # fmt: skip


def _plain(kind: str, draw: Callable[[random.Random], Any], column: str | None = None) -> Source:
    def both(chance: random.Random, odd: bool) -> tuple[Any, Any]:
        value = draw(chance)
        return value, value

    return Source(kind, kind, Kind(column or kind), both)


def _counted(base: str, logical: str, column: str, unit_us: Fraction, odd: tuple[int, ...], reach: int) -> Source:
    """A count of units since 1970, or midnight."""

    def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
        count = chance.choice(odd) if is_odd else chance.randint(0 if column == "time" else -reach, reach)
        exact = count * unit_us
        wanted: Any = exact
        if column == "date":
            wanted = count if _FIRST <= count <= _LAST else Refused("beyond the calendar")
        elif exact.denominator != 1:
            wanted = Refused("less than a microsecond")
        elif column == "time":
            wanted = int(exact) if 0 <= exact < DAY_US else Refused("no time of day")
        else:
            days = int(exact // DAY_US)
            wanted = int(exact) if _FIRST <= days <= _LAST else Refused("beyond the calendar")
        return count, wanted

    return Source({"type": base, "logicalType": logical}, base, Kind(column), draw)


def _moments(base: int) -> tuple[int, ...]:
    low, high = _FIRST * DAY_US // base, ((_LAST + 1) * DAY_US) // base - 1
    return (low, low - 1, high, high + 1, -(1 << 63), (1 << 63) - 1, 0, -1)


def _decimal(precision: int, scale: int) -> Source:
    def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
        limit = 10**precision
        unscaled = chance.choice((limit, -limit, limit - 1, 1 - limit, 10**40)) if is_odd else whole(chance, 127)
        if not is_odd:
            unscaled = int(math.copysign(1, unscaled)) * (abs(unscaled) % limit)
        data = unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
        data = (b"\xff" if unscaled < 0 else b"\0") * chance.choice((0, 0, 0, 3)) + data
        if is_odd and chance.random() < 0.2:
            return b"", Refused("no bytes")
        return data, Fraction(unscaled, 10**scale) if abs(unscaled) < limit else Refused("beyond the precision")

    logical = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return Source(logical, "bytes", Kind(f"decimal({precision}, {scale})"), draw)


def _uuid() -> Source:
    def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
        text = chance.randbytes(16).hex()
        text = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
        if is_odd:
            text = chance.choice(("", text[:-1], text + "0", "x" * 36, text.upper()))
        try:
            return text, value_of(text, Kind("uuid"))
        except Refused as refused:
            return text, refused

    return Source({"type": "string", "logicalType": "uuid"}, "string", Kind("uuid"), draw)


SCALARS: tuple[Source, ...] = (
    _plain("boolean", lambda chance: chance.random() < 0.5),
    _plain("int", lambda chance: whole(chance, 32)),
    _plain("long", lambda chance: whole(chance, 64)),
    _plain("float", lambda chance: floating(chance, single=True)),
    _plain("double", lambda chance: floating(chance, single=False)),
    _plain("string", lambda chance: chance.choice((*TEXTS, *ODD_MOMENTS[:20]))),
    _plain("bytes", lambda chance: chance.randbytes(chance.choice((0, 1, 4, 40))), "binary"),
    _counted("int", "date", "date", Fraction(DAY_US), (*_moments(DAY_US)[:4], -(1 << 31), (1 << 31) - 1), 40_000),
    _counted("int", "time-millis", "time", Fraction(1000), (-1, 86_399_999, 86_400_000, (1 << 31) - 1), 86_399_999),
    _counted("long", "time-micros", "time", Fraction(1), (-1, DAY_US - 1, DAY_US, 1 << 62), DAY_US - 1),
    _counted("long", "timestamp-millis", "timestamptz", Fraction(1000), _moments(1000), 4 * 10**12),
    _counted("long", "timestamp-micros", "timestamptz", Fraction(1), _moments(1), 4 * 10**15),
    _counted("long", "local-timestamp-millis", "timestamp", Fraction(1000), _moments(1000), 4 * 10**12),
    _counted("long", "local-timestamp-micros", "timestamp", Fraction(1), _moments(1), 4 * 10**15),
    _counted("long", "timestamp-nanos", "timestamptz", Fraction(1, 1000), (0, 1, -1, 1000, -(1 << 63), (1 << 63) - 1), 10**6),
    _decimal(9, 2), _decimal(38, 10), _decimal(18, 18), _decimal(38, 0), _uuid(),
)  # fmt: skip


def _or_null(source: Source, chance: random.Random) -> Source:
    nulls = chance.random() < 0.5

    def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
        return (None, None) if nulls and chance.random() < 0.2 else source.draw(chance, is_odd)

    if not nulls:
        return source
    return replace(source, schema=["null", source.schema], physical=["null", source.physical], draw=draw)


def _joined(parts: list[Any]) -> Any:
    return next((part for part in parts if isinstance(part, Refused)), None)


class AvroWriter:
    """Draws schemas; each named type has a name of its own."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.named = 0

    def name(self) -> str:
        self.named += 1
        return f"shop.T{self.named}"

    def source(self, depth: int) -> Source:
        chance, what = self.chance, self.chance.random()
        if depth and what < 0.12:
            return self._array(self.source(depth - 1))
        if depth and what < 0.24:
            return self._map(self.source(depth - 1))
        if depth and what < 0.36:
            return self._record(tuple(self.source(depth - 1) for _ in range(chance.randint(1, 3))))
        if what < 0.4:
            return self._fixed(chance.choice((1, 4, 16)))
        if what < 0.44:
            return self._enum()
        return chance.choice(SCALARS)

    def _array(self, inner: Source) -> Source:
        inner = _or_null(inner, self.chance)

        def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
            drawn = [inner.draw(chance, is_odd and chance.random() < 0.5) for _ in range(chance.choice((0, 1, 2, 3)))]
            wanted = [each for _, each in drawn]
            return [each for each, _ in drawn], _joined(wanted) or wanted

        as_written, encoded = ({"type": "array", "items": each} for each in (inner.schema, inner.physical))
        return Source(as_written, encoded, Kind("list", (inner.kind,)), draw)

    def _map(self, inner: Source) -> Source:
        inner = _or_null(inner, self.chance)

        def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
            names = chance.sample(("a", "", "b c", "é", "k" * 50, "null"), chance.choice((0, 1, 2, 3)))
            drawn = {name: inner.draw(chance, is_odd and chance.random() < 0.5) for name in names}
            wanted = Pairs((name, each) for name, (_, each) in drawn.items())
            refused = _joined([each for _, each in wanted])
            return {name: each for name, (each, _) in drawn.items()}, refused or wanted

        as_written, encoded = ({"type": "map", "values": each} for each in (inner.schema, inner.physical))
        return Source(as_written, encoded, Kind("map", (Kind("string"), inner.kind)), draw)

    def _record(self, inner: tuple[Source, ...]) -> Source:
        fields = tuple((f"f{i}", _or_null(each, self.chance)) for i, each in enumerate(inner))
        name = self.name()

        def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
            drawn = {name: each.draw(chance, is_odd and chance.random() < 0.5) for name, each in fields}
            wanted = {name: each for name, (_, each) in drawn.items()}
            return {name: each for name, (each, _) in drawn.items()}, _joined(list(wanted.values())) or wanted

        as_written, encoded = (
            {"type": "record", "name": name, "fields": [{"name": n, "type": getattr(e, way)} for n, e in fields]}
            for way in ("schema", "physical")
        )
        kind = Kind("struct", tuple(each.kind for _, each in fields), tuple(name for name, _ in fields))
        return Source(as_written, encoded, kind, draw)

    def _fixed(self, size: int) -> Source:
        kind = {"type": "fixed", "name": self.name(), "size": size}
        is_uuid = size == 16 and self.chance.random() < 0.5

        def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
            data = chance.randbytes(size)
            if is_uuid and chance.random() < 0.3:  # whose text is a number
                data = bytes.fromhex("".join(chance.choice("0123456789") for _ in range(32)))
            return data, data

        if is_uuid:
            return Source({**kind, "logicalType": "uuid"}, kind, Kind("uuid"), draw)
        return Source(kind, kind, Kind(f"fixed[{size}]"), draw)

    def _enum(self) -> Source:
        kind = {"type": "enum", "name": self.name(), "symbols": ["A", "B", "null"]}

        def draw(chance: random.Random, is_odd: bool) -> tuple[Any, Any]:
            symbol = chance.choice(("A", "B", "null"))
            return symbol, symbol

        return Source(kind, kind, Kind("string"), draw)


# ---- columns of another type
# -------------------------------------------------------------------------------------------

OTHER = (
    "boolean", "int", "long", "float", "double", "decimal(9, 2)", "decimal(38, 10)", "decimal(5, 0)", "decimal(38, 0)",
    "decimal(38, 18)", "decimal(38, 20)", "decimal(38, 38)", "string", "date", "time", "timestamp", "timestamptz",
    "timestamp_ns", "timestamptz_ns", "binary", "fixed[4]", "uuid",
)  # fmt: skip
COUNTED = {"date": ("d", "s", "ms"), "time": ("s", "ms", "us", "ns")}


def other_kind(chance: random.Random) -> Kind:
    """A column of another type; one of dates or times says, as a rule, which unit a number counts."""
    kind = Kind(chance.choice(OTHER))
    if kind.name not in ("date", "time") and not kind.name.startswith("timestamp"):
        return kind
    units = COUNTED.get(kind.name, ("s", "ms", "us", "ns", "d"))
    return replace(kind, unit=chance.choice(units)) if chance.random() < 0.7 else kind


def _nothing(value: Any) -> bool:
    if isinstance(value, Pairs):
        return all(_nothing(item) for _, item in value)
    if isinstance(value, dict):
        return all(map(_nothing, value.values()))
    return all(map(_nothing, value)) if isinstance(value, list) else value is None


def converted(value: Any, of: Kind, to: Kind, shape: Shape) -> Any:
    """What a value of one type is in a column of another; raises Refused."""
    if value is None or of == replace(to, unit=None):
        return value
    if of.name in ("list", "map", "struct"):
        if shape.empty_is_null and to.name != "string" and _nothing(value):
            return None
        raise Refused("a structure in a plain column")
    source, wanted = of.family, to.family
    if to.unit is not None and source in ("int", "long", "decimal", "float", "double"):
        return value_of(Number(_as_text(value, source)), to)
    if source.startswith("timestamp") and wanted == f"{source}_ns":
        if abs(value * 1000) >= 1 << 63:
            raise Refused("beyond what nanoseconds reach")
        return value * 1000
    if source == wanted and source not in ("decimal", "fixed"):
        return value
    if source == "string":
        if not shape.reads_text and wanted in NUMERIC:
            raise Refused("text in a column of numbers")
        return value_of(value, to if shape.reads_text else to.without_text())
    if wanted == "string":
        if source in ("int", "long"):
            return str(value)
        if source == "boolean":
            return "true" if value else "false"
        if source == "decimal":
            digits = str(abs(int(value * 10 ** of.size()[1]))).rjust(of.size()[1] + 1, "0")
            cut = len(digits) - of.size()[1]
            return ("-" if value < 0 else "") + digits[:cut] + ("." + digits[cut:] if digits[cut:] else "")
        raise Refused("no text")
    if source in ("int", "long") and wanted in ("int", "long", "float", "double", "decimal"):
        return value_of(Number(value), to)
    if source in ("float", "double"):
        return _of_float(value, wanted)
    if source == "decimal" and wanted in ("int", "long", "decimal", "float", "double"):
        return _of_decimal(value, to)
    if source in ("binary", "fixed") and wanted in ("binary", "fixed"):
        if wanted == "fixed" and len(value) != to.size()[0]:
            raise Refused("another length")
        return value
    raise Refused("another type")


def _as_text(value: Any, source: str) -> str:
    """A number as JSON would have it; a float with the digits that it is printed with."""
    if isinstance(value, Fraction):
        return f"{value.numerator}e-0" if value.denominator == 1 else _decimal_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused("no count")
    return str(np.float32(value)) if source == "float" else repr(value)


def _decimal_text(value: Fraction) -> str:
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    return f"{int(value * 10**places)}e-{places}"


def _of_float(value: float, wanted: str) -> Any:
    if wanted == "double":
        return value
    if wanted == "float":
        if not math.isfinite(value):
            return value
        found = nearest_float(Fraction(value))
        if math.isinf(found):
            raise Refused("beyond a float")
        return -0.0 if found == 0 and math.copysign(1, value) < 0 else found
    if wanted in ("int", "long") and math.isfinite(value) and value == int(value):
        bits = 31 if wanted == "int" else 63
        if -(1 << bits) <= int(value) < 1 << bits:
            return May(int(value))
    raise Refused("no number of the column")


def _of_decimal(value: Fraction, to: Kind) -> Any:
    if to.family in ("float", "double"):
        return nearest_float(value) if to.family == "float" else nearest_double(value)
    if to.family == "decimal":
        precision, scale = to.size()
        unscaled = value * 10**scale
        if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
            raise Refused("no decimal of the column")
        return value
    bits = 31 if to.family == "int" else 63
    if value.denominator != 1 or not -(1 << bits) <= value < 1 << bits:
        raise Refused("no integer of the column")
    return int(value)


# ---- protobuf
# ----------------------------------------------------------------------------------------------------------

F = descriptor_pb2.FieldDescriptorProto
PROTO: dict[str, tuple[int, str, Callable[[random.Random], Any]]] = {
    "int32": (F.TYPE_INT32, "int", lambda chance: whole(chance, 32)),
    "sint32": (F.TYPE_SINT32, "int", lambda chance: whole(chance, 32)),
    "sfixed32": (F.TYPE_SFIXED32, "int", lambda chance: whole(chance, 32)),
    "int64": (F.TYPE_INT64, "long", lambda chance: whole(chance, 64)),
    "sint64": (F.TYPE_SINT64, "long", lambda chance: whole(chance, 64)),
    "sfixed64": (F.TYPE_SFIXED64, "long", lambda chance: whole(chance, 64)),
    "uint32": (F.TYPE_UINT32, "long", lambda chance: whole(chance, 33) % (1 << 32)),
    "fixed32": (F.TYPE_FIXED32, "long", lambda chance: whole(chance, 33) % (1 << 32)),
    "uint64": (F.TYPE_UINT64, "decimal(20, 0)", lambda chance: whole(chance, 65) % (1 << 64)),
    "fixed64": (F.TYPE_FIXED64, "decimal(20, 0)", lambda chance: whole(chance, 65) % (1 << 64)),
    "float": (F.TYPE_FLOAT, "float", lambda chance: floating(chance, single=True)),
    "double": (F.TYPE_DOUBLE, "double", lambda chance: floating(chance, single=False)),
    "bool": (F.TYPE_BOOL, "boolean", lambda chance: chance.random() < 0.5),
    "string": (F.TYPE_STRING, "string", lambda chance: chance.choice(TEXTS)),
    "bytes": (F.TYPE_BYTES, "binary", lambda chance: chance.randbytes(chance.choice((0, 1, 4)))),
}
_DEFAULTS = {
    "int": 0, "long": 0, "decimal(20, 0)": Fraction(0), "float": 0.0, "double": 0.0, "boolean": False, "string": "",
    "binary": b"",
}  # fmt: skip


@dataclass(frozen=True)
class ProtoField:
    """A field: a scalar, `moment`, `enum` or `part` (a message of one field); `how` is one, some, optional or map."""

    name: str
    type: str
    how: str

    @property
    def inner(self) -> Kind:
        own = {"moment": Kind("timestamptz"), "enum": Kind("string"), "part": Kind("struct", (Kind("int"),), ("n",))}
        return own.get(self.type) or Kind(PROTO[self.type][1])

    @property
    def kind(self) -> Kind:
        if self.how == "some":
            return Kind("list", (self.inner,))
        return Kind("map", (Kind("string"), self.inner)) if self.how == "map" else self.inner

    def put(self, message: Any, chance: random.Random, odd: bool) -> Any:
        """Set the field; returns what must be in the column, or Refused."""
        if self.how in ("one", "optional"):
            if chance.random() < 0.2:
                return _absent(self)
            return self._one(message, self.name, chance, odd)
        if self.how == "some":
            held, found = getattr(message, self.name), []
            for _ in range(chance.choice((0, 1, 2, 3))):
                found.append(self._add(held, chance, odd))
            return _joined(found) or found
        pairs, held = Pairs(), getattr(message, self.name)
        for key in sorted(chance.sample(("a", "b c", "é", ""), chance.choice((0, 1, 2)))):
            if self.type in ("moment", "part"):
                pairs.append((key, self._fill(held[key], chance, odd)))
            else:
                value, wanted = self._scalar(chance)
                held[key] = value
                pairs.append((key, wanted))
        return _joined([wanted for _, wanted in pairs]) or pairs

    def _one(self, message: Any, name: str, chance: random.Random, odd: bool) -> Any:
        if self.type in ("moment", "part"):
            inner = getattr(message, name)
            inner.SetInParent()
            return self._fill(inner, chance, odd)
        value, wanted = self._scalar(chance)
        setattr(message, name, value)
        return wanted

    def _add(self, held: Any, chance: random.Random, odd: bool) -> Any:
        if self.type in ("moment", "part"):
            return self._fill(held.add(), chance, odd)
        value, wanted = self._scalar(chance)
        held.append(value)
        return wanted

    def _scalar(self, chance: random.Random) -> tuple[Any, Any]:
        if self.type == "enum":
            number = chance.choice((0, 1, 7))
            return number, {0: "NONE", 1: "ONE"}.get(number, str(number))
        value = PROTO[self.type][2](chance)
        return value, Fraction(value) if self.inner.family == "decimal" else value

    def _fill(self, inner: Any, chance: random.Random, odd: bool) -> Any:
        if self.type == "part":
            inner.n = whole(chance, 32)
            return {"n": inner.n}
        low, high = _FIRST * 86_400, (_LAST + 1) * 86_400 - 1
        inner.seconds = (
            chance.choice((low, high, low - 1, high + 1, 1 << 62)) if odd else chance.randint(-(10**9), 4 * 10**9)
        )
        inner.nanos = (
            chance.choice((0, 1000, 999_999_000, 1, 999_999_999)) if odd else 1000 * chance.randint(0, 999_999)
        )
        if inner.nanos % 1000 or not low <= inner.seconds <= high:
            return Refused("no microseconds within the calendar")
        return inner.seconds * 10**6 + inner.nanos // 1000


def _absent(field: ProtoField) -> Any:
    if field.how == "optional" or field.type in ("moment", "part"):
        return None
    return "NONE" if field.type == "enum" else _DEFAULTS[field.inner.name]


def _message(fields: list[ProtoField]) -> tuple[Any, descriptor_pb2.FileDescriptorProto]:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="M")
    file.message_type.add(name="Part").field.add(name="n", number=1, type=F.TYPE_INT32, label=F.LABEL_OPTIONAL)
    enum = file.enum_type.add(name="E")
    enum.value.add(name="NONE", number=0)
    enum.value.add(name="ONE", number=1)
    named = {"moment": ".google.protobuf.Timestamp", "part": ".shop.Part", "enum": ".shop.E"}

    def typed(field: Any, kind: str) -> None:
        field.type = PROTO[kind][0] if kind in PROTO else F.TYPE_ENUM if kind == "enum" else F.TYPE_MESSAGE
        if kind in named:
            field.type_name = named[kind]

    for number, each in enumerate(fields, 1):
        field = message.field.add(name=each.name, number=number)
        field.label = F.LABEL_OPTIONAL if each.how in ("one", "optional") else F.LABEL_REPEATED
        if each.how != "map":
            typed(field, each.type)
        if each.how == "optional" and each.type not in ("moment", "part"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{each.name}")
        if each.how == "map":
            entry = message.nested_type.add(name=f"{each.name.title()}Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=F.LABEL_OPTIONAL)
            typed(entry.field.add(name="value", number=2, label=F.LABEL_OPTIONAL), each.type)
            field.type, field.type_name = F.TYPE_MESSAGE, f".shop.M.{entry.name}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.M")), file


# ---- blocks
# ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A block: bytes, what each must become by the schema's own columns, and the schemas."""

    data: list[bytes]
    wanted: list[Any]
    kinds: dict[str, Kind]
    schemas: Schemas
    spec: FormatSpec


def _count(chance: random.Random, most: int) -> tuple[int, float]:
    share = chance.choice(ODD_SHARES)
    return min(chance.choice(SIZES), most, 60 if share > 0.1 else most), share


def draw_avro(chance: random.Random, most: int) -> Drawn:
    writer = AvroWriter(chance)
    fields = {f"c{i}": _or_null(writer.source(2), chance) for i in range(chance.choice((1, 2, 3, 5)))}
    later = dict(fields)
    if chance.random() < 0.4:
        later["later"] = _or_null(writer.source(1), chance)
    count, share = _count(chance, most)
    data, wanted = [], []
    for _ in range(count):
        ref = chance.choice((1, 2))
        mine = fields if ref == 1 else later
        odd = chance.random() < share
        drawn = {name: source.draw(chance, odd and chance.random() < 0.5) for name, source in mine.items()}
        payload = avro_bytes(_record_of(mine, "physical"), {name: value for name, (value, _) in drawn.items()})
        row = {name: drawn[name][1] if name in drawn else None for name in later}
        if odd and chance.random() < 0.05:
            payload, row = payload[:-1], {"c0": Refused("cut off")}
        data.append(framed(ref, payload))
        wanted.append(_joined(list(row.values())) or row)
    schemas: Schemas = {ref: avro_schema(_record_of(each, "schema")) for ref, each in ((1, fields), (2, later))}
    kinds = {name: source.kind for name, source in later.items()}
    return Drawn(data, wanted, kinds, schemas, FormatSpec(FormatType.AVRO, registry="main"))


def _record_of(fields: dict[str, Source], way: str) -> dict[str, Any]:
    listed = [{"name": name, "type": getattr(source, way)} for name, source in fields.items()]
    return {"type": "record", "name": "shop.Row", "fields": listed}


def draw_protobuf(chance: random.Random, most: int) -> Drawn:
    types = (*PROTO, "moment", "enum", "part")
    hows = ("one", "one", "optional", "some", "map")
    fields = [
        ProtoField(f"c{i}", chance.choice(types), chance.choice(hows)) for i in range(chance.choice((1, 2, 3, 6)))
    ]
    made, file = _message(fields)
    count, share = _count(chance, most)
    data, wanted = [], []
    for _ in range(count):
        message, odd = made(), chance.random() < share
        row = {field.name: field.put(message, chance, odd and chance.random() < 0.5) for field in fields}
        data.append(framed(1, b"\0" + message.SerializeToString()))
        wanted.append(_joined(list(row.values())) or row)
    spec = FormatSpec(FormatType.PROTOBUF, registry="main")
    return Drawn(data, wanted, {field.name: field.kind for field in fields}, {1: proto_schema(file)}, spec)


FORMATS = {"avro": draw_avro, "protobuf": draw_protobuf}


def check_typed(form: str, seed: int, most: int = 1000) -> Report:
    """What became of a block in this format."""
    chance = random.Random(seed)
    drawn = FORMATS[form](chance, most)
    report = Report(documents=len(drawn.data))
    shape = Shape(dict(drawn.kinds), reads_text=chance.random() < 0.7, empty_is_null=chance.random() < 0.5)
    given = chance.random() < 0.5
    if given:
        # A UUID is text to a schema, and kept as it was written where its column is one of text.
        others = {name: other_kind(chance) for name in drawn.kinds if chance.random() < 0.5}
        others = {n: kind for n, kind in others.items() if drawn.kinds[n].name != "uuid" or kind.name != "string"}
        # Avro's nanoseconds are microseconds in a new table, and what is drawn for them is said in those.
        others = {
            n: kind
            for n, kind in others.items()
            if (drawn.kinds[n].name, kind.name) != ("timestamptz", "timestamptz_ns")
        }
        shape = replace(shape, columns={name: others.get(name, kind) for name, kind in drawn.kinds.items()})
    wanted = [_in_columns(row, drawn.kinds, shape) for row in drawn.wanted]
    try:
        reported = _reported(drawn, shape, given, report)
    except Exception:
        report.uncaught += 1
        report.faults.append((f"uncaught {form}", seed, traceback.format_exc()))
        return report
    for at, (must, found) in enumerate(zip(wanted, reported, strict=True)):
        if isinstance(found, str):
            report.refused[form] += 1
            good = isinstance(must, Refused) or may_be_refused(must)
        else:
            report.rows[form] += 1
            for name, value in found.items():
                if value is not None:
                    report.values[form, shape.columns[name].family] += 1
            # Entries of a protobuf map come in any order.
            found = {name: _sorted(value) if form == "protobuf" else value for name, value in found.items()}
            good = not isinstance(must, Refused) and same(must, found)
        if not good:
            report.wrong += 1
            if len(report.faults) < 20:
                text = f"{drawn.data[at][:200]!r}\n  must be {must!r:.400}\n  is {found!r:.400}\n  {drawn.kinds}\n  {shape}"
                report.faults.append((f"wrong {form}", seed, text))
    return report


def _sorted(value: Any) -> Any:
    return Pairs(sorted(value, key=lambda pair: str(pair[0]))) if isinstance(value, Pairs) else value


def _in_columns(row: Any, kinds: dict[str, Kind], shape: Shape) -> Any:
    if isinstance(row, Refused):
        return row
    try:
        return {name: converted(value, kinds[name], shape.columns[name], shape) for name, value in row.items()}
    except Refused as refused:
        return refused


def _reported(drawn: Drawn, shape: Shape, given: bool, report: Report) -> list[Any]:
    data_type = EvolveMode.WIDEN if shape.empty_is_null and not given else EvolveMode.FREEZE
    made = policy(EvolveMode.EVOLVE, data_type=data_type, otherwise=EvolveMode.FREEZE)
    reads = TextAsNumber.READ if shape.reads_text else TextAsNumber.REFUSE
    empty = EmptyValues.DISCARD if shape.empty_is_null else EmptyValues.REFUSE
    if given and shape.empty_is_null:
        # A word under which nothing is widened, and what holds nothing is still left out: the columns are as wide as
        # they get.
        made = policy(EvolveMode.EVOLVE, data_type=EvolveMode.EVOLVE, otherwise=EvolveMode.FREEZE)
    made = replace(made, values=ValuesPolicy(text_as_number=reads, empty=empty))
    known: dict[str, TableTarget] = {"ns.t": target(schema=shape.schema(), table_policy=made)} if given else {}
    landed = land(records(drawn.data), drawn.spec, drawn.schemas, table_policy=made, known=known, hints=shape.hints())
    schema = landed.tables.targets["ns.t"].schema_json if landed.rows else ""
    report.landed = [Landed(drawn.spec.type.value, "ns.t", schema, rows) for rows in landed.result.rows.values()]
    return list(_each(landed.result, len(drawn.data), shape))


def _each(result: BlockResult, count: int, shape: Shape) -> Iterator[Any]:
    letters = {letter.offset: letter.code for letter in result.dead_letters}
    assert "FLOE-D119" not in letters.values(), [letter.message for letter in result.dead_letters]
    rows = result.rows.get("ns.t")
    columns = {}
    if rows is not None:
        rows.validate(full=True)
        assert set(rows.column_names) <= set(shape.columns)
        columns = {name: plain_values(rows.column(name), shape.columns[name]) for name in rows.column_names}
    at = 0
    for offset in range(count):
        if offset in letters:
            yield letters[offset]
            continue
        yield {name: columns[name][at] if name in columns else None for name in shape.columns}
        at += 1
    assert at == (0 if rows is None else rows.num_rows)
