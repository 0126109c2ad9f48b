"""What `floe tap` says that a run would do is what the run then does."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [partition, offset]
      schema: {{at: {{type: timestamptz}}}}
    routes:
      rules: [{{when: {{field: type, equals: refund}}, table: shop.refunds}}, {{table: "shop.orders_{{region}}"}}]
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{dead_letter_table: shop.dead_letters}}
"""


def records() -> list[Any]:
    found: list[Any] = [
        {"id": i, "type": ["order", "refund"][i % 2], "region": ["eu", "us"][i % 3 % 2], "price": 12.5 * i}
        for i in range(40)
    ]
    found[3] = b'{"id": 3'
    found[5] = {"id": 5, "region": "eu", "type": "order", "price": {"amount": 1}}
    found[7] = {"id": "seven", "region": "us", "type": "order"}
    found[11] = None
    found[13] = {"id": 13, "type": "order"}  # no region: no route
    found[17] = {"id": 17, "region": "eu", "at": "yesterday"}
    found[19] = {"id": 19, "region": "eu", "at": "2024-01-04T12:28:13Z", "new": ["a"]}
    found[23] = {"id": 23, "region": "../../x"}
    return found


def test_what_is_shown_is_what_a_run_does(project: Project, broker: Broker) -> None:
    """Of hostile and good records each has the table, the row or the dead letter that the run gives it: once before any
    table is there, and once with the tables that the run made."""
    topic = broker.new_topic("tap", partitions=2)
    file = project.pipeline("tapped", PIPELINE.format(topic=topic))
    rows: dict[str, Counter[str]] = {}
    letters: list[tuple[int, int, str, str]] = []
    counts = Counter[str]()
    for _ in range(2):
        before = sum(counts.values())
        for partition in range(2):
            broker.produce(topic, records()[partition::2], partition=partition)
        output = project.run("tap", file, "--limit", "40", "--seconds", "0", "--json")
        found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert len(found) == 40
        for line in found:
            counts[line["fate"]] += 1
            for change in line["changes"]:
                rows.setdefault(change["table"], Counter())[_comparable(change["row"])] += 1
            if line["letter"]:
                letters.append((line["partition"], line["offset"], line["letter"]["stage"], line["letter"]["code"]))
        assert sum(counts.values()) == before + 40
        project.run("run", file, "--until-caught-up")

    for table in project.tables("shop"):
        if table != "shop.dead_letters":
            written = Counter(_comparable(row) for row in project.table(table).to_pylist())
            assert written == rows.pop(table), table
    assert not rows
    kept = project.table("shop.dead_letters").select(["partition", "offset", "stage", "code"]).to_pylist()
    assert sorted(letters) == sorted(tuple(row.values()) for row in kept)
    assert counts["dropped"] == 2


def _comparable(row: dict[str, Any]) -> str:
    """A row without what is null, since a table may gain columns after the record came."""
    at = row.get("at")
    shown = {**row, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(at, "strftime") else at}
    return json.dumps({name: value for name, value in sorted(shown.items()) if value is not None})


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)
