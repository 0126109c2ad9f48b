"""What `floe compare` has found for the pipeline's tables, and whether it is still about what they hold.

In: a review, and files that `floe compare --json` printed. Out: evidence for each table. A comparison that is of none of the
tables, or of a snapshot that its table has gone back behind, never passes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from framework.adapters.iceberg.views import ancestry, head_of
from framework.config.names.table_names import as_written
from framework.diagnose.counted import counted, in_two_units
from framework.diagnose.shown import argument, shown
from framework.ops.compare.model import RowDifference
from framework.ops.readiness.model import Evidence, failed, not_checked, passed, warned
from framework.ops.readiness.review import Review

_MAIN = "main"


@dataclass(frozen=True)
class SavedComparison:
    """One file's answer, seen from a table of the pipeline: `other` holds the rows that it was compared with. `columns` are as
    many as were compared; `is_whole`: all rows were, and not those of some offsets alone."""

    table: str
    other: str
    snapshot_id: int | None
    rows: int
    columns: int
    is_equal: bool
    differing: int
    is_whole: bool


def comparisons(review: Review, files: Sequence[tuple[str, str]]) -> Iterator[Evidence]:
    """
    Args:
        files: by name, what is in them.
    """
    tables = {as_written(name): name for name in review.tables}
    seen: set[str] = set()
    for file, text in files:
        sides = _sides(text)
        ours = [each for each in sides or () if each.table in tables]
        if sides is None:
            yield failed(f"{file} is nothing that `floe compare --json` printed", _again("TABLE", "OTHER", review))
        elif not ours:
            both = " and ".join(sorted(shown(each.table) for each in sides))
            yield failed(f"{file}: {both} are none of the pipeline's tables", _again("TABLE", "OTHER", review))
        for each in ours[:1]:
            seen.add(each.table)
            yield _judged(review, tables[each.table], each)
    for name in sorted(tables.keys() - seen):
        yield not_checked(f"{name} was compared with nothing", _again(argument(name), "OTHER", review))


def _judged(review: Review, table: str, found: SavedComparison) -> Evidence:
    again = _again(argument(table), argument(found.other), review)
    what = f"{table} and {shown(found.other)}"
    if not found.is_equal:
        return failed(f"{what} differ: {counted(found.differing, 'row')} at least", again)
    if found.snapshot_id is None:
        return warned(f"{what} had no rows when they were compared", again)
    loaded, _ = review.catalog.opened(table)
    line = () if loaded is None else tuple(ancestry(loaded.metadata, head_of(loaded.metadata, _MAIN)))
    snapshot = next((each for each in line if each.snapshot_id == found.snapshot_id), None)
    if snapshot is None:
        return warned(
            f"{what} were equal, but {table} does not hold that snapshot, {found.snapshot_id}, any more", again
        )
    age = in_two_units(max(0, int(time.time() * 1000) - snapshot.timestamp_ms))
    text = (
        f"{what} were equal: {counted(found.rows, 'row')} in {counted(found.columns, 'column')}, "
        f"as of snapshot {found.snapshot_id}, {age} ago"
    )
    return passed(text) if found.is_whole else warned(f"{text}; rows of other offsets were not compared", again)


def _again(table: str, other: str, review: Review) -> str:
    return f"floe compare {table} {other} -t {argument(review.pipeline.target.name)} --json"


def _sides(text: str) -> tuple[SavedComparison, SavedComparison] | None:
    """A comparison from each of its sides; None where the text is none."""
    try:
        said: dict[str, Any] = json.loads(text)
        if said["command"] != "compare" or said["version"] != 1 or not isinstance(said["equal"], bool):
            return None
        differing = sum(int(said["counts"][each.value]) for each in RowDifference)
        sides = (said["left"], said["right"])
        names = [as_written(str(each["table"])) for each in sides]
        left, right = (
            SavedComparison(
                name,
                other,
                None if each["snapshot_id"] is None else int(each["snapshot_id"]),
                int(each["rows"]),
                len(said["columns"]),
                said["equal"],
                differing,
                said["range"] is None,
            )
            for each, name, other in zip(sides, names, reversed(names), strict=True)
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return left, right
