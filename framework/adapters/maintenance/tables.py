"""Maintenance of tables by their names: what a decision asks for, and what carries it out.

In: tables of a target's catalogs, and pure functions that decide from facts. Out: what was done, as plain values; a
conflict with another writer is decided anew, a few times. Nothing is decided here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.utils.properties import property_as_bool

from framework.adapters.file_io import file_io
from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.commits.expiry import (
    ExpiryFacts,
    expire,
    facts_of,
    took_references,
    went_with,
    would_go,
)
from framework.adapters.iceberg.commits.replace import (
    Replacement,
    foreign_replaces,
    is_maintenance,
    live_files_of,
    manifests_of,
    replace_files,
)
from framework.adapters.iceberg.files import moment
from framework.adapters.iceberg.private.avro.damaged_doubles import damaged_manifests
from framework.adapters.iceberg.private.live_files import LiveFile, UnsupportedDeletes
from framework.adapters.iceberg.supported_tables import cannot_rewrite, unwritable
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.iceberg.views import target_of, view_of
from framework.adapters.maintenance.rewrite_files import RowNumbers, rewrite
from framework.adapters.secrets import first_line
from framework.commit.machine.progress.recorded import CREATED_PROPERTY, PROGRESS_PROPERTY, pipelines_of, topic_ids_of
from framework.commit.maintenance.compaction import LiveFileFacts, plan_compaction
from framework.commit.maintenance.expire import Expiry, decide_expiry
from framework.commit.maintenance.health import MetadataFacts, TableHealth, health_of
from framework.commit.maintenance.others import OtherMaintainer, other_maintainer
from framework.config.names.table_names import catalog_of
from framework.config.spec import TablePolicy
from framework.config.values.maintenance import CompactionPolicy, MaintenancePolicy, ManifestsPolicy
from framework.errors import FloeError

CONFLICTS = 5
# What is rewritten by then is committed, so that a process that ends loses little.
COMMIT_AFTER_S = 20.0


@dataclass(frozen=True)
class MaintainedTable:
    """What is asked of a table before it is maintained. `pipelines` fill it; `behind`: the branches that do not hold what
    floe committed, so that one which floe writes was moved back by somebody. `commits_since` are its snapshots since the
    last one of floe's maintenance, which was at `since_ms`, or since the oldest; None where it has none. `other`: who else
    maintains it. `owns_files` is False for a table that shares its files, as its property `gc.enabled` says."""

    table_uuid: str
    created_by_floe: bool
    pipelines: frozenset[str]
    behind: frozenset[str]
    snapshots: int
    commits_since: int
    since_ms: int | None
    other: OtherMaintainer | None = None
    owns_files: bool = True


@dataclass(frozen=True)
class Compacted:
    """`files_before` became `files_after` of the same `rows`, in `snapshots` commits; `read_bytes` were read. `refused`
    counts groups that others changed meanwhile, `left` those that there was no time or allowance for. `reason` says why
    a table cannot be compacted at all."""

    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    read_bytes: int = 0
    snapshots: int = 0
    refused: int = 0
    left: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Expired:
    """`paths`: the files that only the expired snapshots refer to; they are still there. `is_last`: a tag that was set
    meanwhile went with its snapshot. Its files are still there, and another expiry would not know of them."""

    expiry: Expiry
    paths: tuple[str, ...]
    snapshots_left: int
    is_last: bool = False


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
        snapshots = sorted(loaded.metadata.snapshots, key=lambda each: each.sequence_number or 0)
        last = max((number for number, each in enumerate(snapshots) if is_maintenance(each)), default=-1)
        return MaintainedTable(
            str(loaded.metadata.table_uuid),
            CREATED_PROPERTY in properties,
            pipelines_of(text),
            frozenset(branch for branch in _branches(loaded) if _is_behind(table, loaded, branch, topic_ids_of(text))),
            len(snapshots),
            len(snapshots) - 1 - last,
            snapshots[max(last, 0)].timestamp_ms if snapshots else None,
            _other(loaded),
            property_as_bool(properties, "gc.enabled", True),
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
                    return Expired(expiry, tuple(would_go(loaded, expiry.expired)), left)
                try:
                    after = expire(commits, loaded, expiry.expired)
                except CommitFailedException:
                    continue  # somebody was faster: what they need now is looked at
                failpoint("snapshots-expired")
                paths = went_with(loaded, after.metadata)
                is_last = took_references(loaded, after.metadata)
                return Expired(expiry, tuple(paths), len(after.metadata.snapshots), is_last)
        except FloeError:
            raise
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _failed(table, first_line(error)) from error
        raise _failed(table, f"it changed {CONFLICTS} times in a row")

    def compact(
        self,
        table: str,
        policy: CompactionPolicy,
        dry_run: bool,
        max_bytes: int | None = None,
        goes_on: Callable[[], bool] = lambda: True,
        branch: str = MAIN_BRANCH,
    ) -> Compacted | None:
        """Rewrite what is worth it of a branch; None when there is no such table.

        Args:
            max_bytes: what may be read of data files.
            goes_on: asked before each group; False ends it with a commit of what is rewritten.

        Raises:
            FloeError: FLOE-R380 the catalog refuses or does not answer, or a file cannot be read or written. Files that
                are in no snapshot are found as orphans.
        """
        try:
            return self._compact(table, policy, dry_run, max_bytes, goes_on, branch)
        except FloeError:
            raise
        except UnsupportedDeletes as error:
            return Compacted(reason=str(error))
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _failed(table, first_line(error)) from error

    def _compact(
        self,
        table: str,
        policy: CompactionPolicy,
        dry_run: bool,
        max_bytes: int | None,
        goes_on: Callable[[], bool],
        branch: str,
    ) -> Compacted | None:
        loaded, commits = self.tables.opened(table)
        if loaded is None:
            return None
        metadata = loaded.metadata
        if reason := unwritable(metadata, loaded.catalog) or cannot_rewrite(metadata):
            return Compacted(reason=reason)
        found = live_files_of(loaded, branch)
        live = found.by_path
        # Rows of a file that is somebody else's do not become the table's own: whoever named it may not read it.
        owned = self.tables.owned(table, (path for path, file in live.items() if file.is_parquet))
        facts = [facts_of_file(file) for file in live.values() if file.path in owned]
        every, groups = plan_compaction(facts, policy), plan_compaction(facts, policy, max_bytes)
        if dry_run:
            read = sum(group.bytes for group in every)
            return Compacted(sum(len(group.files) for group in every), len(every), read_bytes=read)
        target = target_of(table, metadata, TablePolicy())
        catalog = catalog_of(table)
        done, waiting, began = Compacted(left=len(every)), list[Replacement](), time.monotonic()
        numbers = RowNumbers()
        for group in groups:
            if not goes_on():
                break
            old, begun = tuple(live[path] for path in group.paths), moment()
            run = uuid.uuid4().hex[:12]
            settings = self.tables.io_properties_of(table)  # keys that a server lends may end before the last group
            io = file_io(settings, target.location)
            made = rewrite(io, metadata, target, settings, old, catalog, run, policy.sort, numbers=numbers)
            assert made.places is not None
            failpoint("files-rewritten")
            waiting.append(Replacement(old, made.files, metadata.current_schema_id, made.places.places, begun))
            done = replace(done, rows=done.rows + made.rows, read_bytes=done.read_bytes + made.read_bytes)
            if time.monotonic() - began > COMMIT_AFTER_S:
                done, waiting, began = self._replace(table, branch, commits, waiting, done), [], time.monotonic()
        return (
            self._replace(table, branch, commits, waiting, done) if waiting or (found.dangling and goes_on()) else done
        )

    def _replace(
        self, table: str, branch: str, commits: TableCommits, waiting: list[Replacement], done: Compacted
    ) -> Compacted:
        outcome = replace_files(commits, lambda: self._now(table), waiting, sweep=True, branch=branch)
        failpoint("files-replaced")
        if outcome.attempts == 1:  # else some catalog may have heard of them
            for each in outcome.refused:
                self.remove(table, tuple(file.path for file in each.files))
        return replace(
            done,
            files_before=done.files_before + sum(len(each.old) for each in outcome.committed),
            files_after=done.files_after + sum(len(each.files) for each in outcome.committed),
            snapshots=done.snapshots + (outcome.snapshot_id is not None),
            refused=done.refused + len(outcome.refused),
            left=done.left - len(outcome.committed),
        )

    def health(
        self, table: str, policy: MaintenancePolicy, most_files: int | None = None, branch: str = MAIN_BRANCH
    ) -> TableHealth | None:
        """How healthy a table is on a branch; None when there is no such table. Reads its manifests and no data file.

        Args:
            most_files: None for a table whose manifests list more; they are not read.

        Raises:
            FloeError: FLOE-R380 the catalog does not answer, or a manifest cannot be read.
        """
        loaded, _ = self.tables.opened(table)
        if loaded is None:
            return None
        try:
            listed = manifests_of(loaded, branch)
            count = sum((each.added_files_count or 0) + (each.existing_files_count or 0) for each in listed)
            if most_files is not None and count > most_files:
                return None
            live = live_files_of(loaded, branch).by_path.values()
            metadata, now_ms = loaded.metadata, int(time.time() * 1000)
            if unwritable(metadata, loaded.catalog) or cannot_rewrite(metadata):  # nothing would be gained
                policy = replace(
                    policy,
                    compaction=replace(policy.compaction, enabled=False),
                    manifests=replace(policy.manifests, enabled=False),
                )
            seen = facts_of(metadata)
            gone = decide_expiry(seen.snapshots, seen.references, seen.topic_ids, policy.expire, now_ms, 2**31)
            facts = MetadataFacts(
                snapshots=len(metadata.snapshots),
                manifests=len(listed),
                metadata_bytes=len(loaded.io.new_input(loaded.metadata_location)),
                delete_files=sum(
                    (each.added_files_count or 0) + (each.existing_files_count or 0)
                    for each in listed
                    if each.content == ManifestContent.DELETES
                ),
                last_maintenance_ms=max(
                    (each.timestamp_ms for each in metadata.snapshots if is_maintenance(each)), default=None
                ),
                other=_other(loaded),
                gain_manifests=max(0, len(listed) - _merged(listed, policy.manifests)),
                gain_snapshots=len(gone.expired),
            )
        except UnsupportedDeletes as error:
            raise _failed(table, str(error)) from error
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _failed(table, first_line(error)) from error
        return health_of([facts_of_file(file) for file in live], facts, policy.compaction)

    def merge_manifests(
        self, table: str, policy: ManifestsPolicy, dry_run: bool, branch: str = MAIN_BRANCH
    ) -> tuple[int, int] | None:
        """How many manifests a branch's head lists before and after; None when there is no such table. Manifests with
        damaged partition values are written again, however few there are.

        Raises:
            FloeError: FLOE-R380 the catalog refuses or does not answer, or a manifest cannot be read or written.
        """
        try:
            loaded, commits = self.tables.opened(table)
            if loaded is None:
                return None
            before = manifests_of(loaded, branch)
            after = len(before) if unwritable(loaded.metadata, loaded.catalog) else _merged(before, policy)
            damaged = policy.enabled and damaged_manifests(loaded.metadata, loaded.io, before)
            if dry_run or (after == len(before) and not damaged):
                return len(before), after
            replace_files(commits, lambda: self._now(table), (), merge_all=True, branch=branch)
            return len(before), len(manifests_of(self._now(table), branch))
        except FloeError:
            raise
        except Exception as error:  # each catalog and store has exceptions of its own
            raise _failed(table, first_line(error)) from error

    def _now(self, table: str) -> Table:
        loaded, _ = self.tables.opened(table)
        if loaded is None:
            raise _failed(table, "it was dropped")
        return loaded

    def remove(self, table: str, paths: tuple[str, ...]) -> int:
        """Remove files that nothing refers to; gives how many were there.

        Raises:
            FloeError: FLOE-R373, the store refuses; those before it are gone.
        """
        removed = 0
        for _ in self.tables.remove_files(table, paths):
            removed += 1
            failpoint("file-removed")
        return removed


def _merged(listed: Sequence[ManifestFile], policy: ManifestsPolicy) -> int:
    """How many manifests there are once those are merged that the policy wants merged."""
    if not policy.enabled or len(listed) < policy.min_count:
        return len(listed)
    return len({(each.partition_spec_id, each.content) for each in listed})


def _branches(loaded: Table) -> tuple[str, ...]:
    refs = loaded.metadata.refs.items()
    return (
        MAIN_BRANCH,
        *(n for n, ref in refs if ref.snapshot_ref_type == SnapshotRefType.BRANCH and n != MAIN_BRANCH),
    )


def _is_behind(table: str, loaded: Table, branch: str, topic_ids: Iterable[str]) -> bool:
    return any(view_of(table, loaded.metadata, branch, topic_id).is_behind for topic_id in topic_ids)


def _other(loaded: Table) -> OtherMaintainer | None:
    return other_maintainer(foreign_replaces(loaded.metadata), int(time.time() * 1000))


def facts_of_file(file: LiveFile) -> LiveFileFacts:
    """A live file as a plan of compaction sees it."""
    place = f"{file.spec_id} {file.partition!r}"
    return LiveFileFacts(
        file.path, place, file.file_size_bytes, file.record_count, file.deleted_rows, file.sequence_number
    )


def _failed(table: str, reason: str) -> FloeError:
    return FloeError(
        f"maintenance of table {table} stopped: {reason}",
        code="FLOE-R380",
        place=table,
        remedy="nothing that is needed was removed; run it again, it goes on where it was",
    )
