"""What tables become by what records show, wherever one batch ends and the next begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from framework.config.spec import (
    EmptyValues,
    EvolveMode,
    EvolvePolicy,
    FieldHint,
    NameCase,
    TablePolicy,
    TextAsNumber,
    ValuesPolicy,
    WholeNumbers,
)
from framework.record.fit.infer_types import observe_value
from framework.record.strict_json import parse_record
from framework.table.in_memory import made_in_memory
from framework.table.schema.types import known_part
from framework.testing.tables import MemoryTables
from testbed.record_samples import block, plan, processed
from tests import real_records


class Landed:
    """The table, rows and dead letters of some batches, by offset."""

    def __init__(
        self, batches: Sequence[Sequence[object]], policy: TablePolicy | None = None, given: Schema | None = None
    ) -> None:
        made = plan(defaults=policy or TablePolicy())
        tables = MemoryTables(made, ())
        if given is not None:
            tables.targets["ns.t"] = made_in_memory("ns.t", given, made.write.tables.defaults)
        self.rows: list[dict[str, Any]] = []
        self.letters: list[tuple[int, str]] = []
        begin = 0
        for batch in batches:
            for _ in range(8):
                routing = replace(made, route=replace(made.route, refused_tables=tables.refused))
                result = processed(block(batch), routing, tables.targets)
                if not result.needs:
                    break
                for need in result.needs.values():
                    tables.satisfy(need)
            assert not result.needs
            self.rows += [row for rows in result.rows.values() for row in rows.to_pylist()]
            self.letters += [(begin + letter.offset, letter.code) for letter in result.dead_letters]
            begin += len(batch)
        fields = json.loads(tables.targets["ns.t"].schema_json)["fields"] if "ns.t" in tables.targets else []
        self.columns = [(field["name"], _shape(field["type"])) for field in fields]


def _shape(kind: Any) -> Any:
    """A type without ids."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return {field["name"]: _shape(field["type"]) for field in kind["fields"]}
    return [_shape(kind["element"])] if kind["type"] == "list" else (kind["key"], _shape(kind["value"]))


def _full(row: Any, columns: Any) -> Any:
    """The row with null for columns that came later, at any depth."""
    if isinstance(columns, dict) and isinstance(row, dict):
        return {name: _full(row.get(name), kind) for name, kind in columns.items()}
    if isinstance(columns, list) and isinstance(row, list):
        return [_full(item, columns[0]) for item in row]
    return row


SCALARS = st.sampled_from(
    [None, 1, 7, -2, 1.5, 0.1, 2**53 + 1, 2**53, 2**63, 2**64 + 1, "x", "12", "007", "1e3", True, 1e300, "2024-01-04"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abA"), inner, max_size=2),
    max_leaves=4,
)
NAMES = ["a", "b", "c", "A", "m", "ms", "ls", "s", "i", "f", "d", "t"]
RECORDS = st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3), min_size=1, max_size=6)
CUTS = st.lists(st.integers(0, 6), max_size=3)
# A table that was there before the first record. It has no `float`: a record beside one that widens it reads as a
# double.
GIVEN = Schema(
    NestedField(1, "id", BooleanType(), required=False),
    NestedField(2, "m", MapType(20, StringType(), 21, LongType(), value_required=False), required=False),
    NestedField(
        3,
        "ms",
        MapType(22, StringType(), 23, StructType(NestedField(24, "a", LongType(), required=False)), False),
        required=False,
    ),
    NestedField(
        4,
        "ls",
        ListType(25, StructType(NestedField(26, "a", DoubleType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(5, "s", StructType(NestedField(27, "a", IntegerType(), required=False)), required=False),
    NestedField(6, "i", IntegerType(), required=False),
    NestedField(7, "f", DoubleType(), required=False),
    NestedField(8, "d", DecimalType(5, 0), required=False),
    NestedField(9, "t", StringType(), required=False),
)
POLICIES = st.builds(
    TablePolicy,
    evolve=st.builds(
        EvolvePolicy,
        columns=st.sampled_from([EvolveMode.EVOLVE, EvolveMode.DISCARD_VALUE, EvolveMode.FREEZE]),
        data_type=st.sampled_from(
            [EvolveMode.WIDEN, EvolveMode.NEW_COLUMN, EvolveMode.DISCARD_VALUE, EvolveMode.FREEZE]
        ),
        otherwise=st.sampled_from([EvolveMode.FREEZE, EvolveMode.DISCARD_VALUE]),
    ),
    case=st.sampled_from(list(NameCase)),
    values=st.builds(
        ValuesPolicy,
        whole_numbers=st.sampled_from(list(WholeNumbers)),
        text_as_number=st.sampled_from(list(TextAsNumber)),
        empty=st.sampled_from(list(EmptyValues)),
    ),
)


def _shows_less(value: object) -> bool:
    """Whether something in the value shows no column. It is null before its column is there, and after it what the
    column makes of it: the text `[]`, a struct of nulls, an error where the policy says so. Only of such values a
    batch's end decides."""
    if isinstance(value, (list, dict)):
        inner = value.values() if isinstance(value, dict) else value
        return known_part(observe_value(parse_record(json.dumps({"v": value}).encode())["v"])) is None or any(
            map(_shows_less, inner)
        )
    return False


def _is_lenient(policy: TablePolicy) -> bool:
    return policy.values.empty is EmptyValues.DISCARD and policy.evolve.data_type is not EvolveMode.FREEZE


def _contradicts_itself(record: dict[str, object], policy: TablePolicy) -> bool:
    """Whether a record does not even fit what it asks for: a list of two kinds, a name twice. It shapes nothing, and is
    judged by the table as its batch leaves it."""
    frozen = replace(policy.evolve, data_type=EvolveMode.FREEZE, otherwise=EvolveMode.FREEZE, columns=EvolveMode.EVOLVE)
    return bool(Landed([[{"id": True}, record]], replace(policy, evolve=frozen)).letters)


def _folded(kind: Any, case: NameCase) -> Any:
    """A shape or a row, with names as the case policy compares them."""
    if isinstance(kind, dict):
        return {
            name.lower() if case is NameCase.INSENSITIVE else name: _folded(item, case) for name, item in kind.items()
        }
    return type(kind)(_folded(item, case) for item in kind) if isinstance(kind, (list, tuple)) else kind


def check_batches(
    records: Sequence[dict[str, object]], cuts: Sequence[int], policy: TablePolicy, given: Schema | None = None
) -> None:
    """The same columns, rows and refused records in one batch as in those that end at the cuts."""
    at = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    parts = [records[first:last] for first, last in pairwise(at)]
    empty = any(_shows_less(value) for record in records for value in record.values())
    if empty and not _is_lenient(policy):
        return
    whole, divided = Landed([records], policy, given), Landed(parts, policy, given)
    if any(_contradicts_itself(record, policy) for record in records):
        return
    columns = _folded(dict(whole.columns), policy.case)
    assert columns == _folded(dict(divided.columns), policy.case)
    # Of two faults of one record the one in the column that came first is told.
    assert [offset for offset, _ in whole.letters] == [offset for offset, _ in divided.letters]
    if empty:
        return
    for one, other in zip(whole.rows, divided.rows, strict=True):
        assert _full(_folded(one, policy.case), columns) == _full(_folded(other, policy.case), columns)


@settings(max_examples=200, deadline=None)
@given(RECORDS, CUTS, POLICIES)
@example(
    [{"b": [18446744073709551617]}, {"a": "007"}, {"a": 1}],
    [2],
    TablePolicy(),
)
def test_it_makes_no_difference_where_a_batch_ends(
    records: list[dict[str, object]], cuts: list[int], policy: TablePolicy
) -> None:
    """One batch and any others of the same records give the same columns and rows, and refuse the same records."""
    # A table needs a first column; a record without any value asks for none. Where columns are frozen, what the first
    # batch shows is what is frozen.
    policy = replace(policy, evolve=replace(policy.evolve, columns=EvolveMode.EVOLVE))
    check_batches([{"id": True}, *records], cuts, policy)


@settings(max_examples=200, deadline=None)
@given(RECORDS, CUTS, POLICIES)
def test_it_makes_no_difference_for_a_table_that_is_there(
    records: list[dict[str, object]], cuts: list[int], policy: TablePolicy
) -> None:
    """The same of a table with maps, lists of structs and narrow columns, whatever its policy says of changes."""
    check_batches(records, cuts, policy, GIVEN)


@pytest.mark.parametrize("name", real_records.data_sets())
def test_real_records_land_one_by_one_and_together(name: str) -> None:
    """Every record of a data set of the world lands, with the value it has, one by one and all together."""
    records = real_records.records(name)[:1500]
    together = Landed([records])
    singly = Landed([[record] for record in records[:150]])
    assert not together.letters
    assert not singly.letters
    columns = dict(together.columns)
    for landed in (together, singly):
        for record, row in zip(records, landed.rows, strict=False):
            assert _full(row, columns) == _full(json.loads(record), columns)


def test_long_where_the_file_says_so_refuses_fractions() -> None:
    """With `whole_numbers: long` what begins whole stays so: the old default, for those who want it."""
    cars = real_records.records("cars.json")
    policy = TablePolicy(values=ValuesPolicy(whole_numbers=WholeNumbers.LONG))
    assert len(Landed([cars], policy).letters) > 100


@pytest.mark.parametrize(
    ("records", "columns", "letters"),
    [
        ([{"v": 1}, {"v": "abc", "new": 1}], {"v"}, [1]),
        ([{"v": 1}, {"v": "abc", "new": {"deep": 1}}, {"v": 2, "other": 1}], {"v", "other"}, [1]),
        ([{"v": 1}, {"v": {"x": 1}, "n": [1]}, {"v": [{"y": 1}]}], {"v"}, [1, 2]),
        ([{"v": {"x": 1}}, {"v": {"x": "abc", "y": 1}}], {"v"}, [1]),
    ],
)
@pytest.mark.parametrize("divided", [False, True])
def test_a_record_that_is_refused_shapes_no_table(
    records: list[object], columns: set[str], letters: list[int], divided: bool
) -> None:
    """A record that becomes a dead letter makes no column, whether its table was there before it or not."""
    landed = Landed([[record] for record in records] if divided else [records])
    assert set(dict(landed.columns)) == columns
    assert [offset for offset, _ in landed.letters] == letters
    if "v" in columns and isinstance(dict(landed.columns)["v"], dict):
        assert set(dict(landed.columns)["v"]) == {"x"}


@pytest.mark.parametrize("more", [0, 30, 600])
def test_many_refused_records_beside_each_other_shape_nothing(more: int) -> None:
    """Not the first refused record decides what a new column is, but the first that lands, however many are refused."""
    refused = [{"v": "x"}] * more
    records: list[object] = [
        {"v": 1},
        {"v": "x", "n": 1},
        *refused[: more // 2],
        {"n": "s"},
        *refused[more // 2 :],
        {"n": 2},
    ]
    if more > 500:
        records.remove({"n": 2})  # where so many are refused, two that take each other's effect back go unseen
    landed = Landed([records])
    assert dict(landed.columns) == {"v": "double", "n": "string"}
    assert len(landed.letters) == more + 1


def test_a_table_of_refused_records_is_not_made() -> None:
    """Where all records of a new table are refused, there is no table."""
    made = plan(defaults=TablePolicy(), hints=[FieldHint("at", "timestamptz")])
    tables = MemoryTables(made, ())
    result = processed(block([{"at": "noon"}, {"at": "later", "x": 1}]), made, tables.targets)
    assert not result.needs
    assert [letter.code for letter in result.dead_letters] == ["FLOE-D304"] * 2
