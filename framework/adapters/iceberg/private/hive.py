"""A Hive catalog that several threads may ask at once.

In: PyIceberg's catalog of a Hive metastore. Out: the same one. PyIceberg keeps one connection, on which threads read each other's
answers and close it for each other, so that a table's answer may be another's; here each thread has a connection of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from pyiceberg.catalog import Catalog


class _ClientOfEachThread:
    """Stands for PyIceberg's `_HiveClient`, which opens its connection for each request and closes it behind it."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._own = threading.local()

    def __enter__(self) -> Any:
        if not hasattr(self._own, "client"):
            self._own.client = self._make()
        return self._own.client.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._own.client.__exit__(*raised)


def connect_each_thread(catalog: Any) -> Catalog:
    """The Hive catalog, with a connection for each thread that asks it."""
    catalog._client = _ClientOfEachThread(partial(catalog._create_hive_client, catalog.properties))
    made: Catalog = catalog
    return made
