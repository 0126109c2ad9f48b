"""When a table is examined, when it is committed, and what an outcome means for it.

In: the draft of the state and one table. Out: LoadTable and CommitTable effects, and the table's next phase. Keeps
invariant 4 (a commit is decided from one examined view and conditional on it; after a conflict everything is examined
again), invariant 10 (a table in trouble waits alone, with its reason, and is examined again by itself) and the rule
that one commit at most is in flight per table. Announcements are never given up.
"""

from __future__ import annotations

from zlib import crc32

from framework.commit.events.event_types import CommitToTable, Holds
from framework.commit.machine.changed import changed
from framework.commit.machine.effects import CommitTable, ExaminedTable, LoadTable, Publish
from framework.commit.machine.model import Attempt, CommitRequest, CoordinatorState, TablePhase, TableState
from framework.commit.machine.pauses import holding
from framework.commit.machine.progress.examine import first_obstacle, log_end, trouble
from framework.commit.machine.progress.prefix import Prefix, take_prefix
from framework.commit.machine.queues import drop_announcements
from framework.commit.machine.reporting.blocked_remedies import FILES_GONE
from framework.commit.machine.step_draft import StepDraft
from framework.diagnose.shown import argument


def due_at_ms(state: CoordinatorState, table: TableState) -> int | None:
    """When a table in phase READY is to be committed: 0 for now, None while something else has to happen first."""
    first = table.pending.first
    if table.phase is not TablePhase.READY or first is None or state.needs_proof is not None:
        return None
    if reads_first(state, table):
        return None
    if table.stalled_at == state.position or holding(state.pauses, Holds.COMMITS, table.table) is not None:
        return None
    pipeline = state.pipelines.get(first.event.pipeline)
    if pipeline is None or first.offset >= pipeline.confirmed_below:
        return None
    policy = table.policy
    if (
        table.pending_rows >= policy.max_rows
        or table.pending_bytes >= policy.max_bytes
        or table.pending_files >= state.limits.commit_files
        or state.pending_files > state.limits.pending_files
        or any(covers(request, table) for request in state.requests.values())
    ):
        return 0
    return 0 if table.last_commit_ms is None else table.last_commit_ms + policy.interval_ms


def reads_first(state: CoordinatorState, table: TableState) -> bool:
    """Whether the log is to be read to its end before a table is committed to: what stands further on may take back
    what waits (`OffsetsSet`), or tell of a commit to a table that records nothing (its record may have been taken
    away). As far as memory has room for what waits: a log that is longer is committed in pieces."""
    if state.pending_files > state.limits.pending_files:
        return False
    nothing_recorded = table.view is not None and table.view.progress is None
    to_read = state.log_end is not None and state.position < state.log_end
    return not state.caught_up or (nothing_recorded and to_read)


def covers(request: CommitRequest, table: TableState) -> bool:
    """Whether a request still waits for this table."""
    first = table.first_offset
    if request.answered_ms is not None or first is None or first >= request.offset:
        return False
    return request.pipeline == "" or table.newest.get(request.pipeline, -1) >= first


def consider(turn: StepDraft, name: str) -> None:
    """Examine or commit a table if it is time to."""
    table = turn.state.tables.get(name)
    if table is None:
        return
    if table.phase is TablePhase.PAUSED and table.retry_at_ms is not None and table.retry_at_ms <= turn.now_ms:
        _load(turn, table)
        return
    state = turn.state
    if _can_read_again(state, table):
        turn.set(wants_again=table.table)
        return
    due = due_at_ms(state, table)
    if due is None or due > turn.now_ms or table.view is None:
        return
    prefix = take_prefix(
        table,
        table.view,
        state.pipelines,
        state.control_topic_id,
        # Invariant 3: what was not kept stands behind the queue, and progress must not pass it.
        state.position if table.unread is None else table.unread.offset,
        state.limits.commit_files,
        state.leader_epoch,
        turn.now_ms,
        state.limits.examine_after_ms,
    )
    if prefix.files or prefix.keyed:
        _commit(turn, table, table.view, prefix)
    elif prefix.taken:
        # Only repeats: the records are in the table, so nothing is added and no empty snapshot is made.
        table = drop_announcements(table, prefix.taken, turn.now_ms)
        turn.put_table(changed(table, repeats=table.repeats + prefix.repeats))
        consider(turn, name)
    elif prefix.blocked is not None:
        _block(turn, table, prefix.blocked)
    elif table.pending[0].event.commit.branch != table.branch:
        _load(turn, changed(table, branch=table.pending[0].event.commit.branch))
    elif table.unread is not None:
        turn.set(wants_again=table.table)  # the other parts of its first batch were not kept
    else:
        # Parts of its first batch have the announcement of an open batch between them: not before something is folded.
        turn.put_table(changed(table, stalled_at=state.position))


def _can_read_again(state: CoordinatorState, table: TableState) -> bool:
    """Whether everything that was kept is in the table, so that the rest of its announcements is wanted."""
    held = holding(state.pauses, Holds.COMMITS, table.table) is not None
    return table.unread is not None and not table.pending and table.phase is TablePhase.READY and not held


def _load(turn: StepDraft, table: TableState) -> None:
    turn.put_table(changed(table, phase=TablePhase.LOADING, view=None, retry_at_ms=None))
    turn.emit(LoadTable(table.table, table.branch))


def _commit(turn: StepDraft, table: TableState, view: ExaminedTable, prefix: Prefix) -> None:
    number = turn.state.commits + 1
    turn.set(commits=number)
    commit_id = f"{turn.state.coordinator}.{prefix.through}.{turn.now_ms}.{number}"
    valid_through = _valid_through(turn, table, prefix)
    attempt = Attempt(commit_id, prefix.through, turn.now_ms, prefix.rows, len(prefix.files), valid_through)
    turn.put_table(changed(table, phase=TablePhase.COMMITTING, attempt=attempt, blocked=None, examinations=0))
    # Invariant 3: progress moves to `through` in the commit that adds every file below it.
    turn.emit(
        CommitTable(
            table.table, view, commit_id, prefix.files, prefix.progress, valid_through, prefix.examine, prefix.keyed
        )
    )


def _valid_through(turn: StepDraft, table: TableState, prefix: Prefix) -> int | None:
    """The least of the valid-through times of the pipelines that ever wrote to the table; None when one is not known.
    Replays do not count: their records are late ones of a pipeline that has gone on.

    It moves on only when the prefix takes all that is announced: behind a backlog the time reached is not known.
    """
    times: list[int] = []
    for name in prefix.progress.pipelines:
        if "." in name:  # a replay, of dead letters or of a gap: no pipeline's own name has a dot
            continue
        pipeline = turn.state.pipelines.get(name)
        if pipeline is None or pipeline.valid_through_ms is None or table.newest.get(name, -1) >= prefix.through:
            return table.valid_through_ms
        times.append(pipeline.valid_through_ms)
    reached = min(times, default=None)
    if reached is None or table.valid_through_ms is None:
        return reached if table.valid_through_ms is None else table.valid_through_ms
    return max(reached, table.valid_through_ms)


def loaded(turn: StepDraft, view: ExaminedTable) -> None:
    """The answer to LoadTable: what was examined."""
    table = turn.state.tables.get(view.table)
    if table is None or table.phase is not TablePhase.LOADING:
        return
    if (
        view.table_uuid != table.table_uuid
    ):  # another table under this name, or the first look: nothing known is true of it
        table = changed(table, table_uuid=view.table_uuid, recorded=0, recorded_epoch=None)
    reason = trouble(turn.state, table, view)
    reached = view.progress.control_offset if view.progress is not None else 0
    reported = turn.state.committed.get(view.table_uuid, 0)
    if reason is not None and table.recorded <= reached < reported and table.behind != reached:
        # Another coordinator may have committed after this was examined: look once more before it is called trouble.
        limits = turn.state.limits
        _pause(turn, changed(table, behind=reached), limits.retry_first_ms, limits.retry_first_ms, 0)
        return
    if reason is None and view.progress is not None and view.progress.control_offset > log_end(turn.state):
        if table.ahead != view.progress.control_offset:
            # Another coordinator may have read further by now: look once more before it is called trouble.
            _pause(
                turn,
                changed(table, ahead=view.progress.control_offset),
                turn.state.limits.retry_first_ms,
                turn.state.limits.retry_first_ms,
                0,
            )
            return
        reason = (
            f"its recorded progress is {table.ahead}, but the control topic ends at {turn.state.position}: the broker lost "
            "records, and what is announced from now on would count as recorded; `floe rebase FILE` settles it"
        )
    if reason is not None:
        _block(turn, table, reason)
        return
    if view.progress is not None:
        waited = len(table.pending)
        table = _forget_recorded(table, view.progress.control_offset, view.progress.leader_epoch, turn.now_ms)
        if len(table.pending) < waited:
            # Whoever committed them may have died before it said so, and readers of the log wait for that.
            _open_cycle(turn)
    reason = first_obstacle(turn.state, table, view)
    if reason is not None:
        _block(turn, table, reason)
        return
    turn.put_table(changed(table, phase=TablePhase.READY, view=view, blocked=None, examinations=0))
    consider(turn, table.table)


def _forget_recorded(table: TableState, control_offset: int, epoch: int | None, now_ms: int) -> TableState:
    """Drop what the table's metadata says is in it: the only way in which an announcement is done with."""
    count = 0
    for announcement in table.pending:
        if announcement.offset >= control_offset:
            break
        count += 1
    unread = table.unread
    if unread is not None and unread.offset < control_offset:
        behind = any(newest >= control_offset for newest in table.newest.values())
        unread = changed(unread, offset=control_offset) if behind else None
    table = changed(table, recorded=max(table.recorded, control_offset), recorded_epoch=epoch, unread=unread)
    return drop_announcements(table, count, now_ms)


def missing(turn: StepDraft, name: str, reason: str) -> None:
    """The answer to LoadTable when there is no such table."""
    table = turn.state.tables.get(name)
    if table is not None and table.phase is TablePhase.LOADING:
        _block(turn, table, f"it is missing: {reason}")


def load_failed(turn: StepDraft, name: str, reason: str) -> None:
    """The answer to LoadTable when the table could not be examined."""
    table = turn.state.tables.get(name)
    if table is not None and table.phase is TablePhase.LOADING:
        _fail(turn, table, reason)


def committed(
    turn: StepDraft, name: str, commit_id: str, view: ExaminedTable, snapshot_id: int, timestamp_ms: int
) -> None:
    """The commit is in the table."""
    table = turn.state.tables.get(name)
    if table is None or table.attempt is None or table.attempt.commit_id != commit_id:
        return
    attempt = table.attempt
    table = changed(
        table,
        phase=TablePhase.READY,
        view=view,
        table_uuid=view.table_uuid,
        attempt=None,
        failures=0,
        failure="",
        conflicts=0,
        last_commit_ms=attempt.started_ms,
        valid_through_ms=attempt.valid_through_ms,
    )
    epoch = view.progress.leader_epoch if view.progress is not None else None
    turn.put_table(_forget_recorded(table, attempt.through, epoch, turn.now_ms))
    _open_cycle(turn)
    turn.emit(
        Publish(
            CommitToTable(
                table=name,
                table_uuid=view.table_uuid,
                snapshot_id=snapshot_id,
                commit_id=commit_id,
                control_offset=attempt.through,
                rows=attempt.rows,
                files=attempt.files,
                timestamp_ms=timestamp_ms,
                valid_through_ms=attempt.valid_through_ms,
            )
        )
    )
    consider(turn, name)


def _open_cycle(turn: StepDraft) -> None:
    """Something is in a table, and no CommitComplete has reported it yet."""
    last_complete_ms = turn.state.last_complete_ms
    turn.set(cycle_open=True, last_complete_ms=turn.now_ms if last_complete_ms is None else last_complete_ms)


def conflict(turn: StepDraft, name: str, commit_id: str) -> None:
    """The commit is not in the table since the table has changed: examine it again, after a pause if it goes on so."""
    table = turn.state.tables.get(name)
    if table is None or table.attempt is None or table.attempt.commit_id != commit_id:
        return
    limits = turn.state.limits
    table = changed(table, attempt=None, conflicts=table.conflicts + 1)
    if table.conflicts <= limits.immediate_conflict_retries:
        _load(turn, table)
        return
    doublings = table.conflicts - limits.immediate_conflict_retries - 1
    _pause(turn, table, limits.conflict_first_ms, limits.conflict_most_ms, doublings)


def files_gone(turn: StepDraft, name: str, commit_id: str, missing: tuple[str, ...]) -> None:
    """Files that waited long are not in the store any more: a table that names them could not be read (invariant
    10)."""
    table = turn.state.tables.get(name)
    if table is None or table.attempt is None or table.attempt.commit_id != commit_id:
        return
    others = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    _block(
        turn,
        changed(table, attempt=None),
        f"{FILES_GONE} from the store, {missing[0]}{others}: somebody removed them as orphans while they waited. "
        f"Put them back, and the table goes on by itself; or `floe discard --table {argument(name)}` "
        "gives them up and names what to read again",
    )


def commit_failed(turn: StepDraft, name: str, commit_id: str, reason: str) -> None:
    """Invariant 7: whether the commit is in the table is not asked of memory but of the table, after a pause."""
    table = turn.state.tables.get(name)
    if table is None:
        return
    if table.attempt is not None and table.attempt.commit_id == commit_id:
        _fail(turn, changed(table, attempt=None), reason)
    elif commit_id == "":
        load_failed(turn, name, reason)


def _fail(turn: StepDraft, table: TableState, reason: str) -> None:
    table = changed(table, failures=table.failures + 1, failure=reason)
    limits = turn.state.limits
    _pause(turn, table, limits.retry_first_ms, limits.retry_most_ms, table.failures - 1)


def _block(turn: StepDraft, table: TableState, reason: str) -> None:
    """Invariant 10: this table waits with its announcements, alone, and is examined again by itself. That may be after
    an outage, too: catalogs say that a table is missing while the storage is that holds its metadata."""
    table = changed(table, blocked=reason, examinations=table.examinations + 1)
    limits = turn.state.limits
    _pause(turn, table, limits.blocked_first_ms, limits.blocked_most_ms, table.examinations - 1)


def _pause(turn: StepDraft, table: TableState, first_ms: int, most_ms: int, doublings: int) -> None:
    """Examine again after a pause that doubles up to a bound; up to a quarter less, so that tables do not go in step.

    Half an interval is a bound, too: after an outage, however long, comes this pause, then perhaps an interval's wait
    for what was announced just after the commit, and the work itself; all that is to fit into two intervals.
    """
    most_ms = min(most_ms, max(first_ms, table.policy.interval_ms // 2))
    pause = min(most_ms, first_ms << min(doublings, 30))
    spread = crc32(f"{turn.state.coordinator} {table.table} {doublings}".encode()) % 1024
    pause -= pause * spread // 4096
    turn.put_table(changed(table, phase=TablePhase.PAUSED, view=None, retry_at_ms=turn.now_ms + pause))


def clock_went_back(turn: StepDraft) -> None:
    """The clock was set back: what lies in its future now counts from now, so that nothing waits for the lost time."""

    def clamp(time_ms: int | None, ahead_ms: int = 0) -> int | None:
        return None if time_ms is None else min(time_ms, turn.now_ms + ahead_ms)

    state = turn.state
    for table in list(state.tables.values()):
        turn.put_table(
            changed(
                table,
                last_commit_ms=clamp(table.last_commit_ms),
                first_pending_ms=min(table.first_pending_ms, turn.now_ms),
                retry_at_ms=clamp(table.retry_at_ms, state.limits.retry_most_ms),
            )
        )
    turn.set(
        clock_ms=turn.now_ms,
        settled=False,
        last_complete_ms=clamp(state.last_complete_ms),
        last_carry_ms=clamp(state.last_carry_ms),
        last_store_ms=clamp(state.last_store_ms),
    )
