"""Which files go with snapshots that have expired.

In: the snapshots just before and just after the commit that expired some, and what their manifests list. Out: the files
that only expired snapshots refer to. Keeps invariant 12: nothing goes that a snapshot which stays can reach, whoever
else committed meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from framework.commit.maintenance.expire import SnapshotAge, is_end_of_line


@dataclass(frozen=True)
class ListedManifest:
    """`added_by` is the snapshot that wrote it; `may_remove`: it may have entries of removed files; `holds_deletes`: it
    names files of deletes."""

    path: str
    added_by: int | None
    may_remove: bool
    holds_deletes: bool


@dataclass(frozen=True)
class ListedFile:
    """One entry of a manifest. `removed_by` is None for a file that is live there."""

    path: str
    removed_by: int | None


@dataclass(frozen=True)
class ExpiringSnapshot:
    """`is_own`: one of floe's commits or of its maintenance made it. `list_key` is what all names of its manifest list
    have in common."""

    age: SnapshotAge
    is_own: bool
    manifest_list: str
    list_key: str

    @property
    def snapshot_id(self) -> int:
        return self.age.snapshot_id


class ManifestReader(Protocol):
    """Reads what snapshots refer to; raises where it cannot."""

    def manifests(self, snapshot_id: int) -> Iterable[ListedManifest]: ...

    def entries(self, manifest: ListedManifest) -> Iterable[ListedFile]: ...


def gone_and_stays(
    before: Sequence[ExpiringSnapshot],
    after: Collection[int],
    references_before: Mapping[str, int],
    references_after: Collection[str],
) -> tuple[list[ExpiringSnapshot], list[ExpiringSnapshot]]:
    """The snapshots that went with a commit, and those whose files are still needed.

    Args:
        before, references_before: as the table was just before that commit, whenever it was looked at.
        after, references_after: the ids that are left, and the names of the branches and tags.
    """
    # A REST server takes a tag away with its snapshot, also one that was set after the look: its files stay.
    lost = {snapshot_id for name, snapshot_id in references_before.items() if name not in references_after}
    needed = {*after, *lost}
    return (
        [each for each in before if each.snapshot_id not in needed],
        [each for each in before if each.snapshot_id in needed],
    )


def only_theirs(
    gone: Sequence[ExpiringSnapshot],
    stays: Sequence[ExpiringSnapshot],
    files: ManifestReader,
    statistics: Iterable[str],
) -> list[str]:
    """The files that some snapshots refer to, and none that stays: manifest lists, manifests, data files and files of
    deletes, and `statistics`, which are theirs alone.

    Raises:
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    if not gone:
        return []
    went = {each.snapshot_id for each in gone}
    # On one line of floe's own commits a manifest that was dropped never comes back, and neither does a file: names are
    # made once. So the oldest snapshot that stays says what is still listed. A rollback brings files back, and others
    # may add again what they removed: then every snapshot that stays is asked.
    is_own = is_own_line(gone, stays)
    listed = _manifests(files, [each for each in stays if not is_own or each.age.parent_id in went])
    every = _manifests(files, gone)
    theirs = [path for path in every if path not in listed]
    if is_own:
        data = _removed_by(files, every.values(), went)
        # A Puffin file holds many deletion vectors: it goes with the last of them.
        data -= _named(files, [each for each in listed.values() if each.holds_deletes] if data else [], went)
    else:
        # What an expired snapshot removed, too: its entries may be those of a manifest that stays.
        data = _named(files, every.values()) - _named(files, listed.values(), went)
    still = {each.list_key for each in stays}
    lists = (each.manifest_list for each in gone if each.list_key not in still)
    return [*sorted(data), *sorted(statistics), *sorted(theirs), *lists]


def is_own_line(gone: Sequence[ExpiringSnapshot], stays: Sequence[ExpiringSnapshot]) -> bool:
    """Whether all of these are floe's own, in one line of which the oldest part is gone."""
    own = all(each.is_own for each in (*gone, *stays))
    return own and is_end_of_line([each.age for each in gone], [each.age for each in stays])


def _manifests(files: ManifestReader, snapshots: Iterable[ExpiringSnapshot]) -> dict[str, ListedManifest]:
    return {each.path: each for snapshot in snapshots for each in files.manifests(snapshot.snapshot_id)}


def _removed_by(files: ManifestReader, manifests: Iterable[ListedManifest], snapshot_ids: Collection[int]) -> set[str]:
    """The files that these snapshots took out of the table: on one line, nothing that stays can read them."""
    return {
        entry.path
        for manifest in manifests
        if manifest.added_by in snapshot_ids and manifest.may_remove
        for entry in files.entries(manifest)
        if entry.removed_by is not None
    }


def _named(
    files: ManifestReader, manifests: Iterable[ListedManifest], without_removed_by: Collection[int] = ()
) -> set[str]:
    """The files of some manifests, without those that were removed by one of these snapshots."""
    return {
        entry.path
        for manifest in manifests
        for entry in files.entries(manifest)
        if entry.removed_by is None or entry.removed_by not in without_removed_by
    }
