"""Tables that get a small file with every commit, with maintenance in between: what a commit takes, how large the
metadata is, how many files there are, how long a full scan takes and what the process holds, day by day.

In: how many commits, tables and days, and after how many commits a round of maintenance comes. Out: a line for each
day, and whether the last one is within 1.3 times the second. The week at an interval of ten seconds is
`python -m benchmarks.maintained_table --commits 60000 --tables 20 --days 7`; without options it is a tenth of that for
one table. `--no-maintenance` shows what happens without. CPU time is what tells days apart on a machine that does other
things as well; a scan is timed in a process of its own, and for each million rows, since rows only become more.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import CommitTable, Committed, TableProgress
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.config.values.maintenance import ExpirePolicy, MaintenancePolicy
from framework.record.model import TableTarget
from framework.runtime.maintenance.tables import expire_once
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "part", LongType(), required=False),
    NestedField(3, "name", StringType(), required=False),
)
FLAT = 1.3


@dataclass(frozen=True)
class Day:
    """`scan_s` is for a million rows; the rest is the median of commits and rounds, the mean of tables, or the process
    at the day's end."""

    commit_ms: float
    commit_cpu_ms: float
    round_ms: float
    data_files: float
    files_on_disk: float
    snapshots: float
    metadata_kb: float
    scan_s: float
    memory_mib: float


@dataclass
class Took:
    """Of one day, in seconds."""

    commits: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=6_000, help="to each table")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--rows", type=int, default=400, help="of a commit")
    parser.add_argument("--round-after", type=int, default=20)
    parser.add_argument("--snapshots", type=int, default=200)
    parser.add_argument("--no-maintenance", action="store_true")
    parser.add_argument("--scan", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.scan:
        print(json.dumps(scan(*given.scan)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        days = run(Path(folder), given)
    return 0 if given.no_maintenance or is_flat(days) else 1


def run(root: Path, given: argparse.Namespace) -> list[Day]:
    settings = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}
    tables = IcebergTables(settings)
    properties = (("format-version", "3"), ("write.metadata.delete-after-commit.enabled", "true"),
                  ("write.metadata.previous-versions-max", "10"))  # fmt: skip
    targets: dict[str, TableTarget] = {}
    for number in range(given.tables):
        name = f"bench.busy_{number}"
        tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (PartitionFieldSpec("part"),), properties))
        target = tables.load_target(name, TablePolicy())
        assert target is not None
        targets[name] = target
    expire = ExpirePolicy(max_snapshots=given.snapshots, rollback_window_ms=1, reader_lease_ms=1)
    policy, care = MaintenancePolicy(expire=expire), TableCare(tables)
    days, took = [], Took()
    ends = {given.commits * day // given.days for day in range(1, given.days + 1)}
    for number in range(1, given.commits + 1):
        for name, target in targets.items():
            commit(tables, target, number, given.rows, took)
            if not given.no_maintenance and number % given.round_after == 0:
                began = time.monotonic()
                maintain(name, care, policy)
                took.rounds.append(time.monotonic() - began)
        if number in ends:
            days.append(tell(settings, care, policy, number, number * given.rows, took, list(targets)))
            took = Took()
    return days


def commit(tables: IcebergTables, target: TableTarget, number: int, rows: int, took: Took) -> None:
    name = target.name
    writer = TableWriter(tables.io_properties(), "bench", "r", number, 2**30, 2**40)
    ids = range(number * rows, number * rows + rows)
    columns = {"id": ids, "part": [each % 4 for each in ids], "name": [f"name-{each}" for each in ids]}
    writer.add(target, pa.table(columns, schema=arrow_schema(parse_schema(target.schema_json))))
    files = tuple(writer.finish()[name])
    began, cpu = time.monotonic(), time.thread_time()
    view = tables.load_view(name, "main", "bench")
    assert view is not None
    effect = CommitTable(name, view, uuid.uuid4().hex, files, TableProgress("bench", number), None)
    outcome = tables.commit(effect)
    assert isinstance(outcome, Committed), outcome
    took.commits.append(time.monotonic() - began)
    took.cpu.append(time.thread_time() - cpu)


def maintain(name: str, care: TableCare, policy: MaintenancePolicy) -> None:
    care.compact(name, policy.compaction, dry_run=False)
    care.merge_manifests(name, policy.manifests, dry_run=False)
    went = expire_once(name, care, policy, {}, dry_run=False)
    if went is not None:
        care.remove(name, went.paths)


def tell(
    settings: Mapping[str, str],
    care: TableCare,
    policy: MaintenancePolicy,
    commits: int,
    rows: int,
    took: Took,
    names: Sequence[str],
) -> Day:
    health = [found for name in names if (found := care.health(name, policy)) is not None]
    plain = SqlCatalog("default", uri=settings["uri"], warehouse=settings["warehouse"]).load_table(names[0])
    on_disk = sum(path.is_file() for path in Path(plain.location().removeprefix("file://")).rglob("*"))
    command = [sys.executable, "-m", "benchmarks.maintained_table", "--scan", settings["uri"], settings["warehouse"]]
    seconds, count, distinct = json.loads(subprocess.check_output([*command, names[0]], text=True))
    assert (count, distinct) == (rows, rows)  # every row once
    gc.collect()
    day = Day(
        commit_ms=median(took.commits) * 1000,
        commit_cpu_ms=median(took.cpu) * 1000,
        round_ms=median(took.rounds or [0]) * 1000,
        data_files=sum(each.data_files for each in health) / len(names),
        files_on_disk=on_disk,
        snapshots=sum(each.snapshots for each in health) / len(names),
        metadata_kb=sum(each.metadata_bytes for each in health) / len(names) / 1000,
        scan_s=seconds / (rows / 1e6),
        memory_mib=int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20,
    )
    print(
        f"{commits:>7,} commits: commit {day.commit_ms:5.1f} ms, {day.commit_cpu_ms:5.1f} of CPU, round "
        f"{day.round_ms:6.0f} ms, {day.data_files:>6,.0f} data files, {day.files_on_disk:>6,.0f} on disk, "
        f"{day.snapshots:>5,.0f} snapshots, metadata {day.metadata_kb:6,.0f} kB, scan {day.scan_s:5.2f} s a million rows, "
        f"memory {day.memory_mib:,.0f} MiB",
        flush=True,
    )
    return day


def scan(uri: str, warehouse: str, name: str) -> tuple[float, int, int]:
    """Seconds of a full scan, rows and distinct ids."""
    table = SqlCatalog("default", uri=uri, warehouse=warehouse).load_table(name)
    table.scan(limit=1).to_arrow()  # what is loaded once
    began = time.monotonic()
    rows = table.scan().to_arrow()
    return time.monotonic() - began, len(rows), len(rows["id"].unique())


def is_flat(days: Sequence[Day]) -> bool:
    """Whether what a commit costs and what a table has is not more on the last day than on the second."""
    second, last = days[min(1, len(days) - 1)], days[-1]
    ratios = {
        word: getattr(last, word) / max(getattr(second, word), 1e-9)
        for word in ("commit_cpu_ms", "metadata_kb", "data_files", "scan_s", "memory_mib")
    }
    print("last day to the second:", ", ".join(f"{word} {ratio:.2f}" for word, ratio in ratios.items()))
    # A handful of data files more or less is what the last round left, not growth.
    return all(ratio <= FLAT or (word == "data_files" and last.data_files < 40) for word, ratio in ratios.items())


if __name__ == "__main__":
    sys.exit(main())
