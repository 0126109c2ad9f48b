"""The interpreter that proves imported sinks, beside Kafka Connect's own classes on the same records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from framework.connector.sink.model import SinkRecord, Stops, Unknown, parsed
from framework.connector.sink.transforms import transformed
from testbed.servers.connect import BeyondPython, Connect
from tests.sink_configurations import NAMES, configuration, like

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CONFIGURATIONS, RECORDS = 60, 12
KAFKA, ICEBERG = "org.apache.kafka.connect.transforms.", "org.apache.iceberg.connect.transforms."
NAMES_OF_FIELDS = ("a", "b", "c", "d", "a.b", "C")
TEXTS = (
    "",
    "x",
    "12",
    "-7",
    "+7",
    " 12",
    "1.5",
    "1e3",
    "TRUE",
    "true",
    "yes",
    "ä€",
    "0x10",
    "1_000",
    "٣",
    "2147483648",
    "9223372036854775808",
    "2024-02-29 10:20:30",
    "2024-2-9 1:2:3",
    "2024-02-30 10:20:30",
    "2024-02-29T10:20:30Z",
    "2024-02-29T10:20:30+02:00",
    "2024-02-29T10:20:30-0530",
    "2024-02-29",
    "0001-01-01 00:00:00",
    "2024-02-29 25:00:00",
    "2024-02-29 10:20:30 more",
    "20240229",
    "20240230102030",
    "29/02/2024",
    "2024-13-01",
    "2024-02-29T10:20:30+05",
    " 2024- 2-29",
)
NUMBERS: tuple[Any, ...] = (
    0,
    1,
    -1,
    42,
    127,
    128,
    -129,
    32768,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    1_700_000_000,
    1_700_000_000_123,
    1_700_000_000_123_456,
    1_700_000_000_123_456_789,
    -1_500,
    -1_999_999,
    0.0,
    -0.0,
    0.1,
    1.5,
    -2.5,
    1e7,
    123456789.125,
    1e21,
    1e-5,
    1e300,
    3.0,
)


@pytest.fixture(scope="module")
def connect() -> Iterator[Connect]:
    running = Connect()
    yield running
    running.close()


# ---- what is made up -------------------------------------------------------------------------------------------------


def _value(chance: Random, depth: int = 0) -> Any:
    what = chance.random()
    if what < 0.12:
        return None
    if what < 0.2:
        return chance.random() < 0.5
    if what < 0.5:
        return chance.choice(NUMBERS)
    if what < 0.8 or depth > 2:
        return chance.choice(TEXTS)
    if what < 0.88:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(3))]
    return _object(chance, depth + 1)


def _object(chance: Random, depth: int = 0) -> dict[str, Any]:
    names = chance.sample(NAMES_OF_FIELDS, chance.randrange(len(NAMES_OF_FIELDS) + 1))
    return {name: _value(chance, depth) for name in names}


def _record(chance: Random) -> Any:
    """Most records are objects; some are none, and some are no object."""
    what = chance.random()
    return None if what < 0.06 else _value(chance) if what < 0.12 else _object(chance)


def _change(chance: Random) -> Any:
    """A change event of Debezium or DMS, with parts missing."""
    source = {
        name: chance.choice(["shop", "x", None, 1]) for name in ("db", "schema", "table") if chance.random() < 0.8
    }
    made = {
        "op": chance.choice(["c", "r", "u", "d", "t", "insert", None, 1]),
        "ts_ms": 5,
        "source": source,
        "before": chance.choice([None, {"a": 1}]),
        "after": chance.choice([None, {"a": 2, "_cdc": 3}, "x"]),
        "data": chance.choice([None, {"a": 1}, {"a": 1, "_cdc": 2}, {}]),
        "metadata": {
            "operation": chance.choice(["load", "insert", "update", "delete", "Update", None, 1]),
            "timestamp": "t",
            "schema-name": chance.choice(["s", None]),
            "table-name": chance.choice(["t", 1]),
        },
    }
    for name in list(made):
        if chance.random() < 0.08:
            del made[name]
    return made if chance.random() < 0.9 else _record(chance)


def _some(chance: Random, separator: str = ",") -> str:
    return separator.join(chance.sample(NAMES_OF_FIELDS, chance.choice((1, 1, 2))))


def _maybe(chance: Random, **options: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items() if chance.random() < 0.5}


def _timestamp(chance: Random) -> dict[str, str]:
    forms = (
        "yyyy-MM-dd HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ssXXX",
        "yyyy-MM-dd'T'HH:mm:ssX",
        "yyyy-MM-dd'T'HH:mm:ssZ",
        "yyyy-MM-dd",
        "yyyyMMdd",
        "yyyyMMddHHmmss",
        "dd/MM/yyyy",
    )
    precision = chance.choice(["seconds", "milliseconds", "microseconds", "nanoseconds"])
    return {
        "field": _one(chance),
        "target.type": "Timestamp",
        **_maybe(chance, format=chance.choice(forms), unix_precision=precision),
    }


def _one(chance: Random) -> str:
    return chance.choice(NAMES_OF_FIELDS)


def _casts(chance: Random) -> dict[str, str]:
    kinds = (
        "int8",
        "int16",
        "int32",
        "int64",
        "float32",
        "float64",
        "boolean",
        "string",
        "int32",
        "int64",
        "string",
        "boolean",
    )
    return {"spec": ",".join(f"{name}:{chance.choice(kinds)}" for name in _some(chance).split(","))}


def _renames(chance: Random) -> dict[str, str]:
    old, new = _some(chance).split(","), chance.sample(("x", "y", "z"), 2)
    return {"renames": ",".join(f"{one}:{other}" for one, other in zip(old, new, strict=False))}


MADE_UP: Mapping[str, Callable[[Random], dict[str, str]]] = {
    f"{KAFKA}ExtractField$Value": lambda chance: {
        "field": _one(chance),
        **_maybe(chance, field_syntax_version=chance.choice(["V1", "V2"])),
    },
    f"{KAFKA}ReplaceField$Value": lambda chance: {
        **_maybe(chance, exclude=_some(chance)),
        **_maybe(chance, include=_some(chance)),
        **_renames(chance),
    },
    f"{KAFKA}InsertField$Value": lambda chance: _maybe(
        chance,
        topic_field="t!",
        partition_field=_one(chance),
        offset_field="o?",
        timestamp_field="ts",
        static_field="s",
        static_value="v",
    ),
    f"{KAFKA}MaskField$Value": lambda chance: {
        "fields": _some(chance),
        **_maybe(chance, replacement=chance.choice(["x", "5", "-1", "1.5", "007"])),
    },
    f"{KAFKA}Flatten$Value": lambda chance: _maybe(chance, delimiter=chance.choice(["_", ".", "--"])),
    f"{KAFKA}Cast$Value": _casts,
    f"{KAFKA}TimestampConverter$Value": _timestamp,
    f"{KAFKA}RegexRouter": lambda chance: {
        "regex": chance.choice(["orders", "(.*)-(eu)", "o(.*)", "(x)?orders.*", "[a-z]+"]),
        "replacement": chance.choice(["all", "$1", "$2-$1", "x$1y", "t.$1"]),
    },
    f"{KAFKA}HeaderFrom$Value": lambda chance: {
        "fields": (found := _some(chance)),
        "headers": ",".join(f"h{number}" for number, _ in enumerate(found.split(","))),
        "operation": chance.choice(["move", "copy"]),
    },
    f"{KAFKA}ValueToKey": lambda chance: {"fields": _some(chance)},
    f"{KAFKA}InsertHeader": lambda chance: {"header": "h", "value.literal": "v"},
    f"{KAFKA}DropHeaders": lambda chance: {"headers": "h"},
    f"{KAFKA}SetSchemaMetadata$Value": lambda chance: {"schema.name": "n"},
    f"{KAFKA}Filter": lambda chance: {},
    f"{ICEBERG}CopyValue": lambda chance: {"source.field": _one(chance), "target.field": _one(chance)},
    f"{ICEBERG}KafkaMetadataTransform": lambda chance: (
        _maybe(chance)
        | {
            name: value
            for name, value in (("field_name", "m"), ("nested", "true"), ("external_field", "dc,eu"))
            if chance.random() < 0.5
        }
    ),
    f"{ICEBERG}DmsTransform": lambda chance: {},
    f"{ICEBERG}DebeziumTransform": lambda chance: _maybe(
        chance, cdc_target_pattern=chance.choice(["{db}_x.{table}", "t"])
    ),
    "io.debezium.transforms.ExtractNewRecordState": lambda chance: {},
    "io.debezium.transforms.ByLogicalTableRouter": lambda chance: {"topic.regex": "o(.*)", "topic.replacement": "x$1"},
}


def _settings(chance: Random, kind: str) -> dict[str, str]:
    """One transform with made-up options, and sometimes a predicate."""
    found = {"transforms": "t", "transforms.t.type": kind} | {
        f"transforms.t.{key}": text for key, text in MADE_UP[kind](chance).items()
    }
    if chance.random() < 0.25 or kind.endswith("Filter"):
        found |= {"predicates": "p", "transforms.t.predicate": "p"}
        if chance.random() < 0.5:
            found["transforms.t.negate"] = chance.choice(["true", "false"])
        if chance.random() < 0.5:
            found["predicates.p.type"] = f"{KAFKA}predicates.RecordIsTombstone"
        else:
            pattern = chance.choice(["orders", "o.*", "eu"])
            found |= {"predicates.p.type": f"{KAFKA}predicates.TopicNameMatches", "predicates.p.pattern": pattern}
    return found


# ---- comparing -------------------------------------------------------------------------------------------------------


def _compare(
    connect: Connect, settings: Mapping[str, str], records: list[tuple[SinkRecord, bytes | None]], seen: Counter[str]
) -> None:
    """Both ways on the same records; a difference is a failure."""
    try:
        chain = connect.chain(settings)
    except Stops:
        seen["not configured"] += 1
        return
    for record, value in records:
        try:
            ours = _reported(
                lambda record=record, value=value: transformed(settings, replace(record, value=parsed(value)))
            )  # type: ignore[misc]
        except Unknown:
            seen["unknown"] += 1
            continue
        try:
            theirs = _reported(lambda record=record, value=value: chain.transformed(record, value))  # type: ignore[misc]
        except BeyondPython:
            theirs = "stops"  # the interpreter says so of years that no reader of tables has
        assert ours == theirs, f"{dict(settings)}\n{record.topic} {value!r}\ninterpreter: {ours}\nConnect:     {theirs}"
        seen["stops" if ours == "stops" else "dropped" if ours == "None" else "same"] += 1


def _reported(run: Callable[[], SinkRecord | None]) -> str:
    """What became of a record, so that texts differ wherever values or their types do."""
    try:
        found = run()
    except Stops:
        return "stops"
    return "None" if found is None else f"{found.topic}: {_text(found.value)}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(value[key])}" for key in sorted(value)) + "}"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else repr(value)


def _records(chance: Random, values: list[Any]) -> list[tuple[SinkRecord, bytes | None]]:
    return [
        (
            SinkRecord(
                chance.choice(["orders", "orders-eu", "x"]), 3, number, chance.choice([None, 1_700_000_000_000]), None
            ),
            None if value is None else json.dumps(value).encode(),
        )
        for number, value in enumerate(values)
    ]


@pytest.mark.parametrize("kind", MADE_UP)
def test_a_transform_does_what_the_interpreter_says(connect: Connect, kind: str) -> None:
    """For made-up options and records, the interpreter gives what the class of Kafka Connect gives: the same record, none, or
    an end of the task; or it says that it does not know."""
    seen: Counter[str] = Counter()
    for seed in range(CONFIGURATIONS):
        chance = Random(f"{kind} {seed}")
        make = _change if kind.endswith(("DmsTransform", "DebeziumTransform", "ExtractNewRecordState")) else _record
        _compare(connect, _settings(chance, kind), _records(chance, [make(chance) for _ in range(RECORDS)]), seen)

    assert seen["same"] + seen["stops"] + seen["dropped"] > CONFIGURATIONS * RECORDS / 3, seen


@pytest.mark.parametrize("name", [name for name in NAMES if "transforms" in configuration(name).settings])
def test_a_documented_chain_does_what_the_interpreter_says(connect: Connect, name: str) -> None:
    """The chain of each documented configuration gives the same of its records, and of records like them."""
    one, chance = configuration(name), Random(name)
    values = list(one.document.get("records", []))
    values += [like(chance.choice(values), chance) for _ in range(20)] if values else []
    _compare(
        connect,
        one.settings,
        [
            (replace(record, topic=topic), value)
            for topic in _topics(one.settings)
            for record, value in _records(chance, values)
        ],
        Counter(),
    )


def _topics(settings: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in settings.get("topics", "orders").split(",")]


BYTES = (
    b"",
    b" ",
    b"null",
    b"5",
    b'"a"',
    b"[1]",
    b"{}",
    b"NaN",
    b'{"a":NaN}',
    b'{"a":Infinity}',
    b'{"a":1}{"b":2}',
    b'{"a":1}x',
    b'{"a":1,"a":2}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":01}',
    b'{"a":1e400}',
    b'{"a":-1e400}',
    b'{"a":9223372036854775808}',
    b'{"a":-9223372036854775809}',
    b'{"a":123456789012345678901234567890}',
    b'{"a":1.0e2}',
    b'{"a":-0}',
    b'{"a":-0.0}',
    b"\xff",
    b'{"a":"\xff"}',
    b"// c\n1",
    b"{a:1}",
    b"{'a':1}",
    b'\xff\xfe{\x00"\x00a\x00"\x00:\x001\x00}\x00',
    b'{"a":+1}',
    b'{"a":.5}',
    b'{"a":5.}',
    b'{"a":"\n"}',
    b'{"a":"\t"}',
    b'{"a":1,}',
    b"[" * 100 + b"]" * 100,
    b'{"a":"\\u00e4\\n\\/"}',
    b'{"a":"\\x"}',
    b'{"":1}',
    b"tru",
    b"{",
    b'{"a"',
    b"1 2",
    b'\x00{"a":1}',
)


@pytest.mark.parametrize("value", BYTES, ids=lambda value: repr(value)[:40])
def test_bytes_are_read_as_the_converter_reads_them(connect: Connect, value: bytes) -> None:
    """What the interpreter reads from a record's bytes is what Connect's JSON converter reads."""
    _compare(connect, {}, [(SinkRecord("orders", 0, 0, None, None), value)], Counter())
