"""`distribution: hash`: one file for each table and partition of a batch, whoever read the records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
      schema: {{id: {{type: long}}, kind: {{type: string}}, region: {{type: string}}, n: {{type: double}}}}
    {transform}
    routes:
      rules: [{{table: "shop.{{kind}}"}}]
      unrouted: dead_letter
      allow_tables: ["shop.*"]
    tables:
      defaults: {{distribution: hash, create: {{partition_by: ["region"]}}, commit: {{interval: 1s}}}}
      overrides: [{{match: shop.refund, distribution: none}}]
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
# More than one task reads the second batch: a task takes 20,000 records at least, and the first batch is 25,000.
COUNT = 88_000
BAD = 8
REGIONS = ["eu", "us", None]


def orders(start: int = 0) -> list[object]:
    kinds = ["order", "return", "refund"]
    return [
        b"no json" if i % 22_000 == 7 else {"id": i, "kind": kinds[i % 3], "region": REGIONS[i // 3 % 3], "n": i / 4}
        for i in range(start, start + COUNT)
    ]


def files_of_snapshots(project: Project, table: str) -> Counter[tuple[object, object]]:
    """How many files each snapshot added to each partition."""
    found = project.catalog().load_table(table)
    counts: Counter[tuple[object, object]] = Counter()
    for snapshot in found.snapshots():
        for manifest in snapshot.manifests(found.io):
            if manifest.added_snapshot_id == snapshot.snapshot_id:
                for entry in manifest.fetch_manifest_entry(found.io):
                    counts[snapshot.snapshot_id, entry.data_file.partition[0]] += 1
    return counts


@pytest.mark.parametrize(
    "transform",
    [
        pytest.param("", id="as-it-is", marks=pytest.mark.slow),
        pytest.param(
            'transform: {sql: "SELECT id, kind, region, n FROM source WHERE id <> 8"}', id="sql", marks=pytest.mark.slow
        ),
    ],
)
def test_one_file_for_each_table_and_partition(tmp_path: Path, broker: Broker, transform: str) -> None:
    """Four partitions read by two tasks give one file a table and partition in each batch, every record once; tables
    whose distribution is `none`, and dead letters, are written by each task, and a changed table costs one re-write."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("distribution", partitions=4)
    file = project.pipeline("distribution", PIPELINE.format(topic=topic, transform=transform))
    broker.produce(topic, orders())
    project.run("run", file, "--until-caught-up", timeout_s=240)
    broker.produce(topic, [{**each, "late": "a column"} if isinstance(each, dict) else each for each in orders(COUNT)])
    project.run("run", file, "--until-caught-up", timeout_s=240)

    dropped = 1 if transform else 0
    tables = ["shop.order", "shop.refund", "shop.return"]
    assert project.tables("shop") == sorted([*tables, "shop.dead_letters"])
    counts = project.positions(tables)
    assert len(counts) == 2 * COUNT - BAD - dropped
    assert set(counts.values()) == {1}
    assert sum(project.table(name).num_rows for name in tables) == len(counts)
    assert project.table("shop.dead_letters").num_rows == BAD
    for name in ("shop.order", "shop.return"):
        per_batch = files_of_snapshots(project, name)
        assert set(per_batch.values()) == {1}, per_batch
        assert {place for _, place in per_batch} == {"eu", "us", None}
    assert max(files_of_snapshots(project, "shop.refund").values()) > 1
    if not transform:
        rows = project.table("shop.order").select(["id", "late"]).to_pylist()
        assert {row["late"] is None for row in rows if row["id"] < COUNT} == {True}
        assert {row["late"] for row in rows if row["id"] >= COUNT} == {"a column"}
