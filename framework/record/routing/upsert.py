"""Where records that delete go: to the second target of their table; and where the changes of a table with a history go
as well.

In: the tables that rules gave records, their fields, and which of them have no value. Out: the same with deletes distinguished
apart and with histories, for many records and for one. A record without a value goes only where that deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from framework.config.spec import RouteCondition, UnavailableValues, Updates
from framework.plan.model import Route
from framework.record.arrays import Ints, Mask, Numbers
from framework.record.destination import Destination, RecordOperation, deletes_of, partial_rows_of
from framework.record.routing.conditions import FieldColumns, is_of_another_kind, matches, value_at
from framework.record.routing.refusal import never_equal, not_now
from framework.record.strict_json import JsonValue
from framework.record.upsert.lacking import Lacking, LackingRows, is_partial, unavailable
from framework.record.upsert.tables import UpsertTables


@dataclass(frozen=True)
class RoutedRows:
    """Pairs of (row, table): `rows[i]` goes to `destinations[labels[i]]`. `unrouted` rows match no rule; `refused` rows are
    named a table they may not have, and are judged one by one; `elsewhere` counts rows for tables that are not asked
    for. With `all_in_order` the pairs are every row once, in order."""

    rows: Ints
    labels: Numbers
    destinations: list[Destination]
    unrouted: Ints
    refused: Ints
    elsewhere: int = 0
    all_in_order: bool = False


def widened(route: Route, keyed: UpsertTables | None) -> Route:
    """The route with the tables whose histories alone are asked for: their rules lead to these."""
    if keyed is None or not route.only_tables:
        return route
    current = [table for table, history in keyed.histories.items() if history in route.only_tables]
    return replace(route, only_tables=(*route.only_tables, *current))


def upsert_columns(
    routed: RoutedRows,
    columns: FieldColumns,
    keyed: UpsertTables,
    tombstones: Mask,
    route: Route,
    lacking: LackingRows | None = None,
) -> RoutedRows:
    """The pairs with deletes and partial rows apart from rows, and with those of histories."""
    found = _with_deletes(routed, columns, keyed, tombstones)
    found = _with_histories(found if lacking is None else _with_partial_rows(found, keyed, lacking), keyed)
    if not route.only_tables:
        return found
    wanted = np.array([to.table in route.only_tables for to in found.destinations], dtype=bool)
    if wanted.all():
        return found
    kept = wanted[found.labels]
    gone = len(np.setdiff1d(found.rows, found.rows[kept]))
    return replace(
        found,
        rows=found.rows[kept],
        labels=found.labels[kept],
        elsewhere=found.elsewhere + gone,
        all_in_order=False,
    )


def _with_histories(routed: RoutedRows, keyed: UpsertTables) -> RoutedRows:
    """Each pair of a table with a history a second time, for the history; a row whose history cannot be written now goes
    nowhere, and is refused by itself."""
    histories = [keyed.history_of(to) for to in routed.destinations]
    if not any(histories):
        return routed
    unwritable = np.array([to is not None and to.table in keyed.refused for to in histories], dtype=bool)
    rows, labels, refused = routed.rows, routed.labels.astype(np.int64), routed.refused
    if unwritable.any():
        bad = np.unique(rows[unwritable[labels]])
        refused, kept = np.union1d(refused, bad), ~np.isin(rows, bad)
        rows, labels = rows[kept], labels[kept]
    found, number = list(routed.destinations), np.full(len(routed.destinations), -1)
    for label, history in enumerate(histories):
        if history is not None and not unwritable[label]:
            number[label] = len(found)
            found.append(history)
    also = number[labels] >= 0
    return replace(
        routed,
        rows=np.concatenate([rows, rows[also]]),
        labels=np.concatenate([labels, number[labels[also]]]).astype(np.min_scalar_type(-len(found) - 1)),
        destinations=found,
        refused=refused,
        all_in_order=False,
    )


def _with_deletes(routed: RoutedRows, columns: FieldColumns, keyed: UpsertTables, tombstones: Mask) -> RoutedRows:
    gone = tombstones[routed.rows]
    deletes: Mask = np.zeros(len(routed.rows), dtype=bool)
    # 1 and True are equal, and are different conditions.
    by_field: dict[tuple[RouteCondition, type], Mask] = {}
    by_tombstone = np.zeros(len(routed.destinations), dtype=bool)
    for label, to in enumerate(routed.destinations):
        condition = keyed.condition(to.table)
        by_tombstone[label] = keyed.deletes_by_tombstone(to.table)
        if condition is not None:
            none = np.zeros(len(routed.destinations), dtype=bool)
            by_field.setdefault((condition, type(condition.equals)), none)[label] = True
    unclear: Mask = np.zeros(len(columns), dtype=bool)
    for (condition, _), labels in by_field.items():
        mine = labels[routed.labels]
        deletes |= mine & columns.meets(condition)[routed.rows]
        unclear[routed.rows[mine & columns.meets(condition, is_of_another_kind)[routed.rows] & ~gone]] = True
    if unclear.any():
        kept = ~unclear[routed.rows]
        routed = replace(
            routed,
            rows=routed.rows[kept],
            labels=routed.labels[kept],
            refused=np.union1d(routed.refused, np.flatnonzero(unclear)),
            all_in_order=False,
        )
        gone, deletes = gone[kept], deletes[kept]
    deletes = np.where(gone, by_tombstone[routed.labels], deletes)
    kept = deletes | ~gone
    if not deletes.any() and kept.all():
        return routed
    rows, labels, deletes = routed.rows[kept], routed.labels[kept].astype(np.int64), deletes[kept]
    found, number = list(routed.destinations), np.arange(len(routed.destinations))
    for label in np.unique(labels[deletes]).tolist():
        number[label] = len(found)
        found.append(deletes_of(found[label].table))
    labels = np.where(deletes, number[labels], labels)
    nowhere = len(np.setdiff1d(routed.rows, rows))
    return replace(
        routed,
        rows=rows,
        labels=labels.astype(np.min_scalar_type(-len(found) - 1)),
        destinations=found,
        elsewhere=routed.elsewhere + nowhere,
        all_in_order=routed.all_in_order and bool(kept.all()),
    )


def _with_partial_rows(routed: RoutedRows, keyed: UpsertTables, lacking: LackingRows) -> RoutedRows:
    """The pairs whose rows keep values of the old row apart from the others; a row with a placeholder goes nowhere where that
    is an error, and is refused by itself."""
    rows, labels, refused = routed.rows, routed.labels.astype(np.int64), routed.refused
    found = list(routed.destinations)
    kept: Mask = np.ones(len(rows), dtype=bool)
    for label, to in enumerate(routed.destinations):
        write = keyed.write(to.table)
        if to.operation is not RecordOperation.WRITE or not write.is_upsert:
            continue
        mine = labels == label
        without = mine & lacking.unavailable[rows]
        if write.unavailable is UnavailableValues.DEAD_LETTER and without.any():
            refused = np.union1d(refused, rows[without])
            kept &= ~np.isin(rows, rows[without])
        partial = without if write.unavailable is UnavailableValues.KEEP else np.zeros(len(rows), dtype=bool)
        if write.updates is Updates.PARTIAL:
            partial = partial | (mine & lacking.partial[rows])
        if partial.any():
            labels[partial] = len(found)
            found.append(partial_rows_of(to.table))
    if len(found) == len(routed.destinations) and kept.all():
        return routed
    return replace(
        routed,
        rows=rows[kept],
        labels=labels[kept].astype(np.min_scalar_type(-len(found) - 1)),
        destinations=found,
        refused=refused,
        all_in_order=routed.all_in_order and bool(kept.all()),
    )


def record_with_deletes(
    destinations: list[Destination],
    record: dict[str, JsonValue],
    keyed: UpsertTables | None,
    is_tombstone: bool,
    insensitive: bool,
    lacking: Lacking | None = None,
) -> list[Destination]:
    """Where one record goes in its tables and in their histories; a record without a value goes only where it deletes.
    Raises RecordFailure."""
    if keyed is None:
        return destinations
    found = []
    for to in destinations:
        condition = keyed.condition(to.table)
        if is_tombstone:
            deletes = keyed.deletes_by_tombstone(to.table)
        else:
            value = None if condition is None else value_at(record, condition.field or "", insensitive)
            if condition is not None and is_of_another_kind(condition, value):
                raise never_equal(condition, value)
            deletes = condition is not None and matches(condition, value)
        if deletes or not is_tombstone:
            found.append(deletes_of(to.table) if deletes else _row_or_partial(to, keyed, lacking))
    histories = [history for to in found if (history := keyed.history_of(to)) is not None]
    for history in histories:
        if history.table in keyed.refused:
            raise not_now(history.table, keyed.refused[history.table])
    return found + histories


def _row_or_partial(to: Destination, keyed: UpsertTables, lacking: Lacking | None) -> Destination:
    write = keyed.write(to.table)
    if lacking is None or not write.is_upsert:
        return to
    if lacking.unavailable and write.unavailable is UnavailableValues.DEAD_LETTER:
        raise unavailable(lacking, to.table)
    return partial_rows_of(to.table) if is_partial(lacking, write) else to
