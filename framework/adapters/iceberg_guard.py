"""What a table may tell PyIceberg to do: nothing but how to lay its files out.

In: a catalog that is open, the properties of tables. Out: the same catalog, whose FileIOs have the target's settings alone.
Whoever may alter a table may set its properties, and PyIceberg reads classes to import, hosts and credentials from them;
invariant: none of those is ever read from a table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import TableProperties, locations

from framework.config.permitted import is_below, safe_properties
from framework.errors import TableBlocked

_PLACES = (TableProperties.WRITE_DATA_PATH, TableProperties.WRITE_METADATA_PATH)


def _default_provider(_impl: str, location: str, properties: dict[str, str]) -> locations.LocationProvider:
    """In the place of PyIceberg's function, which imports what the property names."""
    kept = {key: value for key, value in properties.items() if key != TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL}
    return locations.load_location_provider(location, kept)


# PyIceberg asks for a provider in many places, with the properties as they are; all of them end here.
locations._import_location_provider = _default_provider  # type: ignore[assignment]


def guarded(catalog: Catalog) -> Catalog:
    """The catalog, whose tables' properties no longer reach a FileIO."""
    if not hasattr(catalog, "_load_file_io"):
        return catalog
    load, own = catalog._load_file_io, dict(catalog.properties)
    # A REST server vends hosts and credentials beside the table's properties; who loads another class for one trusts it.
    vended = isinstance(catalog, RestCatalog)

    def with_the_targets_settings(properties: Any = None, location: str | None = None) -> Any:
        given = properties or {}
        return load(without_imports(given, own) if vended else safe_properties(given), location)

    catalog._load_file_io = with_the_targets_settings  # type: ignore[method-assign]
    return catalog


def without_imports(settings: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """What a catalog's server sends, without keys that name code: those are the target's alone."""
    return {key: value for key, value in settings.items() if key in own or not key.lower().endswith("impl")}


def check_places(table: str, roots: Collection[str], properties: dict[str, str]) -> None:
    """Refuse a table whose properties send its files elsewhere than below one of these: its own location, the catalog's
    warehouse, what the target allows.

    Raises:
        TableBlocked: FLOE-R142.
    """
    for key in _PLACES:
        path = properties.get(key)
        if path and not is_below(path, roots):
            raise TableBlocked(
                f"table {table} has {key} = {path}, which is neither below its own location nor where the target lets tables "
                "have files",
                code="FLOE-R142",
                place=table,
                remedy=f"ALTER TABLE ... UNSET TBLPROPERTIES ('{key}'); or name the place under `allow.locations` in the target",
            )
