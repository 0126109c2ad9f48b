"""Dead letters on their way back: which of them still wait, as blocks of records, and the marks of those that went
through.

In: rows of a dead-letter table and of its table of marks. Out: RecordBlocks with the bytes and the place that the
records had, and rows for the table of marks. A letter is known by its pipeline and its place in Kafka. A mark is
written in the batch that writes the letter's rows, so that a replay that ran once finds nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from framework.commit.dead_letter_replay import replay_name
from framework.config.spec import ErrorPolicy, PartitionFieldSpec
from framework.plan.model import Plan
from framework.record.fit.parsed_columns import from_python
from framework.record.model import RecordBlock, TableTarget
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema

PLACE = ("topic", "partition", "offset")
RECORD = (*PLACE, "timestamp", "key", "value", "headers")
_MARKS = (
    NestedField(1, "pipeline", StringType(), required=True, doc="the pipeline whose dead letter it was"),
    NestedField(2, "topic", StringType(), required=True, doc="the record's topic"),
    NestedField(3, "partition", IntegerType(), required=True, doc="the record's partition"),
    NestedField(4, "offset", LongType(), required=True, doc="the record's offset"),
    NestedField(5, "replayed_at", TimestamptzType(), required=True, doc="when it was replayed"),
    NestedField(6, "run", StringType(), required=True, doc="the replay that did it"),
)


def marks_table(dead_letter_table: str) -> str:
    """The name of the table that says which letters of a dead-letter table have been replayed."""
    return f"{dead_letter_table}_replayed"


def plan_marks_table(dead_letter_table: str) -> CreateTable:
    """How to create it."""
    return CreateTable(
        table=marks_table(dead_letter_table),
        schema_json=Schema(*_MARKS).model_dump_json(),
        partition_by=(PartitionFieldSpec("replayed_at", "day"),),
        properties=(("format-version", "2"),),
    )


def replay_plan(plan: Plan) -> Plan:
    """The pipeline as it is now, under the replay's name. A record that fails again stays a dead letter: it stops
    nothing."""

    def kept(policy: ErrorPolicy) -> ErrorPolicy:
        return ErrorPolicy.DEAD_LETTER if policy is ErrorPolicy.FAIL else policy

    stages = tuple((stage, kept(policy)) for stage, policy in plan.write.error_stages)
    return replace(
        plan,
        pipeline=replay_name(plan.pipeline),
        route=replace(plan.route, unrouted=kept(plan.route.unrouted)),
        write=replace(plan.write, errors=kept(plan.write.errors), error_stages=stages),
    )


def unique_places(dead_letters: pa.Table) -> pa.Table:
    """The letters by topic, partition and offset, each place once."""
    numbered = dead_letters.append_column("_row", pa.array(range(len(dead_letters)), pa.int64()))
    firsts = numbered.group_by(list(PLACE)).aggregate([("_row", "min")])
    order = firsts.sort_by([(name, "ascending") for name in PLACE]).column("_row_min")
    return dead_letters.take(order)


def is_marked(dead_letters: pa.Table, marks: pa.Table) -> pa.ChunkedArray:
    """For each letter whether there is a mark for its place."""
    keys = dead_letters.select(list(PLACE)).append_column("_row", pa.array(range(len(dead_letters)), pa.int64()))
    marked = keys.join(marks.select(list(PLACE)), list(PLACE), join_type="left semi").column("_row")
    return pc.is_in(keys.column("_row"), value_set=marked)


def open_dead_letters(dead_letters: pa.Table, marks: pa.Table) -> pa.Table:
    """The letters that no mark names, each place once, in order."""
    return unique_places(dead_letters.filter(pc.invert(is_marked(dead_letters, marks))))


def dead_letter_blocks(dead_letters: pa.Table) -> Iterator[RecordBlock]:
    """The records as they came: letters in the order of their places, one block for each partition."""
    columns = {name: dead_letters.column(name).to_pylist() for name in (*PLACE, "key", "value", "headers")}
    stamps = dead_letters.column("timestamp").cast(pa.int64()).to_pylist()
    start = 0
    for end in range(1, len(dead_letters) + 1):
        place = columns["topic"][start], columns["partition"][start]
        if end < len(dead_letters) and (columns["topic"][end], columns["partition"][end]) == place:
            continue
        yield RecordBlock(
            topic=place[0],
            partition=place[1],
            values=columns["value"][start:end],
            offsets=columns["offset"][start:end],
            timestamps_ms=[-1 if stamp is None else stamp // 1000 for stamp in stamps[start:end]],
            keys=columns["key"][start:end],
            headers=[[(h["key"], h["value"]) for h in headers or ()] for headers in columns["headers"][start:end]],
        )
        start = end


def marks_to_arrow(
    pipeline: str, places: Iterable[tuple[str, int, int]], now_us: int, run: str, target: TableTarget
) -> pa.Table:
    """Marks for letters of `pipeline` as rows of the table of marks."""
    schema = arrow_schema(parse_schema(target.schema_json))
    rows: list[dict[str, object]] = [
        {"pipeline": pipeline, "topic": t, "partition": p, "offset": o, "replayed_at": now_us, "run": run}
        for t, p, o in places
    ]
    arrays = [from_python([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
