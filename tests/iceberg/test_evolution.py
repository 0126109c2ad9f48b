"""What the pure planner decides is what a real catalog accepts."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import DoubleType, LongType, StringType, StructType

from framework.adapters.iceberg.tables import IcebergTables
from framework.config.spec import TablePolicy
from framework.table.changes import AlterTable, CreateTable
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.model import TableNeed

pytestmark = pytest.mark.iceberg


def test_a_planned_table_grows_by_planned_columns(catalog_settings: dict[str, str]) -> None:
    """A table made from a plan takes the next planned change, flat and nested, and the one after that."""
    tables = IcebergTables(catalog_settings)
    policy = TablePolicy()
    created = plan_create(TableNeed("a.b", (("id", "long"), ("where", ["struct", [["x", "long"]]]))), policy, (), ())
    assert isinstance(created, CreateTable)
    tables.create_table(created)

    for need in (
        TableNeed("a.b", (("note", "string"), ("where", ["struct", [["y", "double"]]]))),
        TableNeed("a.b", (("tags", ["list", "string"]),)),
    ):
        target = tables.load_target("a.b", policy)
        assert target is not None
        change = plan_evolution(target, need)
        assert isinstance(change, AlterTable)
        assert tables.alter_table(change)

    schema = load_catalog("default", **catalog_settings).load_table("a.b").schema()
    assert [field.name for field in schema.fields] == ["id", "where", "note", "tags"]
    assert schema.find_type("note") == StringType()
    where = schema.find_type("where")
    assert isinstance(where, StructType)
    assert [(field.name, field.field_type) for field in where.fields] == [("x", LongType()), ("y", DoubleType())]
