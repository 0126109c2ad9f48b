"""Columns of text as places in a dictionary: what the compiled parser gives, and how rows of several blocks come
together."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.record.json import compiled as compiled_json
from framework.record.json.compiled import parse_plain
from framework.record.rows.dictionary_text import (
    held_bytes,
    is_encoded,
    like,
    plain,
    plain_schema,
    plain_table,
    together,
)

needs_compiled = pytest.mark.skipif(
    not compiled_json.available(), reason="no C compiler was there when floe was installed; nothing is encoded"
)
MOST_WORDS, MOST_WORD_BYTES, BLOCKS_PLAIN = 2048, 32768, 16  # as in _json.c
Words = Sequence["str | None"]


def schema_of(name: str) -> pa.Schema:
    """A schema that no other test has: the parser remembers the words of a schema."""
    return pa.schema([(name, pa.string()), ("list " + name, pa.list_(pa.string()))])


def parsed(schema: pa.Schema, words: Words, lists: Sequence[Words | None]) -> pa.Table:
    one, several = schema.names
    documents = [
        json.dumps({one: word, several: items}, ensure_ascii=i % 2 == 0)
        for i, (word, items) in enumerate(zip(words, lists, strict=True))
    ]
    found = parse_plain("\n".join(documents).encode("utf-8", "surrogatepass"), len(documents), schema, encode=True)
    assert found is not None
    assert len(found[1]) == 0
    found[0].validate(full=True)
    return found[0]


WORD = st.none() | st.sampled_from(["", "a", "b", "same", "same eight", "x" * 300]) | st.text(max_size=40)


@needs_compiled
@settings(max_examples=300)
@given(st.lists(st.lists(st.tuples(WORD, st.none() | st.lists(WORD, max_size=4)), min_size=1, max_size=40), max_size=6))
def test_encoded_text_is_the_text(blocks: list[list[tuple[str | None, Words | None]]]) -> None:
    """Whatever words come, block after block with those of the blocks before, each row has its own text, or null."""
    schema = schema_of("any words")
    for rows in blocks:
        words, lists = [word for word, _ in rows], [items for _, items in rows]
        if any(
            "\0" in word or not word.isprintable() for word in [*words, *(i for x in lists for i in x or [])] if word
        ):
            continue  # some of these are Arrow's to parse
        found = plain_table(parsed(schema, words, lists))
        assert found.to_pydict() == dict(zip(schema.names, [words, lists], strict=True))
        assert found.schema.equals(schema)


@needs_compiled
def test_words_of_every_length_are_distinguished() -> None:
    """Two words are one only if all their bytes are: at the beginning, in the middle, at the end, and in their
    length."""
    chance = random.Random(5)
    words: list[str | None] = []
    for length in range(60):
        word = ["a"] * length
        words.append("".join(word))
        for place in range(length):
            words.append("".join([*word[:place], "b", *word[place + 1 :]]))
    chance.shuffle(words)
    words = words[:600]
    for _ in range(3):
        chance.shuffle(words)
        found = parsed(schema_of("lengths"), words, [[word] for word in words])
        assert [is_encoded(column.type) for column in found.columns] == [True, True]
        assert plain_table(found).to_pydict() == {"lengths": words, "list lengths": [[word] for word in words]}


@needs_compiled
@pytest.mark.parametrize("length", [1, 40, MOST_WORD_BYTES + 1])
@pytest.mark.parametrize("before", [0, 1, 3000])
def test_too_many_words_are_given_plain(before: int, length: int) -> None:
    """A column of more words than a dictionary takes is plain from its first row on, nulls among them, and so are the
    blocks that follow; then a dictionary is tried again."""
    schema = schema_of(f"many {before} {length}")
    few: list[str | None] = ["x", None, "y"] * before
    many = [*few, *(f"{i:0{length}}" for i in range(MOST_WORDS + 1 if length <= 40 else 2)), None, "x"]
    found = parsed(schema, many, [None] * len(many))
    assert not is_encoded(found.column(0).type)
    assert found.column(0).to_pylist() == many
    kinds = [is_encoded(parsed(schema, ["x"] * 3, [None] * 3).column(0).type) for _ in range(BLOCKS_PLAIN + 1)]
    assert kinds == [False] * BLOCKS_PLAIN + [True]


@needs_compiled
def test_words_that_change_slowly_stay_encoded() -> None:
    """A column whose words are new ones now and then is encoded for ever; old words are forgotten."""
    schema = schema_of("slowly")
    most = 0
    for number in range(40):
        words = [f"word {number * 50 + i % 200}" for i in range(1000)]
        column = parsed(schema, words, [None] * 1000).column(0).chunk(0)
        assert is_encoded(column.type)
        assert column.to_pylist() == words
        most = max(most, len(column.dictionary))
    assert most <= MOST_WORDS


@needs_compiled
def test_blocks_of_the_same_words_share_their_dictionary() -> None:
    """Where a block has no new word its dictionary is the object of the block before: rows are put together without a
    look."""
    schema = schema_of("shared")
    first = parsed(schema, ["a", "b"], [None] * 2).column(0).chunk(0)
    second = parsed(schema, ["b", "b", "a"], [None] * 3).column(0).chunk(0)
    third = parsed(schema, ["c"], [None]).column(0).chunk(0)
    addresses = [column.dictionary.buffers()[2].address for column in (first, second, third)]
    assert addresses[0] == addresses[1] != addresses[2]
    assert third.dictionary.to_pylist() == ["a", "b", "c"]


@needs_compiled
def test_a_record_that_is_left_out_leaves_no_trace() -> None:
    """The words of a record that is given up half way are in no row."""
    schema = pa.schema([("w", pa.string()), ("n", pa.int64())])
    found = parse_plain(b'{"w":"a","n":1}\n{"w":"b","n":"x"}\n{"w":"c","n":2}', 3, schema, 1, encode=True)
    assert found is not None
    assert (found[0].to_pydict(), found[1].tolist()) == ({"w": ["a", "c"], "n": [1, 2]}, [1])


WORDS = pa.array(["a", None, "b", "a"])
PLAIN = pa.table({"w": WORDS, "l": pa.array([["a", "b"], None, [], ["b"]]), "n": pa.array([1, 2, 3, 4])})
FIELD = pa.field("l", pa.list_(pa.field("element", pa.string(), metadata={"id": "7"})), metadata={"id": "6"})


def encoded(rows: pa.Table) -> pa.Table:
    words, lists = (rows[name].combine_chunks() for name in ("w", "l"))
    elements = lists.flatten().dictionary_encode()
    first = lists.offsets[0]
    offsets = pa.compute.subtract(lists.offsets, first)
    inner = pa.ListArray.from_arrays(offsets, elements, mask=lists.is_null())
    return pa.table({"w": words.dictionary_encode(), "l": inner, "n": rows["n"]})


def test_plain_again() -> None:
    """Decoded, whole or in slices, values and types are those from before; plain columns are left alone."""
    rows = encoded(PLAIN)
    assert [is_encoded(kind) for kind in rows.schema.types] == [True, True, False]
    assert plain_schema(rows.schema).equals(PLAIN.schema)
    for first in range(4):
        for count in range(5 - first):
            assert plain_table(rows.slice(first, count)).equals(PLAIN.slice(first, count))
    assert plain(WORDS) is WORDS
    assert plain_table(PLAIN) is PLAIN


def test_a_field_keeps_its_names_and_ids() -> None:
    """A field for encoded values differs from the table's own in the encoding alone."""
    kind = encoded(PLAIN).schema.field("l").type
    field = like(FIELD, kind)
    assert (field.type.value_field.name, field.type.value_field.metadata) == ("element", {b"id": b"7"})
    assert field.metadata == FIELD.metadata
    assert is_encoded(field.type)
    assert like(FIELD, FIELD.type) is FIELD


def test_rows_of_several_blocks_come_together() -> None:
    """Pieces in which a column is encoded and others in which it is not become one table of all rows, in order; what
    all have encoded stays so, whatever dictionaries they have."""
    other = pa.table({"w": pa.array(["z", "b"]), "l": pa.array([["q"], ["a"]]), "n": pa.array([5, 6])})
    both = pa.concat_tables([PLAIN, other])
    whole = together([encoded(PLAIN), encoded(other)])
    assert [is_encoded(kind) for kind in whole.schema.types] == [True, True, False]
    assert plain_table(whole.combine_chunks()).equals(both.combine_chunks())
    assert plain_table(whole.unify_dictionaries()).equals(both)
    mixed = together([encoded(PLAIN), encoded(other).set_column(1, "l", other["l"]), encoded(PLAIN)])
    assert [is_encoded(kind) for kind in mixed.schema.types] == [True, False, False]
    assert plain_table(mixed).combine_chunks().equals(pa.concat_tables([both, PLAIN]).combine_chunks())


def test_a_dictionary_counts_for_nothing_in_what_rows_hold() -> None:
    """Rows of a thousand tables and more share a dictionary: held bytes are those of the rows alone."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int32()), pa.array(["x" * 5000, "y"]))
    assert held_bytes(pa.table({"w": words})) == 12
    assert held_bytes(pa.table({"l": pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), words)})) == 8 + 12
    assert held_bytes(PLAIN) == PLAIN.nbytes
