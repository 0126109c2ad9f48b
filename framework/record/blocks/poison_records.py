"""Records that are not looked at: those that ended the process that read them, or its task, and those that were not read
since they are too large. They are dead letters, so that their neighbours are rows.

In: a block, and the records that were found to be deadly (framework.task.probe). Out: the block without them, and their
result. Keeps invariant 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import records_at
from framework.record.failure import RecordFailure
from framework.record.model import BlockResult, RecordBlock, RefusedUpdate, TableTarget, UnreadRecord
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables


@dataclass(frozen=True)
class PoisonRecord:
    """One record, and how it ended a process."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(frozen=True)
class Isolation:
    """How a batch is done whose tasks failed twice: without some records, without compiled modules, with the
    expressions of `transform.sql` apart from each other."""

    poison: tuple[PoisonRecord, ...] = ()
    is_uncompiled: bool = False
    is_sql_apart: bool = False


NO_ISOLATION = Isolation()


def set_aside(
    block: RecordBlock,
    poison: Sequence[PoisonRecord],
    plan: Plan,
    tables: Mapping[str, TableTarget],
    refused: Sequence[RefusedUpdate] = (),
) -> tuple[RecordBlock, BlockResult]:
    """The block without poison and unread records, and without updates whose row is not there, and what became of these."""
    failures = {
        record.offset: RecordFailure("decode", "FLOE-D120", f"the record is not read: {record.reason}")
        for record in poison
        if (record.topic, record.partition) == (block.topic, block.partition)
    }
    failures |= {
        record.offset: _without_row(record)
        for record in refused
        if (record.topic, record.partition) == (block.topic, block.partition)
    }
    failures |= {offset: _unread(why) for offset, why in block.unread.items()}
    places = [at for at, offset in enumerate(block.offsets) if offset in failures]
    if not places:
        return block, BlockResult()
    out = records_at(block, places)
    state = BlockState(out, BlockTables(plan, tables))
    for at, offset in enumerate(out.offsets):
        state.fail(at, failures[offset])
    left = records_at(block, [at for at, offset in enumerate(block.offsets) if offset not in failures])
    return left, state.result()


def _unread(why: UnreadRecord) -> RecordFailure:
    if why.size is None:
        message = "the batch that holds the record cannot be decompressed, and is not read"
        return RecordFailure("fetch", "FLOE-D125", message)
    return RecordFailure(
        "fetch",
        "FLOE-D124",
        f"the record has {why.size:,} bytes with its key and headers, and is not read",
        expected=f"{why.most:,} bytes at most",
        actual=f"{why.size:,} bytes",
    )


def _without_row(record: RefusedUpdate) -> RecordFailure:
    message = (
        f"{record.column}: {record.table} requires a value, the record has none, and the table has no row of its key to "
        "take it from"
    )
    return RecordFailure(
        "convert", "FLOE-D315", message, field_path=record.column, expected="a value", actual="nothing"
    )
