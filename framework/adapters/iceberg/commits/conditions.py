"""Whether a commit may be made to a table as it is now.

In: a `CommitTable` effect, and the table's metadata. Out: a reason in words, or none. Pure. Keeps invariants 3 and 4:
progress never moves back, and a commit that was decided from another state is no commit.
"""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.refs import SnapshotRefType

from framework.adapters.iceberg.supported_tables import cannot_rewrite
from framework.adapters.iceberg.views import head_of, snapshot_by_id
from framework.commit.deleted_keys import DELETED_KEYS_PROPERTY, Remembered, after_commit
from framework.commit.machine.effects import CommitTable, RecoverTable
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, parse
from framework.errors import StateDisagreement


def why_changed(effect: CommitTable, metadata: TableMetadata) -> str | None:
    """Why the conditions of the commit no longer hold; None when all of them do."""
    view = effect.view
    if str(metadata.table_uuid) != view.table_uuid:
        return f"the table was replaced: its uuid is {metadata.table_uuid}, not {view.table_uuid}"
    head = head_of(metadata, view.branch)
    head_id = head.snapshot_id if head else None
    if head_id != view.snapshot_id:
        return f"branch {view.branch} is at snapshot {head_id}, not {view.snapshot_id}"
    if metadata.current_schema_id != view.schema_id:
        return f"the current schema is {metadata.current_schema_id}, not {view.schema_id}"
    progress = parse(metadata.properties.get(PROGRESS_PROPERTY), effect.progress.control_topic_id)
    if progress != view.progress:
        found = progress.control_offset if progress else None
        return f"the recorded progress is not the one examined: control offset {found}"
    return None


def numbering(metadata: TableMetadata) -> tuple[int, int, int | None]:
    """What a new snapshot's numbers are made from. An upgrade, or a change that is undone, moves them and leaves the head
    where it was; a catalog refuses a snapshot with numbers of before."""
    next_row_id = metadata.next_row_id if isinstance(metadata, TableMetadataV3) else None
    return metadata.format_version, metadata.next_sequence_number(), next_row_id


def why_unsupported(effect: CommitTable, metadata: TableMetadata) -> str | None:
    """Why this commit can never be made to this table."""
    ref = metadata.refs.get(effect.view.branch)
    if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        return f"{effect.view.branch} is a tag, not a branch"
    onto = effect.onto if isinstance(effect, RecoverTable) else None
    if onto is not None and snapshot_by_id(metadata, onto) is None:
        return f"it no longer has the snapshot {onto}"
    before = effect.view.progress
    if before is not None and effect.progress.control_offset < before.control_offset:  # invariant 3
        return f"progress would move back from {before.control_offset} to {effect.progress.control_offset}"
    if len({file.path for file in effect.files}) < len(effect.files):  # invariant 5
        return "a data file is named twice"
    try:
        remembered_after(effect, metadata)
    except StateDisagreement as error:
        return f"{error.message}; {error.remedy}"
    if is_copied(effect) and (reason := cannot_rewrite(metadata)):
        return f"its data files cannot be written anew (`deletes: copy_on_write`): {reason}"
    return None


def is_copied(effect: CommitTable) -> bool:
    """Whether rows go by writing their files anew."""
    return any(one.copy_on_write for one in effect.keyed)


def remembered_after(effect: CommitTable, metadata: TableMetadata) -> Remembered | None:
    """What the table remembers of deleted keys with this commit; None where it says nothing of them.

    Raises:
        StateDisagreement: the table no longer names what the batch was compared with.
    """
    return after_commit(metadata.properties.get(DELETED_KEYS_PROPERTY), effect.keyed)
