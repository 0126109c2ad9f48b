"""Values that a column can hold and its partition cannot.

In: rows of a table and how it is partitioned. Out: which of them have no partition, and why. `truncate(50, amount)` rounds
down: of -999.99 in a `decimal(5, 2)` it makes -1000.00, which has a digit too many, so that no writer of Iceberg can say in
which partition the row is. Of the least whole numbers it makes large positive ones, as Iceberg's libraries wrap around, and
a reader that looks for negative numbers passes over that partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import DecimalType, IntegerType, LongType, StructType

from framework.record.arrays import Mask, one_array
from framework.record.failure import RecordFailure
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema

_DIGITS = Context(prec=76)


@dataclass(frozen=True)
class LeastValue:
    """The least value of a column that has a partition, with the column's path and why there is one."""

    path: tuple[str, ...]
    least: Decimal
    why: str

    def below(self, rows: pa.Table) -> tuple[Mask, pa.Array] | None:
        """Which rows have less, and the column; None where no row has."""
        if self.path[0] not in rows.column_names:
            return None
        column = one_array(rows.column(self.path[0]))
        for name in self.path[1:]:
            column = pc.struct_field(column, name)
        least = int(self.least) if pa.types.is_integer(column.type) else self.least
        found = pc.less(column, pa.scalar(least, column.type)).fill_null(False)
        return (found.to_numpy(zero_copy_only=False), column) if pc.any(found).as_py() else None

    def failure(self, value: object) -> RecordFailure:
        column = ".".join(self.path)
        message = f"{column}: '{value}' has no partition: {self.why}"
        expected, actual = f"a number from {self.least} on", str(value)
        return RecordFailure("convert", "FLOE-D302", message, field_path=column, expected=expected, actual=actual)


def least_values(target: TableTarget) -> tuple[LeastValue, ...]:
    """Of the columns that partitions of the table are made of."""
    return _least_values(target.spec_json, target.schema_json) if "truncate" in target.spec_json else ()


@lru_cache(maxsize=1024)
def _least_values(spec_json: str, schema_json: str) -> tuple[LeastValue, ...]:
    return tuple(_found(PartitionSpec.model_validate_json(spec_json), schema_json))


def _found(spec: PartitionSpec, schema_json: str) -> Iterator[LeastValue]:
    columns = dict(_numbers(parse_schema(schema_json).as_struct()))
    for field in spec.fields:
        path, kind = columns.get(field.source_id, ((), None))
        if kind is None or not isinstance(field.transform, TruncateTransform):
            continue
        width = field.transform.width
        if isinstance(kind, DecimalType):
            most = 10**kind.precision - 1
            least = Decimal(-(most // width) * width).scaleb(-kind.scale, _DIGITS)
            why = f"{field.transform} of it has more digits than decimal({kind.precision}, {kind.scale})"
        else:
            most = 1 << (31 if isinstance(kind, IntegerType) else 63)
            least, why = Decimal(-(most // width) * width), f"{field.transform} of it is below the least {kind}"
        yield LeastValue(path, least, why)


def _numbers(
    struct: StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[tuple[str, ...], DecimalType | IntegerType | LongType]]]:
    for field in struct.fields:
        path = (*above, field.name)
        if isinstance(field.field_type, StructType):
            yield from _numbers(field.field_type, path)
        elif isinstance(field.field_type, (DecimalType, IntegerType, LongType)):
            yield field.field_id, (path, field.field_type)
