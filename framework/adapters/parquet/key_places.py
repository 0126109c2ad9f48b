"""Which place changes of a key go to, so that all of one key meet in one place, whichever task read them.

In: rows with their key columns, and the table's partition spec. Out: a number for each row, the same for equal keys on
every machine and in every run: Iceberg's own hash of their values. Where the partition follows from the key alone,
whole partitions go to one place, so that the live rows of a file are looked for in one place, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform

from framework.adapters.parquet.buckets import bucket_numbers
from framework.adapters.parquet.partition import transformed
from framework.record.arrays import Ints, one_array

# Iceberg's hash is asked for as the bucket among so many, a prime.
_HASHES = 2**31 - 1


def key_places(rows: pa.Table, schema: Schema, spec: PartitionSpec, key_ids: Sequence[int], places: int) -> Ints:
    """For each row a number below `places`. Rows need no other columns than those of the key."""
    fields = partition_of_key(spec, key_ids)
    if fields:
        values = [transformed(rows, schema, field.source_id, field.transform) for field in fields]
    else:
        values = [transformed(rows, schema, field_id, IdentityTransform()) for field_id in key_ids]
    hashes: Ints = np.zeros(len(rows), np.int64)
    for column in values:
        hashes = (hashes * 31 + _hash(column)) % _HASHES
    return hashes % places


def partition_of_key(spec: PartitionSpec, key_ids: Sequence[int]) -> tuple[PartitionField, ...]:
    """The spec's fields, where the key alone decides the partition; none where it does not, or there is but one."""
    fields = tuple(field for field in spec.fields if not isinstance(field.transform, VoidTransform))
    return fields if all(field.source_id in key_ids for field in fields) else ()


def _hash(column: pa.Array) -> Ints:
    values = one_array(column)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int32())
    return np.asarray(bucket_numbers(values, _HASHES).fill_null(0), np.int64)
