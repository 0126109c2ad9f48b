"""The key index changes how long a batch takes and nothing else, whatever becomes of its runs."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import random
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from framework.adapters.iceberg.private.live_files import LiveFile
from framework.adapters.iceberg.upsert import hash_files
from framework.adapters.iceberg.upsert import index_runs as key_runs
from framework.adapters.iceberg.upsert import lookup as key_lookup
from framework.adapters.iceberg.upsert import search as key_search
from framework.adapters.iceberg.upsert.index_file import read_index, remove_left_over, root_of, write_index
from framework.adapters.iceberg.upsert.index_runs import (
    Entries,
    UnusableRun,
    check_within,
    find,
    merge_runs,
    read_run,
    write_run,
)
from framework.adapters.key_hash import KeyHashes, hash_keys
from framework.config.spec import KeyIndexUse
from framework.table.upsert import key_index
from framework.table.upsert.key_index import Cover, KeyRun, Merge, is_worth_waiting, next_steps, uncovered, useful
from framework.task.upsert.index_job import IndexedTable, do_step
from tests.iceberg.conftest import Lake
from tests.iceberg.keyed_pipeline import SPECS, Change, Pipeline, made

pytestmark = pytest.mark.iceberg

keys = st.tuples(st.integers(1, 3), st.sampled_from(["a", "b", "ab"]))
rows = st.tuples(st.integers(1, 2), st.sampled_from(["x", "y", ""]))
changes = st.lists(st.tuples(st.integers(0, 1), keys, st.none() | rows), min_size=1, max_size=10)
ACTS = ("nothing", "cover", "merge", "lose", "damage", "distort", "forget", "restart", "rewrite")
WITHOUT_REWRITES = tuple(act for act in ACTS if act != "rewrite")  # PyIceberg writes no tables of version 3


@pytest.fixture(autouse=True)
def runs_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "LEAST_RUN_ROWS", 1)


def indexed(pipeline: Pipeline) -> IndexedTable:
    context = pipeline.context()
    keyed, target = context.keyed[pipeline.name], context.tables[pipeline.name]
    assert keyed.index is not None
    return IndexedTable(
        context.io_properties["default"],
        target.location,
        keyed.index.root,
        keyed.files.by_path,
        keyed.columns.of(keyed.key_ids),
        (pa.large_string(), pa.int64()),
    )


def runs_of(pipeline: Pipeline) -> dict[str, KeyRun]:
    pipeline.context()
    (known,) = pipeline.tables.indexes._known.values()
    return known.runs


# A column of a run, and a number in it that stands for no file, or for no row of one.
DISTORTED = [("file", -1), ("file", 7), ("position", -1), ("position", 1_000)]


def distort(run: str, column: str, number: int) -> None:
    """The run, as large as before, has this number in each of its entries."""
    path = run.removeprefix("file://")
    with pa.ipc.open_file(path) as held:
        batch = held.get_batch(0)
    place = batch.schema.names.index(column)
    kind = batch.schema.field(place)
    changed = batch.set_column(place, kind, pa.array([number] * len(batch), kind.type))
    size = Path(path).stat().st_size
    Path(path).unlink()  # whoever has mapped it keeps what it was
    with pa.ipc.new_file(path, batch.schema) as writer:
        writer.write_batch(changed)
    assert Path(path).stat().st_size == size


def act(pipeline: Pipeline, what: str, chance: random.Random) -> None:
    """What may become of an index between two batches."""
    table = indexed(pipeline)
    (known,) = pipeline.tables.indexes._known.values()
    runs = known.runs
    folder = Path(table.root.removeprefix("file://"))
    if what == "cover":
        missing = uncovered({path: file.record_count for path, file in table.live.items()}, list(runs.values()))
        made_run = do_step(table, Cover(tuple(missing))) if missing else None
        if made_run is not None and made_run.run is not None:
            runs[made_run.run.path] = made_run.run
    elif what == "merge" and runs:
        merged = do_step(table, Merge(tuple(runs.values())))
        assert merged is not None
        runs.clear()
        runs.update({merged.run.path: merged.run} if merged.run else {})
    elif what == "lose" and runs:
        Path(chance.choice(list(runs)).removeprefix("file://")).unlink()
    elif what == "damage" and runs:
        path = Path(chance.choice(list(runs)).removeprefix("file://"))
        path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
    elif what == "distort" and runs:
        distort(chance.choice(list(runs)), *chance.choice(DISTORTED))
    elif what == "forget":
        (folder / "index.json").unlink()
        pipeline.restart()
    elif what == "restart":
        pipeline.restart()
    elif what == "rewrite":
        plain = pipeline.lake.plain(pipeline.name)
        if plain.current_snapshot() is not None:
            plain.overwrite(plain.scan().to_arrow())


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.timeout(900)
def test_batches_are_a_fold_whatever_becomes_of_the_index(lake: Lake, version: str, spec: str) -> None:
    """Runs that cover, are merged, lost, damaged or forgotten between batches, and files that others rewrote: after each
    batch the table holds what a fold of its changes holds."""

    acts = st.sampled_from(ACTS if version == "2" else WITHOUT_REWRITES)

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(changes, acts), min_size=1, max_size=5), st.randoms(use_true_random=False))
    def holds(found: list[tuple[list[Change], str]], chance: random.Random) -> None:
        pipeline = made(lake, version, spec, KeyIndexUse.ALWAYS)
        for batch, what in found:
            pipeline.do(batch)
            act(pipeline, what, chance)

    holds()


def test_a_run_that_lacks_a_row_is_noticed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: an index that finds one row less leaves two rows of a key."""
    whole = key_runs.find
    monkeypatch.setattr(key_lookup, "find", lambda *given: tuple(part[1:] for part in whole(*given)))
    pipeline = made(lake, "2", "unpartitioned", KeyIndexUse.ALWAYS)
    pipeline.do([(0, (1, "a"), (1, "x"))])
    with pytest.raises(AssertionError):
        pipeline.do([(0, (1, "a"), (1, "y"))])


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_covered_table_is_not_read(lake: Lake, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs cover every data file, no key column is read; the tasks' own runs cover what they wrote."""
    pipeline = made(lake, version, "by a column that moves", KeyIndexUse.ALWAYS)
    for number in range(4):
        searched: list[str] = []

        def watched(io: object, file: LiveFile, *given: object) -> None:
            searched.append(file.path)  # noqa: B023  # called within the turn

        for module in (key_search, key_runs):
            monkeypatch.setattr(module, "read_key_columns", watched)
        pipeline.do([(0, (shop, code), (number % 2, "x")) for shop in (1, 2, 3) for code in ("a", "b")])
        assert not searched


def test_a_row_keeps_its_id_through_the_index(lake: Lake) -> None:
    """Format version 3: the id is in the run where the file holds it, and else the file's first plus the position."""
    pipeline = made(lake, "3", "by a column that moves", KeyIndexUse.ALWAYS)
    pipeline.do([(0, (shop, code), (1, "x")) for shop in (1, 2, 3) for code in ("a", "b")])
    first = pipeline.ids()
    for number in range(3):
        pipeline.do([(0, (2, "a"), (number % 2, "y")), (0, (3, "b"), (1, "y"))])
        act(pipeline, "merge" if number else "nothing", random.Random(0))
    assert pipeline.ids() == first


def test_what_a_task_lost_is_made_anew(lake: Lake) -> None:
    """A run that cannot be read is reported, dropped, and its files are covered again."""
    pipeline = made(lake, "2", "unpartitioned", KeyIndexUse.ALWAYS)
    pipeline.do([(0, (1, "a"), (1, "x")), (0, (2, "b"), (1, "x"))])
    (lost,) = runs_of(pipeline)
    Path(lost.removeprefix("file://")).unlink()
    pipeline.do([(0, (3, "ab"), (1, "x"))])
    assert lost not in runs_of(pipeline)
    act(pipeline, "cover", random.Random(0))
    live = {path: file.record_count for path, file in indexed(pipeline).live.items()}
    assert uncovered(live, list(runs_of(pipeline).values())) == []


def test_runs_of_files_that_are_gone_are_removed(lake: Lake) -> None:
    """After a compaction by others the old runs go, from the index and from the store."""
    pipeline = made(lake, "2", "unpartitioned", KeyIndexUse.ALWAYS)
    pipeline.do([(0, (1, "a"), (1, "x"))])
    (old,) = runs_of(pipeline)
    act(pipeline, "rewrite", random.Random(0))
    assert runs_of(pipeline) == {}
    assert not Path(old.removeprefix("file://")).exists()


def test_small_tables_have_no_index_by_themselves(lake: Lake) -> None:
    """`auto` begins with 2 million rows; `never` is never."""
    for use in (KeyIndexUse.AUTO, KeyIndexUse.NEVER):
        pipeline = made(lake, "2", "unpartitioned", use)
        pipeline.do([(0, (1, "a"), (1, "x"))])
        assert pipeline.context().keyed[pipeline.name].index is None
        assert not Path(root_of(pipeline.lake.plain(pipeline.name).location()).removeprefix("file://")).exists()


# ---- the parts ----------------------------------------------------------------------------------------------------------

IO = PyArrowFileIO()


def entries(numbers: Sequence[int], file: int = 0) -> Entries:
    hashes = hash_keys([pa.array(numbers, pa.int64())])
    return Entries(hashes, np.full(len(numbers), file), np.arange(len(numbers)), None)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=10, unique=True),
)
def test_find_is_a_join(held: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    """Every entry whose both words are those of a wanted key, with words that collide."""

    def hashes(pairs: list[tuple[int, int]]) -> KeyHashes:
        return KeyHashes(np.array([p[0] for p in pairs], np.uint64), np.array([p[1] for p in pairs], np.uint64))

    held, wanted = sorted(held, key=lambda pair: pair[0]), sorted(wanted, key=lambda pair: pair[0])
    run = Entries(hashes(held), np.zeros(len(held), np.int64), np.arange(len(held)), None)
    found = find(run.hashes, hashes(wanted).high, hashes(wanted).low)
    pairs = sorted(zip(found[0].tolist(), found[1].tolist(), strict=True))
    assert pairs == [(k, e) for k, key in enumerate(wanted) for e, entry in enumerate(held) if entry == key]


def test_equal_keys_have_equal_hashes_and_others_have_not() -> None:
    """Over every type that a key may have, sliced and encoded arrays, and keys of several columns that read alike."""
    columns = [
        pa.array(["a", "b", "ab", "", "ä"]),
        pa.array([1, -1, 0, 2**62, 7], pa.int64()),
        pa.array([1, -1, 0, 2**30, 7], pa.int32()),
        pa.array([True, False, True, False, True]),
        pa.array([datetime.date(2026, 1, 1 + day) for day in range(5)]),
        pa.array([datetime.datetime(2026, 1, 1, second=second) for second in range(5)], pa.timestamp("us")),
        pa.array([decimal.Decimal(number) / 100 for number in range(5)], pa.decimal128(9, 2)),
        pa.array([uuid.UUID(int=number).bytes for number in range(5)], pa.binary(16)),
        pa.array([b"\0", b"", b"\0\0", b"a", b"b"]),
    ]
    for column in columns:
        hashes = hash_keys([column])
        values = column.to_pylist()
        pairs = list(zip(hashes.high.tolist(), hashes.low.tolist(), strict=True))
        for i, j in itertools.product(range(5), repeat=2):
            assert (pairs[i] == pairs[j]) == (values[i] == values[j])
        sliced = hash_keys([pa.concat_arrays([column, column]).slice(5, 5)])
        encoded = hash_keys([pa.chunked_array([column.slice(0, 2), column.slice(2)])])
        assert sliced.high.tolist() == encoded.high.tolist() == hashes.high.tolist()
    assert hash_keys([columns[1]]).high[0] == hash_keys([columns[2]]).high[0]
    two = hash_keys([pa.array(["a", "ab"]), pa.array(["bc", "c"])])
    assert two.high[0] != two.high[1]


def test_a_hash_never_changes() -> None:
    """Runs outlive versions of floe: these are BLAKE2b's of the documented bytes."""
    assert hash_keys([pa.array(["order-1"])]).high.tolist() == [15578460126036828673]
    assert hash_keys([pa.array([1], pa.int64()), pa.array(["x"])]).low.tolist() == [12281462750794448967]


def test_merged_runs_hold_what_is_live(tmp_path: Path) -> None:
    """Entries of data files that are gone are dropped, those of others keep their file and position."""
    first = write_run(IO, f"{tmp_path}", entries([5, 3, 9]), ["a"], [3])
    both = Entries(hash_keys([pa.array([7, 8], pa.int64())]), np.array([0, 1]), np.array([4, 2]), np.array([-1, 70]))
    second = write_run(IO, f"{tmp_path}", both, ["gone", "b"], [5, 3])

    merged = merge_runs(IO, f"{tmp_path}", [first, second], {"a", "b"})

    assert merged is not None
    assert (merged.files, merged.file_rows, merged.entries) == (("a", "b"), (3, 3), 4)
    held = read_run(IO, merged)
    found = Counter(
        (merged.files[file], int(position), int(row_id))
        for file, position, row_id in zip(held.files, held.positions, held.row_ids, strict=True)  # type: ignore[arg-type]
    )
    assert found == Counter({("a", 0, -1): 1, ("a", 1, -1): 1, ("a", 2, -1): 1, ("b", 2, 70): 1})
    assert (np.diff(held.hashes.high.astype(object)) >= 0).all()
    assert merge_runs(IO, f"{tmp_path}", [first], set()) is None


def test_a_run_that_is_not_what_the_index_says_is_unusable(tmp_path: Path) -> None:
    """A file of another size, of other data files, and one that is no Arrow file."""
    run = write_run(IO, f"{tmp_path}", entries([1, 2]), ["a"], [2])
    for wrong in (
        KeyRun(run.path, 3, run.file_size_bytes, run.files, run.file_rows),
        KeyRun(run.path, 2, run.file_size_bytes - 1, run.files, run.file_rows),
        KeyRun(run.path, 2, run.file_size_bytes, ("b",), run.file_rows),
        KeyRun(run.path, 2, run.file_size_bytes, run.files, (3,)),
        KeyRun(f"{tmp_path}/none.arrow", 2, run.file_size_bytes, run.files, run.file_rows),
    ):
        with pytest.raises(UnusableRun):
            read_run(IO, wrong)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("low", pa.array(["x", "y"])),
        ("high", pa.array([1, 2])),
        ("file", pa.array([0, 0])),
        ("position", pa.array([0.0, 1.0])),
        ("low", pa.array([None, 1], pa.uint64())),
    ],
)
def test_a_run_with_other_columns_is_of_no_use(tmp_path: Path, column: str, values: pa.Array) -> None:
    """Compiled code goes by the bytes of these columns: what has another type is read by nobody."""
    run = write_run(IO, str(tmp_path), entries([1, 2]), ["a"], [2])
    with pa.ipc.open_file(run.path) as held:
        batch = held.get_batch(0)
    changed = batch.set_column(batch.schema.names.index(column), column, values)
    with pa.ipc.new_file(run.path, changed.schema.with_metadata(batch.schema.metadata)) as writer:
        writer.write_batch(changed.replace_schema_metadata(batch.schema.metadata))
    with pytest.raises(UnusableRun, match=f"its column {column}"):
        read_run(IO, replace(run, file_size_bytes=Path(run.path).stat().st_size))


@pytest.mark.parametrize(("column", "number"), DISTORTED)
def test_a_run_that_names_what_there_is_none_of_is_of_no_use(
    lake: Lake, column: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The data files are read instead, and the table is the fold."""
    pipeline = made(lake, "2", "unpartitioned", KeyIndexUse.ALWAYS)
    pipeline.do([(0, (1, "a"), (1, "x"))])
    (run,) = runs_of(pipeline)
    distort(run, column, number)
    pipeline.do([(0, (1, "a"), (1, "y"))])
    assert "is not what was written" in caplog.text


@pytest.mark.parametrize(("column", "number"), DISTORTED)
def test_a_run_that_was_written_with_numbers_of_nothing_is_of_no_use(tmp_path: Path, column: str, number: int) -> None:
    """Checksums hold, and the numbers stand for no file or no row: nothing is looked up by them."""
    found = entries([1, 2])
    wrong = np.full(2, number)
    with pytest.raises(UnusableRun, match=f"it names {column.replace('position', 'row')}s that"):
        check_within(*((wrong, found.positions) if column == "file" else (found.files, wrong)), [2])


def test_the_index_file_is_read_back_or_not_at_all(tmp_path: Path) -> None:
    """What a driver recorded; nothing of other columns, of another version, of another folder, or of a damaged file."""
    root = str(tmp_path)
    inside = KeyRun(f"{root}/x.arrow", 2, 100, ("a", "b"), (1, 1))
    write_index(IO, root, "1, 2", [inside, KeyRun("/etc/passwd", 1, 1, ("c",), (1,))])
    assert read_index(IO, root, "1, 2") == [inside]
    assert read_index(IO, root, "2, 1") == []
    text = (tmp_path / "index.json").read_text()
    held = json.dumps({**json.loads(text.partition(" ")[2]), "hash_version": 99})
    (tmp_path / "index.json").write_text(f"{zlib.crc32(held.encode())} {held}")
    assert read_index(IO, root, "1, 2") == []
    for damaged in ("", "[]", text[:40], '{"version": 1}', text.replace("x.arrow", "y.arrow")):
        (tmp_path / "index.json").write_text(damaged)
        assert read_index(IO, root, "1, 2") == []


def test_left_over_runs_are_removed_when_they_are_old(tmp_path: Path) -> None:
    """Runs that no index names and that nobody can still be writing; no other file."""
    import os

    for name, age_s in (("named", 10**6), ("old", 10**6), ("new", 0)):
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(b"")
        os.utime(path, (path.stat().st_mtime - age_s,) * 2)
    (tmp_path / "other.txt").write_bytes(b"")
    remove_left_over(IO, str(tmp_path), [f"{tmp_path}/named.arrow"])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["named.arrow", "new.arrow", "other.txt"]


def test_copies_of_a_store_s_runs_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is not on this machine is copied once; the copies used longest ago go when there is no room."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(hash_files, "_local", lambda path: None)
    monkeypatch.setattr(hash_files, "MOST_BYTES", 3_000)
    runs = [write_run(IO, f"{tmp_path}", entries([number]), ["a"], [1]) for number in range(4)]
    for run in runs:
        assert len(read_run(IO, run)) == 1
    (folder,) = (tmp_path / "tmp").iterdir()
    held = list(folder.iterdir())
    assert sum(each.stat().st_size for each in held) <= 3_000
    assert folder.stat().st_mode & 0o077 == 0
    before = {each.name: each.stat().st_ino for each in held}
    read_run(IO, runs[-1])
    assert {each.name: each.stat().st_ino for each in folder.iterdir()} == before


# ---- what is to be done -------------------------------------------------------------------------------------------------

names: Iterator[int] = itertools.count()


def run_of(files: dict[str, int], entries: int | None = None) -> KeyRun:
    return KeyRun(
        f"r{next(names)}", sum(files.values()) if entries is None else entries, 1, tuple(files), tuple(files.values())
    )


def test_files_without_a_run_are_covered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """When they have many rows or are many, in groups that fit in memory; a file that has another number of rows than
    its run says is another file."""
    monkeypatch.setattr(key_index, "RUN_ROWS", 900_000)
    assert next_steps({"a": 100_000}, []) == []
    assert next_steps({"a": 600_000, "b": 400_000, "c": 1}, [run_of({"c": 2})]) == [Cover(("a",)), Cover(("b", "c"))]
    (step,) = next_steps({str(number): 1 for number in range(64)}, [])
    assert isinstance(step, Cover)
    assert len(step.files) == 64


def test_a_first_build_is_shared_out() -> None:
    """Among as many tasks as run at once, in pieces that are worth a task."""
    live = {f"f{number}": 1_000_000 for number in range(10)}
    assert [len(step.files) for step in next_steps(live, [], 2) if isinstance(step, Cover)] == [5, 5]
    assert [len(step.files) for step in next_steps(live, [], 100) if isinstance(step, Cover)] == [1] * 10
    assert len(next_steps({f"f{number}": 10_000 for number in range(100)}, [], 16)) == 2


def test_a_batch_waits_for_an_index_where_it_would_read_more() -> None:
    """What is covered, and a little that is not, is no reason to wait."""
    assert is_worth_waiting({"a": 1_500_000, "b": 1_500_000}, [])
    assert not is_worth_waiting({"a": 1_500_000, "b": 1_500_000}, [run_of({"a": 1_500_000})])
    assert not is_worth_waiting({}, [])


def test_what_tasks_made_of_their_files_serves_the_next_batch(lake: Lake) -> None:
    """The index is kept up while a batch is not committed yet; nothing that its tasks wrote is made again."""
    pipeline = made(lake, "2", "by the key", KeyIndexUse.ALWAYS)
    before: set[str] = set()
    for number in range(2):
        pipeline.do([(number % 2, (n, f"{number}"), (1, "x")) for n in range(1, 5)])
        runs = runs_of(pipeline)
        assert before < set(runs)
        assert not uncovered(
            {path: file.record_count for path, file in indexed(pipeline).live.items()}, [*runs.values()]
        )
        before = set(runs)


def test_a_run_of_no_live_file_is_left_alone() -> None:
    """It is of a batch that is not committed yet, or the next batch drops it."""
    live = {f"f{number}": 30_000 for number in range(8)} | {"x": 1_000_000}
    written = [run_of({f"new{number}": 30_000}) for number in range(8)]
    known = [run_of({"x": 1_000_000}), *(run_of({f"f{number}": 30_000}) for number in range(7))]
    assert next_steps(live, [*known, *written]) == []
    (step,) = next_steps(live, [*known, *written, run_of({"f7": 30_000})])
    assert isinstance(step, Merge)
    assert not set(step.runs) & set(written)


def test_runs_are_merged_by_size() -> None:
    """Eight of a size become one; a run that is mostly about files that are gone is written anew; large ones stay."""
    live = {f"f{number}": 30_000 for number in range(8)} | {"large": 50_000_000, "x": 1_000_000}
    small = [run_of({f"f{number}": 30_000}) for number in range(8)]
    large = run_of({"large": 50_000_000})
    assert next_steps(live, [*small[:7], large, run_of({"x": 1_000_000}), run_of({"f7": 30_000}, 2_000_000)]) == []
    covered = run_of({"x": 1_000_000})
    assert next_steps(live, [*small, large, covered]) == [Merge(tuple(small))]
    dead = run_of({"x": 1_000_000, "gone": 3_000_000})
    assert next_steps(live, [*small[:7], run_of({"f7": 30_000}, 300_000), large, dead]) == [Merge((dead,))]
    assert useful(live, [run_of({"gone": 5}), dead, run_of({"x": 2})]) == [dead]


@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=200))
def test_the_steps_end_and_leave_few_runs(sizes: list[int]) -> None:
    """Doing what is said, again and again, ends; everything is covered but for little, by few runs."""
    live: dict[str, int] = {}
    runs: list[KeyRun] = []
    for number, size in enumerate(sizes):
        live[f"f{number}"] = size
        if size >= key_index.LEAST_RUN_ROWS:
            runs.append(run_of({f"f{number}": size}))
    for _ in range(100):
        found = next_steps(live, runs)
        if not found:
            break
        for step in found:
            if isinstance(step, Cover):
                runs.append(run_of({path: live[path] for path in step.files}))
            else:
                runs = [run for run in runs if run not in step.runs]
                runs.append(run_of({path: live[path] for run in step.runs for path in run.files}))
    else:
        raise AssertionError("no end of steps")
    missing = uncovered(live, runs)
    assert len(missing) < key_index.UNCOVERED_FILES
    assert sum(live[path] for path in missing) < key_index.UNCOVERED_ROWS
    full = sum(run.entries >= key_index.MOST_RUN_ENTRIES for run in runs)
    assert len(runs) - full <= 5 * key_index.FAN_OUT
