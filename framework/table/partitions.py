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
from framework.config.values.transforms import TRANSFORMS
from framework.table.model import TableTarget


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
        name = _free(each.column + TRANSFORMS[each.transform].suffix, columns, source.field_id, taken)
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
    transform = transform_of(each)
    if not transform.can_transform(source.field_type):
        raise ValueError(f"{transform} does not take {source.field_type}")
    return source, transform


def transform_of(each: PartitionFieldSpec) -> Transform[Any, Any]:
    """PyIceberg's transform."""
    transform: Transform[Any, Any] = parse_transform(
        each.transform if each.argument is None else f"{each.transform}[{each.argument}]"
    )
    return transform


def specs(target: TableTarget) -> tuple[PartitionSpec, ...]:
    """All partition specs of a table, the current one first."""
    return tuple(map(_parsed, (target.spec_json, *target.other_specs_json)))


def partition_fields(target: TableTarget) -> frozenset[str]:
    """The names of the partition fields of all specs: no column may be called so."""
    return frozenset(field.name for spec in specs(target) for field in spec.fields)


@lru_cache(maxsize=4096)
def _parsed(spec_json: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(spec_json)
