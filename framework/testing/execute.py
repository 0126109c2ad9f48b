"""Runs a case through the job's own decode, route and convert code.

In: a Case and the plan of its pipeline. Out: an Outcome: tables with rows, dead letters and counts, or why the run
would stop. As in a run, all records are processed again each time a table was created or changed, until no more changes
are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyiceberg.schema import Schema

from framework.config.units import partition_text, sort_text
from framework.errors import AccountingError, FloeError, RetriableError
from framework.plan.model import Plan
from framework.record.model import BlockResult, DeadLetter, RecordBlock, TableNeed, TableTarget
from framework.record.process import Sql, process_block, process_with_sql
from framework.table.evolve import merge_needs
from framework.table.schema.arrow import parse_schema
from framework.testing.case import Case, blocks
from framework.testing.newest_rows import SourceChanges, newest_rows
from framework.testing.tables import MemoryTables

_ROUNDS = 20


@dataclass(frozen=True)
class RunStop:
    """Why a run would stop at these records: nothing of the batch is announced. `offset` is None where SQL failed."""

    code: str
    message: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class TableOutcome:
    """One table as it is after the case. `partition_by` and `sort_by` are None for a table that the case gave, `rows`
    for one that no record reached: an upsert table may have been reached and hold nothing."""

    schema: Schema
    partition_by: tuple[str, ...] | None
    sort_by: tuple[str, ...] | None
    rows: pa.Table | None


@dataclass(frozen=True)
class CaseOutcome:
    """What became of a case's records. With `stop`, there are neither rows nor dead letters."""

    tables: dict[str, TableOutcome]
    dead_letters: tuple[DeadLetter, ...]
    dropped: int
    filtered: int
    stop: RunStop | None = None


def run_case(case: Case, plan: Plan, sql: Sql | None = None) -> CaseOutcome:
    """Runs one case; `sql` runs the plan's SQL, if it has any. SQL that fails on a record stops the run, as it does a
    job's.

    Raises:
        ConfigError: the SQL is refused.
        FloeError: an error of floe.
    """
    tables = MemoryTables(plan, case.given)
    records = list(blocks(case.records))

    def process(block: RecordBlock, routing: Plan) -> BlockResult:
        if sql is None:
            return process_block(block, routing, tables.targets, case.schemas)
        return process_with_sql(block, routing, tables.targets, sql, case.schemas)

    try:
        results = settled(records, plan, tables, process)
    except RetriableError as error:
        return _stopped(RunStop(error.code, error.message))
    if results is None:
        raise FloeError(
            f"the test `{case.name}` asked for table changes {_ROUNDS} times in a row",
            code="FLOE-R325",
            place=case.span.start,
            remedy="report this with the pipeline file",
        )
    return _outcome(case, records, results, tables)


def settled(
    records: Iterable[RecordBlock],
    plan: Plan,
    tables: MemoryTables,
    process: Callable[[RecordBlock, Plan], BlockResult],
) -> list[BlockResult] | None:
    """What becomes of blocks once the tables are as they ask; None if they ask for ever."""
    for _ in range(_ROUNDS):
        route = replace(plan.route, refused_tables=tables.refused, owned_by_others=tables.owned_by_others)
        routing = replace(plan, route=route)
        results = [process(block, routing) for block in records]
        needs = _merged(results)
        if not needs:
            return results
        for need in needs:
            tables.satisfy(need)
    return None


def _merged(results: Iterable[BlockResult]) -> list[TableNeed]:
    found: dict[str, list[TableNeed]] = {}
    for result in results:
        for table, need in result.needs.items():
            found.setdefault(table, []).append(need)
    return [merge_needs(needs) for needs in found.values()]


def _stopped(stop: RunStop) -> CaseOutcome:
    return CaseOutcome({}, (), 0, 0, stop)


def _outcome(case: Case, records: list[RecordBlock], results: list[BlockResult], tables: MemoryTables) -> CaseOutcome:
    for result in results:
        if dead_letter := result.failure:
            return _stopped(
                RunStop(
                    dead_letter.code, dead_letter.message, dead_letter.topic, dead_letter.partition, dead_letter.offset
                )
            )
    dead_letters = [dead_letter for result in results for dead_letter in result.dead_letters]
    dropped, filtered = sum(r.dropped for r in results), sum(r.filtered for r in results)
    # Invariant 8, for the records of a test.
    if sum(r.written for r in results) + filtered + len(dead_letters) + dropped != len(case.records):
        raise AccountingError(
            f"the records of the test `{case.name}` do not add up", place=case.span.start, remedy="report this"
        )
    found = {}
    for name, target in tables.targets.items():
        fields, orders = tables.partition_by.get(name), tables.sort_by.get(name)
        found[name] = TableOutcome(
            schema=parse_schema(target.schema_json),
            partition_by=None if fields is None else tuple(partition_text(field) for field in fields),
            sort_by=None if orders is None else tuple(sort_text(order) for order in orders),
            rows=_rows(target, records, results),
        )
    order = sorted(dead_letters, key=lambda dead_letter: (dead_letter.topic, dead_letter.partition, dead_letter.offset))
    return CaseOutcome(found, tuple(order), dropped, filtered)


def _rows(target: TableTarget, records: list[RecordBlock], results: list[BlockResult]) -> pa.Table | None:
    """What the table holds after the records, which may be nothing if it is an upsert table; None if none of them reached
    it."""
    name = target.name
    changes = [
        SourceChanges(block.topic, block.partition, result.keyed[name])
        for block, result in zip(records, results, strict=True)
        if name in result.keyed
    ]
    if changes:
        return newest_rows(target, changes)
    parts = [result.rows[name] for result in results if name in result.rows]
    return pa.concat_tables(parts) if parts else None
