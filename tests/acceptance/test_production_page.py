"""The transcripts of docs/production.md: each command is typed again after a real run, and says the same.

In: the page, a broker, a catalog, and one run of a pipeline with Spark. Out: a page whose transcripts are of that run, with
`--update`; else the first one that says something else. Times, ids, addresses and counts of the log differ from run to run
and are compared as such.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog

from framework.local import stack
from framework.local.fill_topic import counts
from tests.conftest import Broker

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
TRANSCRIPT = re.compile(r"^```console\n\$ (.*)\n((?:.*\n)*?)```$", re.MULTILINE)
# What is another one in each run, and what stands for it.
DIFFERS = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( ?UTC|Z)?", "TIME"),
    (r"\b\d+(\.\d+)? ?(ms|s|m|h)\b(?! in)", "AGE"),
    (r"127\.0\.0\.1:\d+", "BROKER"),
    (r"\b-?\d{15,}\b", "ID"),
    (r"\b(?=\w*\d)[0-9a-f]{8,64}\b", "ID"),
    (r"(?<=[ (])[\w\\+/-]{22,24}(?=[), ]|$)", "ID"),
    (r"offset \d+ of \d+|below \d+|holds \d+ offsets|every table of \S+ \d+|^ *\d+(?=  [A-Z])", "COUNT"),
    (r"allows [\d,]+ .* at once|[\d,]+ bytes", "COUNT"),
    # Of a month: what was seen within a window that is another one in each run.
    (r"at least [\d,]+|(?<=catalog commits) +[\d,]+", " COUNT"),
    (r"[\d,]+\.\d\d USD", "MONEY"),
    (r"[\d.]+ [KMG]iB(?= written in a month)|(?<=stored: live) +[\d.]+ KiB", " SIZE"),
    (r"-+", "-"),
    (r"\s+", " "),
)
PIPELINE = """
apiVersion: floe/v1
kind: Pipeline
metadata: {name: orders}
owners: {pipeline: team-orders, schema: team-orders, catalog: platform, topics: platform, dead_letters: team-orders,
         cut_over: team-orders}
objectives: {freshness: 10m, complete: 99%}
source:
  kafka: {connection: main, topics: [orders]}
  longest_outage: 3d
  format: {type: json}
  metadata_columns: [topic, partition, offset]
routes:
  rules: [{table: shop.orders}]
errors: {policy: dead_letter, dead_letter_table: shop.dead_letters}
tables: {defaults: {commit: {interval: 1m}}}
"""
TARGET = """
apiVersion: floe/v1
kind: Target
metadata: {name: prod}
connections:
  kafka: {main: {bootstrap.servers: "%s"}}
  catalog: {default: {type: sql, uri: "sqlite:///%s/catalog.db", warehouse: "file:///%s/warehouse"}}
spark: {master: "local[2]"}
"""


RUN = "floe run pipelines/orders.yaml -t prod --until-caught-up 2>&1"


class Review:
    """A folder as a team has it, after one run."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self._broker = folder, broker
        (folder / "pipelines" / "targets").mkdir(parents=True)
        (folder / "warehouse").mkdir()
        (folder / "pipelines" / "orders.yaml").write_text(textwrap.dedent(PIPELINE).lstrip())
        place = str(folder).lstrip("/")
        text = TARGET.lstrip() % (broker.bootstrap_servers, "/" + place, place)
        (folder / "pipelines" / "targets" / "prod.yaml").write_text(text)
        (folder / "prices.yaml").write_text((PAGE.parent / "prices.yaml").read_text())

    def type(self, command: str) -> str:
        """What a shell in the folder shows."""
        if command.startswith("floe cost"):
            self._wait_for_a_rate()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "COLUMNS": "110",
                "NO_COLOR": "1",
            },
            capture_output=True,
            text=True,
            timeout=300,
        )
        # Progress is on standard error, and so is what went wrong.
        said = (done.stdout or done.stderr).replace(f"{self.folder}/", "").replace(str(self.folder), ".")
        said = said.replace(self._broker.bootstrap_servers, "127.0.0.1:9092")
        return "".join(f"{line.rstrip()}\n" for line in said.strip("\n").splitlines())

    def copy(self, name: str, to: str) -> None:
        """A table with the same rows, as another writer left it."""
        catalog = self._catalog()
        rows: pa.Table = catalog.load_table(name).scan().to_arrow()
        catalog.create_table(to, rows.schema).append(rows)

    def first_snapshot(self, name: str) -> str:
        return str(self._catalog().load_table(name).metadata.snapshots[0].snapshot_id)

    def _wait_for_a_rate(self) -> None:
        """A history of less than a minute says nothing of a month, nor does one that is much longer than the interval."""
        began_ms = self._catalog().load_table("shop.orders").metadata.snapshots[0].timestamp_ms
        time.sleep(max(0.0, 105 + began_ms / 1000 - time.time()))

    def _catalog(self) -> Catalog:
        where = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": f"file://{self.folder}/warehouse"}
        return load_catalog("default", type="sql", **where)


def alike(said: str) -> list[str]:
    """The lines, each without what is another one in each run."""
    lines = []
    for line in said.splitlines():
        for pattern, word in DIFFERS:
            line = re.sub(pattern, word, line)
        lines.append(line.strip())
    return lines


def orders(begin: int, end: int) -> list[object]:
    return [{"order_id": n, "amount": n / 4} for n in range(begin, end, 2)]


@pytest.fixture
def review(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    """On a broker of its own, so that nothing of other tests is in its control topic."""
    state_dir = tmp_path_factory.mktemp("kafka")
    broker = Broker(state_dir, stack.up(state_dir, kafka_port=0).bootstrap_servers, {})
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        week = {"retention.ms": str(7 * 86_400_000)}
        admin.create_topics([NewTopic("orders", 2, 1, config=week)])["orders"].result(30)
        counts(broker.bootstrap_servers, "orders", 2)
        for partition in (0, 1):
            broker.produce("orders", orders(partition, 200), partition=partition)
        review = Review(tmp_path_factory.mktemp("review"), broker)
        assert "200 offsets = 200 written" in review.type(RUN)
        for partition in (0, 1):
            broker.produce(
                "orders", [*orders(200 + partition, 300), *(["not an order"] * partition)], partition=partition
            )
        assert "101 offsets = 100 written" in review.type(RUN)
        review.copy("shop.orders", "shop.orders_before")
        yield review
    finally:
        stack.down(state_dir, wipe=True)


def test_transcripts_are_of_a_real_run(review: Review, request: pytest.FixtureRequest) -> None:
    """Each command of the page, typed in its order, says what stands below it."""
    text = PAGE.read_text(encoding="utf-8")
    text = re.sub(r"(?<=--to )\d{15,}", review.first_snapshot("shop.orders"), text)
    said = {found[1]: review.type(found[1]) for found in TRANSCRIPT.finditer(text)}
    assert len(said) > 12
    made = TRANSCRIPT.sub(lambda found: f"```console\n$ {found[1]}\n{said[found[1]]}```", text)
    if request.config.getoption("--update"):
        PAGE.write_text(made, encoding="utf-8")
        return
    for found in TRANSCRIPT.finditer(text):
        assert alike(found[2]) == alike(said[found[1]]), f"{found[1]}\n{said[found[1]]}"
