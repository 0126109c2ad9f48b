"""Columns of a data file as the table has them now, whoever wrote the file: found by the specification's rules, at any
depth.

In: a Parquet file, and columns of a table with what its files need to be read (`TableColumns`). Out: these columns:
renamed, moved and widened ones with their values. A column that the file lacks has the value that the file's partition
says it has, as in tables that came from Hive, else its initial default, else null; a file without field ids goes by the
table's name mapping. Invariant: what was null stays null, and no value changes. Whoever reads data files reads them here.

PyIceberg's own reader makes an empty list of a null one whose elements are structs, and an empty map of a null one whose
values are (its ArrowProjectionVisitor builds both without what is null). When that is repaired there, this module can go;
a test in tests/iceberg/test_layouts.py notices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import InputStream
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from framework.adapters.store.counted_files import parquet_file
from framework.adapters.value_bytes import plain, plain_type
from framework.record.rows.nested_slices import own_entries
from framework.table.schema.arrow import arrow_type, parse_schema

_FIELD_ID = b"PARQUET:field_id"
# Of a struct's children, of a list's element or of a map's key and value: what they may be called in a file without ids.
_Names = Sequence[MappedField]


class NotProjected(OSError):
    """The file cannot be read as the table is now."""


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table in an order, and what it takes to read any of its data files as them: small when pickled.

    `name_mapping` is the property of that name, for files without field ids. `identities` are, by the id of each
    partition spec, the ids of the fields that partitions have as they are, with their place in the partition.
    """

    schema_json: str
    name_mapping: str | None = None
    identities: tuple[tuple[int, tuple[tuple[int, int], ...]], ...] = ()

    @property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(field.field_id for field in parse_schema(self.schema_json).fields)

    @property
    def meaning(self) -> str:
        """What makes the same bytes of a file the same values: where it changes, what was made of them is of no use."""
        fields = [
            [f.field_id, str(f.field_type), repr(f.initial_default)] for f in parse_schema(self.schema_json).fields
        ]
        names = [[each.field_id, each.names] for each in _mapping(self.name_mapping or "[]")]
        return json.dumps([fields, names])

    def as_now(self, values: pa.Table) -> pa.Table:
        """Values of these columns, in their order, as they were before a type was promoted."""
        kinds = [plain_type(_arrow(field.field_type)) for field in parse_schema(self.schema_json).fields]
        columns = (plain(column) for column in values.columns)
        cast = [
            column if column.type == kind else column.cast(kind) for column, kind in zip(columns, kinds, strict=True)
        ]
        return pa.Table.from_arrays(cast, values.column_names)

    def of(self, field_ids: Sequence[int]) -> TableColumns:
        """These alone, in this order."""
        by_id = {field.field_id: field for field in parse_schema(self.schema_json).fields}
        mapping = None
        if self.name_mapping is not None:
            kept = [each for each in _mapping(self.name_mapping) if each.field_id in field_ids]
            mapping = NameMapping(kept).model_dump_json()
        return replace(
            self,
            schema_json=Schema(*(by_id[each] for each in field_ids)).model_dump_json(),
            name_mapping=mapping,
        )


def table_columns(metadata: TableMetadata, schema: Schema | None = None) -> TableColumns:
    """The columns of a table, or of a schema for its rows."""
    identities = []
    for spec in metadata.partition_specs:
        places = (
            (field.source_id, place)
            for place, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
        )
        identities.append((spec.spec_id, tuple(places)))
    return TableColumns(
        (schema or metadata.schema()).model_dump_json(),
        metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING),
        tuple(identities),
    )


class FileColumns:
    """Of one opened file: which of its columns are read, and what is made of them."""

    def __init__(self, found: pa.Schema, columns: TableColumns, spec_id: int, partition: Sequence[Any]) -> None:
        """Raises NotProjected where the file has no field ids and the table no name mapping."""
        self._schema = parse_schema(columns.schema_json)
        self._mapped: _Names | None = None
        if not _has_any_id(found):
            if columns.name_mapping is None:
                raise NotProjected("it has no field ids, and the table has no name mapping to find its columns by")
            self._mapped = _mapping(columns.name_mapping)
        self._places = _places(found, self._mapped)
        identities = dict(columns.identities).get(spec_id, ())
        # As PyIceberg reads them; readers of Iceberg's Java library take a null as well, which is what there is then.
        self._constants = {field: partition[place] for field, place in identities if partition[place] is not None}
        wanted = (self._places[field.field_id] for field in self._schema.fields if field.field_id in self._places)
        self.names = [found.field(place).name for place in wanted]

    def read(self, rows: pa.Table) -> pa.Table:
        """The table's columns, of rows with at least the columns `names` of the file.

        Raises:
            NotProjected: a required column is missing, or a type is none that Iceberg promotes to the present one.
        """
        return projected(rows, self._schema, self._mapped, self._constants)


def open_parquet(stream: InputStream) -> pq.ParquetFile:
    """A data file; moments of 96 bits, which Hive and Spark write, come as those of the specification."""
    return parquet_file(stream, coerce_int96_timestamp_unit="us")


def projected(
    table: pa.Table, schema: Schema, mapped: _Names | None = None, constants: Mapping[int, Any] | None = None
) -> pa.Table:
    """The rows in the schema's columns.

    Args:
        mapped: the names of columns, where they have no field ids.
        constants: by field id the value of columns that are not there.

    Raises:
        NotProjected: a required column is missing, or a type is none that Iceberg promotes to the present one.
    """
    columns, constants = _places(table.schema, mapped), constants or {}
    fields, arrays = [], []
    for field in schema.fields:
        kind = _arrow(field.field_type)
        if field.field_id in columns:
            chunks = table.column(columns[field.field_id]).chunks
            inside = _inner(mapped, field.field_id)
            array = pa.chunked_array([_as(chunk, field.field_type, inside, constants) for chunk in chunks], type=kind)
        else:
            array = pa.chunked_array([_missing(field, len(table), constants)], type=kind)
        arrays.append(array)
        fields.append(pa.field(field.name, kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


@lru_cache(maxsize=256)
def _mapping(text: str) -> tuple[MappedField, ...]:
    return tuple(parse_mapping_from_json(text))


def _has_any_id(fields: Iterable[pa.Field]) -> bool:
    return any(_id_of(field) is not None or _has_any_id(_inside(field.type)) for field in fields)


def _places(fields: Iterable[pa.Field], mapped: _Names | None) -> dict[int, int]:
    """By field id the place of each field, by its own id or by its name."""
    if mapped is None:
        return {found: place for place, field in enumerate(fields) if (found := _id_of(field)) is not None}
    by_name = {name: each.field_id for each in mapped for name in each.names if each.field_id is not None}
    return {by_name[field.name]: place for place, field in enumerate(fields) if field.name in by_name}


def _inner(mapped: _Names | None, field_id: int) -> _Names | None:
    """The names of what is inside of a field."""
    if mapped is None:
        return None
    return next((each.fields for each in mapped if each.field_id == field_id), ())


def _as(values: pa.Array, kind: IcebergType, mapped: _Names | None, constants: Mapping[int, Any]) -> pa.Array:
    wanted = _arrow(kind)
    mask = values.is_null() if values.null_count else None
    if isinstance(kind, StructType):
        if not pa.types.is_struct(values.type):
            raise NotProjected(f"{values.type} is no struct")
        places = _places(values.type, mapped)
        children = [
            _as(values.field(places[field.field_id]), field.field_type, _inner(mapped, field.field_id), constants)
            if field.field_id in places
            else _missing(field, len(values), constants)
            for field in kind.fields
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if isinstance(kind, ListType):
        if not _is_list(values.type):
            raise NotProjected(f"{values.type} is no list")
        if not pa.types.is_list(values.type):  # an Arrow writer's own choice, which it keeps beside the file's schema
            values = values.cast(pa.list_(values.type.value_field))
        offsets, (elements,) = own_entries(values, values.values)
        elements = _as(elements, kind.element_type, _inner(mapped, kind.element_id), constants)
        return pa.ListArray.from_arrays(offsets, elements, type=wanted, mask=mask)
    if isinstance(kind, MapType):
        if not pa.types.is_map(values.type):
            raise NotProjected(f"{values.type} is no map")
        offsets, (keys, items) = own_entries(values, values.keys, values.items)
        keys = _as(keys, kind.key_type, _inner(mapped, kind.key_id), constants)
        items = _as(items, kind.value_type, _inner(mapped, kind.value_id), constants)
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=mask)
    return _promoted(values, wanted)


def _promoted(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type.equals(wanted):
        return values
    try:
        if isinstance(wanted, pa.ExtensionType):
            storage = values.storage if isinstance(values, pa.ExtensionArray) else values
            return pa.ExtensionArray.from_storage(wanted, storage.cast(wanted.storage_type))
        return values.cast(wanted)
    except pa.ArrowException as error:
        raise NotProjected(f"{values.type} is not read as {wanted}: {error}") from error


def _missing(field: NestedField, count: int, constants: Mapping[int, Any]) -> pa.Array:
    kind = _arrow(field.field_type)
    if field.field_id in constants:
        return pa.repeat(pa.scalar(constants[field.field_id], kind), count)
    if field.initial_default is not None:
        return pa.repeat(pa.scalar(field.initial_default, kind), count)
    if field.required:
        raise NotProjected(f"the required column {field.name} is missing")
    return pa.nulls(count, kind)


def _arrow(kind: IcebergType) -> pa.DataType:
    found = arrow_type(kind)
    if found is None:
        raise NotProjected(f"floe writes no {kind}")
    return found


def _inside(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if _is_list(kind) else []


def _is_list(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    views = (pa.types.is_list_view, pa.types.is_large_list_view)
    return any(check(kind) for check in (*checks, *views))


def _id_of(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(_FIELD_ID)
    return int(found) if found is not None else None
