"""Whether a table that cannot be loaded or changed is in trouble by itself, or its catalog or store is.

In: what failed in one round, and what was found out beside it. Out: a verdict for each table. Keeps invariant 10: one
bad table is one table whose records wait or are dead letters, and an outage, which good records wait out, is never
taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from framework.table.model import TableTarget

# A single answer may be wrong: good records are given up only for a table that has failed for so long.
OWN_AFTER_S = 20.0


class FailureVerdict(Enum):
    """`WAIT`: it looks like the table's own trouble, and may still pass; until that is certain nothing is given up."""

    OUTAGE = "outage"
    WAIT = "wait"
    AS_KNOWN = "as known"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Failed:
    """One table that could not be loaded or changed.

    Attributes:
        lasting: what was found will not pass by itself: the table is of a kind that cannot be written.
        writable: this run knows the table and asks for no change of it, so that files can be written as it was; their
            commit is conditional on it and waits (invariant 4).
        failing_s: since when it has failed each time.
    """

    table: str
    lasting: bool
    writable: bool
    failing_s: float


def needs_probes(failed: Iterable[Failed]) -> bool:
    """Whether the verdict hangs on what the catalog and the store answer otherwise."""
    return any(not each.lasting for each in failed)


def judge(failed: Iterable[Failed], catalog_answers: bool, others_load: bool) -> dict[str, FailureVerdict]:
    """The verdict for each of the tables of one catalog.

    Args:
        catalog_answers: a probe of the catalog was answered.
        others_load: some other table of it was loaded in this round, so that its store can be read.
    """
    return {each.table: _judge_one(each, catalog_answers and others_load) for each in failed}


def _judge_one(failed: Failed, sound: bool) -> FailureVerdict:
    if not failed.lasting and not sound:
        return FailureVerdict.OUTAGE
    if failed.writable:
        return FailureVerdict.AS_KNOWN
    return FailureVerdict.REFUSED if failed.lasting or failed.failing_s >= OWN_AFTER_S else FailureVerdict.WAIT


def frozen(target: TableTarget, reason: str) -> TableTarget:
    """The table for as long as changes of it are refused: records that ask for one are errors, with the reason, and all
    others are written (`framework.table.policy.rules`)."""
    return replace(target, frozen=reason)
