"""Reads an upsert table's order: the column that decides which record is newer, and the deleted keys to remember.

In: a table's metadata and the policy. Out: a `RowOrder`, or None where the order of the source decides. Invariant: a
table that has lost its deleted keys is not written, because older records would restore deleted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH

from framework.adapters.iceberg.views import ancestry, head_of
from framework.commit.deleted_keys import DELETED_KEYS_PROPERTY, FORGET, SUMMARY_DELETED_KEYS, mark_of, parse, root_of
from framework.commit.events.event_types import DeletedKeysFile
from framework.commit.machine.progress.recorded import SUMMARY_COMMIT_ID
from framework.config.rules.permitted import is_below
from framework.errors import StateDisagreement, TableBlocked
from framework.table.changes import Refusal
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema
from framework.table.upsert.keys import key_of


@dataclass(frozen=True)
class RowOrder:
    """`field_id` is the column whose larger value is newer. A batch is compared with the deleted keys in `files`, of
    which those before `before_ms` are remembered no longer, and writes its own, at `now_ms`, into the folder `root`.

    `known` are the paths that the table names; `added` and `removed` what was made of them before the batch.
    """

    field_id: int
    files: tuple[DeletedKeysFile, ...] = ()
    known: tuple[str, ...] = ()
    added: tuple[DeletedKeysFile, ...] = ()
    removed: tuple[str, ...] = ()
    root: str = ""
    now_ms: int = 0
    before_ms: int = 0


def row_order_of(metadata: TableMetadata, target: TableTarget, key_ids: Sequence[int]) -> RowOrder | None:
    """Which column orders the table's records, and what it names of deleted keys.

    Raises:
        TableBlocked: FLOE-R146, what it remembered is lost, or is of other columns.
    """
    key = key_of(target)
    if isinstance(key, Refusal) or key.order is None:
        return None
    text = metadata.properties.get(DELETED_KEYS_PROPERTY)
    mark = mark_at_head(metadata, target.policy.commit.branch)
    if text is None and _has_files(mark):
        raise lost(target.name, f"its property {DELETED_KEYS_PROPERTY} is gone")
    try:
        held = parse(text)
    except StateDisagreement as error:
        raise lost(target.name, error.message) from error
    if held is None:
        return RowOrder(key.order.field_id)
    if mark and mark != mark_of(held):
        raise lost(target.name, f"its property {DELETED_KEYS_PROPERTY} is not what its newest commit made of it")
    root = root_of(target.location)
    if (other := next((path for path in held.paths if not is_below(path, (root,))), None)) is not None:
        raise lost(target.name, f"{other} does not lie in {root}")
    if held.order_id != key.order.field_id:
        before = parse_schema(target.schema_json).find_column_name(held.order_id) or f"{held.order_id}, which is gone"
        raise lost(target.name, f"they were ordered by column {before}, and now {key.order.name} says what is newer")
    if held.key_ids != tuple(key_ids):
        raise lost(target.name, "they are of another key than the table has now")
    return RowOrder(key.order.field_id, held.files, held.paths)


def mark_at_head(metadata: TableMetadata, branch: str) -> str:
    """What the newest of floe's snapshots behind the head says of the property; "" where none says anything."""
    for snapshot in ancestry(metadata, head_of(metadata, branch)):
        own = snapshot.summary.additional_properties if snapshot.summary else {}
        if SUMMARY_COMMIT_ID in own or SUMMARY_DELETED_KEYS in own:
            return own.get(SUMMARY_DELETED_KEYS, "")
    return ""


def _has_files(mark: str) -> bool:
    return bool(mark) and not mark.startswith("0 ")


def deleted_key_files_of(metadata: TableMetadata) -> tuple[str, ...] | None:
    """The files of deleted keys that a table names; None where it has lost which they are."""
    text = metadata.properties.get(DELETED_KEYS_PROPERTY)
    mark = mark_at_head(metadata, MAIN_BRANCH)
    try:
        held = parse(text)
    except StateDisagreement:
        return None
    if held is None:
        return None if text is None and _has_files(mark) else ()
    return held.paths if mark in ("", mark_of(held)) else None


def lost(table: str, reason: str) -> TableBlocked:
    """The error for a table that has lost some of its deleted keys."""
    return TableBlocked(
        f"the deleted keys that table {table} remembers cannot be used: {reason}",
        code="FLOE-R146",
        place=table,
        remedy=f"bring back what is missing; or let older records bring deleted keys back: ALTER TABLE {table} "
        f"SET TBLPROPERTIES ('{DELETED_KEYS_PROPERTY}' = '{FORGET}')",
    )
