"""The tables' queues of announcements: what is put in, what leaves them, and what memory does not hold.

In: announcements in log order, and what a person or the log says of them. Out: tables with their queues and sums. Keeps
what the prefix rule stands on: a queue is in log order and has no gap, and an announcement leaves it only when its
table's metadata says that it is in the table, when its batch is none, or when a person gave it up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from framework.commit.events.event_types import DataWritten, Discarded, Holds
from framework.commit.machine.changed import changed
from framework.commit.machine.effects import LoadTable
from framework.commit.machine.fifo import Fifo
from framework.commit.machine.model import Announcement, CoordinatorState, Settled, TablePhase, TableState, Unread
from framework.commit.machine.pauses import holding
from framework.commit.machine.step_draft import StepDraft


def queue_announcement(table: TableState, announcement: Announcement, now_ms: int) -> TableState:
    """The table with one more announcement at the end of its queue."""
    event = announcement.event
    return changed(
        table,
        policy=event.commit,
        pending=table.pending.append(announcement),
        pending_rows=table.pending_rows + event.rows,
        pending_bytes=table.pending_bytes + event.bytes,
        pending_files=table.pending_files + len(event.files),
        first_pending_ms=table.first_pending_ms if table.pending else now_ms,
        newest={**table.newest, event.pipeline: announcement.offset},
        first_batches=_with_first(table, event),
    )


def _with_first(table: TableState, event: DataWritten) -> dict[str, int]:
    if event.pipeline in table.first_batches:
        return table.first_batches
    return {**table.first_batches, event.pipeline: event.batch}


def drop_announcements(table: TableState, count: int, now_ms: int) -> TableState:
    """The table without the first `count` announcements of its queue; failures end with the last of them."""
    if not count:
        return table
    rows = size = files = 0
    for index in range(count):
        event = table.pending[index].event
        rows += event.rows
        size += event.bytes
        files += len(event.files)
    pending = table.pending.drop(count)
    return changed(
        table,
        pending=pending,
        pending_rows=table.pending_rows - rows,
        pending_bytes=table.pending_bytes - size,
        pending_files=table.pending_files - files,
        first_pending_ms=now_ms,
        failures=table.failures if pending else 0,
        failure=table.failure if pending else "",
        conflicts=table.conflicts if pending else 0,
    )


def enqueue(turn: StepDraft, announcement: Announcement) -> None:
    """An announcement that was read: behind the others of its table, or counted only where memory must be spared.

    Invariant 3: progress belongs to a physical table, so its uuid says which queue is its own, whatever name it goes
    by.
    """
    event = announcement.event
    name = queue_of(turn, event)
    table = turn.state.tables.get(name)
    if table is None:
        known = turn.state.last_commits.get(name)
        last_commit_ms = min(known.timestamp_ms, turn.now_ms) if known is not None else None
        table = TableState(name, event.commit.branch, event.commit, last_commit_ms=last_commit_ms)
        turn.emit(LoadTable(table.table, table.branch))
    elif announcement.offset < table.recorded:
        if not is_later(announcement.leader_epoch, table.recorded_epoch):
            return  # Invariant 5: the table says that it is in
        if (
            table.phase is not TablePhase.LOADING
        ):  # the log was cut off and written anew: to be found when it is examined
            table = changed(table, phase=TablePhase.LOADING, view=None, attempt=None, retry_at_ms=None)
            turn.emit(LoadTable(table.table, table.branch))
    if event.table not in table.names:
        table = changed(table, names=table.names | {event.table})
    if _must_not_be_kept(turn.state, table):
        turn.put_table(_without_keeping(table, announcement.offset, event))
        return
    turn.put_table(queue_announcement(table, announcement, turn.now_ms))


def queue_of(turn: StepDraft, event: DataWritten) -> str:
    """The name under which the queue of a physical table stands: the first that it was announced under."""
    name = turn.state.queues.get(event.table_uuid)
    if name is None:
        name = event.table
        turn.put_queue(event.table_uuid, name)
    return name


def is_later(epoch: int | None, recorded: int | None) -> bool:
    """Whether a record was written under a later leader than any that had written when `recorded` was noted: if it
    stands below what had been read by then, the log was cut off and written anew."""
    return epoch is not None and recorded is not None and epoch > recorded


def _must_not_be_kept(state: CoordinatorState, table: TableState) -> bool:
    """Back-pressure: a table that is blocked, failing or paused keeps a bounded queue, and at least one announcement,
    so that a commit of it shows that it can be drained before the rest is read again. The order has no gap: once one
    announcement was not kept, none after it is."""
    if table.unread is not None:
        return True
    if not table.pending:
        return False
    cannot_be_drained = (
        table.phase is TablePhase.PAUSED or holding(state.pauses, Holds.COMMITS, table.table) is not None
    )
    full = table.pending_files >= state.limits.undrained_files or state.pending_files >= state.limits.pending_files
    return cannot_be_drained and full


def _without_keeping(table: TableState, offset: int, event: DataWritten) -> TableState:
    unread = table.unread or Unread(offset)
    return changed(
        table,
        unread=Unread(
            unread.offset,
            unread.announcements + 1,
            unread.rows + event.rows,
            unread.bytes + event.bytes,
            unread.files + len(event.files),
        ),
        newest={**table.newest, event.pipeline: offset},
        first_batches=_with_first(table, event),
    )


def seen_earlier(turn: StepDraft, by_ms: int) -> None:
    """The clock was set back: by it, what waits was not there yet at a moment that is as much earlier, or its files would
    look younger than they are, and others may have removed them as orphans."""
    for table in list(turn.state.tables.values()):
        if table.pending:
            earlier = (
                a if a.after_ms is None else replace(a, after_ms=a.after_ms - by_ms) for a in iter(table.pending)
            )
            turn.put_table(changed(table, pending=Fifo(earlier)))


def batch_of(event: DataWritten) -> tuple[str, str, int]:
    """What the announcements of one batch have in common."""
    return event.pipeline, event.run, event.batch


def discard(turn: StepDraft, offset: int, event: Discarded) -> None:
    """A person gave up what waits for a table: the one way besides the table's own metadata in which announcements
    leave its queue. What lies in front of them was in the table when that was decided, so the table is not held by
    it."""
    by_uuid = (turn.state.tables.get(turn.state.queues.get(uuid, "")) for uuid in event.table_uuids)
    found = {table.table: table for table in (turn.state.table_named(event.table), *by_uuid) if table is not None}
    for table in found.values():
        _discard(turn, table, offset, event)


def _discard(turn: StepDraft, table: TableState, offset: int, event: Discarded) -> None:
    if event.batches:
        table = changed(table, discarded=table.discarded | {(name, *span) for name, span in event.batches.items()})
        turn.put_table(table)
    elif event.first < max(turn.state.begin, turn.state.floor):
        # An event of an older version names no batches, and some of them stand where this coordinator queued nothing.
        table = changed(table, settled=(*table.settled, *(Settled(name, offset) for name in event.rows)))
        turn.put_table(table)
    kept = [a for a in table.pending if not event.first <= a.offset < event.below]
    table = _without_missing(table, [a for a in table.pending if event.first <= a.offset < event.below])
    unread = table.unread
    if unread is not None and event.first <= unread.offset < event.below:
        behind = any(newest >= event.below for newest in table.newest.values())
        unread = changed(unread, offset=event.below) if behind else None
    if len(kept) < len(table.pending) or unread != table.unread:
        table = changed(table, unread=unread)
        retry_at_ms = turn.now_ms if table.retry_at_ms is not None else None
        turn.put_table(changed(_with_pending(table, kept), blocked=None, examinations=0, retry_at_ms=retry_at_ms))


def settle(turn: StepDraft, pipeline: str, offset: int, read_from: Mapping[tuple[str, int], int]) -> None:
    """A pipeline reads again from there on: no table is held for what it lacks of that, also where this coordinator
    queued nothing of it."""
    for table in list(turn.state.tables.values()):
        if pipeline in table.newest:
            turn.put_table(changed(table, settled=(*table.settled, Settled(pipeline, offset, read_from))))


def forget(
    turn: StepDraft,
    pipeline: str,
    begin: int,
    end: int,
    read_from: Mapping[tuple[str, int], int] | None = None,
    repeated: bool = False,
) -> dict[str, int]:
    """Take a pipeline's announcements of [begin, end) out of the queues; by table, how many they were. With `read_from`
    (by topic id and partition) only those whose records are all read again from there. The table need not hold them any
    more, unless they are `repeated`: then what they repeat is announced as well."""

    def goes(a: Announcement) -> bool:
        if a.event.pipeline != pipeline or not begin <= a.offset < end:
            return False
        return read_from is None or all(
            read_from.get((r.topic_id, r.partition), r.end) <= r.start for r in a.event.ranges if r.start < r.end
        )

    dropped: dict[str, int] = {}
    for name, table in list(turn.state.tables.items()):
        if table.newest.get(pipeline, -1) < begin:
            continue
        kept = [a for a in table.pending if not goes(a)]
        count = len(table.pending) - len(kept)
        if count:
            dropped[name] = count
            gone = [a for a in table.pending if goes(a)] if not repeated else []
            turn.put_table(_with_pending(_without_missing(table, gone), kept))
    return dropped


def _without_missing(table: TableState, gone: Sequence[Announcement]) -> TableState:
    """The table, which need not hold these announcements any more."""
    return changed(table, given_up=table.given_up | {(a.event.pipeline, a.event.batch) for a in gone})


def _with_pending(table: TableState, kept: Sequence[Announcement]) -> TableState:
    """The table with these of its announcements alone."""
    return changed(
        table,
        pending=Fifo(kept),
        pending_rows=sum(a.event.rows for a in kept),
        pending_bytes=sum(a.event.bytes for a in kept),
        pending_files=sum(len(a.event.files) for a in kept),
    )
