"""Expires snapshots of a table, and finds the files that only they refer to.

In: a loaded table and the ids that a decision names. Out: the table without those snapshots, and the paths that nothing
refers to any more. The commit is conditional on every branch and tag, so that nothing expires that somebody has just
begun to need; files are looked for after it, in what the table then is. PyIceberg's `expire_snapshots` has no such
conditions, and removes no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate, TableRequirement

from framework.adapters.iceberg.commit import TableCommits
from framework.adapters.iceberg.files import path_key
from framework.commit.machine.progress import PROGRESS_PROPERTY, SUMMARY_CONTROL_TOPIC_ID, topic_ids_of
from framework.commit.maintenance.expire import Expiry, Reference, SnapshotAge


@dataclass(frozen=True)
class ExpiryFacts:
    """What `decide_expiry` asks for."""

    snapshots: tuple[SnapshotAge, ...]
    references: tuple[Reference, ...]
    topic_ids: tuple[str, ...]


def facts_of(metadata: TableMetadata) -> ExpiryFacts:
    """Reads nothing but the metadata that is loaded."""
    return ExpiryFacts(
        tuple(_age(each) for each in metadata.snapshots),
        tuple(
            Reference(
                name,
                ref.snapshot_id,
                ref.snapshot_ref_type == SnapshotRefType.BRANCH,
                ref.max_snapshot_age_ms,
                ref.min_snapshots_to_keep,
            )
            for name, ref in metadata.refs.items()
        ),
        tuple(topic_ids_of(metadata.properties.get(PROGRESS_PROPERTY))),
    )


def _age(snapshot: Snapshot) -> SnapshotAge:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return SnapshotAge(
        snapshot.snapshot_id, snapshot.parent_snapshot_id, snapshot.timestamp_ms, said.get(SUMMARY_CONTROL_TOPIC_ID)
    )


def expire(commits: TableCommits, table: Table, expired: Collection[int]) -> Table:
    """The table without these snapshots.

    Raises:
        CommitFailedException: a branch or a tag has moved meanwhile; nothing was changed.
        Exception: whatever the catalog raises; the outcome is then unknown, and the next decision finds what is left.
    """
    metadata = table.metadata
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    requirements += [AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()]
    return commits.apply(table, requirements, (RemoveSnapshotsUpdate(snapshot_ids=list(expired)),))


def only_theirs(before: Table, after: TableMetadata, expiry: Expiry) -> list[str]:
    """The files that the expired snapshots refer to, and none that stays: manifest lists, manifests, data files and
    files of deletes, statistics. Each stays until the last snapshot that can read it, or that removed it, has expired.

    Raises:
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    io, gone = before.io, set(expiry.expired)
    went = [each for each in before.metadata.snapshots if each.snapshot_id in gone]
    stays = [each for each in after.snapshots if each.snapshot_id not in gone]
    if expiry.is_prefix:
        # A manifest that a line has dropped never comes back, so the oldest one that stays says which are still listed.
        first = [each for each in stays if each.snapshot_id == expiry.oldest_kept]
        listed = _manifests(io, first)
    else:
        listed = _manifests(io, stays)
    theirs = {path: each for path, each in _manifests(io, went).items() if path not in listed}
    if expiry.is_prefix:
        data = _removed_by(io, _manifests(io, went).values(), gone)
        # A Puffin file holds many deletion vectors: it goes with the last of them.
        deletes = [each for each in listed.values() if each.content == ManifestContent.DELETES] if data else []
        data -= _named(io, deletes, gone)
    else:
        data = _named(io, theirs.values()) - _named(io, listed.values(), gone)
    named = {
        each.statistics_path
        for each in (*after.statistics, *after.partition_statistics)
        if each.snapshot_id not in gone
    }
    # A catalog that keeps the entries of expired snapshots still names their files.
    named |= {each.statistics_path for each in after.partition_statistics} if after is not before.metadata else set()
    old = (*before.metadata.statistics, *before.metadata.partition_statistics)
    statistics = {each.statistics_path for each in old if each.snapshot_id in gone} - named
    lists = [each.manifest_list for each in went]
    still = {path_key(each.manifest_list) for each in stays}
    return [
        *sorted(data),
        *sorted(statistics),
        *sorted(theirs),
        *(each for each in lists if path_key(each) not in still),
    ]


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
