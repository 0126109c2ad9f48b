"""A REST catalog whose requests end: each has a timeout, and a refusal of the credentials is remembered.

In: PyIceberg's settings of a REST catalog. Out: the same catalog. PyIceberg waits for ever for a server that has
stopped answering on an open connection; here the wait ends in an exception, which is an unknown outcome (invariant 7).
A token that is refused is asked for once more. A listing ends as well: a page that leads back to one before it, or a page
too many, is an error. `refused` asks the owner to open the catalog again, with credentials read again: the last answer was
a refusal, or no token is to be had.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyiceberg.catalog import URI
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager, OAuth2AuthManager
from pyiceberg.exceptions import NoSuchTableError, OAuthError, ServerError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier
from requests import Response, Session
from typing_extensions import override

from framework.adapters.file_io_guard import places
from framework.adapters.iceberg.private.rest.tokens import BoundedTokens
from framework.adapters.server_settings import ServerSettings

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
_MOST_PAGES = 10_000


class TimeoutRestCatalog(RestCatalog):
    """PyIceberg's REST catalog; every request that it makes is bounded.

    Goes when PyIceberg takes time-outs and an adapter for its session from the catalog's properties.
    """

    def __init__(self, name: str, locations: Iterable[str] = (), **properties: Any) -> None:
        """`locations`: where the target lets tables have files beside the warehouse."""
        self.refused = False
        self._listing = threading.local()
        self.server = ServerSettings(properties, places(properties, locations))
        self._tokens: BoundedTokens | None = None
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
        super()._fetch_config()
        self.properties = self.server.with_config(self.properties)
        self.uri = self.properties[URI]

    @override
    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        if isinstance(manager := self._auth_manager, OAuth2AuthManager):
            # One for both sessions of a catalog: the one that asks for its configuration, and the one that stays.
            given = manager.token_provider
            self._tokens = self._tokens or BoundedTokens(given, self._timeout_s, self._note_refusal, session.verify)
            manager.token_provider = self._tokens
        self._bound(session)
        return session

    @override
    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        self._bound(session)  # it asks for its first token at once
        made: AuthManager = super()._create_legacy_oauth2_auth_manager(session)
        return made

    @override
    def _refresh_token(self) -> None:
        """PyIceberg calls it after a refusal, before it asks the catalog once more."""
        if self._tokens is not None:
            self._tokens.forget()
            return
        try:
            super()._refresh_token()
        except OAuthError:
            self._note_refusal()
            raise

    def _bound(self, session: Session) -> None:
        if self._hear in session.hooks["response"]:
            return
        # Every verb of a session ends in `request`, whatever adapter is mounted for signing. Authorities that a file names win
        # over those of the environment (REQUESTS_CA_BUNDLE) only where they come with the request.
        verify = session.verify if isinstance(session.verify, str) else None
        session.request = partial(session.request, timeout=self._timeout_s, verify=verify)  # type: ignore[method-assign]
        session.hooks["response"].append(self._hear)

    def _note_refusal(self) -> None:
        self.refused = True

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

    @override
    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        with self._pages():
            found: list[Identifier] = super().list_tables(namespace)
        return found

    @override
    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        with self._pages():
            found: list[Identifier] = super().list_namespaces(namespace)
        return found

    @contextmanager
    def _pages(self) -> Iterator[None]:
        self._listing.tokens = set()
        try:
            yield
        finally:
            self._listing.tokens = None

    def _turn_page(self, response: Response) -> None:
        tokens = getattr(self._listing, "tokens", None)
        if tokens is None or not response.ok or "next-page-token" not in response.text:
            return
        token = response.json().get("next-page-token")
        if token and (token in tokens or len(tokens) >= _MOST_PAGES):
            raise ServerError(
                "the catalog's list has no end: a page leads to one that was read before, or there are too many"
            )
        tokens.add(token)

    def _hear(self, response: Response, *_: Any, **__: Any) -> None:
        self._turn_page(response)
        if response.status_code in _REFUSALS:
            self.refused = True
        elif response.ok:
            self.refused = False  # by a token that was asked for meanwhile
