"""Compaction side by side: floe's own in one process, and Spark's `rewrite_data_files`, of the same files on the same
cores.

In: how many files, and how large they are. Out: seconds, the most memory of all processes of each together, files
before and after, and that both tables hold the same rows. Run as `python -m benchmarks.compaction_time --files 4000`.
Files are a few different ones, linked many times under names of their own, so that making them takes little time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitTable, Committed, TableProgress
from framework.config.spec import PartitionFieldSpec, SortFieldSpec, TablePolicy
from framework.config.values.maintenance import CompactionPolicy
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema
from testbed.servers.spark_reader import JDBC_DRIVERS, RUNTIME

DIFFERENT = 20
PACKAGES = f"{RUNTIME},{JDBC_DRIVERS['sqlite']}"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", LongType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
    NestedField(4, "price", DoubleType(), required=False),
    NestedField(5, "name", StringType(), required=False),
    NestedField(6, "city", StringType(), required=False),
)
SPARK = """
import json, sys, time
from pyspark.sql import SparkSession
uri, warehouse, table, target, strategy, packages = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.memory", "3g").config("spark.jars.packages", packages)
builder = builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "jdbc", ".uri": uri, ".warehouse": warehouse}
for key, value in catalog.items():
    builder = builder.config("spark.sql.catalog.default" + key, value)
spark = builder.getOrCreate()
began = time.monotonic()
options = f"'target-file-size-bytes', '{target}', 'max-concurrent-file-group-rewrites', '2'"
call = f"default.system.rewrite_data_files(table => '{table}', strategy => '{strategy}', options => map({options}))"
rows = spark.sql(f"CALL {call}").collect()
print("TOOK", json.dumps([time.monotonic() - began, [row.asDict() for row in rows]]))
"""


def settings(root: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}


def fill(root: Path, name: str, files: int, file_rows: int, is_sorted: bool) -> int:
    """A table of so many files; gives their bytes."""
    tables = IcebergTables(settings(root))
    sort = (SortFieldSpec(PartitionFieldSpec("at")),) if is_sorted else ()
    properties = (("format-version", "3"), ("write.parquet.compression-codec", "zstd"))
    tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (PartitionFieldSpec("part"),), properties, sort))
    target = tables.load_target(name, TablePolicy())
    assert target is not None
    made = []
    for number in range(DIFFERENT):
        random = np.random.default_rng(number)
        writer = TableWriter(tables.io_properties(), "bench", uuid.uuid4().hex[:6], number, 2**30, 2**40)
        rows = pa.table(
            {
                "id": random.integers(0, 2**40, file_rows),
                "part": np.full(file_rows, number % 4),
                "at": pa.array(random.integers(17 * 10**14, 18 * 10**14, file_rows), pa.timestamp("us", "UTC")),
                "price": random.random(file_rows),
                "name": [f"name-{each:x}" for each in random.integers(0, 2**32, file_rows)],
                "city": pa.array(random.choice(["Rome", "Oslo", "Lima", "Cairo"], file_rows)),
            }
        )
        writer.add(target, rows.cast(arrow_schema(parse_schema(target.schema_json))))
        made += writer.finish()[name]
    copies = []
    for number in range(files):
        file = made[number % DIFFERENT]
        path = file.path.replace(".parquet", f"-{number}.parquet")
        os.link(file.path.removeprefix("file://"), path.removeprefix("file://"))
        copies.append(replace(file, path=path))
    view = tables.load_view(name, "main", "bench")
    assert view is not None
    outcome = tables.commit(CommitTable(name, view, uuid.uuid4().hex, tuple(copies), TableProgress("bench", 1), None))
    assert isinstance(outcome, Committed), outcome
    return sum(file.file_size_bytes for file in copies)


def watched(command: list[str]) -> tuple[str, float, int]:
    """What a command prints, its seconds, and the most bytes that it and its children held together."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=out, stderr=errors, text=True)
        most = 0
        while process.poll() is None:
            most = max(most, _held_bytes(process.pid))
            time.sleep(0.1)
        out.seek(0)
        errors.seek(0)
        assert process.returncode == 0, errors.read()[-3000:]
        return out.read(), time.monotonic() - began, most


def _held_bytes(root: int) -> int:
    parents, held = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)], held[int(entry.name)] = int(fields[1]), int(fields[21]) * 4096
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(held.get(pid, 0) for pid in family)


def compact(root: Path, name: str, target: int) -> None:
    """Floe's part, in a process of its own."""
    began = time.monotonic()
    done = TableCare(IcebergTables(settings(root))).compact(name, CompactionPolicy(target_file_bytes=target), False)
    print("TOOK", json.dumps([time.monotonic() - began, repr(done)]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=13_000)
    parser.add_argument("--target-mib", type=int, default=128)
    parser.add_argument("--sorted", action="store_true")
    parser.add_argument("--only", default="floe,spark")
    parser.add_argument("--part", nargs=2)
    given = parser.parse_args()
    target = given.target_mib * 2**20
    if given.part:
        compact(Path(given.part[0]), given.part[1], target)
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        root = Path(folder)
        contenders = given.only.split(",")
        for name in contenders:
            size = fill(root, f"bench.{name}", given.files, given.rows, given.sorted)
        print(f"{given.files} files, {size / 2**20:.0f} MiB, sorted: {given.sorted}")
        for name in contenders:
            if name == "floe":
                command = [sys.executable, "-m", "benchmarks.compaction_time", "--target-mib", str(given.target_mib)]
                command += ["--part", str(root), f"bench.{name}"]
            else:
                strategy = "sort" if given.sorted else "binpack"
                uri = f"jdbc:sqlite:{root}/catalog.db"
                arguments = json.dumps([uri, f"{root}/lake", f"default.bench.{name}", target, strategy, PACKAGES])
                command = [sys.executable, "-c", SPARK, arguments]
            out, seconds, most = watched(command)
            took = json.loads(out.split("TOOK ", 1)[1])
            print(
                f"{name}: {took[0]:.1f} s ({seconds:.1f} s with its start), {most / 2**20:.0f} MiB at most; {took[1]}"
            )
        tables = IcebergTables(settings(root))
        for name in contenders:
            (last,) = tables.snapshots(f"bench.{name}", limit=1)
            print(f"{name}: {last.operation}, {last.total_rows} rows in {last.total_files} files")


if __name__ == "__main__":
    main()
