"""Rows that do not fit into memory at once come in the table's order all the same."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from framework.adapters.parquet.sorting.external import sorted_pieces
from framework.adapters.parquet.sorting.in_memory import sorted_rows

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "price", DoubleType(), required=False),
    NestedField(3, "place", StructType(NestedField(4, "city", StringType(), required=False)), required=False),
)
ARROW = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("place", pa.struct([("city", pa.string())]))])


def by(*fields: tuple[int, Transform[Any, Any], SortDirection, NullOrder]) -> SortOrder:
    return SortOrder(
        *(
            SortField(source_id=each, transform=transform, direction=direction, null_order=nulls)
            for each, transform, direction, nulls in fields
        ),
        order_id=1,
    )


ORDERS = st.lists(
    st.tuples(
        st.sampled_from([(2, IdentityTransform()), (4, IdentityTransform()), (4, TruncateTransform(1)),
                         (4, BucketTransform(3))]),
        st.sampled_from(list(SortDirection)),
        st.sampled_from(list(NullOrder)),
    ),
    min_size=1,
    max_size=3,
).map(lambda found: by(*((*field, direction, nulls) for field, direction, nulls in found)))  # fmt: skip
PRICES = st.sampled_from([None, math.nan, -math.inf, -1.0, 0.0, 1.0, 2.0])
PLACES = st.sampled_from([None, {"city": None}, {"city": "a"}, {"city": "ab"}, {"city": "b"}])


@settings(max_examples=60, deadline=None)
@given(
    order=ORDERS,
    pieces=st.lists(st.lists(st.tuples(PRICES, PLACES), max_size=30), max_size=12),
    bounds=st.tuples(st.sampled_from([40, 200, 900]), st.sampled_from([1, 100, 600]), st.sampled_from([20, 60, 200])),
)
def test_the_order_is_that_of_a_sort_in_memory(
    order: SortOrder,
    pieces: list[list[tuple[float | None, dict[str, str | None] | None]]],
    bounds: tuple[int, int, int],
) -> None:
    """Whatever the order and the bounds of memory, rows come as one stable sort of all of them gives them."""
    number = iter(range(10_000))
    tables = [
        pa.Table.from_pylist(
            [{"id": next(number), "price": price, "place": place} for price, place in piece], schema=ARROW
        )
        for piece in pieces
    ]
    found = list(sorted_pieces(tables, order, SCHEMA, *bounds))
    together = pa.concat_tables([ARROW.empty_table(), *tables])
    wanted = sorted_rows(together, order, SCHEMA)["id"].to_pylist()
    assert [each for table in found for each in table["id"].to_pylist()] == wanted
    assert all(table.schema == ARROW for table in found)


def test_memory_is_bounded_however_many_rows_there_are() -> None:
    """What is held is a run while it is sorted, and then what is merged: 13 MB of rows pass through 4 MB."""
    order = by((2, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST))
    before = pa.total_allocated_bytes()
    held: list[int] = []

    def pieces() -> Iterator[pa.Table]:
        for number in range(40):
            prices = np.arange(20_000) * 7919 % 10_007 + number / 41
            held.append(pa.total_allocated_bytes() - before)
            yield pa.table({"id": pa.array(range(20_000)), "price": prices, "place": pa.nulls(20_000, ARROW[2].type)})

    last, rows = -math.inf, 0
    for piece in sorted_pieces(pieces(), order, SCHEMA, 1 << 20, 1 << 18, 1 << 15):
        held.append(pa.total_allocated_bytes() - before)
        rows += len(piece)
        assert piece["price"][0].as_py() >= last
        last = piece["price"][-1].as_py()
    assert rows == 800_000
    assert max(held) < 4 << 20


def test_nothing_is_left_in_the_temporary_folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sort puts aside has no name, so nothing of it outlives the process, also one that is killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    order = by((2, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST))
    rows = pa.table({"id": pa.array(range(999)), "price": pa.array([1.0] * 999), "place": pa.nulls(999, ARROW[2].type)})
    for _ in sorted_pieces([rows, rows], order, SCHEMA, 1000, 100, 100):
        assert os.listdir(str(tmp_path)) == []
