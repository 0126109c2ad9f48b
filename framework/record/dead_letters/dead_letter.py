"""The dead-letter table: its fixed schema, and dead letters as its rows.

In: DeadLetter values of one batch. Out: an Arrow table in the file schema of the dead-letter table as it is now
(PyIceberg numbers columns afresh when a table is made, so the ids come from the target). The table is partitioned by
the day of the records and written through the same protocol as every other table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from framework.config.spec import PartitionFieldSpec
from framework.record.fit.parsed_columns import from_python
from framework.record.model import DeadLetter, TableTarget, timestamp_us
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema

MOST_MESSAGE_BYTES = 900_000
_PUBLISHED_IN_HEADERS = (
    "topic", "partition", "offset", "timestamp", "stage", "code", "message", "field_path", "expected", "actual",
    "pipeline", "run",
)  # fmt: skip
_HEADER = StructType(
    NestedField(18, "key", StringType(), required=False), NestedField(19, "value", BinaryType(), required=False)
)
_COLUMNS = (
    NestedField(1, "topic", StringType(), required=True, doc="the record's topic"),
    NestedField(2, "partition", IntegerType(), required=True, doc="the record's partition"),
    NestedField(3, "offset", LongType(), required=True, doc="the record's offset"),
    NestedField(
        4, "timestamp", TimestamptzType(), required=False, doc="the record's timestamp, as the broker gives it"
    ),
    NestedField(5, "key", BinaryType(), required=False, doc="the record's key"),
    NestedField(6, "value", BinaryType(), required=False, doc="the record's value"),
    NestedField(
        7, "headers", ListType(17, _HEADER, element_required=True), required=False, doc="the record's headers, in order"
    ),
    NestedField(8, "stage", StringType(), required=True, doc="fetch, decode, transform, route, convert or write"),
    NestedField(9, "code", StringType(), required=True, doc="a stable code; floe explain says more"),
    NestedField(10, "message", StringType(), required=True, doc="what is wrong, for people"),
    NestedField(11, "field_path", StringType(), required=False, doc="the field it is about"),
    NestedField(12, "expected", StringType(), required=False, doc="the type or form that was expected"),
    NestedField(13, "actual", StringType(), required=False, doc="what the record has instead"),
    NestedField(14, "pipeline", StringType(), required=True, doc="the pipeline that could not write the record"),
    NestedField(15, "run", StringType(), required=True, doc="the run of the pipeline"),
)


def dead_letter_schema() -> Schema:
    """The schema a dead-letter table is created with."""
    return Schema(*_COLUMNS)


@dataclass(frozen=True)
class DeadLetterMessage:
    """A dead letter as a Kafka record: the original key, value and headers, and `floe.` headers that say the rest."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


def plan_dead_letter_table(table: str) -> CreateTable:
    """How to create the dead-letter table."""
    return CreateTable(
        table=table,
        schema_json=dead_letter_schema().model_dump_json(),
        partition_by=(PartitionFieldSpec("timestamp", "day"),),
        properties=(("format-version", "2"),),
    )


def dead_letters_to_arrow(dead_letters: Sequence[DeadLetter], pipeline: str, run: str, target: TableTarget) -> pa.Table:
    """The letters as rows of the dead-letter table `target`. Columns of ours that the table lacks are left out, its
    other columns are null."""
    rows = [_row(dead_letter, pipeline, run) for dead_letter in dead_letters]
    schema = arrow_schema(parse_schema(target.schema_json))
    return pa.Table.from_arrays(
        [from_python([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema
    )


def dead_letter_messages(dead_letters: pa.Table | pa.RecordBatch) -> Iterator[DeadLetterMessage]:
    """Rows of a dead-letter table as Kafka records. A value that would make the record too large stays in the table."""
    at = dead_letters.schema.get_field_index("timestamp")
    if at >= 0:  # whole numbers: Python has no dates beyond the year 9999
        dead_letters = dead_letters.set_column(at, "timestamp", dead_letters.column(at).cast(pa.int64()))
    for row in dead_letters.to_pylist():
        if row.get("timestamp") is not None:
            row["timestamp"] //= 1000
        reported = [
            ("floe." + name, str(row[name]).encode("utf-8"))
            for name in _PUBLISHED_IN_HEADERS
            if row.get(name) is not None
        ]
        headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
        key, value = row.get("key"), row.get("value")
        size = len(key or b"") + len(value or b"") + sum(len(n) + len(v or b"") + 8 for n, v in headers + reported)
        if size > MOST_MESSAGE_BYTES:
            reported.append(("floe.value", b"too large for this topic; it is in the dead-letter table"))
            headers, value = [], None
        yield DeadLetterMessage(key, value, (*headers, *reported), row.get("timestamp"))


def _row(dead_letter: DeadLetter, pipeline: str, run: str) -> dict[str, object]:
    return {
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
        "timestamp": timestamp_us(dead_letter.timestamp_ms),
        "key": dead_letter.key,
        "value": dead_letter.value,
        "headers": [{"key": key, "value": value} for key, value in dead_letter.headers],
        "stage": dead_letter.stage,
        "code": dead_letter.code,
        "message": dead_letter.message,
        "field_path": dead_letter.field_path,
        "expected": dead_letter.expected,
        "actual": dead_letter.actual,
        "pipeline": pipeline,
        "run": run,
    }
