"""The manifest lists that the heads of branches are known to have, so that a commit does not read the one it builds on.

In: snapshots that were committed. Out: what a snapshot lists, from memory or from the store. Of each branch the newest
list is remembered and no other, whichever part of floe made it: memory does not grow with the number of commits.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cachetools import LRUCache
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.manifests import WrittenSnapshot

# Of all branches together, about 1 kB of memory each; a list that is not remembered is read again.
MAX_REMEMBERED_MANIFESTS = 20_000


@dataclass(frozen=True)
class _Listed:
    path: str
    manifests: tuple[ManifestFile, ...]

    @property
    def size(self) -> int:
        return 1 + len(self.manifests)


class ManifestLists:
    """Of one catalog. Safe for threads."""

    def __init__(self) -> None:
        self._lists: LRUCache[tuple[str, str], _Listed] = LRUCache(MAX_REMEMBERED_MANIFESTS, lambda each: each.size)
        self._lock = threading.Lock()

    def of(self, table: Table, snapshot: Snapshot, branch: str) -> tuple[ManifestFile, ...]:
        """What a snapshot lists. Manifest lists never change, so the one that was written last is not read again."""
        with self._lock:
            known = self._lists.get((str(table.metadata.table_uuid), branch))
        if known is not None and known.path == snapshot.manifest_list:
            return known.manifests
        if table.metadata.format_version >= lineage.VERSION:
            return lineage.read_manifests(table.io, snapshot.manifest_list)
        return tuple(snapshot.manifests(table.io))

    def remember(self, metadata: TableMetadata, branch: str, written: WrittenSnapshot) -> None:
        """That a snapshot is committed: the next commit to its branch builds on it."""
        key, listed = (str(metadata.table_uuid), branch), _Listed(written.manifest_list, written.manifests)
        with self._lock:
            self._lists.pop(key, None)
            if listed.size <= self._lists.maxsize:
                self._lists[key] = listed
