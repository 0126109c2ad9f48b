"""Moving a table back to an older snapshot: what that gives up, and what the table then lacks.

In: the table's snapshots, what it records, and what the control log announced for it. Out: a `RollbackPlan`, or a
refusal. Keeps invariant 3: progress does not move back; a new, empty snapshot on top of the older one carries it on.
What was in the snapshots given up is either given up too (`skip`) or noted as a gap that `floe replay` fills
(`replay`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from framework.commit.dead_letter_replay import is_replay
from framework.commit.events.event_types import DataWritten, SourceRange
from framework.commit.machine.effects import TableProgress
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.commit.recovery.missing import REPLAY, Gap
from framework.diagnose.counted import counted
from framework.diagnose.shown import argument
from framework.errors import StateDisagreement, TableBlocked


@dataclass(frozen=True)
class SnapshotFacts:
    """One snapshot. `control_offset` and `control_topic_id` are None where floe did not make it. `headed_ms`: when the
    branch was last moved to it, as far as the table's own log says, and `headed_at` at which place of that log: two
    commits may have one time, where a clock is behind."""

    snapshot_id: int
    parent_id: int | None
    timestamp_ms: int
    operation: str
    added_rows: int
    control_offset: int | None
    control_topic_id: str | None
    recovery: str | None = None
    headed_ms: int | None = None
    headed_at: int = -1
    sequence_number: int = 0


@dataclass(frozen=True)
class RollbackFacts:
    """`table_uuid`: what announcements know the table by, under whatever name. `ancestry`: the branch's head and what
    it was built on, newest first; `beside`: snapshots on no such line, as an earlier rollback leaves them. `whole`: no
    ancestor has expired. `off_line`: the head is not built on the snapshot in which the record was made, whose
    sequence number `made_at` is, if it is noted. `is_upserted`: its
    rows are replaced by their key, as the table or a snapshot that is left says."""

    table: str
    control_topic_id: str
    progress: TableProgress | None
    ancestry: tuple[SnapshotFacts, ...]
    beside: tuple[SnapshotFacts, ...]
    whole: bool
    table_uuid: str = ""
    off_line: bool = False
    made_at: int | None = None
    is_upserted: bool = False


@dataclass(frozen=True)
class AbandonedSnapshot:
    """A snapshot that is given up."""

    snapshot_id: int
    timestamp_ms: int
    operation: str
    added_rows: int
    by_floe: bool


@dataclass(frozen=True)
class RollbackPlan:
    """`reached`: the control offset that the snapshot to go back to holds everything below, None when it cannot be
    reported; `settled`: nothing has to be done. `pipelines` filled the table. `noted` is what the table lacked when it was
    looked at, `gaps` what it will lack: all of it, also what it lacked before, and `unclear` what is taken off the list:
    nobody can say what of it the table holds."""

    table: str
    snapshot_id: int
    timestamp_ms: int
    head_id: int
    reached: int | None
    recorded: int
    settled: bool
    given_up: tuple[AbandonedSnapshot, ...]
    pipelines: tuple[str, ...]
    replay: bool
    gaps: tuple[Gap, ...] = ()
    kept_snapshots: tuple[int, ...] = ()
    noted: tuple[Gap, ...] = ()
    unclear: tuple[Gap, ...] = ()

    @property
    def own_snapshots(self) -> tuple[int, ...]:
        return tuple(each.snapshot_id for each in self.given_up if each.by_floe)


def target_of(facts: RollbackFacts, to: int, is_time: bool, replay: bool) -> SnapshotFacts:
    """The snapshot that a person means: by its id, or the newest one that is not younger than a time in ms.

    Raises:
        TableBlocked: FLOE-R356, the table has no such snapshot on its line.
    """
    for each in facts.ancestry:
        if (each.timestamp_ms <= to) if is_time else (each.snapshot_id == to):
            return each
    way = f"`floe rollback --table {argument(facts.table)} --to {{}} {'--replay' if replay else '--skip'}`"
    oldest = facts.ancestry[-1] if len(facts.ancestry) > 1 else None
    raise TableBlocked(
        f"table {facts.table} has no snapshot {'as old as that' if is_time else to} before its current one",
        code="FLOE-R356",
        place=facts.table,
        remedy=f"choose another one: {way.format(oldest.snapshot_id)} goes back to the oldest that has not expired"
        if oldest is not None
        else "none is left to go back to; mend its rows with the engine that you query it with",
    )


def plan_rollback(facts: RollbackFacts, target: SnapshotFacts, replay: bool) -> RollbackPlan:
    """What going back gives up; what the table then lacks is found by `lacking_after`, which needs the log.

    Raises:
        StateDisagreement: FLOE-R357, with `replay`: what was given up cannot be determined any more.
    """
    at = next(n for n, each in enumerate(facts.ancestry) if each.snapshot_id == target.snapshot_id)
    kept = facts.ancestry[at:]
    here = facts.control_topic_id
    marks = [s for s in kept if s.control_topic_id == here and s.control_offset is not None]
    # A rollback of floe's has the offset of what it gave up.
    reached = next((s.control_offset for s in marks if s.recovery != "rollback"), 0 if marks else None)
    if reached is None and facts.whole:
        reached = 0
    recorded = facts.progress.control_offset if facts.progress is not None else 0
    # A rollback that nobody settled: the newest snapshot that floe made is on a line of its own.
    unsettled = _is_behind(facts, recorded)
    former, whole = _former_line(facts, recorded) if unsettled else ((), True)
    ids = {s.snapshot_id for s in kept}
    lost = [s for s in (*facts.ancestry[:at], *former) if s.recovery is None and s.snapshot_id not in ids]
    if replay:
        other = next((s for s in lost if s.control_topic_id not in (None, here)), None)
        if other is not None or reached is None or not whole:
            raise StateDisagreement(
                f"what was in the snapshots behind {target.snapshot_id} of table {facts.table} can no longer be determined: "
                + (
                    f"snapshot {other.snapshot_id} was made by another control topic"
                    if other is not None
                    else "some of them have expired"
                ),
                code="FLOE-R357",
                place=facts.table,
                remedy="--skip gives them up; `floe replay --from --to` then reads source ranges that you name",
            )
    return RollbackPlan(
        table=facts.table,
        snapshot_id=target.snapshot_id,
        timestamp_ms=target.timestamp_ms,
        head_id=facts.ancestry[0].snapshot_id,
        reached=reached,
        recorded=recorded,
        settled=not lost and not unsettled,
        given_up=tuple(
            AbandonedSnapshot(s.snapshot_id, s.timestamp_ms, s.operation, s.added_rows, s.control_offset is not None)
            for s in lost
        ),
        pipelines=tuple(sorted(facts.progress.pipelines)) if facts.progress is not None else (),
        replay=replay,
        kept_snapshots=tuple(each.snapshot_id for each in kept),
    )


def _former_line(facts: RollbackFacts, recorded: int) -> tuple[tuple[SnapshotFacts, ...], bool]:
    """The line that the branch was on when its record was made, down to where it meets the present one; and whether all of
    it is still there. The list of what the table lacks was true there, wherever others have moved the branch since."""
    ids = {s.snapshot_id for s in facts.ancestry}
    by_id = {s.snapshot_id: s for s in facts.beside}
    here = [s for s in facts.beside if s.control_topic_id == facts.control_topic_id and s.control_offset == recorded]
    # A rollback of floe's has the progress of the commit that it gave up, and others may go back and forth. Where no record
    # says which one it was, the one where the branch was last.
    last = max(here, key=lambda s: (s.headed_at, s.headed_ms or s.timestamp_ms), default=None)
    at = next((s for s in here if s.sequence_number and s.sequence_number == facts.made_at), last)
    line: list[SnapshotFacts] = []
    while at is not None:
        line.append(at)
        if at.parent_id in ids:
            return tuple(line), True
        if at.parent_id is None:
            # Where the present line has lost its beginning, it may have begun in any of these.
            return tuple(line), facts.whole
        at = by_id.get(at.parent_id)
    return tuple(line), False


def _is_behind(facts: RollbackFacts, recorded: int) -> bool:
    """Whether the head's line lacks what the table records, by its own word. A record begins in a snapshot of its
    control topic, also one of offset 0, which `floe rebase` makes: where the line has none, it was moved behind that."""
    if facts.off_line:
        return True  # perhaps to where floe had rolled it back from, with the same offset
    here = facts.control_topic_id
    marks = [each.control_offset for each in facts.ancestry if each.control_topic_id == here]
    newest = next((offset for offset in marks if offset is not None), None)
    if newest is not None:
        return newest < recorded
    return recorded > 0 or facts.whole or any(each.control_topic_id == here for each in facts.beside)


@dataclass(frozen=True)
class Announcements:
    """What the control log, which begins at `log_start`, holds for a table; `waiting`: what is not in it yet."""

    events: tuple[DataWritten, ...]
    log_start: int
    waiting: tuple[DataWritten, ...] = ()

    def ranges_of(self, paths: Collection[str]) -> dict[str, OffsetRanges]:
        """The source ranges of the announcements that name one of these files, by pipeline. What a replay read counts
        as its pipeline's."""
        found: dict[str, OffsetRanges] = {}
        for event in self.events:
            if any(file.path in paths for file in event.files):
                name = event.pipeline.partition(REPLAY)[0]
                found[name] = found.get(name, NO_OFFSETS) | OffsetRanges.of(event.ranges)
        return found

    def pieces_of(self, paths: Collection[str], of: Mapping[str, OffsetRanges]) -> Iterator[tuple[str, SourceRange]]:
        """The source ranges among `of` that these files were announced with, by pipeline, cut where an announcement of
        them begins or ends: who deletes a file leaves all of such a piece, or nothing."""
        for pipeline, held in self.ranges_of(paths).items():
            both = of.get(pipeline, NO_OFFSETS) & held
            cuts: dict[tuple[str, str, int], set[int]] = defaultdict(set)
            for event in self.events:
                if event.pipeline.partition(REPLAY)[0] == pipeline and any(file.path in paths for file in event.files):
                    for r in event.ranges:
                        cuts[r.topic, r.topic_id, r.partition] |= {r.start, r.end}
            for r in both.ranges:
                inside = sorted(at for at in cuts[r.topic, r.topic_id, r.partition] if r.start < at < r.end)
                for start, end in pairwise((r.start, *inside, r.end)):
                    yield pipeline, replace(r, start=start, end=end)

    def read_by(self, pipeline: str) -> OffsetRanges:
        """What a pipeline has announced for the table."""
        return OffsetRanges.of(r for event in self.events if event.pipeline == pipeline for r in event.ranges)


def given_up_ranges(plan: RollbackPlan, announced: Announcements, paths: Collection[str]) -> dict[str, OffsetRanges]:
    """The source ranges of the announcements whose files are in the snapshots given up, by pipeline.

    Args:
        paths: data files that the snapshots given up had added.

    Raises:
        StateDisagreement: FLOE-R357, the log does not go back far enough, or the rows came from dead letters.
    """
    rows = sum(each.added_rows for each in plan.given_up if each.by_floe)
    found = [event for event in announced.events if any(file.path in paths for file in event.files)]
    in_log = sum(file.record_count for event in found for file in event.files if file.path in paths)
    if in_log != rows:
        raise StateDisagreement(
            f"the snapshots given up hold {rows} rows of table {plan.table}, and the control log, which begins at "
            f"{announced.log_start}, knows of {in_log}",
            code="FLOE-R357",
            place=plan.table,
            remedy="--skip gives them up; `floe replay --from --to` then reads source ranges that you name",
        )
    dead_letters = next((event for event in found if is_replay(event.pipeline)), None)
    if dead_letters is not None:
        raise StateDisagreement(
            f"the snapshots given up of table {plan.table} hold rows that came from dead letters, and those count as replayed",
            code="FLOE-R357",
            place=plan.table,
            remedy="go back to a snapshot after that replay of dead letters, or give up its rows with --skip",
        )
    return announced.ranges_of(paths)


def without_unclear(plan: RollbackPlan, rows: Mapping[str, int]) -> RollbackPlan:
    """The plan for a table that stays where it is, without the gaps of which it holds rows: somebody moved it to what it
    lacked, and the announcements that show what that is are gone.

    Args:
        rows: by the id of each gap that is left, how many rows the table holds of what no replay has read.

    Raises:
        StateDisagreement: FLOE-R357, with `replay`: the list cannot be brought in line.
    """
    unclear = tuple(gap for gap in plan.gaps if rows.get(gap.gap_id))
    if not unclear:
        return plan
    if plan.replay:
        held = sum(rows[gap.gap_id] for gap in unclear)
        raise StateDisagreement(
            f"table {plan.table} holds {counted(held, 'row')} of what its own list says it lacks, and the control log no "
            "longer shows what else of that it holds",
            code="FLOE-R357",
            place=plan.table,
            remedy=f"`floe rollback --table {argument(plan.table)} --to {plan.snapshot_id} --skip` takes these offset ranges off "
            "its list; `floe replay --from --to` then reads source ranges that you name",
        )
    gaps = tuple(gap for gap in plan.gaps if gap not in unclear)
    return replace(plan, gaps=gaps, unclear=unclear, settled=False)
