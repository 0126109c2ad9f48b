"""The newest dead letters of a pipeline, for the page of `floe ops`: only of those that the target names.

In: the target's list, what a run published that it runs, a catalog. Out: dead letters as documents, each text harmless to show.
Invariant: what the list does not name is not read. Memory is bounded by a part of the table and the letters that are
asked for.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.dead_letter_replay import is_replay
from framework.config.values.maintenance import DAY_MS
from framework.diagnose.codes.catalogue import CODES
from framework.diagnose.shown import shown
from framework.plan.deployed_policies import dead_letters_of
from framework.record.dead_letters.replay import PLACE, marks_table
from framework.record.dead_letters.view import bytes_text, value_lines
from framework.recovery.dead_letters import Selection
from framework.web.backend import Refused
from framework.web.documents import DeadLetterPage, ShownDeadLetter

_WHOLE = (*PLACE, "timestamp", "stage", "code", "message", "field_path", "expected", "actual", "key", "value")
_MOST_TEXT = 2_000
Place = tuple[str, int, int]


class ShownDeadLetters:
    """Of one target; `patterns` name pipelines. `say` hears who looked at what."""

    def __init__(
        self, patterns: tuple[str, ...], catalog: Callable[[], IcebergTables], say: Callable[[str], None]
    ) -> None:
        self.patterns = patterns
        self._catalog = catalog
        self._say = say

    def allows(self, pipeline: str) -> bool:
        return not is_replay(pipeline) and any(fnmatchcase(pipeline, pattern) for pattern in self.patterns)

    def read(self, pipeline: str, plan: Mapping[str, Any], code: str, limit: int, by: str) -> DeadLetterPage:
        """The newest letters of the last day.

        Raises:
            Refused: 404, the run of the pipeline published of no table of dead letters.
            FloeError: catalog or store do not answer.
        """
        reported = dead_letters_of(plan)
        if reported is None:
            raise Refused(404, f"no run of {pipeline} reported that it keeps dead letters")
        self._say(f"{by} looks at dead letters of {pipeline}")
        table, branch = reported
        catalog, since_ms = self._catalog(), int(time.time() * 1000) - DAY_MS
        selection = Selection(code=code or None, since_ms=since_ms)
        newest, found = _newest(
            catalog.read_batches(table, (*PLACE, "timestamp"), selection.where(pipeline), branch), limit
        )
        rows: dict[Place, dict[str, Any]] = {}
        marked: set[Place] = set()
        if newest:
            first = Selection(code=code or None, since_ms=min(at_ms for at_ms, _ in newest))
            wanted = {place for _, place in newest}
            for row in _rows(catalog.read_batches(table, _WHOLE, first.where(pipeline), branch)):
                if (place := _place(row)) in wanted:
                    rows[place] = row
            replayed = catalog.read_batches(marks_table(table), PLACE, Selection().where(pipeline))
            marked = {place for row in _rows(replayed) if (place := _place(row)) in wanted}
        dead_letters = (_letter(rows[place], place in marked) for _, place in newest if place in rows)
        return DeadLetterPage(pipeline, table, since_ms, found, tuple(dead_letters))


def _newest(batches: Iterator[pa.RecordBatch], limit: int) -> tuple[list[tuple[int, Place]], int]:
    """Time and place of the newest letters, newest first, and how many there are."""
    kept: list[tuple[int, Place]] = []
    found = 0
    for batch in batches:
        found += len(batch)
        kept = heapq.nlargest(limit, {*kept, *((row["timestamp"], _place(row)) for row in _plain(batch))})
    return kept, found


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from _plain(batch)


def _plain(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows with times in milliseconds: Python has no dates beyond the year 9999."""
    at = batch.schema.get_field_index("timestamp")
    if at >= 0:
        batch = batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64()))
    for row in batch.to_pylist():
        if row.get("timestamp") is not None:
            row["timestamp"] //= 1000
        yield row


def _place(row: Mapping[str, Any]) -> Place:
    return row["topic"], row["partition"], row["offset"]


def _letter(row: Mapping[str, Any], replayed: bool) -> ShownDeadLetter:
    text = {
        name: shown((row[name] or "")[:_MOST_TEXT]) for name in ("stage", "message", "field_path", "expected", "actual")
    }
    code = row["code"]
    return ShownDeadLetter(
        place=shown(f"{row['topic']}-{row['partition']}@{row['offset']}"),
        at_ms=row["timestamp"],
        code=shown(code),
        title=CODES[code].title if code in CODES else "",
        key=bytes_text(row["key"]),
        lines=tuple(value_lines(row["value"], row["field_path"])),
        replayed=replayed,
        **text,
    )
