"""The JSON form of every control event: one table, from which `framework.commit.events.codec` writes and reads.

The fields stand in the order in which they are written. What only newer versions write may be absent; what is empty in
a data file is left out, so that events stay far below the size limit of the control topic.
"""

from __future__ import annotations

from typing import Any

from framework.commit.events.event_types import (
    Accounting,
    Acted,
    CommitComplete,
    CommitRequested,
    CommitToTable,
    CoordinatorAssigned,
    CoordinatorReleased,
    DataComplete,
    DataFile,
    DataWritten,
    DeletedKeysChange,
    DeletedKeysFile,
    Deployed,
    Discarded,
    Health,
    Heartbeat,
    Holds,
    KeysFile,
    OffsetsSet,
    PauseChanged,
    Skipped,
    StateChanged,
    StopRequested,
    Subject,
    TableChanged,
    TableCommitPolicy,
    TableMeasured,
    UpsertChanges,
)
from framework.commit.events.json_shape import (
    BOOL,
    INT,
    LIST,
    OBJECT,
    OPTIONAL_INT,
    OTHER_RANGES,
    RANGES,
    TEXT,
    FieldKind,
    JsonShape,
    Malformed,
    list_of,
    map_of,
    map_of_objects,
    object_of,
    objects_of,
    one_of,
    optional,
    optional_object,
    sparse,
)
from framework.commit.maintenance.health import TableHealth
from framework.commit.maintenance.others import OtherMaintainer

VERSION = 1
# Of announcements that take rows away: a coordinator that does not know how must stop there, rather than add files
# alone.
UPSERT_VERSION = 2
# Of those that say what becomes of deleted keys that the table remembers: one that does not know them would forget.
DELETED_KEYS_VERSION = 3

INTS = map_of(int)
TEXTS = map_of(str)


def _zero() -> int:
    return 0


def _event(make: type, check: Any = None, **kinds: FieldKind) -> JsonShape:
    return JsonShape(make, {"type": make.__name__, "version": VERSION}, check, **kinds)


def _read_partition(found: Any, key: str) -> tuple[object, ...]:
    if any(isinstance(each, (list, dict)) for each in LIST.read(found, key)):
        raise Malformed(f"`{key}` must hold single values")
    return tuple(found)


def _read_spans(found: Any, key: str) -> dict[str, tuple[int, int]]:
    spans = {}
    for name, span in OBJECT.read(found, key).items():
        first, last = (INT.read(each, key) for each in _two(span, key))
        spans[name] = (first, last)
    return spans


def _two(span: Any, key: str) -> list[Any]:
    if len(LIST.read(span, key)) != 2:
        raise Malformed(f"`{key}` must hold pairs")
    return list(span)


def _write_spans(spans: dict[str, tuple[int, int]]) -> dict[str, list[int]]:
    return {name: list(span) for name, span in spans.items()}


def _check_part(event: DataWritten) -> None:
    if not 0 <= event.part < event.parts:
        raise Malformed(f"part {event.part} of {event.parts} does not exist")


FILE = JsonShape(
    DataFile,
    {},
    path=TEXT,
    record_count=INT,
    file_size_bytes=INT,
    spec_id=INT,
    partition=sparse(FieldKind(_read_partition, list), tuple),
    column_sizes=sparse(INTS, dict),
    value_counts=sparse(INTS, dict),
    null_value_counts=sparse(INTS, dict),
    nan_value_counts=sparse(INTS, dict),
    lower_bounds=sparse(TEXTS, dict),
    upper_bounds=sparse(TEXTS, dict),
    split_offsets=sparse(list_of(int, "integers"), tuple),
    sort_order_id=sparse(OPTIONAL_INT, lambda: None),
)
ACCOUNTING = object_of(
    JsonShape(
        Accounting,
        {},
        offsets=INT,
        written=INT,
        filtered=INT,
        dead_lettered=INT,
        dropped=INT,
        holes=INT,
        rows=INT,
        lost=optional(INT, _zero),
    )
)
POLICY = object_of(JsonShape(TableCommitPolicy, {}, interval_ms=INT, max_bytes=INT, max_rows=INT, branch=TEXT))
KEYS_FILE = JsonShape(KeysFile, {}, path=TEXT, record_count=INT, file_size_bytes=INT)
DELETED_KEYS_FILE = JsonShape(DeletedKeysFile, {}, path=TEXT, record_count=INT, file_size_bytes=INT, newest_ms=INT)
DELETED_KEYS = JsonShape(
    DeletedKeysChange,
    {},
    order_id=INT,
    known=list_of(str, "texts"),
    added=objects_of(DELETED_KEYS_FILE),
    removed=list_of(str, "texts"),
)
UPSERT = JsonShape(
    UpsertChanges,
    {},
    base_snapshot_id=OPTIONAL_INT,
    key_ids=list_of(int, "integers"),
    keys=objects_of(KEYS_FILE),
    inserted=INT,
    updated=INT,
    deleted=INT,
    tombstones=sparse(optional_object(DELETED_KEYS), lambda: None),
    copy_on_write=sparse(BOOL, lambda: False),
)
HEALTH = object_of(
    JsonShape(
        TableHealth,
        {},
        data_files=INT,
        small_files=INT,
        bytes=INT,
        rows=INT,
        deleted_rows=INT,
        delete_files=INT,
        manifests=INT,
        metadata_bytes=INT,
        snapshots=INT,
        last_maintenance_ms=OPTIONAL_INT,
        gain_files=INT,
        gain_bytes=INT,
        histogram=INTS,
        other=sparse(optional_object(JsonShape(OtherMaintainer, {}, name=TEXT, rounds=INT, last_ms=INT)), lambda: None),
        gain_rows=INT,
        gain_manifests=INT,
        gain_snapshots=INT,
    )
)
HEARTBEAT = _event(
    Heartbeat,
    pipeline=TEXT,
    run=TEXT,
    batch=INT,
    ranges=RANGES,
    totals=ACCOUNTING,
    given_up=sparse(OTHER_RANGES, tuple),
)
PAUSE_CHANGED = _event(
    PauseChanged, holds=one_of(Holds), pattern=TEXT, paused=BOOL, reason=TEXT, by=TEXT, timestamp_ms=INT
)
EVENTS = (
    HEARTBEAT,
    PAUSE_CHANGED,
    _event(
        DataWritten,
        _check_part,
        pipeline=TEXT,
        run=TEXT,
        batch=INT,
        table=TEXT,
        table_uuid=TEXT,
        schema_id=INT,
        part=INT,
        parts=INT,
        base_batch=optional(INT, _zero),
        after_batch=sparse(OPTIONAL_INT, lambda: None),
        commit=POLICY,
        ranges=RANGES,
        files=objects_of(FILE),
        keyed=sparse(optional_object(UPSERT), lambda: None),
        begun_ms=sparse(OPTIONAL_INT, lambda: None),
    ),
    _event(
        DataComplete,
        pipeline=TEXT,
        run=TEXT,
        batch=INT,
        ranges=RANGES,
        accounting=ACCOUNTING,
        totals=ACCOUNTING,
        tables=list_of(str, "text"),
        gaps=optional(RANGES, tuple),
        given_up=sparse(OTHER_RANGES, tuple),
        phase_ms=sparse(INTS, dict),
    ),
    _event(
        OffsetsSet,
        pipeline=TEXT,
        run=TEXT,
        batch=INT,
        ranges=RANGES,
        totals=ACCOUNTING,
        base_batch=INT,
        lost=INT,
        repeated=INT,
        reason=TEXT,
        timestamp_ms=INT,
        given_up=sparse(OTHER_RANGES, tuple),
    ),
    _event(
        Discarded,
        table=TEXT,
        first=INT,
        below=INT,
        announcements=INT,
        files=INT,
        rows=INTS,
        reason=TEXT,
        timestamp_ms=INT,
        table_uuids=sparse(list_of(str, "texts"), tuple),
        batches=sparse(FieldKind(_read_spans, _write_spans), dict),
    ),
    _event(Skipped, offset=INT, reason=TEXT, by=TEXT, timestamp_ms=INT),
    _event(CommitRequested, request_id=TEXT, pipeline=TEXT, deadline_ms=INT),
    _event(
        CommitToTable,
        table=TEXT,
        table_uuid=TEXT,
        snapshot_id=INT,
        commit_id=TEXT,
        control_offset=INT,
        rows=INT,
        files=INT,
        timestamp_ms=INT,
        valid_through_ms=OPTIONAL_INT,
    ),
    _event(
        CommitComplete,
        coordinator=TEXT,
        low_water=INT,
        timestamp_ms=INT,
        request_id=TEXT,
        position=INT,
        blocked=optional(TEXTS, dict),
        blocked_pipelines=optional(TEXTS, dict),
        chain=optional(map_of_objects(HEARTBEAT), dict),
        valid_through_ms=optional(INTS, dict),
        paused=optional(objects_of(PAUSE_CHANGED), tuple),
        more_blocked=optional(INT, _zero),
    ),
    _event(
        StateChanged,
        subject=one_of(Subject),
        name=TEXT,
        state=one_of(Health, but=Health.STALLED),
        reason=TEXT,
        remedy=TEXT,
        code=TEXT,
        failures=INT,
        since_ms=INT,
        timestamp_ms=INT,
        by=TEXT,
    ),
    _event(StopRequested, request_id=TEXT, pipeline=TEXT, deadline_ms=INT, by=TEXT, reason=optional(TEXT, str)),
    _event(Acted, act=TEXT, subject=TEXT, by=TEXT, why=TEXT, timestamp_ms=INT, detail=optional(TEXT, str)),
    _event(
        Deployed,
        pipeline=TEXT,
        run=TEXT,
        hash=TEXT,
        plan=OBJECT,
        floe=TEXT,
        timestamp_ms=INT,
        deployment=TEXT,
        file=sparse(TEXT, str),
    ),
    _event(TableMeasured, table=TEXT, health=HEALTH, timestamp_ms=INT, by=TEXT),
    _event(
        TableChanged,
        table=TEXT,
        pipeline=TEXT,
        run=TEXT,
        changes=list_of(str, "text"),
        cause=TEXT,
        timestamp_ms=INT,
    ),
    _event(CoordinatorAssigned, coordinator=TEXT, timestamp_ms=INT, reads_again=BOOL),
    _event(CoordinatorReleased, coordinator=TEXT, timestamp_ms=INT),
)
SHAPES: dict[str, JsonShape] = {shape.make.__name__: shape for shape in EVENTS}
