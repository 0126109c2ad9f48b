"""Gives up what waits for a table, by one event in the control log, which every coordinator heeds.

In: a target's broker and catalog and a table's name. Out: a `DiscardPlan`, and the event. Refuses while a pipeline is
live whose announcements are given up: it would go on announcing for a table that cannot take them. What a replay read is
put on the table's list again before the event: a kill between the two leaves both, and neither is lost.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.events.event_types import Acted, DataWritten, SourceRange
from framework.commit.machine.cycle import waiting_reason
from framework.commit.machine.effects import RecordedTable, RecoverTable
from framework.commit.machine.model import TableState
from framework.commit.machine.progress.recorded import MISSING_PROPERTY, SUMMARY_RECOVERY
from framework.commit.offset_ranges import OffsetRanges
from framework.commit.recovery.discard import DiscardPlan, listed_again, plan_discard
from framework.commit.recovery.missing import REPLAY, Gap, gaps_of, gaps_text
from framework.config.names.table_names import identifier_of
from framework.diagnose.suggest import listed
from framework.diagnose.whole_commands import StartedFrom
from framework.errors import SetupError, StateDisagreement
from framework.observe.liveness import exclusive, refuse_live
from framework.observe.status.control_log import read_control_log
from framework.observe.status.judge import started_from
from framework.plan.compile import coordinator_group, group_id
from framework.recovery.recover_table import BRANCH, Recovered, commit_recovery, recorded_here, recover_table, untold
from framework.recovery.source_offsets import own_offset

DOING = "floe discard"


@dataclass(frozen=True)
class ControlPlace:
    """A control topic of a target, and the catalog whose tables its announcements are for."""

    prefix: str
    kafka: dict[str, str]
    control_topic: str
    catalog: IcebergTables


def decide_discard(at: ControlPlace, table: str) -> DiscardPlan:
    """Look, and change nothing.

    Raises:
        SetupError: broker or catalog cannot be reached, or the table's catalog is not named. StateDisagreement: as
            `plan_discard`.
    """
    group = coordinator_group(at.prefix, at.control_topic)
    log = read_control_log(KafkaAdmin(at.kafka), at.kafka, at.control_topic, group, at.catalog)
    if log.state.stopped is not None:
        stop = log.state.stopped
        raise StateDisagreement(stop.message, code=stop.code, place=at.control_topic, remedy=stop.remedy)
    state = log.state.table_named(table)
    namesakes = [name for name in log.state.tables if identifier_of(name) == identifier_of(table)]
    if state is None and namesakes:
        raise SetupError(
            f"nothing is announced for table {table}, only for {listed(namesakes, 'and')} in another catalog",
            code="FLOE-E313",
            place=table,
            remedy=f"name the table with its catalog: --table {namesakes[0]}",
        )
    if state is None:
        return plan_discard(table, None, None, None)
    view = at.catalog.load_view(state.table, state.branch, log.facts.topic_id)
    gone = _gone(at.catalog, state) if view is not None else frozenset()
    plan = plan_discard(table, state, view, waiting_reason(log.state, state), gone)
    if view is None or view.table_uuid not in plan.table_uuids:
        return plan
    found = at.catalog.load_recorded(state.table, BRANCH, log.facts.topic_id)
    noted = gaps_of(found.missing_text) if found is not None else ()
    if not any(REPLAY in name for name in plan.ranges):
        return plan
    announced = _announced(at, view.table_uuid, noted)
    read = {gap.gap_id: announced[gap.replay_pipeline] | committed_by(at, gap) for gap in noted}
    return listed_again(plan, noted, read, view.snapshot_id or 0)


def runs_of(at: ControlPlace) -> dict[str, StartedFrom]:
    """Which file each pipeline's newest run runs, by pipeline, for commands that people are shown."""
    group = coordinator_group(at.prefix, at.control_topic)
    log = read_control_log(KafkaAdmin(at.kafka), at.kafka, at.control_topic, group, None)
    return {name: started_from(run) for name, run in log.deployed.items()}


def _announced(at: ControlPlace, table_uuid: str, gaps: Iterable[Gap]) -> dict[str, OffsetRanges]:
    """What the replays of these gaps have announced for the table, as far as the control log goes back."""
    found: dict[str, list[SourceRange]] = {gap.replay_pipeline: [] for gap in gaps}
    reader = ControlReader(at.kafka, at.control_topic)
    try:
        reader.seek(reader.start_offset())
        for _, event in reader.read_until(reader.end_offset()):
            if isinstance(event, DataWritten) and event.table_uuid == table_uuid and event.pipeline in found:
                found[event.pipeline] += event.ranges
    finally:
        reader.close()
    return {pipeline: OffsetRanges.of(ranges) for pipeline, ranges in found.items()}


def committed_by(at: ControlPlace, gap: Gap) -> OffsetRanges:
    """The offset ranges that a replay of the gap has read, according to its consumer group."""
    keys = [(r.topic, r.partition) for r in gap.ranges]
    stored = KafkaAdmin(at.kafka).group_offsets(group_id(at.prefix, gap.replay_pipeline), keys)
    safe = {key: own_offset(key, value) for key, value in stored.items()}
    return OffsetRanges.of(
        replace(r, end=min(r.end, read.offset))
        for r in gap.ranges
        if (read := safe.get((r.topic, r.partition))) is not None and read.topic_id == r.topic_id
    )


def _gone(catalog: IcebergTables, state: TableState) -> frozenset[str]:
    """The files that are gone, of the first announcements that lack some and follow one another."""
    found: set[str] = set()
    for announcement in state.pending:
        missing = catalog.missing_files(state.table, list(announcement.event.paths))
        if found and not missing:
            break
        found.update(missing)
    return frozenset(found)


def refuse_live_pipelines(at: ControlPlace, plan: DiscardPlan) -> None:
    """Raises SetupError where a run is live whose announcements would be given up."""
    admin = KafkaAdmin(at.kafka)
    for pipeline in sorted(plan.rows):
        refuse_live(admin, at.prefix, pipeline, DOING)


def perform_discard(
    at: ControlPlace, expected: DiscardPlan, by: str = "", why: str = "", reported: Recovered = untold
) -> None:
    """Publish the event behind who gives up and why, if it is still what was shown. Publishing it twice changes nothing.
    `reported` gets the commit of the table's list, where that changes.

    Raises:
        SetupError: a pipeline is live. StateDisagreement: something has changed since it was looked at.
        FloeError: the broker did not take the event, or as `commit_recovery`.
    """
    with ExitStack() as stack:
        for pipeline in sorted(expected.rows):
            stack.enter_context(exclusive(at.kafka, at.prefix, pipeline, at.control_topic, DOING))
        if decide_discard(at, expected.table) != expected:
            raise _changed(expected)
        failpoint("recovery-decided")
        if expected.gaps != expected.noted:
            topic_id = check_control_topic(KafkaAdmin(at.kafka), at.control_topic).topic_id
            commit_recovery(
                at.catalog, expected.table, topic_id, partial(_listed, expected), partial(reported, "discard")
            )
        publisher = ControlPublisher(at.kafka, at.control_topic)
        try:
            now_ms = int(time.time() * 1000)
            detail = f"announcements {expected.first} to {expected.below - 1}"
            publisher.publish((Acted("discard", expected.table, by, why, now_ms, detail), expected.event(now_ms)))
            failpoint("recovery-told")
        finally:
            publisher.close()


def _listed(expected: DiscardPlan, found: RecordedTable) -> RecoverTable:
    """The commit that puts what is given up of a replay on the table's list again.

    Raises:
        StateDisagreement: FLOE-R346, the list has changed. TableBlocked: no record of this control topic can carry it.
    """
    if gaps_of(found.missing_text) != expected.noted:
        raise _changed(expected)
    progress = recorded_here(found, "give up what waits")
    properties, run = {MISSING_PROPERTY: gaps_text(expected.gaps)}, f"discard-{expected.first}-{uuid.uuid4().hex[:8]}"
    return recover_table(found, progress, run, properties, {SUMMARY_RECOVERY: "discard"}, binds=False)


def _changed(expected: DiscardPlan) -> StateDisagreement:
    return StateDisagreement(
        f"what waits for table {expected.table} has changed in the meantime; nothing was given up",
        code="FLOE-R346",
        place=expected.table,
        remedy="run the command again",
    )
