"""How much of its error budget a pipeline has spent.

In: batches with their times, and up to when all records were visible. Out: a `Budget` for each objective: what counts and what of
it is bad over windows, the burn rates, and what is left of 30 days. Memory is bounded: 30 days of five minutes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass

from framework.commit.events.event_types import Accounting
from framework.commit.objectives.fresh_time import FreshTime
from framework.config.values.objectives import Objective, Objectives

SLOT_MS = 300_000
WINDOWS_MS = {"1h": 3_600_000, "6h": 6 * 3_600_000, "3d": 3 * 86_400_000, "30d": 30 * 86_400_000}
BUDGET_WINDOW = "30d"
_SLOTS = WINDOWS_MS[BUDGET_WINDOW] // SLOT_MS + 1


@dataclass(frozen=True)
class BurnWindow:
    """`counted` and `bad` are records, of freshness milliseconds. `burn_rate` 1 spends exactly the budget; None where nothing
    counted."""

    window: str
    counted: int
    bad: int
    burn_rate: float | None


@dataclass(frozen=True)
class Budget:
    """Of one objective. `since_ms`: what was before is not in the part of the log that was read, or had other objectives; None:
    nothing is measured yet. `left_ratio`: of the budget, below zero where more is spent than there is."""

    objective: Objective
    wanted: str
    allowed_ratio: float
    since_ms: int | None
    windows: tuple[BurnWindow, ...]

    @property
    def left_ratio(self) -> float | None:
        spent = self.windows[-1].burn_rate
        return 1 - spent if spent is not None else None

    @property
    def is_broken(self) -> bool:
        """Whether the objective was missed over the last hour."""
        now = self.windows[0].burn_rate
        return now is not None and now > 1

    @property
    def text(self) -> str:
        """In a line."""
        said, left = f"{self.objective.value} {self.wanted}", self.left_ratio
        if left is None:
            return f"{said}: nothing is measured yet"
        known = [f"{each.burn_rate:.1f} over {each.window}" for each in self.windows[:-1] if each.burn_rate is not None]
        burning = f", burn rate {', '.join(known)}" if known else ""
        return f"{said}: {left:.0%} of the error budget left{burning}"

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "objective": self.objective.value, "left_ratio": self.left_ratio}


def counted_and_bad(objective: Objective, records: Accounting) -> tuple[int, int]:
    """Of records, those that an objective counts, and those of them that are bad. What a file filters or drops by its own
    rules was never promised; `complete` counts what retention took before it was read, of which nobody knows what it was."""
    if objective is Objective.COMPLETE:
        bad = records.dead_lettered + records.lost
        return records.written + bad, bad
    return records.offsets - records.holes - records.lost, records.dead_lettered


class ObjectiveHistory:
    """Of one pipeline under the same objectives."""

    def __init__(self, objectives: Objectives) -> None:
        self.objectives = objectives
        self._slots: deque[tuple[int, Accounting]] = deque(maxlen=_SLOTS)
        self._since_ms: int | None = None
        self._fresh = FreshTime(objectives.freshness_ms) if objectives.freshness_ms is not None else None

    def add(self, at_ms: int, records: Accounting) -> None:
        """One batch more."""
        slot = at_ms // SLOT_MS * SLOT_MS
        self._since_ms = at_ms if self._since_ms is None else self._since_ms
        if not self._slots or self._slots[-1][0] < slot:
            self._slots.append((slot, Accounting()))
        last, before = self._slots[-1]  # clocks of several machines: what seems older counts with the newest
        self._slots[-1] = last, before + records

    def reach(self, at_ms: int, through_ms: int) -> None:
        if self._fresh is not None:
            self._fresh.reach(at_ms, through_ms)

    def budgets(self, now_ms: int) -> tuple[Budget, ...]:
        """Windows begin at a full five minutes."""
        begins = {name: (now_ms - length) // SLOT_MS * SLOT_MS for name, length in WINDOWS_MS.items()}
        sums = {name: self._records_since(begin) for name, begin in begins.items()}
        found = []
        for objective, allowed in self.objectives.allowed.items():
            is_of_time = objective is Objective.FRESHNESS
            since_ms = self._since_ms if not is_of_time else self._fresh.since_ms if self._fresh else None
            windows = []
            for name, begin in begins.items():
                if is_of_time and self._fresh is not None:
                    counted, bad = self._fresh.counted_ms(begin, now_ms), self._fresh.stale_ms(begin, now_ms)
                else:
                    counted, bad = counted_and_bad(objective, sums[name])
                windows.append(BurnWindow(name, counted, bad, float(bad / counted / allowed) if counted else None))
            found.append(Budget(objective, self.objectives.wanted[objective], float(allowed), since_ms, tuple(windows)))
        return tuple(found)

    def _records_since(self, begin_ms: int) -> Accounting:
        total = Accounting()
        for slot, records in reversed(self._slots):
            if slot < begin_ms:
                break
            total += records
        return total
