"""Imported pipelines beside Iceberg's sink itself: the same records, routed and written by the sink's own Java classes.

Every record goes through the classes of the sink in a JVM, and through the pipeline file that `floe import-connector` writes, as
`floe test` runs it. What the two make of it is compared by table, by column and by value. Where floe stops and the sink writes
something, the kind of difference must be one that docs/tutorials/from-kafka-connect.md names; other rows are a failure.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.cli.write.import_connector import pipeline_text
from framework.cli.write.import_proof import load_text
from framework.config.filled.build import table_policy
from framework.config.names.patterns import compiled, unfit
from framework.config.spec import FormatSpec, FormatType
from framework.connector.sink.model import SinkRecord, Stops, Unknown
from framework.connector.sink.sink import written
from framework.connector.translation.avro_types import difference
from framework.connector.translation.java_regex import Differs, translated
from framework.connector.translation.translate import import_connector
from framework.errors import ConfigError
from framework.testing.execute import CaseOutcome
from framework.testing.suite import run_file
from framework.testing.values import rows_of, shown
from testbed.format_samples import TABLE, avro_bytes, avro_schema, framed, land, record_of, records
from testbed.servers.sink import Sink

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "from-kafka-connect.md"
BASE = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": "orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "https://catalog.shop.example",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
CREATES = {"iceberg.tables.auto-create-enabled": "true", "iceberg.tables.evolve-schema-enabled": "true"}


@pytest.fixture(scope="module")
def sink() -> Iterator[Sink]:
    running = Sink()
    yield running
    running.close()


# ---- both ways -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Columns with their types, the partition, and the rows in a fixed order; every row has every column."""

    columns: dict[str, str]
    partition_by: tuple[str, ...]
    rows: tuple[str, ...]


Tables = Mapping[str, Table] | str  # a text: it stops


def of_sink(
    sink: Sink, settings: Mapping[str, str], folder: Path, given: Mapping[str, Schema], values: Sequence[bytes | None]
) -> Tables:
    schemas = {name: schema.model_dump_json() for name, schema in given.items()}
    try:
        with sink.task(settings, folder, schemas) as task:
            for number, value in enumerate(values):
                task.put(SinkRecord("orders", 0, number, 1_700_000_000_000, None), value)
            found = task.written()
    except Stops as stops:
        return f"stops: {stops}"
    return {
        name: _table(Schema.model_validate(one.schema), [*one.rows], one.partition_by) for name, one in found.items()
    }


def of_floe(text: str, given: Mapping[str, Schema], values: Sequence[bytes | None]) -> Tables:
    inputs = [
        {"topic": "orders", "offset": n, "raw": {"base64": _base64(v)}} for n, v in enumerate(values) if v is not None
    ]
    tables = {name: {"schema": {f.name: _type(f.field_type) for f in schema.fields}} for name, schema in given.items()}
    case = {"name": "made up", "input": inputs, "expect": {"dropped": 0}}
    if tables:
        case["given"] = {"tables": tables}
    loaded = load_text(f"{text}\ntests: {json.dumps([case])}\n", "pipeline.yaml", None)
    report = run_file(loaded)
    assert not report.is_wrong, report.findings
    return _outcome(report.cases[0].outcome)


def _outcome(found: CaseOutcome) -> Tables:
    if found.stop is not None:
        return f"stops: {found.stop.message}"
    return {
        name: _table(one.schema, rows_of(one.rows, one.schema), one.partition_by or ())
        for name, one in found.tables.items()
        if one.rows is not None
    }


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _table(schema: Schema, rows: list[dict[str, Any]], partition_by: tuple[str, ...]) -> Table:
    columns = {field.name: _type(field.field_type) for field in schema.fields}
    kinds = {field.name: field.field_type for field in schema.fields}
    reported = [
        json.dumps({name: _value(row.get(name), kind) for name, kind in kinds.items()}, sort_keys=True) for row in rows
    ]
    return Table(dict(sorted(columns.items())), partition_by, tuple(sorted(reported)))


def _type(kind: IcebergType) -> str:
    """A type as a pipeline file writes it, without ids; fields in one order."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{f.name}: {_type(f.field_type)}' for f in sorted(kind.fields, key=lambda f: f.name))}>"
    if isinstance(kind, ListType):
        return f"list<{_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_type(kind.key_type)}, {_type(kind.value_type)}>"
    return str(kind)


def _value(value: Any, kind: IcebergType) -> Any:
    """A value as both ways show it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {field.name: _value(value.get(field.name), field.field_type) for field in kind.fields}
    if isinstance(kind, ListType):
        return [_value(item, kind.element_type) for item in value]
    if isinstance(kind, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        return {str(shown(key)): _value(inner, kind.value_type) for key, inner in pairs}
    if isinstance(kind, UUIDType) and isinstance(value, bytes):
        return str(UUID(bytes=value))
    reported = shown(value)
    return repr(reported) if isinstance(reported, float) else reported


def imported(settings: Mapping[str, str], tables: tuple[str, ...] = ()) -> str | None:
    """The pipeline file, None where the configuration is refused."""
    try:
        return pipeline_text(import_connector("made-up", dict(settings), tables, None, None, False))
    except ConfigError as error:
        if error.code != "FLOE-R405":
            raise
        return None


def value_of(row: Any) -> bytes | None:
    return None if row is None else json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")


# ---- routing ---------------------------------------------------------------------------------------------------------

REGEXES = (
    "order",
    "order|refund",
    ".*",
    "o.*",
    ".",
    "..",
    "[a-z]+",
    "(?i)ORDER",
    "(?i)[n-p]rder",
    r"\w+",
    r"\d+",
    "order.",
    "true",
    "1",
    r"a\.b",
    "",
    "[a-z&&[^o]]+",
    "[[a-c]x]+",
    r"\s*",
    r"\v",
    r"x\b",
    r"(?U)\w+",
    "^order$",
    r"order\z",
    r"\Qa.b\E",
    r"\p{L}+",
    r"\p{Lower}+",
    "[^a]",
    "(?s).+",
    "(?m)^a$",
    r"[\s,]+",
    r"(o)(r)der\b?",
    "o*+rder",
    "(?:or(?=d))?.*",
    "(?i)ä",
    "(?i)k",
    "[^o]*",
    r"\x6frder",
    "a|b$",
    "[a-]+",
    r"\S+",
    r"[\w.]+",
    r"\h",
    r"\R",
    "1.0",
    r"1\.0E.*",
    r"\{.*\}",
)
ROUTE_VALUES: tuple[Any, ...] = (
    "order",
    "refund",
    "ORDER",
    "Order",
    "order\n",
    "order\r",
    "a.b",
    "a\u2028b",
    "a\u0085b",
    "a",
    "b",
    "1",
    "",
    "ä",
    "Ä",
    "k",
    "\u212a",
    "\u017f",
    " ",
    "\x0b",
    "\u00a0",
    "x,y",
    "x\u00e9",
    "\x1c",
    "٣",
    True,
    False,
    1,
    -7,
    2**40,
    1.0,
    1.5,
    1e7,
    1e-5,
    None,
    [],
    ["a"],
    {},
    {"a": 1},
    "\U0001f355",
    "-",
)
TABLES = ("shop.orders", "shop.refunds", "shop.rest")


def _routed(chance: Random) -> tuple[dict[str, str], tuple[str, ...]]:
    """A made-up routing and the tables that a person would name for it."""
    tables = chance.sample(TABLES, chance.choice((1, 2, 2, 3)))
    route = {"iceberg.tables.route-field": chance.choice(["kind", "kind", "at.kind", "at.in.kind"])}
    if chance.random() < 0.25:
        return {**BASE, **CREATES, **route, "iceberg.tables.dynamic-enabled": "true"}, tuple(tables)
    found = {**BASE, **CREATES, "iceberg.tables": ", ".join(tables)}
    if chance.random() < 0.9:
        found |= route
        for table in tables:
            if chance.random() < 0.9:
                found[f"iceberg.table.{table}.route-regex"] = chance.choice(REGEXES)
    return found, ()


def _to_route(chance: Random, number: int, dynamic: bool) -> Any:
    # A whole number with a point is routed as `1` by floe and as `1.0` by the sink: the page says so.
    name = chance.choice([each for each in ROUTE_VALUES if not (isinstance(each, float) and each.is_integer())])
    if dynamic and chance.random() < 0.8:
        name = chance.choice(
            ["shop.orders", "SHOP.Orders", "Shop.refunds", "\u017fhop.orders", "shop.rest", "shop.İ", "shop"]
        )
    at: Any = {"kind": name, "in": chance.choice([{"kind": name}, None, 1, "x", [1]])}
    row = {"n": number, "kind": name, "at": chance.choice([at, at, at, None, 5, [at], {}])}
    return {key: value for key, value in row.items() if key == "n" or chance.random() > 0.07}


def _at(row: Any, settings: Mapping[str, str]) -> Any:
    for name in settings.get("iceberg.tables.route-field", "kind").split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _named(found: Tables, number: int) -> set[str] | str:
    """The tables that got a record."""
    if isinstance(found, str):
        return "stops"
    return {name for name, table in found.items() if any(f'"n": {number}' in row for row in table.rows)}


@pytest.mark.parametrize("part", range(4))
def test_a_record_goes_where_the_sink_sends_it(sink: Sink, tmp_path: Path, part: int) -> None:
    """For made-up routing and records, floe writes each record to the very tables that the sink writes it to. A record that the
    sink skips or ends at stops the pipeline, or is written nowhere. The interpreter that proves imports says the same as the
    sink, or that it does not know."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        chance = Random(f"routing {part} {seed}")
        settings, tables = _routed(chance)
        text = imported(settings, tables)
        if text is None:
            seen["refused"] += 1
        for number in range(8):
            row = _to_route(chance, number, "iceberg.tables.dynamic-enabled" in settings)
            folder = tmp_path / f"{seed}-{number}"
            theirs = _named(of_sink(sink, settings, folder, {}, [value_of(row)]), number)
            about = f"{ {key: text for key, text in settings.items() if key not in BASE} }\n{row!r}\nsink: {theirs}\n"
            try:
                reported = written(settings, SinkRecord("orders", 0, number, None, None), value_of(row))
                interpreted: set[str] | str = "stops" if reported.stops is not None else set(reported.tables)
                assert interpreted == theirs, f"{about}interpreter: {interpreted}"
            except Unknown:
                seen["unknown"] += 1
            if text is None:
                continue
            ours = _named(of_floe(text, {}, [value_of(row)]), number)
            known = theirs == "stops" or theirs <= set(tables or TABLES)
            if ours == "stops":
                # A record that no rule takes, or that names a table that the file does not, stops the pipeline.
                strange = isinstance(_at(row, settings), (list, dict, float))  # its text is Java's, see DIFFERENCES
                assert theirs in ("stops", set()) or not known or strange, f"{about}floe: {ours}"
            else:
                assert theirs == "stops" or ours == theirs, f"{about}floe: {ours}"
            seen["stops" if theirs == "stops" else "skipped" if theirs == set() else "same"] += 1

    assert seen["same"] >= 20, seen
    assert seen["refused"] <= 30, seen


PIECES = (
    "a",
    "b",
    "k",
    "S",
    "z",
    ".",
    "1",
    "_",
    "-",
    ",",
    " ",
    "\\.",
    "\\-",
    "\\w",
    "\\W",
    "\\d",
    "\\D",
    "\\s",
    "\\S",
    "\\t",
    "\\n",
    "\\x41",
    "\\x{e4}",
    "[abc]",
    "[^abc]",
    "[a-k]",
    "[A-Z0-9]",
    "[\\w.-]",
    "[^\\s]",
    "[a\\]]",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?s)",
    "(?i:",
    "(?-i:",
    "(?<n>",
    "|",
    "*",
    "+",
    "?",
    "{2}",
    "{1,3}",
    "*?",
    "^",
    "$",
    "\\Qa.b\\E",
    "ä",
    "é",
    "[ä-ö]",
    "(?i)[k-s]",
    "[^\\d]",
    "\\\\",
    "[a&b]",
    "[&&a]",
    "[a-c-e]",
    "]",
    "}",
    "\\{",
    "\\b",
    "\\v",
    "\\h",
    "\\z",
    "\\0",
    "[[a]]",
    "++",
)
CHARACTERS = "aAbkKsSzZ.1_-, \t\n\r\x0b\x0c\u0085\u2028\u2029äÄéö\u212a\u017f\u0663]}\\{&^n\U0001f355"


@pytest.mark.parametrize("part", range(4))
def test_an_expression_that_is_let_through_matches_what_java_matches(sink: Sink, part: int) -> None:
    """For made-up expressions that the translation lets through, RE2 matches a text where Java's `matches` does."""
    java = sink._jvm.java.util.regex.Pattern
    seen: Counter[str] = Counter()
    for seed in range(1500):
        chance = Random(f"expression {part} {seed}")
        pattern = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 7)))
        try:
            compiled_there = java.compile(pattern)
        except Exception:  # no connector starts with it
            seen["not Java's"] += 1
            continue
        try:
            ours = translated(pattern) if unfit(pattern) is None else None
        except Differs:
            ours = None
        if ours is None or unfit(ours) is not None:
            seen["refused"] += 1
            continue
        matches = compiled(ours).is_all_of
        for _ in range(12):
            text = "".join(chance.choice(CHARACTERS) for _ in range(chance.randrange(5)))
            theirs = bool(compiled_there.matcher(text).matches())
            assert matches(text) is theirs, f"{pattern!r} as {ours!r} on {text!r}: Java says {theirs}"
            seen["matches" if theirs else "does not"] += 1

    assert seen["matches"] > 100, seen


# ---- rows of new tables ----------------------------------------------------------------------------------------------

FIELDS: Mapping[str, tuple[Any, ...]] = {
    "id": (0, 1, -7, 2**31, 2**63 - 1, -(2**63)),
    "price": (0.5, -1.25, 1e300, 3.0, 1e-7, 0.0),
    "name": ("", "ada", "ä€\U0001f355", "2024-02-29T10:00:00Z", "12", "\u0000"),
    "paid": (True, False),
    "at": ({"city": "Ulm", "zip": 89073, "more": {"x": 0.5}}, {"city": None}, {}, {"zip": 1, "more": {"x": 1.5}}),
    "items": ([1, 2], [], [3]),
    "lines": ([{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}, {"a": 3, "b": ""}]),
    "Name": ("upper",),
    "a.b": (1, 2),
    "a b": ("x",),
    "_id": (1,),
    "ünï": ("x",),
}


# Some the sink makes, and some it does not: then it creates a table without a partition.
ODD_PARTITIONS = (
    "bucket(4, name)",
    "name , paid",
    "truncate( name ,2)",
    "bucket(name,4),bucket(name,8)",
    "bucket(name,4),truncate(name,8)",
    "identity(name)",
    "bucket(name, 0)",
    "truncate(name)",
    "TRUNCATE(name, 2)",
    "name,name",
    "day(name)",
    "name, month(name)",
)


def _row(chance: Random, names: Sequence[str]) -> dict[str, Any]:
    """Fields of one type each; some are null or missing."""
    row = {
        name: None if chance.random() < 0.1 else chance.choice(FIELDS[name]) for name in names if chance.random() < 0.8
    }
    return row or {"id": 1}


@pytest.mark.parametrize("part", range(4))
def test_new_tables_get_the_columns_and_rows_of_the_sink(sink: Sink, tmp_path: Path, part: int) -> None:
    """Records whose fields keep their types become tables with the sink's columns, types, partitions and rows, when the sink
    creates and evolves them."""
    seen: Counter[str] = Counter()
    for seed in range(30):
        chance = Random(f"new {part} {seed}")
        names = chance.sample(sorted(FIELDS), chance.randrange(2, 7))
        if chance.random() < 0.7:
            names = [name for name in names if name != "Name"]
        settings = {**BASE, **CREATES, "iceberg.tables": "shop.orders"}
        if chance.random() < 0.3:
            settings["iceberg.tables.schema-case-insensitive"] = "true"
        if chance.random() < 0.3 and {"name", "paid"} <= {*names}:
            settings["iceberg.tables.default-partition-by"] = chance.choice(
                ["name", "bucket(name, 4)", "paid,truncate(name,2)", *ODD_PARTITIONS]
            )
        # The first has all fields, so that the table has all columns, see DIFFERENCES.
        rows = [{name: FIELDS[name][0] for name in names}, *(_row(chance, names) for _ in range(6))]
        values = [value_of(row) for row in rows]
        text = imported(settings)
        theirs = of_sink(sink, settings, tmp_path / str(seed), {}, values)
        if text is None:
            # A partition that the sink cannot make: it creates the table without any.
            assert not isinstance(theirs, str), f"{settings}\nsink: {theirs}"
            assert [table.partition_by for table in theirs.values()] == [()], f"{settings}\nsink: {theirs}"
            seen["refused"] += 1
            continue
        ours = of_floe(text, {}, values)
        about = f"{settings}\n" + "\n".join(str(value and value.decode()) for value in values)
        if isinstance(theirs, str) or isinstance(ours, str):
            assert isinstance(theirs, str), f"{about}\nsink: {theirs}\nfloe: {ours}"
            seen["stops"] += 1
            continue
        assert ours == theirs, f"{about}\nsink: {theirs}\nfloe: {ours}"
        seen["same"] += 1

    assert seen["same"] >= 15, seen


# ---- rows of tables that are there -----------------------------------------------------------------------------------

TYPES: Mapping[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal": DecimalType(9, 2),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestamptzType(),
    "string": StringType(),
    "uuid": UUIDType(),
    "binary": BinaryType(),
    "fixed": FixedType(4),
    "list of long": ListType(3, LongType(), False),
    "list of string": ListType(3, StringType(), False),
    "map": MapType(3, StringType(), 4, LongType(), False),
    "struct": StructType(
        NestedField(3, "a", LongType(), required=False), NestedField(4, "b", StringType(), required=False)
    ),
}
MORE_VALUES: tuple[Any, ...] = (
    "yes",
    "12",
    "-7",
    "1.5",
    "1e3",
    " 12",
    "+5",
    "0x10",
    "NaN",
    "Infinity",
    "x",
    2**31,
    -(2**40),
    2**53 + 1,
    -1.5,
    2.675,
    0.005,
    1e16,
    1e300,
    "2024-02-29",
    "2024-02-30",
    "2024-2-9",
    "10:20",
    "10:20:30",
    "10:20:30.123456",
    "10:20:30.123456789",
    "25:00:00",
    "2024-02-29T10:20:30",
    "2024-02-29 10:20:30",
    "2024-02-29T10:20",
    "2024-02-29T10:20:30Z",
    "2024-02-29T10:20:30+02:00",
    "2024-02-29T10:20:30+0200",
    "2024-02-29T10:20:30.5Z",
    "2024-02-29T10:20:30.123456789Z",
    "2024-02-29 10:20:30+02",
    "20240229",
    86_400_000,
    1_700_000_000_000,
    -1_500,
    "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    "F79C3E09-677C-4BBD-A479-3F349CB785E7",
    "f79c3e09677c4bbda4793f349cb785e7",
    "1-2-3-4-5",
    "AQIDBA==",
    "AQIDBA",
    "AQID",
    "YQ==",
    [1],
    [None],
    [1.5],
    ["1"],
    {"a": 1.5},
    {"a": "x", "b": 2},
    {"b": [1]},
    {"c": 1},
    {"a": None},
    {"a": 1},
)


@pytest.mark.parametrize("part", range(3))
def test_a_value_becomes_what_the_sink_makes_of_it_or_stops(sink: Sink, tmp_path: Path, part: int) -> None:
    """In a column of each type, each value becomes the sink's, or the pipeline stops at it; never another value. Some values of
    each type are written by both."""
    for name in list(TYPES)[part::3]:
        _compare_values(sink, tmp_path / name, name)


def _compare_values(sink: Sink, folder: Path, name: str) -> None:
    given = {
        "shop.t": Schema(
            NestedField(1, "n", LongType(), required=False), NestedField(2, "v", TYPES[name], required=False)
        )
    }
    settings = {**BASE, "iceberg.tables": "shop.t"}
    text = imported(settings)
    assert text is not None
    seen: Counter[str] = Counter()
    for number, value in enumerate(dict.fromkeys(map(json.dumps, (*ROUTE_VALUES, *MORE_VALUES)))):
        values = [f'{{"n": 1, "v": {value}}}'.encode()]
        theirs = of_sink(sink, settings, folder / str(number), given, values)
        ours = of_floe(text, given, values)
        if isinstance(ours, str) or isinstance(theirs, str):
            seen["both stop" if isinstance(theirs, str) and isinstance(ours, str) else "one stops"] += 1
            continue
        if name == "string" and isinstance(json.loads(value), float) and "E" in str(theirs):
            seen["Java's text of a number"] += 1  # see DIFFERENCES
            continue
        assert ours == theirs, f"{value} in {name}\nsink: {theirs}\nfloe: {ours}"
        seen["same"] += 1

    assert seen["same"] >= 2, seen


# ---- Avro ------------------------------------------------------------------------------------------------------------

NESTED = record_of({"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}, name="Nested")
# Types of Avro with values as they are in the record, and the column of the sink where it is not floe's.
AVRO: Mapping[str, tuple[Any, tuple[Any, ...], str | None]] = {
    "boolean": ("boolean", (True, False), None),
    "int": ("int", (1, -(2**31)), None),
    "long": ("long", (2**63 - 1,), None),
    "float": ("float", (0.5, -1.25), None),
    "double": ("double", (1e300,), None),
    "string": ("string", ("ä", ""), None),
    "bytes": ("bytes", (b"\0\xff", b""), None),
    "enum": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ("A", "B"), None),
    "array": ({"type": "array", "items": "int"}, ([1, 2], []), None),
    "array with nulls": ({"type": "array", "items": ["null", "string"]}, (["a", None],), None),
    "array of records": ({"type": "array", "items": NESTED}, ([{"x": 1, "y": None}],), None),
    "map": ({"type": "map", "values": "long"}, ({"a": 1}, {}), None),
    "map with nulls": ({"type": "map", "values": ["null", "int"]}, ({"a": None},), None),
    "record": (NESTED, ({"x": 1, "y": "z"}, {"x": 2, "y": None}), None),
    "optional": (["null", "int"], (None, 1), None),
    "optional, null last": (["long", "null"], (None, 1), None),
    "optional record": (["null", NESTED], (None, {"x": 1, "y": "z"}), None),
    "date": ({"type": "int", "logicalType": "date"}, (19726, -1), None),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, (43_200_123, 0), None),
    "timestamp-millis": ({"type": "long", "logicalType": "timestamp-millis"}, (1_704_369_600_123, -1), None),
    "optional timestamp-millis": (["null", {"type": "long", "logicalType": "timestamp-millis"}], (None, 5), None),
    "fixed": ({"type": "fixed", "name": "F", "size": 4}, (b"abcd",), "binary"),
    "union of numbers": (["int", "long"], (1,), "struct<int: int, long: long>"),
    "union of one": (["string"], ("x",), "struct<string: string>"),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, (b"\x04\xd2",), "decimal(38, 2)"),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, (43_200_123_456,), "long"),
    "timestamp-micros": ({"type": "long", "logicalType": "timestamp-micros"}, (1_704_369_600_123_456,), "long"),
    "local-timestamp-millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, (1_704_369_600_123,), "long"),
    "local-timestamp-micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, (1_704_369_600_123_456,), "long"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, ("2b3c0d5e-0000-4000-8000-0123456789ab",), "string"),
    "duration": ({"type": "fixed", "name": "U", "size": 12, "logicalType": "duration"}, (b"\1\0\0\0" * 3,), "binary"),
}  # fmt: skip


def test_an_avro_schema_that_is_let_through_gives_the_rows_of_the_sink(sink: Sink, tmp_path: Path) -> None:
    """Each type of Avro that `--value-schema` lets through becomes the same column, as required as in the sink, with the same
    values. Each other type of the list is refused, and its column is indeed another one."""
    settings = {
        **BASE,
        **CREATES,
        "iceberg.tables": "shop.t",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
    }
    del settings["value.converter.schemas.enable"]
    for name, (kind, values, other) in AVRO.items():
        schema = record_of({"name": "n", "type": "int"}, {"name": "v", "type": kind})
        data = [avro_bytes(_physical(schema), {"n": number, "v": value}) for number, value in enumerate(values)]
        with sink.task(settings, tmp_path / name, {}) as task:
            for number, each in enumerate(data):
                task.put_avro(SinkRecord("orders", 0, number, 1_700_000_000_000, None), json.dumps(schema), each)
            found = task.written()["shop.t"]
        theirs = _table(Schema.model_validate(found.schema), [*found.rows], found.partition_by)
        assert (difference(schema) is None) is (other is None), name
        if other is not None:
            assert theirs.columns["v"] == other, name
            continue
        policy = import_connector("made-up", settings, value_schema=schema).pipeline["tables"]["defaults"]
        landed = land(
            records([framed(7, each) for each in data]),
            FormatSpec(FormatType.AVRO, registry="main"),
            {7: avro_schema(schema)},
            table_policy=table_policy(policy),
        )
        ours = _table(landed.schema, rows_of(landed.result.rows[TABLE], landed.schema), ())
        assert ours == theirs, f"{name}\nsink: {theirs}\nfloe: {ours}"
        required = {field["name"]: field["required"] for field in found.schema["fields"]}
        assert {field.name: field.required for field in landed.schema.fields} == required, name


def _physical(kind: Any) -> Any:
    """A type without what Avro's Python library would convert."""
    if isinstance(kind, dict):
        return {
            key: _physical(inner) for key, inner in kind.items() if key not in ("logicalType", "precision", "scale")
        }
    return [_physical(inner) for inner in kind] if isinstance(kind, list) else kind


SHOP = {"iceberg.tables": "shop.t"}
LATE = {"iceberg.tables.default-partition-by": "kind"}
ROUTES = {"iceberg.tables.route-field": "kind", "iceberg.table.shop.t.route-regex": r"\[.*\]"}
# What the page names, with records that show it, and the rows that both write (a text: it stops).
DIFFERENCES: Mapping[str, tuple[dict[str, str], str | None, list[Any], Any, Any]] = {
    "digits lost": ({}, "int", [{"v": 1.5}], [1], "would lose digits"),
    "out of range": ({}, "int", [{"v": 2**31}], [-(2**31)], "out of range"),
    "text that is no boolean": ({}, "boolean", [{"v": "yes"}], [False], "cannot be read"),
    "text that is nearly a number": ({}, "long", [{"v": "+5"}], [5], "cannot be read"),
    "a number in a column of dates and times": ({}, "date", [{"v": 1}], ["1970-01-02"], "without a declared unit"),
    "a zone too many or too few": (
        {},
        "timestamp",
        [{"v": "2024-02-29T10:20:30+02:00"}],
        ["2024-02-29T10:20:30"],
        "no zone is declared",
    ),
    "nearly a UUID or base64": ({}, "uuid", [{"v": "1-2-3-4-5"}], ["00000001-0002-0003-0004-000000000005"], "uuid"),
    "a route field that is a list, an object or a decimal": (ROUTES | CREATES, None, [{"kind": [1], "v": 1}], [1], ""),
    "a partition by a field that no record had yet": (LATE | CREATES, None, [{"v": 1}], [1], "partitioned by kind"),
    "Empty before it has a type": (CREATES, None, [{"n": 1, "v": []}, {"v": [1]}], [None, [1]], [[], [1]]),
    "begins with null": (CREATES, None, [{"n": 1, "v": [None, 1]}, {"v": [2]}], [None, [2]], [[None, 1], [2]]),
    "The first number of a list": (CREATES, None, [{"v": [1, 1.5]}], [[1, 1]], [["1.0", "1.5"]]),
    "Numbers as text": ({}, "string", [{"v": 1e10}], ["1.0E10"], ["10000000000.0"]),
}


def test_differences_are_as_the_page_says(sink: Sink, tmp_path: Path) -> None:
    """Each difference that the page names is there, with the sink's value and floe's."""
    for name in DIFFERENCES:
        _check_difference(sink, tmp_path / name, name)


def _check_difference(sink: Sink, folder: Path, name: str) -> None:
    more, column, rows, of_java, of_ours = DIFFERENCES[name]
    given = {"shop.t": Schema(NestedField(1, "v", TYPES[column], required=False))} if column else {}
    settings = {**BASE, **SHOP, **more}
    text = imported(settings)
    assert text is not None
    values = [value_of(row) for row in rows]
    theirs, ours = of_sink(sink, settings, folder, given, values), of_floe(text, given, values)

    assert name in " ".join(PAGE.read_text(encoding="utf-8").split())
    assert not isinstance(theirs, str), theirs
    assert sorted(map(repr, _column(theirs))) == sorted(map(repr, of_java))
    if isinstance(of_ours, str):
        assert isinstance(ours, str), ours
        assert of_ours in ours
    else:
        assert not isinstance(ours, str), ours
        assert sorted(map(repr, _column(ours))) == sorted(map(repr, of_ours))


def _column(found: Mapping[str, Table]) -> list[Any]:
    return [json.loads(row)["v"] for row in found["shop.t"].rows]


def test_the_settings_of_tables_are_those_of_the_sink(sink: Sink) -> None:
    """Branch, partition and key of each table are in the pipeline file what the sink's own class reads of the settings, but
    for a partition with parts of times of what plain JSON leaves text: with it the sink makes a table without any."""
    for seed in range(60):
        chance = Random(f"settings {seed}")
        settings = {**BASE, **CREATES, "iceberg.tables": "shop.orders,shop.refunds"}
        for table in ("", "shop.orders", "shop.refunds"):
            place = f"iceberg.table.{table}." if table else "iceberg.tables.default-"
            for name, found in (
                ("commit-branch", ["audit", "main", ""]),
                ("partition-by", ["day(at), kind", "bucket(id, 4)", ""]),
            ):
                if chance.random() < 0.5:
                    settings[place + name] = chance.choice(found)
        text = imported(settings)
        if any(key.endswith("commit-branch") and not value for key, value in settings.items()):
            assert text is None, settings  # the sink fails at its first commit
            continue
        assert text is not None
        spec = load_text(text, "pipeline.yaml", None).spec
        assert spec is not None
        config = sink.config(settings)
        for table in ("shop.orders", "shop.refunds"):
            theirs, ours = config.tableConfig(table), spec.tables.policy_for(table)
            about = f"{settings}\n{text}"
            assert (ours.commit.branch or "main") == (theirs.commitBranch() or "main"), about
            fields = [str(field).replace(" ", "") for field in theirs.partitionBy()]
            if "day(at)" in fields:
                fields = []
            assert [_swapped(field) for field in fields] == [_reported(field) for field in ours.create.partition_by], (
                about
            )


def _swapped(field: str) -> str:
    return re.sub(r"^bucket\((\w+),(\d+)\)$", r"bucket(\2,\1)", field)


def _reported(field: Any) -> str:
    if field.transform == "identity":
        return str(field.column)
    return f"{field.transform}({f'{field.argument},' if field.argument is not None else ''}{field.column})"
