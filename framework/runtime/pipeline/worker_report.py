"""What one run of a pipeline did so far, for the summary at its end and for whoever looks meanwhile.

In: the results of its batches. Out: counts and the present state. Keeps nothing that a restart needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.commit.events.event_types import Accounting
from framework.runtime.batches.batch import BatchResult


@dataclass
class WorkerReport:
    """`accounting` and `rows` are of this run alone, `totals` of the pipeline's whole life."""

    pipeline: str
    batches: int = 0
    accounting: Accounting = field(default_factory=Accounting)
    totals: Accounting = field(default_factory=Accounting)
    rows: dict[str, int] = field(default_factory=dict)
    control_offset: int = 0
    state: str = "starting"
    reason: str = ""
    troubles: dict[str, str] = field(default_factory=dict)
    """Tables that were in trouble by themselves while the others went on, with the newest reason of each."""

    def add(self, result: BatchResult, control_offset: int) -> None:
        """One more batch, which ends just before `control_offset` in the log."""
        self.batches += 1
        self.totals = result.totals
        self.accounting = self.accounting + result.accounting
        self.control_offset = control_offset
        for table, rows in result.rows.items():
            self.rows[table] = self.rows.get(table, 0) + rows
