"""A registry that hangs under a running pipeline: what is known goes on, what is not waits, and nothing is lost or twice."""

from __future__ import annotations

import json
import signal
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from testbed.format_samples import avro_bytes, framed, record_of
from testbed.servers.registry import RegistryServer
from testbed.servers.spark_reader import java_read
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

TEXT = """
    source:
      kafka: {{topics: [{topic}]}}
      format: {{type: {kind}, registry: main}}
      metadata_columns: [offset]
    routes:
      rules: [{{table: shop.{kind}}}]
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.{kind}_letters}}
"""
ORDER = record_of({"name": "id", "type": "long"})
CLICK = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}, "size": {"type": "number"}},
}
TIMEOUT_S = 4


def rows(project: Project, name: str) -> int:
    return len(project.table(f"shop.{name}")) if project.catalog().table_exists(f"shop.{name}") else 0


def test_a_registry_that_hangs_holds_what_it_must(tmp_path: Path, broker: Broker) -> None:
    """While it hangs, ten batches of known ids land, of Avro and of JSON Schema. Three hundred unknown ids in a row then cost
    each try one timeout of at most eight requests a process: the pipeline waits as DEGRADED with FLOE-R141, no record is
    judged, and the other pipeline goes on. Once the registry answers, what it has is rows and what it has not is dead
    letters, each record once; Spark and Java read the types of the schema."""
    registry = RegistryServer()
    project = Project(tmp_path / "project", broker.bootstrap_servers)
    target = project.root / "pipelines" / "targets" / "it.yaml"
    settings = f'{{url: "{registry.url}", timeout.ms: {TIMEOUT_S * 1000}, unknown.schema.patience.ms: 300}}'
    target.write_text(target.read_text().replace("spark:\n", f"  registry:\n    main: {settings}\nspark:\n"))
    topics = {kind: broker.new_topic(kind) for kind in ("avro", "json")}
    files = [project.pipeline(kind, TEXT.format(topic=topic, kind=kind)) for kind, topic in topics.items()]
    avro, _ = registry.register("avro-value", json.dumps(ORDER))
    clicks, _ = registry.register("json-value", json.dumps(CLICK), "JSON")
    number = 0

    def known() -> None:
        nonlocal number
        broker.produce(topics["avro"], [framed(avro, avro_bytes(ORDER, {"id": number}))])
        broker.produce(
            topics["json"], [framed(clicks, json.dumps({"id": number, "day": "2024-01-04", "size": 1}).encode())]
        )
        number += 1

    process = project.start("run", *files)
    try:
        for _ in range(3):  # each process of the tasks has seen both ids
            known()
            wait_for(lambda: (rows(project, "avro"), rows(project, "json")) == (number, number), 200, "the first rows")

        registry.state.hangs = True
        for _ in range(10):
            known()
            wait_for(
                lambda: (rows(project, "avro"), rows(project, "json")) == (number, number), 60, "rows of known ids"
            )

        asked = len(registry.state.requests)
        later = [registry.state.schemas.setdefault(1_000 + i, {
            "schemaType": "AVRO", "schema": json.dumps({**ORDER, "name": f"shop.V{i}"}), "guid": f"none-{i}",
        }) for i in range(150)]  # fmt: skip
        assert len(later) == 150
        values = [
            framed(1_000 + i, avro_bytes(ORDER, {"id": 10_000 + i})) for i in range(300)
        ]  # the last 150 are nobody's
        broker.produce(topics["avro"], values)

        def degraded() -> dict[str, Any] | None:
            found = {each["pipeline"]: each for each in project.status()["pipelines"]}
            return found["avro"] if found["avro"]["state"] == "DEGRADED" else None

        waiting = wait_for(degraded, 120, "the state of the waiting pipeline")
        assert "FLOE-R141" in json.dumps(waiting)
        known()  # of the waiting pipeline these stand behind the others; the other goes on
        wait_for(lambda: rows(project, "json") == number, 60, "a row of the other pipeline")
        assert rows(project, "avro") == number - 1
        assert not project.catalog().table_exists("shop.avro_letters")
        assert 0 < len(registry.state.requests) - asked <= 8 * 2 * 20, "eight a process and try, and not one an id"

        registry.state.hangs = False
        wait_for(lambda: rows(project, "avro") == number + 150, 120, "the rows that waited")
        wait_for(lambda: rows(project, "avro_letters") == 150, 60, "the dead letters")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
    finally:
        kill_group(process)
        registry.state.hangs = False
        registry.stop()

    landed = project.table("shop.avro")
    assert sorted(landed.column("id").to_pylist()) == [*range(number), *range(10_000, 10_150)]
    letters = project.table("shop.avro_letters").to_pylist()
    assert {letter["code"] for letter in letters} == {"FLOE-D112"}
    offsets = landed.column("_kafka_offset").to_pylist() + [letter["offset"] for letter in letters]
    assert sorted(offsets) == list(range(number + 300)), "each record once, as a row or as a dead letter"
    types = "typeof(id) AS id, typeof(day) AS day, typeof(size) AS size"
    sums = "count(*) AS rows, max(day) AS last, sum(size) AS sum"
    query = f"SELECT {types}, {sums} FROM `default`.shop.json GROUP BY 1, 2, 3"
    read = java_read(project.catalog_settings, [query], ["shop.json", "shop.avro"])
    [found] = read.rows[0]
    assert {name: found[name] for name in ("id", "day", "size", "rows")} == {
        "id": "bigint",
        "day": "date",
        "size": "double",
        "rows": number,
    }
    assert (str(found["last"]), found["sum"]) == (str(date(2024, 1, 4)), float(number))
    assert read.counts == {"shop.json": number, "shop.avro": number + 150}
