"""What is wrong with a table as it was examined, and what it shows of the control log.

In: the coordinator's state and a view of one table. Out: why the table waits, in words for people, or None. Keeps
invariant 10 (a table in trouble waits alone, with its reason) and the parts of 3, 6 and 11 that only a table can show:
its record was taken away or put back, or the log no longer holds what the table records.
"""

from __future__ import annotations

from framework.commit.machine.effects import ExaminedTable, TableProgress
from framework.commit.machine.model import Announcement, CoordinatorState, TableState
from framework.commit.machine.progress.chain import Fit, LinkCheck
from framework.commit.machine.progress.prefix import check_before, obstacle
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY
from framework.commit.machine.queues import is_later
from framework.diagnose.shown import argument


def trouble(state: CoordinatorState, table: TableState, view: ExaminedTable) -> str | None:
    """Invariant 10: what is wrong with the table itself."""
    progress, control_topic_id = view.progress, state.control_topic_id
    recorded = max(table.recorded, state.committed.get(view.table_uuid, 0))
    if view.unrecorded is not None or (progress is None and recorded):
        was = f"it was {recorded}" if recorded else f"a snapshot of control topic {view.unrecorded} shows it"
        return (
            f"its recorded progress is gone; {was}. Set the table property {PROGRESS_PROPERTY} again, as an earlier metadata "
            "file of the table has it"
        )
    if progress is None:
        return None
    if progress.control_topic_id != control_topic_id:  # Invariant 11
        return f"its progress belongs to control topic {progress.control_topic_id}, not to {control_topic_id}"
    if progress.control_offset < recorded:
        return (
            f"its recorded progress went back from {recorded} to {progress.control_offset}: it was put back to an older state. "
            "Put the newer one back; or `floe rebase FILE` reads again what it lacks"
        )
    first = _written_anew(table, progress)
    if first is not None:
        return (
            f"its recorded progress is {progress.control_offset}, noted under leader epoch {progress.leader_epoch}, but the "
            f"announcement at {first.offset} was written under epoch {first.leader_epoch}: the control topic was cut off there "
            "and written anew; `floe rebase FILE` settles it"
        )
    if view.is_behind:
        return f"it was rolled back: {behind(view)}; {rollback_commands(view.table, view.snapshot_id)}"
    return None


def behind(view: ExaminedTable) -> str:
    """Both values of a table that somebody moved back."""
    recorded = view.progress.control_offset if view.progress is not None else 0
    if view.is_older and not 0 < (view.snapshot_control_offset or 0) < recorded:
        return f"progress {recorded} is recorded, its branch {view.branch} is older than that record"
    return f"progress {recorded} is recorded, its branch {view.branch} holds {view.snapshot_control_offset}"


def rollback_commands(table: str, snapshot_id: int | None) -> str:
    """Both ways to settle a table that somebody moved back, each as it is typed."""
    command = f"floe rollback --table {argument(table)} --to {snapshot_id}"
    return (
        f"`{command} --replay` notes the rows that it lost, for `floe replay` to read them again; "
        f"`{command} --skip` gives them up"
    )


def first_obstacle(state: CoordinatorState, table: TableState, view: ExaminedTable) -> str | None:
    """Why the oldest announcement can never be taken into this table as it is, found before the table is due."""
    first = table.pending.first
    if first is None:
        return None
    pipeline = state.pipelines.get(first.event.pipeline)
    if pipeline is None or first.offset >= pipeline.confirmed_below:
        return None
    _, reason = obstacle(first.offset, first.event, view, state.pipelines, state.control_topic_id)
    if reason is not None:
        return reason
    verdict = _check_first(table, view, first)
    return f"pipeline {first.event.pipeline}: {verdict.reason}" if verdict.fit is Fit.BROKEN else None


def log_end(state: CoordinatorState) -> int:
    """Where the log ends, as far as is known."""
    if state.caught_up or state.log_end is None:
        return state.position if state.caught_up else 1 << 62
    return max(state.position, state.log_end)


def _written_anew(table: TableState, progress: TableProgress) -> Announcement | None:
    """The first announcement that progress passes and that was written after it was recorded."""
    first = next((a for a in table.pending if is_later(a.leader_epoch, progress.leader_epoch)), None)
    return first if first is not None and first.offset < progress.control_offset else None


def is_cut_off(state: CoordinatorState, view: ExaminedTable) -> bool:
    """Whether a table's progress lies above what the control log holds, or in what was written anew there."""
    if view.progress is None:
        return False
    table = state.tables.get(state.queues.get(view.table_uuid, ""))
    anew = table is not None and _written_anew(table, view.progress) is not None
    return anew or view.progress.control_offset > log_end(state)


def lacks_announced(state: CoordinatorState, view: ExaminedTable) -> bool:
    """Whether the log reports more that is in a table than the table records: of a commit, or in the next announcement
    that waits for it, which follows one that the table does not hold."""
    table = state.tables.get(state.queues.get(view.table_uuid, ""))
    reached = view.progress.control_offset if view.progress is not None else 0
    first = next((a for a in table.pending if a.offset >= reached), None) if table is not None else None
    if table is not None and first is not None and _check_first(table, view, first).fit is Fit.BROKEN:
        return True
    return reached < state.committed.get(view.table_uuid, 0)


def _check_first(table: TableState, view: ExaminedTable, first: Announcement) -> LinkCheck:
    held = view.progress.pipelines.get(first.event.pipeline) if view.progress is not None else None
    return check_before(table, held, held.batch if held is not None else None, 0, first)
