"""How a new table is partitioned and sorted, in Iceberg's words: the names of its partition fields, and its order.

In: a schema, and what the policy says of partitions and order, columns spelled as the schema spells them. Out: a
partition spec and a sort order. A partition field has Iceberg's usual name, or, where a column has it or files could not
tell it from another field's, that name with a number behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_name
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.types import NestedField

from framework.config.names.column_names import file_names
from framework.config.spec import PartitionFieldSpec, SortFieldSpec
from framework.table.model import TableTarget

# Iceberg's standard names: column `id` gives `id` (identity), `id_bucket`, `id_trunc`, `id_year`, ...
_SUFFIXES = {
    "identity": "",
    "bucket": "_bucket",
    "truncate": "_trunc",
    "year": "_year",
    "month": "_month",
    "day": "_day",
    "hour": "_hour",
}
_WITH_ARGUMENT = ("bucket", "truncate")


def spec_of(schema: Schema, partition_by: Sequence[PartitionFieldSpec]) -> PartitionSpec:
    """The partition spec of a new table.

    Raises:
        ValueError: a column that the schema lacks, or a transform that does not fit its type.
    """
    fields: list[PartitionField] = []
    columns = index_by_name(schema)
    taken: set[str] = set()
    for position, each in enumerate(partition_by):
        source, transform = source_of(schema, each)
        name = _free(each.column + _SUFFIXES[each.transform], columns, source.field_id, taken)
        taken |= file_names(name)
        fields.append(
            PartitionField(
                source_id=source.field_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=transform,
                name=name,
            )
        )
    return PartitionSpec(*fields)


def _free(name: str, columns: dict[str, int], source_id: int, taken: set[str]) -> str:
    number, free = 1, name
    while columns.get(free, source_id) != source_id or not taken.isdisjoint(file_names(free)):
        number += 1
        free = f"{name}_{number}"
    return free


def order_of(schema: Schema, sort_by: Sequence[SortFieldSpec]) -> SortOrder:
    """The sort order of a new table.

    Raises:
        ValueError: a column that the schema lacks, or a transform that does not fit its type.
    """
    fields = []
    for each in sort_by:
        source, transform = source_of(schema, each.by)
        direction = SortDirection.DESC if each.descending else SortDirection.ASC
        nulls = NullOrder.NULLS_FIRST if each.nulls_first else NullOrder.NULLS_LAST
        fields.append(SortField(source.field_id, transform, direction, nulls))
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def source_of(schema: Schema, each: PartitionFieldSpec) -> tuple[NestedField, Transform[Any, Any]]:
    """The column that is transformed, and the transform.

    Raises:
        ValueError: a column that the schema lacks, or a transform that does not fit its type.
    """
    source = schema.find_field(each.column)
    argument = f"[{each.argument}]" if each.transform in _WITH_ARGUMENT else ""
    transform: Transform[Any, Any] = parse_transform(each.transform + argument)
    if not transform.can_transform(source.field_type):
        raise ValueError(f"{transform} does not take {source.field_type}")
    return source, transform


def specs(target: TableTarget) -> tuple[PartitionSpec, ...]:
    """All partition specs of a table, the current one first."""
    return tuple(map(_parsed, (target.spec_json, *target.other_specs_json)))


def partition_fields(target: TableTarget) -> frozenset[str]:
    """The names of the partition fields of all specs: no column may be called so."""
    return frozenset(field.name for spec in specs(target) for field in spec.fields)


@lru_cache(maxsize=4096)
def _parsed(spec_json: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(spec_json)
