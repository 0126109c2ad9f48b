"""Two rows have the same words exactly where all their values are the same, and sums of words find what differs."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.ops.compare.row_words import row_words
from framework.ops.compare.sums import BucketSums, buckets_of, chosen, differing

MAP = pa.map_(pa.string(), pa.int64())
NUMBERS = st.none() | st.integers(-3, 3)
TEXTS = st.none() | st.sampled_from(["", "a", "b", "aa", "\x00", "é"])
DOUBLES = st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): NUMBERS,
    pa.bool_(): st.none() | st.booleans(),
    pa.string(): TEXTS,
    pa.binary(): st.none() | st.sampled_from([b"", b"\x00", b"a"]),
    pa.binary(2): st.none() | st.sampled_from([b"\x00\x00", b"ab"]),
    pa.float64(): DOUBLES,
    pa.decimal128(9, 2): st.none() | st.sampled_from([Decimal("0.00"), Decimal("-1.25")]),
    pa.date32(): NUMBERS,
    pa.timestamp("us", "UTC"): NUMBERS,
    pa.list_(pa.int64()): st.none() | st.lists(NUMBERS, max_size=2),
    pa.list_(pa.list_(pa.string())): st.none() | st.lists(st.none() | st.lists(TEXTS, max_size=2), max_size=2),
    pa.struct([("a", pa.int64()), ("b", pa.string())]): st.none() | st.fixed_dictionaries({"a": NUMBERS, "b": TEXTS}),
    pa.map_(pa.string(), pa.int64()): st.none() | st.dictionaries(st.sampled_from(["", "a", "b"]), NUMBERS, max_size=3),
    pa.list_(pa.struct([("a", pa.float64())])): st.none() | st.lists(
        st.none() | st.fixed_dictionaries({"a": DOUBLES}), max_size=2
    ),
}  # fmt: skip


def canonical(value: Any) -> str:
    """A value as text, the same for equal values alone."""
    if isinstance(value, dict):
        return f"{{{sorted((canonical(key), canonical(each)) for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value + 0.0).hex()  # -0.0 is 0.0
    return f"{type(value).__name__} {value!r}"


def words(columns: Sequence[pa.Array]) -> list[tuple[int, int]]:
    found = row_words(columns)
    return list(zip(found.high.tolist(), found.low.tolist(), strict=True))


def array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    given = [list(each.items()) if isinstance(each, dict) and pa.types.is_map(kind) else each for each in values]
    return pa.array(given, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_words_are_equal_where_values_are(kind: pa.DataType) -> None:
    """Of every type, nulls and nested nulls too; a part of a column, and one under other neighbours, says the same."""

    @given(st.lists(KINDS[kind], min_size=1, max_size=8), st.data())
    def holds(values: list[Any], data: st.DataObject) -> None:
        first = data.draw(st.integers(0, len(values) - 1))
        found = words([array(kind, values)])
        assert words([array(kind, values).slice(first)]) == found[first:]
        texts = [canonical(value) for value in values]
        for at, text in enumerate(texts):
            assert [each == found[at] for each in found] == [other == text for other in texts]

    holds()


def test_words_do_not_depend_on_widths() -> None:
    """A number is the same in `int` and `long`, in `float` and `double`, under another precision, as dictionary or not;
    fields of a struct and entries of a map have no order."""
    for left, right in (
        (pa.array([1, None], pa.int32()), pa.array([1, None], pa.int64())),
        (pa.array([1.5, None], pa.float32()), pa.array([1.5, None], pa.float64())),
        (pa.array([Decimal("1.25")], pa.decimal128(9, 2)), pa.array([Decimal("1.25")], pa.decimal128(30, 2))),
        (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()),
        (pa.array(["a", None]), pa.array(["a", None], pa.large_string())),
        (
            pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())])),
            pa.array([{"b": "x", "a": 1}], pa.struct([("b", pa.string()), ("a", pa.int64())])),
        ),
        (array(MAP, [{"a": 1, "b": 2}]), array(MAP, [{"b": 2, "a": 1}])),
    ):  # fmt: skip
        assert words([left]) == words([right])


def test_values_do_not_run_into_each_other() -> None:
    """Two columns are two columns, whatever stands at their edges, and more than 62 are distinguished, too."""
    assert words([pa.array(["ab"]), pa.array(["c"])]) != words([pa.array(["a"]), pa.array(["bc"])])
    assert words([pa.array([None], pa.string()), pa.array(["x"])]) != words(
        [pa.array(["x"]), pa.array([None], pa.string())]
    )
    many = [pa.array([0], pa.int64()) for _ in range(130)]
    for place in (0, 61, 62, 129):
        other = [*many[:place], pa.array([None], pa.int64()), *many[place + 1 :]]
        assert words(other) != words(many)


ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=12)


@given(ROWS, ROWS)
def test_what_differs_is_what_a_count_says(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    """Rows with a key and a value, some of them twice: missing, extra and changed ones are those of a multiset's
    difference, and sums are equal exactly where that is empty."""

    def side(rows: list[tuple[int, int]]) -> tuple[Any, Any]:
        keys, values = (pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1))
        return row_words([keys]), row_words([keys, values])

    (left_keys, left_rows), (right_keys, right_rows) = side(left), side(right)
    sums = [BucketSums(), BucketSums()]
    sums[0].add(buckets_of(left_keys), left_rows)
    for at in range(len(right)):  # one by one, the other way round
        some = np.array([len(right) - 1 - at])
        sums[1].add(buckets_of(right_keys.take(some)), right_rows.take(some))
    fewer, more = Counter(left) - Counter(right), Counter(right) - Counter(left)
    assert bool(sums[0].differing(sums[1]).any()) == bool(fewer or more)
    found = differing((left_keys, left_rows), (right_keys, right_rows))
    both = {key for key, _ in fewer} & {key for key, _ in more}

    def counted(rows: list[tuple[int, int]], numbers: Any) -> Counter[tuple[int, int]]:
        return Counter(rows[number] for number in numbers)

    assert counted(left, found.missing) == Counter(row for row in fewer.elements() if row[0] not in both)
    assert counted(right, found.extra) == Counter(row for row in more.elements() if row[0] not in both)
    assert counted(left, found.changed_left) == Counter(row for row in fewer.elements() if row[0] in both)
    assert counted(right, found.changed_right) == Counter(row for row in more.elements() if row[0] in both)


def test_only_so_many_rows_are_looked_at() -> None:
    """At least one bucket is, however large; and whether these are all that differ is said."""
    left, right = BucketSums(), BucketSums()
    rows = row_words([pa.array(range(1000), pa.int64())])
    left.add(buckets_of(rows), rows)
    every, is_all = chosen(left, right, 2_000)
    assert (int(left.rows[every].sum()), is_all) == (1000, True)
    some, is_all = chosen(left, right, 100)
    assert 1 <= int(left.rows[some].sum()) <= 100
    assert not is_all
    one, is_all = chosen(left, right, 0)
    assert (int(one.sum()), is_all) == (1, False)
    assert json.dumps(int(left.count)) == "1000"
