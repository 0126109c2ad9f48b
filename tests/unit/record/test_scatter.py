"""Rows of many tables put apart: each table gets its own rows, in order, whatever columns they have and however they
come."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.record.model import AlikeRows
from framework.record.rows import scatter
from framework.record.rows.dictionary_text import plain_table
from framework.record.rows.scatter import Scatter, can_scatter

needs_compiled = pytest.mark.skipif(
    not scatter.available(), reason="no C compiler was there when floe was installed; rows are sorted by Arrow"
)
NUMBERS = pa.table({"n": [1]})
TEXTS = ["", "a", "a text", "é😀", "x" * 300]
LEAVES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-1, 7],
    pa.int16(): [-300, 7],
    pa.int32(): [0, -70_000],
    pa.int64(): [0, 1 << 60],
    pa.float32(): [0.5, float("inf")],
    pa.float64(): [-0.0, 1e300],
    pa.date32(): [0, 20_000],
    pa.timestamp("us", "UTC"): [0, 1 << 50],
    pa.decimal128(10, 2): [1, 2],
    pa.decimal256(50, 2): [1, 2],
    pa.binary(3): [b"abc", b"\0\0\0"],
    pa.binary(16): [b"0123456789abcdef"],
    pa.string(): TEXTS,
    pa.binary(): [b"", b"\xff" * 200],
}
leaf = st.sampled_from(list(LEAVES))
nested = st.recursive(
    leaf,
    lambda inner: (
        inner.map(pa.list_)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", k) for i, k in enumerate(kinds)])
        )
        | inner.map(lambda item: pa.map_(pa.string(), item))
    ),
    max_leaves=5,
)


def value(kind: pa.DataType, chance: random.Random, nulls: float) -> Any:
    if chance.random() < nulls:
        return None
    if kind in LEAVES:
        return chance.choice(LEAVES[kind])
    if pa.types.is_list(kind):
        return [value(kind.value_type, chance, nulls) for _ in range(chance.randrange(4))]
    if pa.types.is_map(kind):
        return [(text, value(kind.item_type, chance, nulls)) for text in chance.sample(TEXTS, chance.randrange(4))]
    return {child.name: value(child.type, chance, nulls) for child in kind}


def table(kinds: list[pa.DataType], rows: int, chance: random.Random, nulls: float) -> pa.Table:
    """Rows in several chunks, each cut out of a longer one."""
    pieces = []
    while rows > 0 or not pieces:
        here = chance.randint(1, rows) if rows else 0
        before = chance.randrange(10)
        arrays = [pa.array([value(k, chance, nulls) for _ in range(before + here + 3)], k) for k in kinds]
        pieces.append(pa.table(arrays, [f"c{i}" for i in range(len(kinds))]).slice(before, here))
        rows -= here
    return pa.concat_tables(pieces)


def put_apart(blocks: list[tuple[pa.Table, list[int]]], tables: int) -> list[pa.Table]:
    rows = Scatter(blocks[0][0])
    for block, numbers in blocks:
        assert rows.fits(block)
        rows.add(block, np.array(numbers, np.uint16), tables)
    return [rows.take(number) for number in range(tables)]


@needs_compiled
@settings(max_examples=200, deadline=None)
@given(
    st.lists(nested, min_size=1, max_size=4),
    st.lists(st.integers(0, 60), min_size=1, max_size=4).filter(any),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.3]),
    st.integers(0, 1 << 30),
)
def test_each_table_gets_its_own_rows_in_order(
    kinds: list[pa.DataType], sizes: list[int], tables: int, nulls: float, seed: int
) -> None:
    """What a table gets is what sorting all rows by table gives, for columns of every kind, nested and with nulls."""
    chance = random.Random(seed)
    blocks = [(table(kinds, size, chance, nulls), [chance.randrange(tables) for _ in range(size)]) for size in sizes]
    assert can_scatter(blocks[0][0].schema)
    found = put_apart(blocks, tables)
    all_rows, numbers = pa.concat_tables([block for block, _ in blocks]), [n for _, each in blocks for n in each]
    for number, rows in enumerate(found):
        rows.validate(full=True)
        assert rows.schema.equals(all_rows.schema)
        wanted = all_rows.take(pa.array([i for i, each in enumerate(numbers) if each == number], pa.int64()))
        assert rows.to_pylist() == wanted.to_pylist()


@needs_compiled
def test_many_rows_go_over_many_pages() -> None:
    """Rows of a table are together however many there are, of values that do not divide a page, too, and a second
    time."""
    count, tables = 60_000, 3
    numbers = np.arange(count, dtype=np.uint16) % tables
    text = [None if i % 1000 == 999 else "x" * (i % 90) for i in range(count)]
    rows = pa.table(
        {
            "n": pa.array(range(count), pa.int64()),
            "flag": pa.array([None if i % 7 == 0 else i % 3 == 0 for i in range(count)]),
            "three": pa.array([b"%03d" % (i % 1000) for i in range(count)], pa.binary(3)),
            "text": pa.array(text),
            "list": pa.array([text[i : i + i % 3] for i in range(count)]),
        }
    )
    held = Scatter(rows)
    for _ in range(2):
        held.add(rows, numbers, tables)
        for number in range(tables):
            assert held.take(number).equals(rows.take(pa.array(np.flatnonzero(numbers == number))).combine_chunks())
            assert len(held.take(number)) == 0


@needs_compiled
def test_arrays_without_buffers() -> None:
    """Where there are no values, Arrow may have no memory for them: lists that are all empty."""
    none = pa.Array.from_buffers(pa.int64(), 0, [None, None])
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 0], pa.int32()), none)
    rows = pa.table({"list": lists})
    held = Scatter(rows)
    held.add(rows, np.array([1, 0], np.uint16), 2)
    assert held.take(1).to_pylist() == [{"list": []}]


def encoded(words: list[str], places: list[int | None]) -> pa.Table:
    text = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(words))
    ends = pa.array(range(len(places) + 1), pa.int32())
    return pa.table({"word": text, "list": pa.ListArray.from_arrays(ends, text)})


@needs_compiled
def test_dictionaries_may_grow_and_not_change() -> None:
    """Encoded rows are held with others as long as each place has the word that it had; else they do not fit."""
    held = Scatter(encoded(["a"], [0]))
    held.add(encoded(["a", "b"], [0, 1, None]), np.array([0, 1, 1], np.uint16), 2)
    assert not held.fits(encoded(["a"], [0]))
    assert not held.fits(encoded(["b", "a", "c"], [0]))
    assert not held.fits(plain_table(encoded(["a", "b"], [0])))
    longer = encoded(["a", "b", "c"], [2, 0])
    assert held.fits(longer)
    held.add(longer, np.array([1, 0], np.uint16), 2)
    assert plain_table(held.take(0)).to_pydict() == {"word": ["a", "a"], "list": [["a"], ["a"]]}
    assert plain_table(held.take(1)).to_pydict() == {"word": ["b", None, "c"], "list": [["b"], [None], ["c"]]}


@needs_compiled
@pytest.mark.parametrize(("words", "nbytes"), [(3, 1), (128, 1), (129, 2), (30_000, 2), (40_000, 4)])
def test_places_of_few_words_take_little_memory(words: int, nbytes: int) -> None:
    """Places in a dictionary are held in as few bytes as its words need, with room for more, and given back as they
    came."""
    chance = random.Random(words)
    count, tables = 20_000, 3
    places = [None if chance.random() < 0.1 else chance.randrange(words) for _ in range(count)]
    rows = encoded([f"w{i}" for i in range(words)], places)
    held = Scatter(rows.slice(count - 1))
    # Offsets of lists, and the validity of text and of elements.
    assert held.held_bytes(rows) == pytest.approx(count * (4 + 2 * nbytes + 2 / 8), rel=0.01)
    numbers = np.array([chance.randrange(tables) for _ in range(count)], np.uint16)
    for _ in range(2):
        held.add(rows, numbers, tables)
        for number in range(tables):
            found = held.take(number)
            found.validate(full=True)
            assert found.schema.equals(rows.schema)
            assert found.to_pydict() == rows.take(pa.array(np.flatnonzero(numbers == number))).to_pydict()


@needs_compiled
@pytest.mark.parametrize(("before", "most"), [(1, 256), (200, 65_536)])
def test_more_words_than_there_are_places_for_do_not_fit(before: int, most: int) -> None:
    """A dictionary that has outgrown the places is not taken, so that no place becomes another one."""
    words = [f"w{i}" for i in range(most + 1)]
    held = Scatter(encoded(words[:before], [0]))
    largest = encoded(words[:most], [most - 1])
    assert held.fits(largest)
    held.add(largest, np.zeros(1, np.uint16), 1)
    assert plain_table(held.take(0)).to_pydict() == {"word": [words[most - 1]], "list": [[words[most - 1]]]}
    assert not held.fits(encoded(words, [most]))


@needs_compiled
@pytest.mark.parametrize("kind", [pa.large_string(), pa.null(), pa.dictionary(pa.int8(), pa.string()), pa.uuid()])
def test_columns_that_are_not_known_are_refused(kind: pa.DataType) -> None:
    """Columns of other kinds are not put apart, and that is said beforehand."""
    assert not can_scatter(pa.schema([("known", pa.int64()), ("other", kind)]))


@needs_compiled
def test_a_number_beyond_the_tables_is_an_error() -> None:
    """A row for a table that is not there is refused, and nothing is written where it should not be."""
    held = Scatter(NUMBERS)
    with pytest.raises(IndexError, match="row 1 has slot 2 of 2"):
        held.add(pa.table({"n": [1, 2]}), np.array([1, 2], np.uint16), 2)
    with pytest.raises(IndexError):
        held.take(0)


@needs_compiled
def test_memory_goes_back_when_no_rows_are_held() -> None:
    """Memory is kept for the next rows until it is released, and never while rows are held."""
    module = scatter._module()
    held = Scatter(NUMBERS)
    held.add(pa.table({"n": [1]}), np.zeros(1, np.uint16), 1)
    assert not module.release()
    held.take(0)
    assert module.release()
    held.add(pa.table({"n": [5]}), np.zeros(1, np.uint16), 1)
    assert held.take(0).to_pydict() == {"n": [5]}
    held.add(pa.table({"n": [6]}), np.zeros(1, np.uint16), 1)
    del held
    assert module.release()


def test_rows_are_split_by_table_without_the_compiled_module() -> None:
    """Sorted by Arrow, each table has its own rows in order, and a table without rows is left out."""
    rows = pa.table({"n": list(range(6))})
    alike = AlikeRows(("a", "none", "b"), np.array([2, 0, 2, 2, 0, 2], np.int8), rows)
    found = {name: (places.tolist(), part["n"].to_pylist()) for name, places, part in alike.split()}
    assert found == {"a": ([1, 4], [1, 4]), "b": ([0, 2, 3, 5], [0, 2, 3, 5])}
    assert alike.counts() == [2, 0, 4]
