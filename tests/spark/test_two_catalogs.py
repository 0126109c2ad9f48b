"""One pipeline into two catalogs with a warehouse each: exact in both, whichever of them is in trouble."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from testbed.servers.spark_reader import java_read
from tests.chaos.harness import wait_for
from tests.conftest import Broker
from tests.project import Project, kill_group

pytestmark = [
    *(pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow),
    pytest.mark.timeout(900),
]

TWO_CATALOGS = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules:
        - {{when: {{field: old, equals: true}}, table: "archive.{name}"}}
        - {{table: shop.orders}}
      allow_tables: ["shop.*", "archive.*"]
    tables:
      defaults: {{commit: {{interval: 1s}}}}
      overrides:
        - {{match: "archive.*", catalog: {catalog}}}
    errors: {{policy: dead_letter, dead_letter_table: archive.dead_letters}}
"""
MOVING = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}, metadata_columns: [topic, partition, offset]}}
    routes: {{rules: [{{table: shop.orders}}]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""
EU, US, HOT, LETTERS = "cold:archive.orders_eu", "cold:archive.orders_us", "shop.orders", "cold:archive.dead_letters"
OUTAGE_S = 40.0  # longer than what a run knows of a table counts as young


def orders(start: int, end: int) -> list[dict[str, object]]:
    return [{"id": i, "old": i % 2 == 0, "region": ["eu", "us"][i // 2 % 2]} for i in range(start, end)]


def table_of(order: int) -> str:
    return HOT if order % 2 else (EU, US)[order // 2 % 2]


class TwoCatalogs(Project):
    """`default` and `cold`, read by PyIceberg, each from its own database and warehouse."""

    def __init__(self, root: Path, bootstrap_servers: str) -> None:
        super().__init__(root, bootstrap_servers)
        (root / "glacier").mkdir()
        self.cold_db = root / "cold.db"
        cold = {"type": "sql", "uri": f"sqlite:///{self.cold_db}", "warehouse": f"file://{root}/glacier"}
        self.further_catalogs = {"cold": cold}
        self.write_target()

    def cold(self) -> Catalog:
        return load_catalog("cold", **self.further_catalogs["cold"])

    def rows(self, name: str) -> Counter[int]:
        """How often each order is in a table, by the table's full name."""
        where = self.cold() if name.startswith("cold:") else self.catalog()
        found = where.load_table(name.removeprefix("cold:")).scan().to_arrow().column("id").to_pylist()
        return Counter(found)

    def status_of(self, name: str) -> dict[str, Any]:
        return next(each for each in self.status()["tables"] if each["table"] == name)


def wanted(count: int, name: str) -> Counter[int]:
    return Counter(i for i in range(count) if table_of(i) == name)


def exact(project: TwoCatalogs, count: int) -> bool:
    return all(project.rows(name) == wanted(count, name) for name in (HOT, EU, US))


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> TwoCatalogs:
    return TwoCatalogs(tmp_path, broker.bootstrap_servers)


def test_two_catalogs_in_one_pipeline(project: TwoCatalogs, broker: Broker) -> None:
    """A pipeline whose tables live in two catalogs lands each record once in its own, through a kill in the middle of
    the commits; what is paused, missing or down in one holds up nothing of the other; and every verb finds a table by
    its full name."""
    topic = broker.new_topic("orders", partitions=2)
    broker.produce(topic, [*orders(0, 2000), b"not json", {"id": -1, "old": True, "region": "e/u"}])
    text = TWO_CATALOGS.format(topic=topic, name="orders_{region}", catalog="cold")
    file = project.pipeline("orders", text)

    killed_in_the_commits(project, file)
    paused_then_taken_away(project, broker, topic, file)
    down_under_a_live_run(project, broker, topic, file)
    rolled_back_and_read_again(project, file)
    cleaned(project)
    dead_letters(project, topic, file)
    moved(project, topic)


def killed_in_the_commits(project: TwoCatalogs, file: Path) -> None:
    project.run("run", file, "--until-caught-up", code=-9, env={"FLOE_FAULT": "committed@2=kill"})
    project.run("run", file, "--until-caught-up")
    assert exact(project, 2000)
    assert sorted(map(".".join, project.cold().list_tables("archive"))) == [
        "archive.dead_letters",
        "archive.orders_eu",
        "archive.orders_us",
    ]
    assert project.catalog().list_namespaces() == [("shop",)]
    for name in (EU, US, HOT, LETTERS):
        paths = (project.cold() if name != HOT else project.catalog()).load_table(name.removeprefix("cold:"))
        found = paths.inspect.files().column("file_path").to_pylist()
        warehouse = "warehouse" if name == HOT else "glacier"
        assert found
        assert all(path.startswith(f"file://{project.root}/{warehouse}/") for path in found)
    shown = project.run("plan", file)
    assert [name for name in (EU, US, HOT, LETTERS) if name not in shown] == []
    assert "tables: 0 to create, 0 to change, 0 refused" in shown


def paused_then_taken_away(project: TwoCatalogs, broker: Broker, topic: str, file: Path) -> None:
    project.run("pause", "--commits", "cold:*", "--reason", "moving house")
    broker.produce(topic, [*orders(2000, 2300), b"not json"])
    assert "moving house" in project.run("run", file, "--until-caught-up", code=6)
    assert project.rows(HOT) == wanted(2300, HOT)
    assert project.rows(EU) == wanted(2000, EU)
    waiting = project.status_of(EU)
    assert (waiting["state"], waiting["pending"]["rows"]) == ("PAUSED", 75)
    assert project.status_of(HOT)["state"] != "PAUSED"

    project.cold().rename_table("archive.orders_eu", "archive.away")
    project.run("resume", "--commits", "cold:*")
    assert f"{EU}: " in project.run("run", file, "--until-caught-up", code=6)
    assert project.rows(US) == wanted(2300, US)
    assert project.status_of(EU)["state"] == "BLOCKED"
    options = ("--control-topic", project.control_topic, "--dry-run")
    assert "FLOE-E313" in project.run("discard", "--table", "archive.orders_eu", *options, code=3)
    assert "75 rows" in project.run("discard", "--table", EU, *options)
    project.cold().rename_table("archive.away", "archive.orders_eu")
    project.run("run", file, "--until-caught-up")
    assert exact(project, 2300)
    tables = {each["table"]: each["last_commit"]["total_rows"] for each in project.status("--verify")["tables"]}
    assert tables == {EU: 575, US: 575, HOT: 1150, LETTERS: 3}
    recorded = {name for p in project.run_json("offsets", "show", file)["partitions"] for name in p["recorded"]}
    assert recorded == {EU, US, HOT, LETTERS}


def down_under_a_live_run(project: TwoCatalogs, broker: Broker, topic: str, file: Path) -> None:
    kept = project.root / "cold.kept"
    process = project.start("run", file)
    try:
        broker.produce(topic, orders(2300, 2400))
        wait_for(lambda: exact(project, 2400), "2,400 records")
        shutil.copyfile(project.cold_db, kept)
        project.cold_db.write_bytes(b"no database" * 1000)
        count, end = 2400, time.monotonic() + OUTAGE_S
        while time.monotonic() < end:
            broker.produce(topic, orders(count, count + 20))
            count += 20
            wait_for(lambda n=count: project.rows(HOT) == wanted(n, HOT), "the other catalog's rows")  # type: ignore[misc]
            time.sleep(3)
        waiting = project.status_of(US)
        assert waiting["state"] in ("DEGRADED", "FAILED"), waiting
        assert waiting["pending"]["rows"] > 0
        shutil.copyfile(kept, project.cold_db)
        wait_for(lambda: exact(project, count), "everything")
        project.run("stop", "orders", "--timeout", "60")
        output, _ = process.communicate(timeout=30)
    finally:
        kill_group(process)
    assert process.returncode == 0, output
    assert "tables of catalog cold are written as this run knew them" in output


def rolled_back_and_read_again(project: TwoCatalogs, file: Path) -> None:
    before = project.rows(EU)
    first = project.cold().load_table("archive.orders_eu").snapshots()[0].snapshot_id
    options = ("--to", str(first), "--replay", "--control-topic", project.control_topic)
    lost = project.run("rollback", "--table", "archive.orders_eu", *options, code=6)
    assert "CATALOG:archive.orders_eu" in lost
    project.run("rollback", "--table", EU, *options)
    assert len(project.rows(EU)) < len(before)
    project.run("replay", file, "--table", EU)
    assert project.rows(EU) == before


def cleaned(project: TwoCatalogs) -> None:
    orphans = {}
    for name, lake in (("archive.orders_eu", project.cold()), ("shop.orders", project.catalog())):
        table = lake.load_table(name)
        path = table.inspect.files().column("file_path").to_pylist()[0].removeprefix("file://")
        orphans[name] = Path(path).with_name("orphan.parquet")
        shutil.copyfile(path, orphans[name])
        os.utime(orphans[name], (time.time() - 4 * 86_400,) * 2)
    found = project.run_json("clean", "archive.*")["tables"]
    assert {table["table"] for table in found} == {EU, US, LETTERS}
    removed = project.run_json("clean", "cold:*_eu", "--delete")["tables"]
    assert [(table["table"], table["removed"]) for table in removed] == [(EU, 1)]
    assert {name: path.exists() for name, path in orphans.items()} == {"archive.orders_eu": False, "shop.orders": True}


def dead_letters(project: TwoCatalogs, topic: str, file: Path) -> None:
    listed = project.run_json("dlq", "list", file)
    assert {letter["code"] for letter in listed["letters"]} == {"FLOE-D101", "FLOE-D202"}
    mended = project.pipeline("orders", TWO_CATALOGS.format(topic=topic, name="rest", catalog="cold"))
    document = project.run_json("dlq", "replay", mended)
    assert (document["replayed"], document["rows"]) == (1, {"cold:archive.rest": 1})
    assert project.rows("cold:archive.rest") == Counter([-1])
    assert project.cold().load_table("archive.dead_letters_replayed").scan().to_arrow().num_rows == 1
    stats = project.run_json("dlq", "stats", mended)
    assert (stats["waiting"], stats["replayed"]) == (2, 1)
    log = [json.loads(line) for line in project.run("log", "--json").splitlines() if line.startswith("{")]
    assert "cold:archive.rest" in json.dumps(log)


def moved(project: TwoCatalogs, topic: str) -> None:
    text = TWO_CATALOGS.format(topic=topic, name="orders_{region}", catalog="default")
    refused = project.run("run", project.pipeline("orders", text), "--until-caught-up", code=2)
    assert "--allow FLOE-P109" in refused
    assert ("archive",) not in project.catalog().list_namespaces()


def test_a_catalog_is_replaced_by_one_with_the_same_tables(project: TwoCatalogs, broker: Broker) -> None:
    """A target that names a new catalog goes on exactly in the tables that were registered there, with what was announced
    before the move, and the old catalog gets nothing more. Where nobody registered them, the run says that tables begin
    empty; `floe replay` then brings into the right catalog what went into the wrong one. (redpanda-data/docs#1692)"""
    topic = broker.new_topic("orders", partitions=2)
    broker.produce(topic, [{"id": i} for i in range(100)])
    file = project.pipeline("moving", MOVING.format(topic=topic))
    project.run("run", file, "--until-caught-up")
    broker.produce(topic, [{"id": i} for i in range(100, 200)])
    project.run("run", file, "--until-caught-up", code=-9, env={"FLOE_FAULT": "announced=kill"})
    old = project.catalog()
    assert old.load_table("shop.orders").scan().count() == 100

    project.catalog_settings = project.catalog_settings | {"uri": f"sqlite:///{project.root}/new.db"}
    project.write_target()
    project.catalog().create_namespace("shop")
    project.catalog().register_table("shop.orders", old.load_table("shop.orders").metadata_location)
    assert "begin empty" not in project.run("run", file, "--until-caught-up")
    assert project.rows("shop.orders") == Counter(range(200))
    assert old.load_table("shop.orders").scan().count() == 100

    right = project.catalog_settings
    project.catalog_settings = right | {"uri": f"sqlite:///{project.root}/empty.db"}
    project.write_target()
    broker.produce(topic, [{"id": i} for i in range(200, 300)])
    said = project.run("run", file, "--until-caught-up")
    assert "none of its tables is there, though 200 records were written: new ones begin empty" in said, said
    project.catalog_settings = right
    project.write_target()
    shown = project.run_json("offsets", "show", file)["partitions"]
    lacks = {f"{each['topic']}:{each['partition']}": (each["recorded"]["shop.orders"], each["group"]) for each in shown}
    ends = [word for at, (start, end) in lacks.items() for word in ("--from", f"{at}={start}", "--to", f"{at}={end}")]
    project.run("replay", file, "--table", "shop.orders", *ends)
    project.run("run", file, "--until-caught-up")
    assert project.rows("shop.orders") == Counter(range(300))
    query = "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM `default`.shop.orders"
    assert java_read(project.catalog_settings, [query]).rows == [[{"n": 300, "ids": 300}]]
