"""`floe` with one fault planted in its own process or in its tasks: `python -m tests.spark.planted FAULT ARGS...`.

In: the name of a fault and the command's arguments. Out: what the command does with it. Functions made here travel to
Spark's workers by value, since `__main__` there is another module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from framework.cli.main import main
from framework.runtime.batches import spark_stage
from framework.task.sql import stage as spark_sql


def reader_loses_a_record() -> None:
    """A task's reader hands on each block without its third record."""
    real = spark_stage.make_task

    def make_task(context: Any, work: Any) -> Any:
        task = real(context, work)

        def losing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from framework.adapters.kafka.reader import CompiledReader, PythonReader
            from framework.record.model import RecordBlock

            for reader in (CompiledReader, PythonReader):
                take = reader.take

                def fewer(self: Any, piece: Any, take: Any = take) -> RecordBlock:
                    block = take(self, piece)
                    kept = [i for i in range(len(block)) if i != 2]
                    columns = (block.values, block.offsets, block.timestamps_ms, block.keys, block.headers)
                    return RecordBlock(block.topic, block.partition, *([c[i] for i in kept] for c in columns))

                reader.take = fewer  # type: ignore[assignment]
            yield from task(batches)

        return losing

    spark_stage.make_task = make_task


def decoding_loses_a_record() -> None:
    """Of the rows that are decoded for the SQL the first of each batch is lost."""
    real = spark_sql.make_decoder

    def make_decoder(context: Any, work: Any, schema: Any) -> Any:
        decode = real(context, work, schema)

        def losing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in decode(batches):
                yield batch.slice(1) if len(batch) > 1 else batch

        return losing

    spark_sql.make_decoder = make_decoder


def sql_multiplies_rows() -> None:
    """Each row comes out of the SQL twice."""
    real = spark_sql.transformed

    def transformed(source: Any, sql: str) -> Any:
        rows = real(source, sql)
        return rows.union(rows)

    spark_sql.transformed = transformed


def writing_loses_a_row() -> None:
    """Of the rows that came out of the SQL one never reaches its writer."""
    real = spark_sql.make_writer

    def make_writer(context: Any, sending: bool = False) -> Any:
        write = real(context, sending)

        def losing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from write(batch.slice(1) for batch in batches)

        return losing

    spark_sql.make_writer = make_writer


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (reader_loses_a_record, decoding_loses_a_record, sql_multiplies_rows, writing_loses_a_row)
}

if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    sys.exit(main())
