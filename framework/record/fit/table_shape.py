"""A table as the data plane sees it: the converter of its rows, the Arrow schema of its files, and what to parse JSON
to.

In: a TableTarget, the pipeline's hints and the metadata columns. Out: a cached TableShape. Hints say how to read a
field (format, zone, unit); the table's own schema says what it becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TypeVar

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.config.names.column_names import TOP, prefixes_inside, prefixes_of
from framework.config.names.metadata import metadata_column
from framework.config.spec import (
    BASE64,
    DIGITS,
    HEX,
    Envelope,
    ExtraPrecision,
    FieldHint,
    InfiniteTimes,
    NameCase,
    TablePolicy,
    TextAsNumber,
)
from framework.config.values.type_text import fields_inside, innermost
from framework.record.convert.converter import Converter
from framework.record.convert.nested import ChildField, ListConverter, MapConverter, StructConverter, fold
from framework.record.convert.numbers import (
    BooleanConverter,
    DecimalConverter,
    FloatConverter,
    IntegerConverter,
    TextNumbers,
    UnscaledConverter,
    decimal_parse_type,
)
from framework.record.convert.text import BytesConverter, StringConverter, UuidConverter
from framework.record.convert.times import (
    DateConverter,
    TemporalConverter,
    TimeConverter,
    TimestampConverter,
    number_parse_type,
)
from framework.record.fit.infer_types import missing_fields
from framework.record.json.maps import is_map
from framework.record.model import ObservedType, TableTarget
from framework.record.upsert.lacking import ColumnNames
from framework.table.partitions import partition_fields
from framework.table.policy.names import NOTHING, ColumnCandidates, named, other_spellings, renames
from framework.table.schema.arrow import always_required, arrow_schema, arrow_type, parse_schema


@dataclass(frozen=True)
class UnsupportedConverter(Converter):
    """A column of a type floe does not write: any value for it is an error that says so."""

    def value(self, value: object, path: str) -> object:
        raise self.failure("FLOE-D309", "cannot be written: floe does not write columns of type", value, path)


@dataclass(frozen=True)
class TableShape:
    """`root` converts records to rows; `schema` is the Arrow schema of `root.target` with field ids; `metadata` are the
    columns floe fills itself, by name, with the Kafka field each takes; `no_text` are the lower-cased names of all
    columns, at any depth, that are neither text nor structure; `counts` are those of columns whose numbers count a
    unit of time; `always_required` are the paths of columns that identify rows; `columns` are the table's own, and
    `partition_fields` the names of the partition fields of all its specs; `keys` are the key columns of a table that
    is an upsert table. Whether a record has its key is looked at in the end (framework.record.upsert.rows): no converter
    requires it."""

    root: StructConverter
    schema: pa.Schema
    metadata: dict[str, str]
    insensitive: bool
    parse_fields: dict[str, pa.DataType]
    vectorised: bool
    names: frozenset[str]
    no_text: frozenset[str]
    counts: frozenset[str]
    always_required: frozenset[tuple[str, ...]]
    columns: StructType
    partition_fields: frozenset[str]
    keys: frozenset[str] = frozenset()

    @cached_property
    def maps(self) -> frozenset[str]:
        """The names of the record's fields that are, or hold, maps."""
        return frozenset(name for name, kind in self.parse_fields.items() if is_map(kind))

    @cached_property
    def own(self) -> StructConverter:
        """The converter of a record: without the columns that floe fills itself."""
        return replace(self.root, children=tuple(c for c in self.root.children if c.name not in self.metadata))

    @cached_property
    def relaxed(self) -> StructConverter:
        """The converter of a table like this one in which no value is required."""
        return relaxed(self.own)

    @cached_property
    def fields_of_columns(self) -> tuple[ColumnNames, ...]:
        """Of each column that a record fills the fields of a record that it takes."""
        ids = {field.name: field.field_id for field in self.columns.fields}
        return tuple(ColumnNames(ids[child.name], (child.name, *child.other_names)) for child in self.own.children)

    def is_own(self, name: str) -> bool:
        """Whether a record's field of this name is none of the columns that floe fills itself."""
        folded = fold(name, self.insensitive)
        return all(fold(column, self.insensitive) != folded for column in self.metadata)

    def lacking(self, fields: Mapping[str, ObservedType], policy: TablePolicy) -> ColumnCandidates:
        """What of the fields the table has no column for and may gain one."""
        missing = missing_fields(fields, self.root)
        return named(missing, self.columns, policy, self.partition_fields) if missing else NOTHING

    def without_column(self, names: Iterable[str]) -> list[str]:
        """Of record's fields of these names those that have no column."""
        return [name for name in names if name not in self.parse_fields and not self.has_column(name)]

    def has_column(self, name: str) -> bool:
        """Whether a record's field of this name has a column, under the case policy."""
        return self.root.fold(name) in self.names


def table_shape(
    target: TableTarget,
    hints: tuple[FieldHint, ...],
    metadata_columns: tuple[str, ...],
    envelope: Envelope = Envelope.NONE,
) -> TableShape:
    """The shape of a table; cached per schema, hints and case policy."""
    text = TextNumbers.REFUSED
    if target.policy.values.text_as_number is TextAsNumber.READ:
        text = TextNumbers.UNLESS_BASE64 if envelope is Envelope.DEBEZIUM else TextNumbers.READ
    write = target.policy.write
    key = write.needed if write.is_upsert else ()
    insensitive = target.policy.case is NameCase.INSENSITIVE
    return _shape(
        target.schema_json,
        hints,
        metadata_columns,
        insensitive,
        text,
        key,
        partition_fields(target),
        renames(target.policy),
    )


@lru_cache(maxsize=4096)
def _shape(
    schema_json: str,
    hints: tuple[FieldHint, ...],
    metadata_columns: tuple[str, ...],
    insensitive: bool,
    text: TextNumbers,
    key: tuple[str, ...],
    partition_fields: frozenset[str],
    renaming: bool,
) -> TableShape:
    schema = parse_schema(schema_json)
    by_path = _by_path(hints, insensitive)
    taken = partition_fields if renaming else None
    root = converter_for(schema.as_struct(), "", by_path, insensitive, text, taken)
    assert isinstance(root, StructConverter)
    folded = {fold(name, insensitive) for name in key}
    keys = frozenset(child.name for child in root.children if fold(child.name, insensitive) in folded)
    root = replace(root, children=tuple(replace(c, required=False) if c.name in keys else c for c in root.children))
    metadata = {metadata_column(name): name for name in metadata_columns}
    own = {name: child for child in root.children if (name := _metadata_name(child.name, metadata, insensitive))}
    parse_fields = {
        name: child.converter.parse_type
        for child in root.children
        if child not in own.values() and child.converter.parse_type is not None
        for name in (child.name, *child.other_names)
    }
    return TableShape(
        root=root,
        schema=arrow_schema(schema),
        metadata={child.name: metadata[name] for name, child in own.items()},
        insensitive=insensitive,
        parse_fields=parse_fields,
        vectorised=all(
            child.converter.parse_type is not None or isinstance(child.converter, UnsupportedConverter)
            for child in root.children
        ),
        names=frozenset(fold(child.name, insensitive) for child in root.children),
        no_text=frozenset(_no_text(root)),
        counts=frozenset(_counts(root)),
        always_required=frozenset(_always_required(schema.as_struct(), always_required(schema), ())),
        columns=schema.as_struct(),
        partition_fields=partition_fields,
        keys=keys,
    )


def _by_path(hints: tuple[FieldHint, ...], insensitive: bool) -> dict[str, FieldHint]:
    """Each declared field with its hint, those inside of declared structs, too; their own hints say more of them."""
    found: dict[str, FieldHint] = {}
    for hint in hints:
        if "<" in hint.type:
            inside = fields_inside(hint.path, hint.type)
            found.update((fold(path, insensitive), FieldHint(path, kind)) for path, kind in inside)
    return found | {fold(hint.path, insensitive): hint for hint in hints}


def _always_required(
    struct: StructType, field_ids: frozenset[int], above: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    for child in struct.fields:
        if child.field_id in field_ids:
            yield (*above, child.name)
            if isinstance(child.field_type, StructType):
                yield from _always_required(child.field_type, field_ids, (*above, child.name))


_C = TypeVar("_C", bound=Converter)


def relaxed(converter: _C) -> _C:
    """The converter without required values, at any depth."""
    if isinstance(converter, StructConverter):
        children = tuple(replace(c, converter=relaxed(c.converter), required=False) for c in converter.children)
        return replace(converter, children=children)
    if isinstance(converter, ListConverter):
        return replace(converter, element=relaxed(converter.element), element_required=False)
    if isinstance(converter, MapConverter):
        return replace(converter, item=relaxed(converter.item), item_required=False)
    return converter


def _no_text(struct: StructConverter) -> Iterator[str]:
    for child in struct.children:
        inner = child.converter
        while isinstance(inner, ListConverter):
            inner = inner.element
        if isinstance(inner, StructConverter):
            yield from _no_text(inner)
        elif not isinstance(inner, StringConverter):
            yield child.name.lower()


def _counts(converter: Converter, name: str = "") -> Iterator[str]:
    if isinstance(converter, StructConverter):
        for child in converter.children:
            yield from _counts(child.converter, child.name.lower())
    elif isinstance(converter, ListConverter):
        yield from _counts(converter.element, name)
    elif isinstance(converter, MapConverter):
        yield from _counts(converter.item, name)
    elif isinstance(converter, TemporalConverter) and converter.unit is not None:
        yield name


def _metadata_name(column: str, metadata: Mapping[str, str], insensitive: bool) -> str | None:
    folded = fold(column, insensitive)
    return next((name for name in metadata if fold(name, insensitive) == folded), None)


def converter_for(
    kind: IcebergType,
    path: str,
    hints: Mapping[str, FieldHint],
    insensitive: bool,
    text: TextNumbers = TextNumbers.READ,
    renaming: frozenset[str] | None = None,
    prefixes: tuple[str, ...] = TOP,
) -> Converter:
    """The converter to an Iceberg type.

    Args:
        hints: by folded dotted path (lists and maps add nothing to a path).
        text: whether text is read as a number or boolean.
        renaming: the names of the table's partition fields, where fields are renamed whose names no column can have.
        prefixes: what stands before the full names of the columns inside.
    """
    hint = hints.get(fold(path, insensitive))
    below = (hints, insensitive, text, renaming)
    target = arrow_type(kind)
    name = str(kind)
    if target is None:
        return UnsupportedConverter(pa.null(), None, name)
    if isinstance(kind, StructType):
        others: dict[str, str] = {}
        if renaming is not None:
            others = other_spellings((child.name for child in kind.fields), prefixes, insensitive, renaming)
        children = tuple(
            ChildField(
                child.name,
                _never_null(converter, child.required),
                child.required,
                names,
            )
            for child in kind.fields
            for names in (tuple(name for name, column in others.items() if column == child.name),)
            for converter in (
                converter_for(
                    child.field_type,
                    _hinted(path, (*names, child.name), hints, insensitive),
                    *below,
                    prefixes_of(prefixes, child.name),
                ),
            )
        )
        kinds = [(name, child.converter.parse_type) for child in children for name in (child.name, *child.other_names)]
        parsed = [pa.field(name, parse_type) for name, parse_type in kinds if parse_type and not is_map(parse_type)]
        whole = len(parsed) == len(kinds)
        folded = tuple((fold(name, insensitive), fold(column, insensitive)) for name, column in others.items())
        return StructConverter(target, pa.struct(parsed) if whole else None, "struct", children, insensitive, folded)
    if isinstance(kind, ListType):
        element = converter_for(
            kind.element_type, path, *below, prefixes_inside(prefixes, "element", kind.element_type.is_struct)
        )
        readable = element.parse_type is not None and not is_map(element.parse_type)
        parse_type = pa.list_(element.parse_type) if readable else None
        element = _never_null(element, kind.element_required)
        return ListConverter(target, parse_type, "list", element, kind.element_required)
    if isinstance(kind, MapType):
        # The keys of a JSON object are text, whatever they say.
        key = converter_for(kind.key_type, path, {}, insensitive)
        item = converter_for(
            kind.value_type, path, *below, prefixes_inside(prefixes, "value", kind.value_type.is_struct)
        )
        readable = isinstance(kind.key_type, StringType) and item.parse_type is not None
        parse_type = pa.map_(pa.string(), item.parse_type) if readable else None
        item = _never_null(item, kind.value_required)
        return MapConverter(target, parse_type, "map", key, item, kind.value_required)
    return _primitive(kind, target, name, hint, text)


def _never_null(converter: Converter, required: bool) -> Converter:
    """The converter of values that are required: none of them becomes null."""
    if required and isinstance(converter, TemporalConverter):
        return replace(converter, infinity_is_null=False)
    return converter


def _hinted(above: str, names: tuple[str, ...], hints: Mapping[str, FieldHint], insensitive: bool) -> str:
    """The path of a field: by the first of its names for which, or for something in which, there is a hint; else by the
    last."""
    paths = [f"{above}.{name}" if above else name for name in names]
    folded = [fold(path, insensitive) for path in paths[:-1]]
    said = (
        path
        for path, each in zip(paths, folded, strict=False)
        if any(f"{hint}.".startswith(f"{each}.") for hint in hints)
    )
    return next(said, paths[-1])


def _primitive(
    kind: IcebergType, target: pa.DataType, name: str, hint: FieldHint | None, text: TextNumbers
) -> Converter:
    reads_text = text is not TextNumbers.REFUSED
    if isinstance(kind, BooleanType):
        return BooleanConverter(target, pa.bool_(), name, reads_text)
    if isinstance(kind, (IntegerType, LongType)):
        return IntegerConverter(target, pa.int64(), name, 32 if isinstance(kind, IntegerType) else 64, reads_text)
    if isinstance(kind, (FloatType, DoubleType)):
        declared = hint is not None and innermost(hint.type) in ("float", "double")
        return FloatConverter(target, target, name, isinstance(kind, DoubleType) and not declared, reads_text)
    if isinstance(kind, DecimalType):
        if hint and hint.format == BASE64:
            return UnscaledConverter(target, pa.string(), name, kind.precision, kind.scale)
        parse_type = decimal_parse_type(kind.precision, kind.scale)
        may_be_base64 = text is TextNumbers.UNLESS_BASE64 and (hint is None or hint.format != DIGITS)
        return DecimalConverter(target, parse_type, name, kind.precision, kind.scale, reads_text, may_be_base64)
    if isinstance(kind, StringType):
        return StringConverter(target, pa.string(), name)
    if isinstance(kind, UUIDType):
        return UuidConverter(target, pa.string(), name)
    if isinstance(kind, (BinaryType, FixedType)):
        encoding = HEX if hint and hint.format == HEX else BASE64
        return BytesConverter(target, pa.string(), name, encoding, len(kind) if isinstance(kind, FixedType) else None)
    reading: tuple[str | None, str | None, str | None, bool, bool, bool] = (None, None, None, reads_text, False, False)
    if hint:
        cuts, knows = hint.on_extra_precision is ExtraPrecision.TRUNCATE, hint.infinity is InfiniteTimes.NULL
        reading = (hint.format, hint.zone, hint.unit, reads_text, cuts, knows)
    parse_type = number_parse_type() if hint and hint.unit else pa.string()
    if isinstance(kind, DateType):
        return DateConverter(target, parse_type, name, *reading)
    if isinstance(kind, TimeType):
        return TimeConverter(target, parse_type, name, *reading)
    resolution = "ns" if isinstance(kind, (TimestampNanoType, TimestamptzNanoType)) else "us"
    with_zone = isinstance(kind, (TimestamptzType, TimestamptzNanoType))
    assert with_zone or isinstance(kind, (TimestampType, TimestampNanoType))
    return TimestampConverter(target, parse_type, name, *reading, resolution, with_zone)
