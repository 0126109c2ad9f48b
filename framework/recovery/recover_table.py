"""One conditional commit of a recovery: decided from the table as it is, again while others change it.

In: a catalog, a table, and the pure function that decides. Out: an empty snapshot that carries the new properties, or
an error that says whether anything was changed. Keeps invariants 4 and 7: the conditions are those of any commit, and
an outcome that is not known is read back by the same command, which finds the table as it was left.
"""

from __future__ import annotations

from collections.abc import Callable

from framework.adapters.host.failpoints import failpoint
from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    Committed,
    ExaminedTable,
    RecordedTable,
    RecoverTable,
    TableProgress,
)
from framework.commit.machine.progress.examine import behind, rollback_commands
from framework.config.names.table_names import DEFAULT_CATALOG, identifier_of
from framework.errors import FloeError, TableBlocked

CONFLICTS = 10
BRANCH = "main"


def no_such_table(catalog: IcebergTables, table: str) -> TableBlocked:
    """The error for a name that means no table."""
    others = catalog.catalogs != (DEFAULT_CATALOG,)
    beside = f"; in another catalog than `default` it is CATALOG:{identifier_of(table)}" if others else ""
    return TableBlocked(f"table {table} does not exist", place=table, remedy=f"correct the name of the table{beside}")


def recorded_here(found: RecordedTable, then: str) -> TableProgress:
    """What the table records of this control topic. `then`: what a person does once it records something.

    Raises:
        TableBlocked: it records nothing of it, and no commit can carry its list.
    """
    if found.view.progress is None:
        raise TableBlocked(
            f"table {found.view.table} records nothing of this control topic",
            place=found.view.table,
            remedy=f"`floe rebase FILE` lets the pipeline go on from what its tables hold; then {then}",
        )
    return found.view.progress


def recover_table(
    found: RecordedTable,
    progress: TableProgress,
    run: str,
    properties: dict[str, str],
    notes: dict[str, str],
    onto: int | None = None,
    binds: bool = True,
) -> RecoverTable:
    """The commit that a verb asks for.

    Raises:
        TableBlocked: somebody else moved the table back, and this commit would hide it.
    """
    view = found.view
    if onto is None:
        check_not_rolled_back(view)
    return RecoverTable(
        table=view.table,
        view=view,
        commit_id=f"{run}.{view.table}",
        files=(),
        progress=progress,
        valid_through_ms=None,
        properties=properties,
        onto=onto,
        notes=notes,
        binds=binds,
    )


def check_not_rolled_back(view: ExaminedTable) -> None:
    """Invariant 10: a snapshot with the table's progress on top of an older one would say that the table holds what it
    lacks.

    Raises:
        TableBlocked: FLOE-R361, the branch is older than what the table records.
    """
    if not view.is_behind:
        return
    raise TableBlocked(
        f"table {view.table} was rolled back: {behind(view)}",
        code="FLOE-R361",
        place=view.table,
        remedy=f"{rollback_commands(view.table, view.snapshot_id)}; then run this command again",
    )


Recovered = Callable[[str, RecoverTable, Committed], None]
"""Called for each table that a verb has changed: the verb, what was committed, and what came of it."""


def untold(verb: str, effect: RecoverTable, outcome: Committed) -> None:
    """Nobody wants to know."""


def commit_recovery(
    catalog: IcebergTables,
    table: str,
    control_topic_id: str,
    decide: Callable[[RecordedTable], RecoverTable | None],
    reported: Callable[[RecoverTable, Committed], None] | None = None,
) -> Committed | None:
    """One conditional commit, decided anew from the table as it is while others change it; None: nothing to do. `reported`
    gets what was committed.

    Raises:
        TableBlocked: the table is gone, or changes all the time. FloeError: the catalog refuses, or does not answer.
    """
    for _ in range(CONFLICTS):
        found = catalog.load_recorded(table, BRANCH, control_topic_id)
        if found is None:
            raise TableBlocked(
                f"table {table} no longer exists",
                place=table,
                remedy="run the command again",
            )
        effect = decide(found)
        if effect is None:
            return None
        outcome = catalog.commit(effect)
        if isinstance(outcome, Committed):
            if reported is not None:
                reported(effect, outcome)
            failpoint("table-recovered")
            return outcome
        if not isinstance(outcome, CommitConflict):
            reason = outcome.reason if isinstance(outcome, CommitFailed) else "files of it are gone"
            raise FloeError(
                f"table {table}: {reason}",
                code="FLOE-R354",
                place=table,
                remedy="run the command again: it continues from there",
            )
    raise TableBlocked(
        f"table {table} changed {CONFLICTS} times in a row while this command tried to change it",
        place=table,
        remedy="wait until others have finished changing it, then run the command again",
    )
