"""Only records that land may shape tables: what a block asks of its tables, without what its refused records ask for.

In: a block's result that asks for tables or columns, and what processes a block. Out: the same, or, where some of the records
would be dead letters even in tables so changed, what the others ask for, and these as dead letters. The changes are tried on
tables in memory by the decisions that the driver takes (framework.table); what they make of the real ones is the driver's
to say. Keeps invariant 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from framework.plan.model import Plan
from framework.record.contain import joined, records_at
from framework.record.model import BlockResult, RecordBlock, TableNeed, TableTarget
from framework.table.arrow_schema import parse_schema
from framework.table.changes import AlterTable, CreateTable
from framework.table.create import plan_create
from framework.table.evolve import plan_evolution
from framework.table.in_memory import altered_in_memory, made_in_memory

Tables = Mapping[str, TableTarget]
Process = Callable[[RecordBlock, Tables], BlockResult]
# Values of two kinds in one new field ask for a second column only when the first is there; see `new_column`.
_MOST_CHANGES = 3
# Each round ends at a refused record without which the tables would be others; see `_taken_out`.
_MOST_ROUNDS = 12


def shaped_by_landing(
    block: RecordBlock, result: BlockResult, process: Process, plan: Plan, tables: Tables
) -> BlockResult:
    """The result of a block whose refused records ask for nothing.

    Args:
        result: what `process` gave for the block with these tables; it has `needs`.
        process: rows that can be put together: no dictionaries, none unsorted.
    """
    left = block
    refused: list[BlockResult] = []
    for attempt in range(_MOST_ROUNDS + 1):
        trial = _tried(left, result, process, plan, tables)
        if trial is None:
            break
        known = {letter.offset for letter in result.dead_letters}
        bad = [offset for offset in left.offsets if offset in _refused(trial) - known]
        if not bad:
            break
        count, again = _taken_out(left, bad, result, process, tables, at_once=attempt == _MOST_ROUNDS)
        if again.needs == result.needs:
            break
        refused.append(_as_refused(trial, set(bad[:count])))
        left, result = _without(left, bad[:count]), again
        if not result.needs:
            break
    if not refused:
        return result
    whole = joined([result, *refused])
    whole.dead_letters.sort(key=lambda letter: letter.offset)
    return whole


def _taken_out(
    block: RecordBlock, bad: Sequence[int], result: BlockResult, process: Process, tables: Tables, *, at_once: bool
) -> tuple[int, BlockResult]:
    """How many of the refused records to take out, and the result without them: up to the first without which the tables would
    be others, for what is refused after it may fit those. Such a record is found by halving.

    Args:
        bad: offsets of refused records, in order.
        at_once: take all out, whatever follows.
    """

    def asked(count: int) -> BlockResult:
        others = _without(block, bad[:count])
        return process(others, tables) if len(others) else BlockResult()

    same, other, found = 0, len(bad), asked(len(bad))
    if at_once or found.needs == result.needs:
        return other, found
    while other - same > 1:
        middle = (same + other) // 2
        tried = asked(middle)
        if tried.needs == result.needs:
            same = middle
        else:
            other, found = middle, tried
    return other, found


def _without(block: RecordBlock, offsets: Sequence[int]) -> RecordBlock:
    out = set(offsets)
    return records_at(block, [at for at, offset in enumerate(block.offsets) if offset not in out])


def _tried(block: RecordBlock, result: BlockResult, process: Process, plan: Plan, tables: Tables) -> BlockResult | None:
    """What becomes of the block when its tables are as it asks; None where they cannot be told to be."""
    for _ in range(_MOST_CHANGES):
        changed = dict(tables)
        for need in result.needs.values():
            target = _changed(need, plan, tables.get(need.table))
            if target is None:
                return None
            changed[need.table] = target
        tables, result = changed, process(block, changed)
        if not result.needs:
            return result
    return None


def _changed(need: TableNeed, plan: Plan, target: TableTarget | None) -> TableTarget | None:
    """The table as the need asks, None where it cannot be so."""
    if target is not None:
        change = plan_evolution(target, need)
        return altered_in_memory(target, change) if isinstance(change, AlterTable) else None
    policy = plan.write.tables.policy_for(need.table)
    made = plan_create(need, policy, plan.decode.hints, plan.decode.metadata_columns)
    return made_in_memory(need.table, parse_schema(made.schema_json), policy) if isinstance(made, CreateTable) else None


def _refused(trial: BlockResult) -> set[int]:
    return {letter.offset for letter in trial.dead_letters}


def _as_refused(trial: BlockResult, offsets: set[int]) -> BlockResult:
    letters = [letter for letter in trial.dead_letters if letter.offset in offsets]
    failure = trial.failure if trial.failure and trial.failure.offset in offsets else None
    return BlockResult(dead_letters=letters, failure=failure)
