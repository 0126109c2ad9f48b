"""A new table is made by what its records are, not by the one that is odd: its neighbours are rows, wherever it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.config.spec import (
    CreatePolicy,
    PartitionFieldSpec,
    SortFieldSpec,
    TablePolicy,
    WriteMode,
    WritePolicy,
)
from framework.record.formats.wire import NO_SCHEMAS
from framework.record.model import BlockResult
from framework.record.process import process_block
from framework.table.changes import CreateTable
from framework.table.create import plan_create
from testbed.record_samples import block, plan, policy, target

# What a column is made of, by policy: the table's policy, a record's field, and values that cannot be in such a column.
MADE_BY: dict[str, tuple[TablePolicy, list[Any]]] = {
    "a key": (replace(policy(), write=WritePolicy(WriteMode.UPSERT, key=("id",))), [2.5, 1e300, {"a": 1}, [1]]),
    "an identifier": (replace(policy(), create=CreatePolicy(identifier_fields=("id",))), [2.5, {"a": 1}, [1], []]),
    "a bucket": (
        replace(policy(), create=CreatePolicy(partition_by=(PartitionFieldSpec("id", "bucket", 4),))),
        [2.5, {"a": 1}, [1]],
    ),
    "a partition": (replace(policy(), create=CreatePolicy(partition_by=(PartitionFieldSpec("id"),))), [{"a": 1}, [1]]),
    "an order": (
        replace(policy(), create=CreatePolicy(sort_by=(SortFieldSpec(PartitionFieldSpec("id")),))),
        [{"a": 1}, [1]],
    ),
    "what is newer": (
        replace(policy(), write=WritePolicy(WriteMode.UPSERT, key=("name",), order_field="id")),
        [2.5, {"a": 1}, [1]],
    ),
}


def landed(made_by: TablePolicy, values: list[Any]) -> BlockResult:
    """What becomes of the first records of a table."""
    pipeline = plan(defaults=made_by)
    need = process_block(block(values), pipeline, {}, NO_SCHEMAS).needs["ns.t"]
    created = plan_create(need, made_by, (), ())
    assert isinstance(created, CreateTable), created
    table = replace(target(table_policy=made_by), schema_json=created.schema_json)
    return process_block(block(values), pipeline, {"ns.t": table}, NO_SCHEMAS)


@pytest.mark.parametrize("place", MADE_BY)
@given(st.data())
def test_a_record_that_cannot_be_in_the_column_is_refused_alone(place: str, data: st.DataObject) -> None:
    """Floats where none may be, lists and objects, before, between or behind the others: one dead letter each."""
    made_by, odd = MADE_BY[place]
    good = [{"id": number, "name": f"n{number}"} for number in range(data.draw(st.integers(1, 4)))]
    bad = [
        {"id": value, "name": f"odd{n}"}
        for n, value in enumerate(data.draw(st.lists(st.sampled_from(odd), max_size=3)))
    ]
    values = data.draw(st.permutations([*good, *bad]))

    result = landed(made_by, values)

    assert sorted(letter.offset for letter in result.dead_letters) == [n for n, v in enumerate(values) if v in bad]
    assert not result.needs


@pytest.mark.parametrize("column", ["customer.id", "Customer.ID"])
def test_what_stands_around_a_key_is_an_object(column: str) -> None:
    """A record in which it is something else is refused alone, also as the first."""
    made_by = replace(policy(), create=CreatePolicy(identifier_fields=(column,)))
    result = landed(made_by, [{"customer": 5}, {"customer": {"id": 1}}, {"customer": [1]}, {"customer": {"id": 2}}])

    assert [letter.offset for letter in result.dead_letters] == [0, 2]


def test_whole_numbers_are_a_key_without_a_word() -> None:
    """As identifiers they are: JSON's numbers are doubles where nothing else is said, and no double is a key."""
    result = landed(MADE_BY["a key"][0], [{"id": 1, "n": 1}, {"id": 2, "n": 2}])

    assert result.dead_letters == []
