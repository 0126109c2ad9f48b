"""The SQL path: declared columns before the SQL, exact conversion of its columns after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.types import ListType, NestedField, StringType, StructType

from framework.config.spec import (
    EmptyValues,
    ErrorPolicy,
    EvolveMode,
    FieldHint,
    RouteCondition,
    RouteRule,
    TextAsNumber,
    ValuesPolicy,
)
from framework.errors import AccountingError
from framework.record.process import declared_schema, decode_block, process_transformed, process_with_sql
from framework.record.sql.failure import FAILED
from testbed.record_samples import block, plan, policy, target

HINTS = [
    FieldHint("id", "long"),
    FieldHint("order", "uuid"),
    FieldHint("at", "timestamptz", zone="UTC"),
    FieldHint("address.zip", "string"),
    FieldHint("price", "decimal(10, 2)"),
]


def test_declared_schema() -> None:
    """SQL sees the declared fields in their order, with types that Spark has."""
    schema = declared_schema(plan(hints=HINTS))
    assert schema.names == ["id", "order", "at", "address", "price"]
    kinds = [
        pa.int64(),
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.struct([("zip", pa.string())]),
        pa.decimal128(10, 2),
    ]
    assert schema.types == kinds


def test_nothing_declared_is_refused() -> None:
    """A pipeline with SQL and without declared fields is refused with the remedy."""
    with pytest.raises(ValueError, match=r"source\.schema"):
        declared_schema(plan())


def test_decode_block() -> None:
    """Each decoded row knows its place in the block; what cannot be decoded never reaches the SQL and is counted."""
    values = [{"ID": 1, "price": 1.5, "other": "x"}, b"x", None, {"id": "one"}, {"address": {"zip": 12345}}, {}]
    rows, early = decode_block(block(values, first_offset=700), plan(hints=HINTS), {})
    assert rows.column("__floe").to_pylist() == [0, 4, 5]
    assert rows.column("id").to_pylist() == [1, None, None]
    assert rows.column("price").to_pylist() == [Decimal("1.50"), None, None]
    assert rows.column("address").to_pylist() == [None, {"zip": "12345"}, None]
    assert [(d.offset, d.code) for d in early.dead_letters] == [(701, "FLOE-D101"), (703, "FLOE-D304")]
    assert (early.dropped, early.written) == (1, 0)


def after_sql(columns: dict[str, pa.Array], places: list[int] | None = None) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({**columns, "__floe": pa.array(places or range(rows), pa.int32())})


def test_rows_that_did_not_come_back_are_filtered() -> None:
    """Records of the block that no row names were filtered by the SQL."""
    rows = after_sql({"id": pa.array([5, 6])}, [3, 1])
    result = process_transformed(block([{}] * 5), rows, plan(), {"ns.t": target(columns={"id": "int"})})
    assert result.rows["ns.t"].to_pydict() == {"id": [6, 5]}
    assert (result.written, result.filtered) == (2, 3)


def positive(rows: pa.Table) -> pa.Table:
    """What `SELECT id FROM source WHERE id > 0` gives."""
    return rows.filter(pc.greater(rows.column("id"), 0)).select(["id", "__floe"])


def test_a_block_all_the_way_through_sql_adds_up() -> None:
    """Of a block that goes through SQL at once, each record is written, filtered, dropped or a dead letter, and none
    twice."""
    values = [{"id": 1}, b"x", {"id": -1}, None, {"id": "one"}, {"id": 2}, {"id": None}]
    table = {"ns.t": target(columns={"id": "long"})}
    result = process_with_sql(block(values, first_offset=50), plan(hints=HINTS), table, positive)

    assert result.rows["ns.t"].column("id").to_pylist() == [1, 2]
    assert [letter.offset for letter in result.dead_letters] == [51, 54]
    assert (result.written, result.filtered, result.dropped) == (2, 2, 1)
    assert result.written + result.filtered + result.dropped + len(result.dead_letters) == len(values)


def test_a_failure_before_the_sql_is_that_of_the_block() -> None:
    """With `errors.policy: fail` a record that never reaches the SQL stops the batch all the same."""
    table = {"ns.t": target(columns={"id": "long"})}
    result = process_with_sql(
        block([{"id": 1}, b"x"], first_offset=50), plan(hints=HINTS, errors=ErrorPolicy.FAIL), table, positive
    )
    assert result.failure is not None
    assert (result.failure.offset, result.failure.code) == (51, "FLOE-D101")


def divided(rows: pa.Table) -> pa.Table:
    """What `SELECT id FROM source WHERE 10 / (id - 1) > 0` gives where its expressions are evaluated apart."""
    ids = rows.column("id")
    fails = pc.fill_null(pc.equal(ids, 1), False)
    kept = rows.filter(pc.or_(fails, pc.fill_null(pc.greater(ids, 1), False))).select(["id", "__floe"])
    causes = pc.if_else(pc.equal(kept.column("id"), 1), "WHERE 10 / (id - 1) > 0", None)
    return kept.append_column(FAILED, causes.cast(pa.string()))


def test_records_for_which_the_sql_fails_are_dead_letters_beside_the_rows() -> None:
    """Each is one, in the order of the block, with the expression; the sum holds."""
    values = [{"id": 1}, {"id": 3}, b"x", {"id": 0}, {"id": 1}, None, {"id": 2}]
    table = {"ns.t": target(columns={"id": "long"})}

    result = process_with_sql(block(values, first_offset=50), plan(hints=HINTS), table, divided)

    assert result.rows["ns.t"].column("id").to_pylist() == [3, 2]
    letters = [(letter.offset, letter.code) for letter in result.dead_letters]
    assert letters == [(50, "FLOE-D123"), (52, "FLOE-D101"), (54, "FLOE-D123")]
    assert result.dead_letters[0].message == "transform.sql fails for the record: WHERE 10 / (id - 1) > 0"
    assert (result.written, result.filtered, result.dropped) == (2, 1, 1)


def test_with_errors_fail_the_first_record_for_which_the_sql_fails_stops_the_batch() -> None:
    """As any other record that cannot be read."""
    table = {"ns.t": target(columns={"id": "long"})}
    values = [{"id": 3}, {"id": 1}, {"id": 1}]
    result = process_with_sql(
        block(values, first_offset=50), plan(hints=HINTS, errors=ErrorPolicy.FAIL), table, divided
    )
    assert result.failure is not None
    assert (result.failure.offset, result.failure.code) == (51, "FLOE-D123")


GOOD = [
    ("int", pa.array([1], pa.int64()), 1),
    ("long", pa.array([1], pa.int32()), 1),
    ("long", pa.array([2.0]), 2),
    ("double", pa.array([1], pa.int32()), 1.0),
    ("float", pa.array([0.1]), 0.10000000149011612),
    ("decimal(10, 2)", pa.array([Decimal("1.500")]), Decimal("1.50")),
    ("decimal(10, 2)", pa.array([7], pa.int64()), Decimal("7.00")),
    ("string", pa.array([7], pa.int64()), "7"),
    ("string", pa.array([True]), "true"),
    ("long", pa.array(["12"]), 12),
    ("uuid", pa.array(["2b3c0d5e-0000-4000-8000-0123456789ab"]), UUID("2b3c0d5e-0000-4000-8000-0123456789ab")),
    ("date", pa.array([date(2024, 1, 4)]), date(2024, 1, 4)),
    ("timestamptz", pa.array([datetime(2024, 1, 4, tzinfo=timezone.utc)]), datetime(2024, 1, 4, tzinfo=timezone.utc)),
    ("timestamptz", pa.array(["2024-01-04T01:00:00+01:00"]), datetime(2024, 1, 4, tzinfo=timezone.utc)),
    ("timestamp", pa.array([datetime(2024, 1, 4)], pa.timestamp("us")), datetime(2024, 1, 4)),
    ("binary", pa.array([b"x"]), b"x"),
    ("fixed[2]", pa.array([b"xy"]), b"xy"),
    ("time", pa.array(["12:00"]), time(12)),
]


@pytest.mark.parametrize(("kind", "array", "value"), GOOD, ids=lambda v: str(v)[:30])
def test_typed_values(kind: str, array: pa.Array, value: object) -> None:
    """A column out of SQL becomes the table's type where that is exact; nulls stay nulls."""
    with_null = pa.concat_arrays([array, pa.nulls(1, array.type)])
    result = process_transformed(
        block([{}, {}]), after_sql({"v": with_null}), plan(), {"ns.t": target(columns={"v": kind}, table_policy=FROZEN)}
    )
    assert not result.dead_letters
    found = result.rows["ns.t"].column("v").to_pylist()
    assert found[1] is None
    assert found[0] == value


FROZEN = policy(data_type=EvolveMode.FREEZE, nullability=EvolveMode.FREEZE)
BAD = [
    ("int", pa.array([2**31])),
    ("long", pa.array([1.5])),
    ("decimal(4, 2)", pa.array([Decimal("1.005")])),
    ("decimal(4, 2)", pa.array([100], pa.int64())),
    ("boolean", pa.array([1])),
    ("date", pa.array([datetime(2024, 1, 4)], pa.timestamp("us"))),
    ("timestamp", pa.array([datetime(2024, 1, 4, tzinfo=timezone.utc)])),
    ("timestamptz", pa.array([datetime(2024, 1, 4)], pa.timestamp("us"))),
    ("timestamptz", pa.array([1_704_369_600])),
    ("fixed[2]", pa.array([b"xyz"])),
    ("string", pa.array([[1]])),
    ("uuid", pa.array(["no"])),
]


@pytest.mark.parametrize(("kind", "array"), BAD, ids=lambda v: str(v)[:30])
def test_typed_values_that_are_no_exact_value_of_the_column(kind: str, array: pa.Array) -> None:
    """What is not exact is a dead letter of its row alone, with field, expected and actual type."""
    with_null = pa.concat_arrays([array, pa.nulls(1, array.type)])
    result = process_transformed(
        block([{}, {}]), after_sql({"v": with_null}), plan(), {"ns.t": target(columns={"v": kind}, table_policy=FROZEN)}
    )
    assert [(d.offset, d.code, d.field_path) for d in result.dead_letters] == [(0, "FLOE-D301", "v")]
    assert result.dead_letters[0].expected
    assert str(array.type) in str(result.dead_letters[0].actual)
    assert result.rows["ns.t"].to_pydict() == {"v": [None]}


def test_nested_columns() -> None:
    """Structs and lists out of SQL are matched by name and converted element by element."""
    inner = StructType(NestedField(10, "B", StringType(), required=False), NestedField(12, "c", StringType()))
    columns = {"s": inner, "l": ListType(11, StringType(), element_required=False)}
    rows = after_sql({"s": pa.array([{"b": 1}, None]), "l": pa.array([[1, None], None])})
    result = process_transformed(block([{}, {}]), rows, plan(), {"ns.t": target(columns=columns)})
    assert result.rows["ns.t"].to_pydict() == {"s": [{"B": "1", "c": None}, None], "l": [["1", None], None]}


def test_routing_after_sql() -> None:
    """Rules look at the columns that left the SQL; a name they cannot make is a dead letter."""
    rules = [
        RouteRule("ns.{kind}", RouteCondition(field="n", equals=1)),
        RouteRule("ns.rest", RouteCondition(field="n", equals=2)),
    ]
    rows = after_sql({"kind": pa.array(["A", "a b", "x", "x"]), "n": pa.array([1, 1, 2, 3], pa.int32())})
    tables = {name: target(name, {"kind": "string", "n": "long"}) for name in ("ns.a", "ns.rest")}
    result = process_transformed(block([{}] * 4), rows, plan(rules), tables)
    assert {name: len(rows) for name, rows in result.rows.items()} == {"ns.a": 1, "ns.rest": 1}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(1, "FLOE-D202"), (3, "FLOE-D201")]


def test_needs_after_sql() -> None:
    """Columns the SQL made are needed with their own types; a declared field it left alone keeps its declared type."""
    rows = after_sql(
        {
            "order": pa.array([str(UUID(int=1))]),
            "id": pa.array(["text"]),
            "n": pa.array([1], pa.int32()),
            "d": pa.array([date(2024, 1, 4)]),
            "z": pa.nulls(1),
        }
    )
    result = process_transformed(block([{}]), rows, plan(hints=HINTS), {})
    assert dict(result.needs["ns.t"].fields) == {"order": "uuid", "id": "string", "n": "int", "d": "date"}
    tables = {"ns.t": target(columns={"order": "string", "id": "string", "d": "date"})}
    assert dict(process_transformed(block([{}]), rows, plan(hints=HINTS), tables).needs["ns.t"].fields) == {"n": "int"}
    frozen = policy(EvolveMode.FREEZE)
    tables = {"ns.t": target(columns={"order": "string", "id": "string", "d": "date"}, table_policy=frozen)}
    result = process_transformed(block([{}]), rows, plan(hints=HINTS, defaults=frozen), tables)
    assert [(d.code, d.field_path) for d in result.dead_letters] == [("FLOE-D307", "n")]


def test_what_is_refused_after_sql_shapes_nothing() -> None:
    """A row of SQL that is refused makes no table and no column, alone or beside others."""
    rows = after_sql({"order": pa.array(["no uuid", str(UUID(int=1))]), "n": pa.array([1, None])}, [1, 0])
    records, made = block([{}, {}]), plan(hints=HINTS)
    found = process_transformed(records, rows, made, {})
    assert [name for name, _ in found.needs["ns.t"].fields] == ["order"]
    assert [letter.offset for letter in found.dead_letters] == [1]
    alone = process_transformed(block([{}]), after_sql({"order": pa.array(["no uuid"])}), made, {})
    assert not alone.needs
    assert [letter.code for letter in alone.dead_letters] == ["FLOE-D301"]
    tables = {"ns.t": target(columns={"order": "uuid"})}
    found = process_transformed(records, rows, made, tables)
    assert not found.needs
    assert found.rows["ns.t"].num_rows == 1


def test_rows_that_sql_brings_in_any_order_shape_by_offset() -> None:
    """Rows come out of Spark in any order; a refused one among them is left out, and of `fail` the first by offset
    stops."""
    values = pa.array(["no uuid", str(UUID(int=1)), "none", str(UUID(int=2))])
    rows = after_sql({"order": values, "n": pa.array([1, None, 2, 3])}, [3, 0, 2, 1])
    made = plan(hints=HINTS, errors=ErrorPolicy.FAIL)
    shuffled = block([{}] * 4)
    shuffled = replace(shuffled, offsets=[7, 5, 6, 4])
    found = process_transformed(shuffled, rows, made, {"ns.t": target(columns={"order": "uuid"})})
    assert dict(found.needs["ns.t"].fields) == {"n": "long"}
    assert [letter.offset for letter in found.dead_letters] == [4, 6]
    assert found.failure is not None
    assert found.failure.offset == 4


@pytest.mark.parametrize("text_as_number", list(TextAsNumber))
@pytest.mark.parametrize("empty", list(EmptyValues))
def test_the_policies_of_values_hold_where_sql_reads(text_as_number: TextAsNumber, empty: EmptyValues) -> None:
    """`values.text_as_number` and `values.empty` of the tables' defaults hold of what SQL reads."""
    defaults = replace(policy(), values=ValuesPolicy(text_as_number=text_as_number, empty=empty))
    made = plan(hints=[FieldHint("n", "long"), FieldHint("l", "list<long>")], defaults=defaults)
    rows, early = decode_block(block([{"n": 1}, {"n": "2"}, {"n": []}, {"l": {}}, {"l": []}, {"n": [1]}]), made, {})
    read, left = text_as_number is TextAsNumber.READ, empty is EmptyValues.DISCARD
    assert rows.column("n").to_pylist() == [1, *[2] * read, *[None] * left, *[None] * left, None]
    assert [letter.offset for letter in early.dead_letters] == [*[1] * (not read), *[2, 3] * (not left), 5]


def test_metadata_columns_after_sql() -> None:
    """Metadata columns are filled from the block, by each row's place."""
    rows = after_sql({"id": pa.array([1])}, [2])
    tables = {"ns.t": target(columns={"id": "long", "_kafka_offset": "long"})}
    result = process_transformed(block([{}] * 3, first_offset=40), rows, plan(metadata=["offset"]), tables)
    assert result.rows["ns.t"].to_pydict() == {"id": [1], "_kafka_offset": [42]}


@pytest.mark.parametrize("word", [EvolveMode.WIDEN, EvolveMode.DISCARD_VALUE, EvolveMode.DEAD_LETTER, EvolveMode.FAIL])
def test_the_policy_says_what_becomes_of_sqls_values(word: EvolveMode) -> None:
    """A column out of SQL is wide as a whole: it widens the table's column, or its values are left out or refused."""
    rows = after_sql({"v": pa.array([1, 2**31])})
    tables = {"ns.t": target(columns={"v": "int"}, table_policy=policy(data_type=word))}
    result = process_transformed(block([{}] * 2), rows, plan(errors=ErrorPolicy.DROP), tables)
    if word is EvolveMode.WIDEN:
        assert dict(result.needs["ns.t"].fields) == {"v": "long"}
        return
    discarded = word is EvolveMode.DISCARD_VALUE
    assert result.rows["ns.t"].to_pydict() == {"v": [1, None] if discarded else [1]}
    assert [d.offset for d in result.dead_letters] == ([] if discarded else [1])
    assert (result.failure is not None) is (word is EvolveMode.FAIL)


def test_a_required_column_is_relaxed_after_sql() -> None:
    """A row without a value for a required column makes it optional where the policy says so."""
    rows = after_sql({"id": pa.array([1, None])})
    result = process_transformed(
        block([{}] * 2), rows, plan(), {"ns.t": target(columns={"id": "long"}, required=["id"])}
    )
    assert result.needs["ns.t"].optional == {("id",)}


def test_required_columns_after_sql() -> None:
    """A row without a value for a required column is a dead letter where it must stay required."""
    rows = after_sql({"id": pa.array([1, None])})
    tables = {"ns.t": target(columns={"id": "long"}, required=["id"], table_policy=FROZEN)}
    result = process_transformed(block([{}] * 2), rows, plan(), tables)
    assert result.rows["ns.t"].to_pydict() == {"id": [1]}
    assert [(d.offset, d.code) for d in result.dead_letters] == [(1, "FLOE-D305")]


def test_keys_that_are_no_text_after_sql() -> None:
    """A record whose key is to be text and is none is one dead letter, and its row lands nowhere."""
    rows = after_sql({"id": pa.array([1, 2])})
    records = block([{}] * 2)
    records.keys = [b"k", b"\xff"]
    tables = {"ns.t": target(columns={"id": "long", "_kafka_key_text": "string"})}
    result = process_transformed(records, rows, plan(metadata=["key_text"]), tables)
    assert result.rows["ns.t"].to_pydict() == {"id": [1], "_kafka_key_text": ["k"]}
    assert [(letter.offset, letter.code) for letter in result.dead_letters] == [(1, "FLOE-D104")]
    assert (result.written, result.filtered, result.dropped) == (1, 0, 0)


@pytest.mark.parametrize(
    ("places", "said"),
    [([0, 1, 1], "more than once, the first at offset 41"), ([0, 2], "never went in, the first at offset 42")],
    ids=["twice", "unknown"],
)
def test_rows_that_did_not_go_in_or_come_twice_are_refused(places: list[int], said: str) -> None:
    """Invariant 8: SQL that multiplies rows, or brings a record back that never reached it, is no sum that holds."""
    values = [{"id": 1}, {"id": 2}, b"not json"]

    def multiplied(rows: pa.Table) -> pa.Table:
        return pa.table({"id": pa.array(places, pa.int64()), "__floe": pa.array(places, pa.int32())})

    with pytest.raises(AccountingError, match=said):
        process_with_sql(
            block(values, first_offset=40), plan(hints=HINTS), {"ns.t": target(columns={"id": "long"})}, multiplied
        )
