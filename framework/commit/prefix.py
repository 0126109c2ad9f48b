"""Which announcements the next commit of a table takes.

In: a table's announcements in log order, what was examined of it, and how far each pipeline's batches are confirmed.
Out: a gapless prefix, the control offset P' that it reaches, and why the next announcement cannot be taken, if it cannot.
Keeps invariant 3: everything for this table below P' is in the prefix, so progress passes nothing that is not added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from framework.commit.chain import Fit, check_recorded, record
from framework.commit.effects import TableProgress, TableView
from framework.commit.events import DataFile, DataWritten
from framework.commit.model import PipelineState, TableState
from framework.commit.progress import recorded_elsewhere


@dataclass(frozen=True)
class Prefix:
    """`taken` announcements from the front, with `files` to add; those found to be repeats add none.

    `blocked` says why the announcement behind the prefix cannot be taken as things are; None when it only has to wait,
    or when there is none.
    """

    taken: int
    through: int
    files: tuple[DataFile, ...]
    repeats: int
    progress: TableProgress
    blocked: str | None

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
    view: TableView,
    pipelines: Mapping[str, PipelineState],
    control_topic_id: str,
    position: int,
    max_files: int,
) -> Prefix:
    """The prefix for one commit. `position`: everything below it is folded. `max_files` may be passed by one batch."""
    recorded = view.progress.pipelines if view.progress is not None else {}
    events: list[DataWritten] = []
    files: list[DataFile] = []
    paths: set[str] = set()
    divided: set[tuple[str, str, int]] = set()  # batches of which some parts are in front and others still behind
    repeats = 0
    cut = _Cut()
    blocked: str | None = None
    for index, announcement in enumerate(table.pending):
        event = announcement.event
        waits, blocked = obstacle(announcement.offset, event, view, pipelines, control_topic_id)
        if waits or blocked is not None:
            break
        verdict = check_recorded(recorded.get(event.pipeline), event)
        if verdict.fit is Fit.BROKEN:
            blocked = f"pipeline {event.pipeline}: {verdict.reason}"
            break
        if cut.announcements and len(files) + len(event.files) > max_files:
            break
        if verdict.fit is Fit.REPEAT:
            repeats += 1
        else:
            events.append(event)
            for file in event.files:
                if file.path not in paths:  # Invariant 5: no path twice in one commit
                    paths.add(file.path)
                    files.append(file)
        batch = (event.pipeline, event.run, event.batch)
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
        progress=TableProgress(control_topic_id, through, record(recorded, events[: cut.events])),
        blocked=blocked,
    )


def obstacle(
    offset: int, event: DataWritten, view: TableView, pipelines: Mapping[str, PipelineState], control_topic_id: str
) -> tuple[bool, str | None]:
    """Whether an announcement has to wait, and why it cannot be taken as things are (invariant 10); None: it may come."""
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
