"""Rows that go with a commit, where a table's readers are to find no deletes: their data files are written anew without
them.

In: the live files of the head that the commit is conditional on, and positions in some of them. Out: new files with the
other rows of each, written, and nobody's until the commit names them. Rows keep their ids and the sequence number of
their last change (format version 3). A table of which some column cannot be written back is refused before anything is
read.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from framework.adapters.iceberg.private.deletes.deletion_vectors import Positions
from framework.adapters.iceberg.private.live_files import LiveFiles
from framework.adapters.iceberg.views import target_of
from framework.adapters.maintenance.rewrite_files import rewrite
from framework.commit.events.event_types import DataFile
from framework.config.names.table_names import catalog_of
from framework.config.spec import TablePolicy

# Files that are written at once; of each no more than a row group is in memory.
WRITERS = 4
PREFIX = "copy"


def copies_without(
    io: FileIO,
    metadata: TableMetadata,
    table: str,
    io_properties: Mapping[str, str],
    live: LiveFiles,
    positions: Mapping[str, Positions],
    commit_id: str,
) -> Iterator[DataFile]:
    """The files that take the place of those with positions, as each is written; none for a file of which no row is left.

    Raises:
        OSError: a file cannot be read or written; each store has exceptions of its own. What came before it is the
            caller's to remove; what was being written meanwhile is removed here.
    """
    target, catalog = target_of(table, metadata, TablePolicy()), catalog_of(table)
    run = commit_id.rsplit("/", 1)[-1]

    def copied(path: str) -> tuple[DataFile, ...]:
        made = rewrite(
            io, metadata, target, io_properties, [live.by_path[path]], catalog, run, prefix=PREFIX, gone=positions
        )
        return made.files

    with ThreadPoolExecutor(WRITERS) as pool:
        waiting = deque(pool.submit(copied, path) for path in positions)
        try:
            while waiting:
                yield from waiting.popleft().result()
        finally:
            begun = [each for each in waiting if not each.cancel()]
            for each in begun:
                with contextlib.suppress(Exception):  # each store has exceptions of its own; an orphan is found later
                    for file in each.result():
                        io.delete(file.path)
