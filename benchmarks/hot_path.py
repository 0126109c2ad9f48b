"""Where the CPU of the data plane goes: fetch, process (decode, route, convert) and write, per million records.

In: nothing but options. Out: a table for people, and with `--json FILE` the same figures for machines. A broker and a
catalog of their own are started on loopback; one process reads the topic as a task would, once with each reader. CPU is
user and system time: of the main thread for process and write, all the rest of the process (librdkafka's threads) is
fetch.

    python benchmarks/hot_path.py --records 400000
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import records
from framework.adapters.host.memory import keep_large_blocks
from framework.adapters.iceberg.tables import IcebergTables
from framework.adapters.kafka import fetch as kafka_fetch
from framework.adapters.kafka.admin import KafkaAdmin
from framework.adapters.kafka.fetch import RangeFetcher
from framework.adapters.kafka.reader import CompiledReader, PythonReader, compiled
from framework.adapters.parquet.files import TableWriter
from framework.adapters.project.files import load_or_raise
from framework.local import stack
from framework.plan.compile import compile_plan
from framework.plan.model import Plan
from framework.record.json import compiled as compiled_json
from framework.record.model import RecordBlock, TaskRange
from framework.record.process import process_block, process_block_into, records_in_block
from framework.record.rows.scatter import available
from framework.record.state.block_tables import BlockTables
from framework.runtime.tables.registry import TableRegistry

CASES: dict[str, tuple[records.Encode, str]] = {
    "1 table": (records.one_table, "bench.orders"),
    "100 tables": (records.many_tables("bench", 100), "bench.{kind}"),
    "1000 tables": (records.many_tables("bench", 1000), "bench.{kind}"),
    "wide": (records.wide, "bench.wide"),
}
READERS = {"python": PythonReader, "compiled": CompiledReader}


@contextmanager
def broker(folder: Path) -> Iterator[stack.LocalState]:
    state = stack.up(folder, kafka_port=0)
    try:
        yield state
    finally:
        stack.down(folder, wipe=True)


def load(servers: str, topic: str, encode: records.Encode, count: int, compression: str) -> int:
    """Fill a topic of one partition; returns the mean size of a record in bytes."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "compression.type": compression})
    size = 0
    for value in records.numbered(encode, count):
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)
    return size // count


def plan_of(folder: Path, servers: str, topic: str, table: str) -> Plan:
    """The plan of a pipeline as a user would write it."""
    (folder / "pipelines" / "targets").mkdir(parents=True, exist_ok=True)
    (folder / "pipelines" / "targets" / "bench.yaml").write_text(
        "apiVersion: floe/v1\nkind: Target\nmetadata: {name: bench}\nprefix: bench\nconnections:\n"
        f'  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}\n'
        f'  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/c.db", warehouse: "file://{folder}/w"}}}}\n'
        'spark: {master: "local[2]"}\n'
    )
    name = f"p{uuid.uuid4().hex[:6]}"
    path = folder / "pipelines" / f"{name}.yaml"
    path.write_text(
        f"apiVersion: floe/v1\nkind: Pipeline\nmetadata: {{name: {name}}}\n"
        f"source: {{kafka: {{connection: main, topics: [{topic}]}}}}\n"
        f'routes:\n  rules: [{{table: "{table}"}}]\n  allow_tables: ["bench.*"]\n  max_new_tables_per_hour: 100000\n'
        "errors: {policy: dead_letter, dead_letter_table: bench.dead_letters}\n"
    )
    [pipeline] = load_or_raise([str(path)], "bench")
    return compile_plan(pipeline)


class Task:
    """Reads one partition from its start to its end as a task does, and keeps account of the CPU."""

    def __init__(self, folder: Path, servers: str, topic: str, plan: Plan) -> None:
        self.kafka = {"bootstrap.servers": servers}
        self.plan = plan
        catalog = IcebergTables({"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"})
        self.registry = TableRegistry(plan, catalog, lambda text: None)
        self.io = catalog.io_properties()
        admin = KafkaAdmin(self.kafka)
        end = admin.end_offsets([(topic, 0)])[topic, 0]
        self.piece = TaskRange(topic, admin.topics([topic])[topic].topic_id, 0, 0, end)

    def blocks(self) -> Iterator[RecordBlock]:
        records = records_in_block(self.plan.decode.block_records, len(self.registry.targets), available())
        return RangeFetcher(self.kafka).fetch(self.piece, records)

    def create_tables(self) -> None:
        for _ in range(4):
            needs = [n for block in self.blocks() for n in self._needs(block)]
            if not needs:
                return
            self.registry.satisfy(needs)

    def _needs(self, block: RecordBlock) -> list:  # type: ignore[type-arg]
        return list(process_block(block, self.plan, self.registry.targets).needs.values())

    def run(self) -> dict[str, float]:
        """CPU seconds per million records."""
        keep_large_blocks()
        plan = self.plan
        writer = TableWriter(self.io, plan.pipeline, "run", 1, plan.write.buffer_bytes, plan.write.target_file_bytes)
        process = write = 0.0
        tables = self.registry.targets
        prepared = BlockTables(plan, tables)
        began = time.process_time()
        for block in self.blocks():
            at = time.thread_time()
            result = process_block_into(block, prepared, encode=True, scatter=available())
            process += time.thread_time() - at
            at = time.thread_time()
            for name, rows in result.rows.items():
                writer.add(tables[name], rows)
            for alike in result.alike:
                if not writer.add_alike([tables[name] for name in alike.tables], alike):
                    raise AssertionError("columns that cannot be put apart")
            del block, result
            write += time.thread_time() - at
        at = time.thread_time()
        writer.finish()
        write += time.thread_time() - at
        total = time.process_time() - began
        million = (self.piece.end - self.piece.start) / 1e6
        spent = {"fetch": total - process - write, "process": process, "write": write, "total": total}
        return {stage: round(seconds / million, 2) for stage, seconds in spent.items()}


def measure(folder: Path, servers: str, options: argparse.Namespace) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for case, (encode, table) in CASES.items():
        if options.case and case not in options.case:
            continue
        topic = f"{case.replace(' ', '-')}-{uuid.uuid4().hex[:4]}"
        count = options.records // 4 if case == "wide" else options.records
        size = load(servers, topic, encode, count, options.compression)
        task = Task(folder, servers, topic, plan_of(folder, servers, topic, table))
        task.create_tables()
        for name in options.reader or READERS:
            kafka_fetch.open_reader = READERS[name]  # type: ignore[attr-defined]
            kafka_fetch._connections.clear()
            task.run()  # caches are filled, imports done
            runs = [task.run() for _ in range(options.rounds)]
            best = min(runs, key=lambda run: run["total"])
            results.append({"case": case, "bytes": size, "records": count, "reader": name, **best})
            if options.profile:
                profile = cProfile.Profile()
                profile.runcall(task.run)
                print(f"---- {case}, {name} reader")
                pstats.Stats(profile).sort_stats("tottime").print_stats(options.profile)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--records", type=int, default=400_000, help="records of a case (a quarter of it for wide ones)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of which the cheapest counts")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--reader", action="append", choices=READERS)
    parser.add_argument("--parser", choices=["compiled", "arrow"], default="compiled", help="of plain JSON")
    parser.add_argument("--compression", default="lz4")
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="also print the N dearest functions")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    if options.parser == "arrow":
        compiled_json.available = lambda: False
    if compiled() is None:
        options.reader = ["python"]
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as state:
        results = measure(Path(name), state.bootstrap_servers, options)
    columns = list(results[0])
    print("CPU seconds per million records")
    print("  ".join(f"{column:>10}" for column in columns))
    for result in results:
        print("  ".join(f"{result[column]!s:>10}" for column in columns))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
