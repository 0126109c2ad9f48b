"""Python values that a decoder read, to Arrow columns of exact types.

In: for each field of a schema a `ColumnBuilder`, and the values of many records. Out: arrays, and for each record with a value
that its schema's type cannot hold a failure. Keeps invariant 9: a value becomes a cell exactly, or its record is an
error; one such record is found by halving and costs no other record anything.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from framework.record.arrays import Ints
from framework.record.failure import RecordFailure
from framework.record.model import ObservedType

Values = list[Any]
Take = Callable[[Values], Values]
# What pyarrow and int.to_bytes raise for a value that a type cannot hold (ArrowInvalid and ArrowTypeError are among
# them). Numbers beyond what Decimal takes at all are ArithmeticErrors; what is nested deeper than the stack is a
# record's fault, too.
NOT_HELD = (
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
    pa.ArrowNotImplementedError,
)
# Far more than a table can have: a schema of so many is one that nothing is read with.
_MOST_COLUMNS = 20_000
_Part = TypeVar("_Part")
_MILLIS_OF_DAY = 86_400_000


@dataclass(frozen=True)
class ColumnBuilder:
    """Builds one column. `kind` is what a table must have for it, in the grammar of observed types."""

    kind: ObservedType

    def build(self, values: Values) -> pa.Array:
        """The values, null where None. Raises one of NOT_HELD when the type cannot hold one of them exactly."""
        raise NotImplementedError


class MinusZero(int):
    """The whole number -0, which only columns of floats distinguish from 0."""


_WHOLE = frozenset({int, MinusZero})
_TEXT = frozenset({str})
_BYTES = frozenset({bytes})
# What Python's values may be for a type of Arrow's. Arrow takes more: it cuts 1.5 to 1, and makes 1 of true and 1.0 of
# 1.
_TAKEN: dict[int, frozenset[type]] = {
    pa.null().id: frozenset(),
    pa.bool_().id: frozenset({bool}),
    pa.int32().id: _WHOLE,
    pa.int64().id: _WHOLE,
    pa.float32().id: frozenset({int, float}),
    pa.float64().id: frozenset({int, float}),
    pa.binary().id: _BYTES,
    pa.binary(1).id: _BYTES,
    pa.string().id: _TEXT,
    pa.decimal128(20, 0).id: frozenset({int, Decimal}),
}
_NONE = type(None)


def _only(values: Values, taken: frozenset[type]) -> None:
    """Raises TypeError where a value is of another type; to check them all costs a fraction of making an array of
    them."""
    for found in set(map(type, values)):
        if found not in taken and found is not _NONE:
            raise TypeError(f"it is of type {found.__name__}")


@dataclass(frozen=True)
class PlainColumn(ColumnBuilder):
    """Values that Arrow takes as they are."""

    arrow: pa.DataType

    def build(self, values: Values) -> pa.Array:
        _only(values, _TAKEN[self.arrow.id])
        return pa.array(values, self.arrow)


@dataclass(frozen=True)
class WholeColumn(ColumnBuilder):
    """Whole numbers of so many bits, which may be fewer than the column's."""

    arrow: pa.DataType
    bits: int

    def build(self, values: Values) -> pa.Array:
        _only(values, _WHOLE)
        built = pa.array(values, self.arrow)
        if self.bits < self.arrow.bit_width and len(built) > built.null_count:
            bounds = pc.min_max(built).as_py()
            if bounds["min"] < -(1 << self.bits - 1) or bounds["max"] >= 1 << self.bits - 1:
                raise OverflowError(f"the number has more than {self.bits} bits")
        return built


@dataclass(frozen=True)
class CountColumn(ColumnBuilder):
    """Whole numbers that count days, milli-, micro- or nanoseconds; `through` is the type that counts so."""

    through: pa.DataType
    arrow: pa.DataType

    def build(self, values: Values) -> pa.Array:
        _only(values, _WHOLE)
        counted = pa.array(values, pa.int32() if self.through.bit_width == 32 else pa.int64()).cast(self.through)
        return counted if self.through == self.arrow else counted.cast(self.arrow)


@dataclass(frozen=True)
class TimeColumn(ColumnBuilder):
    """A time of day, from counts of which a day has `per_day`."""

    per_day: int

    def build(self, values: Values) -> pa.Array:
        _only(values, _WHOLE)
        counted = pa.array(values, pa.int64())
        if len(counted) > counted.null_count:
            bounds = pc.min_max(counted).as_py()
            if bounds["min"] < 0 or bounds["max"] >= self.per_day:
                raise ValueError("the time is not within a day")
        if self.per_day > _MILLIS_OF_DAY * 1000:
            return counted.cast(pa.time64("ns")).cast(pa.time64("us"))
        return pc.multiply(counted, _MILLIS_OF_DAY * 1000 // self.per_day).cast(pa.time64("us"))


def unscaled_of(data: bytes) -> int:
    """The whole number of big-endian bytes in two's complement. No bytes at all are no number, as for Java's
    BigInteger."""
    if not data:
        raise ValueError("a decimal of no bytes is no number")
    return int.from_bytes(data, "big", signed=True)


@dataclass(frozen=True)
class DecimalColumn(ColumnBuilder):
    """Decimals from their unscaled numbers: big-endian two's complement bytes. `zeros` follow each number, where its
    scale is negative."""

    arrow: pa.DataType
    zeros: int = 0

    def build(self, values: Values) -> pa.Array:
        limit = 10**self.arrow.precision
        nothing = bytes(16)
        out = []
        for value in values:
            if value is None:
                out.append(nothing)
                continue
            unscaled = unscaled_of(value) * 10**self.zeros
            if not -limit < unscaled < limit:
                raise OverflowError(f"{unscaled} has more digits than {self.arrow}")
            out.append(unscaled.to_bytes(16, "little", signed=True))
        valid = None
        if None in values:
            present = np.fromiter((value is not None for value in values), dtype=bool, count=len(values))
            valid = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
        return pa.Array.from_buffers(self.arrow, len(values), [valid, pa.py_buffer(b"".join(out))])


@dataclass(frozen=True)
class MappedColumn(ColumnBuilder):
    """Values that become another column's after a function of each."""

    through: ColumnBuilder
    read: Callable[[Any], Any]

    def build(self, values: Values) -> pa.Array:
        return self.through.build([None if value is None else self.read(value) for value in values])


@dataclass(frozen=True)
class JsonTextColumn(ColumnBuilder):
    """Values of no fixed shape, as their JSON text: types that hold themselves, messages of any fields."""

    read: Callable[[Any], Any]

    def build(self, values: Values) -> pa.Array:
        read = self.read
        texts = [None if v is None else json.dumps(read(v), ensure_ascii=False, separators=(",", ":")) for v in values]
        return pa.array(texts, pa.string())


@dataclass(frozen=True)
class StructColumn(ColumnBuilder):
    """`children` are name, column, and how to take the child's values from the parents'."""

    children: tuple[tuple[str, ColumnBuilder, Take], ...]

    def build(self, values: Values) -> pa.Array:
        arrays = [column.build(take(values)) for _, column, take in self.children]
        names = [name for name, _, _ in self.children]
        mask = pa.array([value is None for value in values]) if None in values else None
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


@dataclass(frozen=True)
class ListColumn(ColumnBuilder):
    element: ColumnBuilder

    def build(self, values: Values) -> pa.Array:
        if any(isinstance(value, (str, bytes, dict)) for value in values):
            raise TypeError("it is no list")  # a text would be one of its characters
        flat = [item for value in values if value is not None for item in value]
        elements = self.element.build(flat)
        mask = pa.array([value is None for value in values]) if None in values else None
        return pa.ListArray.from_arrays(_offsets(values), elements, mask=mask)


@dataclass(frozen=True)
class MapColumn(ColumnBuilder):
    key: ColumnBuilder
    value: ColumnBuilder

    def build(self, values: Values) -> pa.Array:
        if any(isinstance(value, (str, bytes, list, tuple)) for value in values):
            raise TypeError("it is no map")
        keys = self.key.build([key for value in values if value is not None for key in value])
        # A protobuf map of messages makes no values() of its own kind before it is asked.
        items = self.value.build([value[key] for value in values if value is not None for key in value])
        mask = pa.array([value is None for value in values]) if None in values else None
        return pa.MapArray.from_arrays(_offsets(values), keys, items, mask=mask)


@dataclass(frozen=True)
class UnionColumn(ColumnBuilder):
    """A value of one of several types: a struct with a field for each, of which one is set. `choose` gives the field's
    place and the value in it."""

    branches: tuple[tuple[str, ColumnBuilder], ...]
    choose: Callable[[Any], tuple[int, Any]]

    def build(self, values: Values) -> pa.Array:
        chosen = [None if value is None else self.choose(value) for value in values]
        arrays = [
            column.build([c[1] if c is not None and c[0] == place else None for c in chosen])
            for place, (_, column) in enumerate(self.branches)
        ]
        mask = pa.array([value is None for value in values]) if None in values else None
        fields = [pa.field(name, array.type) for (name, _), array in zip(self.branches, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


_ARROW: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "string": pa.string(),
}


def is_too_wide(root: _Part, inner: Callable[[_Part], Iterable[_Part]], name: Callable[[_Part], str]) -> bool:
    """Whether a schema stands for more columns than any table has. A few types that each have two fields of the next
    stand for more than can be counted, so the count ends at the limit.

    Args:
        inner: the types of a type's fields, elements and branches.
        name: what a type is called that may hold itself; it is not looked into where it does.
    """
    waiting: list[tuple[_Part, tuple[str, ...]]] = [(root, ())]
    for _ in range(_MOST_COLUMNS):
        if not waiting:
            return False
        part, inside = waiting.pop()
        own = name(part)
        if not own or own not in inside:
            around = (*inside, own) if own else inside
            waiting += [(each, around) for each in inner(part)]
    return True


def plain_column(kind: str) -> PlainColumn:
    """The column of a plain Iceberg type."""
    return PlainColumn(kind, _ARROW[kind])


def day_column() -> CountColumn:
    """Days since 1970 as dates."""
    return CountColumn("date", pa.date32(), pa.date32())


def moment_column(unit: str, zone: str | None) -> CountColumn:
    """Counts of a unit since 1970 as moments, in microseconds unless they are nanoseconds."""
    kind = ("timestamptz" if zone else "timestamp") + ("_ns" if unit == "ns" else "")
    return CountColumn(kind, pa.timestamp(unit, zone), pa.timestamp("ns" if unit == "ns" else "us", zone))


def decimal_column(precision: object, scale: object) -> DecimalColumn | None:
    """The column of decimals of this size; None where Iceberg has none."""
    if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38 and precision > 0:
        return DecimalColumn(f"decimal({precision}, {scale})", pa.decimal128(precision, scale))
    return None


def zeros_column(scale: int) -> DecimalColumn | None:
    """The column of decimals whose negative scale counts the zeros behind them, as Connect's may; None beyond what a
    decimal can hold."""
    return DecimalColumn("decimal(38, 0)", pa.decimal128(38, 0), -scale) if -38 <= scale < 0 else None


def list_column(element: ColumnBuilder) -> ListColumn:
    return ListColumn(["list", element.kind], element)


def map_column(value: ColumnBuilder, key: ColumnBuilder | None = None) -> MapColumn:
    """The column of maps; keys are text unless they have a column of their own."""
    key = key or plain_column("string")
    return MapColumn(["map", key.kind, value.kind], key, value)


def struct_column(children: Iterable[tuple[str, ColumnBuilder, Take]]) -> StructColumn:
    fields = tuple(children)
    return StructColumn(struct_kind([(name, column) for name, column, _ in fields]), fields)


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = np.fromiter((0 if v is None else len(v) for v in values), dtype=np.int64, count=len(values))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def take_item(name: str) -> Take:
    """The values of one key of dicts; None where the dict is None."""

    def take(values: Values) -> Values:
        try:
            return [value[name] for value in values]
        except TypeError:
            return [None if value is None else value[name] for value in values]

    return take


def struct_kind(children: Sequence[tuple[str, ColumnBuilder]]) -> ObservedType:
    return ["struct", [[name, column.kind] for name, column in children]]


def json_plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes in Base64, the value alone of a named union branch."""
    if isinstance(value, dict):
        return {str(key): json_plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return json_plain(value[1])
    if isinstance(value, list):
        return [json_plain(item) for item in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def build_rows(root: StructColumn, values: Values, places: Ints) -> tuple[pa.Table, Ints, dict[int, RecordFailure]]:
    """The rows that could be built, their places, and the failures of the others by place."""
    good, failures = _build(root, values, places)
    return (*(_joined(good) if good else (pa.table({}), places[:0])), failures)


def build_parts(
    root: StructColumn, values: Values, places: Ints
) -> tuple[list[tuple[pa.Table, Ints]], dict[int, RecordFailure]]:
    """The same where a column's type goes by its values (see `_build`: the halves of a block that cannot be built as a
    whole may then differ): rows and places by schema."""
    good, failures = _build(root, values, places)
    by_schema: dict[pa.Schema, list[tuple[Ints, pa.Table]]] = {}
    for part in good:
        by_schema.setdefault(part[1].schema, []).append(part)
    return [_joined(parts) for parts in by_schema.values()], failures


def _joined(parts: list[tuple[Ints, pa.Table]]) -> tuple[pa.Table, Ints]:
    rows = [table for _, table in parts]
    kept = np.concatenate([places for places, _ in parts])
    return (rows[0] if len(rows) == 1 else pa.concat_tables(rows).combine_chunks()), kept


def _build(
    root: StructColumn, values: Values, places: Ints
) -> tuple[list[tuple[Ints, pa.Table]], dict[int, RecordFailure]]:
    try:
        arrays = [column.build(take(values)) for _, column, take in root.children]
    except NOT_HELD as error:
        if len(values) == 1:
            return [], {int(places[0]): _failure(root, values, error)}
        middle = len(values) // 2
        left, first = _build(root, values[:middle], places[:middle])
        right, second = _build(root, values[middle:], places[middle:])
        return left + right, first | second
    return [(places, pa.table(arrays, names=[name for name, _, _ in root.children]))], {}


def _failure(root: StructColumn, values: Values, error: Exception) -> RecordFailure:
    """The failure of one record, with the field that it is about."""
    for name, column, take in root.children:
        found = _fault(column, take(values), name)
        if found is not None:
            path, kind, said = found
            return RecordFailure(
                "decode", "FLOE-D114", f"{path}: the value is no {kind}: {said}", field_path=path, expected=kind
            )
    return RecordFailure("decode", "FLOE-D114", f"the record's values do not fit its schema: {error}")


def _fault(column: ColumnBuilder, values: Values, path: str) -> tuple[str, str, Exception] | None:
    """The innermost field of one value that its type cannot hold: its path, its type, and what was said of it."""
    try:
        column.build(values)
        return None
    except NOT_HELD as error:
        said = error
    inner: Iterable[tuple[ColumnBuilder, Values, str]] = ()
    try:
        (value,) = values
        if isinstance(column, StructColumn):
            inner = [(child, take(values), f"{path}.{name}") for name, child, take in column.children]
        elif isinstance(column, ListColumn):
            inner = [(column.element, [item], f"{path}[{at}]") for at, item in enumerate(value)]
        elif isinstance(column, MapColumn):
            inner = [(column.value, [value[key]], f"{path}['{key}']") for key in value]
    except NOT_HELD:
        pass  # the value is no struct, list or map at all
    found = next((fault for each in inner if (fault := _fault(*each)) is not None), None)
    return found or (path, column.kind if isinstance(column.kind, str) else str(column.kind[0]), said)
