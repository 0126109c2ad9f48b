"""What `floe doctor` checks of an Iceberg catalog and its store: can a table be created, filled, read and dropped.

In: a catalog's settings, secrets resolved. Out: Findings. It creates one scratch namespace, `floe_doctor_...`, and
removes it with everything in it; no other name is touched.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from framework.adapters.iceberg.catalog import IcebergCatalog
from framework.config.spec import SettingValue
from framework.diagnose.suggest import listed
from framework.ops.doctor import Finding, error, ok, warning

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

SCRATCH = "floe_doctor_"


def examine(name: str, connect: Callable[[], Mapping[str, str]]) -> Iterator[Finding]:
    """Reachable; then namespace, table, data file, commit, read, drop, each the reason of the next.

    Args:
        connect: gives the catalog's settings, secrets resolved.
    """
    from framework.adapters.file_io_guard import open_catalog

    settings = connect()
    check = f"catalog {name}"
    IcebergCatalog(settings, name).check()
    yield ok(check, f"{settings.get('type', 'rest')} catalog answers")
    # The scratch table is made through PyIceberg's own door: what other engines would do, and nothing of floe's
    # protocol.
    opened = open_catalog(name, settings)
    namespace = f"{SCRATCH}{uuid.uuid4().hex[:8]}"
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


def shared_places(catalogs: Mapping[str, Mapping[str, SettingValue]]) -> Iterator[Finding]:
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


def _write(check: str, opened: Catalog, table: str) -> Iterator[Finding]:
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
    except Exception as raised:  # every store has its own way of saying no
        yield error(f"{check} {'warehouse' if made else 'table'}", f"cannot {step}: {_said(raised)}", remedy)
    finally:
        if made:
            yield from _remove(check, opened, table)


def _remove(check: str, opened: Catalog, table: str) -> Iterator[Finding]:
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
    return location.partition(SCRATCH)[0].rstrip("/") or location


def _said(raised: Exception) -> str:
    lines = str(raised).strip().splitlines() or [""]
    return f"{type(raised).__name__}: {lines[0][:300]}"
