"""Which columns of a Parquet file get a dictionary."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq

from framework.adapters.parquet_encoding import FILES_PER_LOOK, SampledDictionaries, dictionary_columns


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
    """The files after one that was looked at are written as it was; then, or where a file tells much more, one is looked at
    again."""
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
