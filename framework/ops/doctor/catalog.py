"""What `floe doctor` checks of an Iceberg catalog and its store: can a table be created, filled, read and dropped, and
can Spark read those that are there.

In: a catalog's settings, secrets resolved. Out: Findings. It creates one scratch namespace, `floe_doctor_...`, and
removes it with everything in it, and what killed processes left of theirs; no other name is touched, but for columns that it is
asked to rename (`repair`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.adapters.iceberg.commits.replace import manifests_of
from framework.adapters.iceberg.private.avro.damaged_doubles import damaged_manifests
from framework.adapters.iceberg.views import definition_of
from framework.config.spec import SettingValue
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.diagnose.suggest import listed
from framework.errors import FloeError
from framework.ops.doctor.model import DoctorFinding, error, ok, warning
from framework.ops.doctor.scratch import ScratchPrefix, remove_left, scratch_namespace
from framework.table.changes import AlterTable
from framework.table.readable import faults, with_names_repaired

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from framework.adapters.iceberg.tables import IcebergTables

# Each is loaded from its catalog, a few hundredths of a second.
MOST_TABLES = 1000


def examine(name: str, connect: Callable[[], Mapping[str, str]]) -> Iterator[DoctorFinding]:
    """Reachable; then namespace, table, data file, commit, read, drop, each the reason of the next.

    Args:
        connect: gives the catalog's settings, secrets resolved.
    """
    settings = connect()
    check = f"catalog {name}"
    catalog = IcebergCatalog(settings, name)
    catalog.check()
    yield ok(check, f"{settings.get('type', 'rest')} catalog answers")
    # The scratch table is made through PyIceberg's own door: what other engines would do, and nothing of floe's
    # protocol.
    opened = catalog.open()[0]
    remove_left(opened)
    namespace = scratch_namespace(ScratchPrefix.DOCTOR)
    try:
        opened.create_namespace(namespace)
    except Exception as raised:  # every catalog has its own way of saying no
        yield warning(
            f"{check} namespace",
            f"no scratch namespace could be created, so writing was not tried: {_said(raised)}",
            "grant it, or create every namespace that pipelines write to",
        )
        return
    try:
        yield from _write(check, opened, f"{namespace}.probe")
    finally:
        with suppress(Exception):  # what cannot be removed was named in the lines above
            opened.drop_namespace(namespace)


def shared_places(catalogs: Mapping[str, Mapping[str, SettingValue]]) -> Iterator[DoctorFinding]:
    """A warning for each warehouse that several catalogs have: tables of one name would lie in one place."""
    found: dict[str, list[str]] = {}
    for name, settings in sorted(catalogs.items()):
        warehouse = str(settings.get("warehouse", "")).rstrip("/")
        if "://" in warehouse:  # others are names, which mean something to their own server alone
            found.setdefault(warehouse, []).append(name)
    for warehouse, names in found.items():
        if len(names) > 1:
            yield warning(
                "catalogs",
                f"{listed(names, 'and')} have the same warehouse, {warehouse}: tables of the same name would share a location",
                "give each a warehouse of its own; `floe clean` skips tables that share a location",
            )


def unreadable_tables(tables: IcebergTables, catalog: str, target: str) -> Iterator[DoctorFinding]:
    """A line for each table whose definition Iceberg's Java library, and Spark with it, cannot read, or whose partition
    values an earlier version of floe damaged.

    Args:
        target: as `-t` names it in the remedy.
    """
    check, sound = f"tables {catalog}", 0
    names = tables.list_tables(catalogs=[catalog])
    for name in names[:MOST_TABLES]:
        try:
            loaded = tables.opened(name)[0]
        except FloeError as raised:
            # It may be nobody's of this target: a run that writes to it says so by itself.
            yield warning(f"table {name}", f"{raised.message} [{raised.code}]", raised.remedy)
            continue
        found = faults(definition_of(loaded.metadata)) if loaded is not None else ()
        sound += not found
        for fault in found:
            remedy = f"floe doctor --repair {argument(name)} -t {argument(target)}" if fault.is_name else _BY_HAND
            yield error(f"table {name}", f"Spark cannot read it: {fault}", remedy)
        if loaded is not None and (count := len(damaged_manifests(loaded.metadata, loaded.io, manifests_of(loaded)))):
            message = (
                f"{counted(count, 'manifest')} with partition values of double in single precision: readers miss rows"
            )
            yield error(f"table {name}", message, f"floe maintain {argument(name)} -t {argument(target)}")
    yield ok(check, f"{counted(sound, 'table')} can be read by Spark and Iceberg's Java library")
    if len(names) > MOST_TABLES:
        more = counted(len(names) - MOST_TABLES, "more table")
        yield warning(
            check, f"{more} were not looked at", f"floe doctor --repair TABLE -t {argument(target)} looks at one"
        )


# A column of another type, or another partition: rows have to be written anew.
_BY_HAND = (
    "make a new table of another definition, and copy the rows with an engine that reads this one, such as PyIceberg"
)


def repair(tables: IcebergTables, name: str) -> Iterator[DoctorFinding]:
    """Renames the columns of a table whose names make it unreadable; ids, values and files stay as they are. A live run
    goes on with the table as it is then, and later records find the columns by their new names."""
    check = f"table {name}"
    loaded = tables.opened(name)[0]
    if loaded is None:
        yield error(check, "there is no such table", "floe status lists the tables of a target")
        return
    metadata = loaded.metadata
    schema, renamed = with_names_repaired(definition_of(metadata))
    if not renamed:
        yield ok(check, "no column's name keeps it from being read; nothing was changed")
        return
    change = AlterTable(
        name,
        str(metadata.table_uuid),
        metadata.current_schema_id,
        metadata.last_column_id,
        schema.model_dump_json(),
        (),
    )
    if not tables.alter_table(change):
        yield error(check, "somebody else has changed it meanwhile; nothing was changed", "run the command again")
        return
    for path, new in renamed.items():
        yield ok(check, f"column {'.'.join(path)!r} is now called {new!r}")


def _write(check: str, opened: Catalog, table: str) -> Iterator[DoctorFinding]:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    step, remedy = "create a table", "allow this principal to create tables in the catalog"
    made = False
    try:
        probe = opened.create_table(table, Schema(NestedField(1, "probe", LongType(), required=False)))
        made = True
        yield ok(f"{check} table", f"a table can be created; new data goes to {_place(probe.location())}")
        step, remedy = "write a data file and commit it", "check the warehouse's address, credentials and permissions"
        probe.append(pa.table({"probe": pa.array([1], pa.int64())}))
        step = "read the row back"
        rows = opened.load_table(table).scan().to_arrow().num_rows
        if rows != 1:
            yield error(f"{check} warehouse", f"1 row was written, but {rows} came back", "do not use this store")
        else:
            yield ok(f"{check} warehouse", "a data file can be written, committed and read back")
        yield from _outdated_commits(check, opened, probe)
    except Exception as raised:  # every store has its own way of saying no
        is_store = _is_of_store(raised)
        remedy = (
            "check the warehouse's address and credentials, and allow this principal to write there"
            if is_store
            else remedy
        )
        yield error(
            f"{check} {'warehouse' if made or is_store else 'table'}", f"cannot {step}: {_said(raised)}", remedy
        )
    finally:
        if made:
            yield from _remove(check, opened, table)


# No snapshot, and one that there never was: neither is the head of a table that has been committed to.
_OUTDATED: dict[int | None, str] = {None: "before the first commit", 1: "of another commit"}


def _outdated_commits(check: str, opened: Catalog, probe: Table) -> Iterator[DoctorFinding]:
    """What the catalog does with a commit that goes out from a snapshot that is not the head of main. Its refusal is taken for a
    conflict only by the word for one: any other answer may be of a fault that has nothing to do with it."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

    for snapshot_id, view in _OUTDATED.items():
        try:
            opened.commit_table(
                probe,
                (AssertRefSnapshotId(ref="main", snapshot_id=snapshot_id),),
                (SetPropertiesUpdate(updates={"floe.doctor": "outdated"}),),
            )
        except CommitFailedException:
            continue
        except Exception as raised:  # each catalog's client has its own errors
            message = f"a commit from a view {view} is refused, but not as a conflict: {_said(raised)}"
            remedy = "run floe doctor again; if it stays so, each conflict costs another look at the table"
            yield warning(f"{check} table", message, remedy)
        else:
            message = f"a commit from a view {view} was taken: where two coordinators meet, rows of one are lost"
            yield error(f"{check} table", message, "use another version of the catalog, and run floe doctor again")


def _is_of_store(raised: BaseException | None) -> bool:
    """Whether it was the store that said no: most catalogs' clients write a table's metadata themselves, so a store that may
    only be read refuses what looks like a table that may not be created."""
    while raised is not None:
        module = type(raised).__module__
        if module.startswith(("requests", "urllib3", "sqlalchemy", "pyiceberg")):
            return False
        if isinstance(raised, OSError) or module.startswith(("botocore", "s3fs", "gcsfs", "adlfs", "azure")):
            return True
        raised = raised.__cause__
    return False


def _remove(check: str, opened: Catalog, table: str) -> Iterator[DoctorFinding]:
    files = [task.file.file_path for task in opened.load_table(table).scan().plan_files()]
    loaded = opened.load_table(table)
    try:
        opened.drop_table(table)
        for path in [*files, *_metadata_files(loaded)]:
            loaded.io.delete(path)
    except Exception as raised:
        yield warning(
            f"{check} clean-up",
            f"the scratch table {table} could not be removed completely: {_said(raised)}",
            "remove it by hand",
        )


def _metadata_files(loaded: object) -> list[str]:
    """Every file that the scratch table's metadata names; all of them are its own."""
    metadata = loaded.metadata  # type: ignore[attr-defined]
    found = [entry.metadata_file for entry in metadata.metadata_log] + [loaded.metadata_location]  # type: ignore[attr-defined]
    for snapshot in metadata.snapshots:
        found += [manifest.manifest_path for manifest in snapshot.manifests(loaded.io)]  # type: ignore[attr-defined]
        found.append(snapshot.manifest_list)
    return found


def _place(location: str) -> str:
    """The store without the scratch table's own path."""
    return location.partition(ScratchPrefix.DOCTOR.value)[0].rstrip("/") or location


def _said(raised: Exception) -> str:
    lines = str(raised).strip().splitlines() or [""]
    return f"{type(raised).__name__}: {lines[0][:300]}"
