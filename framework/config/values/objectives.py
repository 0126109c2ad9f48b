"""What a pipeline promises its readers: how fresh, how complete, and how few dead letters.

In: the value of `objectives:`, from a file or from what a run published. Out: `Objectives`, and of each the share that may be
bad. Invariant: what an objective allows is decided here alone; status, metrics, alerts and readiness ask here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

# An objective of time says no share: a pipeline may be older than it says for seven hours in 30 days.
STALE_SHARE = Fraction(1, 100)
# With more, the alert of 14.4 times the budget could hardly ever fire: 6.9 % is the whole of it.
MOST_BAD = Fraction(1, 20)
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%\Z")


class Objective(str, Enum):
    """What is promised, by its key in `objectives:`."""

    FRESHNESS = "freshness"
    COMPLETE = "complete"
    DEAD_LETTERS = "dead_letters"


@dataclass(frozen=True)
class Objectives:
    """What the file says; None where it says nothing. The shares are as they are written, such as `99.9%`."""

    freshness_ms: int | None = None
    complete: str | None = None
    dead_letters: str | None = None

    @property
    def allowed(self) -> dict[Objective, Fraction]:
        """By objective that the file names: the share that may be bad."""
        found = {
            Objective.FRESHNESS: STALE_SHARE if self.freshness_ms is not None else None,
            Objective.COMPLETE: 1 - share if (share := share_of(self.complete)) is not None else None,
            Objective.DEAD_LETTERS: share_of(self.dead_letters),
        }
        return {objective: share for objective, share in found.items() if share is not None}

    @property
    def wanted(self) -> dict[Objective, str]:
        """By objective what the file says, as it says it."""
        age = self.freshness_ms
        found = {
            Objective.FRESHNESS: _duration(age) if age is not None else None,
            Objective.COMPLETE: self.complete,
            Objective.DEAD_LETTERS: self.dead_letters,
        }
        return {objective: text for objective, text in found.items() if text is not None}


NO_OBJECTIVES = Objectives()


def share_of(text: str | None) -> Fraction | None:
    """`99.9%` as a share, exactly; None where it is none."""
    match = _PERCENT.match(text) if text is not None else None
    return Fraction(match[1]) / 100 if match else None


def is_possible(allowed: Fraction) -> bool:
    """Whether a budget of that share can be kept, and can be seen to end."""
    return 0 < allowed <= MOST_BAD


def objectives_in(value: object) -> Objectives:
    """The objectives in what a run published; what is of another form is left out."""
    if not isinstance(value, Mapping):
        return NO_OBJECTIVES
    fresh, complete, letters = (value.get(key) for key in ("freshness_ms", "complete", "dead_letters"))
    found = Objectives(
        fresh if isinstance(fresh, int) and fresh > 0 else None,
        complete if isinstance(complete, str) else None,
        letters if isinstance(letters, str) else None,
    )
    return found if all(map(is_possible, found.allowed.values())) else NO_OBJECTIVES


def _duration(milliseconds: int) -> str:
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))
    return next(f"{milliseconds // size}{unit}" for unit, size in units if milliseconds % size == 0)
