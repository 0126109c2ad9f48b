"""Every format from a real broker and a real schema registry, through Spark, into tables that PyIceberg reads."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date, datetime, time, timezone
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from confluent_kafka import Producer
from google.protobuf import descriptor_pb2, timestamp_pb2

from testbed.format_samples import avro_bytes, framed, record_of, serialized
from testbed.servers.apicurio import ApicurioRegistry
from tests.conftest import Broker
from tests.project import Project, kill_group, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.slow]

NOON = datetime(2024, 1, 4, 12, 0, 0, 123_456, timezone.utc)
NOON_US = int(NOON.timestamp()) * 1_000_000 + 123_456
KEY = UUID("2b3c0d5e-0000-4000-8000-0123456789ab")
# The logical types of Avro as its writer sees them, and as they are on the wire.
ORDER = record_of(
    {"name": "id", "type": "long", "doc": "its number"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
)
PLAIN = record_of(*({**each, "type": each["type"]["type"] if "logicalType" in each["type"] else each["type"]}
                    for each in ORDER["fields"]))  # fmt: skip
NEXT = record_of({"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]})
CLICKS: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "description": "its number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "later": {"type": "string"},
    },
    "required": ["id"],
}
CLICK = b'{"id": 1, "tags": ["a"], "day": "2024-01-04", "at": "2024-01-04T12:00:00Z", "price": 2, "counts": {"x": 1}}'
LAST = record_of({"name": "id", "type": "long"}, {"name": "more", "type": "int"})
WHO = record_of({"name": "who", "type": "int"}, name="shop.Who")
WIRE: dict[str, Any] = {
    "id": 1, "price": b"\x04\xd2", "day": 19726, "clock": 43_200_000_000, "at": NOON_US, "local": 1_704_369_600_123,
    "key": str(KEY), "tags": {"a": 1, "b": None},
}  # fmt: skip
CELLS = {
    "id": 1, "price": Decimal("12.34"), "day": date(2024, 1, 4), "clock": time(12), "at": NOON,
    "local": datetime(2024, 1, 4, 12, 0, 0, 123_000), "key": KEY, "tags": [("a", 1), ("b", None)],
}  # fmt: skip
TEXT = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {format}
      {further}
      metadata_columns: [topic, partition, offset, timestamp, key, headers, header.ce_type]
    routes:
      rules: [{{table: shop.{name}}}]
      allow_tables: ["shop.*"]
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
    errors: {{policy: dead_letter, dead_letter_table: shop.dead_letters}}
"""
SOURCE = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "orders", "lsn": 7,
          "ts_ms": 1_704_369_600_000, "snapshot": "false"}  # fmt: skip


def order_message() -> tuple[str, bytes]:
    """A compiled protobuf file, and a message of it."""
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="count", number=2, type=4, label=1)
    message.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    stamp = timestamp_pb2.Timestamp(seconds=NOON_US // 1_000_000, nanos=123_456_000).SerializeToString()
    data = b"\x08\x01" + b"\x10" + b"\xff" * 9 + b"\x01" + b"\x1a" + bytes([len(stamp)]) + stamp
    return serialized(file), data


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ApicurioRegistry]:
    server = ApicurioRegistry(tmp_path / "registry")
    yield server
    server.stop()


@pytest.fixture
def project(tmp_path: Path, broker: Broker, registry: ApicurioRegistry) -> Project:
    made = Project(tmp_path / "project", broker.bootstrap_servers)
    target = made.root / "pipelines" / "targets" / "it.yaml"
    settings = f'  registry:\n    main:\n      url: {registry.url}\n      unknown.schema.patience.ms: "500"\n'
    target.write_text(target.read_text().replace("spark:\n", settings + "spark:\n"))
    return made


def send(broker: Broker, topic: str, value: bytes | None, key: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    headers: list[tuple[str, str | bytes | None]] = [("ce_type", "draft"), ("trace", b"\xff"), ("none", None)]
    headers += [("ce_type", "order"), ("trace", b"\xff")]  # a name may stand twice
    producer.produce(topic, value, key, headers=headers, timestamp=1_704_369_600_000)
    assert producer.flush(30) == 0


def test_every_format_lands_and_an_outage_of_the_registry_loses_nothing(
    project: Project, broker: Broker, registry: ApicurioRegistry
) -> None:
    """JSON, Avro and protobuf behind a registry, raw bytes and Debezium's events land with exact types, keys, headers
    and positions. While the registry is down its pipelines say so and the others go on; afterwards every record is
    there once. An id that the registry has not is one dead letter, and a replay takes it once the schema is there."""
    avro, _ = registry.register("avro-value", json.dumps(ORDER))
    later, _ = registry.register("avro-later", json.dumps(NEXT))
    who, _ = registry.register("avro-key", json.dumps(WHO))
    clicks, _ = registry.register("json-value", json.dumps(CLICKS), "JSON")
    file, message = order_message()
    proto, _ = registry.register("proto-value", file, "PROTOBUF")
    wire = framed(proto, b"\0" + message)
    event = {"op": "c", "before": None, "after": {"id": 1, "n": 2.5}, "source": SOURCE, "ts_ms": 1_704_369_600_001}
    formats: dict[str, tuple[str, str, bytes]] = {
        "json": ("{type: json, registry: main}", "", framed(clicks, CLICK)),
        "avro": (
            "{type: avro, registry: main}",
            "key: {type: avro, registry: main, prefix: key_}",
            framed(avro, avro_bytes(PLAIN, WIRE)),
        ),
        "proto": ("{type: protobuf, registry: main}", "", wire),
        "raw": ("{type: raw, column: body}", "", b"\x00\xff any bytes"),
        "changes": ("{type: json, envelope: debezium}", "", json.dumps(event).encode()),
    }
    # The records' time is long ago, and the broker would remove them.
    topics = {name: broker.new_topic(name, config={"retention.ms": "-1"}) for name in formats}
    key = framed(who, avro_bytes(WHO, {"who": 7}))
    for name, (_, _, value) in formats.items():
        send(broker, topics[name], value, key)
    files = [
        project.pipeline(name, TEXT.format(topic=topics[name], format=form, further=further, name=name))
        for name, (form, further, _) in formats.items()
    ]
    process = project.start("run", *files)
    try:
        wait_for(lambda: all(rows(project, name) == 1 for name in formats), 200, "a row of each format")

        registry.stop()
        send(broker, topics["avro"], framed(later, avro_bytes(NEXT, {"id": 2, "note": "new"})), key)
        send(broker, topics["raw"], b"meanwhile", key)
        wait_for(lambda: rows(project, "raw") == 2, 60, "a row of raw bytes while the registry is down")
        waiting = wait_for(lambda: state_of(project, "avro", is_degraded), 90, "the state of the waiting pipeline")
        assert "FLOE-R141" in json.dumps(waiting)
        assert rows(project, "avro") == 1

        registry.start()
        wait_for(lambda: rows(project, "avro") == 2, 90, "the row that waited")
        unknown = max(avro, later, who, clicks, proto) + 1
        send(broker, topics["avro"], framed(unknown, avro_bytes(LAST, {"id": 3, "more": 5})), key)
        wait_for(lambda: rows(project, "dead_letters") == 1, 60, "the dead letter")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
    except AssertionError as missed:
        kill_group(process)
        assert process.stdout is not None
        raise AssertionError(f"{missed}\n{process.stdout.read()}") from missed
    finally:
        kill_group(process)

    [letter] = project.table("shop.dead_letters").to_pylist()
    assert (letter["code"], letter["pipeline"], letter["offset"]) == ("FLOE-D112", "avro", 2)
    check_rows(project, topics, key)

    assert registry.register("avro-last", json.dumps(LAST))[0] == unknown
    for _ in range(2):
        project.run("dlq", "replay", project.root / "pipelines" / "avro.yaml")
        last = project.table("shop.avro").sort_by("_kafka_offset").to_pylist()[2:]
        assert [(row["id"], row["more"], row["_kafka_offset"]) for row in last] == [(3, 5, 2)]


def check_rows(project: Project, topics: dict[str, str], key: bytes) -> None:
    first, second = project.table("shop.avro").sort_by("_kafka_offset").to_pylist()
    position = {"_kafka_topic": topics["avro"], "_kafka_partition": 0, "_kafka_offset": 0, "_kafka_key": key}
    assert {name: first[name] for name in CELLS} == CELLS
    assert {name: first[name] for name in position} == position
    assert (first["key_who"], first["note"], first["_kafka_header_ce_type"]) == (7, None, "order")
    assert first["_kafka_timestamp"] == datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
    assert [(each["key"], each["value"]) for each in first["_kafka_headers"]] == [
        ("ce_type", b"draft"),
        ("trace", b"\xff"),
        ("none", None),
        ("ce_type", b"order"),
        ("trace", b"\xff"),
    ]
    assert (second["id"], second["note"], second["price"], second["key_who"]) == (2, "new", None, 7)
    schema = project.catalog().load_table("shop.avro").schema()
    assert schema.find_field("id").doc == "its number"
    assert {name: str(schema.find_type(name)) for name in ("price", "clock", "at", "local", "key", "tags")} == {
        "price": "decimal(9, 2)", "clock": "time", "at": "timestamptz", "local": "timestamp", "key": "uuid",
        "tags": "map<string, int>",
    }  # fmt: skip
    [proto] = project.table("shop.proto").to_pylist()
    assert (proto["id"], proto["count"], proto["at"]) == (1, Decimal(2**64 - 1), NOON)
    [click] = project.table("shop.json").to_pylist()
    at = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
    assert {name: click[name] for name in CLICKS["properties"]} == {
        "id": 1, "tags": ["a"], "day": date(2024, 1, 4), "at": at, "price": 2.0, "counts": [("x", 1)], "later": None,
    }  # fmt: skip
    schema = project.catalog().load_table("shop.json").schema()
    assert {name: str(schema.find_type(name)) for name in CLICKS["properties"]} == {
        "id": "long", "tags": "list<string>", "day": "date", "at": "timestamptz", "price": "double",
        "counts": "map<string, long>", "later": "string",
    }  # fmt: skip
    assert (schema.find_field("id").required, schema.find_field("id").doc) == (True, "its number")
    raw = project.table("shop.raw").sort_by("_kafka_offset").column("body").to_pylist()
    assert raw == [b"\x00\xff any bytes", b"meanwhile"]
    [change] = project.table("shop.changes").to_pylist()
    assert (change["id"], change["n"], change["__op"], change["__source_lsn"]) == (1, 2.5, "c", 7)
    assert change["__ts_ms"] == datetime(2024, 1, 4, 12, 0, 0, 1000, timezone.utc)


def rows(project: Project, name: str) -> int:
    catalog = project.catalog()
    return len(project.table(f"shop.{name}")) if catalog.table_exists(f"shop.{name}") else 0


def is_degraded(pipeline: dict[str, Any]) -> bool:
    return str(pipeline["state"]) == "DEGRADED"


def state_of(project: Project, name: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """What `floe status` says of a pipeline, once it is as wanted."""
    found: dict[str, Any] = next(p for p in project.status()["pipelines"] if p["pipeline"] == name)
    return found if wanted(found) else None


def test_a_thousand_schema_ids_that_nobody_knows_are_dead_letters_in_time(
    project: Project, broker: Broker, registry: ApicurioRegistry
) -> None:
    """Records that name schemas which the registry has not are waited for together: the run goes on, each is a dead
    letter with a reason, the neighbours are rows; and such a run takes at most five seconds more than one over as many
    good records, beside the time that the registry takes to answer as many questions twice."""
    target = project.root / "pipelines" / "targets" / "it.yaml"
    target.write_text(
        target.read_text().replace('      unknown.schema.patience.ms: "500"\n', "")
    )  # as it is by default
    known, _ = registry.register("late-value", json.dumps(NEXT))
    asked_s = answers_a_thousand(registry)
    seconds = {}
    for name in ("warm", "good", "bad"):
        topic = broker.new_topic(name)
        rows = [framed(known, avro_bytes(NEXT, {"id": i, "note": None})) for i in range(2_000)]
        ids = [1_000_000 + i if name == "bad" else known for i in range(1_000)]
        others = [framed(id_, avro_bytes(NEXT, {"id": -1, "note": None})) for id_ in ids]
        broker.produce(topic, [each for pair in zip(rows, others, strict=False) for each in pair] + rows[1_000:])
        text = TEXT.format(topic=topic, format="{type: avro, registry: main}", further="", name=name)
        file = project.pipeline(name, text.replace("shop.dead_letters", f"shop.{name}_letters"))
        began = monotonic()
        project.run("run", file, "--until-caught-up")
        seconds[name] = monotonic() - began
    letters = project.table("shop.bad_letters").to_pylist()
    assert len(letters) == 1_000
    assert {(letter["code"], bool(letter["message"])) for letter in letters} == {("FLOE-D112", True)}
    assert sorted(project.table("shop.bad").column("id").to_pylist()) == list(range(2_000))
    assert seconds["bad"] < seconds["good"] + 5 + 2 * asked_s, (seconds, asked_s)


def answers_a_thousand(registry: ApicurioRegistry) -> float:
    """How long the registry takes for a thousand questions by eight clients, in seconds. Apicurio takes 3 to 7 ms of
    CPU for each on a slow machine, so a bound in seconds alone would be one of the machine's."""
    address = urlsplit(registry.url)

    def ask(ids: Iterable[int]) -> None:
        with closing(HTTPConnection(str(address.hostname), address.port)) as connection:
            for each in ids:
                connection.request("GET", f"{address.path}/schemas/ids/{each}")
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 404

    began = monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, (range(2_000_000 + i, 2_001_000, 8) for i in range(8))))
    return monotonic() - began
