"""Takes a pipeline over into the control topic and cluster that are there now: asks everybody, then does what was
decided.

In: a plan, the target's connection and catalog, what a person chose. Out: one conditional commit a table, then one
Kafka transaction with the group's offsets and the event that lets the chain go on (invariants 1 and 4). A live pipeline
is refused. Each step may be done again: a run that was killed in the middle is settled by running it once more.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.dead_letter_replay import replay_name
from framework.commit.events.event_types import Accounting, SourceRange
from framework.commit.machine.effects import ExaminedTable, RecordedTable, RecoverTable
from framework.commit.machine.progress.examine import is_cut_off, lacks_announced
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, SUMMARY_RECOVERY
from framework.commit.offsets import PartitionKey
from framework.commit.recovery.held import HeldBy, held_by, taken_over, without_elsewhere
from framework.commit.recovery.rebase import RebaseChoice, RebaseFacts, RebasePlan, TableRebase, plan_rebase, read_next
from framework.config.names.table_names import identifier_of
from framework.diagnose.counted import counted
from framework.errors import StateDisagreement
from framework.observe.liveness import exclusive
from framework.observe.status.control_log import ControlLog, read_control_log
from framework.plan.compile import group_id
from framework.plan.model import Plan
from framework.record.dead_letters.replay import marks_table
from framework.recovery.recover_table import (
    BRANCH,
    Recovered,
    check_not_rolled_back,
    commit_recovery,
    recover_table,
    untold,
)
from framework.recovery.source_offsets import Where, announce_settled, own_offset
from framework.runtime.source import PipelineSource
from framework.runtime.tables.registry import reachable_tables

LOADERS = 8
Say = Callable[[str], None]


@dataclass(frozen=True)
class Recovery:
    """Where a recovery works."""

    plan: Plan
    prefix: str
    kafka: dict[str, str]
    catalog: IcebergTables
    say: Say
    reported: Recovered = untold

    @property
    def where(self) -> Where:
        return Where(self.plan.pipeline, self.prefix, self.kafka, self.plan.announce.control_topic)

    @contextmanager
    def exclusive(self, doing: str) -> Iterator[PipelineProducer]:
        """See `liveness.exclusive`."""
        with exclusive(
            self.kafka, self.prefix, self.plan.pipeline, self.plan.announce.control_topic, doing
        ) as producer:
            yield producer


def read_facts(at: Recovery, make_control_topic: bool) -> RebaseFacts:
    """Ask everybody once. `make_control_topic`: where it is missing, there is nothing else to go on in.

    Raises:
        SetupError: the broker or the catalog does not answer, or a source topic does not exist.
    """
    admin = KafkaAdmin(at.kafka)
    name, control_topic = at.plan.pipeline, at.plan.announce.control_topic
    partitions = PipelineSource(at.plan, at.kafka).facts()
    if make_control_topic:
        ensure_control_topic(admin, control_topic)
    log = read_control_log(admin, at.kafka, control_topic, at.plan.commit.coordinator_group, None)
    if log.state.stopped is not None:
        stop = log.state.stopped
        raise StateDisagreement(stop.message, code=stop.code, place=control_topic, remedy=stop.remedy)
    stored = admin.group_offsets(group_id(at.prefix, name))
    group = {key: found for key, value in stored.items() if (found := own_offset(key, value)) is not None}
    tables, replays, views = _tables(at, log)
    folded = log.state.pipelines.get(name)
    link = folded.link if folded is not None else None
    newest = log.links.get(name)
    batches = [t.newest.batch for t in tables if t.newest is not None]
    batches += [each.batch for each in (link, newest) if each is not None] + [safe.batch for safe in group.values()]
    safest = max(group.values(), key=lambda safe: safe.batch, default=None)
    return RebaseFacts(
        pipeline=name,
        cluster_id=admin.cluster_id(),
        control_topic=control_topic,
        control_topic_id=log.facts.topic_id,
        partitions=partitions,
        group=group,
        announced={(r.topic, r.partition): r for r in link.ranges} if link is not None else {},
        broken=(folded.broken if folded is not None else None) or "",
        tables=tables,
        waiting=_waiting(log, name),
        batch=max(batches, default=0),
        totals=link.totals if link is not None else (safest.totals if safest is not None else Accounting()),
        replays=replays,
        given_up=link.given_up if link is not None else (),
        log_epoch=log.state.leader_epoch,
        lacking=tuple(view.table for view in views if lacks_announced(log.state, view)),
        cut_off=tuple(view.table for view in views if is_cut_off(log.state, view)),
        chain_batch=link.batch if link is not None else None,
        pending=tuple(a.event.ranges for t in log.state.tables.values() for a in t.pending if a.event.pipeline == name),
    )


def decide_rebase(at: Recovery, choice: Callable[[RebaseFacts], RebaseChoice], make_control_topic: bool) -> RebasePlan:
    """Look, and change nothing.

    Raises:
        StateDisagreement: FLOE-R359, a table holds rows that the pipeline would read again; or as `plan_rebase`.
        FloeError: as `read_facts` and `plan_rebase`.
    """
    facts = read_facts(at, make_control_topic)
    chosen = choice(facts)
    plan = plan_rebase(facts, chosen)
    if not plan.settled and chosen.begin is None and not chosen.allow_duplicates:
        _refuse_held(at, read_next(facts, plan))
    return plan


def _refuse_held(at: Recovery, ranges: Mapping[str, tuple[SourceRange, ...]]) -> None:
    """A table without Kafka positions, or one whose rows are replaced by their key, is let through.

    Raises:
        StateDisagreement: FLOE-R359.
    """
    policy_for = at.plan.write.tables.policy_for
    asked = {table: each for table, each in ranges.items() if not policy_for(table).write.is_upsert}
    with ThreadPoolExecutor(LOADERS) as pool:
        counts = pool.map(lambda each: at.catalog.rows_in(*each), asked.items())
        for table, held in zip(asked, counts, strict=True):
            if not held:
                continue
            raise StateDisagreement(
                f"table {table} holds {counted(held, 'row')} of what pipeline {at.plan.pipeline} would read again, and no record "
                "of the pipeline shows them: a replay has brought them, `floe offsets set` moved back behind them, or they came "
                "from a former topic of that name",
                code="FLOE-R359",
                place=table,
                remedy=f"if a replay has brought them, `{_deletion(table, asked[table])}` in the engine that you query the table "
                "with, and run this command again; otherwise add --allow-duplicates",
            )


def _deletion(table: str, ranges: Sequence[SourceRange]) -> str:
    """The SQL statement that deletes the rows of these source ranges."""
    of = " OR ".join(
        f"(_kafka_topic = '{r.topic}' AND _kafka_partition = {r.partition} AND _kafka_offset >= {r.start})"
        for r in ranges
    )
    return f"DELETE FROM {identifier_of(table)} WHERE {of}"


def _tables(at: Recovery, log: ControlLog) -> tuple[tuple[HeldBy, ...], tuple[HeldBy, ...], tuple[ExaminedTable, ...]]:
    """What each table records of the pipeline, and of its replays of dead letters; and the tables themselves.

    Raises:
        StateDisagreement: FLOE-R327, a table's record was taken away, so that nobody knows what it holds.
    """
    name = at.plan.pipeline
    own = sorted({*reachable_tables(at.plan, at.catalog), *_waiting(log, name)})
    dead_letters = at.plan.write.dead_letter_table
    names = [*own, marks_table(dead_letters)] if dead_letters else own
    at.say(f"looking at {counted(len(names), 'table')}")
    with ThreadPoolExecutor(LOADERS) as pool:
        loaded = list(pool.map(lambda name: at.catalog.load_recorded(name, BRANCH, log.facts.topic_id), names))
    views = tuple(recorded.view for recorded in loaded if recorded is not None)
    for view in views:
        if view.unrecorded is not None:
            raise StateDisagreement(
                f"table {view.table} records nothing, but a snapshot shows that floe committed to it by control topic "
                f"{view.unrecorded}: the table property {PROGRESS_PROPERTY} was removed, so it is not known what the table holds",
                code="FLOE-R327",
                place=view.table,
                remedy=f"set {PROGRESS_PROPERTY} again, as an earlier metadata file of the table has it; "
                "then run the command again",
            )
    texts = {n: recorded.progress_text for n, recorded in zip(names, loaded, strict=True) if recorded is not None}
    held = (held_by(table, texts[table], name) for table in own if table in texts)
    return (
        # A rule with a field may lead to the table of replays, as to any: it is no table of records until it has some.
        tuple(
            each
            for each in held
            if each.newest is not None or not dead_letters or each.table != marks_table(dead_letters)
        ),
        tuple(held_by(table, text, replay_name(name)) for table, text in texts.items()),
        views,
    )


def _waiting(log: ControlLog, pipeline: str) -> tuple[str, ...]:
    return tuple(
        sorted(
            name for name, table in log.state.tables.items() if any(a.event.pipeline == pipeline for a in table.pending)
        )
    )


def begin_offsets(at: Recovery, facts: RebaseFacts, begin_at: str | int) -> dict[PartitionKey, int]:
    """Where every partition begins: `earliest`, `latest`, or the first record that is not older than a time in ms."""
    if begin_at == "earliest":
        return {key: fact.log_start for key, fact in facts.partitions.items()}
    if begin_at == "latest":
        return {key: fact.log_end for key, fact in facts.partitions.items()}
    found = KafkaAdmin(at.kafka).offsets_at(facts.partitions, int(begin_at))
    return {key: offset if offset >= 0 else facts.partitions[key].log_end for key, offset in found.items()}


def perform_rebase(
    at: Recovery, choice: Callable[[RebaseFacts], RebaseChoice], expected: RebasePlan, doing: str
) -> None:
    """Do what was shown, if it is still what would be decided.

    Raises:
        SetupError: the pipeline is live. StateDisagreement: something has changed since it was looked at.
        TableBlocked: a table could not be committed to; those before it were, and running it again goes on.
    """
    with at.exclusive(doing) as producer:
        plan = decide_rebase(at, choice, True)
        if _changes(plan) != _changes(expected):
            raise _has_changed(plan.pipeline, "nothing was changed")
        run = f"rebase-{uuid.uuid4().hex[:8]}"
        steps = [(replay_name(plan.pipeline), table) for table in plan.replays]
        steps += [(plan.pipeline, table) for table in plan.tables]
        _check_none_rolled_back(at, sorted({table.table for _, table in steps}), plan.control_topic_id)
        for number, (name, table) in enumerate(steps, start=1):

            def decide_table(found: RecordedTable, name: str = name, table: TableRebase = table) -> RecoverTable:
                newest = held_by(table.table, found.progress_text, name).newest
                if (newest.batch if newest is not None else None) != table.former_batch:
                    raise _has_changed(plan.pipeline, f"table {table.table} takes records of it meanwhile")
                epoch = plan.log_epoch if found.view.table in plan.cut_off else None
                progress = taken_over(found.progress_text, name, plan.control_topic_id, table.after, epoch)
                text = without_elsewhere(found.progress_text, name, progress)
                return recover_table(found, progress, run, {PROGRESS_PROPERTY: text}, {SUMMARY_RECOVERY: "rebase"})

            commit_recovery(
                at.catalog, table.table, plan.control_topic_id, decide_table, partial(at.reported, "rebase")
            )
            at.say(f"{table.table}: {name} is taken over ({number} of {len(steps)})")
        announce_settled(at.where, producer, plan.event(run, int(time.time() * 1000)))


def _has_changed(pipeline: str, meanwhile: str) -> StateDisagreement:
    return StateDisagreement(
        f"what is recorded of pipeline {pipeline} has changed since it was looked at; {meanwhile}",
        code="FLOE-R346",
        place=pipeline,
        remedy="run the command again",
    )


def _check_none_rolled_back(at: Recovery, tables: Sequence[str], control_topic_id: str) -> None:
    """Before the first table is changed: half of them under the new record would only wait for the others.

    Raises:
        TableBlocked: FLOE-R361.
    """
    with ThreadPoolExecutor(LOADERS) as pool:
        for view in pool.map(lambda table: at.catalog.load_view(table, BRANCH, control_topic_id), tables):
            if view is not None:
                check_not_rolled_back(view)


def _changes(plan: RebasePlan) -> tuple[object, ...]:
    """What the act writes. A topic that grows meanwhile changes none of it."""
    return plan.tables, tuple((p.topic, p.topic_id, p.partition, p.after) for p in plan.partitions), plan.replays
