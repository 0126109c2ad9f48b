"""Reads source ranges again for one table, as a pipeline run of its own name.

In: a loaded pipeline, a table, and what it lacks. Out: the rows in the table, once, and the gap struck off its list.
The run has its own transactional id, consumer group and chain, so the pipeline itself may be live meanwhile; killed at
any moment, the same command goes on where its own group says (invariants 1, 2 and 5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlReader
from framework.adapters.kafka.control.topic import check_control_topic
from framework.commit.events.event_types import (
    CommitComplete,
    ControlEvent,
    DataComplete,
    DataWritten,
    Heartbeat,
    OffsetsSet,
)
from framework.commit.machine.effects import RecordedTable, RecoverTable
from framework.commit.machine.progress.recorded import MISSING_PROPERTY, SUMMARY_RECOVERY
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.commit.offsets import PartitionFacts, PartitionKey, SafeOffset
from framework.commit.recovery.missing import REPLAY, Gap, gaps_of, gaps_text
from framework.commit.recovery.table_replay import ReplayPlan, comes_by_itself, named_gap, plan_replay, without_replay
from framework.config.spec import ErrorPolicy, LoadedPipeline
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import AccountingError, SetupError, StateDisagreement
from framework.observe.liveness import refuse_live
from framework.plan.compile import group_id, transactional_id
from framework.plan.model import Plan
from framework.recovery.rebase import Recovery
from framework.recovery.recover_table import BRANCH, commit_recovery, no_such_table, recorded_here, recover_table
from framework.recovery.source_offsets import own_offset
from framework.runtime.job import Job, Say
from framework.runtime.source import PipelineSource
from framework.table.upsert.refused import RefusedAct, refused_by_upsert_table

DOING = "floe replay"


@dataclass(frozen=True)
class ReplayRequest:
    """What a person names: offsets to begin at and to end before. `allow_duplicates`: also what the table may hold."""

    begin: Mapping[PartitionKey, int]
    end: Mapping[PartitionKey, int]
    gap_id: str
    allow_duplicates: bool


def source_facts(at: Recovery) -> dict[PartitionKey, PartitionFacts]:
    return PipelineSource(at.plan, at.kafka).facts()


def decide_replay(at: Recovery, table: str, named: ReplayRequest | None) -> ReplayPlan:
    """Look, and change nothing.

    Raises:
        SetupError: broker or catalog cannot be reached, or the table is the one for dead letters.
        TableBlocked: no such table. StateDisagreement, DataLossError: as `plan_replay`.
    """
    if table == at.plan.write.dead_letter_table:
        raise SetupError(
            f"table {table} holds the dead letters of pipeline {at.plan.pipeline}, which cannot be replayed by themselves",
            code="FLOE-E114",
            place=table,
            remedy="replay the table that the records were meant for; what still fails is dropped there",
        )
    found = at.catalog.load_recorded(table, BRANCH, control_topic_id(at))
    if found is None:
        raise no_such_table(at.catalog, table)
    if at.plan.write.tables.policy_for(table).write.is_upsert:
        raise refused_by_upsert_table(RefusedAct.REPLAY, table)
    facts = source_facts(at)
    noted = gaps_of(found.missing_text)
    gap: Gap | None = None
    held: int | None = 0
    coming = NO_OFFSETS
    if named is not None:
        gap = named_gap(at.plan.pipeline, facts, named.begin, named.end, named.gap_id)
        again = next((each for each in noted if each.ranges == gap.ranges and each.pipeline == gap.pipeline), None)
        if again is not None:
            # Named before, and killed since: it is on the list already.
            return plan_replay(table, at.plan.pipeline, (again,), None, 0, facts, False)
        held = at.catalog.rows_in(table, gap.ranges)
        coming = _coming(at, found, facts)
    else:
        noted = _not_held(at, found, noted)
    allowed = named is not None and named.allow_duplicates
    return plan_replay(table, at.plan.pipeline, noted, gap, held, facts, allowed, coming)


def _links(event: ControlEvent | None, pipeline: str) -> bool:
    """Whether an event shows where the pipeline's chain stands. In a control topic that was made anew none does before
    `floe rebase`, which may read everything again."""
    if isinstance(event, CommitComplete):
        return pipeline in event.chain
    return isinstance(event, DataComplete | Heartbeat | OffsetsSet) and event.pipeline == pipeline


def _coming(at: Recovery, found: RecordedTable, facts: Mapping[PartitionKey, PartitionFacts]) -> OffsetRanges:
    """What comes into the table by itself. What a person gave up is not distinguished from what waits, so that
    nothing is read twice."""
    name, progress = at.plan.pipeline, found.view.progress
    events: list[tuple[int, DataWritten]] = []
    is_known = False
    reader = ControlReader(at.kafka, at.plan.announce.control_topic)
    try:
        reader.seek(reader.start_offset())
        for offset, event in reader.read_until(reader.end_offset()):
            is_known = is_known or _links(event, name)
            if not isinstance(event, DataWritten) or event.table_uuid != found.view.table_uuid:
                continue
            if event.pipeline.partition(REPLAY)[0] == name:
                events.append((offset, event))
    finally:
        reader.close()
    stored = KafkaAdmin(at.kafka).group_offsets(group_id(at.prefix, name)) if is_known else {}
    safe = {key: read.offset for key, value in stored.items() if (read := own_offset(key, value)) is not None}
    return comes_by_itself(events, 0 if progress is None else progress.control_offset, safe, facts)


def _not_held(at: Recovery, recorded: RecordedTable, noted: tuple[Gap, ...]) -> tuple[Gap, ...]:
    """The list without the gaps of which the table holds rows: somebody may have moved it to another snapshot since.

    Raises:
        StateDisagreement: FLOE-R359, nothing is left of what the pipeline is to read.
    """
    table = recorded.view.table
    found: list[Gap] = []
    held_rows = 0
    for gap in noted:
        if gap.pipeline != at.plan.pipeline:
            continue
        safe = _safe_offsets(at, gap)
        unread = OffsetRanges.of(
            replace(r, start=max(r.start, done.offset if (done := safe.get((r.topic, r.partition))) else r.start))
            for r in gap.ranges
        )
        if held := at.catalog.rows_in(table, unread.ranges):
            held_rows += held
        else:
            found.append(gap)
    if held_rows and not found:
        raise StateDisagreement(
            f"table {table} holds {counted(held_rows, 'row')} of what its own list says it lacks: somebody moved it to another "
            "snapshot since",
            code="FLOE-R359",
            place=table,
            remedy=f"`floe rollback --table {argument(table)} --to {recorded.view.snapshot_id} --replay`, with its present "
            "snapshot, brings the list in line",
        )
    return tuple(found)


def _safe_offsets(at: Recovery, gap: Gap) -> dict[PartitionKey, SafeOffset | None]:
    """How far the gap was read, by the word of its own group."""
    name = group_id(at.prefix, gap.replay_pipeline)
    stored = KafkaAdmin(at.kafka).group_offsets(name, [(r.topic, r.partition) for r in gap.ranges])
    return {key: own_offset(key, value) for key, value in stored.items()}


def control_topic_id(at: Recovery) -> str:
    return check_control_topic(KafkaAdmin(at.kafka), at.plan.announce.control_topic).topic_id


def perform_replay(at: Recovery, loaded: LoadedPipeline, plan: ReplayPlan, say: Say) -> int:
    """Fill the gaps, one after another; returns the rows added.

    Raises:
        SetupError: this very replay is running elsewhere.
        FloeError: as a run of the pipeline; the same command goes on.
    """
    topic_id = control_topic_id(at)
    tables = names_of(at, plan.table, topic_id)
    rows = 0
    for gap in plan.gaps:
        refuse_live(KafkaAdmin(at.kafka), at.prefix, gap.replay_pipeline, DOING)
        if plan.declared:
            commit_recovery(at.catalog, plan.table, topic_id, lambda found, gap=gap: _declared(at, plan, found, gap))  # type: ignore[misc]
        result = Job((loaded,), True, say, plans=(replay_plan_of(at.plan, at.prefix, tables, gap),)).run()
        if result.signal is not None:
            break
        rows += sum(sum(report.rows.values()) for report in result.reports)
        _check_read(at, gap)
        commit_recovery(at.catalog, plan.table, topic_id, lambda found, gap=gap: _filled(found, gap))  # type: ignore[misc]
    return rows


def names_of(at: Recovery, table: str, topic_id: str) -> tuple[str, ...]:
    """The names by which the pipeline announced files for a table: spellings that its catalog folds, two names of one
    catalog. What one of them alone would read is not all that the table lacks."""
    found = at.catalog.load_recorded(table, BRANCH, topic_id)
    if found is None:
        raise no_such_table(at.catalog, table)
    reader = ControlReader(at.kafka, at.plan.announce.control_topic)
    try:
        reader.seek(reader.start_offset())
        announced = {
            event.table
            for _, event in reader.read_until(reader.end_offset())
            if isinstance(event, DataWritten) and event.table_uuid == found.view.table_uuid
        }
    finally:
        reader.close()
    return (table, *sorted(announced - {table}))


def replay_plan_of(plan: Plan, prefix: str, tables: tuple[str, ...], gap: Gap) -> Plan:
    """The pipeline's plan for the gap alone: other ranges and other tables are left out, and what cannot be written is
    dropped, since it was dealt with when it was read first.

    Args:
        tables: the names that the table goes by.
    """
    name = gap.replay_pipeline
    return replace(
        plan,
        pipeline=name,
        read=replace(
            plan.read,
            group_id=group_id(prefix, name),
            starting_offsets="earliest",
            on_data_loss="fail",
            window=tuple((r.topic, r.partition, r.start, r.end) for r in gap.ranges),
        ),
        route=replace(plan.route, unrouted=ErrorPolicy.DROP, only_tables=tables),
        write=replace(
            plan.write, errors=ErrorPolicy.DROP, dead_letter_table=None, max_error_ratio=None, max_error_count=None
        ),
        announce=replace(plan.announce, transactional_id=transactional_id(prefix, name)),
    )


def _declared(at: Recovery, plan: ReplayPlan, found: RecordedTable, gap: Gap) -> RecoverTable | None:
    """The gap on the table's list, in a commit to the head that still holds none of it.

    Raises:
        StateDisagreement: FLOE-R346, somebody has added rows of it since the table was looked at.
    """
    if plan.held == 0 and at.catalog.rows_in(plan.table, gap.ranges):
        raise StateDisagreement(
            f"table {plan.table} has changed since it was looked at: it holds rows of these source ranges; nothing was changed",
            code="FLOE-R346",
            place=plan.table,
            remedy="run the command again",
        )
    return _noted(found, gap)


def _noted(found: RecordedTable, gap: Gap) -> RecoverTable | None:
    gaps = gaps_of(found.missing_text)
    if any(each.gap_id == gap.gap_id for each in gaps):
        return None
    return _with_gaps(found, (*gaps, gap), f"lacks-{gap.gap_id}", gap)


def _filled(found: RecordedTable, gap: Gap) -> RecoverTable | None:
    gaps = gaps_of(found.missing_text)
    left = tuple(each for each in gaps if each.gap_id != gap.gap_id)
    return None if left == gaps else _with_gaps(found, left, f"filled-{gap.gap_id}", gap)


def _with_gaps(found: RecordedTable, gaps: tuple[Gap, ...], run: str, gap: Gap) -> RecoverTable:
    progress = without_replay(recorded_here(found, "replay"), gap)
    properties = {MISSING_PROPERTY: gaps_text(gaps)}
    return recover_table(found, progress, run, properties, {SUMMARY_RECOVERY: "replay"}, binds=False)


def _check_read(at: Recovery, gap: Gap) -> None:
    """Invariant 8 over the whole gap: every offset of it was read and accounted for."""
    safe = _safe_offsets(at, gap)
    newest = max((s for s in safe.values() if s is not None), key=lambda s: s.batch, default=None)
    ends = all((s := safe.get((r.topic, r.partition))) is not None and s.offset == r.end for r in gap.ranges)
    if newest is None or not ends or newest.totals.offsets != gap.offsets:
        raise AccountingError(
            f"the gap has {gap.offsets} offsets, and {newest.totals.offsets if newest else 0} were read",
            place=gap.replay_pipeline,
            remedy="run the command again; if this repeats, report it with the driver's log",
        )
