"""Who wrote to a table since floe last changed it by its key, as its snapshots and its recorded progress tell.

In: a table's metadata. Out: words for people, one for each writer: pipelines by name, others by the engine that their
snapshots name. Reads nothing. The newest writers come first; of many the first few are named.
"""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from framework.adapters.iceberg.views import ancestry, head_of
from framework.commit.machine.progress.recorded import (
    PROGRESS_PROPERTY,
    SUMMARY_COMMIT_ID,
    SUMMARY_KEY,
    SUMMARY_MAINTENANCE,
    pipelines_of,
)
from framework.diagnose.shown import shown
from framework.errors import StateDisagreement

MOST_NAMED = 5
# By which engines name themselves, and the run that wrote, in a snapshot's summary.
_ENGINES = ("engine-name", "spark.app.name", "app-name", "flink.job-id", "spark.app.id", "app-id")


def writers_beside(metadata: TableMetadata, branch: str, pipeline: str) -> tuple[str, ...]:
    """Whoever wrote rows but this pipeline."""
    found: dict[str, None] = {}
    appended = False
    for snapshot in ancestry(metadata, head_of(metadata, branch)):
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if SUMMARY_KEY in said:
            break
        if SUMMARY_COMMIT_ID in said:
            appended = True
        elif SUMMARY_MAINTENANCE not in said and _operation(snapshot) is not Operation.REPLACE:
            found.setdefault(_stranger(snapshot), None)
    own = [f"pipeline {name}" for name in _others(metadata, pipeline)] if appended else []
    named = [*own, *found]
    more = len(named) - MOST_NAMED
    return (*named[:MOST_NAMED], f"{more} more") if more > 0 else tuple(named)


def _operation(snapshot: Snapshot) -> Operation | None:
    return snapshot.summary.operation if snapshot.summary else None


def _others(metadata: TableMetadata, pipeline: str) -> list[str]:
    try:
        names = pipelines_of(metadata.properties.get(PROGRESS_PROPERTY))
    except StateDisagreement:  # reported where progress is asked for
        return []
    return sorted({shown(name.partition(".")[0]) for name in names} - {pipeline.partition(".")[0]})


def _stranger(snapshot: Snapshot) -> str:
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    engine = next((shown(said[key][:100]) for key in _ENGINES if said.get(key)), "a writer that is not floe")
    return f"{engine} (snapshot {snapshot.snapshot_id})"
