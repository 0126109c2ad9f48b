"""The counters of a snapshot's summary: how many files, rows and bytes a commit adds and takes away.

In: the data files and delete files of a commit. Out: the entries of the summary under the names that Iceberg's Java
writer has for them. PyIceberg counts a deletion vector as a position delete file, and with the whole Puffin file that
holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import UpdateMetrics

from framework.adapters.iceberg.private.entry_fields import content_range


def counters(
    added: Sequence[DataFile],
    added_deletes: Sequence[DataFile] = (),
    removed_deletes: Sequence[DataFile] = (),
    removed: Sequence[DataFile] = (),
) -> dict[str, str]:
    """Counters that are zero are left out; with deletes, a table without partitions counts as one changed partition."""
    metrics = UpdateMetrics()
    for file in (*added, *added_deletes):
        metrics.add_file(file)
    for file in (*removed, *removed_deletes):
        metrics.remove_file(file)
    metrics.added_file_size -= _beside_vectors(added_deletes)
    metrics.removed_file_size -= _beside_vectors(removed_deletes)
    added_vectors, removed_vectors = _vectors(added_deletes), _vectors(removed_deletes)
    metrics.added_pos_delete_files -= added_vectors
    metrics.removed_pos_delete_files -= removed_vectors
    found = metrics.to_dict()
    if added_vectors:
        found["added-dvs"] = str(added_vectors)
    if removed_vectors:
        found["removed-dvs"] = str(removed_vectors)
    touched = (*added, *removed, *added_deletes, *removed_deletes)
    with_deletes = bool(added_deletes or removed_deletes)
    partitions = {(file.spec_id, file.partition) for file in touched if with_deletes or len(file.partition) > 0}
    if partitions:
        found["changed-partition-count"] = str(len(partitions))
    return found


def _vectors(files: Iterable[DataFile]) -> int:
    return sum(content_range(file) is not None for file in files)


def _beside_vectors(files: Iterable[DataFile]) -> int:
    """Bytes of Puffin files, counted once for each vector in them, that are not of the vector itself."""
    places = ((file, content_range(file)) for file in files)
    return sum(file.file_size_in_bytes - place[1] for file, place in places if place is not None)
