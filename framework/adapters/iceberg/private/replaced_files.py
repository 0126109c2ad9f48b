"""The manifests of a snapshot in which data files take the place of others and no row changes: a compaction, or
manifests that are only merged.

In: the parent's manifests, new data files, and the live files that they stand for. Out: manifest files in which the old
files are deleted entries, and the delete files that were for them alone are gone as well. Keeps invariant 14. PyIceberg
writes no snapshots of the operation `replace`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pyiceberg.manifest import DataFile as IcebergDataFile
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata

from framework.adapters.iceberg.private.avro.damaged_doubles import damaged_manifests
from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.deletes.row_deletes import EntryKey, FileDeletes
from framework.adapters.iceberg.private.live_files import LiveFile, UnsupportedDeletes, partition_of
from framework.adapters.iceberg.private.manifests import SnapshotFiles, WrittenSnapshot
from framework.adapters.iceberg.private.spec_schemas import can_be_rewritten


class FilesNotLive(ValueError):
    """Files that are to be replaced are not live in the parent."""


class ReplacedFiles(SnapshotFiles):
    """Writes one attempted `replace` snapshot."""

    def write_replacement(
        self,
        parent_snapshot_id: int,
        parent: Sequence[ManifestFile],
        files: Iterable[IcebergDataFile],
        replaced: Mapping[str, LiveFile],
        merge_all: bool = False,
        since: Mapping[str, Positions] | None = None,
        dangling: Collection[EntryKey] = (),
    ) -> WrittenSnapshot:
        """Write everything.

        Args:
            replaced: by path, files of the parent whose live rows are those of `files`, but for those in `since`.
            since: by path of one of `files`, rows of it that are deleted in the parent.
            dangling: delete entries of the parent whose data files are gone; they go as well.
            merge_all: manifests of one spec are merged however few they are, and damaged partition values repaired.

        Raises:
            FilesNotLive: one of `replaced` is not live.
            UnsupportedDeletes: a manifest that must be rewritten has columns or transforms that floe cannot write.
        """
        parent = [manifest for manifest in parent if manifest.has_added_files() or manifest.has_existing_files()]
        added: dict[int, list[IcebergDataFile]] = defaultdict(list)
        changes = []
        for file in files:
            added[file.spec_id].append(file)
            if since and file.file_path in since:
                changes.append(FileDeletes(_new_file(file), since[file.file_path], ()))
        new_deletes = self._delete_files(changes)
        data, removed = self._data_without(replaced, [each for each in parent if each.content == ManifestContent.DATA])
        listed = [each for each in parent if each.content == ManifestContent.DELETES]
        gone = {*dangling, *(key for file in replaced.values() for key in _own_deletes(file))}
        if gone:
            listed, removed_deletes = self._without(gone, listed)
        else:
            removed_deletes = []
        if merge_all:
            data, listed = self._all_merged(data), self._all_merged(listed)
        new = [each for spec_id, group in sorted(added.items()) for each in self._added(spec_id, group)]
        written = self._list(parent_snapshot_id, new + data + self._added_deletes(new_deletes) + listed)
        return replace(
            written,
            removed_files=tuple(removed),
            removed_deletes=tuple(removed_deletes),
            added_deletes=tuple(new_deletes),
        )

    def _data_without(
        self, replaced: Mapping[str, LiveFile], manifests: Sequence[ManifestFile]
    ) -> tuple[list[ManifestFile], list[IcebergDataFile]]:
        untouched: list[ManifestFile] = []
        touched: dict[int, list[ManifestEntry]] = defaultdict(list)
        for manifest in manifests:
            entries = self._to_change(manifest, lambda file: file.file_path in replaced) if replaced else []
            if entries:
                touched[manifest.partition_spec_id] += entries
            else:
                untouched.append(manifest)
        written: list[ManifestFile] = []
        removed: list[IcebergDataFile] = []
        for spec_id, entries in sorted(touched.items()):
            self._check_rewritable(spec_id)
            going = [entry.data_file.file_path in replaced for entry in entries]
            removed += [entry.data_file for entry, goes in zip(entries, going, strict=True) if goes]
            how = ("delete" if goes else "existing" for goes in going)
            written += self._manifests(spec_id, zip(how, entries, strict=True))
        if len(removed) != len(replaced):
            raise FilesNotLive(f"{len(replaced)} files were to be replaced, and {len(removed)} of them are live")
        return written + self._merged(untouched), removed

    def _all_merged(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        merged: list[ManifestFile] = []
        for (spec_id, *_), group in self._kin(manifests).items():
            try:
                self._check_rewritable(spec_id)
            except UnsupportedDeletes:
                merged += group
            else:
                merged += group if len(group) == 1 else self._packed(spec_id, group)
        damaged = damaged_manifests(self._metadata, self._io, merged)
        return [
            each
            for manifest in merged
            for each in (
                self._rewritten(manifest.partition_spec_id, [manifest])
                if manifest.manifest_path in damaged
                else [manifest]
            )
        ]


def can_sweep(metadata: TableMetadata) -> bool:
    """Whether floe can write every manifest of deletes anew."""
    return all(can_be_rewritten(metadata, spec) for spec in metadata.partition_specs)


def _new_file(file: IcebergDataFile) -> LiveFile:
    """A file that this very snapshot adds, as deletes of its rows need it."""
    return LiveFile(
        file.file_path,
        file.spec_id,
        partition_of(file),
        file.record_count,
        file.file_size_in_bytes,
        *(0, 0, 0),
        None,
        {},
        {},
        None,
        (),
    )


def _own_deletes(file: LiveFile) -> Iterable[EntryKey]:
    """The delete entries that are for this file alone; what is for several files stays, and finds it gone."""
    if file.vector is not None:
        yield file.vector.path, file.vector.content_offset
    yield from ((each.path, None) for each in file.position_deletes if each.file_scoped)
