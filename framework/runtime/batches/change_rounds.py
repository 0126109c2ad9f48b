"""Rounds of a batch until every table can hold its records: do it, change tables, do again what asked for changes.

In: what tasks are given, the driver's tables, and what does a round. Out: how often a part was done again; the caller
keeps what each round gave. A batch and a replay of dead letters take the same rounds, so a table is changed by the same
rules in both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from framework.adapters.registry import with_less_time
from framework.errors import FloeError
from framework.record.model import TableNeed
from framework.runtime.tables.registry import TableRegistry
from framework.table.evolve import merge_needs
from framework.task.context import TaskContext, known_to_tasks

CHANGE_ROUNDS = 8


def change_tables_until_they_hold(
    base: TaskContext,
    tables: TableRegistry,
    run: Callable[[TaskContext], Sequence[TableNeed]],
    *,
    subject: str,
    report_with: str,
) -> int:
    """Call `run`, and again after each change that it asks for; returns how often it was called again.

    Args:
        run: does a round with the tables as they are now, and says what they need first; what needs it is done again.
        subject: whose rounds they are, for the error, such as "batch 3".
        report_with: what a person sends along with a report.

    Raises:
        TableBlocked: a table that must be written cannot be.
        FloeError: FLOE-R325, there is no end of changes.
    """
    began_s = time.monotonic()
    for again in range(CHANGE_ROUNDS):
        context = context_now(base, tables)
        if again:
            context = replace(context, registries=with_less_time(base.registries, time.monotonic() - began_s))
        needs = run(context)
        if not needs:
            return again
        tables.satisfy(needs, subject)
    raise FloeError(
        f"{subject} asked for table changes {CHANGE_ROUNDS} times in a row",
        code="FLOE-R325",
        remedy=f"report this with {report_with}",
    )


def context_now(base: TaskContext, tables: TableRegistry) -> TaskContext:
    """What tasks are given, with the tables as they are now; the policy says where records for a refused table go."""
    route = replace(base.plan.route, refused_tables=tables.refused, owned_by_others=tables.owned_by_others)
    io_properties = tables.with_lent(base.io_properties)
    known = known_to_tasks(tables.targets)
    return replace(base, plan=replace(base.plan, route=route), tables=known, io_properties=io_properties)


def merged_needs(found: Iterable[Mapping[str, TableNeed]]) -> list[TableNeed]:
    """What each table needs, by what several parts of a batch ask of it."""
    needs: dict[str, list[TableNeed]] = {}
    for part in found:
        for name, need in part.items():
            needs.setdefault(name, []).append(need)
    return [merge_needs(group) for group in needs.values()]
