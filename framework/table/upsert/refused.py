"""What an upsert table refuses: whatever would bring an older change of a key after a newer one.

In: what was to be done, and with which table. Out: the error to raise, FLOE-R145 for all of them. That a table is an
upsert table each caller knows by what it has at hand: the policy, the history of snapshots, or changes by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from framework.errors import FloeError, TableBlocked

_ANEW = "make the table anew: drop it, and let a new pipeline read its topics from their start"


class RefusedAct(Enum):
    REPLAY = auto()
    ROLLBACK = auto()
    WRITE_ALONE = auto()


# The error's class, its message and its remedy.
_REFUSALS: Mapping[RefusedAct, tuple[type[FloeError], str, str]] = {
    RefusedAct.REPLAY: (
        TableBlocked,
        "table {table} is an upsert table: an older change that comes late would take the place of a newer one",
        _ANEW,
    ),
    RefusedAct.ROLLBACK: (
        TableBlocked,
        "table {table} is an upsert table: what came after an older snapshot cannot be put back into it in its order",
        f"read the older snapshot by its id, or {_ANEW}",
    ),
    # No trouble of one table: whoever writes changes alone has not all of their keys.
    RefusedAct.WRITE_ALONE: (
        FloeError,
        "{changes:,} changes are for {table}, which is an upsert table: only a batch of a run can write them",
        "send the records to their topic again, as the newest of their keys",
    ),
}


def refused_by_upsert_table(act: RefusedAct, table: str, changes: int = 0) -> FloeError:
    error, message, remedy = _REFUSALS[act]
    return error(message.format(table=table, changes=changes), code="FLOE-R145", place=table, remedy=remedy)
