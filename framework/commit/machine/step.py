"""The coordinator as one pure function: what has happened goes in, the next state and what to do come out.

In: a `CoordinatorState`, one input of `framework.commit.machine.effects`, the time in ms. Out: the next state and
effects, to be performed in their order. The same state may be stepped twice: nothing in it is changed in place. The
rules live in the modules beside this one: `fold` (the log), `prefix` and `schedule` (tables), `cycle` (low-water mark,
answers), `chain`. Keeps invariants 6 and 11 at the door: where reading may begin, and when it may not.
"""

from __future__ import annotations

from framework.commit.events.event_types import CommitRequested, DataComplete, Discarded, OffsetsSet, PauseChanged
from framework.commit.machine import cycle, queues, schedule
from framework.commit.machine.effects import (
    Assigned,
    ClockSetBack,
    CommitConflict,
    CommitFailed,
    Committed,
    Effect,
    FilesGone,
    Input,
    LoadFailed,
    Read,
    Revoked,
    StopCoordinator,
    TableLoaded,
    TableMissing,
    Tick,
)
from framework.commit.machine.fold import fold
from framework.commit.machine.model import CoordinatorState, Limits, TablePhase
from framework.commit.machine.queues import is_later
from framework.commit.machine.reporting import health
from framework.commit.machine.reporting.report import snapshot
from framework.commit.machine.step_draft import StepDraft

__all__ = ["CoordinatorState", "Limits", "next_due_ms", "snapshot", "start_offset", "step", "wants_more"]


def start_offset(assigned: Assigned) -> int:
    """Where to begin reading: the log's start when nothing is stored (invariant 6: never its end), else the low-water
    mark or, where they are lower, the offset from which the pipelines' chains are seen and the end of the records that the
    mark's epoch vouches for: a record behind that and below the mark was written where the log had been cut off."""
    if assigned.low_water is None:
        return assigned.log_start
    known = (each for each in (assigned.chain_from, assigned.records_end) if each is not None)
    return max(assigned.log_start, min((assigned.low_water, *known)))


def step(state: CoordinatorState, message: Input, now_ms: int) -> tuple[CoordinatorState, tuple[Effect, ...]]:
    """The next state and what to do. `now_ms`: milliseconds since 1970; it may jump."""
    if isinstance(message, Assigned):
        return _assigned(state.limits, message)
    if isinstance(message, Revoked):
        return CoordinatorState(limits=state.limits), ()
    if not state.assigned or state.stopped is not None:
        return state, ()
    turn = StepDraft(state, now_ms)
    if isinstance(message, Read):
        _read(turn, message)
    elif isinstance(message, Tick):
        _tick(turn, message)
    elif isinstance(message, ClockSetBack):
        queues.seen_earlier(turn, message.by_ms)
    else:
        turn.set(settled=False)
        _answer(turn, message)
        cycle.finish(turn)
    return turn.done()


def next_due_ms(state: CoordinatorState) -> int | None:
    """When a Tick has something to do although nothing happens; None: not before something happens. Never in the past
    for ever: the Tick at that time does what was due."""
    if not state.assigned or state.stopped is not None:
        return None
    times = [cycle.next_cycle_ms(state), health.next_report_ms(state)]
    for table in state.tables.values():
        times.append(table.retry_at_ms if table.phase is TablePhase.PAUSED else schedule.due_at_ms(state, table))
    return min((time for time in times if time is not None), default=None)


def wants_more(state: CoordinatorState) -> bool:
    """Whether the log should be read on: False while many announced files are in memory and some table can still be
    drained, so that memory stays bounded on a long log. Tables that are blocked do not stop the others."""
    if state.pending_files <= state.limits.pending_files:
        return True
    return not any(
        table.phase in (TablePhase.LOADING, TablePhase.COMMITTING) or schedule.due_at_ms(state, table) is not None
        for table in state.tables.values()
        if table.pending
    )


def _assigned(limits: Limits, message: Assigned) -> tuple[CoordinatorState, tuple[Effect, ...]]:
    begin = start_offset(message)
    low_water = message.low_water
    state = CoordinatorState(
        limits=limits,
        coordinator=message.coordinator,
        control_topic_id=message.control_topic_id,
        assigned=True,
        begin=begin,
        position=begin,
        floor=message.log_start if low_water is None else low_water,
        stored_low_water=low_water,
        needs_proof=message.log_start if low_water is None and message.log_start > 0 else None,
        log_end=message.log_end,
        floor_epoch=message.low_water_epoch,
        # Where nothing but markers follows, the next mark vouches for the records that this one does.
        records_end=message.records_end,
    )
    if low_water is None:
        return state, ()
    stop: StopCoordinator | None = None
    if message.low_water_topic_id != message.control_topic_id:
        # Invariant 11: the stored offset means nothing in this topic.
        whose = message.low_water_topic_id or "no known topic"
        stop = StopCoordinator(
            "FLOE-R113",
            f"the stored low-water mark {low_water} belongs to control topic {whose}, "
            f"but the control topic has the id {message.control_topic_id}: it was recreated, or the offset was set by hand",
            "delete the coordinator's consumer group, so that the log is read from its start; if the topic was recreated, "
            "`floe rebase FILE` then lets each pipeline go on from what its tables hold",
        )
    elif message.log_start > low_water:
        # Invariant 6: announcements may be gone, and a quiet table's old progress alone cannot show which.
        stop = StopCoordinator(
            "FLOE-R114",
            f"the control topic starts at {message.log_start}, but announcements from {low_water} on were not yet in every "
            "table: retention removed them",
            "raise the control topic's retention; what is lost must be read again from the source: each table's property "
            "floe.progress says up to which source offset it holds everything",
        )
    elif message.truncated:
        stop = _cut_off(low_water, "was cut off below it and written anew")
    elif message.log_end is not None and message.log_end < low_water:
        stop = _cut_off(low_water, f"ends at {message.log_end}")
    if stop is None:
        return state, ()
    return CoordinatorState(limits=limits, coordinator=message.coordinator, assigned=True, stopped=stop), (stop,)


def _cut_off(low_water: int, seen: str) -> StopCoordinator:
    """Invariant 6: what is announced from here on may stand below the mark, where nobody would read it."""
    return StopCoordinator(
        "FLOE-R117",
        f"everything below {low_water} was read from the control topic, but its log {seen}: the broker lost records (an "
        "unclean election, a disk that was put back)",
        "delete the coordinator's consumer group, so that the log is read from its start; then `floe rebase FILE` lets each "
        "pipeline go on from what its tables hold",
    )


def _read(turn: StepDraft, message: Read) -> None:
    state = turn.state
    if message.offset < state.position:
        return
    if message.offset < state.floor and is_later(message.leader_epoch, state.floor_epoch):
        stop = _cut_off(state.floor, f"was written anew at {message.offset}")
        turn.set(stopped=stop)
        turn.emit(stop)
        return
    proof = state.needs_proof
    batch = None
    if isinstance(message.event, DataComplete):
        pipeline = state.pipelines.get(message.event.pipeline)
        batch = pipeline.open if pipeline is not None else None
    fold(turn, message)
    if batch is not None:
        # An arrival wakes its tables; a timer does not run by itself.
        for table in sorted(
            {name for _, uuid, _, _ in batch.parts if (name := turn.state.queues.get(uuid)) is not None}
        ):
            schedule.consider(turn, table)
    elif (
        isinstance(message.event, CommitRequested | Discarded | OffsetsSet | PauseChanged)
        or proof != turn.state.needs_proof
    ):
        _consider_all(turn)
        cycle.finish(turn)


def _tick(turn: StepDraft, message: Tick) -> None:
    if turn.now_ms < turn.state.clock_ms:
        schedule.clock_went_back(turn)
    state = turn.state
    caught_up = state.caught_up or message.caught_up
    position = max(state.position, message.position or 0)
    if (caught_up, position) != (state.caught_up, state.position):
        turn.set(caught_up=caught_up, position=position, settled=False)
    elif state.settled and (state.settled_until_ms is None or turn.now_ms < state.settled_until_ms):
        return
    if message.caught_up and state.needs_proof is not None:
        # Invariant 6: no position is known, the log's beginning is gone, and nothing in it shows that this did no harm.
        stop = StopCoordinator(
            "FLOE-R115",
            f"no low-water mark is stored and the control topic starts at {state.needs_proof}: announcements may have been "
            "removed before they were in every table",
            "restore the coordinator group's offset if it is known; each table's property floe.progress says up to which source "
            "offset it holds everything",
        )
        turn.set(stopped=stop)
        turn.emit(stop)
        return
    _consider_all(turn)
    cycle.finish(turn)
    health.report_states(turn)
    turn.set(clock_ms=turn.now_ms, settled=True, settled_until_ms=next_due_ms(turn.state))


def _consider_all(turn: StepDraft) -> None:
    for name in list(turn.state.tables):
        schedule.consider(turn, name)


def _answer(turn: StepDraft, message: Input) -> None:
    if isinstance(message, TableLoaded):
        schedule.loaded(turn, message.view)
    elif isinstance(message, TableMissing):
        schedule.missing(turn, message.table, message.reason)
    elif isinstance(message, LoadFailed):
        schedule.load_failed(turn, message.table, message.reason)
    elif isinstance(message, Committed):
        schedule.committed(
            turn, message.table, message.commit_id, message.view, message.snapshot_id, message.timestamp_ms
        )
    elif isinstance(message, CommitConflict):
        schedule.conflict(turn, message.table, message.commit_id)
    elif isinstance(message, FilesGone):
        schedule.files_gone(turn, message.table, message.commit_id, message.missing)
    elif isinstance(message, CommitFailed):
        schedule.commit_failed(turn, message.table, message.commit_id, message.reason)
