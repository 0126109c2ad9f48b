"""Which row ids the manifests of a snapshot get, as a pure question: no two rows share one, and none ever changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import ManifestContent, ManifestFile

from framework.adapters.iceberg.private.row_lineage import first_row_id, with_row_ids


def manifest(
    path: str, added: int | None, existing: int | None, own: int | None = None, content: int = 0, version: int = 3
) -> ManifestFile:
    made = ManifestFile.from_args(
        _table_format_version=version,
        manifest_path=path,
        manifest_length=1,
        partition_spec_id=0,
        content=ManifestContent(content),
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=1,
        added_rows_count=added,
        existing_rows_count=existing,
        deleted_rows_count=0,
    )
    if version == 3:
        made[15] = own
    return made


def rows_of(each: ManifestFile) -> int:
    return (each.added_rows_count or 0) + (each.existing_rows_count or 0)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from(["new", "old", "upgraded", "deletes"]))),
    st.integers(0, 2**40),
)
def test_every_manifest_has_ids_of_its_own(kinds: list[tuple[int, int, str]], spare: int) -> None:
    """Old manifests keep their ids, new and upgraded ones get ids above all others without gaps, deletes get none."""
    made, used = [], 0
    for number, (added, existing, kind) in enumerate(kinds):
        own = used if kind == "old" else None
        used += added + existing if kind == "old" else 0
        version = 2 if kind == "upgraded" else 3
        made.append(manifest(f"m{number}", added, existing, own, int(kind == "deletes"), version))
    before = [list(each._data) for each in made]
    listed, taken = with_row_ids(made, used + spare)
    assert [each._data for each in made] == before, "what others may hold was changed"
    assert [each.manifest_path for each in listed] == [each.manifest_path for each in made]
    free = used + spare
    for old, new, (_, _, kind) in zip(made, listed, kinds, strict=True):
        if kind == "deletes":
            assert first_row_id(new) is None
        elif kind == "old":
            assert first_row_id(new) == first_row_id(old)
        else:
            assert first_row_id(new) == free
            free += rows_of(new)
    assert used + spare + taken == free


def test_a_manifest_that_does_not_count_its_rows_is_refused() -> None:
    """Rows whose number is not known get no ids that others might get too; the error says what to do."""
    with pytest.raises(ValueError, match=r"does not say how many rows .* rewrite_manifests"):
        with_row_ids([manifest("m", None, 3)], 0)
    with_row_ids([manifest("m", None, None, content=1)], 0)
