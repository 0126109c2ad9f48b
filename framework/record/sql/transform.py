"""The two ends of the SQL path: records to the declared columns before the SQL, and its rows to tables after it.

In: a block, and after the SQL its rows in columns with the hidden column `__floe`, each row's place in the block. Out:
the declared columns and what never reached the SQL; then a BlockResult like the one of framework.record.process. SQL
sees types that Spark has: UUIDs, times of day and nanoseconds are text to it. A column that leaves the SQL with the
name and the type of a declared field is that field again. Keeps invariants 8 and 9 as the direct path does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, TimestampNanoType, TimestamptzNanoType, TimeType, UUIDType

from framework.config.names.metadata import metadata_column
from framework.config.spec import (
    ErrorPolicy,
    FieldHint,
    NameCase,
    RouteMode,
    RouteRule,
    TablePolicy,
)
from framework.config.values.type_text import Structure, structure, text_of
from framework.plan.model import Plan, Route
from framework.record.arrays import Ints, no_rows
from framework.record.blocks.bisect_failures import contained, joined
from framework.record.blocks.block import process_block
from framework.record.blocks.landed_needs import shaped_by_landing
from framework.record.convert.nested import fold
from framework.record.failure import RecordFailure
from framework.record.fit.typed_columns import observed_from_typed
from framework.record.formats.typed_rows import TypedRows, route_and_convert
from framework.record.formats.wire import NO_SCHEMAS, Schemas
from framework.record.model import BlockResult, ObservedType, RecordBlock, TableNeed, TableTarget
from framework.record.sql.accounting import removed
from framework.record.sql.failure import split
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables
from framework.table.changes import Refusal
from framework.table.create import plan_create
from framework.table.policy.sql_source import sql_source_policy
from framework.table.schema.arrow import arrow_schema
from framework.table.schema.types import declared_type, primitive_type

# What runs `transform.sql`: rows of the declared columns and the hidden one in, those that the SELECT gives out.
Sql = Callable[[pa.Table], pa.Table]
HIDDEN = "__floe"
_SOURCE = "floe.source"
_OFFSET = metadata_column("offset")
_TEXT_TO_SQL = (UUIDType, TimeType, TimestampNanoType, TimestamptzNanoType)


def declared_schema(plan: Plan) -> pa.Schema:
    """The columns SQL sees as `source`, in the order of the hints, without the hidden one.

    Raises:
        ValueError: no field is declared.
    """
    declared = _declared(plan.decode.hints, plan.write.tables.defaults.case)
    return pa.schema([pa.field(f.name, f.type) for f in arrow_schema(declared)])


@lru_cache(maxsize=64)
def _declared(hints: tuple[FieldHint, ...], case: NameCase) -> Schema:
    for_sql = [replace(hint, type=_sql_type(hint.type)) for hint in hints]
    planned = plan_create(TableNeed(_SOURCE, ()), sql_source_policy(TablePolicy(case=case)), for_sql, ())
    if isinstance(planned, Refusal):
        raise ValueError(f"source.schema must declare the fields that transform.sql reads: {planned.reason}")
    return Schema.model_validate_json(planned.schema_json)


def _sql_type(declared: str) -> str:
    return text_of(_for_sql(structure(declared)))


def _for_sql(declared: Structure) -> Structure:
    if isinstance(declared, list):
        if declared[0] == "struct":
            return ["struct", [[name, _for_sql(inner)] for name, inner in declared[1]]]
        return [declared[0], *map(_for_sql, declared[1:])]
    kind = primitive_type(declared)
    if isinstance(kind, _TEXT_TO_SQL):
        return "string"
    return "binary" if isinstance(kind, FixedType) else declared


def decode_block(
    block: RecordBlock, plan: Plan, tables: Mapping[str, TableTarget], schemas: Schemas = NO_SCHEMAS
) -> tuple[pa.Table, BlockResult]:
    """The records in the declared columns, with `__floe` (int32: the place in the block) as the last column.

    The second value holds the dead letters and the count of dropped records that never reach the SQL. Fields that are
    not declared are not seen by SQL. `tables` is not used: what SQL sees depends on the pipeline file alone.
    """
    declared = _declared(plan.decode.hints, plan.write.tables.defaults.case)
    columns = [*declared.fields, NestedField(declared.highest_field_id + 1, _OFFSET, LongType(), required=False)]
    defaults = plan.write.tables.defaults
    policy = sql_source_policy(defaults)
    source = TableTarget(_SOURCE, "", "", Schema(*columns).model_dump_json(), 0, "{}", 0, 0, 0, {}, policy)
    route = Route(RouteMode.FIRST_MATCH, (RouteRule(_SOURCE),), ErrorPolicy.FAIL, (), 0)
    decode = replace(plan.decode, metadata_columns=("offset",))
    result = process_block(block, replace(plan, route=route, decode=decode), {_SOURCE: source}, schemas)
    rows = result.rows.pop(_SOURCE, None)
    schema = pa.schema([*declared_schema(plan), pa.field(HIDDEN, pa.int32())])
    if rows is None:
        return no_rows(schema), result
    offsets = rows.column(rows.num_columns - 1).to_numpy()
    places = np.searchsorted(np.array(block.offsets, dtype=np.int64), offsets)
    arrays = [*rows.columns[:-1], pa.array(places, pa.int32())]
    result.written = 0
    return pa.table([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema), result


def process_with_sql(
    block: RecordBlock, plan: Plan, tables: Mapping[str, TableTarget], sql: Sql, schemas: Schemas = NO_SCHEMAS
) -> BlockResult:
    """A block all the way where its records are few and here: decode, SQL, route and convert."""
    decoded, early = decode_block(block, plan, tables, schemas)
    went_in = decoded.column(HIDDEN).to_numpy()
    result = process_selected(block, *split(sql(decoded), HIDDEN), plan, tables, went_in)
    result.dropped += early.dropped
    result.dropped_for += early.dropped_for
    result.dead_letters = sorted(early.dead_letters + result.dead_letters, key=lambda dead_letter: dead_letter.offset)
    failures = [dead_letter for dead_letter in (early.failure, result.failure) if dead_letter is not None]
    result.failure = min(failures, key=lambda dead_letter: dead_letter.offset, default=None)
    return result


def process_selected(
    block: RecordBlock,
    rows: pa.Table,
    unfit: Mapping[int, RecordFailure],
    plan: Plan,
    tables: Mapping[str, TableTarget],
    decoded: Ints | None = None,
) -> BlockResult:
    """What came out of the SQL as `process_transformed` does it, and beside it the records for which the SQL failed.

    Args:
        unfit: by place, why.
        decoded: the places of the records that went in, those that failed among them; None: all of the block's did.
    """
    if not unfit:
        return process_transformed(block, rows, plan, tables, decoded)
    went_in = np.arange(len(block)) if decoded is None else decoded
    went_in = went_in[~np.isin(went_in, list(unfit))]
    failed = BlockState(block, BlockTables(plan, tables))
    for place, failure in unfit.items():
        failed.fail(place, failure)
    return joined([process_transformed(block, rows, plan, tables, went_in), failed.result()])


def process_transformed(
    block: RecordBlock,
    rows: pa.Table,
    plan: Plan,
    tables: Mapping[str, TableTarget],
    decoded: Ints | None = None,
) -> BlockResult:
    """Route and convert what came out of the SQL; records that went in and that no row names are `filtered`. As in
    framework.record.blocks.block, a record that is refused asks for no change of a table.

    Args:
        decoded: the places of the records that went in; None: all of the block's did.

    Raises:
        AccountingError: a record came out twice, or never went in.
    """

    def refuse(one: RecordBlock, failure: RecordFailure) -> BlockResult:
        state = BlockState(one, BlockTables(plan, tables))
        state.fail(0, failure)
        return state.result()

    def plainly(some: RecordBlock, changed: Mapping[str, TableTarget]) -> BlockResult:
        if some is block:
            return _placed(block, rows, decoded, plan, changed)
        return _placed(some, *_rows_of(some, block, rows, decoded), plan, changed)

    def tried(some: RecordBlock, changed: Mapping[str, TableTarget]) -> BlockResult:
        # A record may raise only once its table is as it asks.
        return contained(some, lambda part: plainly(part, changed), lambda part: plainly(part, changed), refuse)

    # What SQL gives out is not what the file declares of records: new tables are made without it.
    undeclared = replace(plan, decode=replace(plan.decode, hints=()))

    def process(some: RecordBlock) -> BlockResult:
        result = plainly(some, tables)
        return shaped_by_landing(some, result, tried, undeclared, tables) if result.needs else result

    # Whatever raises for one record's values is the dead letter of that record, as before the SQL.
    return contained(block, process, process, refuse)


def _rows_of(some: RecordBlock, block: RecordBlock, rows: pa.Table, decoded: Ints | None) -> tuple[pa.Table, Ints]:
    """The rows of some of a block's records, and the places of those of them that went into the SQL."""
    at = {offset: place for place, offset in enumerate(some.offsets)}
    moved = np.array([at.get(offset, -1) for offset in block.offsets], np.int64)
    places = moved[rows.column(HIDDEN).to_numpy().astype(np.int64)]
    kept = rows.filter(pa.array(places >= 0)).drop_columns([HIDDEN])
    went_in = moved if decoded is None else moved[decoded]
    return kept.append_column(HIDDEN, pa.array(places[places >= 0], pa.int32())), went_in[went_in >= 0]


def _placed(
    block: RecordBlock, rows: pa.Table, decoded: Ints | None, plan: Plan, tables: Mapping[str, TableTarget]
) -> BlockResult:
    state = BlockState(block, BlockTables(plan, tables))
    places = rows.column(HIDDEN).to_numpy().astype(np.int64)
    offsets = np.asarray(block.offsets, np.int64)
    went_in = offsets if decoded is None else offsets[decoded]
    filtered = removed(f"{block.topic}-{block.partition}", [went_in], [offsets[places]], may_remove=True)
    arrived = np.sort(places)
    readable = state.refuse_unreadable_metadata(arrived)
    columns = rows.drop_columns([HIDDEN]).combine_chunks()
    if len(readable) < len(arrived):
        keep = np.isin(places, readable)
        places, columns = places[keep], columns.filter(pa.array(keep))
    route_and_convert(state, TypedRows(places, columns, _kinds(state, columns.schema), by_schema=False))
    result = state.result()
    result.filtered = filtered
    return result


def _kinds(state: BlockState, schema: pa.Schema) -> dict[str, ObservedType]:
    """What the columns ask for; a declared field that SQL left as it was keeps its declared type."""
    tables = state.tables
    hints = tables.hints(tables.insensitive)
    declared = {fold(f.name, tables.insensitive): f.type for f in declared_schema(state.plan)} if hints else {}
    kinds: dict[str, ObservedType] = {}
    for field in schema:
        folded = fold(field.name, tables.insensitive)
        if folded in hints and declared.get(folded) == field.type:
            kinds[field.name] = declared_type(hints[folded].type)
        else:
            kinds[field.name] = observed_from_typed(field.type)
    return kinds
