"""`transform.sql` fails for the values of some records: they are refused, and the others go through.

In: decoded rows, and what runs the SQL. Out: the rows that came out, and failures by places of records. Invariant: as
in a job (framework.task.sql_probe), a record for which an expression fails is one dead letter.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from framework.errors import RetriableError
from framework.record.failure import RecordFailure

MOST_FAILURES = 32


class SqlFailed(Exception):
    """An expression fails for one of the rows; says why."""


def sql_failure(reason: str) -> RecordFailure:
    return RecordFailure("transform", "FLOE-D123", f"transform.sql fails for the record: {reason}")


def through(
    sql: Callable[[pa.Table], pa.Table], rows: pa.Table, hidden: str
) -> tuple[pa.Table | None, dict[int, RecordFailure]]:
    """The rows behind the SQL, None where none went through it, and the failures by the number in the hidden column.

    Raises:
        RetriableError: FLOE-R324, many rows fail.
    """
    failures: dict[int, RecordFailure] = {}
    parts: list[pa.Table] = []

    def run(some: pa.Table) -> None:
        try:
            parts.append(sql(some))
            return
        except SqlFailed as error:
            if len(some) > 1:
                middle = len(some) // 2
                run(some.slice(0, middle))
                run(some.slice(middle))
                return
            if len(failures) == MOST_FAILURES:
                raise RetriableError(
                    f"a batch failed: {error}", code="FLOE-R324", told="a batch failed: many rows fail in transform.sql"
                ) from error
            failures[some.column(hidden)[0].as_py()] = sql_failure(str(error))

    run(rows)
    return pa.concat_tables(parts, promote_options="permissive") if parts else None, failures
