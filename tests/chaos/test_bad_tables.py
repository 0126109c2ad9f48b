"""One bad table is one bad table: its records wait or are dead letters with the reason, and all others are written."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.checker import landed_positions
from tests.chaos.conftest import ProxiedCatalog
from tests.chaos.harness import Running, wait_for
from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(900)]

BODY = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      metadata_columns: [topic, partition, offset]
    routes:
      rules: [{{table: "shop.t_{{kind}}"}}]
      allow_tables: ["shop.*"]
    tables:
      defaults: {{commit: {{interval: 1s}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
KINDS = ("gone", "encrypted", "variant", "well", "sound")
TABLES = {kind: f"shop.t_{kind}" for kind in KINDS}


def records(start: int, count: int = 10, kinds: tuple[str, ...] = KINDS, **more: object) -> list[dict[str, object]]:
    """So many for each kind."""
    return [{"id": start + i, "kind": kind, **more} for i in range(count) for kind in kinds]


def ids(project: Project, kind: str) -> list[int]:
    return sorted(project.table(TABLES[kind]).column("id").to_pylist())


def letters(project: Project) -> dict[str, set[tuple[int, str, str]]]:
    """By kind the records that became dead letters: their number, the code and the reason."""
    found: dict[str, set[tuple[int, str, str]]] = {}
    for row in project.table("shop.dead_letters").to_pylist():
        record = json.loads(row["value"])
        found.setdefault(record.get("kind", ""), set()).add((record["id"], row["code"], row["message"]))
    return found


def metadata_file(project: Project, table: str) -> Path:
    return Path(project.catalog().load_table(table).metadata_location.removeprefix("file://"))


def rewrite(project: Project, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Another engine's change of the table's metadata, which PyIceberg may not be able to make."""
    before = metadata_file(project, table)
    text = json.loads(before.read_text())
    change(text)
    after = before.with_name(f"9{uuid.uuid4().hex}.metadata.json")
    after.write_text(json.dumps(text))
    namespace, name = table.split(".")
    with closing(sqlite3.connect(project.root / "catalog.db")) as database, database:
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            (f"file://{after}", namespace, name),
        )


def lose(project: Project, table: str) -> Path:
    """Another engine changes the table, and its new metadata file goes; gives where it was kept."""
    rewrite(project, table, lambda metadata: None)
    file = metadata_file(project, table)
    return file.rename(file.with_suffix(".kept"))


def with_variant(metadata: dict[str, Any]) -> None:
    """A column of a type that is not known here, as other engines add it to a table of format version 3."""
    metadata.update({"format-version": 3, "next-row-id": 100, "last-column-id": 90})
    metadata["schemas"][-1]["fields"].append({"id": 90, "name": "v", "required": False, "type": "variant"})


@pytest.mark.failure("F40")
@pytest.mark.slow
def test_tables_that_cannot_be_loaded_stop_no_other(project: Project, broker: Broker) -> None:
    """A table whose metadata file is gone, one that is encrypted and one with a type that is not known: their records
    are dead letters with the reason, and the others of the pipeline get theirs."""
    topic = broker.new_topic("bad")
    file = project.pipeline("bad", BODY.format(topic=topic))
    broker.produce(topic, [*records(0), {"id": 0}])  # the last makes the dead-letter table
    project.run("run", file, "--until-caught-up")

    lose(project, TABLES["gone"])
    with project.catalog().load_table(TABLES["encrypted"]).transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k"})
    rewrite(project, TABLES["variant"], with_variant)

    broker.produce(topic, records(100))
    output = project.run("run", file, "--until-caught-up", timeout_s=400)

    for kind in ("well", "sound"):
        assert ids(project, kind) == [*range(10), *range(100, 110)]
    assert ids(project, "encrypted") == list(range(10))
    found = {kind: reasons for kind, reasons in letters(project).items() if kind in KINDS}
    said = {"gone": "cannot be loaded", "encrypted": "encrypted", "variant": "type variant"}
    assert set(found) == set(said)
    for kind, reason in said.items():
        assert {number for number, _, _ in found[kind]} == set(range(100, 110))
        assert {code for _, code, _ in found[kind]} == {"FLOE-D205"}
        assert all(reason in message for _, _, message in found[kind]), found[kind]
        assert f"{TABLES[kind]} was in trouble" in output


@pytest.mark.chaos
@pytest.mark.failure("F40", "F41")
def test_tables_that_go_bad_under_a_run_stop_no_other(project: Project, broker: Broker) -> None:
    """Under a run a table whose metadata file goes, and one that is dropped, are written as they were known, and what
    is announced waits; records that ask for a change of them are dead letters. The run says DEGRADED and the table,
    ends with exit code 6, and when the file is back all of it is committed."""
    topic = broker.new_topic("worse")
    file = project.pipeline("worse", BODY.format(topic=topic))
    broker.produce(topic, [*records(0), {"id": 0}])
    with Running(project, "run", file) as run:
        run.wait_for_output("coordinator: committed shop.t_", 5)
        wait_for(lambda: project.tables("shop") == sorted([*TABLES.values(), "shop.dead_letters"]), "the tables")
        wait_for(lambda: all(ids(project, kind) == list(range(10)) for kind in KINDS), "the first batch")
        kept = lose(project, TABLES["gone"])
        project.catalog().drop_table(TABLES["variant"])

        broker.produce(topic, records(100))
        wait_for(lambda: ids(project, "well") == [*range(10), *range(100, 110)], "the healthy tables' second batch")
        broker.produce(topic, records(200, kinds=("variant", "sound"), more=1))
        wait_for(lambda: len(ids(project, "sound")) == 30, "the healthy table's new column")
        wait_for(lambda: "variant" in letters(project), "the dead letters")
        assert {number for number, _, _ in letters(project)["variant"]} == set(range(200, 210))
        assert all("dropped" in message for _, _, message in letters(project)["variant"])

        def degraded() -> str:
            [pipeline] = project.status()["pipelines"]
            return str(pipeline["reason"]) if pipeline["state"] == "DEGRADED" else ""

        assert "shop.t_" in wait_for(degraded, "the state")
        assert run.running, run.output
        assert run.terminate() == 6, run.output
    kept.rename(kept.with_suffix(".json"))
    project.run("run", file, "--until-caught-up", code=6)  # the dropped table's announcements wait still
    assert ids(project, "gone") == [*range(10), *range(100, 110)]


@pytest.mark.chaos
@pytest.mark.failure("F40")
def test_a_change_that_the_catalog_refuses_stops_no_record_that_does_not_ask_for_it(
    tmp_path: Path, broker: Broker, rest_catalog: ProxiedCatalog
) -> None:
    """Where a catalog refuses a new column of one table, records with the new field are dead letters with its answer,
    those without are written, and the other tables get their column."""
    project = Project(tmp_path, broker.bootstrap_servers)
    project.catalog_settings = rest_catalog.direct
    project.write_target(catalog=rest_catalog.proxied)
    topic = broker.new_topic("refused")
    file = project.pipeline("refused", BODY.format(topic=topic))
    kinds = ("well", "sound")
    broker.produce(topic, [*records(0, kinds=kinds), {"id": 0}])
    with Running(project, "run", file) as run:
        run.wait_for_output("coordinator: committed shop.t_", 2)
        rest_catalog.proxy.before = lambda method, path: (
            403 if method == "POST" and path.endswith(TABLES["sound"].replace("shop.", "/tables/")) else None
        )
        broker.produce(topic, [*records(100, kinds=kinds, more=1), *records(200, kinds=kinds)])
        wait_for(lambda: "sound" in letters(project), "the dead letters")
        rest_catalog.proxy.before = lambda method, path: None
        wait_for(lambda: len(ids(project, "well")) == 30, "the other table")
        wait_for(lambda: len(ids(project, "sound")) == 20, "the records that ask for nothing")
        assert run.terminate() == 0, run.output
    assert {number for number, _, _ in letters(project)["sound"]} == set(range(100, 110))
    assert {code for _, code, _ in letters(project)["sound"]} == {"FLOE-D307"}
    assert all("the catalog refuses" in message for _, _, message in letters(project)["sound"])
    assert ids(project, "sound") == [*range(10), *range(200, 210)]
    positions = landed_positions(project.catalog(), [TABLES[kind] for kind in kinds])
    assert set(positions.values()) == {1}
