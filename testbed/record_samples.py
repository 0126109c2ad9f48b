"""Plans, tables and blocks for the tests of the data plane's core."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField

from framework.config.spec import (
    ErrorPolicy,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    FormatSpec,
    NameCase,
    RouteMode,
    RouteRule,
    TablePolicy,
    TablesSpec,
)
from framework.plan.model import Announce, Decode, Plan, ReadKafka, Route, WriteFiles
from framework.record.blocks.bisect_failures import joined
from framework.record.blocks.explode import exploded
from framework.record.blocks.landed_needs import shaped_by_landing
from framework.record.blocks.placeholders import may_lack_values, take_placeholders_out
from framework.record.blocks.unwrap_envelope import JsonRead, read_json
from framework.record.formats.wire import NO_SCHEMAS, Schemas
from framework.record.landing.single_record import judge
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.process import process_block
from framework.record.rows.dictionary_text import plain_table
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables
from framework.table.schema.types import primitive_type


def policy(
    columns: EvolveMode = EvolveMode.EVOLVE, case: NameCase = NameCase.INSENSITIVE, **evolve: Any
) -> TablePolicy:
    return replace(TablePolicy(), evolve=replace(EvolvePolicy(), columns=columns, **evolve), case=case)


def plan(
    rules: Sequence[RouteRule] = (RouteRule("ns.t"),),
    *,
    mode: RouteMode = RouteMode.FIRST_MATCH,
    unrouted: ErrorPolicy = ErrorPolicy.DEAD_LETTER,
    errors: ErrorPolicy = ErrorPolicy.DEAD_LETTER,
    allow: Sequence[str] = ("ns.*",),
    hints: Sequence[FieldHint] = (),
    metadata: Sequence[str] = (),
    defaults: TablePolicy | None = None,
    overrides: Sequence[tuple[str, TablePolicy]] = (),
) -> Plan:
    tables = TablesSpec(defaults or policy(), tuple(overrides))
    return Plan(
        pipeline="p",
        target="test",
        source_file="p.yaml",
        read=ReadKafka("main", ("events",), None, "earliest", "fail", "floe-p", 100_000, 1),
        decode=Decode(FormatSpec(), tuple(hints), tuple(metadata), 100_000),
        transform=None,
        route=Route(mode, tuple(rules), unrouted, tuple(allow), 100),
        write=WriteFiles(tables, errors, "ns.dead_letters", None, None, 128 << 20, 64 << 20),
        announce=Announce("control-iceberg", "floe-p", 1000, 60_000),
        coordinator_group="floe-coordinator",
    )


def schema_of(columns: Mapping[str, str | IcebergType], required: Sequence[str] = ()) -> Schema:
    """A schema with ids 1, 2, ... for columns given as type texts or PyIceberg types."""
    return Schema(
        *(
            NestedField(i, name, primitive_type(kind) if isinstance(kind, str) else kind, required=name in required)
            for i, (name, kind) in enumerate(columns.items(), 1)
        )
    )


def target(
    name: str = "ns.t",
    columns: dict[str, str | IcebergType] | None = None,
    required: Sequence[str] = (),
    table_policy: TablePolicy | None = None,
    schema: Schema | None = None,
) -> TableTarget:
    schema = schema or schema_of(columns or {}, required)
    return TableTarget(
        name=name,
        table_uuid="00000000-0000-0000-0000-000000000001",
        location="file:///nowhere",
        schema_json=schema.model_dump_json(),
        schema_id=0,
        spec_json=UNPARTITIONED_PARTITION_SPEC.model_dump_json(),
        spec_id=0,
        sort_order_id=0,
        last_column_id=schema.highest_field_id,
        properties={},
        policy=table_policy or policy(),
    )


def block(values: Sequence[object], topic: str = "events", first_offset: int = 0) -> RecordBlock:
    """A block of records: bytes as they are, None as a tombstone, anything else as its JSON."""
    encoded = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for v in values]
    count = len(encoded)
    return RecordBlock(
        topic=topic,
        partition=0,
        values=encoded,
        offsets=list(range(first_offset, first_offset + count)),
        timestamps_ms=[1_700_000_000_000 + i for i in range(count)],
        keys=[b"k%d" % i for i in range(count)],
        headers=[None] * count,
    )


def processed(
    records: RecordBlock, pipeline: Plan, tables: Mapping[str, TableTarget], schemas: Schemas = NO_SCHEMAS
) -> BlockResult:
    """What becomes of a block; asserts that it is the same whether or not text may be given as dictionaries, and rows
    of many tables unsorted."""
    result = process_block(records, pipeline, tables, schemas)
    for scatter in (False, True):  # the parser has met the words the second time
        encoded = process_block(records, pipeline, tables, schemas, encode=True, scatter=scatter)
        together = [(name, found) for alike in encoded.alike for name, _, found in alike.split()]
        rows = {name: plain_table(found) for name, found in [*encoded.rows.items(), *together]}
        assert len(rows) == len(encoded.rows) + len(together)
        assert {name: found.schema for name, found in rows.items()} == {n: t.schema for n, t in result.rows.items()}
        # As text, in which NaN is itself.
        assert str({n: rows[n].to_pylist() for n in result.rows}) == str(
            {n: t.to_pylist() for n, t in result.rows.items()}
        )
        assert replace(encoded, rows={}, alike=[]) == replace(result, rows={})
    return result


def alone(records: RecordBlock, pipeline: Plan, tables: dict[str, TableTarget]) -> BlockResult:
    """The result when every record is judged alone."""

    def each(some: RecordBlock, present: Mapping[str, TableTarget]) -> BlockResult:
        known, decode = BlockTables(pipeline, present), pipeline.decode
        read = read_json(some, decode, NO_SCHEMAS, known.takes_tombstones)
        if decode.format.explode is None:
            return _judged_alone(BlockState(some, known), read)
        pieces = exploded(some, read, decode, NO_SCHEMAS, piece_bytes=1)
        return joined(
            [_judged_alone(BlockState(each.block, known, elements=each.elements), each.read) for each in pieces]
        )

    result = each(records, tables)
    return shaped_by_landing(records, result, each, pipeline, tables) if result.needs else result


def _judged_alone(state: BlockState, read: JsonRead) -> BlockResult:
    assert not read.parts, "a record with types of its own has no way alone"
    state.values = read.values
    if may_lack_values(state):
        take_placeholders_out(state)
    for place, failure in read.failures.items():
        state.fail(place, failure)
    gone = np.zeros(len(read.values), bool) if state.tables.takes_tombstones else state.tombstones
    state.drop(int(gone.sum()) + len(read.dropped))
    done = read.failures.keys() | read.dropped
    state.judge_alone(at for at in range(len(read.values)) if not gone[at] and at not in done)
    judge(state)
    return state.result()


def same(left: BlockResult, right: BlockResult) -> None:
    """Assert that a block's result says the same as that of its records judged one by one.

    A record for several tables that fails in one of them may have asked for another one that does not exist.
    """
    assert {n: str(t.to_pylist()) for n, t in left.rows.items()} == {
        n: str(t.to_pylist()) for n, t in right.rows.items()
    }
    assert [(d.offset, d.stage, d.code, d.field_path) for d in left.dead_letters] == [
        (d.offset, d.stage, d.code, d.field_path) for d in right.dead_letters
    ]
    assert right.needs == left.needs
    assert (left.written, left.dropped) == (right.written, right.dropped)
