"""A table that gets a small file with every commit, with maintenance in between: what a commit takes, how large the
metadata is, how many files there are and how long a full scan takes, stage by stage.

In: how many commits, and after how many a round of maintenance comes. Out: a line for each stage; flat lines mean that
the table stays healthy. Run as `python -m benchmarks.maintained_table --commits 4000`; `--no-maintenance` shows what
happens without.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.parquet.files import TableWriter
from framework.adapters.table_care import TableCare
from framework.commit.machine.effects import CommitTable, Committed, TableProgress
from framework.config.maintenance import ExpirePolicy, MaintenancePolicy
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.runtime.maintenance import expire_once
from framework.table.arrow_schema import arrow_schema, parse_schema
from framework.table.changes import CreateTable

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", LongType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)
NAME = "bench.busy"
ROWS = 400


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=4_000)
    parser.add_argument("--stages", type=int, default=8)
    parser.add_argument("--round-after", type=int, default=20)
    parser.add_argument("--snapshots", type=int, default=200)
    parser.add_argument("--no-maintenance", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), given)


def run(root: Path, given: argparse.Namespace) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}
    tables = IcebergTables(settings)
    properties = (("format-version", "3"), ("write.metadata.delete-after-commit.enabled", "true"),
                  ("write.metadata.previous-versions-max", "10"))  # fmt: skip
    tables.create_table(CreateTable(NAME, SCHEMA.model_dump_json(), (PartitionFieldSpec("part"),), properties))
    target = tables.load_target(NAME, TablePolicy())
    assert target is not None
    shape = arrow_schema(parse_schema(target.schema_json))
    expire = ExpirePolicy(max_snapshots=given.snapshots, rollback_window_ms=1, reader_lease_ms=1)
    policy, care = MaintenancePolicy(expire=expire), TableCare(tables)
    took: list[float] = []
    rounds: list[float] = []
    for number in range(1, given.commits + 1):
        writer = TableWriter(tables.io_properties(), "bench", "r", number, 2**30, 2**40)
        ids = range(number * ROWS, number * ROWS + ROWS)
        rows = {"id": ids, "part": [each % 4 for each in ids], "name": [f"name-{each}" for each in ids]}
        writer.add(target, pa.table(rows, schema=shape))
        began = time.monotonic()
        view = tables.load_view(NAME, "main", "bench")
        assert view is not None
        files = tuple(writer.finish()[NAME])
        effect = CommitTable(NAME, view, uuid.uuid4().hex, files, TableProgress("bench", number), None)
        outcome = tables.commit(effect)
        assert isinstance(outcome, Committed), outcome
        took.append(time.monotonic() - began)
        if not given.no_maintenance and number % given.round_after == 0:
            began = time.monotonic()
            care.compact(NAME, policy.compaction, dry_run=False)
            care.merge_manifests(NAME, policy.manifests, dry_run=False)
            went = expire_once(NAME, care, policy, dry_run=False)
            if went is not None:
                care.remove(NAME, went.paths)
            rounds.append(time.monotonic() - began)
        if number % (given.commits // given.stages) == 0:
            tell(settings, care, policy, number, took, rounds)
            took, rounds = [], []


def tell(
    settings: dict[str, str],
    care: TableCare,
    policy: MaintenancePolicy,
    number: int,
    took: list[float],
    rounds: list[float],
) -> None:
    health = care.health(NAME, policy.compaction)
    assert health is not None
    plain = SqlCatalog("default", uri=settings["uri"], warehouse=settings["warehouse"]).load_table(NAME)
    began = time.monotonic()
    ids = plain.scan(selected_fields=("id",)).to_arrow()["id"]
    scan = time.monotonic() - began
    assert len(ids) == len(ids.unique()) == number * ROWS
    on_disk = sum(path.is_file() for path in Path(plain.location().removeprefix("file://")).rglob("*"))
    print(
        f"{number:>7,} commits: commit {median(took) * 1000:5.1f} ms, round {median(rounds or [0]) * 1000:6.0f} ms "
        f"(at most {max(rounds or [0]) * 1000:,.0f}), {health.data_files:>6,} data files, {on_disk:>6,} on disk, "
        f"{health.snapshots:>5,} snapshots, metadata {health.metadata_bytes / 1000:7,.0f} kB, scan {scan:5.2f} s, "
        f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB",
        flush=True,
    )


if __name__ == "__main__":
    main()
