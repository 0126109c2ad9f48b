"""Maintenance of tables by their names: what a decision asks for, and what carries it out.

In: tables of a target's catalogs, and pure functions that decide from facts. Out: what was done, as plain values; a
conflict with another writer is decided anew, a few times. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from framework.adapters.faults import reach
from framework.adapters.iceberg.catalog import first_line
from framework.adapters.iceberg.expiry import ExpiryFacts, expire, facts_of, only_theirs
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.iceberg.views import view_of
from framework.commit.machine.progress import CREATED_PROPERTY, PROGRESS_PROPERTY, pipelines_of, topic_ids_of
from framework.commit.maintenance.expire import Expiry
from framework.errors import FloeError

BRANCH = "main"
CONFLICTS = 5


@dataclass(frozen=True)
class MaintainedTable:
    """What is asked of a table before it is maintained. `pipelines` fill it; `rolled_back`: somebody moved it behind
    what floe committed."""

    table_uuid: str
    created_by_floe: bool
    pipelines: frozenset[str]
    rolled_back: bool
    snapshots: int


@dataclass(frozen=True)
class Expired:
    """`paths`: the files that only the expired snapshots refer to; they are still there."""

    expiry: Expiry
    paths: tuple[str, ...]
    snapshots_left: int


class TableCare:
    """Of one target. Safe for threads."""

    def __init__(self, tables: IcebergTables) -> None:
        self.tables = tables

    def look(self, table: str) -> MaintainedTable | None:
        """None when there is no such table.

        Raises:
            FloeError: the catalog cannot be asked now. StateDisagreement: the recorded progress cannot be read.
        """
        loaded, _ = self.tables.opened(table)
        if loaded is None:
            return None
        properties = loaded.metadata.properties
        text = properties.get(PROGRESS_PROPERTY)
        return MaintainedTable(
            str(loaded.metadata.table_uuid),
            CREATED_PROPERTY in properties,
            pipelines_of(text),
            any(_is_behind(table, loaded, topic_id) for topic_id in topic_ids_of(text)),
            len(loaded.metadata.snapshots),
        )

    def expire(self, table: str, decide: Callable[[ExpiryFacts], Expiry], dry_run: bool) -> Expired | None:
        """Expire what is decided; None when there is no such table.

        Raises:
            FloeError: FLOE-R380 the catalog refuses or does not answer, or a manifest cannot be read. Snapshots may
                have expired; the files that are left then are found as orphans.
        """
        try:
            for _ in range(CONFLICTS):
                loaded, commits = self.tables.opened(table)
                if loaded is None:
                    return None
                expiry = decide(facts_of(loaded.metadata))
                left = len(loaded.metadata.snapshots) - len(expiry.expired)
                if not expiry.expired:
                    return Expired(expiry, (), left)
                if dry_run:
                    return Expired(expiry, tuple(only_theirs(loaded, loaded.metadata, expiry)), left)
                try:
                    after = expire(commits, loaded, expiry.expired)
                except CommitFailedException:
                    continue  # somebody was faster: what they need now is looked at
                reach("snapshots-expired")
                return Expired(
                    expiry, tuple(only_theirs(loaded, after.metadata, expiry)), len(after.metadata.snapshots)
                )
        except FloeError:
            raise
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _failed(table, first_line(error)) from error
        raise _failed(table, f"it changed {CONFLICTS} times in a row")

    def remove(self, table: str, paths: tuple[str, ...]) -> int:
        """Remove files that nothing refers to; gives how many were there.

        Raises:
            FloeError: FLOE-R373, the store refuses; those before it are gone.
        """
        removed = 0
        for _ in self.tables.remove_files(table, paths):
            removed += 1
            reach("file-removed")
        return removed


def _is_behind(table: str, loaded: Table, topic_id: str) -> bool:
    view = view_of(table, loaded.metadata, BRANCH, topic_id)
    if view.progress is None or view.snapshot_control_offset is None:
        return False
    return view.snapshot_control_offset < view.progress.control_offset


def _failed(table: str, reason: str) -> FloeError:
    return FloeError(
        f"maintenance of table {table} stopped: {reason}",
        code="FLOE-R380",
        place=table,
        remedy="nothing that is needed was removed; run it again, it goes on where it was",
    )
