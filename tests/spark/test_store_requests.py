"""What a pipeline counts of its requests to the object store, beside the store's own log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from pyiceberg.catalog import Catalog, load_catalog

from testbed.servers.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, S3Server
from testbed.servers.s3_log import S3Log
from tests.chaos.harness import Running
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow, pytest.mark.timeout(600)]

# Rows are appended to one table and replaced in another; both are compacted, and their snapshots expire in moments.
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, kind: {{type: string}}, n: {{type: long}}}}
    routes:
      rules:
        - {{when: {{field: kind, equals: row}}, table: shop.orders}}
        - {{table: shop.events}}
      unrouted: fail
      allow_tables: ["shop.*"]
    tables:
      defaults:
        create: {{partition_by: ["bucket(2, id)"]}}
        commit: {{interval: 1s}}
        maintenance:
          compaction: {{min_input_files: 2}}
          expire: {{max_snapshot_age: 1s, rollback_window: 1s, reader_lease: 1s}}
      overrides:
        - {{match: shop.orders, write: {{mode: upsert, key: [id]}}}}
    errors: {{policy: fail}}
"""
# A table has a round of maintenance after so many commits, and a minute.
BATCHES = 22


PRICES = """
apiVersion: floe/v1
kind: Prices
currency: USD
date: 2026-01-31
store: {gib_month: 0.023, thousand_requests: {put: 0.005, get: 0.0004}}
machines: [{name: driver, count: 2, month: 30.5}]
"""
SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "cost.v1.schema.json").read_text())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Server]:
    server = S3Server(tmp_path / "s3")
    yield server
    server.stop()


def on(store: S3Server, project: Project, folder: Path) -> Catalog:
    """The project's tables lie in the store, and each run leaves its metrics in the folder."""
    settings = {"type": "sql", "uri": f"sqlite:///{project.root}/catalog.db", **store.settings()}
    project.write_target(catalog=settings | {"s3.secret-access-key": "${secret:env:STORE_KEY}"})
    path = project.root / "pipelines" / "targets" / "it.yaml"
    path.write_text(path.read_text() + f"monitoring: {json.dumps({'textfile': str(folder)})}\n")
    return load_catalog("default", **settings, **{"s3.secret-access-key": SECRET_KEY})


def store_of(store: S3Server) -> S3FileSystem:
    return S3FileSystem(access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=store.endpoint, region=REGION)


def counted(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """What the run says of itself, and of its tasks."""
    [written] = folder.iterdir()
    samples = [s for family in text_string_to_metric_families(written.read_text()) for s in family.samples]
    own, tasks = Counter[str](), Counter[str]()
    for sample in samples:
        if sample.name == "floe_store_requests_total":
            own[sample.labels["request"]] += int(sample.value)
        elif sample.name == "floe_task_store_requests_total":
            assert sample.labels["pipeline"] == "shop"
            tasks[sample.labels["request"]] += int(sample.value)
    return own, tasks


def cost(project: Project, file: Path, folder: Path, *options: str) -> dict[str, Any]:
    """What `floe cost` says with prices and the metrics of a run."""
    prices = project.root / "prices.yaml"
    prices.write_text(PRICES)
    [written] = folder.iterdir()
    asked = ["cost", file, "--prices", prices, "--metrics", written, *options, "--json"]
    document: dict[str, Any] = json.loads(project.run(*asked, env={"STORE_KEY": SECRET_KEY}).splitlines()[-1])
    Draft202012Validator(SCHEMA).validate(document)
    return document


def test_a_run_counts_the_requests_that_the_store_gets(store: S3Server, tmp_path: Path, broker: Broker) -> None:
    """Of appends, an upsert table, compaction and expiry: each kind as often as the store's own log has it, to the request."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    project = Project(tmp_path / "project", broker.bootstrap_servers)
    catalog = on(store, project, folder)
    topic = broker.new_topic("requests", partitions=2)
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    log = S3Log(store)
    with Running(project, "run", file, env={"STORE_KEY": SECRET_KEY}) as run:
        for number in range(BATCHES):
            rows = [{"id": n % 50, "kind": ("row", "event")[n % 3 == 0], "n": number} for n in range(200)]
            broker.produce(topic, rows, keys=[str(row["id"]) for row in rows])
            run.wait_for_output("committed shop.orders", number + 1)
        for table in ("shop.events", "shop.orders"):
            run.wait_for_output(f"compacted {table}")
            run.wait_for_output(f"snapshots of {table}: ")  # they have expired
        assert run.terminate() == 0, run.output
    seen = log.new()
    own, tasks = counted(folder)
    assert {kind: count for kind, count in (own + tasks).items() if count} == dict(seen), (own, tasks, run.output)
    assert set(seen) >= {"get", "head", "put", "delete"}
    assert tasks["put"] > 10
    assert tasks["get"] > 0  # those of the upsert table look for rows that are replaced
    for name in ("shop.orders", "shop.events"):
        # The run has said that it compacted; on a slow machine that snapshot has expired, too.
        assert len(catalog.load_table(name).metadata.snapshots) < 6, name
    document = cost(project, file, folder)
    window_ms, month = document["counted"]["window_ms"], document["counted"]["month"]
    assert month == {kind: pytest.approx(seen[kind] * 30 * 86_400_000 / window_ms, abs=1) for kind in month}
    amounts = {line["what"]: line["amount"] for line in document["lines"]}
    assert amounts["requests: put"] == pytest.approx(month["put"] / 1000 * 0.005, rel=1e-3)
    assert amounts["requests: list"] is None  # the prices do not say it
    assert amounts["machines: driver"] == 2 * 30.5


def test_cost_is_what_is_stored_and_what_was_counted(store: S3Server, tmp_path: Path, broker: Broker) -> None:
    """`floe cost` after appends and an upsert table: bytes as the store and the manifests have them, requests as the run has
    counted them, and money as the prices say."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    project = Project(tmp_path / "project", broker.bootstrap_servers)
    catalog = on(store, project, folder)
    topic = broker.new_topic("cost", partitions=2)
    file = project.pipeline(
        "shop",
        PIPELINE.format(topic=topic).replace(
            "expire: {max_snapshot_age: 1s, rollback_window: 1s, reader_lease: 1s}", "expire: {enabled: false}"
        ),
    )
    for number in range(3):
        rows = [{"id": n % 50, "kind": ("row", "event")[n % 3 == 0], "n": number} for n in range(200)]
        broker.produce(topic, rows, keys=[str(row["id"]) for row in rows])
        project.run("run", file, "--until-caught-up", env={"STORE_KEY": SECRET_KEY})
    maintain = ["maintain", "shop.*", "--control-topic", project.control_topic]
    project.run(*maintain, env={"STORE_KEY": SECRET_KEY})
    document = cost(project, file, folder, "--list")
    assert document["counted"]["month"] is None  # a run of moments has no rate
    own, tasks = counted(folder)
    assert document["counted"]["seen"] == {kind: count for kind, count in (own + tasks).items() if count}
    places = list(store_of(store).get_file_info(FileSelector(f"{BUCKET}/warehouse", recursive=True)))
    sizes = {f"s3://{each.path}": each.size for each in places if each.type is FileType.File}
    assert {each["table"] for each in document["tables"]} == {"shop.events", "shop.orders"}
    for found in document["tables"]:
        table = catalog.load_table(found["table"])
        live = set(table.inspect.files().column("file_path").to_pylist())
        every = set(table.inspect.all_files().column("file_path").to_pylist())
        below = [path for path in sizes if path.startswith(f"{table.location()}/")]
        stored = found["stored"]
        assert stored["live"] == sum(sizes[path] for path in live)
        assert stored["kept"] == sum(sizes[path] for path in every - live) > 0
        assert sum(stored.values()) == sum(sizes[path] for path in below)
        assert found["commits_seen"] == len(table.metadata.snapshots) - 1
    [seen] = document["topics"]
    assert seen["topic"] == topic
