"""floe beside the Iceberg sink for Kafka Connect on one topic, each into tables of its own, and `floe compare` between them.

In: how many records, and whether the sink's worker is killed and started again on the way. Out: what `floe compare` says
of the two tables by position, and exit code 1 if it is not what Kafka holds: floe's table must have every offset once, and
each offset that the sink lost or wrote twice must be named.

    python -m benchmarks.dual_run --records 5000000
    python -m benchmarks.dual_run --records 5000000 --kills 3
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import records
from benchmarks.contenders import Connect, Floe, Job
from benchmarks.servers import Servers

PATIENCE_S, QUIET_S = 900.0, 150.0  # a worker that was killed is missed for as long as its session lasts
PLACE = ("_kafka_topic", "_kafka_partition", "_kafka_offset")


class PlacedFloe(Floe):
    """With a record's place in Kafka in each row, and the types that the sink takes from JSON."""

    def start(self, job: Job) -> None:
        super().start(
            replace(job, schema="{order_id: long, store_id: long}, metadata_columns: [topic, partition, offset]")
        )


class PlacedConnect(Connect):
    """As well, by the sink's own transform."""

    def _connector(self, job: Job) -> dict[str, str]:
        kind = "org.apache.iceberg.connect.transforms.KafkaMetadataTransform"
        own = {"transforms": "place", "transforms.place.type": kind, "transforms.place.field_name": "_kafka"}
        return super()._connector(job) | own


def fill(servers: Servers, folder: Path, topic: str, count: int, kills: int) -> None:
    """Both at once, until each has as many rows as there are records, or the sink adds no more."""
    jobs = {name: Job(topic, name, "orders", 5_000) for name in ("old", "shadow")}
    old, shadow = PlacedConnect(servers, folder / "connect"), PlacedFloe(servers, folder / "floe")
    for name in jobs:
        servers.make_namespace(name)
    (folder / "floe").mkdir(exist_ok=True)
    old.start(jobs["old"])
    shadow.start(jobs["shadow"])
    at = [count * (number + 1) // (kills + 1) for number in range(kills)]
    began = quiet_since = time.monotonic()
    rows, deadline = {"old": -1, "shadow": -1}, began + PATIENCE_S
    try:
        while (min(rows.values()) < count and time.monotonic() - quiet_since < QUIET_S) and time.monotonic() < deadline:
            now = {name: servers.snapshots(name).rows for name in jobs}
            if now != rows:
                quiet_since, rows = time.monotonic(), now
                print(f"{time.monotonic() - began:.0f} s: {rows}", flush=True)
            shadow.check()
            if at and servers.committed(old.group, topic) >= at[0]:
                print(f"the sink's worker is killed with {rows['old']:,} rows in its table", flush=True)
                os.killpg(old.pid, signal.SIGKILL)
                old.start(jobs["old"])
                at.pop(0)
            time.sleep(1)
    finally:
        old.stop()
        shadow.stop()


def offsets_of(servers: Servers, name: str) -> Counter[tuple[int, int]]:
    table = servers.catalog().load_table(f"{name}.orders").scan(selected_fields=PLACE).to_arrow()
    partitions, offsets = (table.column(each).cast(pa.int64()).to_pylist() for each in PLACE[1:])
    return Counter(zip(partitions, offsets, strict=True))


def compare(folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "framework.cli.main", "compare", "shadow.orders", "old.orders", "--by", "position"]
    command += ["--without", "_kafka_timestamp", "--most-rows", "20000000", "-t", "bench", "--json"]
    done = subprocess.run(
        command, cwd=folder / "floe", stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == (0 if found["equal"] else 10), done.returncode
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="floe-dual-") as name:
        folder = Path(name)
        servers = Servers(folder / "servers")
        try:
            servers.start()
            servers.load("orders", records.numbered(records.one_table, given.records))
            fill(servers, folder, "orders", given.records, given.kills)
            mine, theirs = offsets_of(servers, "shadow"), offsets_of(servers, "old")
            found = compare(folder)
        finally:
            servers.stop()
    named = {
        what: sum(each["end"] - each["start"] for each in found["offsets"] if each["what"] == what)
        for what in found["counts"]
    }
    lost, twice = mine - theirs, theirs - mine
    print(f"records {given.records:,}; floe {mine.total():,} rows, the sink {theirs.total():,}")
    print(
        f"floe compare: equal {found['equal']}, complete {found['complete']}, {found['counts']}; offsets named {named}"
    )
    for each in found["column_differences"]:
        print(f"column {each['column']}: {each['left']} and {each['right']}")
    for example in found["examples"][:3]:
        print(json.dumps(example)[:400])
    is_right = mine.total() == len(mine) == given.records and found["complete"]
    counted = {"missing": lost.total(), "extra": twice.total(), "changed": found["counts"]["changed"]}
    return 0 if is_right and found["counts"] == counted and named["missing"] == len(lost) else 1


if __name__ == "__main__":
    sys.exit(main())
