"""Plain JSON values as control events. In: the parsed object of a control record. Out: the event, or Malformed.

No field is guessed: what is missing or of another type is refused. Fields that are not known are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from framework.commit.events import (
    Accounting,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    Deployed,
    Discarded,
    Health,
    Heartbeat,
    Holds,
    OffsetsSet,
    PauseChanged,
    SourceRange,
    StateChanged,
    StopRequested,
    Subject,
    TableCommitPolicy,
)

E = TypeVar("E", bound=Enum)


class Malformed(Exception):
    """Says which field does not fit; turned into a FloeError by `framework.commit.codec`."""


def _int(value: Mapping[str, Any], key: str) -> int:
    found = value.get(key)
    if type(found) is not int:  # bool is an int, and no offset
        raise Malformed(f"`{key}` must be an integer, not {found!r}")
    return found


def _optional_int(value: Mapping[str, Any], key: str) -> int | None:
    return None if value.get(key) is None else _int(value, key)


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if type(found) is not str:
        raise Malformed(f"`{key}` must be text, not {found!r}")
    return found


def _object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    if type(found) is not dict:
        raise Malformed(f"`{key}` must be an object, not {found!r}")
    return found


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    if type(found) is not list:
        raise Malformed(f"`{key}` must be a list, not {found!r}")
    return found


def _objects(value: Mapping[str, Any], key: str) -> Iterable[dict[str, Any]]:
    for element in _list(value, key):
        if type(element) is not dict:
            raise Malformed(f"`{key}` must hold objects, not {element!r}")
        yield element


def _map_of(value: Mapping[str, Any], key: str, kind: type) -> dict[str, Any]:
    if key not in value:
        return {}
    found = _object(value, key)
    if not all(type(v) is kind for v in found.values()):
        raise Malformed(f"`{key}` must hold only values of type {kind.__name__}")
    return found


def _texts(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list(value, key)
    if not all(type(v) is str for v in found):
        raise Malformed(f"`{key}` must hold only text")
    return tuple(found)


def _one_of(value: Mapping[str, Any], key: str, kind: type[E]) -> E:
    try:
        return kind(_text(value, key))
    except ValueError as error:
        raise Malformed(
            f"`{key}` must be one of {', '.join(str(each.value) for each in kind)}, not {value[key]!r}"
        ) from error


def _ranges(value: Mapping[str, Any], key: str = "ranges") -> tuple[SourceRange, ...]:
    ranges: list[SourceRange] = []
    for group in _objects(value, key):
        topic, topic_id = _text(group, "topic"), _text(group, "topic_id")
        for row in _list(group, "partitions"):
            if type(row) is not list or len(row) != 4 or not all(type(n) is int for n in row[:3]):
                raise Malformed(f"a range must be [partition, start, end, max_timestamp_ms or null], not {row!r}")
            if row[3] is not None and type(row[3]) is not int:
                raise Malformed(f"a range's highest timestamp must be an integer or null, not {row[3]!r}")
            if not 0 <= row[1] <= row[2]:
                raise Malformed(f"a range must not end before it starts: {row!r}")
            ranges.append(SourceRange(topic, topic_id, row[0], row[1], row[2], row[3]))
    return tuple(ranges)


def _file(value: dict[str, Any]) -> DataFile:
    partition = _list(value, "partition") if "partition" in value else []
    if any(isinstance(v, (list, dict)) for v in partition):
        raise Malformed("`partition` must hold single values")
    splits = _list(value, "split_offsets") if "split_offsets" in value else []
    if not all(type(v) is int for v in splits):
        raise Malformed("`split_offsets` must hold only integers")
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
        lost=_int(a, "lost") if "lost" in a else 0,  # logs of versions that refused to skip have none
    )


def _data_written(value: dict[str, Any]) -> DataWritten:
    commit = _object(value, "commit")
    part, parts = _int(value, "part"), _int(value, "parts")
    if not 0 <= part < parts:
        raise Malformed(f"part {part} of {parts} does not exist")
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
        base_batch=_optional_int(value, "base_batch") or 0,
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
        gaps=_ranges(value, "gaps") if "gaps" in value else (),
    )


def _heartbeat(value: dict[str, Any]) -> Heartbeat:
    return Heartbeat(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        batch=_int(value, "batch"),
        ranges=_ranges(value),
        totals=_accounting(value, "totals"),
    )


def _offsets_set(value: dict[str, Any]) -> OffsetsSet:
    return OffsetsSet(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        batch=_int(value, "batch"),
        ranges=_ranges(value),
        totals=_accounting(value, "totals"),
        base_batch=_int(value, "base_batch"),
        lost=_int(value, "lost"),
        repeated=_int(value, "repeated"),
        reason=_text(value, "reason"),
        timestamp_ms=_int(value, "timestamp_ms"),
    )


def _discarded(value: dict[str, Any]) -> Discarded:
    return Discarded(
        table=_text(value, "table"),
        first=_int(value, "first"),
        below=_int(value, "below"),
        announcements=_int(value, "announcements"),
        files=_int(value, "files"),
        rows=_map_of({"rows": _object(value, "rows")}, "rows", int),
        reason=_text(value, "reason"),
        timestamp_ms=_int(value, "timestamp_ms"),
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
        paused=tuple(map(_pause_changed, _objects(value, "paused"))) if "paused" in value else (),
    )


def _state_changed(value: dict[str, Any]) -> StateChanged:
    return StateChanged(
        subject=_one_of(value, "subject", Subject),
        name=_text(value, "name"),
        state=_one_of(value, "state", Health),
        reason=_text(value, "reason"),
        remedy=_text(value, "remedy"),
        code=_text(value, "code"),
        failures=_int(value, "failures"),
        since_ms=_int(value, "since_ms"),
        timestamp_ms=_int(value, "timestamp_ms"),
        by=_text(value, "by"),
    )


def _pause_changed(value: dict[str, Any]) -> PauseChanged:
    paused = value.get("paused")
    if type(paused) is not bool:
        raise Malformed(f"`paused` must be true or false, not {paused!r}")
    return PauseChanged(
        holds=_one_of(value, "holds", Holds),
        pattern=_text(value, "pattern"),
        paused=paused,
        reason=_text(value, "reason"),
        by=_text(value, "by"),
        timestamp_ms=_int(value, "timestamp_ms"),
    )


def _stop_requested(value: dict[str, Any]) -> StopRequested:
    return StopRequested(
        request_id=_text(value, "request_id"),
        pipeline=_text(value, "pipeline"),
        deadline_ms=_int(value, "deadline_ms"),
        by=_text(value, "by"),
    )


def _deployed(value: dict[str, Any]) -> Deployed:
    return Deployed(
        pipeline=_text(value, "pipeline"),
        run=_text(value, "run"),
        hash=_text(value, "hash"),
        plan=_object(value, "plan"),
        floe=_text(value, "floe"),
        timestamp_ms=_int(value, "timestamp_ms"),
        deployment=_text(value, "deployment"),
    )


DECODERS: dict[str, Callable[[dict[str, Any]], ControlEvent]] = {
    "DataWritten": _data_written,
    "DataComplete": _data_complete,
    "Heartbeat": _heartbeat,
    "OffsetsSet": _offsets_set,
    "Discarded": _discarded,
    "CommitRequested": _commit_requested,
    "CommitToTable": _commit_to_table,
    "CommitComplete": _commit_complete,
    "StateChanged": _state_changed,
    "PauseChanged": _pause_changed,
    "StopRequested": _stop_requested,
    "Deployed": _deployed,
}
