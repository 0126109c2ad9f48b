"""What the decoders make of records, before any table is asked: for whoever shows records and writes none.

In: a block, and how it is decoded. Out: the fields of each record that can be read, by its place in the block. The decoders
are those of the run; a record that they refuse is not there, and why is said by framework.record.process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from framework.config.spec import WHOLE_RECORD, FormatType
from framework.plan.model import Plan
from framework.record.blocks.unwrap_envelope import read_json
from framework.record.failure import RecordFailure
from framework.record.formats.decode import decode_rows
from framework.record.formats.typed_rows import TypedRows
from framework.record.formats.wire import Schemas
from framework.record.model import RecordBlock, TableTarget
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables
from framework.record.strict_json import parse_document, parse_record
from framework.record.value_buffer import with_value


def decoded_fields(
    block: RecordBlock, plan: Plan, tables: Mapping[str, TableTarget], schemas: Schemas
) -> dict[int, dict[str, Any]]:
    """The fields by place; numbers of JSON as they were written, other values as Arrow has them. A record that is an array has
    its elements in a field of the name WHOLE_RECORD, if it is exploded."""
    state = BlockState(block, BlockTables(plan, tables))
    if plan.decode.format.type is not FormatType.JSON:
        decoded = decode_rows(block, with_value(block.values), plan.decode, schemas)
        return _of_parts(decoded.parts, decoded.failures)
    read = read_json(block, plan.decode, schemas, state.tables.takes_tombstones)
    found = _of_parts(read.parts, read.failures)
    for place, value in enumerate(read.values):
        if value is None or place in read.failures or place in found:
            continue
        try:
            if plan.decode.format.explode == WHOLE_RECORD and value.lstrip()[:1] == b"[":
                found[place] = {WHOLE_RECORD: parse_document(value)}
            else:
                found[place] = dict(parse_record(value))
        except RecordFailure:
            continue
    return found


def _of_parts(parts: list[TypedRows], failures: Mapping[int, RecordFailure]) -> dict[int, dict[str, Any]]:
    return {
        place: row
        for part in parts
        for place, row in zip(part.places.tolist(), _rows(part.columns), strict=True)
        if place not in failures
    }


def _rows(columns: pa.Table) -> list[dict[str, Any]]:
    values = {name: _values(columns.column(name)) for name in columns.column_names}
    return [{name: found[i] for name, found in values.items()} for i in range(len(columns))]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        # Python has no dates beyond the years 1 to 9999; they are shown as numbers since 1970.
        return list(column.cast(pa.int64()).to_pylist())
