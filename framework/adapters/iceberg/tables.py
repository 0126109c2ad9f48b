"""The interface to Iceberg tables for the driver and the coordinator, whichever catalog the tables are in.

In: catalogs, full names of tables, and the plain values of `framework.commit`, `framework.table` and
`framework.record`. Out: views, targets and outcomes as plain values; no PyIceberg object leaves this package. The
commit itself, and the invariants it keeps, are in `commit`; creating and altering in `define`; a single catalog in
`catalog`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table

from framework.adapters.file_io import key_of, settings_of
from framework.adapters.file_io_guard import ForeignFile, owner_of
from framework.adapters.iceberg import define as iceberg_define
from framework.adapters.iceberg import snapshots as table_snapshots
from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.commits.commit import Copies, Outcome, TableCommits
from framework.adapters.iceberg.commits.replace import outdate_requests
from framework.adapters.iceberg.examined_tables import ExaminedTables
from framework.adapters.iceberg.files import (
    StoredFile,
    TablePlace,
    TableReferences,
    foreign_metadata,
    list_files,
    missing_of,
    place_of,
    references_of,
    store_now_ms,
)
from framework.adapters.iceberg.supported_tables import raise_for_names, refused, unreadable, unwritable
from framework.adapters.iceberg.upsert.target import UpsertTarget, ask_upsert, check_upsert, upsert_target_of
from framework.adapters.iceberg.views import SnapshotInfo, ancestry, definition_of, head_of, info_of, target_of, view_of
from framework.adapters.iceberg.writers import writers_beside
from framework.adapters.parquet.usable import unusable
from framework.adapters.secrets import first_line
from framework.adapters.server_settings import Lent, lent, with_lent, without_keys
from framework.commit.events.event_types import SourceRange
from framework.commit.machine.effects import CommitTable, ExaminedTable, RecordedTable
from framework.commit.machine.progress.recorded import MISSING_PROPERTY, PROGRESS_PROPERTY
from framework.commit.recovery.rollback import RollbackFacts
from framework.config.names.table_names import DEFAULT_CATALOG, catalog_of, identifier_of
from framework.config.rules.permitted import is_below
from framework.config.spec import TablePolicy
from framework.diagnose.counted import counted
from framework.diagnose.suggest import listed
from framework.errors import FloeError, SetupError, TableBlocked
from framework.record.model import TableTarget
from framework.table.changes import AlterTable, CreateTable

__all__ = ["IcebergTables", "SnapshotInfo", "StoredFile", "TablePlace", "TableReferences"]

# A condition on a column: equal to a value, not less than it, or less (moments as ISO 8601).
Where = tuple[str, str, object]


_LOG = logging.getLogger(__name__)
# So long it is believed where the tables lie; each look loads all of them.
_PLACES_FOR_S = 300.0
_LOADERS = 4


class IcebergTables:
    """The tables of a target's catalogs, each by its full name, which says its catalog. Safe for threads.

    A catalog is opened when a table of it is first asked for, so one that is down troubles its own tables alone
    (invariant 10).
    """

    def __init__(
        self, settings: Mapping[str, str], settings_now: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        """The default catalog alone; `over` takes several."""
        self._catalogs = {DEFAULT_CATALOG: IcebergCatalog(settings, DEFAULT_CATALOG, settings_now)}
        self._examined = ExaminedTables()
        self._lent: dict[str, Lent] = {}
        self._others: dict[str, TablePlace] = {}
        self._others_at = -_PLACES_FOR_S

    @classmethod
    def over(cls, catalogs: Mapping[str, IcebergCatalog]) -> IcebergTables:
        """All tables of these catalogs, by their names in the target."""
        tables = cls({})
        tables._catalogs = dict(catalogs)
        return tables

    # ---- the catalogs -----------------------------------------------------------------------------------------------

    @property
    def catalogs(self) -> tuple[str, ...]:
        """The names of the catalogs, in order."""
        return tuple(sorted(self._catalogs))

    def check(self, catalogs: Iterable[str] | None = None) -> None:
        """Find out whether some catalogs (all, where none are named) can be used.

        Raises:
            SetupError: as `IcebergCatalog.check`, for the first that cannot; FLOE-E311 there is none of that name.
        """
        for name in self.catalogs if catalogs is None else catalogs:
            self._catalog(name).check()

    def io_properties(self, catalogs: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
        """By catalog (of all, where none are named) the settings that tasks need to write files of its tables."""
        names = self.catalogs if catalogs is None else catalogs
        return {name: self._catalog(name).io_properties() for name in names}

    def with_lent(
        self, io_properties: Mapping[str, dict[str, str]], tables: Iterable[str]
    ) -> dict[str, dict[str, str]]:
        """The settings by catalog, and beside them those of each table that a server lends keys for; `settings_of` finds a
        table's. Keys that end soon are asked for again: a table that cannot be loaded now has those that it had. Where all
        of a catalog's tables have keys of their own, those of the target are left out."""
        wanted = [table for table in tables if catalog_of(table) in io_properties]
        now_s = time.monotonic()
        worn = [table for table in wanted if (found := self._lent.get(table)) is not None and found.is_worn(now_s)]
        if worn:
            with ThreadPoolExecutor(_LOADERS) as pool:
                list(pool.map(self._renew, worn))
        borrowed = {table: found for table in wanted if (found := self._lent.get(table)) is not None}
        own = dict(io_properties)
        for catalog in io_properties:
            of_catalog = [borrowed.get(table) for table in wanted if catalog_of(table) == catalog]
            if of_catalog and all(found is not None and found.has_keys for found in of_catalog):
                every = {key: "" for found in of_catalog if found is not None for key in found.settings}
                own[catalog] = without_keys(own[catalog], every)
        return own | {
            key_of(table): with_lent(io_properties[catalog_of(table)], found.settings)
            for table, found in borrowed.items()
            if found.settings
        }

    def io_properties_of(self, table: str) -> dict[str, str]:
        """The settings with which files of one table are read and written."""
        catalog = catalog_of(table)
        return dict(settings_of(self.with_lent(self.io_properties((catalog,)), (table,)), table))

    def list_tables(self, namespace: str | None = None, catalogs: Iterable[str] | None = None) -> list[str]:
        """Full names of the tables of one namespace (none where it does not exist), or of all, catalog by catalog."""
        names = self.catalogs if catalogs is None else catalogs
        return [table for name in names for table in self._catalog(name).list_tables(namespace)]

    # ---- tables -----------------------------------------------------------------------------------------------------

    def load_view(self, table: str, branch: str, control_topic_id: str) -> ExaminedTable | None:
        """What is examined before a commit is decided; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
            StateDisagreement: the recorded progress cannot be read.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        view = view_of(table, loaded.metadata, branch, control_topic_id)
        self._examined.put(view, loaded)
        return view

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
        return table_snapshots.facts_of(table, loaded, branch, control_topic_id) if loaded else None

    def added_paths(self, table: str, snapshot_ids: Collection[int]) -> frozenset[str]:
        """The data files that these snapshots added, as far as they have not expired."""
        loaded = self._load(table)
        return table_snapshots.added_paths(loaded, snapshot_ids) if loaded else frozenset()

    def rows_in(self, table: str, ranges: Collection[SourceRange], snapshot_id: int | None = None) -> int | None:
        """How many rows of these source ranges the table holds, or held in a snapshot; None where its columns do not tell."""
        loaded = self._load(table)
        return table_snapshots.rows_in(loaded, ranges, snapshot_id) if loaded else 0

    def load_target(self, table: str, policy: TablePolicy) -> TableTarget | None:
        """What tasks need to write for the table; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
            TableBlocked: the table is of a kind that cannot be written.
        """
        loaded = self._load(table)
        if loaded is None:
            return None
        reason = unwritable(loaded.metadata, self._catalog(catalog_of(table)).open()[0])
        if reason is not None:
            raise refused(table, reason)
        target = target_of(table, loaded.metadata, policy)
        reason = unusable(target)
        if reason is not None:
            raise_for_names(table, definition_of(loaded.metadata))
            raise TableBlocked(
                f"table {table} cannot be written: {reason}",
                code="FLOE-R143",
                place=table,
                remedy="ALTER TABLE ... UNSET TBLPROPERTIES (...) for the named property",
            )
        return target

    def load_upsert_target(self, target: TableTarget, known: UpsertTarget | None = None) -> UpsertTarget:
        """Where the live rows of an upsert table are, at its head now.

        Args:
            known: what was read before; it is returned where it is of the same head.

        Raises:
            FloeError: the catalog or the store cannot be asked now.
            TableBlocked: rows of the table cannot be replaced by key as it is now.
        """
        return ask_upsert(self._load(target.name), target, lambda loaded: upsert_target_of(loaded, target, known))

    def writers_beside(self, target: TableTarget, pipeline: str) -> tuple[str, ...]:
        """Who wrote to the table beside the pipeline since floe last changed it by its key, in words.

        Raises:
            FloeError: the catalog cannot be asked now.
        """
        loaded = self._load(target.name)
        return writers_beside(loaded.metadata, target.policy.commit.branch, pipeline) if loaded else ()

    def check_upsert(self, target: TableTarget) -> None:
        """Find what keeps rows of the table from being replaced by key, as far as its metadata says.

        Raises:
            FloeError, TableBlocked: as `load_keyed`.
        """
        ask_upsert(self._load(target.name), target, lambda loaded: check_upsert(loaded, target))

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
        """Rows of the branch (of main where there is no such branch) that meet all conditions; None when there is no
        table.

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
            raise _unreadable(table, error) from error

    def read_batches(
        self, table: str, columns: Sequence[str], where: Sequence[Where] = (), branch: str = "main"
    ) -> Iterator[pa.RecordBatch]:
        """As `read`, a part at a time, with PyIceberg's types; nothing when there is no table.

        Raises:
            FloeError: the table cannot be read, or lacks one of the columns.
        """
        loaded = self._load(table)
        if loaded is None:
            return
        try:
            scan = loaded.scan(row_filter=_expression(where), selected_fields=tuple(columns))
            scan = scan.use_ref(branch) if branch in loaded.metadata.refs else scan
            for batch in scan.to_arrow_batch_reader():
                yield batch.select(list(columns))
        except Exception as error:  # each store has exceptions of its own
            raise _unreadable(table, error) from error

    def place(self, table: str) -> TablePlace | None:
        """Where the table's files lie and through which control topics they came; None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now.
        """
        loaded = self._load(table)
        return place_of(loaded) if loaded is not None else None

    def places(self) -> tuple[dict[str, TablePlace], dict[str, FloeError]]:
        """Where all tables of all catalogs lie; and for each table or catalog that cannot be asked now, why. One of them
        keeps nobody from the others."""
        found: dict[str, TablePlace] = {}
        silent: dict[str, FloeError] = {}
        for catalog in self.catalogs:
            try:
                names = self.list_tables(catalogs=(catalog,))
            except FloeError as error:
                silent[catalog] = error
                continue
            for name in names:
                try:
                    place = self.place(name)
                except FloeError as error:
                    silent[name] = error
                else:
                    found.update({name: place} if place is not None else {})
        return found, silent

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
            raise _not_cleaned(
                f"the manifests of table {table} cannot all be read: {first_line(error)}", table
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
            raise _store_silent(table, ", ".join(locations), error) from error

    def foreign_metadata(self, table: str, files: Iterable[StoredFile]) -> str | None:
        """The metadata file of another table among the files in this table's places; None where there is none.

        Raises:
            FloeError: the store does not answer, or a metadata file cannot be read.
        """
        loaded = self._load(table)
        try:
            return foreign_metadata(loaded, files) if loaded is not None else None
        except Exception as error:  # each store has exceptions of its own
            raise _store_silent(table, str(table), error) from error

    def store_now_ms(self, table: str) -> int | None:
        """What time it is at the table's store, as it dates files; None where it does not tell. A file is written there
        and removed again.

        Raises:
            FloeError: FLOE-R372, the store does not answer.
        """
        loaded = self._load(table)
        try:
            return None if loaded is None else store_now_ms(loaded)
        except Exception as error:  # each store has exceptions of its own
            raise _store_silent(table, str(table), error) from error

    def missing_files(self, table: str, paths: Iterable[str]) -> tuple[str, ...]:
        """Those of some files that are not in the table's store.

        Raises:
            FloeError: FLOE-R372, the store does not answer.
        """
        loaded = self._load(table)
        try:
            return missing_of(loaded.io, paths) if loaded else ()
        except Exception as error:  # each store has exceptions of its own
            raise _store_silent(table, str(table), error) from error

    def outdate_requests(self, table: str, branches: Mapping[str, str]) -> None:
        """Refuse from now on each commit that was sent to the table and has not arrived yet.

        Args:
            branches: by pipeline the branch that it writes.

        Raises:
            FloeError: FLOE-R135, FLOE-R371: the catalog or the store does not answer, or refuses.
        """
        loaded = self._load(table)
        try:
            if loaded is not None and unwritable(loaded.metadata, loaded.catalog) is None:
                outdate_requests(self._catalog(catalog_of(table)).open()[1], loaded, branches)
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _not_cleaned(f"no snapshot can be added to table {table}: {first_line(error)}", table) from error

    def remove_files(self, table: str, locations: Iterable[str]) -> Iterator[str]:
        """Remove files with the table's own credentials; gives the name of each that was there, when it is gone. Files
        that are not the table's own stay, and are logged.

        Raises:
            FloeError: the store refuses; those before it are gone.
        """
        loaded = self._load(table)
        owns = None if loaded is None else self._owner(table, loaded)
        foreign: list[str] = []
        for location in locations if loaded is not None else ():
            assert loaded is not None
            assert owns is not None
            if not owns(location):
                foreign.append(location)
                continue
            try:
                loaded.io.delete(location)
            except FileNotFoundError:
                continue  # somebody else was faster
            except ForeignFile:
                foreign.append(location)
                continue
            except Exception as error:  # each store has exceptions of its own
                raise FloeError(
                    f"{location} cannot be removed: {first_line(error)}",
                    code="FLOE-R373",
                    place=location,
                    remedy="check that these credentials may delete; the files before it were removed",
                ) from error
            yield location
        if foreign:
            _LOG.warning(
                "%s of table %s left where they are, since they lie outside its location or in that of another table, such as %s",
                counted(len(foreign), "file"), table, foreign[0],
            )  # fmt: skip

    def owned(self, table: str, paths: Iterable[str]) -> frozenset[str]:
        """Those of some files that are the table's own, by where the tables of all catalogs lie.

        Raises:
            FloeError: the catalog cannot be asked now.
        """
        loaded = self._load(table)
        return frozenset() if loaded is None else frozenset(filter(self._owner(table, loaded), paths))

    def forget_places(self) -> None:
        """Where the tables lie is looked at again before the next file is removed."""
        self._others_at = -_PLACES_FOR_S

    def _owner(self, table: str, loaded: Table) -> Callable[[str], bool]:
        """Whether a file is this table's own: it lies in one of its places, and in none of another table that is as
        far inside."""
        if time.monotonic() - self._others_at > _PLACES_FOR_S:
            self._others, self._others_at = self.places()[0], time.monotonic()
        own = place_of(loaded).roots
        roots = {name: place.roots for name, place in self._others.items() if name != table} | {table: own}
        return lambda path: is_below(path, own) and owner_of(path, roots) == table

    def commit(self, effect: CommitTable, copies: Copies | None = None) -> Outcome:
        """Append files and record progress in one conditional commit; the outcome is read back where it is not known.

        Never raises for what the catalog does; never retries; deletes nothing while the outcome is unknown.

        Args:
            copies: needed where rows go by copies of their files.
        """
        commits = self._catalog(catalog_of(effect.table)).open()[1]
        return commits.commit(effect, self._examined.take(effect.view), copies)

    def create_table(self, change: CreateTable) -> None:
        """Make the table and its namespace. A table that is there already is success: load it and check."""
        iceberg_define.create(self._catalog(catalog_of(change.table)).open()[0], change)

    def note_properties(self, table: str, found: TableTarget, properties: Mapping[str, str]) -> bool:
        """Set properties by which floe remembers whose a table is, and where files are announced for it; False when they,
        or the table, have changed since it was loaded.

        Raises:
            FloeError: FLOE-R134, R140: the catalog does not answer, or refuses.
        """
        catalog, commits = self._catalog(catalog_of(table)).open()
        return iceberg_define.note_properties(catalog, commits, table, found, properties)

    def alter_table(self, change: AlterTable) -> bool:
        """Make the new schema current; False when the table has changed meanwhile: load it and plan again."""
        catalog, commits = self._catalog(catalog_of(change.table)).open()
        return iceberg_define.alter(catalog, commits, change)

    # ---- for other adapters -----------------------------------------------------------------------------------------

    def opened(self, table: str) -> tuple[Table | None, TableCommits]:
        """The table as it is now, None where there is none, and the commits to tables of its catalog.

        Raises:
            FloeError: the catalog cannot be asked now.
        """
        return self._load(table), self._catalog(catalog_of(table)).open()[1]

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _catalog(self, name: str) -> IcebergCatalog:
        found = self._catalogs.get(name)
        if found is None:
            raise SetupError(
                f"the target names no catalog {name}",
                code="FLOE-E311",
                place=f"connections.catalog.{name}",
                remedy=f"name one of {listed(self.catalogs, 'and')}, or add connections.catalog.{name}",
            )
        return found

    def _renew(self, table: str) -> None:
        with suppress(FloeError):  # what keeps it from being loaded is said where it is examined
            self._load(table)

    def _load(self, table: str) -> Table | None:
        catalog, _ = self._catalog(catalog_of(table)).open()
        try:
            loaded = catalog.load_table(identifier_of(table))
            self._lent[table] = lent(loaded.config, time.time_ns() // 1_000_000, time.monotonic())
            return loaded
        except NoSuchTableError:
            return None
        except TableBlocked:  # it lies where the target lets no table lie
            raise
        except Exception as error:  # each catalog and store has its own
            if (reason := unreadable(error)) is not None:
                raise refused(table, reason) from error
            raise FloeError(
                f"table {table} cannot be loaded: {first_line(error)}",
                code="FLOE-R135",
                place=table,
                remedy="check that the catalog answers and that the table's metadata file can be read",
            ) from error


def _store_silent(table: str, place: str, error: Exception) -> FloeError:
    return FloeError(
        f"the files of table {table} cannot be listed: {first_line(error)}",
        code="FLOE-R372",
        place=place,
        remedy="check that the store answers and that these credentials may list it",
    )


def _not_cleaned(said: str, table: str) -> FloeError:
    return FloeError(
        said,
        code="FLOE-R371",
        place=table,
        remedy="nothing of the table was removed; check that its catalog and its store answer, then run the command again",
    )


def _unreadable(table: str, error: Exception) -> FloeError:
    return FloeError(
        f"table {table} cannot be read: {first_line(error)}",
        code="FLOE-R135",
        place=table,
        remedy="check that the store answers and that the table has the columns that floe created",
    )


_CONDITIONS: dict[str, Callable[..., BooleanExpression]] = {"=": EqualTo, ">=": GreaterThanOrEqual, "<": LessThan}


def _expression(where: Sequence[Where]) -> BooleanExpression:
    found: BooleanExpression = AlwaysTrue()
    for column, operator, value in where:
        found = And(found, _CONDITIONS[operator](term=column, value=value))
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
