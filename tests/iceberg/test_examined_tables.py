"""A commit uses the table that its view was taken from, and never one that it was not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg import examined_tables
from framework.adapters.iceberg.examined_tables import MOST, ExaminedTables
from framework.adapters.iceberg.views import view_of
from framework.commit.machine.effects import ExaminedTable
from tests.iceberg.conftest import Lake

pytestmark = pytest.mark.iceberg


@pytest.fixture
def table(lake: Lake) -> Table:
    lake.catalog.create_namespace_if_not_exists("shop")
    return lake.catalog.create_table("shop.examined", Schema(NestedField(1, "id", LongType(), required=False)))


@pytest.fixture
def view(table: Table) -> ExaminedTable:
    return view_of("shop.examined", table.metadata, "main", "control")


def test_it_is_given_once_and_for_its_own_view(table: Table, view: ExaminedTable) -> None:
    """What was examined is given for that view alone, and not a second time."""
    examined = ExaminedTables()
    examined.put(view, table)
    assert examined.take(replace(view)) is table
    assert examined.take(view) is None
    examined.put(view, table)
    assert examined.take(replace(view, schema_id=7)) is None
    assert examined.take(view) is None


def test_old_and_many_are_forgotten(table: Table, view: ExaminedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few tables are kept, and none for long: the next commit loads them."""
    examined = ExaminedTables()
    for number in range(MOST + 1):
        examined.put(replace(view, table=f"shop.t{number}"), table)
    assert examined.take(replace(view, table="shop.t0")) is None
    assert examined.take(replace(view, table="shop.t1")) is table
    monkeypatch.setattr(examined_tables, "KEPT_S", -1.0)
    assert examined.take(replace(view, table="shop.t2")) is None
