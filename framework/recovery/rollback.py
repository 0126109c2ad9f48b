"""Rolls a table back to an older snapshot in one conditional commit, and records which data it lacks afterwards.

In: a target's broker and catalog, a table, and a snapshot or a time. Out: a `RollbackPlan`, and an empty snapshot on top
of the older one. The new snapshot keeps the table's progress (invariant 3). Refuses while a pipeline that writes the
table is live.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.events.event_types import Acted, DataWritten, SourceRange
from framework.commit.machine.effects import RecordedTable, RecoverTable
from framework.commit.machine.progress.recorded import MISSING_PROPERTY, SUMMARY_RECOVERY
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.commit.recovery.missing import REPLAY, Gap, gaps_of, gaps_text, lacking_after
from framework.commit.recovery.rollback import (
    Announcements,
    RollbackPlan,
    given_up_ranges,
    plan_rollback,
    target_of,
    without_unclear,
)
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import FloeError, StateDisagreement, TableBlocked
from framework.observe.liveness import exclusive, refuse_live
from framework.recovery.discard import ControlPlace, committed_by
from framework.recovery.recover_table import BRANCH, Recovered, commit_recovery, no_such_table, recover_table, untold
from framework.table.upsert.refused import RefusedAct, refused_by_upsert_table

DOING = "floe rollback"


def decide_rollback(at: ControlPlace, table: str, to: int, is_time: bool, replay: bool) -> RollbackPlan:
    """Plan a rollback. Changes nothing.

    Raises:
        SetupError: the broker or the catalog cannot be reached.
        TableBlocked: the table or the snapshot does not exist.
        StateDisagreement: the data that the rollback gives up cannot be determined.
    """
    control = check_control_topic(KafkaAdmin(at.kafka), at.control_topic)
    facts = at.catalog.load_history(table, BRANCH, control.topic_id)
    if facts is None:
        raise no_such_table(at.catalog, table)
    if facts.progress is None:
        raise TableBlocked(
            f"floe never committed to table {table} by control topic {at.control_topic}",
            code="FLOE-R356",
            place=table,
            remedy="name the control topic with --control-topic; a table that floe does not fill is rolled back with the "
            "engine that fills it",
        )
    if facts.is_upserted:
        raise refused_by_upsert_table(RefusedAct.ROLLBACK, table)
    recorded = at.catalog.load_recorded(table, BRANCH, control.topic_id)
    noted = gaps_of(recorded.missing_text if recorded is not None else None)
    plan = plan_rollback(facts, target_of(facts, to, is_time, replay), replay)
    plan = replace(plan, noted=noted, gaps=noted, pipelines=tuple(sorted({*plan.pipelines, *replays_of(noted)})))
    # A replay by another control topic is known by the table's list and its own group alone.
    elsewhere = [gap for gap in noted if gap.pipeline not in facts.progress.pipelines and committed_by(at, gap)]
    nothing_lacks = not noted and (plan.settled or not replay)
    goes_back = plan.snapshot_id != plan.head_id
    if nothing_lacks and not goes_back:
        return plan
    announced = _announced(at, facts.table_uuid, control.log_start, plan)
    if goes_back:
        _refuse_doubled(at, plan, announced, [r for gap in elsewhere for r in gap.ranges])
    if nothing_lacks:
        return plan
    given_up: dict[str, OffsetRanges] = {}
    if replay:
        given_up = given_up_ranges(plan, announced, at.catalog.added_paths(table, plan.own_snapshots))
    held = _held(at, plan, announced, given_up) if noted else {}
    read = {
        gap.gap_id: announced.read_by(gap.replay_pipeline) | committed_by(at, gap)
        for gap in noted
        if gap not in elsewhere
    }
    # Each rollback makes a snapshot, so no two have the same one as the newest; they may well start at the same head.
    newest = max((*facts.beside, *facts.ancestry), key=lambda each: (each.timestamp_ms, each.headed_at))
    gaps = lacking_after(noted, given_up, read, held, format(newest.snapshot_id, "x")[-8:])
    # Where somebody moved the table to what it lacked, its list is wrong, and nothing else has to be done.
    plan = replace(plan, gaps=gaps, settled=plan.settled and gaps == noted)
    # What another control topic announced is brought in line by the verb with that topic.
    own = [each for each in gaps if each.pipeline in facts.progress.pipelines]
    unread = {each.gap_id: OffsetRanges.of(each.ranges) - read.get(each.gap_id, NO_OFFSETS) for each in own}
    rows = {gap_id: at.catalog.rows_in(table, left.ranges, plan.snapshot_id) or 0 for gap_id, left in unread.items()}
    return without_unclear(plan, rows)


def _held(
    at: ControlPlace, plan: RollbackPlan, announced: Announcements, given_up: Mapping[str, OffsetRanges]
) -> dict[str, OffsetRanges]:
    """What the table holds once it has gone back, by pipeline: what was announced for it with the files that its line
    added, without what others have deleted there again."""
    paths = at.catalog.added_paths(plan.table, plan.kept_snapshots)
    held, asked = announced.ranges_of(paths), dict(given_up)
    for gap in plan.noted:
        asked[gap.pipeline] = asked.get(gap.pipeline, NO_OFFSETS) | OffsetRanges.of(gap.ranges)
    for pipeline, piece in announced.pieces_of(paths, asked):
        if at.catalog.rows_in(plan.table, (piece,), plan.snapshot_id) == 0:
            held[pipeline] -= OffsetRanges.of((piece,))
    return held


def _refuse_doubled(
    at: ControlPlace, plan: RollbackPlan, announced: Announcements, elsewhere: Sequence[SourceRange]
) -> None:
    """What a replay has announced comes into the table by itself, whatever that holds by then.

    Args:
        elsewhere: what replays by other control topics read; whether it is in the table already cannot be seen here.

    Raises:
        StateDisagreement: FLOE-R359, the snapshot holds rows of it, since others deleted them only later.
    """
    ranges = [r for event in announced.waiting if REPLAY in event.pipeline for r in event.ranges if r.start < r.end]
    ranges += elsewhere
    held = at.catalog.rows_in(plan.table, ranges, plan.snapshot_id) if ranges else 0
    if held:
        raise StateDisagreement(
            f"snapshot {plan.snapshot_id} of table {plan.table} holds {counted(held, 'row')} that a replay has announced and "
            "that may come yet: they would be there twice",
            code="FLOE-R359",
            place=plan.table,
            remedy=f"`floe replay FILE --table {argument(plan.table)}` lets the replay end; then run this command again",
        )


def replays_of(gaps: Iterable[Gap]) -> list[str]:
    """The pipelines that replay these gaps."""
    return [gap.replay_pipeline for gap in gaps]


def _announced(at: ControlPlace, table_uuid: str, log_start: int, plan: RollbackPlan) -> Announcements:
    """The announcements that the target snapshot may lack, all of them if the table lacked data before, and what waits."""
    # Without a list of what it lacked, only what it held at its head goes with the snapshots.
    begin = log_start if plan.noted else max(log_start, plan.reached or 0) if plan.replay else plan.recorded
    reader = ControlReader(at.kafka, at.control_topic)
    try:
        end = reader.end_offset()
        reader.seek(min(end, begin))
        found = [
            (offset, event)
            for offset, event in reader.read_until(end)
            if isinstance(event, DataWritten) and event.table_uuid == table_uuid
        ]
        events = tuple(event for offset, event in found if plan.noted or offset < plan.recorded)
        waiting = tuple(event for offset, event in found if offset >= plan.recorded)
        return Announcements(events, log_start, waiting)
    finally:
        reader.close()


def refuse_live_pipelines(at: ControlPlace, plan: RollbackPlan) -> None:
    """Raises SetupError if a run is live whose pipeline writes the table."""
    admin = KafkaAdmin(at.kafka)
    for pipeline in plan.pipelines:
        refuse_live(admin, at.prefix, pipeline, DOING)


def perform_rollback(
    at: ControlPlace, plan: RollbackPlan, by: str = "", why: str = "", reported: Recovered = untold
) -> int:
    """Go back, if the table is still as it was looked at; returns the new snapshot's id. Who does it and why stands in
    the control log before: a rollback that nobody knows of is worse than a word about one that did not come. `reported` gets
    the commit.

    Raises:
        SetupError: a pipeline is live. StateDisagreement: the table has changed. TableBlocked: FLOE-R356, the snapshot has
            expired since. FloeError: as `commit_recovery`.
    """
    control_topic_id = check_control_topic(KafkaAdmin(at.kafka), at.control_topic).topic_id
    # Its own name: by that of an earlier rollback from the same head, a refused commit would be read back as made.
    run = f"rollback-{plan.head_id:x}-{uuid.uuid4().hex[:8]}"

    def decide(found: RecordedTable) -> RecoverTable:
        progress = found.view.progress
        if found.view.snapshot_id != plan.head_id or progress is None or gaps_of(found.missing_text) != plan.noted:
            raise StateDisagreement(
                f"table {plan.table} has changed since it was looked at; nothing was changed",
                code="FLOE-R346",
                place=plan.table,
                remedy="run the command again",
            )
        properties = {MISSING_PROPERTY: gaps_text(plan.gaps)} if plan.gaps != plan.noted else {}
        notes = {SUMMARY_RECOVERY: "rollback", "floe.rolled-back-from": str(plan.head_id)}
        return recover_table(found, progress, run, properties, notes, onto=plan.snapshot_id)

    with ExitStack() as stack:
        for pipeline in plan.pipelines:
            stack.enter_context(exclusive(at.kafka, at.prefix, pipeline, at.control_topic, DOING))
        publisher = ControlPublisher(at.kafka, at.control_topic)
        try:
            detail = f"from snapshot {plan.head_id} to {plan.snapshot_id}"
            publisher.publish((Acted("rollback", plan.table, by, why, int(time.time() * 1000), detail),))
        finally:
            publisher.close()
        try:
            outcome = commit_recovery(at.catalog, plan.table, control_topic_id, decide, partial(reported, "rollback"))
        except FloeError as error:
            if error.code == "FLOE-R354":
                _refuse_expired(at, plan, control_topic_id)
            raise
    assert outcome is not None  # `decide` always asks for a commit
    return outcome.snapshot_id


def _refuse_expired(at: ControlPlace, plan: RollbackPlan, control_topic_id: str) -> None:
    """Where somebody let the snapshot expire since it was looked at, the same command would be refused for ever.

    Raises:
        TableBlocked: FLOE-R356.
    """
    now = at.catalog.load_history(plan.table, BRANCH, control_topic_id)
    if now is not None and now.ancestry and now.ancestry[0].snapshot_id == plan.head_id:
        target_of(now, plan.snapshot_id, False, plan.replay)
