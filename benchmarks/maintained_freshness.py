"""How fresh tables are while a coordinator maintains them, beside how fresh they are while it does not.

In: how many tables, how often a batch is announced, and for how long. Out: for each of the two runs the median and the
95th percentile of the time from an announcement to the word that its table has it, what maintenance did, and the ratio
of the percentiles. Broker, catalog (SQLite, local files) and `floe coordinator`, a process of its own, are real, and so
are the files, since maintenance rewrites them. Every row is counted at the end, once. The first tenth of each run is not
counted. Rounds come after five commits and at least ten seconds, so that in few minutes there are as many as in an hour.

    python -m benchmarks.maintained_freshness --tables 20 --every 2 --seconds 180
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import quantiles

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from benchmarks.maintained_table import SCHEMA
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.control.log import ControlPublisher, ControlReader
from framework.adapters.kafka.control.topic import ensure_control_topic
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import (
    Accounting,
    CommitToTable,
    ControlEvent,
    DataComplete,
    DataWritten,
    Deployed,
    SourceRange,
    TableCommitPolicy,
)
from framework.config.spec import (
    KafkaSourceSpec,
    LoadedPipeline,
    PartitionFieldSpec,
    PipelineSpec,
    RouteRule,
    RoutesSpec,
    SourceSpec,
    TablePolicy,
    TablesSpec,
    TargetSpec,
)
from framework.config.values.maintenance import CompactionPolicy, ExpirePolicy, MaintenanceMode, MaintenancePolicy
from framework.local import stack
from framework.plan.canonical import plan_value
from framework.plan.compile import compile_plan
from framework.record.model import TableTarget
from framework.runtime.job import ask_commit
from framework.table.changes import CreateTable
from framework.table.schema.arrow import arrow_schema, parse_schema

TOPIC = "control"
DEADLINE_S = 300.0
WARM = 0.1
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: bench}}
prefix: bench
connections:
  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}
  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}
maintenance: {{enabled: {enabled}, max_cpu_share: {share}}}
"""
# The coordinator, with rounds as often as a long run has them.
COORDINATOR = """
from framework.commit.maintenance import rounds
rounds.LEAST_MS, rounds.COMMITS_BETWEEN = 10_000, 5
from framework.cli.main import main
main()
"""


@dataclass(frozen=True)
class Freshness:
    """Of one run; times in seconds, of all tables together."""

    maintained: bool
    announcements: int
    p50_s: float
    p95_s: float
    worst_s: float
    data_files: int
    compactions: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two batches")
    parser.add_argument("--seconds", type=float, default=180.0, help="of each of the two runs")
    parser.add_argument("--rows", type=int, default=400, help="of a batch for each table, in four partitions")
    parser.add_argument("--cpu-share", type=float, default=1.0)
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    given = parser.parse_args()
    found = []
    for maintained in (False, True):
        with tempfile.TemporaryDirectory(prefix="floe-fresh-") as folder:
            found.append(run(Path(folder), given, maintained))
        print(found[-1], flush=True)
    ratio = found[1].p95_s / found[0].p95_s
    print(f"p95 with maintenance is {ratio:.2f} times that without")
    if given.json:
        given.json.write_text(json.dumps({"ratio": ratio, "runs": [asdict(each) for each in found]}, indent=2) + "\n")
    return 0


def run(folder: Path, given: argparse.Namespace, maintained: bool) -> Freshness:
    broker = stack.up(folder / "stack", kafka_port=0)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    tables = IcebergTables(settings)
    targets = made(tables, given.tables)
    (folder / "pipelines" / "targets").mkdir(parents=True)
    text = TARGET.format(
        servers=broker.bootstrap_servers, folder=folder, enabled=str(maintained).lower(), share=given.cpu_share
    )
    (folder / "pipelines" / "targets" / "bench.yaml").write_text(text)
    ensure_control_topic(KafkaAdmin(kafka), TOPIC)
    publisher = ControlPublisher(kafka, TOPIC)
    publisher.publish((reported(),))
    words = [sys.executable, "-c", COORDINATOR, "coordinator", "--control-topic", TOPIC, "--target", "bench"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    coordinator = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        ask_commit(kafka, TOPIC, DEADLINE_S, None)  # it runs, and has nothing to do
        number, began = 0, time.monotonic()
        while time.monotonic() - began < given.seconds:
            number += 1
            publisher.publish(batch(tables, targets, number, given.rows))
            time.sleep(max(0.0, began + number * given.every - time.monotonic()))
        ask_commit(kafka, TOPIC, DEADLINE_S, None)
    finally:
        coordinator.terminate()
        coordinator.wait(60)
        publisher.close()
    waited = waits(kafka)
    stack.down(folder / "stack", wipe=True)
    files = compactions = 0
    for name in targets:
        table = load_catalog("default", **settings).load_table(name)
        ids = table.scan(selected_fields=("id",)).to_arrow()["id"]
        assert (len(ids), len(ids.unique())) == (number * given.rows,) * 2, f"{name} does not hold every row once"
        files += len(list(table.scan().plan_files()))
        compactions += sum(
            each.summary is not None and each.summary.operation.value == "replace" for each in table.snapshots()
        )
    counted = sorted(waited[int(len(waited) * WARM) :])
    cuts = quantiles(counted, n=20)
    return Freshness(
        maintained, len(counted), round(cuts[9], 3), round(cuts[18], 3), round(counted[-1], 3), files, compactions
    )


def made(tables: IcebergTables, count: int) -> dict[str, TableTarget]:
    properties = (
        ("format-version", "3"),
        ("floe.created", "bench 0"),
        ("write.metadata.delete-after-commit.enabled", "true"),
    )
    targets = {}
    for number in range(count):
        name = f"bench.t{number:03}"
        tables.create_table(CreateTable(name, SCHEMA.model_dump_json(), (PartitionFieldSpec("part"),), properties))
        target = tables.load_target(name, TablePolicy())
        assert target is not None
        targets[name] = target
    return targets


def reported() -> Deployed:
    """The plan of a run whose tables are compacted and whose snapshots expire as soon as they may."""
    policy = MaintenancePolicy(
        MaintenanceMode.ALWAYS,
        CompactionPolicy(),
        ExpirePolicy(max_snapshots=50, rollback_window_ms=1_000, reader_lease_ms=30_000),
    )
    routes = RoutesSpec((RouteRule("bench.t{n}"),))
    spec = PipelineSpec("bench", SourceSpec(KafkaSourceSpec("main", ("orders",))), routes)
    spec = replace(spec, tables=TablesSpec(TablePolicy(maintenance=policy)))
    target = TargetSpec("bench", {"main": {}}, {"default": {}})
    plan = plan_value(compile_plan(LoadedPipeline("bench.yaml", spec, target)))
    value = json.loads(json.dumps({"plan": plan, "settings": {}}))
    return Deployed("bench", "run", "sha256:1", value, "1", int(time.time() * 1000))


def batch(tables: IcebergTables, targets: Mapping[str, TableTarget], number: int, rows: int) -> list[ControlEvent]:
    """One batch: real files for each table."""
    writer = TableWriter(tables.io_properties(), "bench", "r", number, 2**30, 2**40)
    ids = range(number * rows, number * rows + rows)
    columns = {"id": ids, "part": [each % 4 for each in ids], "name": [f"name-{each}" for each in ids]}
    for target in targets.values():
        writer.add(target, pa.table(columns, schema=arrow_schema(parse_schema(target.schema_json))))
    files = writer.finish()
    count = rows * len(targets)
    ranges = (SourceRange("orders", "id-of-orders", 0, (number - 1) * count, number * count, int(time.time() * 1000)),)
    policy = TableCommitPolicy(1_000, 1 << 40, 1 << 40)
    events: list[ControlEvent] = [
        DataWritten(
            "bench", "run", number, name, target.table_uuid, target.schema_id, tuple(files[name]), ranges, policy
        )
        for name, target in targets.items()
    ]
    line, total = Accounting(count, count, rows=count), Accounting(count * number, count * number, rows=count * number)
    events.append(DataComplete("bench", "run", number, ranges, line, total, tuple(targets)))
    return events


def waits(kafka: dict[str, str], topic: str = TOPIC) -> list[float]:
    """For each announcement of a table how long it took until the log said that it is in, in the order of the log."""
    reader = ControlReader(kafka, topic)
    written: dict[str, list[tuple[int, int]]] = {}
    found: list[float] = []
    try:
        reader.seek(0)
        for record in reader.records_until(reader.end_offset()):
            if isinstance(record.event, DataWritten) and record.timestamp_ms is not None:
                written.setdefault(record.event.table, []).append((record.offset, record.timestamp_ms))
            elif isinstance(record.event, CommitToTable):
                open_ = written.get(record.event.table, [])
                found += [
                    (record.event.timestamp_ms - at) / 1000
                    for offset, at in open_
                    if offset < record.event.control_offset
                ]
                written[record.event.table] = [each for each in open_ if each[0] >= record.event.control_offset]
    finally:
        reader.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
