"""Giving up what waits for a table that can never take it: gone for good, replaced, without a column that files hold,
or with files that are gone from the store.

In: the table's queue as a coordinator would have it, and the table as it is. Out: a `DiscardPlan`, or a refusal that
says what else settles it. Keeps invariant 10: nothing is given up but by a person, by name, with the rows counted; what
the table's own list says it lacks stays on that list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import dropwhile, takewhile

from framework.commit.events.event_types import DataWritten, Discarded, SourceRange
from framework.commit.machine.effects import ExaminedTable
from framework.commit.machine.model import Announcement, TableState
from framework.commit.offset_ranges import NO_OFFSETS, OffsetRanges
from framework.commit.recovery.missing import REPLAY, Gap, lacking_after
from framework.errors import StateDisagreement


@dataclass(frozen=True)
class DiscardPlan:
    """What will be given up: `announcements` at [first, below) of the control log; `rows` by pipeline. `kept` counts
    announcements before and behind them that go on waiting. All zero when nothing waits.

    `ranges` are the source offsets of what is given up, by pipeline: where the table is to have their rows after all,
    `floe replay` reads them again. Empty where no table is there that could take them.

    `noted` is the table's list of what it lacks if a replay of something on it is given up, and `gaps` the list to put in
    its place. Both are empty otherwise."""

    table: str
    reason: str
    first: int
    below: int
    announcements: int
    files: int
    rows: Mapping[str, int]
    kept: int
    ranges: Mapping[str, tuple[SourceRange, ...]] = field(default_factory=dict)
    table_uuids: tuple[str, ...] = ()
    batches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    noted: tuple[Gap, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def settled(self) -> bool:
        return self.announcements == 0

    def event(self, now_ms: int) -> Discarded:
        return Discarded(
            self.table,
            self.first,
            self.below,
            self.announcements,
            self.files,
            dict(self.rows),
            self.reason,
            now_ms,
            self.table_uuids,
            dict(self.batches),
        )


def plan_discard(
    table: str,
    state: TableState | None,
    view: ExaminedTable | None,
    waits_for: str | None,
    gone: Collection[str] = frozenset(),
) -> DiscardPlan:
    """Decide, or refuse.

    Args:
        state: the table's queue; None when nothing was announced for it.
        view: the table now; None when it does not exist.
        waits_for: why it waits, as a coordinator would say it; None when it only waits for its time.
        gone: paths of announced files that are not in the store any more.

    Raises:
        StateDisagreement: FLOE-R355, the table can take what waits, or may once something else is settled.
    """
    first = state.pending.first if state is not None else None
    if state is None or first is None:
        return DiscardPlan(table, "", 0, 0, 0, 0, {}, 0)
    # What can come stands perhaps in front of what cannot, and is held by it: one commit takes both.
    waiting = list(dropwhile(lambda a: impossible(a.event, view, gone) is None, iter(state.pending)))
    reason = impossible(waiting[0].event, view, gone) if waiting else None
    if reason is None:
        raise StateDisagreement(
            f"what waits for table {table} can still be committed"
            + (f": {waits_for}" if waits_for else "; it only waits for its interval"),
            code="FLOE-R355",
            place=table,
            remedy=_other_remedy(waits_for),
        )
    given_up: list[Announcement] = list(takewhile(lambda a: impossible(a.event, view, gone) is not None, waiting))
    rows: dict[str, int] = {}
    ranges: dict[str, OffsetRanges] = {}
    for announcement in given_up:
        event = announcement.event
        rows[event.pipeline] = rows.get(event.pipeline, 0) + event.rows
        ranges[event.pipeline] = ranges.get(event.pipeline, NO_OFFSETS) | OffsetRanges.of(event.ranges)
    return DiscardPlan(
        table=table,
        reason=reason,
        first=given_up[0].offset,
        below=given_up[-1].offset + 1,
        announcements=len(given_up),
        files=sum(len(a.event.files) for a in given_up),
        rows=rows,
        kept=len(state.pending) - len(given_up),
        ranges={name: of.ranges for name, of in sorted(ranges.items())} if view is not None else {},
        table_uuids=tuple(sorted({a.event.table_uuid for a in given_up})),
        batches=batches_of(a.event for a in given_up),
    )


def listed_again(
    plan: DiscardPlan, noted: tuple[Gap, ...], read: Mapping[str, OffsetRanges], snapshot_id: int
) -> DiscardPlan:
    """The plan with the list that the table is to have. A replay that has read its gap never reads it again, so what is
    given up of it, and what it has not read, gets a new id; also where a rollback has taken the gap off the list since,
    because its replay was announced.

    Args:
        read: by the id of each gap, what its replay has announced until now: of two that overlap, one may be given up alone.
        snapshot_id: the table's head. With the place in the control log it makes an id that no gap had before.
    """
    again: dict[str, OffsetRanges] = {}
    for name, ranges in plan.ranges.items():
        pipeline, is_replay, _ = name.partition(REPLAY)
        if is_replay:
            again[pipeline] = again.get(pipeline, NO_OFFSETS) | OffsetRanges.of(ranges)
    gap_id = f"{format(snapshot_id, 'x')[-8:]}d{plan.first:x}"
    return replace(plan, noted=noted, gaps=lacking_after(noted, again, read, {}, gap_id))


def batches_of(given_up: Iterable[DataWritten]) -> dict[str, tuple[int, int]]:
    """The first and the last batch of each pipeline."""
    spans: dict[str, tuple[int, int]] = {}
    for event in given_up:
        first, last = spans.get(event.pipeline, (event.batch, event.batch))
        spans[event.pipeline] = (min(first, event.batch), max(last, event.batch))
    return spans


def impossible(event: DataWritten, view: ExaminedTable | None, gone: Collection[str] = frozenset()) -> str | None:
    """Why files can never come into the table as it is now; None when they can, or something else is in their way."""
    if view is None:
        return "the table does not exist"
    if event.table_uuid != view.table_uuid:
        return (
            f"the table was replaced: the files were written for uuid {event.table_uuid}, now it is {view.table_uuid}"
        )
    if event.schema_id in view.unusable_schema_ids:
        return f"a column that the files hold (schema {event.schema_id}) was dropped or changed its type"
    missing = [path for path in event.paths if path in gone]
    if missing:
        return f"{len(missing)} of the {len(event.paths)} announced files are gone from the store, such as {missing[0]}"
    return None


def _other_remedy(waits_for: str | None) -> str:
    if waits_for is None:
        return "start `floe coordinator`, or the pipeline; nothing needs to be given up"
    if "`floe " in waits_for:  # the reason names the verb that settles it
        return "do what the message says; nothing needs to be given up"
    return "fix what the message says; nothing needs to be given up"
