"""`floe readiness` of a pipeline that has run: its tables hold what its records give, and it says where they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
      schema: {{at: {{type: timestamptz}}}}
    routes:
      rules: [{{when: {{field: type, equals: refund}}, table: shop.refunds}}, {{table: shop.orders}}]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{dead_letter_table: shop.dead_letters}}
    owners: {{pipeline: shop, schema: shop, catalog: shop, topics: shop, dead_letters: shop, cut_over: shop}}
"""


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def review(project: Project, file: Path, code: int) -> dict[str, Any]:
    output = project.run("readiness", file, "--format", "json", "--replay-offsets", "60", code=code)
    return json.loads(output[output.index("{\n") :])  # type: ignore[no-any-return]


def texts(document: dict[str, Any], name: str) -> list[tuple[str, str]]:
    (check,) = (each for each in document["checks"] if each["name"] == name)
    return [(each["verdict"], each["text"]) for each in check["seen"]]


@pytest.mark.slow
def test_what_is_there_is_compared_with_what_the_records_give(project: Project, broker: Broker) -> None:
    """After two runs everything passes, the replay row by row. A row that somebody deleted and one that somebody changed are
    found by their positions, and it is no go; no scratch is left."""
    topic = broker.new_topic("ready", partitions=2)
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    for round_ in range(2):
        records: list[Any] = [
            {"id": i, "type": ["order", "refund"][i % 2], "at": "2024-01-04T12:28:13Z", "tags": [str(i)]}
            for i in range(40)
        ]
        records[5] = b"{broken"
        if round_:
            records[7] = {"id": 7, "more": {"deep": 1.5}}
        broker.produce(topic, records, keys=[str(i) for i in range(40)])
        project.run("run", file, "--until-caught-up")

    document = review(project, file, 0)
    replay = texts(document, "replay")
    assert [verdict for verdict, _ in replay] == ["pass"] * 3, replay
    assert replay[0][1].startswith("60 records read again")
    for table in ("shop.orders", "shop.refunds"):
        assert any(table in text and "the same" in text for _, text in replay)
        assert ("pass", True) in [(verdict, table in text) for verdict, text in texts(document, "snapshots")]
    assert {verdict for verdict, _ in texts(document, "upkeep")} == {"pass"}
    assert all(f"@{each}" in " ".join(document["back"]) for each in (start_of(document, 0), start_of(document, 1)))
    assert [".".join(name) for name in project.catalog().list_namespaces()] == ["shop"]
    assert not list((project.root / "warehouse").glob("**/floe_readiness_*/**/*.parquet"))

    orders = project.catalog().load_table("shop.orders")
    newest = max(orders.scan().to_arrow().column("_kafka_offset").to_pylist())
    orders.delete(f"_kafka_offset = {newest}")
    document = review(project, file, 10)
    (difference,) = [text for verdict, text in texts(document, "replay") if verdict == "fail"]
    assert "shop.orders" in difference
    assert "only when read again, 0 rows only in the table" in difference
    assert f"@{newest}" in difference


def start_of(document: dict[str, Any], partition: int) -> str:
    (check,) = (each for each in document["checks"] if each["name"] == "offsets")
    text = next(each["text"] for each in check["seen"] if f"-{partition}: a run begins at " in each["text"])
    return str(text).split(" begins at ")[1].split(" ")[0]
