"""The rows and deletes of one table as changes of its keys, and the records that have no whole key, or no order.

In: rows that were converted, with their places in the block. Out: UpsertRows, and for rows without a value in a needed
column why they are refused. A key is looked at when it is converted, at one place for all ways that a record can take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from framework.config.spec import NameCase, TablePolicy
from framework.record.arrays import Ints, Mask
from framework.record.convert.nested import fold
from framework.record.failure import RecordFailure
from framework.record.model import PartialRows, UpsertRows
from framework.record.rows.dictionary_text import plain_table
from framework.record.upsert.tables import absent_columns, needed_columns

Placed = tuple[Ints, pa.Table]
NO_KEY, NO_ORDER = "FLOE-D311", "FLOE-D312"
_KEPT = "kept"  # found by its place: a table may have a column of this name


def no_value(column: str, table: str, policy: TablePolicy) -> RecordFailure:
    """The failure of a record that has no value for a key column, or for the one that says which record is newer."""
    insensitive = policy.case is NameCase.INSENSITIVE
    if fold(column, insensitive) in {fold(key, insensitive) for key in policy.write.key}:
        code, message = NO_KEY, f"{table} is written by its key, and the record has no value for this column of it"
    else:
        code, message = (
            NO_ORDER,
            f"it says which record of a key in {table} is newer, and the record has no value for it",
        )
    return RecordFailure(
        "convert", code, f"{column}: {message}", field_path=column, expected="a value", actual="nothing"
    )


def without_value(rows: pa.Table, policy: TablePolicy) -> Iterator[tuple[str, Mask]]:
    """The needed columns, in order, that some rows have no value for, and which rows these are; of one that is not
    there all."""
    for column in absent_columns(rows.column_names, policy):
        yield column, np.ones(len(rows), dtype=bool)
    for column in needed_columns(rows.column_names, policy):
        values = rows.column(column)
        if values.null_count:
            yield column, values.is_null().to_numpy()


def as_changes(
    upserts: Placed, deletes: Placed, offsets: Ints, partial: PartialRows | None = None, indexes: Ints | None = None
) -> UpsertRows:
    """Changes of one table, each in order; `offsets` are those of the block's records, `indexes` of their elements, if they
    have some."""
    return UpsertRows(
        plain_table(upserts[1]).combine_chunks(),
        offsets[upserts[0]],
        plain_table(deletes[1]).combine_chunks(),
        offsets[deletes[0]],
        partial,
        None if indexes is None else indexes[upserts[0]],
        None if indexes is None else indexes[deletes[0]],
    )


def joined_changes(parts: Sequence[UpsertRows]) -> UpsertRows:
    """The changes of parts of a block as one, by offset."""
    if len(parts) == 1:
        return parts[0]
    upserts, upsert_offsets, upsert_indexes = _in_order(
        [(part.upserts, part.upsert_offsets, part.upsert_indexes) for part in parts]
    )
    deletes, delete_offsets, delete_indexes = _in_order(
        [(part.deletes, part.delete_offsets, part.delete_indexes) for part in parts]
    )
    partial = [each.partial for each in parts if each.partial is not None]
    return UpsertRows(
        upserts,
        upsert_offsets,
        deletes,
        delete_offsets,
        _joined_partial(partial) if partial else None,
        upsert_indexes,
        delete_indexes,
    )


def _joined_partial(parts: Sequence[PartialRows]) -> PartialRows:
    rows = [(each.rows.append_column(_KEPT, each.kept), each.offsets, each.indexes) for each in parts]
    joined, offsets, indexes = _in_order(rows)
    last = joined.num_columns - 1
    return PartialRows(joined.remove_column(last), offsets, joined.column(last).combine_chunks(), indexes)


def _in_order(parts: Sequence[tuple[pa.Table, Ints, Ints | None]]) -> tuple[pa.Table, Ints, Ints | None]:
    """The rows of all parts by their offsets; those of one offset, which one part has, as they were."""
    rows = pa.concat_tables([own for own, _, _ in parts])
    offsets = np.concatenate([own for _, own, _ in parts])
    own_indexes = [own for _, _, own in parts if own is not None]
    indexes = np.concatenate(own_indexes) if own_indexes else None
    if (offsets[1:] < offsets[:-1]).any():
        order = np.argsort(offsets, kind="stable")
        offsets, rows = offsets[order], rows.take(pa.array(order))
        indexes = None if indexes is None else indexes[order]
    return rows.combine_chunks(), offsets, indexes
