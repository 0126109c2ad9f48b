"""Commits that change rows by their keys, to real tables: after each the table is what a dictionary would hold,
whatever others did to it between the search for live rows and the commit."""

from __future__ import annotations

import datetime
import decimal
import itertools
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import DoubleType, FloatType, IcebergType, LongType, NestedField, StringType

from framework.adapters.iceberg.commits.commit import TableCommits
from framework.adapters.iceberg.private.live_files import live_files
from framework.adapters.iceberg.private.row_lineage import read_manifests
from framework.adapters.iceberg.project_by_id import table_columns
from framework.adapters.iceberg.upsert import rows_to_delete as keyed_rows
from framework.adapters.iceberg.upsert.keys_file import read_found, read_keys, write_keys
from framework.adapters.iceberg.upsert.search import Hits, search
from framework.adapters.maintenance import copy_on_write
from framework.adapters.maintenance.copy_on_write import copies_without
from framework.adapters.maintenance.tables import TableCare
from framework.adapters.parquet.files import TableWriter
from framework.commit.events.event_types import DataFile, UpsertChanges
from framework.commit.machine.effects import (
    CommitConflict,
    CommitFailed,
    CommitTable,
    Committed,
    FailureCause,
    FilesGone,
)
from framework.config.spec import PartitionFieldSpec
from framework.config.values.maintenance import CompactionPolicy
from framework.metrics.figures import Service
from framework.metrics.services import service_of_commit
from framework.table.schema.arrow import _PLAIN, arrow_schema, parse_schema
from framework.table.schema.types import primitive_type
from tests.iceberg.conftest import POLICY, Lake
from tests.iceberg.deletes import Deleter, as_equality_deletes
from tests.iceberg.files_of_others import add_as_hive, add_files
from tests.iceberg.lineage import upgrade

pytestmark = pytest.mark.iceberg

# Keys may be null: PyIceberg, which checks, reads no required column that a file of Hive's lacks.
SCHEMA = Schema(
    NestedField(1, "shop", LongType(), required=False),
    NestedField(2, "code", StringType(), required=False),
    NestedField(3, "day", LongType(), required=False),
    NestedField(4, "name", StringType(), required=False),
)
KEYS = pa.schema(
    [
        pa.field("shop", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("code", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)
Key = tuple[int, str]
Row = tuple[int, str] | None  # day and name; None: deleted


class Table:
    """One table and what it should hold; plays the part of a pipeline's tasks, which share no code with the committing
    side but the search."""

    def __init__(self, lake: Lake, version: str, partitioned: bool) -> None:
        self.lake = lake
        self.offset = 0
        self.rows: dict[Key, tuple[int, str]] = {}
        self.own: tuple[int | None, dict[Key, tuple[int, str]]] = None, {}  # the head after our last commit
        spec = [PartitionFieldSpec("day", "identity")] if partitioned else []
        self.name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", SCHEMA, spec, format_version=version)

    def probe(self, changes: dict[Key, Row], is_copied: bool = False) -> CommitTable:
        """What a batch announces, as its tasks found the table."""
        plain = self.lake.plain(self.name)
        head = plain.current_snapshot()
        manifests = read_manifests(plain.io, head.manifest_list) if head else ()
        live = live_files(plain.io, manifests, plain.format_version)
        files = list(live.by_path.values())
        keys = pa.Table.from_pylist([{"shop": s, "code": c} for s, c in changes], KEYS)
        hits = search(plain.io, files, table_columns(plain.metadata).of((1, 2)), keys)
        path = f"{plain.location()}/data/{uuid.uuid4().hex}-keys.parquet"
        written = write_keys(plain.io, path, keys, hits, [file.path for file in files])
        keyed = UpsertChanges(
            head.snapshot_id if head else None, (1, 2), (written,), len(keys), copy_on_write=is_copied
        )
        rows = [
            {"shop": s, "code": c, "day": row[0], "name": row[1]} for (s, c), row in changes.items() if row is not None
        ]
        self.offset += 1
        return replace(
            self.lake.effect(self.name, self.lake.files(self.name, rows) if rows else (), self.offset), keyed=(keyed,)
        )

    def commit(self, effect: CommitTable, changes: dict[Key, Row]) -> None:
        """As the coordinator does: examine anew and decide again after a conflict."""
        for _ in range(3):
            answer = self.lake.tables.commit(effect, copies_without)
            if isinstance(answer, Committed):
                break
            assert isinstance(answer, CommitConflict), answer
            effect = replace(effect, view=self.lake.view(self.name), commit_id=uuid.uuid4().hex)
        else:
            raise AssertionError("no end of conflicts")
        for key, row in changes.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        head = self.lake.plain(self.name).current_snapshot()
        self.own = head.snapshot_id if head else None, dict(self.rows)

    def upsert(self, changes: dict[Key, Row]) -> None:
        self.commit(self.probe(changes), changes)

    def check(self) -> None:
        found = self.lake.plain(self.name).scan().to_arrow().to_pylist()
        held = sorted((row["shop"], row["code"], row["day"], row["name"]) for row in found)
        assert held == sorted((*key, *row) for key, row in self.rows.items())

    # ---- what others do ---------------------------------------------------------------------------------------------

    def foreign_insert(self, key: Key, row: tuple[int, str]) -> None:
        if key in self.rows:
            return
        data = [{"shop": key[0], "code": key[1], "day": row[0], "name": row[1]}]
        table = self.lake.plain(self.name)
        table.append(pa.Table.from_pylist(data, schema=table.schema().as_arrow()))
        self.rows[key] = row

    def foreign_add_files(self, key: Key, row: tuple[int, str]) -> None:
        """A file that somebody else wrote, without field ids."""
        if key in self.rows:
            return
        add_files(self.lake.plain(self.name), {"shop": key[0], "code": key[1], "day": row[0], "name": row[1]})
        self.rows[key] = row

    def foreign_hive(self, key: Key, row: tuple[int, str]) -> None:
        """The same in the layout of Hive: what the partition says is not in the file."""
        if key in self.rows:
            return
        add_as_hive(self.lake.plain(self.name), {"shop": key[0], "code": key[1], "day": row[0], "name": row[1]})
        self.rows[key] = row

    def foreign_delete(self, key: Key) -> None:
        if self.lake.plain(self.name).current_snapshot() is None:
            return
        self.lake.plain(self.name).delete(f"shop = {key[0]} and code = '{key[1]}'")
        self.rows.pop(key, None)

    def foreign_rewrite(self) -> None:
        """All rows into new files, as a compaction leaves them."""
        table = self.lake.plain(self.name)
        if table.current_snapshot() is not None:
            table.overwrite(table.scan().to_arrow())

    def foreign_rollback(self) -> None:
        """What others did since our last commit is undone; their files stay, and no snapshot in use names them."""
        snapshot_id, rows = self.own
        table = self.lake.plain(self.name)
        if any(each.snapshot_id == snapshot_id for each in table.snapshots()):
            table.manage_snapshots().set_current_snapshot(snapshot_id).commit()
            self.rows = dict(rows)

    def foreign_expire(self) -> None:
        """Every snapshot but the head is gone, also the one that was searched, and with it what only it names."""
        table = self.lake.plain(self.name)
        head = table.current_snapshot()
        old = [each.snapshot_id for each in table.snapshots() if head is None or each.snapshot_id != head.snapshot_id]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()
            kept = {Path(head.manifest_list).name} if head else set()
            for path in Path(table.location().removeprefix("file://")).glob("metadata/snap-*.avro"):
                if path.name not in kept:
                    path.unlink()

    def foreign_spec(self) -> None:
        """The table is partitioned by `shop` or no longer."""
        table = self.lake.plain(self.name)
        with table.update_spec() as update:
            if any(field.name == "by_shop" for field in table.spec().fields):
                update.remove_field("by_shop")
            else:
                update.add_field("shop", "identity", "by_shop")

    def foreign_column(self) -> None:
        """The table gains a column, and files that were written before lack it."""
        with self.lake.plain(self.name).update_schema() as update:
            update.add_column(f"c{uuid.uuid4().hex[:6]}", LongType())

    def foreign_upgrade(self) -> None:
        """The table is of version 3 from here on; its position deletes stay, and count, until vectors take their place."""
        if self.lake.plain(self.name).format_version < 3:
            upgrade(self.lake, self.name)

    def compact(self) -> None:
        """floe's own compaction, of whatever there is."""
        policy = CompactionPolicy(min_input_files=2, delete_ratio=0.01)
        TableCare(self.lake.tables).compact(self.name, policy, dry_run=False)


keys = st.tuples(st.integers(1, 3), st.sampled_from(["a", "b", "ab"]))
rows = st.tuples(st.integers(1, 2), st.sampled_from(["x", "y", ""]))
changes_of = st.dictionaries(keys, st.none() | rows, min_size=1, max_size=5)
foreign = st.one_of(
    st.tuples(st.sampled_from(["insert", "add_files", "hive"]), keys, rows),
    st.tuples(st.just("delete"), keys),
    *(st.tuples(st.just(act)) for act in ("rewrite", "compact", "rollback", "expire", "spec", "column")),
)
steps = st.lists(st.tuples(changes_of, st.lists(foreign, max_size=2), st.booleans()), min_size=1, max_size=5)


upgrading = st.one_of(foreign, st.just(("upgrade",)), st.just(("compact",)))
upgraded_steps = st.lists(st.tuples(changes_of, st.lists(upgrading, max_size=2), st.booleans()), min_size=2, max_size=7)
# PyIceberg writes no metadata of version 3: what others do to such tables is in the tests with Spark.
OF_VERSION_3 = ("compact", "upgrade")


def interfere(table: Table, acts: Sequence[tuple[Any, ...]]) -> None:
    for act, *arguments in acts:
        if act not in OF_VERSION_3 and table.lake.plain(table.name).format_version > 2:
            continue
        getattr(table, act if act == "compact" else f"foreign_{act}")(*arguments)


def follow(table: Table, steps: Sequence[tuple[dict[Key, Row], list[tuple[Any, ...]], bool]]) -> None:
    """Each step's changes, with what others do between search and commit; the table is looked at after each."""
    for changes, acts, is_copied in steps:
        effect = table.probe(changes, is_copied)
        interfere(table, acts)
        table.commit(effect, changes)
        table.check()


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.timeout(600)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_a_table_is_the_fold_of_its_changes(
    lake: Lake, partitioned: bool, steps: list[tuple[dict[Key, Row], list[tuple[Any, ...]], bool]]
) -> None:
    """Inserts, updates, deletes, moves between partitions and keys that come back, by deletes and by copies of files,
    with appends, deletes and rewrites of others between search and commit, their undoing, the end of old snapshots, and
    another partitioning or schema: the table holds one row for each live key. Invariants 13 to 15."""
    follow(Table(lake, "2", partitioned), steps)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(changes_of, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_a_table_of_version_3_is_the_fold_of_its_changes(
    lake: Lake, steps: list[tuple[dict[Key, Row], bool, bool]]
) -> None:
    """The same by deletion vectors and copies, with compaction between search and commit; others that write version 3
    are in the tests with Spark."""
    table = Table(lake, "3", False)
    for changes, is_compacted, is_copied in steps:
        effect = table.probe(changes, is_copied)
        if is_compacted:
            table.compact()
        table.commit(effect, changes)
        table.check()


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.timeout(600)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(upgraded_steps)
def test_a_table_that_is_upgraded_is_the_fold_of_its_changes(
    lake: Lake, partitioned: bool, steps: list[tuple[dict[Key, Row], list[tuple[Any, ...]], bool]]
) -> None:
    """The same where somebody makes the table one of version 3 between search and commit: files with position deletes
    get vectors that hold these, too, and no row comes back."""
    follow(Table(lake, "2", partitioned), steps)


@pytest.mark.parametrize("acts", [[("upgrade",)], [("insert", (3, "b"), (1, "x")), ("rollback",)]])
def test_a_change_that_leaves_the_head_is_a_conflict(lake: Lake, acts: list[tuple[Any, ...]]) -> None:
    """An upgrade, or a change that is undone, leaves the head that a commit is conditional on, and the catalog refuses
    the snapshot all the same: it is decided again at once, and the table is in no trouble."""
    table = Table(lake, "2", False)
    table.upsert({(1, "a"): (1, "x"), (2, "a"): (1, "x")})
    effect = table.probe({(1, "a"): (1, "y")})
    interfere(table, acts)
    assert isinstance(lake.tables.commit(effect, copies_without), CommitConflict)
    table.commit(replace(effect, view=lake.view(table.name)), {(1, "a"): (1, "y")})
    table.check()


def test_an_expiry_since_the_look_is_a_conflict(lake: Lake) -> None:
    """An expiry takes the very files that the table at hand names: the commit is decided again at once."""
    table = Table(lake, "2", False)
    table.upsert({(1, "a"): (1, "x")})
    table.foreign_insert((2, "a"), (1, "x"))  # a list of manifests that floe has not written
    effect = table.probe({(1, "a"): (1, "y")})
    interfere(table, [("insert", (3, "b"), (1, "x")), ("expire",)])
    assert isinstance(lake.tables.commit(effect, copies_without), CommitConflict)
    table.commit(replace(effect, view=lake.view(table.name)), {(1, "a"): (1, "y")})
    table.check()


def test_equality_deletes_since_the_look_hold_the_commit(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine makes them between a batch's look and its commit: nothing is committed, and the answer says what to
    do in Spark rather than to look at the store."""
    table = Table(lake, "2", partitioned=False)
    table.upsert({(1, "a"): (1, "one"), (2, "b"): (1, "two")})
    effect = table.probe({(2, "b"): (1, "three")})
    (path,) = (task.file.file_path for task in lake.plain(table.name).scan().plan_files())
    with monkeypatch.context() as patched:
        as_equality_deletes(patched)
        Deleter(lake).commit(table.name, {path: [0]})
    head = lake.plain(table.name).current_snapshot()

    answer = lake.tables.commit(replace(effect, view=lake.view(table.name)), copies_without)

    assert isinstance(answer, CommitFailed)
    assert answer.cause is FailureCause.REFUSED
    assert "has equality deletes, which floe does not read; CALL system.rewrite_data_files" in answer.reason
    assert lake.plain(table.name).current_snapshot() == head


@pytest.mark.parametrize("version", ["2", "3"])
def test_copies_leave_no_delete_for_readers(lake: Lake, version: str) -> None:
    """Where rows go by copies of their files, nothing that is live deletes anything, not even what was deleted before in
    such a file; the totals are those of the files that are there, and a file without rows is gone."""
    table = Table(lake, version, False)
    table.upsert({(1, "a"): (1, "x"), (2, "a"): (1, "x"), (3, "a"): (1, "x")})
    table.upsert({(1, "a"): (1, "y")})
    for changes in ({(2, "a"): (2, "z")}, {(1, "a"): None, (2, "a"): (1, "q"), (3, "b"): (1, "x")}):
        table.commit(table.probe(changes, is_copied=True), changes)
        table.check()
    plain = lake.plain(table.name)
    head = plain.current_snapshot()
    assert head is not None
    assert head.summary is not None
    live = live_files(plain.io, read_manifests(plain.io, head.manifest_list), plain.format_version)
    assert [file.path for file in live.by_path.values() if file.vector or file.position_deletes] == []
    assert head.summary.operation is Operation.OVERWRITE
    totals = {word: head.summary[f"total-{word}"] for word in ("records", "data-files", "delete-files")}
    assert totals == {"records": "3", "data-files": str(len(live.by_path)), "delete-files": "0"}
    assert sum(file.record_count for file in live.by_path.values()) == 3


@pytest.mark.parametrize(("version", "is_copied"), [("2", True), ("2", False), ("3", True), ("3", False)])
def test_what_a_refused_commit_wrote_is_removed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, version: str, is_copied: bool
) -> None:
    """A commit that the catalog refuses for certain leaves nothing that it wrote: no copies of files, no position deletes,
    no deletion vectors in Puffin files, no manifests (apache/iceberg#17307)."""
    table = Table(lake, version, False)
    table.upsert({(1, "a"): (1, "x"), (2, "a"): (1, "x")})
    folder = Path(lake.plain(table.name).location().removeprefix("file://"))

    def stored() -> set[Path]:
        return {path for path in folder.rglob("*") if path.is_file()}

    effect = table.probe({(1, "a"): (1, "y")}, is_copied=is_copied)
    known, made = stored(), set[Path]()
    send = TableCommits._send

    def refused(self: TableCommits, effect: CommitTable, loaded: Any, attempt: Any) -> Any:
        """Others were faster by a moment."""
        made.update(stored() - known)
        patch.undo()
        table.upsert({(3, "b"): (1, "x")})
        return send(self, effect, loaded, attempt)

    with monkeypatch.context() as patch:
        patch.setattr(TableCommits, "_send", refused)
        assert isinstance(lake.tables.commit(effect, copies_without), CommitConflict)
    kinds = {path.suffix for path in made}
    assert kinds == {".avro", ".puffin" if version == "3" and not is_copied else ".parquet"}
    assert not made & stored()
    assert known <= stored()


def test_copies_beside_one_that_fails_are_removed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be copied leaves none of the copies that were made beside it; the next try has all of them."""
    table = Table(lake, "2", True)
    keys = [(shop, code) for shop in (1, 2, 3) for code in ("a", "b")]
    table.upsert({key: (key[0], "x") for key in keys})  # three partitions, a file of two rows in each
    changes: dict[Key, Row] = dict.fromkeys(key for key in keys if key[1] == "a")
    effect = table.probe(changes, is_copied=True)
    folder = Path(lake.plain(table.name).location().removeprefix("file://")) / "data"
    real, calls, copied = copy_on_write.rewrite, itertools.count(), list[str]()

    def failing(*given: Any, **more: Any) -> Any:
        if next(calls) == 1:
            raise OSError("no space left on device")
        made = real(*given, **more)
        copied.extend(file.path for file in made.files)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(copy_on_write, "rewrite", failing)
        answer = lake.tables.commit(effect, copies_without)
    assert isinstance(answer, CommitFailed)
    assert "no space left" in answer.reason
    assert copied
    assert list(folder.rglob("copy-*.parquet")) == []
    table.commit(effect, changes)
    table.check()


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (pa.ArrowNotImplementedError("Keys of type extension<arrow.uuid>"), FailureCause.FLOE),
        (KeyError("k"), FailureCause.FLOE),
        (OSError("no space left on device"), FailureCause.STORE),
    ],
)
def test_an_error_of_floes_own_is_not_the_stores(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: FailureCause
) -> None:
    """Whoever reads that the store failed looks at the store: what is floe's own is said so, and counted for nobody."""
    table = Table(lake, "2", False)
    effect = table.probe({(1, "a"): (1, "x")})

    def raising(*_: object) -> object:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("framework.adapters.iceberg.commits.commit.rows_to_delete", raising)
        answer = lake.tables.commit(effect, copies_without)
    assert isinstance(answer, CommitFailed)
    assert answer.cause is cause
    assert ("no fault of the store" in answer.reason) == (cause is FailureCause.FLOE)
    assert service_of_commit(answer) is (Service.STORE if cause is FailureCause.STORE else None)
    table.commit(effect, {(1, "a"): (1, "x")})
    table.check()


def test_two_batches_that_were_announced_at_once_follow_one_another(lake: Lake) -> None:
    """Invariant 17 is for row ids and speed: a batch that was searched for before the one in front of it was committed
    is searched for again, and no key is there twice."""
    table = Table(lake, "3", False)
    table.upsert({(1, "a"): (1, "first")})
    second, third = {(1, "a"): (1, "second"), (2, "a"): (1, "new")}, {(1, "a"): (2, "third"), (2, "a"): None}
    effects = [table.probe(second), table.probe(third)]
    table.commit(effects[0], second)
    table.commit(effects[1], third)
    table.check()


def test_a_key_that_is_in_the_table_twice_is_there_once_after_a_change(lake: Lake) -> None:
    """Rows that somebody doubled go together, and a delete takes all of them."""
    table = Table(lake, "2", False)
    for _ in range(2):
        table.foreign_insert((1, "a"), (1, "x"))
        table.rows.clear()
        table.foreign_insert((2, "b"), (1, "x"))
        table.rows.clear()
    table.upsert({(1, "a"): (1, "y"), (2, "b"): None})
    assert table.rows == {(1, "a"): (1, "y")}
    table.check()


def test_a_file_of_keys_is_gone_after_the_commit_and_says_so_before(lake: Lake) -> None:
    """The files of keys are removed once the commit is certain; where one is lost before, the table waits and says
    which."""
    table = Table(lake, "2", False)
    effect = table.probe({(1, "a"): (1, "x")})
    path = effect.keyed[0].keys[0].path
    io = lake.plain(table.name).io
    assert read_keys(io, path).to_pylist() == [{"key0": 1, "key1": "a"}]
    io.delete(path)
    answer = lake.tables.commit(effect, copies_without)
    assert answer == FilesGone(table.name, effect.commit_id, (path,))
    again = table.probe({(1, "a"): (1, "x")})
    table.commit(again, {(1, "a"): (1, "x")})
    assert not io.new_input(again.keyed[0].keys[0].path).exists()


def test_a_search_that_trusts_an_old_snapshot_is_found_out(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutation for invariant 15: without the look at files that are new since the search, a rewrite by others
    doubles a key."""
    monkeypatch.setattr(keyed_rows, "_unknown", lambda *_: [])
    table = Table(lake, "2", False)
    table.upsert({(1, "a"): (1, "x")})
    effect = table.probe({(1, "a"): (1, "y")})
    table.foreign_rewrite()
    table.commit(effect, {(1, "a"): (1, "y")})
    with pytest.raises(AssertionError):
        table.check()


def test_keys_of_every_kind_are_compared_exactly(lake: Lake) -> None:
    """Keys that differ in one column, in case, in spaces or in what stands behind a common beginning are different
    keys."""
    table = Table(lake, "2", False)
    different = [
        (1, "a"),
        (1, "A"),
        (1, "a "),
        (11, ""),
        (1, "1"),
        (2**62, "a"),
        (1, "ä"),
        (1, "a" * 200),
        (1, "a" * 201),
    ]
    table.upsert({key: (1, str(number)) for number, key in enumerate(different)})
    table.upsert({key: (2, str(number)) for number, key in enumerate(different) if number % 2})
    table.check()


def test_a_file_of_keys_has_a_row_for_each_place(lake: Lake) -> None:
    """A key without a live row stands in it once, without a place; one with two live rows twice."""
    table = Table(lake, "2", False)
    io = lake.plain(table.name).io
    keys_ = pa.Table.from_pylist([{"shop": s, "code": "a"} for s in (1, 2, 3)], KEYS)
    hits = Hits(*(np.array(each, np.int64) for each in ([2, 2], [0, 1], [5, 7], [-1, -1])))
    path = f"{lake.plain(table.name).location()}/data/keys.parquet"
    written = write_keys(io, path, keys_, hits, ["one", "two"])
    assert written.record_count == 4
    found = read_found(io, path)
    assert list(zip(found.paths.to_pylist(), found.positions.tolist(), strict=True)) == [("one", 5), ("two", 7)]
    assert sorted(row["key0"] for row in read_keys(io, path).to_pylist()) == [1, 2, 3]


SECOND = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
# Values of each type that a key may have: the first is changed, the second stays.
KEY_TYPES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-(2**31), 7),
    "long": (2**62, -1),
    "decimal(38, 9)": (decimal.Decimal("-12345678901234567890.123456789"), decimal.Decimal("0.5")),
    "decimal(4, 2)": (decimal.Decimal("1.50"), decimal.Decimal("-1.50")),
    "date": (datetime.date(1969, 12, 31), datetime.date(2026, 1, 1)),
    "time": (datetime.time(23, 59, 59, 999_999), datetime.time(0)),
    "timestamp": (SECOND, datetime.datetime(1900, 1, 1)),
    "timestamptz": (
        SECOND.replace(tzinfo=datetime.timezone.utc),
        datetime.datetime(1900, 1, 1, tzinfo=datetime.timezone.utc),
    ),
    "string": ("ä key", ""),
    "uuid": (uuid.UUID(int=2**127 + 1).bytes, uuid.UUID(int=0).bytes),
    "fixed[3]": (b"\0\1\xff", b"abc"),
    "binary": (b"\0\xff", b""),
}
NANO_TYPES: dict[str, tuple[Any, Any]] = {
    "timestamp_ns": (1_767_225_600_000_000_001, -1),
    "timestamptz_ns": (1_767_225_600_000_000_001, -1),
}


def test_every_type_that_a_key_may_have_is_tried() -> None:
    """A type that the package comes to take for keys fails here until it is in the list."""
    mapped = {str(primitive_type(name)) for name in (*KEY_TYPES, *NANO_TYPES)}
    taken = {str(made) for made in map(_example, _PLAIN) if not isinstance(made, FloatType | DoubleType)}
    assert taken <= mapped


def _example(kind: type[IcebergType]) -> IcebergType:
    return kind()


@pytest.mark.parametrize("second", ["alone", "with another"])
@pytest.mark.parametrize("deletes", ["a file that moved", "a row that came"])
@pytest.mark.parametrize("kind", [*KEY_TYPES, *NANO_TYPES])
def test_keys_of_every_type_are_searched_for_again(lake: Lake, kind: str, deletes: str, second: str) -> None:
    """Whatever the key's type, a commit of somebody else between search and commit (our own compaction is enough) makes
    the coordinator read the keys and search for them: one row of the key is there afterwards."""
    version = "3" if kind in NANO_TYPES else "2"
    changed, other = {**KEY_TYPES, **NANO_TYPES}[kind]
    schema = Schema(
        NestedField(1, "k", primitive_type(kind), required=True),
        NestedField(2, "also", LongType(), required=True),
        NestedField(3, "name", StringType(), required=False),
    )
    name = lake.create(f"shop.t{uuid.uuid4().hex[:8]}", schema, format_version=version)
    key_ids = (1, 2) if second == "with another" else (1,)
    arrow = arrow_schema(parse_schema(schema.model_dump_json()))

    def rows(*values: tuple[Any, str]) -> pa.Table:
        storage = pa.schema([field.with_type(getattr(field.type, "storage_type", field.type)) for field in arrow])
        held = pa.Table.from_pylist([{"k": value, "also": 1, "name": text} for value, text in values], storage)
        return held.cast(arrow)

    def written(number: int, table: pa.Table) -> tuple[DataFile, ...]:
        target = lake.tables.load_target(name, POLICY)
        assert target is not None
        writer = TableWriter(lake.tables.io_properties(), "p", f"run{number}", 1, 1 << 28, 1 << 28)
        writer.add(target, table)
        return tuple(writer.finish()[name])

    def commit(effect: CommitTable) -> None:
        answer = lake.tables.commit(effect, copies_without)
        assert isinstance(answer, Committed), answer

    for number, value in enumerate((changed, other)):
        if number == 0 and deletes == "a row that came":
            continue
        commit(lake.effect(name, written(number, rows((value, "old"))), number + 1))
    plain = lake.plain(name)
    head = plain.current_snapshot()
    assert head is not None
    live = list(
        live_files(plain.io, read_manifests(plain.io, head.manifest_list), plain.format_version).by_path.values()
    )
    keys = rows((changed, "")).select([arrow.names[each - 1] for each in key_ids])
    hits = search(plain.io, live, table_columns(plain.metadata).of(key_ids), keys)
    assert len(hits) == (deletes == "a file that moved")
    path = f"{plain.location()}/data/{uuid.uuid4().hex}-keys.parquet"
    file = write_keys(plain.io, path, keys, hits, [each.path for each in live])
    keyed = UpsertChanges(head.snapshot_id, key_ids, (file,), 1)

    if deletes == "a file that moved":
        TableCare(lake.tables).compact(name, CompactionPolicy(min_input_files=2), dry_run=False)
    else:
        commit(lake.effect(name, written(7, rows((changed, "old"))), 3))
    commit(replace(lake.effect(name, written(8, rows((changed, "new"))), 4), keyed=(keyed,)))

    found = lake.plain(name).scan().to_arrow()
    assert sorted(found.column("name").to_pylist()) == ["new", "old"]
    assert len(set(map(str, found.column("k").to_pylist()))) == 2
