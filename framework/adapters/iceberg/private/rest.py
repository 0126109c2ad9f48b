"""A REST catalog whose requests end: each has a timeout, and a refusal of the credentials is remembered.

In: PyIceberg's settings of a REST catalog. Out: the same catalog. PyIceberg waits for ever for a server that has
stopped answering on an open connection; here the wait ends in an exception, which is an unknown outcome (invariant 7).
`refused` asks the owner to open the catalog again, with credentials read again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError, ServerError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from requests import Response, Session
from typing_extensions import override

from framework.adapters.file_io_guard import from_server

# The names are those of Iceberg's Java client; values are milliseconds.
CONNECT_TIMEOUT = "rest.client.connection-timeout-ms"
READ_TIMEOUT = "rest.client.socket-timeout-ms"
CONNECT_TIMEOUT_MS = 10_000
# A commit that takes longer may well be applied; it is read back then, never repeated blindly.
READ_TIMEOUT_MS = 30_000

# 401 and 419: expired; some servers answer 403 for an expired token, too.
_REFUSALS = frozenset({401, 403, 419})
# How a message begins that is about a file; about a table it begins with NoSuchTableException.
_FILE_MISSING = "NotFoundException: "


class TimeoutRestCatalog(RestCatalog):
    """PyIceberg's REST catalog; every request that it makes is bounded.

    Goes when PyIceberg takes time-outs and an adapter for its session from the catalog's properties.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self.refused = False
        self._timeout_s = (
            int(properties.get(CONNECT_TIMEOUT) or CONNECT_TIMEOUT_MS) / 1000,
            int(properties.get(READ_TIMEOUT) or READ_TIMEOUT_MS) / 1000,
        )
        super().__init__(name, **properties)
        self.refused = False  # a token that was rebuilt while connecting is good now

    @override
    def _fetch_config(self) -> None:
        # Judged before a session is made of it: `auth` and `ssl` in what a server sends would name classes and
        # certificates.
        own = dict(self.properties)
        super()._fetch_config()
        self.properties = from_server(self.properties, own)

    @override
    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        # Every verb of a session ends in `request`, whatever adapter is mounted for signing.
        session.request = partial(session.request, timeout=self._timeout_s)  # type: ignore[method-assign]
        session.hooks["response"].append(self._hear)
        return session

    @override
    def load_table(self, identifier: str | Identifier) -> Table:
        """As PyIceberg does, which takes every 404 for a table that does not exist. Iceberg's own server gives that status with
        another type where it cannot read the table's metadata file: the table is there, and the store may be away."""
        try:
            found: Table = super().load_table(identifier)
        except NoSuchTableError as error:
            if str(error).startswith(_FILE_MISSING):
                raise ServerError(str(error)) from error
            raise
        return found

    def _hear(self, response: Response, *_: Any, **__: Any) -> None:
        if response.status_code in _REFUSALS:
            self.refused = True
