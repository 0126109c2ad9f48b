"""A table has one owner, which the table records: no record of another pipeline lands in an upsert table, a history or a
table of dead letters, and none stops the pipeline that has it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from framework.config.spec import HistoryTable, RouteRule, TablePolicy, WriteMode, WritePolicy
from framework.errors import FloeError
from framework.ops.preview.decisions import holding_tables, preview_table
from framework.ops.preview.model import Action
from framework.ops.tap.model import tables_now
from framework.plan.model import Plan
from framework.record.process import process_block
from framework.runtime.batches.change_rounds import context_now
from framework.runtime.tables.registry import TableRegistry
from framework.table.model import TableNeed
from framework.table.owner import OWNER_PROPERTY
from framework.task.context import TaskContext
from testbed.record_samples import block, plan
from tests.conftest import Broker
from tests.iceberg.conftest import Lake
from tests.project import Project

APPEND = TablePolicy()
UPSERT = replace(TablePolicy(), write=WritePolicy(WriteMode.UPSERT, key=("id",)))
TABLE = "ns.customers"
NEED = TableNeed(TABLE, (("id", "long"), ("kind", "string")))
NAMED, TEMPLATE = (RouteRule(TABLE),), (RouteRule("ns.{kind}s"),)


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)


def pipeline(name: str, rules: tuple[RouteRule, ...], policy: TablePolicy = APPEND, **write: Any) -> Plan:
    made = replace(plan(rules, defaults=policy), pipeline=name)
    return replace(made, write=replace(made.write, **write))


def run_of(lake: Lake, made: Plan) -> TableRegistry:
    """A run that has begun."""
    registry = TableRegistry(made, lake.tables, lambda _: None)
    registry.preload()
    return registry


def dead_letters_of(registry: TableRegistry, made: Plan) -> list[tuple[int, str, str]]:
    """What becomes of a record that leads to the table, between two that lead elsewhere."""
    registry.satisfy([NEED, TableNeed("ns.orders", NEED.fields)])
    context = context_now(TaskContext(made, {}, {}, {}, {}, "run", 1), registry)
    records = block([{"id": n, "kind": kind} for n, kind in enumerate(("order", "customer", "order"))])
    result = process_block(records, context.plan, context.tables)
    assert result.rows["ns.orders"].num_rows == 2
    return [(each.offset, each.code, each.message) for each in result.dead_letters]


def recorded(lake: Lake, table: str = TABLE) -> Any:
    return json.loads(lake.plain(table).properties[OWNER_PROPERTY])


@pytest.mark.parametrize("policy", [TablePolicy(), UPSERT], ids=["append", "upsert"])
def test_a_record_that_leads_into_anothers_upsert_table_is_one_dead_letter(lake: Lake, policy: TablePolicy) -> None:
    """One record of another pipeline is a dead letter that names the owner, whichever way that pipeline writes; the
    others are rows."""
    run_of(lake, pipeline("customers", NAMED, UPSERT)).satisfy([NEED])
    other = pipeline("shop", TEMPLATE, policy)
    if policy is UPSERT:
        other = replace(other, write=replace(other.write, tables=replace(other.write.tables, defaults=TablePolicy())))
        other = replace(
            other, write=replace(other.write, tables=replace(other.write.tables, overrides=((TABLE, UPSERT),)))
        )
    ((offset, code, message),) = dead_letters_of(run_of(lake, other), other)
    assert (offset, code) == (1, "FLOE-D206")
    assert "pipeline customers, which upserts it by id" in message
    assert recorded(lake) == {"mode": "upsert", "key": ["id"], "pipelines": ["customers"]}


def test_a_live_run_hears_of_an_owner_that_came_later(lake: Lake) -> None:
    """A table that nobody owned, and that another pipeline's file names from now on, is let alone from the next look at
    it."""
    lake.create(TABLE)
    other = pipeline("shop", TEMPLATE)
    registry = run_of(lake, other)
    assert TABLE in registry.targets
    run_of(lake, pipeline("customers", NAMED, UPSERT))
    registry.load(TABLE)
    assert TABLE not in registry.targets
    assert [code for _, code, _ in dead_letters_of(registry, other)] == ["FLOE-D206"]


@pytest.mark.parametrize("kind", ["history", "dead letters"])
def test_histories_and_dead_letters_are_owned_too(lake: Lake, kind: str) -> None:
    """No record of another pipeline stands among the changes of a history, or among dead letters."""
    if kind == "history":
        owner = pipeline("customers", (RouteRule("ns.people"),), UPSERT)
        tables = replace(owner.write.tables, histories=(HistoryTable(TABLE, "ns.people"),))
        owner = replace(owner, write=replace(owner.write, tables=tables))
    else:
        owner = pipeline("customers", (RouteRule("ns.people"),), dead_letter_table=TABLE)
    run_of(lake, owner).satisfy([NEED])
    other = pipeline("shop", TEMPLATE)
    ((_, code, message),) = dead_letters_of(run_of(lake, other), other)
    assert code == "FLOE-D206"
    assert f"pipeline customers, which keeps {'a history' if kind == 'history' else 'dead letters'} in it" in message


def test_a_file_that_asks_for_anothers_table_holds(lake: Lake) -> None:
    """A file that upserts by whole name what another pipeline appends to holds before it reads: no change of it is
    lost. Once the property is unset, it has the table."""
    run_of(lake, pipeline("orders", NAMED)).satisfy([NEED])
    later = pipeline("customers", NAMED, UPSERT)
    with pytest.raises(FloeError, match=r"belongs to pipeline orders, which appends to it") as caught:
        run_of(lake, later)
    assert caught.value.code == "FLOE-R144"
    assert f"ALTER TABLE {TABLE} UNSET TBLPROPERTIES ('{OWNER_PROPERTY}')" in caught.value.remedy
    with lake.plain(TABLE).transaction() as transaction:
        transaction.remove_properties(OWNER_PROPERTY)
    run_of(lake, later)
    assert recorded(lake)["pipelines"] == ["customers"]


def test_two_files_that_name_the_table_alike_consent(lake: Lake) -> None:
    """Both files name the table as a whole, with the same mode and key: both own it."""
    run_of(lake, pipeline("customers", NAMED, UPSERT)).satisfy([NEED])
    run_of(lake, pipeline("customers-v2", NAMED, UPSERT))
    assert recorded(lake)["pipelines"] == ["customers", "customers-v2"]


def test_appends_need_no_consent(lake: Lake) -> None:
    """Any number of pipelines append to one table, and share one for dead letters; the same pipeline may change its own
    mode."""
    run_of(lake, pipeline("orders", NAMED)).satisfy([NEED, TableNeed("ns.dead_letters", ())])
    other = pipeline("shop", TEMPLATE)
    assert dead_letters_of(run_of(lake, other), other) == []
    assert recorded(lake)["pipelines"] == ["orders"]
    assert recorded(lake, "ns.dead_letters") == {"mode": "dead_letters", "pipelines": ["orders", "shop"]}
    run_of(lake, pipeline("orders", NAMED, UPSERT))
    assert recorded(lake) == {"mode": "upsert", "key": ["id"], "pipelines": ["orders"]}


def test_a_table_of_before_belongs_to_whoever_names_it(lake: Lake) -> None:
    """A table without an owner is written as before; the pipeline that names it, and none that a record may lead
    there, owns it from the next run on."""
    lake.create(TABLE)
    run_of(lake, pipeline("shop", TEMPLATE))
    assert OWNER_PROPERTY not in lake.plain(TABLE).properties
    run_of(lake, pipeline("customers", NAMED))
    assert recorded(lake) == {"mode": "append", "pipelines": ["customers"]}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mode":"append","pipelines":[]}', "[" * 5000, '{"mode":"mine"}'])
def test_an_owner_that_cannot_be_read_stops_that_table_alone(lake: Lake, text: str) -> None:
    """Nobody knows whose such a table is: its records are dead letters, and the others are rows."""
    lake.create(TABLE, **{OWNER_PROPERTY: text})
    other = pipeline("shop", TEMPLATE)
    ((_, code, message),) = dead_letters_of(run_of(lake, other), other)
    assert (code, OWNER_PROPERTY in message) == ("FLOE-D206", True)


def test_plan_and_tap_say_whose_the_table_is(lake: Lake) -> None:
    """What a run would refuse is refused in the preview, and shown of live records."""
    run_of(lake, pipeline("customers", NAMED, UPSERT)).satisfy([NEED])
    named = pipeline("shop", NAMED)
    preview = preview_table(named, TABLE, lake.tables.load_target(TABLE, TablePolicy()))
    assert (preview.action, preview.code) == (Action.REFUSE, "FLOE-D206")
    assert "pipeline customers" in preview.notes[0]
    assert list(holding_tables(named, [preview])) == []
    upserting = pipeline("shop", NAMED, replace(UPSERT, write=replace(UPSERT.write, key=("kind",))))
    (problem,) = holding_tables(
        upserting, [preview_table(upserting, TABLE, lake.tables.load_target(TABLE, TablePolicy()))]
    )
    assert (problem.code, "pipeline customers" in problem.message) == ("FLOE-R144", True)
    assert [name for name, _ in tables_now(pipeline("shop", TEMPLATE), lake.tables).owned_by_others] == [TABLE]


PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long}}, type: {{type: string}}}}
    routes:
      rules: [{{table: "{table}"}}]
      allow_tables: ["shop.*"]
    tables: {{defaults: {{write: {write}, commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: lost.letters}}
"""


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.iceberg
def test_two_pipelines_of_one_table(tmp_path: Path, broker: Broker) -> None:
    """`customers` upserts, `shop` has a template: its record for the table is a dead letter, the other one a row, and
    `customers` goes on. Rows that came before the table had an owner are told with the name of who wrote them."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topics = [broker.new_topic(name) for name in ("customers", "shop")]
    upsert = "{mode: upsert, key: [id]}"
    owner = project.pipeline("customers", PIPELINE.format(topic=topics[0], table="shop.customers", write=upsert))
    other = project.pipeline("shop", PIPELINE.format(topic=topics[1], table="shop.{type}s", write="{mode: append}"))
    broker.produce(topics[0], [{"id": 1, "type": "customer"}])
    broker.produce(topics[1], [{"id": 1, "type": "customer"}, {"id": 2, "type": "order"}])
    project.run("run", owner, "--until-caught-up")
    project.run("run", other, "--until-caught-up")
    assert project.table("shop.customers").num_rows == project.table("shop.orders").num_rows == 1
    (letter,) = project.table("lost.letters").select(["code", "message"]).to_pylist()
    assert letter["code"] == "FLOE-D206"
    assert "pipeline customers, which upserts it by id" in letter["message"]
    broker.produce(topics[0], [{"id": 1, "type": "again"}])
    project.run("run", owner, "--until-caught-up")
    assert project.table("shop.customers").to_pylist()[0]["type"] == "again"

    table: Table = project.catalog().load_table("shop.customers")
    with table.transaction() as transaction:
        transaction.remove_properties(OWNER_PROPERTY)
    broker.produce(topics[1], [{"id": 1, "type": "customer"}])
    project.run("run", other, "--until-caught-up")
    table.refresh().append(table.scan().to_arrow().slice(0, 1))
    broker.produce(topics[0], [{"id": 3, "type": "customer"}])
    said = project.run("run", owner, "--until-caught-up", code=None)
    assert "FLOE-R144" in said
    assert "pipeline shop" in said
    assert "a writer that is not floe (snapshot" in said
