"""Upsert tables of every sort side by side: whatever the file says of keys, partitions, order and deletes, each is the
fold of its records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyiceberg.table import Table

from tests.conftest import Broker
from tests.project import Project
from tests.spark.upsert_zoo import PARTITIONS, Fold, Kind, Position, Record, Source, kinds, pipeline_text

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]
KINDS = 24
FAULTS = ("announced=kill", "files-written=kill", "before-commit=kill", "committed=kill")


def produce(broker: Broker, topic: str, records: list[Record]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True})
    for each in records:
        producer.produce(topic, value=each.value, key=each.key, partition=each.partition, timestamp=each.timestamp_ms)
        producer.poll(0)
    assert producer.flush(30) == 0


def in_order(records: list[Record]) -> list[Record]:
    """As a batch sees them: one partition behind the other; within one, as they came."""
    return sorted(records, key=lambda each: each.partition)


def differs(project: Project, kind: Kind, fold: Fold) -> dict[str, Any]:
    """What a table has that it must not have, and what it lacks."""
    catalog = project.catalog()
    wanted = {key: row for key, (_, row) in fold.rows.items()}
    if not fold.changes and not catalog.table_exists(kind.table):
        return {}
    table = catalog.load_table(kind.table).scan().to_arrow()
    found: dict[Any, Any] = {}
    for row in table.to_pylist():
        key = tuple(row[column] for column in kind.columns())
        if key in found:
            return {"twice": key}
        found[key] = row
    wrong = {
        key: (row, {name: found.get(key, {}).get(name) for name in row})
        for key, row in wanted.items()
        if key not in found or any(found[key].get(name) != cell for name, cell in row.items())
    }
    too_many = {key: row for key, row in found.items() if key not in wanted}
    if kind.history is not None:
        rows = catalog.load_table(kind.history).scan().to_arrow().select(["_kafka_partition", "_kafka_offset"])
        positions: list[Position] = [tuple(row.values()) for row in rows.to_pylist()]
        if len(set(positions)) != len(positions) or len(positions) != fold.changes:
            return {"history": (len(set(positions)), len(positions), fold.changes)}
    return {name: each for name, each in (("wrong", wrong), ("too many", too_many)) if each}


def meddle(table: Table, pick: random.Random, fold: Fold, kind: Kind) -> None:
    """What another engine may do between two runs. PyIceberg writes no metadata of version 3."""
    if table.format_version == 3:
        return
    if pick.random() < 0.4:
        with table.update_spec() as spec:
            if pick.random() < 0.5 and table.spec().fields:
                spec.remove_field(pick.choice(table.spec().fields).name)
            else:
                spec.add_field("n", "bucket[2]", "foreign_part")
    if pick.random() < 0.4:
        with table.update_schema() as schema:
            schema.add_column("foreign_column", table.schema().find_type("n"))
    if pick.random() < 0.4 and not kind.order and fold.rows:
        number = pick.choice([row["n"] for _, row in fold.rows.values()])
        table.refresh().delete(f"n <= {number}")
        fold.rows = {key: each for key, each in fold.rows.items() if each[1]["n"] > number}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_table_is_the_fold_of_its_records(tmp_path: Path, broker: Broker, seed: int) -> None:
    """Twenty-four tables of one pipeline, three runs of which the second is killed, another engine that changes specs,
    columns and rows in between, and maintenance before the last: each table is the fold of its records, each history
    has every change once, and each bad record is one dead letter."""
    pick = random.Random(seed)
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("zoo", partitions=PARTITIONS)
    of = kinds(seed, KINDS)
    file = project.pipeline("zoo", pipeline_text(topic, of))
    source = Source(seed, of)
    folds = {kind.name: Fold() for kind in of}
    bad = 0
    for run in range(3):
        records = source.records(3_000, late=run == 2)
        bad += sum(each.is_bad for each in records)
        produce(broker, topic, records)
        if run == 1:
            fault = pick.choice(FAULTS)
            project.run("run", file, "--until-caught-up", code=None, env={"FLOE_FAULT": fault}, timeout_s=400)
        if run == 2:
            project.run("maintain", "shop.*", "--control-topic", project.control_topic, timeout_s=600)
        project.run("run", file, "--until-caught-up", timeout_s=400)
        for each in in_order(records):
            folds[each.kind.name].take(each)
        found = {kind.name: wrong for kind in of if (wrong := differs(project, kind, folds[kind.name]))}
        assert not found, (run, {kind.name: kind for kind in of if kind.name in found}, found)
        letters = project.table("shop.dead_letters")
        assert len(letters) == bad, (len(letters), bad, letters.select(["code", "message"]).to_pylist()[:20])
        for kind in of if run == 0 else ():
            meddle(project.catalog().load_table(kind.table), pick, folds[kind.name], kind)
