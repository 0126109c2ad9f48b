"""A month as text, or as JSON of `schemas/cost.v1.schema.json`.

In: a `PipelineMonth`. Out: lines, or one document.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from framework.diagnose.counted import counted, in_two_units, size_text
from framework.diagnose.shown import argument, shown
from framework.ops.cost.lines import changes, cost_lines
from framework.ops.cost.model import PipelineMonth, TableMonth

VERSION = 1


def lines(month: PipelineMonth) -> Iterator[str]:
    """What a month has, what it costs, and what other settings would change."""
    yield f"{shown(month.pipeline)}: a month of 30 days at the rates that were seen"
    for table in month.tables:
        yield f"  {shown(table.table)}: {_seen(table)}"
    for topic in month.topics:
        rate = (
            "its records say nothing of a rate" if topic.bytes is None else f"seen over {in_two_units(topic.window_ms)}"
        )
        yield f"  topic {shown(topic.topic)}: {rate}"
    yield f"  requests: {_of_requests(month)}"
    yield ""
    found = list(cost_lines(month))
    currency = month.prices.currency if month.prices is not None else ""
    rows = [(each.what, each.quantity, _money(each.amount, currency)) for each in found]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for what, quantity, amount in rows:
        yield f"  {what:<{widths[0]}}  {quantity:>{widths[1]}}  {amount}".rstrip()
    if month.prices is not None:
        known = sum(each.amount for each in found if each.amount is not None)
        yield f"  in all {_money(known, currency)} by the prices of {month.prices.date}; lines without an amount are not in it"
    yield ""
    for change in changes(month):
        amount = f" ({_money(change.amount, currency)})" if change.amount is not None else ""
        yield f"  {shown(change.what)}: {change.effect}{amount}"
    yield "  not counted: network between zones, other readers, commits without a snapshot, the control topic"
    if any(each.stored.orphans is None for each in month.tables):
        yield "  not known: metadata and orphans; --list lists all files of the tables"
    if any(each.stored.orphans for each in month.tables):
        yield f"  `floe clean -t {argument(month.target)}` shows the orphans"


def document(month: PipelineMonth) -> dict[str, Any]:
    """The same for programs; null is what is not known."""
    prices = month.prices
    return {
        "version": VERSION,
        "command": "cost",
        "ok": True,
        "pipeline": month.pipeline,
        "target": month.target,
        "month_days": 30,
        "tables": [_table(each) for each in month.tables],
        "topics": [
            {
                "topic": x.topic,
                "window_ms": x.window_ms,
                "bytes": x.bytes,
                "kept_bytes": x.kept,
                "needed_bytes": x.needed,
            }
            for x in month.topics
        ],
        "counted": None
        if month.counted is None
        else {
            "window_ms": month.counted.window_ms,
            "seen": {kind.value: number for kind, number in month.counted.seen.items()},
            "month": None
            if month.counted.month is None
            else {kind.value: round(number) for kind, number in month.counted.month.items()},
        },
        "prices": None if prices is None else {"file": prices.file, "currency": prices.currency, "date": prices.date},
        "lines": [{"what": x.what, "quantity": x.quantity, "amount": x.amount} for x in cost_lines(month)],
        "changes": [{"what": x.what, "effect": x.effect, "amount": x.amount} for x in changes(month)],
    }


def _table(table: TableMonth) -> dict[str, Any]:
    stored = table.stored
    return {
        "table": table.table,
        "stored": {"live": stored.live, "kept": stored.kept, "other": stored.other, "orphans": stored.orphans},
        "window_ms": table.window_ms,
        "commits_seen": table.commits_seen,
        "month": {
            "commits": round(table.commits),
            "written_bytes": round(table.written_bytes),
            "rewritten_bytes": round(table.rewritten_bytes),
            "removed_bytes": round(table.removed_bytes),
            "least_requests": {kind.value: round(number) for kind, number in table.requests.items()},
        }
        if table.is_known
        else None,
    }


def _of_requests(month: PipelineMonth) -> str:
    least = "the least that the snapshots say"
    if month.counted is None:
        return f"{least}; --metrics gives those that a run has counted"
    over = in_two_units(month.counted.window_ms)
    return (
        f"counted over {over}, of all that ran there"
        if month.are_counted
        else f"{least}, since a run of {over} has no rate"
    )


def _seen(table: TableMonth) -> str:
    if not table.is_known:
        return "its history is shorter than a minute, and says nothing of a rate"
    written = size_text(int(table.written_bytes))
    return f"{counted(table.commits_seen, 'commit')} in {in_two_units(table.window_ms)}; {written} written in a month"


def _money(amount: float | None, currency: str) -> str:
    return "" if amount is None else f"{amount:,.2f} {currency}"
