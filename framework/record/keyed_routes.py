"""Where records that delete go: to the second target of their table, under a name of its own.

In: the tables that rules gave records, their fields, and which of them have no value. Out: the same with deletes told
apart, for many records and for one. A record without a value goes only where that deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from framework.config.spec import Condition
from framework.record.arrays import Ints, Mask, Numbers
from framework.record.conditions import FieldColumns, matches, value_at
from framework.record.json.strict_parser import JsonValue
from framework.record.keyed_tables import KeyedTables, deletes_of


@dataclass(frozen=True)
class Routed:
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


def columns_with_deletes(routed: Routed, columns: FieldColumns, keyed: KeyedTables, tombstones: Mask) -> Routed:
    """The pairs with those of deletes under names of their own."""
    gone = tombstones[routed.rows]
    deletes: Mask = np.zeros(len(routed.rows), dtype=bool)
    # 1 and True are equal, and are different conditions.
    by_field: dict[tuple[Condition, type], Mask] = {}
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
    names: list[str], record: dict[str, JsonValue], keyed: KeyedTables | None, is_tombstone: bool, insensitive: bool
) -> list[str]:
    """The names under which one record goes to its tables; a record without a value goes only where it deletes."""
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
    return found
