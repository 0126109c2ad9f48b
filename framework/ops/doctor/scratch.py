"""A table of its own for a question to a catalog, in a namespace of its own, gone when the question is answered.

In: an open catalog, and what the table is to be like. Out: the table; afterwards it is removed with its files, which are all
its own. A process that is killed leaves it behind: its name says what it is and when it was made, and the next question
removes it once it is older than an hour.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table


class ScratchPrefix(str, Enum):
    """Whose question it is."""

    DOCTOR = "floe_doctor_"
    READINESS = "floe_readiness_"
    DRILL = "floe_drill_"


_MADE = re.compile(rf"(?:{'|'.join(each.value for each in ScratchPrefix)})([0-9a-f]{{8}})_[0-9a-f]{{8}}")
# No question takes so long: nobody uses a scratch namespace any more that is older.
LEFT_AFTER_S = 3600


class NoScratch(Exception):
    """The catalog lets nobody make a namespace."""


@contextmanager
def scratch_table(opened: Catalog, schema: Schema, prefix: ScratchPrefix, format_version: int = 2) -> Iterator[Table]:
    """
    Raises:
        NoScratch: no namespace can be made.
        Exception: whatever the catalog or the store raises when the table is made.
    """
    remove_left(opened)
    namespace = scratch_namespace(prefix)
    name = f"{namespace}.rows"
    try:
        opened.create_namespace(namespace)
    except Exception as raised:  # every catalog has its own way of saying no
        raise NoScratch(f"{type(raised).__name__}") from raised
    try:
        yield opened.create_table(name, schema, properties={"format-version": str(format_version)})
    finally:
        remove_table(opened, name)
        with suppress(Exception):
            opened.drop_namespace(namespace)


def scratch_namespace(prefix: ScratchPrefix) -> str:
    """A new name, with the time in it."""
    return f"{prefix.value}{int(time.time()):08x}_{uuid.uuid4().hex[:8]}"


def made_at(namespace: str) -> int | None:
    """When a scratch namespace was made, in seconds; None for any other one."""
    made = _MADE.fullmatch(namespace)
    return int(made[1], 16) if made is not None else None


def is_left(namespace: str, now_s: float) -> bool:
    """Whether it is a scratch namespace that nobody uses any more."""
    made = made_at(namespace)
    return made is not None and now_s - made > LEFT_AFTER_S


def remove_left(opened: Catalog) -> None:
    """Remove what killed processes have left behind; what cannot be removed stays."""
    with suppress(Exception):
        for (namespace,) in [each for each in opened.list_namespaces() if len(each) == 1]:
            # A drill leaves files that no snapshot names, too: the next drill finds them.
            if is_left(namespace, time.time()) and not namespace.startswith(ScratchPrefix.DRILL.value):
                with suppress(Exception):
                    for name in opened.list_tables(namespace):
                        remove_table(opened, ".".join(name))
                    opened.drop_namespace(namespace)


def remove_table(opened: Catalog, name: str) -> None:
    """The table with the files that its snapshots name, as far as catalog and store let us."""
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
