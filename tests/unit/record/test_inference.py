"""What tables become by what records show, wherever one batch ends and the next begins."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.spec import FieldHint, TablePolicy, ValuesPolicy, WholeNumbers
from framework.testing.tables import MemoryTables
from tests import real_records
from tests.record_samples import block, plan, processed


class Landed:
    """The table, rows and dead letters of some batches, by offset."""

    def __init__(self, batches: Sequence[Sequence[object]], policy: TablePolicy | None = None) -> None:
        made = plan(defaults=policy or TablePolicy())
        tables = MemoryTables(made, ())
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
    return [_shape(kind["element"])]


def _full(row: Any, columns: Any) -> Any:
    """The row with null for columns that came later, at any depth."""
    if isinstance(columns, dict) and isinstance(row, dict):
        return {name: _full(row.get(name), kind) for name, kind in columns.items()}
    if isinstance(columns, list) and isinstance(row, list):
        return [_full(item, columns[0]) for item in row]
    return row


VALUES = st.recursive(
    st.sampled_from([None, 1, 7, -2, 1.5, 0.1, 2**53 + 1, 2**53, 2**63, 2**64 + 1, "x", "12", "007", True, 1e300]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3), min_size=1, max_size=6)


@settings(max_examples=400, deadline=None)
@given(RECORDS, st.lists(st.integers(0, 6), max_size=3), st.sampled_from(list(WholeNumbers)))
def test_it_makes_no_difference_where_a_batch_ends(
    records: list[dict[str, object]], cuts: list[int], wholes: WholeNumbers
) -> None:
    """One batch and any others of the same records give the same columns and refuse the same records."""
    policy = TablePolicy(values=ValuesPolicy(whole_numbers=wholes))
    # A table needs a first column; a record without any value asks for none.
    records = [{"id": True}, *records]
    at = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    parts = [records[first:last] for first, last in pairwise(at)]
    whole, divided = Landed([records], policy), Landed(parts, policy)
    assert dict(whole.columns) == dict(divided.columns)
    # Of two faults of one record the one in the column that came first is told.
    assert [offset for offset, _ in whole.letters] == [offset for offset, _ in divided.letters]


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


def test_a_table_of_refused_records_is_not_made() -> None:
    """Where all records of a new table are refused, there is no table."""
    made = plan(defaults=TablePolicy(), hints=[FieldHint("at", "timestamptz")])
    tables = MemoryTables(made, ())
    result = processed(block([{"at": "noon"}, {"at": "later", "x": 1}]), made, tables.targets)
    assert not result.needs
    assert [letter.code for letter in result.dead_letters] == ["FLOE-D304"] * 2
