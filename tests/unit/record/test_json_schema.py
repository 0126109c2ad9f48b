"""JSON behind a registry takes the types of its columns from the JSON Schema, and from values where that says nothing."""

from __future__ import annotations

import json
import time
from datetime import date, datetime, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import FieldHint, FormatSpec, KeySpec
from framework.record.formats.wire import WriterSchema
from framework.record.json.json_schema import declared_fields
from testbed.format_samples import Landed, framed, land, records

MAIN = FormatSpec(registry="main")


def schema_of(properties: Any, references: tuple[tuple[str, str], ...] = (), **more: Any) -> WriterSchema:
    return WriterSchema("JSON", json.dumps({"type": "object", "properties": properties, **more}), references)


def landed(schema: WriterSchema, *values: Any, **more: Any) -> Landed:
    return land(records([framed(1, json.dumps(value).encode()) for value in values]), MAIN, {1: schema}, **more)


def test_types_are_those_of_the_schema() -> None:
    """Each type has its column, at any depth, whatever the values look like; a field without a value has one, too."""
    schema = schema_of(
        {
            "id": {"type": "integer"},
            "price": {"type": "number"},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "key": {"type": "string", "format": "uuid"},
            "is_new": {"type": ["null", "boolean"]},
            "who": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "since": {"type": "string", "format": "date"}},
            },
            "tags": {"type": "array", "items": {"type": "integer"}},
            "counts": {"type": "object", "additionalProperties": {"type": "number"}},
            "later": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        }
    )
    value = {
        "id": 1, "price": 2, "at": "2024-01-04T12:00:00Z", "day": "2024-01-04", "key": "a", "is_new": None,
        "who": {"name": "ann", "since": "2024-01-04"}, "tags": [1], "counts": {"x": 1, "y": 2.5},
    }  # fmt: skip
    result = landed(schema, value)
    assert result.codes == []
    assert result.types == {
        "id": "long", "price": "double", "at": "timestamptz", "day": "date", "key": "string", "is_new": "boolean",
        "who": "struct<12: name: optional string, 13: since: optional date>", "tags": "list<long>",
        "counts": "map<string, double>", "later": "long",
    } | {"who": result.types["who"]}  # fmt: skip
    assert "since: optional date" in result.types["who"]
    [row] = result.rows
    assert (row["price"], row["at"]) == (2.0, datetime(2024, 1, 4, 12, tzinfo=timezone.utc))
    assert row["who"] == {"name": "ann", "since": date(2024, 1, 4)}
    assert (row["counts"], row["later"]) == ([("x", 1.0), ("y", 2.5)], None)


def test_required_fields_and_descriptions_are_those_of_columns() -> None:
    """As with Avro: what cannot be null is required in a new table, and a description is the column's comment."""
    schema = schema_of(
        {
            "id": {"type": "integer", "description": "its number"},
            "note": {"type": ["string", "null"]},
            "more": {"type": "string"},
            "in": {
                "type": "object",
                "properties": {"a": {"type": "integer", "description": "inside"}},
                "required": ["a"],
            },
        },
        required=["id", "note"],
    )
    result = landed(schema, {"id": 1, "note": None, "in": {"a": 1}})
    fields = {field.name: field for field in result.schema.fields}
    assert {name: field.required for name, field in fields.items()} == {
        "id": True,
        "note": False,
        "more": False,
        "in": False,
    }
    assert fields["id"].doc == "its number"
    assert result.schema.find_field("in.a").doc == "inside"
    assert landed(schema, {"note": "x"}).schema.find_field("id").required is False, (
        "relaxed, as evolve.nullability says"
    )


def test_what_is_open_is_inferred() -> None:
    """A field without a type, with several, or with words that floe does not read is as without a schema; so is all of a
    schema that is none."""
    value = {"a": 1, "b": "x", "c": [1], "d": {"e": 1.5}, "f": 12345678901234567890}
    inferred = landed(WriterSchema("JSON", "{}"), value)
    for properties in (
        {"a": {}, "b": True, "c": {"type": "array"}, "d": {"type": "object"}, "f": {"type": ["integer", "string"]}},
        {"a": {"oneOf": [{"type": "integer"}, {"type": "string"}]}, "f": {"type": "integer", "maximum": 1e20}},
        {"c": {"type": "array", "items": [{"type": "string"}]}, "d": {"allOf": [{}, {}]}, "b": {"$ref": "#/none"}},
        {"c": {"type": "array", "prefixItems": [], "items": {"type": "string"}}, "a": {"type": "decimal"}, "b": 7},
    ):
        result = landed(schema_of(properties), value)
        assert (result.types, result.rows, result.codes) == (inferred.types, inferred.rows, inferred.codes), properties
    for text in ("", "nonsense", "[]", "true", "7", '{"type": "array"}', '{"properties": 7}', "[" * 100_000):
        result = landed(WriterSchema("JSON", text), value)
        assert (result.types, result.rows) == (inferred.types, inferred.rows), text[:20]


def test_references_are_followed() -> None:
    """To parts of the schema itself, to other schemas by the name that the registry has or by their `$id`, and from there
    on; one that holds itself ends, and is inferred from there."""
    money = {"$id": "https://shop/money", "$defs": {"cents": {"type": "integer"}}, "type": "object",
             "properties": {"cents": {"$ref": "#/$defs/cents"}}}  # fmt: skip
    node = {"type": "object", "properties": {"v": {"type": "number"}, "next": {"$ref": "#/definitions/node"}}}
    schema = schema_of(
        {
            "price": {"$ref": "money.json"},
            "tax": {"$ref": "https://shop/money#/$defs/cents"},
            "list": {"$ref": "#/definitions/node"},
            "odd": {"$ref": "#/definitions/a~1b"},
        },
        (("money.json", json.dumps(money)),),
        definitions={"node": node, "a/b": {"type": "number"}},
    )
    result = landed(schema, {"price": {"cents": 1}, "tax": 2, "list": {"v": 1, "next": {"v": 2}}, "odd": 3})
    types = declared_fields(schema.text, schema.references).kinds
    assert types["price"] == ["struct", [["cents", "long"]]]
    assert (types["tax"], types["odd"], types["list"]) == ("long", "double", ["struct", [["v", "double"]]])
    assert result.rows == [{"price": {"cents": 1}, "tax": 2, "list": {"v": 1.0, "next": {"v": 2}}, "odd": 3.0}]


def test_schemas_evolve_a_table() -> None:
    """A later schema's field gets its type with its first value; a column that is there keeps its own, also where it was
    another kind of nesting; and `source.schema` says more than the schema."""
    first = schema_of({"id": {"type": "integer"}, "m": {"type": "object", "properties": {"a": {"type": "integer"}}}})
    result = landed(first, {"id": 1, "m": {"a": 1}})
    later = schema_of(
        {
            "id": {"type": "integer"},
            "m": {"type": "object", "additionalProperties": {"type": "number"}},
            "day": {"type": "string", "format": "date"},
            "n": {"type": "number"},
            "quiet": {"type": "integer"},
        }
    )
    result = landed(later, {"id": 2, "m": {"a": 2, "b": 3}, "day": "2024-01-04", "n": 1}, tables=result.tables)
    assert result.codes == []
    assert {name: kind for name, kind in result.types.items() if name != "m"} == {
        "id": "long",
        "day": "date",
        "n": "double",
    }
    assert result.rows == [{"id": 2, "m": {"a": 2, "b": 3}, "day": date(2024, 1, 4), "n": 1.0}]
    hinted = landed(later, {"id": 3, "day": "today"}, hints=[FieldHint("day", "string")])
    assert hinted.types["day"] == "string"


def test_a_value_that_is_none_of_its_type_is_one_dead_letter() -> None:
    """The schema decides the column, and a record that breaks its schema costs its neighbours nothing."""
    schema = schema_of({"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}})
    at = "2024-01-04T12:00:00Z"
    values = [{"id": 1, "at": at}, {"id": 2, "at": "never"}, {"id": "three", "at": at}, {"id": 4, "at": at}]
    result = landed(schema, *values, {"id": 5, "at": "2024-01-04T12:00:00"})
    assert result.types == {"id": "long", "at": "timestamptz"}
    assert [row["id"] for row in result.rows] == [1, 4]
    assert result.codes == [(1, "FLOE-D304"), (2, "FLOE-D304"), (4, "FLOE-D308")]


def test_keys_have_their_schema_too() -> None:
    """The fields of a key have their types under their prefix, and none of them is required."""
    key = schema_of({"day": {"type": "string", "format": "date"}}, required=["day"])
    spec = KeySpec(FormatSpec(registry="main"), prefix="key_")
    block = records([framed(1, b'{"id": 1}')], [framed(2, b'{"day": "2024-01-04"}')])
    result = land(block, MAIN, {1: schema_of({"id": {"type": "number"}}), 2: key}, key=spec)
    assert result.types == {"key_day": "date", "id": "double"}
    assert not result.schema.find_field("key_day").required


def test_a_hostile_schema_costs_a_bounded_time() -> None:
    """Definitions that double with each step, and fields without end: the time is bounded, and each record is a row or a
    dead letter."""
    laughs = {
        f"d{i}": {"type": "object", "properties": {x: {"$ref": f"#/definitions/d{i + 1}"} for x in "ab"}}
        for i in range(40)
    }
    bomb = schema_of({"a": {"$ref": "#/definitions/d0"}}, definitions=laughs)
    wide = schema_of({f"f{i}": {"type": "integer"} for i in range(60_000)})
    deep: Any = {"type": "integer"}
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    for schema in (bomb, wide, schema_of({"a": deep})):
        began = time.monotonic()
        result = landed(schema, {"f1": 1}, {"f2": 2})
        assert len(result.rows) + len(result.codes) == 2
        assert time.monotonic() - began < 10


CHOICES: dict[str, Any] = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.integers(-(2**50), 2**50) | st.floats(-1e15, 1e15),
    "string": st.text(max_size=5),
    "boolean": st.booleans(),
}


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_it_makes_no_difference_where_a_batch_ends(data: st.DataObject) -> None:
    """Records of a schema give the same columns and rows in one block, and one by one."""
    kinds = data.draw(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(sorted(CHOICES)), min_size=1))
    schema = schema_of({name: {"type": kind} for name, kind in kinds.items()})
    one = st.fixed_dictionaries({}, optional={name: st.none() | CHOICES[kind] for name, kind in kinds.items()})
    values = data.draw(st.lists(one, min_size=1, max_size=4))
    whole = landed(schema, *values)
    apart = landed(schema, values[0])
    rows = apart.rows
    for value in values[1:]:
        apart = landed(schema, value, tables=apart.tables)
        rows = rows + apart.rows
    assert whole.codes == []
    assert apart.types == whole.types
    assert set(whole.types) == set(kinds)
    assert json.dumps(rows) == json.dumps(whole.rows)


def test_floes_own_columns_are_no_fields_of_a_schema() -> None:
    """A field that is named like a metadata column of floe's is left to floe."""
    schema = schema_of({"_kafka_offset": {"type": "string"}, "a": {"type": "number"}})
    block = records([framed(1, b'{"a": 1, "_kafka_offset": "x"}')])
    result = land(block, MAIN, {1: schema}, metadata=("offset",))
    assert result.types == {"a": "double", "_kafka_offset": "long"}
