"""Rows deleted by deletion vectors and by position delete files: what is committed is what is left, for floe's own
reading, for plain PyIceberg, and for a reader of the raw files that shares nothing with the writer."""

from __future__ import annotations

import math
import pickle
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import FileFormat, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from framework.adapters.iceberg.files import list_files, path_key
from framework.adapters.iceberg.private import entry_fields
from framework.adapters.iceberg.private.deletes import deletion_vectors, row_deletes
from framework.adapters.iceberg.private.deletes.deletion_vectors import (
    DamagedDeletionVector,
    DeletionVector,
    decoded,
    encoded,
    read_vectors,
    write_vectors,
)
from framework.adapters.iceberg.private.deletes.position_deletes import (
    PATH_FIELD_ID,
    PositionDeletes,
    read_position_deletes,
)
from framework.adapters.iceberg.private.deletes.row_deletes import FileDeletes, WrongDeletes
from framework.adapters.iceberg.private.live_files import UnsupportedDeletes, deleted_positions, live_files
from framework.adapters.iceberg.private.manifests import SnapshotFiles
from framework.commit.events.event_types import DataFile
from framework.commit.file_ages import SAFETY_AGE_MS
from framework.commit.machine.effects import Committed
from framework.commit.recovery.orphans import sort_out
from framework.config.spec import PartitionFieldSpec
from tests.iceberg.conftest import Lake
from tests.iceberg.deletes import Deleter, as_equality_deletes, check, ids_left, state
from tests.iceberg.lineage import lineage, local, upgrade
from tests.iceberg.test_manifests import PARTITIONS, ROWS, TYPES, by_day

pytestmark = pytest.mark.iceberg

FEW = {"commit.manifest.min-count-to-merge": "3"}
VERSIONS = pytest.mark.parametrize("version", ["2", "3"])


@pytest.fixture
def deleter(lake: Lake) -> Deleter:
    return Deleter(lake)


def append(lake: Lake, name: str, offset: int, *ids: int) -> str:
    """The path of one new file with these ids."""
    [file] = lake.files(name, [{"id": each, "name": "a"} for each in ids])
    answer = lake.tables.commit(lake.effect(name, [file], offset))
    assert isinstance(answer, Committed), answer
    return file.path


def floe_sees(deleter: Deleter, name: str) -> dict[str, set[int]]:
    io = deleter.lake.plain(name).io
    found = deleter.live(name).by_path.values()
    return {file.path: set(deleted_positions(io, file).tolist()) for file in found}


# ---- one deletion vector
# ----------------------------------------------------------------------------------------------

POSITIONS = st.sets(
    st.one_of(st.integers(0, 300), st.integers(0, 200_000), st.integers(2**32 - 5, 2**32 + 5), st.integers(0, 2**40))
)


@given(
    st.one_of(
        POSITIONS,
        st.builds(lambda start, size: set(range(start, start + size)), POSITIONS.map(len), st.integers(1, 70_000)),
    )
)
@settings(max_examples=60, deadline=None)
def test_what_is_encoded_is_decoded(positions: set[int]) -> None:
    """Positions of any size and density come back, ascending."""
    array = np.array(list(positions), np.int64)
    blob = encoded(array)
    assert decoded(blob, DeletionVector("p", 4, len(blob), len(array))).tolist() == sorted(positions)


@pytest.mark.parametrize("place", [0, 4, 9, 20, -1])
def test_a_damaged_vector_is_refused(place: int) -> None:
    """A byte that changed anywhere, a blob that is cut short, and a count that differs are told."""
    blob = encoded(np.arange(0, 900, 7))
    damaged = bytearray(blob)
    damaged[place] ^= 1
    vector = DeletionVector("s3://b/p.puffin", 4, len(blob), 129)
    assert len(decoded(blob, vector)) == 129
    for content in (bytes(damaged), blob[:-1], b""):
        with pytest.raises(DamagedDeletionVector, match=r"s3://b/p\.puffin holds no deletion vector at byte 4"):
            decoded(content, vector)
    with pytest.raises(DamagedDeletionVector, match="has 129 positions, its manifest entry says 128"):
        decoded(blob, DeletionVector("s3://b/p.puffin", 4, len(blob), 128))


def test_a_puffin_file_is_bounded(lake: Lake, tmp_path: Path) -> None:
    """A Puffin file ends before it is longer than asked for; a vector longer than that stands alone; all are read
    back."""
    io = lake.plain(lake.create()).io
    vectors = {
        f"f{place}": np.sort(np.random.default_rng(place).choice(10**6, size, replace=False))
        for place, size in enumerate([10, 200, 5, 5_000, 1, 300])
    }
    paths = iter(str(tmp_path / f"{place}.puffin") for place in range(9))
    written = write_vectors(io, lambda: next(paths), vectors.items(), max_puffin_bytes=1_600)
    assert [each.data_file for each in written] == list(vectors)
    by_path: dict[str, int] = {}
    for each in written:
        by_path[each.vector.path] = by_path.get(each.vector.path, 0) + each.vector.content_size_bytes
    assert len(by_path) > 2
    assert sum(size > 1_600 for size in by_path.values()) == 1
    read = read_vectors(io, [each.vector for each in written])
    for each in written:
        assert read[each.vector].tolist() == vectors[each.data_file].tolist()
        assert local(each.vector.path).stat().st_size == each.file_size_bytes
    assert deletion_vectors.MAX_PUFFIN_BYTES == 16 * 1024 * 1024


# ---- commits
# ----------------------------------------------------------------------------------------------------------


@VERSIONS
def test_deleted_rows_are_gone_and_stay_gone(lake: Lake, deleter: Deleter, version: str) -> None:
    """Deletes in several commits, with overlaps and with new files beside them, leave exactly the other rows; each file
    has one delete entry; a file may lose all its rows; and row ids do not change."""
    name = lake.create(format_version=version, **FEW)
    one, two = append(lake, name, 1, 1, 2, 3, 4), append(lake, name, 2, 5, 6)
    first = deleter.commit(name, {one: [1]})
    assert first.summary is not None
    assert first.summary.operation.value == "overwrite"
    [new] = lake.files(name, [{"id": 7}, {"id": 8}])
    deleter.commit(name, {one: [1, 3], two: [0, 1]}, [new])
    assert lake.rows(name) == [1, 3, 7, 8]
    append(lake, name, 3, 9)
    deleter.commit(name, {new.path: [0]})
    assert lake.rows(name) == [1, 3, 8, 9]
    expected = {one: {1, 3}, two: {0, 1}, new.path: {0}}
    assert {path: gone for path, gone in check(lake.plain(name)).items() if gone} == expected
    assert {path: gone for path, gone in floe_sees(deleter, name).items() if gone} == expected
    head = lake.plain(name).current_snapshot()
    assert head is not None
    assert len(state(head.manifest_list, head.snapshot_id).deletes) == 3
    if version == "3":
        lineage(lake.plain(name))


@VERSIONS
def test_rows_that_are_deleted_already_write_nothing(lake: Lake, deleter: Deleter, version: str) -> None:
    """A commit whose rows are all deleted already leaves delete files and entries as they are, and appends its
    files."""
    name = lake.create(format_version=version)
    path = append(lake, name, 1, 1, 2, 3)
    deleter.commit(name, {path: [0, 2]})
    writers: list[SnapshotFiles] = []
    snapshot = deleter.commit(name, {path: [2]}, lake.files(name, [{"id": 4}]), writing=writers.append)
    assert snapshot.summary is not None
    assert snapshot.summary.operation.value == "append"
    assert not any("deletes" in each for each in writers[0].written)
    assert lake.rows(name) == [2, 4]
    check(lake.plain(name))


@VERSIONS
def test_what_cannot_be_deleted_is_refused(lake: Lake, deleter: Deleter, version: str) -> None:
    """Rows of the same commit's files, of files that are not there, and rows that no file has are refused, before a
    delete file is written; so are deletes in a table of format version 1."""
    name = lake.create(format_version=version)
    path = append(lake, name, 1, 1, 2)
    [new] = lake.files(name, [{"id": 3}])
    writers: list[SnapshotFiles] = []
    for deletes, reason in [
        ({new.path: [0]}, "by the commit that adds it"),
        ({path + "x": [0]}, "is no live data file"),
        ({path: [0, 2]}, "has 2 rows, and none at 2"),
        ({path: [-1]}, "and none at -1"),
    ]:
        with pytest.raises(WrongDeletes, match=reason):
            deleter.commit(name, deletes, [new], writing=writers.append)
    assert [each.written for each in writers] == [[]] * 4
    old = lake.create("shop.old", format_version="1")
    path = append(lake, old, 1, 1)
    with pytest.raises(UnsupportedDeletes, match="format version 1"):
        deleter.commit(old, {path: [0]})


@VERSIONS
@pytest.mark.parametrize("meanwhile", ["a delete", "an append"])
def test_live_files_of_another_snapshot_are_refused(lake: Lake, deleter: Deleter, version: str, meanwhile: str) -> None:
    """Deletes that were made from the files of an older snapshot are refused before anything is written: they would
    leave two vectors for one file, or one for a file that is gone, which no reader notices."""
    name = lake.create(format_version=version)
    path = append(lake, name, 1, 1, 2, 3)
    live = deleter.live(name)
    if meanwhile == "a delete":
        deleter.commit(name, {path: [0]})
    else:
        append(lake, name, 2, 4)
    writers: list[SnapshotFiles] = []
    with pytest.raises(WrongDeletes, match="of another snapshot"):
        deleter.commit(name, {path: [1]}, live=live, writing=writers.append)
    assert writers[0].written == []


@VERSIONS
@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda each: f"{each.transform}-{each.column}")
def test_deletes_lie_in_the_partition_of_their_file(
    lake: Lake, deleter: Deleter, partition: PartitionFieldSpec, version: str
) -> None:
    """For every transform and type, also with null, a delete entry and the summary of its manifest have the data file's
    partition, also after it was replaced."""
    name = lake.made_by_others("t.typed", TYPES, [partition], version)
    files = lake.files(name, [*ROWS, *({**row, "id": 9} for row in ROWS)])
    answer = lake.tables.commit(lake.effect(name, files, 1))
    assert isinstance(answer, Committed), answer
    for place in (0, 1):
        deletes = {path: [place] for path, file in deleter.live(name).by_path.items() if file.record_count > place}
        deleter.commit(name, deletes)
        check(lake.plain(name))
    table = lake.plain(name)
    head = table.current_snapshot()
    assert head is not None
    summaries = {
        manifest.content: str(manifest.partitions)
        for manifest in head.manifests(table.io)
        if manifest.has_added_files()
    }
    assert len(lake.rows(name)) == sum(file.record_count for file in files) - sum(map(len, check(table).values()))
    if all(file.record_count > 1 for file in files):
        [data] = {str(each.partitions) for each in head.manifests(table.io) if not each.content}
        [deletes_of] = [each for content, each in summaries.items() if content]
        assert deletes_of == data


@VERSIONS
def test_a_table_whose_partitions_evolved(lake: Lake, deleter: Deleter, version: str) -> None:
    """Deletes in files of an old and of the present partition spec lie under the spec of their file, and replace those
    before; so do they when a column of the old spec is gone."""
    name = by_day(lake, format_version=version)
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    old = lake.files(name, [{"id": each, "day": days[each % 2]} for each in range(6)])
    assert isinstance(lake.tables.commit(lake.effect(name, old, 1)), Committed)
    with deleter.table(name).update_spec() as update:
        update.remove_field("day")
        update.add_field("id", BucketTransform(2), "id_bucket")
    new = lake.files(name, [{"id": each, "day": days[0]} for each in range(10, 16)])
    deleter.commit(name, {file.path: [0] for file in old}, new)
    deleter.commit(name, {file.path: [1] for file in (*old, *new)})
    deleter.commit(name, {file.path: [2] for file in (old[0], new[0])})
    deleted = check(lake.plain(name))
    assert {path: gone for path, gone in deleted.items() if gone} == {
        old[0].path: {0, 1, 2},
        **{file.path: {0, 1} for file in old[1:]},
        new[0].path: {1, 2},
        **{file.path: {1} for file in new[1:]},
    }
    assert lake.rows(name) == ids_left(lake, name, deleted, [file.path for file in (*old, *new)])


def test_old_position_deletes_go_into_the_first_vector(lake: Lake, deleter: Deleter) -> None:
    """A table upgraded from version 2: the first deletion vector of a file holds what its position delete file deleted,
    which is removed by the same commit; those of other files stay in force."""
    name = lake.create(format_version="2")
    one, two = append(lake, name, 1, 1, 2, 3, 4), append(lake, name, 2, 5, 6, 7)
    deleter.commit(name, {one: [0, 2], two: [1]})
    upgrade(lake, name)
    snapshot = deleter.commit(name, {one: [3]})
    assert snapshot.summary is not None
    counted = snapshot.summary.additional_properties
    assert {
        key: counted.get(key)
        for key in (
            "added-dvs",
            "removed-position-delete-files",
            "added-position-deletes",
            "removed-position-deletes",
            "removed-dvs",
            "added-position-delete-files",
            "changed-partition-count",
        )
    } == {
        "added-dvs": "1",
        "removed-position-delete-files": "1",
        "added-position-deletes": "3",
        "removed-position-deletes": "2",
        "removed-dvs": None,
        "added-position-delete-files": None,
        "changed-partition-count": "1",
    }
    assert lake.rows(name) == [2, 5, 7]
    assert floe_sees(deleter, name) == check(lake.plain(name)) == {one: {0, 2, 3}, two: {1}}
    deleter.commit(name, {two: [0], one: [1]})
    assert lake.rows(name) == [7]
    assert check(lake.plain(name)) == {one: {0, 1, 2, 3}, two: {0, 1}}


NAN = math.nan


def for_several_files(io: FileIO, new_path: Callable[[], str], deletes: Iterable[FileDeletes]) -> list[Entry]:
    """In place of `write_position_delete_files`: one file for each partition, as other engines write them."""
    groups: dict[tuple[int, str], list[FileDeletes]] = {}
    for each in deletes:
        groups.setdefault((each.file.spec_id, str(each.file.partition)), []).append(each)
    made = []
    for group in groups.values():
        path = new_path()
        rows = [(each.file.path, position) for each in group for position in each.positions.tolist()]
        table = pa.table(dict(zip(("file_path", "pos"), map(list, zip(*sorted(rows), strict=True)), strict=True)))
        pq.write_table(table, local(path))
        bounds = [{PATH_FIELD_ID: each.encode()} for each in (min(rows)[0], max(rows)[0] + "z")]
        made.append(
            entry_fields.delete_file(
                group[0].file.spec_id,
                group[0].file.partition,
                path,
                FileFormat.PARQUET,
                len(rows),
                local(path).stat().st_size,
                None,  # type: ignore[arg-type]
                lower_bounds=bounds[0],
                upper_bounds=bounds[1],
            )
        )
    return made


@pytest.mark.parametrize("ratios", [[1.5], [None], [NAN], [1.5, NAN]])
@pytest.mark.parametrize("upgraded", [False, True])
def test_a_delete_file_for_several_data_files(
    lake: Lake, deleter: Deleter, monkeypatch: pytest.MonkeyPatch, upgraded: bool, ratios: list[float | None]
) -> None:
    """What a position delete file of a whole partition deletes stays deleted, in each data file of it and in no other;
    a deletion vector holds it, too; and it stays for the files that have no vector. NaN is a partition, like null."""
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "r", DoubleType(), required=False))
    name = lake.create("shop.ratios", schema, [PartitionFieldSpec("r")], format_version="2", **FEW)
    files = []
    for number in range(3):
        for ratio in ratios:
            rows: list[dict[str, object]] = [{"id": 100 * number + each, "r": ratio} for each in range(4)]
            if ratio is NAN:  # of which PyIceberg's own writer makes no file
                rows = [{**row, "r": 0.5} for row in rows]
            files += [replace(file, partition=(ratio,)) for file in lake.files(name, rows)]
    assert isinstance(lake.tables.commit(lake.effect(name, files, 1)), Committed)
    expected: dict[str, set[int]] = {file.path: {0} for file in files}
    with monkeypatch.context() as patched:
        patched.setattr(row_deletes, "write_position_delete_files", for_several_files)
        deleter.commit(name, expected)
    assert floe_sees(deleter, name) == expected
    if upgraded:
        upgrade(lake, name)
        deleter = Deleter(lake)
    for step in ({files[0].path: {1}}, {files[0].path: {1, 2}, files[1].path: {1}}):
        deleter.commit(name, step)
        for path, positions in step.items():
            expected[path] = expected[path] | positions
        assert floe_sees(deleter, name) == expected
        assert check(lake.plain(name)) == expected
    found = deleter.live(name).by_path
    assert {path for path, file in found.items() if file.vector} == (
        {files[0].path, files[1].path} if upgraded else set()
    )
    assert all((file.vector is None) == bool(file.position_deletes) for file in found.values())
    if not upgraded:
        own = {
            path: [each.record_count for each in file.position_deletes if each.file_scoped]
            for path, file in found.items()
        }
        assert {path: counts for path, counts in own.items() if counts} == {files[0].path: [2], files[1].path: [1]}
    if NAN not in ratios:  # PyIceberg does not find the deletes of such a partition
        assert lake.rows(name) == ids_left(lake, name, expected, [file.path for file in files])


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),  # files appended
        st.lists(st.tuples(st.integers(0, 30), st.sets(st.integers(0, 5), max_size=4)), max_size=5),
        st.sampled_from(["", "", "", "", "upgrade", "plain append"]),
    ),
    min_size=2,
    max_size=8,
)


@given(steps=STEPS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_commits_beside_a_model(
    catalog_settings: dict[str, str], steps: list[tuple[int, list[tuple[int, set[int]]], str]]
) -> None:
    """Appends, deletes, upgrades to version 3 and merges of manifests in any order leave the rows that a set of (file,
    position) says, to floe, to PyIceberg and to a reader of the raw files."""
    lake = Lake(catalog_settings)
    deleter = Deleter(lake)
    name = lake.create(f"shop.r{uuid.uuid4().hex}", format_version="2", **FEW)
    files: list[DataFile] = []
    gone: set[tuple[str, int]] = set()
    offset, free, version = 0, 0, 2
    for appended, wanted, also in steps:
        if also == "upgrade" and version == 2:
            upgrade(lake, name)
            deleter, version = Deleter(lake), 3
        if also == "plain append":
            offset += 1
            free += 1
            [file] = lake.files(name, [{"id": free}])
            assert isinstance(lake.tables.commit(lake.effect(name, [file], offset)), Committed)
            files.append(file)
        deletes: dict[str, set[int]] = {}
        for which, positions in wanted:
            if files:
                file = files[which % len(files)]
                deletes.setdefault(file.path, set()).update(each % file.record_count for each in positions)
        new = []
        for size in range(1, appended + 1):
            ids = [{"id": free + each} for each in range(1, size + 3)]
            free += len(ids)
            new += lake.files(name, ids)
        live = deleter.live(name) if len(wanted) % 2 else None
        deleter.commit(name, deletes, new, pickle.loads(pickle.dumps(live)))
        files += new
        gone |= {(path, each) for path, positions in deletes.items() for each in positions}
        model = {file.path: {each for path, each in gone if path == file.path} for file in files}
        assert check(lake.plain(name)) == floe_sees(deleter, name) == model
        assert lake.rows(name) == ids_left(lake, name, model, [file.path for file in files])
    if version == 3:
        lineage(lake.plain(name))


# ---- what is live
# -----------------------------------------------------------------------------------------------------


def test_live_files_say_what_they_inherit(lake: Lake, deleter: Deleter) -> None:
    """Sequence numbers, snapshots, row ids and bounds of live files are written out, before and after a merge of
    manifests, and are the same after pickling."""
    name = lake.create(format_version="3", **FEW)
    paths = [append(lake, name, number, number, number + 100) for number in range(1, 8)]
    deleter.commit(name, {paths[0]: [1]})
    found = deleter.live(name)
    table = lake.plain(name)
    snapshots = table.metadata.snapshots
    assert [found.by_path[path].snapshot_id for path in paths] == [each.snapshot_id for each in snapshots[:7]]
    assert [found.by_path[path].sequence_number for path in paths] == list(range(1, 8))
    assert [found.by_path[path].file_sequence_number for path in paths] == list(range(1, 8))
    assert [found.by_path[path].record_count for path in paths] == [2] * 7
    assert [found.by_path[path].file_size_bytes for path in paths] == [local(path).stat().st_size for path in paths]
    ids = lineage(table).files[snapshots[-1].snapshot_id]
    assert {path: (file.first_row_id, file.record_count) for path, file in found.by_path.items()} == ids
    lower, upper = found.by_path[paths[2]].lower_bounds, found.by_path[paths[2]].upper_bounds
    assert (int.from_bytes(lower[1], "little"), int.from_bytes(upper[1], "little")) == (3, 103)
    assert pickle.loads(pickle.dumps(found)) == found
    head = table.current_snapshot()
    assert head is not None
    narrow = live_files(table.io, head.manifests(table.io), 3, bounds_of=[2])
    assert {tuple(file.lower_bounds) for file in narrow.by_path.values()} == {(2,)}


def test_a_pickle_is_small(lake: Lake) -> None:
    """The pickle of many live files takes little more than their paths and bounds."""
    name = lake.create(format_version="3")
    files = [DataFile(f"file:///never/read/{place:036d}.parquet", 7, 10, spec_id=0) for place in range(1_000)]
    assert isinstance(lake.tables.commit(lake.effect(name, files, 1)), Committed)
    deleter = Deleter(lake)
    deleter.commit(name, {file.path: [0] for file in files})
    found = deleter.live(name)
    assert len(found.by_path) == 1_000
    assert all(file.vector for file in found.by_path.values())
    assert pickle.loads(pickle.dumps(found)) == found
    assert len(pickle.dumps(found)) < 1_000 * (len(files[0].path) + 120)


def test_equality_deletes_are_refused_by_name(lake: Lake, deleter: Deleter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot with a live equality delete file is refused, with the file's name."""
    name = lake.create(format_version="2")
    path = append(lake, name, 1, 1, 2)
    as_equality_deletes(monkeypatch)
    deleter.commit(name, {path: [0]})
    with pytest.raises(UnsupportedDeletes, match=r"/data/.*-deletes\.parquet has equality deletes"):
        deleter.live(name)
    with pytest.raises(UnsupportedDeletes, match="has equality deletes"):
        deleter.commit(name, {path: [1]})


@pytest.mark.parametrize(
    ("owner", "name", "reason"),
    [
        (row_deletes, "_replaced", r"\.parquet has two deletion vectors, one in .*\.puffin"),
        (SnapshotFiles, "_finished", r"\.parquet is younger than its deletion vector in .*\.puffin"),
    ],
    ids=["two vectors", "an old vector"],
)
def test_vectors_against_the_specification_are_refused(
    lake: Lake, deleter: Deleter, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, reason: str
) -> None:
    """Two vectors for one file, and one that is older than its file, are refused by name, and nothing is deleted on
    top."""
    original = SnapshotFiles._finished

    def broken(*args: Any) -> object:
        if name == "_replaced":
            return ()
        manifest = original(*args)
        if manifest.content:
            manifest.sequence_number = 0
        return manifest

    table = lake.create(format_version="3")
    path = append(lake, table, 1, 1, 2, 3)
    deleter.commit(table, {path: [0]})
    monkeypatch.setattr(owner, name, broken)
    deleter.commit(table, {path: [1]})
    with pytest.raises(UnsupportedDeletes, match=reason):
        deleter.live(table)
    with pytest.raises(UnsupportedDeletes, match=reason):
        deleter.commit(table, {path: [2]})


def test_a_puffin_file_is_an_orphan_only_if_nothing_names_it(lake: Lake, deleter: Deleter) -> None:
    """Invariant 12: a Puffin file with live vectors, or with those of an older snapshot, is in use; one that no
    snapshot names is an orphan once it is old."""
    name = lake.create(format_version="3")
    path = append(lake, name, 1, 1, 2, 3)
    deleter.commit(name, {path: [0]})
    deleter.commit(name, {path: [1]})
    table = lake.plain(name)
    left_behind = local(table.location()) / "data" / "left-behind-deletes.puffin"
    left_behind.write_bytes(b"PFA1")
    used = lake.tables.references(name)
    assert used is not None
    files = list_files(table.io, table.location())
    assert sum(file.key.endswith(".puffin") for file in files) == 3
    now_ms = max(file.modified_ms or 0 for file in files)
    young = sort_out(files, used.paths, (), now_ms, SAFETY_AGE_MS)
    assert young.orphans == ()
    old = sort_out(files, used.paths, (), now_ms + SAFETY_AGE_MS, SAFETY_AGE_MS)
    assert [file.key for file in old.orphans] == [path_key(str(left_behind))]


def test_manifests_of_deletes_stay_few(lake: Lake, deleter: Deleter) -> None:
    """Many commits that each delete from a few files leave few delete manifests, and every entry once."""
    name = lake.create(format_version="3", **FEW)
    files = lake.files(name, [{"id": each} for each in range(30)])
    assert isinstance(lake.tables.commit(lake.effect(name, files, 1)), Committed)
    paths = [append(lake, name, number, *range(100 * number, 100 * number + 30)) for number in range(2, 8)]
    for number in range(24):
        deleter.commit(name, {paths[number % 6]: [number], paths[(number + 1) % 6]: [number]})
    table = lake.plain(name)
    head = table.current_snapshot()
    assert head is not None
    manifests: list[ManifestFile] = [each for each in head.manifests(table.io) if each.content]
    assert len(manifests) <= 6
    assert sum(map(len, check(table).values())) == 48


def test_manifests_of_vectors_that_stay_are_merged(lake: Lake, deleter: Deleter) -> None:
    """Commits that each delete from another file leave fewer delete manifests than commits, and a vector for each
    file."""
    name = lake.create(format_version="3", **FEW)
    paths = [append(lake, name, number, number, -number) for number in range(1, 11)]
    for path in paths:
        deleter.commit(name, {path: [0]})
    table = lake.plain(name)
    head = table.current_snapshot()
    assert head is not None
    assert len([each for each in head.manifests(table.io) if each.content]) <= 5
    assert check(table) == {path: {0} for path in paths}
    assert lake.rows(name) == list(range(-10, 0))


def test_a_delete_file_in_no_order_is_read(lake: Lake, tmp_path: Path) -> None:
    """Positions of several data files that another engine wrote in no order are those of their data files."""
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"file_path": ["a", "b", "a", "c", "b"], "pos": [7, 1, 2, 0, 5]}), path)
    io = lake.plain(lake.create()).io
    found = read_position_deletes(io, PositionDeletes(f"file://{path}", "PARQUET", 5, False), "")
    assert {name: positions.tolist() for name, positions in found.items()} == {"a": [7, 2], "b": [1, 5], "c": [0]}
