"""The checker of a campaign among neighbours: topics, tables and tags, read by a plain consumer, PyIceberg, Spark and Java.

In: the topics' own records, the tables, what was given up by name, what taggers said. Out: findings as sentences, none
when all is well. Nothing of floe is imported.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from pyiceberg.catalog import Catalog

from testbed.servers.spark_reader import java_read

Record = tuple[int, int, dict[str, Any]]  # partition, offset, value


def records_of(bootstrap_servers: str, topic: str) -> list[Record]:
    """All committed records of a topic, by partition and offset."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "checker", "enable.auto.commit": False,
         "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )  # fmt: skip
    found: list[Record] = []
    try:
        for partition in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
            at = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(at, timeout=20)
            consumer.assign([at])
            while consumer.position([at])[0].offset < end:
                for message in consumer.consume(5000, timeout=0.5):
                    assert message.error() is None, message.error()
                    found.append((partition, message.offset() or 0, json.loads(message.value() or b"null")))
                if end == 0:
                    break
    finally:
        consumer.close()
    return sorted(found, key=lambda each: each[:2])


def appended(
    catalog: Catalog, records: list[Record], letter: str, given_up: Mapping[str, Collection[int]]
) -> Iterator[str]:
    """Each id in its table once, unless it was given up by name; then not at all, but for a record that was written
    twice to the topic."""
    wanted: dict[str, Counter[int]] = defaultdict(Counter)
    for _, _, value in records:
        wanted[f"shop.{letter}_{value['kind']}"][value["id"]] += 1
    for name, ids in wanted.items():
        rows = catalog.load_table(name).scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        found, gone = Counter(rows), set(given_up.get(name, ()))
        lost = sorted(each for each in ids if each not in gone and found[each] < ids[each])
        twice = sorted(each for each, count in found.items() if count > ids[each])
        back = sorted(each for each in gone if found[each])
        if lost:
            yield f"{name}: {len(lost)} ids are lost, such as {lost[:10]}"
        if twice:
            yield f"{name}: {len(twice)} ids are there more often than in the topic, such as {twice[:10]}"
        if back:
            yield f"{name}: {len(back)} ids came back that were given up, such as {back[:10]}"


def upserted(catalog: Catalog, records: list[Record]) -> Iterator[str]:
    """Each table is the fold of its records by offset: all records of a key are in one partition."""
    wanted: dict[str, dict[int, int]] = defaultdict(dict)
    for _, _, value in records:
        rows = wanted[f"shop.u_{value['kind']}"]
        rows.pop(value["id"], None)
        if value["op"] != "d":
            rows[value["id"]] = value["n"]
    for name, rows in wanted.items():
        table = catalog.load_table(name).scan(selected_fields=("id", "n")).to_arrow()
        found = sorted(zip(table["id"].to_pylist(), table["n"].to_pylist(), strict=True))
        if found != sorted(rows.items()):
            wrong = sorted(set(found) ^ set(rows.items()))
            yield f"{name}: {len(wrong)} rows differ from the fold, such as {wrong[:10]}"


def kept_references(said: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The tags and branches that a tagger set, read once, and did not begin to remove."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for each in said:
        if "set" in each:
            kept[each["table"], each["set"]] = each
        elif "rows_of" in each:
            kept[each["table"], each["rows_of"]]["rows"] = each["rows"]
        elif "removing" in each:
            kept.pop((each["table"], each["removing"]), None)
    return {key: each for key, each in kept.items() if "rows" in each}


def read_by_all(
    catalog: Catalog, settings: Mapping[str, str], tables: list[str], kept: Mapping[tuple[str, str], Mapping[str, Any]]
) -> Iterator[str]:
    """Each table and each tag has the same number of rows for PyIceberg, Spark and, for heads, Iceberg's Java library."""
    labels = sorted(kept)
    queries = [f"SELECT count(*) AS n FROM `default`.{name}" for name in tables]
    queries += [f"SELECT count(*) AS n FROM `default`.{name} VERSION AS OF '{label}'" for name, label in labels]
    for key in labels:
        name, label = key
        table = catalog.load_table(name)
        reference = table.metadata.refs.get(label)
        if reference is None or reference.snapshot_id != kept[key]["snapshot"]:
            yield f"{name}: {label} is gone or moved"
            queries = [each for each in queries if f"default`.{name} VERSION AS OF '{label}'" not in each]
            continue
        rows = len(table.scan(snapshot_id=reference.snapshot_id, selected_fields=("id",)).to_arrow())
        if rows != kept[key]["rows"]:
            yield f"{name}: {label} had {kept[key]['rows']} rows, now {rows}"
    read = java_read(settings, queries, tables)
    by_spark = {query: rows[0]["n"] for query, rows in zip(queries, read.rows, strict=True)}
    for name in tables:
        rows = len(catalog.load_table(name).scan(selected_fields=("id",)).to_arrow())
        others = (by_spark[f"SELECT count(*) AS n FROM `default`.{name}"], read.counts[name])
        if others != (rows, rows):
            yield f"{name}: PyIceberg reads {rows} rows, Spark and Java {others}"
    for name, label in labels:
        query = f"SELECT count(*) AS n FROM `default`.{name} VERSION AS OF '{label}'"
        if query in by_spark and by_spark[query] != kept[name, label]["rows"]:
            yield f"{name}: {label} had {kept[name, label]['rows']} rows, Spark reads {by_spark[query]}"
