"""Which schema a table's partition specs are read and written with.

In: a table's metadata and a spec, which may be an old one whose columns are gone. Out: a schema with the spec's columns,
the types of its partition values, and whether manifests of the spec can be written anew.
"""

from __future__ import annotations

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform
from pyiceberg.types import IcebergType, UUIDType


class UnknownSpec(ValueError):
    """A file names a partition spec that the table does not have, or whose columns no schema of the table has."""


def schema_for_spec(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The current schema, or, when it has lost a source column of an old spec, the newest one that still has them all.

    Raises:
        UnknownSpec: no schema of the table has the spec's source columns.
    """
    current = metadata.schema()
    older = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    sources = {field.source_id for field in spec.fields}
    for schema in (current, *older):
        if sources <= set(schema.field_ids):
            return schema
    raise UnknownSpec(f"partition spec {spec.spec_id} names columns that no schema of the table has: {sorted(sources)}")


def partition_types(spec: PartitionSpec, schema: Schema) -> list[IcebergType]:
    """The types of a file's partition values."""
    return [field.field_type for field in spec.partition_type(schema).fields]


def uuid_places(metadata: TableMetadata, spec: PartitionSpec) -> list[int]:
    """Which partition values of a spec are UUIDs."""
    types = partition_types(spec, schema_for_spec(metadata, spec)) if spec.fields else []
    return [place for place, kind in enumerate(types) if isinstance(kind, UUIDType)]


def can_be_rewritten(metadata: TableMetadata, spec: PartitionSpec) -> bool:
    """Manifests of a transform that PyIceberg does not know, or of columns that are gone, stay as they are."""
    sources = {field.source_id for field in spec.fields}
    known = any(sources <= set(schema.field_ids) for schema in metadata.schemas)
    return known and not any(isinstance(field.transform, UnknownTransform) for field in spec.fields)
