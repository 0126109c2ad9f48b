"""What the tables of a namespace hold, read only through PyIceberg.

Catalog settings come in, one line of facts per table goes out: rows and files as the current snapshot's manifests say,
partitions and snapshots; and how long it takes to read a table whole.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyiceberg.exceptions import NoSuchNamespaceError

from framework.adapters.file_io_guard import open_catalog


@dataclass(frozen=True)
class Landed:
    """One table: its full name, rows, data files, distinct partitions, snapshots; `partitioned_by` as text."""

    table: str
    rows: int
    files: int
    partitions: int
    snapshots: int
    partitioned_by: str


@dataclass(frozen=True)
class FullScan:
    """All columns of all rows were read."""

    table: str
    rows: int
    seconds: float


def read_whole(catalog_settings: dict[str, str], table: str) -> FullScan:
    """How long it takes to read a table, planning included."""
    began = time.monotonic()
    rows = len(open_catalog("default", catalog_settings).load_table(table).scan().to_arrow())
    return FullScan(table, rows, time.monotonic() - began)


def landed(catalog_settings: dict[str, str], namespace: str) -> list[Landed]:
    """Every table of a namespace, most rows first; empty when there is no such namespace."""
    catalog = open_catalog("default", catalog_settings)
    try:
        names = catalog.list_tables(namespace)
    except NoSuchNamespaceError:
        return []
    found = []
    for name in names:
        table = catalog.load_table(name)
        files = [task.file for task in table.scan().plan_files()]
        found.append(
            Landed(
                table=".".join(name),
                rows=sum(file.record_count for file in files),
                files=len(files),
                partitions=len({(file.spec_id, file.partition) for file in files}),
                snapshots=len(table.metadata.snapshots),
                partitioned_by=", ".join(
                    f"{field.transform}({table.schema().find_column_name(field.source_id)})"
                    for field in table.spec().fields
                ),
            )
        )
    return sorted(found, key=lambda facts: (-facts.rows, facts.table))
