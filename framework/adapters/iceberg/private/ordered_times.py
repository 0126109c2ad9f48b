"""Times in a table's metadata that never run backwards, whatever the clocks of its writers say.

In: a catalog whose client writes the metadata files (SQL, Hive, Glue). Out: the same, whose commits raise a time that lies
before the one of the commit before. PyIceberg 0.12 dates each change of metadata by its own clock; Iceberg's Java library
refuses a table whose log runs backwards by more than a minute. Entries that ran backwards before are raised with the next
commit, so a table that Java refused can be read again. This module goes when PyIceberg keeps them in order.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, TypeVar

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import MetadataLogEntry, SnapshotLogEntry
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

Entry = TypeVar("Entry", MetadataLogEntry, SnapshotLogEntry)


def with_ordered_times(catalog: Catalog) -> Catalog:
    """The catalog itself; a REST server dates its tables alone."""
    if not isinstance(catalog, MetastoreCatalog):
        return catalog
    stage = catalog._update_and_stage_table

    def staged(
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        made = stage(current_table, table_identifier, requirements, updates)
        metadata = in_order(made.metadata, None if current_table is None else current_table.metadata)
        if metadata is made.metadata:
            return made
        return StagedTable(made.name(), metadata, made.metadata_location, made.io, made.catalog)

    catalog._update_and_stage_table = staged  # type: ignore[method-assign]
    return catalog


def next_snapshot_ms(metadata: TableMetadata, now_ms: int) -> int:
    """When a new snapshot says that it was made: now, or with the newest change of the table, if a writer whose clock was
    ahead made that. A server's last change may be older than that snapshot: it dates what is no snapshot by its own clock."""
    newest_ms = metadata.snapshot_log[-1].timestamp_ms if metadata.snapshot_log else 0
    return max(now_ms, metadata.last_updated_ms, newest_ms)


def in_order(metadata: TableMetadata, before: TableMetadata | None) -> TableMetadata:
    """The metadata with no time before the one that stands behind it, nor its last change before that of `before`; itself
    where that holds already."""
    files, heads = _ascending(metadata.metadata_log), metadata.snapshot_log
    # Of thousands of heads most were there before, and in order unless the files are not.
    new = heads[max(0, len(before.snapshot_log) - 1) :] if before is not None else heads
    if files is not metadata.metadata_log or _ascending(new) is not new:
        heads = _ascending(heads)
    newest_ms = max(metadata.last_updated_ms, *(log[-1].timestamp_ms for log in (files, heads) if log), 0)
    newest_ms = max(newest_ms, before.last_updated_ms if before is not None else 0)
    changed: dict[str, Any] = {} if files is metadata.metadata_log else {"metadata_log": files}
    changed |= {} if heads is metadata.snapshot_log else {"snapshot_log": heads}
    if newest_ms != metadata.last_updated_ms:
        changed["last_updated_ms"] = newest_ms
    return metadata.model_copy(update=changed) if changed else metadata


def _ascending(log: list[Entry]) -> list[Entry]:
    times_ms = [entry.timestamp_ms for entry in log]
    highest = list(accumulate(times_ms, max))
    if highest == times_ms:
        return log
    return [entry.model_copy(update={"timestamp_ms": at}) for entry, at in zip(log, highest, strict=True)]
