"""One block of records to rows per table, in whatever format they come.

In: a RecordBlock, the plan, the tables, and the registry's schemas that the block names. Out: a BlockResult. JSON that
has no schema of its own is parsed by the tables' columns (framework.record.landing.json_block); every other format
brings its types with it, and its columns go to framework.record.formats.typed_rows. Keeps invariant 8: each record is
in exactly one of the counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from framework.config.spec import FormatType
from framework.plan.model import Decode, Plan
from framework.record.arrays import Ints
from framework.record.blocks.bisect_failures import contained, joined
from framework.record.blocks.column_limit import set_aside_wide, within_bounds
from framework.record.blocks.explode import exploded
from framework.record.blocks.landed_needs import shaped_by_landing
from framework.record.blocks.placeholders import may_lack_values, take_placeholders_out, without_typed_placeholders
from framework.record.blocks.unwrap_envelope import JsonRead, read_json
from framework.record.failure import RecordFailure
from framework.record.formats.decode import decode_rows
from framework.record.formats.typed_rows import route_and_convert
from framework.record.formats.wire import NO_SCHEMAS, SchemaRef, Schemas, schemas_named
from framework.record.landing.json_block import process_json
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables
from framework.record.value_buffer import with_value, without_value

# What is done once for each block and table is much where a block's rows are sorted by table, and those are hundreds.
TABLES_PER_STEP = 250
MOST_STEPS = 3


def records_in_block(block_records: int, tables: int, scatter: bool) -> int:
    """How many records a block is to have that may be of so many tables; the bound of a block's bytes stays as it is.

    `scatter` as of `process_block`: rows that are put apart unsorted cost about the same in any block, and a small one
    stays in the processor's cache, and takes less memory.
    """
    return block_records if scatter else block_records * min(MOST_STEPS, 1 + tables // TABLES_PER_STEP)


def needed_schemas(block: RecordBlock, decode: Decode) -> set[SchemaRef]:
    """The registry's schemas that must be given to `process_block` for this block."""
    return schemas_named(block, decode) if decode.registries else set()


def process_block(
    block: RecordBlock,
    plan: Plan,
    tables: Mapping[str, TableTarget],
    schemas: Schemas = NO_SCHEMAS,
    encode: bool = False,
    scatter: bool = False,
) -> BlockResult:
    """As `process_block_into`, for whoever has a few blocks.

    Args:
        plan: its decode, route and write steps are used.
        tables: every table known so far, by name.
    """
    return process_block_into(block, BlockTables(plan, tables), schemas, encode, scatter)


def process_block_into(
    block: RecordBlock,
    tables: BlockTables,
    schemas: Schemas = NO_SCHEMAS,
    encode: bool = False,
    scatter: bool = False,
) -> BlockResult:
    """Decode, route and convert one block.

    Args:
        block: consecutive records of one slice.
        tables: the plan, and every table known so far; one that records go to and that is missing here is in `needs`.
        schemas: what the registry says of each of `needed_schemas`.
        encode: whether columns of text may be dictionaries (framework.record.rows.dictionary_text), which are quicker
        to sort and write.
        scatter: whether rows of tables that are alike may be given unsorted, in `alike` of the result.

    Returns:
        rows per table in the table's file schema and in offset order. When `needs` is empty the counts add up to the
        block's records (tombstones are `dropped`); otherwise the block must be processed again once tables are changed.
        A record that raises what nobody foresaw is a dead letter (framework.record.blocks.bisect_failures), and so is one that
        would make a table too wide (framework.record.blocks.column_limit); one that is refused asks for no change of a table
        (framework.record.blocks.landed_needs).
    """

    plan, given = tables.plan, tables.given

    def refuse(one: RecordBlock, failure: RecordFailure) -> BlockResult:
        state = BlockState(one, tables)
        state.fail(0, failure)
        return state.result()

    def plainly(some: RecordBlock, changed: Mapping[str, TableTarget]) -> BlockResult:
        # A record may raise only once its table is as it asks.
        known = tables if changed is given else BlockTables(plan, changed)

        def again(part: RecordBlock) -> BlockResult:
            return _block(part, known, schemas, encode=False, scatter=False)

        return contained(some, again, again, refuse)

    def whole(some: RecordBlock, encode: bool, scatter: bool) -> BlockResult:
        left, wide = set_aside_wide(some, plainly, refuse, tables)
        result = _block(left, tables, schemas, encode, scatter)
        if result.needs:
            result, left, refused = within_bounds(left, result, plainly, refuse, tables)
            result = shaped_by_landing(left, result, plainly, plan, given) if result.needs else result
            wide += refused
        if not wide:
            return result
        found = joined([result, *wide])
        found.dead_letters.sort(key=lambda dead_letter: dead_letter.offset)
        return found

    return contained(block, lambda some: whole(some, encode, scatter), lambda some: whole(some, False, False), refuse)


def _block(block: RecordBlock, tables: BlockTables, schemas: Schemas, encode: bool, scatter: bool) -> BlockResult:
    plan = tables.plan
    if plan.decode.format.type is FormatType.JSON:
        return _json_block(block, tables, schemas, encode, scatter)
    state = BlockState(block, tables)
    positions = state.refuse_unreadable_metadata(_taken(state))
    tombstones = positions[state.tombstones[positions]] if state.tables.takes_tombstones else None
    if tombstones is not None:
        positions = positions[~state.tombstones[positions]]
    decoded = decode_rows(block, positions, plan.decode, schemas, tombstones)
    for position, failure in decoded.failures.items():
        state.fail(position, failure)
    state.drop(decoded.dropped)
    may_lack = tables.keyed is not None and may_lack_values(state)
    for rows in decoded.parts:
        route_and_convert(state, without_typed_placeholders(state, rows) if may_lack else rows)
    return state.result()


def _taken(state: BlockState) -> Ints:
    """The positions of the records that are not dropped for having no value."""
    if state.tables.takes_tombstones:
        return np.arange(len(state.block), dtype=np.int64)
    state.drop(without_value(state.block.values))
    return with_value(state.block.values)


def _json_block(block: RecordBlock, tables: BlockTables, schemas: Schemas, encode: bool, scatter: bool) -> BlockResult:
    decode = tables.plan.decode
    read = read_json(block, decode, schemas, tables.takes_tombstones)
    if decode.format.explode is None:
        return _json_rows(BlockState(block, tables, encode, scatter), read)
    results = []
    for piece in exploded(block, read, decode, schemas):
        whole = piece.count == len(block)  # rows of several pieces are put together
        state = BlockState(piece.block, tables, encode and whole, scatter and whole, piece.elements)
        results.append(_json_rows(state, piece.read))
    return results[0] if len(results) == 1 else joined(results)


def _json_rows(state: BlockState, read: JsonRead) -> BlockResult:
    tables = state.tables
    state.values = read.values
    state.declared = read.declared
    may_lack = tables.keyed is not None and may_lack_values(state)
    if may_lack:
        take_placeholders_out(state)
    positions = _taken(state)
    for position, failure in read.failures.items():
        state.fail(position, failure)
    if read.failures:
        positions = positions[~np.isin(positions, list(read.failures))]
    if read.dropped:
        state.drop(len(read.dropped))
        positions = positions[~np.isin(positions, read.dropped)]
    positions = state.refuse_unreadable_metadata(positions)
    if read.parts:
        typed = np.concatenate([part.places for part in read.parts])
        for part in read.parts:
            rows = part.at(np.intersect1d(part.places, positions))
            route_and_convert(state, without_typed_placeholders(state, rows) if may_lack else rows)
        positions = np.setdiff1d(positions, typed)
    process_json(state, positions)
    return state.result()
