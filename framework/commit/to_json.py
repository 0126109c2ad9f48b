"""Control events as plain JSON values. In: an event. Out: the object that `framework.commit.codec` writes.

Ranges of one topic share its name and id, and what is empty in a data file is left out: events stay far below the size
limit of the control topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.commit.events import (
    Accounting,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    DataComplete,
    DataFile,
    DataWritten,
    Deployed,
    Discarded,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
    SourceRange,
    StateChanged,
    StopRequested,
)

VERSION = 1

MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def _head(kind: str) -> dict[str, object]:
    return {"type": kind, "version": VERSION}


def _ranges_to_json(ranges: tuple[SourceRange, ...]) -> list[dict[str, object]]:
    """Consecutive ranges of one topic share its name and id: 5,000 partitions stay far below the size limit."""
    groups: list[dict[str, object]] = []
    rows: list[list[int | None]] = []
    last: tuple[str, str] | None = None
    for r in ranges:
        if (r.topic, r.topic_id) != last:
            last = (r.topic, r.topic_id)
            rows = []
            groups.append({"topic": r.topic, "topic_id": r.topic_id, "partitions": rows})
        rows.append([r.partition, r.start, r.end, r.max_timestamp_ms])
    return groups


def file_to_json(file: DataFile) -> dict[str, object]:
    value: dict[str, object] = {
        "path": file.path,
        "record_count": file.record_count,
        "file_size_bytes": file.file_size_bytes,
        "spec_id": file.spec_id,
    }
    if file.partition:
        value["partition"] = list(file.partition)
    for name in MAPS:
        if mapping := getattr(file, name):
            value[name] = mapping
    if file.split_offsets:
        value["split_offsets"] = list(file.split_offsets)
    if file.sort_order_id is not None:
        value["sort_order_id"] = file.sort_order_id
    return value


def _accounting_to_json(a: Accounting) -> dict[str, int]:
    return {
        "offsets": a.offsets,
        "written": a.written,
        "filtered": a.filtered,
        "dead_lettered": a.dead_lettered,
        "dropped": a.dropped,
        "holes": a.holes,
        "rows": a.rows,
        "lost": a.lost,
    }


def _data_written_to_json(e: DataWritten) -> dict[str, object]:
    return {
        **_head("DataWritten"),
        "pipeline": e.pipeline,
        "run": e.run,
        "batch": e.batch,
        "table": e.table,
        "table_uuid": e.table_uuid,
        "schema_id": e.schema_id,
        "part": e.part,
        "parts": e.parts,
        "base_batch": e.base_batch,
        "commit": {
            "interval_ms": e.commit.interval_ms,
            "max_bytes": e.commit.max_bytes,
            "max_rows": e.commit.max_rows,
            "branch": e.commit.branch,
        },
        "ranges": _ranges_to_json(e.ranges),
        "files": [file_to_json(f) for f in e.files],
    }


def _data_complete_to_json(e: DataComplete) -> dict[str, object]:
    return {
        **_head("DataComplete"),
        "pipeline": e.pipeline,
        "run": e.run,
        "batch": e.batch,
        "ranges": _ranges_to_json(e.ranges),
        "accounting": _accounting_to_json(e.accounting),
        "totals": _accounting_to_json(e.totals),
        "tables": list(e.tables),
        "gaps": _ranges_to_json(e.gaps),
    }


def _heartbeat_to_json(e: Heartbeat) -> dict[str, object]:
    return {
        **_head("Heartbeat"),
        "pipeline": e.pipeline,
        "run": e.run,
        "batch": e.batch,
        "ranges": _ranges_to_json(e.ranges),
        "totals": _accounting_to_json(e.totals),
    }


def _offsets_set_to_json(e: OffsetsSet) -> dict[str, object]:
    return {
        **_head("OffsetsSet"),
        "pipeline": e.pipeline,
        "run": e.run,
        "batch": e.batch,
        "ranges": _ranges_to_json(e.ranges),
        "totals": _accounting_to_json(e.totals),
        "base_batch": e.base_batch,
        "lost": e.lost,
        "repeated": e.repeated,
        "reason": e.reason,
        "timestamp_ms": e.timestamp_ms,
    }


def _discarded_to_json(e: Discarded) -> dict[str, object]:
    return {
        **_head("Discarded"),
        "table": e.table,
        "first": e.first,
        "below": e.below,
        "announcements": e.announcements,
        "files": e.files,
        "rows": e.rows,
        "reason": e.reason,
        "timestamp_ms": e.timestamp_ms,
    }


def _commit_requested_to_json(e: CommitRequested) -> dict[str, object]:
    return {
        **_head("CommitRequested"),
        "request_id": e.request_id,
        "pipeline": e.pipeline,
        "deadline_ms": e.deadline_ms,
    }


def _commit_to_table_to_json(e: CommitToTable) -> dict[str, object]:
    return {
        **_head("CommitToTable"),
        "table": e.table,
        "table_uuid": e.table_uuid,
        "snapshot_id": e.snapshot_id,
        "commit_id": e.commit_id,
        "control_offset": e.control_offset,
        "rows": e.rows,
        "files": e.files,
        "timestamp_ms": e.timestamp_ms,
        "valid_through_ms": e.valid_through_ms,
    }


def _commit_complete_to_json(e: CommitComplete) -> dict[str, object]:
    return {
        **_head("CommitComplete"),
        "coordinator": e.coordinator,
        "low_water": e.low_water,
        "timestamp_ms": e.timestamp_ms,
        "request_id": e.request_id,
        "position": e.position,
        "blocked": e.blocked,
        "blocked_pipelines": e.blocked_pipelines,
        "chain": {name: _heartbeat_to_json(link) for name, link in e.chain.items()},
        "valid_through_ms": e.valid_through_ms,
        "paused": [_pause_changed_to_json(pause) for pause in e.paused],
    }


def _state_changed_to_json(e: StateChanged) -> dict[str, object]:
    return {
        **_head("StateChanged"),
        "subject": e.subject.value,
        "name": e.name,
        "state": e.state.value,
        "reason": e.reason,
        "remedy": e.remedy,
        "code": e.code,
        "failures": e.failures,
        "since_ms": e.since_ms,
        "timestamp_ms": e.timestamp_ms,
        "by": e.by,
    }


def _pause_changed_to_json(e: PauseChanged) -> dict[str, object]:
    return {
        **_head("PauseChanged"),
        "holds": e.holds.value,
        "pattern": e.pattern,
        "paused": e.paused,
        "reason": e.reason,
        "by": e.by,
        "timestamp_ms": e.timestamp_ms,
    }


def _stop_requested_to_json(e: StopRequested) -> dict[str, object]:
    return {
        **_head("StopRequested"),
        "request_id": e.request_id,
        "pipeline": e.pipeline,
        "deadline_ms": e.deadline_ms,
        "by": e.by,
    }


def _deployed_to_json(e: Deployed) -> dict[str, object]:
    return {
        **_head("Deployed"),
        "pipeline": e.pipeline,
        "run": e.run,
        "hash": e.hash,
        "plan": e.plan,
        "floe": e.floe,
        "timestamp_ms": e.timestamp_ms,
        "deployment": e.deployment,
    }


ENCODERS: dict[type, Callable[[Any], dict[str, object]]] = {
    DataWritten: _data_written_to_json,
    DataComplete: _data_complete_to_json,
    Heartbeat: _heartbeat_to_json,
    OffsetsSet: _offsets_set_to_json,
    Discarded: _discarded_to_json,
    CommitRequested: _commit_requested_to_json,
    CommitToTable: _commit_to_table_to_json,
    CommitComplete: _commit_complete_to_json,
    StateChanged: _state_changed_to_json,
    PauseChanged: _pause_changed_to_json,
    StopRequested: _stop_requested_to_json,
    Deployed: _deployed_to_json,
}
