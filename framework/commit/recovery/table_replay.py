"""Reading source ranges again for one table: which, and why not.

In: what a table lacks, what a person names, what the broker and the table say. Out: a `ReplayPlan`, or a refusal. Keeps
invariant 5: only what the table is known to lack is read, under a name of its own, whose chain and progress make it
exact also when it is killed and done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from framework.commit.events.event_types import DataWritten, SourceRange
from framework.commit.machine.effects import TableProgress
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.commit.offsets import PartitionFacts, PartitionKey
from framework.commit.recovery.missing import Gap
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import DataLossError, FloeError, StateDisagreement


@dataclass(frozen=True)
class ReplayPlan:
    """`gaps` are read one after another; those that are `declared` are not in the table's own list yet. `held` counts
    rows that the table holds of them, None where its columns do not tell."""

    table: str
    pipeline: str
    gaps: tuple[Gap, ...]
    declared: bool
    held: int | None

    @property
    def settled(self) -> bool:
        return not self.gaps


def named_gap(
    pipeline: str,
    facts: Mapping[PartitionKey, PartitionFacts],
    begin: Mapping[PartitionKey, int],
    end: Mapping[PartitionKey, int],
    gap_id: str,
) -> Gap:
    """What a person names: from `begin` to before `end`, in every partition that is in both and has something between.

    Raises:
        StateDisagreement: FLOE-R341, there is no such partition; FLOE-R358, nothing lies between.
    """
    unknown = sorted({*begin, *end} - set(facts))
    if unknown:
        raise StateDisagreement(
            f"pipeline {pipeline} reads no partition {', '.join(f'{t}:{n}' for t, n in unknown)}",
            code="FLOE-R341",
            place=pipeline,
            remedy=f"`floe offsets show {argument(pipeline)}` lists its partitions",
        )
    ranges = tuple(
        SourceRange(key[0], facts[key].topic_id, key[1], begin[key], end[key])
        for key in sorted(begin)
        if key in end and begin[key] < end[key]
    )
    if not ranges:
        raise StateDisagreement(
            f"nothing lies between --from and --to for pipeline {pipeline}",
            code="FLOE-R358",
            place=pipeline,
            remedy="for each partition, name the first offset and a higher one to stop before: --from t:0=10 --to t:0=20",
        )
    return Gap(gap_id, pipeline, ranges)


def plan_replay(
    table: str,
    pipeline: str,
    noted: tuple[Gap, ...],
    named: Gap | None,
    held: int | None,
    facts: Mapping[PartitionKey, PartitionFacts],
    allow_duplicates: bool,
    coming: OffsetRanges = NO_OFFSETS,
) -> ReplayPlan:
    """Decide, or refuse.

    Args:
        noted: what the table says it lacks, of all pipelines.
        named: what a person names instead; None: everything noted.
        held: rows of the named ranges that the table holds; None where it cannot be reported.
        coming: what comes into the table by itself: announced and not in it yet, or not read yet.

    Raises:
        StateDisagreement: FLOE-R359, the table may hold these records; FLOE-R316, the topic is another one now.
        DataLossError: FLOE-R352, retention removed some.
    """
    gaps = _readable(table, [gap for gap in noted if gap.pipeline == pipeline] if named is None else [named], facts)
    lacking = OffsetRanges.of(r for gap in noted if gap.pipeline == pipeline for r in gap.ranges)
    if named is not None and (twice := OffsetRanges.of(named.ranges) & lacking) and not allow_duplicates:
        raise StateDisagreement(
            f"table {table} has {counted(twice.offsets, 'offset')} of these source ranges on its own list of what it lacks, and "
            "would get them twice",
            code="FLOE-R359",
            place=table,
            remedy=f"`floe replay FILE --table {argument(table)}`, without --from and --to, reads what is on the list",
        )
    if named is not None and (soon := OffsetRanges.of(named.ranges) & coming) and not allow_duplicates:
        raise StateDisagreement(
            f"{counted(soon.offsets, 'offset')} of these source ranges come into table {table} by themselves: they are announced "
            f"for it, or pipeline {pipeline} has not read them yet",
            code="FLOE-R359",
            place=table,
            remedy="name only offsets that the table lacks for good; `floe offsets show` says how far the pipeline has read",
        )
    if named is not None and held != 0 and not allow_duplicates:
        raise StateDisagreement(
            f"table {table} holds {counted(held, 'row')} of these source ranges"
            if held
            else f"it is unclear whether table {table} holds records of these source ranges: it has no Kafka positions",
            code="FLOE-R359",
            place=table,
            remedy="first delete or roll back what it holds of them; --allow-duplicates adds them anyway",
        )
    return ReplayPlan(table, pipeline, gaps, named is not None, held)


def _readable(table: str, gaps: Sequence[Gap], facts: Mapping[PartitionKey, PartitionFacts]) -> tuple[Gap, ...]:
    """The gaps whose records are still there. One that can never be filled, since its topic is no more, keeps nobody from
    the others.

    Raises:
        FloeError: none can be read; why the first cannot.
    """
    found: list[Gap] = []
    refused: FloeError | None = None
    for gap in gaps:
        try:
            for r in gap.ranges:
                _check_source(table, r, facts.get((r.topic, r.partition)))
        except FloeError as error:
            refused = refused or error
        else:
            found.append(gap)
    if refused is not None and not found:
        raise refused
    return tuple(found)


def _check_source(table: str, r: SourceRange, fact: PartitionFacts | None) -> None:
    name = f"{r.topic}-{r.partition}"
    if fact is None or fact.topic_id != r.topic_id:
        now = "it does not exist" if fact is None else f"now it is {fact.topic_id}"
        raise StateDisagreement(
            f"table {table} lacks records of topic {r.topic} with id {r.topic_id}, {now}",
            code="FLOE-R316",
            place=name,
            remedy="the records can only come from their producer",
        )
    if r.start < fact.log_start:
        raise DataLossError(
            f"table {table} lacks records {r.start} to {r.end - 1} of {name}, and those below {fact.log_start} were removed by "
            "retention",
            code="FLOE-R352",
            place=name,
            remedy="name the rest with --from and --to; what is gone can only come from its producer",
        )
    if r.end > fact.log_end:
        raise DataLossError(
            f"{name} should be read to {r.end}, but its log ends at {fact.log_end}",
            code="FLOE-R317",
            place=name,
            remedy="check --to, and bootstrap.servers",
        )


def comes_by_itself(
    events: Iterable[tuple[int, DataWritten]],
    recorded: int,
    safe: Mapping[PartitionKey, int],
    facts: Mapping[PartitionKey, PartitionFacts],
) -> OffsetRanges:
    """What comes into a table without a replay.

    Args:
        events: the announcements for the table of the pipeline and of its replays, with their offsets in the log.
        recorded: the table's own control offset: everything below it is in the table, or was given up.
        safe: how far the pipeline has read, by partition; a partition that it does not know is read from its start.
    """
    announced = (r for offset, event in events if offset >= recorded for r in event.ranges)
    unread = (
        SourceRange(topic, fact.topic_id, partition, safe.get((topic, partition), fact.log_start), fact.log_end)
        for (topic, partition), fact in facts.items()
    )
    return OffsetRanges.of((*announced, *unread))


def without_replay(progress: TableProgress, gap: Gap) -> TableProgress:
    """The table's progress once the gap is filled: the run that filled it leaves no trace, so that nobody waits for
    it. It stays where the pipeline itself has none: only by that is it known whose records the table holds, and so
    who has a say in its maintenance."""
    if gap.pipeline not in progress.pipelines:
        return progress
    return replace(
        progress, pipelines={name: p for name, p in progress.pipelines.items() if name != gap.replay_pipeline}
    )
