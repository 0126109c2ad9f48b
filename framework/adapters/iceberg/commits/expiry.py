"""Expires snapshots of a table, and finds the files that only they refer to.

In: a loaded table and the ids that a decision names. Out: the table without those snapshots, and the paths that nothing
refers to any more. The commit is conditional on every branch and tag, so that nothing expires that somebody has just
begun to need. Invariant 12: which files go is computed from the metadata before and after the commit, whoever else
committed meanwhile; nothing that a snapshot of the table can reach goes, and where a fact is missing, nothing does.
PyIceberg's `expire_snapshots` has no such conditions, and removes no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
)
from pyiceberg.utils.properties import property_as_int

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.files import path_key
from framework.adapters.iceberg.private.sql import AssertAsSeen
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_COMMIT_ID,
    SUMMARY_CONTROL_TOPIC_ID,
    SUMMARY_MAINTENANCE,
    SUMMARY_RECOVERY,
    topic_ids_in_use,
)
from framework.commit.maintenance.expire import Reference, SnapshotAge, is_end_of_line

_MIN_SNAPSHOTS, _MAX_AGE = "history.expire.min-snapshots-to-keep", "history.expire.max-snapshot-age-ms"


@dataclass(frozen=True)
class ExpiryFacts:
    """What `decide_expiry` asks for."""

    snapshots: tuple[SnapshotAge, ...]
    references: tuple[Reference, ...]
    topic_ids: tuple[str, ...]


def facts_of(metadata: TableMetadata) -> ExpiryFacts:
    """Reads nothing but the metadata that is loaded. What the table's own properties say of snapshots counts for each
    branch that says nothing of itself."""
    fewest = property_as_int(metadata.properties, _MIN_SNAPSHOTS)
    age_ms = property_as_int(metadata.properties, _MAX_AGE)
    left = _left_ms(metadata)
    return ExpiryFacts(
        tuple(_age(each, left.get(each.snapshot_id)) for each in metadata.snapshots),
        tuple(
            Reference(
                name,
                ref.snapshot_id,
                ref.snapshot_ref_type == SnapshotRefType.BRANCH,
                age_ms if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms,
                fewest if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep,
            )
            for name, ref in metadata.refs.items()
        ),
        tuple(topic_ids_in_use(metadata.properties.get(PROGRESS_PROPERTY))),
    )


def _left_ms(metadata: TableMetadata) -> dict[int, int]:
    """When each snapshot ceased to be a head: when the next one became it, by the log of main's heads and by what was
    built on it, whichever is later."""
    found: dict[int, int] = {}
    for earlier, later in pairwise(metadata.snapshot_log):
        found[earlier.snapshot_id] = max(found.get(earlier.snapshot_id, 0), later.timestamp_ms)
    for each in metadata.snapshots:
        if (parent := each.parent_snapshot_id) is not None:
            found[parent] = max(found.get(parent, 0), each.timestamp_ms)
    return found


def _age(snapshot: Snapshot, left_ms: int | None = None) -> SnapshotAge:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return SnapshotAge(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        snapshot.timestamp_ms,
        said.get(SUMMARY_CONTROL_TOPIC_ID),
        left_ms,
    )


def expire(commits: TableCommits, table: Table, expired: Collection[int]) -> Table:
    """The table without these snapshots.

    Raises:
        CommitFailedException: a branch or a tag has moved meanwhile, or is new; nothing was changed.
        Exception: whatever the catalog raises; the outcome is then unknown, and the next decision finds what is left.
    """
    metadata = table.metadata
    requirements: list[Any] = [AssertTableUUID(uuid=metadata.table_uuid)]
    requirements += [AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()]
    if isinstance(table.catalog, MetastoreCatalog):
        requirements.append(AssertAsSeen(refs=frozenset(metadata.refs), snapshot_ids=frozenset(expired)))
    return commits.apply(table, requirements, (RemoveSnapshotsUpdate(snapshot_ids=list(expired)),))


def went_with(before: Table, after: TableMetadata) -> list[str]:
    """The files that only snapshots refer to which went with the commit that made this metadata.

    Args:
        before: the table as it was looked at; others may have committed between then and that commit.

    Raises:
        Exception: metadata or a manifest cannot be read; each store has exceptions of its own.
    """
    last = after.metadata_log[-1].metadata_file if after.metadata_log else None
    if last is None or after.table_uuid != before.metadata.table_uuid:
        return []
    is_seen = last == before.metadata_location
    just_before = before.metadata if is_seen else FromInputFile.table_metadata(before.io.new_input(last))
    left = {each.snapshot_id for each in after.snapshots}
    # A REST server takes a tag away with its snapshot, also one that was set after the look: its files stay.
    lost = {ref.snapshot_id for name, ref in just_before.refs.items() if name not in after.refs}
    gone = [each for each in just_before.snapshots if each.snapshot_id not in left | lost]
    stays = [*after.snapshots, *(each for each in just_before.snapshots if each.snapshot_id in lost - left)]
    return only_theirs(before.io, gone, stays, just_before, after)


def would_go(table: Table, expired: Collection[int]) -> list[str]:
    """The files that `went_with` finds once these snapshots have expired.

    Raises:
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    metadata, gone = table.metadata, set(expired)
    theirs = [each for each in metadata.snapshots if each.snapshot_id in gone]
    stays = [each for each in metadata.snapshots if each.snapshot_id not in gone]
    slim = metadata.model_copy(
        update={
            "statistics": [each for each in metadata.statistics if each.snapshot_id not in gone],
            "partition_statistics": [each for each in metadata.partition_statistics if each.snapshot_id not in gone],
        }
    )
    return only_theirs(table.io, theirs, stays, metadata, slim)


def only_theirs(
    io: FileIO, gone: Sequence[Snapshot], stays: Sequence[Snapshot], before: TableMetadata, after: TableMetadata
) -> list[str]:
    """The files that some snapshots refer to, and none that stays: manifest lists, manifests, data files and files of
    deletes, statistics.

    Raises:
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    if not gone:
        return []
    went = {each.snapshot_id for each in gone}
    # On one line of floe's own commits a manifest that was dropped never comes back, and neither does a file: names are
    # made once. So the oldest snapshot that stays says what is still listed. A rollback brings files back, and others
    # may add again what they removed: then every snapshot that stays is asked.
    is_own = all(map(_is_own, (*gone, *stays))) and is_end_of_line(list(map(_age, gone)), list(map(_age, stays)))
    listed = _manifests(io, [each for each in stays if not is_own or each.parent_snapshot_id in went])
    theirs = {path: each for path, each in _manifests(io, gone).items() if path not in listed}
    if is_own:
        data = _removed_by(io, _manifests(io, gone).values(), went)
        # A Puffin file holds many deletion vectors: it goes with the last of them.
        deletes = [each for each in listed.values() if each.content == ManifestContent.DELETES] if data else []
        data -= _named(io, deletes, went)
    else:
        # What an expired snapshot removed, too: its entries may be those of a manifest that stays.
        data = _named(io, _manifests(io, gone).values()) - _named(io, listed.values(), went)
    old = (*before.statistics, *before.partition_statistics)
    named = {each.statistics_path for each in (*after.statistics, *after.partition_statistics)}
    statistics = {each.statistics_path for each in old if each.snapshot_id in went} - named
    still = {path_key(each.manifest_list) for each in stays}
    return [
        *sorted(data),
        *sorted(statistics),
        *sorted(theirs),
        *(each.manifest_list for each in gone if path_key(each.manifest_list) not in still),
    ]


def _is_own(snapshot: Snapshot) -> bool:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return (SUMMARY_COMMIT_ID in said or SUMMARY_MAINTENANCE in said) and SUMMARY_RECOVERY not in said


def _manifests(io: FileIO, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    return {each.manifest_path: each for snapshot in snapshots for each in snapshot.manifests(io)}


def _removed_by(io: FileIO, manifests: Iterable[ManifestFile], snapshot_ids: Collection[int]) -> set[str]:
    """The files that these snapshots took out of the table: on one line, nothing that stays can read them."""
    return {
        entry.data_file.file_path
        for manifest in manifests
        if manifest.added_snapshot_id in snapshot_ids and manifest.deleted_files_count != 0
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED
    }


def _named(io: FileIO, manifests: Iterable[ManifestFile], without_deleted_by: Collection[int] = ()) -> set[str]:
    """The files of some manifests, without those that were removed by one of these snapshots."""
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
        if entry.status != ManifestEntryStatus.DELETED or entry.snapshot_id not in without_deleted_by
    }
