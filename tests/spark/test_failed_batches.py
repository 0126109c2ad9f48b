"""A store that fails for a while: the batch is tried again, and nothing piles up meanwhile."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.long_run import jvm_of
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for
from tests.spark.test_end_to_end import orders

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

ATTEMPTS = 10
# The query that runs, and the one whose error is being waited out.
QUERIES = 2
ORDERS = """
source: {{kafka: {{connection: main, topics: [{topic}]}}}}
routes: {{rules: [{{table: shop.orders}}], allow_tables: ["shop.*"], unrouted: fail}}
tables: {{defaults: {{commit: {{interval: 1s}}}}}}
errors: {{policy: fail}}
"""


def test_an_outage_of_the_store_leaves_nothing_behind(tmp_path: Path, broker: Broker) -> None:
    """However often a batch fails while the store does, no record is suspected, no failed query stays in memory or on
    disk, and every record is there once when the store is back."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("store", partitions=2)
    broker.produce(topic, orders(100))
    log, scratch = tmp_path / "run.log", tmp_path / "scratch"
    scratch.mkdir(0o700)
    with log.open("w") as output:
        process = subprocess.Popen(
            project.command("run", project.pipeline("store", ORDERS.format(topic=topic))),
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    try:
        data = tmp_path / "warehouse" / "shop" / "orders" / "data"
        wait_for(lambda: data.exists() and project.table("shop.orders").num_rows == 100, 90)
        data.rename(data.with_name("kept"))
        data.write_text("no folder any more")
        broker.produce(topic, orders(100, 100))
        wait_for(lambda: log.read_text().count("WARNING store: batch failed") >= ATTEMPTS, 120)
        java = jvm_of(process.pid)
        tool = Path(f"/proc/{java}/exe").resolve().parent / "jcmd"
        # The histogram counts what is live, behind a full collection.
        reported = subprocess.run(
            [str(tool), str(java), "GC.class_histogram"], check=True, capture_output=True, text=True
        ).stdout
        kept = [
            int(line.split()[1]) for line in reported.splitlines() if line.split()[3:4] and _is_query(line.split()[3])
        ]
        folders = list(scratch.glob("**/query-*"))
        data.unlink()
        data.with_name("kept").rename(data)
        wait_for(lambda: project.table("shop.orders").num_rows == 200, 60)
        assert kept, "the class has another name now"
        assert sum(kept) <= QUERIES, f"{kept} of {ATTEMPTS} failed queries"
        assert len(folders) <= 1, folders
        assert "looking for records" not in log.read_text()
        assert not re.search(r"Traceback|^\s+at |^  File ", log.read_text(), re.MULTILINE), "a failure is one line"
        assert sorted(project.table("shop.orders")["id"].to_pylist()) == list(range(200))
    finally:
        kill_group(process)


def _is_query(name: str) -> bool:
    return name.endswith(".MicroBatchExecution")
