"""`transform.sql` fails for the values of some records: they are refused, and the others go through.

In: rows that came out of the SQL, where each may say which expression failed for it. Out: the rows that are whole, and
failures by places of records. Invariant: in a job and where records are few, a record for which an expression fails is
one dead letter.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from framework.record.failure import RecordFailure

# Of rows whose expressions were evaluated apart from each other: which of them failed, null where none did.
FAILED = "__floe_failed"
SQL_FAILED = "FLOE-D123"


def split(rows: pa.Table, hidden: str) -> tuple[pa.Table, dict[int, RecordFailure]]:
    """The rows for which no expression failed, and the failures by the number in the hidden column."""
    if FAILED not in rows.schema.names:
        return rows, {}
    causes = rows.column(FAILED)
    failed = rows.filter(pc.is_valid(causes))
    places = failed.column(hidden).to_pylist()
    failures = dict(zip(places, map(_failure, failed.column(FAILED).to_pylist()), strict=True))
    return rows.filter(pc.is_null(causes)).drop_columns([FAILED]), failures


def _failure(expression: str) -> RecordFailure:
    return RecordFailure("transform", SQL_FAILED, f"transform.sql fails for the record: {expression}")
