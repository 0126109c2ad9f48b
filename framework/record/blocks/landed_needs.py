"""Only records that land may shape tables: what a block asks of its tables, without what its refused records ask for.

In: a block's result that asks for tables or columns, and what processes a block. Out: the same, or, where some of the
records would be dead letters even in tables so changed, what the others ask for, and these as dead letters. The changes
are tried on tables in memory by the decisions that the driver takes (framework.table); what they make of the real ones
is the driver's to say. Keeps invariant 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from framework.plan.model import Plan
from framework.record.blocks.bisect_failures import joined, part_of, records_at
from framework.record.model import BlockResult, RecordBlock, TableNeed, TableTarget
from framework.table.changes import AlterTable, Refusal
from framework.table.create import plan_create
from framework.table.evolve import merge_needs, plan_evolution
from framework.table.in_memory import altered_in_memory, made_in_memory
from framework.table.schema.arrow import parse_schema

Tables = Mapping[str, TableTarget]
Process = Callable[[RecordBlock, Tables], BlockResult]
# Values of two kinds in one new field ask for a second column only when the first is there; see `new_column`.
_MOST_CHANGES = 3
# Each round ends at a refused record without which the tables would be others; see `_taken_out`.
_MOST_ROUNDS = 12
# Of as many refused records each is looked at for what it alone asks.
_MOST_LOOKED_AT = 500


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
    if result.refused:
        # In typed columns a record may have asked before it was refused.
        left, refused = _without(block, result.refused), [_as_refused(result, result.refused)]
        result = process(left, tables) if len(left) else BlockResult()
    for attempt in range(_MOST_ROUNDS + 1 if result.needs else 0):
        trial = _tried(left, result, process, plan, tables)
        if trial is None:
            break
        bad = [offset for offset in left.offsets if offset in trial.refused]
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
    whole.dead_letters.sort(key=lambda dead_letter: dead_letter.offset)
    failures = [part.failure for part in (result, *refused) if part.failure is not None]
    whole.failure = min(failures, key=lambda dead_letter: dead_letter.offset, default=None)
    return whole


def _taken_out(
    block: RecordBlock, bad: Sequence[int], result: BlockResult, process: Process, tables: Tables, *, at_once: bool
) -> tuple[int, BlockResult]:
    """How many of the refused records to take out, and the result without them: up to the first without which the
    tables would be others, for what is refused after it may fit those. Of very many such a record is found by halving:
    then two of them that take each other's effect back go unseen.

    Args:
        bad: offsets of refused records, in order.
        at_once: take all out, whatever follows.
    """

    def asked(count: int) -> BlockResult:
        others = _without(block, bad[:count])
        return process(others, tables) if len(others) else BlockResult()

    if not at_once and len(bad) <= _MOST_LOOKED_AT:
        for count in _adding(block, bad, process, tables):
            found = asked(count)
            if found.needs != result.needs:
                return count, found
        return len(bad), asked(len(bad))
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


def _adding(block: RecordBlock, bad: Sequence[int], process: Process, tables: Tables) -> Iterator[int]:
    """The number, from 1, of each refused record that asks for something that no other one before it asked for. They
    are few: a table has so many columns."""
    known: dict[str, TableNeed] = {}
    places = {offset: place for place, offset in enumerate(block.offsets)}
    begin = 0
    for count, offset in enumerate(bad, 1):
        place = places[offset]
        if begin < place:
            known = _with_needs(known, process(part_of(block, begin, place), tables).needs)
        if _with_needs(known, process(part_of(block, place, place + 1), tables).needs) != known:
            yield count
        begin = place + 1


def _with_needs(known: dict[str, TableNeed], needs: Mapping[str, TableNeed]) -> dict[str, TableNeed]:
    return known | {t: merge_needs([known[t], need]) if t in known else need for t, need in needs.items()}


def _without(block: RecordBlock, offsets: Collection[int]) -> RecordBlock:
    out = set(offsets)
    return records_at(block, [at for at, offset in enumerate(block.offsets) if offset not in out])


def _tried(block: RecordBlock, result: BlockResult, process: Process, plan: Plan, tables: Tables) -> BlockResult | None:
    """What becomes of the block when its tables are as it asks; None where that cannot be determined."""
    for _ in range(_MOST_CHANGES):
        changed = dict(tables)
        for need in result.needs.values():
            target = changed_as(need, plan, tables.get(need.table))
            if target is None:
                return None
            changed[need.table] = target
        tables, result = changed, process(block, changed)
        if not result.needs:
            return result
    return None


def changed_as(need: TableNeed, plan: Plan, target: TableTarget | None) -> TableTarget | None:
    """The table as the need asks, None where it cannot be so."""
    if target is not None:
        change = plan_evolution(target, need)
        return altered_in_memory(target, change) if isinstance(change, AlterTable) else None
    policy = plan.write.tables.policy_for(need.table)
    made = plan_create(need, policy, plan.hints_of(need.table), plan.metadata_columns_of(need.table))
    if isinstance(made, Refusal):
        return None
    return made_in_memory(need.table, parse_schema(made.schema_json), policy, made.partition_by)


def _as_refused(trial: BlockResult, offsets: set[int]) -> BlockResult:
    dead_letters = [dead_letter for dead_letter in trial.dead_letters if dead_letter.offset in offsets]
    failure = trial.failure if trial.failure and trial.failure.offset in offsets else None
    dropped = len(offsets) - len(dead_letters)  # `drop` is the policy's word for them
    # Refused for one table's sake, they are all refused alike; others of the block may have other codes.
    [code] = trial.dropped_for if len(trial.dropped_for) == 1 else [""]
    dropped_for = Counter({code: dropped}) if code and dropped else Counter[str]()
    return BlockResult(
        dead_letters=dead_letters, failure=failure, dropped=dropped, dropped_for=dropped_for, refused=set(offsets)
    )
