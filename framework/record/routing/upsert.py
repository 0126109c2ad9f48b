"""Where records that delete go: to the second target of their table, under a name of its own; and where the changes of
a table with a history go as well.

In: the tables that rules gave records, their fields, and which of them have no value. Out: the same with deletes distinguished
apart and with histories, for many records and for one. A record without a value goes only where that deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from framework.config.spec import RouteCondition
from framework.plan.model import Route
from framework.record.arrays import Ints, Mask, Numbers
from framework.record.routing.conditions import FieldColumns, matches, value_at
from framework.record.routing.refusal import not_now
from framework.record.strict_json import JsonValue
from framework.record.upsert.tables import UpsertTables, deletes_of, table_of


@dataclass(frozen=True)
class RoutedRows:
    """Pairs of (row, table): `rows[i]` goes to `names[labels[i]]`. `unrouted` rows match no rule; `refused` rows are
    named a table they may not have, and are judged one by one; `elsewhere` counts rows for tables that are not asked
    for. With `all_in_order` the pairs are every row once, in order."""

    rows: Ints
    labels: Numbers
    names: list[str]
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
    routed: RoutedRows, columns: FieldColumns, keyed: UpsertTables, tombstones: Mask, route: Route
) -> RoutedRows:
    """The pairs with those of deletes under names of their own, and with those of histories."""
    found = _with_histories(_with_deletes(routed, columns, keyed, tombstones), keyed)
    if not route.only_tables:
        return found
    wanted = np.array([table_of(name) in route.only_tables for name in found.names], dtype=bool)
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
    histories = [keyed.history_name(name) for name in routed.names]
    if not any(histories):
        return routed
    unwritable = np.array([name is not None and table_of(name) in keyed.refused for name in histories], dtype=bool)
    rows, labels, refused = routed.rows, routed.labels.astype(np.int64), routed.refused
    if unwritable.any():
        bad = np.unique(rows[unwritable[labels]])
        refused, kept = np.union1d(refused, bad), ~np.isin(rows, bad)
        rows, labels = rows[kept], labels[kept]
    names, number = list(routed.names), np.full(len(routed.names), -1)
    for label, history in enumerate(histories):
        if history is not None and not unwritable[label]:
            number[label] = len(names)
            names.append(history)
    also = number[labels] >= 0
    return replace(
        routed,
        rows=np.concatenate([rows, rows[also]]),
        labels=np.concatenate([labels, number[labels[also]]]).astype(np.min_scalar_type(-len(names) - 1)),
        names=names,
        refused=refused,
        all_in_order=False,
    )


def _with_deletes(routed: RoutedRows, columns: FieldColumns, keyed: UpsertTables, tombstones: Mask) -> RoutedRows:
    gone = tombstones[routed.rows]
    deletes: Mask = np.zeros(len(routed.rows), dtype=bool)
    # 1 and True are equal, and are different conditions.
    by_field: dict[tuple[RouteCondition, type], Mask] = {}
    by_tombstone = np.zeros(len(routed.names), dtype=bool)
    for label, name in enumerate(routed.names):
        condition = keyed.condition(name)
        by_tombstone[label] = keyed.deletes_by_tombstone(name)
        if condition is not None:
            by_field.setdefault((condition, type(condition.equals)), np.zeros(len(routed.names), dtype=bool))[label] = (
                True
            )
    for (condition, _), labels in by_field.items():
        deletes |= labels[routed.labels] & columns.meets(condition)[routed.rows]
    deletes = np.where(gone, by_tombstone[routed.labels], deletes)
    kept = deletes | ~gone
    if not deletes.any() and kept.all():
        return routed
    rows, labels, deletes = routed.rows[kept], routed.labels[kept].astype(np.int64), deletes[kept]
    names, number = list(routed.names), np.arange(len(routed.names))
    for label in np.unique(labels[deletes]).tolist():
        number[label] = len(names)
        names.append(deletes_of(names[label]))
    labels = np.where(deletes, number[labels], labels)
    nowhere = len(np.setdiff1d(routed.rows, rows))
    return replace(
        routed,
        rows=rows,
        labels=labels.astype(np.min_scalar_type(-len(names) - 1)),
        names=names,
        elsewhere=routed.elsewhere + nowhere,
        all_in_order=routed.all_in_order and bool(kept.all()),
    )


def record_with_deletes(
    names: list[str], record: dict[str, JsonValue], keyed: UpsertTables | None, is_tombstone: bool, insensitive: bool
) -> list[str]:
    """The names under which one record goes to its tables and to their histories; a record without a value goes only
    where it deletes. Raises RecordFailure."""
    if keyed is None:
        return names
    found = []
    for name in names:
        condition = keyed.condition(name)
        if is_tombstone:
            deletes = keyed.deletes_by_tombstone(name)
        else:
            deletes = condition is not None and matches(condition, value_at(record, condition.field or "", insensitive))
        if deletes or not is_tombstone:
            found.append(deletes_of(name) if deletes else name)
    histories = [history for name in found if (history := keyed.history_name(name)) is not None]
    for history in map(table_of, histories):
        if history in keyed.refused:
            raise not_now(history, keyed.refused[history])
    return found + histories
