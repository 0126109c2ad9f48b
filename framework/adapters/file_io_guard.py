"""Opens every catalog, and checks every table that is loaded through it.

In: PyIceberg's settings as the target has them, and where the target allows tables to have files. Out: a catalog whose
FileIOs have only the target's settings, and which returns no table located elsewhere. Whoever may alter a table may set
its location and its properties, and PyIceberg reads classes to import, hosts and credentials from them. Invariant: none
of those is ever read from a table, and no file is read, written or removed outside the target's places. What a
table's metadata names elsewhere than in the table's own places is not removed: it is somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.catalog.rest.auth import AUTH_MANAGER
from pyiceberg.io import load_file_io
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Identifier

import framework.adapters.file_io  # noqa: F401  # the provider of file names is guarded there
from framework.adapters.catalog_auth import with_mappings
from framework.adapters.server_settings import ServerSettings, with_lent
from framework.config.names.table_names import full_name
from framework.config.rules.permitted import is_below, is_location
from framework.errors import TableBlocked

_PLACES = (TableProperties.WRITE_DATA_PATH, TableProperties.WRITE_METADATA_PATH)
_S3 = ("s3://", "s3a://", "s3n://")


def open_catalog(name: str, settings: Mapping[str, str], allowed: Iterable[str] = ()) -> Catalog:
    """PyIceberg's own catalog of these settings, guarded. `allowed`: as `guarded`."""
    return guarded(load_catalog(name, **with_mappings(settings)), settings, allowed)


def guarded(catalog: Catalog, settings: Mapping[str, str], allowed: Iterable[str] = ()) -> Catalog:
    """The catalog, whose tables' properties no longer reach a FileIO, and whose tables lie where the target says.

    Args:
        allowed: where tables may have files beside the catalog's warehouse. Where neither says a place (the warehouse
            of a REST server is often a mere name), the catalog itself is trusted with where its tables lie.
    """
    roots = places(settings, allowed)
    if isinstance(catalog, RestCatalog):
        server = getattr(catalog, "server", None)
        if server is None:
            own = {key: value for key, value in settings.items() if not key.startswith(("auth.", "ssl."))}
            server = ServerSettings(own, roots)
            catalog.properties = server.with_config(catalog.properties)
        _guard_answers(catalog, server)
    elif hasattr(catalog, "_load_file_io"):
        _guard_file_io(catalog)
    if isinstance(catalog, MetastoreCatalog):
        _guard_new_places(catalog, roots)
    load: Callable[[Any], Table] = catalog.load_table

    def load_table(identifier: str | Identifier) -> Table:
        table = load(identifier)
        name = full_name(catalog.name, ".".join(table.name()))
        check_places(name, roots, table.metadata.location, table.metadata.properties)
        _guard_removal(table.io, name, own_places(table.metadata.location, table.metadata.properties))
        return table

    catalog.load_table = load_table  # type: ignore[method-assign]
    return catalog


class ForeignFile(PermissionError):
    """A file that is to be removed lies elsewhere than where its table has its files: it may be anybody's."""


def own_places(location: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Where a table has its own files: its location, and where its properties send its data and its metadata."""
    return (location, *(path for key in _PLACES if (path := properties.get(key))))


def owner_of(path: str, roots: Mapping[str, Collection[str]]) -> str | None:
    """The table that a file belongs to, by where the tables lie: the one whose place is the innermost around it; None
    where there is none, or more than one.

    Args:
        roots: by table, its own places.
    """
    around = [
        (len(root.rstrip("/").split("/")), name)
        for name, places in roots.items()
        for root in places
        if is_below(path, (root,))
    ]
    innermost = {name for depth, name in around if depth == max(around)[0]}
    return innermost.pop() if len(innermost) == 1 else None


def _guard_removal(io: Any, table: str, own: Collection[str]) -> None:
    """Whatever a table's metadata names, and whoever asks: only files in the table's own places are removed."""
    delete = io.delete

    def delete_own(location: Any) -> None:
        path = location if isinstance(location, str) else location.location
        if not is_below(path, own):
            raise ForeignFile(f"{path} does not lie where table {table} has its files")
        delete(location)

    io.delete = delete_own


def places(settings: Mapping[str, str], allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """Where a catalog's tables may have their files: its warehouse, where that is a location, and what the target
    allows."""
    return tuple(place for place in (settings.get("warehouse", ""), *allowed) if is_location(place))


def check_places(table: str, roots: Collection[str], location: str, properties: Mapping[str, str]) -> None:
    """Refuse a table whose location leads elsewhere than below one of these places, or whose properties send its files
    elsewhere than below these or its own location. Without any place, its location is as its catalog says.

    Raises:
        TableBlocked: FLOE-R142.
    """
    if roots and not is_below(location, roots):
        raise _elsewhere(table, "the location", location, "ALTER TABLE ... SET LOCATION back to where it was")
    for key in _PLACES:
        path = properties.get(key)
        if path and not is_below(path, (location, *roots)):
            raise _elsewhere(table, key, path, f"ALTER TABLE ... UNSET TBLPROPERTIES ('{key}')")


def _guard_file_io(catalog: Any) -> None:
    load = catalog._load_file_io

    def with_the_targets_settings(properties: Any = None, location: str | None = None) -> Any:
        return load({}, location)  # a table's properties say nothing that a FileIO needs

    catalog._load_file_io = with_the_targets_settings


def _guard_answers(catalog: RestCatalog, server: ServerSettings) -> None:
    """PyIceberg makes a FileIO of a table's properties and of what the server sends for it; of the first none is kept,
    and of the second what is on the lists. `config` of the table says what was taken."""
    for method in ("_response_to_table", "_response_to_staged_table"):
        setattr(catalog, method, _of_the_server_alone(getattr(catalog, method), catalog, server))

    def with_lent_keys(properties: Any = None, location: str | None = None) -> Any:
        settings = with_lent(catalog.properties, properties or {})
        return load_file_io(settings | {AUTH_MANAGER: catalog._auth_manager}, location)

    catalog._load_file_io = with_lent_keys  # type: ignore[method-assign]


def _of_the_server_alone(
    convert: Callable[..., Any], catalog: RestCatalog, server: ServerSettings
) -> Callable[..., Any]:
    def converted(identifier: tuple[str, ...], response: TableResponse) -> Any:
        location = response.metadata.location
        lent = catalog._resolve_storage_credentials(response.storage_credentials, location.rstrip("/") + "/")
        if server.wants_to_sign(response.config, lent) and location.startswith(_S3):
            raise _to_be_signed(full_name(catalog.name, ".".join(identifier)))
        known: dict[str, Any] = {
            "metadata": response.metadata.model_copy(update={"properties": {}}),
            "config": server.of_table(response.config, lent),
            "storage_credentials": [],
        }
        table = convert(identifier, response.model_copy(update=known))
        table.metadata = response.metadata
        return table

    return converted


def _to_be_signed(table: str) -> TableBlocked:
    return TableBlocked(
        f"the catalog of table {table} signs each request to the store itself (`s3.remote-signing-enabled`) and lends no "
        "keys, which floe does not support",
        code="FLOE-R149",
        place=table,
        remedy="have the catalog lend keys (`vended-credentials`); or add `s3.access-key-id` and `s3.secret-access-key` to "
        "connections.catalog in the target",
    )


def _guard_new_places(catalog: Any, roots: Collection[str]) -> None:
    """Where a new table goes may come from its namespace, whose properties others set."""
    resolve = catalog._resolve_table_location

    def resolved(location: str | None, namespace: str, table: str) -> str:
        place: str = resolve(location, namespace, table)
        check_places(full_name(catalog.name, f"{namespace}.{table}"), roots, place, {})
        return place

    catalog._resolve_table_location = resolved


def _elsewhere(table: str, what: str, place: str, remedy: str) -> TableBlocked:
    return TableBlocked(
        f"table {table} has {what} {place}, where the target does not allow tables to have files",
        code="FLOE-R142",
        place=table,
        remedy=f"{remedy}; or add the place to `allow.locations` in the target",
    )
