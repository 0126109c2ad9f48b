"""Which columns of a Parquet file get a dictionary."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq

from framework.adapters.parquet.encoding import FILES_PER_LOOK, SampledDictionaries, dictionary_columns, frugal


def table(rows: int) -> pa.Table:
    chance = random.Random(7)
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "store": pa.array([i % 20 for i in range(rows)], pa.int32()),
            "name": pa.array([f"name {i}" for i in range(rows)]),
            "kind": pa.array([chance.choice(["a", "b", None]) for _ in range(rows)]),
            "nothing": pa.nulls(rows, pa.string()),
            "inner": pa.array([{"unique": i / 7, "tags": ["x", "y"]} for i in range(rows)]),
            "map": pa.array([[("key", i)] for i in range(rows)], pa.map_(pa.string(), pa.int64())),
            "uuid": pa.array([i.to_bytes(16, "big") for i in range(rows)], pa.uuid()),
        }
    )


def test_a_dictionary_is_made_where_values_repeat() -> None:
    """Columns with few values get a dictionary, at any depth; columns that never repeat, or have no value, get none."""
    rows = table(5000)
    assert dictionary_columns(rows) == ["store", "kind", "inner.tags.list.element", "map.key_value.key"]
    assert dictionary_columns(rows.slice(0, 0)) == []


def test_one_file_in_some_is_looked_at() -> None:
    """The files after one that was looked at are written as it was; then, or where a file tells much more, one is
    looked at again."""
    rows = table(5000)
    unlike = rows.set_column(1, "store", rows["id"])
    sampled = SampledDictionaries()
    assert sampled.columns(rows) == dictionary_columns(rows)
    assert [sampled.columns(unlike) for _ in range(FILES_PER_LOOK - 1)] == [dictionary_columns(rows)] * (
        FILES_PER_LOOK - 1
    )
    assert sampled.columns(unlike) == dictionary_columns(unlike) != dictionary_columns(rows)
    small = SampledDictionaries()
    assert small.columns(rows.slice(0, 5)) != dictionary_columns(rows)
    assert small.columns(rows) == dictionary_columns(rows)


def test_a_dictionary_is_kept_where_it_is_small_for_the_rows() -> None:
    """The dictionary of a file has few words for its rows: one of too many is cut to those that lie between the rows'
    own, or given up; values stay the same."""
    words = pa.array([f"word {i}" for i in range(1000)])

    def column(places: list[int | None]) -> pa.ChunkedArray:
        halves = (places[: len(places) // 2], places[len(places) // 2 :])
        indices = [pa.array(half, pa.int32()) for half in halves]
        return pa.chunked_array([pa.DictionaryArray.from_arrays(half, words) for half in indices])

    def words_kept(given: pa.ChunkedArray) -> int | None:
        kept = frugal(given)
        assert kept.to_pylist() == given.to_pylist()
        return len(kept.chunk(0).dictionary) if pa.types.is_dictionary(kept.type) else None

    assert words_kept(column([i % 1000 for i in range(8000)])) == 1000
    assert words_kept(column([i % 1000 for i in range(4000)])) is None
    assert words_kept(column([7] * 100)) == 1
    assert words_kept(column([990 + i % 10 if i % 3 else None for i in range(100)])) == 10
    assert words_kept(column([0, 999] * 50)) is None
    assert words_kept(column([None] * 10)) is None
    lists = [pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column([0, 1]).combine_chunks())] * 2
    kept = frugal(pa.chunked_array(lists))
    assert kept.type == pa.list_(pa.string())
    assert kept.to_pylist() == [["word 0"], ["word 1"]] * 2
    empty = pa.chunked_array([], pa.dictionary(pa.int32(), pa.string()))
    assert frugal(empty) is empty


def test_encoded_columns_have_a_dictionary_in_the_file() -> None:
    """What comes as a dictionary is written as one, whatever an earlier file had in that column."""
    sampled = SampledDictionaries()
    unlike = pa.table({"a": pa.array([f"{i}" for i in range(100)]), "l": pa.array([[f"{i}"] for i in range(100)])})
    assert sampled.columns(unlike) == []
    words = pa.array(["x"] * 100).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array(range(101), pa.int32()), words)
    assert sampled.columns(pa.table({"a": words, "l": lists})) == ["a", "l.list.element"]


def test_the_paths_are_parquets_own() -> None:
    """Every path names a leaf of the file that is written, and that leaf is written with a dictionary; no other is."""
    rows = table(3000)
    file = io.BytesIO()
    pq.write_table(rows, file, use_dictionary=dictionary_columns(rows))
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    encoded = [c.path_in_schema for c in columns if any("DICTIONARY" in encoding for encoding in c.encodings)]
    assert encoded == dictionary_columns(rows)
    assert pq.read_table(file).equals(rows)
