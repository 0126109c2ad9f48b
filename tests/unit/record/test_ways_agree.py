"""What a table lacks for a record ends alike whichever way the record takes: in columns, judged alone, or in typed
columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, MapType, NestedField, StructType

from framework.config.spec import EmptyValues, ErrorPolicy, EvolveMode, NameCase, TablePolicy
from framework.plan.model import Plan
from framework.record.model import BlockResult, RecordBlock, TableTarget
from framework.record.process import process_block, process_transformed
from framework.table.schema.arrow import parse_schema
from framework.table.trouble import frozen
from framework.testing.tables import MemoryTables
from testbed.record_samples import alone, block, plan, policy, schema_of, target

FREEZE, DISCARD = EvolveMode.FREEZE, EvolveMode.DISCARD_VALUE
Way = Callable[[RecordBlock, Plan, dict[str, TableTarget], pa.Table], BlockResult]


def _in_columns(records: RecordBlock, made: Plan, tables: dict[str, TableTarget], rows: pa.Table) -> BlockResult:
    return process_block(records, made, tables)


def _alone(records: RecordBlock, made: Plan, tables: dict[str, TableTarget], rows: pa.Table) -> BlockResult:
    return alone(records, made, tables)


def _typed(records: RecordBlock, made: Plan, tables: dict[str, TableTarget], rows: pa.Table) -> BlockResult:
    places = pa.array(range(len(rows)), pa.int32())
    return process_transformed(records, rows.append_column("__floe", places), made, tables)


WAYS: Mapping[str, Way] = {"in columns": _in_columns, "alone": _alone, "typed": _typed}


def _landed(
    way: Way,
    values: Sequence[Mapping[str, Any]],
    types: Mapping[str, pa.DataType],
    made: Plan,
    schema: Schema | None,
    held: str,
) -> tuple[Any, ...]:
    """The table's columns in the end, its rows, and who was refused for what field."""
    chosen = made.write.tables.defaults
    tables = MemoryTables(made, ())
    if schema is not None:
        tables.targets["ns.t"] = frozen(target(schema=schema, table_policy=chosen), held)
    rows = pa.table({name: pa.array([each.get(name) for each in values], kind) for name, kind in types.items()})
    for _ in range(6):
        result = way(block(values), made, tables.targets, rows)
        if not result.needs:
            break
        for need in result.needs.values():
            tables.satisfy(need)
    assert not result.needs
    found = tables.targets.get("ns.t")
    columns = () if found is None else tuple(str(each) for each in parse_schema(found.schema_json).fields)
    refused = [(letter.offset, (letter.field_path or "").split(".")[0]) for letter in result.dead_letters]
    return (
        sorted(column.split(": ", 2)[1] for column in columns),
        [row for each in result.rows.values() for row in each.to_pylist()],
        refused,
        result.dropped,
        None if result.failure is None else result.failure.offset,
        [held in letter.message for letter in result.dead_letters],
    )


def _agree(
    values: Sequence[Mapping[str, Any]],
    types: Mapping[str, pa.DataType],
    chosen: TablePolicy,
    schema: Schema | None,
    metadata: Sequence[str] = (),
    errors: ErrorPolicy = ErrorPolicy.DEAD_LETTER,
    held: str = "",
) -> tuple[Any, ...]:
    made = plan(defaults=chosen, metadata=metadata, errors=errors)
    reported = {name: _landed(way, values, types, made, schema, held) for name, way in WAYS.items()}
    assert reported["alone"] == reported["in columns"]
    assert reported["typed"] == reported["in columns"]
    return reported["typed"]


def _nested(required: bool = False) -> Schema:
    inner = StructType(NestedField(3, "b", LongType(), required=required))
    return Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "s", inner, required=False))


STRUCT = pa.struct([("b", pa.int64()), ("c", pa.int64())])


def test_a_new_field_without_a_value_is_refused_on_no_way() -> None:
    """Null inside of a struct, `[]` and `{}` ask for no column, so that no word refuses them."""
    values = [{"a": 1, "s": {"b": 1, "c": None}, "l": []}, {"a": 2, "s": {"b": 1, "c": 3}}, {"a": 3, "l": [1]}]
    types = {"a": pa.int64(), "s": STRUCT, "l": pa.list_(pa.int64())}
    _, rows, refused, *_ = _agree(values, types, policy(FREEZE), _nested())
    assert [row["a"] for row in rows] == [1]
    assert refused == [(1, "s"), (2, "l")]


def test_of_several_reasons_the_first_is_reported_on_each_way() -> None:
    """Of two fields without a column the first is named, and it comes before values that do not fit."""
    values = [{"a": "x", "b": "y", "m": 1, "n": 2}, {"a": "x", "b": "y"}]
    types = {"a": pa.string(), "b": pa.string(), "m": pa.int64(), "n": pa.int64()}
    chosen = policy(FREEZE, data_type=FREEZE)
    _, _, refused, *_ = _agree(values, types, chosen, schema_of({"a": "long", "b": "long"}))
    assert refused == [(0, "m"), (1, "a")]


@pytest.mark.parametrize("word", [EvolveMode.RELAX, FREEZE, DISCARD])
def test_what_is_left_out_of_a_required_column_relaxes_it_on_no_way(word: EvolveMode) -> None:
    """`[]` in a required column of another kind is no missing value: the record is an error, whatever `nullability`
    says."""
    values = [{"a": [], "b": 1}, {"a": [], "b": 2}]
    types = {"a": pa.list_(pa.int64()), "b": pa.int64()}
    chosen = policy(nullability=word)
    columns, _, refused, *_ = _agree(values, types, chosen, schema_of({"a": "long", "b": "long"}, ["a"]))
    assert refused == [(0, "a"), (1, "a")]
    assert columns == ["a", "b"] or all("optional" not in column for column in columns if column.startswith("a"))


@pytest.mark.parametrize("word", [EvolveMode.WIDEN, EvolveMode.NEW_COLUMN])
def test_what_is_left_out_takes_no_other_value_with_it(word: EvolveMode) -> None:
    """Where `[]` cannot be null, inside of a struct, the record is an error: the struct's other values are not left
    out."""
    schema = _nested(required=True)
    values = [{"a": 1, "s": {"b": [], "c": 5}}, {"a": 2, "s": {"b": [], "c": None}}, {"a": 3}]
    types = {"a": pa.int64(), "s": pa.struct([("b", pa.list_(pa.int64())), ("c", pa.int64())])}
    _, rows, refused, *_ = _agree(values, types, policy(data_type=word), schema)
    assert [row["a"] for row in rows] == [2, 3]
    assert refused == [(0, "s")]


@pytest.mark.parametrize("word", [EvolveMode.RELAX, FREEZE])
def test_a_value_missing_at_depth_relaxes_its_column_on_each_way(word: EvolveMode) -> None:
    """`nullability` holds of fields of structs, whichever way brings them."""
    values = [{"a": 1, "s": {"b": 1}}, {"a": 2, "s": {"b": None}}]
    types = {"a": pa.int64(), "s": pa.struct([("b", pa.int64())])}
    chosen = policy(nullability=word)
    _, rows, refused, *_ = _agree(values, types, chosen, _nested(required=True))
    assert [row["a"] for row in rows] == ([1, 2] if word is EvolveMode.RELAX else [1])
    assert refused == ([] if word is EvolveMode.RELAX else [(1, "s")])


def test_a_table_gains_metadata_columns_on_each_way() -> None:
    """Kafka's own fields become columns of a table that lacks them, also where its records are judged one by one."""
    values = [{"a": 1}, {"a": 2}]
    _, rows, *_ = _agree(values, {"a": pa.int64()}, policy(), schema_of({"a": "long"}), ["offset"])
    assert [row["_kafka_offset"] for row in rows] == [0, 1]
    keyed = MapType(3, IntegerType(), 4, LongType(), value_required=False)
    schema = Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "m", keyed, required=False))
    _, rows, *_ = _agree(values, {"a": pa.int64()}, policy(), schema, ["offset"])
    assert [row["_kafka_offset"] for row in rows] == [0, 1]
    _, rows, *_ = _agree(values, {"a": pa.int64()}, policy(FREEZE), schema, ["offset"])
    assert ["_kafka_offset" in row for row in rows] == [False, False]


@pytest.mark.parametrize("word", [EvolveMode.EVOLVE, DISCARD, FREEZE, EvolveMode.DEAD_LETTER, EvolveMode.FAIL])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_missing_table_is_one_thing_on_each_way(word: EvolveMode, enabled: bool) -> None:
    """A table that is not there is made, its records are dropped, or they are errors, whichever way brings them."""
    chosen = policy(tables=word)
    chosen = replace(chosen, create=replace(chosen.create, enabled=enabled))
    _agree([{"a": 1.5}, {"a": 2.5}], {"a": pa.float64()}, chosen, None, errors=ErrorPolicy.DROP)


@pytest.mark.parametrize("word", [EvolveMode.WIDEN, EvolveMode.NEW_COLUMN])
@pytest.mark.parametrize("otherwise", [FREEZE, DISCARD, EvolveMode.DEAD_LETTER, EvolveMode.FAIL])
def test_a_change_that_iceberg_cannot_make_is_one_thing_on_each_way(word: EvolveMode, otherwise: EvolveMode) -> None:
    """`otherwise` says what becomes of a value that no promotion takes, whichever way brings it."""
    chosen = policy(FREEZE, data_type=word, otherwise=otherwise)
    values = [{"a": "x", "b": 1}, {"a": None, "b": 2}]
    types = {"a": pa.string(), "b": pa.int64()}
    _agree(values, types, chosen, schema_of({"a": "long", "b": "long"}), errors=ErrorPolicy.DROP)


@pytest.mark.parametrize("word", [EvolveMode.RELAX, DISCARD, FREEZE, EvolveMode.DEAD_LETTER, EvolveMode.FAIL])
@pytest.mark.parametrize("otherwise", [FREEZE, DISCARD, EvolveMode.DEAD_LETTER, EvolveMode.FAIL])
@pytest.mark.parametrize("identifies", [True, False])
def test_a_missing_value_is_one_thing_on_each_way(word: EvolveMode, otherwise: EvolveMode, identifies: bool) -> None:
    """`nullability`, and `otherwise` of a column that identifies rows, say the same whichever way brings the record."""
    chosen = policy(nullability=word, otherwise=otherwise)
    fields = [NestedField(1, "a", LongType(), required=True), NestedField(2, "b", LongType(), required=False)]
    schema = Schema(*fields, identifier_field_ids=[1] if identifies else [])
    values = [{"a": None, "b": 1}, {"a": 2, "b": 2}]
    _agree(values, {"a": pa.int64(), "b": pa.int64()}, chosen, schema, errors=ErrorPolicy.DROP)


def test_lists_hold_what_asks_for_a_column_on_each_way() -> None:
    """A field inside of a list's structs is refused where one of them has a value for it."""
    inner = StructType(NestedField(4, "b", LongType(), required=False))
    schema = Schema(
        NestedField(1, "a", LongType(), required=False),
        NestedField(2, "l", ListType(3, inner, element_required=False), required=False),
    )
    values = [
        {"a": 1, "l": [{"b": 1, "c": None}, None]},
        {"a": 2, "l": [{"b": 1, "c": None}, {"b": 2, "c": 3}]},
        {"a": 3, "l": []},
        {"a": 4, "l": None},
    ]
    _, rows, refused, *_ = _agree(values, {"a": pa.int64(), "l": pa.list_(STRUCT)}, policy(FREEZE), schema)
    assert [row["a"] for row in rows] == [1, 3, 4]
    assert refused == [(1, "l")]


@pytest.mark.parametrize("word", [EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, DISCARD])
def test_a_table_that_is_not_changed_now_is_written_as_it_is(word: EvolveMode) -> None:
    """While changes of a table are refused, records that would change it are dead letters with the reason; those that
    would not are written on each way: `[]` in a column of another kind, and values that `otherwise` leaves out."""
    inner = StructType(NestedField(5, "b", LongType(), required=False))
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "a", LongType(), required=False),
        NestedField(3, "n", IntegerType(), required=False),
        NestedField(4, "s", inner, required=False),
    )
    chosen = policy(data_type=word, otherwise=DISCARD)
    empty = [{"id": 1, "a": []}]
    _, rows, refused, *_ = _agree(empty, {"id": pa.int64(), "a": pa.list_(pa.int64())}, chosen, schema, held="why")
    assert (rows[0]["a"], refused) == (None, [])
    wide, added = [{"id": 2, "n": 2**40}], [{"id": 3, "s": {"b": 1, "c": 1}}]
    _, rows, refused, *_, reported = _agree(wide, {"id": pa.int64(), "n": pa.int64()}, chosen, schema, held="why")
    assert (len(rows), refused, reported) == ((1, [], []) if word is DISCARD else (0, [(0, "n")], [True]))
    _, rows, refused, *_, reported = _agree(added, {"id": pa.int64(), "s": STRUCT}, chosen, schema, held="why")
    assert (rows, refused, reported) == ([], [(0, "s")], [True])
    text = [{"id": 4, "a": "x"}, {"id": 5, "a": "y"}]
    # In typed columns `new_column` does what `widen` does; elsewhere the value would need a column of its own.
    if word is not EvolveMode.NEW_COLUMN:
        _, rows, refused, *_ = _agree(text, {"id": pa.int64(), "a": pa.string()}, chosen, schema, held="why")
        assert ([row["a"] for row in rows], refused) == ([None, None], [])


def test_a_value_goes_to_the_column_beside_it_while_the_table_is_not_changed() -> None:
    """Under `new_column` a column that is there takes the value; one that is not is a change."""
    chosen = policy(data_type=EvolveMode.NEW_COLUMN)
    made = plan(defaults=chosen)
    tables = {"ns.t": frozen(target(columns={"a": "long", "a_string": "string"}, table_policy=chosen), "why")}
    result = process_block(block([{"a": "x"}, {"a": 1.5}]), made, tables)
    assert result.rows["ns.t"].to_pylist() == [{"a": None, "a_string": "x"}]
    assert [(letter.offset, "why" in letter.message) for letter in result.dead_letters] == [(1, True)]


@pytest.mark.parametrize("case", list(NameCase))
def test_a_header_with_capitals_is_in_its_column(case: NameCase) -> None:
    """`header.X-Id` fills `_kafka_header_X_Id`, also under `case: insensitive`."""
    made = plan(metadata=["header.X-Id"], defaults=policy(case=case))
    records = block([{"a": "x"}])
    records.headers = [[("X-Id", b"v")]]
    tables = MemoryTables(made, ())
    for need in process_block(records, made, {}).needs.values():
        tables.satisfy(need)
    result = process_block(records, made, tables.targets)
    assert result.rows["ns.t"].to_pylist() == [{"a": "x", "_kafka_header_X_Id": "v"}]


# ---- any words -------------------------------------------------------------------------------------------------------

_AS_IT_IS = [DISCARD, FREEZE, EvolveMode.DEAD_LETTER, EvolveMode.FAIL]
_NUMBER = st.none() | st.just(1.5)
_LISTS = st.none() | st.sampled_from([[], [2.5], [None]])
_STRUCTS = st.none() | st.fixed_dictionaries({"b": _NUMBER, "c": _NUMBER})


def _plain(value: Any) -> Any:
    """Without what is null: a typed column may be added for its type alone."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return value


def _in_order(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Any, ...]:
    columns = draw(st.sampled_from([EvolveMode.EVOLVE, *_AS_IT_IS]))
    as_list = draw(st.booleans())
    chosen = policy(
        columns,
        data_type=draw(st.sampled_from([EvolveMode.WIDEN, *_AS_IT_IS])),
        nullability=draw(st.sampled_from([EvolveMode.RELAX, *_AS_IT_IS])),
        otherwise=draw(st.sampled_from(_AS_IT_IS)),
    )
    empty = draw(st.sampled_from(list(EmptyValues)))
    chosen = replace(chosen, values=replace(chosen.values, empty=empty))
    fields = {"a": _LISTS if as_list else _NUMBER, "s": _STRUCTS, "n": _NUMBER}
    # What a new column of lists holds that are empty, JSON does not tell.
    fields |= {} if columns is EvolveMode.EVOLVE else {"l": _LISTS}
    values = draw(st.lists(st.fixed_dictionaries(fields), min_size=1, max_size=4))
    inner = StructType(NestedField(3, "b", DoubleType(), required=draw(st.booleans())))
    schema = Schema(
        NestedField(1, "a", DoubleType(), required=draw(st.booleans())),
        NestedField(2, "s", inner, required=draw(st.booleans())),
    )
    a_list = pa.list_(pa.float64())
    struct = pa.struct([("b", pa.float64()), ("c", pa.float64())])
    types = {"a": a_list if as_list else pa.float64(), "s": struct, "n": pa.float64(), "l": a_list}
    # The first field without a column is named, so that they must come in one order.
    values = [{name: _in_order(each[name]) for name in fields} for each in values]
    return values, {name: types[name] for name in fields}, chosen, schema, draw(st.sampled_from(["", "why"]))


@settings(max_examples=150, deadline=None)
@given(_cases(), st.sampled_from([ErrorPolicy.DEAD_LETTER, ErrorPolicy.DROP]))
def test_any_words_are_one_thing_on_each_way(case: tuple[Any, ...], errors: ErrorPolicy) -> None:
    """Whatever the words are and whatever records lack or bring, each record is the same row, or refused for the same
    field."""
    values, types, chosen, schema, held = case
    made = plan(defaults=chosen, errors=errors)
    reported = {}
    for name, way in WAYS.items():
        _, rows, *rest = _landed(way, values, types, made, schema, held)
        reported[name] = [_plain(row) for row in rows], *rest
    assert reported["alone"] == reported["in columns"]
    assert reported["typed"] == reported["in columns"]
