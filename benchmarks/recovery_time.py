"""How long a table stands still when its driver is killed: from kill -9 to the next snapshot with rows.

In: nothing but options. Out: a table for people, and with `--json FILE` the same figures for machines. A real broker, a
SQLite catalog and `floe run` as a process; records come steadily, the driver is killed with SIGKILL at a random moment
of its interval, and a supervisor starts it again at once. `commit` is the time from the kill to the next snapshot of
the table, `fresh` to the first snapshot that holds a record produced after the kill. `start`, `spark`, `leader` and
`batch` say when the new driver printed its first word, asked for Spark, owned the control topic and announced, all
since the kill.

    python benchmarks/recovery_time.py --intervals 1,10 --kills 5
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from framework.local import stack

TABLE = "bench.events"
TARGET = """apiVersion: floe/v1
kind: Target
metadata: {{name: bench}}
connections:
  kafka: {{main: {{bootstrap.servers: "{servers}"}}}}
  catalog: {{default: {{type: sql, uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}}}
spark: {{master: "local[2,4]"}}
"""
PIPELINE = """apiVersion: floe/v1
kind: Pipeline
metadata: {{name: recovery-{interval}}}
source:
  kafka: {{connection: main, topics: [events-{interval}]}}
  format: {{type: json}}
routes:
  rules: [{{table: {table}_{interval}}}]
  allow_tables: ["bench.*"]
  unrouted: fail
tables: {{defaults: {{commit: {{interval: {interval}s}}}}}}
errors: {{policy: fail}}
commit: {{control_topic: control-{interval}}}
"""
# What the driver prints when it has come so far.
MARKS = {"spark": "starting Spark", "leader": "coordinates", "batch": "announced in"}
PATIENCE_S = 240.0


class Flow:
    """About `rate` records a second, each with its time, until `stop`."""

    def __init__(self, servers: str, topic: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self._topic, self._rate = topic, rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.1):
            for _ in range(self._rate // 10):
                number += 1
                self._producer.produce(self._topic, json.dumps({"id": number, "at_ms": _now_ms()}).encode())
            self._producer.poll(0)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(30)


class Driver:
    """`floe run`, its words with the times at which they came."""

    def __init__(self, folder: Path, file: Path) -> None:
        command = [sys.executable, "-m", "framework.cli.main", "run", str(file), "--target", "bench"]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.lines: list[tuple[int, str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append((_now_ms(), line.rstrip()))

    def first(self, text: str = "") -> int | None:
        return next((at for at, line in self.lines if text in line), None)

    def kill(self) -> int:
        """SIGKILL to the driver's Python alone; its children notice by themselves. Returns when."""
        at = _now_ms()
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return at

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def commits(catalog: Catalog, table: str) -> list[tuple[int, int]]:
    """Snapshot id and time of each snapshot that added rows, oldest first."""
    try:
        loaded = catalog.load_table(table)
    except NoSuchTableError:
        return []
    return [
        (s.snapshot_id, s.timestamp_ms)
        for s in loaded.snapshots()
        if s.summary and s.summary.additional_properties.get("added-records")
    ]


def wait_until_fresh(catalog: Catalog, table: str, since_ms: int, driver: Driver) -> int:
    """When the first snapshot came that holds a record produced at or after `since_ms`."""
    limit = time.monotonic() + PATIENCE_S
    looked_at: set[int] = set()
    while time.monotonic() < limit:
        for snapshot_id, at in commits(catalog, table):
            if at < since_ms or snapshot_id in looked_at:
                continue
            scan = catalog.load_table(table).scan(row_filter=f"at_ms >= {since_ms}", snapshot_id=snapshot_id, limit=1)
            if len(scan.to_arrow()):
                return at
            looked_at.add(snapshot_id)
        if driver.process.poll() is not None:
            raise SystemExit("\n".join(line for _, line in driver.lines))
        time.sleep(0.1)
    raise SystemExit(f"no fresh row within {PATIENCE_S:.0f} s\n" + "\n".join(line for _, line in driver.lines))


def measure(folder: Path, servers: str, interval_s: int, kills: int, rate: int) -> list[dict[str, float]]:
    topic, table = f"events-{interval_s}", f"{TABLE}_{interval_s}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
    file = folder / "pipelines" / f"recovery-{interval_s}.yaml"
    file.write_text(PIPELINE.format(interval=interval_s, table=TABLE))
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    chance = random.Random(interval_s)
    found: list[dict[str, float]] = []
    flow = Flow(servers, topic, rate)
    driver = Driver(folder, file)
    try:
        wait_until_fresh(catalog, table, _now_ms(), driver)
        for _ in range(kills):
            wait_until_fresh(catalog, table, _now_ms(), driver)  # steady again
            time.sleep(chance.uniform(0.0, interval_s))
            killed_ms = driver.kill()
            driver = Driver(folder, file)
            fresh_ms = wait_until_fresh(catalog, table, killed_ms, driver)
            commit_ms = min(at for _, at in commits(catalog, table) if at > killed_ms)
            times = {"commit": commit_ms, "fresh": fresh_ms, "start": driver.first() or killed_ms}
            times |= {name: driver.first(text) or killed_ms for name, text in MARKS.items()}
            found.append({name: round((at - killed_ms) / 1000, 1) for name, at in times.items()})
            print(f"interval {interval_s} s: {found[-1]}", file=sys.stderr)
    finally:
        driver.end()
        flow.stop()
    return found


def _now_ms() -> int:
    return int(time.time() * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--intervals", default="1,10", help="commit intervals in seconds")
    parser.add_argument("--kills", type=int, default=5, help="kills at each interval")
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pipelines" / "targets").mkdir(parents=True)
        (folder / "warehouse").mkdir()
        state = stack.up(folder / "stack", kafka_port=0)
        try:
            target = TARGET.format(servers=state.bootstrap_servers, folder=folder)
            (folder / "pipelines" / "targets" / "bench.yaml").write_text(target)
            for interval_s in map(int, options.intervals.split(",")):
                runs = measure(folder, state.bootstrap_servers, interval_s, options.kills, options.rate)
                medians = {name: round(statistics.median(run[name] for run in runs), 1) for name in runs[0]}
                worst = {f"{name}_max": max(run[name] for run in runs) for name in ("commit", "fresh")}
                results.append({"interval_s": interval_s, "kills": len(runs), **medians, **worst, "runs": runs})
        finally:
            stack.down(folder / "stack", wipe=True)
    columns = [column for column in results[0] if column != "runs"]
    print("  ".join(columns))
    for result in results:
        print("  ".join(f"{result[column]:>{len(column)}}" for column in columns))
    load = os.getloadavg()[0]
    print(f"seconds since the kill, medians; {os.cpu_count()} cores, load average {load:.1f}")
    if options.json:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "results": results}
        options.json.write_text(json.dumps(machine, indent=2) + "\n")


if __name__ == "__main__":
    main()
