"""What an upsert table holds after the records of a case: of each key the row of its newest change.

In: the changes of one table, block by block, with where each stood in the source. Out: the rows that are left, none of
a key whose newest change is a delete. Which change is the newest is decided by the code that decides it for a batch of
a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framework.adapters.key_hash import hash_keys
from framework.record.arrays import Ints
from framework.record.model import UpsertRows
from framework.record.upsert.tables import key_columns, order_column
from framework.table.model import TableTarget
from framework.task.upsert.newest import Positions, newest_by_hash, number_of_topic


@dataclass(frozen=True)
class SourceChanges:
    """The changes of a table that one partition has."""

    topic: str
    partition: int
    changes: UpsertRows


def newest_rows(target: TableTarget, parts: Sequence[SourceChanges]) -> pa.Table:
    """The table's rows after these changes, in its file schema: by partition as they were given, then by offset.

    Args:
        parts: at least one.
    """
    upserts = pa.concat_tables([part.changes.upserts for part in parts])
    deletes = pa.concat_tables([part.changes.deletes for part in parts])
    names = key_columns(upserts.column_names, target.policy)
    keys = pa.concat_tables([upserts.select(names), deletes.select(names)])
    hashes = hash_keys(keys.columns)
    column = order_column(upserts.column_names, target.policy)
    values = None
    if column is not None:
        chunks = [*upserts.column(column).chunks, *deletes.column(column).chunks]
        values = pa.chunked_array(chunks, upserts.column(column).type)
    winners = newest_by_hash(hashes.high, hashes.low, _positions(parts), np.argsort(hashes.high), values)
    return upserts.take(pa.array(winners[winners < len(upserts)]))


def _positions(parts: Sequence[SourceChanges]) -> Positions:
    """Where the upserts stood, and after them the deletes."""
    topics = sorted({part.topic for part in parts})
    offsets = [part.changes.upsert_offsets for part in parts] + [part.changes.delete_offsets for part in parts]
    return Positions(
        _repeated([number_of_topic(part.topic, topics) for part in parts] * 2, offsets),
        _repeated([part.partition for part in parts] * 2, offsets),
        np.concatenate(offsets),
    )


def _repeated(numbers: Sequence[int], offsets: Sequence[Ints]) -> Ints:
    return np.repeat(np.array(numbers, np.int64), [len(each) for each in offsets])
