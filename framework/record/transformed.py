"""The two ends of the SQL path: records to the declared columns before the SQL, and its rows to tables after it.

In: a block, and after the SQL its rows in columns with the hidden column `__floe`, each row's place in the block. Out: the
declared columns and what never reached the SQL; then a BlockResult like the one of framework.record.process. SQL sees
types that Spark has: UUIDs, times of day and nanoseconds are text to it. A column that leaves the SQL with the name and the
type of a declared field is that field again. Keeps invariants 8 and 9 as the direct path does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, TimestampNanoType, TimestamptzNanoType, TimeType, UUIDType

from framework.config.spec import (
    Case,
    ErrorPolicy,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    RouteMode,
    RouteRule,
    TablePolicy,
)
from framework.plan.model import Plan, Route
from framework.record.alone import creatable
from framework.record.arrays import Ints, Mask
from framework.record.batch import Batch
from framework.record.convert_nested import fold
from framework.record.convert_typed import convert_typed, observed_from_typed, typed_failure
from framework.record.direct import process_block
from framework.record.failure import RecordFailure
from framework.record.json_strict import JsonValue, NumberText
from framework.record.model import BlockResult, ObservedType, RecordBlock, TableNeed, TableTarget
from framework.record.observe import missing_fields
from framework.record.route import lower_values, route_columns, route_record
from framework.table.arrow_schema import arrow_schema
from framework.table.build import METADATA_PREFIX
from framework.table.changes import Refusal
from framework.table.create import plan_create
from framework.table.types import primitive_type

HIDDEN = "__floe"
_SOURCE = "floe.source"
_OFFSET = METADATA_PREFIX + "offset"
_TEXT_TO_SQL = (UUIDType, TimeType, TimestampNanoType, TimestamptzNanoType)


def declared_schema(plan: Plan) -> pa.Schema:
    """The columns SQL sees as `source`, in the order of the hints, without the hidden one.

    Raises:
        ValueError: no field is declared.
    """
    declared = _declared(plan.decode.hints, plan.write.tables.defaults.case)
    return pa.schema([pa.field(f.name, f.type) for f in arrow_schema(declared)])


@lru_cache(maxsize=64)
def _declared(hints: tuple[FieldHint, ...], case: Case) -> Schema:
    for_sql = [replace(hint, type=_sql_type(hint.type)) for hint in hints]
    planned = plan_create(TableNeed(_SOURCE, ()), TablePolicy(case=case), for_sql, ())
    if isinstance(planned, Refusal):
        raise ValueError(f"source.schema must declare the fields that transform.sql reads: {planned.reason}")
    return Schema.model_validate_json(planned.schema_json)


def _sql_type(declared: str) -> str:
    kind = primitive_type(declared)
    if isinstance(kind, _TEXT_TO_SQL):
        return "string"
    return "binary" if isinstance(kind, FixedType) else declared


def decode_block(block: RecordBlock, plan: Plan, tables: Mapping[str, TableTarget]) -> tuple[pa.Table, BlockResult]:
    """The records in the declared columns, with `__floe` (int32: the place in the block) as the last column.

    The second value holds the dead letters and the count of dropped records that never reach the SQL. Fields that are not
    declared are not seen by SQL. `tables` is not used: what SQL sees depends on the pipeline file alone.
    """
    declared = _declared(plan.decode.hints, plan.write.tables.defaults.case)
    columns = [*declared.fields, NestedField(declared.highest_field_id + 1, _OFFSET, LongType(), required=False)]
    policy = TablePolicy(
        evolve=EvolvePolicy(EvolveMode.FREEZE, EvolveMode.IGNORE, EvolveMode.FREEZE, EvolveMode.FREEZE),
        case=plan.write.tables.defaults.case,
    )
    source = TableTarget(_SOURCE, "", "", Schema(*columns).model_dump_json(), 0, "{}", 0, 0, 0, {}, policy)
    route = Route(RouteMode.FIRST_MATCH, (RouteRule(_SOURCE),), ErrorPolicy.FAIL, (), 0)
    decode = replace(plan.decode, metadata_columns=("offset",))
    result = process_block(block, replace(plan, route=route, decode=decode), {_SOURCE: source})
    rows = result.rows.pop(_SOURCE, None)
    schema = pa.schema([*declared_schema(plan), pa.field(HIDDEN, pa.int32())])
    if rows is None:
        return schema.empty_table(), result
    offsets = rows.column(rows.num_columns - 1).to_numpy()
    places = np.searchsorted(np.array(block.offsets, dtype=np.int64), offsets)
    arrays = [*rows.columns[:-1], pa.array(places, pa.int32())]
    result.written = 0
    return pa.table([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema), result


def process_transformed(
    block: RecordBlock, rows: pa.Table, plan: Plan, tables: Mapping[str, TableTarget]
) -> BlockResult:
    """Route and convert what came out of the SQL; records of the block that no row names are `filtered`."""
    batch = Batch(block, plan, tables)
    places = rows.column(HIDDEN).to_numpy().astype(np.int64)
    columns = rows.drop_columns([HIDDEN]).combine_chunks()
    routed = route_columns(columns, block.topic, plan.route, lower_values(plan), batch.insensitive)
    batch.unrouted(places[routed.unrouted].tolist())
    for row in routed.refused.tolist():
        record = {name: _json_value(columns.column(name)[row].as_py()) for name in columns.column_names}
        try:
            route_record(record, block.topic, plan.route, lower_values(plan), batch.insensitive)
        except RecordFailure as failure:
            batch.fail(int(places[row]), failure)
    failures: dict[int, RecordFailure] = {}
    converted: list[tuple[str, Ints, pa.Table]] = []
    kept: Mask = np.zeros(len(rows), dtype=bool)
    for label, name in enumerate(routed.names):
        mine = np.sort(routed.rows[routed.labels == label])
        part = columns.take(pa.array(mine))
        if name not in tables:
            _missing_table(batch, name, mine, part, failures, kept)
            continue
        kept[mine] = True
        _unknown_columns(batch, name, mine, part, failures)
        converted.append((name, mine, _convert(batch, name, mine, part, places, failures)))
    for row, reason in failures.items():
        batch.fail(int(places[row]), reason)
    for name, mine, table in converted:
        keep = np.array([row not in failures for row in mine.tolist()], dtype=bool)
        if keep.any():
            batch.add_rows(name, places[mine[keep]], _checked(batch, name, table.filter(pa.array(keep))))
    result = batch.result()
    dropped = np.setdiff1d(routed.rows, np.flatnonzero(kept))
    result.dropped += len([row for row in dropped.tolist() if row not in failures])
    result.filtered = len(block) - len(np.unique(places))
    return result


def _missing_table(
    batch: Batch, name: str, mine: Ints, part: pa.Table, failures: dict[int, RecordFailure], kept: Mask
) -> None:
    try:
        if not creatable(batch, name):
            return
    except RecordFailure as failure:
        failures.update(dict.fromkeys(mine.tolist(), failure))
        return
    kept[mine] = True
    batch.need(name, _observed(batch, part), hinted=False)


def _observed(batch: Batch, part: pa.Table) -> dict[str, ObservedType]:
    """What the columns with a value ask for; a declared field that SQL left as it was keeps its declared type."""
    hints = batch.hints(batch.insensitive)
    declared = {fold(f.name, batch.insensitive): f.type for f in declared_schema(batch.plan)} if hints else {}
    fields: dict[str, ObservedType] = {}
    for field in part.schema:
        if field.name.lower() in batch.metadata_columns:
            continue
        folded = fold(field.name, batch.insensitive)
        if folded in hints and declared.get(folded) == field.type:
            fields[field.name] = str(primitive_type(hints[folded].type))
        elif part.column(field.name).null_count < len(part):
            fields[field.name] = observed_from_typed(field.type)
    return fields


def _unknown_columns(batch: Batch, name: str, mine: Ints, part: pa.Table, failures: dict[int, RecordFailure]) -> None:
    policy = batch.policy(name).evolve.columns
    if lacking := batch.lacking_metadata(name):
        batch.need(name, lacking)
    present = {n: kind for n, kind in _observed(batch, part).items() if part.column(n).null_count < len(part)}
    missing = missing_fields(present, batch.shapes[name].root)
    if policy is EvolveMode.EVOLVE and missing:
        batch.need(name, missing, hinted=False)
    if policy in (EvolveMode.FREEZE, EvolveMode.FAIL):
        for column in missing:
            for row in mine[part.column(column).is_valid().to_numpy()].tolist():
                message = f"{column}: {name} has no such column and its columns are frozen"
                failures[row] = RecordFailure("convert", "FLOE-D307", message, field_path=column)


def _convert(
    batch: Batch, name: str, mine: Ints, part: pa.Table, places: Ints, failures: dict[int, RecordFailure]
) -> pa.Table:
    """The rows as the table's columns, nulls where a value failed (its row is in `failures` then)."""
    shape = batch.shapes[name]
    metadata = batch.metadata(places[mine])
    by_name = {fold(n, shape.insensitive): part.column(n).combine_chunks() for n in part.column_names}
    arrays = []
    for field in shape.schema:
        if field.name in shape.metadata:
            arrays.append(metadata[shape.metadata[field.name]])
            continue
        child = next(c for c in shape.root.children if c.name == field.name)
        source = by_name.get(fold(field.name, shape.insensitive))
        if source is None:
            arrays.append(pa.nulls(len(part), field.type))
        else:
            array, bad = convert_typed(child.converter, source)
            arrays.append(array)
            for at in np.flatnonzero(bad).tolist() if bad is not None else []:
                failures[int(mine[at])] = typed_failure(field.name, child.converter, source[at].as_py(), source.type)
        if child.required:
            for at in np.flatnonzero(arrays[-1].is_null().to_numpy(zero_copy_only=False)).tolist():
                message = f"{field.name} is required and the row has no value for it"
                missing = RecordFailure("convert", "FLOE-D305", message, field_path=field.name)
                failures.setdefault(int(mine[at]), missing)
    return pa.table(arrays, names=shape.schema.names)


def _checked(batch: Batch, name: str, rows: pa.Table) -> pa.Table:
    return pa.Table.from_arrays(rows.columns, schema=batch.shapes[name].schema)


def _json_value(value: object) -> JsonValue:
    """A routing field out of SQL as the JSON value it would have been."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return NumberText(value)
    if isinstance(value, dict):
        return {str(name): _json_value(item) for name, item in value.items()}
    return str(value)
