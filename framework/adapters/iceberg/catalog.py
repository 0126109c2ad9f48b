"""One Iceberg catalog: its settings, how it is opened, and the error if it cannot be opened.

In: PyIceberg's own settings, secrets resolved. Out: an open catalog with the commits to its tables, or a SetupError
that names the catalog and never a secret. It is opened at first use, and again after it refused the credentials.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import SIGV4
from pyiceberg.exceptions import NoSuchNamespaceError, NotInstalledError, OAuthError
from pyiceberg.table import Table
from pyiceberg.utils.properties import property_as_bool

from framework.adapters.catalog_auth import EXTRAS, way_of, with_mappings
from framework.adapters.file_io_guard import guarded, open_catalog
from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.private.hive import connect_each_thread
from framework.adapters.iceberg.private.ordered_times import with_ordered_times
from framework.adapters.iceberg.private.rest.catalog import TimeoutRestCatalog
from framework.adapters.iceberg.private.rest.tokens import NoToken
from framework.adapters.secrets import first_line, hidden
from framework.adapters.server_settings import with_lent
from framework.config.names.table_names import DEFAULT_CATALOG, full_name
from framework.errors import SetupError

log = logging.getLogger(__name__)

CATALOG_TYPES = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery")

# What only the catalog itself needs; everything else goes to the tasks, which need it to write files.
_CATALOG_ONLY = ("uri", "type", "name", "credential", "token", "scope", "py-catalog-impl", "echo")
_CATALOG_ONLY_PREFIXES = (
    "rest.", "oauth2", "auth", "header.", "ssl", "hive.", "dynamodb.", "glue.", "gcp.bigquery.", "pool_", "init_catalog_",
)  # fmt: skip
_SIGNER = ("client.access-key-id", "client.secret-access-key", "client.session-token")
_NO_TOKEN = (
    "check that the server of tokens runs, and that it knows the client and its secret; a secret that is replaced is read"
    " again with the next try"
)


class IcebergCatalog:
    """One catalog. Opened at first use, and anew after it refused our credentials; safe for threads."""

    def __init__(
        self,
        settings: Mapping[str, str] | None,
        name: str = DEFAULT_CATALOG,
        settings_now: Callable[[], Mapping[str, str]] | None = None,
        locations: Iterable[str] = (),
    ) -> None:
        """`settings_now` gives the settings with secrets read anew: a token that was replaced is found without a
        restart. With it alone they are read when the catalog is first needed, so that one that is not needs no secrets.
        `locations`: where the target lets tables have files beside the warehouse."""
        self._read = None if settings is None else dict(settings)
        self._settings_now = settings_now
        self._name = name
        self._locations = tuple(locations)
        self._lock = threading.Lock()
        self._outdated = False
        self._opened: tuple[Catalog, TableCommits] | None = None

    @property
    def _settings(self) -> dict[str, str]:
        if self._read is None:
            self._read = dict(self._settings_now()) if self._settings_now is not None else {}
        return self._read

    def check(self) -> None:
        """Find out whether the catalog can be used.

        Raises:
            SetupError: FLOE-E201 it cannot be reached; FLOE-E202 its settings are wrong; FLOE-E203 it has no warehouse
                to put new tables into; FLOE-E204 a package is missing.
        """
        if self._kind() == "sql" and not self._settings.get("warehouse"):
            raise self._setup_error(
                "it has no `warehouse`", "FLOE-E203", "set `warehouse`, for example file:///data/lake"
            )
        catalog, _ = self.open()
        try:
            catalog.list_namespaces()
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error

    def io_properties(self) -> dict[str, str]:
        """The settings that tasks need to write files. Credentials of the catalog itself are left out; so are those with
        which its requests are signed, where there are others for the store."""
        is_signed = property_as_bool(self._settings, SIGV4, False)
        of_signer = _SIGNER if is_signed and "s3.access-key-id" in self._settings else ()
        return {
            key: value
            for key, value in self._settings.items()
            if key not in (*_CATALOG_ONLY, *of_signer) and not key.startswith(_CATALOG_ONLY_PREFIXES)
        }

    def io_properties_of(self, table: Table) -> dict[str, str]:
        """The same for the files of one table, with what the catalog's server lends for it."""
        return with_lent(self.io_properties(), table.config)

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Full names of the tables of one namespace (none when it does not exist), or of all, in order."""
        catalog, _ = self.open()
        try:
            names = [(namespace,)] if namespace is not None else list(_namespaces(catalog, ()))
            found = [table for each in names for table in catalog.list_tables(".".join(each))]
        except NoSuchNamespaceError:
            return []
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error
        tables = {".".join(table) for table in found}
        # What others call so, no pipeline can name: a colon in a full name ends the catalog's.
        return sorted(full_name(self._name, table) for table in tables if ":" not in table)

    def open(self) -> tuple[Catalog, TableCommits]:
        with self._lock:
            if self._opened is not None and getattr(self._opened[0], "refused", False):
                self._opened, self._outdated = None, True
            if self._opened is None:
                if self._outdated:
                    self._renew_settings()
                self._outdated = (
                    True  # whatever keeps it from being opened: a secret may be replaced before the next try
                )
                catalog = self._load_catalog()
                self._outdated = False
                self._opened = (catalog, TableCommits(catalog, self.io_properties_of))
            return self._opened

    def _renew_settings(self) -> None:
        if self._settings_now is None:
            return
        try:
            self._read = dict(self._settings_now())
        except SetupError as error:  # a secret that is just being replaced: what was read before is tried once more
            log.warning("the catalog's settings cannot be refreshed: %s", error.message)

    def _load_catalog(self) -> Catalog:
        kind = self._kind()
        if "py-catalog-impl" not in self._settings and kind not in CATALOG_TYPES:
            said = f"its type is {kind!r}" if kind else "it has no `type`"
            raise self._setup_error(said, "FLOE-E202", f"set `type` to one of {', '.join(CATALOG_TYPES)}")
        try:
            rest = kind == "rest" and "py-catalog-impl" not in self._settings
            if (rest or kind == "sql") and not self._settings.get("uri"):
                raise ValueError("`uri` is missing")
            if kind == "sql":
                return with_ordered_times(guarded(self._sql_catalog(), self._settings, self._locations))
            if rest:
                made = TimeoutRestCatalog(self._name, self._locations, **with_mappings(self._settings))
                return guarded(made, self._settings, self._locations)
            opened = with_ordered_times(open_catalog(self._name, self._settings, self._locations))
            own = "py-catalog-impl" in self._settings
            return connect_each_thread(opened) if kind == "hive" and not own else opened
        except NotInstalledError as error:
            raise self._setup_error(
                f"a package is missing: {first_line(error)}", "FLOE-E204", f'pip install "pyiceberg[{kind}]"'
            ) from error
        except ImportError as error:
            if (extra := EXTRAS.get(way_of(self._settings) or "")) is None:
                raise self._wrong(error) from error
            said = f"a package is missing: {first_line(error)}"
            raise self._setup_error(said, "FLOE-E204", f'pip install "pyiceberg[{extra}]"') from error
        except (ValueError, KeyError) as error:
            raise self._wrong(error) from error
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error

    def _sql_catalog(self) -> Catalog:
        from framework.adapters.iceberg.private.sql import FlatSqlCatalog  # SQLAlchemy is needed for this kind alone

        # Rows of the database carry a catalog's name, so that several can share one.
        name = self._settings.get("catalog-name", self._name)
        try:
            return FlatSqlCatalog(name, **self._settings)
        except Exception as error:  # SQLAlchemy wraps what each database says
            # Two processes that open a new database at once both create its tables; the second finds them made.
            if "already exists" not in str(error):
                raise
            return FlatSqlCatalog(name, **self._settings)

    def _kind(self) -> str:
        return self._settings.get("type", "").lower()

    def _wrong(self, error: Exception) -> SetupError:
        said = f"its settings are wrong: {first_line(error)}"
        return self._setup_error(said, "FLOE-E202", "correct the target's connections.catalog")

    def _unreachable(self, error: Exception) -> SetupError:
        if isinstance(error, NoToken | OAuthError):
            said = f"it cannot be used: {first_line(error)}"
            return self._setup_error(said, "FLOE-E201", _NO_TOKEN)
        return self._setup_error(
            f"it cannot be used: {first_line(error)}",
            "FLOE-E201",
            "check that the catalog runs and that the target's connections.catalog points to it",
        )

    def _setup_error(self, said: str, code: str, remedy: str) -> SetupError:
        # An address may carry a password; it is never shown.
        address = hidden(self._settings.get("uri", ""))
        place = f"connections.catalog.{self._name}" + (f", {address}" if address else "")
        return SetupError(f"catalog {self._name}: {said}", code=code, place=place, remedy=remedy)


def _namespaces(catalog: Catalog, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(above):
        yield namespace
        yield from _namespaces(catalog, namespace)
