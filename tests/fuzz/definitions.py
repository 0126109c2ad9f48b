"""Definitions of tables that records and people may bring about: names of every family, and specs beside them.

In: a seed. Out: a Definition, whose metadata Iceberg's Java library is asked about (`metadata_json`). Names are drawn from
families that libraries stumble over; most of a definition is plain, so that what is odd stands alone.
"""

from __future__ import annotations

import json
import random
import uuid
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from framework.table.readable import TableDefinition

PLAIN = ("id", "ts", "name", "meta", "value", "x", "Id2", "é", "long name", "key", "element", "a", "b")
# `MetadataColumns` of the Java library, which Spark refuses as columns.
KEPT_BY_ICEBERG = ("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
LIKE_PARTITIONS = ("ts_day", "id_bucket", "x_trunc", "name_trunc", "meta.ts_day", "ts_hour", "meta.x")
EMPTY = ("", ".", " ", "..")
# Each of a line is the same in files as the others of it.
TWINS = (
    ("1", "_1"),
    ("a.b", "a_x2Eb"),
    ("a b", "a_x20b"),
    ("a-", "a_x2D"),
    ("\u0663", "_\u0663"),
    ("\U0001f600", "_xD83D_xDE00"),
)
FAMILIES: dict[str, tuple[str, ...]] = {
    "plain": PLAIN,
    "kept by Iceberg": KEPT_BY_ICEBERG,
    "like partitions": LIKE_PARTITIONS,
    "empty": EMPTY,
    "twins": tuple(name for line in TWINS for name in line),
}
TYPES: tuple[IcebergType, ...] = (
    LongType(),
    LongType(),
    StringType(),
    TimestamptzType(),
    TimestamptzType(),
    DateType(),
    DoubleType(),
    DecimalType(9, 2),
    FixedType(4),
)
TRANSFORMS: tuple[Transform[Any, Any], ...] = (
    IdentityTransform(),
    BucketTransform(4),
    TruncateTransform(3),
    DayTransform(),
    HourTransform(),
    VoidTransform(),
)
_SUFFIXES = {"identity": "", "bucket": "_bucket", "truncate": "_trunc", "day": "_day", "hour": "_hour", "void": "_null"}


class _Draw:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.last = 0
        odd = chance.choice([name for name in FAMILIES if name != "plain"])
        self.odd, self.odd_share = FAMILIES[odd], chance.choice((0.0, 0.1, 0.4))

    def id(self) -> int:
        self.last += 1
        return self.last

    def name(self) -> str:
        return self.chance.choice(self.odd if self.chance.random() < self.odd_share else PLAIN)

    def struct(self, depth: int) -> StructType:
        names: list[str] = []
        for _ in range(self.chance.choice((1, 2, 3, 5))):
            name = self.name()
            if name not in names:  # two of one name are no schema of anybody's
                names.append(name)
        ids = [self.id() for _ in names]
        return StructType(
            *(
                NestedField(field_id, name, self.kind(depth), required=self.chance.random() < 0.2)
                for field_id, name in zip(ids, names, strict=True)
            )
        )

    def kind(self, depth: int) -> IcebergType:
        what = self.chance.random()
        if depth and what < 0.15:
            return self.struct(depth - 1)
        if depth and what < 0.22:
            return ListType(self.id(), self.kind(depth - 1), element_required=False)
        if depth and what < 0.27:
            return MapType(self.id(), StringType(), self.id(), self.kind(depth - 1), value_required=False)
        return self.chance.choice(TYPES)

    def spec(self, number: int, fields: list[tuple[str, NestedField]], first_id: int) -> PartitionSpec:
        made = []
        for position in range(self.chance.choice((0, 1, 1, 2))):
            full, source = self.chance.choice(fields)
            transform = self.chance.choice(TRANSFORMS)
            usual = full + _SUFFIXES[str(transform).partition("[")[0]]
            name = usual if self.chance.random() < 0.8 else self.name()
            made.append(PartitionField(source.field_id, first_id + position, transform, name))
        return PartitionSpec(*made, spec_id=number)


def definition(seed: int) -> TableDefinition:
    """Any definition whose full names are all different: that much PyIceberg asks of a schema, too."""
    chance = random.Random(seed)
    while True:
        draw = _Draw(chance)
        root = draw.struct(2)
        try:
            schema = Schema(*root.fields)
            fields = [(schema.find_column_name(id_) or "", field) for id_, field in schema._lazy_id_to_field.items()]
        except ValueError:
            continue
        identifiers = [field.field_id for _, field in fields if chance.random() < 0.05]
        # PyIceberg makes no schema with identifiers that cannot be, and reads one that others have made.
        schema = Schema.model_construct(fields=schema.fields, schema_id=0, identifier_field_ids=identifiers)
        specs = tuple(
            draw.spec(number, fields, PARTITION_FIELD_ID_START + 10 * number)
            for number in range(chance.choice((1, 1, 2, 3)))
        )
        orders = ()
        if chance.random() < 0.3:
            source, transform = chance.choice(fields)[1], chance.choice(TRANSFORMS[:3])
            by = SortField(source.field_id, transform, SortDirection.ASC, NullOrder.NULLS_FIRST)
            orders = (SortOrder(by, order_id=1),)
        return TableDefinition(schema, specs, orders, 2)


def metadata_json(wanted: TableDefinition) -> str:
    """The metadata of an empty table of this definition, as a catalog would keep it."""
    partition_ids = [field.field_id for spec in wanted.specs for field in spec.fields]
    schema = json.loads(Schema(*wanted.schema.fields).model_dump_json())
    schema["identifier-field-ids"] = list(wanted.schema.identifier_field_ids)
    return json.dumps(
        {
            "format-version": wanted.format_version,
            "last-sequence-number": 0,
            "location": "file:///nowhere",
            "table-uuid": str(uuid.UUID(int=1)),
            "last-updated-ms": 1,
            "last-column-id": wanted.schema.highest_field_id,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [json.loads(spec.model_dump_json()) for spec in wanted.specs],
            "default-spec-id": wanted.specs[0].spec_id,
            "last-partition-id": max(partition_ids, default=PARTITION_FIELD_ID_START - 1),
            "sort-orders": [
                {"order-id": 0, "fields": []},
                *(json.loads(each.model_dump_json()) for each in wanted.orders),
            ],
            "default-sort-order-id": wanted.orders[0].order_id if wanted.orders else 0,
            "properties": {},
        }
    )
