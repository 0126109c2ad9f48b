"""Which tables floe can write: by their format version, their columns and the catalog that keeps them.

In: loaded metadata, or what PyIceberg said when it could not load it. Out: why a table cannot be written, in words for
people, or None. A table that is refused here is not touched at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.schema import index_by_id
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from framework.adapters.iceberg.upsert.target import ROW_ID
from framework.diagnose.shown import argument
from framework.errors import TableBlocked
from framework.table.readable import TableDefinition, faults
from framework.table.schema.arrow import arrow_type

FORMAT_VERSIONS = (1, 2, 3)
ENCRYPTION_KEY = "encryption.key-id"
# Of the specification: the name of the column that holds when a row was last changed.
UPDATED = "_last_updated_sequence_number"
_NOT_WRITTEN = (UnknownType, GeometryType, GeographyType)

_UNKNOWN_TYPE = re.compile(r"(?:Type not recognized: |Unsupported field type: ')(\w+)")
_UNKNOWN_DEFAULT = re.compile(r"Cannot deserialize bytes, type (\S+) not supported")


def writable_versions(catalog: Catalog) -> tuple[int, ...]:
    """The format versions of tables that floe can write in this catalog.

    A REST server writes the tables' metadata itself. Of the catalogs that leave it to the client PyIceberg writes no
    version 3, and floe does it where it has a catalog of its own.
    """
    if isinstance(catalog, MetastoreCatalog) and not getattr(catalog, "writes_version_3", False):
        return FORMAT_VERSIONS[:-1]
    return FORMAT_VERSIONS


def unwritable(metadata: TableMetadata, catalog: Catalog) -> str | None:
    """Why floe cannot write a table; None when it can."""
    version = metadata.format_version
    if version not in writable_versions(catalog):
        return (
            f"it has Iceberg format version {version}, which floe writes only through REST and SQL catalogs, "
            f"not through {type(catalog).__name__}"
        )
    if ENCRYPTION_KEY in metadata.properties:
        return f"its files are encrypted (it has the property {ENCRYPTION_KEY}), and floe cannot write encrypted files"
    if isinstance(metadata, TableMetadataV3):
        if metadata.next_row_id is None:
            return "its metadata does not say the next row id (next-row-id), which format version 3 requires"
        for field in index_by_id(metadata.schema()).values():
            if isinstance(field.field_type, _NOT_WRITTEN):
                return f"its column {field.name} is of the type {field.field_type}, which floe does not write"
        if (column := _partitioned_by_nanoseconds(metadata)) is not None:
            return f"it is partitioned by the nanosecond column {column}, and PyIceberg cannot read the manifests of such a table"
    return None


def _partitioned_by_nanoseconds(metadata: TableMetadata) -> str | None:
    """The column of nanoseconds whose values themselves stand in the manifests of a table."""
    for field in (field for spec in metadata.partition_specs for field in spec.fields):
        if isinstance(field.transform, (IdentityTransform, VoidTransform)):
            known = (
                schema.find_field(field.source_id) for schema in metadata.schemas if field.source_id in schema.field_ids
            )
            source = next(known, None)
            if source is not None and isinstance(source.field_type, (TimestampNanoType, TimestamptzNanoType)):
                return source.name
    return None


def unreadable(error: Exception) -> str | None:
    """Why PyIceberg cannot read a table's metadata, where it is for a type that it does not know; None for other
    errors."""
    for each in _causes(error):
        if found := _UNKNOWN_TYPE.search(str(each)):
            return f"it has a column of the type {found[1]}, which floe cannot read or write"
        if found := _UNKNOWN_DEFAULT.search(str(each)):
            return f"it has a default value of the type {found[1]}, which floe cannot read or write"
    return None


def refused(table: str, reason: str) -> TableBlocked:
    """The error for a table that floe does not write."""
    return TableBlocked(
        f"table {table} cannot be written: {reason}",
        code="FLOE-R131",
        place=table,
        remedy="write to another table; docs/compatibility.md lists which tables floe can write",
    )


def raise_for_names(table: str, definition: TableDefinition) -> None:
    """For a table that cannot be written: tell where that is for the name of a column.

    Raises:
        TableBlocked: it is.
    """
    fault = next((each for each in faults(definition) if each.is_name), None)
    if fault is not None:
        raise TableBlocked(
            f"table {table} cannot be written: {fault}",
            code="FLOE-R148",
            place=table,
            remedy=f"floe doctor --repair {argument(table)}, with the `-t` of the run: it renames the column",
        )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def cannot_rewrite(metadata: TableMetadata) -> str:
    """Why files of a table cannot be rewritten without losing something; "" where they can."""
    schema = metadata.schema()
    for field in schema.fields:
        if not _is_known(field.field_type):
            return f"column {field.name} is {field.field_type}, which floe does not write"
    if any(field.name in (ROW_ID, UPDATED) for field in schema.fields):
        return f"it has a column {ROW_ID} or {UPDATED}, names that Iceberg keeps for itself"
    return ""


def _is_known(kind: IcebergType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_known(field.field_type) for field in kind.fields)
    if isinstance(kind, ListType):
        return _is_known(kind.element_type)
    if isinstance(kind, MapType):
        return _is_known(kind.key_type) and _is_known(kind.value_type)
    return arrow_type(kind) is not None
