"""Control events in one line each, for tests: one topic `src` with id `src-id`, one partition unless said otherwise."""

from __future__ import annotations

from framework.commit.events.event_types import (
    Accounting,
    DataComplete,
    DataFile,
    DataWritten,
    Heartbeat,
    Holds,
    KeysFile,
    OffsetsSet,
    PauseChanged,
    SourceRange,
    TableCommitPolicy,
    UpsertChanges,
)
from framework.commit.machine.effects import ExaminedTable

TOPIC_ID = "control-id"
STEP = 10  # records per batch


def ranges(
    batch: int, topic_id: str = "src-id", start: int | None = None, end: int | None = None, ts: int | None = None
) -> tuple[SourceRange, ...]:
    first = (batch - 1) * STEP if start is None else start
    last = batch * STEP if end is None else end
    return (SourceRange("src", topic_id, 0, first, last, ts),)


def file(path: str, rows: int = STEP, size: int = 100) -> DataFile:
    return DataFile(path, rows, size, 0)


def written(
    pipeline: str,
    batch: int,
    table: str = "db.t",
    *,
    files: int = 1,
    uuid: str = "",
    schema_id: int = 0,
    interval_ms: int = 1_000,
    max_rows: int = 1_000_000,
    max_bytes: int = 1 << 40,
    branch: str = "main",
    part: int = 0,
    parts: int = 1,
    run: str = "r",
    source: tuple[SourceRange, ...] | None = None,
    paths: tuple[str, ...] | None = None,
    base_batch: int = 0,
    after_batch: int | None = None,
    keyed: bool = False,
) -> DataWritten:
    stem = f"{table}/{pipeline}-{run}-{batch}-{part}"
    names = paths or tuple(f"{stem}-{n}" for n in range(files))
    return DataWritten(
        pipeline=pipeline,
        run=run,
        batch=batch,
        table=table,
        table_uuid=uuid or f"uuid-{table}",
        schema_id=schema_id,
        files=tuple(file(name) for name in names),
        ranges=ranges(batch) if source is None else source,
        commit=TableCommitPolicy(interval_ms, max_bytes, max_rows, branch),
        part=part,
        parts=parts,
        base_batch=base_batch,
        after_batch=after_batch,
        keyed=UpsertChanges(None, (1,), (KeysFile(f"{stem}-keys", STEP, 100),)) if keyed else None,
    )


def complete(
    pipeline: str,
    batch: int,
    tables: tuple[str, ...] = ("db.t",),
    *,
    run: str = "r",
    source: tuple[SourceRange, ...] | None = None,
    given_up: tuple[SourceRange, ...] = (),
) -> DataComplete:
    spans = ranges(batch) if source is None else source
    count = sum(r.end - r.start for r in spans)
    accounting = Accounting(offsets=count, written=count, rows=count)
    return DataComplete(pipeline, run, batch, spans, accounting, accounting, tables, given_up=given_up)


def heartbeat(
    pipeline: str, batch: int, at: int, run: str = "r", source: tuple[SourceRange, ...] | None = None
) -> Heartbeat:
    spans = (SourceRange("src", "src-id", 0, at, at),) if source is None else source
    return Heartbeat(pipeline, run, batch, spans, Accounting(offsets=at, written=at))


def offsets_set(
    pipeline: str,
    batch: int,
    at: int,
    base_batch: int = 0,
    topic_id: str = "src-id",
    source: tuple[SourceRange, ...] | None = None,
    given_up: tuple[SourceRange, ...] = (),
) -> OffsetsSet:
    spans = (SourceRange("src", topic_id, 0, at, at),) if source is None else source
    return OffsetsSet(pipeline, "by hand", batch, spans, Accounting(), base_batch, 0, 0, "--from-log", 0, given_up)


def pause(pattern: str, paused: bool = True) -> PauseChanged:
    return PauseChanged(Holds.COMMITS, pattern, paused, "", "me", 0)


def view(table: str = "db.t", snapshot_id: int | None = None, **changes: object) -> ExaminedTable:
    facts: dict[str, object] = {
        "table": table,
        "table_uuid": f"uuid-{table}",
        "branch": "main",
        "snapshot_id": snapshot_id,
        "schema_id": 0,
        "progress": None,
    }
    return ExaminedTable(**{**facts, **changes})  # type: ignore[arg-type]
