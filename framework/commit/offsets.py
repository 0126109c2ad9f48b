"""Source positions: where a pipeline may start, what its next batch covers, and how the work is cut into tasks.

In: facts as plain values (group offsets, topic facts, the chain in the control log). Out: positions and offset ranges, or a
StateDisagreement that shows both values. Keeps invariant 2 (batches form an unbroken chain), invariant 11 (offsets are
valid only for the topic id they came from) and the rule that a missing offset is never read as "new, from 0".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from framework.commit.events.event_types import Accounting, SourceRange
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import DataLossError, StateDisagreement

PartitionKey = tuple[str, int]
Gaps = tuple[tuple[int, int], ...]
"""Offsets [start, end) of one partition that were gone before they were read, oldest first."""

FAIL, SKIP_AND_RECORD = "fail", "skip_and_record"
# So many fit into the metadata of an offset, whose limit is 4,096 bytes. The accounting counts those that were left
# out.
MAX_GAPS = 32


@dataclass(frozen=True)
class SafeOffset:
    """One partition's committed source offset with what its metadata string says: topic id, run, batch, totals so far,
    the partition's newest gaps, under which batch number the offsets were last moved by hand (0: never), and the
    control offset at which its run published what it runs."""

    offset: int
    topic_id: str
    batch: int
    totals: Accounting
    run: str = ""
    base_batch: int = 0
    gaps: Gaps = ()
    deployed_at: int | None = None


def encode_metadata(
    topic_id: str,
    batch: int,
    totals: Accounting,
    run: str,
    base_batch: int = 0,
    gaps: Gaps = (),
    deployed_at: int | None = None,
) -> str:
    """The metadata string committed beside every source offset; well below the broker's limit of 4,096 bytes.

    Args:
        deployed_at: the control offset of the run's Deployed event, so that it is found without reading the log.
    """
    data: dict[str, object] = {"topic_id": topic_id, "run": run, "batch": batch, "totals": list(astuple(totals))}
    if base_batch:
        data["base_batch"] = base_batch
    if gaps:
        data["gaps"] = gaps
    if deployed_at is not None:
        data["deployed_at"] = deployed_at
    return json.dumps(data, separators=(",", ":"))


def add_gap(gaps: Gaps, start: int, end: int) -> Gaps:
    """The gaps with one more behind them; neighbours become one, and only the newest are kept."""
    if gaps and gaps[-1][1] == start:
        start, gaps = gaps[-1][0], gaps[:-1]
    return (*gaps, (start, end))[-MAX_GAPS:]


def decode_metadata(offset: int, metadata: str, place: str) -> SafeOffset:
    """Read back what `encode_metadata` wrote.

    Raises:
        StateDisagreement: the offset was committed by something that is not floe.
    """
    try:
        data = json.loads(metadata)
        totals = Accounting(*(int(value) for value in data["totals"]))
        base_batch, at = int(data.get("base_batch", 0)), data.get("deployed_at")
        gaps = tuple((int(start), int(end)) for start, end in data.get("gaps", ()))
        deployed_at = int(at) if at is not None else None
        topic_id, batch, run = str(data["topic_id"]), int(data["batch"]), str(data["run"])
        return SafeOffset(offset, topic_id, batch, totals, run, base_batch, gaps, deployed_at)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateDisagreement(
            f"the committed offset {offset} was not written by floe (its metadata is {metadata!r})",
            code="FLOE-R313",
            place=place,
            remedy="another consumer uses this group id, or somebody set its offsets by hand; "
            "`floe offsets set PIPELINE --from-log` writes the announced offsets back",
        ) from error


@dataclass(frozen=True)
class PartitionFacts:
    """A source partition as the broker shows it: [log_start, log_end), log_end being the last stable offset."""

    topic_id: str
    log_start: int
    log_end: int


@dataclass(frozen=True)
class StartPoint:
    """Where a pipeline goes on: its position per partition, the newest announced batch, the totals so far.

    `given_up` are the ends of partitions that a person gave up and that are not read; `returned` are those among the
    positions that were given up once and are read again from where that was.
    """

    positions: dict[PartitionKey, int]
    batch: int
    totals: Accounting
    first_run: bool
    base_batch: int = 0
    given_up: tuple[SourceRange, ...] = ()
    returned: tuple[PartitionKey, ...] = ()

    @property
    def claimed_batch(self) -> int:
        """Under which number the run says where it begins: one of its own where a partition is read again, so that no
        batch with its records follows directly on one without it. What a table records of it may be older than where it
        was given up, and that is no gap."""
        return self.batch + bool(self.returned)


def decide_start(
    pipeline: str,
    group: Mapping[PartitionKey, SafeOffset],
    facts: Mapping[PartitionKey, PartitionFacts],
    chain: Iterable[SourceRange] | None,
    starting_offsets: str,
    on_data_loss: str = FAIL,
    given_up: Iterable[SourceRange] = (),
) -> StartPoint:
    """Where to start, or a refusal that shows both values.

    Args:
        group: safe offsets of the pipeline's consumer group.
        facts: every partition of the pipeline's topics now.
        chain: ranges of the pipeline's newest DataComplete or Heartbeat in the control log; None when it has none.
        starting_offsets: `earliest` or `latest`; used only when the pipeline has never run.
        on_data_loss: `skip_and_record`: a position in front of its log's start is no error; `find_gaps` reports it.
        given_up: where partitions ended that a person gave up, as the control log says.

    Raises:
        StateDisagreement: positions in different places do not fit.
        DataLossError: the safe offset lies outside the log.
    """
    announced = {(r.topic, r.partition): r for r in chain} if chain is not None else {}
    base_batch = max((safe.base_batch for safe in group.values()), default=0)
    left = {(r.topic, r.partition): r for r in given_up}
    for key, old in group.items():  # an older log does not tell what was given up; the group may still know
        if old.batch < base_batch:
            left.setdefault(key, SourceRange(key[0], old.topic_id, key[1], old.offset, old.offset))
    group = current_offsets(group, base_batch)
    first_run = not group and not announced
    if any(group.get(key) is None or group[key].offset != last.end for key, last in announced.items()):
        # The log's offsets can be written back where all of them still mean something; else that is what is wrong.
        for key, last in announced.items():
            if (fact := facts.get(key)) is None:
                raise _gone(key, f"pipeline {pipeline} announced it up to {last.end}")
            _check_position(pipeline, key, SafeOffset(last.end, last.topic_id, 0, Accounting()), fact, SKIP_AND_RECORD)
        _refuse_loss(pipeline, find_gaps({key: last.end for key, last in announced.items()}, facts))
    for key, last in announced.items():
        if key not in group:
            raise StateDisagreement(
                f"pipeline {pipeline} announced offsets up to {last.end} of {_name(key)}, "
                "but its consumer group has no offset for it",
                code="FLOE-R314",
                place=_name(key),
                remedy=f"`floe offsets set {argument(pipeline)} --from-log` writes the announced offsets back",
            )
        if group[key].offset != last.end:
            raise StateDisagreement(
                f"the group offset of {_name(key)} is {group[key].offset}, but pipeline {pipeline} announced up to {last.end}",
                code="FLOE-R105",
                place=_name(key),
                remedy=f"`floe offsets set {argument(pipeline)} --from-log` writes the announced offsets back",
            )
    positions: dict[PartitionKey, int] = {}
    returned: list[PartitionKey] = []
    for key, fact in facts.items():
        safe = group.get(key)
        before = left.pop(key, None)
        if safe is not None:
            positions[key] = _check_position(pipeline, key, safe, fact, SKIP_AND_RECORD)
        elif before is not None:
            returned.append(key)
            positions[key] = first_position(pipeline, key, fact, (before,), on_data_loss)
        elif first_run and starting_offsets == "latest":
            positions[key] = fact.log_end
        else:
            positions[key] = first_position(pipeline, key, fact)
    for key in group:
        if key not in facts:
            raise _gone(key, f"pipeline {pipeline} read it up to {group[key].offset}")
    if on_data_loss != SKIP_AND_RECORD:
        _refuse_loss(pipeline, find_gaps(positions, facts))
    newest = max(group.values(), key=lambda safe: safe.batch, default=None)
    batch, totals = (newest.batch, newest.totals) if newest else (0, Accounting())
    rest = tuple(left[key] for key in sorted(left))
    return StartPoint(positions, batch, totals, first_run, base_batch, rest, tuple(returned))


def _gone(key: PartitionKey, known: str) -> StateDisagreement:
    return StateDisagreement(
        f"{_name(key)} was deleted, or its topic was taken out of the file; {known}",
        code="FLOE-R315",
        place=_name(key),
        remedy="restore the topic, or put it back into the file; or `floe offsets set FILE --from-log --allow-loss`, with the "
        "pipeline's file, goes on without it",
    )


def current_offsets(group: Mapping[PartitionKey, SafeOffset], base_batch: int) -> dict[PartitionKey, SafeOffset]:
    """The group's offsets without those from before they were last moved by hand: these are of partitions that were
    given up then, and nothing commits them any more."""
    return {key: safe for key, safe in group.items() if safe.batch >= base_batch}


def first_position(
    pipeline: str,
    key: PartitionKey,
    fact: PartitionFacts,
    given_up: Iterable[SourceRange] = (),
    on_data_loss: str = FAIL,
) -> int:
    """Where a partition is read from that the run did not read before: the start of its log for a grown topic or a new
    one of the pattern. One that was given up goes on where that was, if it is the same topic still: reading it from its
    start would add its records again.

    Raises:
        DataLossError: retention removed what follows the place where it was given up.
        StateDisagreement: FLOE-R316, it was given up in a topic that was recreated since.
    """
    for r in given_up:
        if (r.topic, r.partition, r.topic_id) == (*key, fact.topic_id):
            return _check_position(pipeline, key, SafeOffset(r.end, r.topic_id, 0, Accounting()), fact, on_data_loss)
        if (r.topic, r.partition) == key:  # Invariant 11: what tables hold of it is of the topic before
            _check_position(pipeline, key, SafeOffset(r.end, r.topic_id, 0, Accounting()), fact, on_data_loss)
    return fact.log_start


def check_announced(
    pipeline: str,
    group: Mapping[PartitionKey, SafeOffset],
    chain: Iterable[SourceRange] | None,
    control_topic: str,
) -> None:
    """Invariant 6, seen from the pipeline: its offsets were committed with announcements, so the log must know of it.

    Raises:
        DataLossError: it does not: the control topic was recreated, or another one is named now. What was announced in
            the old one and not yet committed is in no table, and would never be read again.
    """
    if chain is not None or not group:
        return
    newest = max(group.values(), key=lambda safe: safe.batch)
    raise DataLossError(
        f"pipeline {pipeline} announced batch {newest.batch}, but control topic {control_topic} holds no announcement of it: "
        "it was recreated, retention removed it, or another topic is named now",
        code="FLOE-R319",
        place=control_topic,
        remedy="name the control topic of the last run in commit.control_topic; if that is gone, or was left on purpose, "
        "`floe rebase FILE` goes on from what the tables hold and reads again what they lack",
    )


def check_still_readable(
    pipeline: str,
    positions: Mapping[PartitionKey, int],
    ids: Mapping[str, str],
    facts: Mapping[PartitionKey, PartitionFacts],
    on_data_loss: str = FAIL,
) -> None:
    """The same checks for a running pipeline, before each batch.

    Raises:
        DataLossError, StateDisagreement: as in `decide_start`.
    """
    for key, position in positions.items():
        fact = facts.get(key)
        if fact is None:
            raise _gone(key, f"it was read up to {position}")
        _check_position(pipeline, key, SafeOffset(position, ids[key[0]], 0, Accounting()), fact, SKIP_AND_RECORD)
    if on_data_loss != SKIP_AND_RECORD:
        _refuse_loss(pipeline, find_gaps(positions, facts))


def recreated_topics(
    group: Mapping[PartitionKey, SafeOffset], announced: Iterable[SourceRange], topic_ids: Mapping[str, str]
) -> tuple[str, ...]:
    """Topics that have another id now than the one that was read: their offsets mean other records (invariant 11).

    Args:
        announced: the ranges of the newest announcement. With a topic the broker deletes what the group knew of it.
        topic_ids: of the topics that are there.
    """
    read = {key[0]: safe.topic_id for key, safe in group.items()}
    read = {r.topic: r.topic_id for r in announced if r.topic_id} | read
    return tuple(sorted(topic for topic, was in read.items() if topic_ids.get(topic, was) != was))


def find_gaps(
    positions: Mapping[PartitionKey, int], facts: Mapping[PartitionKey, PartitionFacts]
) -> tuple[SourceRange, ...]:
    """What retention removed between each position and the present start of its log, in order."""
    return tuple(
        SourceRange(key[0], fact.topic_id, key[1], position, fact.log_start)
        for key, position in sorted(positions.items())
        if (fact := facts.get(key)) is not None and position < fact.log_start
    )


BEHIND_END_REMEDY = (
    "check bootstrap.servers first: the broker lost records, or this is another cluster. Where MirrorMaker copied the topic to "
    "it, `floe rebase FILE --begin-at latest` goes on behind the copies"
)
RECREATED_REMEDY = (
    "`floe rebase FILE --begin-at earliest` goes on with it from its start, into the same tables; if each offset "
    "holds the record that it held, `floe rebase FILE --same-offsets`"
)


def _check_position(pipeline: str, key: PartitionKey, safe: SafeOffset, fact: PartitionFacts, on_data_loss: str) -> int:
    if safe.topic_id != fact.topic_id:  # Invariant 11
        raise StateDisagreement(
            f"topic {key[0]} was recreated: pipeline {pipeline} read the one with id {safe.topic_id}, now it is {fact.topic_id}",
            code="FLOE-R316",
            place=_name(key),
            remedy=RECREATED_REMEDY,
        )
    if on_data_loss != SKIP_AND_RECORD:
        _refuse_loss(pipeline, find_gaps({key: safe.offset}, {key: fact}))
    if safe.offset > fact.log_end:
        raise DataLossError(
            f"the safe offset of {_name(key)} is {safe.offset}, but its log ends at {fact.log_end}",
            code="FLOE-R317",
            place=_name(key),
            remedy=BEHIND_END_REMEDY,
        )
    return safe.offset


def _refuse_loss(pipeline: str, gaps: tuple[SourceRange, ...]) -> None:
    """Raises DataLossError where there are any. Its command goes on behind all of them: after one alone the next would stop
    the run."""
    if not gaps:
        return
    first, more = gaps[0], ""
    if len(gaps) > 1:
        more = f", and so were records of {counted(len(gaps) - 1, 'other partition')}"
    ends = " ".join(f"{argument(gap.topic)}:{gap.partition}={gap.end}" for gap in gaps)
    raise DataLossError(
        f"records {first.start} to {first.end - 1} of {first.topic}-{first.partition} were removed by retention before they were "
        f"read{more}",
        place=f"{first.topic}-{first.partition}",
        remedy="raise the topic's retention; the records can only come from their producer. To go on without them: "
        f"`floe offsets set {argument(pipeline)} {ends} --allow-loss`, or set source.kafka.on_data_loss: skip_and_record, which "
        "records each gap",
    )


def _name(key: PartitionKey) -> str:
    return f"{key[0]}-{key[1]}"


def plan_ends(
    positions: Mapping[PartitionKey, int], ends: Mapping[PartitionKey, int], max_records: int
) -> dict[PartitionKey, int]:
    """How far the next batch goes: to the ends, or a fair share of `max_records` where the backlog is larger.

    Small partitions are read whole first, so that one hot partition never starves the others.
    """
    backlog = {key: max(0, ends.get(key, start) - start) for key, start in positions.items()}
    left, result = max_records, dict(positions)
    todo = sorted((n, key) for key, n in backlog.items() if n)
    for index, (count, key) in enumerate(todo):
        share = min(count, max(1, left // (len(todo) - index)))
        result[key] = positions[key] + share
        left = max(0, left - share)
    return result


@dataclass(frozen=True)
class OffsetRange:
    """Offsets [start, end) of one partition: the piece of a range that one task reads."""

    topic: str
    partition: int
    start: int
    end: int


def cut_tasks(
    start: Mapping[PartitionKey, int], end: Mapping[PartitionKey, int], tasks: int, min_records: int
) -> list[list[OffsetRange]]:
    """Cut the ranges into at most `tasks` bundles of about equal size; parallelism is not bound by the partition count.

    No task gets less than about `min_records` while another could take it, since a task costs more than that to start.
    """
    sizes = {key: end[key] - start.get(key, end[key]) for key in end if end[key] > start.get(key, end[key])}
    total = sum(sizes.values())
    if not total:
        return []
    tasks = max(1, min(tasks, -(-total // max(1, min_records))))
    goal = -(-total // tasks)
    bundles: list[list[OffsetRange]] = [[]]
    room = goal
    for topic, partition in sorted(sizes):
        at, stop = start[topic, partition], end[topic, partition]
        while at < stop:
            if not room:
                bundles.append([])
                room = goal
            take = min(room, stop - at)
            bundles[-1].append(OffsetRange(topic, partition, at, at + take))
            at += take
            room -= take
    return bundles
