"""Opens every FileIO and every table's location provider; no class is imported because a table says so.

In: a target's own settings and what is lent for a table, its location and properties. Out: PyIceberg's FileIO and
location provider; of S3 the FileIO that counts requests. Whoever may alter a table may set its properties, and
PyIceberg imports the class that `write.py-location-provider.impl` names; invariant: here it never does, in the driver
and in every task, since whatever opens a file imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import SCHEMA_TO_FILE_IO, FileIO, load_file_io
from pyiceberg.table import TableProperties, locations

from framework.config.names.table_names import catalog_of, identifier_of

__all__ = ["file_io", "key_of", "location_provider", "settings_of"]


def file_io(settings: Mapping[str, str], location: str) -> FileIO:
    """A FileIO with the target's settings, and nothing of a table's properties."""
    return load_file_io(dict(settings), location)


def key_of(table: str) -> str:
    """Under which settings of one table stand among those of catalogs, whose names have no colon."""
    return f"{catalog_of(table)}:{identifier_of(table)}"


def settings_of(io_properties: Mapping[str, Mapping[str, str]], table: str) -> Mapping[str, str]:
    """What a table's FileIO is made with: what its catalog lends for it alone, or what holds for all of the catalog's."""
    lent = io_properties.get(key_of(table))
    return io_properties[catalog_of(table)] if lent is None else lent


def location_provider(location: str, properties: Mapping[str, str]) -> locations.LocationProvider:
    """PyIceberg's own provider, as the other properties have it."""
    return locations.load_location_provider(location, dict(properties))


def _default_provider(_impl: str, location: str, properties: dict[str, str]) -> locations.LocationProvider:
    """In the place of PyIceberg's function, which imports what the property names."""
    kept = {key: value for key, value in properties.items() if key != TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL}
    return locations.load_location_provider(location, kept)


# PyIceberg asks for a provider in many places, with the properties as they are; all of them end here.
locations._import_location_provider = _default_provider  # type: ignore[assignment]

# PyIceberg imports the class when a file is first opened; all its ways to a FileIO look here.
for _scheme in ("s3", "s3a", "s3n"):
    SCHEMA_TO_FILE_IO[_scheme] = ["framework.adapters.store.private.S3Files"]
