"""How long a catalog takes for a commit, and how many tables commit intervals allow with it.

In: an open catalog, and the commit interval of each table. Out: what it took, and what that means. So many commits without
files go to a scratch table, one after the other, the way a coordinator makes them. What judges them is pure.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import CommitTable, Committed, PipelineProgress, TableProgress
from framework.config.names.table_names import catalog_of, full_name
from framework.config.units import duration_text
from framework.diagnose.counted import counted
from framework.ops.doctor.model import DoctorFinding, ok, warning
from framework.ops.doctor.scratch import NoScratch, ScratchPrefix, scratch_table
from framework.plan.model import Plan
from framework.runtime.coordinator.catalog_requests import COMMITTERS
from framework.runtime.tables.registry import reachable_tables

COMMITS = 20
_CONTROL = "readiness"
_MINUTE_MS = 60_000


class IntervalFit(str, Enum):
    """Whether all tables can be committed within their intervals."""

    ONE_BY_ONE = "one by one"
    AT_ONCE = "several at once"
    NOT = "not"


@dataclass(frozen=True)
class JudgedInterval:
    """`longer`: a commit interval in which all tables could be committed one by one."""

    fit: IntervalFit
    text: str
    longer: str


def time_commits(opened: Catalog, tables: IcebergTables, catalog: str, prefix: ScratchPrefix) -> list[float]:
    """How many milliseconds each commit took.

    Raises:
        NoScratch: no scratch table can be made.
        RuntimeError: a commit was not made.
    """
    times_ms = []
    with scratch_table(opened, Schema(NestedField(1, "probe", LongType(), required=False)), prefix) as scratch:
        name = full_name(catalog, ".".join(scratch.name()))
        view = tables.load_view(name, "main", _CONTROL)
        for number in range(COMMITS):
            assert view is not None
            progress = TableProgress(_CONTROL, number + 1, {_CONTROL: PipelineProgress(number + 1, {}, {})})
            effect = CommitTable(name, view, uuid.uuid4().hex, (), progress, None)
            began = time.monotonic()
            answer = tables.commit(effect)
            times_ms.append((time.monotonic() - began) * 1000)
            if not isinstance(answer, Committed):
                raise RuntimeError(f"catalog {catalog} did not make a commit: {answer}")
            view = answer.view
    return times_ms


def intervals_of(plans: Iterable[Plan], tables: IcebergTables, catalog: str) -> Mapping[str, int]:
    """The commit interval of each table of a catalog that pipelines write to, or will: a table has one, the shortest that
    a pipeline gives it."""
    found: dict[str, int] = {}
    for plan in plans:
        for name in reachable_tables(plan, tables):
            if catalog_of(name) == catalog:
                interval_ms = plan.write.tables.policy_for(name).commit.interval_ms
                found[name] = min(interval_ms, found.get(name, interval_ms))
    return found


def judge_intervals(catalog: str, times_ms: Sequence[float], intervals_ms: Sequence[int], whose: str) -> JudgedInterval:
    """What these times say of the intervals, by the slow commits (p95). A coordinator commits to several tables of a catalog
    at once, as far as the catalog lets it.

    Args:
        intervals_ms: that of each table; at least one.
        whose: who has these tables, such as `this pipeline has`.
    """
    ordered = sorted(times_ms)
    middle_ms, slow_ms = ordered[len(ordered) // 2], ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]
    shortest_ms, tables = min(intervals_ms), len(intervals_ms)
    one_by_one, at_once = int(shortest_ms / slow_ms), int(shortest_ms * COMMITTERS / slow_ms)
    # Of one committer's time; with one interval for all it is 1 where as many tables as the interval allows are there.
    busy = slow_ms * float(sum(Fraction(1, each) for each in intervals_ms))
    text = (
        f"catalog {catalog}: {counted(len(ordered), 'commit')} took {middle_ms:,.0f} ms each (p50), {slow_ms:,.0f} ms (p95); "
        f"a commit interval of {duration_text(shortest_ms)} allows {one_by_one:,} tables one by one and up to {at_once:,} "
        f"at once; {whose} {tables:,}"
    )
    if max(intervals_ms) > shortest_ms:
        text += f", with intervals up to {duration_text(max(intervals_ms))}"
    fit = IntervalFit.ONE_BY_ONE if busy <= 1 else IntervalFit.AT_ONCE if busy <= COMMITTERS else IntervalFit.NOT
    if fit is IntervalFit.NOT:
        text += ", whose commits take longer than the interval"
    return JudgedInterval(fit, text, duration_text(-(-int(tables * slow_ms) // _MINUTE_MS) * _MINUTE_MS))


def examine(catalog: str, opened: Catalog, tables: IcebergTables, plans: Sequence[Plan]) -> Iterator[DoctorFinding]:
    """Times commits where pipelines write to this catalog, and judges the commit intervals of all of them together."""
    intervals = intervals_of(plans, tables, catalog)
    if not intervals:
        return
    check = f"catalog {catalog} commits"
    try:
        times_ms = time_commits(opened, tables, catalog, ScratchPrefix.DOCTOR)
    except NoScratch:
        return  # the catalog's own check has said so
    found = judge_intervals(catalog, times_ms, tuple(intervals.values()), "these pipelines have")
    message = found.text.removeprefix(f"catalog {catalog}: ")
    if found.fit is IntervalFit.ONE_BY_ONE:
        yield ok(check, message)
    else:
        yield warning(
            check, message, f"set `commit: {{interval: {found.longer}}}` under `tables.defaults` in the files"
        )
