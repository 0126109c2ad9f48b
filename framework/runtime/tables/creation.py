"""New tables of a pipeline: whether one may be made, and the making; how many were made lately is remembered across
restarts.

In: a table that records ask for and that is not there. Out: why it must not be made, or the table in its catalog, with
a note of who made it and when. Keeps the bound of `routes.max_new_tables_per_hour`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.progress.recorded import CREATED_PROPERTY, FILLED_FROM_PROPERTY
from framework.diagnose.log_lines import LogLine
from framework.errors import FloeError
from framework.plan.model import Plan
from framework.record.dead_letters.dead_letter import plan_dead_letter_table
from framework.record.failure import shown
from framework.record.model import TableNeed, TableTarget
from framework.runtime.tables.owner import created_with
from framework.table.changes import CreateTable, Refusal
from framework.table.create import plan_create

HOUR_S = 3600.0


class TableCreation:
    """Of one pipeline. `refusal` is asked for one table after the other; `make` may run for several at once."""

    def __init__(self, plan: Plan, catalog: IcebergTables, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._catalog = catalog
        self._say = say
        self._created_at: list[float] = []

    def remember(self, targets: Iterable[TableTarget]) -> None:
        """When tables were made by this pipeline within the last hour, as they say themselves: so that the bound holds
        across restarts, too."""
        now_ms, now = time.time() * 1000, time.monotonic()
        self._created_at = []
        for target in targets:
            pipeline, _, at_ms = target.properties.get(CREATED_PROPERTY, "").rpartition(" ")
            if pipeline == self._plan.pipeline and at_ms.isdecimal() and now_ms - int(at_ms) < HOUR_S * 1000:
                self._created_at.append(now - max(0.0, (now_ms - int(at_ms)) / 1000))

    def refusal(self, need: TableNeed) -> str:
        """Why a table must not be made; empty when it may, and then it counts as made."""
        try:
            refusal = self._refusal(need)
        except (FloeError, MemoryError, OSError):
            raise
        except Exception as error:
            refusal = nobody_foresaw(error)
        if not refusal:
            self._created_at.append(time.monotonic())
        return refusal

    def make(self, need: TableNeed, control_topic_id: str = "") -> None:
        """Make a table for which there was no refusal. `control_topic_id`: where its files are announced, if it is known.

        Raises:
            FloeError: the catalog does not answer, or refuses.
        """
        change = plan_creation(self._plan, need)
        assert not isinstance(change, Refusal)  # `refusal` has asked
        made = (CREATED_PROPERTY, f"{self._plan.pipeline} {int(time.time() * 1000)}")
        reported = ((FILLED_FROM_PROPERTY + control_topic_id, self._plan.pipeline),) if control_topic_id else ()
        reported = (*reported, made, created_with(self._plan, need.table))
        self._catalog.create_table(replace(change, properties=(*change.properties, *reported)))
        failpoint("table-created")
        self._say(LogLine(f"created {need.table}", table=need.table))

    def _refusal(self, need: TableNeed) -> str:
        plan = self._plan
        if need.table != plan.write.dead_letter_table and self._too_many():
            limit = plan.route.max_new_tables_per_hour
            return f"routes.max_new_tables_per_hour is {limit}, and that many were created within the last hour"
        change = plan_creation(plan, need)
        if not isinstance(change, Refusal):
            return ""
        return f"{'.'.join(change.path)}: {change.reason}" if change.path else change.reason

    def _too_many(self) -> bool:
        recent = [at for at in self._created_at if at > time.monotonic() - HOUR_S]
        return len(recent) >= self._plan.route.max_new_tables_per_hour


def plan_creation(plan: Plan, need: TableNeed) -> CreateTable | Refusal:
    """The table that a pipeline makes for a need, or why it must not; `floe plan` asks the same before any record
    came."""
    if need.table == plan.write.dead_letter_table:
        return plan_dead_letter_table(need.table)
    policy = plan.write.tables.policy_for(need.table)
    return plan_create(need, policy, plan.hints_of(need.table), plan.metadata_columns_of(need.table))


def nobody_foresaw(error: Exception) -> str:
    """An error of which nobody knows why it came, as the reason that a table is not made or changed."""
    return f"unexpected error with what its records need ({type(error).__name__}: {shown(str(error), 200)})"
