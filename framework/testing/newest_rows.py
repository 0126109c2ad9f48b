"""What an upsert table holds after the records of a case: of each key the row of its newest change.

In: the changes of one table, block by block, with where each stood in the source. Out: the rows that are left, none of
a key whose newest change is a delete. Which change is the newest is decided by the code that decides it for a batch of
a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from framework.adapters.key_hash import hash_keys
from framework.record.arrays import Ints
from framework.record.model import UpsertRows
from framework.record.upsert.tables import key_columns, order_column
from framework.table.model import TableTarget
from framework.table.schema.arrow import parse_schema
from framework.task.upsert.changes import DELETE, PARTIAL, UPSERT
from framework.task.upsert.kept_values import OWN, Sources, chains_of, partial_changes, sources_of
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
    changes = [each for part in parts for each in _of_part(part)]
    by_kind = {kind: [each for each in changes if each.change == kind] for kind in (UPSERT, PARTIAL, DELETE)}
    ordered = [each for kind in by_kind.values() for each in kind]
    schema = parts[0].changes.upserts.schema
    names = key_columns(schema.names, target.policy)
    keys = pa.concat_tables([each.rows.select(names) for each in ordered])
    hashes = hash_keys(keys.columns)
    column = order_column(schema.names, target.policy)
    values = None
    if column is not None:
        chunks = [chunk for each in ordered for chunk in each.rows.column(column).chunks]
        values = pa.chunked_array(chunks, schema.field(column).type)
    positions = _positions(ordered, parts)
    winners = newest_by_hash(hashes.high, hashes.low, positions, np.argsort(hashes.high), values)
    upserts, partial = by_kind[UPSERT], by_kind[PARTIAL]
    rows = pa.concat_tables([parts[0].changes.upserts.slice(0, 0), *(each.rows for each in (*upserts, *partial))])
    whole = sum(len(each.rows) for each in upserts)
    left = rows.take(pa.array(winners[winners < len(rows)]))
    if partial:
        kept = pa.chunked_array([each.kept for each in partial], pa.string())
        changed = partial_changes(np.arange(whole, len(rows)), kept)
        newest = winners[np.isin(winners, changed.rows)]
        chains = chains_of(hashes.high, hashes.low, positions, newest, values)
        sources = sources_of(chains, changed, np.arange(len(keys)) >= len(rows))
        left = _filled(left, rows, winners, sources, target)
    return pa.Table.from_arrays(left.columns, schema=schema)


@dataclass(frozen=True)
class _Changes:
    """Changes of one kind of a part, with their offsets; of partial ones what each lacks."""

    part: SourceChanges
    change: str
    rows: pa.Table
    offsets: Ints
    indexes: Ints | None
    kept: pa.Array | None = None


def _of_part(part: SourceChanges) -> Iterator[_Changes]:
    changes = part.changes
    yield _Changes(part, UPSERT, changes.upserts, changes.upsert_offsets, changes.upsert_indexes)
    yield _Changes(part, DELETE, changes.deletes, changes.delete_offsets, changes.delete_indexes)
    if (partial := changes.partial) is not None:
        yield _Changes(part, PARTIAL, partial.rows, partial.offsets, partial.indexes, partial.kept)


def _filled(left: pa.Table, rows: pa.Table, winners: Ints, sources: Sources, target: TableTarget) -> pa.Table:
    """The rows that are left, with the values that partial ones lack: a test begins with an empty table, so there is no row
    but those of its records."""
    schema = parse_schema(target.schema_json)
    at = np.searchsorted(winners, sources.chains.newest)
    for field_id, found in sources.by_field.items():
        place = next(number for number, field in enumerate(schema.fields) if field.field_id == field_id)
        index, gone = winners[winners < len(rows)].copy(), np.zeros(len(left), bool)
        index[at] = np.where(found >= 0, found, sources.chains.newest)
        gone[at] = found < OWN
        column = rows.column(place).take(pa.array(index, pa.int64(), mask=gone))
        left = left.set_column(place, left.schema.field(place), column)
    return left


def _positions(changes: Sequence[_Changes], parts: Sequence[SourceChanges]) -> Positions:
    """Where the changes stood."""
    topics = sorted({part.topic for part in parts})
    offsets = [each.offsets for each in changes]
    indexes = [each.indexes for each in changes if each.indexes is not None]
    return Positions(
        _repeated([number_of_topic(each.part.topic, topics) for each in changes], offsets),
        _repeated([each.part.partition for each in changes], offsets),
        np.concatenate(offsets),
        np.concatenate(indexes) if indexes else None,
    )


def _repeated(numbers: Sequence[int], offsets: Sequence[Ints]) -> Ints:
    return np.repeat(np.array(numbers, np.int64), [len(each) for each in offsets])
