"""A table's snapshots as facts for a rollback, and the data files that each of them added. Reads, changes nothing.

In: a loaded table. Out: plain values. What a snapshot added is read from its own manifests, so it is known even after
later commits have merged or rewritten them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan, Or
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from framework.adapters.iceberg.views import ancestry, head_of, info_of, is_main_off_line
from framework.adapters.store.counted_files import parquet_file
from framework.commit.events.event_types import SourceRange
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_CONTROL_TOPIC_ID,
    SUMMARY_KEY,
    SUMMARY_MAINTENANCE,
    SUMMARY_RECOVERY,
    made_at,
    parse,
)
from framework.commit.recovery.rollback import RollbackFacts, SnapshotFacts
from framework.table.owner import UnreadableOwner, Use, owner_of

EXPIRED = -1  # no snapshot has this id
POSITION_COLUMNS = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


def facts_of(name: str, table: Table, branch: str, control_topic_id: str) -> RollbackFacts:
    """The branch's line of snapshots, and those beside it."""
    metadata = table.metadata
    line = tuple(ancestry(metadata, head_of(metadata, branch)))
    ids = {snapshot.snapshot_id for snapshot in line}
    # The last time counts.
    headed = {each.snapshot_id: (at, each.timestamp_ms) for at, each in enumerate(metadata.snapshot_log)}
    return RollbackFacts(
        table=name,
        control_topic_id=control_topic_id,
        progress=parse(metadata.properties.get(PROGRESS_PROPERTY), control_topic_id),
        ancestry=tuple(_facts(snapshot, headed) for snapshot in line),
        beside=tuple(_facts(snapshot, headed) for snapshot in metadata.snapshots if snapshot.snapshot_id not in ids),
        whole=not line or _parent_of(line[-1]) is None,
        table_uuid=str(metadata.table_uuid),
        off_line=is_main_off_line(metadata, control_topic_id),
        made_at=made_at(metadata.properties.get(PROGRESS_PROPERTY), control_topic_id),
        is_upserted=_is_upserted(metadata),
    )


def _is_upserted(metadata: TableMetadata) -> bool:
    """Whether floe replaces rows of the table by their key: by its own word, and by what is left of its commits. A batch that
    replaced nothing is an append, and expiry lets the others go."""
    try:
        owner = owner_of(metadata.properties)
    except UnreadableOwner:
        owner = None
    if owner is not None and owner.use is Use.UPSERT:
        return True
    said = [each.summary for each in metadata.snapshots if each.summary is not None]
    return any(
        SUMMARY_KEY in each.additional_properties
        or (each.operation is Operation.OVERWRITE and SUMMARY_CONTROL_TOPIC_ID in each.additional_properties)
        for each in said
    )


def _parent_of(snapshot: Snapshot) -> int | None:
    """What a snapshot was built on. Some engines leave the heir of expired snapshots without a parent: it looks like the
    first of a table, and its number says that it is not."""
    if snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) > 1:
        return EXPIRED
    return snapshot.parent_snapshot_id


def _facts(snapshot: Snapshot, headed: Mapping[int, tuple[int, int]]) -> SnapshotFacts:
    info = info_of(snapshot)
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    return SnapshotFacts(
        snapshot_id=info.snapshot_id,
        parent_id=_parent_of(snapshot),
        timestamp_ms=info.timestamp_ms,
        operation=info.operation,
        added_rows=info.added_rows or 0,
        control_offset=info.control_offset,
        control_topic_id=said.get(SUMMARY_CONTROL_TOPIC_ID),
        # Neither adds rows: what a rollback gives up with such a snapshot is in the ones before it.
        recovery=said.get(SUMMARY_RECOVERY) or said.get(SUMMARY_MAINTENANCE),
        headed_ms=headed[info.snapshot_id][1] if info.snapshot_id in headed else None,
        headed_at=headed[info.snapshot_id][0] if info.snapshot_id in headed else -1,
        sequence_number=snapshot.sequence_number or 0,
    )


def added_paths(table: Table, snapshot_ids: Collection[int]) -> frozenset[str]:
    """The data files that these snapshots added."""
    paths: set[str] = set()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in snapshot_ids:
            continue
        for manifest in snapshot.manifests(table.io):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id:
                    paths.add(entry.data_file.file_path)
    return frozenset(paths)


@dataclass(frozen=True)
class TableEnds:
    """When rows were last written, and how many there are by the table's own word; None where it does not say."""

    last_ms: int
    rows: int | None


def read_ends(table: Table) -> TableEnds | None:
    """Reads a row of the first and of the last data file, in the order in which they were written; None where there is no row.
    Raises what the store or the file raises."""
    line = list(ancestry(table.metadata, head_of(table.metadata, "main")))
    manifests = sorted(line[0].manifests(table.io), key=lambda each: each.sequence_number or 0) if line else []
    data = [each for each in manifests if each.content == ManifestContent.DATA]
    first, last = _file_of(table, data, min), _file_of(table, reversed(data), max)
    if first is None or last is None:
        return None
    for file in (first, last):
        with table.io.new_input(file.file_path).open() as stream:
            if file.file_format == FileFormat.PARQUET:
                next(parquet_file(stream).iter_batches(batch_size=1), None)
            else:
                stream.read(1)
    written = [each for each in line if each.summary is None or each.summary.operation is not Operation.REPLACE]
    said = line[0].summary.additional_properties.get("total-records", "") if line[0].summary else ""
    return TableEnds((written or line)[0].timestamp_ms, int(said) if said.isdecimal() else None)


def _file_of(table: Table, manifests: Iterable[ManifestFile], end: Callable[..., ManifestEntry]) -> DataFile | None:
    """Of the first manifest that has a live file: the one at this end of its files by their sequence numbers."""
    for each in manifests:
        entries = each.fetch_manifest_entry(table.io, discard_deleted=True)
        if live := [entry for entry in entries if entry.data_file.record_count]:
            return end(live, key=lambda entry: entry.sequence_number or 0).data_file
    return None


def rows_in(table: Table, ranges: Collection[SourceRange], snapshot_id: int | None = None) -> int | None:
    """How many rows of these source ranges the table holds, or a snapshot of it, by its metadata columns; None where it has
    none of them, or the snapshot is no more."""
    if snapshot_id is not None and table.snapshot_by_id(snapshot_id) is None:
        return None
    seen = table.scan(snapshot_id=snapshot_id)
    if not set(POSITION_COLUMNS) <= {field.name for field in seen.projection().fields}:
        return None
    if not ranges:
        return 0
    topic, partition, offset = POSITION_COLUMNS
    # One scan for all ranges: each reads the manifests.
    wanted = [
        And(
            EqualTo(term=topic, value=r.topic),
            EqualTo(term=partition, value=r.partition),
            GreaterThanOrEqual(term=offset, value=r.start),
            LessThan(term=offset, value=r.end),
        )
        for r in ranges
    ]
    return seen.filter(Or(*wanted) if len(wanted) > 1 else wanted[0]).count()
