"""A pipeline's dead letters as they are in its table now, with the marks of those that were replayed.

In: a plan, a catalog and a selection. Out: Arrow tables; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa

from framework.adapters.iceberg.tables import IcebergTables, Where
from framework.errors import SetupError
from framework.plan.model import Plan
from framework.record.dead_letters.replay import PLACE, is_marked, marks_table


@dataclass(frozen=True)
class Selection:
    """Which letters: all that meet every condition given. `since_ms` is about the records' own timestamps."""

    code: str | None = None
    stage: str | None = None
    topic: str | None = None
    since_ms: int | None = None
    partition: int | None = None
    offset: int | None = None

    def where(self, pipeline: str) -> tuple[Where, ...]:
        equal = {"pipeline": pipeline, "code": self.code, "stage": self.stage, "topic": self.topic}
        equal |= {"partition": self.partition, "offset": self.offset}  # type: ignore[dict-item]
        found: list[Where] = [(name, "=", value) for name, value in equal.items() if value is not None]
        if self.since_ms is not None:
            moment = datetime.fromtimestamp(self.since_ms / 1000, timezone.utc).isoformat()
            found.append(("timestamp", ">=", moment))
        return tuple(found)


def dead_letter_table_of(plan: Plan) -> str:
    """Raises SetupError when the pipeline keeps no dead letters."""
    if plan.write.dead_letter_table is None:
        raise SetupError(
            f"pipeline {plan.pipeline} keeps no dead letters",
            code="FLOE-E601",
            place=plan.source_file,
            remedy="name a table in errors.dead_letter_table",
        )
    return plan.write.dead_letter_table


def read_dead_letters(
    plan: Plan, catalog: IcebergTables, selection: Selection, columns: Sequence[str]
) -> pa.Table | None:
    """The pipeline's letters, replayed or not; None when the table does not exist yet."""
    table = dead_letter_table_of(plan)
    branch = plan.write.tables.policy_for(table).commit.branch
    return catalog.read(table, columns, selection.where(plan.pipeline), branch)


def read_marks(plan: Plan, catalog: IcebergTables, selection: Selection) -> pa.Table | None:
    """The places of the letters that were replayed; None when there is no such table."""
    table = marks_table(dead_letter_table_of(plan))
    branch = plan.write.tables.policy_for(table).commit.branch
    place = Selection(topic=selection.topic, partition=selection.partition, offset=selection.offset)
    return catalog.read(table, PLACE, place.where(plan.pipeline), branch)


def read_with_marks(plan: Plan, catalog: IcebergTables, selection: Selection, columns: Sequence[str]) -> pa.Table:
    """The letters with a column `replayed`."""
    dead_letters = read_dead_letters(plan, catalog, selection, columns)
    if dead_letters is None:
        return pa.table({name: pa.nulls(0) for name in (*columns, "replayed")})
    marks = read_marks(plan, catalog, selection)
    replayed = pa.array([False] * len(dead_letters)) if marks is None else is_marked(dead_letters, marks)
    return dead_letters.append_column("replayed", replayed)
