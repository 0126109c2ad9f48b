"""An exception that nobody foresaw ends as the dead letter of the one record that causes it, and not as a crash loop.

In: a block, and what processes one. Out: its result; where processing raises what is no error of floe's own, that of
the block's halves together, down to single records, which are refused with the exception's words. Keeps invariant 8,
and "one bad record is one dead letter". Where many records of a block would end so, it is not they that are bad: then
the exception goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from framework.errors import FloeError
from framework.record.failure import RecordFailure, shown
from framework.record.model import BlockResult, RecordBlock, UpsertRows
from framework.record.upsert.rows import joined_changes
from framework.table.evolve import merge_needs

# More records of one block than these are refused for no reason that we know: an error of ours, or of the machine.
MOST_RECORDS = 32

Process = Callable[[RecordBlock], BlockResult]
Refuse = Callable[[RecordBlock, RecordFailure], BlockResult]


def contained(block: RecordBlock, process: Process, again: Process, refuse: Refuse) -> BlockResult:
    """What `process` gives for the block; where it raises, what `again` gives for parts of it, as wide as they can be.

    Args:
        again: as `process`, with rows that can be put together: no dictionaries, none unsorted.
        refuse: the result of a block of one record with this failure.

    Raises:
        FloeError: what `process` raises as its own.
        Exception: more than MOST_RECORDS records of the block raise something, or it is none of theirs (memory, files).
    """
    try:
        return process(block)
    except (FloeError, MemoryError, OSError):
        raise
    except Exception as error:  # whatever a library makes of a value that nobody imagined
        return _Bisection(again, refuse).of(block, error)


class _Bisection:
    def __init__(self, process: Process, refuse: Refuse) -> None:
        self._process = process
        self._refuse = refuse
        self._refused = 0

    def of(self, block: RecordBlock, error: Exception) -> BlockResult:
        """The result of a block that raised `error`."""
        if len(block) == 1:
            self._refused += 1
            if self._refused > MOST_RECORDS:
                raise error
            return self._refuse(block, unforeseen(error))
        middle = len(block) // 2
        return joined([self._of_part(block, 0, middle), self._of_part(block, middle, len(block))])

    def _of_part(self, block: RecordBlock, begin: int, end: int) -> BlockResult:
        part = part_of(block, begin, end)
        try:
            return self._process(part)
        except (FloeError, MemoryError, OSError):
            raise
        except Exception as error:
            return self.of(part, error)


def unforeseen(error: Exception) -> RecordFailure:
    return RecordFailure(
        "decode", "FLOE-D119", f"unexpected error in this record ({type(error).__name__}: {shown(str(error), 200)})"
    )


def part_of(block: RecordBlock, begin: int, end: int) -> RecordBlock:
    """The records at [begin, end) as a block."""
    return records_at(block, range(begin, end))


def records_at(block: RecordBlock, places: Sequence[int]) -> RecordBlock:
    """The records at these places as a block."""
    return RecordBlock(
        block.topic,
        block.partition,
        [block.values[place] for place in places],
        [block.offsets[place] for place in places],
        [block.timestamps_ms[place] for place in places],
        [block.keys[place] for place in places],
        [block.headers[place] for place in places],
        {at: block.unread[at] for place in places if (at := block.offsets[place]) in block.unread}
        if block.unread
        else {},
    )


def joined(parts: list[BlockResult]) -> BlockResult:
    """The results of consecutive parts of a block as one, in the order of the parts."""
    found = BlockResult()
    rows: dict[str, list[pa.Table]] = {}
    keyed: dict[str, list[UpsertRows]] = {}
    for part in parts:
        for table, some in part.rows.items():
            rows.setdefault(table, []).append(some)
        for table, changes in part.keyed.items():
            keyed.setdefault(table, []).append(changes)
        for table, need in part.needs.items():
            found.needs[table] = merge_needs([found.needs[table], need]) if table in found.needs else need
        found.dead_letters += part.dead_letters
        found.refused |= part.refused
        found.written += part.written
        found.filtered += part.filtered
        found.dropped += part.dropped
        found.dropped_for += part.dropped_for
        found.alike += part.alike
        if part.failure is not None and (found.failure is None or part.failure.offset < found.failure.offset):
            found.failure = part.failure
    # One chunk a column, as every result has it.
    found.rows = {table: pa.concat_tables(some).combine_chunks() for table, some in rows.items()}
    found.keyed = {table: joined_changes(some) for table, some in keyed.items()}
    return found
