"""The catalog that the protocol's model plays gives the answers of a real one.

The same things are done to a table of `tests.protocol.world` and to one in a real catalog, through floe's adapter and
by others; after each, both show the same to a coordinator. Fifty thousand histories check promises of the model: this
checks that they are the adapter's, too.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate

from framework.commit.machine.effects import CommitTable, Committed, ExaminedTable, PipelineProgress, TableProgress
from framework.commit.machine.progress.recorded import PROGRESS_PROPERTY
from tests.iceberg.conftest import SCHEMA, TOPIC, Lake
from tests.protocol import build
from tests.protocol import world as w

pytestmark = pytest.mark.iceberg

NAME = "shop.orders"


class Both:
    """One table in the model and one in a catalog, to which the same happens."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        lake.create(NAME)
        self.world = w.World(tables=(w.Table(NAME, "uuid"),))
        self.offset = 0
        self.older: list[str] = []  # metadata files, one for each version that the model keeps
        self.views: list[tuple[ExaminedTable, ExaminedTable]] = [self.examined()]

    def examined(self) -> tuple[ExaminedTable, ExaminedTable]:
        return self.world.table(NAME).view(NAME), self.lake.view(NAME)

    def commit(self, views: tuple[ExaminedTable, ExaminedTable] | None = None) -> bool:
        """One of floe's commits, decided from the present view or from an older one; whether it was made."""
        modelled, real = views or self.examined()
        self.offset += 1
        progress = TableProgress(build.TOPIC_ID, self.offset, {"p": PipelineProgress(self.offset)})
        file = build.file(f"{NAME}/p-r-{self.offset}-0-0")
        before = self.lake.plain(NAME).metadata_location
        after = w.apply_commit(self.world, CommitTable(NAME, modelled, "c", (file,), progress, None))
        files = self.lake.files(NAME, [{"id": self.offset}])
        outcome = self.lake.tables.commit(self.lake.effect(NAME, files, self.offset, real))
        made = isinstance(outcome, Committed)
        if modelled.progress == self.world.table(NAME).view(NAME).progress:
            assert made == (after is not None), outcome
        elif not made:
            # The adapter asks for more than the catalog's own conditions: that the record is the one examined.
            assert "recorded progress is not the one examined" in str(outcome) or after is None, outcome
            return False
        assert not made or after is not None, outcome
        if after is not None:
            self.world = replace(after, moved_back=())
            self.older.append(before)
        return after is not None

    def foreign(self) -> None:
        self.world = w.foreign_commit(self.world, NAME)
        self.lake.plain(NAME).append(pa.Table.from_pylist([{"id": 0}], schema=SCHEMA.as_arrow()))

    def rolled_back(self, chance: random.Random) -> None:
        targets = w.rollback_targets(self.world, NAME)
        if not targets:
            return
        back = chance.randrange(len(targets))
        self.world = w.rollback(self.world, NAME, targets[back])
        table = self.lake.plain(NAME)
        at = table.current_snapshot()
        for _ in range(back + 1):
            assert at is not None
            assert at.parent_snapshot_id is not None
            at = table.snapshot_by_id(at.parent_snapshot_id)
        assert at is not None
        table.manage_snapshots().rollback_to_snapshot(at.snapshot_id).commit()

    def expired(self) -> None:
        table = self.lake.plain(NAME)
        if (head := table.current_snapshot()) is None or self.world.table(NAME).unset:
            return  # nor does the model let a table lose its record and its snapshots
        self.world = w.expire(self.world, NAME)
        old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != head.snapshot_id]
        if old:
            table.maintenance.expire_snapshots().by_ids(old).commit()

    def unset(self) -> None:
        if self.world.table(NAME).progress is not None and not self.world.table(NAME).unset:
            self.world = w.unset_progress(self.world, NAME)
            with self.lake.plain(NAME).transaction() as transaction:
                transaction.remove_properties(PROGRESS_PROPERTY)

    def put_back(self, chance: random.Random) -> None:
        if not self.older:
            return
        pick = chance.randrange(len(self.older))
        self.world = w.put_back(self.world, NAME, pick)
        catalog = self.lake.catalog
        catalog.drop_table(NAME)
        catalog.register_table(NAME, self.older[pick])
        self.older = self.older[:pick]

    def made_anew(self) -> None:
        self.world = w.recreate(self.world, NAME)
        self.lake.catalog.drop_table(NAME)
        self.lake.create(NAME)
        self.older = []

    def changed(self) -> None:
        """The schema changes."""
        table = self.world.table(NAME)
        self.world = self.world.with_table(replace(table, schema_id=table.schema_id + 1))
        with self.lake.plain(NAME).update_schema() as update:
            update.add_column(f"c{table.schema_id}", SCHEMA.find_field("name").field_type)

    def check(self, happened: list[str]) -> None:
        modelled, real = self.examined()
        said = [
            (
                view.snapshot_id is None,
                view.progress.control_offset if view.progress is not None else None,
                view.snapshot_control_offset,
                view.unrecorded is not None,
            )
            for view in (modelled, real)
        ]
        assert said[0] == said[1], happened
        self.views.append((modelled, real))


STEPS = (
    ("commit",) * 4
    + ("stale",) * 2
    + ("foreign", "rolled back", "expired", "unset", "put back", "made anew", "changed")
)


@pytest.mark.parametrize("seed", range(25))
def test_model_and_catalog_show_the_same(lake: Lake, seed: int) -> None:
    """Head, progress, the newest of floe's snapshots, a record that was taken away, and whether a commit is made."""
    chance, both, happened = random.Random(seed), Both(lake), []
    for _ in range(9):
        step = chance.choice(STEPS)
        happened.append(step)
        if step == "commit":
            assert both.commit()
        elif step == "stale":
            both.commit(chance.choice(both.views))
        elif step in ("rolled back", "put back"):
            getattr(both, step.replace(" ", "_"))(chance)
        else:
            getattr(both, step.replace(" ", "_"))()
        both.check(happened)


def test_a_branch_older_than_floes_first_commit_is_seen(lake: Lake) -> None:
    """Somebody else filled the table first, and it is rolled back to there: the view says that nothing of floe's is
    left."""
    both = Both(lake)
    both.foreign()
    both.commit()
    both.rolled_back(random.Random(0))
    both.check(["rolled back"])
    assert (lake.view(NAME).snapshot_control_offset, lake.view(NAME).progress is not None) == (0, True)


def test_a_table_that_was_replaced_under_its_uuid_is_seen(lake: Lake) -> None:
    """`CREATE OR REPLACE TABLE` keeps uuid and properties and takes the branch away: nothing of floe's is left behind
    it."""
    both = Both(lake)
    both.commit()
    table = lake.plain(NAME)
    lake.catalog.commit_table(
        table, (AssertTableUUID(uuid=table.metadata.table_uuid),), (RemoveSnapshotRefUpdate(ref_name="main"),)
    )
    view = lake.view(NAME)
    assert (view.snapshot_id, view.snapshot_control_offset) == (None, 0)
    assert view.progress is not None
    both.foreign()
    assert lake.view(NAME).snapshot_control_offset == 0


def test_announced_files_that_are_gone_are_not_added(lake: Lake) -> None:
    """Files that were to be looked for and are not in the store stop the commit, and name themselves."""
    lake.create(NAME)
    files = lake.files(NAME, [{"id": 1}])
    lake.plain(NAME).io.delete(files[0].path)
    effect = replace(lake.effect(NAME, files, 1), examine=(files[0].path,))
    outcome = lake.tables.commit(effect)
    assert getattr(outcome, "missing", None) == (files[0].path,)
    assert lake.view(NAME).snapshot_id is None
    there = lake.files(NAME, [{"id": 2}])
    assert isinstance(lake.tables.commit(replace(lake.effect(NAME, there, 1), examine=(there[0].path,))), Committed)
    assert TOPIC in str(lake.plain(NAME).properties[PROGRESS_PROPERTY])
