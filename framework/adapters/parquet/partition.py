"""Rows of one table cut by their partition tuples, with PyIceberg's own transforms.

In: an Arrow table in the file schema, the table's partition spec and schema. Out: per partition its rows, its values in
the JSON form of `framework.commit.events.event_types.DataFile`, and its path. Rows of one partition keep their order.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from framework.adapters.parquet.buckets import bucket_numbers
from framework.record.arrays import SMALL, Ints, one_array, rows_by_number
from framework.record.rows.dictionary_text import plain

_LONGEST_FOLDER = 200  # bytes: paths are percent-encoded; file systems end at 255


@dataclass(frozen=True)
class PartitionRows:
    """The rows of one partition. `values` are JSON single values; `path` is None in an unpartitioned table."""

    rows: pa.Table
    values: tuple[object, ...]
    path: str | None

    def to_path(self) -> str:
        """What PyIceberg's location providers ask of a partition key."""
        return self.path or ""


def partitions(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[PartitionRows]:
    """One Partition per distinct partition tuple, in the order of first sight."""
    if spec.is_unpartitioned():
        yield PartitionRows(rows, (), None)
        return
    # A field that was removed from a table of version 1 stays as `void`: null, whether or not its column is still there.
    is_void = [isinstance(field.transform, VoidTransform) for field in spec.fields]
    in_use = PartitionSpec(*(field for field, void in zip(spec.fields, is_void, strict=True) if not void))
    columns = [transformed(rows, schema, field.source_id, field.transform) for field in in_use.fields]
    order, bounds = rows_by_number(_row_codes(columns, len(rows)))
    count = len(bounds) - 1
    firsts = order[bounds[:-1]]
    taken = rows if count == 1 else rows.take(pa.array(order))
    kinds = [field.field_type for field in in_use.partition_type(schema).fields]
    for code in np.argsort(firsts, kind="stable").tolist():
        first, end = int(bounds[code]), int(bounds[code + 1])
        values = [_plain(column[int(firsts[code])]) for column in columns]
        folders = iter(in_use.partition_to_path(Record(*values), schema).split("/") if values else ())
        path = short_path(
            "/".join(
                f"{quote_plus(field.name, safe='')}=null" if void else next(folders)
                for field, void in zip(spec.fields, is_void, strict=True)
            )
        )
        known = iter([_json(kind, value) for kind, value in zip(kinds, values, strict=True)])
        yield PartitionRows(
            taken.slice(first, end - first), tuple(None if void else next(known) for void in is_void), path
        )


def short_path(path: str) -> str:
    """A partition path whose folders a store can name: a long value is cut, with a hash for the rest. Paths are for
    people; the value itself is in the table's metadata."""
    return "/".join(
        part if len(part) <= _LONGEST_FOLDER else f"{part[:64]}-{hashlib.sha256(part.encode()).hexdigest()[:32]}"
        for part in path.split("/")
    )


def transformed(rows: pa.Table, schema: Schema, source_id: int, transform: object) -> pa.Array:
    """The values of a partition or sort field: a source column, at any depth of structs, through a transform."""
    found = next(((path, field) for path, field in leaves(schema.fields) if field.field_id == source_id), None)
    column = column_at(rows, found[0]) if found else None
    if found is None or column is None:
        raise ValueError(f"the table is partitioned or sorted by field {source_id}, which its files have not")
    kind = found[1].field_type
    column = plain(column)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if isinstance(kind, (TimestampNanoType, TimestamptzNanoType)) and not isinstance(transform, IdentityTransform):
        # Iceberg defines every transform of nanoseconds by that of microseconds, and PyIceberg's lack some or differ.
        column = _microseconds(column)
        kind = TimestampType() if isinstance(kind, TimestampNanoType) else TimestamptzType()
    if isinstance(transform, BucketTransform):
        return bucket_numbers(column, transform.num_buckets)
    return transform.pyarrow_transform(kind)(column)  # type: ignore[attr-defined]


def _microseconds(column: pa.Array) -> pa.Array:
    """Moments in nanoseconds, rounded down: Arrow's own cast rounds towards 1970, which is another hour before it."""
    counts = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    floored = pa.array(np.floor_divide(counts, 1000), mask=column.is_null().to_numpy(zero_copy_only=False))
    return floored.cast(pa.timestamp("us", column.type.tz))


def column_at(rows: pa.Table, path: tuple[str, ...]) -> pa.Array | None:
    """The column at a path of names as one array, null where any struct around it is; None when files do not hold
    it."""
    if path[0] not in rows.schema.names:
        return None
    column = one_array(rows.column(path[0]))
    places = []
    kind = column.type
    for name in path[1:]:
        places.append(kind.get_field_index(name))
        kind = kind.field(places[-1]).type
    return pc.struct_field(column, places) if places else column


def leaves(
    fields: tuple[NestedField, ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], NestedField]]:
    """The columns that hold single values and are in structs only, each with its path of names."""
    for field in fields:
        path = (*above, field.name)
        if isinstance(field.field_type, StructType):
            yield from leaves(field.field_type.fields, path)
        elif field.field_type.is_primitive:
            yield path, field


def _row_codes(columns: list[pa.Array], rows: int) -> Ints:
    """A number for each row, equal where all values are equal."""
    combined: Ints = np.zeros(rows, dtype=np.int64)
    count = 1
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        combined = combined * len(encoded.dictionary) + own
        count *= max(len(encoded.dictionary), 1)
        if count > SMALL:  # of the many that there could be, few are there
            distinct, combined = np.unique(combined, return_inverse=True)
            count = len(distinct)
    return combined


def _plain(scalar: pa.Scalar) -> object:
    """A partition value as Iceberg keeps it: whole numbers for dates and times, bytes for uuids and binary."""
    if not scalar.is_valid:
        return None
    if pa.types.is_date32(scalar.type):
        return scalar.cast(pa.int32()).as_py()
    if pa.types.is_temporal(scalar.type):
        return scalar.cast(pa.int64()).as_py()
    return scalar.as_py()


def _json(kind: IcebergType, value: object) -> object:
    """The JSON form of a partition value, as DataFile documents it."""
    if value is None:
        return None
    if isinstance(kind, UUIDType):
        return str(uuid.UUID(bytes=value) if isinstance(value, bytes) else value)
    if isinstance(kind, (BinaryType, FixedType)) and isinstance(value, bytes):
        return value.hex()
    if isinstance(kind, DecimalType):
        return str(value)
    if isinstance(kind, (FloatType, DoubleType)) and isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
