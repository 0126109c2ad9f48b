"""Whether memory stays bounded: a pipeline, a coordinator and people who look, for two hours.

In: tables, an interval, records a second, minutes. Out: a line each five minutes, all samples as JSON if asked for, and
a verdict: exit code 1 if a process holds more than it may. Broker, catalog (SQLite, local files), `floe run` and `floe
coordinator` are real; both serve `/metrics`, which is scraped each 15 seconds, and the page, which three follow on each.

What may grow: of a Python process the median of the last quarter of the run may be 1.10 times that of the second
quarter. Within two hours that is an hour, 7,200 commits to tables and 360 batches: of a coordinator of 200 MB, whatever
keeps 2.8 kB a commit is seen. The JVM's live heap, after a full collection, may be 1.10 times that after the first
quarter, and its memory the heap's setting and 400 MB beside it. Snapshots expire after five minutes, so that tables are
as large in the second quarter as in the last one.

    python -m benchmarks.long_run --minutes 120
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from benchmarks.looks import Looks, addresses
from framework.local import stack

TOPIC, PARTITIONS = "long", 4
SAMPLE_EVERY_S, TELL_EVERY_S = 30.0, 300.0
GROWTH = 1.10
HEAP_MB, BESIDE_HEAP_MB = 512, 400
PATIENCE_S = 180.0
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: long}}
prefix: long
connections:
  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}
  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}
spark: {{master: "local[2,4]", conf: {{spark.driver.memory: {heap}m}}}}
monitoring: {{listen: "127.0.0.1:19464", page: "127.0.0.1:18765"}}
"""
PIPELINE = """apiVersion: floe/v1
kind: Pipeline
metadata: {{name: long}}
source: {{kafka: {{connection: main, topics: [{topic}]}}}}
routes:
  rules: [{{table: "long.{{kind}}"}}]
  allow_tables: ["long.*"]
tables:
  defaults:
    commit: {{interval: {interval}s}}
    maintenance: {{expire: {{max_snapshot_age: 5m, rollback_window: 5m, reader_lease: 5m}}}}
errors: {{policy: dead_letter, dead_letter_table: long.dead_letters}}
commit: {{control_topic: control-long}}
"""


@dataclass(frozen=True)
class Sample:
    """At one moment of the run, what each part holds, in MB; `cpu_s` is what all of floe's have spent so far."""

    at_s: float
    driver_mb: float
    jvm_mb: float
    workers_mb: float
    coordinator_mb: float
    cpu_s: float


def faults(samples: Sequence[Sample], live_heaps_mb: Sequence[float], duration_s: float) -> list[str]:
    """What holds more than it may; nothing if memory is bounded."""
    found = []
    for part in ("driver_mb", "workers_mb", "coordinator_mb"):
        early, late = quarter(samples, part, 1, duration_s), quarter(samples, part, 3, duration_s)
        if late > GROWTH * early:
            found.append(f"{part}: {late:.1f} in the last quarter, {early:.1f} in the second: {late / early:.2f} times")
    if live_heaps_mb[-1] > GROWTH * live_heaps_mb[0]:
        found.append(f"live heap of the JVM: {live_heaps_mb[0]:.1f} MB, and at the end {live_heaps_mb[-1]:.1f} MB")
    highest = max(each.jvm_mb for each in samples)
    if highest > HEAP_MB + BESIDE_HEAP_MB:
        found.append(f"jvm_mb: {highest:.1f}, with a heap of {HEAP_MB} MB")
    return found


def quarter(samples: Sequence[Sample], part: str, number: int, duration_s: float) -> float:
    """The median of one part in one of the run's four quarters, counted from 0."""
    begin, end = number * duration_s / 4, (number + 1) * duration_s / 4
    return median(float(getattr(each, part)) for each in samples if begin <= each.at_s <= end)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--interval", type=int, default=10, help="seconds between two commits of a table")
    parser.add_argument("--records", type=int, default=100, help="a second, for all tables together")
    parser.add_argument("--folder", type=Path, help="an empty folder that stays, with the logs")
    parser.add_argument("--json", type=Path, help="write all samples here, too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floe-long-") as folder:
        samples, heaps = run(given.folder or Path(folder), given)
    if given.json:
        value = {"samples": [asdict(each) for each in samples], "live_heaps_mb": heaps}
        given.json.write_text(json.dumps(value, indent=1) + "\n")
    duration_s = given.minutes * 60
    for part in ("driver_mb", "jvm_mb", "workers_mb", "coordinator_mb"):
        early, late = quarter(samples, part, 1, duration_s), quarter(samples, part, 3, duration_s)
        most = max(float(getattr(each, part)) for each in samples)
        print(f"{part}: second quarter {early:.1f}, last {late:.1f} ({late / early:.3f} times), most {most:.1f}")
    print("live heap of the JVM after each quarter, MB:", " ".join(f"{each:.1f}" for each in heaps))
    found = faults(samples, heaps, duration_s)
    print("\n".join(found) or "memory is bounded")
    return 1 if found else 0


def run(folder: Path, given: argparse.Namespace) -> tuple[list[Sample], list[float]]:
    broker = stack.up(folder / "stack", kafka_port=0)
    end = threading.Event()
    started: list[subprocess.Popen[bytes]] = []
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        (folder / "pipelines" / "targets").mkdir(parents=True)
        target = TARGET.format(servers=broker.bootstrap_servers, folder=folder, heap=HEAP_MB)
        (folder / "pipelines" / "targets" / "long.yaml").write_text(target)
        pipeline = PIPELINE.format(topic=TOPIC, interval=given.interval)
        (folder / "pipelines" / "long.yaml").write_text(pipeline)
        coordinator = floe(folder, "coordinator", "--control-topic", "control-long")
        started.append(coordinator)
        seats = [wait_for_addresses(folder / "coordinator.log", coordinator)]
        driver = floe(folder, "run", "pipelines/long.yaml")
        started.append(driver)
        seats.append(wait_for_addresses(folder / "run.log", driver))
        looks = Looks(end)
        for metrics, page in seats:
            looks.at(metrics, page, "/pipelines/long", "/tables/long.kind_00")
        produced = Produced(broker.bootstrap_servers, given.tables, given.records, end)
        produced.thread.start()
        measured = watch(driver, coordinator, given.minutes * 60, looks)
        end.set()
        produced.thread.join(60)
        check_rows(folder, produced)
        for process in reversed(started):  # the driver first: its last batch is committed by the coordinator
            process.send_signal(signal.SIGTERM)
            code = process.wait(PATIENCE_S)
            assert code == 0, f"a process ended with {code}"
        return measured
    finally:
        end.set()
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        stack.down(folder / "stack", wipe=True)


def floe(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "framework.cli.main", *words, "--target", "long"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    with (folder / f"{words[0]}.log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def wait_for_addresses(log: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Where a started process serves its metrics and its page."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if found := addresses(log):
            return found
        time.sleep(0.5)
    raise RuntimeError(f"a process does not begin:\n{log.read_text(errors='replace')[-3000:]}")


class Produced:
    """Records for each table in turn, some each second."""

    def __init__(self, servers: str, tables: int, records: int, end: threading.Event) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
        self._records, self._end = records, end
        self.names = [f"kind_{number:02}" for number in range(tables)]
        self.count = 0
        self.thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def _run(self) -> None:
        while not self._end.wait(1.0):
            for _ in range(self._records):
                number, self.count = self.count, self.count + 1
                kind = self.names[number % len(self.names)]
                value = {"id": number, "kind": kind, "name": f"name-{number % 997}", "at_ms": int(time.time() * 1000)}
                self._producer.produce(TOPIC, json.dumps(value), partition=number // len(self.names) % PARTITIONS)
            self._producer.flush(30)


def watch(
    driver: subprocess.Popen[bytes], coordinator: subprocess.Popen[bytes], duration_s: float, looks: Looks
) -> tuple[list[Sample], list[float]]:
    """All samples, and the JVM's live heap after each quarter."""
    began = reported = time.monotonic()
    samples: list[Sample] = []
    heaps: list[float] = []
    while (at_s := time.monotonic() - began) < duration_s:
        for process in (driver, coordinator):
            assert process.poll() is None, f"a process ended with {process.returncode}"
        samples.append(sample(at_s, driver.pid, coordinator.pid))
        if at_s >= (len(heaps) + 1) * duration_s / 4:
            heaps.append(live_heap_mb(jvm_of(driver.pid)))
            print(f"{at_s / 60:5.1f} min: live heap of the JVM {heaps[-1]:.1f} MB", flush=True)
        if time.monotonic() - reported >= min(TELL_EVERY_S, duration_s / 4):
            reported += min(TELL_EVERY_S, duration_s / 4)
            one = samples[-1]
            share = (one.cpu_s - samples[0].cpu_s) / (one.at_s - samples[0].at_s)
            print(
                f"{at_s / 60:5.1f} min: driver {one.driver_mb:.1f}, jvm {one.jvm_mb:.1f}, workers {one.workers_mb:.1f},"
                f" coordinator {one.coordinator_mb:.1f} MB; {share:.2f} cores; {looks.scrapes} scrapes,"
                f" {looks.events} events, {looks.failures} failed",
                flush=True,
            )
        time.sleep(max(0.0, min(SAMPLE_EVERY_S, duration_s / 16) - (time.monotonic() - began - at_s)))
    assert min(looks.scrapes, looks.events) > 0, "nobody could look"
    return samples, [*heaps, live_heap_mb(jvm_of(driver.pid))]


def sample(at_s: float, driver: int, coordinator: int) -> Sample:
    jvm = jvm_of(driver)
    workers = list(below(jvm))
    ours = (driver, jvm, coordinator, *workers)
    return Sample(
        round(at_s, 1),
        resident_mb(driver),
        resident_mb(jvm),
        # They share pages with each other: each page counts once.
        round(sum(memory_mb(pid, "smaps_rollup", "Pss:") for pid in workers), 1),
        resident_mb(coordinator),
        round(sum(map(cpu_s, ours)), 2),
    )


def jvm_of(driver: int) -> int:
    return next(pid for pid in below(driver) if (Path(f"/proc/{pid}/comm").read_text().strip() == "java"))


def below(pid: int) -> Iterator[int]:
    """Each process that this one started, and theirs."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from below(child)


def resident_mb(pid: int) -> float:
    return memory_mb(pid, "status", "VmRSS:")


def memory_mb(pid: int, name: str, key: str) -> float:
    """0 for a process that has ended meanwhile."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
            if line.startswith(key):
                return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def cpu_s(pid: int) -> float:
    """Of the process, and of those it started that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def live_heap_mb(jvm: int) -> float:
    """What is left after full collections: Spark lets go of what it held for RDDs and broadcasts after the first one."""
    tool = Path(f"/proc/{jvm}/exe").resolve().parent / "jcmd"
    subprocess.run([str(tool), str(jvm), "GC.run"], check=True, capture_output=True)
    time.sleep(5.0)
    reported = subprocess.run([str(tool), str(jvm), "GC.class_histogram"], check=True, capture_output=True, text=True)
    total = next(line for line in reversed(reported.stdout.splitlines()) if line.startswith("Total"))
    return round(int(total.split()[2]) / 2**20, 1)


def check_rows(folder: Path, produced: Produced) -> None:
    """Waits until every record is in; then each is there once."""
    settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    catalog = load_catalog("default", **settings)
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(total_rows, (catalog.load_table(f"long.{name}") for name in produced.names))) != produced.count:
        assert time.monotonic() < deadline, "rows are missing"
        time.sleep(2.0)
    ids: list[int] = []
    for name in produced.names:
        ids += catalog.load_table(f"long.{name}").scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
    assert sorted(ids) == list(range(produced.count)), "a row is there twice"
    print(f"{len(ids):,} rows in {len(produced.names)} tables, each once", flush=True)


def total_rows(table: Table) -> int:
    newest = table.current_snapshot()
    return int(newest.summary["total-records"] or 0) if newest and newest.summary else 0


if __name__ == "__main__":
    sys.exit(main())
