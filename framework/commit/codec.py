"""Control events to bytes and back.

In: a `ControlEvent`, or the value of a control record. Out: compact UTF-8 JSON valid under
`schemas/control-event.v1.schema.json`, or the event. Unknown event types decode to None, so that older coordinators can
read a newer log; unknown fields are ignored; anything else that does not fit is a FloeError and never skipped in silence.
`framework.commit.split` cuts events that would be too large.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from framework.commit.events import (
    Accounting,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Heartbeat,
    SourceRange,
    TableCommitPolicy,
)
from framework.errors import FloeError

VERSION = 1
MAX_EVENT_BYTES = 512 * 1024

_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class _Malformed(Exception):
    """Says which field does not fit; turned into a FloeError at the door."""


# ---- to JSON ---------------------------------------------------------------------------------------------------------


def encode(event: ControlEvent) -> bytes:
    """The event as compact JSON. Raises FloeError when a value has no JSON form (NaN, bytes)."""
    try:
        return _dump(_ENCODERS[type(event)](event))
    except (TypeError, ValueError) as error:
        raise FloeError(
            f"a {type(event).__name__} event holds a value without a JSON form: {error}",
            code="FLOE-R201",
            place="control topic",
            remedy="a partition value must be an Iceberg JSON single value; choose another partition transform",
        ) from error


def encode_file(file: DataFile) -> bytes:
    """One file as it stands in an announcement, to measure it."""
    return _dump(_file_to_json(file))


def _dump(value: dict[str, object]) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


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


def _file_to_json(file: DataFile) -> dict[str, object]:
    value: dict[str, object] = {
        "path": file.path,
        "record_count": file.record_count,
        "file_size_bytes": file.file_size_bytes,
        "spec_id": file.spec_id,
    }
    if file.partition:
        value["partition"] = list(file.partition)
    for name in _MAPS:
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
        "commit": {
            "interval_ms": e.commit.interval_ms,
            "max_bytes": e.commit.max_bytes,
            "max_rows": e.commit.max_rows,
            "branch": e.commit.branch,
        },
        "ranges": _ranges_to_json(e.ranges),
        "files": [_file_to_json(f) for f in e.files],
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
    }


_ENCODERS: dict[type, Callable[[Any], dict[str, object]]] = {
    DataWritten: _data_written_to_json,
    DataComplete: _data_complete_to_json,
    Heartbeat: _heartbeat_to_json,
    CommitRequested: _commit_requested_to_json,
    CommitToTable: _commit_to_table_to_json,
    CommitComplete: _commit_complete_to_json,
}


# ---- from JSON -------------------------------------------------------------------------------------------------------


def decode(value: bytes | None) -> ControlEvent | None:
    """The event in a control record's value; None for an event type that this version does not know.

    Raises FloeError when the bytes are no event: not JSON, a field missing or of another type, a newer version.
    """
    try:
        parsed = json.loads(value) if value is not None else None
    except ValueError as error:
        raise _malformed(f"it is not JSON: {error}") from error
    if not isinstance(parsed, dict) or not isinstance(parsed.get("type"), str):
        raise _malformed("it is not a JSON object with a `type`")
    decoder = _DECODERS.get(parsed["type"])
    if decoder is None:
        return None
    if parsed.get("version") != VERSION:
        raise _malformed(f"its version is {parsed.get('version')!r} and this floe reads version {VERSION}")
    try:
        return decoder(parsed)
    except _Malformed as error:
        raise _malformed(f"{parsed['type']}: {error}") from error


def _malformed(reason: str) -> FloeError:
    return FloeError(
        f"a control record is no event of floe: {reason}",
        code="FLOE-R202",
        place="control topic",
        remedy="find out who writes to the control topic; an announcement is never skipped, so reading stops here",
    )


def _int(value: Mapping[str, Any], key: str) -> int:
    found = value.get(key)
    if type(found) is not int:  # bool is an int, and no offset
        raise _Malformed(f"`{key}` must be an integer, not {found!r}")
    return found


def _optional_int(value: Mapping[str, Any], key: str) -> int | None:
    return None if value.get(key) is None else _int(value, key)


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if type(found) is not str:
        raise _Malformed(f"`{key}` must be text, not {found!r}")
    return found


def _object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    if type(found) is not dict:
        raise _Malformed(f"`{key}` must be an object, not {found!r}")
    return found


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if type(found) is not list:
        raise _Malformed(f"`{key}` must be a list, not {found!r}")
    return found


def _objects(value: Mapping[str, Any], key: str) -> Iterable[dict[str, Any]]:
    for element in _list(value, key):
        if type(element) is not dict:
            raise _Malformed(f"`{key}` must hold objects, not {element!r}")
        yield element


def _map_of(value: Mapping[str, Any], key: str, kind: type) -> dict[str, Any]:
    if key not in value:
        return {}
    found = _object(value, key)
    if not all(type(v) is kind for v in found.values()):
        raise _Malformed(f"`{key}` must hold only values of type {kind.__name__}")
    return found


def _texts(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list(value, key)
    if not all(type(v) is str for v in found):
        raise _Malformed(f"`{key}` must hold only text")
    return tuple(found)


def _ranges(value: Mapping[str, Any]) -> tuple[SourceRange, ...]:
    ranges: list[SourceRange] = []
    for group in _objects(value, "ranges"):
        topic, topic_id = _text(group, "topic"), _text(group, "topic_id")
        for row in _list(group, "partitions"):
            if type(row) is not list or len(row) != 4 or not all(type(n) is int for n in row[:3]):
                raise _Malformed(f"a range must be [partition, start, end, max_timestamp_ms or null], not {row!r}")
            if row[3] is not None and type(row[3]) is not int:
                raise _Malformed(f"a range's highest timestamp must be an integer or null, not {row[3]!r}")
            if not 0 <= row[1] <= row[2]:
                raise _Malformed(f"a range must not end before it starts: {row!r}")
            ranges.append(SourceRange(topic, topic_id, row[0], row[1], row[2], row[3]))
    return tuple(ranges)


def _file(value: dict[str, Any]) -> DataFile:
    partition = _list(value, "partition") if "partition" in value else []
    if any(isinstance(v, (list, dict)) for v in partition):
        raise _Malformed("`partition` must hold single values")
    splits = _list(value, "split_offsets") if "split_offsets" in value else []
    if not all(type(v) is int for v in splits):
        raise _Malformed("`split_offsets` must hold only integers")
    return DataFile(
        path=_text(value, "path"),
        record_count=_int(value, "record_count"),
        file_size_bytes=_int(value, "file_size_bytes"),
        spec_id=_int(value, "spec_id"),
        partition=tuple(partition),
        column_sizes=_map_of(value, "column_sizes", int),
        value_counts=_map_of(value, "value_counts", int),
        null_value_counts=_map_of(value, "null_value_counts", int),
        nan_value_counts=_map_of(value, "nan_value_counts", int),
        lower_bounds=_map_of(value, "lower_bounds", str),
        upper_bounds=_map_of(value, "upper_bounds", str),
        split_offsets=tuple(splits),
        sort_order_id=_optional_int(value, "sort_order_id"),
    )


def _accounting(value: Mapping[str, Any], key: str) -> Accounting:
    a = _object(value, key)
    return Accounting(
        offsets=_int(a, "offsets"),
        written=_int(a, "written"),
        filtered=_int(a, "filtered"),
        dead_lettered=_int(a, "dead_lettered"),
        dropped=_int(a, "dropped"),
        holes=_int(a, "holes"),
        rows=_int(a, "rows"),
    )


def _data_written(value: dict[str, Any]) -> DataWritten:
    commit = _object(value, "commit")
    part, parts = _int(value, "part"), _int(value, "parts")
    if not 0 <= part < parts:
        raise _Malformed(f"part {part} of {parts} does not exist")
    return DataWritten(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        batch=_int(value, "batch"),
        table=_text(value, "table"),
        table_uuid=_text(value, "table_uuid"),
        schema_id=_int(value, "schema_id"),
        files=tuple(_file(f) for f in _objects(value, "files")),
        ranges=_ranges(value),
        commit=TableCommitPolicy(
            interval_ms=_int(commit, "interval_ms"),
            max_bytes=_int(commit, "max_bytes"),
            max_rows=_int(commit, "max_rows"),
            branch=_text(commit, "branch"),
        ),
        part=part,
        parts=parts,
    )


def _data_complete(value: dict[str, Any]) -> DataComplete:
    return DataComplete(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        batch=_int(value, "batch"),
        ranges=_ranges(value),
        accounting=_accounting(value, "accounting"),
        totals=_accounting(value, "totals"),
        tables=_texts(value, "tables"),
    )


def _heartbeat(value: dict[str, Any]) -> Heartbeat:
    return Heartbeat(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        batch=_int(value, "batch"),
        ranges=_ranges(value),
        totals=_accounting(value, "totals"),
    )


def _commit_requested(value: dict[str, Any]) -> CommitRequested:
    return CommitRequested(
        request_id=_text(value, "request_id"),
        pipeline=_text(value, "pipeline"),
        deadline_ms=_int(value, "deadline_ms"),
    )


def _commit_to_table(value: dict[str, Any]) -> CommitToTable:
    return CommitToTable(
        table=_text(value, "table"),
        table_uuid=_text(value, "table_uuid"),
        snapshot_id=_int(value, "snapshot_id"),
        commit_id=_text(value, "commit_id"),
        control_offset=_int(value, "control_offset"),
        rows=_int(value, "rows"),
        files=_int(value, "files"),
        timestamp_ms=_int(value, "timestamp_ms"),
        valid_through_ms=_optional_int(value, "valid_through_ms"),
    )


def _commit_complete(value: dict[str, Any]) -> CommitComplete:
    return CommitComplete(
        coordinator=_text(value, "coordinator"),
        low_water=_int(value, "low_water"),
        timestamp_ms=_int(value, "timestamp_ms"),
        request_id=_text(value, "request_id"),
        blocked=_map_of(value, "blocked", str),
        chain={name: _heartbeat(link) for name, link in _map_of(value, "chain", dict).items()},
        valid_through_ms=_map_of(value, "valid_through_ms", int),
        position=_int(value, "position"),
        blocked_pipelines=_map_of(value, "blocked_pipelines", str),
    )


_DECODERS: dict[str, Callable[[dict[str, Any]], ControlEvent]] = {
    "DataWritten": _data_written,
    "DataComplete": _data_complete,
    "Heartbeat": _heartbeat,
    "CommitRequested": _commit_requested,
    "CommitToTable": _commit_to_table,
    "CommitComplete": _commit_complete,
}
