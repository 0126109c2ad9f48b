"""Turns Iceberg's table metadata into the plain values that decisions are based on. Reads nothing, changes nothing.

In: a loaded `TableMetadata`. Out: an `ExaminedTable` for the coordinator, a `TableTarget` for the tasks that write, and
`SnapshotInfo` for people. A view carries everything that a commit is conditional on (invariant 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from framework.commit.machine.effects import ExaminedTable
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_COMMIT_ID,
    SUMMARY_CONTROL_OFFSET,
    SUMMARY_CONTROL_TOPIC_ID,
    SUMMARY_VALID_THROUGH,
    elsewhere,
    is_off_line,
    parse,
    summary_control_offset,
    topic_ids_of,
)
from framework.config.spec import TablePolicy
from framework.record.model import TableTarget
from framework.table.readable import TableDefinition
from framework.table.schema.compatibility import unusable_schema_ids


@dataclass(frozen=True)
class SnapshotInfo:
    """One snapshot, for people. Counts are None where the writer of the snapshot gave none; `control_offset`,
    `commit_id` and `valid_through_ms` are None for snapshots that floe did not make."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    added_rows: int | None
    added_files: int | None
    total_rows: int | None
    total_files: int | None
    total_bytes: int | None
    control_offset: int | None
    commit_id: str | None
    valid_through_ms: int | None


def snapshot_by_id(metadata: TableMetadata, snapshot_id: int) -> Snapshot | None:
    """One snapshot; None when it has expired or never was."""
    # Those asked for are among the newest; PyIceberg's own lookup begins with the oldest of thousands.
    return next((each for each in reversed(metadata.snapshots) if each.snapshot_id == snapshot_id), None)


def head_of(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot that the branch points to; None when there is no such branch yet."""
    ref = metadata.refs.get(branch)
    if ref is None:
        return None
    return snapshot_by_id(metadata, ref.snapshot_id)


def start_of(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot that a commit to the branch builds on: its head, or main's for a branch that does not exist yet."""
    return head_of(metadata, branch) or head_of(metadata, MAIN_BRANCH)


def ancestry(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """The snapshot and its ancestors, newest first, as far as they have not expired."""
    by_id: dict[int, Snapshot] | None = None
    while snapshot is not None:
        yield snapshot
        if snapshot.parent_snapshot_id is None:
            return
        if by_id is None:  # PyIceberg's own lookup goes through all snapshots for each step
            by_id = {each.snapshot_id: each for each in metadata.snapshots}
        snapshot = by_id.get(snapshot.parent_snapshot_id)


def view_of(name: str, metadata: TableMetadata, branch: str, control_topic_id: str) -> ExaminedTable:
    """What is examined of a table before a commit is decided."""
    head = head_of(metadata, branch)
    text = metadata.properties.get(PROGRESS_PROPERTY)
    mark = _newest_mark(metadata, branch, control_topic_id)
    known = topic_ids_of(text)
    return ExaminedTable(
        table=name,
        table_uuid=str(metadata.table_uuid),
        branch=branch,
        snapshot_id=head.snapshot_id if head else None,
        schema_id=metadata.current_schema_id,
        progress=parse(text, control_topic_id),
        unusable_schema_ids=unusable_schema_ids(
            {schema.schema_id: schema for schema in metadata.schemas}, metadata.current_schema_id
        ),
        snapshot_control_offset=mark.control_offset,
        elsewhere=elsewhere(text, control_topic_id),
        unrecorded=next((topic_id for topic_id in mark.topic_ids if topic_id not in known), None),
        # Verbs put their snapshots onto main alone: no other branch has the one with which a record began there.
        is_older=branch == MAIN_BRANCH
        and ((mark.is_older and control_topic_id in known) or is_main_off_line(metadata, control_topic_id)),
    )


def is_main_off_line(metadata: TableMetadata, control_topic_id: str) -> bool:
    """Whether main is not built on the snapshot in which this control topic's record was made."""
    line = (each.sequence_number for each in ancestry(metadata, head_of(metadata, MAIN_BRANCH)))
    return is_off_line(metadata.properties.get(PROGRESS_PROPERTY), control_topic_id, line)


@dataclass(frozen=True)
class _Mark:
    """`control_offset` as in a TableView; `topic_ids` of floe's snapshots that were met on the way to it, newest
    first. `is_older`: the branch is older than the first snapshot of this control topic."""

    control_offset: int | None
    topic_ids: tuple[str, ...]
    is_older: bool = False


def _newest_mark(metadata: TableMetadata, branch: str, control_topic_id: str) -> _Mark:
    """The newest snapshot behind the branch's head that was made by this control topic; 0 where the branch is older
    than the first of them."""
    topic_ids: list[str] = []
    first: Snapshot | None = None
    for snapshot in ancestry(metadata, start_of(metadata, branch)):
        entries = snapshot.summary.additional_properties if snapshot.summary else {}
        topic_id = entries.get(SUMMARY_CONTROL_TOPIC_ID)
        if topic_id is not None and topic_id not in topic_ids:
            topic_ids.append(topic_id)
        offset = summary_control_offset(entries, control_topic_id)
        if offset is not None:
            return _Mark(offset, tuple(topic_ids))
        first = snapshot
    beside = list(_marks(metadata, control_topic_id)) if first is None or first.parent_snapshot_id is None else []
    topic_ids += [topic_id for topic_id, _ in beside if topic_id not in topic_ids]
    is_older = _is_older(first, beside)
    return _Mark(0 if is_older else None, tuple(topic_ids), is_older)


def _marks(metadata: TableMetadata, control_topic_id: str) -> Iterator[tuple[str, int | None]]:
    """The control topics of floe's snapshots that are left, on whatever line, and the control offset of this
    topic's."""
    for snapshot in reversed(metadata.snapshots):
        entries = snapshot.summary.additional_properties if snapshot.summary else {}
        topic_id = entries.get(SUMMARY_CONTROL_TOPIC_ID)
        if topic_id is not None:
            yield topic_id, summary_control_offset(entries, control_topic_id)


def _is_older(first: Snapshot | None, beside: list[tuple[str, int | None]]) -> bool:
    """Whether a branch that has no snapshot of this control topic is older than all of them, `first` being the oldest
    that is left of it. Not where its ancestors have expired; and some engines leave an heir of expired snapshots
    without a parent."""
    if first is None or first.sequence_number == 1:
        return True
    return any(offset is not None for _, offset in beside)


def target_of(name: str, metadata: TableMetadata, policy: TablePolicy) -> TableTarget:
    """What a task must know to write files for the table, as text that pickles."""
    schema, spec = metadata.schema(), metadata.spec()
    return TableTarget(
        name=name,
        table_uuid=str(metadata.table_uuid),
        location=metadata.location,
        schema_json=schema.model_dump_json(),
        schema_id=schema.schema_id,
        spec_json=spec.model_dump_json(),
        spec_id=spec.spec_id,
        sort_order_id=metadata.default_sort_order_id,
        last_column_id=metadata.last_column_id,
        properties=dict(metadata.properties),
        policy=policy,
        sort_order_json=metadata.sort_order().model_dump_json() if metadata.default_sort_order_id else "",
        format_version=metadata.format_version,
        other_specs_json=tuple(
            each.model_dump_json() for each in metadata.partition_specs if each.spec_id != spec.spec_id
        ),
    )


def definition_of(metadata: TableMetadata) -> TableDefinition:
    """What the table is, as far as readers must understand it: the current spec and order come first."""
    specs = sorted(metadata.partition_specs, key=lambda each: each.spec_id != metadata.default_spec_id)
    orders = sorted(metadata.sort_orders, key=lambda each: each.order_id != metadata.default_sort_order_id)
    return TableDefinition(metadata.schema(), tuple(specs), tuple(orders), metadata.format_version)


def info_of(snapshot: Snapshot) -> SnapshotInfo:
    return SnapshotInfo(
        snapshot_id=snapshot.snapshot_id,
        parent_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        operation=snapshot.summary.operation.value if snapshot.summary else "unknown",
        added_rows=_number(snapshot, "added-records"),
        added_files=_number(snapshot, "added-data-files"),
        total_rows=_number(snapshot, "total-records"),
        total_files=_number(snapshot, "total-data-files"),
        total_bytes=_number(snapshot, "total-files-size"),
        control_offset=_number(snapshot, SUMMARY_CONTROL_OFFSET),
        commit_id=_summary_text(snapshot, SUMMARY_COMMIT_ID),
        valid_through_ms=_number(snapshot, SUMMARY_VALID_THROUGH),
    )


def _summary_text(snapshot: Snapshot, key: str) -> str | None:
    return snapshot.summary.additional_properties.get(key) if snapshot.summary else None


def _number(snapshot: Snapshot, key: str) -> int | None:
    text = _summary_text(snapshot, key)
    return int(text) if text is not None else None
