"""Invariant 12 as a property: nothing that anybody names, and nothing young, is ever an orphan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.adapters.iceberg.files import path_key
from framework.commit.recovery.orphans import StoredFile, inside, sort_out

keys = st.sampled_from(
    [f"/t/data/{n}.parquet" for n in range(6)]
    + ["/t/metadata/m.avro", "/t/data/d.puffin", "/t/metadata/v1.metadata.json"]
)
NOW_MS, AGE_MS = 1_000, 50
modified = st.none() | st.integers(0, 2 * AGE_MS).map(lambda age_ms: NOW_MS - age_ms)
files = st.lists(
    st.builds(StoredFile, st.just("file://x"), keys, st.integers(0, 9), modified), unique_by=lambda f: f.key
)


@given(files, st.frozensets(keys), st.frozensets(keys))
def test_what_is_named_or_young_is_spared(
    found: list[StoredFile], referenced: frozenset[str], announced: frozenset[str]
) -> None:
    """A file is an orphan exactly when it is old, of our kind, and named by nobody; all others are counted as
    spared."""
    result = sort_out(found, referenced, announced, NOW_MS, AGE_MS)
    assert len(result.orphans) + sum(result.spared.values()) == len(found)
    assert set(result.orphans) == {
        file
        for file in found
        if file.key not in referenced | announced
        and not file.key.endswith(".json")
        and file.modified_ms is not None
        and file.modified_ms <= NOW_MS - AGE_MS
    }


@pytest.mark.parametrize(
    "names",
    [
        ("file:///a/b.parquet", "file:/a/b.parquet", "/a/b.parquet", "file:///a//b.parquet"),
        ("s3://bucket/k/a.parquet", "s3a://bucket/k/a.parquet"),
        ("s3://bucket/d=1%20x/a.parquet", "s3://bucket/d=1 x/a.parquet"),
    ],
)
def test_two_names_of_one_file_have_one_key(names: tuple[str, ...]) -> None:
    """Another writer may name a file by another scheme, or with its special characters escaped."""
    assert len({path_key(name) for name in names}) == 1


def test_a_location_inside_another_is_noticed() -> None:
    """A name that only begins alike lies beside it."""
    assert inside("/w/t", "/w/t/inner")
    assert inside("/w/t", "/w/t")
    assert not inside("/w/t", "/w/t2")
