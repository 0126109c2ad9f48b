"""A block of records ends as rows, dead letters and counts that add up, or says what tables would need first."""

from __future__ import annotations

import gc
import json
import time
import weakref
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from framework.config.spec import (
    CreatePolicy,
    ErrorPolicy,
    EvolveMode,
    FieldHint,
    NameCase,
    PartitionFieldSpec,
    RouteRule,
    TablePolicy,
    ValuesPolicy,
    WholeNumbers,
)
from framework.errors import AccountingError
from framework.record.destination import rows_of
from framework.record.failure import RecordFailure
from framework.record.model import BlockResult, timestamp_us
from framework.record.process import process_block, records_in_block
from framework.record.state.block_state import BlockState
from framework.record.state.block_tables import BlockTables
from framework.table.changes import AlterTable
from framework.table.evolve import plan_evolution
from testbed.record_samples import alone, block, plan, policy, processed, same, target


def run(
    columns: dict[str, object], values: list[object], table_policy: TablePolicy | None = None, **kwargs: object
) -> BlockResult:
    chosen = table_policy or policy()
    tables = {"ns.t": target(columns=columns, table_policy=chosen)}
    return processed(block(values), plan(defaults=chosen, **kwargs), tables)  # type: ignore[arg-type]


def fields(result: BlockResult, table: str = "ns.t") -> dict[str, object]:
    return dict(result.needs[table].fields)


def test_rows_keep_offset_order_and_file_schema() -> None:
    """Rows come in offset order, also those that were converted one by one, with the field ids of the table."""
    result = run({"a": "long", "b": "string"}, [{"a": 1}, {"a": 2.0, "b": 7}, {"a": 3}, {"b": "x", "a": 4}])
    rows = result.rows["ns.t"]
    assert rows.to_pydict() == {"a": [1, 2, 3, 4], "b": [None, "7", None, "x"]}
    assert [field.metadata[b"PARQUET:field_id"] for field in rows.schema] == [b"1", b"2"]


@pytest.mark.parametrize(("tables", "records"), [(0, 100), (249, 100), (250, 200), (500, 300), (5000, 300)])
def test_blocks_of_many_tables_are_larger_where_rows_are_sorted(tables: int, records: int) -> None:
    """A block has more records where they may be of 250 tables, three times as many at most; not where they are put
    apart."""
    assert records_in_block(100, tables, scatter=False) == records
    assert records_in_block(100, tables, scatter=True) == 100


def test_tombstones_are_dropped() -> None:
    """A record without a value is counted as dropped and is no dead letter."""
    result = run({"a": "long"}, [None, {"a": 1}, None])
    assert (result.written, result.dropped, len(result.dead_letters)) == (1, 2, 0)


def test_a_dead_letter_is_the_whole_record() -> None:
    """A dead letter holds the record's bytes, place, time and key, and says stage, code, field, expected and actual."""
    result = run({"a": "int"}, [{"a": 1}, {"a": "x"}])
    (letter,) = result.dead_letters
    assert (letter.topic, letter.partition, letter.offset, letter.timestamp_ms) == ("events", 0, 1, 1_700_000_000_001)
    assert (letter.key, letter.value, letter.headers) == (b"k1", b'{"a": "x"}', [])
    assert (letter.stage, letter.code, letter.field_path) == ("convert", "FLOE-D304", "a")
    assert (letter.expected, letter.actual) == ("int", "x")


@pytest.mark.parametrize(
    ("errors", "letters", "dropped", "fails"),
    [(ErrorPolicy.DEAD_LETTER, 2, 0, False), (ErrorPolicy.DROP, 0, 2, False), (ErrorPolicy.FAIL, 2, 0, True)],
)
def test_error_policy(errors: ErrorPolicy, letters: int, dropped: int, fails: bool) -> None:
    """Records that fail go where errors.policy says; under `fail` the first of them is named."""
    result = run({"a": "int"}, [{"a": 1}, {"a": "x"}, b"{"], errors=errors)
    assert (result.written, len(result.dead_letters), result.dropped) == (1, letters, dropped)
    assert (result.failure.offset if result.failure else None) == (1 if fails else None)


def test_a_map_of_many_keys_is_no_table_of_many_columns() -> None:
    """Maps whose keys are all different cost what their records cost, not a column for each key."""
    columns = {"m": MapType(106, StringType(), 107, LongType(), value_required=False)}
    values = [{"m": {f"k{i}_{j}": j for j in range(20)}} for i in range(2000)]
    begun = time.process_time()
    result = run(columns, [*values, {"m": 1}])
    assert time.process_time() - begun < 20, "by way of columns these took minutes"
    assert (result.written, [d.code for d in result.dead_letters]) == (2000, ["FLOE-D301"])


def test_columns_of_the_dead_letter_table_are_not_the_records() -> None:
    """A field that is named like a column of the dead-letter table is read as its own table says, in one parse."""
    tables = {
        "ns.t": target(columns={"value": "double"}),
        "ns.dead_letters": target("ns.dead_letters", {"value": "binary"}),
    }
    result = processed(block([{"value": 1.5}, {"value": 2}]), plan(), tables)
    assert result.rows["ns.t"].column("value").to_pylist() == [1.5, 2.0]


def test_metadata_columns() -> None:
    """Metadata columns hold the record's own place, whatever a field of that name says."""
    columns = {
        "a": "int",
        "_kafka_topic": "string",
        "_kafka_partition": "int",
        "_kafka_offset": "long",
        "_kafka_timestamp": "timestamptz",
        "_kafka_key": "binary",
    }
    names = ["topic", "partition", "offset", "timestamp", "key"]
    result = run(columns, [{"a": 1, "_kafka_offset": 99}, {"a": 2.0}], metadata=names)
    rows = result.rows["ns.t"].to_pydict()
    assert rows["_kafka_offset"] == [0, 1]
    assert rows["_kafka_topic"] == ["events", "events"]
    assert rows["_kafka_partition"] == [0, 0]
    assert rows["_kafka_key"] == [b"k0", b"k1"]
    assert [int(t.timestamp() * 1000) for t in rows["_kafka_timestamp"]] == [1_700_000_000_000, 1_700_000_000_001]
    assert not result.needs


@pytest.mark.parametrize(
    ("stamp", "micros"),
    [
        (-1, None),
        (0, 0),
        (1_704_369_600_123, 1_704_369_600_123_000),
        (253_402_300_799_999, 253_402_300_799_999_000),
        (1_704_369_600_123_456, 1_704_369_600_123_456),
        (1_704_369_600_123_456_789, 1_704_369_600_123_456),
        (2**63 - 1, (2**63 - 1) // 1000),
    ],
)
def test_a_timestamp_that_a_producer_counts_in_other_units_is_the_moment_it_means(
    stamp: int, micros: int | None
) -> None:
    """Wanted: a record whose timestamp counts micro- or nanoseconds has no `_kafka_timestamp`, no day, and a lag of
    50,000 years. Got: the moment, in the column, in its dead letter, and as the newest of its block."""
    columns = {"a": "int", "_kafka_timestamp": "timestamptz"}
    some = replace(block([{"a": 1}, {"a": "no"}]), timestamps_ms=[stamp, stamp])
    result = processed(some, plan(metadata=["timestamp"]), {"ns.t": target(columns=columns)})
    assert result.rows["ns.t"].column("_kafka_timestamp").cast(pa.int64()).to_pylist() == [micros]
    assert [timestamp_us(letter.timestamp_ms) for letter in result.dead_letters] == [micros]
    assert some.newest_ms() == (-1 if micros is None else micros // 1000)


def test_metadata_columns_a_table_lacks_are_needed() -> None:
    """A table without the metadata columns gains them, where its columns may evolve."""
    assert fields(run({"a": "int"}, [{"a": 1}], metadata=["offset"])) == {"_kafka_offset": "long"}
    assert not run({"a": "int"}, [{"a": 1}], policy(EvolveMode.DISCARD_VALUE), metadata=["offset"]).needs


# ---- what tables need ------------------------------------------------------------------------------------------


def test_a_missing_table_needs_all_its_fields() -> None:
    """For a table that does not exist, every field is reported with its observed type, hints in their places."""
    values = [
        {"id": 1, "x": 1, "at": "2024-01-04 12:00:00", "s": {"n": None, "m": [1, 2.5]}, "big": 2**63 + 1, "e": {}},
        {"id": 2, "x": 1.5, "at": "2024-01-04", "s": {"n": True}, "none": None},
    ]
    result = run_missing(values, hints=[FieldHint("id", "int"), FieldHint("s.n", "boolean")])
    assert fields(result) == {
        "id": "int",
        "x": "double",
        "at": "string",
        "s": ["struct", [["n", "boolean"], ["m", ["list", "double"]]]],
        "big": "decimal(38, 0)",
        "e": ["struct", []],
        "none": "null",
    }


def run_missing(values: list[object], **kwargs: object) -> BlockResult:
    return processed(block(values), plan(**kwargs), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, "a"], "double"),
        (["a", 1], "string"),
        ([None, True], "boolean"),
        ([1, 2**63, 1.5], "double"),
        ([1, 2**53 + 1], "double"),
        ([2**53 + 1, 1], "long"),
        ([2**53 + 1, 1.5], "long"),
        ([2**53 + 1, 2**64 + 1], "long"),
        ([2**64 + 1, 1], "decimal(38, 0)"),
        ([[1, 2**53 + 1, 2**64 + 1]], ["list", "decimal(38, 0)"]),
        ([18446744073709552000], "double"),
        ([[None, 1], ["a"]], ["list", "double"]),
        ([[], None], ["list", "null"]),
        ([{"a": 1}, {"b": "x"}], ["struct", [["a", "double"], ["b", "string"]]]),
        ([{"a": 1}, [1]], ["struct", [["a", "double"]]]),
    ],
)
def test_kinds_merge_in_the_order_of_sight(values: list[object], kind: object) -> None:
    """Null gives way; of others the first one seen is kept, whole numbers as doubles where a double holds them."""
    assert fields(run_missing([{"v": value} for value in values])) == {"v": kind}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 1.5], "long"),
        ([1.5, 1], "double"),
        ([[1, 1.5]], ["list", "double"]),
        ([[1], [1.5]], ["list", "long"]),
        ([2**53 + 1], "long"),
        ([{"a": 1}, {"a": 1.5}], ["struct", [["a", "long"]]]),
    ],
)
def test_whole_numbers_are_long_where_the_file_says_so(values: list[object], kind: object) -> None:
    """With `whole_numbers: long` the first number of a field decides between long and double, wherever a batch ends."""
    chosen = TablePolicy(values=ValuesPolicy(whole_numbers=WholeNumbers.LONG))
    assert fields(run_missing([{"v": value} for value in values], defaults=chosen)) == {"v": kind}


@pytest.mark.parametrize(
    "create",
    [
        CreatePolicy(identifier_fields=("o.id",)),
        CreatePolicy(partition_by=(PartitionFieldSpec("O.ID", "bucket", 16),)),
        CreatePolicy(partition_by=(PartitionFieldSpec("o.id", "identity"),)),
    ],
)
def test_whole_numbers_that_rows_are_found_by_are_long(create: CreatePolicy) -> None:
    """No float can identify rows or be put into buckets, so what the file names for that is long."""
    values: list[object] = [{"o": {"id": 7, "n": 1}}]
    found = fields(processed(block(values), plan(defaults=TablePolicy(create=create)), {}))
    assert found == {"o": ["struct", [["id", "long"], ["n", "double"]]]}


def test_new_fields_at_any_depth() -> None:
    """Fields without a column are needed at any depth, where a row has a value for them."""
    inner = StructType(NestedField(10, "a", StringType(), required=False))
    columns = {"o": inner, "l": ListType(11, inner, element_required=False)}
    values = [
        {"o": {"a": "x", "b": 1}, "l": [{"a": "y"}, {"c": [None, {"d": True}]}]},
        {"o": {"z": None}, "n": None, "e": {}, "f": [], "new": "2024-01-04"},
    ]
    assert fields(run(columns, values)) == {
        "o": ["struct", [["b", "double"]]],
        "l": ["list", ["struct", [["c", ["list", ["struct", [["d", "boolean"]]]]]]]],
        "new": "string",
    }


@pytest.mark.parametrize("value", [None, {}, [], [None], [[]], {"a": None}, {"a": {}}, [{}]])
def test_nothing_needs_no_column(value: object) -> None:
    """Null, empty objects and empty lists ask for no column: the rows are written without."""
    result = run({"a": "int"}, [{"a": 1, "x": value}])
    assert not result.needs
    assert result.rows["ns.t"].to_pydict() == {"a": [1]}


def test_fields_of_other_tables_are_no_need_of_this_one() -> None:
    """What another table of the block has is asked of this one only if its own rows hold it."""
    rules = [RouteRule("ns.{kind}")]
    tables = {n: target(n, c) for n, c in {"ns.a": {"kind": "string", "x": "int"}, "ns.b": {"kind": "string"}}.items()}
    values = [{"kind": "a", "x": 1}, {"kind": "b", "x": None}]
    assert not processed(block(values), plan(rules), tables).needs
    values.append({"kind": "b", "x": 1.5})
    assert fields(processed(block(values), plan(rules), tables), "ns.b") == {"x": "double"}


def test_column_policies() -> None:
    """`ignore` writes the rest of the record, `freeze` makes it a dead letter, `evolve` asks for the column."""
    values = [{"a": 1, "x": 5}, {"a": 2}]
    assert run({"a": "int"}, values, policy(EvolveMode.DISCARD_VALUE)).rows["ns.t"].to_pydict() == {"a": [1, 2]}
    frozen = run({"a": "int"}, values, policy(EvolveMode.FREEZE))
    assert [(d.offset, d.code, d.field_path) for d in frozen.dead_letters] == [(0, "FLOE-D307", "x")]
    assert frozen.rows["ns.t"].to_pydict() == {"a": [2]}
    assert fields(run({"a": "int"}, values)) == {"x": "double"}


def test_wider_values_and_missing_ones() -> None:
    """A value that a wider type holds, or a missing required one, asks for the change where the policy allows it."""
    frozen = policy(data_type=EvolveMode.FREEZE, nullability=EvolveMode.FREEZE)
    columns = {"i": "int", "f": "float", "d": "decimal(4, 2)"}
    values = [{"i": 2**31}, {"f": 1e39}, {"d": 100}]
    assert fields(run(columns, values)) == {"i": "long", "f": "double", "d": "decimal(5, 2)"}
    assert [d.code for d in run(columns, values, frozen).dead_letters] == ["FLOE-D302"] * 3
    for chosen, needed in ((policy(), True), (frozen, False)):
        tables = {"ns.t": target(columns={"a": "int"}, required=["a"], table_policy=chosen)}
        result = processed(block([{"a": None}]), plan(defaults=chosen), tables)
        assert bool(result.needs) is needed
        assert [d.code for d in result.dead_letters] == ([] if needed else ["FLOE-D305"])


@pytest.mark.parametrize(
    ("tables", "enabled", "code", "dropped"),
    [
        (EvolveMode.EVOLVE, False, "FLOE-D204", 0),
        (EvolveMode.FREEZE, True, "FLOE-D204", 0),
        (EvolveMode.DISCARD_VALUE, True, None, 1),
    ],
)
def test_tables_that_may_not_be_created(tables: EvolveMode, enabled: bool, code: str | None, dropped: int) -> None:
    """Where a table may not be created, its records are dead letters, or dropped under `ignore`."""
    chosen = policy(tables=tables)
    chosen = TablePolicy(CreatePolicy(enabled=enabled), chosen.evolve, chosen.commit, chosen.case)
    result = run_missing([{"a": 1}], defaults=chosen)
    assert not result.needs
    assert [d.code for d in result.dead_letters] == ([code] if code else [])
    assert result.dropped == dropped


# ---- names and case --------------------------------------------------------------------------------------------


def test_spellings_of_a_field_are_one_column() -> None:
    """Under the insensitive case policy every spelling of a field fills its column, at any depth."""
    inner = StructType(NestedField(10, "Zip", StringType(), required=False))
    values = [
        {"orderid": 1, "adr": {"zip": "1"}},
        {"ORDERID": 2, "ADR": {"ZIP": "2"}},
        {"OrderId": 3, "Adr": {"Zip": "3"}},
    ]
    result = run({"OrderId": "long", "adr": inner}, values)
    assert result.rows["ns.t"].to_pydict() == {"OrderId": [1, 2, 3], "adr": [{"Zip": z} for z in "123"]}
    assert not result.needs


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "A": 2},
        {"x": 1, "X": 2},
        {"o": {"zip": "1", "ZIP": "2"}},
        {"o": {"new": 1, "New": 2}},
        {"l": [{"k": 1, "K": 2}]},
    ],
)
@pytest.mark.parametrize("columns", [EvolveMode.EVOLVE, EvolveMode.DISCARD_VALUE])
def test_keys_that_differ_only_in_case(value: dict[str, object], columns: EvolveMode) -> None:
    """Two spellings of one key in one record are an error under the insensitive policy, known or not, in columns as
    alone; two spellings in two records are one field."""
    schema: dict[str, object] = {
        "a": "long",
        "o": StructType(NestedField(10, "zip", StringType(), required=False)),
        "l": ListType(11, StructType(NestedField(12, "k", LongType(), required=False)), element_required=False),
    }
    values = [{"a": i} for i in range(50)] + [value]
    tables = {"ns.t": target(columns=schema, table_policy=policy(columns))}
    while (result := processed(block(values), plan(defaults=policy(columns)), tables)).needs:
        change = plan_evolution(tables["ns.t"], result.needs["ns.t"])
        assert isinstance(change, AlterTable)
        tables["ns.t"] = target(schema=Schema.model_validate_json(change.schema_json), table_policy=policy(columns))
    assert [(d.offset, d.code) for d in result.dead_letters] == [(50, "FLOE-D306")]
    assert result.written == 50
    same(result, alone(block(values), plan(defaults=policy(columns)), tables))


def test_many_records_spelled_otherwise_than_the_column() -> None:
    """A whole block whose fields are spelled otherwise than the columns loses nothing."""
    values = [{"ORDERID": i, "At": f"2024-01-04T00:00:{i % 60:02}Z"} for i in range(5000)]
    for _ in range(2):
        rows = run({"orderId": "long", "at": "timestamptz"}, values).rows["ns.t"]
        assert rows.column("orderId").to_pylist() == list(range(5000))
        assert rows.column("at").null_count == 0


def test_case_sensitive_names_differ() -> None:
    """Under the sensitive policy another spelling is another field."""
    result = run({"a": "int"}, [{"a": 1, "A": 2}], policy(case=NameCase.SENSITIVE))
    assert fields(result) == {"A": "double"}


def test_tables_that_disagree_about_a_field() -> None:
    """Tables with different types for one field each get the value in their own type."""
    rules = [RouteRule("ns.{kind}")]
    tables = {
        "ns.number": target("ns.number", {"kind": "string", "v": "long", "o": "string"}),
        "ns.text": target("ns.text", {"kind": "string", "v": "string"}),
        "ns.time": target("ns.time", {"kind": "string", "v": "timestamptz"}),
        "ns.exact": target("ns.exact", {"kind": "string", "v": "decimal(20, 3)"}),
    }
    values = [
        {"kind": "number", "v": 1},
        {"kind": "text", "v": "one"},
        {"kind": "time", "v": "2024-01-04T00:00:00Z"},
        {"kind": "exact", "v": 9007199254740993.125},
        b'{"kind": "exact", "v": 9007199254740993.125}',
        {"kind": "number", "v": "x"},
        b"nothing",
        {"kind": "new", "v": [1]},
    ]
    result = processed(block(values), plan(rules), tables)
    assert result.rows["ns.number"].column("v").to_pylist() == [1]
    assert result.rows["ns.text"].column("v").to_pylist() == ["one"]
    assert str(result.rows["ns.exact"].column("v")[1]) == "9007199254740993.125"
    assert [(d.offset, d.code) for d in result.dead_letters] == [(5, "FLOE-D304"), (6, "FLOE-D101")]
    assert fields(result, "ns.new") == {"kind": "string", "v": ["list", "double"]}


def test_lists_that_begin_with_null() -> None:
    """A list of an unknown field that begins with null is seen as what it holds, and breaks no other column."""
    inner = StructType(NestedField(10, "a", StringType(), required=False))
    result = run({"o": inner}, [{"o": {"a": "x", "l": [None, {"k": 1}]}}, {"m": [None, None, "x"]}])
    assert fields(result) == {
        "o": ["struct", [["l", ["list", ["struct", [["k", "double"]]]]]]],
        "m": ["list", "string"],
    }


# ---- counts ----------------------------------------------------------------------------------------------------

RECORDS = st.lists(
    st.none()
    | st.sampled_from([b"{", b"[]", b'{"a":1,"a":2}', b'{"a":1} {}', b"\xff", b'{"kind":"a","v":1e400}'])
    | st.builds(
        lambda fields: json.dumps(fields).encode(),
        st.fixed_dictionaries(
            {},
            optional={
                "kind": st.sampled_from(["a", "b", "c", "?", None]),
                "v": st.sampled_from([1, "x", 2**40, None, 1.5, [1]]),
                "w": st.sampled_from(["x", None, {}, 5]),
            },
        ),
    ),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.sampled_from(ErrorPolicy), st.sampled_from(ErrorPolicy), st.sampled_from(EvolveMode))
def test_the_sum_holds(values: list[object], errors: ErrorPolicy, unrouted: ErrorPolicy, columns: EvolveMode) -> None:
    """Every record is written, a dead letter or dropped, exactly once (invariant 8), in columns as one by one."""
    chosen = policy(columns, data_type=EvolveMode.FREEZE, tables=EvolveMode.DISCARD_VALUE)
    pipeline = plan([RouteRule("ns.{kind}")], errors=errors, unrouted=unrouted, defaults=chosen)
    tables = {
        "ns.a": target("ns.a", {"kind": "string", "v": "int"}, table_policy=chosen),
        "ns.b": target("ns.b", {"kind": "string", "v": "string", "w": "string"}, table_policy=chosen),
    }
    records = block(values)
    result = processed(records, pipeline, tables)
    same(result, alone(records, pipeline, tables))
    if not result.needs:
        assert result.written + len(result.dead_letters) + result.dropped == len(values)
        assert result.written == sum(len(rows) for rows in result.rows.values())


def test_an_empty_block() -> None:
    """A block without records gives nothing."""
    assert run({"a": "int"}, []) == BlockResult()


def test_arrow_types_of_rows() -> None:
    """Rows have the Arrow types Iceberg's files have: microseconds, UTC, 16-byte uuids."""
    columns = {"t": "timestamptz", "u": "uuid", "d": "decimal(9, 2)", "i": "int"}
    result = run(columns, [{"t": "2024-01-04T00:00:00Z", "u": "2b3c0d5e-0000-4000-8000-0123456789ab", "d": 1, "i": 1}])
    kinds = [pa.timestamp("us", "UTC"), pa.uuid(), pa.decimal128(9, 2), pa.int32()]
    assert result.rows["ns.t"].schema.types == kinds


def test_tables_of_one_schema_are_converted_together_and_apart() -> None:
    """Rows of many tables that share a schema, of tables with another one, and records that fail among them, land as if
    each had been judged alone."""
    rules = [RouteRule("ns.t_{kind}")]
    values: list[object] = []
    for i in range(400):
        record: dict[str, object] = {"kind": i * 7 % 23, "a": i, "b": f"text {i}"}
        if i % 31 == 0:
            record["a"] = "no number"
        if i % 37 == 0:
            record["unknown"] = i
        values.append(record)
    columns: dict[str, str | object] = {"kind": "long", "a": "long", "b": "string"}
    for unknown in (EvolveMode.EVOLVE, EvolveMode.DISCARD_VALUE):
        tables = {
            f"ns.t_{n}": target(
                f"ns.t_{n}", columns | ({"c": "double"} if n % 5 == 0 else {}), table_policy=policy(columns=unknown)
            )
            for n in range(20)
        }
        records = block(values)
        together = processed(records, plan(rules), tables)
        same(together, alone(records, plan(rules), tables))
        assert len(together.rows) >= (1 if unknown is EvolveMode.EVOLVE else 20)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([{"a": 1}, {"a": 2}], id="plain"),
        pytest.param([{"a": 1}, {"b": "new"}], id="a new field"),
        pytest.param([{"a": 1}, b"no json", {"a": "x"}, None], id="bad records"),
    ],
)
def test_a_block_is_gone_when_it_is_done(values: list[object]) -> None:
    """Nothing of a block that was processed waits for the collector of cycles: a block holds many megabytes."""
    gc.collect()
    gc.disable()
    try:
        given = block(values)
        gone = weakref.ref(given)
        result = processed(given, plan(), {"ns.t": target(columns={"a": LongType()})})
        del given, result
        assert gone() is None
    finally:
        gc.enable()


def test_a_new_tables_columns_stand_in_the_order_of_first_sight() -> None:
    """Which way a record goes, in columns or alone, is not seen in the order of the columns that it brings."""
    odd = {"l": [{"v": "1"}, {"v": 1}], "second": 2, "third": 3}
    plain = {"l": [{"v": "1"}], "third": 3}
    for values in ([odd, plain], [odd, plain, odd]):
        result = run_missing(values)
        assert list(fields(result)) == ["l", "second", "third"]


@pytest.mark.parametrize(
    ("odd", "unsorted"),
    [
        ([], True),
        ([{"k": "a", "n": "no number"}], True),  # a dead letter has no rows
        ([{"k": "a", "n": 2.0}], False),  # judged by itself: its table has other rows, too
        ([{"k": "a", "n": 2, "new": 1}], False),  # a table must change first
        ([{"k": "unknown", "n": 2}], False),  # a table must be made first
        ([{"k": "other", "n": 2}], False),  # a table of other columns
    ],
)
def test_rows_of_tables_that_are_alike_are_given_unsorted_where_nothing_else_is_to_be_said(
    odd: list[object], unsorted: bool
) -> None:
    """Rows come for several tables at once only where that is asked for, and no table of the block needs more than its
    rows."""
    columns: dict[str, object] = {"k": "string", "n": "long"}
    tables = {f"ns.{name}": target(f"ns.{name}", columns=columns) for name in ("a", "b")}
    tables["ns.other"] = target("ns.other", columns={**columns, "more": "string"})
    pipeline = plan(rules=[RouteRule("ns.{k}")], allow=["ns.*"])
    records = block([{"k": "b", "n": 1}, {"k": "a", "n": 1}, *odd, {"k": "a", "n": 3}, {"k": "b", "n": 3}])
    result = processed(records, pipeline, tables)
    assert result.alike == []
    asked = process_block(records, pipeline, tables, encode=True, scatter=True)
    assert bool(asked.alike) is unsorted
    if unsorted:
        (alike,) = asked.alike
        assert alike.tables == ("ns.b", "ns.a")
        assert alike.rows["n"].to_pylist() == [1, 1, 3, 3]
        assert asked.rows == {}


@pytest.mark.parametrize("places", [[0, 0, 1], [0, 1, 1]], ids=str)
def test_a_record_that_is_in_a_table_twice_is_refused(places: list[int]) -> None:
    """Invariant 8: one record lost and another written twice are no sum that holds."""
    state = BlockState(block([{"a": 1}, {"a": 2}, {"a": 3}]), BlockTables(plan(), {}))
    rows = pa.table({"a": pa.array(places)})
    state.rows.add(rows_of("ns.t"), np.array(places), rows)
    with pytest.raises(AccountingError, match=r"in ns\.t more than once"):
        state.result()


def test_a_record_that_is_written_and_failed_is_refused() -> None:
    """Invariant 8: a record is in exactly one of the counts, whatever their sum is."""
    state = BlockState(block([{"a": 1}, {"a": 2}]), BlockTables(plan(), {}))
    state.rows.add(rows_of("ns.t"), np.array([0]), pa.table({"a": pa.array([1])}))
    state.fail(0, RecordFailure("convert", "FLOE-D301", "wrong"))
    with pytest.raises(AccountingError, match=r"offset 0 .* both written and a failure"):
        state.result()
