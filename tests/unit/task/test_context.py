"""What travels to a task with its function."""

from __future__ import annotations

import pickle
from dataclasses import replace

from framework.task.context import known_to_tasks
from testbed.record_samples import target

# Spark sends a larger function around as a file of its own (`spark.broadcast.UDFCompressionThreshold`).
SMALL_BYTES = 1024 * 1024


def test_a_task_is_given_what_it_reads_of_each_table() -> None:
    """A task knows each table without the properties that no writer reads, and a thousand tables are small."""
    table = target(columns={"a": "long", "b": "string"})
    tables = {
        f"ns.t{i}": replace(
            table,
            name=f"ns.t{i}",
            # Texts of their own, as they are when each table is loaded by itself.
            schema_json=(table.schema_json + " " * 1000 + "?")[:-1],
            properties={"write.parquet.compression-codec": "zstd", "floe.progress": f"{i}" * 1000},
        )
        for i in range(1000)
    }
    known = known_to_tasks(tables)
    needed = {"write.parquet.compression-codec": "zstd"}
    assert known == {name: replace(each, properties=needed) for name, each in tables.items()}
    assert len(pickle.dumps(known)) < SMALL_BYTES / 4
    assert known_to_tasks({"ns.t": replace(table, properties={"write.x": "1"})}) == {
        "ns.t": replace(table, properties={"write.x": "1"})
    }
