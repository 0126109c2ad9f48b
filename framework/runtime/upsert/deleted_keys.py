"""The deleted keys that a pipeline's tables remember, made ready for a batch: looked for, merged, and forgotten in time.

In: a table as a batch starts from it. Out: the same with what its tasks compare by. What is made of the files here is
named with the batch's own commit, so nothing is lost if there is none. The rule: a file that is named and is
not there holds the pipeline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyiceberg.io import FileIO

from framework.adapters.file_io import file_io
from framework.adapters.iceberg.upsert.deleted_keys import UnusableDeletedKeys, merge_deleted_keys
from framework.adapters.iceberg.upsert.index_file import remove_left_over, remove_run
from framework.adapters.iceberg.upsert.order import RowOrder, lost
from framework.adapters.iceberg.upsert.target import UpsertTarget
from framework.adapters.secrets import first_line
from framework.adapters.value_bytes import plain_type
from framework.commit.deleted_keys import expired, groups_to_merge, root_of
from framework.commit.events.event_types import DeletedKeysFile
from framework.errors import FloeError
from framework.table.model import TableTarget
from framework.table.schema.arrow import arrow_schema, parse_schema

_LOG = logging.getLogger(__name__)
_ASKED_AT_ONCE = 8


@dataclass
class _Made:
    """Of one table: what was made of the files that it names, until it names others."""

    of: tuple[str, ...]
    added: tuple[DeletedKeysFile, ...]
    removed: tuple[str, ...]


@dataclass
class RememberedDeletes:
    """Of one run of a pipeline. `io_properties` gives by table what its FileIO is made with."""

    io_properties: Callable[[str], Mapping[str, str]]
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    _made: dict[str, _Made] = field(default_factory=dict)
    _swept: set[str] = field(default_factory=set)

    def ready(self, target: TableTarget, keyed: UpsertTarget) -> UpsertTarget:
        """The table with what tasks need to compare a batch with its rows and its deleted keys.

        Raises:
            TableBlocked: FLOE-R146, a file of deleted keys is lost.
            FloeError: FLOE-R135, the store does not answer.
        """
        order = keyed.order
        if order is None:
            return keyed
        io = file_io(self.io_properties(target.name), target.location)
        root, now_ms = root_of(target.location), self.now_ms()
        before_ms = now_ms - target.policy.write.remember_deletes_ms
        _check(io, target.name, order.files)
        self._sweep(io, target.table_uuid, root, order)
        made = self._made.get(target.table_uuid)
        if made is None or made.of != order.known:
            # What a batch put others in place of is gone from the table's property; what it names still is needed.
            for path in set(made.removed if made is not None else ()) - set(order.known):
                remove_run(io, path)
            made = self._made[target.table_uuid] = _make(io, root, target, order, before_ms)
        else:
            late = (file.path for file in expired(order.files, before_ms) if file.path not in made.removed)
            made.removed = (*made.removed, *late)
        files = tuple(file for file in order.files if file.path not in made.removed)
        ready = replace(
            order,
            files=(*files, *made.added),
            added=made.added,
            removed=made.removed,
            root=root,
            now_ms=now_ms,
            before_ms=before_ms,
        )
        return replace(keyed, order=ready)

    def _sweep(self, io: FileIO, table_uuid: str, root: str, order: RowOrder) -> None:
        """Once in a run: files of batches that were never announced. Nothing that is announced waits now (invariant
        17), so what the table does not name is nobody's."""
        if table_uuid not in self._swept:
            self._swept.add(table_uuid)
            remove_left_over(io, root, order.known)


def _check(io: FileIO, table: str, files: tuple[DeletedKeysFile, ...]) -> None:
    def size(file: DeletedKeysFile) -> int | None:
        try:
            return len(io.new_input(file.path))
        except FileNotFoundError:
            return None

    try:
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            sizes = list(pool.map(size, files))
    except Exception as error:  # each store has exceptions of its own
        raise FloeError(
            f"the deleted keys that table {table} remembers cannot be looked for: {first_line(error)}",
            code="FLOE-R135",
            place=table,
            remedy="check that the store answers and that the table's files can be read",
        ) from error
    for file, found in zip(files, sizes, strict=True):
        if found != file.file_size_bytes:
            is_there = "is gone" if found is None else f"has {found:,} bytes and not {file.file_size_bytes:,}"
            raise lost(table, f"{file.path} {is_there}")


def _make(io: FileIO, root: str, target: TableTarget, order: RowOrder, before_ms: int) -> _Made:
    """What the table is to name instead of some of its files."""
    gone = expired(order.files, before_ms)
    kept = [file for file in order.files if file not in gone]
    added, removed = [], [file.path for file in gone]
    for group in groups_to_merge(kept):
        try:
            one = merge_deleted_keys(io, root, group, order_type(target, order.field_id), before_ms)
        except UnusableDeletedKeys as error:
            raise lost(target.name, str(error)) from error
        except Exception as error:  # each store has exceptions of its own
            _LOG.warning("files of deleted keys in %s are not merged for now: %s", root, error)
            continue
        removed += [file.path for file in group]
        added += [one] if one is not None else []
    return _Made(order.known, tuple(added), tuple(removed))


def order_type(target: TableTarget, field_id: int) -> pa.DataType:
    """The type of a column, as keys and orders are compared in."""
    schema = parse_schema(target.schema_json)
    place = [field.field_id for field in schema.fields].index(field_id)
    return plain_type(arrow_schema(schema).field(place).type)
