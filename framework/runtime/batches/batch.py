"""One micro-batch, from task reports to the events that announce it. Pure apart from calling what it is given.

In: the reports of all tasks and the ranges the batch was to cover. Out: DataWritten and DataComplete events with the
accounting, or an error that stops the batch before anything is announced. Keeps invariant 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataFile,
    DataWritten,
    DeletedKeysChange,
    SourceRange,
    TableCommitPolicy,
    UpsertChanges,
)
from framework.commit.events.split import number_parts, split_data_written
from framework.commit.offsets import PartitionKey
from framework.config.spec import Deletes
from framework.diagnose.counted import counted
from framework.errors import AccountingError, RecordError, TooManyDeadLetters
from framework.plan.model import Plan
from framework.record.model import DeadLetter, TaskReport

MIN_RECORDS_FOR_RATIO = 1_000


@dataclass(frozen=True)
class BatchScope:
    """What a batch is: its number and, for every partition of the pipeline, where it starts and ends. `planned_ms`: no record
    in it counts as newer, however it is dated; None: as they are dated."""

    run: str
    batch: int
    starts: Mapping[PartitionKey, int]
    ends: Mapping[PartitionKey, int]
    topic_ids: Mapping[str, str]
    base_batch: int = 0
    given_up: tuple[SourceRange, ...] = ()
    planned_ms: int | None = None


@dataclass(frozen=True)
class BatchResult:
    """What is announced; `ranges` covers every partition, also those without records. `letters` has the dead letters by
    stage and code, `dropped_for` by code the dropped records that were errors. `sent_bytes` of rows crossed the
    exchange."""

    events: tuple[ControlEvent, ...]
    ranges: tuple[SourceRange, ...]
    accounting: Accounting
    totals: Accounting
    rows: dict[str, int]
    files: int
    bytes: int
    letters: Counter[tuple[str, str]] = field(default_factory=Counter)
    dropped_for: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0


def summarise(
    plan: Plan,
    scope: BatchScope,
    reports: Iterable[TaskReport],
    totals: Accounting,
    after: Mapping[str, int] | None = None,
    begun_ms: int | None = None,
) -> BatchResult:
    """Check coverage and sum, then build the events of the announcing transaction.

    Args:
        after: by table uuid the batch before this one that was announced for it, where it is known.
        begun_ms: when the first of its files may have been begun.

    Raises:
        RecordError: a record met the policy `fail`.
        TooManyDeadLetters: the dead letters passed `errors.max_ratio` or `max_count`.
        AccountingError: the slices do not cover the ranges, or the sum of invariant 8 is off.
    """
    reports = list(reports)
    for report in reports:
        if report.failure is not None:
            raise record_error(plan, report.failure)
    _check_coverage(scope, reports)
    accounting = _account(scope, reports)
    _check_files(scope, reports)
    new_totals = totals + accounting
    _check_error_limits(plan, accounting, new_totals)
    ranges = _ranges(scope, reports)
    files: dict[str, dict[tuple[str, int], list[DataFile]]] = {}
    rows: dict[str, int] = {}
    for report in reports:
        for table in report.files.keys() | report.keyed.keys():
            group = files.setdefault(table, {}).setdefault(report.targets[table], [])
            group.extend(report.files.get(table, ()))
        for table, count in report.rows.items():
            rows[table] = rows.get(table, 0) + count
    written = [
        piece
        for table in sorted(files)
        for piece in _announcements(
            plan,
            scope,
            table,
            files[table],
            ranges,
            after or {},
            upsert_changes(reports, table, plan.write.tables.policy_for(table).write.deletes),
            begun_ms,
        )
    ]
    events: list[ControlEvent] = [*number_parts(written)]
    tables = tuple(sorted(rows))
    events.append(
        DataComplete(
            plan.pipeline, scope.run, scope.batch, ranges, accounting, new_totals, tables, given_up=scope.given_up
        )
    )
    every_file = [file for groups in files.values() for group in groups.values() for file in group]
    pieces = [piece for report in reports for piece in report.slices]
    return BatchResult(
        tuple(events),
        ranges,
        accounting,
        new_totals,
        rows,
        len(every_file),
        sum(f.file_size_bytes for f in every_file),
        sum((piece.letters for piece in pieces), Counter[tuple[str, str]]()),
        sum((piece.dropped_for for piece in pieces), Counter[str]()),
        sum(report.sent_bytes for report in reports),
    )


def summarise_gaps(plan: Plan, scope: BatchScope, gaps: tuple[SourceRange, ...], totals: Accounting) -> BatchResult:
    """The batch that records what retention removed before it was read: no files, every offset of it `lost`."""
    lost = sum(gap.end - gap.start for gap in gaps)
    accounting = Accounting(offsets=lost, lost=lost)
    ranges = _ranges(scope, [])
    complete = DataComplete(
        plan.pipeline,
        scope.run,
        scope.batch,
        ranges,
        accounting,
        totals + accounting,
        gaps=gaps,
        given_up=scope.given_up,
    )
    return BatchResult((complete,), ranges, accounting, totals + accounting, {}, 0, 0)


def _announcements(
    plan: Plan,
    scope: BatchScope,
    table: str,
    groups: Mapping[tuple[str, int], list[DataFile]],
    ranges: tuple[SourceRange, ...],
    after: Mapping[str, int],
    keyed: UpsertChanges | None,
    begun_ms: int | None,
) -> list[DataWritten]:
    """One DataWritten a schema that files were written for, each split below the size limit."""
    commit = plan.commit.tables.policy_for(table).commit
    # Invariant 17: the next batch waits for the commit of this one, and comes when the interval has passed. So what is
    # announced is due at once, for all of the pipeline's tables.
    interval_ms = 0 if plan.is_upserted else commit.interval_ms
    policy = TableCommitPolicy(interval_ms, commit.max_bytes, commit.max_rows, commit.branch)
    return [
        piece
        for (table_uuid, schema_id), group in groups.items()
        for piece in split_data_written(
            DataWritten(
                plan.pipeline,
                scope.run,
                scope.batch,
                table,
                table_uuid,
                schema_id,
                tuple(group),
                ranges,
                policy,
                base_batch=scope.base_batch,
                after_batch=after.get(table_uuid),
                keyed=keyed,
                begun_ms=begun_ms,
            )
        )
    ]


def upsert_changes(reports: Iterable[TaskReport], table: str, deletes: Deletes = Deletes.AUTO) -> UpsertChanges | None:
    """What the batch does to an upsert table, over all tasks; None for a table that is appended to."""
    parts = [report.keyed[table] for report in reports if table in report.keyed]
    if not parts:
        return None
    return UpsertChanges(
        parts[0].base_snapshot_id,
        parts[0].key_ids,
        tuple(part.keys for part in parts),
        inserted=sum(part.inserted for part in parts),
        updated=sum(part.updated for part in parts),
        deleted=sum(part.deleted for part in parts),
        tombstones=_deleted_keys([part.tombstones for part in parts if part.tombstones is not None]),
        copy_on_write=deletes is Deletes.COPY_ON_WRITE,
    )


def _deleted_keys(parts: Sequence[DeletedKeysChange]) -> DeletedKeysChange | None:
    """What all tasks say of deleted keys; what was made before the batch each of them says."""
    if not parts:
        return None
    added = dict.fromkeys(file for part in parts for file in part.added)
    return replace(parts[0], added=tuple(added))


def _check_coverage(scope: BatchScope, reports: list[TaskReport]) -> None:
    done: dict[PartitionKey, list[tuple[int, int]]] = {}
    for report in reports:
        for piece in report.slices:
            s = piece.slice
            done.setdefault((s.topic, s.partition), []).append((s.start, s.end))
    for key, end in scope.ends.items():
        at = scope.starts[key]
        for start, stop in sorted(done.get(key, [])):
            if start != at:
                break
            at = stop
        if at != end:
            raise AccountingError(
                f"batch {scope.batch} was to cover {key[0]}-{key[1]} from {scope.starts[key]} to {end}, "
                f"its tasks reported {sorted(done.get(key, []))}",
                place=f"{key[0]}-{key[1]}",
                remedy="nothing was announced; the batch is tried again. If this repeats, report it with the driver's log",
            )


def _account(scope: BatchScope, reports: list[TaskReport]) -> Accounting:
    total = Accounting()
    for report in reports:
        for p in report.slices:
            offsets = p.slice.end - p.slice.start
            line = Accounting(offsets, p.written, p.filtered, p.dead_lettered, p.dropped, p.holes)
            if not _adds_up(line):  # Invariant 8: a batch whose sum is off is not announced.
                raise AccountingError(
                    f"offsets {p.slice.start} to {p.slice.end} of {p.slice.topic}-{p.slice.partition} are {offsets}, "
                    f"but the task accounts for {offsets - line.difference} ({line})",
                    place=f"{p.slice.topic}-{p.slice.partition}",
                    remedy="nothing was announced; the batch is tried again. If this repeats, report it with the driver's log",
                )
            total = total + line
        total = total + Accounting(rows=sum(report.rows.values()))
    return total


def _adds_up(line: Accounting) -> bool:
    """Whether the sum holds, and not because two errors cancel out."""
    parts = (line.written, line.filtered, line.dead_lettered, line.dropped, line.holes)
    return line.difference == 0 and min(parts) >= 0


def _check_files(scope: BatchScope, reports: list[TaskReport]) -> None:
    """The files of a table hold the rows that tasks counted for it: who counts a row need not be who writes it. Where
    it is an upsert table, every change that was counted reached a writer, and the files hold its inserted and
    updated keys."""
    reported: Counter[str] = Counter()
    held: Counter[str] = Counter()
    arrived: Counter[str] = Counter()
    winners: Counter[str] = Counter()
    found_at: dict[str, set[tuple[object, ...]]] = {}
    for report in reports:
        reported.update(report.rows)
        held.update({table: sum(file.record_count for file in files) for table, files in report.files.items()})
        for table, part in report.keyed.items():
            arrived[table] += part.changes
            winners[table] += part.inserted + part.updated
            found_at.setdefault(table, set()).add((part.base_snapshot_id, part.key_ids, report.targets[table]))
    for table in sorted(reported.keys() | held.keys() | arrived.keys()):
        if table not in found_at:
            _check_equal(scope, table, f"the files for {table} hold", held[table] - reported[table], "row")
            continue
        _check_equal(scope, table, f"writers of {table} got", arrived[table] - reported[table], "change")
        _check_equal(scope, table, f"the files for {table} hold", held[table] - winners[table], "row")
        # Two bases, or two schemas, would be two answers to which change of a key is the newest.
        _check_equal(
            scope, table, f"rows of {table} were looked for in", len(found_at[table]) - 1, "state of it", "states of it"
        )


def _check_equal(scope: BatchScope, table: str, who: str, difference: int, thing: str, plural: str = "") -> None:
    if difference:
        raise AccountingError(
            f"batch {scope.batch}: {who} {counted(abs(difference), thing, plural)} "
            f"{'fewer' if difference < 0 else 'more'} than its tasks counted",
            place=table,
            remedy="nothing was announced; the batch is tried again. If this repeats, report it with the driver's log",
        )


def _check_error_limits(plan: Plan, batch: Accounting, totals: Accounting) -> None:
    ratio, count = plan.write.max_error_ratio, plan.write.max_error_count
    records = batch.offsets - batch.holes
    look = "`floe run` announced nothing of the batch; look at the producer, and at `floe dlq stats FILE`"
    if ratio is not None and records >= MIN_RECORDS_FOR_RATIO and batch.dead_lettered > ratio * records:
        raise TooManyDeadLetters(
            f"{batch.dead_lettered:,} of {records:,} records of this batch are dead letters; errors.max_ratio is {ratio}",
            code="FLOE-R322",
            place=plan.pipeline,
            remedy=f"{look}, or raise errors.max_ratio",
        )
    if count is not None and totals.dead_lettered > count:
        raise TooManyDeadLetters(
            f"{counted(totals.dead_lettered, 'dead letter')} since the pipeline first ran; errors.max_count is {count:,}",
            code="FLOE-R323",
            place=plan.pipeline,
            remedy=f"{look}, or raise errors.max_count",
        )


def _ranges(scope: BatchScope, reports: list[TaskReport]) -> tuple[SourceRange, ...]:
    newest: dict[PartitionKey, int] = {}
    for report in reports:
        for piece in report.slices:
            key = (piece.slice.topic, piece.slice.partition)
            if (seen_ms := piece.max_timestamp_ms) is not None:
                seen_ms = seen_ms if scope.planned_ms is None else min(seen_ms, scope.planned_ms)
                newest[key] = max(newest.get(key, seen_ms), seen_ms)
    return tuple(
        SourceRange(key[0], scope.topic_ids[key[0]], key[1], scope.starts[key], end, newest.get(key))
        for key, end in sorted(scope.ends.items())
    )


def record_error(plan: Plan, dead_letter: DeadLetter) -> RecordError:
    """The error for the first record that the policy `fail` stops at."""
    place = f"{dead_letter.topic}-{dead_letter.partition} offset {dead_letter.offset}"
    field = (
        f" (field {dead_letter.field_path}: expected {dead_letter.expected}, got {dead_letter.actual})"
        if dead_letter.field_path
        else ""
    )
    return RecordError(
        f"a record failed at stage {dead_letter.stage}: {dead_letter.message}{field}",
        code=dead_letter.code,
        place=place,
        remedy="fix the producer, or set errors.policy (or routes.unrouted) to dead_letter or drop; "
        "nothing of the batch was announced",
        reported=f"a record failed at stage {dead_letter.stage} ({place}); the run's own log says what is wrong with it",
    )
