"""Columns that tables are made with, compared with what `source.schema` declares."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.config.in_memory import load

DECLARED = ("order_id", "created_at", "customer", "region")
_SCHEMA = "{order_id: long, created_at: timestamptz, customer: string, region: string}"
_SOURCE = f"source: {{kafka: {{topics: [orders]}}, schema: {_SCHEMA}}}"
PLACES = {
    "partition": "tables: {defaults: {create: {partition_by: ['bucket(4, %s)']}}}",
    "sort": "tables: {defaults: {create: {sort_by: ['%s desc']}}}",
    "identifier": "tables: {defaults: {create: {identifier_fields: ['%s']}}}",
    "key": "tables: {defaults: {write: {mode: upsert, key: ['%s']}}}",
    "override": "tables: {overrides: [{match: shop.orders, create: {sort_by: ['%s']}}]}",
}


def codes(place: str, column: str) -> list[str]:
    return [found.code for found in load(f"{_SOURCE}\n{PLACES[place] % column}").diagnostics]


@st.composite
def slips(draw: st.DrawFn) -> str:
    """A declared column with one letter left out, added, replaced, or swapped with the next."""
    column = draw(st.sampled_from(DECLARED))
    at, letter = draw(st.integers(1, len(column) - 2)), draw(st.sampled_from(string.ascii_lowercase))
    return draw(
        st.sampled_from(
            (
                column[:at] + column[at + 1 :],
                column[:at] + letter + column[at:],
                column[:at] + letter + column[at + 1 :],
                column[:at] + column[at + 1] + column[at] + column[at + 2 :],
            )
        )
    )


@given(slips(), st.sampled_from(sorted(PLACES)))
def test_one_wrong_letter_is_found(column: str, place: str) -> None:
    """A slip in the name of a declared column is told wherever a table is made with the column."""
    assume(column not in DECLARED)

    assert "FLOE-C414" in codes(place, column)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("column", [*DECLARED, "Order_ID", "total", "order", "shipped_at"])
def test_other_columns_are_not_mistakes(place: str, column: str) -> None:
    """Records may bring columns that the file does not declare; only what looks like a slip is told."""
    assert codes(place, column) == []


def test_digits_tell_columns_apart() -> None:
    """`line1` and `line2` are two columns, and neither is a slip of the other."""
    source = "source: {kafka: {topics: [orders]}, schema: {line1: string}}"
    result = load(f"{source}\ntables: {{defaults: {{create: {{sort_by: [line2, line10]}}}}}}")

    assert result.diagnostics == ()


@pytest.mark.parametrize("of_time", ["year", "month", "day", "hour"])
def test_times_in_json_are_declared(of_time: str) -> None:
    """A part of a time cannot be taken of a field of plain JSON that the file does not declare, whether or not it
    declares others."""
    create = f"tables: {{defaults: {{create: {{partition_by: ['{of_time}(shipped_at)']}}}}}}"

    assert [found.code for found in load(f"{_SOURCE}\n{create}").diagnostics] == ["FLOE-C414"]
    assert [found.code for found in load(create).diagnostics] == ["FLOE-C414"]


def test_formats_with_a_schema_bring_their_times() -> None:
    """Avro and protobuf know times, so nothing is said of a column that only the schema has."""
    source = _SOURCE.replace("{kafka:", "{format: {type: avro, registry: main}, kafka:")
    create = "tables: {defaults: {create: {partition_by: ['day(shipped_at)']}}}"

    assert "FLOE-C414" not in [found.code for found in load(f"{source}\n{create}").diagnostics]
