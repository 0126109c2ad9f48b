"""A coordinator with many tables due at once: how long until all are committed, and whether its memory stays the same.

In: how many tables and rounds. Out: a line for each round, and with `--json FILE` the same figures for machines.
Broker, catalog (SQLite, local files) and `floe coordinator`, a process of its own, are real; what is announced are
files of which only the metadata exists, since a commit neither opens them nor looks for young ones. In each round every
table has one announcement; the round ends when the coordinator has answered that all of it is committed.

    python -m benchmarks.due_at_once --tables 1000 --rounds 5
    python -m benchmarks.due_at_once --tables 100 --rounds 3 --commit-s 5.2 9.7   # a catalog that takes so long for a commit
    python -m benchmarks.due_at_once --tables 3000 --rounds 3 --topics 3          # three control topics, a coordinator each
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform

from benchmarks.commit_time import FIELDS, data_files
from benchmarks.processes import Costs
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.commit.events.event_types import (
    Accounting,
    ControlEvent,
    DataComplete,
    DataWritten,
    SourceRange,
    TableCommitPolicy,
)
from framework.local import stack
from framework.runtime.coordinator.catalog_requests import COMMITTERS
from framework.runtime.job import ask_commit

DEADLINE_S = 600.0
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: bench}}
prefix: bench
connections:
  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}
  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}
"""


def _now_ms() -> int:
    return int(time.time() * 1000)


def announce(kafka: dict[str, str], topic: str, uuids: dict[str, str], batch: int) -> None:
    """One batch with a file for each table of a control topic."""
    rows = 100_000
    per_batch = rows * len(uuids)
    ranges = (SourceRange("orders", "id-of-orders", 0, (batch - 1) * per_batch, batch * per_batch, 1_000),)
    policy = TableCommitPolicy(1_000, 1 << 40, 1 << 40)
    events: list[ControlEvent] = [
        DataWritten(
            "bench", "run", batch, name, table_uuid, 0, data_files(1, batch), ranges, policy, begun_ms=_now_ms()
        )
        for name, table_uuid in uuids.items()
    ]
    line = Accounting(per_batch, per_batch, rows=per_batch)
    events.append(DataComplete("bench", "run", batch, ranges, line, line, tuple(uuids)))
    publisher = ControlPublisher(kafka, topic)
    publisher.publish(events)
    publisher.close()


def _allowed(tables: int, commit_s: tuple[float, float]) -> dict[str, float]:
    """What `floe doctor` says of such commits: the shortest interval for all tables, with all committers at work."""
    slow_s = commit_s[0] + 0.95 * (commit_s[1] - commit_s[0])
    return {"commit_s": round(sum(commit_s) / 2, 2), "shortest_interval_s": round(tables * slow_s / COMMITTERS, 1)}


def run(
    tables: int, rounds: int, folder: Path, commit_s: tuple[float, float] | None, topics: int = 1
) -> list[dict[str, float]]:
    found = stack.up(folder / "stack", kafka_port=0)
    kafka = {"bootstrap.servers": found.bootstrap_servers}
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace("bench")
    names = [f"bench.t{number:04}" for number in range(tables)]
    by_day = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
    made = ((name, catalog.create_table(name, Schema(*FIELDS), partition_spec=by_day)) for name in names)
    uuids = {name: str(table.metadata.table_uuid) for name, table in made}
    parts = {
        f"control-{number}": {name: uuids[name] for name in names[number - 1 :: topics]}
        for number in range(1, topics + 1)
    }
    print(f"{tables:,} tables are made", file=sys.stderr, flush=True)
    (folder / "pipelines" / "targets").mkdir(parents=True)
    (folder / "pipelines" / "targets" / "bench.yaml").write_text(
        TARGET.format(servers=found.bootstrap_servers, folder=folder)
    )
    module = ["benchmarks.slow_commits", *map(str, commit_s)] if commit_s else ["framework.cli.main"]
    coordinators: list[subprocess.Popen[bytes]] = []
    results: list[dict[str, float]] = []
    try:
        for topic in parts:
            ensure_control_topic(KafkaAdmin(kafka), topic)
            coordinators.append(
                subprocess.Popen(
                    [sys.executable, "-m", *module, "coordinator", "--control-topic", topic, "--target", "bench"],
                    cwd=folder,
                    env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                    stdout=subprocess.DEVNULL,
                    stderr=None,
                )
            )
            ask_commit(kafka, topic, DEADLINE_S, None)  # it runs, and has nothing to do
        costs = [Costs(each.pid).start() for each in coordinators]
        for number in range(1, rounds + 1):
            before = sum(each.cpu_s for each in costs)
            for topic, own in parts.items():
                announce(kafka, topic, own, number)
            began = time.monotonic()
            with ThreadPoolExecutor(topics) as pool:
                answers = list(pool.map(lambda topic: ask_commit(kafka, topic, DEADLINE_S, None), parts))
            if blocked := {table: why for answer in answers for table, why in answer.blocked.items()}:
                raise RuntimeError(f"blocked: {sorted(blocked.items())[0]}")
            results.append(
                {
                    "round": number,
                    "tables": tables,
                    "coordinators": topics,
                    "seconds": round(time.monotonic() - began, 1),
                    **(_allowed(tables, commit_s) if commit_s else {}),
                    "cpu_s": round(sum(each.cpu_s for each in costs) - before, 1),
                    "peak_memory_mb": round(max(each.peak_bytes for each in costs) / 1e6),
                }
            )
            print(results[-1], flush=True)
        for each in costs:
            each.stop()
    finally:
        for coordinator in coordinators:
            coordinator.terminate()
        for coordinator in coordinators:
            coordinator.wait(60)
        stack.down(folder / "stack", wipe=True)
    for name in names:
        head = catalog.load_table(name).current_snapshot()
        if head is None or head.summary is None or head.summary["total-data-files"] != str(rounds):
            raise RuntimeError(f"{name} does not hold what was announced: {head}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--commit-s", type=float, nargs=2, metavar=("LEAST", "MOST"), help="how long a commit takes, at least"
    )
    parser.add_argument("--topics", type=int, default=1, help="control topics, each with a coordinator and its tables")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floe-due-") as folder:
        results = run(options.tables, options.rounds, Path(folder), options.commit_s, options.topics)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
