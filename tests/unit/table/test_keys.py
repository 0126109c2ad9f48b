"""Whether a table that is there can be upserted by a key."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from framework.config.spec import Deletes, NameCase, TablePolicy, WriteMode, WritePolicy
from framework.table.changes import Refusal
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema
from framework.table.upsert.keys import TableKey, key_of


def table(
    *key: str, version: int = 2, deletes: Deletes = Deletes.AUTO, case: NameCase = NameCase.INSENSITIVE
) -> TableTarget:
    """A table of columns that can be a key and of such that cannot."""
    nested: list[IcebergType] = [ListType(10, StringType()), StructType(NestedField(11, "a", LongType()))]
    schema = Schema(
        NestedField(1, "Id", LongType(), required=True),
        NestedField(2, "region", StringType(), required=False),
        NestedField(3, "price", DoubleType(), required=False),
        NestedField(4, "tags", nested[0], required=False),
        NestedField(5, "customer", nested[1], required=False),
    )
    policy = TablePolicy(write=WritePolicy(WriteMode.UPSERT, key, deletes=deletes), case=case)
    spec = UNPARTITIONED_PARTITION_SPEC.model_dump_json()
    schema_json = schema.model_dump_json()
    return TableTarget(
        "shop.orders", "uuid", "file:///t", schema_json, 0, spec, 0, 0, 11, {}, policy, format_version=version
    )


def test_a_key_is_columns_of_the_table() -> None:
    """The columns come in the order of the policy, as the table spells them; those that may be null are told."""
    key = key_of(table("region", "id"))

    assert isinstance(key, TableKey)
    assert [field.field_id for field in key.fields] == [2, 1]
    assert key.optional == ("region",)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (table("number"), "FLOE-T111"),
        (table("id", case=NameCase.SENSITIVE), "FLOE-T111"),
        (table("a"), "FLOE-T111"),
        (table("price"), "FLOE-T112"),
        (table("tags"), "FLOE-T112"),
        (table("customer"), "FLOE-T112"),
        (table("id", version=1), "FLOE-T113"),
        (table("id", deletes=Deletes.DELETION_VECTORS), "FLOE-T113"),
        (table("id", version=3, deletes=Deletes.POSITION_DELETES), "FLOE-T113"),
    ],
)
def test_what_cannot_be_upserted_is_refused_by_name(found: TableTarget, code: str) -> None:
    """A column that is not there or cannot be compared, and a format version without the deletes, each have their
    code."""
    refusal = key_of(found)

    assert isinstance(refusal, Refusal)
    assert refusal.code == code


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("number", "no column number"),
        ("price", "double"),
        ("tags", "list"),
        ("customer", "struct"),
        ("flag", "boolean"),
    ],
)
def test_what_cannot_order_records_is_refused_by_name(column: str, reason: str) -> None:
    """A column that is not there, or whose values have no exact order."""
    found = table("id")
    schema = parse_schema(found.schema_json)
    flag = NestedField(6, "flag", BooleanType(), required=False)
    write = replace(found.policy.write, order_field=column)
    policy = replace(found.policy, write=write)
    schema_json = Schema(*schema.fields, flag).model_dump_json()
    refusal = key_of(replace(found, policy=policy, schema_json=schema_json))
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.path) == ("FLOE-T114", (column,))
    assert reason in refusal.reason


def test_the_column_that_orders_is_found_under_the_case_policy() -> None:
    """As the table spells it."""
    found = table("id")
    key = key_of(replace(found, policy=replace(found.policy, write=replace(found.policy.write, order_field="REGION"))))
    assert isinstance(key, TableKey)
    assert key.order is not None
    assert key.order.name == "region"


@pytest.mark.parametrize("deletes", [Deletes.AUTO, Deletes.COPY_ON_WRITE])
def test_auto_takes_what_the_version_has(deletes: Deletes) -> None:
    """Without a wish for a kind of deletes, versions 2 and 3 can both be upserted."""
    for version in (2, 3):
        assert isinstance(key_of(replace(table("id", deletes=deletes), format_version=version)), TableKey)
