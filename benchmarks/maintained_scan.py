"""How long Spark takes to read the flights' tables before maintenance and after it.

In: how many days of the flights, how many records a batch has, and how many tasks write it. Out: files and seconds of a
full scan of all tables before `floe maintain` and after it, the ratio, and exit code 1 if it is below `--least`. Tables
are those of `pipelines/flights.yaml` (one for each carrier, a partition for each day), and each batch is committed as a
coordinator does. A live topic brings 900 flights a day: with an interval of 30 s a batch has none or one of them, here
it has a hundred (two and a half hours), so that there are far fewer small files than live. Broker, catalog (SQLite,
local files), the verb and Spark with Iceberg's runtime are real; rows are counted before and after.

    python -m benchmarks.maintained_scan
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitTable, Committed, TableProgress
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.local import nycflights, stack
from framework.record.model import TableTarget
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema
from testbed.servers.spark_reader import java_settings

TOPIC, SPACE = "control", "flights"
TEXTS = ("carrier", "tailnum", "origin", "dest")
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: bench}}
prefix: bench
connections:
  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}
  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}
"""
# Each round reads every column of every table; the first one, which compiles Spark's own code, does not count.
SPARK = """
import json, sys, time
from pyspark.sql import SparkSession
catalog, packages, tables, rounds = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.jars.packages", ",".join(packages)).config("spark.ui.showConsoleProgress", "false")
builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
for key, value in catalog.items():
    builder = builder.config("spark.sql.catalog.default." + key, value)
spark = builder.getOrCreate()
took = []
for number in range(rounds + 1):
    began = time.monotonic()
    for table in tables:
        spark.table("default." + table).write.format("noop").mode("overwrite").save()
    took.append(time.monotonic() - began)
print("TOOK", json.dumps([min(took[1:]), sum(spark.table("default." + table).count() for table in tables)]))
"""


@dataclass(frozen=True)
class Scan:
    files: int
    rows: int
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=int, default=14, help="of January 2013; 365: the whole year, an hour")
    parser.add_argument("--batch", type=int, default=100, help="records of a batch")
    parser.add_argument("--tasks", type=int, default=4, help="that write a batch, one for each partition of the topic")
    parser.add_argument("--rounds", type=int, default=3, help="scans that count; the fastest is taken")
    parser.add_argument("--least", type=float, default=3.0, help="the ratio below which this fails")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floe-scan-") as name:
        folder = Path(name)
        broker = stack.up(folder / "stack", kafka_port=0)
        try:
            return run(folder, broker.bootstrap_servers, given)
        finally:
            stack.down(folder / "stack", wipe=True)


def run(folder: Path, servers: str, given: argparse.Namespace) -> int:
    (folder / "pipelines" / "targets").mkdir(parents=True)
    (folder / "pipelines" / "targets" / "bench.yaml").write_text(TARGET.format(servers=servers, folder=folder))
    facts = ensure_control_topic(KafkaAdmin({"bootstrap.servers": servers}), TOPIC)
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    tables = IcebergTables(settings)
    flights, batches = fill(tables, facts.topic_id, given)
    names = sorted(tables.list_tables())
    print(f"{flights:,} flights of {given.days} days in {batches} batches, {len(names)} tables", flush=True)
    before = scan(settings, tables, names, given.rounds)
    print(f"before: {before.files:,} files, a full scan by Spark {before.seconds:.2f} s", flush=True)
    words = [sys.executable, "-m", "framework.cli.main", "maintain", f"{SPACE}.*", "-t", "bench"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [*words, "--control-topic", TOPIC]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after = scan(settings, IcebergTables(settings), names, given.rounds)
    print(f"after:  {after.files:,} files, a full scan by Spark {after.seconds:.2f} s")
    assert before.rows == after.rows == flights, "the tables do not hold every flight once"
    ratio = before.seconds / after.seconds
    print(f"{before.files / after.files:.1f} times fewer files, {ratio:.1f} times faster")
    return int(ratio < given.least)


def fill(tables: IcebergTables, topic_id: str, given: argparse.Namespace) -> tuple[int, int]:
    """The days' flights batch by batch, each committed to its tables; gives the numbers of flights and batches."""
    targets: dict[str, TableTarget] = {}
    flights = january(given.days)
    count = number = 0
    while rows := list(islice(flights, given.batch)):
        number, count = number + 1, count + len(rows)
        files: dict[str, list[DataFile]] = {}
        for task in range(given.tasks):
            writer = TableWriter(tables.io_properties(), "bench", uuid.uuid4().hex[:6], number, 2**30, 2**40)
            own = rows[task :: given.tasks]
            for carrier in sorted({str(row["carrier"]) for row in own}):
                name = f"{SPACE}.carrier_{carrier.lower()}"
                if name not in targets:
                    targets[name] = made(tables, name, list(rows[0]))
                shape = arrow_schema(parse_schema(targets[name].schema_json))
                mine = [row for row in own if row["carrier"] == carrier]
                writer.add(targets[name], pa.Table.from_pylist(mine).cast(shape))
            for name, written in writer.finish().items():
                files.setdefault(name, []).extend(written)
        for name, found in files.items():
            view = tables.load_view(name, "main", topic_id)
            assert view is not None
            progress = TableProgress(topic_id, number)
            outcome = tables.commit(CommitTable(name, view, uuid.uuid4().hex, tuple(found), progress, None))
            assert isinstance(outcome, Committed), outcome
    return count, number


def january(days: int) -> Iterator[dict[str, object]]:
    """The flights of the first days, in the order of the data."""
    archive = nycflights.fetch(print)
    seen: set[str] = set()
    for _, _, value in nycflights.records(archive, nycflights.FLIGHTS):
        row = json.loads(value)
        seen.add(row["time_hour"][:10])
        if len(seen) > days:
            return
        yield {**row, "time_hour": nycflights_time(row["time_hour"])}


def nycflights_time(text: str) -> object:
    return pa.scalar(text.replace("Z", "+00:00")).cast(pa.timestamp("us", "UTC")).as_py()


def made(tables: IcebergTables, name: str, columns: list[str]) -> TableTarget:
    fields = []
    for number, column in enumerate(columns, start=1):
        kind = TimestamptzType() if column == "time_hour" else StringType() if column in TEXTS else LongType()
        fields.append(NestedField(number, column, kind, required=False))
    partition = (PartitionFieldSpec("time_hour", "day"),)
    properties = (("format-version", "2"), ("floe.created", "bench 0"))
    tables.create_table(CreateTable(name, Schema(*fields).model_dump_json(), partition, properties))
    target = tables.load_target(name, TablePolicy())
    assert target is not None
    return target


def scan(settings: dict[str, str], tables: IcebergTables, names: list[str], rounds: int) -> Scan:
    """A fresh Spark reads everything."""
    catalog, packages = java_settings(settings)
    command = [sys.executable, "-c", SPARK, json.dumps([catalog, packages, names, rounds])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    seconds, rows = json.loads(done.stdout.split("TOOK ", 1)[1])
    files = 0
    for name in names:
        (newest,) = tables.snapshots(name, limit=1)
        files += newest.total_files or 0
    return Scan(files, rows, seconds)


if __name__ == "__main__":
    sys.exit(main())
