"""Offsets of a task range at which no record was handed on, and which of these gaps are looked at once more.

In: the blocks of one task range, in order. Out: its holes, counted gap by gap, and pieces of gaps to be read again. Keeps
invariant 8: a block that repeats an offset, leaves its task range, or has a value without an offset ends the batch, and a
gap is a hole only while another reader finds no record in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AccountingError
from framework.record.arrays import Ints
from framework.record.model import RecordBlock, TaskRange

# Of the first gaps that a process meets in a partition so many are read again: a topic without transactions or
# compaction has none at all, so there this is every gap.
FIRST_LOOKS = 3
# Later ones are samples, within this share of the time: a topic with transactions has a gap behind each of them.
SHARE_OF_TIME = 0.02
# So much of a gap is read: an aborted transaction may be as large as a batch.
MOST_OFFSETS = 10_000
REMEDY = "nothing was announced; the batch is tried again. If this repeats, report it with the driver's log"


@dataclass(frozen=True, slots=True)
class Looks:
    """What a process has spent on reading gaps again, and since when it could."""

    spent_s: float = 0.0
    elapsed_s: float = 0.0


class Tally:
    """Follows the blocks of one slice. `records` and `holes` are counted by themselves: neither is what the other
    leaves."""

    def __init__(self, task_range: TaskRange) -> None:
        self.records = 0
        self.holes = 0
        self._task_range = task_range
        self._at = task_range.start
        self._gaps: list[tuple[Ints, Ints]] = []

    def add(self, block: RecordBlock) -> None:
        """Take in the next block.

        Raises:
            AccountingError: its offsets do not ascend inside the task range, or are not as many as its records.
        """
        if not len(block) == len(block.offsets) == len(block.timestamps_ms):
            raise _unsound(
                self._task_range,
                f"a block has {len(block):,} values, {len(block.offsets):,} offsets and "
                f"{len(block.timestamps_ms):,} timestamps",
            )
        offsets = np.asarray(block.offsets, dtype=np.int64)
        steps = np.diff(offsets, prepend=self._at - 1)
        if len(offsets) and (int(steps.min()) < 1 or int(offsets[-1]) >= self._task_range.end):
            raise _unsound(
                self._task_range, f"offsets {offsets.min()} to {offsets.max()} came where {self._at} and later were due"
            )
        if len(offsets) and int(steps.max()) > 1:
            behind = np.flatnonzero(steps > 1)
            self._gap(offsets[behind] - steps[behind] + 1, offsets[behind])
        self.records += len(offsets)
        self._at = int(offsets[-1]) + 1 if len(offsets) else self._at

    def end(self) -> None:
        """No block follows."""
        if self._at < self._task_range.end:
            self._gap(np.array([self._at]), np.array([self._task_range.end]))

    def _gap(self, starts: Ints, ends: Ints) -> None:
        self._gaps.append((starts, ends))
        self.holes += int((ends - starts).sum())

    def to_look_at(self, known: bool, looks: Looks, chance: float) -> list[TaskRange]:
        """The gaps to be read again, none where there is none.

        Args:
            known: whether a gap of this partition was read again in this process before.
            chance: which one is the sample; at least 0 and less than 1.
        """
        if not self._gaps:
            return []
        starts, ends = (np.concatenate(found) for found in zip(*self._gaps, strict=True))
        if not known:
            chosen: Sequence[int] = np.unique(np.linspace(0, len(starts) - 1, FIRST_LOOKS).astype(int)).tolist()
        elif looks.spent_s <= SHARE_OF_TIME * looks.elapsed_s:
            chosen = [int(chance * len(starts))]
        else:
            chosen = []
        task_range = self._task_range
        return [
            TaskRange(
                task_range.topic,
                task_range.topic_id,
                task_range.partition,
                int(starts[i]),
                min(int(ends[i]), int(starts[i]) + MOST_OFFSETS),
            )
            for i in chosen
        ]


def check_seen(task_range: TaskRange, seen: int, handed_on: int) -> None:
    """What the client gave is what was handed on.

    Raises:
        AccountingError: it is not.
    """
    if seen != handed_on:
        raise _unsound(task_range, f"{seen:,} records came from the broker, but {handed_on:,} were passed on")


def lost_record(task_range: TaskRange, offset: int) -> AccountingError:
    """A gap in what was read holds a record."""
    return _unsound(task_range, f"the record at offset {offset} was found only on the second read")


def _unsound(task_range: TaskRange, what: str) -> AccountingError:
    place = f"{task_range.topic}-{task_range.partition}"
    return AccountingError(
        f"offsets {task_range.start} to {task_range.end} of {place} were not read whole: {what}",
        place=place,
        remedy=REMEDY,
    )
