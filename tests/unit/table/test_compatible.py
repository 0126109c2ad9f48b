"""Which schemas' files may still be added to a table."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from framework.table.schema.compatibility import unusable_schema_ids


def schema(kind: IcebergType, required: bool = False, field_id: int = 1) -> Schema:
    return Schema(NestedField(field_id, "a", kind, required=required))


def unusable(old: Schema, new: Schema) -> bool:
    return unusable_schema_ids({0: old, 1: new}, 1) == {0}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (IntegerType(), LongType()),
        (FloatType(), DoubleType()),
        (DecimalType(9, 2), DecimalType(18, 2)),
        (StringType(), StringType()),
        (ListType(2, IntegerType()), ListType(2, LongType())),
        (MapType(2, StringType(), 3, FloatType()), MapType(2, StringType(), 3, DoubleType())),
        (StructType(NestedField(2, "x", IntegerType())), StructType(NestedField(2, "y", LongType()))),
    ],
    ids=str,
)
def test_promotions_and_renames_keep_files_usable(old: IcebergType, new: IcebergType) -> None:
    """Files written before a legal promotion or a rename can still be added."""
    assert not unusable(schema(old), schema(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LongType(), IntegerType()),
        (DoubleType(), FloatType()),
        (IntegerType(), DoubleType()),
        (DecimalType(18, 2), DecimalType(9, 2)),
        (DecimalType(9, 2), DecimalType(9, 3)),
        (DateType(), TimestampType()),
        (ListType(2, StringType()), ListType(3, StringType())),
        (ListType(2, StringType(), element_required=False), ListType(2, StringType(), element_required=True)),
        (MapType(2, StringType(), 3, LongType()), MapType(2, StringType(), 3, IntegerType())),
        (StructType(NestedField(2, "x", LongType())), StructType(NestedField(3, "x", LongType()))),
        (StructType(NestedField(2, "x", LongType())), LongType()),
    ],
    ids=str,
)
def test_other_changes_make_files_unusable(old: IcebergType, new: IcebergType) -> None:
    """Files whose values could not be read exactly any more are refused."""
    assert unusable(schema(old), schema(new))


def test_dropped_and_added_columns() -> None:
    """A dropped column makes older files unusable, an added optional one does not, an added required one does."""
    one = NestedField(1, "a", LongType(), required=False)
    more = NestedField(2, "b", LongType(), required=False)
    must = NestedField(2, "b", LongType(), required=True)
    assert unusable(Schema(one, more), Schema(one))
    assert not unusable(Schema(one), Schema(one, more))
    assert unusable(Schema(one), Schema(one, must))


def test_nulls_where_none_are_allowed() -> None:
    """Files that may hold nulls are refused once the column is required; the other way round they are fine."""
    assert unusable(schema(LongType()), schema(LongType(), required=True))
    assert not unusable(schema(LongType(), required=True), schema(LongType()))


def test_a_column_that_was_made_again_is_another_column() -> None:
    """A column dropped and added again under the same name has a new id, and older files are refused."""
    assert unusable(schema(StringType(), field_id=1), schema(StringType(), field_id=2))


def test_schemas_that_were_removed_are_unusable() -> None:
    """What a schema said that is no longer in the metadata cannot be checked, so its files are refused."""
    assert unusable_schema_ids({3: schema(LongType()), 1: schema(LongType())}, 3) == {0, 2}
