"""Taking a pipeline over into another control topic or cluster, from what its tables record of it.

In: what group, log, tables and broker say, as values. Out: a `RebasePlan`, or a refusal with both values; and how far a
run may read so that no batch lies half in what a table holds already. Keeps invariants 5 and 11: what a table records
is filed under the present ids, everything behind the table that holds least is read again, and no table takes what it
holds. What `floe offsets set` let the pipeline read again counts as not held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from framework.commit.events.event_types import Accounting, OffsetsSet, SourceRange
from framework.commit.machine.effects import PipelineProgress
from framework.commit.offsets import BEHIND_END_REMEDY, PartitionFacts, PartitionKey, SafeOffset, current_offsets
from framework.commit.recovery.held import Ends, HeldBy, ends_of, offsets_of
from framework.diagnose.shown import argument
from framework.errors import DataLossError, StateDisagreement


@dataclass(frozen=True)
class RebaseFacts:
    """Everything that is known of the pipeline. `announced`: where the good chain in the control log ends, by
    partition, with the topic ids; empty when the log knows no batch. `batch`: the highest batch number met anywhere.
    `waiting`: the tables that announcements of this control log wait for. `replays`: what tables record of the
    pipeline's replays of dead letters. `given_up`: where partitions ended that a person gave up. `lacking`: tables that
    lack what was announced for them and committed, since they were put back; `cut_off`: tables whose progress lies
    above what the control log still holds. `chain_batch`: the last batch of the good chain in the control log.
    `pending`: the ranges of each announcement that waits."""

    pipeline: str
    cluster_id: str
    control_topic: str
    control_topic_id: str
    partitions: Mapping[PartitionKey, PartitionFacts]
    group: Mapping[PartitionKey, SafeOffset]
    announced: Mapping[PartitionKey, SourceRange]
    broken: str
    tables: tuple[HeldBy, ...]
    waiting: tuple[str, ...]
    batch: int
    totals: Accounting
    replays: tuple[HeldBy, ...] = ()
    given_up: tuple[SourceRange, ...] = ()
    lacking: tuple[str, ...] = ()
    cut_off: tuple[str, ...] = ()
    log_epoch: int | None = None
    chain_batch: int | None = None
    pending: tuple[tuple[SourceRange, ...], ...] = ()


@dataclass(frozen=True)
class RebaseChoice:
    """What a person says that cannot be known.

    `same_offsets`: the source topics have other ids, and each offset holds the record that it held. `begin`: they hold
    other records, and reading begins there. `complete`: tables that lack nothing of what was announced.
    `from_log_start`: read everything again that the topics hold. `allow_loss`: go on although retention removed
    records. `allow_duplicates`: go on although tables hold rows of what is read next.
    """

    same_offsets: bool = False
    begin: Mapping[PartitionKey, int] | None = None
    complete: Collection[str] = ()
    from_log_start: bool = False
    allow_loss: bool = False
    allow_duplicates: bool = False


@dataclass(frozen=True)
class PartitionRebase:
    """One partition: what each place says of it, and where the pipeline goes on (`after`). None: nothing is known."""

    topic: str
    partition: int
    topic_id: str
    former_topic_id: str | None
    group: int | None
    announced: int | None
    tables_least: int | None
    tables_most: int | None
    after: int
    log_start: int
    log_end: int


@dataclass(frozen=True)
class TableRebase:
    """One table: by which control topics it holds records of the pipeline, and what it will record."""

    table: str
    former_control_topic_ids: tuple[str, ...]
    former_batch: int | None
    after: PipelineProgress


@dataclass(frozen=True)
class RebasePlan:
    """`settled`: nothing has to be done. `read_again` counts source offsets that some table holds and some other lacks;
    `lost` those that retention removed. `replays`: tables whose record of replayed dead letters is filed anew, as it
    is."""

    pipeline: str
    cluster_id: str
    control_topic: str
    control_topic_id: str
    former_control_topic_ids: tuple[str, ...]
    settled: bool
    batch: int
    base_batch: int
    totals: Accounting
    read_again: int
    lost: int
    partitions: tuple[PartitionRebase, ...]
    tables: tuple[TableRebase, ...]
    replays: tuple[TableRebase, ...] = ()
    given_up: tuple[SourceRange, ...] = ()
    cut_off: tuple[str, ...] = ()
    log_epoch: int | None = None

    def event(self, run: str, now_ms: int) -> OffsetsSet:
        """What is written to the control log: the chain goes on here."""
        ranges = tuple(SourceRange(p.topic, p.topic_id, p.partition, p.after, p.after) for p in self.partitions)
        return OffsetsSet(
            self.pipeline,
            run,
            self.batch,
            ranges,
            self.totals,
            self.base_batch,
            self.lost,
            0,
            "rebase",
            now_ms,
            self.given_up,
        )


def plan_rebase(facts: RebaseFacts, choice: RebaseChoice) -> RebasePlan:
    """Decide, or refuse.

    Raises:
        StateDisagreement: what is recorded does not fit together or to the topics, or something has to be chosen.
        DataLossError: records that some table lacks were removed by retention.
    """
    _check_announced(facts)
    _check_topics(facts, choice)
    counting = facts if choice.begin is not None else replace(facts, tables=_held_still(facts, choice))
    after, lost = _positions(counting, choice)
    everywhere = (*facts.tables, *facts.replays)
    former = sorted({i for t in everywhere for i in t.control_topic_ids if i != facts.control_topic_id})
    batch = facts.batch + 1
    ids = {topic: fact.topic_id for (topic, _), fact in facts.partitions.items()}
    tables = tuple(
        TableRebase(
            t.table,
            _former(t, facts),
            t.newest.batch if t.newest is not None else None,
            _progress(t, after, batch, ids, choice.begin is not None),
        )
        for t in counting.tables
        if t.newest is not None or t.table in facts.waiting
    )
    most = {k: max(t.ends.get(k, 0) for t in facts.tables) for k in facts.partitions} if facts.tables else {}
    read_again = 0 if choice.begin is not None else sum(max(0, most.get(k, 0) - at) for k, at in after.items())
    return RebasePlan(
        pipeline=facts.pipeline,
        cluster_id=facts.cluster_id,
        control_topic=facts.control_topic,
        control_topic_id=facts.control_topic_id,
        former_control_topic_ids=tuple(former),
        settled=_is_settled(facts, former),
        batch=batch,
        # Where the topics hold other records, offsets from before mean nothing any more, not even those of partitions
        # gone.
        base_batch=batch
        if choice.begin is not None
        else max((safe.base_batch for safe in facts.group.values()), default=0),
        totals=facts.totals,
        read_again=read_again,
        lost=lost,
        partitions=tuple(_partition(facts, key, at) for key, at in sorted(after.items())),
        tables=tables,
        # A replay counts dead letters, not offsets of a topic, so what a table holds of it is as true by any control topic.
        replays=tuple(
            TableRebase(t.table, _former(t, facts), t.newest.batch, t.newest)
            for t in facts.replays
            if t.newest is not None and _former(t, facts)
        ),
        given_up=facts.given_up,
        cut_off=facts.cut_off,
        log_epoch=facts.log_epoch,
    )


def read_next(facts: RebaseFacts, plan: RebasePlan) -> dict[str, tuple[SourceRange, ...]]:
    """By table, what it takes of what the pipeline reads next, since its record ends before that. A replay that a person
    named may have brought rows of it, and no record of the pipeline shows them."""
    found = {}
    records = {t.table: ends_of(t.after) for t in plan.tables}
    for table in facts.tables:
        ends = records.get(table.table, {})
        starts = {(p.topic, p.partition): max(p.after, ends.get((p.topic, p.partition), 0)) for p in plan.partitions}
        found[table.table] = tuple(
            SourceRange(p.topic, p.topic_id, p.partition, start, p.log_end)
            for p in plan.partitions
            if (start := starts[p.topic, p.partition]) < p.log_end
        )
    return {table: ranges for table, ranges in found.items() if ranges}


def _former(table: HeldBy, facts: RebaseFacts) -> tuple[str, ...]:
    return tuple(i for i in table.control_topic_ids if i != facts.control_topic_id)


def _check_announced(facts: RebaseFacts) -> None:
    """Invariant 11: what this control topic announced of a topic that was recreated since is still to be committed.
    Under the record of the new topic no table would take it any more.

    Raises:
        StateDisagreement: FLOE-R316, `floe offsets set` goes on in the new topic and leaves what waits.
    """
    for key, r in sorted(facts.announced.items()):
        fact = facts.partitions.get(key)
        if fact is not None and r.topic_id != fact.topic_id and facts.waiting:
            raise StateDisagreement(
                f"topic {r.topic} was recreated: announcements of the one with id {r.topic_id} wait for table "
                f"{facts.waiting[0]}, now it is {fact.topic_id}",
                code="FLOE-R316",
                place=r.topic,
                remedy=f"`{_offsets_from_start(facts, r.topic)}` goes on in the new topic, and what waits is committed",
            )


def _offsets_from_start(facts: RebaseFacts, topic: str) -> str:
    begins = [
        f"{argument(f'{t}:{n}')}={fact.log_start}" for (t, n), fact in sorted(facts.partitions.items()) if t == topic
    ]
    return f"floe offsets set {argument(facts.pipeline)} {' '.join(begins)} --allow-loss"


def _check_topics(facts: RebaseFacts, choice: RebaseChoice) -> None:
    known = {(topic, i) for t in facts.tables if t.newest for topic, i in t.newest.topic_ids.items()}
    gone = sorted({f"{k[0]}-{k[1]}" for t in facts.tables for k in t.ends if k not in facts.partitions})
    if gone and choice.begin is None:
        raise StateDisagreement(
            f"tables hold records of {', '.join(gone)}, which pipeline {facts.pipeline} does not find in its topics",
            code="FLOE-R315",
            place=gone[0],
            remedy="restore the topic; if it holds other records now, say where to begin with `floe rebase --begin-at`",
        )
    ids = {topic: fact.topic_id for (topic, _), fact in facts.partitions.items()}
    changed = sorted((topic, i) for topic, i in known if topic in ids and ids[topic] != i)
    if changed and not choice.same_offsets and choice.begin is None:
        topic, former = changed[0]
        raise StateDisagreement(
            f"the tables hold records of topic {topic} with id {former}, now it is {ids[topic]} (cluster {facts.cluster_id}): "
            "offsets of one need not match those of the other",
            code="FLOE-R316",
            place=topic,
            remedy="--same-offsets if each offset holds the record that it held (a restored or byte-for-byte copied topic); "
            "--begin-at earliest, latest or a time if the topic holds other records",
        )
    if choice.begin is not None and not changed and known:
        raise StateDisagreement(
            f"the topics of pipeline {facts.pipeline} are those that its tables hold records of; --begin-at would add records "
            "twice, or skip some",
            code="FLOE-R350",
            place=facts.pipeline,
            remedy="leave --begin-at out; to move offsets deliberately, use `floe offsets set`",
        )


def _held_still(facts: RebaseFacts, choice: RebaseChoice) -> tuple[HeldBy, ...]:
    """The tables, without what `floe offsets set` let the pipeline read again: of a record from before that counts what lies
    before the offsets that were set. The group shows these until the next batch.

    Raises:
        StateDisagreement: FLOE-R351, the pipeline has read on since, and a table shows nothing of that.
    """
    group = {
        k: s for k, s in facts.group.items() if k in facts.partitions and s.topic_id == facts.partitions[k].topic_id
    }
    base = max((safe.base_batch for safe in group.values()), default=0)
    set_by_hand = current_offsets(group, base)
    older = {t.table for t in facts.tables if t.newest is not None and t.newest.batch < base}
    if not older:
        return facts.tables
    if any(safe.batch > base for safe in set_by_hand.values()) and not choice.from_log_start:
        unknown = sorted(older - set(choice.complete))
        if unknown:
            raise StateDisagreement(
                f"table{'s' if len(unknown) > 1 else ''} {', '.join(unknown)} hold{'' if len(unknown) > 1 else 's'} nothing of "
                f"pipeline {facts.pipeline} since its offsets were set by hand: what was announced since may be lost, and it is "
                "not known from where on",
                code="FLOE-R351",
                place=unknown[0],
                remedy=f"{' '.join(f'--complete {argument(t)}' for t in unknown)} if nothing was routed there since; "
                "--from-log-start reads all that the topics hold, and adds to each table what lies behind its record",
            )
        return facts.tables
    at = {key: safe.offset for key, safe in set_by_hand.items() if safe.batch == base}
    return tuple(_up_to(t, at) if t.table in older else t for t in facts.tables)


def _up_to(table: HeldBy, offsets: Ends) -> HeldBy:
    if table.newest is None:
        return table
    ends = {(topic, n): min(end, offsets.get((topic, n), end)) for (topic, n), end in table.ends.items()}
    return replace(table, newest=replace(table.newest, offsets=offsets_of(ends)))


def _positions(facts: RebaseFacts, choice: RebaseChoice) -> tuple[dict[PartitionKey, int], int]:
    """Where the pipeline goes on: behind what every table holds."""
    if choice.begin is not None:
        return dict(choice.begin), 0
    starts = {key: fact.log_start for key, fact in facts.partitions.items()}
    if choice.from_log_start:
        return starts, 0
    holders = [t for t in facts.tables if t.newest is not None]
    empty = [t.table for t in facts.tables if t.newest is None and t.table not in choice.complete]
    if empty and holders:
        raise StateDisagreement(
            f"table{'s' if len(empty) > 1 else ''} {', '.join(empty)} hold{'' if len(empty) > 1 else 's'} nothing of pipeline "
            f"{facts.pipeline}: what was announced for it may be lost, and it is not known since when",
            code="FLOE-R351",
            place=empty[0],
            remedy=f"--complete {empty[0]} if nothing was ever routed there; --from-log-start reads all that the topics hold, "
            "and adds to each table only what it lacks",
        )
    _check_order(facts.pipeline, holders)
    lacking = [t for t in holders if t.table not in choice.complete] or holders
    least = min(lacking, key=lambda t: sum(t.ends.values()), default=None)
    after: dict[PartitionKey, int] = {}
    lost = 0
    for key, fact in sorted(facts.partitions.items()):
        at = least.ends.get(key, fact.log_start) if least is not None else fact.log_start
        if at > fact.log_end:
            raise DataLossError(
                f"table {least.table if least else ''} holds {key[0]}-{key[1]} up to {at}, but its log ends at {fact.log_end}",
                code="FLOE-R317",
                place=f"{key[0]}-{key[1]}",
                remedy=BEHIND_END_REMEDY,
            )
        if at < fact.log_start:
            if not choice.allow_loss:
                table = least.table if least is not None else ""
                raise DataLossError(
                    f"table {table} holds {key[0]}-{key[1]} up to {at}, and records {at} to {fact.log_start - 1} were removed "
                    "by retention: what it lacks of them cannot be read again",
                    code="FLOE-R352",
                    place=f"{key[0]}-{key[1]}",
                    remedy=f"--complete {table} if it lacks nothing, since nothing was routed there for long; --allow-loss to "
                    "go on where the topic begins",
                )
            lost += fact.log_start - at
            at = fact.log_start
        after[key] = at
    return _before_pending(facts, after), lost


def _before_pending(facts: RebaseFacts, after: dict[PartitionKey, int]) -> dict[PartitionKey, int]:
    """The positions, moved back to where a batch that waits begins if they lie inside of it: a table that holds a part of
    it, by a request that came late, can neither take it nor drop it. It is read again, cut where the table ends."""
    changed = True
    while changed:
        changed = False
        for ranges in facts.pending:
            own = {
                (r.topic, r.partition): r
                for r in ranges
                if r.start < r.end and (f := facts.partitions.get((r.topic, r.partition))) and f.topic_id == r.topic_id
            }
            if any(r.end > after[key] for key, r in own.items()) and any(
                r.start < after[key] for key, r in own.items()
            ):
                back = {key: max(facts.partitions[key].log_start, min(after[key], r.start)) for key, r in own.items()}
                changed = changed or any(back[key] < after[key] for key in back)
                after |= back
    return after


def _check_order(pipeline: str, holders: list[HeldBy]) -> None:
    """Each table's record is where one batch ended, so of two tables one is nowhere ahead of the other."""
    ordered = sorted(holders, key=lambda t: (sum(t.ends.values()), t.table))
    for one, two in pairwise(ordered):
        for key, end in sorted(one.ends.items()):
            if end > two.ends.get(key, 0):
                raise StateDisagreement(
                    f"of pipeline {pipeline} table {one.table} holds {key[0]}-{key[1]} up to {end} and {two.table} up to "
                    f"{two.ends.get(key, 0)}, and elsewhere it is the other way round: they were not filled by one history",
                    code="FLOE-R353",
                    place=one.table,
                    remedy="give the pipeline another name and other tables, or let one of these tables be created again",
                )


def _progress(table: HeldBy, after: Ends, batch: int, ids: Mapping[str, str], other_records: bool) -> PipelineProgress:
    """What the table will record: under the new batch number, so that what was announced before counts no more."""
    keys = set(after) if other_records else {*table.ends, *after}
    ends = {key: max(0 if other_records else table.ends.get(key, 0), after.get(key, 0)) for key in keys}
    offsets = offsets_of(ends)
    return PipelineProgress(batch, offsets, {topic: ids[topic] for topic in offsets if topic in ids})


def _is_settled(facts: RebaseFacts, former: list[str]) -> bool:
    """Whether a run would start as it is: nothing recorded elsewhere, group and log agree, the chain is whole."""
    if former or facts.broken or facts.lacking or facts.cut_off:
        return False
    # A rebase that a run interrupted has taken some tables over under a batch that the chain never had.
    if facts.chain_batch is not None and any(t.newest and t.newest.batch > facts.chain_batch for t in facts.tables):
        return False
    if not facts.announced:
        return not facts.group and not any(t.newest for t in facts.tables)
    return all(
        key in facts.group
        and facts.group[key].offset == r.end
        and key in facts.partitions
        and facts.partitions[key].topic_id == r.topic_id
        for key, r in facts.announced.items()
    )


def _partition(facts: RebaseFacts, key: PartitionKey, at: int) -> PartitionRebase:
    fact = facts.partitions[key]
    ends = [t.ends[key] for t in facts.tables if key in t.ends]
    ids = {t.newest.topic_ids.get(key[0]) for t in facts.tables if t.newest is not None} - {None, fact.topic_id}
    safe, announced = facts.group.get(key), facts.announced.get(key)
    return PartitionRebase(
        topic=key[0],
        partition=key[1],
        topic_id=fact.topic_id,
        former_topic_id=next(iter(sorted(i for i in ids if i is not None)), None),
        group=safe.offset if safe is not None else None,
        announced=announced.end if announced is not None else None,
        tables_least=min(ends, default=None),
        tables_most=max(ends, default=None),
        after=at,
        log_start=fact.log_start,
        log_end=fact.log_end,
    )
