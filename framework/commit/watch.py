"""What a running pipeline must know of the control log: pauses, requests to stop, and how much of it waits for its
tables.

In: the log's events in order, read from where a coordinator would begin. Out: answers to the run's questions. Only
reading is held by them: nothing is committed or skipped on their word. Memory is bounded by the limits of
back-pressure, since a run that is held announces nothing more.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from framework.commit.events.event_types import (
    CommitComplete,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataWritten,
    Discarded,
    Heartbeat,
    Holds,
    OffsetsSet,
    PauseChanged,
    SourceRange,
    StopRequested,
)
from framework.commit.machine.effects import PipelineProgress
from framework.commit.machine.pauses import Pauses, holding, with_pause, with_repeated
from framework.diagnose.counted import counted


@dataclass(frozen=True)
class PipelineBacklog:
    """What of one pipeline is announced and not known to be in its tables."""

    batches: int = 0
    bytes: int = 0
    files: int = 0
    tables: int = 0
    oldest_table: str = ""


@dataclass(frozen=True)
class Newest:
    """The newest announcement of a pipeline for a table: its offset in the log, its batch, that batch's ranges, and
    under which batch number the offsets had been moved by hand."""

    offset: int
    batch: int
    ranges: tuple[SourceRange, ...]
    base_batch: int


@dataclass(frozen=True)
class _Announced:
    offset: int
    table: str
    batch: int
    bytes: int
    files: int


class _Queue:
    """One pipeline's announcements by table (its uuid: one table may go by several names), oldest first, with running
    sums."""

    def __init__(self) -> None:
        self.tables: dict[str, deque[_Announced]] = {}
        self.batches: Counter[int] = Counter()
        self.bytes = 0
        self.files = 0

    def add(self, table_uuid: str, entry: _Announced) -> None:
        self.tables.setdefault(table_uuid, deque()).append(entry)
        self.batches[entry.batch] += 1
        self.bytes += entry.bytes
        self.files += entry.files

    def forget(self, table_uuid: str, below: int) -> None:
        entries = self.tables.get(table_uuid, deque())
        while entries and entries[0].offset < below:
            entry = entries.popleft()
            self.batches[entry.batch] -= 1
            if not self.batches[entry.batch]:
                del self.batches[entry.batch]
            self.bytes -= entry.bytes
            self.files -= entry.files
        if not entries:
            self.tables.pop(table_uuid, None)

    def waiting(self) -> PipelineBacklog:
        first = [entries[0] for entries in self.tables.values() if entries]
        oldest = min(first, key=lambda entry: entry.offset, default=None)
        return PipelineBacklog(
            len(self.batches), self.bytes, self.files, len(first), oldest.table if oldest is not None else ""
        )


class Watch:
    """Changed by `observe` and `everything_is_in` alone; whoever has several threads calls one method at a time."""

    def __init__(self) -> None:
        self._pauses: Pauses = {}
        self._stops: dict[str, tuple[int, StopRequested]] = {}
        self._queues: dict[str, _Queue] = {}
        self._newest: dict[str, dict[str, Newest]] = {}  # by pipeline and table uuid
        self._complete: dict[str, int] = {}  # by pipeline its newest batch that ended: what repeats it is in no table
        self._through_ms: dict[str, int] = {}  # by pipeline up to when all records are in its tables
        self._begin: int | None = None

    def observe(self, offset: int, event: ControlEvent | None) -> None:
        """One more record of the log."""
        if self._begin is None:
            self._begin = offset
        if isinstance(event, DataWritten):
            entry = _Announced(offset, event.table, event.batch, event.bytes, len(event.files))
            self._queues.setdefault(event.pipeline, _Queue()).add(event.table_uuid, entry)
            if event.batch > self._complete.get(event.pipeline, 0):
                newest = Newest(offset, event.batch, event.ranges, event.base_batch)
                self._newest.setdefault(event.pipeline, {})[event.table_uuid] = newest
        elif isinstance(event, DataComplete | Heartbeat):
            self._is_complete(event)
        elif isinstance(event, OffsetsSet):
            self._newest.pop(event.pipeline, None)  # what was announced may have been taken back
            self._complete[event.pipeline] = event.batch
        elif isinstance(event, Discarded):
            self._forget_discarded(event)
        elif isinstance(event, CommitToTable):
            for queue in self._queues.values():
                queue.forget(event.table_uuid, event.control_offset)
        elif isinstance(event, CommitComplete):
            if event.position >= self._begin:
                self._pauses = with_repeated(self._pauses, offset, event, 0)
            self.everything_is_in(event.low_water)
            self._through_ms.update(event.valid_through_ms)
            for link in event.chain.values():
                self._is_complete(link)
        elif isinstance(event, PauseChanged):
            self._pauses = with_pause(self._pauses, offset, event)
        elif isinstance(event, StopRequested):
            self._stops[event.pipeline] = (offset, event)

    def _is_complete(self, link: DataComplete | Heartbeat) -> None:
        self._complete[link.pipeline] = max(link.batch, self._complete.get(link.pipeline, 0))

    def everything_is_in(self, below: int) -> None:
        """A low-water mark was seen: what was announced below it is in its tables."""
        for queue in self._queues.values():
            for table_uuid in list(queue.tables):
                queue.forget(table_uuid, below)

    def _forget_discarded(self, event: Discarded) -> None:
        for name, tables in self._newest.items():
            self._newest[name] = {
                uuid: newest for uuid, newest in tables.items() if not event.first <= newest.offset < event.below
            }

    def newest(self, pipeline: str) -> Mapping[str, Newest]:
        """By table uuid the pipeline's newest announcement that was seen and that nobody gave up since."""
        return dict(self._newest.get(pipeline, {}))

    def reading_pause(self, pipeline: str) -> PauseChanged | None:
        return holding(self._pauses, Holds.READING, pipeline)

    def stop_request(self, pipeline: str, since_offset: int, now_ms: int) -> StopRequested | None:
        """The newest request to stop that stands at or behind an offset and whose deadline has not passed."""
        offset, event = self._stops.get(pipeline, (-1, None))
        return event if event is not None and offset >= since_offset and now_ms <= event.deadline_ms else None

    def has_seen(self, pipeline: str, batch: int) -> bool:
        """Whether a batch, or a later one, was seen to its end; so what of it waits is among `waiting`."""
        return self._complete.get(pipeline, 0) >= batch

    def valid_through_ms(self, pipeline: str) -> int | None:
        """All records with an earlier timestamp are in its tables, as a coordinator said."""
        return self._through_ms.get(pipeline)

    def waiting(self, pipeline: str) -> PipelineBacklog:
        queue = self._queues.get(pipeline)
        return queue.waiting() if queue is not None else PipelineBacklog()


def batch_before(newest: Newest | None, progress: PipelineProgress | None) -> int | None:
    """The pipeline's batch that a table must hold before the next one may come into it; None where none is known.

    Args:
        newest: the newest that was announced for it, as far as is known.
        progress: what the table itself records of the pipeline. It may hold what was announced without recording its
            number: a pipeline that was taken over reads again what other tables lack.
    """
    recorded = progress.batch if progress is not None else None
    if newest is None or (progress is not None and _holds(progress, newest)):
        return recorded
    return max(newest.batch, recorded or 0)


def _holds(progress: PipelineProgress, newest: Newest) -> bool:
    return progress.batch >= newest.base_batch and all(
        progress.topic_ids.get(r.topic) == r.topic_id
        and r.end <= progress.offsets.get(r.topic, {}).get(str(r.partition), -1)
        for r in newest.ranges
        if r.start < r.end
    )


def hold_reason(waiting: PipelineBacklog, max_batches: int, max_bytes: int) -> str | None:
    """Back-pressure: why a pipeline that has so much waiting reads nothing more for now; None when it may."""
    if waiting.batches < max_batches and waiting.bytes < max_bytes:
        return None
    return (
        f"{counted(waiting.batches, 'batch', 'batches')} with {waiting.bytes / 2**30:,.1f} GiB in "
        f"{counted(waiting.files, 'file waits', 'files wait')} for {counted(waiting.tables, 'table')}, the oldest for "
        f"{waiting.oldest_table}; the limits are {max_batches:,} batches and {max_bytes / 2**30:,.1f} GiB"
    )
