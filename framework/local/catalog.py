"""The embedded catalog: PyIceberg's SQL catalog in one SQLite file, and a warehouse directory beside it.

Paths come in, the settings of a ready catalog go out. Everything a production catalog does through its settings, this
one does through the same settings.
"""

from __future__ import annotations

import sqlite3

from framework.adapters.host.private_files import private_dir, remove_private, touch_private
from framework.local.state import LocalPaths


def catalog_uri(paths: LocalPaths) -> str:
    """The SQLAlchemy URI of the catalog's file."""
    return f"sqlite:///{paths.catalog_file}"


def warehouse_uri(paths: LocalPaths) -> str:
    """The warehouse as a `file://` URI."""
    return f"file://{paths.warehouse}"


def prepare_catalog(paths: LocalPaths) -> None:
    """Creates the catalog's tables and the warehouse, once; what is there stays as it is."""
    private_dir(paths.warehouse)
    if paths.catalog_file.exists():
        return
    from pyiceberg.catalog.sql import SqlCatalog  # a second of imports that only the first `up` needs

    draft = paths.catalog_file.with_suffix(".new")
    remove_private(draft)
    touch_private(draft)  # SQLite gives the files beside it the same mode
    SqlCatalog("default", uri=f"sqlite:///{draft}", warehouse=warehouse_uri(paths)).close()
    with sqlite3.connect(draft) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # kept in the file: readers and a committer do not wait
    connection.close()
    draft.replace(paths.catalog_file)
