"""A comparison as text, or as JSON of `schemas/comparison.v1.schema.json`.

In: a `TableComparison`. Out: lines, or one document. Values of rows are shown as JSON, cut to a width, with no control character.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Any

from framework.commit.events.event_types import SourceRange
from framework.diagnose.counted import counted
from framework.diagnose.shown import shown
from framework.ops.compare.model import Compared, Example, OffsetGap, RowDifference, TableComparison

VERSION = 1
_WIDTH = 160
_MOST_GAPS = 20
_SHORT = {RowDifference.MISSING: "missing", RowDifference.EXTRA: "only there", RowDifference.CHANGED: "changed"}
_WORDS = {
    RowDifference.MISSING: "missing in {}",
    RowDifference.EXTRA: "only in {}",
    RowDifference.CHANGED: "changed in {}",
}


def lines(found: TableComparison) -> Iterator[str]:
    """The answer first, then what it rests on."""
    right = found.right.table
    yield _headline(found)
    for side in (found.left, found.right):
        yield f"  {side.table}: {counted(side.rows, 'row')}{_at(side)}"
    yield f"  compared: {counted(len(found.columns), 'column')}"
    for each in found.column_differences:
        if each.left is None or each.right is None:
            yield f"  column {shown(each.column)}: only in {right if each.left is None else found.left.table}"
        else:
            yield f"  column {shown(each.column)}: {shown(each.left)} here, {shown(each.right)} in {right}"
    for what, count in found.counts.items():
        if count:
            yield f"  {_WORDS[what].format(right)}: {'' if found.is_complete else 'at least '}{counted(count, 'row')}"
    for gap in found.gaps[:_MOST_GAPS]:
        yield f"    {_SHORT[gap.what]}: {shown(gap.topic)}-{gap.partition} offsets {gap.start} to {gap.end - 1}"
    if len(found.gaps) > _MOST_GAPS:
        yield f"    and {len(found.gaps) - _MOST_GAPS:,} more ranges; --json lists all"
    for example in found.examples:
        yield from _example(example)
    if not found.is_complete:
        yield (
            f"  {found.buckets_differing:,} buckets of rows differ, and {found.buckets_seen:,} were looked at closely; "
            "--most-rows looks at more"
        )


def _headline(found: TableComparison) -> str:
    names = f"{found.left.table} and {found.right.table}"
    if found.is_equal:
        return f"equal: {names} hold the same rows"
    rows = "hold different rows" if found.buckets_differing else "hold the same rows in the columns that both have"
    return f"NOT EQUAL: {names} {rows}"


def _at(side: Compared) -> str:
    return "" if side.snapshot_id is None else f" at snapshot {side.snapshot_id}"


def _example(example: Example) -> Iterator[str]:
    row = example.left if example.left is not None else example.right or {}
    yield f"    {_SHORT[example.what]}: {_cut(row)}"
    if example.what is RowDifference.CHANGED and example.right is not None:
        changed = {name: example.right[name] for name in example.differing}
        yield f"      there: {_cut(changed)}"


def _cut(row: Mapping[str, Any]) -> str:
    text = shown(json.dumps(_plain(row), ensure_ascii=False))
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def _plain(value: Any) -> Any:
    """A value as JSON has it: exact numbers as text, bytes as hexadecimal digits."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, float) and value not in (float("inf"), float("-inf")) and value == value:
        return value
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def document(found: TableComparison, of: SourceRange | None = None) -> dict[str, Any]:
    """The whole answer; its form is `schemas/comparison.v1.schema.json`. `of`: the offsets that were compared; None: all rows."""
    return {
        "version": VERSION,
        "command": "compare",
        "ok": True,
        "equal": found.is_equal,
        "complete": found.is_complete,
        "left": _side(found.left),
        "right": _side(found.right),
        "range": None if of is None else _range(of),
        "columns": list(found.columns),
        "column_differences": [
            {"column": each.column, "left": each.left, "right": each.right} for each in found.column_differences
        ],
        "counts": {what.value: count for what, count in found.counts.items()},
        "offsets": [_gap(gap) for gap in found.gaps],
        "examples": [
            {"what": each.what.value, "left": _plain(each.left), "right": _plain(each.right)} for each in found.examples
        ],
    }


def _side(side: Compared) -> dict[str, Any]:
    return {"table": side.table, "snapshot_id": side.snapshot_id, "rows": side.rows}


def _range(of: SourceRange) -> dict[str, Any]:
    end = None if of.end == sys.maxsize else of.end
    return {"topic": of.topic, "partition": of.partition, "start": of.start, "end": end}


def _gap(gap: OffsetGap) -> dict[str, Any]:
    return {
        "what": gap.what.value,
        "topic": gap.topic,
        "partition": gap.partition,
        "start": gap.start,
        "end": gap.end,
    }
