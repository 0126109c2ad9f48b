"""A part of a column has the values of that part, whoever makes lists, maps and structs of it anew.

Rows are cut wherever a partition, a table or a file begins, so each of these is given slices in any run.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.parquet.files import TableWriter, relabel
from framework.record.fit.parse_plan import project
from framework.record.rows.dictionary_text import plain
from framework.table.columns.new_fields import FieldIds, build_type
from framework.table.schema.types import declared_type
from testbed.record_samples import block, plan, policy, target
from tests.unit.record.test_keyed_rows import JSON_WAYS, keyed

LEAVES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-5, 5),
    pa.string(): st.sampled_from(["", "a", "é", "long enough to be kept apart"]),
    pa.date32(): st.dates(date(1969, 1, 1), date(1971, 1, 1)),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5]),
}
Column = tuple[pa.DataType, st.SearchStrategy[Any]]


@st.composite
def columns(draw: st.DrawFn, depth: int = 3) -> Column:
    """A type and its values; everything but the keys of maps may be null."""
    kind = draw(st.sampled_from(["leaf", "list", "map", "struct"])) if depth else "leaf"
    if kind == "leaf":
        leaf = draw(st.sampled_from(list(LEAVES)))
        return leaf, st.none() | LEAVES[leaf]
    if kind == "struct":
        children = {name: draw(columns(depth - 1)) for name in "ab"[: draw(st.integers(1, 2))]}
        found = st.fixed_dictionaries({name: values for name, (_, values) in children.items()})
        return pa.struct([(name, type_) for name, (type_, _) in children.items()]), st.none() | found
    inner, values = draw(columns(depth - 1))
    if kind == "list":
        return pa.list_(inner), st.none() | st.lists(values, max_size=3)
    entries = st.lists(st.tuples(LEAVES[pa.string()], values), max_size=3, unique_by=lambda entry: entry[0])
    return pa.map_(pa.string(), inner), st.none() | entries


def renamed(kind: pa.DataType) -> pa.DataType:
    """The same type with other names inside, as Iceberg gives them, at every depth."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f"{field.name}_", renamed(field.type), metadata={"id": "1"}) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.field("k", kind.key_type, nullable=False), pa.field("v", renamed(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", renamed(kind.value_type)))
    return kind


def reported(values: Any) -> Any:
    """Values without the names of their fields."""
    if isinstance(values, dict):
        return ["struct", *(reported(each) for each in values.values())]
    return [reported(each) for each in values] if isinstance(values, (list, tuple)) else repr(values)


@given(columns(), st.data())
def test_names_inside_change_and_values_do_not(column: Column, data: st.DataObject) -> None:
    """A file's own names are put on any part of a column of any type."""
    kind, values = column
    rows = data.draw(st.lists(values, max_size=8))
    first = data.draw(st.integers(0, len(rows)))
    part = pa.array(rows, kind).slice(first, data.draw(st.integers(0, len(rows))))
    found = relabel(part, renamed(kind))
    found.validate(full=True)
    assert found.type == renamed(kind)
    assert reported(found.to_pylist()) == reported(part.to_pylist())


@given(st.data())
def test_children_that_are_not_wanted_go_and_values_stay(data: st.DataObject) -> None:
    """Fields that Arrow found inside of structs and lists are left out of any part of a column."""
    inner = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.string())])
    wanted = pa.list_(pa.struct([("a", pa.list_(pa.int64()))]))
    value = st.none() | st.fixed_dictionaries({
        "a": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3), "b": st.none() | st.just("b"),
    })  # fmt: skip
    rows = data.draw(st.lists(st.none() | st.lists(value, max_size=3), max_size=8))
    first = data.draw(st.integers(0, len(rows)))
    part = pa.array(rows, pa.list_(inner)).slice(first, data.draw(st.integers(0, len(rows))))
    found = project(part, wanted)
    found.validate(full=True)
    left = [each and [one and {"a": one["a"]} for one in each] for each in part.to_pylist()]
    assert found.to_pylist() == left


@given(st.data())
def test_encoded_lists_are_the_same_plain(data: st.DataObject) -> None:
    """Text in lists that is kept as places in a dictionary is the same text plain, of any part of a column."""
    rows = data.draw(
        st.lists(st.none() | st.lists(st.none() | st.sampled_from(["a", "", "b"]), max_size=3), max_size=8)
    )
    whole = pa.array(rows, pa.list_(pa.string()))
    mask = whole.is_null() if whole.null_count else None
    encoded = pa.ListArray.from_arrays(whole.offsets, whole.values.dictionary_encode(), mask=mask)
    first = data.draw(st.integers(0, len(rows)))
    part = encoded.slice(first, data.draw(st.integers(0, len(rows))))
    found = plain(part)
    found.validate(full=True)
    assert found.to_pylist() == whole.slice(first, len(part)).to_pylist()


NOTHING = (
    "",
    ',"v":null',
    ',"v":[]',
    ',"v":{}',
    ',"v":[null]',
    ',"v":[{}]',
    ',"v":[[]]',
    ',"v":{"a":null}',
    ',"v":{"a":[]}',
)
OF_UUIDS = (
    "list<uuid>", "map<string, uuid>", "struct<a: uuid>", "list<struct<a: uuid>>", "list<list<struct<a: uuid>>>",
    "list<map<string, uuid>>", "map<string, list<uuid>>", "map<string, struct<a: uuid>>", "struct<a: list<struct<b: uuid>>>",
)  # fmt: skip


@pytest.mark.parametrize("way", JSON_WAYS)
@pytest.mark.parametrize("kind", OF_UUIDS)
def test_rows_without_any_value_of_a_column_are_written(tmp_path: Path, way: str, kind: str) -> None:
    """Arrow builds no empty array of some types: a file whose lists are all null, absent or empty stops nobody."""
    columns = {"id": "long", "v": build_type(declared_type(kind), FieldIds(10))}
    for made, nothing in product((policy(), keyed()), NOTHING):
        table = replace(target(columns=columns, table_policy=made), location=f"file://{tmp_path}")
        records = block([f'{{"id":{number}{nothing}}}'.encode() for number in range(3)])
        found = JSON_WAYS[way](records, plan(defaults=made), {table.name: table})
        rows = [*found.rows.values(), *(each.upserts for each in found.keyed.values())]
        written = 0
        for each in rows:
            writer = TableWriter({"default": {}}, "p", "run", 1, 1 << 28, 1 << 28)
            writer.add(table, each)
            written += sum(file.record_count for file in writer.finish()[table.name])
        assert written + len(found.dead_letters) == 3
