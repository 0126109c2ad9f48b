"""Expires snapshots of a table, and finds the files that only they refer to.

In: a loaded table and the ids that a decision names. Out: the table without those snapshots, and the paths that nothing
refers to any more. The commit is conditional on every branch and tag, so that nothing expires that somebody has just
begun to need. Invariant 12: which files go is computed from the metadata before and after the commit, whoever else
committed meanwhile; nothing that a snapshot of the table can reach goes, and where a fact is missing, nothing does.
PyIceberg's `expire_snapshots` has no such conditions, and removes no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
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
from framework.commit.maintenance.expire import Reference, SnapshotAge, with_left_ms, with_words_of_table
from framework.commit.maintenance.removed_files import (
    ExpiringSnapshot,
    ListedFile,
    ListedManifest,
    gone_and_stays,
    only_theirs,
)

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
    references = (
        Reference(
            name,
            ref.snapshot_id,
            ref.snapshot_ref_type == SnapshotRefType.BRANCH,
            ref.max_snapshot_age_ms,
            ref.min_snapshots_to_keep,
        )
        for name, ref in metadata.refs.items()
    )
    return ExpiryFacts(
        with_left_ms(
            map(_age, metadata.snapshots), ((each.snapshot_id, each.timestamp_ms) for each in metadata.snapshot_log)
        ),
        with_words_of_table(
            references,
            property_as_int(metadata.properties, _MAX_AGE),
            property_as_int(metadata.properties, _MIN_SNAPSHOTS),
        ),
        tuple(topic_ids_in_use(metadata.properties.get(PROGRESS_PROPERTY))),
    )


def _age(snapshot: Snapshot) -> SnapshotAge:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return SnapshotAge(
        snapshot.snapshot_id,
        snapshot.parent_snapshot_id,
        snapshot.timestamp_ms,
        said.get(SUMMARY_CONTROL_TOPIC_ID),
        operation=snapshot.summary.operation.value if snapshot.summary else None,
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
    just_before = _just_before(before, after)
    if just_before is None:
        return []
    return _only_theirs(
        before.io, just_before, after, {each.snapshot_id for each in after.snapshots}, frozenset(after.refs)
    )


def took_references(before: Table, after: TableMetadata) -> bool:
    """Whether a branch or a tag went with the commit that made this metadata: a server takes away one that was set after
    the look. Raises as `went_with`."""
    just_before = _just_before(before, after)
    return just_before is None or not just_before.refs.keys() <= after.refs.keys()


def _just_before(before: Table, after: TableMetadata) -> TableMetadata | None:
    """What that commit replaced."""
    last = after.metadata_log[-1].metadata_file if after.metadata_log else None
    if last is None or after.table_uuid != before.metadata.table_uuid:
        return None
    is_seen = last == before.metadata_location
    return before.metadata if is_seen else FromInputFile.table_metadata(before.io.new_input(last))


def would_go(table: Table, expired: Collection[int]) -> list[str]:
    """The files that `went_with` finds once these snapshots have expired.

    Raises:
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    metadata, gone = table.metadata, set(expired)
    slim = metadata.model_copy(
        update={
            "statistics": [each for each in metadata.statistics if each.snapshot_id not in gone],
            "partition_statistics": [each for each in metadata.partition_statistics if each.snapshot_id not in gone],
        }
    )
    left = {each.snapshot_id for each in metadata.snapshots} - gone
    return _only_theirs(table.io, metadata, slim, left, frozenset(metadata.refs))


def _only_theirs(
    io: FileIO, before: TableMetadata, after: TableMetadata, left: Collection[int], names: Collection[str]
) -> list[str]:
    """See `only_theirs`; `left` are the ids of the snapshots that are left, and `names` those of branches and tags."""
    references = {name: ref.snapshot_id for name, ref in before.refs.items()}
    gone, stays = gone_and_stays([_expiring(each) for each in before.snapshots], left, references, names)
    went = {each.snapshot_id for each in gone}
    old = (*before.statistics, *before.partition_statistics)
    named = {each.statistics_path for each in (*after.statistics, *after.partition_statistics)}
    statistics = {each.statistics_path for each in old if each.snapshot_id in went} - named
    return only_theirs(gone, stays, _Manifests(io, before.snapshots), statistics)


def _expiring(snapshot: Snapshot) -> ExpiringSnapshot:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    is_own = (SUMMARY_COMMIT_ID in said or SUMMARY_MAINTENANCE in said) and SUMMARY_RECOVERY not in said
    return ExpiringSnapshot(_age(snapshot), is_own, snapshot.manifest_list, path_key(snapshot.manifest_list))


class _Manifests:
    """What snapshots refer to, read from the store."""

    def __init__(self, io: FileIO, snapshots: Iterable[Snapshot]) -> None:
        self._io = io
        self._snapshots = {each.snapshot_id: each for each in snapshots}
        self._read: dict[str, ManifestFile] = {}

    def manifests(self, snapshot_id: int) -> Iterable[ListedManifest]:
        for each in self._snapshots[snapshot_id].manifests(self._io):
            self._read[each.manifest_path] = each
            yield ListedManifest(
                each.manifest_path,
                each.added_snapshot_id,
                each.deleted_files_count != 0,
                each.content == ManifestContent.DELETES,
            )

    def entries(self, manifest: ListedManifest) -> Iterable[ListedFile]:
        for entry in self._read[manifest.path].fetch_manifest_entry(self._io, discard_deleted=False):
            is_removed = entry.status == ManifestEntryStatus.DELETED
            yield ListedFile(entry.data_file.file_path, (entry.snapshot_id or 0) if is_removed else None)
