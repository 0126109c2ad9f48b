"""Raw bytes, Avro and keys become exact columns; a bad record is one dead letter that says why."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import (
    CreatePolicy,
    Encoding,
    Envelope,
    FieldHint,
    FormatSpec,
    FormatType,
    KeySpec,
    RouteCondition,
    RouteRule,
    TablePolicy,
)
from framework.record.formats.wire import UnknownSchema, WriterSchema
from framework.record.process import decode_block
from testbed.format_samples import Landed, avro_bytes, avro_schema, framed, land, record_of, records
from testbed.record_samples import plan

AVRO = FormatSpec(FormatType.AVRO, registry="main")
UTC = dt.timezone.utc


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


def land_avro(schema: Any, *values: Any, **kwargs: Any) -> Landed:
    data = [framed(1, avro_bytes(schema, value)) for value in values]
    return land(records(data), AVRO, {1: avro_schema(schema)}, **kwargs)


# ---- raw ------------------------------------------------------------------------------------------------------------


def test_raw_bytes_are_one_column() -> None:
    """Raw values land as they are, tombstones are dropped, an empty value is a value."""
    landed = land(records([b"\xff\x00", None, b""]), FormatSpec(FormatType.RAW))
    assert landed.types == {"value": "binary"}
    assert [row["value"] for row in landed.rows] == [b"\xff\x00", b""]
    assert landed.result.dropped == 1


def test_raw_text_must_be_utf8() -> None:
    """Raw text is UTF-8; a value that is not is one dead letter, and its neighbours land."""
    spec = FormatSpec(FormatType.RAW, column="line", encoding=Encoding.TEXT)
    landed = land(records([b"gr\xc3\xbc\xc3\x9fe", b"\xff", b"x"]), spec)
    assert landed.types == {"line": "string"}
    assert [row["line"] for row in landed.rows] == ["grüße", "x"]
    assert landed.codes == [(1, "FLOE-D104")]


# ---- metadata -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [FormatSpec(), FormatSpec(FormatType.RAW)])
def test_metadata_columns_and_routes_on_them(spec: FormatSpec) -> None:
    """Key, headers and single headers are columns, and rules see them, in every format."""
    headers: list[Any] = [[("kind", b"a"), ("kind", b"b"), ("n", None)], None, [("kind", b"\xff")]]
    block = records([b'{"id": 1}', b'{"id": 2}', b'{"id": 3}'], [b"k1", None, b"k3"], headers)
    rules = [RouteRule("ns.t", RouteCondition(field="_kafka_header_kind", equals="b")), RouteRule("ns.other")]
    names = ["topic", "key_text", "headers", "header.kind"]
    landed = land(block, spec, metadata=names, rules=rules)
    (row,) = landed.rows
    assert (row["_kafka_topic"], row["_kafka_key_text"], row["_kafka_header_kind"]) == ("events", "k1", "b")
    assert [(h["key"], h["value"]) for h in row["_kafka_headers"]] == [("kind", b"a"), ("kind", b"b"), ("n", None)]
    assert landed.result.rows["ns.other"].column("_kafka_headers").to_pylist() == [[]]
    assert landed.codes == [(2, "FLOE-D104")]
    assert landed.letters[0].field_path == "_kafka_header_kind"


# ---- avro -----------------------------------------------------------------------------------------------------------

LOGICAL: list[tuple[Any, Any, str, Any]] = [
    (logical("bytes", "decimal", precision=38, scale=4), Decimal("-1234567890123456789012345678901234.5678"),
     "decimal(38, 4)", Decimal("-1234567890123456789012345678901234.5678")),
    (logical("fixed", "decimal", name="D", size=5, precision=9, scale=2), Decimal("12.10"), "decimal(9, 2)", Decimal("12.10")),
    (logical("int", "date"), dt.date(1899, 12, 31), "date", dt.date(1899, 12, 31)),
    (logical("int", "time-millis"), dt.time(23, 59, 59, 999000), "time", dt.time(23, 59, 59, 999000)),
    (logical("long", "time-micros"), dt.time(0, 0, 0, 1), "time", dt.time(0, 0, 0, 1)),
    (logical("long", "timestamp-millis"), -1, "timestamptz", dt.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)),
    (logical("long", "timestamp-micros"), 1, "timestamptz", dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
    (logical("long", "local-timestamp-millis"), 1000, "timestamp", dt.datetime(1970, 1, 1, 0, 0, 1)),
    (logical("long", "timestamp-nanos"), 5000, "timestamptz", dt.datetime(1970, 1, 1, 0, 0, 0, 5, UTC)),
    (logical("string", "uuid"), uuid.UUID(int=7), "uuid", uuid.UUID(int=7)),
    (logical("fixed", "uuid", name="U", size=16), uuid.UUID(int=9).bytes, "uuid", uuid.UUID(int=9)),
    (logical("fixed", "duration", name="P", size=12), bytes([1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255]), "struct",
     {"months": 1, "days": 2, "milliseconds": 4294967295}),
    ({"type": "fixed", "name": "F", "size": 3}, b"abc", "fixed[3]", b"abc"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
    ("bytes", b"\x00\xff", "binary", b"\x00\xff"),
    ("float", 1.5, "float", 1.5),
    ("long", 2**63 - 1, "long", 2**63 - 1),
    ({"type": "map", "values": ["null", "long"]}, {"a": 1, "b": None}, "map<string, long>", [("a", 1), ("b", None)]),
    ({"type": "array", "items": {"type": "array", "items": "int"}}, [[1], []], "list<list<int>>", [[1], []]),
    (["int", "long"], 5, "long", 5),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "column", "expected"), LOGICAL, ids=lambda v: str(v)[:40])
def test_avro_types(kind: Any, value: Any, column: str, expected: Any) -> None:
    """Every type and logical type becomes the column that holds it exactly; null in a nullable field stays null."""
    plain = kind if isinstance(kind, (str, dict)) and not isinstance(value, (int, bytes)) else _without_logical(kind)
    nullable = ["null", *(kind if isinstance(kind, list) else [kind])]
    written = ["null", *(plain if isinstance(plain, list) else [plain])]
    schema, wire = record_of(field("x", nullable)), record_of(field("x", written))
    data = [framed(1, avro_bytes(wire, {"x": one})) for one in (value, None)]
    landed = land(records(data), AVRO, {1: avro_schema(schema)})
    assert landed.types["x"].startswith(column)
    assert [row["x"] for row in landed.rows] == [expected, None]
    assert landed.letters == []


def _without_logical(kind: Any) -> Any:
    return {k: v for k, v in kind.items() if k != "logicalType"} if isinstance(kind, dict) else kind


def test_nullability_comments_and_nested_comments() -> None:
    """A field that cannot be null is a required column of a new table; `doc` is the column's comment, at any depth."""
    inner = record_of(field("c", "int", doc="inner"), name="I")
    landed = land_avro(
        record_of(field("a", "int", doc="first"), field("b", ["null", "int"]), field("s", inner)),
        {"a": 1, "b": None, "s": {"c": 1}},
    )
    found = {f.name: (f.required, f.doc) for f in landed.schema.fields}
    assert found == {"a": (True, "first"), "b": (False, None), "s": (True, None)}
    nested = landed.schema.find_field("s.c")
    assert (nested.required, nested.doc) == (False, "inner")


def test_a_union_of_types_is_a_struct() -> None:
    """Each type of a union has a field, of which one is set; two records are told apart by their names."""
    kinds = [
        "null",
        "string",
        "long",
        record_of(field("x", "int"), name="n.A"),
        record_of(field("x", "int"), name="n.B"),
    ]
    landed = land_avro(
        record_of(field("u", kinds)),
        {"u": None},
        {"u": "t"},
        {"u": 5},
        {"u": ("n.A", {"x": 1})},
        {"u": ("n.B", {"x": 2})},
    )
    nothing = {"string": None, "long": None, "A": None, "B": None}
    assert [row["u"] for row in landed.rows] == [
        None, nothing | {"string": "t"}, nothing | {"long": 5}, nothing | {"A": {"x": 1}}, nothing | {"B": {"x": 2}},
    ]  # fmt: skip


def test_a_type_that_holds_itself_is_cut_to_json_text() -> None:
    """A recursive type is a column once, and JSON text where it comes again."""
    node = record_of(field("v", "int"), field("next", ["null", "n.Node"]), name="n.Node")
    landed = land_avro(node, {"v": 1, "next": {"v": 2, "next": None}})
    assert landed.types == {"v": "int", "next": "string"}
    assert json.loads(landed.rows[0]["next"]) == {"v": 2, "next": None}


def test_writers_of_one_topic_evolve() -> None:
    """Columns of a later schema appear, fields it lacks become optional, and int grows to long by the schema alone."""
    first = record_of(field("id", "int"), field("old", "string"))
    second = record_of(field("id", "long"), field("new", logical("int", "date")))
    data = [framed(1, avro_bytes(first, {"id": 1, "old": "x"})), framed(2, avro_bytes(second, {"id": 2, "new": 5}))]
    schemas = {1: avro_schema(first), 2: avro_schema(second)}
    only_first = land(records(data[:1]), AVRO, schemas)
    assert {f.name: f.required for f in only_first.schema.fields} == {"id": True, "old": True}
    both = land(records(data), AVRO, schemas)
    assert both.types == {"id": "long", "old": "string", "new": "date"}
    assert {f.name: f.required for f in both.schema.fields} == {"id": True, "old": False, "new": False}
    assert [row["id"] for row in both.rows] == [1, 2]
    later = land(records(data), AVRO, schemas, given=(("ns.t", (("id", "int"), ("old", "string"))),))
    assert later.types == {"id": "long", "old": "string", "new": "date"}


def test_reader_schema_resolves() -> None:
    """With a schema to read with, fields are renamed by aliases, filled by defaults and promoted, by Avro's rules."""
    written = record_of(field("id", "int"), field("nm", "string"))
    read = record_of(field("id", "long"), field("name", "string", aliases=["nm"]), field("extra", "int", default=7))
    spec = FormatSpec(FormatType.AVRO, registry="main", schema=json.dumps(read))
    other = record_of(field("id", "string"))
    data = [framed(1, avro_bytes(written, {"id": 1, "nm": "x"})), framed(2, avro_bytes(other, {"id": "a"}))]
    landed = land(records(data), spec, {1: avro_schema(written), 2: avro_schema(other)})
    assert landed.rows == [{"id": 1, "name": "x", "extra": 7}]
    assert landed.codes == [(1, "FLOE-D117")]


def test_a_duration_of_days_is_a_number_where_a_schema_to_read_with_says_so() -> None:
    """MySQL's TIME may be more than a day, and no time then: a schema that names plain microseconds takes it."""
    took = {"type": "long", "connect.name": "io.debezium.time.MicroTime"}
    written, read = record_of(field("took", took)), record_of(field("took", "long"))
    data = [framed(1, avro_bytes(written, {"took": micros})) for micros in (3_600_000_000, 100_000_000_000)]
    by_itself = land(records(data), AVRO, {1: avro_schema(written)})
    assert by_itself.rows == [{"took": dt.time(1)}]
    assert by_itself.codes == [(1, "FLOE-D114")]
    spec = FormatSpec(FormatType.AVRO, registry="main", schema=json.dumps(read))
    landed = land(records(data), spec, {1: avro_schema(written)})
    assert landed.rows == [{"took": 3_600_000_000}, {"took": 100_000_000_000}]


UNFIT: list[tuple[Any, Any, Any]] = [
    ("string", None, "a"),
    ("int", "x", 1),
    ("int", 2**31, 1),
    ("boolean", "false", True),
    (["string", "null"], 5, "a"),
    ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "C", "A"),
    ({"type": "array", "items": "int"}, {}, [1]),
    ({"type": "array", "items": "int"}, ["x"], [1]),
    ({"type": "map", "values": "int"}, [], {"a": 1}),
    ({"type": "fixed", "name": "F", "size": 2}, "abc", b"ab"),
    ({"type": "record", "name": "R", "fields": [{"name": "b", "type": "int", "default": None}]}, {}, {"b": 1}),
    (logical("long", "timestamp-millis"), "now", dt.datetime(2024, 1, 4, tzinfo=UTC)),
]


@pytest.mark.parametrize(("kind", "default", "value"), UNFIT, ids=lambda v: str(v)[:40])
def test_a_default_that_does_not_fit_its_type_refuses_no_record(kind: Any, default: Any, value: Any) -> None:
    """Registries keep schemas whose defaults do not fit. They mean nothing in a writer's schema; a schema to read with
    is as if it had none, so that only a record without the field is refused."""
    unfit = record_of(field("id", "int"), field("x", kind, default=default))
    sound = record_of(field("id", "int"), field("x", _without_default(kind)))
    lacking = record_of(field("id", "int"))
    landed = land(records([framed(1, avro_bytes(sound, {"id": 1, "x": value}))]), AVRO, {1: avro_schema(unfit)})
    assert landed.codes == []
    assert [_plain(row["x"]) for row in landed.rows] == [value]
    spec = FormatSpec(FormatType.AVRO, registry="main", schema=json.dumps(unfit))
    data = [framed(1, avro_bytes(sound, {"id": 1, "x": value})), framed(2, avro_bytes(lacking, {"id": 2}))]
    read = land(records(data), spec, {1: avro_schema(unfit), 2: avro_schema(lacking)})
    assert [_plain(row["x"]) for row in read.rows] == [value]
    assert read.codes == [(1, "FLOE-D117")]


def test_a_null_stays_null_whatever_its_default_is() -> None:
    """A default is for who reads with another schema: a value that is null, or that Connect's JSON leaves out, is null, at
    the top and in structs, and its column may be null."""
    inner = record_of(field("y", ["string", "null"], default="inner"), name="shop.Inner")
    avro = record_of(field("id", "int"), field("x", ["long", "null"], default=7), field("s", inner))
    values: list[dict[str, Any]] = [{"id": 1, "x": None, "s": {"y": None}}, {"id": 2, "x": 7, "s": {"y": "inner"}}]
    held = [framed(1, avro_bytes(avro, value)) for value in values]
    optional = {"optional": True}
    connect = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int32"},
            {"field": "x", "type": "int64", "default": 7, **optional},
            {
                "field": "s",
                "type": "struct",
                "fields": [{"field": "y", "type": "string", "default": "inner", **optional}],
            },
        ],
    }
    change = {
        "type": "struct",
        "fields": [{"field": "op", "type": "string"}, {**connect, "field": "after", **optional}],
    }
    rows = [*values, {"id": 3, "s": {}}]
    events = [json.dumps({"schema": change, "payload": {"op": "c", "after": row}}).encode() for row in rows]
    debezium = FormatSpec(envelope=Envelope.DEBEZIUM)
    for landed in (land(records(held), AVRO, {1: avro_schema(avro)}), land(records(events), debezium)):
        assert landed.codes == []
        found = [(row["id"], row["x"], row["s"]) for row in landed.rows]
        assert found[:2] == [(1, None, {"y": None}), (2, 7, {"y": "inner"})]
        assert found[2:] in ([], [(3, None, {"y": None})])
        assert not landed.schema.find_field("x").required


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, list) and value and isinstance(value[0], tuple) else value


def _without_default(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    fields = {"fields": [{k: v for k, v in each.items() if k != "default"} for each in kind.get("fields", ())]}
    return {k: v for k, v in kind.items() if k != "default"} | (fields if "fields" in kind else {})


def test_avro_without_a_registry() -> None:
    """The file's schema reads records that carry no id."""
    schema = record_of(field("id", "int"))
    spec = FormatSpec(FormatType.AVRO, schema=json.dumps(schema))
    landed = land(records([avro_bytes(schema, {"id": 1}), b"\x80"]), spec)
    assert landed.rows == [{"id": 1}]
    assert landed.codes == [(1, "FLOE-D115")]


def test_schemas_by_guid_in_a_header() -> None:
    """A GUID in the header names the schema, and the value is the payload whole."""
    schema = record_of(field("id", "int"))
    guid = uuid.UUID(int=5)
    block = records([avro_bytes(schema, {"id": 1})], headers=[[("__value_schema_id", b"\x01" + guid.bytes)]])
    assert land(block, AVRO, {str(guid): avro_schema(schema)}).rows == [{"id": 1}]


def test_schemas_that_refer_to_others() -> None:
    """A schema's references are known types in it."""
    address = record_of(field("city", "string"), name="shop.Address")
    order = record_of(field("to", "shop.Address"))
    data = framed(1, avro_bytes(record_of(field("to", address)), {"to": {"city": "Ulm"}}))
    landed = land(records([data]), AVRO, {1: avro_schema(order, ("shop.Address", address))})
    assert landed.rows == [{"to": {"city": "Ulm"}}]


def test_each_bad_record_is_one_dead_letter() -> None:
    """What is cut, too long, unframed, of an unknown schema or of another format costs itself alone, with its own
    code."""
    schema = record_of(field("id", "long"), field("name", "string"))
    good = avro_bytes(schema, {"id": 1, "name": "x"})
    values = [framed(1, good), framed(1, good[:-1]), framed(1, good + b"\0"), good, b"", framed(2, good), framed(3, good),
              framed(4, good), framed(1, good)]  # fmt: skip
    schemas: dict[Any, Any] = {
        1: avro_schema(schema),
        2: UnknownSchema("not found"),
        3: WriterSchema("PROTOBUF", ""),
        4: WriterSchema("AVRO", '{"type": "nothing"}'),
    }
    landed = land(records(values), AVRO, schemas)
    assert len(landed.rows) == 2
    assert landed.codes == [
        (1, "FLOE-D115"), (2, "FLOE-D115"), (3, "FLOE-D111"), (4, "FLOE-D111"), (5, "FLOE-D112"), (6, "FLOE-D113"),
        (7, "FLOE-D116"),
    ]  # fmt: skip


def test_a_value_beyond_its_type_is_one_dead_letter() -> None:
    """A decimal with more digits than its schema says, a time beyond a day and a moment beyond its unit name their
    field."""
    raw = record_of(field("d", "bytes"), field("t", "int"), field("m", "long"))
    schema = record_of(
        field("d", logical("bytes", "decimal", precision=3, scale=1)),
        field("t", logical("int", "time-millis")),
        field("m", logical("long", "timestamp-millis")),
    )
    values = [(b"\x03\xe7", 0, 0), (b"\x03\xe8", 0, 0), (b"\0", 86_400_000, 0), (b"\0", 0, 2**62), (b"\xfc\x19", 1, 1)]
    data = [framed(1, avro_bytes(raw, dict(zip("dtm", one, strict=True)))) for one in values]
    landed = land(records(data), AVRO, {1: avro_schema(schema)})
    assert [row["d"] for row in landed.rows] == [Decimal("99.9"), Decimal("-99.9")]
    assert [(letter.offset, letter.code, letter.field_path) for letter in landed.letters] == [
        (1, "FLOE-D114", "d"), (2, "FLOE-D114", "t"), (3, "FLOE-D114", "m"),
    ]  # fmt: skip


def test_a_dead_letter_names_the_innermost_field() -> None:
    """Where a value of a struct, list or map does not fit, the dead letter names it by its whole path."""
    places = {
        "type": "array",
        "items": {
            "type": "record",
            "name": "P",
            "fields": [{"name": "m", "type": {"type": "map", "values": {"type": "int", "logicalType": "time-millis"}}}],
        },
    }
    outer = record_of({"name": "places", "type": places})
    plain = json.loads(json.dumps(outer).replace(', "logicalType": "time-millis"', ""))
    data = framed(1, avro_bytes(plain, {"places": [{"m": {"a": 1}}, {"m": {"a": 1, "b c": -1}}]}))
    landed = land(records([data]), FormatSpec(FormatType.AVRO, registry="main"), {1: avro_schema(outer)})
    assert [letter.field_path for letter in landed.letters] == ["places[1].m['b c']"]
    assert landed.letters[0].message.startswith("places[1].m['b c']: the value is no time")


@pytest.mark.parametrize("version", ["2", "3"])
def test_nanoseconds_are_kept_or_refused(version: str) -> None:
    """A table of format version 3 gets a column of nanoseconds; in microsecond columns a moment with nanoseconds is an
    error, never rounded."""
    schema = record_of(field("at", logical("long", "timestamp-nanos")))
    data = [framed(1, avro_bytes(record_of(field("at", "long")), {"at": at})) for at in (1000, 1001)]
    create = CreatePolicy(properties=(("format-version", version),))
    landed = land(records(data), AVRO, {1: avro_schema(schema)}, table_policy=TablePolicy(create=create))
    exact = version == "3"
    assert landed.types == {"at": "timestamptz_ns" if exact else "timestamptz"}
    assert (len(landed.rows), [letter.field_path for letter in landed.letters]) == ((2, []) if exact else (1, ["at"]))


def test_hints_give_numbers_and_text_their_types() -> None:
    """A declared field of an Avro record is what the file declares: a count with a unit, text with a format."""
    schema = record_of(field("n", "long"), field("t", "string"))
    hints = [FieldHint("n", "timestamptz", unit="s"), FieldHint("t", "date", format="%d.%m.%Y")]
    landed = land_avro(schema, {"n": 60, "t": "24.12.2024"}, hints=hints)
    assert landed.types == {"n": "timestamptz", "t": "date"}
    assert landed.rows == [{"n": dt.datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "t": dt.date(2024, 12, 24)}]


def test_partition_by_a_schema_column() -> None:
    """A column of the schema is there for partitioning before any record has a value in it."""
    schema = record_of(field("at", ["null", logical("long", "timestamp-millis")]))
    from framework.config.spec import PartitionFieldSpec

    create = CreatePolicy(partition_by=(PartitionFieldSpec("at", "day"),))
    assert land_avro(schema, {"at": None}, table_policy=TablePolicy(create=create)).rows == [{"at": None}]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=12)), min_size=1, max_size=30))
def test_records_never_leak_into_their_neighbours(values: list[int | bytes]) -> None:
    """Whatever bytes stand between them, good records keep their values and offsets; nothing else lands as more than
    the one record that its own bytes are."""
    schema = record_of(field("id", "long"), field("s", "string"))
    data = [
        framed(1, value if isinstance(value, bytes) else avro_bytes(schema, {"id": value, "s": str(value)}))
        for value in values
    ]
    landed = land(records(data), AVRO, {1: avro_schema(schema)}, metadata=["offset"])
    by_offset = {row["_kafka_offset"]: row for row in landed.rows}
    for offset, value in enumerate(values):
        if isinstance(value, int):
            assert (by_offset[offset]["id"], by_offset[offset]["s"]) == (value, str(value))
        elif offset in by_offset:
            assert avro_bytes(schema, {k: by_offset[offset][k] for k in ("id", "s")}) == value


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_keys_beside_avro_values() -> None:
    """The key's fields are columns under their prefix; a record without a key has nulls there, a bad key is a dead
    letter."""
    value, key = record_of(field("v", "int")), record_of(field("id", "long"), name="K")
    data = framed(1, avro_bytes(value, {"v": 1}))
    keys = [framed(2, avro_bytes(key, {"id": 7})), None, b"junk"]
    schemas = {1: avro_schema(value), 2: avro_schema(key)}
    landed = land(records([data] * 3, keys), AVRO, schemas, KeySpec(AVRO))
    assert landed.rows == [{"v": 1, "key_id": 7}, {"v": 1, "key_id": None}]
    assert landed.codes == [(2, "FLOE-D111")]


def test_text_keys_beside_avro_values() -> None:
    """A key that is no record is one column."""
    value = record_of(field("v", "int"))
    data = framed(1, avro_bytes(value, {"v": 1}))
    spec = KeySpec(FormatSpec(FormatType.RAW, encoding=Encoding.TEXT))
    assert land(records([data], [b"k"]), AVRO, {1: avro_schema(value)}, spec).rows == [{"v": 1, "key": "k"}]


def test_json_keys_beside_json_values() -> None:
    """The fields of a JSON key land under their prefix with JSON's own exactness; a key that is no object is an
    error."""
    values = [b'{"v": 1}', b"{}", b'{"v": 2}', b'{"v": 3}']
    keys = [b'{"id": 12345678901234567890}', b'{"id": 2}', b"[]", None]
    landed = land(records(values, keys), FormatSpec(), key=KeySpec(FormatSpec()))
    assert landed.rows == [
        {"key_id": Decimal("12345678901234567890"), "v": 1}, {"key_id": Decimal(2), "v": None}, {"key_id": None, "v": 3},
    ]  # fmt: skip
    assert landed.codes == [(2, "FLOE-D102")]
    assert landed.letters[0].value == b'{"v": 2}'


def test_json_in_the_wire_format() -> None:
    """JSON Schema's wire format is JSON behind an id."""
    spec = FormatSpec(registry="main")
    schemas: dict[Any, Any] = {1: WriterSchema("JSON", "{}"), 2: UnknownSchema("not found")}
    values = [framed(1, b'{"a": 1}'), framed(2, b'{"a": 1}'), b'{"a": 1}', None]
    landed = land(records(values), spec, schemas)
    assert landed.rows == [{"a": 1}]
    assert landed.codes == [(1, "FLOE-D112"), (2, "FLOE-D111")]
    assert landed.result.dropped == 1


def test_sql_reads_declared_fields_of_any_format() -> None:
    """Before the SQL, the declared fields of an Avro record have their declared types; a bad record is a dead
    letter."""
    schema = record_of(field("id", "int"), field("at", "long"), field("more", "string"))
    good = framed(1, avro_bytes(schema, {"id": 1, "at": 60, "more": "x"}))
    made = plan(hints=[FieldHint("id", "long"), FieldHint("at", "timestamptz", unit="s")])
    made = replace(made, decode=replace(made.decode, format=AVRO))
    rows, early = decode_block(records([good, b"junk", good]), made, {}, {1: avro_schema(schema)})
    assert rows.to_pylist() == [
        {"id": 1, "at": dt.datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "__floe": place} for place in (0, 2)
    ]
    assert [letter.code for letter in early.dead_letters] == ["FLOE-D111"]
