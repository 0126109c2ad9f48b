"""`write.mode: upsert`: a table holds the newest row of each key, whatever came between."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.chaos.harness import wait_for
from tests.conftest import Broker
from tests.iceberg.filled_tables import local
from tests.iceberg.spark_server import IcebergSpark
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, op: {{type: string}}, region: {{type: string}}, n: {{type: long}}}}
    routes:
      rules: [{{table: shop.orders}}]
      allow_tables: ["shop.*"]
    tables:
      defaults:
        write: {{mode: upsert, key: [id], delete_when: {{field: op, equals: d}}, deletes: {deletes}}}
        create: {{partition_by: [{partition_by}], properties: {{format-version: "{version}"}}}}
        commit: {{interval: 1s}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
# More than one batch and more than one task: the first batch is 25,000 records, and a task takes 20,000 at least.
COUNT = 60_000
KEYS = 9_000
REGIONS = ["eu", "us", "ap"]

Document = dict[str, Any]
Rows = dict[int, Document]


def pipeline_text(topic: str, version: str, partition_by: str = "region", deletes: str = "auto") -> str:
    return PIPELINE.format(topic=topic, version=version, partition_by=partition_by, deletes=deletes)


def changes(seed: int, count: int = COUNT) -> list[Document]:
    """Inserts, updates that move a row to another partition, deletes, deletes of what is not there, and keys that come
    back."""
    pick = random.Random(seed)
    return [
        {
            "id": pick.randrange(KEYS),
            "op": "d" if pick.random() < 0.2 else "u",
            "region": pick.choice(REGIONS),
            "n": seed * COUNT + i,
        }
        for i in range(count)
    ]


def fold(rows: Rows, documents: Iterable[Document]) -> Rows:
    for each in documents:
        rows.pop(each["id"], None)
        if each["op"] != "d":
            rows[each["id"]] = each
    return rows


def produce(broker: Broker, topic: str, documents: list[Document]) -> None:
    broker.produce(topic, documents, keys=[str(each["id"]) for each in documents])


def check(project: Project, rows: Rows) -> None:
    found = project.table("shop.orders").select(["id", "op", "region", "n"]).to_pylist()
    assert len(found) == len({row["id"] for row in found}), "two rows of one key"
    assert sorted(found, key=lambda row: row["id"]) == [rows[key] for key in sorted(rows)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("version", "partition_by", "deletes"),
    [
        pytest.param("2", "region", "auto", id="2-moves", marks=pytest.mark.slow),
        pytest.param("3", "region", "auto", id="3-moves", marks=pytest.mark.slow),
        pytest.param("2", '"bucket(4, id)"', "auto", id="2-by-key", marks=pytest.mark.slow),
        pytest.param("3", "", "auto", id="3-unpartitioned", marks=pytest.mark.slow),
        pytest.param("3", "region", "copy_on_write", id="3-copies", marks=pytest.mark.slow),
        pytest.param("2", '"bucket(4, id)"', "copy_on_write", id="2-copies", marks=pytest.mark.slow),
    ],
)
def test_a_table_holds_the_newest_row_of_each_key(
    tmp_path: Path, broker: Broker, version: str, partition_by: str, deletes: str
) -> None:
    """Three runs over changes of few keys, several batches each, and a column that appears: the table is the fold."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("upsert", partitions=3)
    file = project.pipeline("upsert", pipeline_text(topic, version, partition_by, deletes))
    rows: Rows = {}
    for seed, count in ((1, COUNT), (2, 5_000)):
        documents = changes(seed, count)
        produce(broker, topic, documents)
        project.run("run", file, "--until-caught-up", timeout_s=300)
        check(project, fold(rows, documents))

    late = [{**each, "late": "a column"} for each in changes(3, 2_000)]
    produce(broker, topic, late)
    project.run("run", file, "--until-caught-up", timeout_s=300)
    fold(rows, late)
    found = project.table("shop.orders").select(["id", "late"]).to_pylist()
    assert {row["id"]: row["late"] for row in found} == {key: row.get("late") for key, row in rows.items()}
    assert project.tables("shop") == ["shop.orders"]
    refuses_to_go_back(project, file)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.failure("F82")
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_key_of_bytes_and_a_column_that_appears(tmp_path: Path, broker: Broker, version: str) -> None:
    """Keys are bytes (base64 in the records), in a column whose name files spell otherwise: new rows, changes, deletes and a
    column that appears, read by Iceberg's own runtime."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("bytes", partitions=2)
    text = pipeline_text(topic, version).replace("{id: {type: long}", "{order-id: {type: binary}")
    text = text.replace("key: [id]", "key: [order-id]")
    file = project.pipeline("bytes", text)

    def sent(number: int, op: str, **more: object) -> Document:
        key = base64.b64encode(bytes([0, 255, number % 251])).decode()
        return {"order-id": key, "op": op, "region": REGIONS[number % 3], "n": number, **more}

    rows: dict[str, Document] = {}
    for documents in (
        [sent(number, "u") for number in range(200)],
        [sent(number, "d" if number % 3 == 0 else "u", late=f"v{number}") for number in range(100)],
    ):
        broker.produce(topic, documents, keys=[str(each["order-id"]) for each in documents])
        project.run("run", file, "--until-caught-up", timeout_s=300)
        for each in documents:
            rows.pop(each["order-id"], None)
            if each["op"] != "d":
                rows[each["order-id"]] = each
    query = "SELECT base64(`order-id`) AS id, op, region, n, late FROM `default`.shop.orders"
    (tmp_path / "reader").mkdir()
    spark = IcebergSpark(tmp_path / "reader")
    try:
        [found] = spark.ask(project.catalog().properties, [query])
    finally:
        spark.stop()
    assert {row["id"]: (row["n"], row["late"]) for row in found.to_pylist()} == {
        key: (row["n"], row.get("late")) for key, row in rows.items()
    }
    assert len(found) == len(rows)


def refuses_to_go_back(project: Project, file: Path) -> None:
    """What would bring an older change of a key after a newer one is refused by name, and changes nothing."""
    table = project.catalog().load_table("shop.orders")
    back = ("--table", "shop.orders", "--to", str(table.snapshots()[0].snapshot_id), "--skip")
    for words in (("rollback", *back, "--control-topic", project.control_topic), ("replay", file, *back[:2])):
        assert "FLOE-R145" in project.run(*words, code=6)
    assert project.catalog().load_table("shop.orders").metadata == table.metadata


@pytest.mark.failure("F14")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault",
    [
        "announced=kill",
        pytest.param("files-written=kill", marks=pytest.mark.slow),
        pytest.param("before-commit=kill", marks=pytest.mark.slow),
        pytest.param("committed=kill", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_dies_leaves_no_key_with_two_rows(tmp_path: Path, broker: Broker, fault: str) -> None:
    """Whatever was announced or committed when a run was killed, the next one goes on from there."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("upsert", partitions=2)
    file = project.pipeline("upsert", pipeline_text(topic, "3"))
    first = changes(1, 4_000)
    produce(broker, topic, first)
    project.run("run", file, "--until-caught-up", timeout_s=300)
    second = changes(2, 4_000)
    produce(broker, topic, second)
    project.run("run", file, "--until-caught-up", code=None, env={"FLOE_FAULT": fault}, timeout_s=300)
    third = changes(3, 4_000)
    produce(broker, topic, third)
    project.run("run", file, "--until-caught-up", timeout_s=300)
    check(project, fold(fold(fold({}, first), second), third))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("announced=kill", marks=pytest.mark.slow),
        pytest.param("before-commit=kill", marks=pytest.mark.slow),
        pytest.param("files-written=kill", marks=pytest.mark.slow),
        pytest.param("committed=kill", marks=pytest.mark.slow),
    ],
)
def test_a_history_has_each_change_once(tmp_path: Path, broker: Broker, fault: str) -> None:
    """Whatever was announced or committed when a run was killed, the history has every record once, also those that
    others of their batch replace, and the table is the fold of them."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("history", partitions=2)
    text = pipeline_text(topic, "3")
    file = project.pipeline("history", text.replace("deletes: auto}", "deletes: auto, history: shop.orders_changes}"))
    rows: Rows = {}
    produced: list[Document] = []
    for seed in (1, 2, 3):
        documents = changes(seed, 3_000)
        produced += documents
        produce(broker, topic, documents)
        dies = {"code": None, "env": {"FLOE_FAULT": fault}} if seed == 2 else {}
        project.run("run", file, "--until-caught-up", timeout_s=300, **dies)
        fold(rows, documents)
    check(project, rows)
    history = project.table("shop.orders_changes").to_pylist()
    assert len({(row["_kafka_partition"], row["_kafka_offset"]) for row in history}) == len(history) == len(produced)
    found = [{name: row[name] for name in ("id", "op", "region", "n")} for row in history]
    assert sorted(found, key=lambda row: row["n"]) == sorted(produced, key=lambda row: row["n"])
    assert all(row["_op"] == ("delete" if row["op"] == "d" else "upsert") for row in history)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["announced=kill", "committed=kill"])
@pytest.mark.slow
def test_a_rebase_leaves_a_table_the_fold_and_its_history_whole(tmp_path: Path, broker: Broker, fault: str) -> None:
    """The control topic is lost with a batch that no table has, or that one of the two has: what `floe rebase` reads
    again brings no older change in, and the history has every record once."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("rebased", partitions=2)
    text = pipeline_text(topic, "3")
    file = project.pipeline("rebased", text.replace("deletes: auto}", "deletes: auto, history: shop.orders_changes}"))
    produced: list[Document] = []
    for seed in (1, 2):
        produced += (documents := changes(seed, 3_000))
        produce(broker, topic, documents)
        dies: Document = {"code": None, "env": {"FLOE_FAULT": fault}} if seed == 2 else {}
        project.run("run", file, "--until-caught-up", timeout_s=300, **dies)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([project.control_topic])[project.control_topic].result(20)
    wait_for(lambda: project.control_topic not in admin.list_topics(timeout=20).topics, "the end of the control topic")
    produced += (documents := changes(3, 3_000))
    produce(broker, topic, documents)
    assert "floe rebase" in project.run("run", file, "--until-caught-up", timeout_s=300, code=5)
    project.run("rebase", file)
    project.run("run", file, "--until-caught-up", timeout_s=300)

    check(project, fold({}, produced))
    history = project.table("shop.orders_changes").to_pylist()
    assert len({(row["_kafka_partition"], row["_kafka_offset"]) for row in history}) == len(history) == len(produced)


def newest(documents: Iterable[Document]) -> Rows:
    """What a table holds whose larger `n` is newer, whatever came first."""
    found: Rows = {}
    for each in documents:
        if each["id"] not in found or found[each["id"]]["n"] < each["n"]:
            found[each["id"]] = each
    return {key: each for key, each in found.items() if each["op"] != "d"}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("version", "fault"),
    [
        pytest.param("2", "announced=kill", marks=pytest.mark.slow),
        pytest.param("3", "files-written=kill", marks=pytest.mark.slow),
        pytest.param("3", "before-commit=kill", marks=pytest.mark.slow),
        pytest.param("2", "committed=kill", marks=pytest.mark.slow),
    ],
)
def test_a_column_says_which_record_is_newer(tmp_path: Path, broker: Broker, version: str, fault: str) -> None:
    """Invariant 19 end to end: records of a key in any partition and any order, over three runs of which one is killed; the
    history has each of them once."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("ordered", partitions=3)
    text = pipeline_text(topic, version)
    words = "equals: d}, order: {field: n}, history: shop.orders_changes}"
    file = project.pipeline("ordered", text.replace("equals: d}, deletes: auto}", words))
    documents = changes(1, 9_000)
    pick = random.Random(1)
    pick.shuffle(documents)
    for run in range(3):
        part = documents[run * 3_000 : (run + 1) * 3_000]
        broker.produce(topic, part, keys=[str(pick.random()) for _ in part])
        dies: Document = {"code": None, "env": {"FLOE_FAULT": fault}} if run == 1 else {}
        project.run("run", file, "--until-caught-up", timeout_s=300, **dies)
    rows = newest(documents)
    assert rows != fold({}, documents)
    check(project, rows)
    history = project.table("shop.orders_changes").to_pylist()
    assert len({(row["_kafka_partition"], row["_kafka_offset"]) for row in history}) == len(history)
    assert sorted(row["n"] for row in history) == sorted(each["n"] for each in documents)
    assert all(row["_op"] == ("delete" if row["op"] == "d" else "upsert") for row in history)
    if version == "2":  # PyIceberg writes no metadata of version 3
        deleted = next(each for each in documents if each["id"] not in rows)
        produce(broker, topic, [late := {**deleted, "op": "u", "n": -1}])
        ends_where_deletes_are_lost(project, file, rows, late)


def ends_where_deletes_are_lost(project: Project, file: Path, rows: Rows, late: Document) -> None:
    """A run ends by name and brings no older record in; when the table is told to forget, the next one goes on."""
    table = project.catalog().load_table("shop.orders")
    for each in json.loads(table.properties["floe.tombstones"])["files"]:
        local(each["path"]).unlink()
    said = project.run("run", file, "--until-caught-up", timeout_s=300, code=6)
    assert "FLOE-R146" in said
    assert "SET TBLPROPERTIES ('floe.tombstones' = 'forget')" in said
    check(project, rows)
    with table.transaction() as change:
        change.set_properties({"floe.tombstones": "forget"})
    project.run("run", file, "--until-caught-up", timeout_s=300)
    check(project, {**rows, late["id"]: late})
