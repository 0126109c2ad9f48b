"""No record makes a table wider than `evolve.max_columns`, nor one that Iceberg's Java library could not read, nor asks for
a column whose full name another one has: what does is a dead letter, its neighbours are rows.

In: a block's result that asks for columns, and what processes a block. Out: the records that stay, their result, and
what became of those that ask for too much, which are found by halving; in order of offsets, whoever comes first has
room. Where many of a block ask for too much, the table is taken as one that is not changed for the rest of it. Keeps
invariant 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

import numpy as np

from framework.config.spec import NameCase
from framework.record.blocks.bisect_failures import joined, part_of, records_at
from framework.record.blocks.landed_needs import changed_as
from framework.record.failure import RecordFailure
from framework.record.model import BlockResult, RecordBlock, TableNeed, TableTarget
from framework.record.state.block_tables import BlockTables
from framework.record.value_buffer import JoinedValues
from framework.table.columns.limit import columns_in, new_columns, too_wide
from framework.table.evolve import merge_needs, unmakeable
from framework.table.policy.admitted import most_columns
from framework.table.readable import UNREADABLE
from framework.table.schema.arrow import parse_schema
from framework.table.trouble import frozen

# Found one by one; where more records of a block ask for too much, the table gains nothing more by the block.
MOST_REFUSED = 8
_FIELD_BYTES = len(b'"":1,')
# Of these so many are looked for among the longest records, before the block is halved.
_MOST_LONGEST = 2

Tables = Mapping[str, TableTarget]
Process = Callable[[RecordBlock, Tables], BlockResult]
Refuse = Callable[[RecordBlock, RecordFailure], BlockResult]


def within_bounds(
    block: RecordBlock, result: BlockResult, process: Process, refuse: Refuse, tables: BlockTables
) -> tuple[BlockResult, RecordBlock, list[BlockResult]]:
    """The result without records that ask for too much, the block without them, and what became of them.

    Args:
        result: what `process` gave for the block with these tables.
        process: rows that can be put together: no dictionaries, none unsorted.
        refuse: the result of a block of one record with this failure.
    """
    bounds = _TableLimits(tables)
    if not bounds.beyond(result.needs):
        return result, block, []
    search = _LimitSearch(process, refuse, bounds, tables.given)
    search.of(block, result)
    left = [at for at, offset in enumerate(block.offsets) if offset not in search.gone]
    return joined(search.kept), records_at(block, left), search.refused


def set_aside_wide(
    block: RecordBlock, process: Process, refuse: Refuse, tables: BlockTables
) -> tuple[RecordBlock, list[BlockResult]]:
    """The block without wide records that ask for too much by themselves, or are no rows for another reason, as far as
    they can be recognized by a look at their bytes, and what became of these: whatever is done with a block takes long while
    one is in it."""
    gone: set[int] = set()
    refused = []
    for at in _suspects(block, tables.most_columns):
        one = part_of(block, at, at + 1)
        result = process(one, tables.given)
        if result.needs:
            why = next(iter(_TableLimits(tables).beyond(result.needs).values()), None)
            result = refuse(one, why) if why is not None else result
        if not result.needs and not result.rows and not result.keyed:
            gone.add(at)
            refused.append(result)
    if not gone:
        return block, []
    return records_at(block, [at for at in range(len(block)) if at not in gone]), refused


def _suspects(block: RecordBlock, most: int) -> list[int]:
    """Places of JSON records that may have more fields than any table may have columns; some of them, where there are
    many."""
    least_bytes = most * _FIELD_BYTES
    values = block.values
    if isinstance(values, JoinedValues):
        if values.longest < least_bytes:
            return []
        long = np.flatnonzero(np.diff(values.starts) > least_bytes).tolist()
    else:
        long = [at for at, value in enumerate(values) if value is not None and len(value) >= least_bytes]
    return list(islice((at for at in long if (values[at] or b"").count(b":") > most), MOST_REFUSED))


class _TableLimits:
    def __init__(self, tables: BlockTables) -> None:
        self._plan = tables.plan
        self._tables = tables.given

    def beyond(self, needs: Mapping[str, TableNeed]) -> dict[str, RecordFailure]:
        """Tables that may not become as they are asked to, and why."""
        failures = {name: self._beyond(need) for name, need in needs.items()}
        return {name: failure for name, failure in failures.items() if failure is not None}

    def _beyond(self, need: TableNeed) -> RecordFailure | None:
        target = self._tables.get(need.table)
        policy = target.policy if target is not None else self._plan.write.tables.policy_for(need.table)
        present = parse_schema(target.schema_json).as_struct() if target is not None else None
        asked = ["struct", [[name, kind] for name, kind in need.fields]]
        new = new_columns(asked, present, policy.case is NameCase.INSENSITIVE)
        before = columns_in(present.fields) if present is not None else 0
        most = most_columns(policy)
        if new and before + new > most:
            return _failure(need.table, "FLOE-D310", too_wide(most))
        # A table that is not there is looked at as it would be made: of two columns that clash it has one.
        found = target or changed_as(need, self._plan, None)
        refused = unmakeable(found, need) if new and found is not None else None
        if refused is None:
            return None
        return _failure(need.table, "FLOE-D313" if refused.code == UNREADABLE else "FLOE-D306", refused.reason)


def _failure(table: str, code: str, why: str) -> RecordFailure:
    return RecordFailure("convert", code, f"{table} lacks fields of the record, and {why}")


class _LimitSearch:
    """`kept` and `refused` are the results of parts of the block, in order."""

    def __init__(self, process: Process, refuse: Refuse, bounds: _TableLimits, tables: Tables) -> None:
        self._process = process
        self._refuse = refuse
        self._bounds = bounds
        self._tables = dict(tables)
        self._asked: dict[str, TableNeed] = {}
        self._longest_left = _MOST_LONGEST
        self.kept: list[BlockResult] = []
        self.refused: list[BlockResult] = []
        self.gone: set[int] = set()  # their offsets

    def of(self, block: RecordBlock, result: BlockResult) -> None:
        asked = dict(self._asked)
        for name, need in result.needs.items():
            asked[name] = merge_needs([asked[name], need]) if name in asked else need
        reasons = self._bounds.beyond(asked)
        if not reasons:
            self._asked = asked
            self.kept.append(result)
        elif len(block) == 1:
            self._refuse_it(block, reasons)
        elif len(self.refused) < MOST_REFUSED:
            if self._was_the_longest(block):
                return
            middle = len(block) // 2
            for part in (part_of(block, 0, middle), part_of(block, middle, len(block))):
                self.of(part, self._process(part, self._tables))
        else:
            self._close(reasons)
            self.kept.append(self._process(block, self._tables))

    def _was_the_longest(self, block: RecordBlock) -> bool:
        """Mostly it is one record that asks for too much, and the longest one; and what a wide one is parsed with takes
        long."""
        if self._longest_left:
            self._longest_left -= 1
            longest = max(range(len(block)), key=lambda at: len(block.values[at] or b""))
            one = part_of(block, longest, longest + 1)
            needs = self._process(one, self._tables).needs
            if alone := self._bounds.beyond(needs):
                self._refuse_it(one, alone)
                rest = records_at(block, [at for at in range(len(block)) if at != longest])
                self.of(rest, self._process(rest, self._tables))
                return True
        return False

    def _refuse_it(self, one: RecordBlock, reasons: Mapping[str, RecordFailure]) -> None:
        self.gone.add(one.offsets[0])
        self.refused.append(self._refuse(one, next(iter(reasons.values()))))

    def _close(self, reasons: Mapping[str, RecordFailure]) -> None:
        """Tables that are there gain nothing more; one that is not is made, or refused, by whoever makes tables."""
        for name, why in reasons.items():
            if name in self._tables:
                self._tables[name] = frozen(self._tables[name], why.message)
