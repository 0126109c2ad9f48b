"""A snapshot as it will be committed: what it builds on, its data files, its counters and the branch that will point to
it.

In: a `CommitTable` effect, the table's metadata, and the manifests that were written. Out: PyIceberg's values. Nothing
is sent here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, TableUpdate
from pyiceberg.types import IcebergType

from framework.adapters.iceberg.commits.counters import counters
from framework.adapters.iceberg.private.manifests import WrittenSnapshot, to_iceberg
from framework.adapters.iceberg.private.ordered_times import next_snapshot_ms
from framework.adapters.iceberg.private.spec_schemas import UnknownSpec, partition_types, schema_for_spec
from framework.adapters.iceberg.views import snapshot_by_id, start_of
from framework.commit.machine.effects import CommitTable, RecoverTable


def parent_of(effect: CommitTable, metadata: TableMetadata) -> Snapshot | None:
    """What the new snapshot builds on: the head, unless a person rolls the table back to an older one."""
    if isinstance(effect, RecoverTable) and effect.onto is not None:
        return snapshot_by_id(metadata, effect.onto)
    return start_of(metadata, effect.view.branch)


def iceberg_files(effect: CommitTable, metadata: TableMetadata) -> list[DataFile]:
    specs = metadata.specs()
    kinds: dict[int, list[IcebergType]] = {}
    files = []
    for file in effect.files:
        spec = specs.get(file.spec_id)
        if spec is None:
            raise UnknownSpec(f"{file.path} was written for partition spec {file.spec_id}, unknown to the table")
        if spec.spec_id not in kinds:
            kinds[spec.spec_id] = kinds_of(metadata, spec.spec_id)
        files.append(to_iceberg(file, kinds[spec.spec_id]))
    return files


def kinds_of(metadata: TableMetadata, spec_id: int) -> list[IcebergType]:
    spec = metadata.specs()[spec_id]
    return partition_types(spec, schema_for_spec(metadata, spec))


def snapshot_of(
    metadata: TableMetadata,
    snapshot_id: int,
    parent: Snapshot | None,
    written: WrittenSnapshot,
    added: Sequence[DataFile],
    own: dict[str, str],
) -> Snapshot:
    """A snapshot with the counters that every engine writes, and ours."""
    operation = Operation.OVERWRITE if written.added_deletes or written.removed_files else Operation.APPEND
    counted = counters(added, written.added_deletes, written.removed_deletes, written.removed_files)
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=next_snapshot_ms(metadata, time.time_ns() // 1_000_000),
        manifest_list=written.manifest_list,
        summary=update_snapshot_summaries(Summary(operation, **counted, **own), parent.summary if parent else None),
        schema_id=metadata.current_schema_id,
        first_row_id=written.first_row_id,
        added_rows=written.added_rows,
    )


def branch_updates(metadata: TableMetadata, branch: str, snapshot: Snapshot) -> tuple[TableUpdate, TableUpdate]:
    """What adds a snapshot and lets the branch point to it."""
    ref = metadata.refs.get(branch)
    return (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(
            ref_name=branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot.snapshot_id,
            # The branch's own retention stays as it was set; a reference is replaced as a whole.
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        ),
    )
