"""Changes to a table that exists: only additions, promotions and relaxations, and only those the policy allows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from framework.config.spec import EvolveMode, NameCase, TablePolicy
from framework.table.changes import AddColumn, AlterTable, Refusal, RelaxColumn, WidenColumn
from framework.table.evolve import merge_needs, plan_evolution
from framework.table.model import ObservedType, TableNeed, TableTarget
from framework.table.schema.compatibility import unusable_schema_ids
from framework.table.schema.types import primitive_type
from testbed.record_samples import policy, target

INNER = StructType(NestedField(11, "zip", StringType(), required=False))
SCHEMA = Schema(
    NestedField(1, "id", primitive_type("int"), required=True, doc="the id"),
    NestedField(2, "f", primitive_type("float"), required=False),
    NestedField(3, "d", primitive_type("decimal(9, 2)"), required=False),
    NestedField(4, "address", INNER, required=False),
    NestedField(5, "items", ListType(12, StructType(NestedField(13, "n", LongType())), element_required=False)),
    NestedField(6, "m", MapType(14, StringType(), 15, LongType()), required=False),
    schema_id=3,
)


def evolved(
    fields: dict[str, ObservedType],
    table_policy: TablePolicy | None = None,
    schema: Schema = SCHEMA,
    optional: tuple[str, ...] = (),
) -> AlterTable | Refusal | None:
    paths = frozenset(tuple(path.split(".")) for path in optional)
    need = TableNeed("ns.t", tuple(fields.items()), optional=paths)
    return plan_evolution(target(schema=schema, table_policy=table_policy), need)


def altered(
    fields: dict[str, ObservedType], table_policy: TablePolicy | None = None, optional: tuple[str, ...] = ()
) -> tuple[AlterTable, Schema]:
    change = evolved(fields, table_policy, optional=optional)
    assert isinstance(change, AlterTable), change
    return change, Schema.model_validate_json(change.schema_json)


def test_columns_are_added_at_any_depth() -> None:
    """New fields become optional columns with new ids above the last; every old id, type and doc stays."""
    change, schema = altered(
        {
            "new": "string",
            "ADDRESS": ["struct", [["city", "string"], ["geo", ["struct", [["lat", "double"]]]]]],
            "items": ["list", ["struct", [["price", "double"]]]],
        }
    )
    assert [(type(c), c.path) for c in change.changes] == [
        (AddColumn, ("new",)),
        (AddColumn, ("address", "city")),
        (AddColumn, ("address", "geo")),
        (AddColumn, ("items", "element", "price")),
    ]
    old = {SCHEMA.find_column_name(i): i for i in SCHEMA.field_ids}
    assert {name: schema.find_field(name).field_id for name in old if name} == old
    assert min(set(schema.field_ids) - set(old.values())) > 15
    assert change.last_column_id == 15  # the one examined, which the catalog compares before it takes the change
    assert schema.find_field("id").doc == "the id"
    assert all(schema.find_field(n).optional for n in ("new", "address.city", "address.geo", "items.element.price"))


def test_promotions() -> None:
    """int widens to long, float to double, a decimal to more digits of the same scale; nothing else is changed."""
    change, schema = altered({"id": "long", "f": "double", "d": "decimal(12, 2)"})
    assert [type(c) for c in change.changes] == [WidenColumn] * 3
    assert [str(schema.find_type(n)) for n in ("id", "f", "d")] == ["long", "double", "decimal(12, 2)"]
    assert schema.find_field("id").required
    for fields in (
        {"id": "string"},
        {"f": "long"},
        {"d": "decimal(12, 3)"},
        {"d": "decimal(5, 2)"},
        {"address": "long"},
    ):
        assert evolved(fields) is None  # type: ignore[arg-type]


def test_relaxation() -> None:
    """A required column that misses a value becomes optional, at any depth."""
    inner = StructType(NestedField(2, "a", LongType(), required=True))
    before = Schema(NestedField(1, "o", inner, required=True))
    change = evolved({}, schema=before, optional=("o.a",))
    assert isinstance(change, AlterTable)
    assert change.changes == (RelaxColumn(("o", "a")),)
    assert Schema.model_validate_json(change.schema_json).find_field("o.a").optional
    change, schema = altered({"id": "long"}, optional=("id", "items.element", "f"))
    assert change.changes == (WidenColumn(("id",), "int", "long"), RelaxColumn(("id",)))
    assert schema.find_field("id").optional


def test_what_is_there_already_needs_no_change() -> None:
    """A need that somebody else has met, or that asks for nothing, changes nothing."""
    for fields in (
        {"address": ["struct", [["ZIP", "string"]]]},
        {"new": "null"},
        {"new": ["list", "null"]},
        {},
        {"f": "null"},
    ):
        assert evolved(fields) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "optional", "refusing"),
    [
        ({"new": "long"}, (), policy(columns=EvolveMode.FREEZE)),
        ({"address": ["struct", [["x", "long"]]]}, (), policy(columns=EvolveMode.DISCARD_VALUE)),
        ({"id": "long"}, (), policy(data_type=EvolveMode.FREEZE)),
        ({}, ("id",), policy(nullability=EvolveMode.FREEZE)),
    ],
)
def test_the_policy_refuses(fields: dict[str, ObservedType], optional: tuple[str, ...], refusing: TablePolicy) -> None:
    """A change the policy does not allow is a refusal that names column and policy."""
    change = evolved(fields, refusing, optional=optional)
    assert isinstance(change, Refusal)
    assert change.code == "FLOE-T201"
    assert change.path
    assert "evolve." in change.reason


def test_an_identifier_field_stays_required() -> None:
    """A column that identifies rows is never relaxed."""
    schema = Schema(*SCHEMA.fields, schema_id=3, identifier_field_ids=[1])
    change = evolved({}, schema=schema, optional=("id",))
    assert isinstance(change, Refusal)
    assert change.code == "FLOE-T203"


def test_case_policy_decides_what_is_new() -> None:
    """Another spelling is the same column under the insensitive policy and a new one under the sensitive."""
    assert evolved({"F": "double"}, policy(case=NameCase.SENSITIVE)) is not None
    change, schema = altered({"F": "double"})
    assert change.changes == (WidenColumn(("f",), "float", "double"),)
    assert len(schema.fields) == len(SCHEMA.fields)


def test_merged_needs() -> None:
    """Needs of one table merge: fields of all, what others are promoted to, the first of contradicting kinds."""
    needs = [
        TableNeed("ns.t", (("a", "null"), ("b", "float"), ("e", "long"), ("c", ["struct", [["x", "long"]]]))),
        TableNeed("ns.t", (("a", "string"), ("b", "double"), ("c", ["struct", [["y", "long"]]]), ("d", "boolean"))),
        TableNeed("ns.t", (("e", "double"), ("b", "string"), ("d", "long"))),
    ]
    assert merge_needs(needs).fields == (
        ("a", "string"),
        ("b", "double"),
        ("e", "long"),
        ("c", ["struct", [["x", "long"], ["y", "long"]]]),
        ("d", "boolean"),
    )
    with pytest.raises(ValueError, match="one table"):
        merge_needs([TableNeed("a.b", ()), TableNeed("a.c", ())])


OBSERVED = st.recursive(
    st.sampled_from(["null", "long", "double", "string", "boolean", "decimal(38, 0)"]),
    lambda inner: (
        st.builds(lambda k: ["list", k], inner)
        | st.builds(
            lambda fields: ["struct", [[n, k] for n, k in fields.items()]],
            st.dictionaries(st.sampled_from(["a", "zip", "n", "B"]), inner, max_size=3),
        )
    ),
    max_leaves=6,
)
NEEDS = st.dictionaries(st.sampled_from(["id", "f", "d", "address", "items", "m", "x", "Y"]), OBSERVED, max_size=4)


def apply(change: AlterTable) -> TableTarget:
    return target(schema=Schema.model_validate_json(change.schema_json))


@settings(max_examples=200, deadline=None)
@given(NEEDS)
def test_a_met_need_is_met(fields: dict[str, ObservedType]) -> None:
    """After the change the same need changes nothing more, and files of the schema before can still be added."""
    change = evolved(fields)
    if change is None:
        assert not {"x", "Y"} & {name for name, kind in fields.items() if isinstance(kind, str) and kind != "null"}
        return
    assert isinstance(change, AlterTable)
    schema = Schema.model_validate_json(change.schema_json)
    assert plan_evolution(apply(change), TableNeed("ns.t", tuple(fields.items()))) is None
    assert unusable_schema_ids({0: SCHEMA, 1: schema}, 1) == frozenset()
    assert len(set(schema.field_ids)) == len(schema.field_ids)
