"""What is said and stored when commits are done: the low-water mark, CommitComplete, answers to requests.

In: the draft of the state. Out: Publish and StoreLowWater effects. Keeps invariant 6: the low-water mark L passes an
announcement only when its table's metadata holds it, so that a reader that begins at L misses nothing.
"""

from __future__ import annotations

from itertools import takewhile

from framework.commit.events.event_types import CommitComplete, Heartbeat, Holds
from framework.commit.machine.changed import changed
from framework.commit.machine.effects import Publish, ReadAgain, StoreLowWater
from framework.commit.machine.model import CommitRequest, CoordinatorState, TableState
from framework.commit.machine.pauses import active, describe, holding
from framework.commit.machine.schedule import covers
from framework.commit.machine.step_draft import StepDraft


def low_water(state: CoordinatorState) -> int:
    """L: everything below is committed in every table. Held by announcements that wait, batches that are not complete,
    broken chains, and requests whose answer is not in the log yet."""
    if state.needs_proof is not None:
        return state.floor
    low = state.position
    for table in state.tables.values():
        first = table.first_offset
        if first is not None and first < low:
            low = first
    for pipeline in state.pipelines.values():
        if pipeline.open is not None:
            low = min(low, pipeline.open.first_offset)
        if pipeline.broken_offset is not None:
            # Its last good link is held too: without it the next coordinator could not see that the chain is broken.
            low = min(low, pipeline.broken_offset, pipeline.link_offset)
    for request in state.requests.values():
        low = min(low, request.offset)
    return max(state.floor, state.stored_low_water or 0, low)


def chain_from(state: CoordinatorState) -> int:
    """Where a reader has to begin to see, before any batch above the low-water mark, the link it must follow; never
    above the low-water mark.

    Invariant 2 outlives a restart by this: a batch that breaks the chain, or repeats another, does so for the next
    coordinator too.
    """
    low = low_water(state)
    begin = low
    for pipeline in state.pipelines.values():
        before = next((before for end, before in pipeline.anchors if end >= low), None)
        if before is None and pipeline.open is not None:
            before = pipeline.open.link_before
        if before is None and pipeline.link is not None:
            before = pipeline.link_offset
        if before is not None:
            begin = min(begin, before)
    # A pause holds for whoever coordinates next.
    return min([begin, *(seen.begin(low) for seen in active(state.pauses))])


def waiting_reason(state: CoordinatorState, table: TableState) -> str | None:
    """Why a table's announcements cannot be committed for now; None when they only wait for their time."""
    held = _held_reason(state, table)
    if held is None and table.pending.first is not None and table.failures >= state.limits.failed_after:
        return f"{table.failures} commits failed, the last one with: {table.failure}"
    return held


def _held_reason(state: CoordinatorState, table: TableState) -> str | None:
    """What a person or another place has to end before a table's announcements can be committed."""
    first = table.pending.first
    if first is None:
        return None
    pause = holding(state.pauses, Holds.COMMITS, table.table)
    if pause is not None:
        return describe(pause)
    if table.blocked is not None:
        return table.blocked
    pipeline = state.pipelines.get(first.event.pipeline)
    if pipeline is not None and pipeline.broken is not None and first.offset >= pipeline.confirmed_below:
        return f"pipeline {pipeline.pipeline}: {pipeline.broken}"
    return None


def finish(turn: StepDraft) -> None:
    """Answer what can be answered, end the cycle if it is over, and store the low-water mark if it has moved."""
    state = turn.state
    if not state.caught_up or state.needs_proof is not None:
        # Requests in the log may have been answered behind the position; nothing is said before its end was seen.
        return
    said = False
    for request in list(state.requests.values()):
        if request.answered_ms is not None:
            if turn.now_ms >= request.answered_ms + state.limits.answered_ms:
                turn.drop_request(request.request_id)
            continue
        waits, blocked = _request_status(turn.state, request, turn.now_ms)
        if not waits:
            turn.put_request(changed(request, answered_ms=turn.now_ms))
            _say_complete(turn, request.request_id, blocked)
            said = True
    state = turn.state
    if not said and _repeat_pauses_ms(state) <= turn.now_ms:
        _say_complete(turn, "", {})
        said = True
    state = turn.state
    if state.cycle_open and not said:
        last = state.last_complete_ms
        overdue = last is not None and turn.now_ms - last >= state.limits.complete_most_ms
        if overdue or not state.committing:
            _say_complete(turn, "", {})
            said = True
    _store(turn, said or bool(turn.state.wants_again))
    again = turn.state.tables.get(turn.state.wants_again)
    if again is not None and again.unread is not None and not turn.state.reading_again:
        # The mark is stored first: what is known to be in the tables by now is not read again.
        turn.set(reading_again=True)
        turn.emit(ReadAgain(again.table, again.unread.offset))


def _repeat_pauses_ms(state: CoordinatorState) -> float:
    """When the pauses that hold are to be repeated, so that readers need not begin at the events themselves for
    ever."""
    if not active(state.pauses):
        return float("inf")
    return 0 if state.last_carry_ms is None else state.last_carry_ms + state.limits.carry_ms


def _request_status(state: CoordinatorState, request: CommitRequest, now_ms: int) -> tuple[bool, dict[str, str]]:
    """Whether a request still has to wait, and what of it will not be committed, with the reasons."""
    late = now_ms >= request.deadline_ms
    blocked: dict[str, str] = {}
    for table in state.tables.values():
        if not covers(request, table):
            continue
        reason = waiting_reason(state, table)
        if reason is None and late:
            reason = "not committed by the deadline" + (f": {table.failure}" if table.failure else "")
        if reason is None:
            return True, {}
        blocked[table.table] = reason
    return False, blocked


def _say_complete(turn: StepDraft, request_id: str, blocked: dict[str, str]) -> None:
    _advance_visible(turn)
    state = turn.state
    limits = state.limits
    carry = state.last_carry_ms is None or turn.now_ms - state.last_carry_ms >= limits.carry_ms
    chain: dict[str, Heartbeat] = {}
    for name, pipeline in state.pipelines.items():
        if pipeline.link is not None and (carry or name in state.unreported):
            chain[name] = pipeline.link
    # What fails is tried again by itself: its own state says so, and whoever asked for a commit is answered with it.
    reasons = {
        table.table: reason for table in state.tables.values() if (reason := _held_reason(state, table)) is not None
    }
    turn.emit(
        Publish(
            CommitComplete(
                coordinator=state.coordinator,
                low_water=low_water(state),
                timestamp_ms=turn.now_ms,
                request_id=request_id,
                blocked={**reasons, **blocked},
                chain=chain,
                valid_through_ms={
                    name: p.visible_through_ms
                    for name, p in state.pipelines.items()
                    if p.visible_through_ms is not None
                },
                position=state.position,
                paused=tuple(seen.event for seen in active(state.pauses)),
                blocked_pipelines={name: p.broken for name, p in state.pipelines.items() if p.broken is not None},
            )
        )
    )
    turn.set(
        cycle_open=False,
        unreported=frozenset(),
        last_complete_ms=turn.now_ms,
        last_carry_ms=turn.now_ms if carry else state.last_carry_ms,
    )


def _advance_visible(turn: StepDraft) -> None:
    """A pipeline's announced valid-through time is visible once none of its announcements waits in any table."""
    waiting: set[str] = set()
    for table in turn.state.tables.values():
        first = table.first_offset
        if first is not None:
            waiting |= {name for name, offset in table.newest.items() if offset >= first}
    for name, pipeline in turn.state.pipelines.items():
        if name not in waiting and pipeline.valid_through_ms != pipeline.visible_through_ms:
            turn.put_pipeline(changed(pipeline, visible_through_ms=pipeline.valid_through_ms))


def _store(turn: StepDraft, cycle_ended: bool) -> None:
    state = turn.state
    due = cycle_ended or state.last_store_ms is None or turn.now_ms - state.last_store_ms >= state.limits.store_ms
    low = low_water(state) if due else 0  # it looks at every table
    if low <= (state.stored_low_water or 0):
        return
    epoch = state.floor_epoch if state.leader_epoch is None else state.leader_epoch
    turn.emit(
        StoreLowWater(low, chain_from(state), epoch if state.records_end is not None else None, state.records_end)
    )
    turn.set(stored_low_water=low, last_store_ms=turn.now_ms)
    for pipeline in list(state.pipelines.values()):
        passed = sum(1 for _ in takewhile(lambda anchor: anchor[0] < low, pipeline.anchors))
        if passed:
            turn.put_pipeline(changed(pipeline, anchors=pipeline.anchors.drop(passed)))


def next_cycle_ms(state: CoordinatorState) -> int | None:
    """When `finish` has something to do although nothing happens; None when it has not."""
    if not state.caught_up or state.needs_proof is not None:
        return None
    times = [
        r.deadline_ms if r.answered_ms is None else r.answered_ms + state.limits.answered_ms
        for r in state.requests.values()
    ]
    if active(state.pauses):
        times.append(int(_repeat_pauses_ms(state)))
    if state.cycle_open and state.last_complete_ms is not None:
        times.append(state.last_complete_ms + state.limits.complete_most_ms)
    if low_water(state) > (state.stored_low_water or 0):
        times.append((state.last_store_ms or 0) + state.limits.store_ms)
    return min(times, default=None)
