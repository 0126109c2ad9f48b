"""A table of its own for a question to a catalog, in a namespace of its own, gone when the question is answered.

In: an open catalog, and what the table is to be like. Out: the table; afterwards it is removed with its files, which are all
its own. What cannot be removed has a name that says what it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table

SCRATCH = "floe_readiness_"


class NoScratch(Exception):
    """The catalog lets nobody make a namespace."""


@contextmanager
def scratch_table(opened: Catalog, schema: Schema, format_version: int = 2) -> Iterator[Table]:
    """
    Raises:
        NoScratch: no namespace can be made.
        Exception: whatever the catalog or the store raises when the table is made.
    """
    namespace = f"{SCRATCH}{uuid.uuid4().hex[:8]}"
    name = f"{namespace}.rows"
    try:
        opened.create_namespace(namespace)
    except Exception as raised:  # every catalog has its own way of saying no
        raise NoScratch(f"{type(raised).__name__}") from raised
    try:
        yield opened.create_table(name, schema, properties={"format-version": str(format_version)})
    finally:
        _remove(opened, name)
        with suppress(Exception):
            opened.drop_namespace(namespace)


def _remove(opened: Catalog, name: str) -> None:
    with suppress(Exception):
        scratch = opened.load_table(name)
        paths = [task.file.file_path for task in scratch.scan().plan_files()]
        metadata = scratch.metadata
        paths += [entry.metadata_file for entry in metadata.metadata_log] + [scratch.metadata_location]
        for snapshot in metadata.snapshots:
            paths += [*(manifest.manifest_path for manifest in snapshot.manifests(scratch.io)), snapshot.manifest_list]
        opened.drop_table(name)
        for path in dict.fromkeys(paths):
            with suppress(Exception):
                scratch.io.delete(path)
