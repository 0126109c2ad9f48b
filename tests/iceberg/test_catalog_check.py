"""A catalog that cannot be used is told with place and remedy before anything is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.tables import IcebergTables
from framework.errors import FloeError, SetupError

pytestmark = pytest.mark.iceberg


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({}, "FLOE-E202", "no `type`"),
        ({"type": "postgres"}, "FLOE-E202", "'postgres'"),
        ({"type": "in-memory"}, "FLOE-E202", "'in-memory'"),
        ({"type": "sql", "warehouse": "file:///w"}, "FLOE-E202", "`uri` is missing"),
        ({"type": "sql", "uri": "sqlite:///x.db"}, "FLOE-E203", "warehouse"),
        (
            {"type": "sql", "uri": "sqlite:////no/such/folder/x.db", "warehouse": "file:///w"},
            "FLOE-E201",
            "unable to open",
        ),
        ({"type": "rest"}, "FLOE-E202", "`uri` is missing"),
        ({"type": "rest", "uri": "http://127.0.0.1:1"}, "FLOE-E201", "refused"),
        ({"py-catalog-impl": "no.such.Catalog"}, "FLOE-E202", "no.such.Catalog"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, str], code: str, said: str) -> None:
    """Each kind of wrong setting has its own code, says what is wrong, and names the target's entry and a remedy."""
    with pytest.raises(SetupError) as caught:
        IcebergCatalog(settings, "lake").check()
    assert caught.value.code == code
    assert said in caught.value.message
    assert "connections.catalog.lake" in caught.value.place
    assert caught.value.remedy


def test_a_password_in_the_address_is_never_shown(tmp_path: Path) -> None:
    """Errors about an address show it without what stands before the @."""
    uri = "http://floe:s3cret@127.0.0.1:1/api"
    with pytest.raises(SetupError) as caught:
        IcebergTables({"type": "rest", "uri": uri}).check()
    assert "s3cret" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_good_catalog_passes(catalog_settings: dict[str, str]) -> None:
    """A catalog that can be used is accepted, again and again, and from several processes' worth of adapters."""
    for _ in range(2):
        tables = IcebergTables(catalog_settings)
        tables.check()
        assert tables.list_tables() == []


def test_a_table_whose_metadata_is_gone_is_named(catalog_settings: dict[str, str], tmp_path: Path) -> None:
    """A table that cannot be loaded raises an error that names it, and does not look like a missing table."""
    tables = IcebergTables(catalog_settings)
    from tests.iceberg.conftest import Lake

    name = Lake(catalog_settings).create("shop.orders")
    for path in (tmp_path / "warehouse").rglob("*.metadata.json"):
        path.unlink()
    with pytest.raises(FloeError, match=r"shop.orders cannot be loaded") as caught:
        tables.load_view(name, "main", "topic")
    assert caught.value.place == name


def test_tasks_get_what_they_need_and_no_more() -> None:
    """Tasks are given the store's settings; address and credentials of the catalog stay in the driver."""
    settings = {
        "type": "rest",
        "uri": "http://catalog",
        "credential": "id:secret",
        "token": "t",
        "oauth2-server-uri": "http://auth",
        "warehouse": "s3://lake",
        "s3.endpoint": "http://store",
        "s3.secret-access-key": "k",
    }
    assert IcebergCatalog(settings).io_properties() == {
        "warehouse": "s3://lake",
        "s3.endpoint": "http://store",
        "s3.secret-access-key": "k",
    }
