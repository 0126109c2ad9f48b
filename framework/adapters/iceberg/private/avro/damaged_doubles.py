"""Partition values that are doubles, and were damaged: which manifests hold some, and what they were before.

In: a table's metadata, and entries of its manifests. Out: entries with the values that the files' bounds say. Earlier
versions of floe wrote such values in single precision, since PyIceberg read them so (`ExactDoubleReader`). This module
goes when no such table is left.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from ctypes import c_float

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType

from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.spec_schemas import can_be_rewritten, partition_types, schema_for_spec

_DOUBLE = struct.Struct("<d")


def places_of_doubles(metadata: TableMetadata, spec: PartitionSpec) -> list[tuple[int, int]]:
    """Which partition values are doubles themselves, and the ids of their columns."""
    if not spec.fields or not can_be_rewritten(metadata, spec):
        return []
    types = partition_types(spec, schema_for_spec(metadata, spec))
    return [
        (place, field.source_id)
        for place, (field, kind) in enumerate(zip(spec.fields, types, strict=True))
        if isinstance(kind, DoubleType) and isinstance(field.transform, IdentityTransform)
    ]


def repair_doubles(file: DataFile, places: Sequence[tuple[int, int]]) -> bool:
    """Whether partition values were damaged; they are what they were before."""
    found = [(place, damaged_double(file, place, source_id)) for place, source_id in places]
    for place, value in found:
        if value is not None:
            file.partition[place] = value
    return any(value is not None for _, value in found)


def damaged_manifests(metadata: TableMetadata, io: FileIO, manifests: Iterable[ManifestFile]) -> list[str]:
    """The paths of those in which partition values that are doubles have single precision only (`damaged_double`)."""
    places = {
        spec_id: found for spec_id, spec in metadata.specs().items() if (found := places_of_doubles(metadata, spec))
    }
    return [
        manifest.manifest_path
        for manifest in manifests
        if (own := places.get(manifest.partition_spec_id))
        and any(repair_doubles(entry.data_file, own) for entry in lineage.read_live_entries(io, manifest))
    ]


def damaged_double(file: DataFile, place: int, source_id: int) -> float | None:
    """The partition value that a file must have had at a place, where its column of doubles is itself the partition and
    the value that stands there has single precision; None where it is right, or nothing says.

    floe wrote such values before 0.1.0: PyIceberg read them so. All rows of the file have one value, so that the bounds of
    the column are that value.
    """
    lower, upper = ((bounds or {}).get(source_id) for bounds in (file.lower_bounds, file.upper_bounds))
    held = file.partition[place]
    if held is None or lower is None or lower != upper or len(lower) != _DOUBLE.size:
        return None
    (value,) = _DOUBLE.unpack(lower)
    return float(value) if held != value and held == c_float(value).value else None
