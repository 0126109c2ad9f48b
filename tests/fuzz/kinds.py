"""The types of the columns that documents are made for.

In: nothing. Out: `Kind`, which says what a column holds and how its field is declared, and the schema of a table of
kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.config.spec import ExtraPrecision, FieldHint, InfiniteTimes
from framework.table.schema.types import primitive_type


@dataclass(frozen=True)
class Kind:
    """`name` is that of a primitive type, or list, struct or map. `inner` has the element of a list, key and value of a
    map, and the fields of a struct, whose names are in `names`; `needed` are those of them that must have a value."""

    name: str
    inner: tuple[Kind, ...] = ()
    names: tuple[str, ...] = ()
    needed: frozenset[str] = frozenset()
    format: str | None = None
    zone: str | None = None
    unit: str | None = None
    is_record: bool = False
    declared: bool = False  # the file says the type, and nothing else of the field
    reads_text: bool = True  # whether text may be a number
    cuts: bool = False  # whether digits beyond the column's are cut off
    ends: bool = True  # whether no time is infinite; otherwise PostgreSQL's infinity is null

    @property
    def precision(self) -> ExtraPrecision:
        return ExtraPrecision.TRUNCATE if self.cuts else ExtraPrecision.DEAD_LETTER

    @property
    def infinity(self) -> InfiniteTimes:
        return InfiniteTimes.DEAD_LETTER if self.ends else InfiniteTimes.NULL

    @property
    def family(self) -> str:
        return self.name.partition("(")[0].partition("[")[0]

    def without_text(self) -> Kind:
        """The kind where no text is a number, at any depth."""
        return replace(self, reads_text=False, inner=tuple(each.without_text() for each in self.inner))

    def size(self) -> tuple[int, int]:
        """Precision and scale of a decimal; the length of a fixed."""
        numbers = [int(n) for n in self.name.replace("]", ")").replace("[", "(").partition("(")[2][:-1].split(",")]
        return numbers[0], numbers[-1]


@dataclass(frozen=True)
class Shape:
    """The columns of a table, and what its policy says of text in columns of numbers and of `[]` and `{}`."""

    columns: dict[str, Kind] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    reads_text: bool = True
    empty_is_null: bool = False
    whole: frozenset[str] = frozenset()  # columns whose types are declared whole, lists, maps and structs too

    @property
    def sql_may_read(self) -> bool:
        """Whether SQL can be given all columns as they are: each is declared, and none is text to it."""
        as_they_are = not any(name.endswith("_") for name in self.names())  # of `source` no column is called otherwise
        return as_they_are and self.whole == set(self.columns) and not any(map(_is_text_to_sql, self.columns.values()))

    def names(self) -> Iterator[str]:
        """The names of the columns, at any depth."""
        yield from self.columns
        inner = list(self.columns.values())
        while inner:
            kind = inner.pop()
            yield from kind.names
            inner += kind.inner

    @property
    def may_take_empty_as_null(self) -> bool:
        """Whether nothing is required, and no column could be widened instead."""
        return not self.needed and not any(map(_is_particular, self.columns.values()))

    def schema(self, also: dict[str, str] | None = None) -> Schema:
        """With `also` as further columns, of primitive types."""
        ids = count(1)
        fields = [
            NestedField(next(ids), name, _iceberg(kind, ids), required=name in self.needed)
            for name, kind in self.columns.items()
        ]
        fields += [NestedField(next(ids), name, primitive_type(kind)) for name, kind in (also or {}).items()]
        return Schema(*fields)

    def hints(self) -> tuple[FieldHint, ...]:
        found: list[FieldHint] = []
        for name, kind in self.columns.items():
            found += _whole_hints(name, kind, always=True) if name in self.whole else _hints(name, kind)
        return tuple(found)


def _declared(kind: Kind) -> str:
    """The text of a declared type, written by hand."""
    if kind.name == "struct":
        named = zip(kind.names, kind.inner, strict=True)
        return "struct<" + ", ".join(f"`{name}`: {_declared(inner)}" for name, inner in named) + ">"
    return f"{kind.name}<{', '.join(map(_declared, kind.inner))}>" if kind.inner else kind.name


def _whole_hints(path: str, kind: Kind, always: bool = False) -> Iterator[FieldHint]:
    """The hint of a column whose type is declared whole, and those of its fields that say how they are read."""
    leaf = kind
    while leaf.name in ("list", "map"):
        leaf = leaf.inner[-1]
    if always or leaf.format or leaf.zone or leaf.unit or leaf.cuts or not leaf.ends:
        said = {"format": leaf.format, "zone": leaf.zone, "unit": leaf.unit}
        yield FieldHint(path, _declared(kind), **said, on_extra_precision=leaf.precision, infinity=leaf.infinity)
    for name, inner in zip(leaf.names, leaf.inner if leaf.names else (), strict=True):
        yield from _whole_hints(f"{path}.{name}", inner)


def may_be_declared(kind: Kind) -> bool:
    """Whether every struct inside has names that can be declared."""
    return all(name.strip() and "`" not in name for name in kind.names) and all(map(may_be_declared, kind.inner))


def declared_whole(kind: Kind) -> Kind:
    """The kind with each number inside declared."""
    return replace(kind, declared=not kind.inner, inner=tuple(map(declared_whole, kind.inner)))


def _is_text_to_sql(kind: Kind) -> bool:
    own = kind.family in ("uuid", "time", "timestamp_ns", "timestamptz_ns")
    return own or any(map(_is_text_to_sql, kind.inner))


def _is_particular(kind: Kind) -> bool:
    return bool(kind.needed) or kind.family in ("int", "float", "decimal") or any(map(_is_particular, kind.inner))


def _hints(path: str, kind: Kind) -> Iterator[FieldHint]:
    if kind.name == "struct":
        for name, inner in zip(kind.names, kind.inner, strict=True):
            yield from _hints(f"{path}.{name}", inner)
    elif kind.inner:
        yield from _hints(path, kind.inner[-1])
    elif kind.format or kind.zone or kind.unit or kind.declared or kind.cuts or not kind.ends:
        said = {"format": kind.format, "zone": kind.zone, "unit": kind.unit}
        yield FieldHint(path, kind.name, **said, on_extra_precision=kind.precision, infinity=kind.infinity)


def _iceberg(kind: Kind, ids: Iterator[int]) -> IcebergType:
    if kind.name == "list":
        return ListType(next(ids), _iceberg(kind.inner[0], ids), element_required="element" in kind.needed)
    if kind.name == "map":
        key, item = next(ids), next(ids)
        return MapType(
            key, _iceberg(kind.inner[0], ids), item, _iceberg(kind.inner[1], ids), value_required="value" in kind.needed
        )
    if kind.name == "struct":
        return StructType(
            *(
                NestedField(next(ids), name, _iceberg(inner, ids), required=name in kind.needed)
                for name, inner in zip(kind.names, kind.inner, strict=True)
            )
        )
    return primitive_type(kind.name)
