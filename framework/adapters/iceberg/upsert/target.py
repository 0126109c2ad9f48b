"""An upsert table, as tasks must know it to find the live rows of keys: one snapshot, and where its rows
are.

In: a table as it was just loaded, and the target that tasks write by. Out: a `UpsertTarget`, small when pickled, or why
rows of the table cannot be replaced by key, in words for people. Nothing is decided here of what becomes of such a
table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DateType, NestedField

from framework.adapters.iceberg.private import row_lineage as lineage
from framework.adapters.iceberg.private.live_files import (
    LiveFiles,
    UnreadFiles,
    UnsupportedDeletes,
    check_formats,
    live_files,
)
from framework.adapters.iceberg.project_by_id import TableColumns, table_columns
from framework.adapters.iceberg.upsert.order import RowOrder, row_order_of
from framework.adapters.iceberg.upsert.search import ROW_ID_FIELD
from framework.adapters.iceberg.views import ancestry, head_of
from framework.adapters.secrets import first_line
from framework.commit.machine.progress.recorded import SUMMARY_COMMIT_ID, SUMMARY_KEY, key_text
from framework.errors import FloeError, TableBlocked
from framework.table.changes import Refusal
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema
from framework.table.upsert.key_index import KeyIndex
from framework.table.upsert.keys import key_of

# The name that Iceberg gives a row's id where a file holds it.
ROW_ID = "_row_id"
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class UpsertTarget:
    """`snapshot_id` is the head at which live rows are looked for, None where the table has no snapshot; `key_ids` are
    the field ids of its key columns, in the order of the pipeline file. Of `files` only the bounds of key columns are
    kept. `columns` are those of the key, and what orders records, as data files are read; all of them where changes keep
    values of old rows. `index` helps to find rows
    faster, where the table has one. `order` is there where a column says which record is newer."""

    snapshot_id: int | None
    key_ids: tuple[int, ...]
    files: LiveFiles
    format_version: int
    columns: TableColumns
    index: KeyIndex | None = None
    order: RowOrder | None = None
    # Each key had one row when floe last changed the table, by this very key, and so it has now but for what others did.
    is_unique: bool = False


def upsert_target_of(loaded: Table, target: TableTarget, known: UpsertTarget | None = None) -> UpsertTarget:
    """The head's live files, read anew unless `known` is of that very head.

    Raises:
        TableBlocked: FLOE-R144, rows of the table cannot be replaced by key as it is now.
        Exception: a manifest cannot be read; each store has exceptions of its own.
    """
    metadata = loaded.metadata
    if str(metadata.table_uuid) != target.table_uuid:
        raise blocked(
            target.name,
            f"it was replaced under this run: its uuid is {metadata.table_uuid}, and the run knows {target.table_uuid}",
            "bring the table back, or start the pipeline again: a new run begins with what it finds",
        )
    key_ids = key_ids_of(target)
    for field_id in key_ids:
        if field_id not in metadata.schema().field_ids:
            name = parse_schema(target.schema_json).find_field(field_id).name
            raise blocked(target.name, f"its key column {name} was dropped", "bring the column back")
    head = head_of(metadata, target.policy.commit.branch)
    snapshot_id = head.snapshot_id if head is not None else None
    order = row_order_of(metadata, target, key_ids)
    if order is not None and (field := _was_date(metadata, key_ids)) is not None:
        raise blocked(
            target.name,
            f"its key column {field.name} was a date once, so that what it remembers of deleted keys names other keys",
            "write the table anew with the key as it is now; or take the source's own order",
        )
    needed = key_ids if order is None else (*key_ids, order.field_id)
    columns = table_columns(metadata)
    if not target.policy.write.keeps_old_values:
        columns = columns.of(tuple(dict.fromkeys(needed)))
    if known is not None and (known.snapshot_id, known.key_ids, known.format_version, _ordered_by(known.order)) == (
        snapshot_id,
        key_ids,
        metadata.format_version,
        _ordered_by(order),
    ):
        same = (known.order, known.columns) == (order, columns)
        return known if same else replace(known, order=order, columns=columns)
    if head is None:
        return UpsertTarget(None, key_ids, LiveFiles({}, frozenset()), metadata.format_version, columns, order=order)
    manifests = (
        lineage.read_manifests(loaded.io, head.manifest_list)
        if metadata.format_version >= lineage.VERSION
        else head.manifests(loaded.io)
    )
    is_unique = _changed_by(metadata, target.policy.commit.branch) == key_text(key_ids)
    try:
        files = live_files(loaded.io, manifests, metadata.format_version, needed)
    except UnsupportedDeletes as error:
        said = f"{unread_deletes(error)}: a row that they delete would be taken for a live one"
        raise blocked(target.name, said, remedy_for_deletes(target.name)) from error
    try:
        check_formats(files)
    except UnreadFiles as error:
        raise blocked(target.name, str(error), remedy_for_files(target.name)) from error
    return UpsertTarget(snapshot_id, key_ids, files, metadata.format_version, columns, order=order, is_unique=is_unique)


def ask_upsert(loaded: Table | None, target: TableTarget, read: Callable[[Table], Answer]) -> Answer:
    """What `read` says of a table that was just loaded.

    Args:
        loaded: None where it is gone.

    Raises:
        TableBlocked: FLOE-R144, rows of the table cannot be replaced by key as it is now.
        FloeError: FLOE-R135, a manifest cannot be read now.
    """
    if loaded is None:
        raise blocked(target.name, "it was dropped under this run", "bring it back, or start the pipeline again")
    try:
        return read(loaded)
    except FloeError:
        raise
    except Exception as error:  # each store has exceptions of its own
        raise FloeError(
            f"the manifests of table {target.name} cannot be read: {first_line(error)}",
            code="FLOE-R135",
            place=target.name,
            remedy="check that the store answers and that the table's manifests can be read",
        ) from error


def check_upsert(loaded: Table, target: TableTarget) -> None:
    """Find what keeps rows from being replaced by key as far as the metadata says; manifests are read only where it
    reports equality deletes.

    Raises:
        TableBlocked, Exception: as `keyed_target_of`.
    """
    key_ids_of(target)
    head = head_of(loaded.metadata, target.policy.commit.branch)
    summary = head.summary if head is not None else None
    if summary is not None and summary["total-equality-deletes"] not in (None, "0"):
        upsert_target_of(loaded, target)


def unread_deletes(error: UnsupportedDeletes) -> str:
    return f"{error}, which floe does not read"


def remedy_for_deletes(table: str) -> str:
    """What makes a table with equality deletes one that floe can upsert."""
    return (
        f"CALL system.rewrite_data_files(table => '{table}', options => map('delete-file-threshold', '1', "
        "'remove-dangling-deletes', 'true')) in Spark applies them; let no other writer make such deletes"
    )


def remedy_for_files(table: str) -> str:
    """What makes a table with files of other formats one that floe can upsert."""
    return (
        f"set the table's property write.format.default to parquet; CALL system.rewrite_data_files(table => '{table}', "
        "options => map('rewrite-all', 'true')) in Spark writes the others anew; let no other writer make such files"
    )


def _was_date(metadata: TableMetadata, key_ids: Sequence[int]) -> NestedField | None:
    """A key column of moments that had dates before: a date's hash is another one."""
    before = {f.field_id for each in metadata.schemas for f in each.fields if isinstance(f.field_type, DateType)}
    now = (metadata.schema().find_field(each) for each in key_ids)
    return next((f for f in now if f.field_id in before and not isinstance(f.field_type, DateType)), None)


def _changed_by(metadata: TableMetadata, branch: str) -> str | None:
    """By which key floe last changed the table; None where it has not, or has added rows since."""
    for snapshot in ancestry(metadata, head_of(metadata, branch)):
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if SUMMARY_COMMIT_ID in said or SUMMARY_KEY in said:
            return said.get(SUMMARY_KEY)
    return None


def _ordered_by(order: RowOrder | None) -> int | None:
    return order.field_id if order is not None else None


def key_ids_of(target: TableTarget) -> tuple[int, ...]:
    """The field ids of the key columns that the policy names, in its order.

    Raises:
        TableBlocked: FLOE-R144, the table cannot be written by this key.
    """
    schema = parse_schema(target.schema_json)
    if any(field.name == ROW_ID and field.field_id != ROW_ID_FIELD for field in schema.fields):
        raise blocked(
            target.name, f"it has a column {ROW_ID}, a name that Iceberg keeps for the ids of rows", "rename the column"
        )
    key = key_of(target)
    if isinstance(key, Refusal):
        raise blocked(target.name, key.reason, f"`floe explain {key.code}` says what to do")
    return tuple(field.field_id for field in key.fields)


def blocked(table: str, reason: str, remedy: str) -> TableBlocked:
    """The error for a table whose rows cannot be replaced by key now: the pipeline holds, and loses nothing."""
    return TableBlocked(
        f"rows of table {table} cannot be replaced by key: {reason}", code="FLOE-R144", place=table, remedy=remedy
    )
