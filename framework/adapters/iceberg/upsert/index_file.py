"""Which runs a table's key index has: one small file beside them.

In: the runs as a driver knows them. Out: the file, and the runs again. Only the driver of the one pipeline that changes
the table writes it. It holds nothing that cannot be made again: what cannot be read is as good as none.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from collections.abc import Collection, Sequence

from pyiceberg.io import FileIO

from framework.adapters.iceberg.files import list_files, path_key
from framework.adapters.key_hash import HASH_VERSION
from framework.table.upsert.key_index import KeyRun

_LOG = logging.getLogger(__name__)
VERSION = 2
# Files that no index names and that nobody can still be writing.
_LEFT_OVER_MS = 6 * 3_600_000


def root_of(location: str) -> str:
    """The folder of a table's index. Its name begins as those of hidden files do, which the removal of orphans by
    Iceberg's own procedures passes over."""
    return f"{location.rstrip('/')}/_floe_keys"


def write_index(io: FileIO, root: str, key: str, runs: Sequence[KeyRun]) -> None:
    """Write which runs there are.

    Args:
        key: what the runs' hashes are of, as `TableColumns.meaning` says it.

    Raises:
        OSError: the file cannot be written; each store has exceptions of its own.
    """
    text = json.dumps(
        {
            "version": VERSION,
            "hash_version": HASH_VERSION,
            "key": key,
            "runs": [
                {
                    "path": run.path,
                    "entries": run.entries,
                    "file_size_bytes": run.file_size_bytes,
                    "files": list(run.files),
                    "file_rows": list(run.file_rows),
                }
                for run in runs
            ],
        }
    )
    with io.new_output(_path(root)).create(overwrite=True) as stream:
        stream.write(f"{zlib.crc32(text.encode())} {text}".encode())


def read_index(io: FileIO, root: str, key: str) -> list[KeyRun]:
    """The runs; none where there is no index, or it is one of another key or of another version."""
    try:
        with io.new_input(_path(root)).open() as stream:
            checksum, _, text = stream.read().decode().partition(" ")
        if int(checksum) != zlib.crc32(text.encode()):
            raise ValueError("it is not what was written")
        held = json.loads(text)
        same = (held["version"], held["hash_version"], held["key"]) == (VERSION, HASH_VERSION, key)
        found = held["runs"] if same else []
        return [
            KeyRun(
                str(each["path"]),
                int(each["entries"]),
                int(each["file_size_bytes"]),
                tuple(map(str, each["files"])),
                tuple(map(int, each["file_rows"])),
            )
            for each in found
            if str(each["path"]).startswith(f"{root}/")
        ]
    except FileNotFoundError:
        return []
    except Exception as error:  # each store has exceptions of its own, and a damaged file many
        _LOG.warning("the key index in %s cannot be read and is made anew: %s", root, error)
        return []


def remove_run(io: FileIO, path: str) -> None:
    """What cannot be removed stays for `remove_left_over`."""
    try:
        io.delete(path)
    except Exception as error:  # each store has exceptions of its own
        _LOG.info("%s stays: %s", path, error)


def remove_left_over(io: FileIO, root: str, named: Collection[str]) -> None:
    """Remove runs that no index names, of tasks and drivers that ended before their time."""
    known = {path_key(path) for path in named}
    before = time.time() * 1000 - _LEFT_OVER_MS
    try:
        found = list_files(io, root)
    except Exception as error:  # each store has exceptions of its own; some cannot list
        _LOG.info("%s is not listed: %s", root, error)
        return
    for each in found:
        is_old = each.modified_ms is not None and each.modified_ms < before
        if is_old and each.location.endswith(".arrow") and each.key not in known:
            remove_run(io, each.location)


def _path(root: str) -> str:
    return f"{root}/index.json"
