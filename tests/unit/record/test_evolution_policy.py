"""What data may do to a table: each word for each kind of change, at any depth, and never anything but growth."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from framework.config.spec import ErrorPolicy, EvolveMode, EvolvePolicy, FieldHint, NameCase, TablePolicy
from framework.plan.model import Plan
from framework.record.model import BlockResult
from framework.table.changes import Refusal
from framework.table.schema.arrow import parse_schema
from framework.table.schema.compatibility import unusable_schema_ids
from framework.table.schema.types import primitive_type
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, policy, processed, schema_of, target

FREEZE, DISCARD, DEAD, FAIL = (
    EvolveMode.FREEZE,
    EvolveMode.DISCARD_VALUE,
    EvolveMode.DEAD_LETTER,
    EvolveMode.FAIL,
)
WIDEN, NEW_COLUMN, RELAX = EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.RELAX


class World:
    """A table that records are written to, block after block, as a run does it; `rounds` are the times a block was
    done."""

    def __init__(
        self,
        schema: Schema | None,
        chosen: TablePolicy | None = None,
        errors: ErrorPolicy = ErrorPolicy.DEAD_LETTER,
        hints: tuple[FieldHint, ...] = (),
    ) -> None:
        self.plan: Plan = plan(defaults=chosen or policy(), errors=errors, hints=hints)
        self.tables = MemoryTables(self.plan, ())
        if schema is not None:
            self.tables.targets["ns.t"] = target(schema=schema, table_policy=chosen)
        self.rounds = 0
        self.rows: list[dict[str, Any]] = []
        self.letters: list[tuple[int, str]] = []
        self.schemas: list[Schema] = []

    def write(self, *records: object) -> BlockResult:
        for self.rounds in range(1, 9):
            routing = replace(self.plan, route=replace(self.plan.route, refused_tables=self.tables.refused))
            result = processed(block(records), routing, self.tables.targets)
            if not result.needs:
                break
            for need in result.needs.values():
                answer = self.tables.satisfy(need)
                assert not isinstance(answer, Refusal), answer
        assert not result.needs
        self.rows += [row for rows in result.rows.values() for row in rows.to_pylist()]
        self.letters += [(letter.offset, letter.code) for letter in result.dead_letters]
        if "ns.t" in self.tables.targets:
            self.schemas.append(self.schema)
        return result

    @property
    def schema(self) -> Schema:
        return parse_schema(self.tables.targets["ns.t"].schema_json)

    @property
    def types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.schema.fields}


# ---- one word at a time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "rows", "letters", "failure", "columns"),
    [
        (EvolveMode.EVOLVE, [{"a": 1, "x": 5}, {"a": 2, "x": None}], [], None, ["a", "x"]),
        (DISCARD, [{"a": 1}, {"a": 2}], [], None, ["a"]),
        (FREEZE, [{"a": 2}], [], None, ["a"]),
        (DEAD, [{"a": 2}], [(0, "FLOE-D307")], None, ["a"]),
        (FAIL, [{"a": 2}], [(0, "FLOE-D307")], 0, ["a"]),
    ],
)
def test_a_field_without_a_column(
    word: EvolveMode, rows: list[Any], letters: list[Any], failure: int | None, columns: list[str]
) -> None:
    """`columns` says what becomes of schema, value and record; `freeze` leaves the record to errors.policy (here:
    drop), the others do not ask it."""
    world = World(schema_of({"a": "int"}), policy(word), ErrorPolicy.DROP)
    result = world.write({"a": 1, "x": 5}, {"a": 2})
    assert world.rows == rows
    assert world.letters == letters
    assert (result.failure.offset if result.failure else None) == failure
    assert [field.name for field in world.schema.fields] == columns
    assert result.dropped == (1 if word is FREEZE else 0)


@pytest.mark.parametrize(
    ("word", "rows", "letters", "kind"),
    [
        (WIDEN, [1, 2**40, 3], [(2, "FLOE-D304")], "long"),
        (NEW_COLUMN, [1, 2**40, None, 3], [], "long"),
        (DISCARD, [1, None, None, 3], [], "int"),
        (FREEZE, [1, 3], [(1, "FLOE-D302"), (2, "FLOE-D304")], "int"),
        (DEAD, [1, 3], [(1, "FLOE-D302"), (2, "FLOE-D304")], "int"),
    ],
)
def test_a_value_that_does_not_fit(word: EvolveMode, rows: list[Any], letters: list[Any], kind: str) -> None:
    """`data_type` promotes the column where Iceberg can, gives the value a column of its own, leaves it out, or refuses
    the record."""
    world = World(schema_of({"a": "int"}), policy(data_type=word))
    world.write({"a": 1}, {"a": 2**40}, {"a": "x"}, {"a": 3})
    assert [row["a"] for row in world.rows] == rows
    assert world.letters == letters
    assert world.types["a"] == kind
    if word is NEW_COLUMN:
        assert world.types == {"a": "long", "a_string": "string"}
        assert [row["a_string"] for row in world.rows] == [None, None, "x", None]


@pytest.mark.parametrize(
    ("word", "rows", "letters", "optional"),
    [
        (RELAX, [1, None], [], True),
        (DISCARD, [1], [(1, "FLOE-D305")], False),
        (FREEZE, [1], [(1, "FLOE-D305")], False),
        (DEAD, [1], [(1, "FLOE-D305")], False),
    ],
)
def test_a_required_value_that_is_missing(
    word: EvolveMode, rows: list[Any], letters: list[Any], optional: bool
) -> None:
    """`nullability` makes the column optional, or the record is an error: at the top there is nothing to leave out."""
    world = World(schema_of({"a": "int", "b": "int"}, required=["a"]), policy(nullability=word))
    world.write({"a": 1, "b": 1}, {"b": 2})
    assert [row["a"] for row in world.rows] == rows
    assert world.letters == letters
    assert world.schema.find_field("a").optional is optional


@pytest.mark.parametrize(
    ("word", "errors", "letters", "dropped", "fails"),
    [
        (FREEZE, ErrorPolicy.DROP, [], 1, False),
        (FREEZE, ErrorPolicy.DEAD_LETTER, [(0, "FLOE-D204")], 0, False),
        (DEAD, ErrorPolicy.DROP, [(0, "FLOE-D204")], 0, False),
        (DISCARD, ErrorPolicy.FAIL, [], 1, False),
        (FAIL, ErrorPolicy.DROP, [(0, "FLOE-D204")], 0, True),
    ],
)
def test_a_table_that_does_not_exist(
    word: EvolveMode, errors: ErrorPolicy, letters: list[Any], dropped: int, fails: bool
) -> None:
    """`tables` other than `evolve` creates none; the record is dropped or an error as the word says."""
    world = World(schema_of({"a": "int"}), policy(tables=word), errors)
    del world.tables.targets["ns.t"]
    result = processed(block([{"a": 1}]), world.plan, {})
    assert not result.needs
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == letters
    assert result.dropped == dropped
    assert (result.failure is not None) is fails


# ---- where no legal change is left -------------------------------------------------------------------------------


def test_what_iceberg_cannot_do_goes_where_otherwise_says() -> None:
    """A value that no promotion takes, under `widen`, is left out or an error as `otherwise` says."""
    for word, rows, letters in ((DISCARD, [None], []), (DEAD, [], [(0, "FLOE-D304")]), (FREEZE, [], [])):
        chosen = replace(policy(), evolve=EvolvePolicy(otherwise=word))
        world = World(schema_of({"a": "int"}), chosen, ErrorPolicy.DROP)
        world.write({"a": "x"})
        assert [row["a"] for row in world.rows] == rows
        assert world.letters == letters


def test_an_identifier_field_is_never_relaxed() -> None:
    """A record without the value that identifies its row is an error, and no other record of the batch suffers."""
    inner = StructType(NestedField(2, "id", LongType(), required=True))
    schema = Schema(
        NestedField(1, "k", inner, required=True),
        NestedField(3, "b", LongType(), required=True),
        identifier_field_ids=[2],
    )
    world = World(schema, policy())
    world.write({"k": {"id": 1}, "b": 1}, {"b": 2}, {"k": {}, "b": 3}, {"k": {"id": 4}})
    assert [(row["k"], row["b"]) for row in world.rows] == [({"id": 1}, 1), ({"id": 4}, None)]
    assert world.letters == [(1, "FLOE-D305"), (2, "FLOE-D305")]
    assert world.schema.find_field("k.id").required
    assert world.schema.find_field("b").optional


def test_a_new_column_is_never_a_second_meaning_of_a_field() -> None:
    """Where the record has a field of the new column's name already, the record is an error instead."""
    world = World(schema_of({"a": "int"}), policy(data_type=NEW_COLUMN))
    world.write({"a": "x", "a_string": "mine"}, {"a": {"deep": [1, "2"]}}, {"a": 1.5}, {"a": True}, {"A": 2**70 + 1})
    assert world.letters == [(0, "FLOE-D304")]
    assert world.types == {
        "a": "int",
        "a_json": "string",
        "a_double": "double",
        "a_boolean": "boolean",
        "a_decimal": "decimal(38, 0)",
    }
    assert [row["a_json"] for row in world.rows] == ['{"deep":[1,"2"]}', None, None, None]
    assert world.rows[-1]["a_decimal"] == 2**70 + 1


def test_a_declared_type_does_not_keep_a_column_from_growing() -> None:
    """A hint says how a field is read; a value beyond its type widens the column and a missing one relaxes it."""
    hints = (FieldHint("a", "int", required=True),)
    world = World(schema_of({"a": "int", "b": "int"}, required=["a"]), policy(), hints=hints)
    world.write({"a": 2**40, "b": 1}, {"b": 2})
    assert [row["a"] for row in world.rows] == [2**40, None]
    assert world.types["a"] == "long"
    assert world.rounds == 2


# ---- at any depth ------------------------------------------------------------------------------------------------

DEEP = Schema(
    NestedField(1, "s", StructType(NestedField(2, "n", primitive_type("int"), required=True)), required=False),
    NestedField(
        3,
        "l",
        ListType(4, StructType(NestedField(5, "n", primitive_type("int"))), element_required=False),
        required=False,
    ),
    NestedField(
        6,
        "m",
        MapType(7, StringType(), 8, StructType(NestedField(9, "n", primitive_type("int"))), value_required=False),
        required=False,
    ),
    NestedField(10, "t", ListType(11, primitive_type("int"), element_required=True), required=False),
)


def test_every_leaf_grows_at_any_depth() -> None:
    """Fields of structs, of structs in lists and of structs in maps are added, widened and relaxed, in one re-write."""
    world = World(DEEP)
    records = [
        {"s": {"n": None, "x": "new"}, "l": [{"n": 2**40}, {"y": {"z": [True]}}]},
        {"m": {"k": {"n": 2**41, "w": 1.5}, "j": None}, "t": [None, 2**42]},
    ]
    world.write(*records)
    assert world.rounds == 2
    assert world.types == {
        "s": "struct<2: n: optional int, 12: x: optional string>",
        "l": "list<struct<5: n: optional long, 13: y: optional struct<14: z: optional list<boolean>>>>",
        "m": "map<string, struct<9: n: optional long, 16: w: optional double>>",
        "t": "list<long>",
    }
    assert world.schema.find_field("t.element").optional
    first, second = world.rows
    assert first == {
        "s": {"n": None, "x": "new"},
        "l": [{"n": 2**40, "y": None}, {"n": None, "y": {"z": [True]}}],
        "m": None,
        "t": None,
    }
    assert dict(second["m"]) == {"k": {"n": 2**41, "w": 1.5}, "j": None}
    assert second["t"] == [None, 2**42]


def test_values_are_left_out_at_any_depth() -> None:
    """Under `discard_value` the value that does not fit is null, or the nearest optional value around it."""
    world = World(DEEP, policy(DISCARD, data_type=DISCARD, nullability=DISCARD))
    world.write(
        {"s": {"n": "x"}, "l": [{"n": "x"}, {"n": 1, "y": 2}, 7]},
        {"m": {"k": {"n": "x"}, "j": 5}, "t": [1, "x"]},
        {"s": {}, "t": [None]},
        {"s": {"n": 4}, "t": "no list"},
    )
    assert world.letters == []
    assert world.rounds == 1
    rows = [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in world.rows]
    assert rows == [
        {"s": None, "l": [{"n": None}, {"n": 1}, None], "m": None, "t": None},
        {"s": None, "l": None, "m": {"k": {"n": None}, "j": None}, "t": None},
        {"s": None, "l": None, "m": None, "t": None},
        {"s": {"n": 4}, "l": None, "m": None, "t": None},
    ]


def test_a_new_column_at_any_depth() -> None:
    """A value in a list's struct gets its column there; a list's element takes the whole list with it, as JSON text."""
    world = World(DEEP, policy(data_type=NEW_COLUMN))
    world.write({"l": [{"n": "x"}, {"n": 1}], "t": [1, "x"]}, {"m": {"k": {"n": "y"}}})
    assert world.letters == []
    assert world.rounds == 2
    assert world.rows[0]["l"] == [{"n": None, "n_string": "x"}, {"n": 1, "n_string": None}]
    assert (world.rows[0]["t"], world.rows[0]["t_json"]) == (None, '[1,"x"]')
    assert dict(world.rows[1]["m"]) == {"k": {"n": None, "n_string": "y"}}


def test_a_value_that_is_moved_is_moved_as_it_was() -> None:
    """When a list goes to a column of its own, nothing that was asked for inside it is changed or added."""
    world = World(DEEP, policy(data_type=NEW_COLUMN))
    world.write({"l": [{"n": False}, {"n": 2**40}, [1]]})
    assert world.rows[0]["l_json"] == '[{"n":false},{"n":1099511627776},[1]]'
    assert list(world.types) == ["s", "l", "m", "t", "l_json"]
    assert world.types["l"] == "list<struct<5: n: optional int>>"


def test_a_field_first_seen_null_waits_for_a_type() -> None:
    """Nulls, empty structs and empty lists make no column under any word; the first value does."""
    world = World(schema_of({"a": "int"}))
    world.write({"a": 1, "x": None, "y": {}, "z": [], "w": [{"v": None}]})
    assert list(world.types) == ["a"]
    world.write({"a": 2, "x": "now", "w": [{"v": 1}]})
    assert list(world.types) == ["a", "x", "w"]
    for word in (FREEZE, DEAD, FAIL):
        world = World(schema_of({"a": "int"}), policy(word))
        assert world.write({"a": 1, "x": None, "y": {}, "z": []}).written == 1


# ---- paths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("include", "exclude", "columns"),
    [
        ((), ("debug", "s.secret*"), ["a", "s: struct<n>", "x"]),
        (("x", "s.n"), (), ["a", "s: struct<n>", "x"]),
        (("s",), ("*.secret_key",), ["a", "s: struct<n>"]),
        (("DEBUG*",), (), ["a", "debug"]),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_included_and_excluded_paths(
    include: tuple[str, ...], exclude: tuple[str, ...], columns: list[str], exists: bool
) -> None:
    """Fields outside `include` or inside `exclude` never become columns, of a new table neither; the record is
    written."""
    chosen = replace(policy(), evolve=EvolvePolicy(include=include, exclude=exclude))
    world = World(schema_of({"a": "long"}) if exists else None, chosen)
    record = {"a": 1, "debug": "d", "s": {"n": 1, "secret_key": "k"}, "x": 1}
    if not exists and include:
        columns = columns[1:]  # of a new table, `a` is a new column too
    world.write(record, record)
    found = [
        f"{f.name}: struct<{','.join(c.name for c in f.field_type.fields)}>"
        if isinstance(f.field_type, StructType)
        else f.name
        for f in world.schema.fields
    ]
    assert sorted(found) == sorted(columns)
    assert len(world.rows) == 2
    frozen = World(schema_of({"a": "long"}), replace(chosen, evolve=replace(chosen.evolve, columns=FREEZE)))
    frozen.write({"a": 1, "debug": 1} if exclude == ("debug", "s.secret*") else {"a": 1})
    assert len(frozen.rows) == 1


# ---- any order ---------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("abcé", max_size=3),
)
NESTED = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["n", "p"]), inner, max_size=2),
    max_leaves=4,
)
RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "s", "l", "N"]), NESTED, min_size=1, max_size=3), min_size=1, max_size=6
)
START = st.sampled_from([None, schema_of({"a": "int", "b": "float", "s": "string"}, required=["a"]), DEEP])


@settings(max_examples=40, deadline=None)
@given(RECORDS, START, st.sampled_from([WIDEN, NEW_COLUMN]), st.sampled_from([2, 6]))
def test_any_order_of_records_grows_legally_and_keeps_every_value(
    records: list[dict[str, Any]], schema: Schema | None, word: EvolveMode, size: int
) -> None:
    """Whatever comes in whatever order and in whatever blocks, the schema only grows as Iceberg allows, and each record
    is a row with every one of its values or a dead letter."""
    chosen = policy(data_type=word)
    world = World(schema, chosen)
    written = 0
    for start in range(0, len(records), size):
        chunk = records[start : start + size]
        before = len(world.rows)
        result = world.write(*chunk)
        assert result.written + len(result.dead_letters) == len(chunk)
        written += result.written
        dead = {letter.offset for letter in result.dead_letters}
        landed = [record for i, record in enumerate(chunk) if i not in dead]
        for record, row in zip(landed, world.rows[before:], strict=True):
            assert _kept(record, row), (record, row)
    if world.schemas:
        history = dict(enumerate([*([schema] if schema else []), *world.schemas]))
        assert unusable_schema_ids(history, len(history) - 1) == frozenset()
    assert written == len(world.rows)


def _nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_nothing(item) for item in value.values())
    return all(_nothing(item) for item in value) if isinstance(value, list) else value is None


def _kept(written: Any, found: Any) -> bool:
    """Whether a column's value is the record's, exactly (as the nearest float in a float column)."""
    if found is None:
        return _nothing(written)
    if isinstance(found, str) and not isinstance(written, str):
        return bool(json.loads(found) == written)  # in a text column: the value's JSON
    if isinstance(written, dict):
        return isinstance(found, dict) and all(_field_kept(name, item, found) for name, item in written.items())
    if isinstance(written, list):
        return (
            isinstance(found, list)
            and len(found) == len(written)
            and all(_kept(item, value) for item, value in zip(written, found, strict=True))
        )
    if isinstance(found, float):
        narrow = pa.scalar(float(written), pa.float32()).as_py()
        return not isinstance(written, bool) and found in (float(written), narrow)
    if isinstance(found, (int, Decimal)) and not isinstance(found, bool) and not isinstance(written, (bool, str)):
        return Decimal(json.dumps(written)) == found  # what the record's text says, not what a float makes of it
    return bool(written == found) and isinstance(written, bool) == isinstance(found, bool)


def _field_kept(name: str, item: Any, row: dict[str, Any]) -> bool:
    """In the column of its name, or in one beside it that is named after what the value is."""
    own = {column: value for column, value in row.items() if column.lower().split("_")[0] == name.lower()}
    filled = [value for value in own.values() if value is not None]
    return _nothing(item) if not filled else len(filled) == 1 and _kept(item, filled[0])


def test_case_decides_which_field_is_a_paths() -> None:
    """Paths follow the case policy of the table."""
    chosen = replace(policy(case=NameCase.SENSITIVE), evolve=EvolvePolicy(exclude=("Debug",)))
    world = World(schema_of({"a": "long"}), chosen)
    world.write({"a": 1, "Debug": 1, "debug": 2})
    assert list(world.types) == ["a", "debug"]
