"""Avro types as columns: each physical value with its logical type becomes an Arrow value of one exact type.

In: a node of a schema. Out: a `ColumnBuilder` for what fastavro reads when it knows nothing of logical types, and the comments
and nullability that the schema gives. A type that holds itself is cut: where it comes again, its value is JSON text. A
union of several types is a struct with a field for each, of which one is set; unions of numbers alone are the widest of
them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from framework.record.formats.avro.schema import Node, names_of, short, without_null
from framework.record.formats.columns import (
    ColumnBuilder,
    JsonTextColumn,
    MappedColumn,
    PlainColumn,
    StructColumn,
    TimeColumn,
    UnionColumn,
    day_column,
    decimal_column,
    json_plain,
    list_column,
    map_column,
    moment_column,
    plain_column,
    struct_column,
    struct_kind,
    take_item,
)
from framework.record.formats.connect_types import connect_column
from framework.record.model import ColumnDetail

_DAY_MS = 86_400_000
_UTC = "UTC"
_UUID = PlainColumn("uuid", pa.string())
_NUMBERS = (("int", "long"), ("float", "double"))


# (physical type, logical type) -> column
_LOGICAL: dict[tuple[str, str], ColumnBuilder] = {
    ("int", "date"): day_column(),
    ("int", "time-millis"): TimeColumn("time", _DAY_MS),
    ("long", "time-micros"): TimeColumn("time", _DAY_MS * 1000),
    ("long", "timestamp-millis"): moment_column("ms", _UTC),
    ("long", "timestamp-micros"): moment_column("us", _UTC),
    ("long", "timestamp-nanos"): moment_column("ns", _UTC),
    ("long", "local-timestamp-millis"): moment_column("ms", None),
    ("long", "local-timestamp-micros"): moment_column("us", None),
    ("long", "local-timestamp-nanos"): moment_column("ns", None),
    ("string", "uuid"): _UUID,
}


def column_of(node: Node, inside: tuple[str, ...] = ()) -> ColumnBuilder:
    """The column of a type; `inside` are the full names of the records around it."""
    whole = node
    node, _ = without_null(node)
    if whole.kind == "union" and node.name:
        inner = column_of(node, inside)
        return MappedColumn(inner.kind, inner, _unnamed)
    if node.name and node.name in inside:
        return JsonTextColumn("string", json_plain)
    special = connect_column(node.connect_name, node.kind, node.parameters) or _logical(node)
    if special is not None:
        return special
    if node.kind == "record":
        return record_column(node, inside)
    if node.kind == "array":
        assert node.items is not None
        return list_column(column_of(node.items, inside))
    if node.kind == "map":
        assert node.items is not None
        return map_column(column_of(node.items, inside))
    if node.kind == "union":
        return _union(node, inside)
    if node.kind == "enum":
        return plain_column("string")
    if node.kind == "fixed":
        return PlainColumn(f"fixed[{node.raw['size']}]", pa.binary(node.raw["size"]))
    return plain_column(_physical(node.kind))


def record_column(node: Node, inside: tuple[str, ...] = ()) -> StructColumn:
    """The column of a record."""
    return struct_column((f.name, column_of(f.node, (*inside, node.name)), take_item(f.name)) for f in node.fields)


def _physical(kind: str) -> str:
    return "binary" if kind == "bytes" else kind


def details_of(node: Node, path: str = "", inside: tuple[str, ...] = ()) -> dict[str, ColumnDetail]:
    """Comments and nullability of a record's fields, by dotted path."""
    found: dict[str, ColumnDetail] = {}
    for item in node.fields:
        inner, nullable = without_null(item.node)
        here = f"{path}.{item.name}" if path else item.name
        comment = item.doc or (inner.raw.get("doc") if isinstance(inner.raw.get("doc"), str) else None)
        found[here] = ColumnDetail(comment, required=not nullable and not path)
        while inner.kind in ("array", "map") and inner.items is not None:
            inner, _ = without_null(inner.items)
        if inner.kind == "record" and inner.name not in (*inside, node.name):
            found |= details_of(inner, here, (*inside, node.name))
    return found


def _logical(node: Node) -> ColumnBuilder | None:
    """The column of a logical type; an unknown or unfit one is its physical type, as the specification says."""
    if node.logical == "decimal" and node.kind in ("bytes", "fixed"):
        return decimal_column(node.raw.get("precision"), node.raw.get("scale", 0))
    if node.logical == "uuid" and node.kind == "fixed" and node.raw["size"] == 16:
        return MappedColumn("uuid", _UUID, lambda data: str(uuid.UUID(bytes=data)))
    if node.logical == "duration" and node.kind == "fixed" and node.raw["size"] == 12:
        names = ("months", "days", "milliseconds")
        return struct_column((name, plain_column("long"), _part(i)) for i, name in enumerate(names))
    return _LOGICAL.get((node.kind, node.logical))


def _part(place: int) -> Callable[[list[Any]], list[Any]]:
    """One of the three little-endian numbers of Avro's duration."""
    first, end = place * 4, place * 4 + 4
    return lambda values: [None if v is None else int.from_bytes(v[first:end], "little") for v in values]


def _unnamed(value: Any) -> Any:
    """The value of a union's branch without the name of its type."""
    return value[1] if isinstance(value, tuple) else value


def _union(node: Node, inside: tuple[str, ...]) -> ColumnBuilder:
    kinds = {branch.kind for branch in node.branches if not branch.logical}
    for ladder in _NUMBERS:
        if len(node.branches) == len([b for b in node.branches if not b.logical]) and kinds <= set(ladder):
            return plain_column(max(kinds, key=ladder.index))
    names = names_of(node.branches)
    columns = [column_of(branch, inside) for branch in node.branches]
    branches = tuple(zip(names, columns, strict=True))
    return UnionColumn(struct_kind(branches), branches, _chooser(node))


def _chooser(node: Node) -> Callable[[Any], tuple[int, Any]]:
    """Which branch a value is of. Named types come with their names; others are recognized by what they are in Python."""
    by_name = {branch.name: place for place, branch in enumerate(node.branches) if branch.name}
    by_name |= {short(name): place for name, place in by_name.items() if short(name) not in by_name}
    by_kind = {branch.kind: place for place, branch in enumerate(node.branches) if not branch.name}
    # A value that was no union's when it was written comes without a name.
    by_kind |= {branch.kind: place for place, branch in enumerate(node.branches) if branch.name}

    def place_of(*kinds: str) -> int:
        for kind in kinds:
            if kind in by_kind:
                return by_kind[kind]
        raise TypeError(f"no branch of the union is {kinds[0]}")

    def choose(value: Any) -> tuple[int, Any]:
        if isinstance(value, tuple):
            return by_name[value[0]], value[1]
        if isinstance(value, bool):
            return place_of("boolean"), value
        if isinstance(value, int):
            # One branch is enough for both: what was written as an int is the same long.
            return place_of("long", "int"), value
        if isinstance(value, float):
            return place_of("double", "float"), value
        if isinstance(value, str):
            return place_of("string", "enum"), value
        if isinstance(value, bytes):
            return place_of("bytes", "fixed"), value
        return place_of(*(("array",) if isinstance(value, list) else ("map", "record"))), value

    return choose
