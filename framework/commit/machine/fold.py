"""Folds the control topic, one event after another, in offset order.

In: an offset and its event (or None). Out: changes to the draft: announcements queued per table (`queues`),
pipelines' chains, requests. Keeps invariant 2: a batch counts once its DataComplete is folded and fits the chain.
"""

from __future__ import annotations

from framework.commit.dead_letter_replay import is_replay
from framework.commit.events.event_types import (
    CommitComplete,
    CommitRequested,
    CommitToTable,
    DataComplete,
    DataWritten,
    Discarded,
    Heartbeat,
    OffsetsSet,
    PauseChanged,
    StateChanged,
    Subject,
)
from framework.commit.machine.changed import changed
from framework.commit.machine.effects import LoadTable, Read
from framework.commit.machine.model import Announcement, CommitRequest, OpenBatch, PipelineState, TablePhase
from framework.commit.machine.pauses import with_pause, with_repeated
from framework.commit.machine.progress.chain import Fit, check_link, next_link, says_all_is_read, settled_link
from framework.commit.machine.queues import discard, enqueue, forget, settle
from framework.commit.machine.step_draft import StepDraft


def fold(turn: StepDraft, record: Read) -> None:
    """One committed control record. Offsets below the position were folded before and change nothing."""
    offset, event = record.offset, record.event
    if offset < turn.state.position:
        return
    turn.set(position=offset + 1, records_end=offset + 1, settled=False)
    epoch = record.leader_epoch
    if epoch is not None and epoch != turn.state.leader_epoch:
        turn.set(leader_epoch=max(epoch, turn.state.leader_epoch or 0))
    if isinstance(event, DataWritten):
        _data_written(turn, Announcement(offset, event, record.timestamp_ms, epoch, record.after_ms))
    elif isinstance(event, DataComplete | Heartbeat):
        _link(turn, offset, event)
    elif isinstance(event, OffsetsSet):
        _offsets_set(turn, offset, event)
    elif isinstance(event, Discarded):
        discard(turn, offset, event)
    elif isinstance(event, CommitRequested):
        _commit_requested(turn, record, event)
    elif isinstance(event, CommitToTable):
        _commit_to_table(turn, offset, event)
    elif isinstance(event, CommitComplete):
        _commit_complete(turn, offset, event)
    elif isinstance(event, PauseChanged):
        turn.set(pauses=with_pause(turn.state.pauses, offset, event))
    elif isinstance(event, StateChanged) and event.subject is Subject.TABLE:
        turn.set(reports={**turn.state.reports, event.name: event})


def _data_written(turn: StepDraft, announcement: Announcement) -> None:
    offset, event = announcement.offset, announcement.event
    pipeline = turn.state.pipelines.get(event.pipeline) or PipelineState(event.pipeline)
    batch = pipeline.open
    if batch is not None and (batch.run, batch.batch) != (event.run, event.batch):
        pipeline = _break(
            pipeline, batch.first_offset, f"batch {event.batch} began before batch {batch.batch} was complete"
        )
        batch = None
    if batch is None:
        batch = OpenBatch(event.run, event.batch, offset, _link_before(pipeline, offset))
    batch = changed(batch, parts=batch.parts.append((event.table, event.table_uuid, event.part, event.parts)))
    turn.put_pipeline(changed(pipeline, open=batch, last_offset=offset))
    if offset >= turn.state.floor:  # what is below the low-water mark is in every table
        enqueue(turn, announcement)


def _link(turn: StepDraft, offset: int, event: DataComplete | Heartbeat) -> None:
    pipeline = turn.state.pipelines.get(event.pipeline) or PipelineState(event.pipeline)
    if pipeline.broken is not None:
        turn.put_pipeline(changed(pipeline, last_offset=offset, open=None))
        return
    batch = pipeline.open
    before = batch.link_before if batch is not None else _link_before(pipeline, offset)
    pipeline = changed(pipeline, anchors=pipeline.anchors.append((offset, before)))
    if offset < turn.state.floor:
        # Read again for the chain's sake only: what is below the low-water mark was found good before.
        if pipeline.link is None or pipeline.link.batch < event.batch:
            pipeline = changed(
                pipeline, link=next_link(pipeline.link, event), link_offset=offset, confirmed_below=offset
            )
        turn.put_pipeline(changed(pipeline, last_offset=offset, open=None))
        return
    first_offset = batch.first_offset if batch is not None else offset
    verdict = check_link(pipeline.link, event)
    reason = verdict.reason if verdict.fit is Fit.BROKEN else _incomplete(pipeline, event)
    first = pipeline.link is None and not is_replay(pipeline.pipeline)  # a replay goes on from what its tables record
    if first and turn.state.begin == 0 and event.batch > 1:
        # The whole log was read and has no batch before: it was cut off, or what it held was lost with a disk.
        reason = f"its first announcement in the control topic is batch {event.batch}: those before it were lost"
    if reason:
        # Invariant 2: nothing of this batch or of a later one is committed, and no table's progress passes it.
        pipeline = _break(pipeline, first_offset, reason)
    elif verdict.fit is Fit.REPEAT:
        count = _forget_batch(turn, pipeline, offset)
        pipeline = changed(pipeline, repeats=pipeline.repeats + count, confirmed_below=offset)
    else:
        pipeline = changed(
            _advance_valid_through(pipeline, event),
            link=next_link(pipeline.link, event),
            link_offset=offset,
            confirmed_below=offset,
        )
        turn.set(unreported=turn.state.unreported | {pipeline.pipeline})
    turn.put_pipeline(changed(pipeline, last_offset=offset, open=None))


def _offsets_set(turn: StepDraft, offset: int, event: OffsetsSet) -> None:
    """Invariant 2: the chain goes on where a person said, in the transaction that moved the group's offsets there.

    What waits of a broken chain was never in a table and will be read again from the new offsets, or was given up by
    name; what waits of a sound batch that begins there or later is read again, too: it must not be committed as well.
    """
    pipeline = turn.state.pipelines.get(event.pipeline) or PipelineState(event.pipeline)
    if pipeline.link is not None and event.batch <= pipeline.link.batch:
        turn.put_pipeline(changed(pipeline, last_offset=offset))
        return
    before = _link_before(pipeline, offset)
    if pipeline.broken_offset is not None:
        before = min(before, pipeline.broken_offset)
    forget(turn, pipeline.pipeline, pipeline.confirmed_below, offset)
    read_from = {(r.topic_id, r.partition): r.end for r in event.ranges}
    forget(turn, pipeline.pipeline, 0, offset, read_from)
    settle(turn, pipeline.pipeline, offset, read_from)
    turn.put_pipeline(
        changed(
            pipeline,
            link=settled_link(event, pipeline.link),
            link_offset=offset,
            anchors=pipeline.anchors.append((offset, before)),
            last_offset=offset,
            confirmed_below=offset,
            open=None,
            broken=None,
            broken_offset=None,
        )
    )
    turn.set(unreported=turn.state.unreported | {pipeline.pipeline})


def _link_before(pipeline: PipelineState, offset: int) -> int:
    """Where a reader has to begin to see the link that a batch which begins at `offset` must follow."""
    return pipeline.link_offset if pipeline.link is not None else offset


def _incomplete(pipeline: PipelineState, event: DataComplete | Heartbeat) -> str:
    """Why the folded announcements are not the whole batch; "" when they are, or when reading began inside of it."""
    batch = pipeline.open
    if batch is not None and (isinstance(event, Heartbeat) or (batch.run, batch.batch) != (event.run, event.batch)):
        return f"batch {event.batch} ended while batch {batch.batch} was not complete"
    if pipeline.link is None or isinstance(event, Heartbeat):
        return ""
    parts = list(batch.parts) if batch is not None else []
    announced = {table for table, _, _, _ in parts}
    if announced != set(event.tables):
        missing = ", ".join(sorted(announced ^ set(event.tables)))
        return f"batch {event.batch} names other tables than it announced files for: {missing}"
    expected = {(uuid, part) for _, uuid, _, total in parts for part in range(total)}
    if expected != {(uuid, part) for _, uuid, part, _ in parts}:
        return f"parts of an announcement of batch {event.batch} are missing"
    return ""


def _break(pipeline: PipelineState, offset: int, reason: str) -> PipelineState:
    if pipeline.broken is not None:
        return pipeline
    return changed(pipeline, broken=reason, broken_offset=offset)


def _forget_batch(turn: StepDraft, pipeline: PipelineState, offset: int) -> int:
    """Invariant 5: a batch that repeats what was announced before adds nothing. Returns the announcements dropped."""
    batch = pipeline.open
    if batch is None:
        return 0
    dropped = forget(turn, pipeline.pipeline, batch.first_offset, offset, repeated=True)
    for name, count in dropped.items():
        table = turn.state.tables[name]
        turn.put_table(changed(table, repeats=table.repeats + count))
    return sum(dropped.values())


def _advance_valid_through(pipeline: PipelineState, event: DataComplete | Heartbeat) -> PipelineState:
    """Valid-through: no record older than this is still to come, as far as the source was read when it was planned.

    A batch sets it to the least of its partitions' highest timestamps; partitions without records in the batch had
    nothing to read and hold nothing back. A heartbeat with a batch number of its own says that every partition had
    nothing to read: the highest timestamp ever announced counts. It never moves back. With partitions that the chain did
    not name, it says where these are read from.
    """
    if isinstance(event, Heartbeat) and pipeline.link is not None and not says_all_is_read(pipeline.link, event):
        return pipeline
    if isinstance(event, Heartbeat):
        reached = pipeline.newest_ms
        newest = pipeline.newest_ms
    else:
        seen = [r.max_timestamp_ms for r in event.ranges if r.start < r.end and r.max_timestamp_ms is not None]
        reached = min(seen, default=None)
        newest = _later(pipeline.newest_ms, max(seen, default=None))
    return changed(pipeline, newest_ms=newest, valid_through_ms=_later(pipeline.valid_through_ms, reached))


def _later(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


def _commit_requested(turn: StepDraft, record: Read, event: CommitRequested) -> None:
    """The deadline is meant by the clock of whoever asks, and so is the record's time: the time between the two counts
    from now on, by ours. A request of long ago is not answered again; how long ago it was, two clocks may tell
    differently."""
    timeout_ms = event.deadline_ms - (turn.now_ms if record.timestamp_ms is None else record.timestamp_ms)
    old = not turn.state.caught_up and turn.now_ms > event.deadline_ms + turn.state.limits.clocks_apart_ms
    if event.request_id and event.request_id not in turn.state.requests and not old:
        deadline_ms = turn.now_ms + max(0, timeout_ms)
        turn.put_request(CommitRequest(event.request_id, record.offset, event.pipeline, deadline_ms))


def _commit_to_table(turn: StepDraft, offset: int, event: CommitToTable) -> None:
    """Shown by status, and a new coordinator counts the table's interval from it. A table that records less than this
    was put back since: what was examined of it before is looked at again."""
    turn.set(last_commits={**turn.state.last_commits, event.table: event})
    reached = min(event.control_offset, offset)
    if reached > turn.state.committed.get(event.table_uuid, 0):
        turn.set(committed={**turn.state.committed, event.table_uuid: reached})
        queue = turn.state.tables.get(turn.state.queues.get(event.table_uuid, ""))
        if queue is not None and queue.phase is TablePhase.READY and queue.recorded < reached:
            turn.put_table(changed(queue, phase=TablePhase.LOADING, view=None))
            turn.emit(LoadTable(queue.table, queue.branch))
    table = turn.state.tables.get(event.table)
    if table is not None and table.last_commit_ms is None:
        turn.put_table(changed(table, last_commit_ms=min(event.timestamp_ms, turn.now_ms)))


def _commit_complete(turn: StepDraft, offset: int, event: CommitComplete) -> None:
    if event.request_id:
        turn.drop_request(event.request_id)
    proof = turn.state.needs_proof
    if proof is not None and event.low_water >= proof:
        # Invariant 6: what is missing in front of the log's start is in every table.
        turn.set(needs_proof=None)
    for name, reached in event.valid_through_ms.items():
        pipeline = turn.state.pipelines.get(name) or PipelineState(name)
        turn.put_pipeline(
            changed(
                pipeline,
                newest_ms=_later(pipeline.newest_ms, reached),
                valid_through_ms=_later(pipeline.valid_through_ms, reached),
                visible_through_ms=_later(pipeline.visible_through_ms, reached),
            )
        )
    if event.position >= turn.state.begin:
        if event.paused:
            turn.set(pauses=with_repeated(turn.state.pauses, offset, event, turn.state.stored_low_water or 0))
        for link in event.chain.values():
            _carry(turn, event.position, link)


def _carry(turn: StepDraft, position: int, link: Heartbeat) -> None:
    """A CommitComplete repeats where a chain ended at `position`: a reader that begins there sees it.

    Reading began at or before `position`, and nothing of the pipeline was seen behind it: then it is the newest link,
    whoever published it and however late.
    """
    pipeline = turn.state.pipelines.get(link.pipeline) or PipelineState(link.pipeline)
    if pipeline.last_offset >= position or pipeline.broken is not None or pipeline.open is not None:
        return
    if pipeline.link is None or pipeline.link.batch < link.batch:
        turn.put_pipeline(changed(pipeline, link=link, link_offset=position))
    elif (pipeline.link.batch, pipeline.link.ranges) == (link.batch, link.ranges):
        turn.put_pipeline(changed(pipeline, link_offset=max(pipeline.link_offset, position)))
