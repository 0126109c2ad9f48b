"""Which announcements the next commit of a table takes.

In: a table's announcements in log order, what was examined of it, and how far each pipeline's batches are confirmed.
Out: a gapless prefix, the control offset P' that it reaches, and why the next announcement cannot be taken, if it
cannot. Keeps invariant 3: everything for this table below P' is in the prefix, so progress passes nothing that is not
added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from framework.commit.events.event_types import DataFile, DataWritten, UpsertChanges
from framework.commit.file_ages import YOUNG_MS, may_be_gone
from framework.commit.machine.effects import ExaminedTable, PipelineProgress, TableProgress
from framework.commit.machine.model import Announcement, PipelineState, TableState
from framework.commit.machine.progress.chain import Fit, LinkCheck, check_after, check_recorded, put_back, record
from framework.commit.machine.progress.recorded import recorded_elsewhere
from framework.commit.machine.queues import batch_of


@dataclass(frozen=True)
class Prefix:
    """`taken` announcements from the front, with `files` to add; those found to be repeats add none.

    `blocked` says why the announcement behind the prefix cannot be taken as things are; None when it only has to wait,
    or when there is none. `examine` are the paths of files that may be so old that they are gone. `keyed` is
    of one batch, which has the commit to itself: a batch behind it may change the same keys.
    """

    taken: int
    through: int
    files: tuple[DataFile, ...]
    repeats: int
    progress: TableProgress
    blocked: str | None
    examine: tuple[str, ...] = ()
    keyed: tuple[UpsertChanges, ...] = ()

    @property
    def rows(self) -> int:
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True)
class _Cut:
    """A place between two announcements where no batch is divided: what lies in front of it."""

    announcements: int = 0
    events: int = 0
    files: int = 0
    repeats: int = 0


def take_prefix(
    table: TableState,
    view: ExaminedTable,
    pipelines: Mapping[str, PipelineState],
    control_topic_id: str,
    position: int,
    max_files: int,
    leader_epoch: int | None = None,
    now_ms: int = 0,
    examine_after_ms: int = YOUNG_MS,
) -> Prefix:
    """The prefix for one commit. `position`: everything below it is folded, and `leader_epoch` is the newest in it.
    `max_files` may be passed by one batch. Files that may be older than `examine_after_ms` are named in `examine`."""
    recorded = view.progress.pipelines if view.progress is not None else {}
    newest = {name: progress.batch for name, progress in recorded.items()}  # what is in the table with what is in front
    parts: Counter[tuple[str, str, int]] = Counter()  # of each batch, how many announcements are in front
    events: list[DataWritten] = []
    files: list[DataFile] = []
    paths: set[str] = set()
    waited: list[tuple[int, str]] = []
    alone: tuple[str, str, int] | None = None  # a batch that changes rows by their keys
    divided: set[tuple[str, str, int]] = set()  # batches of which some parts are in front and others still behind
    repeats = 0
    cut = _Cut()
    blocked: str | None = None
    for index, announcement in enumerate(table.pending):
        event = announcement.event
        waits, blocked = obstacle(announcement.offset, event, view, pipelines, control_topic_id)
        if waits or blocked is not None:
            if blocked is None and batch_of(event) in divided and event.commit.branch != view.branch:
                blocked = f"batch {event.batch} of pipeline {event.pipeline} is announced for it on two branches"
            break
        batch = batch_of(event)
        if (alone is not None and batch != alone) or (
            event.keyed is not None and events and batch_of(events[-1]) != batch
        ):
            if divided:
                blocked = (
                    f"batches of two pipelines change its rows at once: {events[-1].pipeline} and {event.pipeline}"
                )
            break
        verdict = check_before(
            table, recorded.get(event.pipeline), newest.get(event.pipeline), parts[batch], announcement
        )
        if verdict.fit is Fit.BROKEN:
            blocked = f"pipeline {event.pipeline}: {verdict.reason}"
            break
        newest[event.pipeline] = max(newest.get(event.pipeline, 0), event.batch)
        if cut.announcements and len(files) + len(event.files) > max_files:
            break
        if verdict.fit is Fit.REPEAT:
            repeats += 1
        else:
            events.append(event)
            if event.keyed is not None:
                alone = batch
            for file in event.files:
                if file.path not in paths:  # Invariant 5: no path twice in one commit
                    paths.add(file.path)
                    files.append(file)
            reported_ms = announcement.timestamp_ms
            if may_be_gone(now_ms, announcement.after_ms, reported_ms, event.begun_ms, examine_after_ms):
                waited += [(announcement.offset, path) for path in event.paths]
        parts[batch] = max(parts[batch], event.part + 1)
        if event.part < event.parts - 1:
            divided.add(batch)
        else:
            divided.discard(batch)
        if not divided:
            cut = _Cut(index + 1, len(events), len(files), repeats)
    behind = table.pending[cut.announcements].offset if cut.announcements < len(table.pending) else None
    # Invariant 3: P' is the first announcement left behind or, without one, the end of the fold. Nothing lies between.
    through = position if behind is None else behind
    return Prefix(
        taken=cut.announcements,
        through=through,
        files=tuple(files[: cut.files]),
        repeats=cut.repeats,
        progress=TableProgress(
            control_topic_id, through, record(recorded, events[: cut.events]), newest_epoch(view, leader_epoch)
        ),
        examine=tuple(path for offset, path in waited if offset < through),
        blocked=blocked,
        keyed=tuple(event.keyed for event in events[: cut.events] if event.keyed is not None),
    )


def newest_epoch(view: ExaminedTable, leader_epoch: int | None) -> int | None:
    """What stands beside progress: the newest epoch that is known, be it the table's or the log's."""
    recorded = view.progress.leader_epoch if view.progress is not None else None
    return max((epoch for epoch in (recorded, leader_epoch) if epoch is not None), default=None)


def check_before(
    table: TableState, recorded: PipelineProgress | None, newest: int | None, part: int, announcement: Announcement
) -> LinkCheck:
    """Invariant 3: whether an announcement fits what the table records, and the table holds what was announced before
    it.

    Args:
        newest: the pipeline's newest batch that is in the table, or goes into it in front of this; None: none is.
        part: how many announcements of this very batch go into it in front of this.
    """
    event = announcement.event
    verdict = check_recorded(recorded, event)
    if verdict.fit is not Fit.FOLLOWS:
        return verdict
    begun = table.was_given_up(event.pipeline, event.batch)  # perhaps the part in front of this
    if (
        event.part > part
        and not begun
        and not any(s.read_from is None and s.frees(announcement) for s in table.settled)
    ):
        return put_back(event, f"the {event.part} announcements of this batch before it are not in it")
    return check_after(newest, event) if (part == 0 or begun) and _is_chained(table, announcement) else verdict


def _is_chained(table: TableState, announcement: Announcement) -> bool:
    """Whether the table must hold what an announcement says that it follows. Not where a person gave that up or it is
    read again; and not where that may have happened in front of where this reading of the log began."""
    event = announcement.event
    if event.after_batch is None or table.was_given_up(event.pipeline, event.after_batch):
        return False
    known = event.after_batch >= table.first_batches.get(event.pipeline, event.batch)
    return known or not any(settled.frees(announcement) for settled in table.settled)


def obstacle(
    offset: int, event: DataWritten, view: ExaminedTable, pipelines: Mapping[str, PipelineState], control_topic_id: str
) -> tuple[bool, str | None]:
    """Whether an announcement has to wait, and why it cannot be taken as things are (invariant 10); None: it may
    come."""
    pipeline = pipelines.get(event.pipeline)
    if pipeline is None or offset >= pipeline.confirmed_below:
        # Invariant 2: its DataComplete is not folded yet, or does not fit the chain. P' stays below it either way.
        if pipeline is not None and pipeline.broken is not None:
            return True, f"pipeline {pipeline.pipeline}: {pipeline.broken}"
        return True, None
    if event.table_uuid != view.table_uuid:
        return True, (
            f"it was replaced: the files of batch {event.batch} of pipeline {event.pipeline} were written for the table "
            f"with uuid {event.table_uuid}, and {view.table_uuid} is there now"
        )
    if event.pipeline in view.elsewhere:
        # Invariant 11: what the table records of the pipeline cannot be compared with this announcement.
        other = view.elsewhere[event.pipeline]
        return (
            True,
            f"{recorded_elsewhere('it', event.pipeline, other, control_topic_id)}; `floe rebase FILE` settles it",
        )
    if event.schema_id in view.unusable_schema_ids:
        return True, (
            f"a column that the files of batch {event.batch} of pipeline {event.pipeline} hold (schema {event.schema_id}) "
            f"was dropped or changed its type; schema {view.schema_id} is current"
        )
    return event.commit.branch != view.branch, None
