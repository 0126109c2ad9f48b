"""A table that gets a batch of changed keys with every commit, with maintenance in between: what a commit takes, what
lies there, and how long a full scan takes beside the same rows freshly written, stage by stage.

In: how many commits, and after how many a round of maintenance comes. Out: a line for each stage; at the end Spark with
Iceberg's own runtime scans both tables, by turns. Run as `python -m benchmarks.upsert_curve --commits 10000`;
`--no-maintenance` shows what happens without.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.commit.events.event_types import UpsertChanges
from framework.commit.machine.effects import CommitTable, Committed, TableProgress
from framework.config.spec import PartitionFieldSpec, WriteMode, WritePolicy
from framework.config.values.maintenance import ExpirePolicy, MaintenancePolicy
from framework.runtime.maintenance.tables import expire_once
from framework.runtime.upsert.heads import UpsertHeads
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema
from framework.task.context import TaskContext
from framework.task.output import new_writer
from framework.task.upsert.changes import UPSERT, with_positions
from framework.task.upsert.writer import UpsertWriter
from testbed.record_samples import plan as sample_plan
from testbed.record_samples import policy as sample_policy
from testbed.servers.spark_reader import java_settings

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "n", LongType(), required=False),
    NestedField(3, "name", StringType(), required=False),
    identifier_field_ids=[1],
)
NAME, FRESH = "bench.current", "bench.fresh"
_SCAN = """
import json, os, time
from pyspark.sql import SparkSession
settings, packages, tables, rounds = json.loads(os.environ.pop("FLOE_BENCH"))
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars.packages", packages)
builder = builder.config("spark.sql.catalog.default", "org.apache.iceberg.spark.SparkCatalog")
for name, value in settings.items():
    builder = builder.config("spark.sql.catalog.default." + name, value)
spark = builder.getOrCreate()
took = {name: [] for name in tables}
for number in range(rounds + 2):
    for name in tables:
        began = time.monotonic()
        row = spark.sql(f"SELECT count(*), sum(n), max(length(name)) FROM `default`.{name}").collect()[0]
        if number > 1:
            took[name].append(time.monotonic() - began)
print("RESULT " + json.dumps(took))
"""


class Table:
    def __init__(self, root: Path, rows: int) -> None:
        self.settings = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}
        self.tables = IcebergTables(self.settings)
        self._policy = replace(sample_policy(), write=WritePolicy(WriteMode.UPSERT, key=("id",)))
        made = sample_plan(allow=("bench.*",), overrides=[(NAME, self._policy)])
        self._plan = replace(made, read=replace(made.read, slices=1))
        properties = (("format-version", "3"), ("write.metadata.delete-after-commit.enabled", "true"),
                      ("write.metadata.previous-versions-max", "10"))  # fmt: skip
        spec = (PartitionFieldSpec("id", "bucket", 4),)
        self.tables.create_table(CreateTable(NAME, SCHEMA.model_dump_json(), spec, properties))
        self._keyed = UpsertHeads(self._plan, self.tables)
        self._number = 0
        self.newest = np.zeros(rows, np.int64)
        self.upsert(np.arange(rows))

    def plain(self, name: str):  # type: ignore[no-untyped-def]  # a table of PyIceberg
        return SqlCatalog("default", uri=self.settings["uri"], warehouse=self.settings["warehouse"]).load_table(name)

    def upsert(self, ids: np.ndarray) -> None:  # type: ignore[type-arg]
        self._number += 1
        target = self.tables.load_target(NAME, self._policy)
        assert target is not None
        keyed = self._keyed.load({NAME: target})
        context = TaskContext(
            self._plan, {}, self.tables.io_properties(), {NAME: target}, {}, "run", self._number, keyed=keyed
        )
        shape = arrow_schema(parse_schema(target.schema_json))
        names = [f"customer number {each}, as of {self._number}" for each in ids]
        rows = pa.table({"id": ids, "n": np.full(len(ids), self._number), "name": names}, schema=shape)
        sent = with_positions(rows, (0, 0), np.arange(len(ids)))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, sent.schema) as stream:
            stream.write_table(sent)
        writer = new_writer(context)
        changes = UpsertWriter(context, writer)
        changes.add(NAME, UPSERT, sink.getvalue().to_pybytes())
        part = changes.finish()[NAME]
        files = tuple(writer.finish()[NAME])
        keys = UpsertChanges(
            part.base_snapshot_id, part.key_ids, (part.keys,), part.inserted, part.updated, part.deleted
        )
        view = self.tables.load_view(NAME, "main", "bench")
        assert view is not None
        progress = TableProgress("bench", self._number)
        outcome = self.tables.commit(CommitTable(NAME, view, uuid.uuid4().hex, files, progress, None, keyed=(keys,)))
        assert isinstance(outcome, Committed), outcome
        self.newest[ids] = self._number

    def check(self) -> float:
        """Every key once, with its newest change; how long PyIceberg's scan took."""
        began = time.monotonic()
        found = self.plain(NAME).scan(selected_fields=("id", "n")).to_arrow().sort_by("id")
        took = time.monotonic() - began
        assert found["id"].to_pylist() == list(range(len(self.newest)))
        assert found["n"].to_pylist() == self.newest.tolist()
        return took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=200, help="keys that change in a commit")
    parser.add_argument("--stages", type=int, default=5)
    parser.add_argument("--round-after", type=int, default=20)
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--no-maintenance", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given)


def run(root: Path, given: argparse.Namespace) -> None:
    table = Table(root, given.rows)
    expire = ExpirePolicy(max_snapshots=given.snapshots, rollback_window_ms=1, reader_lease_ms=1)
    policy, care = MaintenancePolicy(expire=expire), TableCare(table.tables)
    chance = np.random.default_rng(1)
    took: list[float] = []
    rounds: list[float] = []
    for number in range(1, given.commits + 1):
        began = time.monotonic()
        table.upsert(chance.choice(given.rows, given.changes, replace=False))
        took.append(time.monotonic() - began)
        if not given.no_maintenance and number % given.round_after == 0:
            began = time.monotonic()
            care.compact(NAME, policy.compaction, dry_run=False)
            care.merge_manifests(NAME, policy.manifests, dry_run=False)
            went = expire_once(NAME, care, policy, {}, dry_run=False)
            if went is not None:
                care.remove(NAME, went.paths)
            rounds.append(time.monotonic() - began)
        if number % (given.commits // given.stages) == 0:
            tell(table, care, policy, number, took, rounds)
            took, rounds = [], []


def tell(
    table: Table, care: TableCare, policy: MaintenancePolicy, number: int, took: list[float], rounds: list[float]
) -> None:
    scan = table.check()
    health = care.health(NAME, policy)
    assert health is not None
    spark = spark_scans(table)
    print(
        f"{number:>7,} commits: batch {median(took) * 1000:5.1f} ms, round {median(rounds or [0]) * 1000:6.0f} ms, "
        f"{health.data_files:>6,} data files, {health.snapshots:>5,} snapshots, metadata "
        f"{health.metadata_bytes / 1000:7,.0f} kB, PyIceberg's scan {scan:5.2f} s, Spark's {spark[0]:.2f} s and "
        f"{spark[1]:.2f} s freshly written ({spark[0] / spark[1]:.2f} x), "
        f"memory {_resident_bytes() / 1024**2:,.0f} MiB, the most "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB",
        flush=True,
    )


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def spark_scans(table: Table) -> tuple[float, float]:
    """Medians of full scans of the table, and of a table with the same rows in one append."""
    catalog = SqlCatalog("default", uri=table.settings["uri"], warehouse=table.settings["warehouse"])
    if catalog.table_exists(FRESH):
        catalog.drop_table(FRESH)
    plain = table.plain(NAME)
    fresh = catalog.create_table(FRESH, plain.schema(), partition_spec=plain.spec())
    fresh.append(plain.scan().to_arrow())
    settings, packages = java_settings(table.settings)
    given = json.dumps([settings, ",".join(packages), [NAME, FRESH], 25])
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "TZ": "UTC", "FLOE_BENCH": given}
    done = subprocess.run([sys.executable, "-c", _SCAN], capture_output=True, text=True, env=env)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr[-3000:]
    times = json.loads(lines[0].removeprefix("RESULT "))
    return median(times[NAME]), median(times[FRESH])


if __name__ == "__main__":
    main()
