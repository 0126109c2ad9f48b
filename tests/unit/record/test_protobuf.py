"""Protobuf messages become exact columns by their descriptors, with presence, oneofs, maps and well-known types."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from framework.config.spec import CreatePolicy, FieldHint, FormatSpec, FormatType, TablePolicy
from framework.record.formats.wire import WriterSchema
from testbed.format_samples import TABLE, Landed, framed, land, proto_schema, records, serialized

SPEC = FormatSpec(FormatType.PROTOBUF, registry="main")
UTC = dt.timezone.utc
F = descriptor_pb2.FieldDescriptorProto
KINDS = {"int32": F.TYPE_INT32, "int64": F.TYPE_INT64, "uint32": F.TYPE_UINT32, "uint64": F.TYPE_UINT64, "double": F.TYPE_DOUBLE,
         "float": F.TYPE_FLOAT, "bool": F.TYPE_BOOL, "string": F.TYPE_STRING, "bytes": F.TYPE_BYTES, "sint64": F.TYPE_SINT64,
         "fixed64": F.TYPE_FIXED64}  # fmt: skip


def file_of(name: str = "order.proto", *imports: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3", dependency=imports)


def add(
    message: Any, name: str, kind: str, repeated: bool = False, optional: bool = False, oneof: int | None = None
) -> Any:
    """Add a field: a scalar, `enum .shop.E`, or a message's full name with a dot before it."""
    field = message.field.add(name=name, number=len(message.field) + 1)
    field.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if kind in KINDS:
        field.type = KINDS[kind]
    else:
        field.type = F.TYPE_ENUM if kind.startswith("enum ") else F.TYPE_MESSAGE
        field.type_name = kind.removeprefix("enum ")
    if oneof is not None:
        field.oneof_index = oneof
    elif optional:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    return field


def type_of(file: Any, name: str, *others: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, struct_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for one in (*others, file):
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def land_messages(
    file: Any, *values: dict[str, Any], name: str = "shop.Order", index: bytes = b"\0", **how: Any
) -> Landed:
    kind = type_of(file, name)
    data = [framed(1, index + json_format.ParseDict(value, kind()).SerializeToString()) for value in values]
    return land(records(data), SPEC, {1: proto_schema(file)}, **how)


def test_scalars_are_exact() -> None:
    """Every scalar has the column that holds all its values; what is not set has its default."""
    file = file_of()
    order = file.message_type.add(name="Order")
    for kind in KINDS:
        add(order, f"a_{kind}", kind)
    landed = land_messages(
        file, {"a_int64": str(-(2**63)), "a_uint64": str(2**64 - 1), "a_uint32": 2**32 - 1, "a_bytes": "/w=="}, {}
    )
    assert landed.types == {
        "a_int32": "int", "a_int64": "long", "a_uint32": "long", "a_uint64": "decimal(20, 0)", "a_double": "double",
        "a_float": "float", "a_bool": "boolean", "a_string": "string", "a_bytes": "binary", "a_sint64": "long",
        "a_fixed64": "decimal(20, 0)",
    }  # fmt: skip
    first, second = landed.rows
    assert (first["a_int64"], first["a_uint64"], first["a_uint32"], first["a_bytes"]) == (
        -(2**63), Decimal(2**64 - 1), 2**32 - 1, b"\xff",
    )  # fmt: skip
    assert (second["a_int64"], second["a_string"], second["a_bool"]) == (0, "", False)


def test_presence_oneofs_enums_maps_and_nesting() -> None:
    """Fields with presence are null when absent; of a oneof one is set; enums are names, an unknown number stays
    one."""
    file = file_of()
    enum = file.enum_type.add(name="Kind")
    for number, name in enumerate(("NONE", "NEW")):
        enum.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    order.oneof_decl.add(name="payment")
    add(order, "card", "string", oneof=0)
    add(order, "cash", "int64", oneof=0)
    add(order, "kind", "enum .shop.Kind")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    add(entry, "key", "string")
    add(entry, "value", "int64")
    add(order, "counts", ".shop.Order.CountsEntry", repeated=True)
    add(order, "tags", "string", repeated=True)
    line = file.message_type.add(name="Line")
    add(line, "sku", "string")
    add(order, "lines", ".shop.Line", repeated=True)
    add(order, "first", ".shop.Line")
    add(order, "parent", ".shop.Order")
    add(order, "note", "string", optional=True)
    landed = land_messages(
        file,
        {"card": "x", "kind": "NEW", "counts": {"a": 1}, "tags": ["t"], "lines": [{"sku": "s"}], "parent": {"cash": 5}},
        {"cash": 0, "kind": 7, "first": {}, "note": ""},
    )
    first, second = landed.rows
    assert (first["card"], first["cash"], first["kind"], first["first"], first["note"]) == (
        "x",
        None,
        "NEW",
        None,
        None,
    )
    assert (first["counts"], first["tags"], first["lines"]) == ([("a", 1)], ["t"], [{"sku": "s"}])
    assert json.loads(first["parent"]) == {"cash": "5"}
    assert (second["card"], second["cash"], second["kind"], second["first"], second["note"]) == (
        None,
        0,
        "7",
        {"sku": ""},
        "",
    )


def test_messages_that_hold_themselves_and_messages_of_nothing() -> None:
    """A type that comes again inside itself is JSON text, however deep; of a message without fields a column says
    whether it was there, which Parquet could not hold as a struct."""
    file = file_of("order.proto", "google/protobuf/struct.proto")
    order = file.message_type.add(name="Order")
    add(order, "name", "string")
    add(order, "children", ".shop.Order", repeated=True)
    add(order, "alive", ".shop.KeepAlive")
    add(order, "report", ".shop.Report")
    file.message_type.add(name="KeepAlive")
    report = file.message_type.add(name="Report")
    add(report, "details", ".google.protobuf.Struct")
    add(report, "lives", ".shop.KeepAlive", repeated=True)
    deep: dict[str, Any] = {"name": "leaf"}
    for _ in range(90):
        deep = {"name": "x", "children": [deep]}
    landed = land_messages(file, deep, {"alive": {}, "report": {"details": {"a": {"b": [1]}}, "lives": [{}, {}]}})
    assert landed.types | {"report": ""} == {
        "name": "string", "children": "list<string>", "alive": "boolean", "report": "",
    }  # fmt: skip
    first, second = landed.rows
    assert json.loads(first["children"][0])["name"] == "x"
    assert (first["alive"], second["alive"]) == (None, True)
    assert second["report"] == {"details": '{"a":{"b":[1.0]}}', "lives": [True, True]}
    assert not landed.letters


def test_well_known_types() -> None:
    """Timestamps are moments, durations seconds and nanoseconds, wrappers nullable values, Struct JSON text."""
    names = {"at": "Timestamp", "took": "Duration", "n": "Int64Value", "s": "StringValue", "any": "Struct"}
    file = file_of(
        "order.proto", *(f"google/protobuf/{n}.proto" for n in ("timestamp", "duration", "wrappers", "struct"))
    )
    order = file.message_type.add(name="Order")
    for field, kind in names.items():
        add(order, field, f".google.protobuf.{kind}")
    landed = land_messages(
        file,
        {
            "at": "2024-02-29T12:00:00.000001Z",
            "took": "1.5s",
            "n": "9223372036854775807",
            "s": "",
            "any": {"a": [1, None]},
        },
        {},
        {"at": "2024-02-29T12:00:00.000000001Z"},
    )
    assert landed.types["at"] == "timestamptz"
    first, second = landed.rows
    assert first["at"] == dt.datetime(2024, 2, 29, 12, 0, 0, 1, UTC)
    assert (first["took"], first["n"], first["s"]) == ({"seconds": 1, "nanos": 500_000_000}, 2**63 - 1, "")
    assert json.loads(first["any"]) == {"a": [1.0, None]}
    assert set(second.values()) == {None}
    assert [(letter.offset, letter.field_path) for letter in landed.letters] == [(2, "at")]


@pytest.mark.parametrize("nanos", [-1, 1_000_000_000, 2_000_000_000])
def test_a_moment_with_impossible_nanoseconds_is_a_dead_letter(nanos: int) -> None:
    """A Timestamp has 0 to 999,999,999 nanoseconds; others are no moments, and the field is named where it stands."""
    file = file_of("order.proto", "google/protobuf/timestamp.proto")
    add(file.message_type.add(name="Order"), "times", ".shop.Times")
    add(file.message_type.add(name="Times"), "at", ".google.protobuf.Timestamp")
    message = type_of(file, "shop.Order")()
    message.times.at.nanos = nanos
    data = framed(1, b"\0" + message.SerializeToString())
    landed = land(records([data]), SPEC, {1: proto_schema(file)})
    assert [(letter.code, letter.field_path) for letter in landed.letters] == [("FLOE-D114", "times.at")]


def test_timestamps_in_tables_that_count_nanoseconds() -> None:
    """A table of format version 3 holds a Timestamp to the nanosecond, also beside others of whole microseconds; one
    beyond the years that nanoseconds reach is one dead letter. In microseconds, by a hint or by the table's version, it
    is the other way."""
    file = file_of("order.proto", "google/protobuf/timestamp.proto")
    add(file.message_type.add(name="Order"), "at", ".google.protobuf.Timestamp")
    values = (
        "2024-02-29T12:00:00.000000001Z",
        "2024-02-29T12:00:00.000001Z",
        "9999-12-31T00:00:00Z",
        "1677-09-21T00:00:00Z",
    )
    version_3 = TablePolicy(create=CreatePolicy(properties=(("format-version", "3"),)))
    for some in (values, values[1:], values[2:3]):
        landed = land_messages(file, *({"at": each} for each in some), table_policy=version_3)
        # A record that is refused makes no table.
        assert landed.types.get("at") == ("timestamptz_ns" if some != values[2:3] else None)
        wrong = [(some.index(each), "at") for each in values[2:] if each in some]
        assert [(letter.offset, letter.field_path) for letter in landed.letters] == wrong
        noon = 1_709_208_000 * 10**9
        found = landed.result.rows[TABLE]["at"].cast(pa.int64()).to_pylist() if TABLE in landed.result.rows else []
        assert found == [count for each, count in zip(values, (noon + 1, noon + 1000), strict=False) if each in some]
    for how in ({"table_policy": version_3, "hints": [FieldHint("at", "timestamptz")]}, {}):
        landed = land_messages(file, *({"at": each} for each in values), **how)
        assert (landed.types["at"], [letter.offset for letter in landed.letters]) == ("timestamptz", [0])
        assert [row["at"].year for row in landed.rows] == [2024, 9999, 1677]


def test_nested_messages_by_index_and_imports() -> None:
    """The indexes before the data choose the message, also a nested one; imported files come as references."""
    common = file_of("common.proto")
    add(common.message_type.add(name="Money"), "cents", "int64")
    file = file_of("order.proto", "common.proto")
    file.message_type.add(name="Unused")
    inner = file.message_type.add(name="Outer").nested_type.add(name="Inner")
    add(inner, "price", ".shop.Money")
    kind = type_of(file, "shop.Outer.Inner", common)
    payload = json_format.ParseDict({"price": {"cents": "5"}}, kind()).SerializeToString()
    index = bytes([4, 2, 0])  # two indexes, as zigzag: 1, 0
    values = [framed(1, index + payload), framed(1, bytes([2, 8]) + payload), framed(1, b"\x80")]
    headers: list[Any] = [None, None, None, [("__value_schema_id", b"\0" + (1).to_bytes(4, "big") + index)]]
    landed = land(records([*values, payload], headers=headers), SPEC, {1: proto_schema(file, common)})
    assert landed.rows == [{"price": {"cents": 5}}] * 2
    assert landed.codes == [(1, "FLOE-D116"), (2, "FLOE-D111")]


def test_fields_that_the_schema_does_not_know() -> None:
    """What would be lost is an error, at any depth; bytes that are no message are one too."""
    old, new = file_of(), file_of()
    for file in (old, new):
        line = file.message_type.add(name="Line")
        add(line, "sku", "string")
        if file is new:
            add(line, "extra", "int32")
        add(file.message_type.add(name="Order"), "line", ".shop.Line")
    kind = type_of(new, "shop.Order")
    payloads = [
        json_format.ParseDict(v, kind()).SerializeToString() for v in ({"line": {"sku": "a"}}, {"line": {"extra": 1}})
    ]
    second = b"\x02\x02"  # one index, as zigzag: 1
    values = [framed(1, second + payload) for payload in (*payloads, b"\xff\xff")]
    landed = land(records(values), SPEC, {1: proto_schema(old)})
    assert landed.rows == [{"line": {"sku": "a"}}]
    assert landed.codes == [(1, "FLOE-D118"), (2, "FLOE-D115")]


def test_without_a_registry() -> None:
    """A descriptor set and a message's name read records that carry no id."""
    file = file_of()
    add(file.message_type.add(name="Order"), "id", "int64")
    file.message_type.add(name="Other")
    whole = serialized(descriptor_pb2.FileDescriptorSet(file=[file]))
    payload = json_format.ParseDict({"id": "5"}, type_of(file, "shop.Order")()).SerializeToString()
    spec = FormatSpec(FormatType.PROTOBUF, schema=whole, message="shop.Order")
    assert land(records([payload]), spec).rows == [{"id": 5}]
    unnamed = FormatSpec(FormatType.PROTOBUF, schema=whole)
    assert land(records([payload]), unnamed).codes == [(0, "FLOE-D116")]


@pytest.mark.parametrize(
    "schema",
    [
        WriterSchema("PROTOBUF", 'syntax = "proto3"; message Order {}'),
        WriterSchema("PROTOBUF", base64.b64encode(file_of("a.proto", "missing.proto").SerializeToString()).decode()),
    ],
    ids=["text", "import"],
)
def test_schemas_that_cannot_be_used(schema: WriterSchema) -> None:
    """A schema that is not compiled, or lacks an import, makes dead letters that say so."""
    assert land(records([framed(1, b"\0")]), SPEC, {1: schema}).codes == [(0, "FLOE-D116")]
