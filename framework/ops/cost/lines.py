"""A month as lines with amounts, and what other settings would change.

In: a month, perhaps with prices. Out: lines. Pure. What a setting changes is said as far as counts say it; what readers, the
network and machines would then need is not counted, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from framework.config.units import duration_text
from framework.diagnose.counted import counted, size_text
from framework.metrics.store_requests import StoreRequest
from framework.ops.cost.model import (
    DAY_MS,
    FILES_OF_A_COMMIT,
    GIB,
    MONTH_MS,
    CostLine,
    PipelineMonth,
    Prices,
    SettingEffect,
    TableMonth,
)

# Commits no further apart than this many intervals are as frequent as the interval lets them be.
_AT_THE_INTERVAL = 1.5


def cost_lines(month: PipelineMonth) -> Iterator[CostLine]:
    """What there is, and what it costs where the prices say so."""
    prices = month.prices or Prices("", "", "")
    for what, sizes in (
        ("stored: live", [each.stored.live for each in month.tables]),
        ("stored: kept by older snapshots alone", [each.stored.kept for each in month.tables]),
        ("stored: metadata and other files in use", [each.stored.other for each in month.tables]),
        ("stored: orphans", [each.stored.orphans for each in month.tables]),
    ):
        size = None if any(each is None for each in sizes) else sum(each or 0 for each in sizes)
        yield CostLine(what, "not known" if size is None else size_text(size), _times(size, prices.gib_month, GIB))
    asked = month.requests()
    least = "" if month.are_counted else "at least "
    for kind in StoreRequest:
        number = asked.get(kind) if month.are_counted or asked.get(kind) else None
        text = "not known" if number is None else f"{least}{number:,.0f}"
        yield CostLine(f"requests: {kind.value}", text, _times(number, prices.thousand_requests.get(kind), 1_000))
    known = [each.commits for each in month.tables if each.is_known]
    commits = sum(known) if known else None
    yield CostLine(
        "catalog commits",
        "not known" if commits is None else f"{commits:,.0f}",
        _times(commits, prices.thousand_commits, 1_000),
    )
    for what, of_topics, price in (
        ("Kafka: into the source topics", [each.bytes for each in month.topics], prices.gib_in),
        ("Kafka: out to the pipeline", [each.bytes for each in month.topics], prices.gib_out),
        ("Kafka: kept in the source topics", [each.kept for each in month.topics], prices.gib_kept_month),
    ):
        size = (
            None if any(each is None for each in of_topics) or not of_topics else sum(each or 0 for each in of_topics)
        )
        yield CostLine(what, "not known" if size is None else size_text(size), _times(size, price, GIB))
    for name, count, each in prices.machines:
        yield CostLine(f"machines: {name}", f"{count:,}", count * each)


def changes(month: PipelineMonth) -> Iterator[SettingEffect]:
    """By table, then by topic; what would change nothing is left out."""
    prices = month.prices or Prices("", "", "")
    for table in month.tables:
        if table.is_known and table.commits_seen:
            yield from _changes(table, prices)
    for topic in month.topics:
        if topic.kept is None or topic.needed is None or topic.kept == topic.needed:
            continue
        more = topic.needed - topic.kept
        yield SettingEffect(
            f"topic {topic.topic}: a retention that keeps what comes in the longest outage, and no more",
            f"{size_text(topic.needed)} kept in place of {size_text(topic.kept)}",
            _times(more, prices.gib_kept_month, GIB),
        )


def _changes(table: TableMonth, prices: Prices) -> Iterator[SettingEffect]:
    apart_ms = MONTH_MS / table.commits
    interval = duration_text(table.interval_ms)
    if apart_ms <= _AT_THE_INTERVAL * table.interval_ms:
        fewer = table.commits / 2
        amounts = [
            _times(fewer, prices.thousand_commits, 1_000),
            _times(fewer * FILES_OF_A_COMMIT, prices.thousand_requests.get(StoreRequest.PUT), 1_000),
        ]
        yield SettingEffect(
            f"{table.table}: an interval of {duration_text(2 * table.interval_ms)} in place of {interval}",
            f"{fewer:,.0f} fewer commits, and {fewer * FILES_OF_A_COMMIT:,.0f} fewer requests to write them",
            None if all(each is None for each in amounts) else -sum(each or 0.0 for each in amounts),
        )
    if table.rewritten_bytes:
        put = _times(table.rewritten_files, prices.thousand_requests.get(StoreRequest.PUT), 1_000)
        yield SettingEffect(
            f"{table.table}: without compaction",
            f"{size_text(int(table.rewritten_bytes))} and {counted(round(table.rewritten_files), 'file')} fewer to write again; "
            "readers would open more files",
            None if put is None else -put,
        )
    if a_day := int(table.removed_bytes * DAY_MS / MONTH_MS):
        yield SettingEffect(
            f"{table.table}: snapshots kept for a day longer",
            f"{size_text(a_day)} more stored",
            _times(a_day, prices.gib_month, GIB),
        )


def _times(quantity: float | None, price: float | None, unit: int) -> float | None:
    return None if quantity is None or price is None else quantity / unit * price
