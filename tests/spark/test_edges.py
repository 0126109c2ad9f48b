"""Runs at the edges: a first start at the end of a topic, one table under two names, a topic that comes back.

On a real broker, catalog and Spark, through the command; tables are read back with PyIceberg.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topics}], starting_offsets: {starting_offsets}}}
      schema: {{id: long, kind: string}}
    routes:
      rules: [{rules}]
      allow_tables: ["shop.*"]
      unrouted: fail
    tables: {{defaults: {{case: {case}, commit: {{interval: 1s}}}}}}
    errors: {{policy: fail}}
"""


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def pipeline(
    topics: str, rules: str = "{table: shop.t}", starting_offsets: str = "earliest", case: str = "insensitive"
) -> str:
    return PIPELINE.format(topics=topics, rules=rules, starting_offsets=starting_offsets, case=case)


def ids(project: Project, table: str = "shop.t") -> list[int]:
    return sorted(project.table(table).column("id").to_pylist())


@pytest.mark.slow
def test_a_scheduled_run_that_starts_at_the_end_reads_what_comes_after_its_first_run(
    project: Project, broker: Broker
) -> None:
    """`starting_offsets: latest` is decided once: the first run announces where it stands, and the next one goes on
    there."""
    topic = broker.new_topic("latest", partitions=2)
    broker.produce(topic, [{"id": n} for n in range(5)])
    file = project.pipeline("latest", pipeline(topic, starting_offsets="latest"))
    project.run("run", file, "--until-caught-up")
    broker.produce(topic, [{"id": n} for n in range(5, 12)])
    assert project.run_json("status")["pipelines"][0]["lag"] == 7, "what comes after the first run is seen to wait"
    project.run("run", file, "--until-caught-up")
    assert ids(project) == list(range(5, 12))


def fold_names(project: Project) -> None:
    """Make the catalog's database take two spellings for one name, as MySQL does by default."""
    project.catalog()
    with sqlite3.connect(project.root / "catalog.db") as database:
        (made,) = database.execute("SELECT sql FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone()
        database.execute("DROP TABLE iceberg_tables")
        database.execute(made.replace("VARCHAR(255) NOT NULL", "VARCHAR(255) COLLATE NOCASE NOT NULL"))


@pytest.mark.slow
def test_two_names_of_one_table_lose_nothing(project: Project, broker: Broker) -> None:
    """Where a catalog folds names, the rows of both spellings come into the table, once, also with a second file and a
    second run."""
    fold_names(project)
    topic = broker.new_topic("names")
    broker.produce(topic, [{"id": n, "kind": "upper" if n % 3 == 0 else "lower"} for n in range(300)])
    rules = "{when: {field: kind, equals: upper}, table: shop.Orders}, {table: shop.orders}"
    files = [
        project.pipeline("both", pipeline(topic, rules, case="sensitive")),
        project.pipeline("upper", pipeline(topic, "{table: shop.ORDERS}", case="sensitive")),
    ]
    project.run("run", *files, "--until-caught-up")
    assert ids(project, "shop.orders") == sorted([*range(300), *range(300)])
    broker.produce(topic, [{"id": 300, "kind": "upper"}, {"id": 301, "kind": "lower"}])
    project.run("run", *files, "--until-caught-up")
    assert ids(project, "shop.orders") == sorted([*range(302), *range(302)])
    # Read again for the table, not for one of its names.
    reach = ("--from", f"{topic}:0=0", "--to", f"{topic}:0=300", "--allow-duplicates")
    project.run("replay", files[0], "--table", "shop.orders", *reach)
    assert ids(project, "shop.orders") == sorted([*range(302), *range(302), *range(300)])


@pytest.mark.slow
def test_a_topic_that_was_given_up_goes_on_where_that_was(project: Project, broker: Broker) -> None:
    """A topic that is taken out of the file and put back adds nothing again to a table that was quiet meanwhile, and
    loses nothing."""
    first, second = broker.new_topic("kept"), broker.new_topic("back")
    rules = f"{{when: {{topic: '^{second}$'}}, table: shop.quiet}}, {{table: shop.t}}"
    broker.produce(first, [{"id": n} for n in range(10)])
    broker.produce(second, [{"id": n} for n in range(10)])
    file = project.pipeline("topics", pipeline(f"{first}, {second}", rules))
    project.run("run", file, "--until-caught-up")
    project.pipeline("topics", pipeline(first, rules))
    said = project.run("run", file, "--until-caught-up", code=5)
    assert "topics.yaml --from-log --allow-loss" in said
    project.run("offsets", "set", file, "--from-log", "--allow-loss")
    broker.produce(first, [{"id": n} for n in range(10, 20)])
    project.run("run", file, "--until-caught-up")
    broker.produce(second, [{"id": n} for n in range(10, 15)])
    project.pipeline("topics", pipeline(f"{first}, {second}", rules))
    said = project.run("run", file, "--until-caught-up")
    assert "was given up at 10 and goes on from there" in said
    assert ids(project, "shop.t") == list(range(20))
    assert ids(project, "shop.quiet") == list(range(15))


@pytest.mark.slow
def test_a_table_that_was_put_back_waits_until_what_it_lacks_is_read_again(project: Project, broker: Broker) -> None:
    """Everything is started again between the restore and the next batch: the log alone shows what the table lacks. The
    verb that the reason names reads it again, once."""
    topic = broker.new_topic("restored")
    file = project.pipeline("restored", pipeline(topic))
    older = ""
    for first in (0, 5):
        broker.produce(topic, [{"id": n} for n in range(first, first + 5)])
        project.run("run", file, "--until-caught-up")
        older = older or project.catalog().load_table("shop.t").metadata_location
    catalog = project.catalog()
    catalog.drop_table("shop.t")
    catalog.register_table("shop.t", older)
    broker.produce(topic, [{"id": n} for n in range(10, 15)])
    said = project.run("run", file, "--until-caught-up", code=6)
    assert "it was put back to an older state" in said
    assert "floe rebase" in said
    assert ids(project) == list(range(5))
    project.run("rebase", file)
    project.run("run", file, "--until-caught-up")
    assert ids(project) == list(range(15))


def test_a_table_whose_record_was_taken_away_waits_for_it(project: Project, broker: Broker) -> None:
    """`floe.progress` was unset: nothing is added, and rebase does not take the table for an empty one. With the
    property back everything goes on."""
    topic = broker.new_topic("unset")
    file = project.pipeline("unset", pipeline(topic))
    broker.produce(topic, [{"id": n} for n in range(5)])
    project.run("run", file, "--until-caught-up")
    with project.catalog().load_table("shop.t").transaction() as transaction:
        text = transaction.table_metadata.properties["floe.progress"]
        transaction.remove_properties("floe.progress")
    broker.produce(topic, [{"id": n} for n in range(5, 8)])
    said = project.run("run", file, "--until-caught-up", code=6)
    assert "its recorded progress is gone" in said
    assert "FLOE-R327" in project.run("rebase", file, code=5)
    assert ids(project) == list(range(5))
    with project.catalog().load_table("shop.t").transaction() as transaction:
        transaction.set_properties({"floe.progress": text})
    project.run("run", file, "--until-caught-up")
    assert ids(project) == list(range(8))


@pytest.mark.slow
@pytest.mark.failure("F79")
def test_a_topic_of_aborted_transactions_is_read_to_its_end(project: Project, broker: Broker) -> None:
    """Hundreds of offsets that hold nothing but records of aborted transactions and their markers end a bounded run as any
    others do; lag is 0 behind them, and behind the marker of a transaction that was committed last."""
    topic = broker.new_topic("aborted", partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(30)
    file = project.pipeline("aborted", pipeline(topic))

    def transaction(values: range, is_kept: bool) -> None:
        producer.begin_transaction()
        for number in values:
            producer.produce(topic, json.dumps({"id": number}), partition=number % 2)
        producer.flush(30)
        producer.commit_transaction(30) if is_kept else producer.abort_transaction(30)

    for turn in range(40):
        transaction(range(turn * 100, turn * 100 + 10), is_kept=False)
    for kept in ([], [7_001, 7_002, 7_004]):
        if kept:
            transaction(range(7_001, 7_002), is_kept=True)
            transaction(range(8_000, 8_400), is_kept=False)
            transaction(range(7_002, 7_003), is_kept=True)
            transaction(range(7_004, 7_005), is_kept=True)
        project.run("run", file, "--until-caught-up")
        [status] = project.run_json("status")["pipelines"]
        assert status["lag"] == 0
        assert all(each["safe_offset"] == each["log_end"] > 0 for each in status["partitions"])
        assert (ids(project) if kept else []) == kept
