"""The simulated catalog, store and log give the answers of real ones.

The same is done to a table of the simulator and to a real one, through floe's adapters and by others; after each step
both show the same. Real are the SQL catalog with local files, the REST server of the tests, and Iceberg's Java library,
which is asked what its own table metadata takes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate

from framework.adapters.iceberg.commits import expiry
from framework.adapters.iceberg.files import store_now_ms
from framework.commit.machine.effects import (
    CommitConflict,
    CommitTable,
    Committed,
    PipelineProgress,
    RecoverTable,
    TableProgress,
)
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY, SUMMARY_RECOVERY
from tests.iceberg.conftest import TOPIC, Lake
from tests.iceberg.rest_server import RestServer
from tests.iceberg.test_expiry_beside_others import add_again, forgiving
from tests.iceberg.test_rest_catalog import RestLake
from tests.simulator import care
from tests.simulator import lake as simulated
from tests.simulator.catalog import MAIN, Asserted, Catalog, Metadata, Ref, Refused, Update, seen_of
from tests.simulator.java_metadata import JavaMetadata
from tests.simulator.ports import Store, Time

pytestmark = pytest.mark.iceberg
NAME = "shop.t"


@pytest.fixture
def lake(catalog_settings: dict[str, str]) -> Lake:
    return Lake(catalog_settings)


class Nobody:
    """Sees nothing."""

    def committed(self, name: str, before: Metadata, after: Metadata, by_floe: bool) -> None:
        """Nothing is checked here."""

    def removing(self, name: str, path: str, why: str) -> None:
        """Nothing is checked here."""

    def reach(self, where: str) -> None:
        """Nobody acts in between."""


class Both:
    """One table in the simulator and one in a real catalog. `ids` are the real snapshots by the simulated ones."""

    def __init__(self, real: Lake, checks_here: bool) -> None:
        self.real = real
        self.catalog = Catalog(checks_here, True)
        self.rows: dict[str, int] = {}
        self.lake = simulated.Lake(self.catalog, Store(Time()), Nobody(), self.rows)
        self.catalog.tables[NAME] = Metadata("uuid", "/lake/t")
        real.create(NAME)
        self.offset = 0
        self.paths: dict[str, str] = {}
        self.ids: dict[int, int] = {}

    @property
    def metadata(self) -> Metadata:
        return self.catalog.tables[NAME]

    def _learn(self) -> None:
        """The newest snapshot of both is the same."""
        head = self.metadata.head
        if head is not None and head.snapshot_id not in self.ids:
            self.ids[head.snapshot_id] = self.real.plain(NAME).metadata.refs[MAIN].snapshot_id

    def commit(self, stale: bool = False) -> None:
        """One of floe's commits, decided from the present view or from one that is old."""
        view, real = self.lake.load_view(NAME, MAIN, TOPIC), self.real.view(NAME)
        assert view is not None
        if stale:
            self.other()
        self.offset += 1
        path = self.lake.store.write("/lake/t", "a.parquet")
        self.rows[path] = 1 << self.offset
        (file,) = self.real.files(NAME, [{"id": self.offset}])
        self.paths[path] = file.path
        effect = self.real.effect(NAME, [file], self.offset, real)
        made = self.real.tables.commit(effect)
        mine = replace(effect, view=view, files=(replace(file, path=path),))
        answer = self.lake.commit(mine)
        assert type(made) is type(answer)
        if isinstance(made, Committed):
            self._learn()

    def other(self) -> None:
        """Another engine deletes the oldest file's rows, or where there is none commits nothing."""
        head = self.metadata.head
        if head is None or not head.live:
            return
        path = min(head.live, key=lambda each: self.rows[each])
        snapshot = self.lake.new_snapshot(self.metadata, head, {}, {path: self.rows[path]}, "delete", {})
        self.catalog.commit(NAME, Asserted(), Update(snapshot))
        self.real.plain(NAME).delete(f"id = {self.rows[path].bit_length() - 1}")
        self._learn()

    def again(self) -> None:
        """A file that was deleted is added again."""
        head = self.metadata.head
        gone = sorted(set(self.paths) - (head.live if head is not None else set()))
        ever = {path for each in self.metadata.snapshots.values() for path in each.live}
        if head is None or not (found := [path for path in gone if path in ever]):
            return
        snapshot = self.lake.new_snapshot(self.metadata, head, {found[0]: self.rows[found[0]]}, {}, "append", {})
        self.catalog.commit(NAME, Asserted(), Update(snapshot))
        add_again(self.real, NAME, self.paths[found[0]])
        self._learn()

    def roll_back(self, onto: int) -> None:
        """Floe's own rollback: an empty snapshot on top of an older one."""
        view, real = self.lake.load_view(NAME, MAIN, TOPIC), self.real.view(NAME)
        assert view is not None
        assert real.progress is not None
        progress = TableProgress(TOPIC, real.progress.control_offset, {"p": PipelineProgress(self.offset)})
        effect = RecoverTable(
            NAME,
            real,
            f"r{len(self.ids)}",
            (),
            progress,
            None,
            onto=self.ids[onto],
            notes={SUMMARY_RECOVERY: "rollback"},
        )
        made = self.real.tables.commit(effect)
        answer = self.lake.commit(replace(effect, view=view, onto=onto))
        assert type(made) is type(answer)
        if isinstance(made, Committed):
            self._learn()

    def move(self, to: int) -> None:
        """Another engine moves main to any snapshot."""
        if to == self.metadata.refs[MAIN].snapshot_id:
            return
        ref = replace(self.metadata.refs[MAIN], snapshot_id=to)
        self.catalog.commit(NAME, Asserted(), Update(set_refs={MAIN: ref}))
        self.real.plain(NAME).manage_snapshots().set_current_snapshot(self.ids[to]).commit()

    def tag(self, name: str, snapshot_id: int) -> None:
        self.catalog.commit(NAME, Asserted(), Update(set_refs={name: Ref(snapshot_id, False)}))
        self.real.plain(NAME).manage_snapshots().create_tag(self.ids[snapshot_id], name).commit()

    def expire(self, ids: list[int], conditional: bool, seen: Metadata | None = None) -> bool:
        """Snapshots expire, on the conditions that floe sets for what it looked at, or on none; whether they did."""
        asserted = Asserted()
        real, commits = self.real.tables.opened(NAME)
        assert real is not None
        requirements: tuple[Any, ...] = ()
        if conditional:
            look = seen or self.metadata
            asserted = Asserted(refs={name: ref.snapshot_id for name, ref in look.refs.items()})
            requirements = tuple(
                AssertRefSnapshotId(ref=name, snapshot_id=self.ids[ref.snapshot_id]) for name, ref in look.refs.items()
            )
        try:
            self.catalog.commit(NAME, asserted, Update(remove_snapshots=ids))
            mine = True
        except Refused:
            mine = False
        try:
            update = RemoveSnapshotsUpdate(snapshot_ids=[self.ids[each] for each in ids])
            commits.apply(real, requirements, (update,))
            theirs = True
        except Exception:  # each catalog has exceptions of its own
            theirs = False
        assert mine == theirs
        return mine

    def check(self, happened: list[str]) -> None:
        """References, lines, the log of heads, what floe examines, and what an expiry is decided from."""
        metadata, mine = self.real.plain(NAME).metadata, self.metadata
        ids = self.ids
        assert {name: ids[ref.snapshot_id] for name, ref in mine.refs.items()} == {
            name: ref.snapshot_id for name, ref in metadata.refs.items()
        }, happened
        assert {ids[each] for each in mine.snapshots} == {each.snapshot_id for each in metadata.snapshots}, happened
        assert [ids[each] for each, _ in mine.log] == [each.snapshot_id for each in metadata.snapshot_log], happened
        known = {each.snapshot_id: each for each in metadata.snapshots}
        for number, snapshot in mine.snapshots.items():
            parent = known[ids[number]].parent_snapshot_id
            assert parent == (None if snapshot.parent_id is None else ids[snapshot.parent_id]), happened
        view, real = self.lake.load_view(NAME, MAIN, TOPIC), self.real.view(NAME)
        assert view is not None
        assert seen_of(view) == seen_of(real)
        facts, theirs = care.facts_of(mine), expiry.facts_of(metadata)
        assert [(ids[each.snapshot_id], each.control_topic_id, each.left_ms is None) for each in facts.snapshots] == [
            (each.snapshot_id, each.control_topic_id, each.left_ms is None) for each in theirs.snapshots
        ], happened
        history, read = self.lake.load_history(NAME, MAIN, TOPIC), self.real.tables.load_history(NAME, MAIN, TOPIC)
        assert history is not None
        assert read is not None
        mine_of = [replace(each, snapshot_id=ids[each.snapshot_id]) for each in (*history.ancestry, *history.beside)]
        parts = ("snapshot_id", "control_offset", "recovery", "headed_at", "sequence_number")
        assert {tuple(getattr(each, part) for part in parts) for each in mine_of} == {
            tuple(getattr(each, part) for part in parts) for each in (*read.ancestry, *read.beside)
        }, happened
        assert [ids[each.snapshot_id] for each in history.ancestry] == [each.snapshot_id for each in read.ancestry]
        assert (history.whole, history.off_line, history.made_at) == (read.whole, read.off_line, read.made_at), happened

    def live(self, number: int) -> tuple[set[str], set[str]]:
        """The data files of a snapshot, by the simulator and by the real table."""
        scan = self.real.plain(NAME).scan(snapshot_id=self.ids[number])
        mine = {self.paths[path] for path in self.metadata.snapshots[number].live}
        return mine, {task.file.file_path for task in scan.plan_files()}

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(params=["sql", "rest"])
def both(request: pytest.FixtureRequest, catalog_settings: dict[str, str]) -> Iterator[Both]:
    if request.param == "sql":
        yield Both(Lake(catalog_settings), True)
        return
    server = RestServer(SqlCatalog("default", **{k: v for k, v in catalog_settings.items() if k != "type"}))
    forgiving(server)
    try:
        yield Both(RestLake(catalog_settings, server), False)
    finally:
        server.shutdown()
        server.server_close()


STEPS = ("commit",) * 5 + (
    "stale",
    "other",
    "again",
    "roll back",
    "move",
    "tag",
    "untag",
    "expire",
    "expire",
    "expire gone",
)


@pytest.mark.parametrize("seed", range(6))
def test_the_simulated_catalog_answers_as_a_real_one(both: Both, seed: int) -> None:
    """Whether a commit is made, what is then in the table, and what floe sees of it: commits that are stale, rows that
    others delete and add again, rollbacks, tags, expiry, and expiry of what is gone already."""
    chance, happened = random.Random(seed), ["commit", "commit"]
    both.commit()
    both.commit()
    for _ in range(9):
        step = chance.choice(STEPS)
        happened.append(step)
        line = both.metadata.line(both.metadata.refs[MAIN].snapshot_id)
        if step == "commit":
            both.commit()
        elif step == "stale":
            both.commit(stale=True)
        elif step == "other":
            both.other()
        elif step == "again":
            both.again()
        elif step == "roll back":
            both.roll_back(chance.choice(line).snapshot_id)
        elif step == "move":
            both.move(chance.choice(sorted(both.metadata.snapshots)))
        elif step == "tag":
            name = f"tag{len(happened)}"
            both.tag(name, chance.choice(sorted(both.metadata.snapshots)))
        elif step == "untag":
            for name in [name for name in both.metadata.refs if name != MAIN][:1]:
                both.catalog.commit(NAME, Asserted(), Update(remove_refs=(name,)))
                both.real.catalog.commit_table(both.real.plain(NAME), (), (RemoveSnapshotRefUpdate(ref_name=name),))
        else:
            held = {ref.snapshot_id for ref in both.metadata.refs.values()}
            old = [each for each in sorted(both.metadata.snapshots) if each not in held][:2]
            if old and both.expire(old, True) and step == "expire gone":
                both.expire(old[:1], True)
        both.check(happened)
    for number in both.metadata.snapshots:
        mine, theirs = both.live(number)
        assert mine == theirs, happened


def test_what_goes_with_snapshots_is_the_same_in_both(both: Both) -> None:
    """The files that floe's decision names, read from real manifests and from simulated ones, are the same data files."""
    for _ in range(3):
        both.commit()
    both.other()
    both.commit()
    both.commit()
    look, real = both.metadata, both.real.plain(NAME)
    old = sorted(look.snapshots)[:-1]
    assert both.expire(old, True)
    gone = care.went_with(look, both.metadata, care.Expiry(tuple(old), {}))
    theirs = expiry.went_with(real, both.real.plain(NAME).metadata)
    mine = {both.paths[path] for path in gone if path in both.paths}
    assert mine == {path for path in theirs if path.endswith(".parquet")}
    assert mine


def test_a_tag_of_a_moment_ago_goes_where_a_server_checks_and_stays_where_floe_does(both: Both) -> None:
    """Conditions that were asked at a look know nothing of a tag that is set since: the catalog takes it away with its
    snapshot. In the committing process floe's own condition refuses."""
    for _ in range(3):
        both.commit()
    look = both.metadata
    old = sorted(look.snapshots)[:1]
    both.tag("audit", old[0])
    seen = frozenset(look.refs), frozenset(old)
    refs = {name: ref.snapshot_id for name, ref in look.refs.items()}
    if both.catalog.checks_here:
        with pytest.raises(Refused):
            both.catalog.commit(NAME, Asserted(refs=refs, as_seen=seen), Update(remove_snapshots=old))
        table, commits = both.real.tables.opened(NAME)
        assert table is not None
        seen_before = table.metadata.model_copy(update={"refs": {MAIN: table.metadata.refs[MAIN]}})
        earlier = Table(table.name(), seen_before, table.metadata_location, table.io, table.catalog)
        with pytest.raises(CommitFailedException):
            expiry.expire(commits, earlier, [both.ids[old[0]]])
    else:
        assert both.expire(old, True, look)
        assert "audit" not in both.metadata.refs
        both.check(["tag", "expire"])


def test_a_rollback_onto_what_expired_meanwhile_is_refused_by_both(both: Both) -> None:
    """The branch cannot be set to a snapshot that is no longer there: its files may be gone with it."""
    for _ in range(3):
        both.commit()
    old = sorted(both.metadata.snapshots)[0]
    view, real = both.lake.load_view(NAME, MAIN, TOPIC), both.real.view(NAME)
    assert view is not None
    loaded = both.metadata
    assert both.expire([old], True)
    progress = TableProgress(TOPIC, both.offset, {"p": PipelineProgress(both.offset)})
    effect = RecoverTable(NAME, real, "late", (), progress, None, onto=both.ids[old], notes={})
    assert not isinstance(both.real.tables.commit(effect), Committed)
    with pytest.raises(Refused):
        both.lake._send(replace(effect, view=view, onto=old), loaded, None)


def test_a_request_of_before_fits_no_longer_after_its_head_was_outdated(both: Both) -> None:
    """The new head has the rows of the one before it and says the same of the progress, in both."""
    both.commit()
    real, rows = both.real.view(NAME), both.real.rows(NAME)
    loaded, before = both.metadata, both.lake.load_view(NAME, MAIN, TOPIC)
    assert before is not None
    both.real.tables.outdate_requests(NAME, {})
    both.lake.outdate_requests(NAME, {})
    after, simulated = both.real.view(NAME), both.lake.load_view(NAME, MAIN, TOPIC)
    assert simulated is not None
    for earlier, later in ((real, after), (before, simulated)):
        assert later == replace(earlier, snapshot_id=later.snapshot_id)
        assert later.snapshot_id != earlier.snapshot_id
    assert both.real.rows(NAME) == rows
    progress = TableProgress(TOPIC, both.offset + 1, {"p": PipelineProgress(both.offset + 1)})
    effect = CommitTable(NAME, real, "late", (), progress, 1)
    assert isinstance(both.real.tables.commit(effect), CommitConflict)
    with pytest.raises(Refused):
        both.lake._send(replace(effect, view=before), loaded, None)


def test_the_simulated_store_tells_the_time_and_keeps_names_apart(lake: Lake, tmp_path: Path) -> None:
    """A file is dated by the store when it is written, is listed until it is removed, and is gone after that, in both."""
    lake.create(NAME)
    (file,) = lake.files(NAME, [{"id": 1}])
    table = lake.plain(NAME)
    now_ms = store_now_ms(table)
    assert now_ms is not None
    time = Time(now_ms)
    store = Store(time)
    path = store.write("/lake/t", "a.parquet")
    real = {each.location for each in lake.tables.stored_files(NAME, [table.location()])}
    assert any(location.endswith(file.path.rpartition("/")[2]) for location in real)
    assert [each.key for each in store.files("/lake/t")] == [path]
    assert store.files("/lake/t")[0].modified_ms == time.now_ms
    assert list(lake.tables.remove_files(NAME, [file.path])) == [file.path]
    store.remove(path)
    assert list(lake.tables.remove_files(NAME, [file.path])) == []
    with pytest.raises(FileNotFoundError):
        store.remove(path)
    assert lake.tables.missing_files(NAME, [file.path]) == (file.path,)
    assert not store.holds(path)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaMetadata]:
    process = JavaMetadata(tmp_path_factory.mktemp("java"))
    yield process
    process.stop()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_simulated_server_takes_what_javas_library_takes(lake: Lake, java: JavaMetadata, seed: int) -> None:
    """`removeSnapshots` of ids that are there, and that are gone; a tag goes with its snapshot; a branch cannot be set
    to what is not there. The metadata afterwards has the same snapshots, references and heads."""
    both, chance = Both(lake, False), random.Random(seed)
    both.catalog.forgets_parents = False
    for _ in range(4):
        both.commit()
    both.tag("audit", chance.choice(sorted(both.metadata.snapshots)[:-1]))
    both.roll_back(sorted(both.metadata.snapshots)[1])
    both.commit()
    head = both.metadata.refs[MAIN].snapshot_id
    others = [number for number in both.metadata.snapshots if number != head]
    gone = chance.sample(others, chance.randint(1, len(others)))
    text = json.dumps(json.loads(lake.plain(NAME).metadata.model_dump_json()))
    for ids in (gone, [*gone, gone[0]], gone[:1]):
        said = java.removed(text, [both.ids[each] for each in ids])
        if not said.startswith("{"):
            assert "negative" in said
            with pytest.raises(Refused):
                both.catalog.commit(NAME, Asserted(), Update(remove_snapshots=ids))
            continue
        both.catalog.commit(NAME, Asserted(), Update(remove_snapshots=ids))
        text, after = said, json.loads(said)
        mine = both.metadata
        assert {each["snapshot-id"] for each in after.get("snapshots", [])} == {
            both.ids[each] for each in mine.snapshots
        }
        assert {name: ref["snapshot-id"] for name, ref in after["refs"].items()} == {
            name: both.ids[ref.snapshot_id] for name, ref in mine.refs.items()
        }
        heads = [each["snapshot-id"] for each in after.get("snapshot-log", [])]
        parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in after.get("snapshots", [])}
        assert parents == {
            both.ids[n]: None if each.parent_id is None else both.ids[each.parent_id]
            for n, each in mine.snapshots.items()
        }
        assert heads == [both.ids[each] for each, _ in mine.log][len(mine.log) - len(heads) :]
    assert "unknown snapshot" in java.branched(text, both.ids[gone[0]])
    with pytest.raises(Refused):
        both.catalog.commit(NAME, Asserted(), Update(set_refs={MAIN: Ref(gone[0], True)}))
    assert PROGRESS_PROPERTY in text
