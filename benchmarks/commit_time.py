"""How long one table commit takes as a table gathers snapshots, all of which are kept.

In: nothing but options. Out: a table for people, and with `--json FILE` the same figures for machines. The table is
real (SQLite catalog, local files); its data files are only announced, since a commit never opens them. A window of
commits is timed when the table has the given number of snapshots, each beside a commit to a table that is new: what a
machine does at the time then falls on both, and `ratio` is the one to look at. `plain` is PyIceberg's own catalog class
on the same table.

    python benchmarks/commit_time.py --snapshots 1,500,2000,5000
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from framework.adapters.iceberg.tables import IcebergTables
from framework.commit.events.event_types import DataFile
from framework.commit.machine.effects import CommitTable, Committed, PipelineProgress, TableProgress
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.table.changes import CreateTable

TABLE = "bench.orders"
TOPIC = "control-topic-id"
FIELDS = [
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "at", TimestamptzType(), required=False),
    *(NestedField(number, f"column_{number}", StringType(), required=False) for number in range(3, 13)),
]


def data_files(count: int, number: int) -> tuple[DataFile, ...]:
    """Files as an announcement names them, with metrics for every column."""
    keys = [str(field.field_id) for field in FIELDS]
    return tuple(
        DataFile(
            path=f"file:///bench/data/{uuid.uuid4()}.parquet",
            record_count=100_000,
            file_size_bytes=8_000_000,
            spec_id=0,
            partition=(19_000 + number % 30,),
            column_sizes=dict.fromkeys(keys, 650_000),
            value_counts=dict.fromkeys(keys, 100_000),
            null_value_counts=dict.fromkeys(keys, 0),
            lower_bounds=dict.fromkeys(keys, "AAAAAAAAAAA="),
            upper_bounds=dict.fromkeys(keys, "/////////38="),
            split_offsets=(4,),
        )
        for _ in range(count)
    )


def commit(tables: IcebergTables, number: int, files: int, name: str = TABLE) -> tuple[float, float, float]:
    """One cycle as the coordinator runs it.

    Gives, in milliseconds, how long loading the view and committing took, and the processor time of the commit, which
    other work on the machine disturbs less.
    """
    announced = data_files(files, number)
    begin = time.perf_counter()
    view = tables.load_view(name, "main", TOPIC)
    loaded = time.perf_counter()
    assert view is not None
    pipeline = PipelineProgress(number, {"orders": {str(p): number * 1000 for p in range(12)}}, {"orders": "id"})
    effect = CommitTable(
        name, view, uuid.uuid4().hex, announced, TableProgress(TOPIC, number, {"orders": pipeline}), number
    )
    used = time.process_time()
    started = time.perf_counter()
    answer = tables.commit(effect)
    end = time.perf_counter()
    used = time.process_time() - used
    assert isinstance(answer, Committed), answer
    return (loaded - begin) * 1000, (end - started) * 1000, used * 1000


def new_table(tables: IcebergTables, name: str, files: int) -> None:
    """A table whose next commit is its tenth."""
    schema = Schema(*FIELDS).model_dump_json()
    tables.create_table(CreateTable(name, schema, (PartitionFieldSpec("at", "day"),), ()))
    for number in range(1, 10):
        commit(tables, number, files, name)


def measure(tables: IcebergTables, first: int, window: int, files: int, beside: str | None = None) -> dict[str, float]:
    times, others = [], []
    for each in range(window):
        times.append(commit(tables, first + each, files))
        if beside is not None:
            others.append(commit(tables, 10 + each, files, beside))
    commits = sorted(took for _, took, _ in times)
    figures = {
        "view_ms": round(statistics.median(took for took, _, _ in times), 1),
        "commit_ms": round(statistics.median(commits), 1),
        "commit_p95_ms": round(commits[int(len(commits) * 0.95)], 1),
        "commit_max_ms": round(commits[-1], 1),
        "commit_cpu_ms": round(statistics.median(used for _, _, used in times), 1),
    }
    if others:
        new = statistics.median(took for _, took, _ in others)
        figures |= {"new_table_ms": round(new, 1), "ratio": round(statistics.median(commits) / new, 2)}
    return figures


def run(points: list[int], window: int, plain_window: int, files: int, folder: Path) -> list[dict[str, float]]:
    settings = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    flat = IcebergTables({**settings, "type": "sql"})
    plain = IcebergTables({**settings, "py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog"})
    schema = Schema(*FIELDS).model_dump_json()
    flat.create_table(CreateTable(TABLE, schema, (PartitionFieldSpec("at", "day"),), ()))
    metadata = folder / "warehouse" / TABLE.replace(".", "/") / "metadata"
    done = 0
    results = []
    for point in points:
        while done < point - 1:
            done += 1
            commit(flat, done, files)
        if point > 1:  # one commit after a pause of the other kind, so that the window is what a running job sees
            done += 1
            commit(flat, done, files)
        beside = f"bench.new_{point}"
        new_table(flat, beside, files)
        figures = measure(flat, done + 1, window, files, beside)
        done += window
        after = measure(plain, done + 1, plain_window, files)
        done += plain_window
        target = flat.load_target(TABLE, TablePolicy())
        assert target is not None
        newest = max(metadata.glob("*.metadata.json"), key=lambda path: path.name)
        results.append(
            {
                "snapshots": point,
                **figures,
                "plain_ms": after["commit_ms"],
                "plain_cpu_ms": after["commit_cpu_ms"],
                "metadata_file_kib": round(newest.stat().st_size / 1024),
                "metadata_files": len(list(metadata.glob("*.metadata.json"))),
                "peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--snapshots", default="1,500,2000,5000", help="numbers of snapshots at which to measure")
    parser.add_argument("--window", type=int, default=50, help="commits that are timed at each")
    parser.add_argument(
        "--plain-window", type=int, default=10, help="commits that are timed with PyIceberg's own class"
    )
    parser.add_argument("--files", type=int, default=3, help="data files in each commit")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    points = [int(point) for point in options.snapshots.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        results = run(points, options.window, options.plain_window, options.files, Path(folder))
    columns = list(results[0])
    print("  ".join(columns))
    for result in results:
        print("  ".join(f"{result[column]:>{len(column)}}" for column in columns))
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "results": results}
        options.json.write_text(json.dumps(machine, indent=2) + "\n")


if __name__ == "__main__":
    main()
