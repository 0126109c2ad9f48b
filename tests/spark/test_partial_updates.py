"""Change streams whose updates lack values: the table has them from the row that was there, whatever a run dies of."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from testbed.servers.spark_reader import java_read
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PLACEHOLDER = "__debezium_unavailable_value"
PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json, envelope: debezium}}
      schema: {{id: long, n: long, region: string, bio: string, pic: binary, tags: "list<string>"}}
    routes: {{rules: [{{table: {table}}}], allow_tables: ["shop.*"]}}
    tables:
      defaults:
        write: {{mode: upsert, key: [id], updates: {updates}, deletes: {deletes}}}
        create: {{partition_by: [region], properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
COLUMNS = ("id", "n", "region", "bio", "pic", "tags")
UNAVAILABLE = {"bio": PLACEHOLDER, "pic": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "tags": [PLACEHOLDER]}
KEYS = 400
Document = dict[str, Any]
Rows = dict[int, Document]


def changes(seed: int, count: int, partial: bool, keys: int = KEYS) -> list[Document]:
    """Inserts, deletes, whole updates, and updates without what did not change."""
    pick = random.Random(seed)
    found: list[Document] = []
    for number in range(count):
        key, op = pick.randrange(keys), pick.choice("ruuuuuud")
        row = {
            "id": key,
            "n": seed * 1_000_000 + number,
            "region": pick.choice(["eu", "us"]),
            "bio": f"bio of {key} by {number} of {seed}" if pick.random() < 0.9 else None,
            "pic": pick.choice(["AAEC", "", "/w=="]),
            "tags": pick.choice([["a"], [], None, ["b", None]]),
        }
        if op == "d":
            found.append({"op": op, "before": {"id": key}, "source": {"table": "people"}})
            continue
        if op == "u":
            for name in ("bio", "pic", "tags", "region"):
                if pick.random() < 0.6:
                    if name in UNAVAILABLE and (not partial or pick.random() < 0.5):
                        row[name] = UNAVAILABLE[name]
                    elif partial:
                        del row[name]
        found.append({"op": op, "after": row, "source": {"table": "people"}})
    return found


def fold(rows: Rows, documents: Iterable[Document], partial: bool) -> Rows:
    for each in documents:
        if each["op"] == "d":
            rows.pop(each["before"]["id"], None)
            continue
        old = rows.get(each["after"]["id"], {})
        row = {}
        for name in COLUMNS:
            keeps = name not in each["after"] and partial and each["op"] == "u"
            value = old.get(name) if keeps else each["after"].get(name)
            row[name] = old.get(name) if name in UNAVAILABLE and value == UNAVAILABLE[name] else value
        rows[row["id"]] = row
    return rows


def produce(broker: Broker, topic: str, documents: list[Document]) -> None:
    keys = [str((each.get("after") or each["before"])["id"]) for each in documents]
    broker.produce(topic, documents, keys=keys)


def check(project: Project, rows: Rows) -> None:
    query = "SELECT id, n, region, bio, base64(pic) AS pic, tags FROM `default`.shop.people"
    (found,) = java_read(project.catalog_settings, [query]).rows
    held = {row["id"]: {name: row[name] for name in COLUMNS} for row in found}
    assert len(held) == len(found), "two rows of one key"
    assert held == rows


# Each ends the driver: a point of a task counts in each Python worker, so each try of the task would meet it again.
FAULTS = (
    "files-written=kill",
    "in-transaction=kill",
    "announced=kill",
    "before-commit=kill",
    "manifests-written=kill",
    "committed=kill",
    "progress-published=kill",
)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("version", "updates", "faults"),
    [
        pytest.param("2", "full", ("announced=kill",), id="2-full"),
        pytest.param("3", "partial", FAULTS, id="3-partial", marks=pytest.mark.slow),
    ],
)
def test_rows_keep_what_updates_lack_through_kills(
    tmp_path: Path, broker: Broker, version: str, updates: str, faults: tuple[str, ...]
) -> None:
    """Runs of a stream, each killed at another point of a batch: Spark reads what a fold of all changes gives."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("partial", partitions=2)
    words = {"table": "shop.people", "version": version, "deletes": "auto", "updates": updates}
    file = project.pipeline("partial", PIPELINE.format(topic=topic, **words))
    rows: Rows = {}
    for seed, fault in enumerate(("", *faults, "")):
        documents = changes(seed, 2_000, updates == "partial")
        produce(broker, topic, documents)
        dies: Document = {"code": None, "env": {"FLOE_FAULT": fault}} if fault else {}
        project.run("run", file, "--until-caught-up", timeout_s=300, **dies)
        fold(rows, documents, updates == "partial")
    check(project, rows)
    assert "shop.dead_letters" not in project.tables("shop")
