"""The commit of a compaction: new data files take the place of old ones in a `replace` snapshot, and no row changes.

In: files that were rewritten, and the live files that they were made from. Out: which of them are in the table now. The
commit is conditional on the head that was looked at (invariant 4), and every old file must be live there with at least
the deletes that were left out of the new one. Rows that were deleted meanwhile are deleted in the new file by the same
snapshot, so that none comes back. Others may commit in between: then it is looked at again, a few times. The snapshot
records the progress that the table has (invariant 3), and says that floe's maintenance made it.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.table.update import AssertCurrentSchemaId, AssertRefSnapshotId, AssertTableUUID

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.commits.counters import counters
from framework.adapters.iceberg.commits.new_snapshot import branch_updates
from framework.adapters.iceberg.files import missing_of, moment
from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.live_files import LiveFile, LiveFiles, deleted_positions, live_files
from framework.adapters.iceberg.private.manifests import WrittenSnapshot, to_iceberg
from framework.adapters.iceberg.private.ordered_times import next_snapshot_ms
from framework.adapters.iceberg.private.replaced_files import ReplacedFiles, can_sweep
from framework.adapters.iceberg.private.snapshot_id import new_snapshot_id
from framework.adapters.iceberg.private.spec_schemas import partition_types, schema_for_spec
from framework.adapters.iceberg.views import ancestry, head_of
from framework.commit.deleted_keys import SUMMARY_DELETED_KEYS
from framework.commit.events.event_types import DataFile
from framework.commit.file_ages import ClockReading, FilePresence, presence_of_unnamed
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_CONTROL_OFFSET,
    SUMMARY_CONTROL_TOPIC_ID,
    SUMMARY_KEY,
    SUMMARY_MAINTENANCE,
    pipelines_of,
)
from framework.commit.maintenance.others import ForeignReplace, engine_of
from framework.commit.recovery.missing import REPLAY

CONFLICTS = 8
FIRST_PAUSE_S = 0.05


@dataclass(frozen=True)
class Replacement:
    """`files` hold the live rows of `old`, as these were when they were read for schema `schema_id`. `places` gives, for
    what is deleted by now in each of `old`, the positions of these rows in each of `files`. `begun` is before the first
    of these was."""

    old: tuple[LiveFile, ...]
    files: tuple[DataFile, ...]
    schema_id: int
    places: Callable[[Sequence[Positions]], list[Positions]]
    begun: ClockReading


@dataclass(frozen=True)
class Replaced:
    """`committed` are in the table; `refused` are not, since their old files changed. `attempts` counts tries: with one,
    no catalog has ever heard of the files of those that were refused."""

    committed: tuple[Replacement, ...]
    refused: tuple[Replacement, ...]
    snapshot_id: int | None
    attempts: int


def live_files_of(table: Table, branch: str = MAIN_BRANCH) -> LiveFiles:
    """The live files of a branch's head.

    Raises:
        UnsupportedDeletes: there are equality deletes, or two deletion vectors for one file.
    """
    head = head_of(table.metadata, branch)
    if head is None:
        return LiveFiles({}, frozenset())
    return live_files(table.io, _manifests(table, head), table.metadata.format_version, bounds_of=())


def replace_files(
    commits: TableCommits,
    load: Callable[[], Table],
    replacements: Sequence[Replacement],
    merge_all: bool = False,
    sweep: bool = False,
    branch: str = MAIN_BRANCH,
) -> Replaced:
    """Commit to a branch all replacements whose old files are still there, or with `sweep` that delete files of data files
    that are gone go; without both, only manifests are merged.

    Args:
        load: gives the table as it is now.

    Raises:
        FloeError: the catalog cannot be asked now.
        CommitFailedException: others were faster each time; nothing was committed.
        Exception: whatever the catalog or the store raises. What was committed is found by the next look at the table.
    """
    for attempt in range(1, CONFLICTS + 1):
        table = load()
        head = head_of(table.metadata, branch)
        if head is None:
            return Replaced((), tuple(replacements), None, attempt)
        live = live_files_of(table, branch) if replacements or sweep else LiveFiles({}, frozenset())
        if not can_sweep(table.metadata):
            live = dataclasses.replace(live, dangling=frozenset())
        # Some catalogs refuse a commit that they made: what is live already is not added again.
        done = tuple(
            each for each in replacements if each.files and all(file.path in live.by_path for file in each.files)
        )
        found = {
            number: deletes
            for number, each in enumerate(replacements)
            if each not in done
            and _is_there(table.io, each)
            and (deletes := _deleted_since(table.io, each, live, table.metadata)) is not None
        }
        fitting = tuple(replacements[number] for number in found)
        refused = tuple(each for each in replacements if each not in (*done, *fitting))
        if (replacements or sweep) and not fitting and not (sweep and live.dangling):
            return Replaced(done, refused, head.snapshot_id if done else None, attempt)
        since = {path: positions for each in found.values() for path, positions in each.items()}
        try:
            made = _commit(commits, table, branch, head, fitting, live, since, merge_all)
            return Replaced((*done, *fitting), refused, made, attempt)
        except CommitFailedException:
            if attempt == CONFLICTS:
                raise
            time.sleep(FIRST_PAUSE_S * attempt)
    raise AssertionError("unreachable")


def outdate_requests(commits: TableCommits, table: Table, branches: Mapping[str, str]) -> None:
    """Give each branch that floe fills a new head with the same files, to which no request that was sent before fits. Branches
    of others stay where they are.

    Args:
        branches: by pipeline the branch that it writes; `main` where none is known.

    Raises:
        Exception: whatever the catalog or the store raises; some branches may have their new head.
    """
    filling = pipelines_of(table.metadata.properties.get(PROGRESS_PROPERTY))
    for branch in sorted({branches.get(name.partition(REPLAY)[0], MAIN_BRANCH) for name in filling}):
        if _progress(table.metadata, head_of(table.metadata, branch)):
            replace_files(commits, lambda: table.catalog.load_table(table.name()), (), branch=branch)


def _is_there(io: FileIO, replacement: Replacement) -> bool:
    """Invariant 12: whether its new files can be added. Nothing names them before, so who looks for orphans takes them
    once they are old; those that took long are looked for, and none that may be taken at any moment is added."""
    known = presence_of_unnamed(replacement.begun, moment())
    if known is FilePresence.UNCLEAR:
        return not missing_of(io, (file.path for file in replacement.files))
    return known is FilePresence.THERE


def _deleted_since(
    io: FileIO, replacement: Replacement, live: LiveFiles, metadata: TableMetadata
) -> dict[str, Positions] | None:
    """By path of a new file the rows that were deleted in the old ones since these were read; None where the new files do
    not fit: an old one is gone, a row that they lack is there again, or the schema is another one."""
    if replacement.schema_id != metadata.current_schema_id:
        return None
    now = [live.by_path.get(old.path) for old in replacement.old]
    if not all(now):
        return None
    same = [file is not None and file.has_deletes_of(old) for old, file in zip(replacement.old, now, strict=True)]
    if all(same):
        return {}
    deleted = []
    for old, file, is_same in zip(replacement.old, now, same, strict=True):
        before = np.asarray(deleted_positions(io, old), np.int64)
        after = before if file is None or is_same else np.asarray(deleted_positions(io, file), np.int64)
        if len(np.setdiff1d(before, after)):
            return None
        deleted.append(after)
    places = replacement.places(deleted)
    return {file.path: rows for file, rows in zip(replacement.files, places, strict=False) if len(rows)}


def _commit(
    commits: TableCommits,
    table: Table,
    branch: str,
    head: Snapshot,
    replacements: Sequence[Replacement],
    live: LiveFiles,
    since: Mapping[str, Positions],
    merge_all: bool,
) -> int:
    metadata, began = table.metadata, moment()
    specs = metadata.specs()
    added = [
        to_iceberg(file, partition_types(specs[file.spec_id], schema_for_spec(metadata, specs[file.spec_id])))
        for each in replacements
        for file in each.files
    ]
    replaced = {file.path: live.by_path[file.path] for each in replacements for file in each.old}
    snapshot_id = new_snapshot_id()
    writer = ReplacedFiles(metadata, table.io, snapshot_id)
    try:
        written = writer.write_replacement(
            head.snapshot_id, _manifests(table, head), added, replaced, merge_all, since, live.dangling
        )
        counted = counters(added, written.added_deletes, written.removed_deletes, written.removed_files)
        snapshot = _snapshot(metadata, snapshot_id, head, written, counted)
    except Exception:  # the catalog has heard of none of these files: they can go
        commits.remove(table.io, writer.written)
        raise
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=branch, snapshot_id=head.snapshot_id),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
    )
    # Invariant 7: whatever comes of it, no file is removed here. Manifests of an attempt that was refused are orphans.
    commits.apply(table, requirements, branch_updates(metadata, branch, snapshot), began)
    commits.lists.remember(metadata, branch, written)
    return snapshot_id


def _snapshot(
    metadata: TableMetadata,
    snapshot_id: int,
    parent: Snapshot,
    written: WrittenSnapshot,
    counted: Mapping[str, str],
) -> Snapshot:
    own = {**_progress(metadata, parent), SUMMARY_MAINTENANCE: "compaction" if counted else "manifests"}
    # The totals are those of an overwrite; PyIceberg has none for `replace`.
    summary = update_snapshot_summaries(Summary(Operation.OVERWRITE, **counted, **own), parent.summary)
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=next_snapshot_ms(metadata, time.time_ns() // 1_000_000),
        manifest_list=written.manifest_list,
        summary=Summary(Operation.REPLACE, **summary.additional_properties),
        schema_id=metadata.current_schema_id,
        first_row_id=written.first_row_id,
        added_rows=written.added_rows,
    )


def _progress(metadata: TableMetadata, head: Snapshot | None) -> dict[str, str]:
    """What the newest of floe's snapshots says of the table's progress, its key and its deleted keys, which is true of the
    same rows in other files."""
    for snapshot in ancestry(metadata, head):
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if SUMMARY_CONTROL_TOPIC_ID in said and SUMMARY_CONTROL_OFFSET in said:
            kept = (SUMMARY_CONTROL_TOPIC_ID, SUMMARY_CONTROL_OFFSET, SUMMARY_DELETED_KEYS, SUMMARY_KEY)
            return {key: said[key] for key in kept if key in said}
    return {}


def is_maintenance(snapshot: Snapshot) -> bool:
    """Whether floe's maintenance made a snapshot."""
    return snapshot.summary is not None and SUMMARY_MAINTENANCE in snapshot.summary.additional_properties


def foreign_replaces(metadata: TableMetadata) -> list[ForeignReplace]:
    """The snapshots that are left in which others put the table's rows into other files or its files into other
    manifests."""
    return [
        ForeignReplace(each.timestamp_ms, engine_of(each.summary.additional_properties))
        for each in metadata.snapshots
        if each.summary is not None and each.summary.operation is Operation.REPLACE and not is_maintenance(each)
    ]


def manifests_of(table: Table, branch: str = MAIN_BRANCH) -> Sequence[ManifestFile]:
    """What a branch's head lists; nothing where there is none."""
    head = head_of(table.metadata, branch)
    return _manifests(table, head) if head is not None else ()


def _manifests(table: Table, head: Snapshot) -> Sequence[ManifestFile]:
    if table.metadata.format_version >= lineage.VERSION:
        return lineage.read_manifests(table.io, head.manifest_list)
    return head.manifests(table.io)
