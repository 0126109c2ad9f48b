"""New tables from what records showed: schema, partition fields, or a clear refusal."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, StructType

from framework.config.spec import (
    CreatePolicy,
    EvolvePolicy,
    FieldHint,
    NameCase,
    PartitionFieldSpec,
    SortFieldSpec,
    TablePolicy,
    WriteMode,
    WritePolicy,
)
from framework.table.changes import CreateTable, Refusal
from framework.table.create import plan_create
from framework.table.model import ObservedType, TableNeed

FIELDS: tuple[tuple[str, ObservedType], ...] = (
    ("id", "long"),
    ("name", "string"),
    ("ok", "boolean"),
    ("x", "double"),
    ("nothing", "null"),
    ("empty", ["struct", []]),
    ("o", ["struct", [["a", "long"], ["b", ["list", ["struct", [["c", "string"], ["d", "null"]]]]]]]),
)


def made(
    fields: tuple[tuple[str, ObservedType], ...] = FIELDS,
    partition_by: tuple[PartitionFieldSpec, ...] = (),
    hints: tuple[FieldHint, ...] = (),
    metadata: tuple[str, ...] = (),
    case: NameCase = NameCase.INSENSITIVE,
    enabled: bool = True,
) -> CreateTable | Refusal:
    policy = TablePolicy(create=CreatePolicy(enabled, partition_by), evolve=EvolvePolicy(), case=case)
    return plan_create(TableNeed("ns.t", fields), policy, hints, metadata)


def schema_of(change: CreateTable | Refusal) -> Schema:
    assert isinstance(change, CreateTable), change
    return Schema.model_validate_json(change.schema_json)


def texts(schema: Schema) -> dict[str, str]:
    return {name: str(schema.find_type(name)) for name in schema.column_names}


def test_observed_fields_become_optional_columns() -> None:
    """Every field with a value is a column in the order of first sight; nulls and empty objects are none yet."""
    schema = schema_of(made())
    assert texts(schema) == {
        "id": "long",
        "name": "string",
        "ok": "boolean",
        "x": "double",
        "o": "struct<6: a: optional long, 7: b: optional list<struct<9: c: optional string>>>",
        "o.a": "long",
        "o.b": "list<struct<9: c: optional string>>",
        "o.b.element": "struct<9: c: optional string>",
        "o.b.element.c": "string",
    }
    assert all(field.optional for field in schema.fields)
    ids = [field.field_id for field in schema._lazy_id_to_field.values()]
    assert len(ids) == len(set(ids))


def test_hints_and_metadata_columns() -> None:
    """Hints say the type, also of fields no record has shown, at any depth; metadata columns come last."""
    hints = (
        FieldHint("ID", "int", required=True),
        FieldHint("o.b.c", "uuid"),
        FieldHint("late", "date"),
        FieldHint("new.deep", "decimal(9,2)"),
    )
    schema = schema_of(made(hints=hints, metadata=("offset", "key")))
    assert str(schema.find_type("id")) == "int"
    found = schema.find_type("o.b")
    assert isinstance(found, ListType)
    assert isinstance(found.element_type, StructType)
    assert str(found.element_type.fields[0].field_type) == "uuid"
    assert str(schema.find_type("late")) == "date"
    assert str(schema.find_type("new.deep")) == "decimal(9, 2)"
    assert [field.name for field in schema.fields][-2:] == ["_kafka_offset", "_kafka_key"]


def test_a_required_hint_is_a_required_column() -> None:
    """A hint that says required makes the column required."""
    schema = schema_of(made(hints=(FieldHint("id", "long", required=True),)))
    assert schema.find_field("id").required


@pytest.mark.parametrize(
    "field",
    [
        PartitionFieldSpec("id", "bucket", 16),
        PartitionFieldSpec("name", "truncate", 3),
        PartitionFieldSpec("NAME"),
        PartitionFieldSpec("o.a", "identity"),
        PartitionFieldSpec("at", "day"),
        PartitionFieldSpec("at", "hour"),
        PartitionFieldSpec("at", "month"),
        PartitionFieldSpec("at", "year"),
    ],
    ids=str,
)
def test_partition_fields(field: PartitionFieldSpec) -> None:
    """Every transform on a column that takes it is kept, with the column as the schema spells it."""
    change = made(partition_by=(field,), hints=(FieldHint("at", "timestamptz"),))
    assert isinstance(change, CreateTable)
    assert change.partition_by == (PartitionFieldSpec(field.column.lower(), field.transform, field.argument),)


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (PartitionFieldSpec("missing", "day"), "FLOE-T105"),
        (PartitionFieldSpec("nothing"), "FLOE-T105"),
        (PartitionFieldSpec("name", "day"), "FLOE-T106"),
        (PartitionFieldSpec("x", "bucket", 4), "FLOE-T106"),
        (PartitionFieldSpec("o"), "FLOE-T106"),
        (PartitionFieldSpec("id", "bucket"), "FLOE-T104"),
        (PartitionFieldSpec("id", "day", 4), "FLOE-T104"),
        (PartitionFieldSpec("id", "zigzag"), "FLOE-T104"),
    ],
    ids=str,
)
def test_partition_fields_that_cannot_be(field: PartitionFieldSpec, code: str) -> None:
    """A partition field on an unknown column, or with a transform its type does not take, is refused with the
    reason."""
    change = made(partition_by=(field,))
    assert isinstance(change, Refusal)
    assert change.code == code
    assert change.path == tuple(field.column.split("."))


def test_other_refusals() -> None:
    """Creation that is off, and tables of nothing, are refused."""
    refusals = [made(enabled=False), made(fields=(("a", "null"),))]
    assert [r.code for r in refusals if isinstance(r, Refusal)] == ["FLOE-T101", "FLOE-T103"]


def test_spellings_of_a_name() -> None:
    """Names that differ only in case are one column, as first spelled, under the insensitive policy, at any depth."""
    fields: tuple[tuple[str, ObservedType], ...] = (
        ("a", "float"),
        ("O", ["struct", [["x", "float"], ["X", "double"]]]),
        ("A", "double"),
        ("o", ["struct", [["y", "string"], ["x", "null"]]]),
    )
    assert texts(schema_of(made(fields=fields))) == {
        "a": "double",
        "O": "struct<3: x: optional double, 4: y: optional string>",
        "O.x": "double",
        "O.y": "string",
    }
    sensitive = schema_of(made(fields=fields, case=NameCase.SENSITIVE))
    assert [field.name for field in sensitive.fields] == ["a", "O", "A", "o"]


def created(
    create: CreatePolicy, hints: tuple[FieldHint, ...] = (), case: NameCase = NameCase.INSENSITIVE
) -> CreateTable | Refusal:
    return plan_create(TableNeed("ns.a.t", FIELDS), TablePolicy(create=create, case=case), hints, ())


def test_identifier_fields_are_required_and_found_under_the_case_policy() -> None:
    """The columns that identify rows are required with the structs around them, however the file spells them."""
    schema = schema_of(created(CreatePolicy(identifier_fields=("ID", "o.a"))))
    assert schema.identifier_field_names() == {"id", "o.a"}
    assert [field.name for field in schema.fields if field.required] == ["id", "o"]
    assert schema.find_field("o.a").required
    assert schema.find_field("o.b").optional


def test_the_key_of_an_upsert_table_identifies_its_rows() -> None:
    """The columns of the key are required and identifier fields; one that cannot be a key makes no table."""

    def keyed(*key: str) -> CreateTable | Refusal:
        policy = TablePolicy(write=WritePolicy(WriteMode.UPSERT, key))
        return plan_create(TableNeed("ns.t", FIELDS), policy, (), ())

    schema = schema_of(keyed("ID", "name"))
    assert schema.identifier_field_names() == {"id", "name"}
    assert [field.name for field in schema.fields if field.required] == ["id", "name"]
    for column, code in (("x", "FLOE-T108"), ("missing", "FLOE-T107")):
        change = keyed("id", column)
        assert isinstance(change, Refusal)
        assert change.code == code


def test_the_column_that_orders_an_upsert_table_is_there_and_has_an_order() -> None:
    """It stays optional, since rows of before may lack it; one that has no value yet, or no order, makes no table."""

    def ordered(column: str) -> CreateTable | Refusal:
        policy = TablePolicy(write=WritePolicy(WriteMode.UPSERT, ("id",), order_field=column))
        return plan_create(TableNeed("ns.t", FIELDS), policy, (), ())

    schema = schema_of(ordered("NAME"))
    assert [field.name for field in schema.fields if field.required] == ["id"]
    for column, code in (("x", "FLOE-T114"), ("missing", "FLOE-T107")):
        change = ordered(column)
        assert isinstance(change, Refusal)
        assert (change.code, change.path) == (code, (column,))


@pytest.mark.parametrize(
    ("path", "case", "code"),
    [
        ("missing", NameCase.INSENSITIVE, "FLOE-T107"),
        ("nothing", NameCase.INSENSITIVE, "FLOE-T107"),
        ("ID", NameCase.SENSITIVE, "FLOE-T107"),
        ("x", NameCase.INSENSITIVE, "FLOE-T108"),
        ("o", NameCase.INSENSITIVE, "FLOE-T108"),
        ("o.b.element.c", NameCase.INSENSITIVE, "FLOE-T108"),
    ],
)
def test_fields_that_cannot_identify_rows(path: str, case: NameCase, code: str) -> None:
    """Unknown columns, floats, structures and what is in lists identify no rows, and the refusal says so."""
    change = created(CreatePolicy(identifier_fields=(path,)), case=case)
    assert isinstance(change, Refusal)
    assert (change.code, change.path) == (code, tuple(path.split(".")))


def test_sort_orders_and_comments() -> None:
    """A sort order keeps direction and nulls with the column as the schema spells it; hints give columns their
    comments."""
    orders = (
        SortFieldSpec(PartitionFieldSpec("ID"), descending=True, nulls_first=False),
        SortFieldSpec(PartitionFieldSpec("o.A", "bucket", 4)),
    )
    hints = (FieldHint("id", "long", comment="the order"), FieldHint("o.b.c", "string", comment="deep", required=True))
    change = created(CreatePolicy(sort_by=orders, comment="all orders"), hints)
    assert isinstance(change, CreateTable)
    assert [(order.by.column, order.descending, order.nulls_first) for order in change.sort_by] == [
        ("id", True, False),
        ("o.a", False, True),
    ]
    assert dict(change.properties) == {"format-version": "2", "comment": "all orders"}
    schema = schema_of(change)
    assert schema.find_field("id").doc == "the order"
    assert (schema.find_field("o.b.element.c").doc, schema.find_field("o.b.element.c").required) == ("deep", True)
    for wanted, code in ((PartitionFieldSpec("none"), "FLOE-T105"), (PartitionFieldSpec("name", "day"), "FLOE-T106")):
        refused = created(CreatePolicy(sort_by=(SortFieldSpec(wanted),)))
        assert isinstance(refused, Refusal)
        assert refused.code == code
        assert "sorted" in refused.reason or code == "FLOE-T106"


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_nanoseconds_need_format_version_three(version: str) -> None:
    """A declared type of nanoseconds makes such a column where the table's version has it, and microseconds elsewhere,
    at any depth; a table is never partitioned by nanoseconds themselves, but may be sorted by them."""
    hints = (FieldHint("at", "timestamptz_ns"), FieldHint("o.at", "timestamp_ns"))
    properties = (("format-version", version),)
    change = created(CreatePolicy(properties=properties), hints)
    assert isinstance(change, CreateTable)
    suffix = "_ns" if version == "3" else ""
    schema = schema_of(change)
    assert [str(schema.find_type(name)) for name in ("at", "o.at")] == [f"timestamptz{suffix}", f"timestamp{suffix}"]
    itself = PartitionFieldSpec("at")
    for policy in (
        CreatePolicy(properties=properties, partition_by=(PartitionFieldSpec("at", "hour"),)),
        CreatePolicy(properties=properties, sort_by=(SortFieldSpec(itself),)),
    ):
        assert isinstance(created(policy, hints), CreateTable)
    refused = created(CreatePolicy(properties=properties, partition_by=(itself,)), hints)
    assert isinstance(refused, Refusal) == (version == "3")
    assert not isinstance(refused, Refusal) or refused.code == "FLOE-T106"


def test_locations() -> None:
    """A location is a pattern of namespace and name; without one the catalog decides."""
    change = created(CreatePolicy(location="s3://lake/{namespace}/of/{table}"))
    assert isinstance(change, CreateTable)
    assert change.location == "s3://lake/ns/a/of/t"
    change = made()
    assert isinstance(change, CreateTable)
    assert change.location is None
