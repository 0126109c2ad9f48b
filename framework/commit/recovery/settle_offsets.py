"""Moving a pipeline's source offsets by hand: what each place says of them, where they disagree, and what a move costs.

In: what the consumer group, the control log, the tables and the broker say, as values, and what a person asks for. Out:
a `Settlement` that says for each partition where it was and where it goes on, or a refusal. Keeps invariants 2 and 11
by consent only: a move that loses or repeats records, or crosses to another topic of the same name, must be allowed by
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from framework.commit.events.event_types import Accounting, OffsetsSet, SourceRange
from framework.commit.offsets import PartitionKey
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import DataLossError, StateDisagreement


class OffsetsOrigin(str, Enum):
    """Where the new offsets come from."""

    LOG = "--from-log"
    TABLES = "--from-tables"
    GIVEN = "given offsets"


@dataclass(frozen=True)
class PartitionPlaces:
    """One partition as each place knows it; None where a place knows nothing.

    `topic_id`, `log_start`, `log_end`: the broker's; all None when the partition does not exist. `group`: the consumer
    group's offset, whoever wrote it; `announced`: where the good chain in the control log ends, of
    `announced_topic_id`. `recorded` maps tables to the source offset up to which they hold the pipeline, of this very
    topic. `given_up`: a person gave the partition up at `announced`; if the pipeline reads it again, it goes on there
    by itself.
    """

    topic: str
    partition: int
    topic_id: str | None = None
    log_start: int | None = None
    log_end: int | None = None
    group: int | None = None
    group_topic_id: str | None = None
    announced: int | None = None
    announced_topic_id: str | None = None
    recorded: Mapping[str, int] | None = None
    given_up: bool = False

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.partition}"

    @property
    def recorded_end(self) -> int | None:
        """The furthest that any table has come; tables without rows in a batch do not move with it."""
        return max(self.recorded.values(), default=None) if self.recorded else None

    @property
    def reached(self) -> int | None:
        """Up to where records are in tables or announced for them, as far as can be reported. Where the log does not say,
        the lesser of what tables hold and what the group has read: a person may have moved either back."""
        return min(self._known, default=None)

    @property
    def furthest(self) -> int | None:
        """Up to where records may have been read: where the log does not say, the greater of the two. What tables lack of
        that a person may have given up."""
        return max(self._known, default=None)

    @property
    def _known(self) -> tuple[int, ...]:
        if self.announced is not None:
            return (self.announced,)
        read = self.group if self.group_topic_id is not None and self.group_topic_id == self.topic_id else None
        return tuple(at for at in (self.recorded_end, read) if at is not None)

    @property
    def lag(self) -> int | None:
        at = self.group if self.group is not None else self.announced
        return None if at is None or self.log_end is None else max(0, self.log_end - at)


@dataclass(frozen=True)
class PipelineOffsets:
    """A pipeline's source offsets everywhere. `batch` is the highest batch number met anywhere, `broken` why the chain
    in the log is broken ("" when it is not), `base_batch` None when the group does not tell."""

    pipeline: str
    cluster_id: str
    control_topic: str
    control_topic_id: str
    batch: int
    base_batch: int | None
    totals: Accounting
    broken: str
    partitions: tuple[PartitionPlaces, ...]

    @property
    def known(self) -> bool:
        """Whether the pipeline has left any trace."""
        return any(p.group is not None or p.reached is not None for p in self.partitions)


def disagreements(places: PipelineOffsets) -> tuple[str, ...]:
    """What does not fit together, one sentence each; nothing when all places agree."""
    found = [f"the chain of its batches is broken: {places.broken}"] if places.broken else []
    for p in places.partitions:
        if p.given_up:
            continue  # where it was given up is known, and nobody commits offsets of it
        if p.topic_id is None:
            found.append(f"{p.name} was deleted, or its topic was taken out of the file")
            continue
        for what, topic_id in (("announced", p.announced_topic_id), ("committed", p.group_topic_id)):
            if topic_id is not None and topic_id != p.topic_id:
                found.append(f"{p.name} was recreated: offsets were {what} for topic id {topic_id}, it is {p.topic_id}")
        if p.group is None and p.announced is not None:
            found.append(f"{p.name}: announced up to {p.announced}, the group has no offset")
        elif p.group is not None and p.announced is not None and p.group != p.announced and not places.broken:
            found.append(f"{p.name}: announced up to {p.announced}, the group's offset is {p.group}")
        elif p.group is not None and p.announced is None:
            found.append(f"{p.name}: the group's offset is {p.group}, the control log knows no announcement of it")
        ahead = {
            table: end for table, end in (p.recorded or {}).items() if p.announced is not None and end > p.announced
        }
        for table, end in sorted(ahead.items()):
            found.append(f"{p.name}: table {table} holds records up to {end}, announced is {p.announced}")
        at = p.group if p.group is not None else p.reached
        if at is not None and p.log_start is not None and at < p.log_start:
            found.append(f"{p.name}: records {at} to {p.log_start - 1} were removed by retention before they were read")
        if at is not None and p.log_end is not None and at > p.log_end:
            found.append(f"{p.name}: the offset is {at}, the log ends at {p.log_end}")
    return tuple(found)


@dataclass(frozen=True)
class Move:
    """One partition's move. `lost` source offsets will never be read, `repeated` ones will be read a second time."""

    topic: str
    partition: int
    topic_id: str
    before: int | None
    after: int
    lost: int
    repeated: int


@dataclass(frozen=True)
class Settlement:
    """What `floe offsets set` will do. `forgotten` partitions exist no more; `recreated` topics have another id now."""

    pipeline: str
    origin: OffsetsOrigin
    batch: int
    base_batch: int
    totals: Accounting
    moves: tuple[Move, ...]
    forgotten: tuple[str, ...]
    recreated: tuple[str, ...]
    given_up: tuple[SourceRange, ...] = ()

    @property
    def lost(self) -> int:
        return sum(move.lost for move in self.moves)

    @property
    def repeated(self) -> int:
        return sum(move.repeated for move in self.moves)

    def event(self, run: str, now_ms: int) -> OffsetsSet:
        ranges = tuple(SourceRange(m.topic, m.topic_id, m.partition, m.after, m.after) for m in self.moves)
        return OffsetsSet(
            self.pipeline,
            run,
            self.batch,
            ranges,
            self.totals,
            self.base_batch,
            self.lost,
            self.repeated,
            self.origin.value,
            now_ms,
            self.given_up,
        )


def settle(
    places: PipelineOffsets,
    origin: OffsetsOrigin,
    given: Mapping[PartitionKey, int],
    allow_loss: bool = False,
    allow_duplicates: bool = False,
) -> Settlement:
    """Decide the move, or refuse it.

    Args:
        given: with Origin.GIVEN the new offsets; partitions that are not named stay where they are announced to be.

    Raises:
        StateDisagreement: the place that was named knows nothing, an offset is outside its log, nobody knows where a
            partition that is not named stays, or the move repeats records.
        DataLossError: the move loses records.
    """
    moves: list[Move] = []
    recreated: set[str] = set()
    forgotten: list[str] = []
    unknown = sorted(set(given) - {p.key for p in places.partitions if p.topic_id is not None})
    if unknown:
        raise StateDisagreement(
            f"pipeline {places.pipeline} reads no partition {', '.join(f'{t}:{n}' for t, n in unknown)}",
            code="FLOE-R341",
            place=places.pipeline,
            remedy=f"`floe offsets show {argument(places.pipeline)}` lists its partitions",
        )
    given_up: list[SourceRange] = []
    for p in places.partitions:
        if p.given_up and p.key not in given:
            given_up += _given_up(p)
            continue
        if p.topic_id is None or p.log_start is None or p.log_end is None:
            if p.reached is not None:
                forgotten.append(p.name)
                given_up += _given_up(p)
            continue
        # Where retention removed the chain, the group still knows of which topic it read.
        former_id = p.announced_topic_id or p.group_topic_id
        other = former_id is not None and former_id != p.topic_id
        after = given.get(p.key, p.reached) if origin is OffsetsOrigin.GIVEN else None
        if origin is OffsetsOrigin.LOG:
            after = p.announced
        elif origin is OffsetsOrigin.TABLES:
            after = p.recorded_end
        if after is None:
            continue  # never named: the next run reads it from its beginning
        if other:
            if origin is not OffsetsOrigin.GIVEN or p.key not in given:
                raise StateDisagreement(
                    f"topic {p.topic} was recreated: what is known of its offsets is of id {former_id}, "
                    f"now it is {p.topic_id}",
                    code="FLOE-R316",
                    place=p.name,
                    remedy=f"`{_command(places, _starts(places, p.topic), True, allow_duplicates)}` begins in the new topic at "
                    "its start",
                )
            recreated.add(p.topic)
        if origin is OffsetsOrigin.GIVEN and p.key not in given and not _stays(p):
            raise _not_named(places, p, given, (allow_loss, allow_duplicates))
        if not p.log_start <= after <= p.log_end:
            raise StateDisagreement(
                f"{p.name} can be set to {p.log_start} to {p.log_end}, which its log holds, and not to {after}",
                code="FLOE-R342",
                place=p.name,
                remedy=f"name an offset: `floe offsets set {argument(places.pipeline)} "
                f"{argument(p.name)}={max(p.log_start, min(after, p.log_end))}`",
            )
        lost = 0 if p.reached is None or other else max(0, after - p.reached)
        repeated = 0 if p.furthest is None or other else max(0, p.furthest - after)
        moves.append(Move(p.topic, p.partition, p.topic_id, p.group, after, lost, repeated))
    if not moves:
        where = {OffsetsOrigin.LOG: f"control topic {places.control_topic}", OffsetsOrigin.TABLES: "no table"}.get(
            origin, "nobody"
        )
        remedy = (
            f"`floe offsets show {argument(places.pipeline)}` says what is known; "
            "offsets can be given as topic:partition=offset"
        )
        starts = [
            f"{argument(f'{p.topic}:{p.partition}')}={p.log_start}" for p in places.partitions if p.topic_id is not None
        ]
        if forgotten and starts:
            remedy = f"`floe offsets set FILE {' '.join(starts)} --allow-loss` goes on with the topics that the file names now"
        raise StateDisagreement(
            f"{where} {'knows' if origin is not OffsetsOrigin.LOG else 'has'} no offsets of pipeline {places.pipeline}",
            code="FLOE-R343",
            place=places.pipeline,
            remedy=remedy,
        )
    if recreated or forgotten or any(m.lost or m.repeated for m in moves):
        # What tables record of the batches before counts no more: what they hold of it comes a second time.
        held = {p.key: p.recorded_end or 0 for p in places.partitions}
        moves = [
            replace(m, repeated=max(m.repeated, held[m.topic, m.partition] - m.after))
            if m.topic not in recreated
            else m
            for m in moves
        ]
    behind = _tables_behind(places) if origin is OffsetsOrigin.TABLES else ()
    _check_consent(places, moves, forgotten, sorted(recreated), behind, allow_loss, allow_duplicates)
    batch = places.batch + 1
    moved = bool(recreated or forgotten) or any(m.lost or m.repeated for m in moves)
    base = batch if moved or places.base_batch is None else places.base_batch
    return Settlement(
        places.pipeline,
        origin,
        batch,
        base,
        places.totals,
        tuple(moves),
        tuple(forgotten),
        tuple(sorted(recreated)),
        tuple(given_up),
    )


def _command(
    places: PipelineOffsets, offsets: Mapping[PartitionKey, int], allow_loss: bool, allow_duplicates: bool
) -> str:
    """Whole, with each partition by name."""
    named = " ".join(f"{argument(f'{topic}:{number}')}={offset}" for (topic, number), offset in sorted(offsets.items()))
    allowed = (" --allow-loss" if allow_loss else "") + (" --allow-duplicates" if allow_duplicates else "")
    return f"floe offsets set {argument(places.pipeline)} {named}{allowed}"


def _starts(places: PipelineOffsets, topic: str) -> dict[PartitionKey, int]:
    return {p.key: p.log_start for p in places.partitions if p.topic == topic and p.log_start is not None}


def _stays(p: PartitionPlaces) -> bool:
    """Whether it is known where a partition that nobody named is. Where the log does not say how far it was announced, tables
    may lag behind the group because they have no rows of the last batches, because a person gave those up, or because others
    moved the group: only a person can tell."""
    start, held = p.log_start or 0, p.recorded_end
    return p.announced is not None or p.group is None or (p.group <= start if held is None else p.group == held)


def _not_named(
    places: PipelineOffsets, p: PartitionPlaces, given: Mapping[PartitionKey, int], allowed: tuple[bool, bool]
) -> StateDisagreement:
    """FLOE-R347: it must not move, and tables and the group differ. The commands name all such partitions."""
    held = p.recorded_end
    tables = "no table holds any of it" if held is None else f"tables hold it up to {held}"
    unknown = [each for each in places.partitions if each.key not in given and not each.given_up and not _stays(each)]
    by_group = {each.key: each.group for each in unknown if each.group is not None}
    by_tables = {each.key: each.recorded_end or each.log_start or 0 for each in unknown}
    return StateDisagreement(
        f"{p.name} is not named, and nobody knows where it stays: {tables}, the group's offset is {p.group}, and the control "
        "log no longer says how far it was announced",
        code="FLOE-R347",
        place=p.name,
        remedy=f"name it, too: `{_command(places, {**given, **by_group}, *allowed)}` goes on where the group is, "
        f"`{_command(places, {**given, **by_tables}, *allowed)}` where the tables are; nothing was changed",
    )


def _given_up(p: PartitionPlaces) -> tuple[SourceRange, ...]:
    """Where a partition that is not read any more ended, as far as its announcements say."""
    if p.announced is None or p.announced_topic_id is None:
        return ()
    return (SourceRange(p.topic, p.announced_topic_id, p.partition, p.announced, p.announced),)


def _tables_behind(places: PipelineOffsets) -> tuple[str, ...]:
    """Tables that hold less than the furthest one, where no log says that what they lack is announced for them."""
    return tuple(
        f"{p.name}: table {table} holds records up to {end}, the furthest table up to {p.recorded_end}"
        for p in places.partitions
        if p.announced is None
        for table, end in sorted((p.recorded or {}).items())
        if p.recorded_end is not None and end < p.recorded_end
    )


def _check_consent(
    places: PipelineOffsets,
    moves: list[Move],
    forgotten: list[str],
    recreated: list[str],
    behind: tuple[str, ...],
    allow_loss: bool,
    allow_duplicates: bool,
) -> None:
    losses = [f"{counted(m.lost, 'record')} of {m.topic}:{m.partition} before {m.after}" for m in moves if m.lost]
    losses += [
        f"what was not read of {name}, which was deleted or whose topic was taken out of the file" for name in forgotten
    ]
    losses += [f"what was not read of the former topic {topic}" for topic in recreated]
    losses += [f"perhaps what {line}" for line in behind]
    if losses and not allow_loss:
        raise DataLossError(
            f"this would lose {'; '.join(losses)}",
            code="FLOE-R344",
            place=places.pipeline,
            remedy="add --allow-loss to accept that; nothing was changed",
        )
    repeats = [
        f"{counted(m.repeated, 'record')} of {m.topic}:{m.partition} from {m.after} on" for m in moves if m.repeated
    ]
    if repeats and not allow_duplicates:
        raise StateDisagreement(
            f"this would read again, and so add a second time, {'; '.join(repeats)}",
            code="FLOE-R345",
            place=places.pipeline,
            remedy="add --allow-duplicates to accept that; nothing was changed",
        )
