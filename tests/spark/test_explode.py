"""Records that hold several changes each: tables have every element once, whatever a run dies of."""

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

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json, explode: {path}}}
      schema:
        id: long
        n: long
        meta: {{parse: json, type: "struct<region: string, tags: list<string>>"}}
      metadata_columns: [partition, offset, index]
    routes: {{mode: all_match, rules: [{{table: shop.people}}, {{table: shop.log}}], allow_tables: ["shop.*"]}}
    tables:
      defaults: {{commit: {{interval: 1s}}}}
      overrides:
        - match: shop.people
          write: {{mode: upsert, key: [id], delete_when: {{field: op, equals: d}}, history: shop.people_history}}
          create: {{partition_by: ["bucket(4, id)"], properties: {{format-version: "{version}"}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
# Each ends the driver: a task that is killed each time it is tried would be looked for as a record that kills.
FAULTS = ("files-written=kill", "in-transaction=kill", "announced=kill", "before-commit=kill", "committed=kill")
PARTITIONS, KEYS, MOST = 2, 40, 6
Element = dict[str, Any]
Record = list[Element]
Place = tuple[int, int, int]


class Expected:
    """What tables must hold, by a fold of the records alone."""

    def __init__(self) -> None:
        self.offsets = [0] * PARTITIONS
        self.log: dict[Place, Element] = {}
        self.people: dict[int, tuple[Place, Element]] = {}
        self.dead_letters: set[tuple[int, int]] = set()

    def add(self, partition: int, record: Record) -> None:
        offset = self.offsets[partition]
        self.offsets[partition] += 1
        if any(each["n"] == "bad" for each in record):
            self.dead_letters.add((partition, offset))
            return
        for index, each in enumerate(record):
            place = partition, offset, index
            self.log[place] = each
            if each.get("op") == "d":
                self.people.pop(each["id"], None)
            else:
                self.people[each["id"]] = place, each


def records(seed: int, count: int, keys: int = KEYS) -> Iterable[tuple[int, Record]]:
    """With the partition of each: all changes of a key are in one. Some records have the same key twice, some nothing."""
    pick = random.Random(seed)
    for number in range(count):
        partition = pick.randrange(PARTITIONS)
        record: Record = []
        for index in range(pick.randrange(MOST)):
            key = pick.randrange(keys) * PARTITIONS + partition
            one: Element = {"id": key, "n": seed * 1_000_000 + number * MOST + index}
            if pick.random() < 0.2:
                one["op"] = "d"
            elif pick.random() < 0.7:
                region = pick.choice(["eu", 'a "quoted" one'])
                one["meta"] = f'{{"region": "{region}", "tags": ["x"]}}'.replace('"quoted"', '\\"quoted\\"')
            record.append(one)
        if record and pick.random() < 0.03:
            record[-1]["n"] = "bad"
        yield partition, record


def check(project: Project, expected: Expected) -> None:
    place = "_kafka_partition AS p, _kafka_offset AS o, _kafka_index AS i"
    columns = "id, n, meta.region AS region"
    log, people, history, letters = java_read(
        project.catalog_settings,
        [
            f"SELECT {place}, {columns}, op FROM `default`.shop.log",
            f"SELECT {place}, {columns} FROM `default`.shop.people",
            f"SELECT {place}, id, _op FROM `default`.shop.people_history",
            "SELECT partition AS p, offset AS o, field_path FROM `default`.shop.dead_letters",
        ],
    ).rows
    assert len(log) == len(expected.log), "an element is there twice, or not at all"
    assert {_place(row): _element(row) for row in log} == {at: sent(one) for at, one in expected.log.items()}
    assert len(people) == len({row["id"] for row in people}), "two rows of one key"
    assert {row["id"]: (_place(row), _element(row)) for row in people} == {
        key: (at, sent(one)) for key, (at, one) in expected.people.items()
    }
    changes = {at: (one["id"], "delete" if one.get("op") == "d" else "upsert") for at, one in expected.log.items()}
    assert len(history) == len(changes)
    assert {_place(row): (row["id"], row["_op"]) for row in history} == changes
    assert {(row["p"], row["o"]) for row in letters} == expected.dead_letters
    assert len(letters) == len(expected.dead_letters)
    assert all(row["field_path"].startswith("[") and row["field_path"].endswith("].n") for row in letters)


def _place(row: Element) -> Place:
    return row["p"], row["o"], row["i"]


def _element(row: Element) -> tuple[Any, ...]:
    return row["id"], row["n"], row.get("region"), row.get("op")


def sent(one: Element) -> tuple[Any, ...]:
    region = None if "meta" not in one else "eu" if '"eu"' in one["meta"] else 'a "quoted" one'
    return one["id"], one["n"], region, one.get("op")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("version", "faults"),
    [
        pytest.param("2", ("announced=kill",), id="2"),
        pytest.param("3", FAULTS, id="3-kills", marks=pytest.mark.slow),
    ],
)
def test_each_element_is_a_row_through_kills(
    tmp_path: Path, broker: Broker, version: str, faults: tuple[str, ...]
) -> None:
    """Runs of a stream of arrays, each killed at another point of a batch: Spark reads each element once in a table that is
    appended to, the newest of each key in one that is upserted, each change in its history, and one dead letter for each
    record with a bad element."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("arrays", partitions=PARTITIONS)
    file = project.pipeline("arrays", PIPELINE.format(topic=topic, version=version, path="$"))
    expected = Expected()
    for seed, fault in enumerate(("", *faults, "")):
        for partition, some in by_partition(records(seed, 400)).items():
            broker.produce(topic, some, partition=partition)
            for each in some:
                expected.add(partition, each)
        dies: Element = {"code": None, "env": {"FLOE_FAULT": fault}} if fault else {}
        project.run("run", file, "--until-caught-up", timeout_s=600, **dies)
    check(project, expected)


def by_partition(drawn: Iterable[tuple[int, Record]]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for partition, record in drawn:
        found.setdefault(partition, []).append(record)
    return found


REPLAYED = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {{type: json, explode: order.lines}}
      schema: {{order.lines.at: {{type: timestamptz{zone}}}}}
      metadata_columns: [partition, offset, index]
    routes: {{rules: [{{table: "shop.l_{{order.lines.kind}}"}}], allow_tables: ["shop.*"]}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
TIMES = {"good": "2024-01-04T12:00:00Z", "no zone": "2024-01-04 12:00:00", "bad": "noon"}


@pytest.mark.timeout(900)
def test_a_replay_writes_each_element_of_a_dead_letter_once(tmp_path: Path, broker: Broker) -> None:
    """Records of which an element is wrong are one dead letter each; once the file reads it, a replay that is killed and
    run again writes all elements, into all tables, with their places. What still cannot be read stays."""
    project = Project(tmp_path, broker.bootstrap_servers)
    topic = broker.new_topic("replayed", partitions=PARTITIONS)
    pick = random.Random(7)
    places: dict[str, dict[Place, str]] = {"a": {}, "b": {}}
    later: set[tuple[int, int]] = set()
    never: set[tuple[int, int]] = set()
    for partition in range(PARTITIONS):
        sent_here: list[Element] = []
        for offset in range(200):
            lines = [{"kind": pick.choice("ab"), "at": TIMES["good"], "n": f"{offset}.{i}"} for i in range(3)]
            times = pick.choices(list(TIMES), (8, 2, 1), k=pick.randrange(4))
            for line, time in zip(lines, times, strict=False):
                line["at"] = TIMES[time]
            sent_here.append({"id": offset, "order": {"lines": lines}})
            (never if "bad" in times else later if "no zone" in times else set()).add((partition, offset))
            if "bad" not in times:
                places_here = ((line["kind"], (partition, offset, i), line["n"]) for i, line in enumerate(lines))
                for kind, place, n in places_here:
                    places[kind][place] = n
        broker.produce(topic, sent_here, partition=partition)
    project.run(
        "run", project.pipeline("lines", REPLAYED.format(topic=topic, zone="")), "--until-caught-up", timeout_s=300
    )
    waiting = never | later
    assert _rows(project) == {
        kind: {at: n for at, n in found.items() if at[:2] not in waiting} for kind, found in places.items()
    }

    file = project.pipeline("lines", REPLAYED.format(topic=topic, zone=", zone: UTC"))
    for fault in ("files-written", "in-transaction", "announced", "committed"):
        project.run("dlq", "replay", file, code=-9, env={"FLOE_FAULT": f"{fault}=kill"}, timeout_s=600)
    project.run("dlq", "replay", file, timeout_s=600)
    assert _rows(project) == places
    again = project.run_json("dlq", "replay", file)
    assert (again["found"], again["replayed"]) == (len(never), 0)


def _rows(project: Project) -> dict[str, dict[Place, str]]:
    """By table what stands at each place, as Spark reads it."""
    place = "_kafka_partition AS p, _kafka_offset AS o, _kafka_index AS i"
    queries = [f"SELECT {place}, order.lines.n FROM `default`.shop.l_{kind}" for kind in "ab"]
    found: dict[str, dict[Place, str]] = {}
    for kind, rows in zip("ab", java_read(project.catalog_settings, queries).rows, strict=True):
        found[kind] = {_place(row): str(row["n"]) for row in rows}
        assert len(found[kind]) == len(rows), "an element is there twice"
    return found
