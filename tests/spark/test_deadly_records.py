"""Records that once stopped a pipeline for good, through a real run: each is a dead letter, its neighbours are rows, in
time."""

from __future__ import annotations

import json
import re
import time
from io import BytesIO
from pathlib import Path

import fastavro
import pytest

from tests.conftest import Broker
from tests.project import Project

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.iceberg, pytest.mark.timeout(900)]

PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: long, d: "decimal(10, 2)", w: "decimal(38, 2)", f: double, at: timestamptz, m: "map<string, long>"}}
    routes:
      rules:
        - {{when: {{field: kind, matches: '(a+)+b'}}, table: shop.matched}}
        - {{table: shop.{name}}}
      allow_tables: ["shop.*"]
    errors: {{policy: dead_letter, dead_letter_table: shop.{name}_letters}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""
MOST_SECONDS = 5.0


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    return Project(tmp_path, broker.bootstrap_servers)


def nested(opening: str, closing: str, depth: int, inner: str = "1") -> bytes:
    """In a field of its own, so that no record decides what another one may hold."""
    return f'{{"id":1,"x{depth}":{opening * depth}{inner}{closing * depth}}}'.encode()


def colliding_keys() -> list[str]:
    """Keys that were in one place of the parser's table when their hash (FNV) was of no process alone."""
    found = []
    for n in range(10_000_000):
        value = 0xCBF29CE484222325
        for byte in b"%x" % n:
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        if value & 0xFFF == 7:
            found.append(f"{n:x}")
            if len(found) == 100:
                break
    return found


# What each record is refused with; None: it is a row.
HOSTILE: list[tuple[bytes, str | None]] = [
    (nested('{"a":', "}", 20), None),
    (nested('{"a":', "}", 30), None),
    (nested('{"a":', "}", 600), "FLOE-D105"),
    (nested("[", "]", 600, ""), "FLOE-D105"),
    (nested("[", "]", 990, ""), "FLOE-D105"),
    (nested("[", "]", 10_000, ""), "FLOE-D105"),
    (b'{"id":1,"d":1e-9999999}', "FLOE-D303"),
    (b'{"id":1,"d":1e99999999}', "FLOE-D302"),
    (b'{"id":1,"d":"-1e-9999999"}', "FLOE-D304"),
    (b'{"id":1e-9999999}', "FLOE-D303"),
    (b'{"id":1,"d":0e20}', None),
    (b'{"id":1,"w":' + b"9" * 36 + b".99}", None),
    (b'{"id":1,"w":' + b"9" * 37 + b".99}", "FLOE-D302"),
    (b'{"id":1,"f":' + b"7" * 10_000 + b"}", "FLOE-D302"),
    (b'{"id":' + b"7" * 900_000 + b"}", "FLOE-D302"),
    (b'{"id":1,"at":9223372036825200000}', "FLOE-D308"),
    (b'{"id":1,"a.b":1,"a":{"b":2}}', "FLOE-D306"),
    (b'{"id":1,"a":{"b":2}}', None),
    (json.dumps({"id": 1, "m": {key * 40: 1 for key in colliding_keys()}}).encode(), None),
    (json.dumps({"id": 1, "kind": "a" * 60 + "!"}).encode(), None),
    (json.dumps({"id": 1, "kind": "a" * 900_000}).encode(), None),
    (json.dumps({"id": 1, **{f"wide{i}": i for i in range(6000)}}).encode(), "FLOE-D310"),
    (json.dumps({"id": 1, "deep": {f"wide{i}": {"x": i} for i in range(6000)}}).encode(), "FLOE-D310"),
    (b'{"id":1,"x":"\\ud800"}', "FLOE-D104"),
    (b"\xff\xfe\x00", "FLOE-D104"),
]


def good(count: int, start: int = 0) -> list[bytes]:
    return [json.dumps({"id": i, "kind": "c", "d": 1.25, "f": 0.5}).encode() for i in range(start, start + count)]


def seconds_of(project: Project, file: object) -> float:
    began = time.monotonic()
    project.run("run", file, "--until-caught-up", timeout_s=600)  # type: ignore[arg-type]
    return time.monotonic() - began


def allowed_s(harmless_s: float) -> float:
    return harmless_s + max(MOST_SECONDS, harmless_s / 2)


# What else runs beside a test decides how long a run takes, so that is measured where nothing does.
@pytest.mark.parametrize("is_timed", [False, pytest.param(True, marks=pytest.mark.slow, id="timed")])
def test_each_is_a_dead_letter_among_rows_in_time(project: Project, broker: Broker, is_timed: bool) -> None:
    """A run over all hostile records ends, each is a row or a dead letter with its reason, all neighbours are rows; and
    it takes at most five seconds more, or half as long again where the machine is slow, than a run over as many harmless
    ones of the same sizes."""
    files = {}
    for name in ("warm", "harmless", "hostile", "harmless2", "hostile2"):
        topic = broker.new_topic(name)
        values = []
        for i, (value, _) in enumerate(HOSTILE):
            harmless = json.dumps({"id": 1, "kind": "c", "pad": "p" * max(0, len(value) - 40)}).encode()
            values += [*good(20, 20 * i), value if name.startswith("hostile") else harmless]
        broker.produce(topic, [*values, *good(20, 10_000)])
        files[name] = project.pipeline(name, PIPELINE.format(topic=topic, name=name))
    harmless_s = 0.0
    if is_timed:
        seconds_of(project, files["warm"])
        harmless_s = seconds_of(project, files["harmless"])
    hostile_s = seconds_of(project, files["hostile"])
    if is_timed and hostile_s > allowed_s(harmless_s):  # once more: the machine may have done something else meanwhile
        harmless_s = seconds_of(project, files["harmless2"])
        hostile_s = seconds_of(project, files["hostile2"])

    letters = {row["offset"]: row for row in project.table("shop.hostile_letters").to_pylist()}
    found = {i: letters.pop(20 * (i + 1) + i, None) for i in range(len(HOSTILE))}
    codes = [(value[:60], found[i] and found[i]["code"]) for i, (value, _) in enumerate(HOSTILE)]
    wrong = [(said, code) for said, (_, code) in zip(codes, HOSTILE, strict=True) if said[1] != code]
    assert not wrong, "\n".join(map(str, wrong))
    assert all(letter["message"] for letter in found.values() if letter)
    assert letters == {}
    rows = project.table("shop.hostile")
    ids = rows.column("id").to_pylist()
    assert set(range(20 * len(HOSTILE))) | set(range(10_000, 10_020)) <= set(ids)
    assert len(ids) == 20 * len(HOSTILE) + 20 + sum(code is None for _, code in HOSTILE)
    assert len(rows.schema) < 1_000
    print(f"harmless {harmless_s:.1f} s, hostile {hostile_s:.1f} s")
    assert hostile_s < allowed_s(harmless_s) or not is_timed, f"{hostile_s:.1f} s beside {harmless_s:.1f} s"


TYPED = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      format: {format}
    routes: {{rules: [{{table: shop.{name}}}]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.{name}_letters}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""
DAY, MICROS = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"}


def avro_fields(day: object, at: object) -> dict[str, object]:
    fields = [{"name": "id", "type": "long"}, {"name": "day", "type": day}, {"name": "at", "type": at}]
    return {"type": "record", "name": "r", "fields": fields}


def avro(record: dict[str, int]) -> bytes:
    """Numbers as they are, whatever no calendar has."""
    buffer = BytesIO()
    fastavro.schemaless_writer(buffer, avro_fields("int", "long"), record)  # type: ignore[arg-type]
    return buffer.getvalue()


def changed(at: int) -> bytes:
    """A change as Debezium writes it, with its schema."""
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp", "optional": True},
    ]
    schema = {
        "type": "struct",
        "fields": [
            {"field": "after", "type": "struct", "fields": fields, "optional": True},
            {"field": "op", "type": "string"},
        ],
    }
    return json.dumps({"schema": schema, "payload": {"after": {"id": 1, "at": at}, "op": "c"}}).encode()


@pytest.mark.slow
def test_moments_that_no_calendar_has_are_dead_letters_in_typed_formats(project: Project, broker: Broker) -> None:
    """Dates and timestamps outside of the years 1 to 9999 in Avro and in Debezium's changes: neighbours are rows."""
    days = [19_000, 2_932_897, 0, -719_163, 2**31 - 1, -(2**31), 1]
    moments = [0, 9_223_372_036_825_200_000, 1, -62_135_596_800_000_001, -(2**63), 2]
    good_days, good_moments = {0, 2, 6}, {0, 2, 5}
    files = []
    for name, values, form in (
        ("avro", [avro({"id": i, "day": day, "at": 0}) for i, day in enumerate(days)], None),
        ("debezium", [changed(at) for at in moments], "{type: json, envelope: debezium}"),
    ):
        topic = broker.new_topic(name)
        broker.produce(topic, values)
        text = form or json.dumps({"type": "avro", "schema": json.dumps(avro_fields(DAY, MICROS))})
        files.append(project.pipeline(name, TYPED.format(topic=topic, name=name, format=text)))
    project.run("run", *files, "--until-caught-up")
    for name, count, fine in (("avro", len(days), good_days), ("debezium", len(moments), good_moments)):
        letters = {row["offset"]: row for row in project.table(f"shop.{name}_letters").to_pylist()}
        assert set(letters) == set(range(count)) - fine
        assert {row["code"] for row in letters.values()} == {"FLOE-D301"}
        assert all(row["message"] for row in letters.values())
        assert len(project.table(f"shop.{name}")) == len(fine)


@pytest.mark.parametrize("action", ["kill", "break"])
@pytest.mark.slow
def test_a_record_that_ends_its_task_is_found(project: Project, broker: Broker, action: str) -> None:
    """A record that kills each worker process that reads it, or raises where nothing contains it, is a dead letter with
    that reason after two failed attempts; the run goes on, and the sum holds."""
    topic = broker.new_topic("killer")
    poison = json.dumps({"id": 500, "kind": "c", "name": "POISON"}).encode()
    broker.produce(topic, [*good(500), poison, *good(300, 501)])
    file = project.pipeline("killer", PIPELINE.format(topic=topic, name="killer"))

    output = project.run("run", file, "--until-caught-up", env={"FLOE_FAULT": f"record~POISON={action}"}, timeout_s=600)

    (letter,) = project.table("shop.killer_letters").to_pylist()
    assert (letter["offset"], letter["code"], letter["value"]) == (500, "FLOE-D120", poison)
    assert re.search("SIGKILL" if action == "kill" else "ValueError", letter["message"])
    assert sorted(project.table("shop.killer").column("id").to_pylist()) == [*range(500), *range(501, 801)]
    assert "attempt 3" not in output
    totals = next(p for p in project.status()["pipelines"] if p["pipeline"] == "killer")["totals"]
    assert (totals["offsets"], totals["written"], totals["dead_lettered"]) == (801, 800, 1)


BEHIND = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: long, kind: string, d: "decimal(10, 2)", f: double, name: string}}
    routes: {{rules: [{{table: shop.{name}}}], allow_tables: ["shop.*"]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.{name}_letters}}
    tables: {{defaults: {{{way}, commit: {{interval: 1s}}}}}}
"""
WAYS = {
    "upsert": "write: {mode: upsert, key: [id]}",
    "hash": "distribution: hash, create: {partition_by: [kind]}",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("action", ["kill", "break"])
@pytest.mark.slow
def test_a_record_that_fails_behind_the_exchange_is_found(
    project: Project, broker: Broker, action: str, way: str
) -> None:
    """The same where its row ends the writer behind the exchange, of an upsert table and of one with
    `distribution: hash`: until now it was looked for where records are decoded alone, and the run ended."""
    topic = broker.new_topic("behind")
    poison = json.dumps({"id": 500, "kind": "c", "name": "POISON"}).encode()
    broker.produce(topic, [*good(500), poison, *good(300, 501)])
    file = project.pipeline("behind", BEHIND.format(topic=topic, name="behind", way=WAYS[way]))

    project.run("run", file, "--until-caught-up", env={"FLOE_FAULT": f"row~POISON={action}"}, timeout_s=600)

    (letter,) = project.table("shop.behind_letters").to_pylist()
    assert (letter["offset"], letter["code"], letter["value"]) == (500, "FLOE-D120", poison)
    assert re.search("SIGKILL" if action == "kill" else "ValueError", letter["message"])
    assert sorted(project.table("shop.behind").column("id").to_pylist()) == [*range(500), *range(501, 801)]


FLOES_NAMES = ("__floe_topic", "__floe_partition", "__floe_offset", "__floe_winner", "__floe_file", "__floe_pos")


@pytest.mark.slow
def test_fields_may_be_called_as_floe_calls_its_own(project: Project, broker: Broker) -> None:
    """In an upsert table a field of such a name is a column like any other, in whatever record it comes
    first: before, one record ended the run at each start."""
    topic = broker.new_topic("names")
    names = (*FLOES_NAMES, "topic", "partition", "offset", "winner", "winner_")
    values = [{"id": number, name: number} for number, name in enumerate(names)]
    broker.produce(topic, [*good(5, 100), *(json.dumps(each).encode() for each in values), *good(5, 200)])
    text = """
    source: {{kafka: {{connection: main, topics: [{topic}]}}}}
    routes: {{rules: [{{table: shop.names}}], allow_tables: ["shop.*"]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.names_letters}}
    tables: {{defaults: {{write: {{mode: upsert, key: [id], key_index: always}}, commit: {{interval: 1s}}}}}}
    """
    file = project.pipeline("names", text.format(topic=topic))
    for _ in range(2):
        project.run("run", file, "--until-caught-up", timeout_s=600)
        found = {row["id"]: row for row in project.table("shop.names").to_pylist()}
        assert len(found) == 10 + len(names)
        assert [found[number][name] for number, name in enumerate(names)] == list(range(len(names)))
        broker.produce(topic, [json.dumps(each).encode() for each in values])


SQL_PIPELINE = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: long, code: string}}
    transform: {{sql: "SELECT id, CAST(code AS int) AS number, 10 / id AS share FROM source"}}
    routes: {{rules: [{{table: shop.sql}}]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.sql_letters}}
    tables: {{defaults: {{commit: {{interval: 1s}}}}}}
"""


# What Spark says of a value quotes it: these are what an outage, a refusal, a table in trouble or Java's end look like.
LIKE_TROUBLE = (
    "x\nOSError: [Errno 28] No space left on device",
    "error[FLOE-R141] the registry is silent: x (http://registry)",
    "x\nframework.errors.SetupError: error[FLOE-E112] the registry refuses: 401 (http://registry)",
    "x\nframework.errors.TableBlocked: error[FLOE-R146] the deleted keys are lost (shop.sql)\n  remedy: floe discard",
    "x\nframework.errors.AccountingError: error[FLOE-R108] 1 row is missing (shop.sql)",
    "x\nrequests.exceptions.ConnectionError: no route to host",
)


@pytest.mark.slow
def test_a_record_that_makes_the_sql_fail_is_found(project: Project, broker: Broker) -> None:
    """Records for which an expression of `transform.sql` fails are dead letters that name it, also where they read like
    errors of floe's or of the system; all others are rows."""
    topic = broker.new_topic("sql")
    wrong = {41: "x", **dict(enumerate(LIKE_TROUBLE, start=50))}
    values = [{"id": i, "code": wrong.get(i, str(i))} for i in range(60)]  # and 10 / 0
    broker.produce(topic, values)
    project.run("run", project.pipeline("sql", SQL_PIPELINE.format(topic=topic)), "--until-caught-up", timeout_s=600)

    letters = {row["offset"]: row for row in project.table("shop.sql_letters").to_pylist()}
    failing = {0, *wrong}
    assert {offset: (row["stage"], row["code"]) for offset, row in letters.items()} == dict.fromkeys(
        failing, ("transform", "FLOE-D123")
    )
    assert "share = (CAST(10 AS DOUBLE) / CAST(id AS DOUBLE))" in letters[0]["message"]
    assert "number = CAST(code AS INT)" in letters[41]["message"]
    assert sorted(project.table("shop.sql").column("id").to_pylist()) == [i for i in range(60) if i not in failing]


MANY = """
    source:
      kafka: {{connection: main, topics: [{topic}]}}
      schema: {{id: {{type: long, required: true}}, code: string}}
    transform:
      sql: >-
        SELECT id, number, 100 / number AS share FROM (SELECT *, CAST(code AS int) AS number FROM source WHERE id >= 0) t
        WHERE number < 1000 AND code <> 'gone'
    routes: {{rules: [{{table: shop.{name}}}]}}
    errors: {{policy: dead_letter, dead_letter_table: shop.{name}_letters}}
    tables: {{defaults: {{commit: {{interval: 1s}}, {write}}}}}
"""


@pytest.mark.parametrize("write", ["", "distribution: hash"])
@pytest.mark.slow
def test_sql_that_fails_for_most_records_stops_nothing(project: Project, broker: Broker, write: str) -> None:
    """However many records of however many batches make an expression fail, in the SELECT, in an inner one or in a
    condition: each is one dead letter, each other one row or filtered, and only the first batch is tried again."""
    name = f"many{len(write)}"
    topic = broker.new_topic(name)
    codes = ["7", "x", "0", "", "2000", "12"]  # of six: two rows, three failures, one filtered
    values = [{"id": i, "code": codes[i % 6]} for i in range(1200)]
    broker.produce(topic, values[:600])
    file = project.pipeline(name, MANY.format(topic=topic, name=name, write=write))
    first = project.run("run", file, "--until-caught-up", timeout_s=600)
    broker.produce(topic, values[600:])
    project.run("run", file, "--until-caught-up", timeout_s=600)

    letters = {row["offset"]: row["message"] for row in project.table(f"shop.{name}_letters").to_pylist()}
    assert set(letters) == {i for i in range(1200) if i % 6 in (1, 2, 3)}
    assert all(("WHERE" in letters[i]) == (i % 6 != 2) for i in letters)
    assert sorted(project.table(f"shop.{name}").column("id").to_pylist()) == [i for i in range(1200) if i % 6 in (0, 5)]
    assert "attempt 3" not in first
    assert first.count("evaluated apart") == 1
    totals = next(p for p in project.status()["pipelines"] if p["pipeline"] == name)["totals"]
    assert (totals["offsets"], totals["written"], totals["dead_lettered"]) == (1200, 400, 600)
