"""The door to one Iceberg catalog: what the driver and the coordinator may ask of tables.

In: a catalog's settings (PyIceberg's own keys) and the plain values of `framework.commit`, `framework.table` and
`framework.record`. Out: views, targets and outcomes as plain values; no PyIceberg object leaves this package. The
commit itself, and the invariants it keeps, are in `iceberg_commit`; creating and altering in `iceberg_define`.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NotInstalledError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual
from pyiceberg.table import Table

from framework.adapters import iceberg_define, iceberg_history
from framework.adapters.iceberg_commit import SUPPORTED_FORMAT_VERSIONS, Outcome, TableCommits
from framework.adapters.iceberg_files import (
    StoredFile,
    TablePlace,
    TableReferences,
    list_files,
    place_of,
    references_of,
)
from framework.adapters.iceberg_rest import BoundedRestCatalog
from framework.adapters.iceberg_views import SnapshotInfo, ancestry, head_of, info_of, target_of, view_of
from framework.commit.effects import CommitTable, RecordedTable, TableView
from framework.commit.events import SourceRange
from framework.commit.progress import MISSING_PROPERTY, PROGRESS_PROPERTY
from framework.commit.rollback import RollbackFacts
from framework.config.spec import TablePolicy
from framework.errors import FloeError, SetupError, TableBlocked
from framework.record.model import TableTarget
from framework.table.changes import AlterTable, CreateTable

__all__ = ["IcebergTables", "SnapshotInfo", "StoredFile", "TablePlace", "TableReferences"]

log = logging.getLogger(__name__)

CATALOG_TYPES = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery")

# What only the catalog itself needs; everything else goes to the tasks, which need it to write files.
_CATALOG_ONLY = ("uri", "type", "name", "credential", "token", "scope", "py-catalog-impl", "echo")
_CATALOG_ONLY_PREFIXES = ("rest.", "oauth2", "auth", "header.", "ssl", "hive.", "dynamodb.", "pool_", "init_catalog_")


# A condition on a column: equal to a value, or not less than it (moments as ISO 8601).
Where = tuple[str, str, object]


class IcebergTables:
    """One catalog. Opened at first use, and anew after it refused our credentials; safe for threads."""

    def __init__(
        self,
        settings: Mapping[str, str],
        name: str = "default",
        settings_now: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """`settings_now` gives the settings with secrets read anew: a token that was replaced is found without a restart."""
        self._settings = dict(settings)
        self._settings_now = settings_now
        self._name = name
        self._lock = threading.Lock()
        self._opened: tuple[Catalog, TableCommits] | None = None

    # ---- the catalog ------------------------------------------------------------------------------------------------

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
        catalog, _ = self._open()
        try:
            catalog.list_namespaces()
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error

    def io_properties(self) -> dict[str, str]:
        """The settings that tasks need to write files. Credentials of the catalog itself are left out."""
        return {
            key: value
            for key, value in self._settings.items()
            if key not in _CATALOG_ONLY and not key.startswith(_CATALOG_ONLY_PREFIXES)
        }

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Full names of the tables of one namespace (none when it does not exist), or of all, in order."""
        catalog, _ = self._open()
        try:
            names = [(namespace,)] if namespace is not None else list(_namespaces(catalog, ()))
            found = [table for each in names for table in catalog.list_tables(".".join(each))]
        except NoSuchNamespaceError:
            return []
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error
        return sorted({".".join(table) for table in found})

    # ---- tables -----------------------------------------------------------------------------------------------------

    def load_view(self, table: str, branch: str, control_topic_id: str) -> TableView | None:
        """What is examined before a commit is decided; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
            StateDisagreement: the recorded progress cannot be read.
        """
        loaded = self._load(table)
        return view_of(table, loaded.metadata, branch, control_topic_id) if loaded else None

    def load_recorded(self, table: str, branch: str, control_topic_id: str) -> RecordedTable | None:
        """The same with the properties in which floe records what the table holds; None when there is no such table.

        Raises:
            FloeError, StateDisagreement: as `load_view`.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        return RecordedTable(
            view_of(table, loaded.metadata, branch, control_topic_id),
            loaded.metadata.properties.get(PROGRESS_PROPERTY),
            loaded.metadata.properties.get(MISSING_PROPERTY),
        )

    def load_history(self, table: str, branch: str, control_topic_id: str) -> RollbackFacts | None:
        """The branch's snapshots as a rollback has to know them; None when there is no such table."""
        loaded = self._load(table)
        return iceberg_history.facts_of(table, loaded, branch, control_topic_id) if loaded else None

    def added_paths(self, table: str, snapshot_ids: Collection[int]) -> frozenset[str]:
        """The data files that these snapshots added, as far as they have not expired."""
        loaded = self._load(table)
        return iceberg_history.added_paths(loaded, snapshot_ids) if loaded else frozenset()

    def rows_in(self, table: str, ranges: Collection[SourceRange]) -> int | None:
        """How many rows of these source ranges the table holds; None where its columns do not tell."""
        loaded = self._load(table)
        return iceberg_history.rows_in(loaded, ranges) if loaded else 0

    def load_target(self, table: str, policy: TablePolicy) -> TableTarget | None:
        """What tasks need to write for the table; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
            TableBlocked: the table has a format version that cannot be written.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        if loaded.metadata.format_version not in SUPPORTED_FORMAT_VERSIONS:
            raise TableBlocked(
                f"table {table} has Iceberg format version {loaded.metadata.format_version}; 1 and 2 can be written",
                code="FLOE-R131",
                place=table,
                remedy="write to another table, or have this one made again with format version 2",
            )
        return target_of(table, loaded.metadata, policy)

    def snapshots(self, table: str, branch: str = "main", limit: int | None = None) -> list[SnapshotInfo]:
        """The branch's snapshots, newest first; none when there is no such table or branch."""
        loaded = self._load(table)
        if loaded is None:
            return []
        infos: list[SnapshotInfo] = []
        for snapshot in ancestry(loaded.metadata, head_of(loaded.metadata, branch)):
            if limit is not None and len(infos) >= limit:
                break
            infos.append(info_of(snapshot))
        return infos

    def read(
        self, table: str, columns: Sequence[str], where: Sequence[Where] = (), branch: str = "main"
    ) -> pa.Table | None:
        """Rows of the branch (of main where there is no such branch) that meet all conditions; None when there is no table.

        Raises:
            FloeError: the table cannot be read, or lacks one of the columns.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        try:
            scan = loaded.scan(row_filter=_expression(where), selected_fields=tuple(columns))
            scan = scan.use_ref(branch) if branch in loaded.metadata.refs else scan
            rows = scan.to_arrow()
            return rows.cast(pa.schema([plain_field(field) for field in rows.schema])).select(list(columns))
        except Exception as error:  # each store has exceptions of its own
            raise FloeError(
                f"table {table} cannot be read: {_first_line(error)}",
                code="FLOE-R135",
                place=table,
                remedy="check that the store answers and that the table has the columns that floe made it with",
            ) from error

    def place(self, table: str) -> TablePlace | None:
        """Where the table's files lie and through which control topics they came; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
        """
        loaded = self._load(table)
        return place_of(loaded) if loaded is not None else None

    def references(self, table: str) -> TableReferences | None:
        """Everything that the table's metadata refers to, in any snapshot; None when there is no such table.

        Raises:
            FloeError: the catalog or a manifest cannot be read now.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        try:
            return references_of(loaded)
        except Exception as error:  # whatever cannot be read might name a file that is in use
            raise FloeError(
                f"the manifests of table {table} cannot all be read: {_first_line(error)}",
                code="FLOE-R371",
                place=table,
                remedy="nothing of the table was removed; see whether its store answers, and run the command again",
            ) from error

    def stored_files(self, table: str, locations: Sequence[str]) -> list[StoredFile]:
        """Every file below some locations, listed with the table's own credentials.

        Raises:
            FloeError: the store does not answer, or cannot be listed.
        """
        loaded = self._load(table)
        try:
            return [file for location in locations if loaded for file in list_files(loaded.io, location)]
        except Exception as error:  # each store has exceptions of its own
            raise FloeError(
                f"the files of table {table} cannot be listed: {_first_line(error)}",
                code="FLOE-R372",
                place=", ".join(locations),
                remedy="see whether the store answers and whether these credentials may list it",
            ) from error

    def remove_files(self, table: str, locations: Iterable[str]) -> Iterator[str]:
        """Remove files with the table's own credentials; gives the name of each that was there, when it is gone.

        Raises:
            FloeError: the store refuses; those before it are gone.
        """
        loaded = self._load(table)
        for location in locations if loaded is not None else ():
            assert loaded is not None
            try:
                loaded.io.delete(location)
            except FileNotFoundError:
                continue  # somebody else was faster
            except Exception as error:  # each store has exceptions of its own
                raise FloeError(
                    f"{location} cannot be removed: {_first_line(error)}",
                    code="FLOE-R373",
                    place=location,
                    remedy="see whether these credentials may delete; the files before it are removed",
                ) from error
            yield location

    def commit(self, effect: CommitTable) -> Outcome:
        """Append files and record progress in one conditional commit; the outcome is read back where it is not known.

        Never raises for what the catalog does; never retries; deletes nothing while the outcome is unknown.
        """
        return self._open()[1].commit(effect)

    def create_table(self, change: CreateTable) -> None:
        """Make the table and its namespace. A table that is there already is success: load it and check."""
        iceberg_define.create(self._open()[0], change)

    def alter_table(self, change: AlterTable) -> bool:
        """Make the new schema current; False when the table has changed meanwhile: load it and plan again."""
        catalog, commits = self._open()
        return iceberg_define.alter(catalog, commits, change)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _load(self, table: str) -> Table | None:
        catalog, _ = self._open()
        try:
            return catalog.load_table(table)
        except NoSuchTableError:
            return None
        except Exception as error:  # each catalog and store has its own
            raise FloeError(
                f"table {table} cannot be loaded: {_first_line(error)}",
                code="FLOE-R135",
                place=table,
                remedy="check that the catalog answers and that the table's metadata file can be read",
            ) from error

    def _open(self) -> tuple[Catalog, TableCommits]:
        with self._lock:
            if self._opened is not None and getattr(self._opened[0], "refused", False):
                self._renew_settings()
                self._opened = None
            if self._opened is None:
                catalog = self._load_catalog()
                self._opened = (catalog, TableCommits(catalog))
            return self._opened

    def _renew_settings(self) -> None:
        if self._settings_now is None:
            return
        try:
            self._settings = dict(self._settings_now())
        except SetupError as error:  # a secret that is just being replaced: what was read before is tried once more
            log.warning("the catalog's settings are not read anew: %s", error.message)

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
                return self._sql_catalog()
            if rest:
                return BoundedRestCatalog(self._name, **self._settings)
            return load_catalog(self._name, **self._settings)
        except NotInstalledError as error:
            raise self._setup_error(
                f"a package is missing: {_first_line(error)}", "FLOE-E204", f'pip install "pyiceberg[{kind}]"'
            ) from error
        except (ValueError, KeyError, ImportError) as error:
            raise self._setup_error(
                f"its settings are wrong: {_first_line(error)}", "FLOE-E202", "mend the target's connections.catalog"
            ) from error
        except Exception as error:  # each catalog has exceptions of its own
            raise self._unreachable(error) from error

    def _sql_catalog(self) -> Catalog:
        from framework.adapters.iceberg_sql import FlatSqlCatalog  # SQLAlchemy is needed for this kind alone

        try:
            return FlatSqlCatalog(self._name, **self._settings)
        except Exception as error:  # SQLAlchemy wraps what each database says
            # Two processes that open a new database at once both create its tables; the second finds them made.
            if "already exists" not in str(error):
                raise
            return FlatSqlCatalog(self._name, **self._settings)

    def _kind(self) -> str:
        return self._settings.get("type", "").lower()

    def _unreachable(self, error: Exception) -> SetupError:
        return self._setup_error(
            f"it cannot be used: {_first_line(error)}",
            "FLOE-E201",
            "check that the catalog runs and that the target's connections.catalog points to it",
        )

    def _setup_error(self, said: str, code: str, remedy: str) -> SetupError:
        # An address may carry a password; it is never shown.
        address = re.sub(r"//[^/@]*@", "//***@", self._settings.get("uri", ""))
        place = f"connections.catalog.{self._name}" + (f", {address}" if address else "")
        return SetupError(f"catalog {self._name}: {said}", code=code, place=place, remedy=remedy)


def _expression(where: Sequence[Where]) -> BooleanExpression:
    found: BooleanExpression = AlwaysTrue()
    for column, operator, value in where:
        found = And(
            found,
            EqualTo(term=column, value=value) if operator == "=" else GreaterThanOrEqual(term=column, value=value),
        )
    return found


def plain_field(field: pa.Field) -> pa.Field:
    """The field with text, bytes and lists of the usual width: PyIceberg chooses the wide ones now and then."""
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(child) for child in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_field(kind.value_field))
    return kind


def _namespaces(catalog: Catalog, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(above):
        yield namespace
        yield from _namespaces(catalog, namespace)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return re.sub(r"//[^/@\s]*@", "//***@", text.splitlines()[0])
