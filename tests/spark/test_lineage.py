"""Lineage of real runs: every event is OpenLineage's, and together they say what the tables hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Broker
from tests.project import Project
from tests.unit.lineage.schemas import check_event

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}}}
    routes: {{rules: [{{table: shop.orders}}]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{dead_letter_table: shop.dead_letters}}
"""
SECRET = "value-of-a-record"


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def with_lineage(project: Project, lineage: str) -> None:
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(target.read_text() + f"lineage: {lineage}\n")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_events_of_a_run_say_what_its_tables_hold(project: Project, broker: Broker) -> None:
    """START, a RUNNING event for each commit, COMPLETE: of one run, valid, with all offsets, rows and dead letters, each
    once, and without a record's value; so for a second run, which goes on where the first one ended."""
    topic = broker.new_topic("lineage", partitions=2)
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    events = project.root / "lineage.jsonl"
    with_lineage(project, f"{{namespace: prod, file: {events}}}")
    ends = {0: 0, 1: 0}
    total = letters = 0
    for round_ in range(2):
        records: list[Any] = [{"id": i, "note": SECRET} for i in range(50)]
        records[7] = {"id": SECRET}
        broker.produce(topic, records, keys=[str(i) for i in range(50)])
        project.run("run", file, "--until-caught-up")
        found = [json.loads(line) for line in events.read_text().splitlines()]
        for event in found:
            check_event(event)
        assert SECRET not in events.read_text()
        assert found[0]["eventType"] == "START"
        assert found[-1]["eventType"] == "COMPLETE"
        assert len({event["run"]["runId"] for event in found}) == 1
        assert {(event["job"]["namespace"], event["job"]["name"]) for event in found} == {("prod", "shop")}
        records_of_run = found[-1]["run"]["facets"]["floe_run"]["records"]
        assert (records_of_run["written"], records_of_run["dead_lettered"]) == (49, 1)
        for event in found[1:-1]:
            [output] = event["outputs"]
            rows = output["outputFacets"]["outputStatistics"]["rowCount"]
            snapshots = [
                str(each.snapshot_id) for each in project.catalog().load_table(output["name"]).metadata.snapshots
            ]
            assert output["facets"]["version"]["datasetVersion"] in snapshots
            if output["outputFacets"]["floe_commit"]["deadLetters"]:
                letters += rows
                continue
            total += rows
            assert output["name"] == "shop.orders"
            assert [field["name"] for field in output["facets"]["schema"]["fields"]] == ["id", "note"]
            assert set(output["facets"]["columnLineage"]["fields"]) == {"id", "note"}
            for part in event["inputs"][0]["inputFacets"]["floe_offsets"]["ranges"]:
                assert part["start"] in (ends[part["partition"]], None)
                assert (part["start"] is None) == (round_ == 0)
                ends[part["partition"]] = part["end"]
        events.unlink()
        assert sum(ends.values()) == 50 * (round_ + 1)
    assert (total, letters) == (98, 2)
    assert project.table("shop.orders").num_rows == total
    assert project.table("shop.dead_letters").num_rows == letters


def test_a_server_that_is_down_stops_no_run(project: Project, broker: Broker) -> None:
    """Everything is committed, the run ends as it should, and what was dropped is said once and counted."""
    topic = broker.new_topic("lineage")
    broker.produce(topic, [{"id": i} for i in range(10)])
    file = project.pipeline("shop", PIPELINE.format(topic=topic))
    with_lineage(project, "{http: 'http://127.0.0.1:1/api/v1/lineage'}")
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(target.read_text() + f"monitoring: {{textfile: '{project.root}'}}\n")
    output = project.run("run", file, "--until-caught-up")
    assert output.count("are not delivered and are dropped") == 1
    assert "3 events were dropped" in output
    [metrics] = project.root.glob("*.prom")
    [dropped] = re.findall(r"^floe_lineage_dropped_events_total (\S+)$", metrics.read_text(), re.MULTILINE)
    assert float(dropped) >= 1  # the last ones are sent, or dropped, when the metrics are written already
    assert project.table("shop.orders").num_rows == 10
