"""Looks at a pipeline's source offsets wherever they are kept, and moves them when a person has decided so.

In: a target's broker and catalog and a pipeline's name. Out: `PipelineOffsets`; or, for a move, one Kafka transaction that holds
both the group's new offsets and the event that lets the chain go on there (invariant 1). A live pipeline is refused.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import GroupOffset, KafkaAdmin
from framework.adapters.kafka.control.transactions import PipelineProducer
from framework.commit.events.event_types import Accounting, Acted, OffsetsSet, SourceRange
from framework.commit.machine.effects import ExaminedTable
from framework.commit.offsets import Gaps, PartitionKey, SafeOffset, decode_metadata, encode_metadata
from framework.commit.read_back import check_owner
from framework.commit.recovery.settle_offsets import PartitionPlaces, PipelineOffsets, Settlement
from framework.errors import FloeError, OutcomeUnknown, StateDisagreement
from framework.observe.liveness import exclusive
from framework.observe.status.control_log import ControlLog, read_control_log
from framework.plan.compile import coordinator_group, group_id

LOADERS = 8
MOVES_REPORTED = 10


@dataclass(frozen=True)
class Where:
    """Where a pipeline's state lies. `topics` and `tables` are what its file names, empty when only its name is
    known."""

    pipeline: str
    prefix: str
    kafka: dict[str, str]
    control_topic: str
    topics: tuple[str, ...] | str = ()
    tables: tuple[str, ...] = ()


def read_places(where: Where, catalog: IcebergTables) -> PipelineOffsets:
    """Ask everybody once.

    Raises:
        SetupError: the broker or the catalog does not answer, or there is no control topic.
    """
    admin = KafkaAdmin(where.kafka)
    log = read_control_log(
        admin, where.kafka, where.control_topic, coordinator_group(where.prefix, where.control_topic), None
    )
    group = admin.group_offsets(group_id(where.prefix, where.pipeline))
    views = _views(catalog, _tables(where, log, catalog), log.facts.topic_id)
    return _places(where, admin, log, group, views)


def _tables(where: Where, log: ControlLog, catalog: IcebergTables) -> Iterable[str]:
    """The tables that may hold records of the pipeline: named by its file or by the log; all, where neither names
    any."""
    named = {*where.tables, *log.commits, *log.state.tables}
    return sorted(named) if named else catalog.list_tables()


def _views(catalog: IcebergTables, tables: Iterable[str], control_topic_id: str) -> list[ExaminedTable]:
    with ThreadPoolExecutor(LOADERS) as pool:
        found = pool.map(lambda name: catalog.load_view(name, "main", control_topic_id), tables)
        return [view for view in found if view is not None]


def _places(
    where: Where,
    admin: KafkaAdmin,
    log: ControlLog,
    group: dict[PartitionKey, GroupOffset],
    views: list[ExaminedTable],
) -> PipelineOffsets:
    name = where.pipeline
    folded = log.state.pipelines.get(name)
    link = folded.link if folded is not None else None
    newest = log.links.get(name)
    given_up = {(r.topic, r.partition): r for r in link.given_up} if link is not None else {}
    announced = {**given_up, **({(r.topic, r.partition): r for r in link.ranges} if link is not None else {})}
    recorded: dict[PartitionKey, dict[str, int]] = {}
    of_topic: dict[tuple[str, int, str], str] = {}  # of which topic id the table holds it
    batches = [each.batch for each in (link, newest) if each is not None]
    for view in views:
        progress = view.progress.pipelines.get(name) if view.progress is not None else None
        if progress is None:
            continue
        batches.append(progress.batch)
        for topic, ends in progress.offsets.items():
            for partition, end in ends.items():
                of_topic[topic, int(partition), view.table] = progress.topic_ids.get(topic, "")
                recorded.setdefault((topic, int(partition)), {})[view.table] = end
    safe = {key: found for key, value in group.items() if (found := own_offset(key, value)) is not None}
    batches += [each.batch for each in safe.values()]
    keys = {*announced, *recorded, *group}
    wanted = where.topics or sorted({topic for topic, _ in keys})
    topics = admin.topics(wanted)
    keys |= {(topic, partition) for topic, facts in topics.items() for partition in facts.partitions}
    there = [(topic, partition) for topic, facts in topics.items() for partition in facts.partitions]
    starts, ends_now = admin.start_offsets(there), admin.end_offsets(there)
    newest_safe = max(safe.values(), key=lambda each: each.batch, default=None)
    totals = link.totals if link is not None else (newest_safe.totals if newest_safe else Accounting())
    return PipelineOffsets(
        pipeline=name,
        cluster_id=admin.cluster_id(),
        control_topic=where.control_topic,
        control_topic_id=log.facts.topic_id,
        batch=max(batches, default=0),
        base_batch=max((each.base_batch for each in safe.values()), default=None if announced or recorded else 0),
        totals=totals,
        broken=(folded.broken if folded is not None else None) or "",
        partitions=tuple(
            PartitionPlaces(
                topic=key[0],
                partition=key[1],
                topic_id=topics[key[0]].topic_id if key in starts else None,
                log_start=starts.get(key),
                log_end=ends_now.get(key),
                group=group[key].offset if key in group else None,
                group_topic_id=safe[key].topic_id if key in safe else None,
                announced=announced[key].end if key in announced else None,
                announced_topic_id=announced[key].topic_id if key in announced else None,
                recorded={
                    table: end
                    for table, end in recorded.get(key, {}).items()
                    # Invariant 11: what a table holds of a topic that had this name before is no offset of this one.
                    if key not in starts or of_topic[key[0], key[1], table] == topics[key[0]].topic_id
                },
                given_up=key in given_up,
            )
            for key in sorted(keys)
        ),
    )


def own_offset(key: PartitionKey, value: GroupOffset) -> SafeOffset | None:
    """What was committed beside an offset; None when something that is not floe committed it."""
    try:
        return decode_metadata(value.offset, value.metadata, f"{key[0]}-{key[1]}")
    except StateDisagreement:
        return None


def offsets_at(where: Where, places: PipelineOffsets, timestamp_ms: int) -> dict[PartitionKey, int]:
    """For every partition that exists the first offset whose record is not older than a moment; its log's end, if
    none."""
    there = {p.key: p.log_end for p in places.partitions if p.log_end is not None}
    found = KafkaAdmin(where.kafka).offsets_at(there, timestamp_ms)
    return {key: offset if offset >= 0 else there[key] for key, offset in found.items()}


def perform(
    where: Where,
    catalog: IcebergTables,
    decide: Callable[[PipelineOffsets], Settlement],
    expected: Settlement,
    doing: str,
    by: str = "",
    why: str = "",
) -> int:
    """Move the offsets; returns the control offset of the event. Who does it and why stands in the same transaction.

    The pipeline's transactional id is taken first, so that no run can announce any more; then everything is looked at
    again, and the move is made only if it is still the one that was shown.

    Raises:
        SetupError: the pipeline is live. StateDisagreement: something has changed since; nothing was moved.
        FloeError: the broker refuses.
    """
    with exclusive(where.kafka, where.prefix, where.pipeline, where.control_topic, doing) as producer:
        settlement = decide(read_places(where, catalog))
        if settlement.moves != expected.moves:
            raise StateDisagreement(
                f"the offsets of pipeline {where.pipeline} have changed in the meantime; nothing was set",
                code="FLOE-R346",
                place=where.pipeline,
                remedy="look again with `floe offsets show`, then run the command again",
            )
        now_ms = int(time.time() * 1000)
        ends = ", ".join(f"{m.topic}:{m.partition}={m.after}" for m in settlement.moves[:MOVES_REPORTED])
        more = f" and {len(settlement.moves) - MOVES_REPORTED:,} more" if len(settlement.moves) > MOVES_REPORTED else ""
        acted = Acted("offsets set", where.pipeline, by, why, now_ms, f"to {ends}{more}")
        return announce_settled(where, producer, settlement.event(f"set-{uuid.uuid4().hex[:8]}", now_ms), (acted,))


def announce_settled(where: Where, producer: PipelineProducer, event: OffsetsSet, acted: tuple[Acted, ...] = ()) -> int:
    """The event, who asked for it and the group's offsets in one transaction; returns the control offset behind it,
    -1 if it was read back."""
    keys = [(r.topic, r.partition) for r in event.ranges]
    before = KafkaAdmin(where.kafka).group_offsets(group_id(where.prefix, where.pipeline), keys)
    known = {key: found for key, value in before.items() if (found := own_offset(key, value)) is not None}

    def gaps(r: SourceRange) -> Gaps:
        # What was lost stays on record, as long as it is the same topic.
        found = known.get((r.topic, r.partition))
        return found.gaps if found is not None and found.topic_id == r.topic_id else ()

    # Where the run published what it runs stays known too; read from another log, the offset holds no such event.
    newest = max(known.values(), key=lambda safe: safe.batch, default=None)
    published_at = newest.deployed_at if newest is not None else None
    offsets = {
        (r.topic, r.partition): (
            r.end,
            encode_metadata(r.topic_id, event.batch, event.totals, event.run, event.base_batch, gaps(r), published_at),
        )
        for r in event.ranges
    }
    try:
        return producer.announce((*acted, event), offsets)
    except OutcomeUnknown:
        # Invariant 7: read back. The run's name is ours alone, so its presence says that the transaction was committed.
        # Invariant 2: a run that was started meanwhile is the newer one, and to recover would fence it.
        keys = list(offsets)
        now = KafkaAdmin(where.kafka).group_offsets(group_id(where.prefix, where.pipeline), keys, settled=False)
        runs = {event.run, *(safe.run for safe in known.values())}
        check_owner(where.pipeline, runs, {k: s for k, v in now.items() if (s := own_offset(k, v)) is not None})
        producer.recover()
        group = KafkaAdmin(where.kafka).group_offsets(group_id(where.prefix, where.pipeline), offsets)
        ours = [found.run for key, value in group.items() if (found := own_offset(key, value)) is not None]
        if ours and all(found == event.run for found in ours):
            return -1
        if event.run in ours:
            raise FloeError(
                f"only some offsets of pipeline {where.pipeline} were set, which a transaction never does",
                code="FLOE-R318",
                place=where.pipeline,
                remedy="`floe offsets show` says what is there",
            ) from None
        return producer.announce((*acted, event), offsets)
