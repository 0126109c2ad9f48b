"""Compaction of real tables: the same rows in fewer files, whatever others do meanwhile."""

from __future__ import annotations

import multiprocessing
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.commits.replace import live_files_of
from framework.adapters.iceberg.upsert.search import ROW_ID_FIELD
from framework.adapters.maintenance import tables as table_care
from framework.adapters.maintenance.rewrite_files import UPDATED_FIELD, RowPlaces
from framework.adapters.maintenance.tables import Compacted, TableCare
from framework.adapters.parquet import long_file
from framework.adapters.parquet.files import TableWriter
from framework.commit.machine.effects import Committed
from framework.config.spec import PartitionFieldSpec, TablePolicy
from framework.config.values.maintenance import CompactionPolicy, ManifestsPolicy
from framework.errors import FloeError
from framework.table.schema.arrow import arrow_schema, parse_schema
from tests.iceberg.conftest import TOPIC, Lake
from tests.iceberg.deletes import Deleter, check
from tests.iceberg.lineage import lineage, local, upgrade

pytestmark = pytest.mark.iceberg

EAGER = CompactionPolicy(min_input_files=2, delete_ratio=0.01)


def grow(lake: Lake, name: str, batches: Sequence[Sequence[int]], start: int = 1) -> None:
    for offset, ids in enumerate(batches, start):
        rows: list[dict[str, object]] = [{"id": each, "name": str(each)} for each in ids]
        answer = lake.tables.commit(lake.effect(name, lake.files(name, rows), offset))
        assert isinstance(answer, Committed), answer


def compact(lake: Lake, name: str, policy: CompactionPolicy = EAGER) -> Compacted:
    done = TableCare(lake.tables).compact(name, policy, dry_run=False)
    assert done is not None
    return done


def paths(lake: Lake, name: str) -> set[str]:
    return {task.file.file_path for task in lake.plain(name).scan().plan_files()}


def row_ids(lake: Lake, name: str) -> dict[int, tuple[int, int]]:
    """By id the row id and the number of the commit that last changed the row, by the specification's rules."""
    table = Deleter(lake).table(name)
    found = {}
    deleted = check(table)
    for path, file in live_files_of(table).by_path.items():
        rows = pq.read_table(local(path))
        names = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in rows.schema}
        for place, row in enumerate(rows.to_pylist()):
            if place in deleted.get(path, ()):
                continue
            assert file.first_row_id is not None
            own = row.get(names.get(ROW_ID_FIELD, ""))
            updated = row.get(names.get(UPDATED_FIELD, ""))
            found[row["id"]] = (
                file.first_row_id + place if own is None else own,
                file.sequence_number if updated is None else updated,
            )
    return found


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_small_files_become_one(lake: Lake, version: str) -> None:
    """The rows are the same, the snapshot is a `replace` that adds and removes as many rows, and progress is that of
    before; the next commit needs no look at anything."""
    name = lake.create(format_version=version)
    grow(lake, name, [[1, 2], [3], [4, 5], [6]])
    done = compact(lake, name)
    assert (done.files_before, done.files_after, done.rows, done.snapshots, done.left) == (4, 1, 6, 1, 0)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]
    snapshot = lake.plain(name).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert snapshot.summary.operation.value == "replace"
    assert [said[key] for key in ("added-records", "deleted-records", "total-records", "total-data-files")] == [
        "6", "6", "6", "1",
    ]  # fmt: skip
    assert lake.view(name).snapshot_control_offset == 4
    grow(lake, name, [[7]], start=5)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6, 7]


def test_partitions_stay_apart_and_rows_are_sorted(lake: Lake) -> None:
    """Files of one partition are put together; with a sort order the rows of the new file are in it."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "name", StringType(), required=False),
        NestedField(3, "price", DoubleType(), required=False),
    )
    name = lake.create("shop.sorted", schema, [PartitionFieldSpec("name", "identity")])
    with lake.plain(name).update_sort_order() as update:
        update.desc("price", IdentityTransform())
    for offset, price in enumerate([2.0, 3.0, 1.0], 1):
        rows: list[dict[str, object]] = [{"id": offset, "name": each, "price": price} for each in "ab"]
        assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, rows), offset)), Committed)
    done = compact(lake, name)
    assert (done.files_before, done.files_after) == (6, 2)
    for path in paths(lake, name):
        rows_ = pq.read_table(local(path)).to_pylist()
        assert [row["price"] for row in rows_] == [3.0, 2.0, 1.0]
        assert len({row["name"] for row in rows_}) == 1


def _compacted_within(settings: dict[str, str], name: str, most_bytes: int) -> None:
    small = partial(long_file.sorted_pieces, run_bytes=2 << 20, merged_bytes=1 << 19, batch_bytes=1 << 16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_file, "sorted_pieces", small)
        done = compact(Lake(settings), name)
    assert done.files_after == 1
    most = pa.default_memory_pool().max_memory()
    assert most < most_bytes, f"{most:,}"


def test_sorting_takes_memory_within_a_bound(lake: Lake) -> None:
    """A sorted table's compaction holds a run of rows and a row group of them, not all of its files: 36 MB of rows pass
    through a third of that, in order, each with its row id."""
    schema = Schema(
        NestedField(1, "id", LongType(), required=False), NestedField(2, "price", DoubleType(), required=False)
    )
    name = lake.create("shop.sorted", schema, format_version="3", **{"write.parquet.row-group-size-bytes": "1000000"})
    with Deleter(lake).table(name).update_sort_order() as update:
        update.desc("price", IdentityTransform())
    random, count = np.random.default_rng(1), 125_000
    for number in range(9):
        target = lake.tables.load_target(name, TablePolicy())
        assert target is not None
        writer = TableWriter(lake.tables.io_properties(), "p", "r", number, 1 << 30, 1 << 40)
        ids = np.arange(number * count, (number + 1) * count)
        shape = arrow_schema(parse_schema(target.schema_json))
        writer.add(target, pa.table({"id": ids, "price": random.random(count)}, schema=shape))
        effect = lake.effect(name, tuple(writer.finish()[name]), number + 1)
        assert isinstance(lake.tables.commit(effect), Committed)
    process = multiprocessing.get_context("spawn").Process(
        target=_compacted_within, args=(lake.settings, name, 12_000_000)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 0
    (path,) = paths(lake, name)
    rows = pq.read_table(local(path))
    prices = rows["price"].to_numpy()
    assert (prices[:-1] >= prices[1:]).all()
    assert (np.sort(rows["id"].to_numpy()) == np.arange(9 * count)).all()
    assert len(rows["_row_id"].unique()) == 9 * count


@pytest.mark.parametrize("version", ["2", "3"])
def test_deleted_rows_are_left_out(lake: Lake, version: str) -> None:
    """Deletion vectors and position delete files are folded in, their entries go with the files, and no row comes
    back."""
    name, deleter = lake.create(format_version=version), Deleter(lake)
    grow(lake, name, [list(range(10)), list(range(10, 20)), [20]])
    first, second = sorted(paths(lake, name) - {max(paths(lake, name))})[:2]
    ids = {path: pq.read_table(local(path))["id"].to_pylist() for path in (first, second)}
    deleter.commit(name, {first: [0], second: range(min(4, len(ids[second])))})
    left = lake.rows(name)
    done = compact(lake, name)
    assert done.rows == len(left)
    assert lake.rows(name) == left
    table = deleter.table(name)
    assert check(table) == {path: set() for path in paths(lake, name)}
    assert not [
        m for m in table.current_snapshot().manifests(table.io) if m.content.value == 1 and m.existing_files_count
    ]  # type: ignore[union-attr]


def test_rows_keep_their_ids_and_their_last_change(lake: Lake) -> None:
    """On version 3 a row has the same `_row_id` and `_last_updated_sequence_number` after any number of compactions."""
    name = lake.create(format_version="3")
    grow(lake, name, [[1, 2], [3], [4]])
    Deleter(lake).commit(name, {min(paths(lake, name)): [0]})
    before = row_ids(lake, name)
    compact(lake, name)
    assert row_ids(lake, name) == before
    grow(lake, name, [[5], [6]], start=4)
    later = row_ids(lake, name)
    compact(lake, name)
    assert row_ids(lake, name) == later
    assert {key: later[key] for key in before} == before
    lineage(Deleter(lake).table(name))


def test_files_of_older_schemas_get_the_present_one(lake: Lake) -> None:
    """Columns that came, went, were renamed or widened since are in the new file as every reader sees them."""
    name = lake.create()
    grow(lake, name, [[1], [2]])
    with lake.plain(name).update_schema() as update:
        update.rename_column("name", "called")
        update.add_column("more", StringType())
    table = lake.plain(name)
    table.append(pa.table({"id": [3], "called": ["3"], "more": ["x"]}))
    before = sorted(lake.plain(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert compact(lake, name).files_after == 1
    assert sorted(lake.plain(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == before


class Meanwhile:
    """Does something between the rewriting of files and the commit that names them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
        real, left = table_care.replace_files, list(acts)

        def replaced(commits: TableCommits, load: Callable[[], Table], *more: object, **words: object) -> object:
            def loading() -> Table:
                table = load()
                if left:
                    left.pop(0)()
                return table

            return real(commits, loading, *more, **words)  # type: ignore[arg-type]

        monkeypatch.setattr(table_care, "replace_files", replaced)


def test_commits_in_between_do_not_spoil_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that wins the race is followed by another try, with the files that are written already."""
    name = lake.create()
    grow(lake, name, [[1], [2], [3]])
    acts = [lambda number=number: grow(lake, name, [[number]], start=number) for number in (4, 5, 6)]
    Meanwhile(monkeypatch, *acts)
    done = compact(lake, name)
    assert (done.files_before, done.refused) == (3, 0)
    assert lake.rows(name) == [1, 2, 3, 4, 5, 6]


def test_conflicts_without_end_are_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some tries it stops with an error, nothing is lost, and the next round has another chance."""
    name = lake.create()
    grow(lake, name, [[1], [2]])
    monkeypatch.setattr("framework.adapters.iceberg.commits.replace.FIRST_PAUSE_S", 0.0)
    Meanwhile(monkeypatch, *[lambda n=n: grow(lake, name, [[n]], start=n) for n in range(3, 20)])
    with pytest.raises(FloeError, match="maintenance of table"):
        compact(lake, name)
    assert lake.rows(name) == list(range(1, 11))


class WhileRewritten:
    """Each group's files are changed by somebody else once they are rewritten and before that is committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        real = table_care.rewrite
        self.groups = 0

        def rewritten(*arguments: object, **words: object) -> object:
            made = real(*arguments, **words)  # type: ignore[arg-type]
            self.groups += 1
            act()
            return made

        monkeypatch.setattr(table_care, "rewrite", rewritten)


def _spec_of(lake: Lake, name: str, layout: str) -> None:
    table = lake.plain(name)
    if layout == "sorted":
        with table.update_sort_order() as order:
            order.desc("id", "identity")
    elif layout == "shared out":
        with table.update_spec() as spec:
            spec.add_field("id", "bucket[3]", "by_id")


@pytest.mark.parametrize("layout", ["as read", "sorted", "shared out"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_that_are_deleted_meanwhile_stay_deleted(
    lake: Lake, version: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of files that are being rewritten are deleted in the new ones by the snapshot that names these, wherever the
    rows went; what was deleted before is left out as ever. A later compaction applies them."""
    name = lake.create(format_version="2")
    numbers = [[n * 10 + i for i in range(6)] for n in range(4)]
    grow(lake, name, numbers)
    _spec_of(lake, name, layout)
    if version == "3":
        upgrade(lake, name)
    own = {path: pq.read_table(local(path))["id"].to_pylist() for path in paths(lake, name)}
    first, second, third, _ = sorted(own)
    Deleter(lake).commit(name, {first: [0, 3], second: [5]})
    gone = {own[first][0], own[first][3], own[second][5]}
    WhileRewritten(monkeypatch, lambda: Deleter(lake).commit(name, {first: [1, 5], third: [0, 1, 2, 3, 4, 5]}))
    gone |= {own[first][1], own[first][5], *own[third]}
    kept = sorted({each for ids in own.values() for each in ids} - gone)

    done = compact(lake, name)

    assert (done.files_before, done.refused, done.snapshots) == (4, 0, 1)
    assert lake.rows(name) == kept
    head = lake.plain(name).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert (head.summary.operation.value, head.summary["floe.maintenance"]) == ("replace", "compaction")
    monkeypatch.undo()
    assert done.files_after == len(paths(lake, name))
    assert compact(lake, name, CompactionPolicy(min_input_files=1, delete_ratio=0.01)).refused == 0
    assert lake.rows(name) == kept
    assert sum(pq.read_metadata(local(path)).num_rows for path in paths(lake, name)) == len(kept)


@pytest.mark.parametrize("act", ["a row that is back", "a file that is gone", "a column that came"])
def test_a_group_whose_files_are_others_now_is_refused(lake: Lake, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the new files lack a row that is there again, or an old file is gone: they are removed, and nothing changes."""
    name = lake.create()
    grow(lake, name, [[1, 2], [3, 4]])
    before = lake.plain(name).current_snapshot()
    assert before is not None
    path = min(paths(lake, name))
    Deleter(lake).commit(name, {path: [0]})

    def change_it() -> None:
        table = lake.plain(name)
        if act == "a row that is back":
            table.manage_snapshots().set_current_snapshot(before.snapshot_id).commit()
        elif act == "a file that is gone":
            table.overwrite(table.scan().to_arrow())
        else:
            with table.update_schema() as update:
                update.add_column("more", LongType())

    WhileRewritten(monkeypatch, change_it)
    done = compact(lake, name)
    # The file that is gone has left a delete file, which goes.
    assert (done.files_before, done.refused, done.snapshots) == (0, 1, int(act == "a file that is gone"))
    assert len(lake.rows(name)) == (4 if act == "a row that is back" else 3)
    folder = Path(local(lake.plain(name).location())) / "data"
    assert not list(folder.rglob("compaction-*"))


@pytest.mark.parametrize("part", ["numbers", "deletes"])
def test_a_compaction_that_forgets_later_deletes_is_found_out(
    lake: Lake, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutation: positions of old files taken for those of the new one, or none at all, leave other rows."""
    name = lake.create()
    grow(lake, name, [[1, 2, 3], [4, 5, 6]])
    first, last = min(paths(lake, name)), max(paths(lake, name))
    own = {path: pq.read_table(local(path))["id"].to_pylist() for path in (first, last)}
    Deleter(lake).commit(name, {first: [0]})
    WhileRewritten(monkeypatch, lambda: Deleter(lake).commit(name, {last: [1]}))

    def broken(places: RowPlaces, deleted: Sequence[Any]) -> list[Any]:
        return [np.unique(np.concatenate(deleted))] if part == "numbers" else []

    monkeypatch.setattr(RowPlaces, "places", broken)
    compact(lake, name)
    assert lake.rows(name) != sorted({1, 2, 3, 4, 5, 6} - {own[first][0], own[last][1]})


@pytest.mark.parametrize("groups", [True, False])
@pytest.mark.parametrize("version", ["2", "3"])
def test_deletes_of_files_that_are_gone_go(lake: Lake, version: str, groups: bool) -> None:
    """A file that others replaced leaves its delete files in the table and in its totals: maintenance takes them away,
    beside groups to compact and without any, and what is for files that are there stays."""
    name = lake.create(format_version="2")
    grow(lake, name, [[n * 10 + i for i in range(4)] for n in range(5)])
    old = sorted(paths(lake, name))
    Deleter(lake).commit(name, {path: [0, 2] for path in old[:4]})
    table = lake.plain(name)
    rest = table.scan().to_arrow()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as overwrite:
        for task in table.scan().plan_files():
            if task.file.file_path in old[:3]:
                overwrite.delete_data_file(task.file)
    kept = sorted(
        set(rest["id"].to_pylist()) - {i for path in old[:3] for i in pq.read_table(local(path))["id"].to_pylist()}
    )
    if version == "3":
        upgrade(lake, name)
    assert len(live_files_of(lake.plain(name)).dangling) == 3
    policy = EAGER if groups else CompactionPolicy(min_input_files=50, delete_ratio=0.9)

    done = compact(lake, name, policy)

    assert (done.refused, done.snapshots) == (0, 1)
    assert done.files_before == (2 if groups else 0)
    assert lake.rows(name) == kept
    found = live_files_of(lake.plain(name))
    assert found.dangling == frozenset()
    head = lake.plain(name).current_snapshot()
    assert head is not None
    assert head.summary is not None
    assert (head.summary["total-delete-files"], head.summary["total-position-deletes"]) == (
        ("0", "0") if groups else ("1", "2")
    )
    assert compact(lake, name, policy).snapshots == 0


def test_a_commit_that_is_made_and_refused_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 7: a catalog that says no and means yes neither doubles rows nor loses them."""
    name = lake.create()
    grow(lake, name, [[1], [2], [3]])
    real = TableCommits.apply

    def applied(self: TableCommits, *arguments: object) -> Table:
        real(self, *arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(TableCommits, "apply", real)
        raise CommitFailedException("made, and refused")

    monkeypatch.setattr(TableCommits, "apply", applied)
    done = compact(lake, name)
    assert (done.files_before, done.files_after, done.refused) == (3, 1, 0)
    assert lake.rows(name) == [1, 2, 3]
    assert len(paths(lake, name)) == 1


def test_equality_deletes_of_others_are_left_alone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table with deletes that floe does not read is not compacted, and it is said why."""
    name = lake.create()
    grow(lake, name, [[1], [2]])

    def refuse(*_: object) -> object:
        from framework.adapters.iceberg.private.live_files import UnsupportedDeletes

        raise UnsupportedDeletes("f has equality deletes")

    monkeypatch.setattr(table_care, "live_files_of", refuse)
    assert compact(lake, name).reason == "f has equality deletes"


def test_manifests_are_merged_without_a_change_of_rows(lake: Lake) -> None:
    """Many manifests become one of each kind, and every entry keeps its numbers and row ids."""
    name = lake.create(**{"format-version": "3", "commit.manifest.min-count-to-merge": "100"})
    grow(lake, name, [[number] for number in range(1, 13)])
    before = row_ids(lake, name)
    merged = TableCare(lake.tables).merge_manifests(name, ManifestsPolicy(min_count=10), dry_run=False)
    assert merged == (12, 1)
    assert row_ids(lake, name) == before
    assert lake.view(name).snapshot_control_offset == 12


def test_a_rollback_past_a_compaction_finds_what_it_gives_up(lake: Lake) -> None:
    """What came after an older snapshot is still told by the appends, each row once."""
    name = lake.create()
    grow(lake, name, [[1], [2], [3, 4]])
    compact(lake, name)
    facts = lake.tables.load_history(name, "main", TOPIC)
    assert facts is not None
    assert [each.recovery for each in facts.ancestry] == ["compaction", None, None, None]
    assert facts.ancestry[0].control_offset == 3


def _killed(settings: dict[str, str], name: str, point: str) -> None:
    os.environ["FLOE_FAULT"] = f"{point}=kill"
    compact(Lake(settings), name)


@pytest.mark.parametrize("point", ["files-rewritten", "files-replaced"])
def test_a_killed_compaction_loses_nothing(lake: Lake, point: str) -> None:
    """Killed before or after its commit, every row is there once, and the next compaction does what is left."""
    name = lake.create()
    grow(lake, name, [[1], [2], [3]])
    process = multiprocessing.get_context("spawn").Process(target=_killed, args=(lake.settings, name, point))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert lake.rows(name) == [1, 2, 3]
    assert len(paths(lake, name)) == (3 if point == "files-rewritten" else 1)
    compact(lake, name)
    assert lake.rows(name) == [1, 2, 3]
    assert len(paths(lake, name)) == 1


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_values_of_every_type_are_the_same_after(lake: Lake, version: str, is_sorted: bool) -> None:
    """Whatever a column's type, each value and each null is what it was, whoever wrote the file, and bounds hold it."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901)
    types = [
        (BooleanType(), True), (IntegerType(), -5), (LongType(), 2**40), (FloatType(), 1.5), (DoubleType(), -0.0),
        (DecimalType(20, 3), Decimal("12345.678")), (DateType(), moment.date()), (TimeType(), moment.time()),
        (TimestampType(), moment), (TimestamptzType(), moment.replace(tzinfo=timezone.utc)), (StringType(), "ä\n"),
        (UUIDType(), uuid.UUID(int=7).bytes), (FixedType(4), b"abcd"), (BinaryType(), b"\x00\xff"),
        (ListType(101, StringType(), False), ["a", None, "b"]),
        (MapType(102, StringType(), 103, LongType(), False), [("k", 1), ("l", None)]),
        (StructType(NestedField(104, "x", LongType(), required=False),
                    NestedField(105, "y", ListType(106, DoubleType(), False), required=False)), {"x": 1, "y": [1.0]}),
    ]  # fmt: skip
    fields = [NestedField(2 + place, f"c{place}", kind, required=False) for place, (kind, _) in enumerate(types)]
    name = lake.create(
        "shop.types", Schema(NestedField(1, "id", LongType(), required=False), *fields), format_version=version
    )
    if is_sorted:
        with Deleter(lake).table(name).update_sort_order() as update:
            update.desc("id", IdentityTransform())
    full: dict[str, object] = {f"c{place}": value for place, (_, value) in enumerate(types)}
    nothing: dict[str, object] = dict.fromkeys(full)
    for offset, rows in enumerate(
        ([{"id": 1, **full}, {"id": 2, **nothing}], [{"id": 3, **full}], [{"id": 4, **nothing}]), 1
    ):
        assert isinstance(lake.tables.commit(lake.effect(name, lake.files(name, rows), offset)), Committed)

    def seen() -> list[dict[str, object]]:
        return sorted(lake.plain(name).scan().to_arrow().to_pylist(), key=lambda row: int(row["id"]))

    before = seen()
    assert compact(lake, name).files_after == 1
    assert seen() == before
    assert compact(lake, name).files_after == 0
    assert len(lake.plain(name).scan(row_filter="id = 3 and c2 = 1099511627776").to_arrow()) == 1
    grow_one = lake.files(name, [{"id": 5, **full}])
    assert isinstance(lake.tables.commit(lake.effect(name, grow_one, 4)), Committed)
    both = seen()
    size = sum(task.file.file_size_in_bytes for task in lake.plain(name).scan().plan_files())
    policy = CompactionPolicy(target_file_bytes=size, min_input_files=2)
    assert compact(lake, name, policy).files_after == 1  # of a file that floe wrote and one of PyIceberg's
    assert seen() == both
